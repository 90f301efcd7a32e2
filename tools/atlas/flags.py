"""Flags: one drawing for the knowledge base, another for the queries, and what can be asked of what is seen."""

from __future__ import annotations

import colorsys
import io
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tools.atlas.entities import Entity
from tools.atlas.inputs import DEBIAN, FLAGS, GLOSSY_FLAGS, NODE

SOURCE = f"npm flag-icons {NODE['flag-icons']} (flags/4x3), rasterised"
LICENCE = "MIT; flag design not copyrightable / public domain"
QUERY_SOURCE = f"Debian iso-flags-png-320x240 {DEBIAN['iso-flags-png-320x240']}"
QUERY_LICENCE = "Public domain"

OUTDATED = {"af", "cc", "hn", "iq", "kg", "mr", "nc", "pn", "sy", "tf", "tk", "vi"}
"""The glossy set shows another design than today's flag (compared by pixels, then looked at)."""

AMBIGUOUS = {"id": ["mc"], "mc": ["id"], "td": ["ro"], "ro": ["td"], "lu": ["nl"], "nl": ["lu"]}
"""Flags that cannot be told apart by eye once their proportions are the same, or but for a shade."""

_COLOURS = {
    **dict.fromkeys(("red", "dark red", "crimson", "maroon"), "red"),
    **dict.fromkeys(("blue", "light blue", "sky blue", "dark blue", "navy blue"), "blue"),
    **dict.fromkeys(("green", "dark green", "light green"), "green"),
    **dict.fromkeys(("yellow", "gold", "golden"), "yellow"),
    **dict.fromkeys(("orange", "saffron"), "orange"),
    "white": "white",
    "black": "black",
}
_OTHER_WORDS = {
    "yellow": ["yellow", "gold", "golden"],
    "red": ["red", "crimson", "scarlet"],
    "orange": ["orange", "saffron"],
}
_COLOUR = "(?:" + "|".join(sorted(_COLOURS, key=len, reverse=True)) + ")"
_BANDS = {
    (2, "horizontal"): ("top", "bottom"),
    (3, "horizontal"): ("top", "middle", "bottom"),
    (2, "vertical"): ("left-hand", "right-hand"),
    (3, "vertical"): ("left-hand", "middle", "right-hand"),
}
_OBJECTS = "star|stars|crescent|cross|disk|disc|triangle|sun|circle|diamond|trident"
_ADJECTIVES = (
    "large|small|single|five-pointed|six-pointed|seven-pointed|eight-pointed|equilateral|isosceles|upright|heraldic|"
    "stylized|bordered|solid|rising|radiant|half|[a-z]+-rayed|[a-z]+-pointed"
)
_TOO_SMALL = {("lc", "triangle"), ("gq", "star"), ("py", "star"), ("rs", "cross"), ("md", "cross")}
"""Looked at: ambiguous, or too small at 256 pixels."""
_SEVERAL = {("ph", "star")}
"""One star is described and three are drawn."""


def flag_image(inputs: Path, iso: str) -> Image.Image:
    """The knowledge base's drawing: 256x192 RGB on white."""
    import cairosvg

    drawn = cairosvg.svg2png(
        url=str(inputs / FLAGS / f"{iso}.svg"), output_width=256, output_height=192
    )
    with Image.open(io.BytesIO(drawn)) as opened:
        return on_white(opened)


def query_image(inputs: Path, iso: str) -> Image.Image | None:
    """The glossy drawing, 200 pixels wide; None where there is none of today's flag."""
    path = inputs / GLOSSY_FLAGS / f"{iso}.png"
    if iso in OUTDATED or not path.exists():
        return None
    with Image.open(path) as opened:
        glossy = opened.convert("RGBA")
    shown = on_white(glossy.crop(glossy.getbbox()))
    return shown.resize((200, int(200 * shown.height / shown.width)))


def on_white(image: Image.Image) -> Image.Image:
    """The image in RGB, its transparent parts white."""
    layered = image.convert("RGBA")
    ground = Image.new("RGB", layered.size, "#ffffff")
    ground.paste(layered, (0, 0), layered)
    return ground


@dataclass(frozen=True)
class VisualFact:
    """A colour that the flag shows and that no passage tells."""

    kind: str
    subject: str
    """``top horizontal band``, ``star``."""
    question: str
    """``{F}`` stands for the flag."""
    answers: tuple[str, ...]


