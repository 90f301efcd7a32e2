"""CertainlyUncertain is made: things taken out of photos, scene graphs, captions; what makes no pair says why."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from errors import raises
from PIL import Image, ImageDraw

from demur.cli import main
from demur.core.errors import MissingExtra, UsageError
from demur.core.records import Response
from demur.testing import running
from demur_suites.certainly_uncertain.build import (
    captions,
    inpainting,
    photo_pairs,
    photo_questions,
)
from demur_suites.certainly_uncertain.build.captions import FORM, Written, fault
from demur_suites.certainly_uncertain.build.salient import named_by, salient
from demur_suites.certainly_uncertain.build.scenes import read_gqa
from demur_suites.certainly_uncertain.suite import CertainlyUncertain
from tests.served import refusing

NAME = "demur_suites.certainly_uncertain:CertainlyUncertain"


def lawn(
    things: dict[tuple[int, int, int, int], str],
    size: tuple[int, int] = (200, 120),
    grain: int = 12,
) -> Image.Image:
    """A grainy green photo with coloured things."""
    rng = np.random.default_rng(0)
    photo = Image.fromarray(
        np.clip(
            np.array([60, 140, 60]) + rng.integers(-grain, grain, (size[1], size[0], 3)), 0, 255
        ).astype(np.uint8)
    )
    for box, colour in things.items():
        ImageDraw.Draw(photo).ellipse(box, fill=colour)
    return photo


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two red balls and a blue box on a lawn, and scenes that ask about them."""
    folder = tmp_path / "photos"
    folder.mkdir()
    lawn({(20, 30, 60, 70): "red", (130, 60, 150, 80): "red", (90, 10, 110, 30): "blue"}).save(
        folder / "a.png"
    )
    (folder / "broken.png").write_bytes(b"no image")
    balls = [
        {"label": "ball", "box": [0.08, 0.2, 0.32, 0.62]},
        {"label": "ball", "box": [128, 58, 153, 83]},
    ]
    lines = [
        {
            "id": "a",
            "image": "a.png",
            "objects": [*balls, {"label": "box", "box": [0.44, 0.06, 0.57, 0.27]}],
            "licence": "CC0",
            "questions": [
                {"question": "What colour are the balls?", "answer": "red"},
                {"question": "What colour is the box?", "answer": "blue"},
                {"question": "Is it day or night?", "answer": "day"},
                {"question": "Is the ball red?", "answer": "yes"},
                {"question": "What colour is the kite?", "answer": "pink", "object": "kite"},
            ],
        },
        {
            "id": "b",
            "image": "broken.png",
            "questions": [{"question": "What is the dog doing?", "answer": "running"}],
        },
        {
            "id": "c",
            "image": "../../etc/passwd",
            "questions": [{"question": "What is the dog doing?", "answer": "running"}],
        },
        {
            "id": "d",
            "image": "a.png",
            "objects": [{"label": "lawn", "box": [0, 0, 1, 1]}],
            "questions": [{"question": "What colour is the lawn?", "answer": "green"}],
        },
    ]
    (folder / "scenes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def read(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def test_all_things_of_a_label_go_and_nothing_else_changes(photos, tmp_path):
    out = tmp_path / "set"
    assert (
        main(
            [
                "suite",
                "build",
                NAME,
                "--out",
                str(out),
                "--source",
                "scenes",
                "--input",
                str(photos / "scenes.jsonl"),
                "--dilate",
                "6",
            ]
        )
        == 0
    )
    loaded = CertainlyUncertain().open(out)
    assert [p.id for p in loaded.items] == ["a-1", "a-2"]
    pair = loaded.items[0]
    before, without, control = (
        read(out / ref.uri) for ref in (pair.image, pair.idk_image, pair.control_image)
    )
    mask = read(out / pair.mask.uri)[:, :, 0] > 127

    def red(photo: np.ndarray) -> int:
        return int(((photo[:, :, 0] > 180) & (photo[:, :, 1] < 90)).sum())

    def blue(photo: np.ndarray) -> int:
        return int(((photo[:, :, 2] > 180) & (photo[:, :, 1] < 90)).sum())

    assert red(before) > 1200  # both balls
    assert (red(without), blue(without)) == (0, blue(before))
    assert np.abs(without - before)[~mask].mean() < 2  # JPEG alone
    assert red(control) > 1100
    assert pair.provenance["control"] == "a patch"  # the box is no third as large as both balls
    lost = np.abs(control - before).mean(axis=2) > 12
    assert 0 < lost.sum() < 1.1 * mask.sum()
    assert not (lost & mask).any()
    dropped = {
        d["sample"]: d["reason"]
        for d in map(json.loads, (out / "dropped.jsonl").read_text().splitlines())
    }
    assert dropped == {
        "a-3": "not about a thing that can be taken out",
        "a-4": "asks for yes or no: answered without the thing too",
        "a-5": "thing not found",
        "b-0": "photo cannot be read",
        "c-0": "photo cannot be read",
        "d-1": "thing too large",
    }
    assert pair.licence == "CC0"
    assert pair.provenance["object"] == "ball"
    again = tmp_path / "again"
    main(
        [
            "suite",
            "build",
            NAME,
            "--out",
            str(again),
            "--source",
            "scenes",
            "--input",
            str(photos / "scenes.jsonl"),
            "--dilate",
            "6",
        ]
    )
    assert (again / "pairs.jsonl").read_bytes() == (out / "pairs.jsonl").read_bytes()


def test_a_given_mask_is_taken_and_a_thing_without_box_or_mask_is_not_guessed_at(photos, tmp_path):
    given = Image.new("L", (200, 120))
    ImageDraw.Draw(given).ellipse((15, 25, 65, 75), fill=255)
    given.save(photos / "mask.png")
    asked = {"question": "What colour is the ball?", "answer": "red"}
    scenes = [
        {
            "id": "m",
            "image": "a.png",
            "objects": [{"label": "ball", "mask": "mask.png"}],
            "questions": [asked],
        },
        {"id": "n", "image": "a.png", "questions": [asked, asked | {"object": "ball"}]},
    ]
    (photos / "two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scenes))
    out = CertainlyUncertain().build(
        tmp_path / "set", source="scenes", input=str(photos / "two.jsonl"), control="no"
    )
    [pair] = CertainlyUncertain().open(out).items
    assert pair.id == "m-1"
    assert read(out / pair.idk_image.uri)[50, 40].tolist()[1] > 90  # green where the ball was
    assert pair.control_image is None
    dropped = [json.loads(line) for line in (out / "dropped.jsonl").read_text().splitlines()]
    assert {d["sample"]: d["reason"] for d in dropped} == {
        "n-1": "not about a thing that can be taken out",
        "n-2": "thing not found",
    }


def test_the_form_of_a_photo_decides_nothing(photos, tmp_path):
    """Lossless formats, transparency, a turned photo with its orientation; boxes in pixels or shares."""
    plain, upright = Image.open(photos / "a.png"), Image.Exif()
    upright[274] = 6
    plain.save(photos / "a.bmp")
    plain.convert("RGBA").save(photos / "a.webp", lossless=True, exact=True)
    plain.rotate(90, expand=True).save(photos / "turned.png", exif=upright)
    asked, made = {"question": "What colour is the ball?", "answer": "red"}, set()
    for n, (name, box) in enumerate(
        [
            ("a.png", [16, 24, 64, 74]),
            ("a.bmp", [0.08, 0.2, 0.32, 74 / 120]),
            ("a.webp", [16, 24, 64, 74]),
            ("turned.png", [16, 24, 64, 74]),
        ]
    ):
        scene = {
            "id": "s",
            "image": name,
            "objects": [{"label": "ball", "box": box}],
            "questions": [asked],
        }
        (photos / "one.jsonl").write_text(json.dumps(scene))
        out = CertainlyUncertain().build(
            tmp_path / str(n), source="scenes", input=str(photos / "one.jsonl"), dilate=6
        )
        [pair] = CertainlyUncertain().open(out).items
        made.add((pair.image.sha256, pair.idk_image.sha256, pair.mask.sha256, pair.idk_answer))
    assert len(made) == 1


def test_ids_of_scenes_neither_leave_the_folder_nor_share_photos(photos, tmp_path):
    lawn({(20, 30, 60, 70): "red", (130, 60, 150, 80): "blue"}).save(photos / "b.png")
    one, *_ = map(json.loads, (photos / "scenes.jsonl").read_text().splitlines())
    scenes = [one | {"id": "../../a"}, one | {"id": "x" * 300}, one, one | {"image": "b.png"}]
    (photos / "ids.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scenes))
    out = CertainlyUncertain().build(
        tmp_path / "in" / "set", source="scenes", input=str(photos / "ids.jsonl")
    )
    assert [p.name for p in (tmp_path / "in").iterdir()] == ["set"]
    assert [p.id for p in CertainlyUncertain().open(out).items] == [
        "../../a-1",
        "../../a-2",
        "x" * 300 + "-1",
        "x" * 300 + "-2",
        "a-1",
        "a-2",
    ]
    assert "has this id too" in (out / "dropped.jsonl").read_text()


def test_gqa_files_are_read_by_the_objects_that_questions_are_about(tmp_path, photos):
    lawn({(20, 30, 60, 70): "red"}).save(photos / "7.jpg")
    graphs = {
        "7": {
            "width": 200,
            "height": 120,
            "objects": {
                "1": {"name": "ball", "x": 16, "y": 24, "w": 48, "h": 50},
                "2": {"name": "dot", "x": 1, "y": 1, "w": 0, "h": 2},
            },
        },
        "9": {"width": 1, "height": 1, "objects": ["1"]},
        "8": {
            "width": 0,
            "height": 0,
            "objects": {"1": {"name": "x", "x": 0, "y": 0, "w": 1, "h": 1}},
        },
    }
    questions = {
        "q1": {
            "imageId": "7",
            "question": "What colour is the ball?",
            "answer": "red",
            "annotations": {"question": {"4": "1"}, "answer": {}, "fullAnswer": {}},
        },
        "q2": {"imageId": "7", "question": "Is it sunny?", "answer": "yes", "annotations": {}},
        "q3": {
            "imageId": "8",
            "question": "What is it?",
            "answer": "x",
            "annotations": {"question": {"0": "1"}},
        },
        "q4": ["not", "a", "question"],
        "q5": {
            "imageId": "7",
            "question": "What is it?",
            "answer": "x",
            "annotations": {"question": ["1"]},
        },
        "q6": {
            "imageId": "9",
            "question": "What is it?",
            "answer": "x",
            "annotations": {"question": {"0": "1"}},
        },
    }
    (tmp_path / "g.json").write_text(json.dumps(graphs))
    (tmp_path / "q.json").write_text(json.dumps(questions))
    *lost, scene, one, other = read_gqa(tmp_path / "g.json", tmp_path / "q.json")
    assert [(d.sample, d.reason) for d in (*lost, one, other)] == [
        ("q4", "question cannot be read"),
        ("q5", "question cannot be read"),
        ("q2", "about no object of the scene graph"),
        ("8", "objects of the scene graph cannot be read"),
        ("9", "objects of the scene graph cannot be read"),
    ]
    assert (scene.questions[0].object, len(scene.objects)) == ("ball", 1)
    out = CertainlyUncertain().build(
        tmp_path / "set",
        source="gqa",
        input=str(tmp_path / "g.json"),
        questions=str(tmp_path / "q.json"),
        photos=str(photos),
    )
    told = [json.loads(line) for line in (out / "dropped.jsonl").read_text().splitlines()]
    assert [d["sample"] for d in told] == ["q4", "q5", "q2", "8", "9"]
    assert CertainlyUncertain().open(out).items[0].route == "scene-graph"
    assert CertainlyUncertain().open(out).items[0].idk_answer in {
        "I don't know.",
        "I don't see any ball.",
        "There is no ball in the image.",
        "I can't see any ball.",
    }


def test_labels_decide_what_a_question_is_about():
    assert salient("What is the man holding?", "an umbrella", ["man", "umbrella"]) == "man"
    assert salient("What is he holding?", "an umbrella", ["man", "umbrella"]) == "umbrella"
    assert salient("Is there a man?", "yes", ["man"]) is None
    assert salient("What colour is the kite?", "red", ["man"]) is None
    assert salient("Какого цвета мяч", "red", ["стол"]) is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_grounding_dino_and_sam_are_loaded_from_folders_and_make_pairs(photos, tmp_path):
    """Real loading and both real networks, of random weights: where they point is noise, what is done with it is not."""
    detector, segmenter = tiny_models.grounding_models(tmp_path / "weights")
    found = inpainting.Grounded.open(str(detector), str(segmenter))
    photo = Image.open(photos / "a.png").convert("RGB")
    boxes = found.boxes(photo, "Ball.", threshold=0.0, text_threshold=0.0)
    assert boxes
    assert all(0 <= x0 <= x1 <= 1 and 0 <= y0 <= y1 <= 1 for x0, y0, x1, y1 in boxes)
    assert found.boxes(photo, "ball", threshold=1.0) == []
    assert (
        found.boxes(photo, "ball", threshold=0.0, text_threshold=1.0) == []
    )  # no word of the phrase: no box
    mask = found.mask(photo, (0.1, 0.2, 0.5, 0.8))
    assert (mask.shape, mask.dtype) == ((120, 200), bool)
    scenes = {
        "id": "g",
        "image": "a.png",
        "questions": [{"question": "What colour is the ball?", "answer": "red", "object": "ball"}],
    }
    (photos / "one.jsonl").write_text(json.dumps(scenes) + "\n")
    given = {
        "source": "scenes",
        "input": str(photos / "one.jsonl"),
        "mask": f"sam:{detector},{segmenter}",
        "dilate": 1,
    }
    with contextlib.suppress(UsageError):  # noise may cover the whole photo, or nothing of it
        CertainlyUncertain().build(tmp_path / "set", **given)
    lines = [(tmp_path / "set" / name).read_text() for name in ("pairs.jsonl", "dropped.jsonl")]
    [made] = [json.loads(line) for line in "".join(lines).splitlines()]
    assert made.get("id", made.get("sample")) == "g-1"
    assert made.get("reason") != "mask cannot be made"
    with raises(UsageError, item=f"{segmenter}, {detector}", cure="--mask box"):
        inpainting.Grounded.open(str(segmenter), str(detector))
    for bad in ("sam:one", "box:a,b", "hand"):
        with raises(UsageError, "mask="):
            CertainlyUncertain().build(tmp_path / "bad", **(given | {"mask": bad}))


@pytest.mark.parametrize(
    ("reply", "label", "why"),
    [
        ("The red ball.", "red ball", ""),
        ("Relevant object: kite", "kite", ""),
        ("NA", "", "nothing"),
        ("n/a.", "", "nothing"),
        ("I think the question is about the ball", "", "no name"),
        ("ball\nkite", "", "no name"),
        ("", "", "no name"),
        ("球", "", "no name"),
    ],
)
def test_what_a_model_names_is_one_name_or_a_reason(reply, label, why):
    found = named_by(Response(text=reply))
    assert found.label == label
    assert why in found.why


@pytest.mark.integration
def test_a_model_that_sees_the_photo_says_what_a_question_is_about(photos, tmp_path):
    def seeing(body: dict) -> str:
        picture, text = body["messages"][0]["content"]
        assert picture["image_url"]["url"].startswith("data:image/png;base64,")
        assert (
            "Name one of these, or na: ball, box" in text["text"]
            or "Question: What colour is the lawn?" in text["text"]
        )
        asked = text["text"].rpartition("Question: ")[2]
        return {
            "What colour are": "The balls.",
            "What colour is t": "na",
            "Is it day or nig": "It is a long story, na",
            "Is the ball red?": "ball",
        }[asked[:16].strip()]

    out = tmp_path / "set"
    with running(reply=seeing) as server:
        words = [
            "suite",
            "build",
            NAME,
            "--out",
            str(out),
            "--source",
            "scenes",
            "--input",
            str(photos / "scenes.jsonl"),
            "--finder",
            f"http://127.0.0.1:{server.port}/v1#seer",
            "--dilate",
            "6",
        ]
        assert main(words) == 0
        assert (
            server.requests == 5
        )  # the kite is named in the file, photos that cannot be read are not shown
        assert main(words) == 0
        assert server.requests == 5
    assert [(p.id, p.provenance["object"]) for p in CertainlyUncertain().open(out).items] == [
        ("a-1", "balls")
    ]
    dropped = {
        d["sample"]: d["reason"]
        for d in map(json.loads, (out / "dropped.jsonl").read_text().splitlines())
    }
    assert dropped == {
        "a-2": "the model names nothing that can be taken out",
        "a-3": "the model's reply is no name",
        "a-4": "asks for yes or no: answered without the thing too",
        "a-5": "thing not found",
        "b-0": "photo cannot be read",
        "c-0": "photo cannot be read",
        "d-1": "the model names nothing that can be taken out",
    }


def test_the_control_keeps_what_the_question_names(photos, tmp_path):
    scene = json.loads((photos / "scenes.jsonl").read_text().partition("\n")[0])
    scene["questions"] = [
        {"question": "What colour is the ball beside the box?", "answer": "red", "object": "ball"}
    ]
    (photos / "one.jsonl").write_text(json.dumps(scene) + "\n")
    out = CertainlyUncertain().build(
        tmp_path / "set", source="scenes", input=str(photos / "one.jsonl"), dilate=6
    )
    [pair] = CertainlyUncertain().open(out).items
    before, control = read(out / pair.image.uri), read(out / pair.control_image.uri)
    changed = np.abs(control - before).mean(axis=2) > 20
    assert pair.provenance["control"] == "a patch"
    assert not changed[10:30, 90:110].any()  # the box stands


@pytest.mark.integration
def test_a_model_that_sees_both_photos_writes_the_question(photos, tmp_path):
    said = {
        "ball": {
            "Q": "What colour are the balls on the lawn?",
            "A1": "red",
            "A2": "I don't see any ball.",
        },
        "box": {"Q": "What colour is the thing removed?", "A1": "blue", "A2": "I don't know"},
    }

    def seeing(body: dict) -> str:
        first, second, text = body["messages"][0]["content"]
        assert first["image_url"] != second["image_url"]
        return json.dumps(said[re.search(r"without this: (\w+)", text["text"])[1]])

    lines = [json.loads(line) for line in (photos / "scenes.jsonl").read_text().splitlines()]
    bad = {"id": "f", "image": "a.png", "objects": [{"label": "x", "box": [1, 1, 0, 0]}]}
    bare = [lines[0] | {"questions": []}, {"id": "e", "image": "a.png"}, bad]
    (photos / "bare.jsonl").write_text("".join(json.dumps(line) + "\n" for line in bare))
    out = tmp_path / "set"
    with running(reply=seeing) as server:
        for file, n in (
            ("bare.jsonl", 2),
            ("scenes.jsonl", 4),
        ):  # each thing is shown once, whatever is asked of it
            words = [
                "suite",
                "build",
                NAME,
                "--out",
                str(out / file),
                "--source",
                "scenes",
                "--input",
                str(photos / file),
                "--asker",
                f"http://127.0.0.1:{server.port}/v1#seer",
                "--dilate",
                "6",
            ]
            assert main(words) == 0
            assert server.requests == n
            [pair] = CertainlyUncertain().open(out / file).items
            assert (pair.question, pair.answer) == ("What colour are the balls on the lawn?", "red")
            assert (pair.idk_question, pair.idk_answer) == (pair.question, "I don't see any ball.")
            assert pair.provenance["asked by"] == "seer"
    dropped = [
        json.loads(line) for line in (out / "bare.jsonl" / "dropped.jsonl").read_text().splitlines()
    ]
    why = {
        "e-0": "there is no question about it",
        "a-2": "the question tells that there are two photos",
    }
    assert {d["sample"]: d["reason"] for d in dropped[1:]} == why
    assert (
        "box (1.0, 1.0, 0.0, 0.0) has no area" in dropped[0]["detail"]
    )  # one bad line ends nothing


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("Q: What colour is the kite?\nA1: red\nA2: Nothing", ""),
        ('{"Q": "What colour is the kite?", "A1": "red", "A2": "I don\'t know"}', ""),
        (
            "Q: Is there a kite?\nA1: a red one\nA2: Nothing",
            "asks for yes or no: answered without the thing too",
        ),
        (
            "Q: Does the kite fly?\nA1: Yes.\nA2: I don't know",
            "asks for yes or no: answered without the thing too",
        ),
        (
            "Q: What colour is the kite?\nA1: I can't tell\nA2: I don't know",
            "the first photo does not answer it",
        ),
        ("Q: What colour is the sky?\nA1: blue\nA2: grey", "the second photo answers it"),
        (
            "Q: What colour is the red kite?\nA1: red\nA2: I don't see any kite",
            "the question holds its answer",
        ),
        ("Q: kite\nA1: red\nA2: I don't see any kite", "not a question"),
        ("Sure!\nQ: What colour is the kite?\nA1: red\nA2: Nothing", None),
        ("Q: What colour is the kite?\nA1: red", None),
    ],
)
def test_a_question_that_is_no_contrast_says_why(reply, why):
    texts = photo_questions.FORM.parse(reply)
    assert (texts and photo_questions.fault(photo_questions.Asks(*texts))) == why


def test_lama_fills_by_any_onnx_of_its_form(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    def grey(side: int | str) -> bytes:
        """A model that returns half grey in the hole and the image elsewhere."""
        shapes = {"image": [1, 3, side, side], "mask": [1, 1, side, side]}
        half = helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5])
        nodes = [
            helper.make_node("Mul", ["image", "mask"], ["inside"]),
            helper.make_node("Sub", ["image", "inside"], ["outside"]),
            helper.make_node("Mul", ["mask", "half"], ["grey"]),
            helper.make_node("Add", ["outside", "grey"], ["output"]),
        ]
        graph = helper.make_graph(
            nodes,
            "grey",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 3, side, side])],
            [half],
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()

    assert onnx.__version__
    photo = np.full((30, 41, 3), 10, dtype=np.uint8)
    mask = np.zeros((30, 41), dtype=bool)
    mask[5:15, 5:15] = True
    for side in (64, "side"):
        (tmp_path / "lama.onnx").write_bytes(grey(side))
        made = inpainting.lama(tmp_path / "lama.onnx")(photo, mask, 0)
        assert made.shape == photo.shape
        assert np.abs(made[7:13, 7:13].astype(int) - 128).max() <= 3
        assert (made[~mask] == 10).all()
    (tmp_path / "bad.onnx").write_bytes(b"x")
    for name in ("none.onnx", "bad.onnx"):
        with pytest.raises(UsageError) as refused:
            inpainting.lama(tmp_path / name)
        assert name in refused.value.item


