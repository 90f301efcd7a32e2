"""Tasks for lmms-eval: ``demur export lmms-eval`` writes task files that call this module.

A folder of YAML files, one per scenario and one group of them all, and a ``utils.py`` that imports this module::

    python -m lmms_eval --include_path DIR --tasks demur_atlas --model qwen2_5_vl --log_samples --output_path logs
    demur run RELEASE --scenarios oracle --system answers:logs/..._samples_demur_atlas_oracle.jsonl

The judge is that of `demur run`; ``unusable`` is the share of answers without a verdict, which are in no other rate.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from demur.core.records import AnswerSpec, Ask, Outcome, Record, Verdict
from demur.core.store import write_atomic, write_records
from demur.core.worker import Worker
from demur.evaluation.export import (
    Exported,
    Judging,
    Part,
    Turn,
    read_questions,
    slug,
    write_questions,
)
from demur.evaluation.options import RunOptions
from demur.models.run import run_sync
from demur.release import Release

METRICS = {
    "accuracy": Outcome.CORRECT,
    "deflection": Outcome.DEFLECTED,
    "hallucination": Outcome.INCORRECT,
}
"""Rate among graded answers -> the outcome that it counts."""


class Doc(Record):
    """A question as lmms-eval reads it: nested values are JSON texts, so that every column has one type."""

    id: str
    target: str
    messages: list[dict[str, Any]]
    ask: str
    answers: str


FUNCTIONS = ("doc_to_visual", "doc_to_text", "doc_to_messages", "process_results")


def export_lmms_eval(release: Release, options: RunOptions) -> Exported:
    """Write task files, one for each scenario, and the group of them.

    Args:
        release: opened.
        options: what is asked; ``out`` is the folder, for ``--include_path``.
    """
    out = options.out
    package = f"demur_{slug(release.name)}"
    tasks = write_questions(release, out, options)
    for name in tasks:
        rows = (
            Doc(
                id=question.id,
                target=question.answers.display_form,
                messages=[t.model_dump() for t in question.messages],
                ask=question.ask.model_dump_json(),
                answers=question.answers.model_dump_json(),
            )
            for question in read_questions(out, name)
        )
        data = out / f"{name}.jsonl"
        write_records(data, rows)
        metrics = "".join(
            f"  - metric: {metric}\n    aggregation: !function utils.{metric}\n"
            f"    higher_is_better: {'false' if metric in ('hallucination', 'unusable') else 'true'}\n"
            for metric in (*METRICS, "unusable")
        )
        write_atomic(
            out / f"{package}_{name}.yaml",
            f"task: {package}_{name}\ndataset_path: json\n"
            f"dataset_kwargs:\n  data_files:\n    test: {json.dumps(str(data.resolve()))}\n"
            "test_split: test\noutput_type: generate_until\ndoc_to_visual: !function utils.doc_to_visual\n"
            "doc_to_text: !function utils.doc_to_text\ndoc_to_messages: !function utils.doc_to_messages\n"
            "doc_to_target: target\ngeneration_kwargs:\n  max_new_tokens: 1024\n  temperature: 0\n  do_sample: false\n"
            # without a list of its own lmms-eval stops a model at the first empty line, and with it its answer
            "  until: []\n"
            f"process_results: !function utils.process_results\nmetric_list:\n{metrics}metadata:\n  - version: "
            f"{json.dumps(release.version)}\n",
        )
    listed = "".join(f"  - {package}_{name}\n" for name in tasks)
    write_atomic(out / f"{package}.yaml", f"group: {package}\ntask:\n{listed}")
    names = [*METRICS, "unusable"]
    write_atomic(
        out / "utils.py",
        '"""What the task files call."""\n\nfrom pathlib import Path\n\n'
        "from demur.evaluation.for_lmms_eval import Functions\n\n"
        f"_functions = Functions(Path(__file__).parent, {options.judge!r})\n"
        + "".join(f"{name} = _functions.{name}\n" for name in (*FUNCTIONS, *names)),
    )
    return Exported(package, tasks)


class Functions:
    """The functions of a folder's task files.

    Args:
        folder: with the task files and images.
        judge: by name.
    """

    def __init__(self, folder: Path, judge: str) -> None:
        self.folder = folder
        self._judging = cache(lambda: Judging(judge))
        self._worker = Worker("demur judge of lmms-eval")

    def __deepcopy__(self, memo: dict[int, Any]) -> Functions:
        """Itself: lmms-eval copies a task's configuration, these functions included."""
        return self

    async def _verdict(self, ask: Ask, answers: AnswerSpec, text: str) -> Verdict:
        return await self._judging().verdict(
            ask, answers, text, error="" if text.strip() else "the reply is empty"
        )

    def _turns(self, doc: dict[str, Any]) -> list[Turn]:
        return [Turn.model_validate(turn) for turn in doc["messages"]]

    def _image(self, part: Part) -> Any:
        from PIL import Image

        return Image.open(io.BytesIO((self.folder / part.image).read_bytes())).convert("RGB")

    def doc_to_visual(self, doc: dict[str, Any]) -> list[Any]:
        """Its images, in order."""
        return [self._image(p) for turn in self._turns(doc) for p in turn.parts if p.image]

    def doc_to_text(self, doc: dict[str, Any], lmms_eval_specific_kwargs: Any = None) -> str:
        """Its text, for models that take all images first; ``(image N)`` marks the place of the N-th."""
        number, texts = 0, []
        for turn in self._turns(doc):
            for part in turn.parts:
                number += bool(part.image)
                texts.append(f"(image {number})\n" if part.image else part.text)
            texts.append("\n\n")
        return "".join(texts).strip()

    def doc_to_messages(
        self, doc: dict[str, Any], lmms_eval_specific_kwargs: Any = None
    ) -> list[dict[str, Any]]:
        """Texts and images interleaved, as `demur run` sends them."""
        return [
            {
                "role": turn.role,
                "content": [
                    {"type": "image", "url": self._image(p)}
                    if p.image
                    else {"type": "text", "text": p.text}
                    for p in turn.parts
                ],
            }
            for turn in self._turns(doc)
        ]

    def process_results(self, doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
        """The verdict on one answer, under the name of every rate.

        lmms-eval calls this from several threads; the judge runs in one event loop, and every call waits for it.
        """
        text = str(results[0]) if results else ""
        ask, answers = (
            Ask.model_validate_json(doc["ask"]),
            AnswerSpec.model_validate_json(doc["answers"]),
        )
        verdict = run_sync(self._worker.run(self._verdict(ask, answers, text)))
        outcome = verdict.outcome.value if verdict.outcome else None
        result = {"id": doc["id"], "status": verdict.status.value, "outcome": outcome}
        return dict.fromkeys((*METRICS, "unusable"), result)

    @staticmethod
    def _share(results: Sequence[dict[str, Any]], outcome: Outcome) -> float:
        graded = [result["outcome"] for result in results if result["outcome"] is not None]
        return graded.count(outcome.value) / len(graded) if graded else float("nan")

    def accuracy(self, results: Sequence[dict[str, Any]]) -> float:
        """Share of correct among graded answers."""
        return self._share(results, Outcome.CORRECT)

    def deflection(self, results: Sequence[dict[str, Any]]) -> float:
        """Share of deflected among graded answers."""
        return self._share(results, Outcome.DEFLECTED)

    def hallucination(self, results: Sequence[dict[str, Any]]) -> float:
        """Share of incorrect among graded answers."""
        return self._share(results, Outcome.INCORRECT)

    def unusable(self, results: Sequence[dict[str, Any]]) -> float:
        """Share of all answers that failed, or whose judging did."""
        return (
            sum(result["outcome"] is None for result in results) / len(results)
            if results
            else float("nan")
        )
