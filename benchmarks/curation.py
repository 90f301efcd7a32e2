"""What a release costs in questions to gates: lazy against Algorithm 1 run naively, and against any order at all.

Atlas with four simulated gates of known strength. Everything is asked once to have the table of all labels; then each
way of asking is played over that table, with a fixed time per answer and eight answers at once per gate. The release
is also built lazily for real, and must be the same bytes as the exhaustive one.

    make bench-curation
    .venv/bin/python benchmarks/curation.py --per-topic 20 --keep bench-out --repeats 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from demur.calls.prices import prompt_tokens
from demur.curation.funnel import Experience, Life, Probe, Stage, costs_of
from demur.curation.gate import Label
from demur.curation.recipe import BuildRecipe, parse_recipe
from demur.pipeline.curate import LifeStory, at_once, curate, gates_of, together
from demur.pipeline.panel import ask_of
from demur.pipeline.pool import load_pool
from demur.pipeline.rebuild import _linked
from demur.records import Evidence, Role
from demur.scenarios.conditions import Prompts
from demur.scenarios.systems import Kit
from demur.scenarios.systems.model import ModelSystem
from demur.store import Problems, read_records

GATES = {"27B": (27, 0.55, 0.80), "32B": (32, 0.58, 0.82), "38B": (38, 0.60, 0.85), "72B": (72, 0.65, 0.90)}
"""name -> (cost: billions of parameters, strength without evidence, reading of gold evidence). They leave about a tenth
of the pool after Stage I; VLM-DeflectionBench keeps 6 % of its pool in the end."""
AT_ONCE = 8
ENOUGH = "lazy, k_enough = k_min"
"""Another release: distractors beyond the first k_min that stay are not checked."""


def recipe(per_topic: int, own: float) -> BuildRecipe:
    gates = [
        {"system": "demur.testing.gates:SimulatedGate", "name": name, "cost": cost,
         "options": {"strength": strength, "reading": reading, "leak": 0.1, "own": own}}
        for name, (cost, strength, reading) in GATES.items()
    ]  # fmt: skip
    return parse_recipe({
        "name": "bench", "version": "1.0.0", "sources": [{"name": "atlas", "per_topic": per_topic}], "gates": gates,
        "retest": 0, "topics": "none",
    })  # fmt: skip


class Naive(Life):
    """Algorithm 1 as printed: stage after stage, each time every gate about everything."""

    def wanted(self) -> tuple[Probe, ...]:
        """Everything of the stage that the sample is in."""
        open_ones = [p for p in self.all_probes() if p not in self.labels]
        for stage in Stage:
            if now := tuple(p for p in open_ones if p.stage is stage):
                return now
            if stage is not Stage.DISTRACTOR and not self.passed(stage):
                return ()
        return ()


async def play(lives: dict[str, Life], truth: dict[str, dict[Probe, Label]], seconds: float) -> Counter:
    free: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
    calls: Counter = Counter()

    async def one(sample: str, probe: Probe) -> None:
        async with free[probe.gate]:
            await asyncio.sleep(seconds)
        calls[sample, probe] += 1
        lives[sample].tell(probe, truth[sample][probe])

    async def live(sample: str) -> None:
        while wanted := lives[sample].wanted():
            await together([one(sample, p) for p in wanted])

    await at_once([lambda s=s: live(s) for s in lives], 256)
    return calls


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-topic", type=int, default=12, help="samples of each topic (default: %(default)s)")
    parser.add_argument("--own", type=float, default=0.5, help="share of knowledge that gates do not share")
    parser.add_argument("--latency", type=float, default=0.01, help="seconds per answer (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder for the two builds (default: a temporary one)")
    args = parser.parse_args()
    plan = recipe(args.per_topic, args.own)
    with tempfile.TemporaryDirectory() as folder:
        root = args.keep or Path(folder)
        full = curate(plan, root / "exhaustive", exhaustive=True)
        if not (root / "lazy" / "index").exists():
            import shutil

            shutil.copytree(root / "exhaustive" / "index", root / "lazy" / "index", copy_function=_linked)
        lazy = curate(plan, root / "lazy")
        same = full.release.sha256 == lazy.release.sha256
        stories = list(read_records(root / "exhaustive" / "build" / "lives.jsonl", LifeStory, Problems()))
        pool = load_pool(plan.sources, base=Path(), links=root / "links", seed=plan.seed)
    samples, documents = {s.id: s for s in pool.samples}, {d.id: d for d in pool.documents}
    rules, gates = plan.rules.rules(), gates_of(plan.specs())
    truth: dict[str, dict[Probe, Label]] = {}
    tokens: dict[str, dict[Probe, int]] = {}
    model = ModelSystem("openai/bench", Kit(read_image=lambda ref: b"", options={"max_tokens": 64}))
    for story in stories:
        ids = [d["id"] for d in story.distractors]
        sample = samples[story.sample]
        sample = sample.model_copy(update={"negatives": tuple(Evidence.of(documents[i], Role.DISTRACTOR) for i in ids)})
        table = truth.setdefault(story.sample, {})
        size = tokens.setdefault(story.sample, {})
        labels = {(Stage.PARAMETRIC, ""): story.parametric, (Stage.SOLVABLE, ""): story.solvable}
        labels |= {(Stage.DISTRACTOR, d["id"]): d["labels"] for d in story.distractors}
        for (stage, shown), said in labels.items():
            n = prompt_tokens(model.request(ask_of(sample, Probe("", stage, shown), 0, "none", Prompts())))
            for gate, label in said.items():
                table[Probe(gate, stage, shown)] = Label(label)
                size[Probe(gate, stage, shown)] = n
    cost = {g.name: g.cost for g in gates}
    candidates = {s.sample: [d["id"] for d in s.distractors] for s in stories}

    enough = rules._replace(k_enough=rules.k_min)

    def lives(kind: str) -> dict[str, Life]:
        if kind == ENOUGH:
            shared = Experience()
            return {i: Life(gates, c, enough, experience=shared) for i, c in candidates.items()}
        experience = Experience(learn=kind == "lazy, order learnt")
        if kind == "Algorithm 1":
            return {i: Naive(gates, c, rules) for i, c in candidates.items()}
        return {
            i: Life(gates, c, rules, exhaustive=kind == "exhaustive", experience=experience)
            for i, c in candidates.items()
        }

    rows = {}
    fates = None
    for kind in ("exhaustive", "Algorithm 1", "lazy, cheapest first", "lazy, order learnt", ENOUGH):
        walls = []
        for _ in range(args.repeats):
            playing = lives(kind)
            start = time.perf_counter()
            calls = asyncio.run(play(playing, truth, args.latency))
            walls.append(time.perf_counter() - start)
        now = {i: life.fate() for i, life in playing.items()}
        fates = fates or now
        if kind == ENOUGH:  # the same samples, with fewer distractors each
            assert [f.kept for f in now.values()] == [f.kept for f in fates.values()]
        else:
            assert now == fates, f"{kind} decides otherwise"
        rows[kind] = {
            "calls": sum(calls.values()),
            "stage1": sum(n for (_, p), n in calls.items() if p.stage is Stage.PARAMETRIC),
            "prompt_tokens": sum(n * tokens[s][p] for (s, p), n in calls.items()),
            "cost": sum(n * cost[p.gate] for (_, p), n in calls.items()),
            "seconds": round(statistics.median(walls), 3),
        }
    least = [costs_of(gates, candidates[i], rules, truth[i]).least for i in candidates]
    rows["least possible"] = {"calls": sum(least), "stage1": None, "prompt_tokens": None, "cost": None, "seconds": None}
    kept = sum(f.kept for f in fates.values())
    print(
        f"{len(samples)} samples, {kept} kept ({100 * kept / len(samples):.1f} %), {len(gates)} gates; "
        f"median of {args.repeats} runs, {1000 * args.latency:g} ms per answer, {AT_ONCE} at once per gate"
    )
    head = ("calls", "stage1", "prompt_tokens", "cost", "seconds")
    print(f"{'':<24}" + "".join(f"{h:>16}" for h in head) + f"{'of Algorithm 1':>16}")
    for kind, row in rows.items():
        share = row["calls"] / rows["Algorithm 1"]["calls"]
        print(
            f"{kind:<24}" + "".join(f"{'-' if row[h] is None else f'{row[h]:,}':>16}" for h in head) + f"{share:>16.2f}"
        )
    print(f"same release, lazily and exhaustively built: {'yes' if same else 'NO'}")
    said = {
        "benchmark": "curation", "samples": len(samples), "kept": kept, "gates": len(gates), "same_release": same,
        "ways": rows,
        "lazy_of_algorithm1": round(rows["lazy, order learnt"]["calls"] / rows["Algorithm 1"]["calls"], 4),
        "enough_of_algorithm1": round(rows[ENOUGH]["calls"] / rows["Algorithm 1"]["calls"], 4),
        "least_of_algorithm1": round(rows["least possible"]["calls"] / rows["Algorithm 1"]["calls"], 4),
        "lazy_of_exhaustive": round(rows["lazy, order learnt"]["calls"] / rows["exhaustive"]["calls"], 4),
        "lazy_of_least": round(rows["lazy, order learnt"]["calls"] / rows["least possible"]["calls"], 4),
    }  # fmt: skip
    print(json.dumps(said))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
