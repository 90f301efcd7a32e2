"""Rendering: golden prompts, images as models take them, budgets with every cut recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from errors import raises
from hypothesis import given
from hypothesis import strategies as st
from strategies import Images, evidence, sample, samples

from demur.core.errors import ItemError
from demur.core.records import ImagePart, Modality, Role, Scenario
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.contexts import context, recipe
from demur.scenarios.render import Layout, ask, render, tokens

GOLDEN = Path(__file__).parent / "golden"
PROMPTS = Prompts()


def flat(rendered) -> str:
    """Messages as text, images as their hash's place."""
    lines = []
    for message in rendered.messages:
        body = "".join(
            p.text if p.type == "text" else f"<image {p.image.uri}>\n" for p in message.parts
        )
        lines.append(f"=== {message.role}\n{body}\n")
    return "".join(lines) + "".join(f"--- cut: {c}\n" for c in rendered.cuts)


def case():
    images = Images()
    flag, other = images.ref((1, 2, 3), "flag.png"), images.ref((9, 9, 9), "other.png")
    s = sample("q1", gold=1, text=2, images=(flag,)).model_copy(
        update={"question": "Which colour is the band {x} of $flag?"}
    )
    picture = evidence("q1-v0", Role.DISTRACTOR, Modality.IMAGE, rank=1, image=other)
    return s.model_copy(update={"negatives": (*s.negatives, picture)})


@pytest.mark.parametrize(
    ("name", "text", "how", "layout"),
    [
        ("parametric", "parametric", "none", Layout()),
        ("oracle-severe-strict", "oracle", "severe+strict", Layout()),
        ("realistic-many", "realistic(k=3)", "moderate", Layout()),
        ("realistic-one", "realistic(k=3)", "moderate", Layout("one")),
        ("realistic-none", "realistic(k=3)", "soft+confidence+reasoning", Layout("none")),
    ],
)
def test_golden_prompts(name, text, how, layout):
    s = case()
    how = condition(how)
    got = flat(render(ask(s, context(s, recipe(text)), how, PROMPTS), how, PROMPTS, layout))
    path = GOLDEN / f"{name}.txt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(got)
        pytest.fail(f"wrote {path.name}: look at it, then run again")
    assert got == path.read_text()


@given(
    samples(),
    st.sampled_from(list(Scenario)),
    st.sampled_from(["many", "one", "none"]),
    st.integers(0, 9),
)
def test_nothing_tells_gold_from_distractor(s, scenario, images, seed):
    made = context(s, recipe(scenario.value), seed)
    if made is None:
        return
    how = condition("moderate")
    asked = ask(s, made, how, PROMPTS)
    seen = asked.model_dump_json() + flat(render(asked, how, PROMPTS, Layout(images)))
    assert '"role"' not in seen.replace('"role": "', "")
    assert "distractor" not in seen
    assert "mined" not in seen


@given(samples(), st.integers(300, 2000))
def test_a_budget_is_kept_and_every_cut_is_told(s, budget):
    long = s.model_copy(
        update={
            "gold": tuple(e.model_copy(update={"text": "word " * 900}) for e in s.gold),
            "negatives": tuple(e for e in s.negatives if e.modality is Modality.TEXT),
        }
    )
    how = condition("moderate")
    made = context(long, recipe("realistic(k=4)"))
    if made is None:
        return
    asked = ask(long, made, how, PROMPTS)
    rendered = render(asked, how, PROMPTS, Layout(max_tokens=budget))
    total = sum(tokens(p.text) for m in rendered.messages for p in m.parts if p.type == "text")
    assert total <= budget
    said = " ".join(rendered.cuts)
    for e in asked.evidence:
        whole = any(e.text in p.text for p in rendered.messages[1].parts if p.type == "text")
        assert whole or e.id in said


def test_a_budget_too_small_for_the_question_is_refused():
    s = case()
    how = condition("moderate")
    with raises(ItemError, " 20", item=s.id):
        render(
            ask(s, context(s, recipe("oracle")), how, PROMPTS), how, PROMPTS, Layout(max_tokens=20)
        )


def test_an_asks_identity_is_its_content():
    s = case()
    how = condition("moderate")
    one = ask(s, context(s, recipe("oracle")), how, PROMPTS)
    assert one.id == ask(s, context(s, recipe("oracle")), how, PROMPTS).id
    changed = s.model_copy(update={"gold": (s.gold[0].model_copy(update={"text": "Other."}),)})
    assert one.id != ask(changed, context(changed, recipe("oracle")), how, PROMPTS).id
    assert one.id != ask(s, context(s, recipe("oracle")), condition("soft"), PROMPTS).id


def test_query_images_are_shown_to_those_who_see():
    s = case()
    how = condition("none")
    asked = ask(s, context(s, recipe("parametric")), how, PROMPTS)
    shown = [p for p in render(asked, how, PROMPTS).messages[1].parts if isinstance(p, ImagePart)]
    assert [p.image for p in shown] == list(s.images)
    blind = render(asked, how, PROMPTS, Layout("none"))
    assert not [p for p in blind.messages[1].parts if isinstance(p, ImagePart)]
    assert "takes no images" in blind.cuts[0]
