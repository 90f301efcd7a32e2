"""Text made comparable: normalisation, and words with their positions.

Only English articles and number words are language-specific. Scripts written without spaces (Han, kana, Thai, Lao,
Khmer, Burmese) are one word per character, so that sequences of words are found in them too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import NamedTuple, TypeVar

from demur.core.text import stream_safe

T = TypeVar("T")

_SPACELESS = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_INDIC = "\u0900-\u0963\u0966-\u0dff"  # their vowel signs are marks, which \w leaves out
_LETTER = rf"(?:(?![{_SPACELESS}])[^\W_]\u0307?|[{_INDIC}])"  # a small Turkish i of two signs
_WORD = re.compile(
    rf"(?P<initials>(?<![^\W_])[^\W\d_](?:\.[^\W\d_])+(?![^\W_])\.?|(?<![^\W_])(?:[A-Z]\.[ ]?){{2,8}}(?=[A-Z][^\W\d_]))"
    rf"|(?P<grouped>(?<![\d,.])\d{{1,3}}(?:,\d{{3}})+(?!\d)(?:\.\d+)?{_LETTER}*)"
    rf"|[{_SPACELESS}]"
    rf"|{_LETTER}+(?:(?<=\d)\.(?=\d){_LETTER}+)*(?:(?<=[^\W\d_])[+\#]{{1,2}}(?![^\W_]))?",
    re.VERBOSE,
)
_FINE_SPACE = re.compile("(?<=\\d)[\u00a0\u202f\u2009'\u2019](?=\\d{3}(?!\\d))")
_POINTED = re.compile(r"(?<![\w.,])\d{1,3}(?:\.\d{3}){2,}(?![\w]|[.,]\d)")
"""Points between several groups of three digits: 1.234.567."""
_INDIAN = re.compile(r"(?<![\d,.])\d{1,2}(?:,\d\d)+,\d{3}(?![\d,])")
_DECADE = re.compile(r"(?<=\d0)'s(?![^\W_])")
_MARKS = re.compile("[\u0300-\u036f\u093c]")
_POINTING = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u200c\u200d]"
)
"""Vowel signs that Hebrew and Arabic may leave out, the stroke that lengthens a word, and joiners."""
_NASAL = re.compile("[\u0919\u091e\u0923\u0928\u092e]\u094d(?=[\u0915-\u092e])|\u0901")
"""A nasal that Hindi also writes as a point: \u0939\u093f\u0928\u094d\u0926\u0940, \u0939\u093f\u0902\u0926\u0940."""
_TRADITIONAL = (
    "無法確認識別斷觀資訊圖們沒關說讀應該個這為從據問題顯內數檢繪頁後於難請給並當實與時結論對來誰記載猜測"
    "細節絡線證詳義處傷類協評發報導權辦聽見過還額補傳澄開護選擇願質獲達標註寫歸僅係顏顧務優麼嗎裡裏臺歡滿"
    "號將會長東萬灣國學廣島龍馬陳張劉黃吳楊趙孫鄭馮蔣葉蘇盧鄧許韓羅謝蕭錢貴華藍紅綠銀鐵銅車門樓橋廟場館園"
    "澤濱縣區鄉鎮雲風鳥魚貓雞豬蘭蓮蘋檸麥熱氣電燈飛機鐘錶書筆畫樂劇戲藝術聖漢寧滬瀋陽陰濟蘆溫峯羣眾衛齊齋"
    "壽寶愛總統軍戰隊師醫藥員黨產業農礦煙鹽湯麵飯餅雙兩億點圓邊視語歐亞倫紐約爾維納薩慶贛遼魯豐鴨鵝獅蝦蟲"
    "樹種顆條隻間歲"
)
_SIMPLIFIED = (
    "无法确认识别断观资讯图们没关说读应该个这为从据问题显内数检绘页后于难请给并当实与时结论对来谁记载猜测"
    "细节络线证详义处伤类协评发报导权办听见过还额补传澄开护选择愿质获达标注写归仅系颜顾务优么吗里里台欢满"
    "号将会长东万湾国学广岛龙马陈张刘黄吴杨赵孙郑冯蒋叶苏卢邓许韩罗谢萧钱贵华蓝红绿银铁铜车门楼桥庙场馆园"
    "泽滨县区乡镇云风鸟鱼猫鸡猪兰莲苹柠麦热气电灯飞机钟表书笔画乐剧戏艺术圣汉宁沪沈阳阴济芦温峰群众卫齐斋"
    "寿宝爱总统军战队师医药员党产业农矿烟盐汤面饭饼双两亿点圆边视语欧亚伦纽约尔维纳萨庆赣辽鲁丰鸭鹅狮虾虫"
    "树种颗条只间岁"
)
_VARIANTS = str.maketrans(
    dict(zip(_TRADITIONAL, _SIMPLIFIED, strict=True))
    | dict(zip("ىیکأإآٱةہھ", "ييكااااههه", strict=True))  # Persian and Urdu letters, hamza on alif
    | dict(zip("۰۱۲۳۴۵۶۷۸۹٠١٢٣٤٥٦٧٨٩०१२३४५६७८९", "0123456789" * 3, strict=True))
)
_PLAIN = str.maketrans(
    {
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "ł": "l",
        "ħ": "h",
        "ı": "i",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "ŧ": "t",
        "ĸ": "k",
    }
)
_SIGNS = str.maketrans(
    {
        "\u2212": "-",
        "\u2010": "-",
        "\u2011": "-",
        "\u2012": "-",
        "\u2013": "-",
        "\u2014": "-",
        "\u2015": "-",
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "&": " and ",
        "\u00ad": None,
        "\u200b": None,
        "½": ".5",
        "¼": ".25",
        "¾": ".75",
        "⁄": "/",
    }
)
ARTICLES = frozenset({"the", "an"})


def remembered(function: Callable[[str], T]) -> Callable[[str], T]:
    """Cache a function of a text: for many short texts and a few long ones, so that memory is bounded."""
    short, long = lru_cache(2048)(function), lru_cache(8)(function)

    @wraps(function)
    def call(text: str) -> T:
        return (short if len(text) <= _SHORT else long)(text)

    return call


_SHORT = 2_000
"""Characters of a short text: a passage, or a long answer."""


def both_ends(answer: str) -> str:
    """The part of a reply that is judged: all of it, or its first and last 10,000 characters."""
    return answer if len(answer) <= 2 * _END else f"{answer[:_END]}\n{answer[-_END:]}"


_END = 10_000


_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_LAYOUT = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]|[->*\u2022\u00b7\u2013][ \t]+(?!\d))"  # a heading, a quotation or a bullet
    r"|```\w{0,20}$|`|\*\*(?!\d)|(?<!\d)\*\*|(?<!\w)_{1,2}(?=\S)|(?<=\S)_{1,2}(?!\w)"  # code, bold, italics
    r"|(?<!\bis)(?<!\bare)(?<!\bwas)(?<!answer)(?<!option)(?<=[^\s:=])[ \t]?"  # no source: "the answer is [2]"
    r"[\[\u3010]\^?\d{1,3}(?:, ?\d{1,3}){0,2}[\]\u3011]"
    r"|(?<=\S)[ \t]?[\[(](?:source|document|doc|passage|context|ref)s?\.?[ :#]{0,2}\d{1,3}[\])]",
    re.MULTILINE | re.IGNORECASE,
)
_MARKUP_TAG = re.compile(r"</?[a-z][^<>\n]{0,80}>", re.IGNORECASE)
_OPENER = re.compile(
    r"(?:sure(?: thing)?|okay|ok|hi|hello|(?:great|good) question)[!:] (?=\w)", re.IGNORECASE
)
"""What chat models say before a reply; where it is the reply, it stays."""
_BLANKS = re.compile(r"(?<!\d)[^\S\n]+|[^\S\n]+(?!\d)|\r(?=\n)")
_AROUND = re.compile(
    '["\'\u201c\u201e\u00ab\u300c\u300e(*]{1,2}([^"\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f()*\n]+)'
    "[\"'\u201c\u201d\u00bb\u300d\u300f)*]{1,2}([.!]?)"
)


@remembered
def unformatted(reply: str) -> str:
    """A reply without what only lays it out: blanks, invisible characters, bold type, bullets, tags, sources' numbers.

    >>> unformatted("- **Not**  Paris, but <b>Lyon</b> [1]."), unformatted('"Lyon"')
    ('Not Paris, but Lyon.', 'Lyon')
    """
    text = unicodedata.normalize("NFC", stream_safe(_INVISIBLE.sub("", reply)))
    text = _LAYOUT.sub("", _BLANKS.sub(" ", _MARKUP_TAG.sub(" ", text)).strip()).strip()
    text = _AROUND.sub(r"\1\2", text) if _AROUND.fullmatch(text) else text
    return text[opener.end() :] if (opener := _OPENER.match(text)) else text


class Places:
    """The taken spans of a text; adding and asking take time in proportion to the span.

    Args:
        text: only its length counts.
    """

    def __init__(self, text: str) -> None:
        self._taken = bytearray(len(text))

    def add(self, start: int, end: int) -> None:
        """Take a span."""
        self._taken[start:end] = b"\1" * (end - start)

    def meet(self, start: int, end: int) -> bool:
        """Whether any character of a span is taken."""
        return self._taken.find(1, start, end) >= 0


class Word(NamedTuple):
    """One word of a text: its folded form, its form as written, and its span in the readable text."""

    norm: str
    raw: str
    start: int
    end: int


@remembered
def readable(text: str) -> str:
    """The text with uniform characters: NFKC, one kind of dash and quote, commas between digit groups."""
    text = _POINTED.sub(lambda match: match.group().replace(".", ","), _FINE_SPACE.sub(",", text))
    text = _INDIAN.sub(lambda match: f"{int(match.group().replace(',', '')):,}", text)  # 12,34,567
    if not text.isascii():
        text = re.sub(r"(?<!\d)([½¼¾])", r"0\1", _POINTING.sub("", text))
    return _DECADE.sub(
        "s", unicodedata.normalize("NFKC", stream_safe(text.translate(_SIGNS))).translate(_SIGNS)
    )


def fold(word: str) -> str:
    """One word without case, accents or abbreviation points: ``Łódź`` -> ``lodz``."""
    if word.isascii():
        return word.lower()
    return _folded(word) if len(word) <= 40 else _folded.__wrapped__(word)


@lru_cache(maxsize=65536)
def _folded(word: str) -> str:
    word = stream_safe(word)
    for _ in range(
        3
    ):  # case folding can undo a composition, and the other way round; three rounds always converge
        word = unicodedata.normalize("NFKD", word.casefold()).translate(_PLAIN)
        word = unicodedata.normalize("NFKC", _MARKS.sub("", word))
    return _NASAL.sub("\u0902", word.translate(_VARIANTS))


@remembered
def words(text: str) -> tuple[Word, ...]:
    """The words of ``readable(text)`` in order; punctuation separates, thousands separators do not.

    >>> [w.norm for w in words("The U.S. paid 2,640 francs.")]
    ['the', 'us', 'paid', '2640', 'francs']
    """
    all_words = []
    for match in _WORD.finditer(readable(text)):
        raw = match.group()
        if match["initials"]:
            raw = re.sub(r"[.\s]", "", raw)
        elif match["grouped"]:
            raw = raw.replace(",", "")
        all_words.append(Word(fold(raw), raw, match.start(), match.end()))
    return tuple(all_words)


def normalise(text: str) -> str:
    """The text as words and single spaces: NFKC, without case, accents and punctuation.

    Articles are dropped: ``the`` and ``an`` anywhere, ``a`` only at the beginning (elsewhere it may be a letter, as in
    *vitamin A*). A text of articles alone is kept. Idempotent.

    >>> normalise("The  Café-Bar, É.U.!")
    'cafe bar eu'
    >>> normalise("2,640 m") == normalise("2640 m")
    True
    """
    norms = [w.norm for w in words(text)]
    without_articles = [w for w in norms if w not in ARTICLES]
    lead = next(
        (i for i, word in enumerate(without_articles) if word != "a"), len(without_articles) - 1
    )
    return " ".join(without_articles[max(lead, 0) :] or norms)
