"""What ``--plan`` says that a run or a build will cost, beside what it does cost: within a quarter."""

from __future__ import annotations

import json
import re

import curation_world as world
import pytest
from fake_batches import BatchEndpoint

from demur.core.records import Response
from demur.core.store import seed_of
from demur.curation.build.curate import curate
from demur.curation.build.estimate import estimate_build
from demur.evaluation.asking import ask, planned
from demur.evaluation.options import RunOptions
from demur.judge.base import asking_judges, open_judge
from demur.models import Budget
from demur.models import batch as batches
from demur.models.batch import batching
from demur.testing import running

WITHIN = 0.25


def reply(body):
    """A short answer of 30 to 70 words, or a label."""
    if body["model"] == "judge":
        text = str(body["messages"])
        town = re.search(r"the mayor of (?:Town(\d+)|the town in this photo \((\d+)\))", text)
        is_right = town and text.count(world.mayor(int(town[1] or town[2]))) > 1
        return json.dumps({"label": "CORRECT" if is_right else "INCORRECT"})
    words = 30 + seed_of(str(body["messages"])) % 41
    return "Some river or other, perhaps. " + " ".join(["word"] * (words - 5))


def tokens(messages):
    """As a tokenizer of words and signs counts, and 9 for each of the small pictures."""
    contents = [message["content"] for message in messages]
    parts = [p for c in contents for p in ([{"text": c}] if isinstance(c, str) else c)]
    texts = [len(re.findall(r"\w{1,6}|[^\w\s]", part.get("text", ""))) for part in parts]
    return 5 + sum(texts) + 9 * sum("image_url" in part for part in parts), 0


@pytest.fixture(scope="module")
def server():
    with running(kind=BatchEndpoint, reply=reply) as server:
        server.prompt_tokens = tokens
        yield server


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("plan")
    plan = world.recipe(world.folder(root / "towns"), world.GATES)
    return curate(plan, root / "out").release, root / "towns"


@pytest.fixture
def prices(tmp_path):
    table = tmp_path / "prices.json"
    models = {
        "tiny": {"prompt": 2.5, "completion": 10.0, "batch": 0.5, "flex": 0.4},
        "judge": {"prompt": 1.0, "completion": 4.0, "batch": 0.5},
    }
    table.write_text(json.dumps({"models": models}))
    return table


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(batches, "POLL_S", 0.01)


def near(cost):
    return pytest.approx(cost, rel=WITHIN)


@pytest.mark.parametrize("judge", ["local", "model:{}", "cascade:{}"])
@pytest.mark.parametrize("batch", [False, True])
def test_a_runs_plan_is_near_what_it_costs(built, server, prices, tmp_path, judge, batch):
    """Before anything is known; after a part of it; and when the replies are there, and only the judge is new."""
    release, _ = built
    system = f"model:{server.model('tiny')}"
    options = RunOptions(
        out=tmp_path / "runs",
        prices=prices,
        judge=judge.format(server.model("judge")),
        batch=batch,
        system_options={"max_tokens": 256},
    )
    plan = planned(release, [system], options)
    few = options.model_copy(update={"limit": 4})
    ask(release, [system], few)
    spent_on_few = Budget(None, options.calls, "model-tiny").sub_budget("judge").spent
    rest = planned(release, [system], options)
    ask(release, [system], options)
    spent = Budget(None, options.calls, "model-tiny").sub_budget("judge").spent
    assert rest.expected == near(spent - spent_on_few) or judge.startswith("cascade")
    assert plan.expected == near(spent) or judge.startswith("cascade")
    assert plan.money >= spent
    assert rest.money >= spent - spent_on_few
    assert planned(release, [system], options).expected == 0
    stages = [line.stage for line in plan.lines]
    assert stages == ["run", *(["judge"] if judge.startswith("model") else [])] or len(stages) == 2


def test_a_new_judge_of_known_answers_is_planned_exactly(built, server, prices, tmp_path):
    """The cascade's local judge has read them: only what it is unsure of is counted."""
    release, _ = built
    system = f"model:{server.model('tiny')}"
    options = RunOptions(out=tmp_path / "runs", prices=prices, system_options={"max_tokens": 256})
    ask(release, [system], options)
    judged = options.model_copy(update={"judge": f"cascade:{server.model('judge')}"})
    plan = planned(release, [system], judged)
    before = server.requests
    ask(release, [system], judged)
    tried = 8  # plain wrong answers, to see whether the model can grade
    [line] = [line for line in plan.lines if line.stage == "judge"]
    assert server.requests - before in (line.calls, line.calls + tried)
    assert plan.lines[0].to_pay == 0


@pytest.mark.parametrize(("batch", "tier"), [(False, None), (False, "flex"), (True, None)])
def test_a_builds_plan_is_near_what_it_costs(built, server, prices, tmp_path, batch, tier):
    """The gates' labels are known from a pilot; the cost of their answers and of grading them is not."""
    _, source = built
    more = {"service_tier": tier} if tier else {}
    gates = [
        {
            "system": f"model:{server.model('tiny')}",
            "name": "tiny",
            "options": {"max_tokens": 256, **more},
        },
        world.simulated("strong", strength=0.4),
    ]
    judge = f"model:{server.model('judge')}"
    plan = world.recipe(source, gates, judge=judge, retest=0)
    with batching(batch):
        curate(plan, tmp_path / "done", prices=prices)
    spent = Budget(None, tmp_path / "done" / "build" / "calls.sqlite").spent
    pilot = estimate_build(
        plan, tmp_path / "new", learn_from=tmp_path / "done", prices=prices, batch=batch
    )
    assert pilot.dollars("money_expected") == near(spent)
    assert pilot.dollars("money_at_most") >= spent
    assert any(judge in note for note in pilot.notes)
    share = {"flex": "40%", None: "50%"}[tier]
    assert any(f"tiny in {tier or 'batch'}: {share}" in n for n in pilot.notes) is bool(
        tier or batch
    )


def test_what_a_judge_would_ask_is_what_it_asks(built, server):
    release, _ = built
    [judge] = asking_judges(open_judge(f"panel:local,model:{server.model('judge')}"))
    from demur.evaluation.questions import tasks

    [task, *_] = tasks(RunOptions(), list(release.samples()))
    unknown, known = (
        judge.would_ask(task.ask, answer, task.sample.answers)
        for answer in (None, Response(text="The Danube."))
    )
    assert [r.json_schema for r in (*unknown, *known)] == [judge.schema] * 2
    assert judge.would_ask(task.ask, Response(error="gone"), task.sample.answers) == []
