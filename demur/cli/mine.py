"""`demur mine`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.cli._arguments import add_engine, open_engine, positive, settings
from demur.cli._shown import add_row, harmless, words

if TYPE_CHECKING:
    from demur.retrieval.recall import Choice

EPILOG = """examples:
  $ demur mine pool --index index --encoder offline --out mined
  $ demur mine atlas --index index --text 10 --lexical 5 --relative-margin 0.05 --out mined
  $ demur mine pool --index index --modes image-to-title+summary,text-to-text --pages 5 --per-page 2 --out mined

The folder holds samples.jsonl (with their distractors), drops.jsonl (what was left out, and why) and mining.json. A
recipe builds from it as from any source: {name: pool, path: mined}; what was mined is kept, nothing is mined again."""

SHARED = (
    "text", "lexical", "visual", "per_page", "own_page", "answer_pages", "same_image", "diversity", "range_min",
    "range_max", "max_score", "min_score", "absolute_margin", "relative_margin", "sampling", "cross_encoder",
)  # fmt: skip
"""Arguments that are `demur.curation.mining_options.MiningOptions` by the same name, which holds their defaults."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    parser.epilog = EPILOG
    parser.add_argument("samples", help="a pool folder, NAME=FOLDER (a source and its folder), or atlas")
    parser.add_argument("--index", type=Path, required=True, help="an index folder ('demur index build')")
    parser.add_argument("--encoder", help="the encoder that made it (default: the one its manifest names)")
    parser.add_argument("--text-encoder", help="the encoder of its passages, where that is another")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="option of the source of NAME=FOLDER; may be given several times")  # fmt: skip
    parser.add_argument("--text", type=int, metavar="N", help="text distractors each (default: 8)")
    parser.add_argument("--lexical", type=int, metavar="N", help="more of them, by words (default: 0)")
    parser.add_argument("--visual", type=int, metavar="N", help="image distractors each (default: 4)")
    parser.add_argument("--pages", default="", metavar="N[,SOURCE=N]",
                        help="pages opened for an image (default: 10; VLM-DeflectionBench: 10,evqa=5)")  # fmt: skip
    parser.add_argument("--modes", help="modes to choose from, with commas (default: all that find pages or passages)")
    parser.add_argument("--per-page", type=positive, metavar="N", help="at most N of a kind from one page, for variety")
    parser.add_argument("--own-page", choices=("keep", "drop"),
                        help="other passages of gold's own page, the hardest distractors (default: keep)")  # fmt: skip
    parser.add_argument("--answer-pages", choices=("keep", "drop"),
                        help="pictures of a page whose passages hold the answer (default: drop)")  # fmt: skip
    parser.add_argument("--same-image", choices=("look", "bytes"),
                        help="what makes two pictures the same (default: look)")  # fmt: skip
    parser.add_argument("--diversity", type=float, metavar="LAMBDA",
                        help="pick by maximal marginal relevance: 1 is the plain order, 0.5 usual")  # fmt: skip
    parser.add_argument("--rows", choices=("triplet", "n-tuple", "labeled-pair", "labeled-list"),
                        help="also write rows.jsonl: texts to train with, as by mine_hard_negatives")  # fmt: skip
    parser.add_argument(
        "--negatives",
        choices=("both", "mined"),
        default="both",
        help="both: the samples' own before the mined ones (the default); mined: without their own",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="the first N samples only")
    parser.add_argument("--skip-bad", action="store_true", help="leave bad rows out, and count them")
    choice = parser.add_argument_group("which candidates, as in sentence-transformers' mine_hard_negatives")
    choice.add_argument("--range-min", type=int, metavar="R", help="pass over the first R")
    choice.add_argument("--range-max", type=int, metavar="R", help="take none behind rank R")
    choice.add_argument("--max-score", type=float, metavar="S", help="score at most S")
    choice.add_argument("--min-score", type=float, metavar="S", help="score at least S")
    choice.add_argument("--absolute-margin", type=float, metavar="M", help="score at least M less than gold")
    choice.add_argument(
        "--relative-margin", type=float, metavar="M", help="score at most (1 - M) of gold's; NV-Retriever: 0.05"
    )
    choice.add_argument("--sampling", choices=("top", "random"), help="(default: top)")
    choice.add_argument("--cross-encoder", metavar="MODEL", help="leave out what it scores like gold evidence")
    parser.add_argument("--seed", type=int, default=0, help="for random sampling (default: 0)")
    parser.add_argument("--probes", type=positive, metavar="N",
                        help="inverted lists searched for each question, where the index has any (default: as many as "
                        "finding 99 %% of the exact neighbours takes, by 512 questions or more)")  # fmt: skip
    add_engine(parser)
    parser.add_argument("--json", action="store_true", help="print what mining.json holds")


