"""Building sets of pairs: from the sample's photos, from scenes with boxes, from GQA's files, from captions.

`build` writes ``pairs.jsonl``, the photos, ``dropped.jsonl`` (what made no pair, and why) and ``manifest.json``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from demur.core.errors import UsageError
from demur.core.records import Drop
from demur.core.store import Problems, canonical, write_atomic, write_json
from demur_suites.certainly_uncertain.items import FILE, Pair, line_of
from demur_suites.options import Option

OPTIONS = (
    Option(
        "source",
        "sample: its photos; scenes, gqa: photos with boxes; captions: questions from texts",
        "sample",
        ("sample", "scenes", "gqa", "captions"),
    ),
    Option(
        "input",
        "file of scenes, of GQA's scene graphs, or of captions (JSONL; else the sample's captions)",
        "",
    ),
    Option("questions", "gqa: its file of questions", ""),
    Option("photos", "folder of the photos; by default the folder of the input", ""),
    Option(
        "finder",
        "photos: a model that sees them and names the thing a question is about; else its label",
        "",
    ),
    Option(
        "asker",
        "photos: a model that sees both photos and writes their question; else the scenes' own",
        "",
    ),
    Option(
        "mask",
        "box (offline): the whole box; or sam or sam:DETECTOR,SEGMENTER: GroundingDINO and SAM (extra hf)",
        "box",
    ),
    Option(
        "fill",
        "opencv (offline; it can be seen, and the items say so), or lama:FILE, LaMa as ONNX",
        "opencv",
    ),
    Option("dilate", "by how much masks grow, in % of their own side", 5, least=1, most=100),
    Option("control", "yes: also photos with something else removed", "yes", ("yes", "no")),
    Option("writer", "captions: the model that writes pairs", ""),
    Option("limit", "photos or captions to use; 0 for all", 0, least=0),
)


def build(out: Path, options: Mapping[str, Any], *, seed: int = 0) -> Path:
    """Build a set; ``options`` are all of `OPTIONS`.

    Returns:
        ``out``.

    Raises:
        UsageError: an input is missing, or nothing became a pair.
        MissingExtra: OpenCV, torch or transformers is not installed.
    """
    if options["source"] == "captions":
        from demur_suites.certainly_uncertain.build.captions import from_captions

        results: Iterable[Pair | Drop] = from_captions(out, options, seed=seed)
    else:
        results = _from_images(out, options, seed)
    pairs: list[Pair] = []
    drops: list[Drop] = []
    for pair_or_drop in results:
        pairs.append(pair_or_drop) if isinstance(pair_or_drop, Pair) else drops.append(pair_or_drop)
    write_atomic(out / FILE, "".join(canonical(line_of(p)) + "\n" for p in pairs))
    write_atomic(
        out / "dropped.jsonl", "".join(canonical(d.model_dump(mode="json")) + "\n" for d in drops)
    )
    reasons = Counter(d.reason for d in drops)
    write_json(
        out / "manifest.json",
        {
            "suite": "certainly_uncertain",
            "seed": seed,
            "pairs": len(pairs),
            "dropped": dict(reasons.most_common()),
            "options": {k: v for k, v in options.items() if v not in ("", 0)},
        },
    )
    if not pairs:
        why = (
            ", ".join(f"{reason} ({n})" for reason, n in reasons.most_common(5))
            or "the input is empty"
        )
        raise UsageError(
            f"nothing became a pair: {why}", item=str(out), cure=f"see {out / 'dropped.jsonl'}"
        )
    return out


def _from_images(out: Path, options: Mapping[str, Any], seed: int) -> Iterable[Pair | Drop]:
    from demur_suites.certainly_uncertain.build import inpainting, photo_questions
    from demur_suites.certainly_uncertain.build.photo_pairs import Maker
    from demur_suites.certainly_uncertain.build.salient import named
    from demur_suites.certainly_uncertain.build.scenes import read_gqa, read_scenes, sample, unread

    problems = Problems()
    if options["source"] == "sample":
        file, root, licences = sample("scenes")
        scenes = [
            s.model_copy(update={"licence": licences.get(s.image, "")})
            for s in read_scenes(file, problems)
        ]
    else:
        file = _named(options["input"], "input")
        root = Path(options["photos"]) if options["photos"] else file.parent
        if options["source"] == "gqa":
            scenes = []
            for one in read_gqa(file, _named(options["questions"], "questions")):
                if isinstance(one, Drop):
                    yield one
                else:
                    scenes.append(one)
        else:
            scenes = list(read_scenes(file, problems))
    yield from unread(problems)
    inpainting.cv()
    fill = inpainting.inpaint
    if options["fill"] != "opencv":
        kind, _, place = str(options["fill"]).partition(":")
        if kind != "lama" or not place:
            raise UsageError(f"fill={options['fill']!r}", cure="opencv, or lama:FILE")
        fill = inpainting.lama(Path(place))
    kind, _, place = str(options["mask"]).partition(":")
    detector, comma, segmenter = place.partition(",")
    if kind not in ("box", "sam") or bool(place) != bool(comma) or (place and kind != "sam"):
        raise UsageError(f"mask={options['mask']!r}", cure="box, sam, or sam:DETECTOR,SEGMENTER")
    scenes = scenes[: options["limit"] or None]
    if options["asker"]:
        scenes = [photo_questions.things_of(scene) for scene in scenes]
    grounded = inpainting.Grounded.open(detector, segmenter) if kind == "sam" else None
    maker = Maker(
        root,
        out,
        seed=seed,
        fill=fill,
        grounded=grounded,
        names=named(options["finder"], scenes, root, out, seed=seed) if options["finder"] else None,
        new_questions=bool(options["asker"]),
        control=options["control"] == "yes",
        dilate=options["dilate"],
        filled=str(options["fill"]).partition(":")[0],
        route="scene-graph" if options["source"] == "gqa" else "image",
    )
    results = (pair_or_drop for scene in scenes for pair_or_drop in maker.pairs(scene))
    yield from (
        photo_questions.with_new_questions(results, options["asker"], out, seed=seed)
        if options["asker"]
        else results
    )


def _named(text: str, name: str) -> Path:
    if not text:
        raise UsageError(
            f"--{name} is missing",
            cure=f"give --{name} FILE; suites/docs/certainly_uncertain.md has the forms",
        )
    path = Path(text)
    if not path.is_file():
        raise UsageError("no such file", item=text)
    return path
