"""make bench-ray: the Ray engine with one worker beside a plain loop, with a model that takes one second a batch.

The model is a stand-in that waits (an accelerator would compute) and takes no processor. Both sides embed the same
texts into the same files, batch by batch; the engine does it through Ray Data on a cluster of this machine with one
actor, a shard for every batch: the least work at a time that a pass can have, and so the most overhead.

Runs of two lengths take turns. What the longer ones take beyond the shorter ones is time per batch (start-up cancels
out); the rest is start-up (cluster apart), paid once a pass, and shown spread over a stated number of batches.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.indexing.encoders import space_of

BATCH = 64
SECONDS = "DEMUR_BENCH_SECONDS"


class OneSecond:
    """A model that takes its time and no processor."""

    name, note, similarity = "on_ray:opened", "waits as an accelerator would compute", "dot"
    dims: Mapping[str, int] = {"text": 512}
    batch = BATCH

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def fingerprint(self) -> str:
        """There are no weights."""
        return f"waits {self.seconds}"

    def texts(
        self, texts: Any, space: str = "text", *, role: str = "passage"
    ) -> NDArray[np.float32]:
        """Wait for every batch begun."""
        time.sleep(self.seconds)
        return np.full((len(texts), 512), len(texts[0]), np.float32)

    def images(self, images: Any, space: str = "text") -> NDArray[np.float32]:
        """Refused: ``text`` takes texts alone."""
        return np.ones((len(images), space_of(self, space, "images")), np.float32)


def opened(argument: str = "", *, allow_random: bool = False) -> OneSecond:
    """How the actor opens the model by its name."""
    return OneSecond(float(os.environ[SECONDS]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of the model, for each batch")
    parser.add_argument("--short", type=int, default=5, help="batches of the shorter runs")
    parser.add_argument("--long", type=int, default=25, help="batches of the longer runs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--over", type=int, default=1000, help="batches that start-up is spread over"
    )
    given = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measured(Path(folder), given)))


def measured(work: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The table, and its numbers."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    from demur.indexing.embed import Item, embed
    from demur.indexing.ray import RayEngine

    before = time.perf_counter()
    ray.init(
        num_cpus=1,
        log_to_driver=False,
        include_dashboard=False,
        configure_logging=False,
        runtime_env={
            "env_vars": {"PYTHONPATH": str(Path(__file__).parent), SECONDS: str(given.seconds)}
        },
    )
    engine = RayEngine(shard=BATCH)
    cluster = time.perf_counter() - before
    model: Any = OneSecond(given.seconds)

    def items(batches: int) -> list[Item]:
        return [Item(str(n), text=f"text {n}") for n in range(batches * BATCH)]

    def loop(batches: int) -> None:
        rows = []
        for start in range(0, batches * BATCH, BATCH):
            rows.append(model.texts([item.text for item in items(batches)[start : start + BATCH]]))
        np.save(work / "loop.npy", np.concatenate(rows))

    def local(batches: int) -> None:
        shutil.rmtree(work / "local", ignore_errors=True)
        embed(items(batches), model, "text", work / "local", shard=BATCH, progress=False)

    def on_ray(batches: int) -> None:
        shutil.rmtree(work / "ray", ignore_errors=True)
        engine.embed(items(batches), model, "text", work / "ray")

    took: dict[str, dict[int, list[float]]] = {}
    rivals = {"plain loop": loop, "demur, this process": local, "demur on Ray, one worker": on_ray}
    on_ray(1)  # the first pass imports
    for turn in range(given.repeats):
        for batches in (given.short, given.long) if turn % 2 == 0 else (given.long, given.short):
            for name, run in rivals.items():
                since = time.perf_counter()
                run(batches)
                took.setdefault(name, {}).setdefault(batches, []).append(
                    time.perf_counter() - since
                )
    one, other = (sorted((work / side).iterdir()) for side in ("ray", "local"))
    same = [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    ray.shutdown()
    print(
        f"cluster of this machine up in {cluster:.1f} s; {given.repeats} repeats in turns; same files: {same}"
    )
    head = f"wall s of {given.short} / of {given.long} batches"
    print(
        f"  {'':<26}{head:>46}{'s a batch':>11}{'start-up s':>12}{'x':>8}{f'x over {given.over:,}':>14}"
    )
    numbers: dict[str, Any] = {
        "seconds_a_batch": given.seconds,
        "batches": [given.short, given.long],
        "repeats": given.repeats,
        "cluster_s": round(cluster, 2),
        "same_files": same,
    }
    base = 0.0
    for name, runs in took.items():
        short, long = (statistics.median(runs[n]) for n in (given.short, given.long))
        each = (long - short) / (given.long - given.short)
        start = max(0.0, short - given.short * each)
        base = base or each
        ratio, spread = each / base, (each + start / given.over) / base
        shown = " / ".join(" ".join(f"{s:.2f}" for s in runs[n]) for n in (given.short, given.long))
        print(f"  {name:<26}{shown:>46}{each:>11.4f}{start:>12.2f}{ratio:>8.4f}{spread:>14.4f}")
        numbers[name] = {
            "s_a_batch": round(each, 4),
            "start_up_s": round(start, 2),
            "times_plain_loop": round(ratio, 4),
            f"times_plain_loop_over_{given.over}": round(spread, 4),
        }
    return numbers


if __name__ == "__main__":
    main()
