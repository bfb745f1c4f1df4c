"""The machine as it is: encodings of streams, names taken meanwhile, outputs that are no files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from needs import PATIENCE_S

from voxcli.errors import EXIT_OUTPUT, EXIT_USAGE

VOXCLI = [sys.executable, "-m", "voxcli"]
TEXT = "Łódź is a city – ça, 東京 and 🙂."
ENCODINGS = [
    {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "cp1252"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]  # fmt: skip
MORE_ENCODINGS = [
    {"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "shift_jis"},
    {"PYTHONIOENCODING": "ascii:strict"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
]  # fmt: skip


def run(
    words: Sequence[str | Path], folder: Path, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    settings = {"XDG_DATA_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder / "config")}
    return subprocess.run(
        [*VOXCLI, *words], cwd=folder, env=os.environ | settings | (environ or {}),
        capture_output=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def ids(environ: dict[str, str]) -> str:
    return " ".join(environ.values())


# ---------------------------------------------------------------- encodings


@pytest.mark.parametrize(
    "environ",
    [*ENCODINGS, *(pytest.param(each, marks=pytest.mark.long) for each in MORE_ENCODINGS)],
    ids=ids,
)
def test_no_encoding_of_a_stream_makes_a_command_fail(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    (tmp_path / "table.csv").write_text(f'text,output\n"{TEXT}",łódź.wav\n', "utf-8")
    commands: list[tuple[list[str], int]] = [
        (["speak", "--file", "text.txt", "--dry-run", "--show-text"], 0),
        (["speak", "--file", "text.txt", "--dry-run", "--json"], 0),
        (["batch", "table.csv", "-o", "out", "--dry-run"], 0),
        (["batch", "table.csv", "-o", "out", "--dry-run", "--json"], 0),
        (["speak", "--help"], 0),
        (["batch", "--help"], 0),
        (["voices", "list"], 0),
        (["models", "info", "mini"], 0),
        (["speak", "hello", "--voice", "zoë"], EXIT_USAGE),
        (["speak", "hello", "--voice", "zoë", "--json"], EXIT_USAGE),
        (["łódź"], EXIT_USAGE),
        (["speak", "--language", "łódź", "hello"], EXIT_USAGE),
    ]
    if environ is ENCODINGS[0]:  # it imports torch
        commands.append((["--verbose", "doctor"], 0))
    is_ascii = environ.get("PYTHONUTF8") == "0"  # and so are file names
    for words, code in commands:
        done = run(words, tmp_path, environ)
        if is_ascii and words[0] == "batch" and code == 0 and "-o" in words:
            shown = b"is not a valid file name here" in done.stderr
            assert (done.returncode, shown) == (EXIT_USAGE, True)
            continue
        assert b"Traceback" not in done.stderr, (words, done.stderr)
        assert done.returncode == code, (words, done.stderr)
        if "--json" in words:
            json.loads(done.stdout)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_json_says_the_same_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    words = ["speak", "--file", "text.txt", "--dry-run", "--json", "--seed", "1"]
    done = run(words, tmp_path, {"PYTHONIOENCODING": encoding})
    assert json.loads(done.stdout) == json.loads(run(words, tmp_path).stdout)


def test_a_path_that_stdout_cannot_show_is_written_and_shown_escaped(tmp_path: Path) -> None:
    words = ["speak", "Hello there.", "-q", "-o", "łódź.wav"]
    done = run(words, tmp_path, {"PYTHONIOENCODING": "cp1252"})
    assert (done.returncode, done.stdout) == (
        0,
        rb"\u0142\xf3d\u017a.wav".replace(rb"\xf3", b"\xf3") + b"\n",
    )
    assert (tmp_path / "łódź.wav").is_file()


def test_a_name_made_from_a_text_fits_the_file_systems_encoding(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Łódź.", "utf-8")
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run(["speak", "--file", "text.txt", "-q", "--device", "cpu"], tmp_path, environ)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.wav"))) == 1


# ---------------------------------------------------------------- chosen names


def test_two_at_once_that_choose_the_same_name_both_keep_their_speech(tmp_path: Path) -> None:
    words = ["speak", "The tide turns at nine.", "-q", "--json", "--threads", "1"]
    both = [
        subprocess.Popen([*VOXCLI, *words], cwd=tmp_path, stdout=subprocess.PIPE) for _ in range(2)
    ]
    paths = {json.loads(each.communicate()[0])["path"] for each in both}
    assert paths == {"the-tide-turns-at-nine.wav", "the-tide-turns-at-nine-2.wav"}
    assert all((tmp_path / path).stat().st_size > 10_000 for path in paths)


# ---------------------------------------------------------------- outputs that are no files


@pytest.mark.parametrize("more", [[], ["--overwrite"]], ids=["", "overwrite"])
def test_an_output_that_is_no_regular_file_is_sent_to_stdout(
    more: list[str], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.wav")
    (tmp_path / "link.wav").symlink_to("/dev/null")
    for name in ("/dev/stdout", "/dev/null", "/dev/stderr", "pipe", "pipe.wav", "link.wav"):
        done = run(["speak", "Hello.", "-o", name, *more], tmp_path)
        assert done.returncode == EXIT_OUTPUT, done.stderr
        assert b"not a regular file" in done.stderr
        assert b"-o -" in done.stderr
    assert Path("/dev/null").is_char_device()
    assert (tmp_path / "pipe").is_fifo()


def test_a_process_substitution_is_sent_to_stdout(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [*VOXCLI, "speak", "Hello.", "-o", f"/dev/fd/{writing}"], cwd=tmp_path,
            pass_fds=[writing], capture_output=True, check=False,
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == EXIT_OUTPUT
    assert b"-o -" in done.stderr


def test_stdout_that_is_a_file_is_no_name_for_an_output(tmp_path: Path) -> None:
    with (tmp_path / "out.wav").open("wb") as file:
        words = [*VOXCLI, "speak", "Hello.", "-o", "/dev/stdout"]
        done = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, check=False)
    assert done.returncode == EXIT_OUTPUT
    assert b"-o -" in done.stderr


def test_a_voice_is_not_exported_over_a_device(tmp_path: Path) -> None:
    from voxcli.audio.files import publish
    from voxcli.errors import OutputError

    (tmp_path / "new").write_text("new")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="not a regular file"):
        publish(tmp_path / "new", tmp_path / "pipe", overwrite=True)
    assert (tmp_path / "pipe").is_fifo()


# ---------------------------------------------------------------- an end by a signal


def _wait_for(path: Path) -> str:
    for _ in range(int(PATIENCE_S / 0.02)):
        if path.exists() and (said := path.read_text("utf-8").strip()):
            return said
        time.sleep(0.02)
    raise AssertionError(f"{path} was never written")


def _is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_was_started_and_temporary_files_end_with_the_command(
    tmp_path: Path, number: int
) -> None:
    """The stand-in for ffmpeg says who it is, and then nothing, for as long as it lives."""
    tools, temporary = tmp_path / "tools", tmp_path / "tmp"
    tools.mkdir()
    temporary.mkdir()
    for name in ("ffmpeg", "ffprobe"):
        (tools / name).write_text(f"#!/bin/sh\necho $$ > '{tmp_path}/pid'\nexec sleep 600\n")
        (tools / name).chmod(0o755)
    (tmp_path / "voice.m4a").write_bytes(b"\0\0\0\x18ftypM4A \0\0\0\0" + bytes(5000))
    words = ["voices", "add", "zoe", "--ref", "voice.m4a", "--consent", "mine"]
    environ = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(temporary),
        "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }  # fmt: skip
    with subprocess.Popen(
        [*VOXCLI, *words], cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            pid = int(_wait_for(tmp_path / "pid"))
            process.send_signal(number)
            said = process.communicate(timeout=PATIENCE_S)[1]
        finally:
            process.kill()
    assert not _is_there(pid)
    assert list(temporary.iterdir()) == []
    ended = {signal.SIGTERM: (-number, ""), signal.SIGINT: (130, "voxcli: interrupted\n")}
    assert (process.returncode, said) == ended[signal.Signals(number)]
