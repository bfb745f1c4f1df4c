"""Formats: suffixes, depths, rates, missing encoders; nothing is written here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from voxcli.audio import formats
from voxcli.audio.formats import FORMATS, resolve_format
from voxcli.errors import OutputError, UsageError


def test_importing_formats_loads_no_audio_library() -> None:
    code = (
        "import sys, voxcli.audio.formats; "
        "print(sorted({'numpy', 'soundfile', 'soxr', 'torch'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("target", ["a/b.c.WAV", ".wav", "wav", Path("x.wav")])
def test_path_suffix_and_name_mean_the_same_format(target: str | Path) -> None:
    assert resolve_format(target).name == "wav"


@pytest.mark.parametrize("target", ["a.xyz", "noext", "folder/wav", ""])
def test_unknown_suffix_names_the_known_ones(target: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_format(target)
    assert caught.value.exit_code == 2
    assert all(name in str(caught.value) for name in FORMATS)


def test_near_miss_is_suggested() -> None:
    with pytest.raises(UsageError, match="did you mean 'flac'"):
        resolve_format("a.flacc")


@pytest.mark.parametrize("target", ["../w/x", "./x", "a.b/x", "speech"])
def test_a_dot_of_a_folder_begins_no_suffix(target: str) -> None:
    with pytest.raises(UsageError, match="has no audio suffix"):
        resolve_format(target)


@pytest.mark.parametrize(
    ("name", "bits", "chosen"),
    [
        ("wav", None, "16"),
        ("wav", 24, "24"),
        ("wav", "32F", "32f"),
        ("wav", 8, "8"),
        ("flac", None, "16"),
        ("flac", "24", "24"),
        ("ogg", None, None),
    ],
)
def test_depth_is_the_asked_or_the_default(
    name: str, bits: str | int | None, chosen: str | None
) -> None:
    assert resolve_format(name, bits).bits == chosen


@pytest.mark.parametrize(("name", "bits"), [("wav", "12"), ("flac", "32f"), ("mp3", "16")])
def test_depth_the_format_lacks_is_refused(name: str, bits: str) -> None:
    with pytest.raises(UsageError, match=bits):
        resolve_format(name, bits)


@pytest.mark.parametrize(
    ("name", "source", "chosen"),
    [
        ("opus", 44_100, 48_000),
        ("opus", 16_000, 16_000),
        ("opus", 96_000, 48_000),
        ("mp3", 96_000, 48_000),
        ("mp3", 24_000, 32_000),
        ("mp3", 22_050, 22_050),
        ("wav", 44_100, 44_100),
        ("wav", 4_000, 8_000),
    ],
)
def test_unasked_rate_moves_to_the_next_one_the_format_takes(
    name: str, source: int, chosen: int
) -> None:
    assert FORMATS[name].choose_rate(source) == chosen


def test_asked_rate_is_never_changed_but_refused_with_the_rates() -> None:
    assert FORMATS["opus"].choose_rate(48_000, 16_000) == 16_000
    assert FORMATS["mp3"].choose_rate(24_000, 24_000) == 24_000
    with pytest.raises(UsageError, match="8000, 12000, 16000, 24000, 48000"):
        FORMATS["opus"].choose_rate(48_000, 22_050)
    with pytest.raises(UsageError, match="8000 to 192000"):
        FORMATS["wav"].choose_rate(48_000, 400_000)


def test_missing_ffmpeg_says_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OutputError, match="install ffmpeg") as caught:
        resolve_format("a.m4a")
    assert caught.value.exit_code == 5


def test_libsndfile_without_mp3_says_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_sndfile_has", lambda entry: False)
    with pytest.raises(OutputError, match="cannot write mp3"):
        resolve_format("a.mp3")
