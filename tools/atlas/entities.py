"""Countries and territories: which ones Atlas has, what they are called, and by what other names."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from tools.atlas.factbook import Profile, profiles
from tools.atlas.inputs import FLAGS

LEFT_OUT = {"ps", "hm", "mf", "pm", "wf", "bl", "sh", "sj", "bv", "um", "aq"}
"""A flag that is a sovereign's too, or two profiles under one code."""

NAMES = {
    "kp": "North Korea",
    "kr": "South Korea",
    "cd": "Democratic Republic of the Congo",
    "cg": "Republic of the Congo",
    "mm": "Burma",
    "do": "Dominican Republic",
    "cc": "Cocos (Keeling) Islands",
    "vi": "U.S. Virgin Islands",
    "bs": "Bahamas",
    "gm": "Gambia",
}
"""ISO code -> name, where the profile's short form is missing, cut or would mislead."""

WITH_ARTICLE = {
    "us",
    "gb",
    "nl",
    "ph",
    "ae",
    "bs",
    "gm",
    "mh",
    "sb",
    "mv",
    "km",
    "cf",
    "do",
    "cd",
    "cg",
    "va",
    "fk",
    "ky",
    "tc",
    "vg",
    "vi",
    "fo",
    "ck",
    "mp",
    "cc",
    "tf",
    "fm",
    "io",
    "im",
    "pn",
}
"""Names that take "the" inside a sentence."""

OTHER_NAMES = {
    "USA": ["US", "U.S.", "United States", "United States of America", "America"],
    "US": ["USA", "U.S.", "United States", "United States of America"],
    "UK": ["United Kingdom", "Great Britain", "Britain", "U.K."],
    "UAE": ["United Arab Emirates", "U.A.E.", "Emirates"],
    "Burma": ["Myanmar"],
    "Turkey": ["Türkiye", "Turkiye"],
    "Czechia": ["Czech Republic"],
    "Cote d'Ivoire": ["Côte d'Ivoire", "Ivory Coast"],
    "Democratic Republic of the Congo": ["DRC", "DR Congo", "Congo-Kinshasa", "D.R. Congo"],
    "Netherlands": ["the Netherlands", "Holland"],
    "Russia": ["Russian Federation"],
    "China": ["People's Republic of China", "PRC"],
    "S. Korea": ["South Korea", "Republic of Korea"],
    "Soviet Union": ["USSR", "U.S.S.R.", "Union of Soviet Socialist Republics"],
    "Soviet Russia": ["Russia", "Russian SFSR"],
    "Ottoman Empire": ["Turkey", "Ottomans"],
    "State Union of Serbia and Montenegro": ["Serbia and Montenegro"],
    "Egypt and the UK": [
        "Egypt and the United Kingdom",
        "UK and Egypt",
        "United Kingdom and Egypt",
        "Egypt and Britain",
    ],
    "British India": ["British Raj", "UK", "United Kingdom", "Britain"],
    "Eswatini": ["Swaziland"],
    "North Macedonia": ["Macedonia"],
}
"""Name as the Factbook writes it in a list -> other names that are just as right."""


def unaccented(text: str) -> str:
    """The text without accents: ``Bogotá`` -> ``Bogota``."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def norm(text: str) -> str:
    """Lower case, compatibility forms folded, runs of white space as one space."""
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).strip().lower()


def without_article(text: str) -> str:
    """``the sky`` -> ``sky``."""
    return re.sub(r"^(?:the|a|an) ", "", text)


@dataclass(frozen=True)
class Entity:
    """A country or a territory."""

    iso: str
    """ISO 3166-1 alpha-2 in lower case; the page of its documents."""
    name: str
    number: str
    """ISO 3166-1 numeric, three digits; "" where there is none."""
    dependent: bool
    """True for territories: they have documents, and no question is asked about them."""
    profile: Profile

    @property
    def in_sentence(self) -> str:
        """The name as it stands inside a sentence, with its article."""
        return f"the {self.name}" if self.iso in WITH_ARTICLE else self.name


def entities(inputs: Path, factbook: Path) -> dict[str, Entity]:
    """ISO code -> entity, for every profile that has one internet code and a flag."""
    import pycountry

    found: dict[str, Entity] = {}
    for profile in profiles(factbook):
        codes = re.findall(r"\.([a-z]{2})\b", profile.text("Communications/Internet country code"))
        iso = (
            "fr"
            if profile.code == "fr"
            else codes[0]
            if len(codes) == 1 and profile.code != "ip"
            else ""
        )
        iso = {"uk": "gb"}.get(iso, iso)
        name = NAMES.get(iso) or _short_name(profile)
        if (
            not iso
            or not name
            or iso in found
            or iso in LEFT_OUT
            or not (inputs / FLAGS / f"{iso}.svg").exists()
        ):
            continue
        known = pycountry.countries.get(alpha_2=iso.upper())
        found[iso] = Entity(
            iso=iso,
            name=name,
            number=known.numeric if known else "",
            dependent=bool(profile.text("Government/Dependency status")),
            profile=profile,
        )
    return found


def _short_name(profile: Profile) -> str:
    short = profile.text("Government/Country name/conventional short form")
    if not short or short.lower() == "none":
        short = profile.text("Government/Country name/conventional long form")
    return re.sub(r"\s*[(;].*", "", short).strip()
