"""What the tests of the command share."""

from __future__ import annotations

import pytest
from strategies import Images, evidence, sample

from demur.core.records import AnswerSpec, Modality, Role
from demur.release import Draft, FunnelStep, freeze


@pytest.fixture
def release(tmp_path):
    images = Images()
    made = []
    for i in range(4):
        query = images.ref((10 * i, 40, 90), f"q{i}.png")
        picture = evidence(
            f"s{i}-p",
            Role.DISTRACTOR,
            Modality.IMAGE,
            rank=1,
            image=images.ref((5, 5, i), f"p{i}.png"),
        )
        one = sample(f"s{i}", text=5, images=(query,))
        made.append(
            one.model_copy(
                update={
                    "negatives": (*one.negatives, picture),
                    "answers": AnswerSpec(accepted=((f"answer {i}",),)),
                }
            )
        )
    steps = [FunnelStep(stage="pool", entered=5, kept=4, dropped={"for a test": 1})]
    return freeze(
        tmp_path / "release",
        Draft(name="tiny", version="1.0.0", samples=made, read_image=images.read, funnel=steps),
    )