def test_masks_grow_with_their_size():
    for side, rim in ((20, 3), (200, 10)):
        mask = np.zeros((300, 300), dtype=bool)
        mask[50 : 50 + side, 50 : 50 + side] = True
        wide = np.nonzero(inpainting.grown(mask).any(axis=0))[0]
        assert abs(len(wide) - side - rim) <= 1


def test_a_control_patch_is_as_large_as_the_thing_and_as_near_as_there_is_room():
    form = np.zeros((100, 160), dtype=bool)
    form[40:60, 70:90] = True
    taken = form.copy()
    taken[:, 90:] = True  # nothing to the right
    patch = photo_pairs.nearest_patch(form, taken)
    assert patch.sum() == form.sum()
    assert not (patch & taken).any()
    rows, columns = np.nonzero(patch)
    assert np.hypot(rows.min() - 40, columns.min() - 70) == 20  # it touches the thing
    assert photo_pairs.nearest_patch(form, np.ones_like(form)) is None


def test_what_is_not_installed_is_said_with_its_install_line(monkeypatch):
    import builtins

    real = builtins.__import__
    monkeypatch.setattr(
        builtins,
        "__import__",
        lambda name, *a, **k: (
            (_ for _ in ()).throw(ImportError(name)) if name == "cv2" else real(name, *a, **k)
        ),
    )
    with raises(MissingExtra, cure="suites[photos]"):
        inpainting.cv()


