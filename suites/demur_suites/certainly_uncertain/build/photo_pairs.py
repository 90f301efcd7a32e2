"""Pairs from photos: the same question about a photo, and about the photo without the thing it asks about.

    scene -> which thing (all things of that label) -> mask -> grown -> filled -> control -> pair

All photos of a pair are saved in the same way, so that they differ only in the missing thing. What cannot become a pair
is a `Drop` with its reason.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from demur.core.errors import DataError, StorageError
from demur.core.images import image_ref, open_image, rgb
from demur.core.records import Drop, ImageRef
from demur.core.store import digest, seed_of, write_atomic
from demur.core.uris import read_uri
from demur.corpora.formats import inside
from demur_suites.certainly_uncertain.build import inpainting
from demur_suites.certainly_uncertain.build.calls import drop
from demur_suites.certainly_uncertain.build.inpainting import LEAST, MOST, Mask, Pixels
from demur_suites.certainly_uncertain.build.salient import Named, salient, stems
from demur_suites.certainly_uncertain.build.scenes import Scene, Thing
from demur_suites.certainly_uncertain.items import IDK, Pair, Uncertainty

if TYPE_CHECKING:
    from PIL.Image import Image

JPEG, STAGE = 90, "image"
TEMPLATES = (IDK, "I don't see any {}.", "There {be} no {} in the image.", "I can't see any {}.")
"""Right answers without the thing; each pair gets one at random."""
ALIKE = 1.5
"""Most that another thing may be larger or smaller than the thing, to be taken out as its control."""
CHANGE = 6.0
"""Least mean difference, in grey levels, that taking a thing out must make inside its mask."""
YES_NO = ("yes", "no")

Fill = Callable[[Pixels, Mask, int], Pixels]


class Control(NamedTuple):
    """A photo without something that the question is not about, and the label of that: a thing's, or "a patch"."""

    photo: Pixels
    gone: str


class Without(NamedTuple):
    """A photo without a thing, the mask of the thing, and the control."""

    photo: Pixels
    mask: Mask
    control: Control | None


def same(one: str, other: str) -> bool:
    """Whether two labels name the same kind of thing: a plural or a longer name does."""
    return stems(one) <= stems(other) or stems(other) <= stems(one)


def plural(label: str) -> bool:
    """Whether a label is of several things, by its last letters.

    >>> plural("red balls"), plural("glass"), plural("people")
    (True, False, True)
    """
    return label.endswith(("people", "men", "children")) or (
        label.endswith("s") and not label.endswith(("ss", "us"))
    )


def in_file_name(text: str) -> str:
    """A text as a part of a file name: as it is where it can be, else what remains of it and a hash.

    >>> in_file_name("polar-bear"), in_file_name("../a")
    ('polar-bear', '.._a-524cd46a')
    """
    if re.fullmatch(r"[\w. -]+", text) and len(text.encode()) <= 80:
        return text
    return re.sub(r"[^\w.-]+", "_", text)[:20] + f"-{digest(text, 8)}"


def _distance(one: Mask, other: Mask) -> float:
    """Pixels between the middles of two masks."""
    middles = [np.argwhere(mask).mean(axis=0) for mask in (one, other)]
    return float(np.linalg.norm(middles[0] - middles[1]))


def nearest_patch(form: Mask, taken: Mask, step: int = 4) -> Mask | None:
    """A mask moved to the nearest place where it covers nothing that is taken; None where there is none.

    Args:
        form: bool [height, width], moved by multiples of ``step`` pixels; its size stays.
        taken: bool [height, width].
        step: pixels.
    """
    rows, columns = np.nonzero(form)
    top, left = int(rows.min()), int(columns.min())
    patch = form[top : rows.max() + 1, left : columns.max() + 1]
    high, wide = patch.shape
    places = [
        (y, x)
        for y in range(top % step, form.shape[0] - high + 1, step)
        for x in range(left % step, form.shape[1] - wide + 1, step)
    ]
    for y, x in sorted(places, key=lambda place: (place[0] - top) ** 2 + (place[1] - left) ** 2):
        if not (taken[y : y + high, x : x + wide] & patch).any():
            moved = np.zeros_like(form)
            moved[y : y + high, x : x + wide] = patch
            return moved
    return None


