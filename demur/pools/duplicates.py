"""Duplicates: samples with the same question about the same pictures, also across sources."""

from __future__ import annotations

from typing import NamedTuple

from demur.answers import normalise
from demur.core.records import Sample
from demur.core.store import digest
from demur.corpora.near_duplicates import ImageHash, same_picture

BANDS = 5
"""Bands of the DCT hash: two hashes within 4 bits agree in at least one, those of a re-encoded or resized copy nearly
always."""


class EarlierSample(NamedTuple):
    """An earlier sample with the same question and images."""

    id: str
    source: str
    answers: frozenset[str]


class DuplicateFinder:
    """Finds earlier samples with the same question about the same pictures.

    Questions are compared normalised, pictures by `demur.corpora.near_duplicates.same_picture`, which recognises
    re-encoded copies. Memory: about 1 kB per sample with images.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], list[tuple[EarlierSample, tuple[ImageHash, ...]]]] = {}

    def find_earlier(
        self, sample: Sample, image_hashes: tuple[ImageHash, ...]
    ) -> list[EarlierSample]:
        """The earlier duplicates of a sample, in their order; it is remembered, unless one has a common answer."""
        question = digest(normalise(sample.question).encode("utf-8", "surrogatepass"), 16)
        keys = [(question, str(len(image_hashes)), *band) for band in _hash_bands(image_hashes)]
        this_sample = EarlierSample(sample.id, sample.source, normalised_answers(sample))
        duplicates = dict.fromkeys(
            other
            for key in keys
            for other, other_hashes in self._seen.get(key, ())
            if all(map(same_picture, image_hashes, other_hashes))
        )
        if not any(other.answers & this_sample.answers for other in duplicates):
            for key in keys:
                self._seen.setdefault(key, []).append((this_sample, image_hashes))
        return list(duplicates)


def normalised_answers(sample: Sample) -> frozenset[str]:
    """Its accepted answers, normalised."""
    return frozenset(normalise(" ".join(form)) for form in sample.answers.accepted)


def _hash_bands(image_hashes: tuple[ImageHash, ...]) -> list[tuple[str, ...]]:
    if not image_hashes:
        return [()]
    first = image_hashes[0].whole
    if first.spread < 1:
        return [("flat",)]
    width = -(-64 // BANDS)
    return [
        (str(band), str((first.dct >> (band * width)) & ((1 << width) - 1)))
        for band in range(BANDS)
    ]
