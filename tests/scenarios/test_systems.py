"""Systems: each answers, declines or fails in its own way, and none can end a run."""

from __future__ import annotations

import json

import numpy as np
import pytest
from errors import raises
from strategies import Images, evidence, sample

from demur.core.errors import BadInput, ItemError, UnknownPart, UsageError
from demur.core.records import AnswerSpec, Modality, Response, Role
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.contexts import context, recipe
from demur.scenarios.render import Layout, ask
from demur.scenarios.systems import SystemContext, open_system
from demur.scenarios.systems.model import ModelSystem, read_reply

PROMPTS = Prompts()


def asked(s, scenario="oracle", how="moderate"):
    return ask(s, context(s, recipe(scenario)), condition(how), PROMPTS)


def bag(texts):
    """Sentence vectors by shared words: enough for a reader to tell fields apart."""
    out = np.zeros((len(texts), 4096), dtype=np.float32)
    for i, text in enumerate(texts):
        for word in "".join(c if c.isalnum() else " " for c in text.lower()).split():
            out[i, hash(("w", word)) % 4096] += 1
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)


def country(name, capital, gold=True, n="g"):
    text = f"Official name: Republic of {name}. Capital: {capital}. Coastline: 1,318 km. Population: 2,000,100 (2025 est.)."
    role = Role.GOLD if gold else Role.DISTRACTOR
    return evidence(f"{name}-{n}", role, rank=1).model_copy(
        update={"title": f"{name}: state", "text": text}
    )


def atlas_like(question="What is the capital of Freedonia?"):
    return sample("q").model_copy(
        update={
            "question": question,
            "answers": AnswerSpec(accepted=(("Fredville",),)),
            "gold": (country("Freedonia", "Fredville"),),
            "negatives": (
                country("Sylvania", "Sylvan City", gold=False),
                country("Osterlich", "Ostburg", gold=False, n="x"),
            ),
        }
    )


async def test_the_reader_finds_the_field_in_the_right_passage():
    reader = open_system("reader", SystemContext(read_image=lambda r: b"", embed=bag))
    s = atlas_like()
    for scenario in ("oracle", "realistic"):
        assert (await reader.answer(asked(s, scenario))).text == "Fredville"
    lengths = atlas_like("How long is the coastline of Freedonia, in kilometres?")
    assert (await reader.answer(asked(lengths))).text == "1,318 km"


async def test_the_careful_reader_declines_without_support():
    careful = open_system("reader?min=0.5", SystemContext(read_image=lambda r: b"", embed=bag))
    s = atlas_like()
    sure, unsure = await careful.answer(asked(s)), await careful.answer(asked(s, "adversarial"))
    assert sure.text == "Fredville"
    assert "cannot" in unsure.text
    assert sure.confidence > unsure.confidence


async def test_the_reader_reads_captions_and_colours():
    images = Images()
    flag = images.ref((206, 17, 38), "flag.png")
    picture = evidence("flag", Role.GOLD, Modality.IMAGE, image=flag).model_copy(
        update={"title": "Flag of Freedonia"}
    )
    s = sample("q").model_copy(
        update={
            "question": "What colour is the top band of the flag of Freedonia?",
            "gold": (picture,),
        }
    )
    reader = open_system("reader", SystemContext(read_image=images.read, embed=bag))
    assert (await reader.answer(asked(s))).text == "red"
    named = s.model_copy(update={"question": "What is the name of this landmark in Freedonia?"})
    assert (await reader.answer(asked(named))).text == "Freedonia"


async def test_the_prior_answers_like_its_neighbours_never_by_itself():
    pool = [
        sample(f"s{i}").model_copy(
            update={
                "question": f"Which top export has country {i}?",
                "answers": AnswerSpec(accepted=((a,),)),
            }
        )
        for i, a in enumerate(["oil", "oil", "tea", "oil"])
    ]
    prior = open_system("prior?k=3", SystemContext(read_image=lambda r: b"", embed=bag, pool=pool))
    assert (await prior.answer(asked(pool[2], "parametric"))).text == "oil"
    assert prior.skip_reason(asked(sample("other"))) != ""


