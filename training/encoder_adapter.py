"""Train an adapter with which `demur.judge.encoder` reads replies, and write it.

    python training/encoder_adapter.py deflection --work DIR
    python training/encoder_adapter.py commitment --work DIR

The encoder is the one in demur/judge/data; transformers and PyTorch run it here. *deflection* reads the sentences of
training/wording.py, with a third of the copies that have a courtesy around them, and replies with their questions
(deflections_asked.jsonl.xz and others, see `asked`), and then adds a layer that tells refusals, lacks and questions
back apart (deflection_kinds.jsonl.xz); *commitment* reads replies that state an accepted form (commitment.jsonl.xz and
others, see `commitment`). Nothing untouched is read, and what is held out only to print how well it does. What the
lower layers make of the texts is kept in DIR (3 GB); the whole takes an hour of two cores.

The upper layers get low-rank additions to their weights (LoRA: Hu et al. 2021, arXiv:2106.09685).
"""

from __future__ import annotations

import argparse
import json
import math
import runpy
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional

from demur.answers import holds
from demur.core.records import AnswerSpec
from demur.core.store import seed_of
from demur.core.thinking import visible
from demur.core.vision_ops import ensure_torchvision
from demur.judge.deflection import KINDS
from demur.judge.encoder import (
    COMMITMENT,
    DEFLECTION,
    HEADS,
    LAYERS,
    LONGEST,
    MATRICES,
    WIDTH,
    Encoder,
    ids,
)
from demur.judge.wording import readable

HERE = Path(__file__).resolve().parent
LABELLED = HERE.parent / "tests/judge"
ASKED = HERE / "deflections_asked.jsonl.xz"
COPIES, STRANGERS = 12_000, 16_000
HELD_OUT = ("held out", "nineteenth batch", "twenty-third batch", "untouched until November")
WORDING = runpy.run_path(str(HERE / "wording.py"))
lines = WORDING["lines"]
RANK, BATCH, RATE, SMOOTHING = 8, 64, 1e-3, 0.01
LENGTH = 20
"""Of the vector that the last layer is given while it is trained; those of the encoder have length 1."""


class Example(NamedTuple):
    """A reply, with what it is read together with before it, and the answer to the adapter's question."""

    parts: tuple[str, ...]
    true: bool
    held_out: bool = False


def sentences() -> list[dict[str, Any]]:
    """Labelled replies for *deflection*."""
    earlier, later = WORDING["rows"](), WORDING["later"]()
    copies, draw = WORDING["surrounded"](earlier), np.random.default_rng(5)
    some = [copies[i] for i in draw.permutation(len(copies))[:COPIES]]
    return [*earlier, *later, *some, *lines(WORDING["LAST"]) * 4]


def asked() -> list[dict[str, Any]]:
    """Labelled replies for *deflection* with their questions; of the pairs of `commitment`, some that answer."""
    graded = [
        {
            "question": row["question"],
            "text": row["response"],
            "deflects": row["label"] == "deflected",
        }
        for file in ("graded_by_language.jsonl", "graded_by_language_2.jsonl")
        for row in lines(LABELLED / file)
        if row["part"] == "tuning"
    ]
    answers = [
        {"question": row["question"], "text": row["yes"][0], "deflects": False}
        for row in lines(HERE / "commitment.jsonl.xz")
    ]
    return [
        *(row for row in sentences() if row.get("question")),
        *graded,
        *answers,
        *strangers(),
        *lines(ASKED) * 8,
    ]


def strangers() -> list[dict[str, Any]]:
    """Replies with questions that are not theirs: an answer that misses the question is no deflection."""
    questions = defaultdict(list)
    for row in lines(ASKED):
        questions[row["language"]].append(row["question"])
    draw, alone = np.random.default_rng(7), [row for row in sentences() if not row.get("question")]
    return [
        row | {"question": str(draw.choice(questions[row.get("language", "en")]))}
        for row in (alone[i] for i in draw.permutation(len(alone))[:STRANGERS])
    ]


