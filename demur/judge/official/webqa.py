"""WebQA: keyword accuracy by question category.

Words are compared after normalisation: for colours, shapes, yes/no and numbers the F1 of the words within a fixed
vocabulary, for every other category the recall of the reference's words. Three things of the source are not here and
said so: its lemmas (they need a spaCy model; inflected forms therefore differ), its fluency half (BARTScore), and its
exact word lists - ours hold the common colours and shapes, and ``vocabulary`` takes others. On the public
splits the reference is the full answer, for the keywords are not published.
"""

from __future__ import annotations

import re
from collections import Counter

from demur.answers.numbers import SMALL
from demur.core.records import AnswerSpec

_COLOURS = (
    "aqua beige black blonde blue bronze brown chrome gold golden gray green grey ivory maroon orange "
    "pink purple rainbow "
    "red rust silver tan teal transparent turquoise violet white yellow"
)
_SHAPES = (
    "arch ball bell bow circle circular concave cone conical convex crescent cross cube cuboid curve cylinder "
    "cylindrical diamond dome dot flat flower globe heart hexagon hexagonal hook obelisk octagon "
    "octagonal oval pentagon pyramid "
    "pyramidal rectangle rectangular ring round rounded semicircle sphere spherical spiral square star "
    "straight teardrop torus "
    "triangle triangular tube wavy"
)
VOCABULARY = {
    "color": frozenset(_COLOURS.split()),
    "shape": frozenset(_SHAPES.split()),
    "yesno": frozenset({"yes", "no"}),
}
"""Category -> the words that count; ``number`` counts whole numbers."""


def normalise(text: str) -> str:
    """Lower case, no punctuation but decimal points, no articles, number words to digits; single characters stay.

    >>> normalise('"The two towers, 3.5 m"')
    '2 towers 3.5 m'
    """
    if len(text.strip()) == 1:
        return text.strip().lower()
    plain = re.sub(r"(?<!\d)\.|\.(?!\d)|[^\w\s.]|_", " ", text.lower())
    return " ".join(SMALL.get(w, w) for w in plain.split() if w not in ("a", "an", "the"))


def score(
    answers: AnswerSpec,
    prediction: str,
    category: str = "",
    vocabulary: frozenset[str] | None = None,
) -> float | None:
    """Best over the accepted forms, in [0, 1].

    Args:
        answers: the reference; a rule such as ``webqa:color`` names the category.
        prediction: the answer to score.
        category: ``color``, ``shape``, ``yesno`` or ``number`` for F1; anything else for recall.
        vocabulary: the words that count, in place of ours.

    Returns:
        None where the reference has no word that counts: the item cannot be scored this way.
    """
    kind = (category or answers.rule.partition(":")[2]).lower().replace("/", "")
    scores = [
        _score_form(" ".join(form), prediction, kind, vocabulary) for form in answers.accepted
    ]
    known_scores = [s for s in scores if s is not None]
    return max(known_scores) if known_scores else None


def _score_form(
    reference: str, prediction: str, kind: str, vocabulary: frozenset[str] | None
) -> float | None:
    reference_words, prediction_words = normalise(reference).split(), normalise(prediction).split()
    words = vocabulary or VOCABULARY.get(kind)
    if words is not None or kind == "number":
        reference_words, prediction_words = (
            [w for w in side if (w.isdigit() if words is None else w in words)]
            for side in (reference_words, prediction_words)
        )
    if not reference_words:
        return None
    shared = sum((Counter(reference_words) & Counter(prediction_words)).values())
    if words is None and kind != "number":
        return shared / len(reference_words)
    return 2 * shared / (len(reference_words) + len(prediction_words))
