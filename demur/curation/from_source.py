"""A source as it is, asked without a build: ``demur run simpleqa=FOLDER --system ...``.

For sources without a knowledge base, which no build can give distractors, and to look at any other as it ships. Its
samples become a release folder of their own, in which nothing was gated or mined; runs and reports then work as on any
release. Samples without evidence are asked without (parametric), those with gold evidence also with it (oracle), and
those with negatives of their source in all four scenarios.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from demur.core.errors import DataError
from demur.core.plugins import find, names
from demur.core.records import Sample
from demur.core.store import Problems, digest
from demur.core.uris import read_image
from demur.curation.sources import DEFECT, open_source, options_of
from demur.release import FunnelStep, Release, freeze

VERSION = "0.0.0"
"""Of such a release: it is a reading of somebody else's files, which its hash names."""
AS_IT_IS = "Taken from its source as it is: no gate was asked, nothing was mined; it shows no more than its source."


def names_source(text: str) -> bool:
    """Whether ``NAME=FOLDER`` names a source, rather than a folder with that name."""
    name, mark, _ = text.partition("=")
    return bool(mark) and (name in names("sources") or ":" in name) and not Path(text).is_dir()


def release_of(text: str, out: Path, *, options: Mapping[str, str] | None = None, skip_bad: bool = False) -> Release:
    """Read a source's own files into ``out/release``.

    Args:
        text: ``NAME=FOLDER``: a source (`demur sources list`, or ``module:Class``) and the folder of its files.
        out: folder; pages that must be rendered from PDFs go to ``out/pages``.
        options: of the adapter (`demur sources show NAME`).
        skip_bad: leave out what cannot be read, and count it.

    Returns:
        The release: every sample of the source, with the evidence that the source gives it.

    Raises:
        UnknownPart: no such source.
        UsageError: no such folder or option.
        BadInput: bad rows and samples with missing images, all of them, unless ``skip_bad``.
        DataError: the source has no samples.
        StorageError: the release cannot be written.
    """
    name, _, folder = text.partition("=")
    known = options_of(find("sources", name)[0])
    wanted = {"distractors": "document", "render": str((out / "pages").resolve())}  # MMLongBench-Doc: its pages
    given = {k: v for k, v in wanted.items() if k in known} | dict(options or {})
    problems = Problems()
    source = open_source(name, Path(folder), problems, given)
    samples: list[Sample] = []
    for sample in source.samples():
        if defect := sample.attributes.get(DEFECT):
            problems.add(f"{sample.source_ref} ({sample.id})", str(defect))
        else:
            samples.append(sample)
    problems.settle(skip_bad=skip_bad)
    if not samples:
        raise DataError("the source holds no samples", item=text, cure="check the folder and the options")
    total = len(samples) + len(problems)
    step = FunnelStep(
        stage="source", entered=total, kept=len(samples), dropped={"cannot be read": len(problems)} if problems else {}
    )
    freeze(
        out / "release", name=source.name, version=VERSION, samples=samples, funnel=[step],
        read_image=lambda ref: read_image(ref, source.root),
        about={
            "sources": {
                source.name: {
                    "sha256": digest([s.model_dump(mode="json", exclude={"images"}) for s in samples]),
                    "licences": sorted({s.licence for s in samples if s.licence}),
                }
            },
            "pool_by_topic": dict(sorted(Counter(s.topic for s in samples).items())),
            "limits": [AS_IT_IS],
        },
    )  # fmt: skip
    return Release.open(out / "release")