def visual_facts(
    entity: Entity, image: Image.Image, symbols: str
) -> dict[tuple[str, str], VisualFact]:
    """(kind, subject) -> fact, from the description of the flag, each checked on the pixels of its drawing.

    Args:
        entity: whose profile describes the flag (the description is kept out of the passages).
        image: the knowledge base's drawing.
        symbols: the passage on national symbols; what it tells is not asked.
    """
    described = entity.profile.flag().get("description", "")
    if not described or entity.dependent:
        return {}
    found = [*_bands(described, image), *_objects(entity.iso, described, image, symbols.lower())]
    return {(fact.kind, fact.subject): fact for fact in found}


def _answers(word: str) -> tuple[str, ...]:
    plain = _COLOURS[word]
    return tuple(dict.fromkeys([word, *_OTHER_WORDS.get(plain, [plain])]))


def _bands(described: str, image: Image.Image) -> list[VisualFact]:
    pattern = (
        rf"(two|three)(?: equal)? (horizontal|vertical) bands of ({_COLOUR})\s*(?:\([^)]*\))?,? (?:and )?({_COLOUR})"
        rf"(?:,? and ({_COLOUR}))?"
    )
    match = re.search(pattern, described.split(";")[0])
    if not match:
        return []
    words = [word for word in match.groups()[2:] if word]
    count, direction = {"two": 2, "three": 3}[match[1]], match[2]
    if len(words) != count:
        return []
    found = []
    for index, (word, place) in enumerate(zip(words, _BANDS[count, direction], strict=True)):
        middle = (index + 0.5) / count
        x, y = (0.94, middle) if direction == "horizontal" else (middle, 0.06)
        seen = colour_name(image.getpixel((int(image.width * x), int(image.height * y))))
        golden = {seen, _COLOURS[word]} <= {"orange", "yellow"} and word in (
            "gold",
            "saffron",
            "orange",
        )
        if seen == _COLOURS[word] or golden:
            subject = f"{place} {direction} band"
            found.append(
                VisualFact(
                    "band", subject, f"What colour is the {subject} of {{F}}?", _answers(word)
                )
            )
    return found


def _objects(iso: str, described: str, image: Image.Image, symbols: str) -> list[VisualFact]:
    colours: dict[str, set[str]] = {}
    for word, thing in re.findall(
        rf"\b({_COLOUR}),? (?:(?:{_ADJECTIVES}) )*({_OBJECTS})\b", described
    ):
        colours.setdefault(_single(thing), set()).add(word)
    every = r"\b(stars?|crescents?|cross(?:es)?|disks?|discs?|triangles?|suns?|circles?|diamonds?|tridents?)\b"
    mentions = re.findall(every, described)
    counted = Counter(map(_single, mentions))
    palette = image.quantize(16).convert("RGB").getcolors(1 << 16) or []
    seen = {colour_name(pixel) for _, pixel in palette}
    found = []
    for thing, words in colours.items():
        word = min(words)
        if (
            len(words) != 1
            or (counted[thing] > 1 and thing != "star")
            or (iso, thing) in _TOO_SMALL
        ):
            continue
        shown = _COLOURS[word] in seen or (word in ("gold", "yellow") and "orange" in seen)
        if not shown or _told(symbols, thing, _answers(word)):
            continue
        several = thing == "star" and ("stars" in mentions or (iso, thing) in _SEVERAL)
        asked = f"are the {thing}s" if several else f"is the {thing}"
        found.append(
            VisualFact("emblem_colour", thing, f"What colour {asked} on {{F}}?", _answers(word))
        )
    return found


def _single(thing: str) -> str:
    return "cross" if thing.startswith("cross") else thing.rstrip("s")


def _told(symbols: str, thing: str, words: tuple[str, ...]) -> bool:
    """Whether the passage puts one of the colours beside the thing."""
    near = r"\W+(?:[\w-]+\W+){0,2}"
    return any(
        re.search(rf"\b{word}{near}{thing}|{thing}s?{near}{word}\b", symbols) for word in words
    )


def colour_name(pixel: object) -> str:
    """The plain name of an RGB colour (three integers from 0 to 255)."""
    if not isinstance(pixel, tuple):
        raise TypeError(f"an RGB pixel is three integers, got {pixel!r}")
    hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in pixel[:3]))
    degrees = hue * 360
    if value < 0.22:
        return "black"
    if saturation < 0.2:
        return "white" if saturation < 0.13 and value > 0.8 else "grey"
    limits = (
        (13, "red"),
        (40, "orange"),
        (66, "yellow"),
        (172, "green"),
        (262, "blue"),
        (335, "purple"),
    )
    return next(
        (name for limit, name in limits if degrees < limit or (limit == 335 and degrees <= limit)),
        "red",
    )
