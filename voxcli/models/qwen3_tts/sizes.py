"""The blocks of a Qwen3-TTS checkpoint's JSON files: fields, types, ranges. No torch.

The files' key names are kept. A default is the official class's, which a file may rely on.

Source of what the settings mean: QwenLM/Qwen3-TTS@022e286b (Apache-2.0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from voxcli.models.settings import (
    Epsilon,
    NotNegative,
    NumLayers,
    NumPositions,
    Positive,
    SampleRate,
    Settings,
    Size,
    Stride,
    Strides,
    TokenId,
    VocabularySize,
    require,
)

NUM_NEVER_DRAWN = 1024  # ids at the end of the talker's table, as in the official code

# read by the trainer or by other loaders, or of no effect at inference
IGNORED = frozenset(
    {
        "architectures", "attention_dropout", "auto_map", "cache_implementation", "dtype",
        "initializer_range", "layer_scale_initial_scale", "layer_types", "max_length",
        "max_window_layers", "model_type", "position_id_per_seconds", "sliding_window",
        "torch_dtype", "transformers_version", "upsample_groups", "use_cache", "_frame_rate",
        # NOTE: the files name it, but all of the official decoder's codebooks have `codebook_size`
        "semantic_codebook_size",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Attention(Settings):
    """What every transformer here has.

    Attributes:
        max_position_embeddings: of the codec's, of no effect.
    """

    ignored: ClassVar = IGNORED
    fixed: ClassVar[tuple[str, ...]] = ("attention_bias",)

    hidden_size: Size
    intermediate_size: Size
    head_dim: Size
    num_attention_heads: Size
    num_key_value_heads: Size
    num_hidden_layers: NumLayers
    rope_theta: Positive
    attention_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, groups = self.num_attention_heads, self.num_key_value_heads
        message = f"num_attention_heads {heads} is no multiple of num_key_value_heads {groups}"
        require(heads % groups == 0, message)
        require(self.head_dim % 2 == 0, f"head_dim {self.head_dim} is odd")


@dataclass(frozen=True, kw_only=True)
class StackConfig(_Attention):
    """A causal transformer: normalised queries and keys, rotary positions, gated SiLU layers."""

    fixed: ClassVar = ("attention_bias", "use_sliding_window", "tie_word_embeddings")

    rms_norm_eps: Epsilon
    max_position_embeddings: NumPositions
    vocab_size: Size
    num_code_groups: Annotated[int, Meta(ge=2, le=256)]
    hidden_act: Literal["silu"] = "silu"
    use_sliding_window: bool = False
    tie_word_embeddings: bool = False


@dataclass(frozen=True, kw_only=True)
class PredictorConfig(StackConfig):
    """The code predictor: codes 1 to 15 of a frame, from the talker's state and code 0.

    `vocab_size` is of one codebook.
    """

    rope_scaling: None = None


@dataclass(frozen=True, kw_only=True)
class RopeScaling(Settings):
    """Of the talker.

    NOTE: the rotary sections ("mrope") get three equal rows of positions in this model, which makes
    them ordinary rotary positions; only a stretched kind would differ.
    """

    ignored: ClassVar = frozenset({"interleaved", "mrope_section", "type"})

    rope_type: Literal["default"] = "default"


@dataclass(frozen=True, kw_only=True)
class TalkerConfig(StackConfig):
    """The talker: code 0 of a frame, from text and speech so far.

    Attributes:
        vocab_size: code 0, special codec ids, speakers and languages, in one table.
        text_hidden_size: width of the text embedding, before its projection to `hidden_size`.
        codec_language_id: language or dialect name to id.
        spk_id: preset speaker to id.
        spk_is_dialect: preset speaker to the dialect it speaks, or False.
    """

    code_predictor_config: PredictorConfig
    text_hidden_size: Size
    text_vocab_size: VocabularySize
    codec_bos_id: TokenId
    codec_eos_token_id: TokenId
    codec_pad_id: TokenId
    codec_think_id: TokenId
    codec_nothink_id: TokenId
    codec_think_bos_id: TokenId
    codec_think_eos_id: TokenId
    codec_language_id: Mapping[str, TokenId]
    spk_id: Mapping[str, TokenId] = field(default_factory=dict)
    spk_is_dialect: Mapping[str, str | bool] = field(default_factory=dict)
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.vocab_size > NUM_NEVER_DRAWN, f"vocab_size {self.vocab_size} is too small")
        ids = {name: getattr(self, name) for name in vars(self) if name.startswith("codec_")}
        for block in ("codec_language_id", "spk_id"):
            ids.pop(block, None)
            ids |= {f"{block}.{name}": found for name, found in getattr(self, block).items()}
        for name, found in ids.items():
            message = f"{name} {found} is outside of vocab_size {self.vocab_size}"
            require(found < self.vocab_size, message)
        for dialect in self.spk_is_dialect.values():
            is_known = not isinstance(dialect, str) or dialect in {"", *self.codec_language_id}
            require(is_known, f"codec_language_id lacks {dialect!r}, which spk_is_dialect names")

    @property
    def suppressed(self) -> tuple[int, int]:
        """First and end of the ids that are never drawn, but for `codec_eos_token_id`."""
        return self.vocab_size - NUM_NEVER_DRAWN, self.vocab_size


@dataclass(frozen=True, kw_only=True)
class SpeakerConfig(Settings):
    """The speaker encoder (ECAPA-TDNN)."""

    ignored: ClassVar = IGNORED

    enc_dim: Size
    sample_rate: SampleRate = 24_000
    mel_dim: Annotated[int, Meta(ge=1, le=512)] = 128
    enc_channels: Annotated[tuple[Size, ...], Meta(min_length=3, max_length=12)] = (
        512, 512, 512, 512, 1536
    )  # fmt: skip
    enc_kernel_sizes: Strides = (5, 3, 3, 3, 1)
    enc_dilations: Strides = (1, 2, 3, 4, 1)
    enc_attention_channels: Size = 128
    enc_res2net_scale: Size = 8
    enc_se_channels: Size = 128

    def __post_init__(self) -> None:
        numbers = {len(self.enc_channels), len(self.enc_kernel_sizes), len(self.enc_dilations)}
        what = "enc_channels, enc_kernel_sizes and enc_dilations"
        require(len(numbers) == 1, f"{what} differ in length")
        scale = self.enc_res2net_scale
        is_divided = all(width % scale == 0 for width in self.enc_channels[1:-1])
        require(is_divided, f"enc_res2net_scale {scale} does not divide enc_channels")


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(_Attention):
    """The speech tokenizer's decoder: codes to samples.

    Attributes:
        codebook_dim: both halves of it together; a codebook's own entries are half as wide.
        latent_dim: width between the quantizer and the convolutions.
        hidden_size, intermediate_size, head_dim: of the transformer.
        sliding_window: frames a frame attends to, itself one of them.
        upsampling_ratios: of the stages before the convolutional decoder.
        upsample_rates: of its blocks.
    """

    latent_dim: Size
    codebook_dim: Size
    codebook_size: Size
    decoder_dim: Size
    num_quantizers: Size
    num_semantic_quantizers: Size = 1
    rms_norm_eps: Epsilon
    max_position_embeddings: NumPositions = 8000
    sliding_window: Annotated[int, Meta(ge=2, le=4096)]
    upsample_rates: Strides
    upsampling_ratios: Strides
    vector_quantization_hidden_dimension: Size
    hidden_act: Literal["silu"] = "silu"

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, groups = self.num_attention_heads, self.num_key_value_heads
        message = f"num_attention_heads {heads} and num_key_value_heads {groups} differ"
        require(heads == groups, message)

    @property
    def hop_length(self) -> int:
        """Samples a frame."""
        return math.prod(self.upsample_rates) * math.prod(self.upsampling_ratios)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(_Attention):
    """The speech tokenizer's encoder (Mimi): samples to codes.

    Attributes:
        upsampling_ratios: strides of the convolutions, the last one first.
        num_quantizers: codebooks in the file; the model hears the first `num_kept` of them.
    """

    # NOTE: the sliding window is of no effect in the official package, which attends to all before
    ignored: ClassVar = IGNORED
    fixed: ClassVar = ("attention_bias", "normalize", "use_causal_conv", "use_conv_shortcut")

    audio_channels: Literal[1]
    codebook_dim: Size
    codebook_size: Size
    compress: Stride
    dilation_growth_rate: Annotated[int, Meta(ge=1, le=16)]
    kernel_size: Stride
    last_kernel_size: Stride
    norm_eps: Epsilon
    num_filters: Size
    num_quantizers: Size
    num_residual_layers: Annotated[int, Meta(ge=1, le=4)]
    num_semantic_quantizers: Size
    residual_kernel_size: Stride
    max_position_embeddings: NumPositions = 8000
    upsampling_ratios: Strides
    vector_quantization_hidden_dimension: Size
    hidden_act: Literal["gelu"] = "gelu"
    pad_mode: Literal["constant"] = "constant"
    sampling_rate: Literal[24_000] = 24_000
    trim_right_ratio: Annotated[float, Meta(ge=1, le=1)] = 1.0
    normalize: bool = False
    use_causal_conv: bool = True
    use_conv_shortcut: bool = False


@dataclass(frozen=True, kw_only=True)
class CodecConfig(Settings):
    """`speech_tokenizer/config.json`."""

    ignored: ClassVar = IGNORED

    decoder_config: DecoderConfig
    encoder_config: EncoderConfig
    encoder_valid_num_quantizers: Size
    input_sample_rate: SampleRate
    output_sample_rate: SampleRate
    decode_upsample_rate: Size
    encode_downsample_rate: Size

    def __post_init__(self) -> None:
        for one, other in (
            ("input_sample_rate", "output_sample_rate"),
            ("decode_upsample_rate", "encode_downsample_rate"),
        ):
            is_same = getattr(self, one) == getattr(self, other)
            require(is_same, f"{one} and {other} differ")


@dataclass(frozen=True, kw_only=True)
class GenerationConfig(Settings):
    """How codes are drawn where nothing else is said; defaults are the official package's."""

    ignored: ClassVar = IGNORED

    do_sample: bool = True
    temperature: NotNegative = 0.9
    top_k: Annotated[int, Meta(ge=0, lt=2**31)] = 50
    top_p: NotNegative = 1.0
    repetition_penalty: NotNegative = 1.05
    subtalker_dosample: bool = True
    subtalker_temperature: NotNegative = 0.9
    subtalker_top_k: Annotated[int, Meta(ge=0, lt=2**31)] = 50
    subtalker_top_p: NotNegative = 1.0
    max_new_tokens: Annotated[int, Meta(ge=1, lt=2**31)] = 8192


