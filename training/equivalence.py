"""Train the equivalence model of the judge `local` and write demur/judge/data/equivalence.json.

    python training/equivalence.py --work DIR [--report]

It reads EVOUNA (training/evouna_*.jsonl.xz: replies of five systems that people labelled), the tuning halves of the
labelled replies in tests/judge and demur/judge/data, the pairs of training/commitment.jsonl.xz that the adapter of the
encoder was not trained on, and rewritings of EVOUNA's right replies, which it makes itself. Nothing untouched trains.
The comparisons of all replies (`demur.judge.equivalence.features`) take a quarter of an hour of one core; DIR keeps them.
``--report`` prints how good it is on replies that the scored model was not trained on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import math
import multiprocessing
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from demur.answers import normalise
from demur.core.store import seed_of
from demur.judge import equivalence

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "demur/judge/data/equivalence.json"
EVOUNA = {"NQ": "evouna_nq_700.jsonl.xz", "TQ": "evouna_tq.jsonl.xz"}
GRADED = {
    "hard and usual": "tests/judge/graded_by_language_2.jsonl",
    "hard": "tests/judge/graded_by_language.jsonl",
    "third": "tests/judge/graded_by_language_3.jsonl",
    "usual": "tests/judge/graded_usual.jsonl",
    "kinds": "demur/judge/data/labelled.jsonl",
}
UNITS, DECAY, STEPS, FOLDS = 16, 12.0, 300, 5
WEIGHTS = {"evouna": 1.0, "graded": 1.5, "pairs": 0.5, "rewritten": 0.4}
"""Of a row: real replies of English systems are many, and what people usually get; the rest is what they lack."""
RATES = (0.05, 0.2, 0.5, 0.9)
"""Shares of right replies at which counts should be unbiased."""

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Row(NamedTuple):
    """A labelled reply."""

    source: str
    """`evouna`, `graded`, `pairs` or `rewritten`."""
    set: str
    system: str
    """Of EVOUNA; else the kind of row, or ""."""
    question: str
    accepted: tuple[str, ...]
    reply: str
    label: str
    """correct, or anything else."""
    untouched: bool = False


def lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    text = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    return [json.loads(line) for line in text.decode().split("\n") if line]


def evouna() -> Iterator[Row]:
    """Replies of five systems, labelled by people."""
    for name, file in EVOUNA.items():
        for row in lines(ROOT / "training" / file):
            accepted = tuple(form for form in row["answers"] if form.strip())
            system = row["id"].rsplit("-", 1)[1]
            yield Row(
                "evouna", name, system, row["question"], accepted, row["response"], row["human"]
            )


def graded() -> Iterator[Row]:
    """Labelled replies in eighteen languages."""
    for name, file in GRADED.items():
        for row in lines(ROOT / file):
            yield Row(
                "graded",
                name,
                row.get("sort", ""),
                row["question"],
                tuple(row["answers"]),
                row["response"],
                row["label"],
                row["part"] == "untouched",
            )


def pairs() -> Iterator[Row]:
    """Replies that state an accepted form, and do or do not give it: the tenth that `commits` was not trained on."""
    for row in lines(ROOT / "training/commitment.jsonl.xz"):
        if seed_of("held", row["question"]) % 10 == 0:
            for label, outcome in (("yes", "correct"), ("no", "incorrect")):
                for reply in row[label]:
                    accepted = (row["answer"],)
                    yield Row("pairs", "pairs", label, row["question"], accepted, reply, outcome)


def rewritten(rows: Sequence[Row]) -> Iterator[Row]:
    """Rewritings of a right reply of each question of EVOUNA: two kinds each, in turn."""
    right: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.label == "correct" and (form := stated(row)) and len(form) > 1:
            right[row.question].append(row)
    others: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for question, answered in right.items():
        form = stated(answered[0])
        others[kind(question, form)].append(form)
    for question, answered in right.items():
        draw = np.random.default_rng(seed_of("rewritten", question))
        row = answered[draw.integers(len(answered))]
        form = stated(row)
        accepted = {normalise(one) for one in row.accepted}
        apart = [
            other
            for other in others[kind(question, form)]
            if not any(normalise(other) in one or one in normalise(other) for one in accepted)
        ]
        if len(apart) < 2:
            continue
        other, third = (apart[i] for i in draw.choice(len(apart), 2, replace=False))
        changed = str(int(form) + int(draw.integers(1, 9))) if form.isdecimal() else ""
        made = {
            "other entity": (row.reply.replace(form, other), False),
            "other entity, bare": (f"{other}.", False),
            "other number": (row.reply.replace(form, changed) if changed else "", False),
            "bare": (f"{form}.", True),
            "denied": (str(draw.choice(DENIALS)).format(form=form), False),
            "several": (
                str(draw.choice(SEVERAL)).format(form=form, other=other, third=third),
                False,
            ),
            "right aside": (f"{row.reply.rstrip('. ')}; {other} is another matter.", True),
            "wrong aside": (f"{other}; {form} is another matter.", False),
            "belief": (str(draw.choice(BELIEFS)).format(form=form, other=other), False),
            "belief corrected": (str(draw.choice(BELIEFS)).format(form=other, other=form), True),
            "handed back": (str(draw.choice(BACK)).format(question=question), False),
        }
        names = [name for name, (reply, _) in made.items() if reply]
        picked = {names[i] for i in draw.choice(len(names), 2, replace=False)}
        for name in picked | ({"other number"} & set(names)):
            reply, correct = made[name]
            if name.startswith("other") and any(one in normalise(reply) for one in accepted):
                continue  # a right form stands there still
            yield row._replace(
                source="rewritten",
                set=f"rewritten {row.set}",
                system=name,
                reply=reply,
                label="correct" if correct else "incorrect",
            )


DENIALS = (
    "It is not {form}.",
    "Not {form}.",
    "{form}? No, that is wrong.",
    "Certainly not {form}, whatever others say.",
)
SEVERAL = (
    "{form} or {other}.",
    "Either {other} or {form}.",
    "{other}, {third} or {form}.",
    "It could be {form}, {other} or {third}.",
    "{other}, {form}, {third}",
)
BELIEFS = (
    "Many people think that it is {form}, but it is {other}.",
    "It is often said to be {form}; in fact it is {other}.",
    "Although some believe it is {form}, the answer is {other}.",
    "Contrary to popular belief, it is not {form} but {other}.",
)
BACK = ("{question}", "{question}?", "You ask: {question}", "Good question: {question}")


def stated(row: Row) -> str:
    """The longest accepted form that the reply has letter for letter; "": none."""
    forms = [
        form for form in row.accepted if re.search(rf"(?<!\w){re.escape(form)}(?!\w)", row.reply)
    ]
    return max(forms, key=len, default="")


def kind(question: str, form: str) -> tuple[str, bool]:
    """What a question asks for, roughly, and whether its answer is a number."""
    asks = re.search(r"\b(?:who|whose|whom|where|when|how|year|country|city)\b", question.lower())
    return asks.group() if asks else "", form.isdecimal()


def compared(row: Row) -> dict[str, float]:
    """The comparisons of a row."""
    return equivalence.features(row.question, [(form,) for form in row.accepted], row.reply)


def matrix(rows: Sequence[Row], work: Path) -> Floats:
    """The comparisons of all rows, shape (rows, features); those of an earlier call with the same rows and code."""
    code = (ROOT / "demur/judge/equivalence.py").read_bytes()
    key = hashlib.sha256(code + json.dumps(rows).encode()).hexdigest()[:16]
    file = work / f"comparisons-{key}.npy"
    if not file.exists():
        with multiprocessing.Pool() as pool:
            values = list(pool.imap(compared, rows, chunksize=50))
        np.save(file, np.array([list(one.values()) for one in values]))
    x: Floats = np.load(file)
    return x


class Network(NamedTuple):
    """Weights for comparisons as they are."""

    linear: Floats
    hidden: Floats
    hidden_bias: Floats
    out: Floats
    bias: float

    def __call__(self, x: Floats) -> Floats:
        """Probabilities, shape (n,)."""
        odds = x @ self.linear + np.tanh(x @ self.hidden.T + self.hidden_bias) @ self.out
        p: Floats = 1 / (1 + np.exp(-np.clip(odds + self.bias, -30, 30)))
        return p.round(3)


def fit(x: Floats, right: Bools, weight: Floats) -> Network:
    """The likeliest weights, with a penalty on their squares."""
    mean, spread = x.mean(0), x.std(0)
    spread[spread == 0] = 1
    z, sign = (x - mean) / spread, np.where(right, 1.0, -1.0)
    n = x.shape[1]
    ends = np.cumsum([n, UNITS * n, UNITS, UNITS])
    draw = np.random.default_rng(0)
    start = np.concatenate(
        [
            np.zeros(n),
            draw.normal(0, 0.6 / math.sqrt(n), UNITS * n),
            np.zeros(UNITS),
            draw.normal(0, 0.3, UNITS),
            [0.0],
        ]
    )
    decay = DECAY * np.repeat([0.3, 1, 0.1, 1, 0], [n, UNITS * n, UNITS, UNITS, 1])

    def loss(weights: Floats) -> tuple[float, Floats]:
        linear, hidden, hidden_bias, out, bias = np.split(weights, ends)
        active = np.tanh(z @ hidden.reshape(UNITS, n).T + hidden_bias)
        margin = sign * (z @ linear + active @ out + bias)
        pull = -weight * sign / (1 + np.exp(np.clip(margin, -50, 50)))
        inner = np.outer(pull, out) * (1 - active * active)
        slope = [z.T @ pull, (inner.T @ z).ravel(), inner.sum(0), active.T @ pull, [pull.sum()]]
        total = (weight * np.logaddexp(0, -margin)).sum() + 0.5 * (decay * weights**2).sum()
        return float(total), np.concatenate(slope) + decay * weights

    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    linear, hidden, hidden_bias, out, bias = np.split(best, ends)
    linear, hidden = linear / spread, hidden.reshape(UNITS, n) / spread
    return Network(linear, hidden, hidden_bias - hidden @ mean, out, float(bias[0] - linear @ mean))


def cross_fitted(x: Floats, rows: Sequence[Row], trains: Bools) -> Floats:
    """Probabilities of all rows, each from a network that was trained without its question."""
    right = np.array([row.label == "correct" for row in rows])
    weight = np.array([WEIGHTS[row.source] for row in rows])
    fold = np.array([seed_of("fold", normalise(row.question)) % FOLDS for row in rows])
    p = np.zeros(len(rows))
    for k in range(FOLDS):
        now = trains & (fold != k)
        p[fold == k] = fit(x[now], right[now], weight[now])(x[fold == k])
    return p


def bias(p: Floats, right: Bools, cut: float) -> list[float]:
    """By how much the share of replies called right misses a true share of each of `RATES`."""
    wrong_called_right, right_called_wrong = (p[~right] >= cut).mean(), (p[right] < cut).mean()
    return [float((1 - rate) * wrong_called_right - rate * right_called_wrong) for rate in RATES]


def unbiased_cut(p: Floats, rows: Sequence[Row]) -> float:
    """The cut at which the systems' counts miss least: half at their own true shares, half at `RATES`."""
    right = np.array([row.label == "correct" for row in rows])
    groups = [members for _, _, members in systems(rows)]
    cuts = np.arange(0.3, 0.8, 0.005).round(3)

    def missed(cut: float) -> float:
        own = [(p[group] >= cut).mean() - right[group].mean() for group in groups]
        elsewhere = [bias(p[group], right[group], cut) for group in groups]
        return float(np.abs(own).mean() + np.abs(elsewhere).mean())

    return float(min(cuts, key=missed))


