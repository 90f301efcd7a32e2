"""make bench-embedding: speeds of the offline encoder, the pipeline beside plain loops, and its memory.

Three questions, each answered by repeats that take turns, so that a busy machine disturbs all alike:

1. How fast is the offline encoder on Atlas, and how much is gained by the graph written for 8-bit products?
2. What does the pipeline cost beside the same work in a plain loop: read, decode, resize, model, all in one thread?
   And beside the model alone, on inputs decoded beforehand: on an accelerator (stood in for by a model that
   waits without computing), and on this processor, where decoding has to take its share. With the stand-in,
   clip-retrieval's reader takes part: the same files, resizing, batches and model, decoding in as many processes as
   the pipeline has threads. The ratios are the medians of the ratios within each round.
3. Is its peak memory the same for ten times the documents?

clip-retrieval 2.45 does not import in demur's environment: it asks for numpy 1, pyarrow 15, sentence-transformers 2 and
open_clip 2, and one of its requirements imports pkg_resources, which setuptools no longer has. Its reader needs only
PyTorch and Pillow: it is installed without what it asks for, and the file of the reader is loaded alone. Without it its
row is left out, and said to be.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import demur
from demur.core.images import rgb
from demur.indexing.embed import Item, embed
from demur.indexing.encoders import open_encoder, space_of

ATLAS = Path(demur.__file__).parent / "sample" / "atlas"


class Took(NamedTuple):
    """Seconds of one run."""

    wall: float
    cpu: float


def timed(work: Callable[[], object]) -> Took:
    """Run it once."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


def in_turns(rivals: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[Took]]:
    """Each rival once per round, after one round that does not count; the order turns round by round."""
    for work in rivals.values():
        work()
    took: dict[str, list[Took]] = {name: [] for name in rivals}
    for number in range(repeats):
        order = list(rivals) if number % 2 == 0 else list(reversed(rivals))
        for name in order:
            took[name].append(timed(rivals[name]))
    return took


def shown(title: str, items: int, took: dict[str, list[Took]], against: str) -> dict[str, Any]:
    """Print a table; returns its numbers."""
    sys.stdout.flush()
    print(f"\n{title} ({items} items, {len(next(iter(took.values())))} repeats in turns)")
    width = max(21, 6 * max(len(runs) for runs in took.values()) + 4)
    print(f"  {'':<44}{'items/s':>9}{'wall s: each repeat':>{width}}{'cpu s':>8}{'x':>7}")
    base = statistics.median(t.wall for t in took[against])
    numbers = {}
    for name, runs in took.items():
        wall, cpu = statistics.median(t.wall for t in runs), statistics.median(t.cpu for t in runs)
        each = " ".join(f"{t.wall:.2f}" for t in runs)
        print(f"  {name:<44}{items / wall:>9.1f}{each:>{width}}{cpu:>8.2f}{base / wall:>7.2f}")
        numbers[name] = {
            "per_s": round(items / wall, 1),
            "wall_s": [round(t.wall, 3) for t in runs],
            "cpu_s": round(cpu, 2),
        }
    return numbers


