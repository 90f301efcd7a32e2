"""The knowledge base of each source, in which its distractors are mined, chunked and indexed by the recipe.

    open_bases   opens encoders, tokenizers and existing indexes before any gate is asked
    align_gold   replaces text gold by the chunks of the index that hold it, so that gold and distractors differ in
                 content, not in length
    index_bases  builds missing indexes below ``out/index/SOURCE``; an index of the user's own (``retrieval.index``) is
                 never changed

A source whose own negatives become distractors needs no index and keeps its evidence as shipped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from demur.core.docstore import Documents
from demur.core.errors import UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import Document, ImageRef, Sample
from demur.corpora.leaks import Leaks
from demur.corpora.lineage import Gold, IndexedDocuments, document_of, page_of, unprefixed
from demur.curation.build.base_plan import Survey
from demur.curation.build.recipe import BuildRecipe, RetrievalSpec
from demur.curation.build.sample_pool import SampledPool
from demur.curation.mining.gold import align_gold_of_sample
from demur.curation.mining.objections import SUBJECTS, subjects_of
from demur.curation.mining.queries import parts_needed, supported_options
from demur.indexing.build import build_index, is_of_another
from demur.indexing.chunk import Chunker, open_chunker, uncut
from demur.indexing.encoders import Encoder, open_encoder
from demur.indexing.folder import checked_manifest
from demur.indexing.gpu import load_faiss
from demur.indexing.options import IndexOptions
from demur.pools.read import ALL
from demur.retrieval.cross_encoder import CrossEncoder
from demur.retrieval.found import FoundSearcher, PassageCache
from demur.retrieval.search import Searcher

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine

PASSAGES = "passages.sqlite"
"""File in ``out/build`` of the passages that were made (`demur.retrieval.found`)."""
OWNER = "demur build"
"""Owner of the indexes that builds write; a build replaces no other."""


@dataclass
class KnowledgeBase:
    """The knowledge base of one source, and how it is searched."""

    source: str
    retrieval_spec: RetrievalSpec
    """With ``negatives`` resolved: never ``auto``."""
    prefix: str
    """Prefix of its ids in the pool; its index has no prefix."""
    encoder: Encoder | None = None
    """None if nothing is mined."""
    text_encoder: Encoder | None = None
    engine: RayEngine | None = None
    """The cluster that embeds and searches; None is this process."""
    chunker: Chunker | None = None
    cross_encoder: CrossEncoder | None = None
    searcher: Searcher | None = None
    """Set once there is an index."""
    gold: Counter[str] = field(default_factory=Counter)
    """How gold was aligned -> number of pieces."""
    survey: Survey = field(default_factory=Survey)
    """What it holds, if it was read for gold."""
    notes: list[str] = field(default_factory=list)
    """What the recipe asks for and the knowledge base does not have."""

    def placed(self, sample: Sample) -> Sample:
        """The sample with the index id on those pieces of its evidence that lie in the index."""
        if self.searcher is None:
            return sample
        documents, id = self.searcher.documents, self.searcher.id
        sides = {
            side: tuple(
                e.model_copy(update={"index_id": id}) if e.id in documents else e for e in evidence
            )
            for side, evidence in (("gold", sample.gold), ("negatives", sample.negatives))
        }
        return sample.model_copy(update=sides)

    @property
    def cut(self) -> str:
        """How its documents are chunked, for manifests."""
        if self.searcher is not None:
            return str(self.searcher.manifest.get("cut", ""))
        return self.chunker.setting if self.chunker is not None else ""


def open_bases(
    recipe: BuildRecipe,
    pool: SampledPool,
    *,
    base: Path,
    encoder: Encoder | None,
    engine: RayEngine | None = None,
) -> dict[str, KnowledgeBase]:
    """Open what the recipe's Stage II needs for each source: encoders, tokenizers, existing indexes.

    Args:
        encoder: the recipe's common encoder, open; None opens only what decides how gold is aligned: no encoder and no
            index.
        engine: the cluster that embeds and searches; None is this process.

    Raises:
        UsageError: there is no such encoder or tokenizer, or an index does not fit the recipe.
        MissingExtra: packages of an encoder are not installed.
        IndexFileError: a folder is no index, or one of another encoder.
    """
    encoders = {} if encoder is None else {recipe.retrieval.encoder: encoder}
    cross_encoders: dict[str, CrossEncoder] = {}

    def opened(name: str) -> Encoder:
        if name not in encoders:
            encoders[name] = open_encoder(name)
        return encoders[name]

    base_of_source: dict[str, KnowledgeBase] = {}
    for source, (retrieval, lacking) in _retrieval_by_source(recipe, pool).items():
        knowledge_base = KnowledgeBase(
            source, retrieval, f"{source}:", engine=engine, notes=lacking
        )
        if (
            lacking
            and not retrieval.mines
            and not (
                retrieval.adopts and any(s.negatives for s in pool.samples if s.source == source)
            )
        ):
            raise nothing_to_mine(source, lacking)
        base_of_source[source] = knowledge_base
        if not retrieval.mines:
            continue
        if source == ALL:
            raise UsageError(
                "this is a pool of several sources, whose distractors would come from one common knowledge base",
                item=source,
                cure="name it once for each of them in the recipe, with options: {source: NAME}",
            )
        if retrieval.chunk:
            knowledge_base.chunker = open_chunker(retrieval.chunk, retrieval.tokenizer, base)
        if encoder is None:
            continue
        load_faiss()
        knowledge_base.encoder = opened(retrieval.encoder)
        knowledge_base.text_encoder = (
            opened(retrieval.text_encoder) if retrieval.text_encoder else None
        )
        if (name := retrieval.cross_encoder) is not None:
            if name not in cross_encoders:
                cross_encoders[name] = CrossEncoder(name)
            knowledge_base.cross_encoder = cross_encoders[name]
        if retrieval.index:
            knowledge_base.searcher = _users_index(knowledge_base, base / retrieval.index, pool)
            if retrieval.query_images and not any(
                map(subjects_of, _first_middle_last(knowledge_base.searcher.documents))
            ):
                knowledge_base.notes.append("query_images: the index holds no query images")
    return base_of_source


def nothing_to_mine(source: str, lacking: Sequence[str]) -> UsageError:
    """The error of a build whose recipe asks only for kinds that the knowledge base does not hold."""
    return UsageError(
        f"no distractor can be mined: {'; '.join(lacking)}",
        item=source,
        cure="ask for kinds that its knowledge base holds (retrieval.text, lexical, visual)",
    )


def retrieval_by_source(recipe: BuildRecipe, pool: SampledPool) -> dict[str, RetrievalSpec]:
    """Source -> how its distractors are found; ``negatives: auto`` is resolved by whether it ships any."""
    return {
        source: retrieval for source, (retrieval, _) in _retrieval_by_source(recipe, pool).items()
    }


def _retrieval_by_source(
    recipe: BuildRecipe, pool: SampledPool
) -> dict[str, tuple[RetrievalSpec, list[str]]]:
    """As `retrieval_by_source`, without kinds that a knowledge base does not hold, and a note on each such kind."""
    samples_of = Counter(s.source for s in pool.samples)
    shipped = Counter(s.source for s in pool.samples if s.negatives)
    unpictured = {s.source for s in pool.samples if not s.images}
    retrieval_of_source: dict[str, tuple[RetrievalSpec, list[str]]] = {}
    for name, spec in pool.specs.items():
        retrieval = recipe.retrieval_of(spec).settled(shipped[name] / max(1, samples_of[name]))
        lacking: list[str] = []
        if retrieval.mines and not retrieval.index:
            modes = ["text->text", "lexical"] if pool.full_pool.count(name, "texts") else []
            modes += (
                ["image->image"]
                if retrieval.query_images or pool.full_pool.count(name, "images")
                else []
            )
            retrieval, lacking = supported_options(retrieval, modes)
        all_passages = retrieval.searches_all(pictured=name not in unpictured)
        if all_passages and retrieval.passages == "found" and retrieval.mines:
            raise UsageError(
                f"passages of found pages are asked for, but {all_passages}",
                item=name,
                cure="write 'passages: all' in its retrieval",
            )
        passages: Literal["all", "found"] = (
            "all" if all_passages or retrieval.passages == "all" else "found"
        )
        retrieval = retrieval.model_copy(update={"passages": passages})
        retrieval_of_source[name] = retrieval, lacking
    return retrieval_of_source


def _users_index(base: KnowledgeBase, folder: Path, pool: SampledPool) -> Searcher:
    """Open an index that the user built, if it fits the recipe."""
    cut = str(checked_manifest(folder).get("cut", ""))
    if (chunker := base.chunker) is not None:
        is_same = (
            cut == chunker.setting
            if base.retrieval_spec.tokenizer
            else cut.startswith(f"{chunker.size}:{chunker.overlap} ")
        )
        if not is_same:
            raise UsageError(
                f"the recipe chunks {base.source} by {chunker.setting}, this index is chunked by {cut or 'nothing'}",
                item=folder,
                cure=f"build it with --chunk {base.retrieval_spec.chunk}, or give its own chunk in the recipe",
            )

    def opened(stored: str) -> Searcher:
        encoder = base.encoder
        assert encoder is not None  # it is mined
        return Searcher(
            folder,
            encoder,
            text_encoder=base.text_encoder,
            engine=base.engine,
            prefix=base.prefix,
            stored=stored,
        )

    name = f"{base.source}:"
    pooled = {
        document.id.startswith(name)
        for document in _first_middle_last(Documents(folder / "documents"))
    }
    searcher = opened(name if pooled == {True} else "")
    with_gold = [s for s in pool.samples if s.source == base.source and s.gold]
    if len(pooled) > 1 or (
        with_gold and not any(Gold(s.gold).pages_in(searcher) for s in with_gold)
    ):
        none = f"it has no gold of {len(with_gold):,} samples"
        raise UsageError(
            f"this is not an index of {base.source} alone: {'it has other documents too' if len(pooled) > 1 else none}",
            item=folder,
            cure=f"build one of that source: demur index build {base.source}:FOLDER --out INDEX",
        )
    return searcher


def _first_middle_last(documents: Documents) -> Iterator[Document]:
    """The first, middle and last documents of an index; appended documents are at its end."""
    yield from (
        documents.at(row)
        for row in sorted({0, len(documents) // 2, len(documents) - 1})
        if row >= 0
    )


# --- gold as chunks of its base -----------------------------------------------------------------


class _GoldDocuments:
    """The documents of gold evidence by id and by page, before there is an index."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self._pages: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, document: Document) -> None:
        self.documents[document.id] = document
        self._pages[page_of(document)].append(document.id)

    def on_page(self, page: str) -> Sequence[str]:
        return self._pages.get(page, ())


