"""Finding models: damaged or foreign folders are refused by file name, before torch, offline."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from needs import PATIENCE_S

from voxcli.config import EngineConfig
from voxcli.engine.choose import open_engine
from voxcli.errors import EXIT_MODEL, CheckpointError, ModelError, ModelNotFoundError
from voxcli.hub import catalog, download
from voxcli.hub import files as hub
from voxcli.hub.catalog import AssetFile
from voxcli.hub.checkpoint import inspect_checkpoint
from voxcli.models import family_named
from voxcli.models.base import ModelFacts, ModelFamily
from voxcli.parameters import settle
from voxcli.utterance import Mode

LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4580080592\n"


def safetensors_bytes(shape: tuple[int, ...] = (16, 32)) -> bytes:
    """A valid file with one fp32 tensor of zeros, made without the library."""
    size = 4 * shape[0] * shape[1]
    tensor = {"dtype": "F32", "shape": list(shape), "data_offsets": [0, size]}
    header = json.dumps({"__metadata__": {"format": "pt"}, "weight": tensor}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint that passes every check."""
    path = tmp_path / "checkpoint"
    path.mkdir()
    (path / "config.json").write_text('{"architecture": "voxcpm2"}')
    (path / "tokenizer.json").write_text("{}")
    (path / "model.safetensors").write_bytes(safetensors_bytes())
    (path / "audiovae.safetensors").write_bytes(safetensors_bytes())
    return path


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test of this file fails if it opens a socket."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


def cache_snapshot(cache: Path, name: str, revision: str, source: Path) -> Path:
    """Put files where huggingface_hub keeps a downloaded model."""
    repo = cache / f"models--{name.replace('/', '--')}"
    snapshot = repo / "snapshots" / revision
    shutil.copytree(source, snapshot)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(revision)
    return snapshot


# A folder


def test_a_complete_folder_resolves(folder: Path) -> None:
    model = hub.resolve_model(str(folder))
    assert model.folder == folder
    assert model.family.name == "voxcpm2"
    assert model.names == (
        "config.json", "model.safetensors", "audiovae.safetensors", "tokenizer.json",
    )  # fmt: skip
    assert model.files == tuple(folder / name for name in model.names)
    assert model.checkpoint.num_parameters == 2 * 16 * 32
    assert model.settings == catalog.ModelSettings()


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"no folder .*gone") as caught:
        hub.resolve_model(str(tmp_path / "gone"))
    assert caught.value.exit_code == EXIT_MODEL


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "audiovae.safetensors", "tokenizer.json"]
)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name}.* is missing"):
        hub.resolve_model(str(folder))


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "audiovae.safetensors", "tokenizer.json"]
)
def test_a_git_lfs_pointer_is_named(folder: Path, name: str) -> None:
    (folder / name).write_text(LFS_POINTER)
    with pytest.raises(CheckpointError, match=f"{name} is a Git-LFS pointer.*git lfs pull"):
        hub.resolve_model(str(folder))


@pytest.mark.parametrize("kept", [0.9, 0.05, 0.001, 0.0])
def test_a_cut_safetensors_file_is_named(folder: Path, kept: float) -> None:
    whole = safetensors_bytes()
    (folder / "model.safetensors").write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is "):
        hub.resolve_model(str(folder))


