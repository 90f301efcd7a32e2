"""Right files made wrong: bytes changed, cut out, repeated, and pieces put in that have broken readers before."""

from __future__ import annotations

import random
from pathlib import Path

PIECES = [
    b"\xff\xfe",
    b"\x00",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"9" * 5000,
    b"1e999",
    b"NaN",
    b"-Infinity",
    b"\n",
    b"\r",
    b'"',
    b"'",
    b",",
    b"}",
    b"]",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"../../etc/passwd",
    b"/etc/passwd",
    b"https://example.invalid/",
    b"!!python/object/apply:os.system [id]",
    b"&a [*a, *a]",
    b"*a",
    b"\xe2\x80\xae",
    b"=cmd()",
    b"<script>",
    b"a" * 2000,
    b"\t",
    b"%",
    b"\\",
    b"18446744073709551616",
    b"-1",
    b"2",
    b'"x"',
    b'{"a": "b"}',
    b'["a"]',
    b"0.5",
    b": ",
    b"- ",
    b"<<: *a",
    b"/dev/zero",
    b"/*",
    b"../*",
    b"$",
    b"${HOME}",
    b"python:os:getcwd",
    b"this:s",
    b"antigravity:x",
    b"module:Class",
]


def damaged(right: bytes, rng: random.Random) -> bytes:
    """The bytes with one to four things done to them."""
    data = bytearray(right)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[at : at + rng.choice([1, 4, 100])]
            case 2:
                data[at:at] = data[at : at + rng.choice([1, 20, 500])]
            case 3:
                data[at:at] = rng.choice(PIECES)
            case 4:  # in place of something
                data[at : at + rng.choice([1, 5, 20])] = rng.choice(PIECES)
            case _:
                _value(data, at, rng)
    return bytes(data)


def _value(data: bytearray, at: int, rng: random.Random) -> None:
    """Another value for a field of JSON or YAML, its grammar kept: what only the meaning tells from what is right."""
    start = data.find(b":", at)
    if start < 0:
        return
    stops = [end for stop in b",}]\n" if (end := data.find(stop, start + 1)) >= 0]
    data[start + 1 : min(stops, default=len(data))] = b" " + rng.choice(PIECES)


def damage(folder: Path, rng: random.Random, only: tuple[str, ...] = ()) -> str:
    """Damage one to three files of a folder, or take one away; returns what was done, for messages."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and (not only or p.suffix in only)]
    told = []
    for path in rng.sample(files, min(len(files), rng.choice([1, 1, 2, 3]))):
        name = path.relative_to(folder).as_posix()
        match rng.randrange(12):
            case 0:
                path.unlink()
                told.append(f"{name} gone")
            case 1:
                path.write_bytes(b"")
                told.append(f"{name} empty")
            case 2:
                other = rng.choice(files)
                if other.is_file() and other != path:
                    path.write_bytes(other.read_bytes())
                told.append(f"{name} is {other.name}")
            case _:
                path.write_bytes(damaged(path.read_bytes(), rng))
                told.append(f"{name} damaged")
    return ", ".join(told)
