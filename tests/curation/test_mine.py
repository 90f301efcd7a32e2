import io

import pytest
from mining_calls import mine, mine_kind
from PIL import Image, ImageDraw, ImageFilter

from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Document, Evidence, Hit, Role, Sample
from demur.corpora import near_duplicates
from demur.corpora.near_duplicates import ImageHashes, image_hash, same_picture, same_text
from demur.curation.mining.options import MiningOptions


def hits(*ids, mode="text->text"):
    return [
        Hit(document=id, score=1 - i / 100, rank=i + 1, index_id="ix", mode=mode)
        for i, id in enumerate(ids)
    ]


def passage(id, text, title="", page=""):
    return Document(id=id, title=title, text=text, page=page)


GOLD = passage(
    "g",
    "The Mill Bridge was opened in 1889 and is 330 metres long, over the river Ebb near Springfield.",
)


def sample(**more):
    given = {
        "id": "s",
        "source": "x",
        "question": "How long is the bridge?",
        "answers": AnswerSpec(accepted=(("330 metres",),)),
        "gold": (Evidence.of(GOLD, Role.GOLD),),
    }
    return Sample(**(given | more))


def test_text_hits_become_distractors_or_drops_with_their_reason():
    documents = {
        d.id: d
        for d in [
            GOLD,
            passage(
                "copy",
                "THE MILL BRIDGE was opened in 1889, and is 330 metres long - over the river Ebb near Springfield",
            ),
            passage("leak", "A ferry of 330 m runs here."),
            passage(
                "a", "The Old Bridge spans the Ebb and was built by A. Mason in many years of toil."
            ),
            passage(
                "a2",
                "The Old Bridge spans the Ebb, and was built by A. Mason in many years of toil!",
            ),
            passage("empty", " "),
            passage("b", "A bridge of stone."),
            Document(id="img", title="a picture", image=image_ref(png(1), "x")),
        ]
    }
    mined = mine_kind(
        "text",
        sample(),
        hits("g", "copy", "leak", "a", "a2", "empty", "img", "nowhere", "b", "a"),
        documents,
    )
    assert [(e.id, e.rank, e.score, e.mode, e.index_id, e.origin) for e in mined.negatives] == [
        ("a", 4, 0.97, "text->text", "ix", "mined"),
        ("b", 9, 0.92, "text->text", "ix", "mined"),
    ]
    assert {d.evidence: d.reason for d in mined.drops} == {
        "g": "gold",
        "copy": "near-duplicate of gold",
        "leak": "holds the answer",
        "a2": "repeated",
        "empty": "empty",
        "img": "empty",
        "nowhere": "unknown document",
    }
    assert all(d.sample == "s" and d.stage == "mine" for d in mined.drops)
    assert len(mine_kind("text", sample(), hits("a", "b"), documents, limit=1).negatives) == 1


def test_the_answer_in_a_title_counts():
    documents = {"t": passage("t", "It is long.", title="The 330 metres bridge")}
    assert mine_kind("text", sample(), hits("t"), documents).drops[0].reason == "holds the answer"


def test_native_negatives_are_not_mined_again():
    documents = {"n": passage("n", "A native negative.")}
    native = Evidence.of(documents["n"], Role.DISTRACTOR)
    assert (
        mine_kind("text", sample(negatives=(native,)), hits("n"), documents).drops[0].reason
        == "native"
    )


def drawing(seed):
    image = Image.new("RGB", (120, 90), (250, 250, 250))
    pen = ImageDraw.Draw(image)
    for i in range(6):
        x, y = (seed * 37 + i * 29) % 90, (seed * 53 + i * 17) % 60
        pen.rectangle(
            [x, y, x + 12 + seed % 17, y + 20], fill=((seed * 40) % 255, (i * 60) % 255, 90)
        )
    return image


def png(seed, image=None, kind="PNG", **options):
    out = io.BytesIO()
    (image or drawing(seed)).save(out, kind, **options)
    return out.getvalue()


def test_visual_hits(tmp_path):
    def document(name, data, title="a thing", page=""):
        (tmp_path / name).write_bytes(data)
        return Document(id=name, title=title, image=image_ref(data, name), page=page or name)

    gold = document("gold", png(1), page="bridge")
    query = document("query", png(2))
    documents = {
        d.id: d
        for d in [
            gold,
            query,
            document("gold-jpg", png(1, kind="JPEG", quality=60)),
            document("query-small", png(2, drawing(2).resize((60, 45)))),
            document("same-page", png(3), page="bridge"),
            document("caption", png(4), title="The 330 metres bridge"),
            document("other", png(5)),
            document("other-blurred", png(5, drawing(5).filter(ImageFilter.GaussianBlur(1)))),
            document("another", png(6)),
            document("gone", png(7)),
            passage("text", "no picture"),
        ]
    }
    (tmp_path / "gone").unlink()
    asked = sample(images=(query.image,), gold=(Evidence.of(gold, Role.GOLD),))
    mined = mine_kind(
        "visual",
        asked,
        hits(*documents, mode="image->image"),
        documents,
        image_hashes=ImageHashes(tmp_path),
    )
    assert [e.id for e in mined.negatives] == ["other", "another"]
    assert {d.evidence: d.reason for d in mined.drops} == {
        "gold": "gold",
        "query": "query image",
        "gold-jpg": "near-duplicate of gold",
        "query-small": "near-duplicate of query",
        "same-page": "gold page",
        "caption": "holds the answer",
        "other-blurred": "repeated",
        "gone": "unreadable",
        "text": "empty",
    }
    loose = mine_kind(
        "visual",
        asked,
        hits("gold-jpg"),
        documents,
        MiningOptions(same_image="bytes"),
        image_hashes=ImageHashes(tmp_path),
    )
    assert [e.id for e in loose.negatives] == ["gold-jpg"]


