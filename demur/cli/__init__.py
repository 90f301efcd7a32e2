"""The `demur` command: a table of verbs, and one thin file per verb beside this one.

``demur --help`` prints from the table; a verb's file is imported when that verb is used. Each verb's
file has ``configure(parser)`` (its arguments, with an example in the epilog) and ``run(args) -> int`` (its
exit code), and calls one public function.

A verb of another package is an entry point of the group ``demur.verbs``: its name, and such a file as a module, which
also has the texts ``DOES`` and ``EXAMPLE``, its line of the table. ``demur --help`` imports that module.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from textwrap import wrap
from typing import NamedTuple

from demur.cli._arguments import RAW, Parser
from demur.core.version import __version__

ABOUT = (
    "Measure whether a vision-language model or a RAG system answers, deflects, or makes things up, under evidence that "
    "you control; and build the benchmarks that measure it."
)


class Verb(NamedTuple):
    """One line of ``demur --help``, and the verb's file."""

    name: str
    does: str
    example: str
    module: str


_TABLE = """
curate, evaluate and report on the built-in sample, in under two minutes | demo --out demo-out
list, describe and check the datasets that demur reads in their native formats | sources check webqa:/data/webqa
join sources into one pool of samples | pool build webqa:/data/webqa mrag:/data/mrag --out pool
index documents; inspect and search an index | index build kb.jsonl --out index
find hard distractors for every sample in an index | mine pool --index index --out mined
make a release from a recipe, resumable; --plan prints calls and cost | build recipe.yaml --plan
make a release with more gating models, asking only what is new | rebuild OLD --add-gate model:openai/o3
show what happened to one sample, kept or dropped, and why | explain demo-out/release SAMPLE
measure how many samples stay as gating models are added | convergence recipe.yaml
show, verify, compare or push a release folder, write its qrels | release verify demo-out/release
ask systems in four scenarios, and judge their answers | run demo-out/release --system reader --out runs
vary distractors, strictness, modality and position | sweep demo-out/release --system reader --distractors 0:10
write the questions for a system that demur does not run | asks demo-out/release -o asks.jsonl --images pictures
write the questions as tasks of inspect or lmms-eval, with demur's judge | export inspect demo-out/release --out tasks
write a release's documents for your index, complete and without the gold | corpus export demo-out/release --out corpora
make a small release from your own documents and questions | from-docs handbook questions.csv -o mine
try the mapping of your RAG service; find where it fails, and why | rag probe rag.yaml
write one HTML file from runs, and tables and figures for a paper | report demo-out -o report.html
label responses on a local web page | annotate demo-out/runs/reader --as maria
measure how far labellers and judges agree | agree annotation
test whether the second run is better or worse than the first | compare runs/a runs/b --fail-if-worse
pass or fail a run in CI, decided on intervals | gate runs/mine --max-hallucination gold-removed=0.15 --strict
compute the metrics of the sources' own authors | score demo-out --metric viquae-f1
grade existing answers; correct, attack or measure a judge | judge file rows.jsonl --judge local
ask a model; inspect the ledger of paid replies | calls stats calls.sqlite
"""
"""One line per verb: what it does, and an example that begins with its name."""
VERBS = tuple(
    Verb(name, does, f"demur {example}", f"demur.cli.{name.replace('-', '_')}")
    for does, example in (line.split(" | ") for line in _TABLE.strip().splitlines())
    for name in example.split()[:1]
)


def verbs_elsewhere() -> tuple[Verb, ...]:
    """The verbs of other packages, by name; imports their modules."""
    from demur.core import plugins

    modules_of_names = ((name, plugins.find("verbs", name)[0]) for name in plugins.names("verbs"))
    return tuple(
        Verb(name, m.DOES, f"demur {m.EXAMPLE}", m.__name__) for name, m in modules_of_names
    )


def overview(verbs: Sequence[Verb]) -> str:
    """What ``demur --help`` prints of these verbs."""
    width = max(len(v.name) for v in verbs)
    columns = max(40, shutil.get_terminal_size((100, 24)).columns)
    lines = [
        "usage: demur VERB [options]",
        "",
        *wrap(ABOUT, columns),
        "",
        "verbs, each with an example ('demur VERB --help' explains its options):",
    ]
    for verb in verbs:
        first, *rest = wrap(verb.does, columns - width - 4)
        lines += [
            f"  {verb.name:<{width}}  {first}",
            *(f"  {'':<{width}}  {line}" for line in rest),
        ]
        lines.append(f"  {'':<{width}}    $ {verb.example}")
    lines += ["", "start here:  demur demo", "every verb that prints a result accepts --json"]
    return "\n".join(lines) + "\n"


def parser_of(verb: Verb) -> argparse.ArgumentParser:
    """The parser of one verb, before its own file configures it."""
    return Parser(
        prog=f"demur {verb.name}",
        description=verb.does[0].upper() + verb.does[1:] + ".",
        epilog=f"example:\n  $ {verb.example}",
        formatter_class=RAW,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code (0 success, 1 data, 2 usage, 3 budget reached, 130 interrupted)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(overview((*VERBS, *verbs_elsewhere())))
        return 0
    if words[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"demur {__version__}\n")
        return 0
    from demur.cli._output import harmless
    from demur.core.errors import DemurError, UnknownPart
    from demur.core.untrusted import trusting

    try:
        verbs = {v.name: v for v in VERBS}
        if words[0] not in verbs:
            verbs |= {v.name: v for v in verbs_elsewhere()}
        if words[0] not in verbs:
            raise UnknownPart("verb", words[0], list(verbs), hint="see 'demur --help'")
        verb = verbs[words[0]]
        module = import_module(verb.module)
        parser = parser_of(verb)
        module.configure(parser)
        arranged = getattr(module, "arranged", list)  # a verb may have a default job
        args = parser.parse_args(arranged(words[1:]))
        code, hosts = getattr(args, "trust_code", False), getattr(args, "trust_hosts", False)
        with trusting(code=code, hosts=hosts):
            return int(module.run(args))
    except DemurError as error:
        sys.stderr.write(harmless(f"demur: {error}\n"))
        return error.exit_code
    except BrokenPipeError:  # the reader of our output has exited, as `head` does
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("\ndemur: interrupted; run the same command again to continue\n")
        return 130
