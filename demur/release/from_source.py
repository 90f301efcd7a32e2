"""Runs on a source without a build: ``demur run simpleqa:FOLDER --system ...``.

For sources without a knowledge base, for which no build can mine distractors, and to run on any other source as it
ships. Its samples become a release without gates and mining; runs and reports work as on any release. Samples without
evidence are asked in the parametric scenario, those with gold evidence also in oracle, and those with negatives in all
four.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from demur.core.errors import DataError
from demur.core.plugins import find
from demur.core.records import Sample
from demur.core.store import Problem, Problems, digest
from demur.core.uris import read_image
from demur.release import Draft, FunnelStep, Release, freeze
from demur.release.layout import tally
from demur.sources import DEFECT, NamedSource, open_source, options_of

VERSION = "0.0.0"
"""Version of such a release: its hash identifies the source's files."""
AS_IT_IS = "Taken from its source as it is: no gating model was asked, nothing was mined; it shows no more than its source."


class _BadRows(Problems):
    """Problems of a source, and the rows that have any."""

    def __init__(self) -> None:
        super().__init__()
        self._places: set[str] = set()

    def note(self, problem: Problem) -> None:
        super().note(problem)
        if problem.is_of_row:
            self._places.add(problem.place)

    def rows_without(self, samples: Sequence[Sample]) -> int:
        """Number of bad rows that gave no sample, in the files that gave any; rows of other files are documents."""
        read = {sample.source_ref for sample in samples}
        files = {place.rpartition(":")[0] for place in read}
        return sum(place.rpartition(":")[0] in files for place in self._places - read)


def release_of(source_name: NamedSource, out: Path, *, skip_bad: bool = False) -> Release:
    """Read a source's own files into ``out/release``.

    Args:
        source_name: of the source (`demur sources list`, or ``module:Class``).
        out: folder; pages that must be rendered from PDFs go to ``out/pages``.
        skip_bad: leave out records that cannot be read, and count them.

    Returns:
        The release: every sample of the source with its own evidence.

    Raises:
        UnknownPart: there is no such source.
        UsageError: there is no such folder or option.
        BadInput: bad rows and samples with missing images, all of them, unless ``skip_bad``.
        DataError: the source has no samples.
        StorageError: the release cannot be written.
    """
    name, folder, options = source_name
    known_options = options_of(find("sources", name)[0])
    usual_options = {
        "distractors": "document",
        "render": str((out / "pages").resolve()),
    }  # MMLongBench-Doc: its pages
    source_options = {k: v for k, v in usual_options.items() if k in known_options} | dict(options)
    problems = _BadRows()
    source = open_source(name, folder, problems, source_options)
    read_samples = list(source.samples())
    problems.settle(skip_bad=skip_bad)
    samples = [sample for sample in read_samples if DEFECT not in sample.attributes]
    if not samples:
        raise DataError(
            "the source has no samples",
            item=f"{name}:{folder}",
            cure="check the folder and the options",
        )
    bad = len(read_samples) - len(samples) + problems.rows_without(read_samples)
    step = FunnelStep(
        stage="source",
        entered=len(samples) + bad,
        kept=len(samples),
        dropped={"cannot be read": bad} if bad else {},
    )
    freeze(
        out / "release",
        Draft(
            name=source.name,
            version=VERSION,
            samples=samples,
            funnel=[step],
            read_image=lambda ref: read_image(ref, source.root),
            about={
                "sources": {
                    source.name: {
                        "sha256": digest(
                            [s.model_dump(mode="json", exclude={"images"}) for s in samples]
                        ),
                        "licences": sorted({s.licence for s in samples if s.licence}),
                    }
                },
                "pool_by_topic": tally(s.topic for s in samples),
                "limits": [AS_IT_IS],
            },
        ),
    )
    return Release.open(out / "release")
