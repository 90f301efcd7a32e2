"""MRAG-Bench: accuracy of the chosen letter, parsed as the benchmark parses it."""

from __future__ import annotations

from demur.core.records import AnswerSpec


def choice(prediction: str, choices: tuple[tuple[str, str], ...]) -> str:
    """The letter that a reply chooses; the stripped reply itself where there is none.

    ``(X)`` first, then `` X `` between spaces, then (in replies of more than five words) an option's text; the one that
    stands last wins.

    >>> options = (("A", "Wolf"), ("B", "Fox"))
    >>> choice("(A) no, (B)", options), choice("B", options), choice("wolf", options)
    ('B', 'B', 'wolf')
    """
    padded = f" {prediction.strip(',.!?;: ' + chr(39))} "
    for shape in ("({})", " {} "):
        last_places = {
            label: padded.rfind(shape.format(label))
            for label, _ in choices
            if shape.format(label) in padded
        }
        if last_places:
            return max(last_places, key=lambda label: last_places[label])
    if len(padded.split()) > 5:
        lower_text = padded.lower()
        last_places = {
            label: lower_text.rfind(text.lower())
            for label, text in choices
            if text.lower() in lower_text
        }
        if last_places:
            return max(last_places, key=lambda label: last_places[label])
    return prediction.strip()


def score(answers: AnswerSpec, prediction: str) -> float | None:
    """1 when the chosen letter is that of the right option (given by its letter or its text); None without options."""
    if not answers.choices:
        return None
    right = {part for form in answers.accepted for part in form}
    labels = {label for label, text in answers.choices if text in right} or {
        label for label, _ in answers.choices if label in right
    }
    return float(choice(prediction, answers.choices) in labels)
