"""Train the adapter with which `demur.judge.sentence_vectors` reads replies, and write it.

    python tools/train_encoder_adapter.py FOLDER --work DIR

FOLDER is `intfloat/multilingual-e5-small` or a folder with it (tools/e5_folder.py writes one). The sentences are those
of tools/train_wording.py, with a third of the copies that have a courtesy around them; nothing untouched is read, and
three batches (`HELD_OUT`) only to print how well it does. What the lower layers make of the sentences is kept in DIR
(3 GB); the whole takes an hour of two cores. The shipped weights are those of a second run, from the first's (--start).

The upper layers get low-rank additions to their weights (LoRA: Hu et al. 2021, arXiv:2106.09685). Weights rounded to
four bits are all that some machines have, so noise of that size is on the fixed weights while it trains, drawn again
and again: what is learnt must not hang on one rounding.
"""

from __future__ import annotations

import argparse
import json
import math
import runpy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from demur.indexing.encoders.sentence_transformers import SentenceTransformersEncoder
from demur.judge.packaged_e5 import MATRICES
from demur.judge.rules import visible
from demur.judge.sentence_vectors import ADAPTER, PROBES
from demur.judge.wording import readable

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ROOT / "demur/judge/data" / ADAPTER
COPIES = 12_000
HELD_OUT = ("nineteenth batch", "twenty-third batch", "untouched until November")
LOWER, RANK = 6, 8
"""Layers that stay as they are, of twelve; rank of what the others get."""
BATCH, EPOCHS, RATE, SMOOTHING = 64, 2, 1e-3, 0.01
LONGEST = 128
"""Tokens of a sentence."""
LENGTH = 20
"""Of the vector that the last layer is given while it is trained; those of the encoder have length 1."""
ROUNDED = 32
"""Neighbouring weights that four-bit rounding gives one step, which is an eighth of the largest."""


def sentences() -> list[dict[str, Any]]:
    """The rows, in an order of their own."""
    training = runpy.run_path(str(ROOT / "tools/train_wording.py"))
    earlier, later = training["rows"](), training["later"]()
    copies, draw = training["surrounded"](earlier), np.random.default_rng(5)
    some = [copies[i] for i in draw.permutation(len(copies))[:COPIES]]
    every = [*earlier, *later, *some]
    return [every[i] for i in draw.permutation(len(every))]


def shaken(weight: Tensor, draw: torch.Generator) -> Tensor:
    """A matrix as rounding to four bits might have left it."""
    blocks = weight.reshape(-1, ROUNDED)
    noise = torch.rand(blocks.shape, generator=draw) - 0.5
    return (blocks + blocks.abs().amax(1, keepdim=True) / 8 * noise).reshape(weight.shape)


