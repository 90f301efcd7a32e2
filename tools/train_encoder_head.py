"""Train what `demur.judge.sentence_vectors` reads in an encoder's vectors, and write its weights.

    python tools/train_encoder_head.py FOLDER --vectors vectors.npy

FOLDER is `intfloat/multilingual-e5-small` or a folder with it (tools/e5_folder.py writes one). The sentences are those
of tools/train_wording.py, with a third of the copies that have a courtesy around them; nothing untouched is read. Their
vectors take an hour of two cores and are kept in --vectors, block after block, so that a second run goes on.
Four networks of one hidden layer, with other seeds, are fitted; together they are one layer four times as wide.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from demur.indexing.encoders.sentence_transformers import SentenceTransformersEncoder
from demur.judge.rules import visible
from demur.judge.sentence_vectors import PROBES
from demur.judge.wording import readable

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ROOT / "demur/judge/data/encoder_head.npz"
COPIES = 12_000
BLOCK = 2_048
UNITS, SEEDS, PENALTY, EPOCHS = 256, 4, 0.3, 8
"""Of one network. They and `SCALE` were chosen on three batches (nineteenth, twenty-third, "untouched until November")
that were left out of training for it."""
SCALE = 1.5
"""What the log odds are multiplied by before they are added to those of the wording; 1.25 to 2.5 do as well."""


def sentences() -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Texts and whether they decline, in an order of their own so that any beginning of them is a fair sample."""
    training = runpy.run_path(str(ROOT / "tools/train_wording.py"))
    earlier, later = training["rows"](), training["later"]()
    copies, draw = training["surrounded"](earlier), np.random.default_rng(5)
    some = [copies[i] for i in draw.permutation(len(copies))[:COPIES]]
    rows = [earlier, later, some]
    every = [row for part in rows for row in part]
    order = draw.permutation(len(every))
    return [readable(visible(every[i]["text"])) for i in order], np.array([bool(every[i]["deflects"]) for i in order])


def vectors(encoder: SentenceTransformersEncoder, texts: list[str], file: Path) -> npt.NDArray[np.float32]:
    """Their vectors, (n, 384); those in the file are not made again."""
    done = np.load(file) if file.exists() else np.zeros((0, encoder.dims["text"]), np.float16)
    for start in range(len(done), len(texts), BLOCK):
        block = encoder.texts(texts[start : start + BLOCK], role="query").astype(np.float16)
        done = np.concatenate([done, block])
        np.save(file, done)
        sys.stderr.write(f"\r{len(done):,} of {len(texts):,} sentences")
    return done.astype(np.float32)


def fit(rows: npt.NDArray[np.float32], declines: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.float16]]:
    """The weights of `SEEDS` networks as one layer; the vectors' mean and spread are taken into them."""
    mean, spread = rows.mean(0), rows.std(0)
    found = []
    for seed in range(SEEDS):
        net = MLPClassifier((UNITS,), alpha=PENALTY, max_iter=EPOCHS, batch_size=256, random_state=seed)
        found.append(net.fit((rows - mean) / spread, declines))
    into = np.concatenate([net.coefs_[0] / spread[:, None] for net in found], axis=1)
    bias = np.concatenate([net.intercepts_[0] for net in found]) - mean @ into
    out = np.concatenate([net.coefs_[1][:, 0] for net in found]) * SCALE / SEEDS
    out_bias = np.mean([net.intercepts_[1][0] for net in found]) * SCALE
    named = {"into": into, "into_bias": bias, "out": out, "out_bias": np.array(out_bias)}
    return {name: weights.astype(np.float16) for name, weights in named.items()}


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", help="intfloat/multilingual-e5-small, or a folder with it")
    parser.add_argument("--vectors", type=Path, required=True, help="file for the sentences' vectors")
    parser.add_argument("--most", type=int, help="sentences to train on, drawn at random (default: all)")
    args = parser.parse_args()
    encoder = SentenceTransformersEncoder(f"{args.encoder}?query=query: &similarity=cosine")
    texts, declines = sentences()
    texts, declines = texts[: args.most], declines[: args.most]
    rows = vectors(encoder, texts, args.vectors)
    warnings.simplefilter("ignore", ConvergenceWarning)  # it is stopped early on purpose
    probes = encoder.texts([readable(text) for text in PROBES], role="query").astype(np.float16)
    np.savez_compressed(WEIGHTS, **fit(rows, declines), probes=probes)
    sys.stdout.write(f"{WEIGHTS.relative_to(ROOT)}: {len(texts):,} sentences, {WEIGHTS.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
