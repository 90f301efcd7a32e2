"""Convergence of the filter (VLM-DeflectionBench, appendix D and Fig. 5).

All of it follows from one table: the label of every gate and monitor on every sample of the pool, without evidence.
Gates are added weakest first (or in an order given). A *round* is the pool after some of them: how many samples are
left, and how the monitors, which decide nothing, behave on those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from demur.core.errors import UsageError
from demur.core.records import Record
from demur.core.stats import wilson
from demur.core.store import digest, write_json
from demur.curation.build.askable import gates_of
from demur.curation.build.context import Work, ask_gates, open_context, run_alone
from demur.curation.build.decisions import read_decisions
from demur.curation.build.folder import check_same_recipe
from demur.curation.build.provenance import model_of
from demur.curation.build.recipe import BuildRecipe
from demur.curation.gates.funnel import GateQuery, GatingModel, SampleState, Stage
from demur.curation.gates.rules import Label, Parametric, unknown_without_evidence
from demur.curation.gates.runner import last_answers

Table = Mapping[str, Mapping[str, Label]]
"""Sample -> gate or monitor -> label without evidence."""


class Rates(Record):
    """A system's rates on the samples left; None if none of its answers was graded."""

    accuracy: float | None
    deflection: float | None
    hallucination: float | None
    n: int
    """Graded answers: the denominator of the rates."""
    missing: int = 0
    """Answers without a verdict."""
    skipped: int = 0
    """Samples that it cannot be asked about."""


class Round(Record):
    """The pool after the first gates."""

    gates: tuple[str, ...]
    size: int
    """Samples left: those that no gate so far is known to take."""
    undecided: int = 0
    """Of these, samples without a verdict, or that no gate so far can be asked about."""
    changed: float | None
    """Share of the samples left before that the last gate took, in [0, 1]; None before the first."""
    monitors: dict[str, Rates]
    kept: int | None = None
    """Samples that the whole funnel keeps with these gates; None before the first gate, or if a label is missing (an
    exhaustive build has all)."""
    kept_changed: float | None = None
    """Relative change from the round before; a gate can also add samples, which it alone can solve."""


class Survival(Record):
    """The share of the pool left by all gates up to a strength."""

    gate: str
    strength: float
    """Share of the whole pool that the gate answers without evidence."""
    left: float
    """Share of the pool that no gate up to it answers."""
    low: float
    high: float
    """Wilson's 95 % interval of ``left``."""


class Convergence(Record):
    """How the filter converges."""

    gates: tuple[str, ...]
    """In the order in which they were added."""
    silent: tuple[str, ...] = ()
    """Gates that answered nothing (no verdicts, cannot be asked, or only deflections). They show no convergence."""
    pool: int
    rounds: tuple[Round, ...]
    threshold: float
    converged_after: int | None
    """Fewest gates after which each further one takes less than ``threshold`` of what is left; None: not yet."""
    kept_converged_after: int | None = None
    """The same for the samples that the whole funnel keeps."""
    survival: tuple[Survival, ...]


def strength(table: Table, gate: str) -> float:
    """Share of the pool that a gate answers correctly without evidence."""
    return sum(row[gate] is Label.CORRECT for row in table.values()) / max(1, len(table))


def weakest_first(table: Table, gates: Sequence[str]) -> tuple[str, ...]:
    """Gates by strength, then by name."""
    return tuple(sorted(gates, key=lambda g: (strength(table, g), g)))


def answering_gates(
    table: Table, gates: Sequence[str], rule: Parametric = "not_correct"
) -> tuple[str, ...]:
    """The gates that answered something, right or wrong; with the literal rule a deflection counts too."""
    answers = {Label.CORRECT, Label.INCORRECT} | ({Label.DEFLECTED} if rule == "literal" else set())
    return tuple(g for g in gates if any(row[g] in answers for row in table.values()))


