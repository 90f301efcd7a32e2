import errno
import json
import os
import random
import re
import unicodedata
from itertools import groupby, pairwise
from pathlib import Path

import bm25s
import numpy as np
import pytest
from errors import raises
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from demur.core.errors import IndexFileError, StorageError, UsageError
from demur.indexing import bm25
from demur.indexing.bm25 import BM25, build_bm25, words


def zipf(n, vocabulary=300, longest=40, seed=0):
    rng = random.Random(seed)
    pool = [f"w{i}" for i in range(vocabulary)]
    weights = [1 / (i + 1) for i in range(vocabulary)]
    return [
        " ".join(rng.choices(pool, weights=weights, k=rng.randint(0, longest))) for _ in range(n)
    ]


def built(tmp_path, texts):
    return BM25(tmp_path / "lucene", build_bm25(texts, tmp_path / "lucene"))


def test_candidates_are_ranked_as_among_all_and_what_shares_no_word_is_left_out(tmp_path):
    index = built(tmp_path, ["w1 w2", "w2", "w3", "w1 w1 w2"])
    some = [np.array([3, 0, 2, 0])] * 2
    assert index.search_subset(["w1", "unheard"], some, 3).rows.tolist() == [
        [3, 0, -1],
        [-1, -1, -1],
    ]
    with raises(UsageError, "0", item="k"):
        index.search(["w1"], 0)


@pytest.mark.reference
def test_lucene_scores_are_those_of_bm25s(tmp_path):
    texts = zipf(400)
    index = built(tmp_path, texts)
    peer = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    peer.index([words(t) for t in texts], show_progress=False)
    for query in texts[:30]:
        if words(query):
            assert np.allclose(
                index.scores(query), peer.get_scores(words(query)), rtol=1e-5, atol=1e-5
            )


def okapi(folder, texts):
    part = build_bm25(texts, folder, method="okapi")
    return BM25(folder, part), part["engine"]


@pytest.mark.reference
def test_okapi_is_rank_bm25_itself_and_beyond_its_size_has_the_same_scores(tmp_path, monkeypatch):
    texts = zipf(10_000, vocabulary=3000)
    queries = [" ".join(text.split()[:6]) for text in texts[:40]] + ["w0 w0 w1 unheard"]
    small, engine = okapi(tmp_path / "small", texts)
    assert engine == "rank-bm25"
    peer = BM25Okapi([words(text) for text in texts])
    for query in queries[-2:]:
        assert small.scores(query).tobytes() == peer.get_scores(words(query)).tobytes()
    monkeypatch.setattr(bm25, "RANK_BM25_MOST", 9_999)
    for least in (0, 1 << 60):  # compiled and plain
        monkeypatch.setattr(bm25, "NUMBA_FROM", least)
        large, engine = okapi(tmp_path / f"large-{least}", texts)
        assert engine == "bm25s"
        of_rank, of_bm25s = small.search(queries, 20), large.search(queries, 20)
        assert (of_rank.rows == of_bm25s.rows).all(), "ordered by (score, row)"
        assert np.allclose(of_rank.scores, of_bm25s.scores, rtol=0, atol=1e-5)
    candidates = [np.arange(0, 10_000, 7)] * len(queries)
    of_rank, of_bm25s = (index.search_subset(queries, candidates, 5) for index in (small, large))
    assert (of_rank.rows == of_bm25s.rows).all()


def test_a_corpus_without_words_and_a_foreign_list_of_words(tmp_path):
    index, engine = okapi(tmp_path / "none", ["", "..."])
    assert (engine, index.search(["one"], 1).rows.tolist()) == ("bm25s", [[-1]])
    part = build_bm25(["a b", "c"], tmp_path / "ix", method="okapi")
    file = next((tmp_path / "ix").glob("*.words.json"))
    for corpus in ([["a", "b"]], [["a"], "c"], {}):
        file.write_text(json.dumps(corpus))
        with raises(IndexFileError, "2", item=file):
            BM25(tmp_path / "ix", part)


def test_it_is_a_bm25s_index(tmp_path):
    texts = zipf(50)
    index = built(tmp_path, texts)
    other = bm25s.BM25.load(tmp_path / "lucene", load_vocab=True)
    assert np.allclose(other.get_scores(words(texts[3])), index.scores(texts[3]))


