"""BM25 over passages: Lucene's, as bm25s scores by default, or that of rank-bm25.

    lucene  a word in df of N passages has the idf ln(1 + (N - df + 0.5) / (df + 0.5)); float32
    okapi   ``rank_bm25.BM25Okapi`` itself scores up to `RANK_BM25_MOST` passages; beyond, bm25s adds up the same float64
            scores, whose idf rank-bm25 gives. A word in more than half of the passages weighs a quarter of the mean idf,
            which is more than the weight of one of medium frequency: the two rank differently

A query word counts as often as it is repeated. A passage is a hit if it scores above 0.

The index is built in one pass over the texts and one over spooled postings, with memory for the vocabulary and 4 bytes
per passage. It has bm25s's own format (``bm25s.BM25.load(folder)`` opens it) and is mapped when it is searched. Hits
are ordered by score descending, then row ascending, and ties at the cut are resolved exactly. If numba is installed,
bm25s's compiled kernel searches large indexes.
"""

from __future__ import annotations

import json
import re
import tempfile
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.core.docstore import map_integers
from demur.core.errors import IndexFileError, UsageError
from demur.core.store import read_json, storage_errors, write_json
from demur.core.system import allocate, release_memory
from demur.core.text import stream_safe
from demur.indexing.exact import MARGIN, Neighbours

Method = Literal["lucene", "okapi"]
K1, B = 1.5, 0.75
"""Saturation of the term frequency, and share of length normalisation: the defaults of bm25s and rank-bm25."""
RANK_BM25_MOST = 10_000
"""Passages that rank-bm25 itself scores: it reads all of them for each query word, so that a query takes some 30 ms
(``benchmarks/lexical.py --passages 10000``), and holds them in memory."""
_CORPUS = "corpus.words.json"
_DTYPE: dict[Method, np.dtype[Any]] = {
    "lucene": np.dtype(np.float32),
    "okapi": np.dtype(np.float64),
}
NUMBA_FROM = 20_000
"""Passages from which compiling bm25s's kernel (seconds, once per process) pays off."""
SPOOL = 1 << 19
"""Postings sorted at once while building."""

_PLAIN = re.compile(r"\w+", re.ASCII)
_SIGNS = (
    "\u0e01-\u0eff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3041-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"  # kana
    "\u1100-\u11ff\u3131-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
)
_UNSPACED = re.compile(f"[{_SIGNS}]")
TOKENIZER = "words; bigrams of Han, kana, Hangul, Thai, Lao, Burmese, Khmer"
"""What `words` does, for the manifest."""


def words(text: str) -> list[str]:
    """The words of a text in NFKC and case folded; there is no stemming and there are no stop words.

    A word is a run of letters, digits, underscores and combining marks that begins with none of the last: without
    marks, vowels of Indic scripts and points of Arabic and Hebrew would split words. Soft hyphens are removed, and the
    dot that case folding leaves over a Turkish capital i. Where a script writes no blanks between words (Han, kana,
    Thai, Lao, Burmese, Khmer), and in Hangul, which joins particles to nouns, every two neighbouring signs are a word,
    and a sign without a neighbour is one, as in Lucene's CJKAnalyzer; a sign has its combining marks with it.

    >>> words("The Eiffel Tower, 330\u00a0m; हिन्दी, İstanbul, Straße")
    ['the', 'eiffel', 'tower', '330', 'm', 'हिन्दी', 'istanbul', 'strasse']
    >>> words("東京タワーは333m")
    ['東京', '京タ', 'タワ', 'ワー', 'ーは', '333m']
    """
    if text.isascii():
        return _PLAIN.findall(text.lower())
    folded = (
        unicodedata.normalize("NFKC", stream_safe(text.replace("\u00ad", "")))
        .casefold()
        .replace("i\u0307", "i")
    )
    folded = unicodedata.normalize("NFKC", folded)
    between_blanks: list[str] = _word_pattern().findall(folded)
    if _UNSPACED.search(folded) is None:
        return between_blanks
    return [word for run in between_blanks for word in _bigrams(run)]