def systems(rows: Sequence[Row]) -> list[tuple[str, str, Bools]]:
    """Set, system and members of each group of replies that people labelled."""
    names = sorted({(row.set, row.system) for row in rows if row.source == "evouna"})
    return [
        (name, system, np.array([(row.set, row.system) == (name, system) for row in rows]))
        for name, system in names
    ]


def calibration(p: Floats, rows: Sequence[Row], cut: float) -> list[dict[str, Any]]:
    """How often the judge errs, by system."""
    right = np.array([row.label == "correct" for row in rows])
    return [
        {
            "set": name,
            "system": system,
            "wrong": int((group & ~right).sum()),
            "wrong_called_right": int((group & ~right & (p >= cut)).sum()),
            "right": int((group & right).sum()),
            "right_called_wrong": int((group & right & (p < cut)).sum()),
        }
        for name, system, group in systems(rows)
    ]


def calibration_error(p: Floats, right: Bools) -> float:
    """Expected calibration error over ten bins."""
    bins = np.minimum((p * 10).astype(int), 9)
    return float(
        sum(abs((p - right)[bins == k].sum()) for k in range(10) if (bins == k).any()) / len(p)
    )


def report(x: Floats, rows: Sequence[Row], trains: Bools, p: Floats, cut: float) -> None:
    """Print how good the probabilities are; ``p`` cross-fitted, other figures by training without a set."""
    right = np.array([row.label == "correct" for row in rows])
    weight = np.array([WEIGHTS[row.source] for row in rows])
    sets = np.array([row.set for row in rows])
    untouched = np.array([row.untouched for row in rows])
    kinds = np.array([row.system for row in rows])

    def line(name: str, p: Floats, members: Bools) -> None:
        called = p >= cut
        print(
            f"{name:34}{members.sum():6}  right in {(called == right)[members].mean():.3f}"
            f"  correct {called[members & right].mean():.3f}"
            f"  wrong called right {called[members & ~right].mean():.3f}"
            f"  share {called[members].mean():.3f} (true {right[members].mean():.3f})"
            f"  ECE {calibration_error(p[members], right[members].astype(float)):.3f}"
        )

    print(f"cut {cut}")
    for name in EVOUNA:
        line(f"{name}, cross-fitted", p, sets == name)
    for name, other in (("NQ", "TQ"), ("TQ", "NQ")):
        for what, now in (
            (f"{name}, trained on {other} alone", sets == other),
            (
                f"{name}, trained without it",
                trains & (sets != name) & (sets != f"rewritten {name}"),
            ),
        ):
            line(what, fit(x[now], right[now], weight[now])(x), sets == name)
    for name in GRADED:
        for sort in ("ordinary", "hard") if name == "hard and usual" else ("",):
            members = untouched & (sets == name) & ((kinds == sort) | (sort == ""))
            line(f"{name} {sort}, untouched", p, members)
    for kind_ in sorted({row.system for row in rows if row.source == "rewritten"}):
        members = np.array([row.source == "rewritten" and row.system == kind_ for row in rows])
        called = (p >= cut)[members].mean()
        print(f"rewritten: {kind_:28}{members.sum():6}  called right {called:.3f}")
    line("pairs, cross-fitted", p, sets == "pairs")
    print(f"\nset, system, bias of the count in points at its own and at true rates of {RATES}")
    for name, system, group in systems(rows):
        here = (p >= cut)[group].mean() - right[group].mean()
        print(
            f"{name} {system:10}{100 * here:6.1f}  "
            + "".join(f"{100 * value:6.1f}" for value in bias(p[group], right[group], cut))
        )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for what is computed")
    parser.add_argument("--report", action="store_true", help="also print how good it is")
    options = parser.parse_args()
    labelled = list(evouna())
    rows = [*labelled, *graded(), *pairs(), *rewritten(labelled)]
    x = matrix(rows, options.work)
    trains = np.array([not row.untouched for row in rows])
    p = cross_fitted(x, rows, trains)
    cut = unbiased_cut(p, rows)
    right = np.array([row.label == "correct" for row in rows])
    weight = np.array([WEIGHTS[row.source] for row in rows])
    network = fit(x[trains], right[trains], weight[trains])
    values = {
        name: np.asarray(value).round(4).tolist() for name, value in network._asdict().items()
    }
    stored = {"cut": cut, "features": list(compared(rows[0])), **values}
    stored["calibration"] = calibration(p, rows, cut)
    body = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in stored.items())
    OUT.write_text(f"{{\n{body}\n}}\n", encoding="utf-8")
    if options.report:
        report(x, rows, trains, p, cut)


if __name__ == "__main__":
    main()
