"""A judge sees images only where it is asked to: from the command and the API down to the request on the wire."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Ask, ImageRef, Outcome, Response, Scenario, Status
from demur.core.store import digest
from demur.evaluation.rejudge import grade_items
from demur.judge.base import JudgeContext, open_judge
from demur.testing import running

CAT = AnswerSpec(accepted=(("cat",),))


def picture(folder: Path, side: int = 20) -> ImageRef:
    from PIL import Image

    file = folder / f"cat{side}.png"
    Image.new("RGB", (side, side), (200, 10, 10)).save(file)
    return ImageRef(sha256=digest(file.read_bytes()), uri=str(file), width=side, height=side)


def ask(*images: ImageRef) -> Ask:
    return Ask(
        id="a",
        sample="s",
        context="c",
        scenario=Scenario.ORACLE,
        question="Which animal?",
        images=images,
    )


def sent(judge: str, asked: Ask, tmp_path: Path, kept: str = "calls.sqlite"):
    """(verdict, the content that the server was sent, the judge)."""
    bodies: list[dict] = []

    def reply(body: dict) -> str:
        bodies.append(body)
        return json.dumps({"rating": 3} if judge.startswith("lave") else {"label": "CORRECT"})

    with running(reply=reply) as server:
        name = judge.replace("MODEL", f"http://127.0.0.1:{server.port}/v1#m")
        opened = open_judge(name, JudgeContext(tmp_path / kept))
        [verdict] = grade_items(opened, [(asked, Response(text="A feline."), CAT)])
    content = bodies[-1]["messages"][-1]["content"] if bodies else None
    return verdict, content, opened


@pytest.mark.parametrize(
    "judge", ["model:MODEL", "model:MODEL,images=no", "cascade:MODEL?below=1", "lave:MODEL"]
)
def test_no_image_is_sent_unless_asked_for(judge: str, tmp_path: Path) -> None:
    verdict, content, opened = sent(judge, ask(picture(tmp_path)), tmp_path)
    assert isinstance(content, str)
    assert "images" not in opened.id
    assert verdict.judge == opened.id


@pytest.mark.parametrize(
    "judge",
    [
        "model:MODEL,images=yes",
        "cascade:MODEL,images=yes?below=1",
        "cascade:MODEL,images=yes?below=1&share=0",
    ],
)
def test_images_are_sent_when_asked_for(judge: str, tmp_path: Path) -> None:
    verdict, content, opened = sent(judge, ask(picture(tmp_path)), tmp_path)
    assert verdict.outcome is Outcome.CORRECT
    assert [part["type"] for part in content] == ["image_url", "text"]
    assert content[0]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "pictures above" in content[1]["text"]
    assert ",images=yes" in opened.id
    plain = open_judge("model:openai/gpt-4o")
    assert verdict.prompt_sha256 not in ("", plain.prompt_sha256)  # another prompt, another judge


def test_a_large_image_is_sent_smaller(tmp_path: Path) -> None:
    _, content, _ = sent("model:MODEL,images=yes", ask(picture(tmp_path, 1_500)), tmp_path)
    import base64
    import io

    from PIL import Image

    data = base64.b64decode(content[0]["image_url"]["url"].partition(",")[2])
    assert max(Image.open(io.BytesIO(data)).size) == 1_024


def test_questions_without_images_are_judged_as_ever(tmp_path: Path) -> None:
    _, content, _ = sent("model:MODEL,images=yes", ask(), tmp_path)
    assert isinstance(content, str)
    assert "pictures above" not in content


def test_an_image_that_cannot_be_read_leaves_its_answer_unjudged(tmp_path: Path) -> None:
    ref = picture(tmp_path, 1_500)
    Path(ref.uri).unlink()
    judge = open_judge("model:http://127.0.0.1:9/v1#m,images=yes")  # nobody is asked
    verdict = asyncio.run(judge.grade(ask(ref), Response(text="A feline."), CAT))
    assert (verdict.status, verdict.outcome) == (Status.UNJUDGED, None)


def test_another_value_is_refused() -> None:
    with pytest.raises(UsageError, match="images=yes"):
        open_judge("model:openai/gpt-4o,images=maybe")
