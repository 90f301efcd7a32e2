"""From a folder of documents to a gate, timed: 10,000 pages, 200 questions, a service that knows nothing of demur.

    python examples/ten_minutes.py                 # writes ten-minutes/, prints seconds per step
    python examples/ten_minutes.py --documents 600 --questions 30 --out small

It writes a handbook of made-up mills, a list of questions (with answers; some that no page answers), and starts a
small search service over the pages. Then it does what docs/score-your-rag.md says, command by command. The gate is
asked twice: of the service as it is, and after somebody has made it answer whatever it finds. The second is red.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MAPPING = """\
url: {url}
name: {name}
body: {{query: "{{question}}", without: "{{exclude}}", corpus: "{{corpus}}"}}
answer: $.answer
contexts: $.sources[*]
context: {{id: $.id, text: $.text}}
"""


def handbook(folder: Path, documents: int, questions: int) -> None:
    """Pages about mills, each with a place, a year and a grain; questions about some, and some about none."""
    dice = random.Random(7)
    syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "en", "or")]

    def name(parts: int) -> str:
        return "".join(dice.choice(syllables) for _ in range(parts)).capitalize()

    filler = [name(dice.randint(1, 3)).lower() for _ in range(4_000)]
    weights = [1 / (n + 8) for n in range(len(filler))]
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for n in range(documents):
        mill, town, year = f"{name(3)} {name(2)}", f"{name(3)}-{name(2)}", dice.randint(1500, 1990)
        text = " ".join(dice.choices(filler, weights, k=dice.randint(80, 200))).capitalize()
        page = f"The {mill} mill stands in {town}. It was built in {year}.\n\n{text}."
        (folder / f"mill-{n:05d}.md").write_text(f"# {mill}\n\n{page}\n", encoding="utf-8")
        if n < questions:
            rows.append((f"Where does the {mill} mill stand?", town, ""))
        elif n < questions * 4 // 3:
            rows.append((f"Who owned the {mill} mill in {year + 5}?", "", "true"))
    with (folder.parent / "questions.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([("question", "answer", "unanswerable"), *rows])


class Search(ThreadingHTTPServer):
    """A search service of somebody's own: BM25 over one file of pages, and an answer cut out of the best."""

    def __init__(self, corpora: Path) -> None:
        self.bold = False
        self.pages: dict[str, str] = {}
        self.found: dict[str, dict[str, int]] = defaultdict(dict)
        for line in (corpora / "full" / "corpus.jsonl").open(encoding="utf-8"):
            row = json.loads(line)
            self.pages[row["id"]] = row["text"]
            for word, n in Counter(
                re.findall(r"\w+", f"{row['title']} {row['text']}".lower())
            ).items():
                self.found[word][row["id"]] = n
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, asked: dict) -> dict:
        """Three pages, and what stands behind "stands in" in the first of them that names the mill."""
        words = re.findall(r"\w+", asked["query"].lower())
        scores: Counter[str] = Counter()
        for word in words if asked["corpus"] != "empty" else ():
            hits = self.found.get(word, {})
            rarity = math.log(1 + len(self.pages) / (1 + len(hits)))
            for page, n in hits.items():
                scores[page] += rarity * n / (n + 1)
        for page in asked["without"]:
            scores.pop(page, None)
        best = [page for page, _ in scores.most_common(3)]
        said = "I cannot find that in the handbook."
        for page in best[:1]:
            fact = re.search(r"The (\S+) (\S+) mill stands in (\S+)\.", self.pages[page])
            if fact and (self.bold or ("stand" in words and fact[1].lower() in words)):
                said = f"It stands in {fact[3]}."
        return {
            "answer": said,
            "sources": [{"id": page, "text": self.pages[page]} for page in best],
        }


class Handler(BaseHTTPRequestHandler):
    """JSON in, JSON out."""

    def do_POST(self) -> None:
        """Answer a question."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(self.server.answer(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def main() -> int:
    """Write, make, ask, gate; print the seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument(
        "--questions", type=int, default=150, help="with answers; a third as many without"
    )
    parser.add_argument("--out", type=Path, default=Path("ten-minutes"))
    args = parser.parse_args()
    out, spent = args.out, []

    def step(what: str, *command: str, expected: int = 0) -> None:
        start = time.perf_counter()
        print(f"$ demur {' '.join(command)}", flush=True)
        done = subprocess.run([sys.executable, "-m", "demur", *command], check=False)
        spent.append((what, time.perf_counter() - start))
        if done.returncode != expected:
            raise SystemExit(f"{what}: exit code {done.returncode}, {expected} was expected")

    handbook(out / "handbook", args.documents, args.questions)
    mine, corpora = f"{out}/mine/release", f"{out}/mine/corpora"
    step(
        "documents and questions to a release",
        "from-docs",
        f"{out}/handbook",
        f"{out}/questions.csv",
        "-o",
        f"{out}/mine",
        "--accept-found",
    )
    service = Search(Path(corpora))
    for name, bold, code in (("as-it-is", False, 0), ("edited", True, 1)):
        service.bold = bold
        mapping = out / f"{name}.yaml"
        mapping.write_text(
            MAPPING.format(url=f"http://127.0.0.1:{service.server_port}/ask", name=name)
        )
        if not bold:
            step("probe", "rag", "probe", str(mapping), "--question", "Where does the mill stand?")
        step(
            f"ask the service {name}",
            "run",
            mine,
            "--scenarios",
            "whole",
            "--corpora",
            corpora,
            "--system",
            f"http:{mapping}",
            "--out",
            f"{out}/runs",
        )
        step(
            f"gate of the service {name}",
            "gate",
            f"{out}/runs/{name}",
            "--release",
            mine,
            "--min-declined",
            "gold-removed=0.85",
            "--min-accuracy",
            "full=0.6",
            expected=code,
        )
    step("what to mend", "rag", "table", f"{out}/runs", "--release", mine)
    print()
    for what, seconds in [*spent, ("together", sum(s for _, s in spent))]:
        print(f"{seconds:8.1f} s  {what}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
