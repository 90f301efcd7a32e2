"""Yes or no: the side that a text takes with its first word, in eighteen languages."""

from __future__ import annotations

import re

from demur.answers.text import fold, readable

SIDES = {
    "yes": "yes",
    "yeah": "yes",
    "yep": "yes",
    "true": "yes",
    "no": "no",
    "nope": "no",
    "nah": "no",
    "false": "no",
}
"""English word -> its side."""
_WORDS = {
    "yes": "sí sim sì si oui ja jawohl tak evet bai да نعم أجل بله हाँ हां 是 是的 对 對 はい ええ 네 예 correct right vero falso".split()[
        :-1
    ],
    "no": "non não nao nein nee nie hayır ez нет لا كلا خیر नहीं 不 不是 否 没有 沒有 いいえ 아니요 아니오 아뇨 incorrect wrong falso".split(),
}
_SIDE = {fold(word): side for side, words in _WORDS.items() for word in words} | SIDES
_FIRST = re.compile(
    r"(?:जी )?((?:[^\W\d_]|[\u0900-\u0963])+)(?P<rest>$|\s?[,.;:!\u3002\uff0c\uff01\u3001\u060c\u0964\u2013\u2014-].*)",
    re.DOTALL,
)
_BOTH = re.compile(r"\W{0,20}(?:and|or|but|y|e|und|et) ", re.IGNORECASE)


def side(text: str) -> str:
    """The side, "yes" or "no", of a text that is or begins with such a word, set off from what follows; else "".

    >>> side("No."), side("नहीं।"), side("No idea."), side("Sí, claro."), side("Nothing")
    ('no', 'no', '', 'yes', '')
    """
    first = _FIRST.match(readable(text).strip(" \"'*"))
    if first is None:
        return ""
    first_side = _SIDE.get(fold(first[1]), "")
    second = _FIRST.match(_BOTH.sub("", first["rest"].strip(" ,.;:!-")))
    second_side = _SIDE.get(fold(second[1]), "") if second else ""
    return "" if second_side and second_side != first_side else first_side
