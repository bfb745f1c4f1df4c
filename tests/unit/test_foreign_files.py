"""Files from elsewhere that no program of ours wrote: each ends in one message, at once."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import platformdirs
import pytest

from voxcli.bench.report import load_report
from voxcli.config import UserSettings, load_settings
from voxcli.errors import CheckpointError, UsageError, VoiceFileError, VoxError
from voxcli.hub.checkpoint import check_file, inspect_checkpoint
from voxcli.models.settings import MAX_BYTES, read_json
from voxcli.voices.file import MAX_FILE_BYTES, read_voice
from voxcli.voices.store import VoiceStore

DEEP = {"toml": "a = " + "[" * 5000 + "]" * 5000, "json": "[" * 5000 + "]" * 5000}


# ---------------------------------------------------------------- the config file


def read_config(path: Path, data: bytes) -> object:
    path.write_bytes(data)
    return load_settings({"VOXCLI_CONFIG": str(path)})


def test_a_config_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    data = 'model = "łódź"\n'.encode()
    plain = read_config(tmp_path / "config.toml", data)
    assert read_config(tmp_path / "config.toml", b"\xef\xbb\xbf" + data) == plain


@pytest.mark.parametrize(
    "text",
    [
        DEEP["toml"], "a = " + "{b = " * 5000, "[" + "a." * 5000 + "b]", "model = [[[", "\ufffe",
        "threads = 1" + "0" * 5000, "threads = nan", 'model = "\\ud800"', "model = 1979-05-27",
    ],
)  # fmt: skip
def test_a_config_file_that_is_none_is_a_message(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"config\.toml"):
        read_config(tmp_path / "config.toml", text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("kind", ["pipe", "folder", "dead link", "huge"])
def test_what_stands_in_the_place_of_the_config_file_is_told_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_named: bool
) -> None:
    path = tmp_path / "voxcli" / "config.toml"
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "dead link":
        path.symlink_to("nowhere")
    else:
        path.touch()
        os.truncate(path, 3 << 30)
    monkeypatch.setattr(platformdirs, "user_config_path", lambda *_, **__: path.parent)
    with pytest.raises(UsageError, match=r"config\.toml"):
        load_settings({"VOXCLI_CONFIG": str(path)} if is_named else {})


def test_no_config_file_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_config_path", lambda *_, **__: tmp_path / "none")
    assert load_settings({}) == UserSettings()


# ---------------------------------------------------------------- a checkpoint's JSON


@pytest.mark.parametrize(
    "data",
    [
        DEEP["json"].encode(), b'{"a":' * 5000, b"", b"\0", b"\xff\xfe{\0}\0", b"[1]", b"1" * 5000,
        b'{"a": 1', b'{"a": ' + b"1" * 5000 + b"}", b"null",
    ],
)  # fmt: skip
def test_a_file_that_holds_no_json_object_is_a_message(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "config.json").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        inspect_checkpoint(tmp_path)


def test_json_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "a.json") == {"a": 1}


def test_a_pipe_or_a_huge_file_in_the_place_of_json_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="not a regular file"):
        inspect_checkpoint(tmp_path)
    (tmp_path / "huge.json").touch()
    os.truncate(tmp_path / "huge.json", MAX_BYTES + 1)
    with pytest.raises(CheckpointError, match=r"huge\.json cannot be read: it has 67 MB"):
        read_json(tmp_path / "huge.json")


@pytest.mark.parametrize(
    "header",
    [
        DEEP["json"], "[]", "7", '{"a": 7}', '{"a": {}}', '{"a": {"dtype": "F32", "shape": 3}}',
        '{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        '{"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 4]}}',
        '{"a": {"dtype": "F32", "shape": [1], "data_offsets": ["0", 4]}}',
        '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4]}}',
        '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 1e99]}}',
    ],
)  # fmt: skip
def test_a_wrong_header_of_weights_is_a_message(tmp_path: Path, header: str) -> None:
    data = header.encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(data)) + data)
    with pytest.raises(CheckpointError, match=r"a\.safetensors is not a safetensors file"):
        check_file(tmp_path / "a.safetensors")


# ---------------------------------------------------------------- reports and voices


def test_a_deep_report_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(DEEP["json"])
    with pytest.raises(UsageError, match=r"a\.json cannot be read"):
        load_report(tmp_path / "a.json")


def test_a_store_with_pipes_folders_and_huge_files_hangs_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "nowhere.safetensors").symlink_to(tmp_path / "none")
    (tmp_path / "zero.safetensors").symlink_to("/dev/zero")
    (tmp_path / "huge.safetensors").touch()
    os.truncate(tmp_path / "huge.safetensors", MAX_FILE_BYTES + 1)
    store = VoiceStore(tmp_path)
    assert len(store.names()) == 5
    for name in store.names():
        with pytest.raises(VoiceFileError, match=name):
            store.find(name)
        with pytest.raises(VoxError, match=name):
            store.export(name, tmp_path / "out")
    assert store.remove("pipe").name == "pipe.safetensors"


def test_a_deep_voice_is_damaged(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    from voxcli.voices.file import _digest

    metadata = {"format": "voxcli-voice", "version": "2", "voice": DEEP["json"]}
    metadata["sha256"] = _digest(metadata["voice"], {})
    save_file({}, tmp_path / "deep.safetensors", metadata)
    with pytest.raises(VoiceFileError, match="damaged"):
        read_voice(tmp_path / "deep.safetensors")