def passages() -> list[str]:
    """All passages of Atlas."""
    rows = [
        json.loads(line)
        for line in (ATLAS / "kb_text.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return [f"{row['title']}. {row['text']}" for row in rows]


def pictures() -> list[Path]:
    """All images of Atlas, of documents and of queries."""
    return sorted(
        p for folder in ("images", "queries") for p in (ATLAS / folder).rglob("*") if p.is_file()
    )


class Waiting:
    """A stand-in for a model on an accelerator: it takes its time per batch without using this processor."""

    name, note, similarity = "waiting", "waits as an accelerator would compute", "dot"
    dims: Mapping[str, int] = {"look": 8}
    batch = 64

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second

    def fingerprint(self) -> str:
        """There are no weights."""
        return "waiting"

    def texts(
        self, texts: Any, space: str = "look", *, role: str = "passage"
    ) -> NDArray[np.float32]:
        """Refused: ``look`` takes images alone."""
        return np.ones((len(texts), space_of(self, space, "texts")), np.float32)

    def images(self, images: Any, space: str = "look") -> NDArray[np.float32]:
        """Both halves."""
        return self.images_prepared([self.prepared(i) for i in images])

    def prepared(self, image: Any, space: str = "look") -> NDArray[Any]:
        """What open_clip's models do to an image on the processor."""
        return np.asarray(image.resize((224, 224)), np.float32).transpose(2, 0, 1) / np.float32(255)

    def images_prepared(self, prepared: Any, space: str = "look") -> NDArray[np.float32]:
        """Wait as long as an accelerator would take."""
        time.sleep(len(prepared) / self.per_second)
        return np.ones((len(prepared), 8), np.float32)


def clip_retrieval_reader() -> Any:
    """Its module ``clip_inference.reader``, without the package around it; None where it is not installed."""
    from importlib.util import find_spec, module_from_spec, spec_from_file_location

    found = find_spec("clip_retrieval")
    if found is None or not found.submodule_search_locations or find_spec("torch") is None:
        return None
    file = Path(found.submodule_search_locations[0]) / "clip_inference" / "reader.py"
    spec = spec_from_file_location("clip_retrieval_reader", file)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_by_clip_retrieval(
    model: Waiting, files: list[Path], folder: Path, workers: int
) -> Callable[[], object] | None:
    """Its reader over the same files (linked into ``folder``) before the same model; None where it is not installed."""
    reader = clip_retrieval_reader()
    if reader is None:
        print(
            "\nclip-retrieval's reader: left out, not installed (pip install --no-deps clip-retrieval)"
        )
        return None
    import torch

    folder.mkdir()
    for number, file in enumerate(files):
        (folder / f"{number:06}{file.suffix.lower()}").symlink_to(file)

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it pins memory for a GPU that may not be there
            batches = reader.FilesReader(
                sampler=lambda keys: keys,
                preprocess=lambda image: torch.from_numpy(model.prepared(image.convert("RGB"))),
                tokenizer=None,
                input_dataset=str(folder),
                batch_size=model.batch,
                num_prepro_workers=workers,
                enable_text=False,
            )
            done = 0
            for batch in batches:
                model.images_prepared(batch["image_tensor"].numpy())
                done += len(batch["image_tensor"])
        if done != len(files):
            raise RuntimeError(f"clip-retrieval read {done} of {len(files)} images")

    return run


def fresh(place: Path) -> Path:
    """An output folder with nothing in it."""
    shutil.rmtree(place, ignore_errors=True)
    return place


def offline_speeds(repeats: int, every: int) -> dict[str, Any]:
    """Question 1."""
    import onnxruntime

    from demur.indexing.encoders import minilm
    from demur.indexing.encoders.offline import OfflineEncoder
    from demur.indexing.encoders.weights import read_pinned

    texts = passages()[::every]
    quick, one = OfflineEncoder(), OfflineEncoder("?threads=1")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = (
        1  # its own threads wait by spinning, which is unfair on shared cores
    )
    shipped = onnxruntime.InferenceSession(
        read_pinned(minilm.WEIGHTS), options, providers=["CPUExecutionProvider"]
    )

    def as_shipped() -> None:
        for text in texts:
            ids = np.array([minilm.tokenizer().encode(text).ids])
            shipped.run(
                None,
                {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": ids * 0},
            )

    took = in_turns(
        {
            "the package's graph, one thread, no pooling": as_shipped,
            "offline, one thread": lambda: one.texts(texts),
            "offline": lambda: quick.texts(texts),
        },
        repeats,
    )
    title = "Sentences: passages of Atlas, cut at 256 tokens"
    numbers = {"texts": shown(title, len(texts), took, next(iter(took)))}
    paths = pictures()[:: max(1, every // 2)]
    opened = [rgb(p.read_bytes()) for p in paths]

    def look(threads: str) -> Callable[[], object]:
        def work() -> None:
            encoder = OfflineEncoder(threads)
            encoder._seen.clear()  # what it remembers would make the second round free
            encoder.images(opened)

        return work

    took = in_turns({"offline, one thread": look("?threads=1"), "offline": look("")}, repeats)
    title = (
        "Images: images of Atlas, decoded beforehand, both spaces (loading the encoder included)"
    )
    return numbers | {"images": shown(title, len(paths), took, "offline, one thread")}


def pipelines(repeats: int, every: int, work: Path) -> dict[str, Any]:
    """Question 2."""
    from demur.indexing.encoders.offline import OfflineEncoder

    texts = passages()[::every]
    read_by_both = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
    paths = [path for path in pictures() if path.suffix.lower() in read_by_both][
        :: max(1, every // 5)
    ]
    numbers: dict[str, Any] = {}

    def pipe(encoder: Any, items: list[Item], space: str) -> Callable[[], object]:
        return lambda: embed(items, encoder, space, fresh(work / "out"), progress=False)

    encoder = open_encoder("offline")
    items = [Item(str(i), t) for i, t in enumerate(texts)]
    took = in_turns(
        {"bare loop": lambda: encoder.texts(texts), "pipeline": pipe(encoder, items, "text")},
        repeats,
    )
    numbers["offline texts"] = shown(
        "Pipeline, offline encoder, texts", len(texts), took, "bare loop"
    )

    many = (
        paths * 3
    )  # a short run is all beginning and end; the offline encoder remembers images, so each once

    def forgetful() -> Any:
        made = OfflineEncoder()
        made._classes  # noqa: B018 - made now, not inside the clock
        return made

    models = [forgetful() for _ in range(3)]

    def bare(
        encoder: Any, pieces: Callable[[], Iterator[list[Any]]], space: str
    ) -> Callable[[], object]:
        def loop() -> None:
            getattr(encoder, "_seen", {}).clear()
            for some in pieces():
                encoder.images_prepared(some, space)

        return loop

    def batches(
        encoder: Any, files: list[Path], *, ready: list[Any] | None
    ) -> Callable[[], Iterator[list[Any]]]:
        def pieces() -> Iterator[list[Any]]:
            for start in range(0, len(files), encoder.batch):
                stop = start + encoder.batch
                one_by_one = (
                    ()
                    if ready
                    else (encoder.prepared(rgb(p.read_bytes())) for p in files[start:stop])
                )
                yield ready[start:stop] if ready else list(one_by_one)

        return pieces

    def forgetting(encoder: Any, images: list[Item], space: str) -> Callable[[], object]:
        def run() -> None:
            getattr(encoder, "_seen", {}).clear()
            pipe(encoder, images, space)()

        return run

    for title, (alone, plain, piped), space, files in (
        ("offline encoder", models, "look", paths),
        ("accelerator stand-in, 300 images/s", [Waiting(300)] * 3, "look", paths * 4),
        ("tiny EVA02-style model", tiny(work), "look", many),
    ):
        if alone is None:
            print(
                f"\nPipeline, {title}: left out, open_clip is not installed (pip install 'demur[clip]')"
            )
            continue
        ready = [alone.prepared(rgb(p.read_bytes())) for p in files]
        images = [Item(str(i), image=p) for i, p in enumerate(files)]
        rivals = {
            "model alone, inputs decoded beforehand": bare(
                alone, batches(alone, files, ready=ready), space
            ),
            "plain loop: read, decode, resize, model": bare(
                plain, batches(plain, files, ready=None), space
            ),
            "pipeline: the same, decoding in threads": forgetting(piped, images, space),
        }
        if isinstance(alone, Waiting):
            peer = read_by_clip_retrieval(alone, files, work / "linked", workers=2)
            rivals |= {"clip-retrieval's reader, 2 processes": peer} if peer else {}
            few = len(files) // 4
            rivals |= {
                "model alone, a quarter of them": bare(
                    alone, batches(alone, files[:few], ready=ready[:few]), space
                ),
                "pipeline, a quarter of them": forgetting(piped, images[:few], space),
            }
        took = in_turns(rivals, repeats)
        against = "plain loop: read, decode, resize, model"
        numbers[title] = shown(f"Pipeline, {title}, images of Atlas", len(files), took, against)
        model, loop, pipeline = (took[name] for name in list(rivals)[:3])
        peer_runs = [runs for name, runs in took.items() if name.startswith("clip-retrieval")]
        of = {
            "of_model_alone": by_rounds(model, pipeline, "wall"),
            "of_plain_loop": by_rounds(loop, pipeline, "wall"),
            "of_plain_loop_cpu": by_rounds(loop, pipeline, "cpu"),
        }
        if peer_runs:
            of["of_clip_retrieval"] = by_rounds(peer_runs[0], pipeline, "wall")
        print(
            f"  pipeline: {of['of_model_alone']:.1%} of the model alone by the clock, {of['of_plain_loop']:.1%} of the "
            f"loop ({of['of_plain_loop_cpu']:.1%} by processor time)"
            + (f", {of['of_clip_retrieval']:.1%} of clip-retrieval's reader" if peer_runs else "")
        )
        if isinstance(
            alone, Waiting
        ):  # what the longer run takes beyond the shorter one: begin and end cancel out
            short_model, short = (took[name] for name in list(rivals)[-2:])
            pairs = zip(model, short_model, pipeline, short, strict=True)
            steady = [(m.wall - sm.wall) / (p.wall - sp.wall) for m, sm, p, sp in pairs]
            of["of_model_alone_under_way"] = round(statistics.median(steady), 3)
            of["of_model_alone_best"] = round(
                min(m.wall for m in model) / min(p.wall for p in pipeline), 3
            )
            print(
                f"  under way (begin and end apart): {of['of_model_alone_under_way']:.1%} of the model alone; "
                f"the best run of each: {of['of_model_alone_best']:.1%}"
            )
        numbers[title] |= of
    return numbers


def by_rounds(base: list[Took], run: list[Took], what: Literal["wall", "cpu"]) -> float:
    """How fast ``run`` is in units of ``base``: the median of the rounds, which had the machine to share alike."""
    return round(
        statistics.median(
            getattr(b, what) / getattr(r, what) for b, r in zip(base, run, strict=True)
        ),
        3,
    )


def tiny(work: Path) -> list[Any]:
    """Three times the same tiny EVA02-style model with random weights; Nones where open_clip is missing."""
    from importlib.util import find_spec

    if find_spec("open_clip") is None:
        return [None] * 3
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    import tiny_clip
    import torch

    torch.set_num_threads(1)
    (work / "tiny").mkdir()
    folder = tiny_clip.make(work / "tiny")
    return [open_encoder(f"open_clip:tiny-eva02/{folder}/weights.pt")] * 3


class Hashed:
    """Vectors without a model: what is left is the pipeline."""

    name, note = "hashed", "no model"
    similarity: Literal["cosine", "dot"] = "dot"
    dims: Mapping[str, int] = {"text": 64}
    batch = 512

    def fingerprint(self) -> str:
        """There are no weights."""
        return "hashed"

    def texts(
        self, texts: Any, space: str = "text", *, role: str = "passage"
    ) -> NDArray[np.float32]:
        """Any numbers."""
        return np.full((len(texts), 64), len(texts[0]), np.float32)

    def images(self, images: Any, space: str = "text") -> NDArray[np.float32]:
        """Refused: ``text`` takes texts alone."""
        return np.ones((len(images), space_of(self, space, "images")), np.float32)


def one_memory_run(count: int) -> None:
    """In a process of its own: embed so many texts, print seconds and peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        items = (
            Item(f"document-{i}", f"the text of document number {i}, " * 20) for i in range(count)
        )
        took = timed(lambda: embed(items, Hashed(), "text", Path(folder) / "out", progress=False))
    # The kernel's high-water mark of this program; getrusage would also count that of the parent before exec.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps({"wall_s": took.wall, "peak_mb": int(status["VmHWM"].split()[0]) / 1024}))


def memory(counts: list[int]) -> dict[str, Any]:
    """Question 3."""
    print(
        "\nPeak memory of the pipeline alone (64 dimensions, 600 letters a text, each count in a process of its own)"
    )
    numbers = {}
    for count in counts:
        command = [sys.executable, __file__, "--memory-run", str(count)]
        found = json.loads(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout
        )
        print(
            f"  {count:>9,} texts{found['peak_mb']:>10.0f} MB{count / found['wall_s']:>12,.0f} items/s"
        )
        numbers[str(count)] = {
            "peak_mb": round(found["peak_mb"]),
            "per_s": round(count / found["wall_s"]),
        }
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--only", choices=("offline", "pipeline", "memory"), help="one of the three questions"
    )
    parser.add_argument(
        "--every",
        type=int,
        default=10,
        help="take every n-th passage, and two images where it takes one passage",
    )
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--memory-run", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory_run:
        one_memory_run(given.memory_run)
        return
    with tempfile.TemporaryDirectory() as folder:
        questions: dict[str, Callable[[], dict[str, Any]]] = {
            "offline": lambda: offline_speeds(given.repeats, given.every),
            "pipeline": lambda: pipelines(given.repeats, given.every, Path(folder)),
            "memory": lambda: memory(given.counts),
        }
        results = {name: ask() for name, ask in questions.items() if given.only in (None, name)}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
