"""Images in requests: read, checked and encoded once."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from errors import raises
from PIL import Image, ImageChops, ImageFile

from demur.core import images
from demur.core.errors import ItemError
from demur.core.images import for_models, image_ref, rgb
from demur.models import ModelOptions, complete_all, open_model
from demur.models.images import ImageUrls
from demur.testing import FakeEndpoint


@pytest.fixture
def hashed(monkeypatch):
    """The images whose bytes were read and held against their hash, in that order."""
    from demur.models import images

    read, seen = images.read_image, []
    monkeypatch.setattr(
        images, "read_image", lambda image, root: (seen.append(image), read(image, root))[1]
    )
    return seen


async def test_images_are_sent_as_they_are_and_hashed_once(ask, tmp_path, picture, hashed):
    refs = [picture(name) for name in "ab"]
    async with (
        FakeEndpoint() as server,
        open_model(server.model(), ModelOptions(image_root=tmp_path)) as model,
    ):
        for n in range(20):
            await model.complete(ask(f"q{n}", refs[0], "then", refs[1]))
        parts = server.bodies[-1]["messages"][0]["content"]
        assert [p["type"] for p in parts] == ["text", "image_url", "text", "image_url"]
        for part, ref in zip(parts[1::2], refs, strict=True):
            head, data = part["image_url"]["url"].split(",")
            assert head == "data:image/png;base64"
            assert base64.b64decode(data) == (tmp_path / ref.uri).read_bytes()
        assert hashed == refs


async def test_images_past_the_memory_are_read_again_but_not_hashed_again(
    tmp_path, picture, hashed
):
    refs = [picture(name) for name in "abc"]
    urls = ImageUrls(tmp_path, most_bytes=1)
    first = [await urls.url_of(r) for r in refs]
    assert [await urls.url_of(r) for r in refs] == first
    assert hashed == refs
    (tmp_path / refs[0].uri).write_bytes(b"changed")
    with raises(ItemError, refs[0].uri):
        await urls.url_of(refs[0])


async def test_a_missing_image_is_its_items_error_alone(ask, tmp_path, picture):
    good, bad = picture("a"), picture("b")
    (tmp_path / bad.uri).unlink()
    async with (
        FakeEndpoint() as server,
        open_model(server.model(), ModelOptions(image_root=tmp_path)) as model,
    ):
        found = {
            r.item: a
            async for r, a in complete_all(
                model, [ask("q", good, item="good"), ask("q", bad, item="bad")]
            )
        }
        assert found["good"].text
        assert "b.png" in found["bad"].error
        assert server.requests == 1


async def test_an_image_by_address_is_left_to_the_server(ask, picture):
    ref = picture("a").model_copy(update={"uri": "https://example.org/a.png"})
    async with FakeEndpoint() as server, open_model(server.model()) as model:
        await model.complete(ask("q", ref))
        assert (
            server.bodies[-1]["messages"][0]["content"][1]["image_url"]["url"]
            == "https://example.org/a.png"
        )


async def test_a_text_cannot_smuggle_an_image_in(ask, tmp_path, picture):
    from demur.models import endpoint

    async with (
        FakeEndpoint() as server,
        open_model(server.model(), ModelOptions(image_root=tmp_path)) as model,
    ):
        await model.complete(
            ask('"}, {"type": "image_url"', picture("a"), "data:image/png;base64,xx")
        )
        parts = server.bodies[-1]["messages"][0]["content"]
        assert [p["type"] for p in parts] == ["text", "image_url", "text"]
        assert len(endpoint._MARK) == 32


def encoded(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def on_its_side():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


SMALL = Image.linear_gradient("L").resize((40, 30)).convert("RGB")
PLAIN = {
    "png": encoded(SMALL, "PNG"),
    "jpeg": encoded(SMALL, "JPEG"),
    "transparent png": encoded(SMALL.convert("RGBA"), "PNG"),
    "palette png": encoded(SMALL.convert("P"), "PNG"),
    "grey jpeg": encoded(SMALL.convert("L"), "JPEG"),
    "a png with exif": encoded(SMALL, "PNG", exif=Image.Exif()),
}
OTHERS = {
    "mpo": encoded(SMALL, "MPO", save_all=True, append_images=[SMALL]),
    "tiff": encoded(SMALL, "TIFF"),
    "jp2": encoded(SMALL, "JPEG2000"),
    "gif": encoded(SMALL, "GIF"),
    "webp": encoded(SMALL, "WEBP"),
    "bmp": encoded(SMALL, "BMP"),
    "cmyk jpeg": encoded(SMALL.convert("CMYK"), "JPEG"),
    "32 bits": encoded(SMALL.convert("I"), "TIFF"),
    "floats": encoded(SMALL.convert("F"), "TIFF"),
    "16 bits": encoded(SMALL.convert("I;16"), "PNG"),
    "jpeg on its side": encoded(SMALL, "JPEG", exif=on_its_side()),
    "png on its side": encoded(SMALL, "PNG", exif=on_its_side()),
}


async def sent(tmp_path, data):
    """(media type, bytes) of an image as it is sent."""
    (tmp_path / "image").write_bytes(data)
    head, text = (await ImageUrls(tmp_path).url_of(image_ref(data, "image"))).decode().split(",")
    return head.removeprefix("data:").removesuffix(";base64"), base64.b64decode(text)


@pytest.mark.parametrize("name", PLAIN)
async def test_a_plain_png_or_jpeg_is_sent_as_it_is(tmp_path, name):
    kind = "image/jpeg" if "jpeg" in name else "image/png"
    assert await sent(tmp_path, PLAIN[name]) == (kind, PLAIN[name])


@pytest.mark.parametrize("name", OTHERS)
async def test_any_other_image_is_sent_as_an_upright_jpeg(tmp_path, name):
    kind, data = await sent(tmp_path, OTHERS[name])
    with Image.open(io.BytesIO(data)) as image:
        assert (kind, image.format, image.mode) == ("image/jpeg", "JPEG", "RGB")
        assert image.size == ((30, 40) if "side" in name else (40, 30))
        difference = ImageChops.difference(image, rgb(OTHERS[name]))
    assert max(high for _, high in difference.getextrema()) <= 12


async def test_the_media_type_is_that_of_the_bytes_and_not_of_the_record(tmp_path):
    data = PLAIN["png"]
    (tmp_path / "image").write_bytes(data)
    ref = image_ref(data, "image").model_copy(update={"media_type": "image/jpeg"})
    assert (await ImageUrls(tmp_path).url_of(ref)).startswith(b"data:image/png;base64,")


async def test_what_is_no_image_is_its_items_error(ask, tmp_path, picture):
    ref = picture("a")
    (tmp_path / ref.uri).write_bytes(b"not an image")
    wrong = ref.model_copy(update={"sha256": hashlib.sha256(b"not an image").hexdigest()})
    async with (
        FakeEndpoint() as server,
        open_model(server.model(), ModelOptions(image_root=tmp_path)) as model,
    ):
        with pytest.raises(ItemError) as caught:
            await model.complete(ask("q", wrong, item="it"))
        assert (caught.value.item, server.requests) == ("it", 0)


def test_a_plain_image_is_not_decoded_to_be_sent(monkeypatch):
    def load(self):
        raise AssertionError("decoded")

    monkeypatch.setattr(Image.Image, "load", load)
    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    for data in PLAIN.values():
        assert for_models(data)[1] == data


def test_pixels_of_all_threads_together_have_a_bound(monkeypatch):
    """Four threads decode images of 1,200 pixels; there is room for two."""
    monkeypatch.setattr(images, "_ROOM", images._Room(2500))
    inside, most, lock = 0, 0, threading.Lock()

    def decode(_):
        nonlocal inside, most
        with images.open_image(PLAIN["png"]):
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.02)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(decode, range(8)))
    assert most == 2
    monkeypatch.setattr(images, "_ROOM", images._Room(10))
    assert rgb(PLAIN["png"]).size == (40, 30)  # one that is larger than the room gets it alone


@pytest.mark.parametrize("name", [*PLAIN, *OTHERS])
def test_an_image_in_strips_is_the_same(monkeypatch, name):
    data = (PLAIN | OTHERS)[name]
    whole = rgb(data).tobytes()
    monkeypatch.setattr(images, "_STRIP", 7 * 40)
    assert rgb(data).tobytes() == whole


CHILD = """
import resource, sys
from demur.core import uris
from demur.core.errors import DataError

uris.MOST_BYTES = 1_000_000
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    uris.read_uri("zip:a.zip!m.png")
except DataError as error:
    print(error.item, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("packed", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("claimed", [None, 10])
def test_a_member_of_an_archive_is_read_up_to_the_cap(tmp_path, packed, claimed):
    """100 MB of zeros in few kilobytes; the archive's directory may say that they are ten bytes."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", packed) as archive:
        archive.writestr("m.png", bytes(100_000_000))
        if claimed is not None:
            archive.getinfo("m.png").file_size = claimed
    out = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    *item, kilobytes = out.stdout.split()
    assert "a.zip" in item[0]
    assert int(kilobytes) < 30_000
