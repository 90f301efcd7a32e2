"""Gold passages cut from a gold article: the paragraphs that hold the answer.

InfoSeek and ViQuAE name the article, not the passage. The paragraphs of it that hold an accepted answer are gold at
level ``passage`` (after ViQuAE's own rule of passage relevance); where none does - numbers written differently,
answers that must be inferred - the whole article is gold at level ``article``, and the level says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from demur.answers import holds
from demur.records import AnswerSpec, Document, Evidence, Modality, Role

_CUT = re.compile(r"#(?:p\d+|q[0-9a-f]{8})$")
"""What the id of a passage adds to its document's: a paragraph's number, or the hash of a quotation from it."""


def paragraphs(text: str) -> list[str]:
    """Paragraphs of running text: its non-blank lines."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def passage_id(document: str, number: int) -> str:
    """Id of a passage cut from a document; `document_of` undoes it."""
    return f"{document}#p{number}"


def document_of(evidence: str) -> str:
    """Id of the document that evidence is or was cut from.

    >>> document_of("Q1#p3"), document_of("https://x#2#q0123abcd"), document_of("https://x#2")
    ('Q1', 'https://x#2', 'https://x#2')
    """
    return _CUT.sub("", evidence)


def gold_of(article: Document, parts: Sequence[str], answers: AnswerSpec) -> list[Evidence]:
    """Gold evidence of one article: its paragraphs that hold the answer, else the article whole.

    Args:
        article: the gold article.
        parts: its paragraphs in order.
        answers: what counts as the answer.
    """
    found = [
        Evidence(
            id=passage_id(article.id, number),
            modality=Modality.TEXT,
            title=article.title,
            text=part,
            role=Role.GOLD,
            level="passage",
        )
        for number, part in enumerate(parts)
        if holds(answers, part)
    ]
    return found or [Evidence.of(article.model_copy(update={"image": None}), Role.GOLD, level="article")]