_DECODER = DecoderConfig(
    latent_dim=1024, codebook_dim=512, codebook_size=2048, decoder_dim=1536, hidden_size=512,
    intermediate_size=1024, head_dim=64, num_attention_heads=16, num_key_value_heads=16,
    num_hidden_layers=8, num_quantizers=16, rms_norm_eps=1e-5, rope_theta=10_000.0,
    sliding_window=72, upsample_rates=(8, 5, 4, 3), upsampling_ratios=(2, 2),
    vector_quantization_hidden_dimension=512,
)  # fmt: skip
_ENCODER = EncoderConfig(
    audio_channels=1, codebook_dim=256, codebook_size=2048, compress=2, dilation_growth_rate=2,
    head_dim=64, hidden_size=512, intermediate_size=2048, kernel_size=7, last_kernel_size=3,
    norm_eps=1e-5, num_attention_heads=8, num_key_value_heads=8, num_filters=64,
    num_hidden_layers=8, num_quantizers=32, num_residual_layers=1, num_semantic_quantizers=1,
    residual_kernel_size=3, rope_theta=10_000.0, upsampling_ratios=(8, 6, 5, 4),
    vector_quantization_hidden_dimension=256,
)  # fmt: skip
# the released speech tokenizer's sizes, for a model of true size without its file
RELEASED_CODEC = CodecConfig(
    decoder_config=_DECODER, encoder_config=_ENCODER, encoder_valid_num_quantizers=16,
    input_sample_rate=24_000, output_sample_rate=24_000, decode_upsample_rate=1920,
    encode_downsample_rate=1920,
)  # fmt: skip
