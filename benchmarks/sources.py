"""Reading knowledge bases of the sources: speed and peak memory of demur's readers beside their peers.

``make bench-sources`` (DEMUR_BENCH_MB=200, DEMUR_BENCH_REPEATS=3). Each reading runs in a process of its own; the table
shows the median of the repeats, the last line is one JSON object.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "sources"))

MEGABYTES = int(os.environ.get("DEMUR_BENCH_MB", "200"))
REPEATS = int(os.environ.get("DEMUR_BENCH_REPEATS", "3"))


def object_by_demur(folder: Path) -> int:
    from demur.core.store import Problems
    from demur.corpora.formats import json_items

    return sum(1 for _ in json_items(folder / "evqa/encyclopedic_kb_wiki.json", Problems()))


def object_by_ijson(folder: Path) -> int:
    import ijson

    with (folder / "evqa/encyclopedic_kb_wiki.json").open("rb") as handle:
        return sum(1 for _ in ijson.kvitems(handle, "", use_float=True))


def object_by_json_load(folder: Path) -> int:
    return len(json.loads((folder / "evqa/encyclopedic_kb_wiki.json").read_text(encoding="utf-8")))


def lines_by_demur(folder: Path) -> int:
    from demur.core.store import Problems
    from demur.corpora.formats import json_lines

    return sum(1 for _ in json_lines(folder / "infoseek/Wiki6M_ver_1_0.jsonl.gz", Problems()))


def lines_by_a_plain_loop(folder: Path) -> int:
    import gzip

    with gzip.open(folder / "infoseek/Wiki6M_ver_1_0.jsonl.gz", "rt", encoding="utf-8") as handle:
        return sum(1 for line in handle if json.loads(line))


def lines_by_pyarrow(folder: Path) -> int:
    import gzip

    import pyarrow.json

    with gzip.open(folder / "infoseek/Wiki6M_ver_1_0.jsonl.gz", "rb") as handle:
        return pyarrow.json.read_json(handle).num_rows


def wanted_rows(folder: Path) -> list[int]:
    size = sum(1 for _ in (folder / "webqa/imgs.lineidx").open())
    return [number * 7919 % size for number in range(200)]


def rows_by_offset(folder: Path) -> int:
    from demur.corpora.formats import LineIndex

    index = LineIndex(folder / "webqa/imgs.tsv", folder / "webqa/imgs.lineidx")
    return sum(bool(index.line(number)) for number in wanted_rows(folder))


def rows_by_scan(folder: Path) -> int:
    wanted = set(wanted_rows(folder))
    with (folder / "webqa/imgs.tsv").open("rb") as handle:
        return sum(1 for number, line in enumerate(handle) if number in wanted and line) and len(
            wanted_rows(folder)
        )


TASKS = {
    "one JSON object": ("evqa", [object_by_demur, object_by_ijson, object_by_json_load]),
    "gzip of JSON lines": ("infoseek", [lines_by_demur, lines_by_a_plain_loop, lines_by_pyarrow]),
    "200 images of a TSV": ("webqa", [rows_by_offset, rows_by_scan]),
}


def main() -> None:
    import large_sources as large

    table, result = [], {"megabytes": MEGABYTES, "repeats": REPEATS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for task, (source, readers) in TASKS.items():
            getattr(large, source)(folder / source, MEGABYTES)
            getattr(large, source)(folder / "tiny" / source, 1)
            counts = set()
            for reader in readers:
                command = [sys.executable, __file__, reader.__name__, name]
                runs = [
                    subprocess.run(command, capture_output=True, text=True, check=False)
                    for _ in range(REPEATS)
                ]
                if any(run.returncode for run in runs):
                    table.append(
                        (
                            task,
                            reader.__name__,
                            "-",
                            "-",
                            runs[0].stderr.strip().splitlines()[-1][:60],
                        )
                    )
                    continue
                read = [json.loads(run.stdout.splitlines()[-1]) for run in runs]
                counts.add(read[0]["records"])
                seconds = statistics.median(r["seconds"] for r in read)
                peak = statistics.median(r["peak_mb"] for r in read)
                table.append(
                    (
                        task,
                        reader.__name__,
                        f"{seconds:.2f}",
                        f"{peak:.0f}",
                        f"{read[0]['records']:,} records",
                    )
                )
                result[reader.__name__] = {"seconds": seconds, "peak_mb": peak}
            if len(counts) > 1:
                raise SystemExit(f"{task}: the readers disagree: {counts}")
    print(
        f"{'task':<22}{'reader':<24}{'seconds':>8}{'peak MB':>9}  ({MEGABYTES} MB each, median of {REPEATS})"
    )
    for task, reader, seconds, peak, what in table:
        print(f"{task:<22}{reader:<24}{seconds:>8}{peak:>9}  {what}")
    print(json.dumps(result))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from large_sources import peak_mb

        globals()[sys.argv[1]](Path(sys.argv[2]) / "tiny")  # imports are not what is measured
        start = time.perf_counter()
        records = globals()[sys.argv[1]](Path(sys.argv[2]))
        print(
            json.dumps(
                {"seconds": time.perf_counter() - start, "peak_mb": peak_mb(), "records": records}
            )
        )
    else:
        main()
