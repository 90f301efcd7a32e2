"""The `demur` command: a table of verbs, and one thin file per verb beside this one.

``demur --help`` prints from the table alone; a verb's file is imported when that verb is used. Each verb's
file has ``configure(parser)`` (its arguments, with an example in the epilog) and ``run(args) -> int`` (its
exit code), and hands the work to a public function.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from demur.cli._arguments import Parser
from demur.core.version import __version__


class Verb(NamedTuple):
    """One line of ``demur --help``; the verb's file is ``demur/cli/<name>.py`` (``-`` becomes ``_``)."""

    name: str
    does: str
    example: str


VERBS = (
    Verb("demo", "the whole job on the built-in sample, in two minutes", "demur demo --out demo-out"),
    Verb(
        "sources",
        "datasets in their native formats: list, show, check a folder",
        "demur sources check webqa /data/webqa",
    ),
    Verb(
        "pool", "join sources into one pool of samples", "demur pool build webqa=/data/webqa mrag=/data/mrag --out pool"
    ),
    Verb("index", "documents to an index: build, info, search", "demur index build kb.jsonl --out index"),
    Verb("mine", "distractors for every sample from an index", "demur mine pool --index index --out mined"),
    Verb("build", "a recipe to a release, resumable; --plan tells calls and money", "demur build recipe.yaml --plan"),
    Verb("rebuild", "a release with more gates; asks only what is new", "demur rebuild OLD --add-gate model:openai/o3"),
    Verb("explain", "what happened to one sample, kept or dropped, and why", "demur explain demo-out/release SAMPLE"),
    Verb("convergence", "what is left as gates are added; what the next would take", "demur convergence recipe.yaml"),
    Verb("release", "show, verify, diff or push a release folder", "demur release verify demo-out/release"),
    Verb(
        "run",
        "ask systems in four scenarios, judge what they say",
        "demur run demo-out/release --system reader --out runs",
    ),
    Verb(
        "sweep",
        "vary distractors, strictness, modality, position",
        "demur sweep demo-out/release --system reader --distractors 0:10",
    ),
    Verb(
        "asks",
        "write what is asked, for a system that demur does not run",
        "demur asks demo-out/release -o asks.jsonl --images pictures",
    ),
    Verb(
        "corpus",
        "the release's documents for your own index: whole, and without the gold",
        "demur corpus export demo-out/release --out corpora",
    ),
    Verb(
        "from-docs",
        "your documents and questions to a small release",
        "demur from-docs handbook questions.csv -o mine",
    ),
    Verb("rag", "your RAG service: try its mapping; where it fails, and why", "demur rag probe rag.yaml"),
    Verb("report", "one HTML file from runs; tables and figures for a paper", "demur report demo-out -o report.html"),
    Verb("annotate", "a local page where people label responses", "demur annotate demo-out/runs/reader --as maria"),
    Verb("agree", "how far labellers and judges agree; rates as labels correct them", "demur agree annotation"),
    Verb("compare", "is the second run better or worse than the first", "demur compare runs/a runs/b --fail-if-worse"),
    Verb(
        "gate",
        "pass or fail a run in CI, decided on intervals",
        "demur gate runs/mine --max-hallucination gold-removed=0.15 --strict",
    ),
    Verb("score", "the metrics of the sources' own authors", "demur score demo-out --metric viquae-f1"),
    Verb("judge", "grade answers that are there already; attack a judge", "demur judge file rows.jsonl --judge rules"),
    Verb("suite", "benchmarks that are not the four scenarios: VB", "demur suite score vb sheet.csv --mode paper"),
    Verb("audit", "check published tables for arithmetic", "demur audit table8.csv table4.csv"),
    Verb("calls", "ask a model; inspect the ledger of paid replies", "demur calls stats calls.sqlite"),
)


def overview() -> str:
    """What ``demur --help`` prints."""
    width = max(len(v.name) for v in VERBS)
    lines = [
        "usage: demur VERB [options]",
        "",
        "Measure whether a vision-language model or a RAG system answers, deflects, or makes things up,",
        "under evidence that you control; and build the benchmarks that measure it.",
        "",
        "verbs, each with an example ('demur VERB --help' tells more):",
    ]
    for verb in VERBS:
        lines += [f"  {verb.name:<{width}}  {verb.does}", f"  {'':<{width}}    $ {verb.example}"]
    lines += ["", "start here:  demur demo", "every verb that prints a result takes --json"]
    return "\n".join(lines) + "\n"


def parser_of(verb: Verb) -> argparse.ArgumentParser:
    """The parser of one verb, before its own file has configured it."""
    return Parser(
        prog=f"demur {verb.name}",
        description=verb.does[0].upper() + verb.does[1:] + ".",
        epilog=f"example:\n  $ {verb.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code (0 well, 1 data, 2 usage, 3 budget reached, 130 interrupted)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return 0
    if words[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"demur {__version__}\n")
        return 0
    from demur.cli._shown import harmless
    from demur.core.errors import DemurError, UnknownPart

    try:
        names = [v.name for v in VERBS]
        if words[0] not in names:
            raise UnknownPart("verb", words[0], names, hint="see 'demur --help'")
        verb = VERBS[names.index(words[0])]
        module = import_module(f"demur.cli.{verb.name.replace('-', '_')}")
        parser = parser_of(verb)
        module.configure(parser)
        arranged = getattr(module, "arranged", list)  # a verb may have a job that need not be named
        return int(module.run(parser.parse_args(arranged(words[1:]))))
    except DemurError as error:
        sys.stderr.write(harmless(f"demur: {error}\n"))
        return error.exit_code
    except BrokenPipeError:  # the reader of our output left, as `head` does
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("\ndemur: interrupted; run the same command again to go on\n")
        return 130
