"""Several judges as one: ``--judge "panel:local,model:openai/gpt-4o,model:http://host/v1#qwen"``.

Members are the names of judges, separated by commas; one with options or commas of its own stands in parentheses. The
outcome that most members give is the panel's; where two have as many, that of the member named first. An answer is
unjudged where members that gave no grade could have turned it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from demur.core.errors import DemurError, UsageError
from demur.core.records import AnswerSpec, Ask, Method, Outcome, Response, Status, Verdict
from demur.core.spec import members, named, split_part
from demur.core.store import canonical
from demur.judge.base import JudgeContext, close_judge, open_judge
from demur.judge.grading import Grading
from demur.judge.local import no_answer
from demur.judge.measures.agreement import Rating, agreed

MOST_LISTED = 10_000
"""Disagreements that are kept to be listed."""


class Panel:
    """Grades by what several judges say.

    Args:
        argument: ``J1,J2,J3``.
        context: for members that ask models.

    Attributes:
        members: the judges, in order.
        disagreements: ask -> member -> what it said, where graded members differ.

    Raises:
        UsageError: fewer than two members, one named twice, or a panel within the panel.
    """

    asks_models = True

    def __init__(self, argument: str, context: JudgeContext | None = None) -> None:
        names = members(named("panel", argument, {}).argument)
        if (
            len(names) < 2
            or len(set(names)) < len(names)
            or any(split_part(name)[0] == "panel" for name in names)
        ):
            cure = "name two judges or more, each once: panel:local,model:openai/gpt-4o"
            raise UsageError("a panel needs members", item=f"panel:{argument}", cure=cure)
        self.members = [open_judge(name, context) for name in names]
        ids = [member.id for member in self.members]
        self.names = [
            f"{judge_id} #{ids[:n].count(judge_id) + 1}" if ids.count(judge_id) > 1 else judge_id
            for n, judge_id in enumerate(ids)
        ]
        self.id = f"panel:{','.join(f'({i})' if set(i) & set(',?') else i for i in ids)}"
        self.prompt_sha256 = ",".join(
            filter(None, (getattr(m, "prompt_sha256", "") for m in self.members))
        )
        self.disagreements: dict[str, dict[str, str]] = {}
        self._ratings: list[Rating] = []
        self._doors = [Grading(member) for member in self.members]

    async def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """One verdict; what is no usable answer fails without a member being asked.

        Raises:
            DemurError: a member cannot be asked at all.
        """
        if why := no_answer(response):
            return Verdict(
                id=ask.id,
                status=Status.FAILED,
                kind=why,
                reason=response.error[:300] or f"the answer is {why}",
                judge=self.id,
            )
        results = await asyncio.gather(
            *(door.verdict(ask, response, answers) for door in self._doors), return_exceptions=True
        )
        for result in results:
            if isinstance(result, DemurError) or (
                isinstance(result, BaseException) and not isinstance(result, Exception)
            ):
                raise result
        verdicts = [result if isinstance(result, Verdict) else None for result in results]
        votes = [
            v.outcome if v is not None and v.status is Status.GRADED else None for v in verdicts
        ]
        labels_by_member = {
            name: vote.value if vote else v.status.value if v else "failed"
            for name, vote, v in zip(self.names, votes, verdicts, strict=True)
        }
        self._ratings += [
            Rating(ask.id, name, vote.value)
            for name, vote in zip(self.names, votes, strict=True)
            if vote
        ]
        if len({vote for vote in votes if vote}) > 1 and len(self.disagreements) < MOST_LISTED:
            self.disagreements[ask.id] = labels_by_member
        outcome = decided(votes)
        reason = "; ".join(f"{name}: {label}" for name, label in labels_by_member.items())
        return Verdict(
            id=ask.id,
            status=Status.UNJUDGED if outcome is None else Status.GRADED,
            outcome=outcome,
            method=Method.MODEL if outcome is not None else None,
            reason=reason[:300],
            judge=self.id,
            prompt_sha256=self.prompt_sha256,
            raw=canonical(labels_by_member),
        )

    @property
    def summary(self) -> str:
        """How far the members agree, and on what they do not: lines; "" before the first verdict."""
        unique = {(r.item, r.rater): r for r in self._ratings}
        if not unique:
            return ""
        lines = []
        for i, first_name in enumerate(self.names):
            for second_name in self.names[i + 1 :]:
                pair = agreed(r for r in unique.values() if r.rater in (first_name, second_name))
                raw, kappa = pair.figures["raw"], pair.figures["cohen"]
                agreement_text = (
                    "none"
                    if raw.value is None
                    else f"{raw.value:.1%} [{raw.low:.1%}, {raw.high:.1%}]"
                )
                kappa_text = "undefined" if kappa.value is None else f"{kappa.value:.2f}"
                lines.append(
                    f"{first_name} and {second_name}: agreement {agreement_text}, kappa {kappa_text}, n = {raw.n:,}"
                )
        lines.append(f"{len(self.disagreements):,} answers on which members disagree")
        lines += [
            f"  {ask}: {', '.join(f'{name} {label}' for name, label in labels_by_member.items())}"
            for ask, labels_by_member in sorted(self.disagreements.items())[
                :10
            ]  # not as they were completed
        ]
        return "\n".join(lines)

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """As its members say; one that is down is told by its name.

        Raises:
            DemurError: of the first member that cannot be asked.
        """
        lines = []
        for name, member in zip(self.names, self.members, strict=True):
            if (member_ready := getattr(member, "ready", None)) is not None:
                try:
                    lines += [f"{name}: {line}" for line in await member_ready(asks)]
                except DemurError as error:
                    error.item = (
                        f"{name}: {error.item}" if error.item and error.item not in name else name
                    )
                    raise
        return lines

    async def close(self) -> None:
        """Close the members."""
        for door in self._doors:
            door.close()
        for member in self.members:
            await close_judge(member)


def decided(votes: list[Outcome | None]) -> Outcome | None:
    """What a panel says, of its members' votes in order; None where missing votes could turn it.

    >>> decided([Outcome.INCORRECT, Outcome.CORRECT, Outcome.CORRECT]).value
    'correct'
    >>> decided([Outcome.INCORRECT, Outcome.CORRECT]).value, decided([Outcome.CORRECT, None])
    ('incorrect', None)
    """
    cast = [vote for vote in votes if vote is not None]
    ranked = Counter(cast).most_common()  # of equal counts the first met comes first
    missing = len(votes) - len(cast)
    second = ranked[1][1] if len(ranked) > 1 else 0
    return ranked[0][0] if ranked and (not missing or ranked[0][1] > second + missing) else None
