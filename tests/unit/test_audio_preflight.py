"""check_output: whether a file can be written, before there is anything to write."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from voxcli.audio import files
from voxcli.audio.write import check_output
from voxcli.errors import OutputError, UsageError


@pytest.mark.parametrize("name", [".wav", "...wav", ".MP3", " .wav"])
def test_a_suffix_alone_is_no_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no name before its suffix"):
        check_output(tmp_path / name)
    assert os.listdir(tmp_path) == []


NOBODY = 65534


def test_good_target_passes_and_nothing_is_left(tmp_path: Path) -> None:
    assert check_output(tmp_path / "a.flac", bits="24", rate=16_000).bits == "24"
    assert os.listdir(tmp_path) == []


def test_preflight_refuses_with_the_right_code(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "old.wav").write_bytes(b"old")
    (tmp_path / "dir.wav").mkdir()
    cases: list[tuple[str, int, str]] = [
        (str(tmp_path), 5, "is a folder"),
        (str(tmp_path / "dir.wav"), 5, "is a folder"),
        (f"{tmp_path}/new/", 5, "is a folder"),
        (str(tmp_path / "no" / "a.wav"), 5, "mkdir -p"),
        (str(tmp_path / "file" / "a.wav"), 5, "not a folder"),
        (str(tmp_path / ("x" * 300 + ".wav")), 5, "name too long"),
        (str(tmp_path / "a.xyz"), 2, "known formats"),
        (str(tmp_path / "old.wav"), 2, "--overwrite"),
        ("a\0.wav", 2, "not a file name"),
        ("", 2, "not a file name"),
    ]
    for path, code, words in cases:
        with pytest.raises((OutputError, UsageError), match=words) as caught:
            check_output(path)
        assert caught.value.exit_code == code, path
    assert sorted(os.listdir(tmp_path)) == ["dir.wav", "file", "old.wav"]


def test_existing_file_passes_with_overwrite(tmp_path: Path) -> None:
    (tmp_path / "old.wav").write_bytes(b"old")
    check_output(tmp_path / "old.wav", overwrite=True)
    assert (tmp_path / "old.wav").read_bytes() == b"old"


def test_special_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.wav")
    with pytest.raises(OutputError, match=r"not a regular file.*-o -"):
        check_output(tmp_path / "a.wav", overwrite=True)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc")
def test_unwritable_folder_is_found_even_as_root() -> None:
    with pytest.raises(OutputError, match=r"cannot write /proc/self/a\.wav"):
        check_output("/proc/self/a.wav")


@pytest.fixture
def as_user() -> Iterator[None]:
    """Nobody's rights for a moment, where root runs the tests: root may write everywhere."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(own)


@pytest.mark.usefixtures("as_user")
def test_folder_without_write_permission_is_found() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        Path(name).chmod(0o500)
        with pytest.raises(OutputError, match="permission denied"):
            check_output(Path(name) / "a.wav")
        Path(name).chmod(0o700)


def test_read_only_file_system_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(files, "create", refuse)
    with pytest.raises(OutputError, match="read-only"):
        check_output(tmp_path / "a.wav")


@pytest.mark.usefixtures("ffmpeg")
def test_ffmpeg_is_found_on_the_search_path() -> None:
    assert shutil.which("ffmpeg")
    assert check_output("a.m4a").encoder == "ffmpeg"
