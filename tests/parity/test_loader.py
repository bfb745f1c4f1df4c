"""A damaged or foreign checkpoint is refused by name; every official file variant loads alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from checkpoints import (
    TINY,
    VAE_PREFIX,
    Files,
    write_random_checkpoint,
    write_settings,
    write_weights,
)

from voxcli.errors import CheckpointError
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import VoxCPM2

SOME_WEIGHTS = [
    "base_lm.embed_tokens.weight",
    "residual_lm.layers.1.self_attn.k_proj.weight",
    "feat_encoder.special_token",
    "feat_decoder.estimator.time_mlp.linear_2.bias",
    "stop_head.weight",
    "audio_vae.encoder.fc_logvar.weight_g",
    "audio_vae.decoder.model.3.block.2.block.1.weight_v",
    "audio_vae.decoder.sr_cond_model.2.bias_embed.weight",
]


def load_cpu(folder: Path) -> VoxCPM2:
    return load(folder, torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    return write_random_checkpoint(tmp_path_factory.mktemp("weights"), TINY, seed=1)


@pytest.fixture
def tensors(weights: dict[str, torch.Tensor], tmp_path: Path) -> dict[str, torch.Tensor]:
    """The weights of a good checkpoint that is already in `tmp_path`, to write changed ones."""
    write_settings(tmp_path, TINY)
    write_weights(tmp_path, weights, "safetensors")
    return dict(weights)


@pytest.fixture
def pickled(weights: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """A good checkpoint of pickle files in `tmp_path`."""
    write_settings(tmp_path, TINY)
    write_weights(tmp_path, weights, "pickle")


@pytest.mark.parametrize("name", SOME_WEIGHTS)
def test_a_missing_weight_is_named(
    tmp_path: Path, tensors: dict[str, torch.Tensor], name: str
) -> None:
    del tensors[name]
    write_weights(tmp_path, tensors, "safetensors")
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        load_cpu(tmp_path)


@pytest.mark.parametrize("name", SOME_WEIGHTS)
def test_a_weight_of_another_shape_is_named_with_both_shapes(
    tmp_path: Path, tensors: dict[str, torch.Tensor], name: str
) -> None:
    tensors[name] = torch.zeros(3, 1)
    write_weights(tmp_path, tensors, "safetensors")
    with pytest.raises(CheckpointError) as caught:
        load_cpu(tmp_path)
    assert name in str(caught.value)
    assert "[3, 1]" in str(caught.value)


@pytest.mark.parametrize("name", ["base_lm.layers.3.mlp.up_proj.weight", f"{VAE_PREFIX}extra"])
def test_a_weight_nobody_asked_for_is_named(
    tmp_path: Path, tensors: dict[str, torch.Tensor], name: str
) -> None:
    tensors[name] = torch.zeros(1)
    write_weights(tmp_path, tensors, "safetensors")
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        load_cpu(tmp_path)


@pytest.mark.usefixtures("tensors")
@pytest.mark.parametrize("file", ["model.safetensors", "audiovae.safetensors"])
@pytest.mark.parametrize("left", [0, 5, 100, -1])
def test_a_truncated_safetensors_file_is_named(tmp_path: Path, file: str, left: int) -> None:
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[:left])
    with pytest.raises(CheckpointError, match=file):
        load_cpu(tmp_path)


@pytest.mark.usefixtures("pickled")
@pytest.mark.parametrize("file", ["pytorch_model.bin", "audiovae.pth"])
@pytest.mark.parametrize("left", [0, 5, 100, -1000])
def test_a_truncated_pickle_file_is_named(tmp_path: Path, file: str, left: int) -> None:
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[:left])
    with pytest.raises(CheckpointError, match=file):
        load_cpu(tmp_path)


@pytest.mark.usefixtures("pickled")
@pytest.mark.parametrize("file", ["pytorch_model.bin", "audiovae.pth"])
@pytest.mark.parametrize("content", [[1, 2], {"state_dict": 3}, {"x": "text"}, 5], ids=repr)
def test_a_pickle_file_that_holds_no_weights_is_named(
    tmp_path: Path, file: str, content: object
) -> None:
    torch.save(content, tmp_path / file)
    with pytest.raises(CheckpointError, match=file):
        load_cpu(tmp_path)


@pytest.mark.usefixtures("pickled")
def test_a_pickle_file_runs_no_code(tmp_path: Path) -> None:
    torch.save({"x": Touch(tmp_path / "touched")}, tmp_path / "audiovae.pth")
    with pytest.raises(CheckpointError, match=r"audiovae\.pth"):
        load_cpu(tmp_path)
    assert not (tmp_path / "touched").exists()


class Touch:
    """Unpickles by making a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.mark.usefixtures("tensors")
@pytest.mark.parametrize(
    ("file", "other"),
    [("model.safetensors", "pytorch_model.bin"), ("audiovae.safetensors", "audiovae.pth")],
)
def test_without_either_weight_file_both_are_named(tmp_path: Path, file: str, other: str) -> None:
    (tmp_path / file).unlink()
    with pytest.raises(CheckpointError) as caught:
        load_cpu(tmp_path)
    assert file in str(caught.value)
    assert other in str(caught.value)


@pytest.mark.usefixtures("tensors")
@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b"\xff\xfe"], ids=repr)
def test_a_missing_or_damaged_json_file_is_named(
    tmp_path: Path, file: str, content: bytes | None
) -> None:
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(CheckpointError, match=file.replace(".", r"\.")):
        load_cpu(tmp_path)


@pytest.mark.usefixtures("tensors")
@pytest.mark.parametrize(
    ("block", "key"),
    [("lm_config", None), ("lm_config", "hidden_size"), ("lm_config", "rope_scaling")],
)
def test_a_missing_setting_is_named(tmp_path: Path, block: str, key: str | None) -> None:
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    del (config[block] if key else config)[key or block]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CheckpointError, match=key or block):
        load_cpu(tmp_path)


@pytest.mark.parametrize("files", ["pickle", "pickle-nested"])
def test_pickle_files_load_equal_to_safetensors(tmp_path: Path, files: Files) -> None:
    write_random_checkpoint(tmp_path / "a", TINY)
    write_random_checkpoint(tmp_path / "b", TINY, files=files)
    prompt_text = "The birch canoe"
    hidden = []
    with torch.inference_mode():
        for folder in (tmp_path / "a", tmp_path / "b"):
            model = load_cpu(folder)
            state = model.new_state(1, 64)
            model.prefill(state, model.encode_prompt(prompt_text), 0)
            samples = model.vocode(state, [0], torch.ones(1, 1, *model.patch_shape))
            hidden.append((state.hidden, samples))
    assert torch.equal(hidden[0][0], hidden[1][0])
    assert torch.equal(hidden[0][1], hidden[1][1])