def deflection() -> list[Example]:
    """Does it decline?"""
    alone = [
        Example((readable(visible(row["text"])),), row["deflects"], held_out(row))
        for row in sentences()
    ]
    return alone + [
        Example((row["question"], readable(visible(row["text"]))), row["deflects"], held_out(row))
        for row in asked()
    ]


def held_out(row: dict[str, Any]) -> bool:
    """Whether a labelled reply is only measured on."""
    part = row.get("part")
    return part in HELD_OUT or (part in WORDING["HELD_OUT_OF"] and bool(WORDING["held_out"](row)))


def commitment() -> list[Example]:
    """Is the accepted form that it states its answer? One question in ten of the pairs is held out."""
    examples = [
        Example(
            (row["question"], row["answer"], readable(reply)),
            label == "yes",
            seed_of("held", row["question"]) % 10 == 0,
        )
        for row in lines(HERE / "commitment.jsonl.xz")
        for label in ("yes", "no")
        for reply in row[label]
    ]
    graded = [
        row
        for file in (
            LABELLED / "graded_by_language.jsonl",
            LABELLED / "graded_by_language_2.jsonl",
            HERE / "graded_evouna.jsonl.xz",
        )
        for row in lines(file)
        if row["part"] == "tuning"
    ]
    for row in graded:
        text = visible(row["response"])
        for form in row["answers"]:
            if holds(AnswerSpec(accepted=((form,),)), text, row["question"]):
                examples.append(
                    Example((row["question"], form, readable(text)), row["label"] == "correct")
                )
                break
    return examples


class Task(NamedTuple):
    """What an adapter is trained for."""

    file: str
    examples: Callable[[], list[Example]]
    lower: int
    """Layers that stay as they are, of twelve."""
    tokens: int
    """Of a text, at most."""
    epochs: int


TASKS = {
    "deflection": Task(DEFLECTION, deflection, 6, 160, 2),
    "commitment": Task(COMMITMENT, commitment, 4, 192, 4),
}


def bert(encoder: Encoder) -> Any:
    """The encoder in PyTorch."""
    ensure_torchvision()  # which transformers imports
    from transformers import BertConfig, BertModel

    words = torch.from_numpy(encoder.words(np.arange(encoder.tokenizer.get_vocab_size())))
    model = BertModel(
        BertConfig(
            vocab_size=len(words),
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            max_position_embeddings=LONGEST,
            type_vocab_size=1,
            layer_norm_eps=1e-12,
        ),
        add_pooling_layer=False,
    )
    state = model.state_dict()
    state["embeddings.word_embeddings.weight"].copy_(words)
    for name, values in encoder.weights.items():
        state[name].copy_(torch.from_numpy(values).view_as(state[name]))
    return model.eval()


