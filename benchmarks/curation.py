"""What a release costs in questions to gates: lazy against Algorithm 1 run naively, and against any order at all.

Two pools. The paper's: label tables with the sizes, retentions, gates and distractors that VLM-DeflectionBench prints
(`paper_pool.py` beside it says what it does not print). And Atlas with four simulated gates, built for real: lazily and
exhaustively, which must end in the same bytes. Each way of asking is played over the tables by the build's own
scheduler, on a clock that jumps: a second per answer, eight answers at once per gate; or, in batches, in waves of all questions that can still matter. ``price`` is the share
of Algorithm 1's list price; a wave takes as long as the vendor's batches, which is no part of it.

    make bench-curation
    .venv/bin/python benchmarks/curation.py --scale 1 --per-topic 20 --keep bench-out
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import selectors
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gate_bounds import Naive, costs_of
from paper_pool import MODELS, Shape, Tables, paper_pool

from demur.core.records import Evidence, Role
from demur.core.store import Problems, read_records
from demur.curation.build.askable import gates_of
from demur.curation.build.curate import curate
from demur.curation.build.decisions import DecisionLine
from demur.curation.build.estimate import estimate_build
from demur.curation.build.rebuild import _link_or_copy
from demur.curation.build.recipe import BuildRecipe, parse_recipe
from demur.curation.build.sample_pool import sample_sources
from demur.curation.gates.funnel import Decision, GateQuery, GatingModel, Rules, SampleState, Stage
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import ask_of, last_answers
from demur.curation.gates.scheduler import MAX_IN_FLIGHT, ask_in_waves, ask_states
from demur.models.prices import prompt_tokens
from demur.scenarios.conditions import Prompts
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.model import ModelSystem

GATES = {"27B": (0.55, 0.80), "32B": (0.58, 0.82), "38B": (0.60, 0.85), "72B": (0.65, 0.90)}
"""Atlas: name -> (strength without evidence, reading of gold evidence). They leave about a tenth after Stage I."""
AT_ONCE = 8
BATCH_PRICE = 0.5
"""Of the list price, as OpenAI's batches cost."""


class Pool(NamedTuple):
    """What there is to ask, and what would be said."""

    gates: list[GatingModel]
    groups: dict[str, str]
    """Sample -> its source."""
    candidates: dict[str, list[str]]
    label: Callable[[str, GateQuery], Label]
    tokens: Callable[[str, GateQuery], int]
    exhaustive: int
    """Calls of asking everything."""


class Way(NamedTuple):
    """A way of asking."""

    name: str
    k_enough: int | None = None
    naive: bool = False
    hurry: bool = False
    batch: bool = False
    """In waves, at half the price."""
    order: Callable[[], SuccessCounter] = SuccessCounter


class Played(NamedTuple):
    """What it came to."""

    calls: int
    by_stage: dict[Stage, int]
    cost: float
    tokens: int
    seconds: float
    full: float
    """Share of all places at all gates that were busy, over the whole time."""
    decisions: dict[str, Decision | None]
    waves: int = 0


class Jump(selectors.SelectSelector):
    """Nobody sleeps: the clock jumps to the next appointment."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list:
        """Ready now; if nobody is, it is later."""
        self.now += timeout or 0.0
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop by that clock."""

    def __init__(self) -> None:
        self.jump = Jump()
        super().__init__(self.jump)

    def time(self) -> float:
        """Seconds that would have passed."""
        return self.jump.now


class Fixed(SuccessCounter):
    """Gates in one order for each stage and source, the best in hindsight."""

    def __init__(self, orders: dict[tuple[str, str], tuple[str, ...]]) -> None:
        super().__init__()
        self.orders = orders

    def price(self, gate: str, cost: float, stage: str, group: str) -> tuple[float, float, str]:
        """Its place."""
        return 1.0 + self.orders[stage, group].index(gate), 1.0, gate


