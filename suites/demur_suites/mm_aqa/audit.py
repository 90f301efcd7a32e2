"""Arithmetic checks of published tables of MM-AQA (`demur suite audit`).

A table is known by its columns: shares in per cent ``aac`` ``uac`` ``ar`` with their standard errors ``aac_se`` ...,
``mcc`` of a row or ``best_mcc`` of a system, ``answerable`` and ``unanswerable`` (numbers of items; by default those
that the paper states for ``subset``), ``category`` with its ``n``, ``tau`` of a sweep, ``baseline``, and of an expert's
figures ``scenario`` with ``mcc_oracle`` and ``gap``. The checks find

    count   shares that no whole counts of that many items give
    se      a standard error that is not sqrt(p(1-p)/n)
    mcc     an MCC that does not follow from the shares, whatever was rounded (and, without ``ar``, whatever FN is)
    best    a best MCC that is not the highest of its rows
    sweep   shares that fall where a higher threshold must raise them, or the reverse
    oracle  an expert's mean or gap out of step with the other rows
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from demur_suites.mm_aqa.measures import (
    Matrix,
    counts_of,
    oracle,
    possible,
    random_abstain,
    rebuilt,
    se,
)
from demur_suites.published import Finding, Printed, PublishedRow, printed_lines

SHARES = ("aac", "uac", "ar")
COUNTS = ("answerable", "unanswerable", "n", "total")
MCCS = ("mcc", "best_mcc", "mcc_oracle", "gap")
TEXTS = (
    "model",
    "subset",
    "system",
    "cond",
    "condition",
    "clause",
    "baseline",
    "variant",
    "category",
    "scenario",
)
COLUMNS = frozenset({*SHARES, *(f"{s}_se" for s in SHARES), *COUNTS, *MCCS, *TEXTS, "tau"})
SIZES = {"images": (300, 253), "documents": (837, 689), "a-mmmu": (300, 253), "a-mmlbd": (837, 689)}
"""Subset -> answerable and unanswerable items that the paper states."""
MOST, MOST_FN = 10**9, 10_000
"""Items that a table can be of; values of an FN that is not printed, of which the least and greatest MCC are taken."""
NEAR = 0.01
"""A best MCC this far off may come from a few items that were silently dropped: a note."""


def audit(rows: Sequence[PublishedRow]) -> list[Finding]:
    """The findings."""
    lines, found = printed_lines(rows, TEXTS, _fits)
    for line in lines:
        found += [Finding(kind, "defect", line.who, says) for kind, says in _line(line)]
    return [*found, *_best(lines), *_sweeps(lines), *_experts(lines)]


def _fits(column: str, value: float) -> bool:
    """Whether a column can hold a value: a share to 100, an MCC from -1, a whole count, any other number from 0."""
    if column in COUNTS:
        return 0 <= value <= MOST and value.is_integer()
    top = 100.0 if column in SHARES else math.inf
    return 0 <= value <= top or (column in MCCS and -1 <= value <= 1)


def _sizes_of(line: Printed) -> tuple[int, int] | None:
    """Answerable and unanswerable items of a line."""
    a, u = line.values.get("answerable"), line.values.get("unanswerable")
    return (
        (int(a), int(u))
        if a is not None and u is not None
        else SIZES.get(line.row.get("subset", "").lower())
    )


def _text(line: Printed, *columns: str) -> tuple[str, ...]:
    """Cells of a line as printed."""
    return tuple(line.row.get(c, "").strip() for c in columns)


def _line(line: Printed) -> Iterator[tuple[str, str]]:
    """(kind of finding, what is wrong) of one line by itself."""
    v, sizes = line.values, _sizes_of(line)
    n_of = {"aac": sizes[0], "uac": sizes[1], "ar": sum(sizes)} if sizes else {}
    n_of |= {"uac": int(v["n"])} if "category" in line.row and "n" in v else {}
    if (
        all(c in v for c in COUNTS[:2])
        and "total" in v
        and v["answerable"] + v["unanswerable"] != v["total"]
    ):
        yield "count", f"{v['answerable']:g} and {v['unanswerable']:g} make no {v['total']:g}"
    whole = all(
        counts_of(v[c] / 100, n_of[c], line.half[c] / 100) for c in SHARES if c in v and n_of.get(c)
    )
    if whole and sizes and all(c in v for c in SHARES):
        half = max(line.half[c] for c in SHARES) / 100
        whole = possible(v["aac"] / 100, v["uac"] / 100, v["ar"] / 100, *sizes, half=half)
    if not whole and not _expected(line):
        shares = ", ".join(f"{c.upper()} {v[c]:g}" for c in SHARES if c in v)
        sizes_text = "/".join(str(n_of[c]) for c in ("aac", "uac") if c in n_of)
        yield "count", f"{shares}: no whole counts of {sizes_text} items give this"
    for share in SHARES:
        printed = v.get(f"{share}_se")
        if printed is not None and n_of.get(share) and share in v:
            due = 100 * (se(v[share] / 100, n_of[share]) or 0)
            if abs(due - printed) > 0.1 + line.half[f"{share}_se"]:
                of = f"{share.upper()} {v[share]:g} of {n_of[share]} items"
                yield "se", f"{of} has a standard error of {due:.1f}, {printed:g} is printed"
    if "mcc" in v and sizes and "aac" in v and "uac" in v:
        bounds = _mcc_bounds(line, sizes)
        if bounds is None:
            yield "mcc", f"MCC {v['mcc']:g} is printed where it is undefined"
        elif (
            not bounds[0] - line.half["mcc"] - 1e-9
            <= v["mcc"]
            <= bounds[1] + line.half["mcc"] + 1e-9
        ):
            yield "mcc", f"MCC {v['mcc']:g} is printed, {bounds[0]:.3f} to {bounds[1]:.3f} follows"


def _expected(line: Printed) -> bool:
    """Whether its figures are expectations, which need not be whole."""
    return "scenario" in line.row or _text(line, "baseline")[0].lower().startswith(
        ("random", "abstains at random")
    )


def _corners(line: Printed, columns: Sequence[str]) -> Iterator[tuple[float, ...]]:
    spans = [
        (line.values[c] - line.half[c], line.values[c], line.values[c] + line.half[c])
        for c in columns
    ]
    for corner in product(*spans):
        yield tuple(min(max(x / 100, 0.0), 1.0) for x in corner)


def _mcc_bounds(line: Printed, sizes: tuple[int, int]) -> tuple[float, float] | None:
    """The least and greatest MCC that the shares allow; None where none is defined."""
    a, u = sizes
    if "scenario" in line.row:
        made = [oracle(aac, uac, a, u).mcc_ext for aac, uac in _corners(line, ("aac", "uac"))]
    elif _expected(line):
        made = [  # at one rate on both kinds of item
            random_abstain(aac / (1 - uac), a, u, uac).mcc_ext
            for aac, uac in _corners(line, ("aac", "uac"))
            if aac < 1 - uac
        ]
    elif "ar" in line.values:
        made = [rebuilt(aac, uac, ar, a, u).mcc_ext for aac, uac, ar in _corners(line, SHARES)]
    else:  # FN is not printed: every possible one, or one in so many. The MCC, where defined, rises with TP and TN
        aac, uac = line.values["aac"] / 100, line.values["uac"] / 100
        tps = counts_of(aac, a, line.half["aac"] / 100) or (aac * a,)
        tns = counts_of(uac, u, line.half["uac"] / 100) or (uac * u,)
        made = [
            Matrix(tp, a - tp - fn, fn, tn, u - tn).mcc_ext
            for tp, tn in product({*tps[:2], *tps[-2:]}, {*tns[:2], *tns[-2:]})
            for fn in range(0, math.floor(a - tp) + 1, 1 + a // MOST_FN)
        ]
    defined = [m for m in made if m is not None]
    return (min(defined), max(defined)) if defined else None


def _best(lines: Sequence[Printed]) -> Iterator[Finding]:
    """The best MCC of a system against the highest that its rows allow."""
    groups: dict[tuple[str, ...], list[Printed]] = defaultdict(list)
    for line in lines:
        if "best_mcc" in line.values or all(s in line.values for s in SHARES):
            groups[_text(line, "subset", "system", "model")].append(line)
    for group, several in groups.items():
        printed = {line.values["best_mcc"] for line in several if "best_mcc" in line.values}
        rows = [
            (x, sizes)
            for x in several
            if (sizes := _sizes_of(x)) and all(s in x.values for s in SHARES)
        ]
        bounds = [b for row in rows if (b := _mcc_bounds(*row)) is not None]
        who = ", ".join(g for g in group if g)
        if len(printed) > 1:
            yield Finding("best", "defect", who, f"{len(printed)} different best MCCs are printed")
        if len(printed) != 1 or not bounds:
            continue
        low, high = (max(side) for side in zip(*bounds, strict=True))
        [value] = printed
        off = max(low - value, value - high) - 0.0005
        if off > 1e-9:
            severity = "note" if off <= NEAR else "defect"
            message = f"best MCC {value:g} is printed, the highest of {len(bounds)} rows is {low:.3f} to {high:.3f}"
            yield Finding("best", severity, who, message)  # type: ignore[arg-type]


def _sweeps(lines: Sequence[Printed]) -> Iterator[Finding]:
    """A higher threshold abstains on more: UAC and AR cannot fall, AAC cannot rise."""
    groups: dict[tuple[str, ...], list[Printed]] = defaultdict(list)
    for line in lines:
        if "tau" in line.values:
            groups[_text(line, "subset", "system", "model", "baseline")].append(line)
    for several in groups.values():
        for one, other in pairwise(sorted(several, key=lambda x: x.values["tau"])):
            for share, sign in (("aac", -1), ("uac", 1), ("ar", 1)):
                if share in one.values and share in other.values:
                    grown = sign * (other.values[share] - one.values[share])
                    if grown < -one.half[share] - other.half[share] - 1e-9:
                        went = f"{share.upper()} goes from {one.values[share]:g} to {other.values[share]:g} above it"
                        yield Finding("sweep", "defect", one.who, went)


def _experts(lines: Sequence[Printed]) -> Iterator[Finding]:
    """Rows of an expert differ in one subset's MCC alone: the mean moves by half of it, the gap as the mean does."""
    several = [
        x
        for x in lines
        if "scenario" in x.row and all(c in x.values for c in ("mcc", "mcc_oracle"))
    ]
    for line in several[1:]:
        now, first = line.values, several[0].values
        mean = now["mcc_oracle"] - first["mcc_oracle"]
        if abs(mean - (now["mcc"] - first["mcc"]) / 2) > 0.0016:
            message = f"the mean {now['mcc_oracle']:g} does not move with its MCC"
            yield Finding("oracle", "defect", line.who, message)
        if "gap" in now and "gap" in first and abs(now["gap"] - first["gap"] - mean) > 0.0021:
            yield Finding(
                "oracle", "defect", line.who, f"the gap {now['gap']:g} does not move with the mean"
            )
