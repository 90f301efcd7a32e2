"""Training data of CertainlyUncertain: rows by hand, opened by `datasets`, and one real step of TRL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_models
import yaml
from errors import raises
from strategies import png

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import Response
from demur.core.store import file_digest
from demur_suites.certainly_uncertain.suite import CertainlyUncertain

NAME = "demur_suites.certainly_uncertain:CertainlyUncertain"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "a.png").write_bytes(png("red", (60, 60)))
    (folder / "b.png").write_bytes(png("blue", (60, 60)))
    lines = [
        {
            "id": "c",
            "category": "temporal",
            "question": "Is it lit?",
            "answer": "yes",
            "idk_question": "Will it go out?",
            "image": "a.png",
            "split": "train",
        },
        {
            "id": "x",
            "category": "extraneous",
            "question": "What colour is it?",
            "answer": "red",
            "idk_answer": "There is no jug in the image.",
            "image": "a.png",
            "idk_image": "b.png",
            "route": "image",
            "licence": "CC0",
            "split": "train",
        },
        {
            "id": "t",
            "category": "temporal",
            "question": "Is it on?",
            "answer": "no",
            "idk_question": "Was it on before?",
            "image": "a.png",
            "split": "test",
        },
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def rows(out: Path, kind: str) -> dict[str, dict]:
    import pyarrow.parquet as pq

    return {r["id"]: r for r in pq.read_table(out / "data" / f"{kind}.parquet").to_pylist()}


def test_all_three_kinds_are_written_and_datasets_opens_them_elsewhere(pairs, tmp_path, capsys):
    outputs = tmp_path / "base.jsonl"
    said = {
        "c/answerable": "No.",
        "c/unanswerable": "Tomorrow",
        "x/answerable": "It is red.",
        "x/unanswerable": "",
    }  # what it declines, it need not be taught to decline: see the test below
    outputs.write_text("".join(json.dumps({"id": k, "output": v}) + "\n" for k, v in said.items()))
    out = tmp_path / "train"
    assert (
        main(
            [
                "suite",
                "export",
                NAME,
                str(pairs),
                "--outputs",
                str(outputs),
                "--split",
                "train",
                "--judge",
                "local",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    sft, rtune, dpo = (rows(out, kind) for kind in ("sft", "rtune", "dpo"))
    assert set(sft) == {
        "c/answerable",
        "c/unanswerable",
        "x/answerable",
        "x/unanswerable",
    }  # the test split is left out
    assert sft["x/unanswerable"]["messages"] == [
        {"role": "user", "content": "What colour is it?"},
        {"role": "assistant", "content": "There is no jug in the image."},
    ]
    assert set(rtune) == {
        "c/answerable",
        "c/unanswerable",
        "x/answerable",
    }  # what failed was not graded
    assert (
        rtune["c/answerable"]["messages"][1]["content"] == "I don't know."
    )  # it said no, yes was right
    assert rtune["x/answerable"]["messages"][1]["content"] == "red"
    both = [
        (r["chosen"][0]["content"], r["rejected"][0]["content"])
        for id, r in dpo.items()
        if id.startswith("x")
    ]
    assert both == [
        ("red", "There is no jug in the image."),
        ("There is no jug in the image.", "red"),
    ]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["rtune"] == {"rows": 3, "left out: not graded": 1, "relabelled": 1}
    card = (out / "README.md").read_text()
    assert "Licences of the photos: CC0" in card
    # by these `datasets` tells its tables from those of another folder of this name
    for info in yaml.safe_load(card.split("---\n")[1])["dataset_info"]:
        assert file_digest(out / "data" / f"{info['config_name']}.parquet") in info["description"]
    for file in pairs.iterdir():
        file.unlink()  # photos are inside the tables
    from datasets import load_dataset

    held = load_dataset(str(out), "dpo", split="train", cache_dir=str(tmp_path / "cache"))
    assert held.num_rows == 4
    assert held[0]["images"][0].size == (60, 60)


def test_r_tuning_relabels_what_the_base_answered_wrongly_and_nothing_that_it_declined(pairs):
    said = {"c/answerable": "I don't know.", "x/answerable": "It is blue."}
    base = {"base": {id: Response(text=text) for id, text in said.items()}}
    out = CertainlyUncertain().export(pairs, pairs / "o", kind="rtune", outputs=base)
    labels = {id: row["messages"][1]["content"] for id, row in rows(out, "rtune").items()}
    assert labels == {"c/answerable": "yes", "x/answerable": "I don't know."}


def test_a_pair_without_a_photo_takes_none_from_the_others(pairs, tmp_path):
    bare = {
        "id": "n",
        "category": "temporal",
        "question": "Is it lit?",
        "answer": "yes",
        "idk_question": "For long?",
    }
    with (pairs / "pairs.jsonl").open("a") as file:
        file.write(json.dumps(bare))
    out = CertainlyUncertain().export(pairs, tmp_path / "o", kind="sft")
    assert {
        id: len(row["images"]) for id, row in rows(out, "sft").items() if id.endswith("/answerable")
    } == {
        "c/answerable": 1,
        "x/answerable": 1,
        "t/answerable": 1,
        "n/answerable": 0,
    }
    assert "photos inside of 3 of them" in (out / "README.md").read_text()


def test_what_cannot_be_exported_says_why(pairs, tmp_path):
    suite = CertainlyUncertain()
    with raises(UsageError, "rtune", cure="--outputs"):
        suite.export(pairs, tmp_path / "o", kind="rtune")
    several = {"a": {"c/answerable": Response(text="x")}, "b": {}}
    with raises(UsageError, "a, b", cure="--model"):
        suite.export(pairs, tmp_path / "o", kind="rtune", outputs=several)
    with raises(UsageError, "validation", cure="demur suite check"):
        suite.export(pairs, tmp_path / "o", split="validation")
    suite.export(pairs, tmp_path / "o")  # all that can be had: no base model, no rtune
    assert sorted(p.stem for p in (tmp_path / "o" / "data").iterdir()) == ["dpo", "sft"]


# --- TRL ------------------------------------------------------------------------------------------


@pytest.fixture
def trl(monkeypatch):
    """The trainers, off every network, with transformers' own random weights."""
    pytest.importorskip("trl", reason="no TRL: pip install './suites[train]'")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    tiny_models.seeded(images=True)
    import trl

    return trl