def play(pool: Pool, way: Way, rules: Rules, seconds: float) -> Played:
    """Ask a pool in one way."""
    order = way.order()
    kind = Naive if way.naive else SampleState
    rules = rules.model_copy(update={"k_enough": way.k_enough})
    states = {
        i: kind(pool.gates, c, rules, order=order, group=pool.groups[i])
        for i, c in pool.candidates.items()
    }
    calls: Counter = Counter()
    by_stage: Counter = Counter()
    tokens = 0

    places = {g.name: asyncio.Semaphore(AT_ONCE) for g in pool.gates}

    async def ask(sample: str, query: GateQuery) -> Label:
        nonlocal tokens
        async with places[query.gate]:
            await asyncio.sleep(seconds)
        calls[query.gate] += 1
        by_stage[query.stage] += 1
        tokens += pool.tokens(sample, query)
        return pool.label(sample, query)

    is_busy = (lambda gate: places[gate].locked()) if way.hurry else None
    with (
        asyncio.Runner(loop_factory=JumpingLoop) as runner,
        tempfile.TemporaryDirectory() as folder,
    ):
        if way.batch:
            plan = Path(folder) / "wave.jsonl"
            waves = runner.run(
                ask_in_waves(states, ask, plan, known_label=lambda sample, query: None)
            )
        else:
            most, waves = 256 if way.naive else MAX_IN_FLIGHT, 0
            runner.run(ask_states(states, ask, is_busy=is_busy, max_in_flight=most))
        took = runner.get_loop().time()
    total = sum(calls.values())
    cost = sum(calls[g.name] * g.cost for g in pool.gates) * (BATCH_PRICE if way.batch else 1.0)
    decisions = {i: state.decision() for i, state in states.items()}
    full = total * seconds / (took * AT_ONCE * len(pool.gates))
    return Played(total, dict(by_stage), cost, tokens, took, full, decisions, waves)


def in_hindsight(pool: Pool, decisions: dict[str, Decision | None]) -> SuccessCounter:
    """The best that an order can do which knows all rates but no answer: per stage and source, by trying each."""
    questions: dict[tuple[str, str], Counter] = defaultdict(Counter)
    names = [g.name for g in pool.gates]
    for sample, decision in decisions.items():
        where = [(Stage.PARAMETRIC, "")]
        if decision is not None and decision.stage != "parametric":
            where.append((Stage.SOLVABLE, ""))
            if decision.stage != "solvable":
                where += [(Stage.DISTRACTOR, d) for d in pool.candidates[sample]]
        for stage, shown in where:
            right = tuple(
                pool.label(sample, GateQuery(g, stage, shown)) is Label.CORRECT for g in names
            )
            questions[stage, pool.groups[sample]][right] += 1

    def calls(order: tuple[int, ...], said: Counter) -> int:
        return sum(
            n * next((k for k, g in enumerate(order, 1) if row[g]), len(order))
            for row, n in said.items()
        )

    best = {
        where: min(
            itertools.permutations(range(len(names))),
            key=lambda order, said=said: calls(order, said),
        )
        for where, said in questions.items()
    }
    return Fixed({where: tuple(names[i] for i in order) for where, order in best.items()})


def least(
    pool: Pool, rules: Rules, k_enough: int | None, decisions: dict[str, Decision | None]
) -> int:
    """The sum of the smallest sets of answers from which each decision follows."""
    rules, total = rules.model_copy(update={"k_enough": k_enough}), 0
    for sample, decision in decisions.items():
        if decision is not None and decision.stage == "parametric":
            total += 1
            continue
        shown = pool.candidates[sample] if decision is None or decision.stage != "solvable" else []
        truth = {
            p: pool.label(sample, p) for p in SampleState(pool.gates, shown, rules).all_queries()
        }
        total += costs_of(pool.gates, shown, rules, truth).least
    return total


