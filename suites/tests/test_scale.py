"""Images that a judge is shown, scaled down."""

from __future__ import annotations

import io

from PIL import Image

from demur.core.images import image_ref
from demur_suites.scale import Scaler


def test_an_image_is_scaled_the_same_way_every_time():
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((60, 20)).save(buffer, "PNG")
    data = buffer.getvalue()
    ref = image_ref(data, "a.png")
    scalers = [Scaler(lambda _: data, 30) for _ in range(2)]
    small, again = (scaler.scale(ref) for scaler in scalers)
    assert small == again
    assert (small.width, small.height) == (30, 10)
    assert image_ref(scalers[0].read(small), small.uri) == small
    assert Scaler(lambda _: data, 60).scale(ref) is ref
