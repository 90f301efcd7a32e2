from __future__ import annotations

import io
import struct
import threading
import zlib
from contextlib import suppress

import numpy as np
import pytest
from errors import raises
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from demur.core.errors import DataError
from demur.core.images import IMAGE_FORMATS, MAX_PIXELS, rgb


def saved(image: Image.Image, format: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def pixel(data: bytes, at=(0, 0)):
    image = rgb(data)
    assert image.mode == "RGB"
    return image.getpixel(at)


def picture(mode: str = "RGB", size=(6, 4)) -> Image.Image:
    rows = np.arange(size[0] * size[1] * 3, dtype=np.uint8).reshape(size[1], size[0], 3)
    return Image.fromarray(rows).convert(mode)


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "PPM", "GIF", "WEBP"])
def test_lossless_formats_give_the_pixels_back(format):
    original = picture("P") if format == "GIF" else picture()
    data = saved(original, format, **({"lossless": True} if format == "WEBP" else {}))
    assert np.array_equal(np.asarray(rgb(data)), np.asarray(original.convert("RGB")))


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP"])
def test_an_animation_gives_its_first_frame(format):
    frames = [Image.new("RGB", (5, 5), colour) for colour in ("red", "green", "blue")]
    data = saved(frames[0], format, save_all=True, append_images=frames[1:], duration=50)
    assert np.abs(np.subtract(pixel(data), (255, 0, 0))).max() < 60


def test_a_file_of_many_pages_gives_the_first():
    data = saved(
        Image.new("RGB", (5, 5), "red"),
        "TIFF",
        save_all=True,
        append_images=[Image.new("RGB", (5, 5), "blue")],
    )
    assert pixel(data) == (255, 0, 0)


def test_cmyk_becomes_rgb_and_is_not_inverted():
    shown = pixel(saved(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95))
    assert np.abs(np.subtract(shown, (255, 0, 0))).max() < 15


def test_transparency_is_laid_on_white():
    assert pixel(saved(Image.new("RGBA", (3, 3), (255, 0, 0, 0)))) == (255, 255, 255)
    half = pixel(saved(Image.new("RGBA", (3, 3), (0, 0, 0, 128))))
    assert all(126 <= level <= 128 for level in half)
    assert pixel(saved(Image.new("LA", (3, 3), (0, 0)))) == (255, 255, 255)


def test_a_palette_with_alpha_and_a_key_colour_are_laid_on_white():
    palette = Image.new("P", (2, 1))
    palette.putpalette([255, 0, 0, 0, 0, 255] + [0] * 762)
    palette.putdata([0, 1])
    data = saved(palette, transparency=bytes([0, 255]))
    assert pixel(data) == (255, 255, 255)
    assert pixel(data, (1, 0)) == (0, 0, 255)
    assert pixel(saved(Image.new("RGB", (2, 1), (9, 9, 9)), transparency=(9, 9, 9))) == (
        255,
        255,
        255,
    )


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_turns_the_picture_upright(orientation):
    # Where the stored top left pixel belongs, by the EXIF table of orientations.
    upright = picture(size=(6, 4))
    undo = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(upright if undo is None else upright.transpose(undo), "PNG", exif=exif)
    assert np.array_equal(np.asarray(rgb(data)), np.asarray(upright))


def test_damaged_exif_leaves_the_picture_as_it_is():
    data = saved(picture(), "JPEG", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff junk")
    assert rgb(data).size == (6, 4)


def test_sixteen_bit_grey_is_scaled_and_not_clipped():
    levels = np.array([[0, 257 * 100, 65535]], dtype=np.uint16)
    image = rgb(saved(Image.fromarray(levels)))
    assert [image.getpixel((x, 0)) for x in range(3)] == [(0,) * 3, (100,) * 3, (255,) * 3]


def test_floating_grey_is_stretched_and_nan_is_refused():
    image = rgb(saved(Image.fromarray(np.array([[-1.0, 0.0, 1.0]], np.float32)), "TIFF"))
    assert [image.getpixel((x, 0))[0] for x in range(3)] == [0, 128, 255]
    assert pixel(saved(Image.fromarray(np.full((2, 2), 7.0, np.float32)), "TIFF")) == (0, 0, 0)
    with raises(DataError, item="image"):
        rgb(saved(Image.fromarray(np.array([[np.nan, 1.0]], np.float32)), "TIFF"))


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I", "F", "I;16"]
)
def test_every_mode_that_a_file_can_have_becomes_rgb(mode):
    format = "TIFF" if mode in ("CMYK", "YCbCr", "F", "I", "I;16") else "PNG"
    image = (
        Image.fromarray(np.full((3, 4), 9, np.uint16))
        if mode == "I;16"
        else picture().convert("L").convert(mode)
    )
    assert rgb(saved(image, format)).mode == "RGB"


def bomb(width: int, height: int) -> bytes:
    """A PNG of few bytes that says it is large."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 9))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(10_001, 10_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_bombs_are_refused_before_they_are_decoded(size):
    with raises(DataError, f"{MAX_PIXELS:,}", item="huge.png"):
        rgb(bomb(*size), "huge.png")


def test_just_below_the_limit_is_judged_by_its_content_and_without_a_warning():
    with raises(DataError, item="image"):  # its data are missing
        rgb(bomb(10_000, 10_000))


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "WEBP"])
def test_truncated_files_are_refused(format):
    data = saved(Image.effect_noise((64, 64), 90).convert("RGB"), format)
    with raises(DataError, item="cut"):
        rgb(data[: len(data) * 2 // 3], "cut")


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"<svg xmlns='http://www.w3.org/2000/svg'/>", bytes(range(64))]
)
def test_other_bytes_are_named_as_no_image(data):
    with raises(DataError, item="x"):
        rgb(data, "x")


def test_postscript_is_never_run():
    buffer = io.BytesIO()
    picture().save(buffer, "EPS")
    assert Image.open(io.BytesIO(buffer.getvalue())).format == "EPS"  # Pillow alone would take it
    with raises(DataError, item="image"):
        rgb(buffer.getvalue())
    assert not {"EPS", "PDF", "WMF", "PSD"} & set(IMAGE_FORMATS)


@given(
    st.integers(0, 400),
    st.integers(0, 255),
    st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP"]),
)
def test_a_changed_byte_gives_a_picture_or_a_clear_error(place, value, format):
    data = bytearray(saved(picture(size=(16, 16)), format))
    data[place % len(data)] = value
    with suppress(DataError):  # anything else that is raised fails the test
        assert rgb(bytes(data)).mode == "RGB"


def test_threads_do_not_disturb_each_other():
    good, bad = saved(picture()), bomb(60_000, 60_000)
    wrong = []

    def work() -> None:
        for _ in range(50):
            if rgb(good).size != (6, 4):
                wrong.append("size")
            with suppress(DataError):
                rgb(bad)
                wrong.append("bomb")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
