"""`config.json` of a VoxCPM2 checkpoint as frozen dataclasses.

Keys this version does not know are logged, missing ones are an error that names them. The file's
key names are kept, except where a comment says otherwise. No torch.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from voxcli.errors import CheckpointError

logger = logging.getLogger(__name__)

# read by the trainer or by other loaders, never at inference
_IGNORED = {
    "architecture", "device", "dtype", "architectures", "torch_dtype", "model_type", "cfm_config",
    "bos_token_id", "eos_token_id", "auto_map", "transformers_version",
}  # fmt: skip


def long_rope_amplitude(max_positions: int, original_max_positions: int) -> float:
    """How much LongRoPE (arXiv:2402.13753) scales cosines and sines beyond the training length."""
    stretch = max_positions / original_max_positions
    return math.sqrt(1 + math.log(stretch) / math.log(original_max_positions))


class _FromDict:
    @classmethod
    def from_dict(cls, values: dict[str, Any], where: str) -> Self:
        known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
        missing = [
            name
            for name, field in known.items()
            if name not in values and field.default is MISSING and field.default_factory is MISSING
        ]
        if missing:
            raise CheckpointError(f"config.json: {where} lacks {', '.join(missing)}")
        unknown = sorted(set(values) - set(known) - _IGNORED)
        if unknown:
            logger.info("config.json: %s has keys voxcli does not use: %s", where, unknown)
        return cls(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True)
class TransformerConfig(_FromDict):
    """A stack of MiniCPM4 layers."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_hidden_layers: int
    num_key_value_heads: int
    rms_norm_eps: float
    max_position_embeddings: int
    rope_scaling: dict[str, Any]
    vocab_size: int = 0
    rope_theta: float = 10000.0
    kv_channels: int | None = None
    use_mup: bool = True
    scale_emb: float = 1.0
    scale_depth: float = 1.0
    dim_model_base: int = 1
    no_rope: bool = False

    @property
    def head_dim(self) -> int:
        return self.kv_channels or self.hidden_size // self.num_attention_heads

    @property
    def rope_factors(self) -> list[float]:
        """LongRoPE factors of the length the tables are made for."""
        is_long = (
            self.max_position_embeddings > self.rope_scaling["original_max_position_embeddings"]
        )
        return list(self.rope_scaling["long_factor" if is_long else "short_factor"])

    @property
    def rope_amplitude(self) -> float:
        return long_rope_amplitude(
            self.max_position_embeddings, self.rope_scaling["original_max_position_embeddings"]
        )

    @property
    def residual_scale(self) -> float:
        """Factor of a block's output before it joins the residual stream (1 unless muP is on)."""
        return self.scale_depth / math.sqrt(self.num_hidden_layers) if self.use_mup else 1.0

    @property
    def embedding_scale(self) -> float:
        return self.scale_emb if self.use_mup else 1.0


@dataclass(frozen=True)
class LocalConfig(_FromDict):
    """The four numbers LocEnc and LocDiT change against the language model."""

    hidden_dim: int = 1024
    ffn_dim: int = 4096
    num_heads: int = 16
    num_layers: int = 4
    kv_channels: int | None = None
    dit_mean_mode: bool = False
    # NOTE: the official VoxCPM2 file writes `mean_mode`, which the official code does not read
    mean_mode: bool = False


