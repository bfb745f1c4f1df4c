"""`config.json` of a VoxCPM2 checkpoint as frozen dataclasses.

Keys this version does not know are logged; missing ones and values of a wrong type or range are an
error that names them. The file's key names are kept, except where a comment says otherwise. No
torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from msgspec import Meta

from voxcli.models.settings import (
    Epsilon,
    NumLayers,
    NumPositions,
    Positive,
    SampleRate,
    Settings,
    Size,
    Strides,
    VocabularySize,
    read_json,
    require,
)

CONFIG = "config.json"


def long_rope_amplitude(max_positions: int, original_max_positions: int) -> float:
    """How much LongRoPE (arXiv:2402.13753) scales cosines and sines beyond the training length."""
    stretch = max_positions / original_max_positions
    return math.sqrt(1 + math.log(stretch) / math.log(original_max_positions))


@dataclass(frozen=True, kw_only=True)
class RopeScaling(Settings):
    """LongRoPE: factors of a head's pairs of channels, within the original length and beyond."""

    long_factor: tuple[Positive, ...]
    short_factor: tuple[Positive, ...]
    original_max_position_embeddings: Annotated[int, Meta(ge=2, le=2**18)]

    ignored: ClassVar = frozenset({"type", "rope_type"})


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Settings):
    """A stack of MiniCPM4 layers."""

    hidden_size: Size
    intermediate_size: Size
    num_attention_heads: Size
    num_hidden_layers: NumLayers
    num_key_value_heads: Size
    rms_norm_eps: Epsilon
    max_position_embeddings: NumPositions
    rope_scaling: RopeScaling
    vocab_size: VocabularySize
    rope_theta: Positive = 10000.0
    kv_channels: Size | None = None
    use_mup: bool = True
    scale_emb: Positive = 1.0
    scale_depth: Positive = 1.0
    no_rope: bool = False

    # `dim_model_base` scales logits, of which there are none
    ignored: ClassVar = frozenset({"bos_token_id", "eos_token_id", "dim_model_base"})

    def __post_init__(self) -> None:
        heads, groups = self.num_attention_heads, self.num_key_value_heads
        message = f"num_attention_heads {heads} is no multiple of num_key_value_heads {groups}"
        require(heads % groups == 0, message)
        require(
            self.kv_channels is not None or self.hidden_size % heads == 0,
            f"num_attention_heads {heads} does not divide hidden_size {self.hidden_size}",
        )
        width, factors = self.head_dim, len(self.rope_factors)
        kind = "long_factor" if self.is_long else "short_factor"
        message = (
            f"rope_scaling.{kind} has {factors} numbers, and heads of {width} channels "
            "(kv_channels, else hidden_size / num_attention_heads) need half as many"
        )
        require(width == 2 * factors, message)

    @property
    def head_dim(self) -> int:
        return self.kv_channels or self.hidden_size // self.num_attention_heads

    @property
    def is_long(self) -> bool:
        """Whether it is made for more positions than were there in training at first."""
        return self.max_position_embeddings > self.rope_scaling.original_max_position_embeddings

    @property
    def rope_factors(self) -> tuple[float, ...]:
        """LongRoPE factors of the length the tables are made for."""
        return self.rope_scaling.long_factor if self.is_long else self.rope_scaling.short_factor

    @property
    def rope_amplitude(self) -> float:
        return long_rope_amplitude(
            self.max_position_embeddings, self.rope_scaling.original_max_position_embeddings
        )

    @property
    def residual_scale(self) -> float:
        """Factor of a block's output before it joins the residual stream (1 unless muP is on)."""
        return self.scale_depth / math.sqrt(self.num_hidden_layers) if self.use_mup else 1.0

    @property
    def embedding_scale(self) -> float:
        return self.scale_emb if self.use_mup else 1.0


