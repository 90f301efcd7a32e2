"""Files of items, as all suites read them: ids that come twice, refused rows, images that are gone or changed."""

from __future__ import annotations

import io
import json

from errors import raises
from PIL import Image

from demur.core.errors import DataError, UsageError
from demur.core.records import Record
from demur.core.store import Problems
from demur_suites.files import image_beside, items_by_id, items_file


class Thing(Record):
    """An item."""

    id: str
    image: str = ""


def test_refused_rows_and_ids_that_come_twice_are_told_with_their_place(tmp_path):
    rows = [{"id": "a"}, {"id": 7}, {"id": "a"}, {"id": "b", "image": "gone.png"}, {"id": "c"}]
    file = tmp_path / "items.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows) + "[1]\n")
    problems = Problems()

    def made(place, row):
        thing = Thing.model_validate(row)
        if thing.image:
            image_beside(file, thing.image)
        return thing

    found = items_by_id(items_file(tmp_path, "vb"), problems, made)
    assert [*found] == ["a", "c"]
    told = "\n".join(problems.lines)
    assert len(problems) == 4
    for words in (
        "jsonl:2 (7): ",
        "jsonl:3 (a): an earlier line, items.jsonl:1,",
        "jsonl:4 (b): image 'gone.png'",
    ):
        assert words in told


def test_an_image_is_the_one_that_was_filed(tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2)).save(buffer, "PNG")
    (tmp_path / "x.png").write_bytes(buffer.getvalue())
    file = tmp_path / "items.jsonl"
    ref = image_beside(file, "x.png")
    assert (ref.uri, ref.width, image_beside(file, "x.png", ref.sha256)) == ("x.png", 3, ref)
    with raises(DataError, "x.png", cure="build"):
        image_beside(file, "x.png", "0" * 64)
    with raises(DataError, "../x.png"):
        image_beside(file, "../x.png")


def test_a_folder_without_items_says_what_makes_them(tmp_path):
    with raises(UsageError, "items.jsonl", item=tmp_path, cure="demur suite build vb"):
        items_file(tmp_path, "vb")
    with raises(UsageError, item=tmp_path / "x", cure="demur suite build vb"):
        items_file(tmp_path / "x", "vb")
