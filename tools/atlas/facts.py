"""What can be asked of a country's passages: a question, its answers, and the passage that holds the first of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from tools.atlas.entities import OTHER_NAMES, Entity, norm, unaccented, without_article

WITHIN = 0.01
"""A measured quantity (length, height, population) is right within one per cent; a count is right when equal."""

_CAPITALS = {
    "Washington, D.C.": ["Washington DC", "Washington D.C.", "Washington"],
    "Saint John's": ["St. John's", "St John's"],
    "Sanaa": ["Sana'a"],
    "Tarawa": ["South Tarawa"],
    "Asmara": ["Asmera"],
    "Bogotá": ["Bogota"],
}
_POINTS = {
    "Mount McKinley": ["Denali"],
    "Paektu-san": ["Mount Paektu", "Paektu Mountain", "Baekdusan", "Changbai"],
    "Kilimanjaro": ["Mount Kilimanjaro", "Kibo", "Uhuru Peak"],
    "Kuh-e Damavand": ["Damavand", "Mount Damavand"],
    "Vorder-Grauspitz": ["Vorder Grauspitz", "Grauspitz"],
    "Kanchenjunga": ["Kangchenjunga"],
    "Puncak Jaya": ["Carstensz Pyramid"],
    "Emlembe": ["Mount Emlembe"],
    "Pic de Coma Pedrosa": ["Coma Pedrosa", "Pic de Comapedrosa"],
    "Jabal an Nabi Shu'ayb": ["Jabal an-Nabi Shu'ayb"],
    "Nevado Ojos del Salado": ["Ojos del Salado"],
    "Pico Bolivar": ["Pico Bolívar", "Bolivar Peak"],
    "Grossglockner": ["Großglockner"],
    "Kao Volcano": ["Kao"],
    "Nanlaud": ["Mount Nanlaud"],
    "Hvannadalshnukur": ["Hvannadalshnjukur", "Hvannadalshnjúkur", "Hvannadalshnúkur"],
    "Qullai Somoniyon": ["Ismoil Somoni Peak", "Communism Peak"],
}
_CURRENCIES = {
    "Central African CFA franc": ["CFA franc"],
    "West African CFA franc": ["CFA franc"],
    "rand": ["South African rand"],
    "yen": ["Japanese yen"],
    "lek": ["leke"],
    "lev": ["leva"],
    "leu": ["lei"],
    "koruna": ["koruny", "Czech koruna", "Czech crown"],
    "loti": ["maloti"],
    "tenge": ["Kazakhstani tenge"],
    "real": ["reais", "reals", "Brazilian real"],
    "dobra": ["dobras", "STN"],
    "vatu": ["Vanuatu vatu"],
}
_GOODS = {
    "crude petroleum": ["crude oil", "petroleum", "oil"],
    "refined petroleum": ["refined oil", "petroleum products"],
    "packaged medicine": ["packaged medicines", "medicine", "medicines", "pharmaceuticals"],
    "packaged medicines": ["packaged medicine", "medicine", "medicines", "pharmaceuticals"],
    "integrated circuits": ["microchips", "chips", "semiconductors"],
    "cars": ["automobiles", "car"],
    "garments": ["clothing", "clothes", "apparel"],
    "aircraft": ["airplanes", "planes"],
    "natural gas": ["gas"],
    "maize": ["corn"],
    "sugarcane": ["sugar cane"],
    "sugar beets": ["sugar beet"],
    "soybeans": ["soybean", "soya beans", "soy"],
    "bananas": ["banana"],
    "potatoes": ["potato"],
    "coconuts": ["coconut"],
    "sweet potatoes": ["sweet potato"],
    "oil palm fruit": ["palm fruit", "oil palm"],
    "medical instruments": ["medical devices"],
    "fertilizers": ["fertilisers", "fertilizer", "fertiliser"],
}
_DULL = {"reaction and catalytic products", "none", "various", "other"}
_SYMBOLS = {
    "red rampant lion": ["lion", "red lion"],
    "double-headed eagle": ["eagle", "two-headed eagle"],
    "white double-headed eagle": ["double-headed eagle", "eagle", "two-headed eagle"],
    "Gallic rooster": ["rooster", "cockerel", "Gallic cock"],
    "Lion Capital of Ashoka": ["Ashoka's Lion Capital", "Ashoka Lion Capital"],
    "Angkor Wat temple": ["Angkor Wat"],
    "silk cotton tree": ["kapok", "kapok tree"],
    "Saint Vincent parrot": ["St. Vincent parrot"],
    "red sun disc": ["sun", "red sun", "sun disc"],
    "frigatebird": ["frigate bird"],
    "secretary bird": ["secretarybird"],
    "Fijian canoe": ["canoe"],
}
_MEANINGS = {"agriculture economy": ["agricultural economy", "agriculture", "farming"]}
_POWERS = {"US-administered UN trusteeship": "US", "UK protectorate status": "UK"}
_COLOURS = "red|green|blue|white|yellow|gold|black|orange|light blue"


@dataclass(frozen=True)
class Fact:
    """One askable fact; ``{X}`` in the question stands for the country, however it is shown."""

    kind: str
    section: str
    question: str
    answers: tuple[str, ...]
    """The first stands in the passage word for word."""
    number: tuple[float, float] | None = None
    """The closed range of right values, in ``unit``."""
    unit: str = ""
    date: bool = False


def quantity(
    kind: str,
    section: str,
    question: str,
    value: float,
    written: str,
    unit: str = "",
    *,
    exact: bool = False,
) -> Fact:
    """A fact whose answer is a number: accepted as written, without separators, and with its unit."""
    bare = written.replace(",", "")
    with_unit = (f"{written} {unit}",) if unit else ()
    forms = (*with_unit, written, *((f"{bare} {unit}",) if unit else ()), bare)
    low, high = (
        (value, value)
        if exact
        else (round(value * (1 - WITHIN), 3), round(value * (1 + WITHIN), 3))
    )
    return Fact(kind, section, question, tuple(dict.fromkeys(forms)), (low, high), unit)


def _forms(first: str, *groups: Iterable[str]) -> tuple[str, ...]:
    """The first answer and the others, each once, none empty."""
    every = [first, *(form for group in groups for form in group), unaccented(first)]
    return tuple(dict.fromkeys(form.strip() for form in every if form.strip()))


def country_forms(name: str) -> tuple[str, ...]:
    """A country as the passage names it, and its other names."""
    return _forms(name, OTHER_NAMES.get(name, ()))


def _items(text: str) -> list[str]:
    """Items of a list: split at commas and semicolons outside brackets, articles and brackets taken off."""
    parts = re.split(r"[;,](?![^(]*\))", text)
    plain = [without_article(re.sub(r"\s*[\[(].*", "", part).strip()) for part in parts]
    return [part for part in plain if part]


def facts(entity: Entity, fields: dict[str, str]) -> dict[str, Fact]:
    """Kind -> fact, for every kind that the entity's fields support."""
    found: dict[str, Fact] = {}
    for maker in _MAKERS:
        for fact in maker(entity, fields):
            found.setdefault(fact.kind, fact)
    return found