def test_a_cut_file_tells_both_sizes(folder: Path) -> None:
    whole = safetensors_bytes((256, 256))
    (folder / "model.safetensors").write_bytes(whole[: len(whole) * 9 // 10])
    with pytest.raises(CheckpointError, match=f"cut short: .*its header says {len(whole):,}"):
        hub.resolve_model(str(folder))


def test_a_safetensors_file_with_rubbish_behind_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(safetensors_bytes() + b"more")
    with pytest.raises(CheckpointError, match="too long"):
        hub.resolve_model(str(folder))


@pytest.mark.parametrize("content", ["", "{", "[]", '"text"', "\udcff"])
def test_a_config_that_is_no_json_object_is_named(folder: Path, content: str) -> None:
    (folder / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match=r"config\.json"):
        hub.resolve_model(str(folder))


@pytest.mark.parametrize("architecture", ["llama", "voxcpm", "qwen3_tts", 7])
def test_a_foreign_architecture_is_named(folder: Path, architecture: object) -> None:
    (folder / "config.json").write_text(json.dumps({"architecture": architecture}))
    with pytest.raises(CheckpointError, match=rf"config\.json: architecture '{architecture}'"):
        hub.resolve_model(str(folder))


def test_pickled_weights_are_taken_when_there_are_no_others(folder: Path) -> None:
    (folder / "audiovae.safetensors").unlink()
    with zipfile.ZipFile(folder / "audiovae.pth", "w") as archive:
        archive.writestr("archive/data.pkl", bytes(1000))
    assert inspect_checkpoint(folder).parts["vae"].name == "audiovae.pth"


def test_cut_pickled_weights_are_named(folder: Path) -> None:
    (folder / "audiovae.safetensors").unlink()
    with zipfile.ZipFile(folder / "audiovae.pth", "w") as archive:
        archive.writestr("archive/data.pkl", bytes(1000))
    whole = (folder / "audiovae.pth").read_bytes()
    (folder / "audiovae.pth").write_bytes(whole[: len(whole) * 9 // 10])
    with pytest.raises(CheckpointError, match=r"audiovae\.pth is cut short"):
        hub.resolve_model(str(folder))


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({}, "architecture or model_type 'voxcpm'"),
        ({"architecture": "LLaMA"}, "architecture 'llama'"),
        ({"model_type": "vits"}, "model_type 'vits'"),
        ({"model_type": ["a\n" * 100]}, r"model_type .{70,90}"),
    ],
)
def test_a_config_of_no_family_is_named_as_well_as_can_be(
    folder: Path, config: dict[str, str], name: str
) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=f"{name} is not supported") as caught:
        hub.resolve_model(str(folder))
    assert caught.value.hint == "supported: qwen3_tts, voxcpm2"


# A family with two files of one base name


class TwoConfigs(ModelFamily):
    """Codes of a tokenizer that is a checkpoint of its own."""

    name = "two"
    parameters = family_named("voxcpm2").parameters
    parts = {  # noqa: RUF012
        "weights": ("model.safetensors",),
        "codec_config": ("speech_tokenizer/config.json",),
        "codec": ("speech_tokenizer/model.safetensors",),
    }
    extras = ("speech_tokenizer/*.txt",)
    encoder_parts = ("config.json", "codec_config", "codec")

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return config.get("model_type") == "two"

    def facts(self, folder: Path, config: Mapping[str, Any]) -> ModelFacts:
        return ModelFacts(self.name, 24_000, 24_000, languages=("de",))

    def can_say(self, folder: Path) -> Any: ...
    def graph_key(self, parameters: Any) -> Any: ...
    def load(self, *args: Any, **options: Any) -> Any: ...
    def load_shapes(self, *args: Any) -> Any: ...
    def load_random(self, *args: Any, **options: Any) -> Any: ...


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("voxcli.models.FAMILIES", [family_named("voxcpm2"), TwoConfigs()])
    path = tmp_path / "two"
    (path / "speech_tokenizer").mkdir(parents=True)
    (path / "config.json").write_text('{"model_type": "two"}')
    (path / "model.safetensors").write_bytes(safetensors_bytes())
    (path / "speech_tokenizer" / "config.json").write_text('{"model_type": "codec"}')
    (path / "speech_tokenizer" / "model.safetensors").write_bytes(safetensors_bytes((3, 5)))
    return path


def test_two_files_of_one_base_name_are_found(two: Path) -> None:
    model = hub.resolve_model(str(two))
    assert model.names == (
        "config.json", "model.safetensors", "speech_tokenizer/config.json",
        "speech_tokenizer/model.safetensors",
    )  # fmt: skip
    assert model.facts.languages == ("de",)
    assert model.checkpoint.num_parameters == 16 * 32 + 3 * 5
    for name in model.names[1:]:
        (two / name).rename(two / "away")
        with pytest.raises(CheckpointError, match=f"{two / name} is missing"):
            hub.resolve_model(str(two))
        (two / "away").rename(two / name)


def test_two_files_of_one_base_name_are_verified_apart(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "speech_tokenizer/config.json"
    model = hub.resolve_model(str(two))
    assert [check.name for check in hub.verify_model(model)] == list(model.names)
    assets = tuple(
        AssetFile(each, (two / each).stat().st_size, hub.file_sha256(two / each))
        for each in model.names
    )
    known = catalog.KnownModel(
        "some/two", "two", "MIT", "two", 24_000, ("fr",), catalog.ModelSettings(), assets,
        revision="abc123", modes=(Mode.REFERENCE,),
    )  # fmt: skip
    monkeypatch.setattr(hub, "known_models", lambda: {known.name: known})
    snapshot = cache_snapshot(tmp_path / "hub", known.name, "abc123", two)
    model = hub.resolve_model(known.name, cache_dir=tmp_path / "hub")
    assert (model.facts.languages, model.facts.modes) == (("fr",), (Mode.REFERENCE,))
    assert all(check.is_ok for check in hub.verify_model(model))
    (snapshot / name).write_text('{"model_type": "c0dec"}')
    assert [check.name for check in hub.verify_model(model) if not check.is_ok] == [name]
    (snapshot / name).write_text("{}")
    with pytest.raises(CheckpointError, match=f"{name}: 2 bytes, should be"):
        hub.resolve_model(known.name, cache_dir=tmp_path / "hub")


def test_every_file_of_one_base_name_counts_in_the_checksums(two: Path) -> None:
    model = hub.resolve_model(str(two))
    whole, encoder = hub.model_checksum(model), hub.encoder_checksum(model)
    contents = [(two / name).read_bytes() for name in model.names]
    for name, content in zip(model.names, contents, strict=True):
        (two / name).write_bytes(content + b" ")
        assert hub.model_checksum(model) != whole
        assert (hub.encoder_checksum(model) != encoder) == (name != "model.safetensors")
        (two / name).write_bytes(content)
    assert (hub.model_checksum(model), hub.encoder_checksum(model)) == (whole, encoder)


def test_the_checksums_of_the_bundled_voice_are_those_of_kept_profiles_and_folders() -> None:
    model = hub.resolve_model("mini")
    by_name = {file.name: file.sha256 for file in catalog.known_models()["mini"].files}
    hashes = bytes.fromhex(by_name["config.json"] + by_name["audiovae.safetensors"])
    assert hub.encoder_checksum(model) == hashlib.sha256(hashes).hexdigest()
    assert hub.model_checksum(model) == hub.joint_checksum({n: by_name[n] for n in model.names})


def test_finding_a_model_imports_no_torch() -> None:
    program = (
        "import sys, voxcli.hub as hub; model = hub.resolve_model('mini'); model.facts; "
        "hub.encoder_checksum(model); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


# Names


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("minni", "did you mean 'mini'?"),
        ("VoxCPM2", "did you mean 'openbmb/VoxCPM2'?"),
        ("openbmb/voxcpm2", "did you mean 'openbmb/VoxCPM2'?"),
        ("zzz", "see 'voxcli models list'"),
        ("openbmb/VoxCPM2", "run 'voxcli models pull openbmb/VoxCPM2'"),
        ("someone/their-voice", "run 'voxcli models pull someone/their-voice'"),
    ],
)
def test_a_name_that_is_not_here_gets_advice(name: str, advice: str, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        hub.resolve_model(name, cache_dir=tmp_path)
    assert name in caught.value.message
    assert advice in str(caught.value.hint)


@pytest.mark.parametrize(
    "name", ["", " ", "..", "../../x/y", "a/b/c", "a//b", "/", "~no-such-user/x"]
)
def test_an_odd_name_is_refused_without_a_crash(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        hub.resolve_model(name, cache_dir=tmp_path)


# The bundled voice


def test_the_bundled_voice_is_whole() -> None:
    model = hub.resolve_model("mini")
    assert model.settings.parameters == {"steps": 6, "guidance_scale": 1.0}
    assert model.settings.clone_parameters == {"guidance_scale": 1.75}
    assert model.facts.languages == ("en",)
    assert Mode.STYLE not in model.facts.modes
    assert model.settings.max_chars == 120
    assert all(check.is_ok for check in hub.verify_model(model))


def test_the_manifest_names_every_bundled_file() -> None:
    names = {path.name for path in catalog.bundled_folder().iterdir()}
    listed = {file.name for file in catalog.known_models()["mini"].files}
    assert names == listed | {catalog.MANIFEST_NAME}


@pytest.mark.parametrize("known", catalog.known_models().values(), ids=lambda known: known.name)
def test_a_row_of_the_table_fits_its_family(known: catalog.KnownModel) -> None:
    family, best = family_named(known.family), known.settings
    settle(known.name, family.declaration, best.parameters, best.clone_parameters)
    names = {file.name for file in known.files}
    for choices in family.parts.values():
        assert names & set(choices)


def test_the_table_says_of_voxcpm2_what_it_said() -> None:
    known = catalog.known_models()["openbmb/VoxCPM2"]
    assert (len(known.languages), known.languages[:3], known.size) == (
        30, ("ar", "my", "zh"), 4_960_719_513,
    )  # fmt: skip
    assert known.modes == tuple(Mode)
    assert known.settings.parameters == {"steps": 10, "guidance_scale": 2.0}


@pytest.fixture
def damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Gives a file of the bundled voice a wrong bit; returns what has to be said of it."""

    def change(name: str) -> str:
        damaged = tmp_path / "mini"
        damaged.mkdir()
        for path in catalog.bundled_folder().iterdir():
            (damaged / path.name).symlink_to(path)
        content = bytearray((damaged / name).read_bytes())
        content[-100] ^= 1
        (damaged / name).unlink()
        (damaged / name).write_bytes(content)
        monkeypatch.setattr(hub, "bundled_folder", lambda: damaged)
        return rf"{re.escape(name)}: sha256 is .*reinstall voxcli"

    return change


@pytest.mark.parametrize("is_hashed_beside", [False, True])
@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_a_damaged_bundled_file_is_named(
    damage: Callable[[str], str], name: str, is_hashed_beside: bool
) -> None:
    message = damage(name)
    with pytest.raises(CheckpointError, match=message):
        hub.resolve_model("mini", is_hashed_beside=is_hashed_beside).require_whole()


def test_no_engine_starts_over_damaged_weights(damage: Callable[[str], str]) -> None:
    message = damage("audiovae.safetensors")
    engine = open_engine("native", EngineConfig(model="mini", device="cpu"))
    with pytest.raises(CheckpointError, match=message):
        engine.start()


# The hub cache


def test_a_downloaded_model_resolves_without_a_socket(folder: Path, tmp_path: Path) -> None:
    snapshot = cache_snapshot(tmp_path / "hub", "someone/voice", "abc123", folder)
    model = hub.resolve_model("someone/voice", cache_dir=tmp_path / "hub")
    assert (model.folder, model.revision) == (snapshot, "abc123")
    assert model == hub.resolve_model(
        "someone/voice", revision="abc123", offline=True, cache_dir=tmp_path / "hub"
    )


def test_a_known_model_with_an_interrupted_download_says_how_to_go_on(
    folder: Path, tmp_path: Path
) -> None:
    revision = str(catalog.known_models()["openbmb/VoxCPM2"].revision)
    cache_snapshot(tmp_path / "hub", "openbmb/VoxCPM2", revision, folder)
    with pytest.raises(CheckpointError, match="run 'voxcli models pull openbmb/VoxCPM2'"):
        hub.resolve_model("openbmb/VoxCPM2", cache_dir=tmp_path / "hub")


def test_large_files_of_the_cache_are_verified_by_the_name_of_their_blob(
    folder: Path, tmp_path: Path
) -> None:
    snapshot = cache_snapshot(tmp_path / "hub", "someone/voice", "abc123", folder)
    content = (snapshot / "model.safetensors").read_bytes()
    blob = tmp_path / "hub" / hashlib.sha256(content).hexdigest()
    (snapshot / "model.safetensors").rename(blob)
    (snapshot / "model.safetensors").symlink_to(blob)
    model = hub.resolve_model("someone/voice", cache_dir=tmp_path / "hub")
    assert {c.name: c.detail for c in hub.verify_model(model)}["model.safetensors"] == "sha256 ok"
    blob.write_bytes(content[:-1] + b"\x01")
    assert [c.name for c in hub.verify_model(model) if not c.is_ok] == ["model.safetensors"]


def test_verify_names_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"voice")
    right = AssetFile("a", 5, hashlib.sha256(b"voice").hexdigest())
    assert hub.verify_file(tmp_path / "a", right).detail == "sha256 ok"
    longer = AssetFile("a", 6, right.sha256)
    assert hub.verify_file(tmp_path / "a", longer).detail == "5 bytes, should be 6"
    assert not hub.verify_file(tmp_path / "a", AssetFile("a", 5, "0" * 64)).is_ok
    assert hub.verify_file(tmp_path / "b", right).detail == "missing"


# Downloads


def test_an_offline_pull_opens_no_socket(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="when there is a network"):
        hub.pull_model("openbmb/VoxCPM2", offline=True, cache_dir=tmp_path)


@pytest.mark.parametrize("name", ["mini", "nobody-knows-this"])
def test_only_hub_models_are_downloaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "download", None)
    if name == "mini":
        assert hub.pull_model(name).name == "mini"
    else:
        with pytest.raises(ModelNotFoundError):
            hub.pull_model(name)


def test_a_pull_asks_for_the_pinned_files_and_resolves_them(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    were_hidden = download.are_progress_bars_disabled()

    monkeypatch.setattr(download.HfApi, "model_info", lambda *args, **options: None)

    def fake_download(name: str, **options: Any) -> None:
        asked.update(options, name=name)
        cache_snapshot(tmp_path / "hub", name, options["revision"] or "abc123", folder)

    monkeypatch.setattr(download, "snapshot_download", fake_download)
    assert hub.pull_model("someone/voice", cache_dir=tmp_path / "hub").revision == "abc123"
    assert set(asked["allow_patterns"]) >= {
        "config.json", "model.safetensors", "pytorch_model.bin", "audiovae.safetensors",
        "audiovae.pth", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
        "vocab.json", "merges.txt", "speech_tokenizer/model.safetensors",
    }  # fmt: skip
    assert download.are_progress_bars_disabled() == were_hidden
    with pytest.raises(CheckpointError, match=r"config\.json: .* should be 4,336"):
        hub.pull_model("openbmb/VoxCPM2", cache_dir=tmp_path / "hub")
    assert asked["revision"] == catalog.known_models()["openbmb/VoxCPM2"].revision


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionError("no route"), "cannot reach the hub"),
        (OSError(28, "No space left on device"), "broke off.*no space left"),
    ],
)
def test_a_failed_download_is_explained(
    error: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(download.HfApi, "model_info", fail)
    with pytest.raises(ModelError, match=message) as caught:
        hub.pull_model("someone/voice", cache_dir=tmp_path)
    assert caught.value.exit_code == EXIT_MODEL
    assert "resumes" in str(caught.value.hint)


def test_a_bug_in_a_download_keeps_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise KeyError("bug")

    monkeypatch.setattr(download.HfApi, "model_info", fail)
    with pytest.raises(KeyError):
        hub.pull_model("someone/voice", cache_dir=tmp_path)