@pytest.mark.reference
def test_pairs_are_made_of_the_sample_and_every_one_is_whole(tmp_path):
    out = CertainlyUncertain().build(tmp_path / "set")
    pairs = CertainlyUncertain().open(out).items
    assert len(pairs) >= 10
    assert all(p.mask and p.licence and p.filled_offline for p in pairs)
    assert max(float(p.provenance["masked"]) for p in pairs) <= inpainting.MOST
    assert sum(p.control_image is not None for p in pairs) >= 6  # where there is room beside it
    for pair in pairs:
        mask = read(out / pair.mask.uri)[:, :, 0] > 127
        before, without = read(out / pair.image.uri), read(out / pair.idk_image.uri)
        assert np.abs(without - before)[mask].mean() > 6
        assert np.abs(without - before)[~mask].mean() < 4


# --- captions -------------------------------------------------------------------------------------

COLOURS, THINGS, PLACES = (
    ("red", "green", "white"),
    ("chair", "table", "boat", "bicycle", "kettle", "lamp"),
    ("a wall", "the river", "a hedge", "a stall"),
)


def scripted(body: dict) -> str:
    """Writes sound pairs from our captions; every seventh reply is bad in another way."""
    told, *_, text = (
        m["content"] if isinstance(m["content"], str) else m["content"][0]["text"]
        for m in body["messages"]
    )
    colour, things = text.removeprefix("Caption: Two ").split()[:2]
    thing = things[:-1]
    q1 = (
        "Who made the {t}s?"
        if "outside the photo that nobody" in told
        else "How many scratches do the {t}s have?"
        if "too much work" in told
        else "Will the {t}s be moved today?"
        if "about time" in told
        else "Is the {t} the older one?"
    )
    bad = sum(map(ord, told + text)) % 7
    if bad == 0:
        return "Sure! Here are two questions."
    if bad == 1 and colour == "red":
        return f"Q1: Who?\nA1: Not a good question\nQ2: What colour are the {thing}s?\nA2: {colour}"
    return f"Q1: {q1.format(t=thing)}\nA1: I don't know (the photo does not tell)\nQ2: What colour are the {thing}s?\nA2: {colour}"