def test_postings_spooled_in_pieces_give_the_same_files(tmp_path, monkeypatch):
    texts = zipf(300)
    built(tmp_path / "whole", texts)
    monkeypatch.setattr(bm25, "SPOOL", 97)
    built(tmp_path / "pieces", texts)
    for name in sorted(os.listdir(tmp_path / "whole" / "lucene")):
        whole, pieces = (tmp_path / side / "lucene" / name for side in ("whole", "pieces"))
        assert whole.read_bytes() == pieces.read_bytes()


def test_ties_at_the_cut_go_by_row(tmp_path):
    index = built(tmp_path, ["alpha beta"] * 200 + ["gamma"] * 50)
    found = index.search(["alpha", "gamma"], 5)
    assert found.rows.tolist() == [[0, 1, 2, 3, 4], [200, 201, 202, 203, 204]]


def test_batches_do_not_matter(tmp_path):
    texts = zipf(500)
    index = built(tmp_path, texts)
    queries = [*texts[:60], "nothing known"]
    whole = index.search(queries, 20)
    for size in (1, 7):
        for start in range(0, len(queries), size):
            part = index.search(queries[start : start + size], 20)
            assert (part.rows == whole.rows[start : start + size]).all()
            assert part.scores.tobytes() == whole.scores[start : start + size].tobytes()


@pytest.mark.reference
def test_compiled_and_plain_agree(tmp_path, monkeypatch):
    pytest.importorskip("numba")
    texts = zipf(400)
    part = build_bm25(texts, tmp_path / "lucene")
    plain = BM25(tmp_path / "lucene", part).search(texts[:20], 10)
    monkeypatch.setattr(bm25, "NUMBA_FROM", 0)
    index = BM25(tmp_path / "lucene", part)
    assert index._engine.backend == "numba"
    fast = index.search(texts[:20], 10)
    assert (fast.rows == plain.rows).all()
    assert np.allclose(fast.scores[fast.rows >= 0], plain.scores[plain.rows >= 0], rtol=1e-6)


def test_among_candidates(tmp_path):
    index = built(tmp_path, ["red fox", "red hen", "blue fox", "green"])
    found = index.search_subset(["red fox"], [np.array([3, 1, 2, 1])], 3)
    assert sorted(found.rows[0, :2]) == [1, 2]
    assert found.rows[0, 2] == -1


def test_nothing_and_more_than_there_is(tmp_path):
    index = built(tmp_path, ["one two", "", "..."])
    assert index.search(["one", "?!"], 9).rows.tolist() == [[0, *[-1] * 8], [-1] * 9]
    assert built(tmp_path / "none", ["", ""]).search(["one"], 1).rows.tolist() == [[-1]]
    with raises(UsageError, "0", item="k"):
        index.search(["one"], 0)


def test_bad_parameters_and_files(tmp_path):
    part = build_bm25(["a b", "b c"], tmp_path / "ix")
    with raises(IndexFileError, "3 passages", item=tmp_path / "ix"):
        BM25(tmp_path / "ix", part | {"count": 3})
    (tmp_path / "ix" / "params.index.json").write_text("{")
    with raises(IndexFileError, item=tmp_path / "ix"):
        BM25(tmp_path / "ix", part)
    with pytest.raises(StorageError):
        BM25(tmp_path / "nowhere", part)


