import random
from itertools import pairwise

import pytest
import tokenizers
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.errors import UsageError
from demur.core.records import Document, ImageRef
from demur.corpora.lineage import document_of
from demur.indexing import chunk
from demur.indexing.chunk import Chunker, plain_offsets, sentences, tokenizer_offsets


def prose(seed, sentences=40, longest=60):
    rng = random.Random(seed)
    made = []
    for _ in range(sentences):
        words = ["w" * rng.randint(1, 9) for _ in range(rng.randint(2, longest))]
        made.append(" ".join(["The", *words]) + rng.choice([".", "!", "?"]))
    return " ".join(made)


def tokens_of(text):
    return plain_offsets([text])[0]


texts = st.text(st.sampled_from("aB.! ?\n1,é中"), max_size=300)


@settings(deadline=None, max_examples=examples(200))
@given(texts, st.integers(2, 30), st.data())
def test_rules_hold_for_any_text(text, size, data):
    overlap = data.draw(st.integers(0, (size - 1) // 2))
    chunker = Chunker(size, overlap)
    passages = chunker.cut([text])[0]
    tokens = tokens_of(text)
    assert bool(passages) == bool(tokens)
    covered, before = 0, None
    for passage in passages:
        inside = [i for i, (a, b) in enumerate(tokens) if a >= passage.start and b <= passage.end]
        assert len(inside) == passage.tokens <= size  # the cap is hard
        assert inside[0] <= covered  # nothing is lost
        assert covered - inside[0] <= overlap
        assert inside[-1] + 1 > covered  # each passage brings something new
        if before is not None:
            assert passage.start > before
        covered, before = inside[-1] + 1, passage.start
    assert covered == len(tokens)
    assert chunker.counts.passages == len(passages)


@pytest.mark.parametrize("repeats", [0, 1, 40])
@settings(deadline=None, max_examples=examples(100))
@given(texts, st.integers(2, 30), texts)
def test_the_first_passage_needs_no_more_than_the_head_of_a_text(repeats, text, size, more):
    whole = text + repeats * (more + prose(size, 3, 40))
    read = []

    def offsets(texts):
        read.extend(map(len, texts))
        return plain_offsets(texts)

    passages = Chunker(size, 0).cut([whole])[0]
    expected = whole[passages[0].start : passages[0].end] if passages else whole
    chunker = Chunker(size, 0, offsets)
    assert chunker.first(whole) == expected
    assert chunker.counts == chunk.Counts()
    if len(whole) > 8000:
        assert max(read) < len(whole)


@pytest.mark.parametrize("seed", range(5))
def test_passages_end_at_sentences_and_overlap(seed):
    text = prose(seed)
    chunker = Chunker(250, 32)
    passages = chunker.cut([text])[0]
    ends = {end for _, end in sentences(text)}
    assert chunker.counts.cut_sentences == 0
    assert all(passage.end in ends for passage in passages)
    tokens = tokens_of(text)
    for one, other in pairwise(passages):
        shared = sum(other.start <= a and b <= one.end for a, b in tokens)
        assert 0 < shared <= 32


def test_a_long_sentence_is_cut_at_words_and_counted():
    text = "Short one. " + "word-like " * 400 + "end. And more."
    chunker = Chunker(250, 32)
    passages = chunker.cut([text])[0]
    assert chunker.counts.cut_sentences >= 4
    assert max(p.tokens for p in passages) <= 250
    for passage in passages:
        assert text[passage.start - 1 : passage.start] in ("", " ")
        assert text[passage.end : passage.end + 1] in ("", " ")


def test_a_sentence_that_fits_is_never_cut_for_the_overlap():
    text = "One two three four five. Then " + "word " * 244 + "end. Fin."
    chunker = Chunker(250, 32)
    assert [p.tokens for p in chunker.cut([text])[0]][1] >= 247
    assert chunker.counts.cut_sentences == 0


def test_sentences():
    text = 'The U.S. Army paid $3.5 m. Mr. Smith left at 5 p.m. "Why?" he asked. No. 7 won\n\nA heading\n\nJan. was cold.'
    assert [text[a:b] for a, b in sentences(text)] == [
        "The U.S. Army paid $3.5 m.",
        'Mr. Smith left at 5 p.m. "Why?" he asked.',
        "No. 7 won",
        "A heading",
        "Jan. was cold.",
    ]


def test_with_a_tokenizer_batched_equals_one_by_one():
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({"[UNK]": 0, "w": 1, "##w": 2, "the": 3, ".": 4})
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=12)
    offsets = tokenizer_offsets(tokenizer)
    assert tokenizer.truncation["max_length"] == 5, "others share it"
    tokenizer.no_truncation()
    tokenizer.no_padding()
    made = [prose(seed, 20) for seed in range(6)]
    together = Chunker(100, 12, offsets).cut(made)
    alone = [Chunker(100, 12, offsets).cut([text])[0] for text in made]
    assert together == alone
    assert max(p.tokens for ps in together for p in ps) <= 100
    for passage in together[0]:
        count = len(
            tokenizer.encode(made[0][passage.start : passage.end], add_special_tokens=False).ids
        )
        assert count == passage.tokens


odd = st.text(
    st.sampled_from(
        "abW .,!?-'\n\t\r\u00a0\u2003\u3000\u0085\x1c\x00\ufffd\u0301\u00e9\u4e2d\u200b\U0001f600[SEP]09"
    )
)


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(odd, max_size=5))
def test_remembered_tokens_are_those_of_the_whole_text(texts):
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {t: n for n, t in enumerate(["[UNK]", "[SEP]", "a", "##b", "w", "##w", "e", ".", "中"])}
        )
    )
    tokenizer.add_special_tokens(["[SEP]"])
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    for normalizer in (
        tokenizers.normalizers.BertNormalizer(),
        tokenizers.normalizers.Lowercase(),
        None,
    ):
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        assert chunk._separated_by_blanks(tokenizer)
        whole = [
            [span for span in encoding.offsets if span[1] > span[0]]
            for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)
        ]
        assert tokenizer_offsets(tokenizer)(texts) == whole


