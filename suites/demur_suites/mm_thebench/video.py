"""Frames of a video, for systems that take pictures: evenly spaced in its relevant part (extra ``video``)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import DataError
from demur.core.store import digest, write_atomic
from demur.corpora.formats import inside
from demur_suites.extras import importing
from demur_suites.files import copy_images
from demur_suites.mm_thebench.items import Item, Video


class Frame(NamedTuple):
    """One picture of a video: when, and its JPEG bytes."""

    second: float
    jpeg: bytes


def frames(path: Path, video: Video) -> list[Frame]:
    """``video.frames`` frames, each from the middle of an equal part; fewer where the video has fewer.

    Raises:
        MissingExtra: PyAV is not installed.
        DataError: not a video, or there is nothing in the part between start and end.
    """
    with importing("frames of videos", extra="video", module="PyAV", broken=True):
        import av
    taken: list[Frame] = []
    try:
        opened: Any = av.open(str(path))
        with opened as container:
            stream = container.streams.video[0]
            length = float((stream.duration or 0) * stream.time_base) or container.duration / 1e6
            end = min(video.end or length, length)
            if end <= video.start:
                why = f"it is {length:.1f} s long, the part begins at {video.start:g} s"
                raise DataError(why, item=str(path))
            part = (end - video.start) / video.frames
            wanted = [video.start + part * (k + 0.5) for k in range(video.frames)]
            container.seek(int(video.start * 1e6))
            last = None
            for frame in container.decode(stream):
                if frame.time is not None:
                    last = frame
                    while len(taken) < len(wanted) and frame.time >= wanted[len(taken)]:
                        taken.append(_taken(frame))
                if len(taken) == len(wanted):
                    return taken
            if last is not None and (not taken or taken[-1].second < last.time):
                taken.append(_taken(last))  # the last wanted moment lies behind the last frame's
    except (av.FFmpegError, OSError, IndexError, TypeError) as error:
        raise DataError(
            f"cannot be read as a video: {error}", item=str(path), cure="check the file"
        ) from error
    if not taken:
        raise DataError(
            "holds no frame between start and end", item=str(path), cure="check start and end"
        )
    return taken


def _taken(frame: Any) -> Frame:
    buffer = io.BytesIO()
    frame.to_image().save(buffer, "JPEG", quality=90)
    return Frame(float(frame.time or 0.0), buffer.getvalue())


def with_frames(items: Sequence[Item], root: Path, out: Path) -> tuple[list[Item], dict[str, str]]:
    """Items with frames of their videos as pictures in ``out``; and item -> why it has no frames."""
    with_pictures, failed = [], {}
    for item in items:
        if item.video is None or item.images:
            copy_images(item.images, root, out)
            with_pictures.append(item)
            continue
        # names of videos repeat
        stem = f"frames/{Path(item.video.path).stem[:60]}-{digest([item.id], 8)}"
        try:
            pictures = frames(inside(root, item.video.path), item.video)
        except DataError as error:
            failed[item.id] = error.message
            pictures = []
        uris = [f"{stem}-{n:03d}-{frame.second:.2f}s.jpg" for n, frame in enumerate(pictures, 1)]
        for uri, frame in zip(uris, pictures, strict=True):
            write_atomic(out / uri, frame.jpeg)
        with_pictures.append(item.model_copy(update={"images": tuple(uris)}))
    return with_pictures, failed