@dataclass(frozen=True)
class VaeConfig(_FromDict):
    """AudioVAE V2; defaults are those of the official class, which the file may leave out."""

    encoder_dim: int = 128
    encoder_rates: tuple[int, ...] = (2, 5, 8, 8)
    latent_dim: int = 64
    decoder_dim: int = 2048
    decoder_rates: tuple[int, ...] = (8, 6, 5, 2, 2, 2)
    depthwise: bool = True
    sample_rate: int = 16000
    out_sample_rate: int = 48000
    use_noise_block: bool = False
    sr_bin_boundaries: tuple[int, ...] | None = (20000, 30000, 40000)
    cond_type: str = "scale_bias"
    cond_dim: int = 128
    cond_out_layer: bool = False

    def __post_init__(self) -> None:
        unsupported = {
            "depthwise": not self.depthwise,
            "use_noise_block": self.use_noise_block,
            "cond_out_layer": self.cond_out_layer,
            "cond_type": not self.cond_type.startswith("scale_bias"),
        }
        for name, is_unsupported in unsupported.items():
            if is_unsupported:
                value = getattr(self, name)
                raise CheckpointError(f"audio_vae_config: {name} {value!r} is not supported")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From the parsed `config.json`."""
        found = values.get("audio_vae_config") or {}
        if not isinstance(found, Mapping):
            raise CheckpointError("config.json: audio_vae_config is no object")
        lists = {key: tuple(value) for key, value in found.items() if isinstance(value, list)}
        return cls.from_dict({**found, **lists}, "audio_vae_config")

    @property
    def encoder_hop(self) -> int:
        """Input samples a latent vector."""
        return math.prod(self.encoder_rates)

    @property
    def decoder_hop(self) -> int:
        """Output samples a latent vector."""
        return math.prod(self.decoder_rates)

    @property
    def sample_rate_bin(self) -> int | None:
        """Row of the sample-rate conditioning tables for the output rate, None without them."""
        if self.sr_bin_boundaries is None:
            return None
        return sum(boundary < self.out_sample_rate for boundary in self.sr_bin_boundaries)


@dataclass(frozen=True)
class VoxCPM2Config:
    """The whole checkpoint.

    Attributes:
        patch_size: latent vectors a patch (P).
        feat_dim: width of a latent vector (D).
        max_length: positions the checkpoint is made for.
    """

    lm: TransformerConfig
    residual_lm: TransformerConfig
    encoder: TransformerConfig
    dit: TransformerConfig
    vae: VaeConfig
    patch_size: int
    feat_dim: int
    fsq_dim: int
    fsq_scale: int
    max_length: int
    dit_mean_mode: bool

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read the parsed `config.json`.

        Raises:
            CheckpointError: a needed key is missing or a setting is not supported.
        """
        for key in ("lm_config", "encoder_config", "dit_config"):
            if not isinstance(values.get(key), dict):
                raise CheckpointError(f"config.json lacks {key}")
        language = values["lm_config"]
        encoder = LocalConfig.from_dict(values["encoder_config"], "encoder_config")
        dit = LocalConfig.from_dict(values["dit_config"], "dit_config")

        def local(config: LocalConfig) -> TransformerConfig:
            changes = {
                "hidden_size": config.hidden_dim, "intermediate_size": config.ffn_dim,
                "num_attention_heads": config.num_heads, "num_hidden_layers": config.num_layers,
                "kv_channels": config.kv_channels, "vocab_size": 0,
            }  # fmt: skip
            return TransformerConfig.from_dict({**language, **changes}, "lm_config")

        residual = {
            "num_hidden_layers": values.get("residual_lm_num_layers", 8),
            "no_rope": values.get("residual_lm_no_rope", False),
            "vocab_size": 0,
        }
        config = cls(
            lm=TransformerConfig.from_dict(language, "lm_config"),
            residual_lm=TransformerConfig.from_dict({**language, **residual}, "lm_config"),
            encoder=local(encoder),
            dit=local(dit),
            vae=VaeConfig.of(values),
            patch_size=values.get("patch_size", 4),
            feat_dim=values.get("feat_dim", 64),
            fsq_dim=values.get("scalar_quantization_latent_dim", 512),
            fsq_scale=values.get("scalar_quantization_scale", 9),
            max_length=values.get("max_length", 8192),
            dit_mean_mode=dit.dit_mean_mode,
        )
        if config.vae.latent_dim != config.feat_dim:
            raise CheckpointError(
                f"config.json: feat_dim {config.feat_dim} and the AudioVAE's latent_dim "
                f"{config.vae.latent_dim} differ"
            )
        return config

    def shortened(self) -> Self:
        """The same with two layers a stack, the first and the last: those between are like them."""
        stacks = {"lm": self.lm, "residual_lm": self.residual_lm, "encoder": self.encoder}
        stacks["dit"] = self.dit
        return replace(
            self,
            **{
                name: replace(stack, num_hidden_layers=min(2, stack.num_hidden_layers))
                for name, stack in stacks.items()
            },  # type: ignore[arg-type]
        )

    @classmethod
    def load(cls, folder: Path) -> Self:
        path = folder / "config.json"
        try:
            values = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as err:
            raise CheckpointError(f"{path} cannot be read: {err}") from err
        if not isinstance(values, dict):
            raise CheckpointError(f"{path} holds no JSON object")
        return cls.from_dict(values)
