"""A file of answers as a system: for systems that demur does not run, ``answers:FILE``.

One JSON object per line: ``{"ask": ASK_ID, "answer": TEXT}``, or ``{"sample": ID, "scenario": NAME, "answer": TEXT}``
where one answer per sample and scenario is enough; ``confidence`` (0 to 1) is optional. `demur run --dry-run
--asks FILE` writes the asks that such a file has to answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.records import Ask, Response, Scenario
from demur.store import Problems, read_jsonl

if TYPE_CHECKING:
    from demur.scenarios.systems import Kit


class AnswersFile:
    """Answers read from a file, checked whole before anything is graded.

    Raises:
        BadInput: lines that are not answers, or answer the same thing twice; all of them, with their place.
    """

    def __init__(self, argument: str, kit: Kit) -> None:
        if not argument:
            raise UsageError("no file named", item="answers:", cure="write answers:my-answers.jsonl")
        path = Path(argument)
        self.id = f"answers:{path.name}"
        self.note = "answers read from a file"
        self._answers: dict[str, Response] = {}
        problems = Problems()
        for place, row in read_jsonl(path, problems):
            key = row.get("ask")
            if key is None and row.get("sample") is not None and row.get("scenario") in set(Scenario):
                key = f"{row['sample']}\x1f{row['scenario']}"
            answer, confidence = row.get("answer"), row.get("confidence")
            if not isinstance(key, str):
                problems.add(place, "names neither an ask nor a sample and scenario")
            elif not isinstance(answer, str):
                problems.add(place, "has no answer (a string; empty for a missing one)")
            elif confidence is not None and not (isinstance(confidence, int | float) and 0 <= confidence <= 1):
                problems.add(place, f"confidence is {confidence!r}, not a number from 0 to 1")
            elif key in self._answers:
                problems.add(place, "answers the same thing a second time")
            else:
                self._answers[key] = Response(text=answer, confidence=confidence, served_by=self.id)
        problems.settle()

    def takes(self, ask: Ask) -> str:
        """Anything: an ask without a line is a failure of the system, not a skipped item."""
        return ""

    async def answer(self, ask: Ask) -> Response:
        """The line for this ask, else the one for its sample and scenario, else an error."""
        for key in (ask.id, f"{ask.sample}\x1f{ask.scenario.value}"):
            if key in self._answers:
                return self._answers[key]
        return Response(error=f"the file has no answer for sample {ask.sample} in {ask.scenario.value}")

    async def close(self) -> None:
        """Nothing to let go of."""