def compare(
    title: str, pool: Pool, rules: Rules, seconds: float, enough: Sequence[int] = ()
) -> dict:
    """Play every way over a pool and print the table; ``enough``: values of k_enough to try as well."""
    listed = [g.name for g in pool.gates]

    def in_turn() -> SuccessCounter:
        groups = set(pool.groups.values())
        return Fixed({(stage, group): tuple(listed) for stage in Stage for group in groups})

    start = time.process_time()
    rows: dict[str, Played] = {}
    bounds: dict[int | None, int] = {}
    every = None
    for k_enough in (None, *enough):
        tail = "" if k_enough is None else f", k_enough = {k_enough}"
        naive = play(pool, Way("Algorithm 1", k_enough, naive=True), rules, seconds)
        every = every or naive.decisions
        if k_enough is None:
            rows["Algorithm 1"] = naive
        ways = [Way("lazy", k_enough)]
        if k_enough is None:
            hindsight = partial(in_hindsight, pool, naive.decisions)
            ways = [
                Way("Algorithm 1, `some` stops early", order=in_turn),
                Way("lazy, cheapest first", order=lambda: SuccessCounter(learn=False)),
                Way("lazy"),
                Way("lazy, in a hurry", hurry=True),
                Way("lazy, in batches", batch=True),
                Way("best order in hindsight", order=hindsight),
            ]
        for way in ways:
            played = play(pool, way, rules, seconds)
            assert played.decisions == naive.decisions, f"{way.name} decides otherwise"
            rows[way.name + tail] = played
        assert {i for i, f in naive.decisions.items() if f.kept} == {
            i for i, f in every.items() if f.kept
        }
        bounds[k_enough] = least(pool, rules, k_enough, naive.decisions)
    kept = sum(f is not None and f.kept for f in (every or {}).values())
    n = len(pool.groups)
    print(
        f"{title}: {n:,} samples, {kept:,} kept ({100 * kept / n:.1f} %), {len(pool.gates)} gates"
    )
    base = rows["Algorithm 1"].calls
    price = rows["Algorithm 1"].cost
    head = ["calls", "of Alg. 1", "over bound", "Stage I", "price", "waves", "hours", "busy"]
    print(f"{'':<34}" + "".join(f"{h:>12}" for h in head))
    print(f"{'exhaustive':<34}{pool.exhaustive:>12,}{pool.exhaustive / base:>12.2f}")
    for name, row in rows.items():
        bound = bounds[int(name.rpartition("= ")[2]) if "k_enough" in name else None]
        cells = [
            f"{row.calls:,}",
            f"{row.calls / base:.3f}",
            f"{row.calls / bound:.3f}",
            f"{row.by_stage[Stage.PARAMETRIC]:,}",
            f"{row.cost / price:.3f}",
            f"{row.waves}" if row.waves else "",
            "" if row.waves else f"{row.seconds / 3600:.2f}",
            "" if row.waves else f"{100 * row.full:.0f} %",
        ]
        print(f"{name:<34}" + "".join(f"{c:>12}" for c in cells))
    for k_enough, bound in bounds.items():
        name = "bound: no order can ask fewer" + ("" if k_enough is None else f" ({k_enough})")
        print(f"{name:<34}{bound:>12,}{bound / base:>12.3f}{1:>12.3f}")
    print(f"({time.process_time() - start:.0f} CPU seconds)\n")
    return {
        "samples": n,
        "kept": kept,
        "exhaustive": pool.exhaustive,
        "ways": {
            k: {
                "calls": v.calls,
                "cost": v.cost,
                "of_price": round(v.cost / price, 4),
                "waves": v.waves,
                "prompt_tokens": v.tokens,
                "hours": round(v.seconds / 3600, 3),
                "busy": round(v.full, 3),
                "of_algorithm1": round(v.calls / base, 4),
            }
            for k, v in rows.items()
        },
        "bounds": {str(k): v for k, v in bounds.items()},
    }


# --- the paper's pool ----------------------------------------------------------------------------


def of_tables(tables: Tables, sizes: dict[str, float]) -> Pool:
    """A pool as label tables."""
    ids = [str(d) for d in range(tables.candidates)]
    n = len(tables.sources)
    everything = n * len(tables.gates) * (2 + tables.candidates)
    return Pool(
        [GatingModel(name, cost=sizes[name]) for name in tables.gates],
        {str(i): s for i, s in enumerate(tables.sources)},
        {str(i): ids if i in tables.distractors else [] for i in range(n)},
        lambda sample, query: tables.label(int(sample), query),
        lambda sample, query: 0,
        everything,
    )


