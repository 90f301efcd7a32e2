"""What a judge that asks a model would cost, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from demur.core.errors import ItemError, TransientError
from demur.core.records import Ask, Request, Response
from demur.evaluation.options import RunOptions
from demur.evaluation.run_folder import Task
from demur.judge.base import JudgeContext, asking_judges, open_judge
from demur.models.estimate import Estimate, estimate_calls
from demur.models.identity import request_key
from demur.models.ledger import Ledger
from demur.models.wire import read_response
from demur.scenarios.systems.model import ModelSystem


class JudgeCost:
    """The calls of a run's judge: exact about answers that are known, and as expected about the others.

    Args:
        options: of the run.
        per_second: replies per second, for the time.
    """

    def __init__(self, options: RunOptions, per_second: float | None) -> None:
        self._options, self._per_second = options, per_second
        judge = open_judge(options.judge, JudgeContext(options.calls, prices=options.prices))
        self._judges = asking_judges(judge)
        self._answers: list[tuple[Task, Response | None]] = []

    def add(self, tasks: Sequence[Task], answers: Callable[[], Mapping[str, Response]]) -> None:
        """Add the questions to a system, with its answers so far by ask, which are read only for such a judge."""
        if self._judges:
            answer_of_ask = answers()
            self._answers += [(task, answer_of_ask.get(task.ask.id)) for task in tasks]

    def estimate(self) -> Estimate:
        """One line for each model that grades known answers, and one for each that will grade others."""
        total, options = Estimate(), self._options
        for judge in self._judges:
            for is_known, share in ((True, 1.0), (False, judge.expected_share)):
                requests = [
                    request
                    for task, answer in self._answers
                    if (answer is not None) is is_known
                    for request in judge.would_ask(task.ask, answer, task.sample.answers)
                ]
                if requests:
                    total += estimate_calls(
                        "judge" if share == 1 else f"judge, of {share:.0%}",
                        judge.addresses[0],
                        requests,
                        ledger=options.calls,
                        prices=options.prices,
                        per_second=self._per_second,
                        batch=bool(options.batch),
                        share=share,
                    )
        return total


def requests_of(system: ModelSystem, asks: Iterable[Ask]) -> Iterator[tuple[Ask, Request]]:
    """The request of each question, without those that are too long to be sent."""
    for ask in asks:
        with suppress(ItemError):
            yield ask, system.request(ask)


def stored_replies(
    system: ModelSystem, tasks: Iterable[Task], options: RunOptions
) -> dict[str, Response]:
    """The answers of a model that the ledger holds, by ask."""
    answers: dict[str, Response] = {}
    if not options.calls.is_file() or options.fresh:
        return answers
    pairs = requests_of(system, (task.ask for task in tasks))
    with Ledger(options.calls, read_only=True) as ledger:
        while part := list(islice(pairs, 1000)):
            ask_of_key = {request_key(r, r.model, system.weights): ask for ask, r in part}
            for key, stored in ledger.get_many(list(ask_of_key)).items():
                with suppress(ItemError, TransientError):
                    ask = ask_of_key[key]
                    answers[ask.id] = system.read(ask, read_response(stored.raw))
    return answers
