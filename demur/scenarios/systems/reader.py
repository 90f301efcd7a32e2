"""A built-in extractive reader: real answers without a language model.

It embeds the question and every field or sentence of the evidence, takes the best match, and extracts the answer by the
type that the question asks for (a year, a length, a count, a colour, a name). Of image evidence it reads the caption as
a name, and the colours of bands and fields from the pixels. ``context.recognise`` names what a query image shows (the
nearest images of the knowledge base), in place of what a vision-language model has learnt to recognise.

Its confidence is the match of the passage times the match of the field. ``reader`` always answers;
``reader?min=0.5`` declines below that confidence.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Ask, ImageRef, Modality, Response, Shown
from demur.core.spec import Option, named
from demur.core.store import digest
from demur.core.version import __version__

if TYPE_CHECKING:
    from PIL.Image import Image

    from demur.scenarios.systems import SystemContext

OPTIONS = {"min": Option("the confidence below which it declines, from 0 to 1", float)}
_FIELD = re.compile(r"(?:(?<=\. )|^)([A-Z][A-Za-z' /-]{2,45}): ")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z0-9\"'])")
_NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
_DATE = re.compile(
    r"\b\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December) \d{4}\b"
)
_POINTING = re.compile(
    r"\b(?:the |this |that )?"
    r"(?:country|landmark|animal|planet|building|place|photo|flag|outline map|outline|map|fish|bird)"
    r"(?: (?:whose|with this|represented by this|in this|shown|depicted|stands|is|where|of the|in)\b)*"
)

_COLOURS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "red": ((206, 17, 38), (190, 20, 30), (150, 30, 40)),
    "blue": ((0, 56, 147), (0, 35, 100), (20, 90, 200)),
    "light blue": ((110, 180, 230), (80, 160, 220)),
    "green": ((0, 120, 60), (0, 90, 50), (60, 160, 50)),
    "yellow": ((252, 209, 22), (240, 190, 20), (255, 230, 60)),
    "orange": ((255, 130, 0), (240, 110, 20)),
    "white": ((255, 255, 255), (240, 240, 240)),
    "black": ((0, 0, 0), (25, 25, 25)),
    "maroon": ((120, 20, 50),),
    "brown": ((120, 75, 40),),
    "purple": ((110, 40, 130),),
}


class _Candidate(NamedTuple):
    answer: str
    confidence: float
    evidence: str


class Reader:
    """Extractive reader over the evidence; without evidence it has only its recogniser.

    Args:
        argument: empty, or ``?min=C`` with C in [0, 1]: decline below that confidence.
        context: needs ``embed``, and ``recognise`` for questions with images.
    """

    reads_prompt = False
    DECLINES = "I cannot answer this from the evidence."

    def __init__(self, argument: str, context: SystemContext) -> None:
        rest, options = named("reader", argument, OPTIONS)
        if rest:
            raise UsageError("it takes no argument", item=f"reader:{rest}", cure="reader?min=0.5")
        value = options.get("min", "")
        self.least = float(value or 0)
        if context.embed is None:
            raise UsageError("the reader needs a sentence encoder", item="reader")
        self.id = f"reader?min={value}" if value else "reader"
        self.note = (
            "built-in extractive reader: sentence similarity and answer types, no language model"
            + (f"; declines below confidence {value}" if value else "; always answers")
        )
        self.revision = digest([__version__, context.of_encoder()], 16)
        self._embed = context.embed
        self._recognise = context.recognise
        self._read_image = context.read_image
        self._seen: dict[str, str] = {}

    def skip_reason(self, ask: Ask) -> str:
        """It is asked everything."""
        return ""

    async def answer(self, ask: Ask) -> Response:
        """The best field of the best piece of evidence; the recognised name when there is no evidence."""
        name = self._recognised_name(ask.images)
        candidates = [
            c for e in ask.evidence if (c := self._candidate_from(e, ask, name)) is not None
        ]
        if candidates:
            best = max(candidates, key=lambda c: (c.confidence, c.evidence))
        else:
            best = _Candidate(name or _last_noun(ask.question), 0.0, "")
        declined = best.confidence < self.least
        text = self.DECLINES if declined else best.answer
        return Response(text=text, confidence=round(best.confidence, 4), served_by=self.id)

    async def close(self) -> None:
        """Nothing to close."""

    def _recognised_name(self, images: tuple[ImageRef, ...]) -> str:
        """The recogniser's name for what the query image shows; "" if it has none."""
        if not images or self._recognise is None:
            return ""
        key = images[0].sha256
        if key not in self._seen:
            recognised = self._recognise(images[0])
            self._seen[key] = _subject(recognised[0][0]) if recognised else ""
        return self._seen[key]

    def _similarities(self, query: str, texts: list[str]) -> list[float]:
        vectors = self._embed([query, *texts])
        return [float(s) for s in vectors[1:] @ vectors[0]]

    def _candidate_from(self, evidence: Shown, ask: Ask, name: str) -> _Candidate | None:
        subject = _subject(evidence.title)
        about = self._aboutness(ask, name, subject)
        if evidence.modality is Modality.IMAGE:
            return self._candidate_from_image(evidence, ask, about)
        fields = _fields(evidence.text or "")
        if not fields:
            return None
        bare_question = _POINTING.sub(" ", ask.question) if ask.images else ask.question
        if subject:
            bare_question = re.sub(re.escape(subject), " ", bare_question, flags=re.IGNORECASE)
        fits = self._similarities(
            " ".join(bare_question.split()), [f"{label}: {value[:160]}" for label, value in fields]
        )
        typed = [
            fit + 0.15 * _fits_type(ask.question, value)
            for fit, (_, value) in zip(fits, fields, strict=True)
        ]
        best = max(range(len(fields)), key=lambda i: (round(typed[i], 5), -i))
        answer = _answering_part(ask.question, fields[best][1])
        confidence = about * min(1.0, max(0.0, typed[best]) * 1.6)
        return _Candidate(answer, round(confidence, 5), evidence.id)

    def _aboutness(self, ask: Ask, name: str, subject: str) -> float:
        """How well the evidence's subject matches that of the question, in [0, 1]."""
        if not subject:
            return 0.5
        if re.search(rf"\b{re.escape(subject)}\b", ask.question, re.IGNORECASE):
            return 1.0
        if ask.images:
            if not name:
                return 0.5
            if name.lower() == subject.lower():
                return 1.0
            return 0.35 * max(0.0, self._similarities(name, [subject])[0])
        return 0.35 * max(0.0, self._similarities(ask.question, [subject])[0])

    def _candidate_from_image(self, evidence: Shown, ask: Ask, about: float) -> _Candidate | None:
        question = ask.question.lower()
        if re.search(r"\bcolou?r\b", question):
            if evidence.image is None or "map" in evidence.title.lower():
                return None
            return _Candidate(
                self._colour(evidence.image, question), round(about * 0.8, 5), evidence.id
            )
        if re.search(r"\b(name|which species|what kind|who)\b", question):
            return _Candidate(_subject(evidence.title), round(about * 0.9, 5), evidence.id)
        if re.search(r"\b(place|city|town|region|where)\b", question):
            parts = [p.strip() for p in evidence.title.split(",")]
            return _Candidate(
                parts[1] if len(parts) > 1 else parts[0], round(about * 0.9, 5), evidence.id
            )
        return None

    def _colour(self, ref: ImageRef, question: str) -> str:
        """The commonest colour in the part of the picture that the question names."""
        import io

        from PIL import Image as Images

        with Images.open(io.BytesIO(self._read_image(ref))) as opened:
            picture = opened.convert("RGB").resize((60, 45))
        common = _colours(_named_part(picture, question))
        if re.search(
            r"\b(star|crescent|disk|disc|circle|sun|cross|diamond|triangle|emblem|moon)\b", question
        ):
            field = _colours(picture)[0]
            common = [c for c in common if c != field] or common
        return common[0]