def sensitivity(rules: Rules) -> dict[str, float]:
    """The bound over Algorithm 1, for what the paper does not print."""
    print(
        "bound / Algorithm 1, for what the paper does not print: correlation, distractors mined, left by Stage I"
    )
    columns = [(c, k) for k in (None, 10, 5) for c in (12, 15, 20, 30)]
    print(f"{'gates together, left':<22}" + "".join(f"{c} mined".rjust(10) for c, _ in columns))
    print(f"{'':<22}" + "".join(f"k {k}".rjust(10) if k else "all".rjust(10) for _, k in columns))
    found = {}
    for together, left in ((0.3, None), (0.6, None), (0.8, None), (0.6, 0.099)):
        cells = []
        for candidates, k in columns:
            shape = Shape(
                candidates, min(11.8, candidates - 0.2), left, together, min(0.2, 1 - together)
            )
            tables = paper_pool(shape, scale=0.1)
            gates = len(tables.gates)
            gone = int((tables.parametric == 1).any(axis=1).sum())
            passed, solved = len(tables.sources) - gone, len(tables.distractors)
            naive = gates * (gone + 2 * passed + candidates * solved)
            asked = gone + gates * passed + gates * (passed - solved) + solved
            for said in tables.distractors.values():
                stays = (said != 1).all(axis=1)
                if stays.sum() < rules.k_min:
                    asked += candidates - rules.k_min + 1
                    continue
                upto = (
                    candidates
                    if k is None or stays.sum() < k
                    else int(stays.cumsum().searchsorted(k)) + 1
                )
                asked += sum(gates if s else 1 for s in stays[:upto])
            cells.append(asked / naive)
            found[f"together={together},left={left},candidates={candidates},k_enough={k}"] = round(
                asked / naive, 4
            )
        print(
            f"{together:.1f}, {'implied' if left is None else f'{100 * left:.1f} %':<17}"
            + "".join(f"{c:>10.3f}" for c in cells)
        )
    print()
    return found


# --- Atlas ---------------------------------------------------------------------------------------


sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the simulated gate


def recipe(per_topic: int, own: float) -> BuildRecipe:
    gates = [
        {
            "system": "simulated_gate:SimulatedGate",
            "name": name,
            "options": {"strength": strength, "reading": reading, "leak": 0.1, "own": own},
        }
        for name, (strength, reading) in GATES.items()
    ]
    return parse_recipe(
        {
            "name": "bench",
            "version": "1.0.0",
            "sources": [{"name": "atlas", "per_topic": per_topic}],
            "gates": gates,
            "retest": 0,
            "topics": "none",
        }
    )


