"""Tiny random VoxCPM2 checkpoints in the official layout, for tests and goldens.

Names and shapes are recorded from our own loader, so a checkpoint made here always loads in voxcli;
that the official package wants exactly the same names is proved where the goldens are made
(`tests/parity/make_goldens.py`). Values come from numpy's PCG64, whose stream is fixed, so that a
seed gives the same file on every machine and with every torch.

The two configurations turn on what the bundled checkpoint does not: muP, LongRoPE beyond its
original length, RoPE in the residual LM, head widths that are not width / heads, groups of one and
of several query heads, odd strides, sample-rate conditioning, mean mode.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.model import VoxCPM2
from voxcli.models.voxcpm2.sources import VAE_PREFIX, Source

Files = Literal["safetensors", "pickle", "pickle-nested"]

VOCAB_SIZE = 512
VAE_GAIN = np.float32(0.65)

# All stacks share one list of LongRoPE factors, so they share the head width too.
TINY: dict[str, Any] = {
    "architecture": "VoxCPM2",
    "lm_config": {
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_size": 48,
        "intermediate_size": 80,
        "max_position_embeddings": 256,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "num_key_value_heads": 2,  # groups: 2 in the LMs, 1 in LocEnc, 3 in LocDiT
        "rms_norm_eps": 1e-6,
        "vocab_size": VOCAB_SIZE,
        "use_mup": True,
        "scale_emb": 3.0,
        "dim_model_base": 24,
        "scale_depth": 1.4,
        "rope_theta": 5000.0,
        # no kv_channels: 48 / 4
        "rope_scaling": {
            "type": "longrope",
            "long_factor": [1.0, 1.3, 1.7, 2.5, 3.5, 4.5],
            "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
            "original_max_position_embeddings": 64,
        },
    },
    "patch_size": 3,
    "feat_dim": 8,
    "residual_lm_num_layers": 2,
    "residual_lm_no_rope": False,
    "scalar_quantization_latent_dim": 10,
    "scalar_quantization_scale": 4,
    "encoder_config": {
        "hidden_dim": 32, "ffn_dim": 56, "num_heads": 2, "num_layers": 2, "kv_channels": 12,
    },
    "dit_config": {
        "hidden_dim": 72, "ffn_dim": 100, "num_heads": 6, "num_layers": 2,
        "dit_mean_mode": False,
        "cfm_config": {"inference_cfg_rate": 2.0},
    },
    "audio_vae_config": {
        "encoder_dim": 8,
        "encoder_rates": [2, 3],
        "latent_dim": 8,
        "decoder_dim": 32,
        "decoder_rates": [3, 2, 5],
        "sample_rate": 6000,
        "out_sample_rate": 30000,  # on a boundary: bin 1, not 2
        "sr_bin_boundaries": [20000, 30000, 40000],
        "cond_type": "scale_bias",
    },
    "max_length": 200,
    "device": "cpu",
    "dtype": "float32",
}  # fmt: skip


def _mean_variant() -> dict[str, Any]:
    config = copy.deepcopy(TINY)
    language = config["lm_config"]
    language.update(
        num_attention_heads=3,
        num_key_value_heads=1,
        kv_channels=8,  # 48 / 3 is 16
        max_position_embeddings=128,
    )
    language["rope_scaling"].update(
        long_factor=[1.0, 1.5, 2.0, 4.0],
        short_factor=[1.0, 1.2, 1.4, 1.6],
        original_max_position_embeddings=128,  # not stretched: short factors, amplitude 1
    )
    config.update(patch_size=2, feat_dim=6, residual_lm_no_rope=True, max_length=128)
    config["encoder_config"].update(num_heads=1, kv_channels=8)
    config["dit_config"].update(num_heads=5, kv_channels=8, dit_mean_mode=True)
    config["audio_vae_config"].update(
        latent_dim=6, encoder_rates=[3, 5], decoder_rates=[7, 3], sr_bin_boundaries=None,
        sample_rate=15000, out_sample_rate=21000,
    )  # fmt: skip
    return config


TINY_MEAN: dict[str, Any] = _mean_variant()


class RecordingSource(Source):
    """Random fp32 weights, kept by the official name under which they were asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__(torch.device("cpu"), torch.float32)
        self.tensors: dict[str, torch.Tensor] = {}
        self._random = np.random.default_rng(seed)

    def read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        values = self._random.standard_normal(shape, np.float32)
        if name.endswith("sr_bin_boundaries"):
            tensor = torch.zeros(shape, dtype=torch.int32)
        elif name.endswith("weight_g"):  # gains near 1 would saturate the waveform
            tensor = torch.from_numpy(VAE_GAIN * (1 + np.float32(0.2) * values))
        elif "norm" in name or name.endswith(("alpha", "scale_embed.weight")):
            tensor = torch.from_numpy(1 + np.float32(0.2) * values)
        elif name.endswith((".bias", "bias_embed.weight")):
            tensor = torch.from_numpy(np.float32(0.2) * values)
        else:
            tensor = torch.from_numpy(values * np.float32(max(np.prod(shape[1:]), 1) ** -0.5))
        assert name not in self.tensors, name
        self.tensors[name] = tensor
        return tensor.clone()