def _named_part(picture: Image, question: str) -> Image:
    """The band that the question names, else the middle of the picture."""
    width, height = picture.size
    third_w, third_h = width // 3, height // 3
    boxes = {
        "top": (0, 0, width, third_h - 2),
        "upper": (0, 0, width, third_h - 2),
        "bottom": (0, 2 * third_h + 2, width, height),
        "lower": (0, 2 * third_h + 2, width, height),
        "left": (0, 0, third_w - 2, height),
        "hoist": (0, 0, third_w - 2, height),
        "right": (2 * third_w + 2, 0, width, height),
        "middle vertical": (third_w + 2, 0, 2 * third_w - 2, height),
        "middle": (0, third_h + 2, width, 2 * third_h - 2),
        "triangle": (0, third_h, third_w // 2, 2 * third_h),
    }
    for words, box in boxes.items():
        if words in question:
            return picture.crop(box)
    return picture.crop((width // 4, height // 4, 3 * width // 4, 3 * height // 4))


def _colours(picture: Image) -> list[str]:
    """Names of a picture's colours, the commonest first; a pixel takes the name of the nearest known shade."""
    import numpy as np

    names = [name for name, shades in _COLOURS.items() for _ in shades]
    shades = np.array([shade for known in _COLOURS.values() for shade in known], dtype=np.int32)
    pixels = np.asarray(picture, dtype=np.int32).reshape(-1, 1, 3)
    nearest = ((pixels - shades) ** 2).sum(axis=2).argmin(axis=1)
    counts = Counter(names[i] for i in nearest.tolist())
    return sorted(counts, key=lambda name: (-counts[name], name))


def _subject(title: str) -> str:
    """The subject of a title: Niger for ``Niger: economy`` and ``Flag of the Niger``."""
    head = re.split(r"[:(,]", title)[0].strip()
    return re.sub(r"^(?:Flag|Location map|Map|Photo) of (?:the )?|^[Tt]he ", "", head).strip()


def _fields(text: str) -> list[tuple[str, str]]:
    """(label, value) pairs of ``Label: value.`` texts; else one entry per sentence with an empty label."""
    marks = list(_FIELD.finditer(text))
    if marks and marks[0].start() == 0:
        ends = [m.start() for m in marks[1:]] + [len(text)]
        return [
            (m[1], text[m.end() : end].strip().rstrip("."))
            for m, end in zip(marks, ends, strict=True)
            if m.end() < end
        ]
    return [("", s.strip()) for s in _SENTENCE.split(text) if s.strip()]


def _fits_type(question: str, value: str) -> bool:
    """Whether the value contains the type of answer that the question asks for."""
    q = question.lower()
    if re.search(r"\bon what date\b|\bwhen\b", q):
        return bool(_DATE.search(value))
    if re.search(r"\bhow (?:many|long|high|tall|far|much)\b|\bpopulation\b|\bin which year\b", q):
        return bool(re.search(_NUMBER, value))
    return bool(re.search(r"[A-Za-z]", value))


def _answering_part(question: str, value: str) -> str:
    """The part of a field's value that answers a question of this type."""
    q = question.lower()
    if (date := _DATE.search(value)) and re.search(r"\bon what date\b|\bwhen\b", q):
        return date[0]
    if "in which year" in q and (year := re.search(r"\b1\d{3}\b|\b20\d{2}\b", value)):
        return year[0]
    place = re.search(r"\bbetween .{1,200}? and ([A-Z][\w' -]{1,100})\??$", question)
    if place and (near := re.search(rf"{re.escape(place[1])} ({_NUMBER} km)", value)):
        return near[1]
    if re.search(r"\blongest (?:land )?border\b", q):
        lengths = re.findall(rf"([A-Z][^;:]{{0,80}}?) ({_NUMBER}) km", value)
        if lengths:
            return str(max(lengths, key=lambda pair: float(pair[1].replace(",", "")))[0]).strip()
    if re.search(r"\bhow (?:many|long|high|tall|far|much)\b|\bpopulation\b", q):
        unit = r"(?: ?(?:km|m|feet|ft|meters|metres|kg|sites)\b)?"
        if number := re.search(_NUMBER + unit, value):
            return number[0]
    if colour := re.search(r"\bwhat does the (\w+)\b", q):
        pattern = rf"{colour[1]}[^;,.]{{0,200}}? (?:represents?|symboli[sz]es?|stands? for|denotes?|signif\w+) ([^;,.]+)"
        if meaning := re.search(pattern, value, re.IGNORECASE):
            return meaning[1].strip()
    if (power := re.search(r"\(from (?:the )?([^);,]+)", value)) and "from which power" in q:
        return power[1].strip()
    if title := re.search(r'"([^"]+)"', value):
        return title[1]
    value = re.sub(r"^(?:the|a|an) ", "", value.strip())
    first = re.split(r"[;,(]| note\b| \d[\d,.]*\s?(?:%|km|m\b)", value)[0].strip()
    return first or value


def _last_noun(question: str) -> str:
    words = re.findall(r"[A-Za-z]+", question)
    return words[-1] if words else question
