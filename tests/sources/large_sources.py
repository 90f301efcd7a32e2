"""Writes large files in the sources' own formats, and reads them in a process of its own that reports its peak memory.

python large_sources.py read NAME FOLDER    -> one JSON object: seconds, peak_mb, samples, documents
"""

import base64
import gzip
import json
import resource
import sys
import time
from pathlib import Path

import mini_sources as mini

PARAGRAPH = "The sample stands at {n} and is made of stone, as every visitor of year {n} could see for himself. "


def evqa(folder: Path, megabytes: int) -> int:
    """A knowledge base of that many megabytes as one JSON object; returns its pages."""
    mini.evqa(folder)
    number = written = 0
    small = (folder / "encyclopedic_kb_wiki.json").read_text()
    with (folder / "encyclopedic_kb_wiki.json").open("w", encoding="utf-8") as out:
        out.write("{")
        while written < megabytes * 1_000_000:
            url = f"https://en.wikipedia.org/wiki/Filler_{number}"
            text = PARAGRAPH.format(n=number) * 20
            page = {
                "title": f"Filler {number}",
                "section_titles": [f"Filler {number}", "Life"],
                "section_texts": [text, text],
                "image_urls": [],
                "image_reference_descriptions": [],
                "image_section_indices": [],
                "url": url,
            }
            written += out.write(f"{json.dumps(url)}: {json.dumps(page)},\n")
            number += 1
        out.write(small.lstrip().removeprefix("{"))
    return number + 3


def infoseek(folder: Path, megabytes: int) -> int:
    """A gzip of that many megabytes of JSON lines (before compression); returns its articles."""
    mini.infoseek(folder)
    wiki = folder / "Wiki6M_ver_1_0.jsonl.gz"
    small = gzip.decompress(wiki.read_bytes())
    number = written = 0
    with gzip.open(wiki, "wb", compresslevel=1) as out:
        while written < megabytes * 1_000_000:
            text = PARAGRAPH.format(n=number) * 40
            row = {
                "wikidata_id": f"Q{10_000_000 + number}",
                "wikipedia_title": f"Filler {number}",
                "wikipedia_content": text,
            }
            written += out.write(json.dumps(row).encode() + b"\n")
            number += 1
        out.write(small)
    return number + 4


def webqa(folder: Path, megabytes: int) -> int:
    """An image TSV of that many megabytes with its line index; returns its rows."""
    mini.webqa(folder)
    lines = (folder / "imgs.tsv").read_bytes().splitlines(keepends=True)
    filler = base64.b64encode(bytes(150_000))
    offsets: list[int] = []
    at = number = 0
    with (folder / "imgs.tsv").open("wb") as out:
        while at < megabytes * 1_000_000 or number < len(lines):
            line = (
                lines[number]
                if number < len(lines)
                else b"%d\t%s\n" % (30_000_000 + number, filler)
            )
            offsets.append(at)
            at += out.write(line)
            number += 1
    (folder / "imgs.lineidx").write_text("\n".join(map(str, offsets)) + "\n")
    return number


def peak_mb() -> float:
    """Peak resident memory of this program; ``ru_maxrss`` alone would still hold what the parent had before exec."""
    status = Path("/proc/self/status")
    if status.is_file():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return round(int(peak.split()[1]) / 1024, 1)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def read(name: str, folder: Path) -> dict[str, float]:
    """Read everything once."""
    from demur.core.store import Problems
    from demur.sources import open_source

    start = time.perf_counter()
    problems = Problems()
    source = open_source(name, folder, problems)
    samples = sum(1 for _ in source.samples())
    documents = sum(1 for _ in source.documents())
    assert not problems.lines, problems.lines[:3]
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "peak_mb": peak_mb(),
        "samples": samples,
        "documents": documents,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read(sys.argv[2], Path(sys.argv[3]))) + "\n")
