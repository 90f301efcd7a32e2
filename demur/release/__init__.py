"""A release: the frozen folder that people load, cite and verify.

Layout::

    data/samples.parquet    config ``samples``: one row per sample; query images as {bytes, path}; evidence by id
    data/evidence.parquet   config ``evidence``: one row per document that is evidence; image bytes inside
    drops.jsonl             every sample and distractor that left, with stage and reason
    gates.jsonl             of every kept sample, each gate's answer and label without evidence and on its distractors
    funnel.json             how many entered and left each stage, per reason
    recall.json             retrieval modes by recall of gold
    README.md               dataset card, written from the data (`demur.release.card`)
    croissant.json          Croissant metadata; CITATION.cff
    manifest.json           name, version, recipe, code, models, prompts, seeds, and the SHA-256 of every other file

Bytes are a function of the inputs: no clock, no path of a machine, no order of work enters them.
"""

from demur.release.freeze import freeze
from demur.release.layout import FunnelStep, counts, documents_of, version_number
from demur.release.release import Release
from demur.release.verify import verify

__all__ = ["FunnelStep", "Release", "counts", "documents_of", "freeze", "verify", "version_number"]
