"""Systems made of models: they take a model's options, and are kept under all that they are made of."""

from __future__ import annotations

import importlib
import json
import sys

from strategies import sample

from demur.cli import main
from demur.curation.gates.runner import key_of
from demur.models.ledger import Ledger
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.contexts import context, recipe
from demur.scenarios.render import ask
from demur.scenarios.systems import SystemContext, open_system


def asked(s):
    return ask(s, context(s, recipe("oracle")), condition("moderate"), Prompts())


def test_a_system_made_of_models_gets_the_options_of_models(release, tmp_path, monkeypatch):
    (tmp_path / "mine_tempered.py").write_text(
        "def answer(request):\n    return 'DECISION: APPROVE' if request.temperature == 0.5 else 'no'"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("pair=multi_agent:python:mine_tempered:answer", "--temperature", "0.5", "--images")
    words = (*words, "one", "--scenarios", "all", "oracle(order=gold-first)")
    assert main(["run", str(release), "--out", "runs", "--system", *words]) == 0
    made = json.loads((tmp_path / "runs" / "pair" / "manifest.json").read_text())
    assert made["settings"] == {"layout": {"images": "one"}, "temperature": 0.5}
    assert len(made["recipes"]) == 5


MADE_OF_MODELS = (
    "multi_agent:{}",
    "multi_agent:{}?mode=iterative",
    "self_consistency:{}?n=3",
    "p_true:{}",
)


def test_what_is_made_of_models_is_kept_under_all_that_it_is_made_of(tmp_path, monkeypatch):
    """Its first call is the model's own; a verdict on one is none on the other, nor is one of an edited verifier."""
    code = "def reply(request):\n    return 'x'\n"
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("mine_first", "mine_second"):
        (tmp_path / f"{name}.py").write_text(code)
    s, model = sample("q"), "python:mine_first:reply"
    context = SystemContext(read_image=lambda r: b"")
    several = [open_system(one.format(model), context) for one in ("model:{}", *MADE_OF_MODELS)]
    keys = [key_of(one, asked(s), s, ["local", ""], 0) for one in several]
    assert len(set(keys)) == len(keys)

    def revision():
        for name in ("mine_first", "mine_second"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return open_system(
            f"multi_agent:{model}?verifier=python:mine_second:reply", context
        ).revision

    before = revision()
    (tmp_path / "mine_second.py").write_text(code.replace("'x'", "'another'"))
    assert revision() != before


async def test_all_calls_of_a_question_are_forgotten_where_it_is_asked_afresh(
    tmp_path, monkeypatch
):
    (tmp_path / "mine_drawn.py").write_text("def reply(request):\n    return 'FINAL ANSWER - x'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    ledger, one, other = tmp_path / "calls.sqlite", asked(sample("q")), asked(sample("p"))
    system = open_system(
        "self_consistency:python:mine_drawn:reply?n=3",
        SystemContext(read_image=lambda r: b"", ledger=ledger),
    )
    for ask_ in (one, other):
        await system.answer(ask_)
    await system.close()
    with Ledger(ledger) as kept:
        assert sum(s.replies for s in kept.stats()) == 6
        kept.drop_items([one.id], ["another model"])
        assert sum(s.replies for s in kept.stats()) == 6
        kept.drop_items([one.id], system.models)
        assert [e.item for e in kept.entries()] == [other.id] * 3