def test_a_full_disk_is_an_error_not_a_crash(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with raises(StorageError, item=tmp_path / "ix"):
        build_bm25(["a b", "b c"], tmp_path / "ix")


def test_words():
    assert words("Größe: ﬁve 7-fold, U.K.!") == ["grösse", "five", "7", "fold", "u", "k"]
    assert words("Donau\u00addampf\u00adschiff") == ["donaudampfschiff"]


def test_combining_marks_are_parts_of_words():
    assert words("हिन्दी भाषा, தமிழ்; שָׁלוֹם!") == ["हिन्दी", "भाषा", "தமிழ்", "שָׁלוֹם"]
    assert words("İstanbul ISTANBUL") == ["istanbul"] * 2
    assert words("Vie\u0302\u0323t Việt") == ["việt"] * 2
    assert words("ΟΔΟΣ οδος") == ["οδοσ"] * 2
    assert words("\u2764\ufe0f \u0301") == [], "marks alone are no word"


@given(
    st.text(
        st.one_of(
            st.characters(exclude_categories=["Cs"]),
            st.sampled_from("aé_9 -中\u0301\u093f\U000e0100"),
        )
    )
)
def test_words_are_runs_of_letters_digits_and_marks(text):
    assert words(text) == [part for word in words_between_blanks(text) for part in bigrams(word)]


@pytest.mark.parametrize(
    "text",
    [
        "Größe: ﬁve 7-fold",
        "हिन्दी भाषा, தமிழ்",
        "Việt שָׁלוֹם ΟΔΟΣ",
        "Москва Ереван Երեւան ქართული አማርኛ",
    ],
)
def test_a_script_with_blanks_has_the_words_between_them(text):
    assert words(text) == words_between_blanks(text)


def bigrams(word):
    """Where neighbours have signs of scripts without blanks, each two of them; by their Unicode names."""
    signs = []
    for character in word:
        is_mark = unicodedata.category(character)[0] == "M"
        script = re.split("[ -]", unicodedata.name(character, "?"))[0]
        if is_mark and signs:
            signs[-1] = (signs[-1][0], signs[-1][1] + character)
        else:
            signs.append((script in UNSPACED, character))
    for unspaced, group in groupby(signs, key=lambda sign: sign[0]):
        letters = [letter for _, letter in group]
        if not unspaced:
            yield "".join(letters)
        elif len(letters) == 1:
            yield letters[0]
        else:
            yield from (a + b for a, b in pairwise(letters))


UNSPACED = "CJK IDEOGRAPHIC HANGZHOU HIRAGANA KATAKANA HANGUL THAI LAO MYANMAR KHMER".split()


def test_signs_without_blanks_are_words_by_twos():
    assert words("東京タワーは333m") == ["東京", "京タ", "タワ", "ワー", "ーは", "333m"]
    assert words("龍 ﾀﾞﾑ 𠮷野家") == ["龍", "ダム", "𠮷野", "野家"]
    assert words("มวยไทย") == ["มว", "วย", "ยไ", "ไท", "ทย"]
    assert words("한국의 수도") == ["한국", "국의", "수도"]


@pytest.mark.parametrize("language", ["zh", "ja", "th"])
def test_questions_find_passages_in_scripts_without_blanks(language, tmp_path, monkeypatch):
    corpus = json.loads(Path(__file__).with_name("unspaced_corpora.json").read_text())[language]
    texts, questions = zip(*corpus, strict=True)

    def share_found(folder):
        rows = built(tmp_path / folder, texts).search(questions, 1).rows[:, 0]
        return (rows == np.arange(len(texts))).mean()

    with_bigrams = share_found("bigrams")
    monkeypatch.setattr(bm25, "words", words_between_blanks)
    assert with_bigrams >= 0.9
    assert share_found("runs") <= 0.25, "a clause was one word"


def words_between_blanks(text):
    expected, word = [], ""
    folded = (
        unicodedata.normalize("NFKC", text.replace("\u00ad", "")).casefold().replace("i\u0307", "i")
    )
    for character in unicodedata.normalize("NFKC", folded) + " ":
        if (
            character.isalnum()
            or character == "_"
            or (word and unicodedata.category(character)[0] == "M")
        ):
            word += character
        elif word:
            expected.append(word)
            word = ""
    return expected


def test_hindi_is_found_by_the_words_of_the_reference(tmp_path):
    texts = ["हिन्दी भाषा", "हिमालय", "नदी", *zipf(20)]
    index = built(tmp_path, texts)
    assert index.search(["हिन्दी"], 3).rows.tolist() == [[0, -1, -1]]


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("indices.csc.index.npy", 1 << 30),
        ("indices.csc.index.npy", -1),
        ("indptr.csc.index.npy", 1 << 40),
        ("indptr.csc.index.npy", -1),
        ("vocab.index.json", 1 << 20),
    ],
)
def test_postings_of_rows_that_do_not_exist_are_refused_when_the_index_is_opened(
    file, value, tmp_path
):
    """The compiled kernel adds to whatever rows they name."""
    part = build_bm25(["a b c", "b c d", "x y"], tmp_path) | {"count": 3}
    BM25(tmp_path, part)
    if file.endswith(".json"):
        words = json.loads((tmp_path / file).read_text())
        (tmp_path / file).write_text(json.dumps(dict.fromkeys(words, value)))
    else:
        numbers = np.load(tmp_path / file)
        numbers[1] = value
        np.save(tmp_path / file, numbers)
    with pytest.raises(IndexFileError):
        BM25(tmp_path, part)
