from types import SimpleNamespace

import pytest
from strategies import png

from demur.core.images import image_ref
from demur.core.uris import read_image
from demur.pools.images import Linked


@pytest.mark.parametrize("of", ["relative", "inside", "outside"])
def test_linked_images_are_found_however_they_are_named(tmp_path, of):
    root, out, aside = tmp_path / "source", tmp_path / "pool", tmp_path / "aside"
    for folder in (root, out, aside):
        folder.mkdir()
    data = png()
    file = (aside if of == "outside" else root) / "a.png"
    file.write_bytes(data)
    images = Linked(out)
    source = SimpleNamespace(name="towns", root=root)
    images.begin(source)
    taken = images.take(image_ref(data, "a.png" if of == "relative" else str(file)), source)
    assert read_image(taken, out) == data
    assert taken.uri == (str(file) if of == "outside" else "towns/a.png")
