"""Training data from pairs, as Parquet that TRL's trainers and `datasets` open directly.

    sft     every member with its right answer
    rtune   the same, but answerable questions that a base model answered wrongly are answered "I don't know" (R-tuning)
    dpo     the two answers of a pair against each other, in both directions: where the photo answers, the answer is
            chosen and IDK rejected; where it does not, the other way round

Conversations are plain text under ``messages`` (or ``prompt``, ``chosen``, ``rejected``); photos lie beside them under
``images`` with their bytes, and the trainer puts them before the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from demur.core.errors import UsageError
from demur.core.records import ImageRef
from demur.core.store import canonical, replacing, write_atomic, write_json
from demur.core.uris import read_image
from demur.release.card import tables_for_datasets
from demur_suites.certainly_uncertain.items import IDK, MEMBERS, Pair
from demur_suites.certainly_uncertain.measures import Reading
from demur_suites.options import Option
from demur_suites.records import Outputs

KINDS = ("sft", "rtune", "dpo")
OPTIONS = (
    Option(
        "kind",
        "sft, rtune (needs --outputs of a base model), dpo, or all that can be had",
        "all",
        (*KINDS, "all"),
    ),
    Option("split", "take pairs of this split alone", ""),
    Option("model", "rtune: the base model's name among the outputs, where they hold several", ""),
    Option("judge", "rtune: who says what it got wrong; as for score", "local"),
)
ABOUT = {
    "sft": "every question with its right answer",
    "rtune": 'what the base model got wrong is answered "I don\'t know"',
    "dpo": "the two answers of a pair, each chosen where it is right",
}


def export(
    pairs: Sequence[Pair],
    root: Path,
    out: Path,
    outputs: Outputs,
    options: Mapping[str, Any],
    read: Callable[[str], Mapping[str, Reading]],
) -> Path:
    """Write ``data/KIND.parquet``, a card and ``manifest.json``.

    Args:
        pairs: of the set.
        root: folder that photos are relative to.
        out: folder to write.
        outputs: of models; R-tuning needs those of a base model.
        options: all of `OPTIONS`.
        read: a model -> question id -> how its reply was read.

    Raises:
        UsageError: there is nothing to write, or no outputs of the base model.
        StorageError: a photo cannot be read, or the folder not written.
    """
    pairs = [p for p in pairs if not options["split"] or p.split == options["split"]]
    if not pairs:
        raise UsageError(
            f"no pair has the split {options['split']!r}", cure="see 'demur suite check'"
        )
    kinds = KINDS if options["kind"] == "all" else (options["kind"],)
    with_photo = sum(p.image is not None for p in pairs)
    counts: dict[str, Any] = {}
    for kind in kinds:
        left_out: Counter[str] = Counter()
        if kind == "rtune":
            if not outputs and options["kind"] == "all":
                continue
            rows: Iterable[dict[str, Any]] = rtune(pairs, read(_base(outputs, options)), left_out)
        else:
            rows = sft(pairs) if kind == "sft" else dpo(pairs)
        counts[kind] = {
            "rows": _write(
                out / "data" / f"{kind}.parquet", kind, rows, root if with_photo else None
            ),
            **left_out,
        }
    write_atomic(out / "README.md", _card(out, pairs, counts, with_photo))
    about = {
        "suite": "certainly_uncertain",
        "pairs": len(pairs),
        "photos": with_photo == len(pairs),
    }
    write_json(out / "manifest.json", about | counts)
    return out


def sft(pairs: Sequence[Pair]) -> Iterator[dict[str, Any]]:
    """One row a member; controls are for measuring and not among them."""
    for pair in pairs:
        for member in MEMBERS[:2]:
            if member not in pair.members:
                continue
            question, answer, image = pair.member(member)
            yield _row(pair, member, image) | {
                "messages": [_says("user", question), _says("assistant", answer)]
            }


def rtune(
    pairs: Sequence[Pair], readings: Mapping[str, Reading], left: Counter[str]
) -> Iterator[dict[str, Any]]:
    """`sft` under what the base model knows; what nobody graded is left out and counted in ``left``.

    An answerable question that it *answered* wrongly becomes unanswerable; one that it declined keeps its answer.
    """
    for row in sft(pairs):
        reading = readings.get(row["id"], Reading())
        if reading.credit is None:
            left["left out: not graded"] += 1
            continue
        if row["member"] == "answerable" and reading.credit == 0 and not reading.idk:
            left["relabelled"] += 1
            row["messages"][1]["content"] = IDK
        yield row


def dpo(pairs: Sequence[Pair]) -> Iterator[dict[str, Any]]:
    """Two rows a pair, one in each direction."""
    for pair in pairs:
        if not pair.whole:
            continue
        for member in MEMBERS[:2]:
            question, right, image = pair.member(member)
            wrong = pair.idk_answer if member == "answerable" else pair.answer
            yield _row(pair, member, image) | {
                "prompt": [_says("user", question)],
                "chosen": [_says("assistant", right)],
                "rejected": [_says("assistant", wrong)],
            }


def _says(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _row(pair: Pair, member: str, image: ImageRef | None) -> dict[str, Any]:
    return {
        "id": pair.question_id(member),
        "category": pair.category.value,
        "member": member,
        "image": image,
    }


def _base(outputs: Outputs, given: Mapping[str, Any]) -> str:
    name = given["model"] or (next(iter(outputs)) if len(outputs) == 1 else "")
    if name not in outputs:
        raise UsageError(
            f"rtune needs the outputs of one base model; given are those of {', '.join(outputs) or 'none'}",
            cure="give --outputs RUN, and --model NAME where it holds several",
        )
    return str(name)


def _write(path: Path, kind: str, rows: Iterable[dict[str, Any]], root: Path | None) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    turns = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    columns = ("prompt", "chosen", "rejected") if kind == "dpo" else ("messages",)
    fields = [(n, pa.string()) for n in ("id", "category", "member")] + [
        (n, turns) for n in columns
    ]
    turn = [
        {
            "role": {"dtype": "string", "_type": "Value"},
            "content": {"dtype": "string", "_type": "Value"},
        }
    ]
    features: dict[str, Any] = {
        n: {"dtype": "string", "_type": "Value"} for n in ("id", "category", "member")
    }
    features |= {n: turn for n in columns}
    if root is not None:
        fields.append(
            ("images", pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())])))
        )
        features["images"] = [{"_type": "Image"}]
    schema = pa.schema(fields).with_metadata(
        {"huggingface": canonical({"info": {"features": features}})}
    )
    n, left = 0, iter(rows)
    with replacing(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(left, 64)):
            for row in batch:
                image = row.pop("image")
                if root is not None:
                    shown = [image] if image is not None else []
                    row["images"] = [
                        {"bytes": read_image(i, root), "path": Path(i.uri).name} for i in shown
                    ]
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            n += len(batch)
    return n


def _card(folder: Path, pairs: Sequence[Pair], counts: Mapping[str, Any], with_photo: int) -> str:
    licences = sorted({p.licence for p in pairs if p.licence})
    tables = tables_for_datasets(
        folder, "pairs", {kind: count["rows"] for kind, count in counts.items()}, "train"
    )
    photos = (
        "photos inside"
        if with_photo == len(pairs)
        else "without photos"
        if not with_photo
        else (f"photos inside of {with_photo} of them")
    )
    changed = []
    if rtune := counts.get("rtune"):
        relabelled = f'rtune: {rtune.get("relabelled", 0)} answers that the base model got wrong became "I don\'t know"'
        left_out = f"{rtune.get('left out: not graded', 0)} questions that nobody graded are not among its rows."
        changed = [f"{relabelled}; {left_out}", ""]
    lines = [
        "---",
        yaml.safe_dump(tables, sort_keys=False).rstrip(),
        "task_categories:",
        "- visual-question-answering",
        "tags:",
        "- abstention",
        "---",
        "",
        "# Training to say what cannot be known",
        "",
        f"Made by demur from {len(pairs)} pairs of an answerable and an unanswerable question, {photos}.",
        "",
        "| config | rows | what |",
        "|---|---|---|",
        *(f"| {k} | {v['rows']} | {ABOUT[k]} |" for k, v in counts.items()),
        "",
        *changed,
        'With TRL (`pip install trl`): `SFTTrainer(model, train_dataset=load_dataset(FOLDER, "sft", '
        'split="train"))`, `DPOTrainer(...)` with the config `dpo`. Never train on what you score.',
        "",
        "Licences of the photos: " + ("; ".join(licences) or "not stated") + ".",
        "",
    ]
    return "\n".join(lines)
