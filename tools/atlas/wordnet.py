"""WordNet 3.0 glosses out of the dictd file that Debian's ``dict-wn`` ships."""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path

from tools.atlas.inputs import WORDNET


@cache
def _entries(path: Path) -> dict[str, str]:
    """Head word, as written and in lower case -> the indented lines below it."""
    entries: dict[str, str] = {}
    head = ""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if not line[:1].isspace():
                head = line.strip()
                entries[head] = ""
            elif head:
                entries[head] += line
    return {head.lower(): text for head, text in entries.items()} | entries


def gloss(inputs: Path, lemma: str, sense: int, title: str) -> str:
    """One sense as a sentence: ``Koala: sluggish tailless ... bark. Also called: koala bear, ...``.

    Raises:
        KeyError: WordNet has no such word or sense.
    """
    entry = _entries(inputs / WORDNET)[lemma]
    senses = re.split(r"\n\s+(?:(?:n|v|adj|adv) )?(?=\d+: )", "\n" + entry.rstrip())
    found = [re.sub(r"\s+", " ", text) for text in senses if re.match(rf"{sense}: ", text)]
    if not found:
        raise KeyError(f"WordNet has no sense {sense} of {lemma!r}")
    noun = found[-1]  # a lemma that is an adjective too has two senses 1; the noun's comes last
    other_names = dict.fromkeys(
        name for name in re.findall(r"\{([^}]*)\}", noun) if name.lower() != title.lower()
    )
    text = re.sub(r"\s*\[(?:syn|ant).*", "", noun.split(": ", 1)[1])
    text = re.sub(r"(?<=\w)- (?=[a-z])", "-", text)  # a word broken at the end of a line
    text = text.replace("`", "'").strip(" ;")
    also = f" Also called: {', '.join(other_names)}." if other_names else ""
    return f"{title}: {text}.{also}"
