"""The sources' own metrics, beside the judge: so that the number a paper prints can be printed too.

Each is ``score(answers, prediction) -> float`` in [0, 1] (or None where the metric is undefined), named by the rule of
the source. They follow their publications to the letter, faults included; a fault is said in its file and tested.
"""

from __future__ import annotations

from collections.abc import Callable

from demur.core.errors import UnknownPart
from demur.core.records import AnswerSpec
from demur.judge.official import evqa, infoseek, mmdocrag, mragbench, viquae, webqa

Metric = Callable[[AnswerSpec, str], float | None]

METRICS: dict[str, Metric] = {
    "infoseek": infoseek.score,
    "evqa": evqa.score,
    "webqa": webqa.score,
    "mmdocrag": mmdocrag.score,
    "mragbench": mragbench.score,
    "viquae": viquae.exact,
    "viquae-em": viquae.exact,
    "viquae-f1": viquae.f1,
}
"""Name of the rule -> its function."""


def metric(name: str) -> Metric:
    """The official metric of that name.

    Raises:
        UnknownPart: no such metric; the message lists those that exist.
    """
    name = name.partition(":")[0]  # AnswerSpec.rule may name a category after it: webqa:color
    if name not in METRICS:
        raise UnknownPart("official metric", name, list(METRICS), hint="give one of these names")
    return METRICS[name]
