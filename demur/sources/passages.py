"""Gold passages of a gold article: the paragraphs that hold the answer.

InfoSeek and ViQuAE name the article, not the passage. Its paragraphs that hold an accepted answer are gold at level
``passage`` (ViQuAE's own rule of passage relevance). If none does - a number written differently, an answer that must
be inferred - the whole article is gold at level ``article``.
"""

from __future__ import annotations

from collections.abc import Sequence

from demur.answers import holds
from demur.core.records import AnswerSpec, Document, Evidence, Role
from demur.corpora.lineage import document_of, page_of, passage_id


def paragraphs(text: str) -> list[str]:
    """Paragraphs of running text: its non-blank lines."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def gold_of(article: Document, parts: Sequence[str], answers: AnswerSpec) -> list[Evidence]:
    """Gold evidence of one article: its paragraphs that hold the answer, else the whole article."""
    whole_article = article.model_copy(update={"image": None})
    passages_with_answer = [
        Evidence.of(
            whole_article.model_copy(
                update={
                    "id": passage_id(article.id, number),
                    "document": document_of(article),
                    "page": page_of(article),
                    "text": part,
                }
            ),
            Role.GOLD,
            level="passage",
        )
        for number, part in enumerate(parts)
        if holds(answers, part)
    ]
    return passages_with_answer or [Evidence.of(whole_article, Role.GOLD, level="article")]
