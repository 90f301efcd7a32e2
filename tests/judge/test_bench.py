"""`demur judge bench`: what is read, and what is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demur.cli import main
from demur.core.errors import BadInput, UsageError
from demur.core.records import Outcome, Status, Verdict
from demur.judge.bench import agrees, asks, bench, load, shipped

RIVER = {"question": "Which river?", "answers": ["Danube"]}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verdict(outcome: str, probability: float | None = None) -> Verdict:
    if not outcome:
        return Verdict(id="a", status=Status.FAILED, kind="empty", reason="empty", judge="j")
    return Verdict(
        id="a",
        status=Status.GRADED,
        outcome=Outcome(outcome),
        probability=probability,
        reason="because",
        judge="j",
    )


def test_labels_and_what_only_declines_are_read(tmp_path: Path) -> None:
    plain = RIVER | {"id": "a", "response": "The Danube.", "label": "correct", "language": "en"}
    declines = {"text": "I don't know.", "deflects": True}
    written(tmp_path / "a.jsonl", plain, declines, {"text": "Rhine.", "deflects": False})
    items = load(tmp_path)
    assert [(item.label, item.part) for item in items] == [
        ("correct", ""),
        ("deflected", ""),
        ("answered", ""),
    ]
    assert items[0].answers.accepted == (("Danube",),)
    assert asks(items)[0][0].question == "Which river?"


def test_rows_without_a_label_are_named_all_at_once(tmp_path: Path) -> None:
    right = RIVER | {"response": "x", "label": "correct"}
    path = written(
        tmp_path / "rows.jsonl",
        right,
        right | {"label": "perhaps"},
        {"question": "Which river?"},
        right | {"answer_type": "colour"},
    )
    with pytest.raises(BadInput) as error:
        load(path)
    assert [n for n in range(1, 5) if f"rows.jsonl:{n}" in str(error.value)] == [2, 3, 4]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError):
        load(tmp_path / "empty")


def test_options_may_be_a_list(tmp_path: Path) -> None:
    row = RIVER | {"choices": ["Rhine", "Danube"], "response": "B", "label": "correct"}
    (item,) = load(written(tmp_path / "rows.jsonl", row))
    assert item.answers.choices == (("A", "Rhine"), ("B", "Danube"))


@pytest.mark.parametrize(
    ("outcome", "label", "same"),
    [
        ("correct", "correct", True),
        ("incorrect", "deflected", False),
        ("deflected", "not_correct", True),
        ("correct", "not_correct", False),
        ("incorrect", "answered", True),
        ("deflected", "answered", False),
    ],
)
def test_a_label_that_tells_less_agrees_with_all_that_it_may_mean(
    outcome: str, label: str, same: bool
) -> None:
    assert agrees(outcome, label) is same


def test_shares_are_of_answers_with_an_outcome(tmp_path: Path) -> None:
    labels = ["correct", "correct", "incorrect", "deflected", "correct"]
    rows = [
        RIVER | {"id": str(n), "response": "x", "label": label, "language": "en" if n else "de"}
        for n, label in enumerate(labels)
    ]
    items = load(written(tmp_path / "rows.jsonl", *rows))
    outcomes = ["correct", "incorrect", "correct", "deflected", ""]
    verdicts = [verdict(outcome, 0.75 if outcome else None) for outcome in outcomes]
    german, english, every = bench(items, verdicts)
    assert (german.part, english.part, every.part) == ("de", "en", "all")
    assert german.agreement == (1, 1)
    assert every.agreement == (2, 4)
    assert every.without == 1
    assert every.precision == {"correct": (1, 2), "incorrect": (0, 1), "deflected": (1, 1)}
    assert every.recall == {"correct": (1, 2), "incorrect": (0, 1), "deflected": (1, 1)}
    assert (every.accuracy, every.accuracy_of_people) == ((2, 4), (2, 4))
    assert every.calibration_error == pytest.approx(0.25)
    unsure = [v.model_copy(update={"probability": None}) for v in verdicts]
    assert bench(items, unsure)[-1].calibration_error is None


def test_whether_replies_decline_says_nothing_of_accuracy(tmp_path: Path) -> None:
    rows = [{"text": "No idea.", "deflects": True}, {"text": "Rhine.", "deflects": False}]
    items = load(written(tmp_path / "rows.jsonl", *rows))
    (every,) = bench(items, [verdict("deflected"), verdict("incorrect")])
    assert every.agreement == (2, 2)
    assert every.accuracy.n == every.accuracy_of_people.n == 0


def test_the_command_prints_figures_and_where_people_differ(tmp_path: Path, capsys: Any) -> None:
    rows = [
        RIVER | {"id": "a", "response": "Danube", "label": "correct"},
        RIVER | {"id": "b", "response": "Danube", "label": "incorrect"},
    ]
    words = ["judge", "bench", "local", "--on", str(written(tmp_path / "rows.jsonl", *rows))]
    words += ["--ledger", str(tmp_path / "calls.sqlite")]
    assert main([*words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["agreement"]["value"] == row["accuracy_of_people"]["value"] == 0.5
    assert main([*words, "--wrong"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:2] for line in lines if "people say" in line] == ["b:"]


def test_the_shipped_answers_can_be_read() -> None:
    assert {item.label for item in load(shipped())} == {outcome.value for outcome in Outcome}