def _bigrams(run: str) -> Iterator[str]:
    """The words of a run of letters: of its signs without blanks every two neighbours, of its other letters all."""
    for spaced, unspaced in _stretch_pattern().findall(run):
        if spaced:
            yield spaced
            continue
        signs = _sign_pattern().findall(unspaced)
        yield from map("".join, pairwise(signs)) if len(signs) > 1 else signs


@cache
def _marks() -> str:
    """All combining marks, for which `re` has no class."""
    planes = chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))  # those that hold marks
    return "".join(chr(code) for code in planes if unicodedata.category(chr(code))[0] == "M")


@cache
def _word_pattern() -> re.Pattern[str]:
    r"""``\w`` followed by any number of ``\w`` and combining marks.

    The look-ahead spares most words the search through all marks, which takes longer than all the rest.
    """
    return re.compile(rf"\w+(?:(?=[^\0-\u02ff])[{_marks()}]+\w*)*")


@cache
def _stretch_pattern() -> re.Pattern[str]:
    """Letters of other scripts, or else a stretch of signs of scripts without blanks."""
    return re.compile(rf"([^{_SIGNS}]+)|((?:[{_SIGNS}][{_marks()}]*)+)")


@cache
def _sign_pattern() -> re.Pattern[str]:
    """A sign of a script without blanks, with its marks."""
    return re.compile(rf"[{_SIGNS}][{_marks()}]*")


