"""Pools: several sources joined into one folder, a record in memory at a time.

A pool folder holds ``samples.jsonl`` (Sample), ``documents.jsonl`` (Document, when asked for), images,
``duplicates.jsonl``, ``left-out.jsonl`` and ``pool.json``. It is deterministic: the same sources give the same bytes.

`demur.pools.write.build` writes two kinds. A pool to keep (`demur pool build`) can be moved: its images are copied to
``images/ab/<sha256>.png``. A pool for a release (`demur.curation.build.sample_pool`) stays beside its sources: links
lead to their images, it has no samples that a release cannot hold, and ``image-hashes.jsonl`` keeps the hashes of the
images compared for that.
"""
