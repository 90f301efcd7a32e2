import numpy as np
import pytest
from strategies import png

from demur.core.errors import DataError
from demur.core.images import image_ref
from demur.scenarios.recognise import Recogniser


class Reds:
    """An encoder whose vectors are (red, the rest); it refuses blue."""

    def __init__(self):
        self.dims = {"look": 2}

    def images(self, images, space):
        colours = [image.getpixel((0, 0)) for image in images]
        if any(blue > 128 for _, _, blue in colours):
            raise DataError("too blue", item="an image", cure="none")
        return np.array([(r / 255, 1 - r / 255) for r, _, _ in colours], np.float32)


def test_a_picture_that_cannot_be_looked_at_is_not_recognised():
    data = {
        "red": png((255, 0, 0)),
        "dark": png((10, 0, 0)),
        "blue": png((0, 0, 255)),
        "torn": png()[:40],
    }
    pictures = [(name, image_ref(data["red"], name)) for name in data]
    recognise = Recogniser(Reds(), pictures, lambda ref: data[ref.uri])
    assert [name for name, _ in recognise(pictures[0][1])] == ["red", "dark"]
    with pytest.raises(DataError, match="too blue"):
        recognise(pictures[2][1])
    none = Recogniser(Reds(), pictures[2:], lambda ref: data[ref.uri])
    assert none(pictures[0][1]) == []