def _capital(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    text = fields.get("Capital", "")
    name = re.split(r"\s*[;(]", text)[0].strip()
    several = re.search(
        r"administrative|legislative|constitutional|aka|judicial|no official|;", text
    )
    if name and not several and len(name) < 40 and norm(name) not in (norm(entity.name), "none"):
        yield Fact(
            "capital", "state", "What is the capital of {X}?", _forms(name, _CAPITALS.get(name, ()))
        )


def _highest_point(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    text = fields.get("Highest point", "")
    match = re.match(r"^(?!unnamed)([^\d(;]{3,60}?)\s+(?:\(([^)]*)\)\s*)?([\d,.]+) ?m\b", text)
    if not match:
        return
    full, bracket, height = match[1].strip(" -"), match[2] or "", match[3]
    name = re.split(r" on (?=[A-Z])", full)[0]
    alternative = (
        [] if re.search(r"highest|at |alternatively|volcano|peak of|on the", bracket) else [bracket]
    )
    forms = _forms(name, [full] if full != name else [], alternative, _POINTS.get(name, ()))
    yield Fact("highest_point", "geography", "What is the highest point of {X}?", forms)
    question = "How high, in metres, is the highest point of {X}?"
    yield quantity("elevation", "geography", question, float(height.replace(",", "")), height, "m")


def _currency(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    match = re.match(r"^(.{3,60}?)\s*\(([A-Z]{3})\)$", fields.get("Currency", ""))
    if match:
        plural = match[1] if match[1] in _CURRENCIES else f"{match[1]}s"
        forms = _forms(match[1], [plural], _CURRENCIES.get(match[1], ()), [match[2]])
        yield Fact("currency", "economy", "Which currency is used in {X}?", forms)


def _anthem(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    match = re.search(r'"([^"]{3,70})"\s*(?:\(([^)]{3,70})\))?', fields.get("National anthem", ""))
    if match:
        translated = [match[2]] if match[2] and norm(match[2]) not in norm(entity.name) else []
        forms = _forms(match[1].strip(" ,"), [title.strip('" ,') for title in translated])
        yield Fact("anthem", "symbols", "What is the title of the national anthem of {X}?", forms)


def _symbol(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    items = _items(fields.get("National symbol", ""))
    if items and len(items[0]) < 40 and not items[0].startswith("no "):
        question = (
            "Name a national symbol of {X}."
            if len(items) > 1
            else "What is the national symbol of {X}?"
        )
        others = [other for item in items for other in _SYMBOLS.get(item, ())]
        yield Fact("symbol", "symbols", question, _forms(items[0], items[1:], others))


def _independence(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    text = fields.get("Independence", "")
    match = re.match(r"^(\d{1,2} [A-Z][a-z]+ \d{4})\s*\(from (?:the )?([^;)]{2,40}?)(?:[;)])", text)
    if not match:
        return
    day = datetime.strptime(match[1], "%d %B %Y")
    forms = _forms(match[1], [f"{day:%B} {day.day}, {day.year}", f"{day:%Y-%m-%d}"])
    yield Fact(
        "independence_date", "state", "On what date did {X} become independent?", forms, date=True
    )
    power = _POWERS.get(match[2].strip(), match[2].strip()).removesuffix(
        "-administered UN trusteeship"
    )
    if power not in ("UN trusteeship", "French"):
        yield Fact(
            "independence_from",
            "state",
            "From which power did {X} gain independence?",
            country_forms(power),
        )


def _borders(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    found = re.findall(r"([A-Z][^;\d]*?)\s(\d[\d,.]*) km", fields.get("Border countries", ""))
    borders = sorted(
        ((name.strip(), length) for name, length in found),
        key=lambda b: -float(b[1].replace(",", "")),
    )
    if len(borders) < 3:
        return
    (longest, first), (_, second) = borders[:2]
    if float(first.replace(",", "")) > float(second.replace(",", "")):
        question = "With which neighbour does {X} share its longest land border?"
        yield Fact(
            "longest_border", "geography", question, country_forms(re.sub(r"\s*\(.*", "", longest))
        )
    neighbour, length = borders[-2]
    if "(" not in neighbour:
        question = f"How many kilometres long is the border between {{X}} and {_THE.get(neighbour, neighbour)}?"
        yield quantity(
            "border_km", "geography", question, float(length.replace(",", "")), length, "km"
        )


_THE = {
    name: f"the {name}"
    for name in ("Netherlands", "Philippines", "UK", "US", "Gambia", "Central African Republic")
}


def _coastline(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    match = re.match(r"^([\d,.]+) km$", fields.get("Coastline", ""))
    if match and match[1] != "0":
        question = "How long is the coastline of {X}, in kilometres?"
        yield quantity(
            "coastline", "geography", question, float(match[1].replace(",", "")), match[1], "km"
        )


def _exports(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    partners = fields.get("Export partners", "")
    match = re.match(r"^([A-Z][A-Za-z' .\-]+?) (\d+)%.*\((\d{4})\)", partners)
    if match:
        question = f"In {match[3]}, which country was the largest export partner of {{X}}?"
        yield Fact("export_partner", "economy", question, country_forms(match[1]))
    questions = {
        "export_commodity": (
            "Export commodities",
            "In {year}, what was the top export commodity, by value, of {{X}}?",
        ),
        "crop": (
            "Agricultural products",
            "In {year}, which agricultural product ranked first by tonnage in {{X}}?",
        ),
    }
    for kind, (label, question) in questions.items():
        text = fields.get(label, "")
        year = re.search(r"\((\d{4})", text)
        first = text.split(",")[0].strip()
        if year and 2 < len(first) < 40 and "(" not in first and first not in _DULL:
            parts = first.split("/") if "/" in first else []
            yield Fact(
                kind,
                "economy",
                question.format(year=year[1]),
                _forms(first, parts, _GOODS.get(first, ())),
            )


def _airports(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    match = re.match(r"^(\d[\d,]*) \((\d{4})\)", fields.get("Airports", ""))
    if match and int(match[1].replace(",", "")) > 3:
        question = f"In {match[2]}, how many airports did {{X}} have?"
        yield quantity(
            "airports", "people", question, float(match[1].replace(",", "")), match[1], exact=True
        )


def _aircraft_prefix(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    prefix = fields.get("Civil aircraft registration prefix", "")
    if re.match(r"^[A-Z0-9]{1,3}$", prefix):
        question = "What is the civil aircraft registration prefix of {X}?"
        yield Fact("aircraft_prefix", "people", question, (prefix,))


def _heritage(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    match = re.match(r"^(\d+) \(", fields.get("World Heritage Sites", ""))
    if match and int(match[1]) > 1:
        question = "How many UNESCO World Heritage Sites does {X} have?"
        yield quantity("heritage", "symbols", question, float(match[1]), match[1], exact=True)


def _former_name(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    names = [
        name for name in _items(fields.get("Former name", "")) if norm(name) != norm(entity.name)
    ]
    if names and len(names[0]) < 50:
        question = (
            "What is one former name of {X}?"
            if len(names) > 1
            else "What was the former name of {X}?"
        )
        yield Fact("former_name", "state", question, _forms(names[0], names[1:]))


def _population(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    match = re.match(r"^([\d,]{6,}) \((\d{4})", fields.get("Population", ""))
    if match:
        value = int(match[1].replace(",", ""))
        question = f"In {match[2]}, what was the estimated population of {{X}}?"
        fact = quantity("population", "people", question, float(value), match[1])
        rounded = (f"{value / 1e6:.1f} million",) if value >= 1_000_000 else ()
        yield Fact(fact.kind, fact.section, question, (*fact.answers, *rounded), fact.number)


def _flag_meaning(entity: Entity, fields: dict[str, str]) -> Iterator[Fact]:
    pattern = (
        rf"\b({_COLOURS})(?: color| band| stripe| field| background)? (?:stands for|represents|symbolizes|is for) "
        r"((?:the )?[^,;]{3,60}?)(?=[,;]|\.? ?$)"
    )
    for colour, meaning in re.findall(pattern, fields.get("Meaning of the flag", "")):
        shown = re.sub(rf"\s+and (?:{_COLOURS}).*", "", meaning)
        short = re.sub(r"^(?:the (?:country|island|nation)'s|its) ", "", shown)
        short = (
            without_article(short) if " the " not in short and " and the " not in short else short
        )
        if (
            short
            and len(short) <= 48
            and "(" not in short
            and not re.search(r"\b(?:stand|represent)", short)
        ):
            forms = _forms(
                short,
                [shown, without_article(shown)],
                [shown.replace("vigor", "vigour")],
                _MEANINGS.get(short, ()),
            )
            question = f"What does the {colour} in the flag of {{X}} stand for?"
            yield Fact("flag_meaning", "symbols", question, forms)


_MAKERS = (
    _capital,
    _highest_point,
    _currency,
    _anthem,
    _symbol,
    _independence,
    _borders,
    _coastline,
    _exports,
    _airports,
    _aircraft_prefix,
    _heritage,
    _former_name,
    _population,
    _flag_meaning,
)
