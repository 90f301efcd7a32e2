"""Articles to passages: 250 tokens, 32 of them shared with the passage before, on sentence boundaries.

VLM-DeflectionBench (appendix H) cuts pages like this for Contriever. The tokenizer of the model that will rank the
passages (a `tokenizers.Tokenizer`) defines a token; without one, a token is a run of letters or digits, or one other
character.

The rules, in this order:

1. No passage has more than ``size`` tokens. A sentence longer than that is cut (at the end of a word, if one ends in
   the last quarter) and counted.
2. A passage ends where a sentence ends.
3. A passage begins with the last whole sentences of the one before, as many as fit in ``overlap`` tokens. If not even
   one fits, it begins with the end of the last one, from a token that begins a word. It begins with less if the next
   sentence would otherwise have to be cut.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from demur.core.errors import DataError, UsageError
from demur.core.records import Document
from demur.core.text import whole_number
from demur.corpora.lineage import chunk_id, document_of, page_of

Offsets = Callable[[Sequence[str]], list[list[tuple[int, int]]]]
"""Texts to the (start, end) character offsets of their tokens, ascending, without special tokens."""

MARGIN = 64
"""Tokens behind the first passage of a text that are read too: where it ends depends on no more."""
CACHED = 200_000
"""Pieces of text whose tokens are cached, some 50 MB."""
_PIECE = re.compile(r"[^ \n\t]+")
"""Text between characters that every tokenizer takes for blanks."""
_TOKEN = re.compile(r"[^\W_]+|[^\s]", re.UNICODE)
_END = re.compile(r"(?<=[.!?\u2026\u3002])[\"'\u201d\u2019)\]]*\s+(?=[^\s a-z])|\n\s*\n+")
_ABBREVIATED = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Mt|Gen|Col|Sgt|Lt|Capt|Sen|Rep|Gov|Jr|Sr|vs|no|No|vol|pp|cf|ca|approx|est|"
    r"Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec|Inc|Ltd|Co|Corp|fig|Fig)|\b(?:e\.g|i\.e|U\.S|U\.K|a\.m|p\.m|"
    r"[A-Z]\.[A-Z]))\.$"
)


def plain_offsets(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Tokens by rule: a run of letters or digits, or one other character that is not a blank."""
    return [[match.span() for match in _TOKEN.finditer(text)] for text in texts]