def run(args: argparse.Namespace) -> int:
    """Mine, write, and say what came of it."""
    from collections import Counter
    from contextlib import ExitStack
    from itertools import islice

    from demur.curation.leaks import Leaks
    from demur.curation.mining_options import mining_options
    from demur.curation.near import REMEMBERED, Looks
    from demur.curation.training import rows_of
    from demur.errors import UsageError
    from demur.pipeline.bases import at_the_cut
    from demur.pipeline.indexes import open_searcher
    from demur.pipeline.mining import mine_samples, open_cross_encoder
    from demur.pipeline.queries import modes_of, within
    from demur.pipeline.routes import choose_routes, told, try_images, tune_probes
    from demur.pipeline.steps import Shown
    from demur.store import JsonlLog, storage_errors, write_json

    pages = _pages(args)
    options = mining_options(
        modes=tuple(args.modes.split(",")) if args.modes else None,
        pages=pages.pop("", None),
        negatives=args.negatives,
        **{name: getattr(args, name) for name in SHARED},
    )
    cross_encoder = open_cross_encoder(options.cross_encoder) if options.cross_encoder else None
    modes_of(options)  # says what is wrong with them
    searcher = open_searcher(args.index, args.encoder, args.text_encoder, open_engine(args))
    there, lacking = within(options, searcher.modes)
    if lacking and not there.wanted and not there.adopts:
        raise UsageError(
            f"no distractor can be mined: {'; '.join(lacking)}", item=str(args.index),
            cure="ask for kinds that the index holds (--text, --lexical, --visual)",
        )  # fmt: skip
    reasons: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    short: list[str] = []
    total = 0
    if args.probes and not searcher.lists:
        raise UsageError("--probes for an index without inverted lists", item=str(args.index), cure="leave it out")
    tried, unread = try_images(searcher, _source(args).root, there)
    if unread:
        line = f"{unread.total():,} of {tried:,} images of the index that were tried cannot be read: {told(unread)}\n"
        sys.stderr.write(harmless(line))
    with Shown() as steps:
        for line in lacking:
            steps.warn(harmless(line))
        if args.probes:
            for part in searcher.lists:
                searcher.probe(part, args.probes)
        elif searcher.lists:
            source = _source(args)
            wanted = [there.model_copy(update={"pages": n}) for n in {there.pages, *pages.values()}]
            tune_probes(islice(source.samples(), args.limit), searcher, source.root, wanted, steps)
        steps.stage("choose the mode of each source by recall of gold")
        source = _source(args)
        asked = islice(source.samples(), args.limit)
        routes = choose_routes(asked, searcher, source.root, there, steps, pages_of=pages)
        source.problems.settle(skip_bad=args.skip_bad)
        for choice in routes.choices:
            if choice.warning:
                steps.warn(harmless(choice.warning))
        steps.stage("mine")
        source = _source(args)
        with storage_errors(args.out):
            args.out.mkdir(parents=True, exist_ok=True)
            for name in ("samples.jsonl", "drops.jsonl", "rows.jsonl"):
                (args.out / name).unlink(missing_ok=True)
        with ExitStack() as logs:
            kept, dropped = (logs.enter_context(JsonlLog(args.out / f"{name}.jsonl")) for name in ("samples", "drops"))
            rows = logs.enter_context(JsonlLog(args.out / "rows.jsonl")) if args.rows else None
            looks = Looks(source.root, most=REMEMBERED)
            samples = (
                at_the_cut(sample, searcher, Leaks(sample, looks), shown)
                for sample in islice(source.samples(), args.limit)
            )
            for sample, mined in mine_samples(
                samples, searcher, source.root, there, routes, steps, looks, routes.asked,
                seed=args.seed, cross_encoder=cross_encoder,
            ):  # fmt: skip
                kept.append(sample)
                if rows is not None:
                    for row in rows_of(sample, mined, args.rows, wanted=options.text + options.lexical):
                        rows.append(row)
                for drop in mined.drops:
                    dropped.append(drop)
                    reasons[drop.reason] += 1
                kinds.update(e.mode for e in mined.negatives)
                total += 1
                if not mined.negatives:
                    short.append(sample.id)
    summary = {
        "from": _from(args),
        "index": searcher.id,
        "gold": dict(sorted(shown.items())),
        "samples": total,
        "without_distractors": short,
        "distractors": dict(sorted(kinds.items())),
        "left_out": dict(sorted(reasons.items())),
        "probes": [probes._asdict() for probes in searcher.probes.values()],
        "recall": [recall_json(choice) for choice in routes.choices],
        "skipped": source.problems.told(),
    }
    write_json(args.out / "mining.json", summary)
    if args.json:
        sys.stdout.write(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
        return 0
    for choice in routes.choices:
        print_recall(choice)
    for probes in searcher.probes.values():
        sys.stdout.write(f"{probes}\n")
    _print(summary)
    sys.stdout.write(f"{args.out / 'samples.jsonl'}\n")
    if args.rows:
        sys.stdout.write(f"{args.out / 'rows.jsonl'}\n")
    return 0


def _pages(args: argparse.Namespace) -> dict[str, int]:
    """``10,evqa=5`` as {"": 10, "evqa": 5}; a source must be one of demur's, or of the samples."""
    from demur.errors import UsageError
    from demur.plugins import names

    found: dict[str, int] = {}
    for part in args.pages.split(",") if args.pages else ():
        source, _, number = part.rpartition("=")
        if not number.strip().isdecimal() or int(number) < 1 or source.strip() in found:
            raise UsageError(f"--pages {args.pages!r} is not N or N,SOURCE=N", cure="the paper's is 10,evqa=5")
        found[source.strip()] = int(number)
    if unknown := found.keys() - {"", *names("sources")}:
        there = {sample.source for sample in _source(args).samples()}
        if unknown := unknown - there:
            raise UsageError(
                f"--pages: no sample is of {', '.join(sorted(unknown))}", cure=f"there are {', '.join(sorted(there))}"
            )
    return found


def _source(args: argparse.Namespace) -> Any:
    from demur.curation.pool import Pool
    from demur.curation.sources import open_source
    from demur.errors import UsageError
    from demur.plugins import names

    name, equals, folder = args.samples.partition("=")
    if equals or (not Path(args.samples).exists() and args.samples in names("sources")):
        return open_source(name, Path(folder) if equals else None, options=settings(args.set))
    if args.set:
        raise UsageError("--set for a pool, whose samples are made", item=args.samples, cure="leave it out")
    return Pool(Path(args.samples))


def _from(args: argparse.Namespace) -> dict[str, Any]:
    """What was mined for, so that a recipe can be built from it (`demur.curation.pool.as_source`)."""
    from demur.plugins import names

    name, equals, folder = args.samples.partition("=")
    source = name if equals or (not Path(args.samples).exists() and args.samples in names("sources")) else ""
    place = folder if equals else None if source else args.samples
    options = settings(args.set)
    return {"source": source, "folder": place and str(Path(place).resolve()), "options": options}


def recall_json(choice: Choice) -> dict[str, Any]:
    """The table of a choice of modes, for JSON."""
    return {
        "source": choice.source,
        "chosen": choice.mode,
        "at": choice.k,
        "own_image_in_index": choice.own,
        "gold_out_of_reach": choice.lacking,
        "modes": {mode: [m.model_dump(mode="json") for m in measures] for mode, measures in choice.table},
    }


def print_recall(choice: Choice) -> None:
    """The table of a choice of modes, on the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=words(f"{choice.source} - recall of gold, 95 % intervals"), title_justify="left")
    table.add_column("mode", overflow="fold")
    for measure in choice.table[0][1] if choice.table else ():
        table.add_column(f"{measure.name} (n={measure.n})", justify="right")
    for mode, measures in choice.table:
        cells = ["-" if m.value is None else f"{m.value:.2f} ({m.low:.2f}-{m.high:.2f})" for m in measures]
        table.add_row(words(mode, style="bold" if mode == choice.mode else ""), *cells)
    Console().print(table)
    if choice.own:
        sys.stdout.write(
            f"{choice.own:,} of the images asked about lie in the index themselves: not counted as found\n"
        )


def _print(summary: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=words(f"{summary['samples']} samples, index {summary['index']}"), title_justify="left")
    table.add_column("distractors by mode / hits left out by reason")
    table.add_column("n", justify="right")
    for group in ("distractors", "left_out"):
        for name, n in summary[group].items():
            add_row(table, name, f"{n:,}")
        table.add_section()
    console.print(table)
    if summary["without_distractors"]:
        console.print(f"{len(summary['without_distractors'])} sample(s) got none; mining.json names them")
    for line in summary["skipped"]:
        sys.stderr.write(harmless(f"skipped: {line}\n"))