def write_random_checkpoint(
    folder: Path, config: dict[str, Any], seed: int = 0, *, files: Files = "safetensors"
) -> dict[str, torch.Tensor]:
    """Write a checkpoint the way the official package stores one.

    Args:
        folder: made if it is not there.
        config: what `config.json` holds.
        files: the kind of the two weight files; "pickle-nested" is `{"state_dict": ...}`.

    Returns:
        The weights by official name, the AudioVAE's with their prefix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    source = RecordingSource(seed)
    with torch.inference_mode(False):
        VoxCPM2(VoxCPM2Config.from_dict(config), source, None)
    tensors = source.tensors
    boundaries = config["audio_vae_config"].get("sr_bin_boundaries")
    if boundaries is not None:
        tensors[f"{VAE_PREFIX}decoder.sr_bin_boundaries"] = torch.tensor(boundaries).int()
    write_settings(folder, config)
    write_weights(folder, tensors, files)
    return tensors


def write_settings(folder: Path, config: dict[str, Any]) -> None:
    """What a checkpoint has beside its weights."""
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    write_tokenizer(folder)


def write_weights(folder: Path, tensors: dict[str, torch.Tensor], files: Files) -> None:
    """The two weight files alone; the AudioVAE's keys lose their prefix, as in official files."""
    vae = {k[len(VAE_PREFIX) :]: v for k, v in tensors.items() if k.startswith(VAE_PREFIX)}
    model = {k: v for k, v in tensors.items() if not k.startswith(VAE_PREFIX)}
    if files == "safetensors":
        save_file(model, folder / "model.safetensors")
        save_file(vae, folder / "audiovae.safetensors")
        return
    nested = files == "pickle-nested"
    torch.save({"state_dict": model} if nested else model, folder / "pytorch_model.bin")
    torch.save({"state_dict": vae} if nested else vae, folder / "audiovae.pth")


# ---------------------------------------------------------------- tokenizer

_SPECIAL = {
    0: "<unk>", 1: "<s>", 2: "</s>", 101: "<|audio_start|>", 102: "<|audio_end|>",
    103: "<|audio_prompt_start|>", 104: "<|audio_prompt_end|>",
}  # fmt: skip
_CHARACTERS = (
    "▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-你好世界上海天气中国人"
)
# each merge joins two earlier entries; those of two or more Chinese characters are to be undone
_MERGES = [
    ("▁", "t"), ("h", "e"), ("▁t", "he"), ("i", "n"), ("in", "g"), ("▁", "H"), ("l", "l"),
    ("▁H", "e"), ("o", "w"), ("q", "u"), ("你", "好"), ("世", "界"), ("▁", "你好"), ("上", "海"),
    ("中", "国"), ("中国", "人"), ("▁", "中国人"), ("天", "气"), (".", "."), ("..", "."),
]  # fmt: skip


def write_tokenizer(folder: Path) -> None:
    """A small Llama-style BPE: `▁` for spaces and before the text, bytes for what it lacks."""
    entries = [*_CHARACTERS, *(left + right for left, right in _MERGES)]
    entries += [f"<0x{byte:02X}>" for byte in range(256)]
    free = (index for index in range(VOCAB_SIZE) if index not in _SPECIAL)
    vocabulary = {token: index for index, token in _SPECIAL.items()}
    vocabulary |= {token: next(free) for token in entries}
    model = models.BPE(
        vocab=vocabulary, merges=_MERGES, unk_token="<unk>", fuse_unk=True, byte_fallback=True
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False) for _, token in sorted(_SPECIAL.items())]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    flags = {
        "normalized": False, "lstrip": False, "rstrip": False, "single_word": False,
        "special": True,
    }  # fmt: skip
    settings = {
        "tokenizer_class": "LlamaTokenizerFast",
        "add_bos_token": False,
        "add_eos_token": False,
        "legacy": True,
        "clean_up_tokenization_spaces": False,
        "added_tokens_decoder": {
            str(index): {"content": token, **flags} for index, token in _SPECIAL.items()
        },
        **names,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "special_tokens_map.json").write_text(json.dumps(names), encoding="utf-8")