def tokenizer_offsets(tokenizer: Any) -> Offsets:
    """Tokens of a `tokenizers.Tokenizer`.

    If blanks always separate tokens (BERT's pre-tokenizer: Contriever, MiniLM, e5, BGE ...), a piece of text between
    two blanks is tokenized once and cached, which is several times faster. The offsets are the same.

    Args:
        tokenizer: a copy of it is used, with padding and truncation switched off.
    """
    tokenizer = deepcopy(tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def of(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [[span for span in encoding.offsets if span[1] > span[0]] for encoding in encodings]

    return _cache_offsets(of) if _separated_by_blanks(tokenizer) else of


def _separated_by_blanks(tokenizer: Any) -> bool:
    """Whether the tokens of a text are those of its pieces between blanks: no step of the tokenizer crosses a blank."""
    steps = (tokenizer.pre_tokenizer, tokenizer.normalizer)
    added = tokenizer.get_added_tokens_decoder().values()
    return (
        type(steps[0]).__name__ == "BertPreTokenizer"
        and type(steps[1]).__name__ in ("BertNormalizer", "Lowercase", "NoneType")
        and not any(
            t.lstrip or t.rstrip or t.single_word or _PIECE.fullmatch(t.content) is None
            for t in added
        )
    )


def _cache_offsets(offsets: Offsets) -> Offsets:
    """The same offsets, with those of pieces between blanks cached (`CACHED` of them)."""
    places: dict[str, int] = {}
    ends = array("q", [0])  # piece -> where its tokens end among all cached ones
    token_starts, token_ends = array("i"), array("i")

    def offsets_of(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        if len(places) > CACHED:
            places.clear()
            del ends[1:], token_starts[:], token_ends[:]
        pieces = [_PIECE.findall(text) for text in texts]
        learn(list({piece for text_pieces in pieces for piece in text_pieces} - places.keys()))
        return [spans(text, text_pieces) for text, text_pieces in zip(texts, pieces, strict=True)]

    def spans(text: str, text_pieces: list[str]) -> list[tuple[int, int]]:
        """The offsets of each piece, moved to its place in the text."""
        place = np.array([places[piece] for piece in text_pieces], dtype=np.int64)
        start = np.array([match.start() for match in _PIECE.finditer(text)], dtype=np.int64)
        bounds = np.frombuffer(ends, dtype=np.int64)
        counts = bounds[place + 1] - bounds[place]
        token = np.arange(counts.sum()) + np.repeat(
            bounds[place] - (np.cumsum(counts) - counts), counts
        )
        at = np.repeat(start, counts)
        sides = (
            np.frombuffer(side, dtype=np.int32) if side else np.zeros(0, np.int32)
            for side in (token_starts, token_ends)
        )
        return list(zip(*((side[token] + at).tolist() for side in sides), strict=True))

    def learn(fresh: list[str]) -> None:
        """Many pieces in one text: a call of the tokenizer costs as much as dozens of tokens."""
        groups = [fresh[i : i + 256] for i in range(0, len(fresh), 256)]
        for group, tokens in zip(
            groups, offsets([" ".join(group) for group in groups]), strict=True
        ):
            at = done = 0
            for piece in group:
                end = at + len(piece)
                while done < len(tokens) and tokens[done][0] < end:
                    token_starts.append(tokens[done][0] - at)
                    token_ends.append(tokens[done][1] - at)
                    done += 1
                places[piece] = len(places)
                ends.append(len(token_starts))
                at = end + 1

    return offsets_of


def open_chunker(cut: str, tokenizer: str | None = None, base: Path = Path()) -> Chunker:
    """The chunker of these texts.

    Args:
        cut: ``SIZE:OVERLAP`` in tokens; VLM-DeflectionBench's is 250:32.
        tokenizer: counts the tokens: ``bert-uncased`` (Contriever's and MiniLM's), a tokenizer.json, or the name of a
            model on the Hugging Face hub; None counts words.
        base: folder that a relative path starts from.

    Raises:
        UsageError: not a size and an overlap, or impossible ones.
        DataError: not a tokenizer, or one that cannot be loaded.
    """
    size, overlap = map(whole_number, cut.partition(":")[::2])
    if size is None or overlap is None:
        raise UsageError(f"{cut[:80]!r} is not SIZE:OVERLAP", cure="the paper's is 250:32")
    if not tokenizer:
        return Chunker(size, overlap)
    opened = _open_tokenizer(tokenizer, base)
    offsets = tokenizer_offsets(
        opened
    )  # switches padding and truncation off, which do not change tokens
    tokens = hashlib.sha256(opened.to_str().encode()).hexdigest()[:16]
    return Chunker(size, overlap, offsets, tokens=tokens)


def _open_tokenizer(name: str, base: Path) -> Any:
    from tokenizers import Tokenizer

    if name == "bert-uncased":
        from demur.indexing.encoders.minilm import tokenizer as of_bert

        return of_bert()
    file = base / name
    cure = "give a tokenizer.json, bert-uncased, or the name of a model on the Hugging Face hub"
    try:
        return Tokenizer.from_file(str(file)) if file.is_file() else Tokenizer.from_pretrained(name)
    except Exception as error:  # the library raises bare Exception
        why = (str(error).splitlines() or ["it cannot be read"])[0]
        raise DataError(f"not a tokenizer: {why}", item=name, cure=cure) from error


def sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of the sentences of a text, without blanks at their edges; every other character is in one.

    >>> text = "Dr. A. Mason built it. It is 3.5 m high! Really?"
    >>> [text[start:end] for start, end in sentences(text)]
    ['Dr. A. Mason built it.', 'It is 3.5 m high!', 'Really?']
    """
    spans, start = [], 0
    for match in _END.finditer(text):
        head = text[max(start, match.start() - 12) : match.start()]
        if "\n" not in match.group() and _ABBREVIATED.search(head):
            continue
        spans.append((start, match.end()))
        start = match.end()
    spans.append((start, len(text)))
    trimmed = []
    for a, b in spans:
        piece = text[a:b]
        stripped = piece.strip()
        if stripped:
            first = a + len(piece) - len(piece.lstrip())
            trimmed.append((first, first + len(stripped)))
    return trimmed


class Passage(NamedTuple):
    """A run of a text."""

    start: int
    end: int
    """Character offsets into the text."""
    tokens: int


@dataclass
class Counts:
    """What was cut, for the summary at the end."""

    articles: int = 0
    passages: int = 0
    cut_sentences: int = 0
    """Places where a sentence longer than a passage was cut."""


@dataclass
class Chunker:
    """Cuts texts into passages.

    Args:
        size: most tokens in a passage, at least 2.
        overlap: tokens shared with the passage before, below half of ``size``.
        offsets: the tokenizer, see `tokenizer_offsets`.
    """

    size: int = 250
    overlap: int = 32
    offsets: Offsets = plain_offsets
    counts: Counts = field(default_factory=Counts)
    tokens: str = "words"
    """What a token is, for manifests: ``words``, or the hash of a tokenizer."""

    def __post_init__(self) -> None:
        if self.size < 2 or not 0 <= self.overlap * 2 < self.size:
            raise UsageError(
                f"passages of {self.size} tokens cannot share {self.overlap}",
                cure="size must be 2 or more, overlap less than half of it",
            )

    @property
    def setting(self) -> str:
        """How texts are cut, for manifests: equal texts mean equal passages."""
        return f"{self.size}:{self.overlap} {self.tokens}"

    def cut(self, texts: Sequence[str]) -> list[list[Passage]]:
        """The passages of each text, in order; a text without tokens has none."""
        return [
            list(self._passages(text, spans))
            for text, spans in zip(texts, self.offsets(texts), strict=True)
        ]

    def _passages(self, text: str, tokens: list[tuple[int, int]]) -> Iterator[Passage]:
        self.counts.articles += 1
        if not tokens:
            return
        starts = [start for start, _ in tokens]
        ends = self._sentence_ends(text, starts)
        first = done = 0
        while done < len(tokens):
            limit = min(first + self.size, len(tokens))
            stop = ends[bisect_right(ends, limit) - 1] if ends[0] <= limit else 0
            if stop <= done:  # the next sentence alone is too long: cut it
                self.counts.cut_sentences += 1
                stop = self._word_end(text, tokens, max(done + 1, limit - self.size // 4), limit)
            self.counts.passages += 1
            yield Passage(tokens[first][0], tokens[stop - 1][1], stop - first)
            done = stop
            if done < len(tokens):
                first = self._next_start(text, tokens, ends, first, done)

    def _sentence_ends(self, text: str, starts: list[int]) -> list[int]:
        """Token counts at which sentences end, ascending; the last is the number of tokens."""
        ends = {bisect_left(starts, end) for _, end in sentences(text)}
        return sorted(end for end in ends | {len(starts)} if end)

    def _next_start(
        self, text: str, tokens: list[tuple[int, int]], ends: list[int], first: int, done: int
    ) -> int:
        """Where the passage after ``done`` tokens begins: rule 3, as far as rule 2 allows."""
        earliest = max(first + 1, done - self.overlap)
        following = ends[bisect_right(ends, done)]
        if (
            following - done <= self.size
        ):  # the next sentence fits in a passage: no overlap may push it out
            earliest = max(earliest, following - self.size)
        sentence_start = ends[bisect_left(ends, earliest)]
        if sentence_start < done:
            return sentence_start
        return next((at for at in range(earliest, done) if _begins_word(text, tokens, at)), done)

    def _word_end(self, text: str, tokens: list[tuple[int, int]], least: int, most: int) -> int:
        """The last place in [least, most] at which a word ends; ``most`` if there is none."""
        return next(
            (at for at in range(most, least - 1, -1) if _begins_word(text, tokens, at)), most
        )

    def first(self, text: str) -> str:
        """The first passage of a text, of which no more is read than needed; the text if it has no tokens."""
        length = 16 * self.size
        while length < len(text):
            head = text[:length]
            (tokens,) = self.offsets([head])
            if len(tokens) > self.size + MARGIN:
                break
            length *= 2
        else:
            head = text
            (tokens,) = self.offsets([head])
        passage = next(replace(self, counts=Counts())._passages(head, tokens), None)
        return text if passage is None else text[passage.start : passage.end]

    def documents(self, articles: Iterable[Document], *, batch: int = 64) -> Iterator[Document]:
        """The passages of articles as documents: ``<id>#<n>`` from 0, on the article's page, with its title.

        Each names its article (`demur.corpora.lineage`), so that a passage of gold evidence counts as gold. The first
        passage has the article's attributes (its summary among them), so that the page is described once. An article's
        image becomes a document of its own, ``<id>#image``. Documents with no text or an empty one are not changed.

        Args:
            articles: streamed; ``batch`` are held at once.
            batch: articles tokenized together.
        """
        batch_held: list[Document] = []
        for article in articles:
            batch_held.append(article)
            if len(batch_held) >= batch:
                yield from self._cut_documents(batch_held)
                batch_held = []
        yield from self._cut_documents(batch_held)

    def _cut_documents(self, articles: list[Document]) -> Iterator[Document]:
        cut = iter(self.cut([a.text for a in articles if a.text is not None]))
        for article in articles:
            spans = [] if article.text is None else [(p.start, p.end) for p in next(cut)]
            yield from pieces_of(article, spans)


def pieces_of(article: Document, spans: Sequence[tuple[int, int]]) -> Iterator[Document]:
    """The documents that an article is cut into, see `Chunker.documents`.

    Args:
        article: with a text or without.
        spans: (start, end) of its passages in its text.
    """
    if article.text is None or (not spans and article.image is None):
        yield article
        return
    of_article = {
        "title": article.title,
        "document": document_of(article),
        "page": page_of(article),
        "source": article.source,
        "licence": article.licence,
    }
    for number, (start, end) in enumerate(spans):
        yield Document(
            id=chunk_id(article.id, number),
            text=article.text[start:end],
            attributes={} if number else article.attributes,
            **of_article,
        )
    if article.image is not None:
        yield Document(
            id=chunk_id(article.id, "image"),
            image=article.image,
            attributes={} if spans else article.attributes,
            **of_article,
        )


def uncut(articles: Iterable[Document]) -> Iterator[Document]:
    """Articles before they are cut: the text of each under its own id, its image as `pieces_of` names it."""
    for article in articles:
        if not (article.text or "").strip():
            yield from pieces_of(article, [])
            continue
        _, *picture = pieces_of(article, [(0, len(article.text or ""))])
        yield article.model_copy(update={"image": None, "page": page_of(article)})
        yield from picture


def _begins_word(text: str, tokens: list[tuple[int, int]], at: int) -> bool:
    return at >= len(tokens) or tokens[at][0] > tokens[at - 1][1] or text[tokens[at][0]].isspace()
