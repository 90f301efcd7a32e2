"""What the order of requests is worth to a server with a prefix cache, counted by the fake endpoint.

    python benchmarks/prefix.py

The requests are real ones: Atlas questions with their images, five distractors each, asked in the four scenarios under
every strictness in two draws. They go to the fake endpoint in three orders: shuffled, as a harness loops (condition,
scenario, draw, question), and as demur sends them. The endpoint keeps vLLM's account: blocks of 16 tokens, known by
everything before them, the least recently used dropped when the cache is full. Nothing here depends on the machine. The
last line is one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path

from prefix_cache import CachingEndpoint

from demur.core.records import Request, Sample
from demur.core.uris import read_image
from demur.evaluation import questions
from demur.evaluation.options import RunOptions
from demur.models import Model, ModelOptions, complete_all, open_model
from demur.scenarios.conditions import Prompts
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.model import ModelSystem
from demur.sources import open_source

ATLAS = Path(__file__).resolve().parent.parent / "demur" / "sample" / "atlas"
SAMPLES = 60
CONCURRENCY = 16
CAPACITIES = (1_000, 4_000, 16_000)
"""Blocks of 16 tokens: 16k, 64k and 256k tokens of cache."""


def samples() -> list[Sample]:
    """Atlas questions that have images, each with five passages of others as distractors."""
    dice = random.Random(0)
    every = [s for s in open_source("atlas", ATLAS).samples() if s.images and s.gold[0].text]
    chosen = dice.sample(every, SAMPLES)
    return [
        s.model_copy(
            update={
                "negatives": tuple(
                    other.gold[0].model_copy(
                        update={"id": f"n{i}", "role": "distractor", "rank": i + 1}
                    )
                    for i, other in enumerate(dice.sample(every, 5))
                )
            }
        )
        for s in chosen
    ]


def requests(address: str) -> list[Request]:
    """Every request, in demur's order of work."""
    prompts = Prompts()
    tasks = questions.tasks(RunOptions(k=5, strictness="all", repeat=2), samples())
    system = ModelSystem(
        address, SystemContext(read_image=lambda ref: read_image(ref, ATLAS), prompts=prompts)
    )
    system.sampling = {"temperature": 0.7, "seed": 1, "max_tokens": 16}
    return [system.request(task.ask) for task in tasks]


async def sent(order: str, capacity: int) -> float:
    """Share of prompt tokens that the server had, in [0, 1]."""
    async with CachingEndpoint(capacity) as server:
        async with open_model(
            server.model(), ModelOptions(image_root=ATLAS, concurrency=CONCURRENCY)
        ) as model:
            work = requests(server.model())
            if order == "demur":
                async for _ in complete_all(model, work):
                    pass
            else:
                await one_by_one(model, _harness(work) if order == "harness" else _shuffled(work))
        return server.prefix.hit_rate


def _shuffled(work: Sequence[Request]) -> list[Request]:
    return random.Random(1).sample(list(work), len(work))


def _harness(work: Sequence[Request]) -> list[Request]:
    """Outer loops over condition, scenario and draw, inner loop over questions."""
    per = len(work) // SAMPLES
    return [work[sample * per + place] for place in range(per) for sample in range(SAMPLES)]


async def one_by_one(model: Model, work: Sequence[Request]) -> None:
    """In the order given, as many at once as demur has in flight."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(request: Request) -> None:
        async with gate:
            await model.complete(request)

    await asyncio.gather(*(one(r) for r in work))


def main() -> None:
    """Measure and print."""
    count = len(requests("http://localhost/v1#fake"))
    print(
        f"{count} requests, {CONCURRENCY} in flight; prompt tokens found in the server's prefix cache, per cent"
    )
    print(f"{'order':<10}" + "".join(f"{16 * c // 1000:>6}k tokens" for c in CAPACITIES))
    found: dict[str, list[float]] = {}
    for order in ("shuffled", "harness", "demur"):
        found[order] = [round(100 * asyncio.run(sent(order, c)), 1) for c in CAPACITIES]
        print(f"{order:<10}" + "".join(f"{share:>13}" for share in found[order]))
    print(
        json.dumps(
            {"benchmark": "prefix", "requests": count, "blocks": CAPACITIES, "hit_percent": found}
        )
    )


if __name__ == "__main__":
    main()