def converge(
    table: Table,
    gates: Sequence[str],
    monitors: Sequence[str],
    *,
    kept_by: Callable[[Sequence[str]], Sequence[str] | None] | None = None,
    order: Sequence[str] | None = None,
    rule: Parametric = "not_correct",
    threshold: float = 0.02,
) -> Convergence:
    """Add gates one by one and measure what is left.

    Args:
        table: every label.
        kept_by: gates, as added -> the samples that the whole funnel keeps with them; None if labels are missing.
        order: of adding gates; None: weakest first.
        threshold: share of the samples left, in [0, 1], below which a further gate makes no difference.

    Raises:
        UsageError: no samples or no gates, ``order`` is not an order of the gates, or a label is missing.
    """
    if not table or not gates:
        raise UsageError("there are no samples or no gates", cure="give a pool and gates")
    if order is not None and sorted(order) != sorted(gates):
        raise UsageError(
            f"{', '.join(order)} is not an order of the gates",
            cure=f"name each of {', '.join(gates)} once",
        )
    if missing := next(
        (s for s, row in table.items() if any(g not in row for g in (*gates, *monitors))), None
    ):
        raise UsageError(
            "a label without evidence is missing", item=missing, cure="ask every gate everything"
        )
    added = tuple(order) if order is not None else weakest_first(table, gates)
    rounds: list[Round] = []
    for i in range(len(added) + 1):
        is_kept = {
            s: unknown_without_evidence({g: row[g] for g in added[:i]}, rule)
            for s, row in table.items()
        }
        remaining = [
            s for s in table if is_kept[s] is not False
        ]  # a sample without a verdict is not taken
        kept_samples = kept_by(added[:i]) if kept_by is not None and i else None
        kept = None if kept_samples is None else len(kept_samples)
        before, kept_before = (rounds[-1].size, rounds[-1].kept or 0) if rounds else (0, 0)
        rounds.append(
            Round(
                gates=added[:i],
                size=len(remaining),
                undecided=sum(is_kept[s] is None for s in remaining) if i else 0,
                changed=_share(before - len(remaining), before),
                monitors={m: _rate_labels([table[s][m] for s in remaining]) for m in monitors},
                kept=kept,
                kept_changed=None if kept is None else _share(kept - kept_before, kept_before),
            )
        )
    loud = answering_gates(table, added, rule)
    silent = [i for i, gate in enumerate(added, 1) if gate not in loud]
    return Convergence(
        gates=added,
        silent=tuple(g for g in added if g not in loud),
        pool=len(table),
        rounds=tuple(rounds),
        threshold=threshold,
        converged_after=_find_converged_round([r.changed for r in rounds], threshold, silent),
        kept_converged_after=_find_converged_round(
            [r.kept_changed for r in rounds], threshold, silent
        ),
        survival=_measure_survival(table, loud),
    )


def _share(part: int, whole: int) -> float | None:
    """The share, rounded; None of nothing."""
    return round(part / whole, 6) if whole else None


def _rate_labels(labels: Sequence[Label]) -> Rates:
    graded = [v for v in labels if v in (Label.CORRECT, Label.INCORRECT, Label.DEFLECTED)]
    n = len(graded)

    return Rates(
        accuracy=_share(graded.count(Label.CORRECT), n),
        deflection=_share(graded.count(Label.DEFLECTED), n),
        hallucination=_share(graded.count(Label.INCORRECT), n),
        n=n,
        missing=labels.count(Label.MISSING),
        skipped=labels.count(Label.SKIPPED),
    )


def _find_converged_round(
    changes: Sequence[float | None], threshold: float, silent: Sequence[int] = ()
) -> int | None:
    """The first round after which all changes are small; None if there is none, or no later round.

    Args:
        changes: of each round, including the one before the first gate.
        threshold: below which a change is small.
        silent: rounds whose gate answered nothing, which show nothing.
    """
    small = [change is not None and abs(change) < threshold for change in changes]
    for i in range(1, len(changes) - 1):
        after = [small[k] for k in range(i + 1, len(changes)) if k not in silent]
        if i not in silent and after and all(after):
            return i
    return None


def _measure_survival(table: Table, order: Sequence[str]) -> tuple[Survival, ...]:
    n, out = len(table), []
    by_strength = weakest_first(table, order)
    for i, gate in enumerate(by_strength, 1):
        unknown_to_all = sum(
            all(row[g] is not Label.CORRECT for g in by_strength[:i]) for row in table.values()
        )
        low, high = (round(x, 6) for x in wilson(unknown_to_all, n) or (0.0, 1.0))
        out.append(
            Survival(
                gate=gate,
                strength=round(strength(table, gate), 6),
                left=round(unknown_to_all / n, 6),
                low=low,
                high=high,
            )
        )
    return tuple(out)


# --- of a build

FILE = "convergence.json"
"""Beside ``release``; `demur report` draws Fig. 5 from it."""


