"""Maps from Natural Earth outlines: a location map for the knowledge base, a bare outline for the queries."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from PIL import Image, ImageDraw

from tools.atlas.inputs import NODE, OUTLINES

SOURCE = f"Natural Earth 4.1 via npm world-atlas {NODE['world-atlas']} (countries-50m), rendered"
LICENCE = "Public domain (Natural Earth); ISC packaging"

LEFT_OUT = {"aq", "fj", "ki", "eh"}
"""Across the date line or the pole; Western Sahara is drawn only where its government is."""

_PART_OF = {"Somaliland": "706", "N. Cyprus": "196"}
"""Drawn apart by Natural Earth, but within the borders that the passages describe."""

Ring = list[tuple[float, float]]
"""A closed line of (longitude, latitude) in degrees."""

_SMOOTH = 3
"""Drawn at this many times the size, then scaled down."""


def outlines(inputs: Path) -> dict[str, list[Ring]]:
    """ISO numeric code (or name, where there is none) -> outer rings of the country."""
    topology = json.loads((inputs / OUTLINES).read_text(encoding="utf-8"))
    (scale_x, scale_y), (shift_x, shift_y) = (
        topology["transform"]["scale"],
        topology["transform"]["translate"],
    )
    arcs: list[Ring] = []
    for arc in topology["arcs"]:
        x = y = 0
        points: Ring = []
        for dx, dy in arc:
            x, y = x + dx, y + dy
            points.append((x * scale_x + shift_x, y * scale_y + shift_y))
        arcs.append(points)

    def ring(indexes: Iterable[int]) -> Ring:
        line: Ring = []
        for index in indexes:
            points = arcs[index] if index >= 0 else arcs[~index][::-1]
            line += points[1:] if line else points
        return line

    found: dict[str, list[Ring]] = {}
    parts: list[tuple[str, list[Ring]]] = []
    for shape in topology["objects"]["countries"]["geometries"]:
        polygons = [shape["arcs"]] if shape["type"] == "Polygon" else shape.get("arcs", [])
        rings = [ring(polygon[0]) for polygon in polygons]
        name = shape["properties"]["name"]
        code = str(shape["id"]).zfill(3) if shape.get("id") else name
        if name in _PART_OF:
            parts.append((_PART_OF[name], rings))
        elif sum(map(area, rings)) > sum(
            map(area, found.get(code, []))
        ):  # a territory may bear its sovereign's code
            found[code] = rings
    for code, rings in parts:
        found[code] = found[code] + rings
    return found


def area(ring: Ring) -> float:
    """Area inside a ring, in square degrees."""
    return (
        abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, ring[1:] + ring[:1], strict=True)))
        / 2
    )


def detailed(rings: list[Ring]) -> bool:
    """Whether the outline says enough to know a country by: 28 points or more in one ring."""
    return max(map(len, rings)) >= 28


def draw(
    every: dict[str, list[Ring]], code: str, *, context: bool, size: tuple[int, int]
) -> Image.Image:
    """A country on its own (``context=False``) or red among its neighbours, in an equirectangular projection.

    Args:
        every: all outlines, by code.
        code: the country drawn; far overseas parts are left outside the frame.
        context: whether neighbours are drawn; what is too small to be seen is then ringed.
        size: (width, height) in pixels.
    """
    main = max(every[code], key=area)
    centre_x = sum(x for x, _ in main) / len(main)
    centre_y = sum(y for _, y in main) / len(main)

    def unwrapped(ring: Ring) -> Ring:
        return [
            (x + 360 if x - centre_x < -180 else x - 360 if x - centre_x > 180 else x, y)
            for x, y in ring
        ]

    def near(ring: Ring) -> bool:
        x, y = sum(x for x, _ in ring) / len(ring), sum(y for _, y in ring) / len(ring)
        return area(ring) > area(main) * 0.02 and abs(x - centre_x) < 40 and abs(y - centre_y) < 25

    rings = [unwrapped(ring) for ring in every[code]]
    framed = [ring for ring in rings if near(ring)] or [main]
    left, right = min(x for r in framed for x, _ in r), max(x for r in framed for x, _ in r)
    low, high = min(y for r in framed for _, y in r), max(y for r in framed for _, y in r)
    squeeze = max(0.25, math.cos(math.radians((low + high) / 2)))
    width, height = size[0] * _SMOOTH, size[1] * _SMOOTH
    padding, least_x, least_y = (2.3, 4.0, 3.0) if context else (1.15, 0.05, 0.05)
    scale = min(
        width / max((right - left) * squeeze * padding, least_x),
        height / max((high - low) * padding, least_y),
    )
    middle_x, middle_y = (left + right) / 2, (low + high) / 2

    def pixels(ring: Ring) -> Ring:
        return [
            ((x - middle_x) * squeeze * scale + width / 2, (middle_y - y) * scale + height / 2)
            for x, y in ring
        ]

    image = Image.new("RGB", (width, height), "#cfe3f2" if context else "#ffffff")
    canvas = ImageDraw.Draw(image)
    if context:
        for others in every.values():
            for ring in others:
                shape = pixels(unwrapped(ring))
                xs, ys = [x for x, _ in shape], [y for _, y in shape]
                on_canvas = max(xs) >= 0 and min(xs) <= width and max(ys) >= 0 and min(ys) <= height
                if on_canvas and max(xs) - min(xs) <= 300 * scale * squeeze:
                    canvas.polygon(shape, fill="#efe9d9", outline="#9a9a8c")
    fill, edge = ("#c8102e", "#7a0015") if context else ("#303030", "#303030")
    for ring in rings:
        canvas.polygon(pixels(ring), fill=fill, outline=edge)
    if context:
        _ring_small(canvas, [pixels(ring) for ring in framed])
    return image.resize(size, Image.Resampling.LANCZOS)


def _ring_small(canvas: ImageDraw.ImageDraw, shapes: list[Ring]) -> None:
    """A red ring round the country when it is small, or round each of its islands when they lie far apart."""

    def bounds(points: Iterable[tuple[float, float]]) -> tuple[float, float, float, float]:
        xs, ys = zip(*points, strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def circle(box: tuple[float, float, float, float], radius: int) -> None:
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        radius *= _SMOOTH
        canvas.ellipse(
            (x - radius, y - radius, x + radius, y + radius), outline="#c8102e", width=2 * _SMOOTH
        )

    whole = bounds(point for shape in shapes for point in shape)
    if max(whole[2] - whole[0], whole[3] - whole[1]) < 30 * _SMOOTH:
        circle(whole, 14)
        return
    boxes = [bounds(shape) for shape in shapes]
    if max(max(box[2] - box[0], box[3] - box[1]) for box in boxes) < 10 * _SMOOTH:
        for box in boxes:
            circle(box, 7)