def by_schema(body: dict) -> str:
    """The same writer, at an endpoint that holds it to a schema."""
    reply = scripted(body)
    form = body.get("response_format")
    if not form:
        return reply
    fields = list(form["json_schema"]["schema"]["properties"])
    assert [name[:2] for name in fields] == [
        "Q1",
        "A1",
        "Q2",
        "A2",
    ]  # in the order in which they are written
    texts = [line.split(": ", 1)[1] for line in reply.splitlines() if ": " in line]
    return json.dumps(dict(zip(fields, texts, strict=True)) if texts else {})


@pytest.mark.integration
@pytest.mark.parametrize("refused", [(), ("response_format",)])
def test_two_hundred_pairs_of_captions_by_a_scripted_writer(tmp_path, capsys, refused):
    """With a schema, and with words at an endpoint that refuses them."""
    lines = [
        {
            "id": f"{c}-{t}-{n}",
            "caption": f"Two {c} {t}s stand side by side near {p}.",
            "image": f"{c}-{t}-{n}.png",
        }
        for c in COLOURS
        for t in THINGS
        for n, p in enumerate(PLACES)
    ]
    for place, line in enumerate(lines):
        lawn({}, size=(40 + place, 30)).save(tmp_path / line["image"])
    file = tmp_path / "captions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "set"
    with running(reply=refusing(by_schema, *refused)) as server:
        words = [
            "suite",
            "build",
            NAME,
            "--out",
            str(out),
            "--source",
            "captions",
            "--input",
            str(file),
            "--writer",
            f"http://127.0.0.1:{server.port}/v1#writer",
        ]
        assert main(words) == 0
        assert server.requests == 288 + len(refused)
        assert {"response_format" in body for body in server.bodies} == {not refused}
        first = (out / "pairs.jsonl").read_bytes()
        assert main(words) == 0
        assert server.requests == 288 + len(refused)  # every reply is paid for once
    assert (out / "pairs.jsonl").read_bytes() == first
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["pairs"] + sum(manifest["dropped"].values()) == 288
    assert set(manifest["dropped"]) == {
        "the writer's lines cannot be read",
        "the writer found no good question",
    }
    assert manifest["pairs"] >= 200
    assert main(["suite", "check", NAME, str(out)]) == 0
    assert {p.category.value for p in CertainlyUncertain().open(out).items} == {
        "knowledge",
        "complexity",
        "temporal",
        "ambiguity",
    }


