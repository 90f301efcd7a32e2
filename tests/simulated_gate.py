"""Gates of known strength, for tests and benchmarks of curation: ``simulated_gate:SimulatedGate``.

    gates:
      - system: simulated_gate:SimulatedGate
        name: strong
        options: {strength: 0.6, reading: 0.95, leak: 0.1}

It uses the samples' own answers. It is right without evidence on the easiest ``strength`` of all questions, with the
gold evidence on ``reading`` of them, and with a distractor alone on ``leak`` of the distractors. Hashing decides which,
so the same gate gives the same answers in every build; it is a table of labels, not a model.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from demur.core.errors import UsageError
from demur.core.records import Ask, Response
from demur.core.store import seed_of
from demur.core.version import __version__

if TYPE_CHECKING:
    from demur.scenarios.systems import SystemContext

WRONG = "It is called Qwxyz."
"""Contains no number, date or name of any question set."""
DECLINES = "I do not know."


def _chance(*parts: object) -> float:
    """A number in [0, 1) that depends only on the parts."""
    return seed_of(*parts) / 2**63


class SimulatedGate:
    """A gate whose knowledge is known.

    Args:
        argument: unused; options configure it.
        context: ``pool`` has the questions with their answers. ``options``: ``name``; ``strength``, ``reading``,
            ``leak`` in [0, 1]; ``own`` in [0, 1], the part of its knowledge that other gates do not share (0: a
            stronger gate knows everything that a weaker one knows); ``declines``, the share of its failures that are
            deflections; ``noise``, the chance that an answer without evidence is right or wrong by luck, which depends
            on ``draw``; ``garbage``, the share of answers that no judge can grade; ``fails``, the share of errors;
            ``latency``, seconds per answer; ``seed``.
    """

    own_thread = False
    revision = __version__

    def __init__(self, argument: str, context: SystemContext) -> None:
        options = dict(context.options)
        self.id = f"simulated:{options.pop('name', 'gate')}"
        self.note = "a simulated gate: a table of labels, no model"
        self.draw = 0
        defaults = {
            "strength": 0.3,
            "reading": 0.9,
            "leak": 0.1,
            "own": 0.3,
            "declines": 0.2,
            "noise": 0.0,
            "garbage": 0.0,
            "fails": 0.0,
            "latency": 0.0,
            "seed": 0.0,
        }
        if unknown := set(options) - set(defaults):
            raise UsageError(
                f"unknown option(s) {', '.join(sorted(unknown))}",
                item=self.id,
                cure=", ".join(defaults),
            )
        self._set = {k: float(options.get(k, v)) for k, v in defaults.items()}
        self.id += "".join(f",{k}={v:g}" for k, v in self._set.items() if k != "latency")
        self._pool = {s.id: s for s in context.pool}

    def skip_reason(self, ask: Ask) -> str:
        """It takes any question of the pool."""
        return "" if ask.sample in self._pool else "the question is not in the pool"

    def knows(self, sample: str) -> bool:
        """Whether it is right about a question without evidence, apart from luck."""
        seed, own_share = self._set["seed"], self._set["own"]
        name = self.id.partition(",")[0]
        is_own = _chance(seed, "alone", name, sample) < own_share
        hardness = _chance(seed, "own", name, sample) if is_own else _chance(seed, "hard", sample)
        return hardness < self._set["strength"]

    async def answer(self, ask: Ask) -> Response:
        """A right, wrong or declining answer, as its options say."""
        if self._set["latency"]:
            await asyncio.sleep(self._set["latency"])
        sample = self._pool[ask.sample]
        name, seed = self.id.partition(",")[0], self._set["seed"]
        evidence_ids = [e.id for e in ask.evidence]
        seeds = (seed, name, sample.id, *evidence_ids)
        if _chance(*seeds, "fails", self.draw) < self._set["fails"]:
            return Response(error="simulated: no answer within the deadline")
        if _chance(*seeds, "garbage", self.draw) < self._set["garbage"]:
            return Response(text="<think>", served_by=self.id)
        gold = {e.id for e in sample.gold}
        if not evidence_ids:
            is_right = self.knows(sample.id)
            if _chance(*seeds, "noise", self.draw) < self._set["noise"]:
                is_right = _chance(*seeds, "luck", self.draw) < 0.5
        elif gold & set(evidence_ids):
            is_right = self.knows(sample.id) or _chance(*seeds, "reading") < self._set["reading"]
        else:
            is_right = self.knows(sample.id) or _chance(*seeds, "leak") < self._set["leak"]
        if is_right:
            return Response(text=sample.answers.display_form, served_by=self.id)
        text = DECLINES if _chance(*seeds, "declines") < self._set["declines"] else WRONG
        return Response(text=text, served_by=self.id)

    async def close(self) -> None:
        """It holds no resources."""