class States:
    """Of each text, what the lower layers make of its tokens: (tokens, 384) float16."""

    def __init__(self, model: Any, lower: int, found: list[list[int]], folder: Path) -> None:
        self.tokens = np.array([len(ids) for ids in found])
        self._start = np.concatenate([[0], np.cumsum(self.tokens)])
        file = folder / "states.npy"
        if not file.exists():
            self._make(model, lower, found, file)
        self._rows = np.load(file, mmap_mode="r")

    def _make(self, model: Any, lower: int, found: list[list[int]], file: Path) -> None:
        partial = file.with_suffix(".partial")
        rows = np.lib.format.open_memmap(partial, "w+", np.float16, (int(self._start[-1]), WIDTH))
        upper = model.encoder.layer
        model.encoder.layer = upper[:lower]
        with torch.inference_mode():
            for batch in self.batches(np.arange(len(found))):
                ids = torch.zeros(len(batch), int(self.tokens[batch].max()), dtype=torch.long)
                for row, i in enumerate(batch):
                    ids[row, : len(found[i])] = torch.tensor(found[i])
                there = torch.arange(ids.shape[1]) < torch.tensor(self.tokens[batch])[:, None]
                with torch.autocast("cpu", torch.bfloat16):
                    states = model(input_ids=ids, attention_mask=there.long()).last_hidden_state
                for row, i in enumerate(batch):
                    rows[self._start[i] : self._start[i + 1]] = (
                        states[row, : self.tokens[i]].half().numpy()
                    )
        model.encoder.layer = upper
        rows.flush()
        partial.rename(file)

    def batches(self, part: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Texts of one length together."""
        part = part[np.argsort(self.tokens[part], kind="stable")]
        return [part[i : i + BATCH] for i in range(0, len(part), BATCH)]

    def padded(self, batch: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """States (n, tokens, 384) and which of them are of the text."""
        out = np.zeros((len(batch), int(self.tokens[batch].max()), self._rows.shape[1]), np.float32)
        for row, i in enumerate(batch):
            out[row, : self.tokens[i]] = self._rows[self._start[i] : self._start[i + 1]]
        return torch.from_numpy(out), torch.arange(out.shape[1]) < torch.tensor(self.tokens[batch])[
            :, None
        ]


class Added(nn.Module):
    """A linear layer with a low-rank addition."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.A = nn.Parameter(torch.randn(RANK, linear.in_features) / math.sqrt(linear.in_features))
        self.B = nn.Parameter(torch.zeros(linear.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output and the addition's."""
        more = functional.linear(functional.linear(x, self.A), self.B)
        out: Tensor = self.linear(x) + more
        return out


class Reader(nn.Module):
    """The upper layers, and a linear layer on the mean of their states."""

    def __init__(self, model: Any, lower: int) -> None:
        super().__init__()
        model.requires_grad_(False)
        self.layers, self.added = model.encoder.layer[lower:], dict[str, Added]()
        for number, layer in enumerate(self.layers, lower):
            for name in MATRICES:
                parent, _, last = name.rpartition(".")
                module = layer.get_submodule(parent)
                self.added[f"{number}.{name}"] = added = Added(getattr(module, last))
                setattr(module, last, added)
        self.out = nn.Linear(WIDTH, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.constant_(self.out.bias, -0.5)

    def forward(self, states: Tensor, there: Tensor) -> Tensor:
        """Log odds, shape (n,)."""
        with torch.autocast("cpu", torch.bfloat16):
            for layer in self.layers:
                states = layer(states, attention_mask=there[:, None, None, :])
                states = states[0] if isinstance(states, tuple) else states
        total = (states.float() * there[..., None]).sum(1)
        odds: Tensor = self.out(functional.normalize(total, dim=1) * LENGTH).squeeze(1)
        return odds

    def start(self, stored: Mapping[str, npt.NDArray[np.float16]]) -> None:
        """Go on from stored weights."""
        with torch.no_grad():
            for name, added in self.added.items():
                added.A.copy_(torch.from_numpy(stored[f"{name}.A"]))
                added.B.copy_(torch.from_numpy(stored[f"{name}.B"]))
            self.out.weight.copy_(torch.from_numpy(stored["out"] / LENGTH))
            self.out.bias.copy_(torch.from_numpy(stored["out_bias"]))


def order(
    states: States, part: npt.NDArray[np.int64], draw: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    """Batches for ever: all texts once, then all again in another order."""
    while True:
        shuffled = draw.permutation(part)
        for pool in np.array_split(shuffled, max(1, len(part) // (BATCH * 50))):
            batches = states.batches(pool)
            yield from (batches[i] for i in draw.permutation(len(batches)))


def train(
    reader: Reader,
    states: States,
    true: npt.NDArray[np.float32],
    part: npt.NDArray[np.int64],
    epochs: int,
) -> None:
    """Fit the additions and the last layer."""
    steps, small = (
        int(len(part) * epochs / BATCH),
        [p for a in reader.added.values() for p in (a.A, a.B)],
    )
    groups = [
        {"params": small, "lr": RATE},
        {"params": [*reader.out.parameters()], "lr": 10 * RATE},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, betas=(0.9, 0.99))
    rates = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 100) * max(0.02, 1 - step / steps)
    )
    for step, batch in zip(
        range(steps), order(states, part, np.random.default_rng(3)), strict=False
    ):
        wanted = torch.from_numpy(true[batch]) * (1 - 2 * SMOOTHING) + SMOOTHING
        loss = functional.binary_cross_entropy_with_logits(reader(*states.padded(batch)), wanted)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_([*small, *reader.out.parameters()], 1.0)
        optimizer.step()
        rates.step()
        if step % 20 == 0:
            sys.stderr.write(f"\rstep {step:,} of {steps:,}, loss {loss.item():.3f} ")


def kinds(file: Path) -> None:
    """Add the layer that tells kinds of deflection apart to the adapter in a file; print how well it does."""
    rows = lines(HERE / "deflection_kinds.jsonl.xz")
    plain = Encoder(str(file.resolve()))
    vectors = np.array(
        [plain.vector(ids(plain.tokenizer, readable(row["text"]), longest=128)) for row in rows]
    )
    true = np.array([KINDS.index(row["kind"]) for row in rows])
    held = np.array([seed_of("held", row["text"]) % 8 == 0 for row in rows])
    layer = LogisticRegression(C=100, max_iter=2_000).fit(vectors[~held], true[~held])
    right = layer.predict(vectors[held]) == true[held]
    with np.load(file) as stored:
        arrays = dict(stored)
    arrays |= {
        "kinds": layer.coef_.astype(np.float16),
        "kinds_bias": layer.intercept_.astype(np.float16),
    }
    np.savez_compressed(file, **arrays)
    sys.stdout.write(
        f"{file}: kinds, right in {right.mean():.3f} of {held.sum()} that were held out\n"
    )


def main() -> None:
    """Train, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=TASKS, help="what is read in a reply")
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for the states of the lower layers"
    )
    parser.add_argument(
        "--start", type=Path, help="weights to go on from, written by an earlier run"
    )
    parser.add_argument("--most", type=int, help="texts to train on (default: all)")
    parser.add_argument(
        "--epochs", type=int, help="times that each is read (default: as many as a first run needs)"
    )
    parser.add_argument("--out", type=Path, help="file of the weights (default: those of demur)")
    args = parser.parse_args()
    task = TASKS[args.task]
    out = args.out or HERE.parent / "demur/judge/data" / task.file
    args.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    plain, examples = Encoder(), task.examples()
    examples = [
        examples[i] for i in np.random.default_rng(5).permutation(len(examples))[: args.most]
    ]
    true = np.array([example.true for example in examples], np.float32)
    held = np.array([example.held_out for example in examples])
    model = bert(plain)
    tokens = [ids(plain.tokenizer, *example.parts, longest=task.tokens) for example in examples]
    states = States(model, task.lower, tokens, args.work)
    reader = Reader(model, task.lower)
    if args.start:
        reader.start(np.load(args.start))
    train(reader, states, true, np.flatnonzero(~held), args.epochs or task.epochs)
    odds = np.zeros(len(examples), np.float32)
    with torch.inference_mode():
        for batch in states.batches(np.flatnonzero(held)):
            odds[batch] = reader(*states.padded(batch)).numpy()
    said, right = odds[held] > 0, true[held] > 0
    figures = {
        "n": int(held.sum()),
        "precision": (said & right).sum() / said.sum(),
        "recall": said[right].mean(),
    }
    named = {
        f"{name}.{end}": getattr(added, end) for name, added in reader.added.items() for end in "AB"
    }
    named |= {"out": reader.out.weight[0] * LENGTH, "out_bias": reader.out.bias[0]}
    stored = {name: weights.detach().numpy().astype(np.float16) for name, weights in named.items()}
    np.savez_compressed(out, **stored)
    sys.stdout.write(f"{out}: {out.stat().st_size:,} bytes; alone, on what was held out: ")
    sys.stdout.write(
        json.dumps({name: round(float(value), 3) for name, value in figures.items()}) + "\n"
    )
    if args.task == "deflection":
        kinds(out)


if __name__ == "__main__":
    main()