def one_step(trl, kind: str, model: Path, data: Path, out: Path):
    """(what the trainer logs of one step, parameters that moved, rows that it was given)."""
    import torch
    from datasets import load_dataset

    rows = load_dataset(str(data), kind, split="train", cache_dir=str(out / "cache"))
    Config, Trainer = (
        (trl.SFTConfig, trl.SFTTrainer) if kind != "dpo" else (trl.DPOConfig, trl.DPOTrainer)
    )
    args = Config(
        output_dir=str(out),
        max_steps=1,
        per_device_train_batch_size=2,
        learning_rate=0.1,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        max_length=None,
        seed=0,
        disable_tqdm=True,
        gradient_checkpointing=False,
        warmup_steps=0,
    )
    trainer = Trainer(model=str(model), args=args, train_dataset=rows)
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    moved = {
        name
        for name, value in trainer.model.named_parameters()
        if not torch.equal(value, before[name])
    }
    return trainer.state.log_history[0], moved, rows.num_rows


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "photos"),
    [("sft", True), ("rtune", True), ("dpo", True), ("sft", False), ("dpo", False)],
)
@pytest.mark.filterwarnings("ignore")
def test_trl_takes_a_real_step_on_what_was_exported(trl, pairs, tmp_path, kind, photos):
    if not photos:
        lines = [json.loads(line) for line in (pairs / "pairs.jsonl").read_text().splitlines()]
        bare = [
            {k: v for k, v in line.items() if not k.endswith("image")}
            for line in lines
            if line["id"] != "x"
        ]
        (pairs / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in bare))
    base = {
        "c/answerable": "No.",
        "c/unanswerable": "Tomorrow",
        "x/answerable": "It is red.",
        "x/unanswerable": "Red",
    }
    ids = {id for id in base if photos or not id.startswith("x/")}
    outputs = {"base": {id: Response(text=base[id]) for id in ids}}
    data = CertainlyUncertain().export(pairs, tmp_path / "train", outputs=outputs, judge="local")
    model = (tiny_models.vision_model if photos else tiny_models.text_model)(tmp_path / "model")
    logged, moved, rows = one_step(trl, kind, model, data, tmp_path / "out")
    assert rows == {"sft": 6, "rtune": 4, "dpo": 6}[kind] - (0 if photos else 2)
    assert 0 < logged["loss"] < 20
    assert any("visual" in name for name in moved) is photos  # the photos' own weights learn too
    assert any("language_model" in name or "layers" in name for name in moved)
    if kind == "dpo":
        assert logged["logps/chosen"] != logged["logps/rejected"]
