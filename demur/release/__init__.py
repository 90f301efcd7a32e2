"""A release: the frozen folder that people load, cite and verify.

Layout::

    data/samples.parquet    config ``samples``: one row per sample; query images as {bytes, path}; evidence by id
    data/evidence.parquet   config ``evidence``: one row per document that is evidence; image bytes inside
    drops.jsonl             every dropped sample and distractor, with stage and reason
    gates.jsonl             each gate's answer and label on every kept sample, without evidence and on its distractors
    funnel.json             samples that entered and left each stage, by reason
    recall.json             retrieval modes by recall of gold
    README.md               dataset card, written from the data (`demur.release.card`)
    croissant.json          Croissant metadata; CITATION.cff
    manifest.json           name, version, recipe, code, models, prompts, seeds, and the SHA-256 of every other file

The bytes are a function of the inputs: they do not depend on clock, machine or order of work.
"""

from demur.release.freeze import Draft, check_target, freeze
from demur.release.layout import FunnelStep, count_all, documents_of, version_number
from demur.release.release import Release
from demur.release.verify import open_sound, verify

__all__ = [
    "Draft",
    "FunnelStep",
    "Release",
    "check_target",
    "count_all",
    "documents_of",
    "freeze",
    "open_sound",
    "verify",
    "version_number",
]
