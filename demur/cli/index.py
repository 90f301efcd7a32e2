"""`demur index build|info|search`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from demur.cli._arguments import TRUST, add_shared, job, open_engine, positive
from demur.cli._output import note, print_json, say, show, words
from demur.core.errors import UsageError
from demur.core.text import plain

EPILOG = """examples:
  $ demur index build atlas --out index
  $ demur index build wiki6m:Wiki6M_ver_1_0.jsonl.gz --chunk 250:32 --queries 30000 --skip-bad --out wiki \\
      --encoder open_clip:EVA02-L-14-336/merged2b_s6b_b61k --text-encoder sentence-transformers:facebook/contriever
  $ demur index info index --verify
  $ demur index search index --text "Which river is the longest?" --mode fused -k 5
  $ demur index search index --questions demo-out/release --mode lexical -k 100 --run lexical.trec
  $ demur index search index --image photo.jpg --text "Who built it?" --mode image-to-title/text-to-text

corpora, encoders: 'demur index build --help'"""

BUILD = """corpora: jsonl: csv: tsv: parquet: wiki6m: evqa: kilt: dpr: beir: images: docs: datasets: as
READER:PATH?key=value, or a bare path, read by its suffix (a folder: as BEIR's if it holds corpus.jsonl, else as
images); a pool folder; NAME:FOLDER for the knowledge base of a source ('demur sources list'); 'atlas' for the
built-in sample:
  jsonl:kb.jsonl?id=doc_id&text=body  evqa:kb.zip?images=map.csv  kilt:kb.json?images=folder  datasets:org/set?split=dev

encoders: offline, open_clip:MODEL/TAG, sentence-transformers:NAME (texts, images or both, as the model reads them),
multi-vector:NAME (late interaction), evaclip:REPO (runs code from the hub); options such as ?device=cuda:1&batch=256
follow a question mark.

An interrupted build continues when you give the same command again. --skip-bad lists what it leaves out in skipped.jsonl; without it one error names all bad documents."""

SEARCH = """modes: image-to-title (T), image-to-title+summary (T+S) and text-to-title find pages; image-to-image,
image-to-first-image (of each page) and text-to-image find images; text-to-text (dense), lexical (BM25) and fused
(both) find passages; image+text-to-title+summary, image+text-to-image and image+text-to-text need an encoder that reads
both as one; FIRST/text-to-text and FIRST/lexical rank the passages of the pages that FIRST finds by the
text. Without --mode: fused for a text, image-to-image for an image, image-to-title/text-to-text for both."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    verbs = parser.add_subparsers(dest="what", required=True, metavar="build|info|search")
    build = job(verbs, "build", "build an index folder from documents", epilog=BUILD)
    build.add_argument("corpora", nargs="+", metavar="CORPUS", help="what to read, see below")
    build.add_argument("--out", type=Path, required=True, help="index folder")
    build.add_argument(
        "--encoder", default="offline", help="encoder of texts and images (default: %(default)s)"
    )
    build.add_argument("--text-encoder", help="another encoder for passages (default: the same)")
    build.add_argument(
        "--image-root",
        type=Path,
        help="folder of relative image paths (default: that of the source or pool, else the current one)",
    )
    build.add_argument(
        "--chunk",
        metavar="SIZE:OVERLAP",
        help="cut texts into passages, in tokens (VLM-DeflectionBench: 250:32)",
    )
    build.add_argument(
        "--tokenizer",
        metavar="NAME",
        help="tokenizer for --chunk: bert-uncased (Contriever's), a tokenizer.json or the name of a model on the hub "
        "(default: count words)",
    )
    build.add_argument(
        "--kind",
        default="auto",
        help="flat, ivf-flat, ivf-sq8, a kind of another package, or auto (default: %(default)s)",
    )
    build.add_argument(
        "--parts",
        metavar="PART,PART",
        help="make only these: passages, titles, summaries, looks, images, lexical (default: all that the encoder serves)",
    )
    build.add_argument(
        "--lexical",
        choices=("lucene", "okapi"),
        default="lucene",
        help="BM25 as Lucene and bm25s score it, or as rank-bm25 does, which itself scores up to 10,000 passages "
        "(default: %(default)s)",
    )
    build.add_argument(
        "--queries",
        type=positive,
        default=10_000,
        metavar="N",
        help="expected number of queries, for --kind auto (default: 10,000)",
    )
    build.add_argument(
        "--workers", type=positive, help="threads that decode images (default: one per processor)"
    )
    add_shared(build, "--engine", "--ray-address")
    build.add_argument(
        "--allow-random", action="store_true", help="accept an encoder without trained weights"
    )
    add_shared(
        build,
        "--fresh",
        "--skip-bad",
        "--json",
        *TRUST,
        fresh="replace an index of other documents or encoders in --out",
        skip_bad="leave out bad documents, and list them",
        json="print the manifest",
    )
    info = job(verbs, "info", "describe an index folder; --verify reads every byte")
    info.add_argument("folder", type=Path, help="index folder")
    info.add_argument("--verify", action="store_true", help="check the hash of every file")
    add_shared(info, "--json", json="print the manifest")
    search = job(verbs, "search", "search an index by a text, an image or both", epilog=SEARCH)
    search.add_argument("folder", type=Path, help="index folder")
    search.add_argument("--text", default="", help="query text")
    search.add_argument("--image", type=Path, help="query image")
    search.add_argument(
        "--questions", metavar="RELEASE", help="all questions of a release or source, with --run"
    )
    search.add_argument(
        "--run",
        dest="run_file",
        type=Path,
        metavar="FILE",
        help="write the hits of --questions as a TREC run, which ir_measures reads beside 'demur release qrels'",
    )
    search.add_argument(
        "--mode",
        help="text-to-text, lexical, fused, image-to-title, image-to-title+summary, "
        "image-to-image, text-to-image, text-to-title, one by image+text, or FIRST/text-to-text",
    )
    search.add_argument(
        "-k", type=positive, default=10, help="number of hits (default: %(default)s)"
    )
    search.add_argument(
        "--pages",
        type=positive,
        default=10,
        help="pages for FIRST/... modes (default: %(default)s)",
    )
    search.add_argument(
        "--encoder", help="encoder of the index (default: the one its manifest names)"
    )
    search.add_argument(
        "--text-encoder", help="encoder of its passages (default: the one its manifest names)"
    )
    add_shared(search, "--engine", "--ray-address", *TRUST, "--json")