class States:
    """Of each sentence, what the lower layers make of its tokens: (tokens, 384) float16."""

    def __init__(self, bert: Any, tokenizer: Any, texts: list[str], folder: Path) -> None:
        found = tokenizer([f"query: {text}" for text in texts], truncation=True, max_length=LONGEST)["input_ids"]
        self.tokens = np.array([len(ids) for ids in found])
        self._start = np.concatenate([[0], np.cumsum(self.tokens)])
        file = folder / "states.npy"
        if not file.exists():
            self._make(bert, found, file)
        self._rows = np.load(file, mmap_mode="r")

    def _make(self, bert: Any, found: list[list[int]], file: Path) -> None:
        partial = file.with_suffix(".partial")
        rows = np.lib.format.open_memmap(partial, "w+", np.float16, (int(self._start[-1]), bert.config.hidden_size))
        draw, upper = torch.Generator().manual_seed(0), bert.encoder.layer
        bert.encoder.layer = upper[:LOWER]
        matrices = [module.weight for module in bert.encoder.modules() if isinstance(module, nn.Linear)]
        plain = [matrix.data.clone() for matrix in matrices]
        with torch.inference_mode():
            for part in np.array_split(np.random.default_rng(0).permutation(len(found)), 40):
                for matrix, weight in zip(matrices, plain, strict=True):
                    matrix.data.copy_(shaken(weight, draw))
                for batch in self.batches(part):
                    ids = torch.zeros(len(batch), int(self.tokens[batch].max()), dtype=torch.long)
                    for row, i in enumerate(batch):
                        ids[row, : len(found[i])] = torch.tensor(found[i])
                    there = torch.arange(ids.shape[1]) < torch.tensor(self.tokens[batch])[:, None]
                    with torch.autocast("cpu", torch.bfloat16):
                        states = bert(input_ids=ids, attention_mask=there.long()).last_hidden_state
                    for row, i in enumerate(batch):
                        rows[self._start[i] : self._start[i + 1]] = states[row, : self.tokens[i]].half().numpy()
        for matrix, weight in zip(matrices, plain, strict=True):
            matrix.data.copy_(weight)
        bert.encoder.layer = upper
        rows.flush()
        partial.rename(file)

    def batches(self, part: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Sentences of one length together."""
        part = part[np.argsort(self.tokens[part], kind="stable")]
        return [part[i : i + BATCH] for i in range(0, len(part), BATCH)]

    def padded(self, batch: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """States (n, tokens, 384) and which of them are of the sentence."""
        out = np.zeros((len(batch), int(self.tokens[batch].max()), self._rows.shape[1]), np.float32)
        for row, i in enumerate(batch):
            out[row, : self.tokens[i]] = self._rows[self._start[i] : self._start[i + 1]]
        return torch.from_numpy(out), torch.arange(out.shape[1]) < torch.tensor(self.tokens[batch])[:, None]


class Added(nn.Module):
    """A linear layer with a low-rank addition."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear, self.plain = linear, linear.weight.data.clone()
        self.A = nn.Parameter(torch.randn(RANK, linear.in_features) / math.sqrt(linear.in_features))
        self.B = nn.Parameter(torch.zeros(linear.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output and the addition's."""
        more = functional.linear(functional.linear(x, self.A), self.B)
        out: Tensor = self.linear(x) + more
        return out


class Reader(nn.Module):
    """The upper layers, and a linear layer on the mean of their states."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        bert.requires_grad_(False)
        self.layers, self.added = bert.encoder.layer[LOWER:], dict[str, Added]()
        for number, layer in enumerate(self.layers, LOWER):
            for name in (name for name in MATRICES.values() if "LayerNorm" not in name):
                parent, _, last = name.rpartition(".")
                module = layer.get_submodule(parent)
                self.added[f"{number}.{name}"] = added = Added(getattr(module, last))
                setattr(module, last, added)
        self.out = nn.Linear(bert.config.hidden_size, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.constant_(self.out.bias, -0.5)

    def forward(self, states: Tensor, there: Tensor) -> Tensor:
        """Log odds (n,) of declining."""
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

    def shake(self, draw: torch.Generator | None) -> None:
        """Noise on the fixed weights, or none."""
        for added in self.added.values():
            added.linear.weight.data.copy_(shaken(added.plain, draw) if draw else added.plain)


def order(states: States, part: npt.NDArray[np.int64], draw: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Batches for ever: all sentences once, then all again in another order."""
    while True:
        shuffled = draw.permutation(part)
        for pool in np.array_split(shuffled, max(1, len(part) // (BATCH * 50))):
            batches = states.batches(pool)
            yield from (batches[i] for i in draw.permutation(len(batches)))


def train(reader: Reader, states: States, declines: npt.NDArray[np.float32], part: npt.NDArray[np.int64]) -> None:
    """Fit the additions and the last layer."""
    steps, small = int(len(part) * EPOCHS / BATCH), [p for a in reader.added.values() for p in (a.A, a.B)]
    groups = [{"params": small, "lr": RATE}, {"params": [*reader.out.parameters()], "lr": 10 * RATE}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, betas=(0.9, 0.99))
    draw = torch.Generator().manual_seed(2)
    rates = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 100) * max(0.02, 1 - step / steps)
    )
    for step, batch in zip(range(steps), order(states, part, np.random.default_rng(3)), strict=False):
        if step % 50 == 0:
            reader.shake(draw)
        wanted = torch.from_numpy(declines[batch]) * (1 - 2 * SMOOTHING) + SMOOTHING
        loss = functional.binary_cross_entropy_with_logits(reader(*states.padded(batch)), wanted)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_([*small, *reader.out.parameters()], 1.0)
        optimizer.step()
        rates.step()
        if step % 20 == 0:
            sys.stderr.write(f"\rstep {step:,} of {steps:,}, loss {loss.item():.3f} ")
    reader.shake(None)


def main() -> None:
    """Train, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", help="intfloat/multilingual-e5-small, or a folder with it")
    parser.add_argument("--work", type=Path, required=True, help="folder for the states of the lower layers")
    parser.add_argument("--start", type=Path, help="weights to go on from, written by an earlier run")
    parser.add_argument("--most", type=int, help="sentences to train on (default: all)")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="file of the weights (default: those of demur)")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    encoder = SentenceTransformersEncoder(f"{args.encoder}?query=query: &similarity=cosine")
    probes = encoder.texts([readable(text) for text in PROBES], role="query").astype(np.float16)
    rows = sentences()[: args.most]
    declines = np.array([row["deflects"] for row in rows], np.float32)
    held = np.array([row.get("part") in HELD_OUT for row in rows])
    from sentence_transformers import SentenceTransformer  # after the encoder has seen to torchvision

    model = SentenceTransformer(args.encoder, device="cpu").float().eval()
    bert = model[0].auto_model
    states = States(bert, model.tokenizer, [readable(visible(row["text"])) for row in rows], args.work)
    reader = Reader(bert)
    if args.start:
        reader.start(np.load(args.start))
    train(reader, states, declines, np.flatnonzero(~held))
    odds = np.zeros(len(rows), np.float32)
    with torch.inference_mode():
        for batch in states.batches(np.flatnonzero(held)):
            odds[batch] = reader(*states.padded(batch)).numpy()
    said, true = odds[held] > 0, declines[held] > 0
    figures = {"n": int(held.sum()), "precision": (said & true).sum() / said.sum(), "recall": said[true].mean()}
    named = {f"{name}.{end}": getattr(added, end) for name, added in reader.added.items() for end in "AB"}
    named |= {"out": reader.out.weight[0] * LENGTH, "out_bias": reader.out.bias[0]}
    stored = {name: weights.detach().numpy().astype(np.float16) for name, weights in named.items()}
    np.savez_compressed(args.out, probes=probes, **stored)
    sys.stdout.write(f"{args.out}: {args.out.stat().st_size:,} bytes; alone, on what was held out: ")
    sys.stdout.write(json.dumps({name: round(float(value), 3) for name, value in figures.items()}) + "\n")


if __name__ == "__main__":
    main()