@pytest.mark.parametrize(
    ("name", "item", "cure"),
    [
        ("reader?min=2", "reader:?min=2", "min="),
        ("reader?max=1", "reader:?max=1", "min="),
        ("reader:min=1", "reader:min=1", "reader?min="),
        ("prior?k=0", "prior:?k=0", "k="),
        ("prior:k=3", "prior:k=3", "prior?k="),
        ("model:", "model:", "model:openai/"),
        ("python:nothing", "python:nothing", "python:module:function"),
        ("python:json:nothing", "python:json:nothing", "JSONDecoder"),
        ("answers:", "answers:", "answers:my-answers.jsonl"),
    ],
)
def test_wrong_arguments_are_refused_with_the_right_form(name, item, cure):
    with raises(UsageError, item=item, cure=cure):
        open_system(name, SystemContext(read_image=lambda r: b"", embed=bag, pool=[sample()]))


def test_an_unknown_system_is_answered_with_those_that_exist():
    with raises(UnknownPart, "'raeder'", cure="'reader'"):
        open_system("raeder", SystemContext(read_image=lambda r: b""))


async def test_answers_from_a_file(tmp_path):
    s = sample("q")
    path = tmp_path / "mine.jsonl"
    rows = [
        {"sample": "q", "scenario": "oracle", "answer": "forty-two", "confidence": 0.9},
        {"ask": asked(s, "parametric").id, "answer": ""},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    system = open_system(f"answers:{path}", SystemContext(read_image=lambda r: b""))
    assert (await system.answer(asked(s))).text == "forty-two"
    assert (await system.answer(asked(s, "parametric"))).error == ""
    error = (await system.answer(asked(s, "adversarial"))).error
    assert "sample q in adversarial (k=2" in error


def test_a_bad_answers_file_is_told_whole(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(
        '{"answer": "x"}\nnot json\n{"ask": "a", "answer": 3}\n{"ask": "a", "answer": "x", "confidence": 7}\n'
        '{"ask": "b", "answer": "x"}\n{"ask": "b", "answer": "y"}\n'
    )
    with pytest.raises(BadInput) as caught:
        open_system(f"answers:{path}", SystemContext(read_image=lambda r: b""))
    assert [line.split(":")[1] for line in caught.value.problems] == [
        "2",
        "1",
        "3",
        "4",
        "6",
    ] or len(caught.value.problems) == 5


async def test_a_users_function_may_fail_without_ending_anything(tmp_path, monkeypatch):
    (tmp_path / "mine_sys.py").write_text(
        "def good(given):\n    return {'answer': given['evidence'][0]['title'], 'confidence': 0.5}\n"
        "async def later(given):\n    return 'x'\n"
        "def bad(given):\n    raise ValueError('oh no')\n"
        "def odd(given):\n    return 7\n"
    )
    monkeypatch.chdir(tmp_path)
    context = SystemContext(read_image=lambda r: b"")
    s = sample("q")
    good = await open_system("python:mine_sys:good", context).answer(asked(s))
    assert (good.text, good.confidence) == ("Title of q-g0", 0.5)
    assert (await open_system("python:mine_sys:later", context).answer(asked(s))).text == "x"
    assert (
        await open_system("python:mine_sys:bad", context).answer(asked(s))
    ).error == "ValueError: oh no"
    assert (
        "returned int" in (await open_system("python:mine_sys:odd", context).answer(asked(s))).error
    )


class Pipeline:
    """A user's own object, which knows nothing of demur."""

    def __init__(self, said):
        self.said = said

    async def answer(self, question, evidence):
        return f"{self.said} {len(evidence)}"


async def test_a_users_object_with_answer_is_asked_as_a_function_is():
    s = atlas_like()
    system = open_system(Pipeline("Fredville"), SystemContext(read_image=lambda r: b""))
    assert (await system.answer(asked(s))).text == f"Fredville {len(s.gold)}"
    with raises(UsageError, "dict"):
        open_system({}, SystemContext(read_image=lambda r: b""))


def test_replies_are_taken_apart_where_the_condition_asked_for_it():
    reply = Response(text="It is hot there.\nFinal answer: Niamey\nConfidence: 5")
    read = read_reply(reply, final=True, stated=True)
    assert (read.text, read.confidence, read.reasoning) == ("Niamey", 1.0, "It is hot there.")
    assert read_reply(reply, final=False, stated=False).text == reply.text
    assert read_reply(Response(text="Niamey"), final=True, stated=True).confidence is None


async def test_a_model_system_asks_renders_and_keeps_items_errors_apart(tmp_path, monkeypatch):
    (tmp_path / "mine_model.py").write_text(
        "def reply(request):\n"
        "    text = ' '.join(p.text for m in request.messages for p in m.parts if p.type == 'text')\n"
        "    return 'seen gold' if 'q-g0' in text else 'I cannot answer.'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    system = open_system(
        "model:python:mine_model:reply",
        SystemContext(read_image=lambda r: b"", ledger=tmp_path / "calls.sqlite"),
    )
    s = sample("q")
    try:
        assert (await system.answer(asked(s))).text == "seen gold"
        assert (await system.answer(asked(s, "adversarial"))).text == "I cannot answer."
        system.layout = Layout(max_tokens=20)  # one question too long ends no run
        assert " 20" in (await system.answer(asked(s))).error
    finally:
        await system.close()


@pytest.mark.parametrize(
    "options", [{"temperature": float("inf")}, {"max_tokens": -5}, {"extra": [1]}, {"topp": 1}]
)
def test_wrong_options_of_a_model_are_told_before_anything_is_asked(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        ModelSystem("openai/gpt-4o", SystemContext(read_image=lambda r: b"", options=options))


@pytest.mark.parametrize(
    ("more", "sent"),
    [
        ({}, {"temperature": 0.2, "top_p": 1.0, "extra": {"repetition_penalty": 1.05}}),
        (
            {"temperature": 0, "max_tokens": 9, "extra": {"top_k": 5}},
            {
                "temperature": 0,
                "top_p": 1.0,
                "max_tokens": 9,
                "extra": {"repetition_penalty": 1.05, "top_k": 5},
            },
        ),
    ],
)
def test_decoding_in_one_word_is_the_papers_and_gives_way_to_what_is_said(more, sent):
    """Section 4.1 of VLM-DeflectionBench; the request, its key and the run's settings are those of the options."""

    def system(options):
        return ModelSystem("openai/m", SystemContext(read_image=lambda r: b"", options=options))

    in_a_word, in_full = system({"decoding": "vlm-deflectionbench", **more}), system(sent)
    assert in_a_word.sampling == sent
    assert in_a_word.settings == in_full.settings
    assert in_a_word.request(asked(sample())) == in_full.request(asked(sample()))
    with raises(UsageError, "vlm-deflectionbench", item="openai/m", cure="decoding"):
        system({"decoding": "papers"})


class Failing:
    id = "failing"

    async def complete(self, request):
        raise ItemError("too long", item=request.item)


async def test_an_items_failure_is_that_items_alone(monkeypatch):
    system = ModelSystem("http://127.0.0.1:9/v1#m", SystemContext(read_image=lambda r: b""))
    monkeypatch.setattr(system, "_model", Failing())
    assert "too long" in (await system.answer(asked(sample("q")))).error


def test_a_text_only_model_is_not_asked_about_images():
    images = Images()
    flag = images.ref((1, 2, 3))
    context = SystemContext(read_image=images.read, options={"layout": Layout(images="none")})
    system = ModelSystem("http://127.0.0.1:9/v1#m", context)
    assert system.skip_reason(asked(sample("q", images=(flag,)))) == "text-only model"
    assert system.skip_reason(asked(sample("q"))) == ""


async def test_a_model_is_opened_once_however_many_ask_at_once(tmp_path, monkeypatch):
    import asyncio

    import demur.models

    (tmp_path / "mine_once.py").write_text("def reply(request):\n    return 'x'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    opened = []
    real = demur.models.open_model

    def counted(*args, **more):
        opened.append(args)
        return real(*args, **more)

    monkeypatch.setattr(demur.models, "open_model", counted)
    system = open_system("model:python:mine_once:reply", SystemContext(read_image=lambda r: b""))
    await asyncio.gather(*(system.answer(asked(sample(f"q{i}"))) for i in range(9)))
    await system.close()
    assert len(opened) == 1


async def test_a_static_retriever_shows_each_question_its_own_evidence():
    import asyncio

    from demur.scenarios.systems.static import StaticRetriever

    retriever = StaticRetriever()

    async def one(name):
        with retriever.showing(
            [
                {"id": name, "title": "T", "text": f"about {name}"},
                {"id": "i", "title": "A map", "text": None},
            ]
        ):
            await asyncio.sleep(0)
            return await asyncio.to_thread(retriever.pieces)

    found = await asyncio.gather(*(one(str(i)) for i in range(8)))
    assert [[(p["id"], p["text"]) for p in pieces] for pieces in found] == [
        [(str(i), f"about {i}"), ("i", "A map")] for i in range(8)
    ]
    assert retriever.pieces() == []


def test_what_a_system_says_is_read_in_every_form():
    from types import SimpleNamespace as Object

    from demur.core.errors import ItemError
    from demur.scenarios.systems.replies import response_of

    node = Object(ref_doc_id="doc", node_id="n1", metadata={}, text="a text")
    found = response_of(
        {
            "answer": "x",
            "cost": 0.5,
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "contexts": [
                Object(node=node, score=0.5),
                Object(id="d", content="b", meta={}, score=None),
                Object(id=None, page_content="c", metadata={"id": "lc"}),
                "plain-id",
                "some words",
            ],
        }
    )
    assert [(c.id, c.text, c.score) for c in found.retrieved] == [
        ("doc", "a text", 0.5),
        ("d", "b", None),
        ("lc", "c", None),
        ("plain-id", "", None),
        ("", "some words", None),
    ]
    assert (found.cost, found.usage.prompt, found.usage.completion) == (0.5, 3, 4)
    assert response_of({"abstained": True}).abstained
    for bad, why in [
        ("Empty Response", "retriever"),
        (None, "NoneType"),
        ({"answer": "x", "confidence": True}, "confidence"),
        ({"answer": "x", "contexts": [object()]}, "object"),
        ({"answer": "x", "cost": "much"}, "'much'"),
        ({"answer": "x", "prompt_tokens": float("inf")}, "prompt_tokens"),
        ({"answer": "x", "citations": 5}, "citations"),
    ]:
        with pytest.raises(ItemError, match=why):
            response_of(bad)


async def test_a_function_is_told_what_it_passes_over():
    from demur.core.records import Ask, Scenario, Shown
    from demur.scenarios.systems.function import Function

    ref = Images().ref((1, 2, 3), "a.png")
    shown = Shown(id="e", modality=Modality.TEXT, title="T", text="t")
    both = Ask(
        id="a",
        sample="s",
        context="c",
        scenario=Scenario.ORACLE,
        question="?",
        images=(ref,),
        evidence=(shown,),
    )
    context = SystemContext(read_image=lambda ref: b"")
    for function, told in (
        (
            lambda question: "",
            ("does not receive the evidence (it has no parameter evidence)", "--text-only"),
        ),
        (lambda question, evidence: "", ("1 of 1 questions are about one",)),
        (lambda question, evidence, images: "", ()),
        (lambda question, **rest: "", ()),
        (lambda given: "", ()),
    ):
        warned = await Function(function, context).ready([both])
        assert len(warned) == len(told)
        assert all(word in line for word, line in zip(told, warned, strict=True))
