"""Step `export`: averaged weights as a checkpoint folder in the official layout, `work/voice`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from recipes.train_mini import distillation, language_training
from recipes.train_mini.codec import official, scale_latents
from recipes.train_mini.language import HEAD, THETA, LanguageModel
from recipes.train_mini.latents import DEVIATIONS, frozen_codec
from recipes.train_mini.pool import SAMPLE_RATE
from recipes.train_mini.progress import Budget, Log
from recipes.train_mini.settings import Settings
from recipes.train_mini.tokens import (
    ASCII,
    FOLDED,
    SPACE,
    SPECIAL,
    TRAINED,
    tokenizer_json,
    vocabulary,
)

MAX_POSITIONS = 4096
ENCODER_RATE = 16_000
FOLDER = "voice"


def config(settings: Settings) -> dict[str, Any]:
    """The official `config.json`."""
    language, codec = settings.language, settings.codec
    rope = {
        "type": "longrope", "long_factor": [1.0] * (HEAD // 2),
        "short_factor": [1.0] * (HEAD // 2), "original_max_position_embeddings": MAX_POSITIONS,
    }  # fmt: skip
    return {
        "architecture": "voxcpm2",
        "lm_config": {
            "bos_token_id": 1, "eos_token_id": 2, "hidden_size": language.hidden,
            "intermediate_size": language.feed_forward, "max_position_embeddings": MAX_POSITIONS,
            "num_attention_heads": language.heads, "num_hidden_layers": language.layers,
            "num_key_value_heads": language.kv_heads, "rms_norm_eps": 1e-5,
            "vocab_size": language.vocabulary, "use_mup": False, "scale_emb": 1.0,
            "dim_model_base": language.hidden, "scale_depth": 1.0, "rope_theta": THETA,
            "kv_channels": HEAD, "rope_scaling": rope,
        },
        "patch_size": language.patch,
        "feat_dim": codec.latent_dim,
        "residual_lm_num_layers": language.residual_layers,
        "residual_lm_no_rope": True,
        "scalar_quantization_latent_dim": language.quantised,
        "scalar_quantization_scale": language.quantiser_scale,
        "encoder_config": {
            "hidden_dim": language.encoder_hidden, "ffn_dim": language.encoder_feed_forward,
            "num_heads": language.encoder_heads, "num_layers": language.encoder_layers,
            "kv_channels": HEAD,
        },
        "dit_config": {
            "hidden_dim": language.dit_hidden, "ffn_dim": language.dit_feed_forward,
            "num_heads": language.dit_heads, "num_layers": language.dit_layers,
            "kv_channels": HEAD, "dit_mean_mode": False,
            "cfm_config": {
                "sigma_min": 1e-6, "solver": "euler", "t_scheduler": "log-norm",
                "training_cfg_rate": language.guidance_drop, "inference_cfg_rate": 2.0,
                "reg_loss_type": "l1", "ratio_r_neq_t_range": [0.25, 0.75],
                "noise_cond_prob_range": [0.0, 0.0], "noise_cond_scale": 0.0,
            },
        },
        "audio_vae_config": {
            "encoder_dim": codec.encoder_dim, "encoder_rates": list(codec.encoder_rates),
            "latent_dim": codec.latent_dim, "decoder_dim": codec.decoder_dim,
            "decoder_rates": list(codec.decoder_rates), "depthwise": True,
            "sample_rate": ENCODER_RATE, "out_sample_rate": SAMPLE_RATE,
            "use_noise_block": False, "sr_bin_boundaries": None, "cond_type": "scale_bias",
            "cond_dim": 128, "cond_out_layer": False,
        },
        "max_length": 2048,
        "device": "cpu",
        "dtype": "float32",
    }  # fmt: skip


def with_all_characters(embedding: Tensor, size: int) -> Tensor:
    """Characters that no text had read like their plain letter, or like an unknown one."""
    ids, embedding = vocabulary(size), embedding.clone()
    known = {SPACE, *SPECIAL.values(), *TRAINED}
    for character, number in ids.items():
        if character not in known:
            embedding[number] = embedding[ids[FOLDED.get(character, SPECIAL[0])]]
    assert set(ASCII) <= known
    return embedding


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8")


def in_eight_bits(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices of layers as int8 with a scale for each row, under `NAME_scale`; others as they are.

    The names are those of compressed-tensors (Apache-2.0) for weights with a scale a channel.
    """
    made = {}
    for name, value in state.items():
        if ".layers." not in name or value.ndim != 2:
            made[name] = value
            continue
        scale = value.float().abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        made[name] = (value.float() / scale).round().to(torch.int8)
        made[f"{name}_scale"] = scale
    return made


def write_folder(
    folder: Path, settings: Settings, vae: Mapping[str, Tensor], language: Mapping[str, Tensor],
    dtype: torch.dtype = torch.float16, *, is_eight_bits: bool = False,
) -> int:  # fmt: skip
    """All official files; returns their bytes.

    Args:
        dtype: of all that has no eight bits.
        is_eight_bits: matrices of the language models' layers have, which the official package
            does not read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", config(settings))
    name = "base_lm.embed_tokens.weight"
    size = settings.language.vocabulary
    weights = dict(language) | {name: with_all_characters(language[name], size)}
    if is_eight_bits:
        weights = in_eight_bits(weights)
    for file, state in (("model", weights), ("audiovae", official(vae))):
        stored = {
            key: value.to("cpu", dtype if value.is_floating_point() else None).contiguous()
            for key, value in state.items()
        }
        save_file(stored, folder / f"{file}.safetensors")
    tokenizer = tokenizer_json(size)
    _write_json(folder / "tokenizer.json", tokenizer)
    names = {"bos_token": SPECIAL[1], "eos_token": SPECIAL[2], "unk_token": SPECIAL[0]}
    _write_json(folder / "special_tokens_map.json", names)
    added = {
        str(each["id"]): {key: value for key, value in each.items() if key != "id"}
        for each in tokenizer["added_tokens"]
    }
    _write_json(
        folder / "tokenizer_config.json",
        names
        | {
            "tokenizer_class": "LlamaTokenizerFast", "add_bos_token": False,
            "add_eos_token": False, "legacy": True, "clean_up_tokenization_spaces": False,
            "model_max_length": 2048, "added_tokens_decoder": added,
        },
    )  # fmt: skip
    return sum(path.stat().st_size for path in folder.iterdir())


def run(settings: Settings, _: torch.device, __: Budget) -> bool:
    vae = frozen_codec(settings, torch.device("cpu"))
    scale_latents(vae, torch.load(settings.work / DEVIATIONS))
    path = settings.work / distillation.STATE
    if not path.is_file():
        path = settings.work / language_training.STATE
    state = torch.load(path, map_location="cpu")
    model = LanguageModel(settings.language, settings.codec)
    model.load_state_dict({name: value.float() for name, value in state["average"].items()})
    folder = settings.work / FOLDER
    states = vae.state_dict(), model.state_dict()
    size = write_folder(folder, settings, *states, is_eight_bits=True)
    Log("export", settings.work / "logs")(f"{folder}: {size:,} bytes of {path.name}")
    return True