def test_pieces_are_forgotten_in_time(monkeypatch):
    monkeypatch.setattr(chunk, "CACHED", 3)
    asked = []
    of = chunk._cache_offsets(lambda pieces: asked.extend(pieces) or plain_offsets(pieces))
    for text in ("a b", "b c, d", "a"):
        assert of([text]) == plain_offsets([text])
    assert [sorted(text.split()) for text in asked] == [["a", "b"], ["c,", "d"], ["a"]]


def test_tokenizers_that_look_across_blanks_are_asked_for_whole_texts():
    bert = tokenizers.Tokenizer(tokenizers.models.WordPiece({"[UNK]": 0}))
    assert not chunk._separated_by_blanks(bert)  # nothing parts words
    bert.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    assert chunk._separated_by_blanks(bert)
    bert.add_special_tokens([tokenizers.AddedToken("<m>", lstrip=True)])
    assert not chunk._separated_by_blanks(bert)
    byte_level = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    assert not chunk._separated_by_blanks(byte_level)


def test_articles_become_passages():
    image = ImageRef(sha256="0" * 64, uri="a.png", width=3, height=4)
    articles = [
        Document(
            id="Q1",
            title="Bridge",
            text=prose(1, 30),
            image=image,
            attributes={"summary": "A bridge."},
            source="kb",
        ),
        Document(
            id="Q3",
            title="Blank",
            text=" ",
            image=image,
            page="Q1",
            attributes={"summary": "A view."},
        ),
        Document(id="pic", title="caption", image=image, page="Q1"),
    ]
    chunker = Chunker(100, 10)
    made = list(chunker.documents(articles, batch=2))
    passages = [d for d in made if d.text is not None]
    assert [d.id for d in passages] == [f"Q1#{n}" for n in range(len(passages))]
    assert {d.page for d in made} == {"Q1"}
    assert {d.title for d in passages} == {"Bridge"}
    assert [d.attributes for d in made if d.id == "Q3#image"] == [{"summary": "A view."}]
    assert passages[0].attributes == {"summary": "A bridge."}
    assert passages[1].attributes == {}
    assert [document_of(d) for d in made] == ["Q1"] * (len(made) - 2) + ["Q3", "pic"]
    assert [d.id for d in made if d.image is not None] == ["Q1#image", "Q3#image", "pic"]
    assert list(Chunker(100, 10).documents(articles, batch=1)) == made


def test_empty_texts_pass_through_to_be_named():
    empty = [Document(id="e", title="Empty", text=""), Document(id="w", title="Blank", text=" \n ")]
    made = list(Chunker(100, 10).documents([*empty, Document(id="a", title="A", text="A word.")]))
    assert made[:2] == empty
    assert [d.id for d in made[2:]] == ["a#0"]


@pytest.mark.parametrize(("size", "overlap"), [(1, 0), (10, 5), (10, -1)])
def test_impossible_sizes(size, overlap):
    with raises(UsageError, cure="overlap"):
        Chunker(size, overlap)