def measure_convergence(
    recipe: BuildRecipe,
    out: Path,
    *,
    order: Sequence[str] | None = None,
    threshold: float = 0.02,
    fresh: bool = False,
    **work: Unpack[Work],
) -> Convergence:
    """Write ``out/convergence.json``; verdicts of a build in ``out`` are used again.

    Args:
        recipe: without ``monitors`` its gates are the monitors.
        order: of adding gates; None: weakest first.
        threshold: see `converge`.
        fresh: ask and pay for everything again, as `demur.curation.build.curate.curate` does.
        work: see `demur.curation.build.context.Work`.

    Raises:
        BudgetReached: the budget leaves no room for another call.
        UsageError: ``order`` is not an order of the gates, another recipe built ``out``, or another build is using it.
    """
    check_same_recipe(recipe, out, base=work.get("base", Path()))

    async def measure() -> Convergence:
        async with open_context(recipe, out, **work) as ctx:
            ctx.steps.stage("ask all gates and monitors without evidence")
            gates = [n for n, spec in recipe.specs().items() if Stage.PARAMETRIC in spec.stages]
            watched = [m.id for m in recipe.monitors]
            asked_gates = [
                GatingModel(n, frozenset({Stage.PARAMETRIC})) for n in (*gates, *watched)
            ]
            samples = {s.id: s for s in ctx.pool.samples}
            states = {
                i: SampleState(asked_gates, (), recipe.rules, exhaustive=True) for i in samples
            }
            await ask_gates(ctx, samples, states, frozenset({Stage.PARAMETRIC}))
            table = {
                i: {
                    g: label or Label.MISSING
                    for g, label in state.labels_of(Stage.PARAMETRIC).items()
                }
                for i, state in sorted(states.items())
            }
            kept_by = _funnel_with_gates(recipe, out / "build", table)
            convergence = converge(
                table,
                gates,
                watched or gates,
                kept_by=kept_by,
                order=order,
                rule=recipe.rules.parametric,
                threshold=threshold,
            )
            origin = {
                "name": recipe.name,
                "version": recipe.version,
                "sources": ctx.pool.hashes,
                "gate_models": {g: digest(model_of(ctx, g)) for g in gates},
            }
            write_json(out / FILE, convergence.model_dump(mode="json") | origin)
            return convergence

    return run_alone(measure, out / "build", fresh=fresh)


def _funnel_with_gates(
    recipe: BuildRecipe, build: Path, table: Mapping[str, Mapping[str, Label]]
) -> Callable[[Sequence[str]], list[str] | None]:
    """A function: gates -> samples that a build with these, and gates that see evidence only, would keep.

    Args:
        build: the build folder; the function returns None if its decisions or some labels are missing.
    """
    labels: dict[str, dict[GateQuery, Label]] = {}
    candidates: dict[str, list[str]] = {}
    answers = last_answers(build / "journal.jsonl")
    for decided in read_decisions(build):
        candidate_ids = candidates[decided.sample] = [d.id for d in decided.distractors]
        known_labels = {p: answer.label for p, answer in answers.get(decided.sample, {}).items()}
        for gate in decided.skipped.get(Stage.SOLVABLE.value, ()):
            known_labels[GateQuery(gate, Stage.SOLVABLE)] = Label.SKIPPED
        for d in decided.distractors:
            known_labels |= {
                GateQuery(gate, Stage.DISTRACTOR, d.id): Label.SKIPPED for gate in d.skipped
            }
        labels[decided.sample] = {
            p: v
            for p, v in known_labels.items()
            if p.stage is Stage.SOLVABLE or p.distractor in candidate_ids
        }
    all_gates = gates_of(recipe.specs())

    def keep_with(added: Sequence[str]) -> list[str] | None:
        taking_part = [g for g in all_gates if g.name in added or Stage.PARAMETRIC not in g.stages]
        kept_ids = []
        for sample, by_gate in table.items():
            parametric_labels = {
                GateQuery(g, Stage.PARAMETRIC): label for g, label in by_gate.items()
            }
            known_labels = parametric_labels | labels.get(sample, {})
            state = SampleState(
                taking_part, candidates.get(sample, []), recipe.rules, labels=known_labels
            )
            decision = state.decision() if sample in candidates else None
            if decision is None:
                return None
            if decision.kept:
                kept_ids.append(sample)
        return kept_ids

    return keep_with