def as_object(*texts: object) -> str:
    return json.dumps(dict(zip(FORM.fields, texts, strict=False)))


CAPTION = "Two brown dogs chase a red ball on the beach."
SOUND = ("Who owns the dogs?", "I don't know (not shown)", "What are the dogs chasing?", "a ball")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, ""),
        ({0: "Who owns the dogs"}, "not a question"),
        ({0: "Which of these is unanswerable about dogs?"}, "a question tells how it was made"),
        ({1: "Bob"}, "the unanswerable question was answered"),
        ({3: "I can't tell"}, "the answerable question was not answered"),
        ({3: "the dogs"}, "a question holds its answer"),
        ({0: SOUND[2]}, "both questions are the same"),
        ({0: "Will rain fall tomorrow?"}, "a question is about nothing in the caption"),
        (
            {0: "Who bought that ball?", 2: "How many dogs run?", 3: "two"},
            "the questions have nothing in common",
        ),
    ],
)
def test_a_pair_that_breaks_a_rule_says_which(changed, why):
    assert fault(Written(*(changed.get(i, text) for i, text in enumerate(SOUND))), CAPTION) == why


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Q1: a?\nA1: b\nQ2: c?",
        "Q1: a?\nQ1: a?\nA1: b\nQ2: c?\nA2: d",
        "Q2: c?\nA2: d\nQ1: a?\nA1: b",
        "Well.\nQ1: a?\nA1: b\nQ2: c?\nA2: d",
        "Q1:\nA1: b\nQ2: c?\nA2: d",
        "\x00" * 50,
        "Q1: a" * 5000,
        "{}",
        as_object("a?", "b", "c?")[:-1],
        as_object("a?", "b", "c?", 4),
        as_object("a?", "b", "c?", " "),
        as_object("a?", "b", "c?", "d")[:-1] + ', "why": "e"}',
        "{" * 5000,
    ],
)
def test_lines_that_are_not_the_four_are_not_guessed_at(reply):
    assert FORM.parse(reply) is None