def align_gold(
    pool: SampledPool, bases: Mapping[str, KnowledgeBase], steps: Progress = QUIET
) -> SampledPool:
    """The pool with text gold replaced by documents of the index, for sources that are mined.

    A piece of gold becomes the chunk that holds it whole, or else the chunks that hold the answer; a whole article
    without such a chunk becomes the chunks nearest by the words of the question (`demur.curation.mining.gold`). Gold that is not
    in the base stays as shipped. `KnowledgeBase.gold` counts all three.
    """
    done: dict[str, Sample] = {}
    for source, base in bases.items():
        samples = [s for s in pool.samples if s.source == source]
        base.gold.clear()
        if not base.retrieval_spec.mines or (base.retrieval_spec.index and base.searcher is None):
            continue
        documents: IndexedDocuments = (
            base.searcher
            if base.searcher is not None
            else _gold_documents(pool, base, samples, steps)
        )
        for sample in samples:
            done[sample.id] = align_gold_of_sample(
                sample, documents, Leaks(sample, pool.image_hashes), base.gold
            )
    return pool._replace(samples=[done.get(s.id, s) for s in pool.samples])


def _gold_documents(
    pool: SampledPool, base: KnowledgeBase, samples: Sequence[Sample], steps: Progress
) -> _GoldDocuments:
    wanted_ids = {
        id for s in samples for e in s.gold if e.text for id in (document_of(e), page_of(e))
    }
    gold_documents = _GoldDocuments()

    def of_gold() -> Iterator[Document]:
        read = f"documents of {base.source} read for gold"
        for document in _documents_of(pool, base.source, read, steps):
            base.survey.add(document)
            if {document.id, page_of(document)} & wanted_ids and document.text is not None:
                yield document

    for document in base.chunker.documents(of_gold()) if base.chunker is not None else of_gold():
        gold_documents.add(document)
    return gold_documents