def atlas(plan: BuildRecipe, root: Path) -> tuple[Pool, bool, dict[str, int]]:
    """Build twice; the pool with all its labels, whether both are the same bytes, and what each really asked."""
    full = curate(plan, root / "exhaustive", exhaustive=True)
    if not (root / "lazy" / "index").exists():
        shutil.copytree(
            root / "exhaustive" / "index", root / "lazy" / "index", copy_function=_link_or_copy
        )
    lazy = curate(plan, root / "lazy")
    build = root / "exhaustive" / "build"
    stories = list(read_records(build / "decisions.jsonl", DecisionLine, Problems()))
    told = last_answers(build / "journal.jsonl")
    pool = sample_sources(plan.sources, root / "pool", seed=plan.seed)
    samples, documents = (
        {s.id: s for s in pool.samples},
        {d.id: d for d in pool.full_pool.documents()},
    )
    truth: dict[str, dict[GateQuery, Label]] = {}
    model = ModelSystem(
        "openai/bench", SystemContext(read_image=lambda ref: b"", options={"max_tokens": 64})
    )
    sizes: dict[tuple[str, Stage, str], int] = {}
    for story in stories:
        ids = [d.id for d in story.distractors]
        sample = samples[story.sample]
        sample = sample.model_copy(
            update={"negatives": tuple(Evidence.of(documents[i], Role.DISTRACTOR) for i in ids)}
        )
        table = truth.setdefault(story.sample, {})
        for query, said in told[story.sample].items():
            where = (story.sample, query.stage, query.distractor)
            if where not in sizes:
                sizes[where] = prompt_tokens(
                    model.request(ask_of(sample, query, 0, "none", Prompts()))
                )
            table[query] = said.label
    found = Pool(
        gates_of(plan.specs()),
        {i: s.source for i, s in samples.items()},
        {s.sample: [d.id for d in s.distractors] for s in stories},
        lambda i, p: truth[i][p],
        lambda i, p: sizes[i, p.stage, p.distractor],
        sum(map(len, truth.values())),
    )
    asked_now = {
        "exhaustive": sum(full.questions_to_gate.values()),
        "lazy": sum(lazy.questions_to_gate.values()),
    }
    return found, full.release.sha256 == lazy.release.sha256, asked_now


def plans(per_topic: int, own: float, root: Path, actual: int) -> dict[str, dict]:
    """What --plan said would be asked, before anything was and with a pilot, beside what was."""
    pilot = recipe(max(1, per_topic // 4), own)
    shutil.copytree(
        root / "exhaustive" / "index", root / "pilot" / "index", copy_function=_link_or_copy
    )
    curate(pilot, root / "pilot")
    print(f"Atlas, planned and asked ({actual:,} calls):")
    found = {}
    for name, learn_from in (
        ("rates assumed", None),
        ("after a pilot on a quarter", root / "pilot"),
        ("by the build's own verdicts", root / "lazy"),
    ):
        plan = estimate_build(recipe(per_topic, own), root / "planned", learn_from=learn_from)
        low, high = plan.calls
        expects = plan.totals["expected"]
        print(
            f"  {name:<30}{expects:>8,}  [{low:,}, {high:,}]{'' if low <= actual <= high else '  missed'}"
        )
        found[name] = {"expected": expects, "low": low, "high": high, "verdicts": plan.verdicts}
    print()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=0.1,
        help="of the paper's 44,626 samples (default: %(default)s)",
    )
    parser.add_argument(
        "--per-topic",
        type=int,
        default=12,
        help="Atlas: samples of each topic (default: %(default)s)",
    )
    parser.add_argument(
        "--own", type=float, default=0.5, help="Atlas: share of knowledge that gates do not share"
    )
    parser.add_argument(
        "--latency", type=float, default=1.0, help="seconds per answer (default: %(default)s)"
    )
    parser.add_argument(
        "--keep", type=Path, help="folder for the two builds (default: a temporary one)"
    )
    args = parser.parse_args()
    said: dict = {"benchmark": "curation", "scale": args.scale}
    rules = Rules()
    tables = paper_pool(scale=args.scale)
    equal = of_tables(tables, dict.fromkeys(tables.gates, 1.0))
    said["paper"] = compare(
        "the paper's shape, every call alike", equal, rules, args.latency, (10, rules.k_min)
    )
    sized = of_tables(tables, {m.name: m.size for m in MODELS})
    said["paper_sized"] = compare(
        "the same, a call costs its model's size", sized, rules, args.latency
    )
    said["sensitivity"] = sensitivity(rules)
    plan = recipe(args.per_topic, args.own)
    with tempfile.TemporaryDirectory() as folder:
        root = args.keep or Path(folder)
        pool, same, built = atlas(plan, root)
        said["plans"] = plans(args.per_topic, args.own, root, built["lazy"])
    said["atlas"] = compare("Atlas", pool, plan.rules, args.latency, (rules.k_min,))
    print(
        f"same release, lazily ({built['lazy']:,} calls) and exhaustively built: {'yes' if same else 'NO'}"
    )
    print(json.dumps(said | {"same_release": same, "built": built}))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