def test_an_object_of_the_schema_is_read():
    assert FORM.parse(as_object(*SOUND)) == Written(*SOUND)


def test_lines_in_bold_are_read():
    assert FORM.parse("**Q1:** Who?\n**A1:** no idea\n\n**Q2:** What?\n**A2:** that") == Written(
        "Who?", "no idea", "What?", "that"
    )


@pytest.mark.parametrize("category", captions.CATEGORIES)
def test_the_examples_of_each_prompt_are_sound_pairs_and_may_not_be_copied(category, tmp_path):
    turns = captions.prompt(category, "x")
    assert turns[-1] == "Caption: x"
    for (caption, written), asked, said in zip(
        captions.examples(category), turns[::2], turns[1::2], strict=False
    ):
        assert asked.endswith(f"Caption: {caption}")
        assert FORM.parse(said) == written
        assert fault(written, caption) == ""
    file = tmp_path / "c.jsonl"
    file.write_text(json.dumps({"id": "c", "caption": caption}) + "\n")
    with running("404", reply=lambda body: said) as server:
        writer = f"http://127.0.0.1:{server.port}/v1#w"
        CertainlyUncertain().build(
            tmp_path / "o", source="captions", input=str(file), writer=writer
        )
        roles = [[m["role"] for m in body["messages"]] for body in server.bodies]
    assert roles == [["user", "assistant", "user", "assistant", "user"]] * 5
    dropped = [
        json.loads(line) for line in (tmp_path / "o" / "dropped.jsonl").read_text().splitlines()
    ]
    reasons = {drop["sample"]: drop["reason"] for drop in dropped}
    assert reasons.pop(f"c-{category}") == "a question is copied from the prompt's example"
    assert len(reasons) == 2  # one question under three more categories is one pair