def _documents_of(
    pool: SampledPool, source: str, counted: str, steps: Progress
) -> Iterator[Document]:
    total = pool.full_pool.count(source)
    for number, document in enumerate(pool.full_pool.documents_of(source), 1):
        if number % 1000 == 0 or number == total:
            steps.count(counted, number, total)
        yield document


# --- indexes -------------------------------------------------------------------------------------


class IndexNotNeeded(Exception):
    """The index is no longer needed."""


def index_bases(
    pool: SampledPool,
    bases: Mapping[str, KnowledgeBase],
    out: Path,
    *,
    skip_bad: bool,
    steps: Progress = QUIET,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Build the index of every base that is mined and has none, below ``out``, and open it.

    Args:
        stopped: called now and then; once it returns True the work ends with `IndexNotNeeded`, to be resumed later.

    Raises:
        UsageError: another index is in the way; or as `build_index`.
    """
    if (out / "manifest.json").is_file():
        names = ", ".join(source for source, base in bases.items() if base.retrieval_spec.mines)
        raise UsageError(
            "this folder is an index itself, but a build needs a folder below it for each source",
            item=out,
            cure=f"move the index to {out.name}/SOURCE ({names}), or name it in the recipe: retrieval.index",
        )
    for source, base in bases.items():
        if not base.retrieval_spec.mines or base.searcher is not None or base.encoder is None:
            continue
        documents: Iterator[Document] = _documents_to_index(pool, base, steps)
        in_two_steps = base.retrieval_spec.passages == "found"
        # the user's own index there has all passages
        cut_later = (
            base.chunker if in_two_steps and not is_of_another(out / source, OWNER) else None
        )
        if cut_later is not None:
            documents = uncut(documents)
        elif base.chunker is not None:
            documents = base.chunker.documents(documents)
        build_index(
            documents,
            base.encoder,
            out / source,
            IndexOptions(
                text_encoder=base.text_encoder,
                image_root=pool.root,
                skip_bad=skip_bad,
                progress=_report_progress(source, steps, stopped),
                cut_later=cut_later,
                parts=parts_needed(base.retrieval_spec),
                engine=base.engine,
                corpus=source,
                cut=base.cut,
                owner=OWNER,
            ),
        )
        if cut_later is None:
            base.searcher = Searcher(
                out / source,
                base.encoder,
                text_encoder=base.text_encoder,
                engine=base.engine,
                prefix=base.prefix,
            )
            continue
        base.searcher = FoundSearcher(
            out / source,
            base.encoder,
            text_encoder=base.text_encoder,
            chunker=cut_later,
            cache=PassageCache(out.parent / "build" / PASSAGES),
            engine=base.engine,
            skip_bad=skip_bad,
            prefix=base.prefix,
        )


def _report_progress(
    source: str, steps: Progress, stopped: Callable[[], bool]
) -> Callable[[str, int, int], None]:
    def report(counted: str, done: int, total: int) -> None:
        if stopped():
            raise IndexNotNeeded
        steps.count(f"{source}: {counted}", done, total)

    return report


def _documents_to_index(
    pool: SampledPool, base: KnowledgeBase, steps: Progress
) -> Iterator[Document]:
    """The documents of a base with their own ids, and the query images if the recipe wants them."""
    for document in _documents_of(pool, base.source, f"{base.source}: documents read", steps):
        yield unprefixed(document, base.prefix)
    if base.retrieval_spec.query_images:
        yield from query_images([s for s in pool.samples if s.source == base.source], base.prefix)


def query_images(samples: Sequence[Sample], prefix: str = "") -> Iterator[Document]:
    """The query images of samples as documents: each once, with the clusters of all its samples."""
    subjects: defaultdict[str, list[str]] = defaultdict(list)
    images: dict[str, tuple[ImageRef, str]] = {}
    for sample in samples:
        for image in sample.images:
            images.setdefault(image.sha256, (image, sample.licence))
            subjects[image.sha256].append(sample.cluster.removeprefix(prefix))
    for sha, (image, licence) in images.items():
        id, about = f"query-{sha[:16]}", "\n".join(sorted(set(subjects[sha])))
        yield Document(
            id=id, title="", image=image, page=id, licence=licence, attributes={SUBJECTS: about}
        )