@pytest.mark.parametrize("kind", ["palette", "cmyk", "alpha", "animated", "rotated"])
def test_looks_of_odd_images(kind):
    base = drawing(3)
    if kind == "palette":
        data = png(0, base.quantize(64))
    elif kind == "cmyk":
        data = png(0, base.convert("CMYK"), "JPEG", quality=95)
    elif kind == "alpha":
        clear = Image.new("RGBA", base.size, (0, 0, 0, 0))  # black where nothing shows
        clear.paste(base, mask=base.convert("L").point(lambda v: 255 if v < 250 else 0))
        data = png(0, clear)
    elif kind == "animated":
        out = io.BytesIO()
        base.save(out, "GIF", save_all=True, append_images=[drawing(9)])
        data = out.getvalue()
    else:
        exif = Image.Exif()
        exif[0x0112] = 6  # shown turned by 90 degrees
        data = png(0, base.transpose(Image.Transpose.ROTATE_90), "JPEG", quality=95, exif=exif)
    assert same_picture(image_hash(data), image_hash(png(0, base)))
    assert not same_picture(image_hash(data), image_hash(png(8)))


def test_flat_images_are_only_like_flat_images():
    white, ivory, navy = (
        image_hash(png(0, Image.new("RGB", (9, 9), colour)))
        for colour in ("white", "ivory", "navy")
    )
    assert same_picture(white, ivory)
    assert not same_picture(white, navy)
    assert not same_picture(white, image_hash(png(1)))


def test_colours_count():
    def bands(*colours):
        image = Image.new("RGB", (90, 60))
        for place, colour in enumerate(colours):
            image.paste(colour, (place * 30, 0, place * 30 + 30, 60))
        return image_hash(png(0, image))

    assert not same_picture(bands("green", "white", "darkorange"), bands("green", "white", "red"))
    assert same_picture(
        bands("#008c45", "white", "#cd212a"), bands("#008040", "#fdfdfd", "#d02030")
    )