@dataclass(frozen=True, kw_only=True)
class LocalConfig(Settings):
    """The numbers LocEnc and LocDiT change against the language model."""

    hidden_dim: Size = 1024
    ffn_dim: Size = 4096
    num_heads: Size = 16
    num_layers: NumLayers = 4
    kv_channels: Size | None = None
    dit_mean_mode: bool = False

    # NOTE: the official VoxCPM2 file writes `mean_mode`, which the official code does not read
    ignored: ClassVar = frozenset({"cfm_config", "mean_mode"})

    def stack(self, language: TransformerConfig) -> TransformerConfig:
        return replace(
            language,
            hidden_size=self.hidden_dim,
            intermediate_size=self.ffn_dim,
            num_attention_heads=self.num_heads,
            num_hidden_layers=self.num_layers,
            kv_channels=self.kv_channels,
        )


@dataclass(frozen=True, kw_only=True)
class VaeConfig(Settings):
    """AudioVAE V2; defaults are those of the official class, which the file may leave out."""

    encoder_dim: Size = 128
    encoder_rates: Strides = (2, 5, 8, 8)
    latent_dim: Size = 64
    decoder_dim: Size = 2048
    decoder_rates: Strides = (8, 6, 5, 2, 2, 2)
    depthwise: bool = True
    sample_rate: SampleRate = 16000
    out_sample_rate: SampleRate = 48000
    use_noise_block: bool = False
    sr_bin_boundaries: Annotated[tuple[SampleRate, ...], Meta(max_length=100)] | None = (
        20000, 30000, 40000
    )  # fmt: skip
    cond_type: str = "scale_bias"
    cond_dim: Size = 128
    cond_out_layer: bool = False

    fixed: ClassVar = ("depthwise", "use_noise_block", "cond_out_layer")

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = self.cond_type
        require(kind.startswith("scale_bias"), f"cond_type {kind!r} is not supported")

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


@dataclass(frozen=True, kw_only=True)
class _Root(Settings):
    """The file itself."""

    lm_config: TransformerConfig
    encoder_config: LocalConfig
    dit_config: LocalConfig
    audio_vae_config: VaeConfig = VaeConfig()
    residual_lm_num_layers: NumLayers = 8
    residual_lm_no_rope: bool = False
    patch_size: Annotated[int, Meta(ge=1, le=64)] = 4
    feat_dim: Size = 64
    scalar_quantization_latent_dim: Size = 512
    scalar_quantization_scale: Size = 9
    max_length: NumPositions = 8192

    # read by the trainer or by other loaders, never at inference
    ignored: ClassVar = frozenset(
        {
            "architecture", "architectures", "auto_map", "device", "dtype", "model_type",
            "torch_dtype", "transformers_version",
        }
    )  # fmt: skip

    def __post_init__(self) -> None:
        one, other = self.feat_dim, self.audio_vae_config.latent_dim
        require(one == other, f"feat_dim {one} and audio_vae_config.latent_dim {other} differ")
        for name in ("encoder_config", "dit_config"):
            try:
                getattr(self, name).stack(self.lm_config)
            except ValueError as err:
                raise ValueError(f"{name}: {err}") from err


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
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the parsed `config.json`.

        Raises:
            CheckpointError: a field is missing, of another type, out of range or not supported.
        """
        root = _Root.read(values, CONFIG)
        language = root.lm_config
        return cls(
            lm=language,
            residual_lm=replace(
                language,
                num_hidden_layers=root.residual_lm_num_layers,
                no_rope=root.residual_lm_no_rope,
            ),
            encoder=root.encoder_config.stack(language),
            dit=root.dit_config.stack(language),
            vae=root.audio_vae_config,
            patch_size=root.patch_size,
            feat_dim=root.feat_dim,
            fsq_dim=root.scalar_quantization_latent_dim,
            fsq_scale=root.scalar_quantization_scale,
            max_length=root.max_length,
            dit_mean_mode=root.dit_config.dit_mean_mode,
        )

    @property
    def max_positions(self) -> int:
        """Positions that a request may have."""
        return min(self.max_length, self.lm.max_position_embeddings)

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
        """Read a checkpoint folder's file; raises CheckpointError as `from_dict`."""
        return cls.from_dict(read_json(folder / CONFIG))