def run(args: argparse.Namespace) -> int:
    return {"build": _build, "info": _info, "search": _search}[args.what](args)


def _build(args: argparse.Namespace) -> int:
    from demur.api import build_index
    from demur.core.system import cores

    index = build_index(
        args.corpora,
        args.out,
        encoder=args.encoder,
        text_encoder=args.text_encoder,
        allow_random=args.allow_random,
        chunk=args.chunk or "",
        tokenizer=args.tokenizer,
        image_root=args.image_root,
        kind=args.kind,
        **({"parts": tuple(args.parts.split(","))} if args.parts else {}),
        lexical=args.lexical,
        queries=args.queries,
        workers=args.workers or cores(),
        skip_bad=args.skip_bad,
        progress=True,
        engine=open_engine(args),
        fresh=args.fresh,
    )
    if args.json:
        print_json(index.manifest, 1)
        return 0
    if (c := index.cut) is not None and c.articles:
        note(
            f"cut {c.articles:,} texts into {c.passages:,} passages; {c.cut_sentences:,} cuts within a long sentence"
        )
    note(*(f"skipped: {line}" for line in index.skipped))
    manifest = index.manifest
    note(
        *(
            f"{name}: {part['cut']:,} of {part['count']:,} texts are longer than "
            f"{manifest['encoders'][part['space']]['name']} reads; their end is not embedded (--chunk cuts them)"
            for name, part in manifest["parts"].items()
            if part.get("cut")
        )
    )
    _print(args.out, manifest)
    return 0


def _info(args: argparse.Namespace) -> int:
    from demur.api import checked_manifest

    manifest = checked_manifest(args.folder, verify=args.verify)
    if args.json:
        print_json(manifest, 1)
    else:
        _print(args.folder, manifest)
        if args.verify:
            say(f"all {len(manifest['files'])} files match the manifest")
    return 0


def _print(folder: Path, manifest: dict[str, Any]) -> None:
    from rich.console import Console

    from demur.reports.tables import Table, numbers, texts

    console = Console()
    size = sum(entry["bytes"] for entry in manifest["files"].values())
    console.print(
        words(folder, style="bold"),
        words(f"id {manifest['id']}"),
        f"{size / 1e6:,.1f} MB",
        sep="  ",
        highlight=False,
    )
    for space, entry in manifest["encoders"].items():
        say(
            f"  {space:<6} {entry['name']}  {entry['dims']}-d, {entry['similarity']}  ({entry['note']})"
        )
    say("  " + "  ".join(f"{n:,} {name}" for name, n in manifest["counts"].items()))
    columns = (*texts("part", "kind"), *numbers("rows"), *texts("why", wraps=True))
    rows = tuple(
        (
            name,
            part["kind"],
            part["count"],
            part.get("why") or _lexical(part),
        )
        for name, part in manifest["parts"].items()
    )
    show(Table("parts", "Parts", columns, rows))


def _lexical(part: dict[str, Any]) -> str:
    scored = f"{part['words']:,} words, {part['postings']:,} postings, as {part['method']} by {part['engine']}"
    return f"{scored}; {part['tokenizer']}"


def _search(args: argparse.Namespace) -> int:
    from demur.api import open_index, open_release

    if bool(args.questions) != bool(args.run_file):
        raise UsageError(
            "--questions and --run belong together", cure="give the release and the file to write"
        )
    text = args.text if args.text.strip() else ""
    if args.questions and (text or args.image):
        raise UsageError(
            "there are two queries", item="--questions", cure="leave --text and --image out"
        )
    if not text and args.image is None and not args.questions:
        raise UsageError("the query is empty", cure="give --text, --image or both")
    index = open_index(
        args.folder,
        encoder=args.encoder,
        text_encoder=args.text_encoder,
        engine=open_engine(args),
    )
    if args.questions:
        count = index.write_run(
            open_release(args.questions), args.run_file, k=args.k, mode=args.mode, pages=args.pages
        )
        if args.json:
            print_json({"file": str(args.run_file), "questions": count})
        else:
            say(plain(f"{args.run_file}: hits of {count:,} questions"))
        return 0
    hits = index.search(text, image=args.image, k=args.k, mode=args.mode, pages=args.pages)
    if args.json:
        print_json(hits.as_json(), 1)
    else:
        show(hits.frame.table)
    return 0