def test_captions_are_asked_for_whole(tmp_path, capsys):
    file = tmp_path / "c.jsonl"
    file.write_text(
        '{"id": "a"}\n{"id": "b", "caption": "x"}\n{"example_id": "b", "description": "y"}\n'
    )
    assert (
        main(
            [
                "suite",
                "build",
                NAME,
                "--out",
                str(tmp_path / "o"),
                "--source",
                "captions",
                "--input",
                str(file),
            ]
        )
        == 2
    )
    assert "--writer" in capsys.readouterr().err
    assert (
        main(
            [
                "suite",
                "build",
                NAME,
                "--out",
                str(tmp_path / "o"),
                "--source",
                "captions",
                "--input",
                str(file),
                "--writer",
                "http://127.0.0.1:9/v1#m",
            ]
        )
        == 1
    )
    err = capsys.readouterr().err
    assert "c.jsonl:1" in err
    assert "c.jsonl:3" in err


def test_no_call_is_paid_that_can_make_no_pair(tmp_path):
    file = tmp_path / "c.jsonl"
    file.write_text('{"id": "a", "caption": "A brown dog runs.", "image": "none.png"}\n')
    with running(reply=scripted) as server:
        given = {"source": "captions", "input": str(file), "writer": server.model("m")}
        with raises(UsageError, "(4)", item="o", cure="dropped.jsonl"):
            CertainlyUncertain().build(tmp_path / "o", **given)
        assert server.requests == 0