@dataclass
class Maker:
    """Makes pairs of scenes.

    Args:
        root: folder that photos and masks are relative to.
        out: folder of the set; photos go below ``images/``.
        seed: of templates, controls and grain.
        fill: `inpainting.inpaint`, or LaMa's.
        grounded: GroundingDINO and SAM instead of whole boxes.
        names: the thing of each question, by a model (`salient.named`); None for rules.
        new_questions: a model writes new questions from the photos (`photo_questions`): one of each thing is enough.
        control: whether to make controls.
        dilate: per cent of their own mean side by which masks are grown.
        filled: how holes are filled, for the pairs' provenance.
        route: ``image``, or ``scene-graph`` where boxes and questions are those of scene graphs.
    """

    root: Path
    out: Path
    seed: int = 0
    fill: Fill = inpainting.inpaint
    grounded: inpainting.Grounded | None = None
    names: Mapping[str, Named] | None = None
    new_questions: bool = False
    control: bool = True
    dilate: float = inpainting.GROWTH
    filled: str = inpainting.OFFLINE
    route: str = "image"
    _written: dict[str, ImageRef] = field(default_factory=dict, init=False)

    def pairs(self, scene: Scene) -> Iterator[Pair | Drop]:
        """The pairs of one scene, and why its other questions make none."""
        if not scene.questions:
            hint = "give questions, or labelled objects and --asker"
            yield drop(f"{scene.id}-0", STAGE, "there is no question about it", hint)
            return
        try:
            photo, scene = self._photo(scene)
        except (DataError, StorageError, ValueError) as error:
            yield drop(f"{scene.id}-0", STAGE, "photo cannot be read", str(error))
            return
        array = np.asarray(photo)
        without: dict[str, Without | tuple[str, str]] = {}
        abouts = [self._about(scene, number) for number in range(1, len(scene.questions) + 1)]
        for number, (asked, about) in enumerate(zip(scene.questions, abouts, strict=True), start=1):
            id, label = f"{scene.id}-{number}", about.label
            if about.why:
                yield drop(id, STAGE, about.why, about.detail)
                continue
            if self.new_questions and isinstance(without.get(label), Without):
                continue
            if not self.new_questions and asked.answer.strip().lower().rstrip(".") in YES_NO:
                yield drop(
                    id, STAGE, "asks for yes or no: answered without the thing too", asked.question
                )
                continue
            if label not in without:
                questions_of_label = [
                    q for q, a in zip(scene.questions, abouts, strict=True) if a.label == label
                ]
                words = stems(" ".join(f"{q.question} {q.answer}" for q in questions_of_label))
                without[label] = self._without(scene, photo, array, label, words)
            result = without[label]
            yield (
                self._pair(scene, number, label, array, result)
                if isinstance(result, Without)
                else drop(id, STAGE, *result)
            )

    def _without(
        self, scene: Scene, photo: Image, array: Pixels, label: str, words: set[str]
    ) -> Without | tuple[str, str]:
        """The photo without a thing, its mask and its control; or why there is none, and details."""
        try:
            mask = self._mask(photo, array, scene, label)
        except (DataError, StorageError, ValueError) as error:
            return "mask cannot be made", f"{label}: {error}"
        if mask is None:
            return "thing not found", label
        share = float(mask.mean())
        if not LEAST <= share <= MOST:
            return "thing too large" if share > MOST else "thing too small", f"{label}: {share:.1%}"
        without = self.fill(array, mask, seed_of(self.seed, scene.id, label))
        change = float(np.abs(without.astype(int) - array.astype(int))[mask].mean())
        if change < CHANGE:
            return "taking it out changes nothing", f"{label}: {change:.1f} grey levels"
        return Without(without, mask, self._control(array, mask, scene, label, words))

    def _about(self, scene: Scene, number: int) -> Named:
        asked = scene.questions[number - 1]
        if asked.object:
            return Named(asked.object)
        if self.names is not None:
            return self.names[f"{scene.id}-{number}"]
        found = salient(asked.question, asked.answer, [o.label for o in scene.objects])
        return (
            Named(found)
            if found
            else Named("", "not about a thing that can be taken out", asked.question)
        )

    def _read(self, name: str) -> bytes:
        return read_uri(inside(self.root, name).relative_to(self.root).as_posix(), self.root)

    def _photo(self, scene: Scene) -> tuple[Image, Scene]:
        """The upright photo in its size here, and the scene with all boxes as shares; pixels are of the whole photo."""
        photo = rgb(self._read(scene.image))
        size = np.array([*photo.size, *photo.size])
        things = [
            o.model_copy(update={"box": tuple((o.box / size).tolist())})
            if o.box and max(o.box) > 1
            else o
            for o in scene.objects
        ]
        photo.thumbnail((inpainting.SIDE, inpainting.SIDE))
        return photo, scene.model_copy(update={"objects": tuple(things)})

    def _mask(self, photo: Image, array: Pixels, scene: Scene, label: str) -> Mask | None:
        """Of all things with that label (a plural or a longer name is the same), grown; None where there is none."""
        things = [o for o in scene.objects if same(o.label, label)]
        high, wide = array.shape[:2]
        covered = np.zeros((high, wide), dtype=bool)
        if not things and self.grounded is not None:
            boxes = self.grounded.boxes(photo, label)
            things = [Thing(label=label, box=b) for b in boxes if b[0] < b[2] and b[1] < b[3]]
        for thing in things:
            if thing.mask:
                with open_image(
                    self._read(thing.mask)
                ) as mask:  # what is transparent in it is no white
                    covered |= (
                        np.asarray(mask.convert("RGB").convert("L").resize((wide, high))) > 127
                    )
            elif thing.box is not None:
                covered |= (
                    self.grounded.mask(photo, thing.box)
                    if self.grounded
                    else inpainting.mask_of_box(array, thing.box)
                )
        return inpainting.grown(covered, self.dilate) if covered.any() else None

    def _control(
        self, array: Pixels, mask: Mask, scene: Scene, label: str, words: set[str]
    ) -> Control | None:
        """The photo without something else, as large as the thing: another thing, else a patch of the mask's form.

        Of both the nearest to the thing. Other things that the questions name (``words``: the man of "What does the
        man hold?") stay: the control must answer the questions too. None where there is no room.
        """
        if not self.control:
            return None
        others = [o for o in scene.objects if o.box is not None and not same(o.label, label)]
        named = [o for o in others if stems(o.label) <= words]
        boxes = {
            place: inpainting.mask_of_box(array, o.box) for place, o in enumerate(others) if o.box
        }
        keep = [boxes[place] for place, o in enumerate(others) if o in named]
        taken = np.logical_or.reduce([mask, *keep])
        removable = [
            (inpainting.grown(boxes[place], self.dilate), o)
            for place, o in enumerate(others)
            if o not in named
        ]
        alike = [
            (_distance(other, mask), place, other, thing.label)
            for place, (other, thing) in enumerate(removable)
            if not (other & taken).any() and 1 / ALIKE <= other.sum() / mask.sum() <= ALIKE
        ]
        if alike:
            _, place, other, gone = min(alike, key=lambda candidate: candidate[:2])
            return Control(self.fill(array, other, place), gone)
        taken = inpainting.grown(taken, 2 * self.dilate)  # its rim would colour the filling
        n, parts = inpainting.cv().connectedComponents(mask.astype(np.uint8))
        patches = np.zeros_like(mask)
        for part in range(1, n):
            patch = nearest_patch(parts == part, taken | patches)
            if patch is None:
                return None
            patches |= patch
        return Control(self.fill(array, patches, 1), "a patch")

    def _pair(self, scene: Scene, number: int, label: str, array: Pixels, found: Without) -> Pair:
        without, mask, other = found
        asked, id = scene.questions[number - 1], f"{scene.id}-{number}"
        template = TEMPLATES[seed_of(self.seed, "template", id) % len(TEMPLATES)]
        name = f"images/{in_file_name(scene.id)}"
        slug = in_file_name("".join(c if c.isalnum() else "-" for c in label))
        black_white = np.repeat((mask * 255).astype(np.uint8)[:, :, None], 3, axis=2)
        return Pair(
            id=id,
            category=Uncertainty.EXTRANEOUS,
            question=asked.question,
            answer=asked.answer,
            image=self._save(f"{name}.jpg", array),
            idk_question=asked.question,
            idk_answer=template.format(label, be="are" if plural(label) else "is"),
            idk_image=self._save(f"{name}-without-{slug}.jpg", without),
            control_image=None
            if other is None
            else self._save(f"{name}-control-{slug}.jpg", other.photo),
            mask=self._save(f"{name}-mask-{slug}.png", black_white),
            route=self.route,
            split=scene.split,
            provenance={
                "photo": scene.image,
                "object": label,
                "masked": f"{mask.mean():.3f}",
                "fill": self.filled,
                **({"control": other.gone} if other else {}),
            },
            licence=scene.licence,
        )

    def _save(self, place: str, array: Pixels) -> ImageRef:
        from PIL import Image as images

        if place not in self._written:
            data = io.BytesIO()
            if place.endswith(".png"):
                images.fromarray(array).convert("1").save(data, "PNG")
            else:
                images.fromarray(array).save(data, "JPEG", quality=JPEG, subsampling=0)
            write_atomic(self.out / place, data.getvalue())
            self._written[place] = image_ref(data.getvalue(), place)
        return self._written[place]