def test_looks_are_remembered_as_long_as_they_are_asked_of(tmp_path, monkeypatch):
    refs = []
    for seed in range(4):
        (tmp_path / f"{seed}").write_bytes(png(seed))
        refs.append(image_ref(png(seed), f"{seed}"))
    read = []
    monkeypatch.setattr(
        near_duplicates, "image_hash", lambda data: read.append(data) or image_hash(data)
    )
    known = ImageHashes(tmp_path, most=2)
    for seed, reads in ((0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (1, 4), (1, 4)):
        assert known(refs[seed]) == image_hash(png(seed))
        assert (len(read), len(known._hashes)) == (reads, min(reads, 2))
    everything = ImageHashes(tmp_path)
    assert all(everything(ref) for ref in refs)
    assert len(everything.lines().splitlines()) == 4
    gone = refs[3].model_copy(update={"uri": "gone", "sha256": "0" * 64})
    assert [known(gone), known(gone)] == [None, None]


def test_same_text():
    assert not same_text("", "")
    assert not same_text("a b c", "a b d")
    assert same_text(
        "one two three four five six seven",
        "Zero. One two three four five six seven! And more follows.",
    )


def many(n, page=lambda i: f"p{i}"):
    words = [
        "alder",
        "birch",
        "cedar",
        "dogwood",
        "elm",
        "fir",
        "gum",
        "hazel",
        "ivy",
        "juniper",
        "katsura",
        "larch",
    ]
    return {
        f"d{i}": passage(
            f"d{i}", f"The {words[i]} tree grows in valley number {i} of the old map.", page=page(i)
        )
        for i in range(n)
    }


def test_selection_by_score_and_rank():
    documents = many(8) | {"g": GOLD}
    found = hits("d0", "g", "d1", "d2", "d3", "d4", "d5")  # scores 1.00, 0.99, 0.98 ...
    asked = sample()
    margin = mine_kind(
        "text", asked, found, documents, MiningOptions(absolute_margin=0.025), limit=2
    )
    assert [e.id for e in margin.negatives] == ["d3", "d4"]  # d2 is 0.02 below gold
    assert {d.evidence for d in margin.drops if d.reason == "within the margin of gold"} == {
        "d0",
        "d1",
        "d2",
    }
    relative = mine_kind(
        "text",
        asked,
        found,
        documents,
        MiningOptions(relative_margin=0.05),
        limit=2,
        gold_score=1.0,
    )
    assert [e.id for e in relative.negatives] == ["d4", "d5"]
    between = MiningOptions(max_score=0.985, min_score=0.955, range_max=20)
    limits = mine_kind("text", asked, found, documents, between, limit=9)
    assert [e.id for e in limits.negatives] == ["d1", "d2", "d3"]
    ranks = mine_kind("text", asked, found, documents, MiningOptions(range_min=2), limit=2)
    assert [e.id for e in ranks.negatives] == ["d2", "d3"]
    assert [(d.evidence, d.reason) for d in ranks.drops] == [
        ("d0", "rank"),
        ("g", "gold"),
        ("d1", "rank"),
    ]
    drawn = MiningOptions(range_max=6, sampling="random")
    one, other = (
        mine_kind("text", asked, found, documents, drawn, limit=2, seed=5) for _ in range(2)
    )
    assert one == other
    assert len(one.negatives) == 2
    assert [e.rank for e in one.negatives] == sorted(e.rank for e in one.negatives)


def test_variety_of_pages():
    documents = many(8, page=lambda i: f"p{i // 4}")
    mined = mine_kind(
        "text", sample(), hits(*documents), documents, MiningOptions(per_page=2), limit=4
    )
    assert [e.id for e in mined.negatives] == ["d0", "d1", "d4", "d5"]
    assert {d.reason for d in mined.drops} == {"page is full"}
    alone = many(8, page=lambda i: "")  # without a page: each is one of its own
    assert (
        len(
            mine_kind(
                "text", sample(), hits(*alone), alone, MiningOptions(per_page=1), limit=4
            ).negatives
        )
        == 4
    )


def test_quotas(tmp_path):
    documents = many(8)
    for i in range(4):
        (tmp_path / f"{i}").write_bytes(png(i + 10))
        documents[f"i{i}"] = Document(
            id=f"i{i}", title="thing", image=image_ref(png(i + 10), f"{i}"), page=f"x{i}"
        )
    found = {
        "text": hits("d0", "d1", "d2", "d3"),
        "lexical": hits("d1", "d0", "d4", "d5", mode="lexical"),
        "visual": hits("i0", "i1", "i2", "i3", mode="image->image"),
    }
    mined = mine(
        sample(),
        found,
        documents,
        MiningOptions(text=2, lexical=1, visual=3, min_score=0.99),
        image_hashes=ImageHashes(tmp_path),
    )
    assert [(e.id, e.mode) for e in mined.negatives] == [
        ("d0", "text->text"),
        ("d1", "text->text"),
        ("d4", "lexical"),
        ("i0", "image->image"),
        ("i1", "image->image"),
    ]
    assert [d.evidence for d in mined.drops if d.reason == "already mined"] == ["d1", "d0"]
    assert (
        mine(
            sample(),
            found,
            documents,
            MiningOptions(text=0, visual=0),
            image_hashes=ImageHashes(tmp_path),
        ).negatives
        == ()
    )


def test_what_the_source_shows_already_is_not_mined_once_more_under_another_id(tmp_path):
    for i in (1, 2):
        (tmp_path / f"{i}.png").write_bytes(png(i))
    (tmp_path / "1.jpg").write_bytes(png(1, kind="JPEG", quality=60))
    documents = {
        d.id: d
        for d in [
            passage(
                "again",
                "The Old Bridge spans the Ebb, and was built by A. Mason in many years of toil!",
            ),
            passage("new", "A bridge of stone."),
            *(
                Document(
                    id=name, title="thing", image=image_ref((tmp_path / name).read_bytes(), name)
                )
                for name in ("1.jpg", "2.png")
            ),
        ]
    }
    text = passage(
        "own", "The Old Bridge spans the Ebb and was built by A. Mason in many years of toil."
    )
    picture = Document(
        id="shown", title="thing", image=image_ref((tmp_path / "1.png").read_bytes(), "1.png")
    )
    asked = sample(negatives=tuple(Evidence.of(d, Role.DISTRACTOR) for d in (text, picture)))
    found = {"text": hits("again", "new"), "visual": hits("1.jpg", "2.png", mode="image->image")}
    mined = mine(
        asked, found, documents, MiningOptions(text=2, visual=2), image_hashes=ImageHashes(tmp_path)
    )
    assert [e.id for e in mined.negatives] == ["new", "2.png"]
    assert [(d.evidence, d.reason, d.detail) for d in mined.drops] == [
        ("again", "repeated", "own"),
        ("1.jpg", "repeated", "shown"),
    ]


def test_nothing_wanted():
    assert mine_kind("text", sample(), hits("d0"), many(1), limit=0).negatives == ()
