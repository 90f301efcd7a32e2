"""Mining of one sample as tests call it: what a case leaves out is as in an index without pictures or vectors."""

from demur.curation.mining import choose
from demur.curation.mining.choose import SearchResult
from demur.curation.mining.objections import Stock
from demur.curation.mining.options import MiningOptions

OF_RESULT = ("gold_score", "dense_scores")


def stock_of(documents, similarity=None, shelf=None, **more):
    similar = {} if similarity is None else dict.fromkeys(MiningOptions().quotas, similarity)
    return Stock(documents, shelf, similarity=similar, **more)


def mine_kind(kind, sample, hits, documents, options=None, *, limit=None, **more):
    """`choose.mine_kind` with fields of its records as keywords; ``limit`` is the quota of the kind."""
    options = options or MiningOptions()
    if limit is not None:
        options = options.model_copy(update={kind: limit})
    result = SearchResult(hits, **{name: more.pop(name) for name in OF_RESULT if name in more})
    return choose.mine_kind(kind, sample, result, options, stock_of(documents, **more))


def mine(sample, hits, documents, options, **more):
    """`choose.mine` of hits by kind."""
    results = {kind: SearchResult(hits_of_kind) for kind, hits_of_kind in hits.items()}
    return choose.mine(sample, results, options, stock_of(documents, **more))