def idf_lucene(df: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """Lucene's inverse document frequency (Kamphuis et al. 2020, table 1); never negative."""
    return np.log1p((n - df + 0.5) / (df + 0.5))


def idf_okapi(df: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """The inverse document frequencies that rank-bm25 computes."""
    from rank_bm25 import BM25Okapi

    okapi = BM25Okapi.__new__(BM25Okapi)  # without its corpus
    okapi.corpus_size, okapi.epsilon, okapi.idf = n, 0.25, {}
    if len(df):
        okapi._calc_idf(dict(enumerate(df.tolist())))
    return np.fromiter(okapi.idf.values(), np.float64, len(df))


def build_bm25(texts: Iterable[str], folder: Path, *, method: Method = "lucene") -> dict[str, Any]:
    """Write a BM25 index of ``texts`` and return its entry for the manifest.

    Args:
        texts: passages, read once; an empty one keeps its row and is never found.

    Raises:
        StorageError: the disk is full or cannot be written.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        engine = "bm25s"
        if method == "okapi":
            remaining = iter(texts)
            first = list(islice(remaining, RANK_BM25_MOST + 1))
            texts = chain(first, remaining)
            if len(first) <= RANK_BM25_MOST and any(map(words, first)):
                engine = "rank-bm25"
                write_json(folder / _CORPUS, [words(text) for text in first])
        with tempfile.TemporaryFile(dir=folder) as spool:
            vocabulary, lengths, df = _count_postings(texts, spool)
            n = len(lengths)
            average = float(lengths.sum()) / n if lengths.any() else 1.0
            release_memory()
            _invert_postings(spool, folder, df, lengths, average, method)
        (folder / "vocab.index.json").write_text(
            json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8"
        )
        params = {
            "k1": K1,
            "b": B,
            "delta": 0.5,
            "method": "lucene",
            "idf_method": "lucene",
            "dtype": _DTYPE[method].name,
            "int_dtype": "int32",
            "num_docs": n,
            "version": "0.2.0",
            "backend": "numpy",
        }
        (folder / "params.index.json").write_text(json.dumps(params, indent=1), encoding="utf-8")
    return {
        "kind": "bm25",
        "method": method,
        "engine": engine,
        "tokenizer": TOKENIZER,
        "k1": K1,
        "b": B,
        "count": n,
        "words": len(vocabulary),
        "postings": int(df.sum()),
    }


def _count_postings(
    texts: Iterable[str], spool: IO[bytes]
) -> tuple[dict[str, int], NDArray[np.int32], NDArray[np.int64]]:
    """Spool (word, row, count) of every posting; returns the vocabulary, text lengths and document frequencies."""
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__  # a new word gets the next number
    lengths, numbers, counts, sizes = (array("i") for _ in range(4))
    df = np.zeros(0, np.int64)

    def flush() -> NDArray[np.int64]:
        first = len(lengths) - len(sizes)
        rows = np.repeat(np.arange(first, len(lengths), dtype=np.int32), sizes)
        spool.write(np.column_stack([numbers, rows, counts]).tobytes())
        frequencies = np.bincount(numbers, minlength=len(vocabulary))
        frequencies[: len(df)] += df
        del numbers[:], counts[:], sizes[:]
        return frequencies

    for text in texts:
        count_of_word = Counter(words(text))
        lengths.append(count_of_word.total())
        sizes.append(len(count_of_word))
        numbers.extend(map(vocabulary.__getitem__, count_of_word))
        counts.extend(count_of_word.values())
        if len(numbers) >= SPOOL:
            df = flush()
    df = flush()
    spool.flush()
    return vocabulary, np.frombuffer(lengths, dtype=np.int32), df


def _invert_postings(
    spool: IO[bytes],
    folder: Path,
    df: NDArray[np.int64],
    lengths: NDArray[np.int32],
    average: float,
    method: Method,
) -> None:
    """Turn spooled postings into one column per word: rows ascending, and the finished scores beside them."""
    pointers = np.concatenate([[0], np.cumsum(df)]).astype(np.int64)
    data = _allocate_array(folder / "data.csc.index.npy", _DTYPE[method], int(pointers[-1]))
    rows = _allocate_array(folder / "indices.csc.index.npy", np.dtype(np.int32), int(pointers[-1]))
    np.save(folder / "indptr.csc.index.npy", pointers)
    idf_of = idf_lucene if method == "lucene" else idf_okapi
    free, idf = pointers[:-1].copy(), idf_of(df, len(lengths))
    gain = 1.0 if method == "lucene" else K1 + 1
    spool.seek(0)
    while len(block := np.frombuffer(spool.read(12 * SPOOL), dtype=np.int32)):
        word, row, count = block.reshape(-1, 3).T
        order = np.argsort(word, kind="stable")  # rows stay ascending within a word
        word, row, tf = word[order], row[order], count[order].astype(np.float64)
        first = np.flatnonzero(np.concatenate([[True], word[1:] != word[:-1]]))
        sizes = np.diff(np.concatenate([first, [len(word)]]))
        place = np.arange(len(word)) - np.repeat(first, sizes) + free[word]
        rows[place] = row
        data[place] = idf[word] * (tf * gain / (tf + K1 * (1 - B + B * lengths[row] / average)))
        free[word[first]] += sizes


def _allocate_array(path: Path, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """A new array on disk. Its space is allocated at once: a mapped write to a full disk would kill the process."""
    if not count:
        np.save(path, np.zeros(0, dtype))
        return np.zeros(0, dtype)
    mapped_array: NDArray[Any] = np.lib.format.open_memmap(
        path, mode="w+", dtype=dtype, shape=(count,)
    )
    with path.open("rb+") as handle:
        allocate(handle, path.stat().st_size, path.stat().st_size - mapped_array.nbytes)
    return mapped_array


def _keep_compiled() -> None:
    """Have numba cache on disk what it compiles for bm25s: 6 s of CPU, in every process that searches."""
    with suppress(
        ImportError, AttributeError, RuntimeError
    ):  # another version of bm25s; no writable folder
        from bm25s.numba import retrieve_utils

        retrieve_utils._retrieve_internal_jitted_serial.enable_caching()


class BM25:
    """A BM25 index on disk, with its arrays mapped.

    Args:
        folder: written by `build_bm25`.
        part: its entry in the manifest.

    Raises:
        IndexFileError: a file is missing, truncated or not of this index.
    """

    def __init__(self, folder: Path, part: dict[str, Any]) -> None:
        import bm25s

        self.folder, self.count = folder, int(part["count"])
        with storage_errors(folder):
            try:
                self._engine = bm25s.BM25.load(
                    folder, mmap=True, load_vocab=True, backend=self._backend()
                )
            except OSError:
                raise
            except (
                Exception
            ) as error:  # bm25s passes damaged parameters on to functions of all kinds
                raise IndexFileError(f"not a BM25 index: {error}", item=folder) from error
        # bm25s adds to the scores of whatever rows these name, in compiled code without a bound
        rows = map_integers(folder / "indices.csc.index.npy", below=self.count, dtype=np.int32)
        ends = map_integers(folder / "indptr.csc.index.npy", below=len(rows) + 1)
        known_words = self._engine.vocab_dict.values()
        if (
            len(self._engine.scores["data"]) != len(rows)
            or (np.diff(ends) < 0).any()
            or not all(type(id) is int and 0 <= id < len(ends) - 1 for id in known_words)
        ):
            raise IndexFileError("its postings contradict each other", item=folder)
        if self._engine.scores["num_docs"] != self.count:
            raise IndexFileError(
                f"expected {self.count} passages, found {self._engine.scores['num_docs']}",
                item=folder,
            )
        self._rank_bm25 = (
            _open_rank_bm25(folder, self.count) if part["engine"] == "rank-bm25" else None
        )

    def _backend(self) -> str:
        if self.count < NUMBA_FROM or find_spec("numba") is None:
            return "numpy"
        _keep_compiled()
        return "numba"

    def scores(self, text: str) -> NDArray[np.floating[Any]]:
        """(n,) scores of all passages for one query: the sum over its words, in their order."""
        if self._rank_bm25 is not None:
            return np.asarray(self._rank_bm25.get_scores(words(text)))
        ids = self._ids(text)
        if not ids:
            return np.zeros(self.count, dtype=self._engine.dtype)
        return np.asarray(self._engine.get_scores_from_ids(ids))

    def search(self, texts: Sequence[str], k: int) -> Neighbours:
        """The first k passages that share a word with each query; later places hold row -1 and score -inf.

        Raises:
            UsageError: k is below 1.
        """
        if k < 1:
            raise UsageError(
                f"must be at least 1, not {k}", item="k", cure="ask for one neighbour or more"
            )
        neighbours = Neighbours.nothing(len(texts), k)
        if self._rank_bm25 is not None:
            for place, text in enumerate(texts):
                _write_best(neighbours, place, np.arange(self.count), self.scores(text))
            return neighbours
        queries = [self._ids(text) for text in texts]
        places_with_words = [place for place, ids in enumerate(queries) if ids]
        take = min(self.count, k + MARGIN)
        if not places_with_words or not take:
            return neighbours
        rows, scores = self._engine.retrieve(
            [queries[place] for place in places_with_words], k=take, show_progress=False
        )
        rows = rows.astype(np.int64)
        for at, place in enumerate(places_with_words):
            query_scores, query_rows = scores[at], rows[at]
            if (
                take < self.count
                and query_scores[-1] > 0
                and query_scores[min(k, take) - 1] == query_scores[-1]
            ):
                query_scores = np.asarray(self._engine.get_scores_from_ids(queries[place]))
                query_rows = np.arange(self.count, dtype=np.int64)
            _write_best(neighbours, place, query_rows, query_scores)
        return neighbours

    def search_subset(
        self, texts: Sequence[str], candidates: Sequence[NDArray[np.int64]], k: int
    ) -> Neighbours:
        """The first k for each query among its own candidate rows; rows that share no word with it are left out."""
        neighbours = Neighbours.nothing(len(texts), k)
        for place, (text, rows) in enumerate(zip(texts, candidates, strict=True)):
            rows = np.unique(rows)
            _write_best(neighbours, place, rows, self.scores(text)[rows])
        return neighbours

    def _ids(self, text: str) -> list[int]:
        number_of_word = self._engine.vocab_dict
        return [number_of_word[word] for word in words(text) if word in number_of_word]


def _open_rank_bm25(folder: Path, count: int) -> Any:
    """rank-bm25's object over the words of ``count`` passages."""
    from rank_bm25 import BM25Okapi

    corpus = read_json(folder / _CORPUS)
    if not isinstance(corpus, list) or len(corpus) != count or not all(map(_is_words, corpus)):
        raise IndexFileError(f"expected the words of {count} passages", item=folder / _CORPUS)
    return BM25Okapi(corpus, k1=K1, b=B)


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _write_best(
    neighbours: Neighbours, place: int, rows: NDArray[np.int64], scores: NDArray[np.floating[Any]]
) -> None:
    """Write the first rows that score above 0 into a query's place."""
    hit = scores > 0
    order = np.lexsort((rows[hit], -scores[hit]))[: neighbours.rows.shape[1]]
    neighbours.scores[place, : len(order)], neighbours.rows[place, : len(order)] = (
        scores[hit][order],
        rows[hit][order],
    )
