"""Pools: several sources joined into one folder, a record in memory at a time.

A pool folder holds ``samples.jsonl`` (Sample), ``documents.jsonl`` (Document, when asked for), images,
``duplicates.jsonl``, ``left-out.jsonl`` and ``pool.json``. It is deterministic: the same sources give the same bytes.

`build` writes two kinds. A pool to keep (`demur pool build`) can be moved: its images are copied to
``images/ab/<sha256>.png``. A pool for a release (`demur.curation.sample_pool`) stays beside its sources: links lead to
their images, it has no samples that a release cannot hold, and ``image-hashes.jsonl`` keeps the hashes of the images
compared for that.
"""

from demur.curation.pool.counts import PoolCounts, SourceCounts
from demur.curation.pool.duplicates import DuplicateFinder
from demur.curation.pool.read import ALL, MINED, Pool, PoolSource
from demur.curation.pool.write import IMAGE_HASHES, LeftOut, build

__all__ = [
    "ALL",
    "IMAGE_HASHES",
    "MINED",
    "DuplicateFinder",
    "LeftOut",
    "Pool",
    "PoolCounts",
    "PoolSource",
    "SourceCounts",
    "build",
]
