"""A Qwen3-TTS checkpoint's JSON files as frozen dataclasses.

`config.json` gives the talker, its code predictor, the speaker encoder and every special id;
`speech_tokenizer/config.json` the codec; `generation_config.json` how codes are drawn. The files'
key names are kept. Keys this version does not know are logged, missing ones are an error that
names them, and so is a setting that the code does not have. No torch.

Source of what the settings mean: QwenLM/Qwen3-TTS@022e286b (Apache-2.0).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from voxcli.errors import CheckpointError

logger = logging.getLogger(__name__)

CONFIG = "config.json"
GENERATION = "generation_config.json"
SPEECH_TOKENIZER = "speech_tokenizer/config.json"

CUSTOM_VOICE, VOICE_DESIGN, BASE = "custom_voice", "voice_design", "base"
KINDS = (CUSTOM_VOICE, VOICE_DESIGN, BASE)

# ISO 639-1 to the name that the checkpoint's table has, the most trained first
LANGUAGES = {
    "en": "english", "zh": "chinese", "ja": "japanese", "ko": "korean", "fr": "french",
    "de": "german", "es": "spanish", "it": "italian", "pt": "portuguese", "ru": "russian",
}  # fmt: skip

# read by the trainer or by other loaders, or of no effect at inference
_IGNORED = {
    "architectures", "attention_dropout", "auto_map", "cache_implementation", "dtype",
    "initializer_range", "layer_scale_initial_scale", "layer_types", "max_length",
    "max_window_layers", "model_type", "position_id_per_seconds", "sliding_window", "torch_dtype",
    "transformers_version", "upsample_groups", "use_cache", "_frame_rate",
    # NOTE: the files name it, but all of the official decoder's codebooks have `codebook_size`
    "semantic_codebook_size",
}  # fmt: skip


class _FromDict:
    """Reads itself from parsed JSON.

    `optional` fields have a default that a file may rely on, which is the official class's; other
    defaults are the released files' values, for sizes without a file. `only` are settings with the
    one value that is supported.
    """

    optional: ClassVar[frozenset[str]] = frozenset()
    only: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def from_dict(cls, values: Any, where: str) -> Self:
        if not isinstance(values, Mapping):
            raise CheckpointError(f"{where} is no object")
        names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
        missing = [name for name in names if name not in values and name not in cls.optional]
        if missing:
            raise CheckpointError(f"{where} lacks {', '.join(missing)}")
        for name, wanted in cls.only.items():
            if values.get(name, wanted) != wanted:
                raise CheckpointError(f"{where}: {name} {values[name]!r} is not supported")
        unknown = sorted(set(values) - set(names) - set(cls.only) - _IGNORED)
        if unknown:
            logger.info("%s has keys voxcli does not use: %s", where, unknown)
        lists = {name: tuple(found) for name, found in values.items() if isinstance(found, list)}
        return cls(**{name: {**values, **lists}[name] for name in names if name in values})


@dataclass(frozen=True, kw_only=True)
class StackConfig(_FromDict):
    """A causal transformer: normalised queries and keys, rotary positions, gated SiLU layers."""

    only: ClassVar[Mapping[str, Any]] = {
        "attention_bias": False, "hidden_act": "silu", "use_sliding_window": False,
        "tie_word_embeddings": False,
    }  # fmt: skip

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int
    vocab_size: int
    num_code_groups: int


@dataclass(frozen=True, kw_only=True)
class PredictorConfig(StackConfig):
    """The code predictor: codes 1 to 15 of a frame, from the talker's state and code 0.

    `vocab_size` is of one codebook.
    """

    # the key is there in the predictor's block of every released file, and says null
    only: ClassVar[Mapping[str, Any]] = {**StackConfig.only, "rope_scaling": None}


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

    text_hidden_size: int
    text_vocab_size: int
    codec_bos_id: int
    codec_eos_token_id: int
    codec_pad_id: int
    codec_think_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    codec_language_id: Mapping[str, int]
    spk_id: Mapping[str, int] = field(default_factory=dict)
    spk_is_dialect: Mapping[str, str | bool] = field(default_factory=dict)
    rope_scaling: Mapping[str, Any] | None = None

    optional: ClassVar[frozenset[str]] = frozenset({"spk_id", "spk_is_dialect", "rope_scaling"})
    only: ClassVar[Mapping[str, Any]] = {**StackConfig.only}

    def __post_init__(self) -> None:
        # NOTE: the rotary sections ("mrope") get three equal rows of positions in this model, which
        # makes them ordinary rotary positions; only a stretched kind would differ.
        kind = (self.rope_scaling or {}).get("rope_type", "default")
        if kind != "default":
            raise CheckpointError(f"{CONFIG}: talker_config: rope_type {kind!r} is not supported")

    @property
    def suppressed(self) -> tuple[int, int]:
        """First and end of the ids that are never drawn, but for `codec_eos_token_id`.

        The last 1,024 of the table, as in the official code.
        """
        return self.vocab_size - 1024, self.vocab_size


@dataclass(frozen=True, kw_only=True)
class SpeakerConfig(_FromDict):
    """The speaker encoder (ECAPA-TDNN); defaults are the official class's, which files rely on."""

    enc_dim: int
    sample_rate: int = 24_000
    mel_dim: int = 128
    enc_channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    enc_kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 128
    enc_res2net_scale: int = 8
    enc_se_channels: int = 128

    optional: ClassVar[frozenset[str]] = frozenset(
        {
            "sample_rate", "mel_dim", "enc_channels", "enc_kernel_sizes", "enc_dilations",
            "enc_attention_channels", "enc_res2net_scale", "enc_se_channels",
        }
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(_FromDict):
    """The speech tokenizer's decoder: codes to samples.

    Attributes:
        codebook_dim: both halves of it together; a codebook's own entries are half as wide.
        latent_dim: width between the quantizer and the convolutions.
        hidden_size, intermediate_size, head_dim: of the transformer.
        sliding_window: frames a frame attends to, itself one of them.
        upsampling_ratios: of the stages before the convolutional decoder.
        upsample_rates: of its blocks.
    """

    latent_dim: int = 1024
    codebook_dim: int = 512
    codebook_size: int = 2048
    decoder_dim: int = 1536
    hidden_size: int = 512
    intermediate_size: int = 1024
    head_dim: int = 64
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    num_hidden_layers: int = 8
    num_quantizers: int = 16
    num_semantic_quantizers: int = 1
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    max_position_embeddings: int = 8000
    sliding_window: int = 72
    upsample_rates: tuple[int, ...] = (8, 5, 4, 3)
    upsampling_ratios: tuple[int, ...] = (2, 2)
    vector_quantization_hidden_dimension: int = 512

    optional: ClassVar[frozenset[str]] = frozenset(
        {"max_position_embeddings", "num_semantic_quantizers"}
    )
    only: ClassVar[Mapping[str, Any]] = {"attention_bias": False, "hidden_act": "silu"}

    @property
    def hop_length(self) -> int:
        """Samples a frame."""
        return math.prod(self.upsample_rates) * math.prod(self.upsampling_ratios)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(_FromDict):
    """The speech tokenizer's encoder (Mimi): samples to codes.

    Attributes:
        upsampling_ratios: strides of the convolutions, the last one first.
        num_quantizers: codebooks in the file; the model hears the first `num_kept` of them.
    """

    audio_channels: int = 1
    codebook_dim: int = 256
    codebook_size: int = 2048
    compress: int = 2
    dilation_growth_rate: int = 2
    head_dim: int = 64
    hidden_size: int = 512
    intermediate_size: int = 2048
    kernel_size: int = 7
    last_kernel_size: int = 3
    norm_eps: float = 1e-5
    num_attention_heads: int = 8
    num_key_value_heads: int = 8
    num_filters: int = 64
    num_hidden_layers: int = 8
    num_quantizers: int = 32
    num_residual_layers: int = 1
    num_semantic_quantizers: int = 1
    residual_kernel_size: int = 3
    rope_theta: float = 10_000.0
    max_position_embeddings: int = 8000
    upsampling_ratios: tuple[int, ...] = (8, 6, 5, 4)
    vector_quantization_hidden_dimension: int = 256
    # NOTE: of no effect in the official package, which attends to the whole past
    sliding_window: int | None = 250

    optional: ClassVar[frozenset[str]] = frozenset({"max_position_embeddings", "sliding_window"})
    only: ClassVar[Mapping[str, Any]] = {
        "attention_bias": False, "hidden_act": "gelu", "audio_channels": 1, "pad_mode": "constant",
        "normalize": False, "use_causal_conv": True, "use_conv_shortcut": False,
        "trim_right_ratio": 1.0, "sampling_rate": 24_000,
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GenerationConfig(_FromDict):
    """How codes are drawn where nothing else is said; defaults are the official package's."""

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    subtalker_dosample: bool = True
    subtalker_temperature: float = 0.9
    subtalker_top_k: int = 50
    subtalker_top_p: float = 1.0
    max_new_tokens: int = 8192

    optional: ClassVar[frozenset[str]] = frozenset(
        {
            "do_sample", "temperature", "top_k", "top_p", "repetition_penalty",
            "subtalker_dosample", "subtalker_temperature", "subtalker_top_k", "subtalker_top_p",
            "max_new_tokens",
        }
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Qwen3TTSConfig:
    """The whole checkpoint.

    Attributes:
        kind: `CUSTOM_VOICE`, `VOICE_DESIGN` or `BASE`.
        size: "0b6" or "1b7".
        speaker: of `BASE` alone.
        num_kept: codebooks that a recording is heard in, `encoder_valid_num_quantizers` (K).
        sample_rate: Hz, of the speech and of what the model hears.
        hop_length: samples a frame.
    """

    kind: str
    size: str
    talker: TalkerConfig
    predictor: PredictorConfig
    speaker: SpeakerConfig | None
    decoder: DecoderConfig
    encoder: EncoderConfig
    generation: GenerationConfig
    im_start_token_id: int
    im_end_token_id: int
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    assistant_token_id: int
    num_kept: int = 16
    sample_rate: int = 24_000
    hop_length: int = 1920

    # ------------------------------------------------------------ what it can do

    @property
    def has_style(self) -> bool:
        """Whether it follows an instruction in words.

        The official code asks whether the size is a part of "0b6", and drops the instruction of
        such a model without a word.
        """
        return self.kind == VOICE_DESIGN or (self.kind == CUSTOM_VOICE and self.size not in "0b6")

    @property
    def languages(self) -> Mapping[str, int]:
        """Language name to codec id, without dialects."""
        table = self.talker.codec_language_id
        return {name: index for name, index in table.items() if "dialect" not in name}

    @property
    def speakers(self) -> Mapping[str, int]:
        """Preset speaker, in lower case, to codec id."""
        return {name.lower(): index for name, index in self.talker.spk_id.items()}

    @property
    def dialects(self) -> Mapping[str, int]:
        """Speaker to the codec id of the dialect it speaks Chinese in; only those that do."""
        table = self.talker.codec_language_id
        return {
            name.lower(): table[dialect]
            for name, dialect in self.talker.spk_is_dialect.items()
            if isinstance(dialect, str) and dialect
        }

    # ------------------------------------------------------------ reading

    @classmethod
    def of(
        cls,
        root: Mapping[str, Any],
        speech_tokenizer: Mapping[str, Any] | None = None,
        generation: Mapping[str, Any] | None = None,
    ) -> Self:
        """From the parsed files.

        Args:
            speech_tokenizer: None means the released one's sizes.
            generation: None means the official package's.

        Raises:
            CheckpointError: a needed key is missing or a setting is not supported.
        """
        _check_rate(str(root.get("tokenizer_type", "")), CONFIG)
        kind = str(root.get("tts_model_type"))
        if kind not in KINDS:
            hint = f"known: {', '.join(KINDS)}"
            raise CheckpointError(f"{CONFIG}: tts_model_type '{kind}' is not supported", hint=hint)
        talker = root.get("talker_config")
        if not isinstance(talker, Mapping):
            raise CheckpointError(f"{CONFIG} lacks talker_config")
        predictor = talker.get("code_predictor_config")
        own = {name: value for name, value in talker.items() if name != "code_predictor_config"}
        speaker = root.get("speaker_encoder_config") if kind == BASE else None
        if kind == BASE and speaker is None:
            raise CheckpointError(f"{CONFIG} lacks speaker_encoder_config")
        names = [each.name for each in fields(cls) if each.name.endswith("_token_id")]
        missing = [name for name in names if not isinstance(root.get(name), int)]
        if missing:
            raise CheckpointError(f"{CONFIG} lacks {', '.join(missing)}")
        config = cls(
            kind=kind,
            size=str(root.get("tts_model_size", "")),
            talker=TalkerConfig.from_dict(own, f"{CONFIG}: talker_config"),
            predictor=PredictorConfig.from_dict(
                predictor, f"{CONFIG}: talker_config: code_predictor_config"
            ),
            speaker=None
            if speaker is None
            else SpeakerConfig.from_dict(speaker, f"{CONFIG}: speaker_encoder_config"),
            generation=GenerationConfig.from_dict(generation or {}, GENERATION),
            **_codec(speech_tokenizer),
            **{name: root[name] for name in names},
        )
        config._check()
        return config

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a checkpoint folder's files; raises CheckpointError as `of`."""
        return cls.beside(folder, _read(folder / CONFIG))

    @classmethod
    def beside(cls, folder: Path, root: Mapping[str, Any]) -> Self:
        """From a parsed `config.json` and the other files where the folder has them."""
        others = [
            _read(path) if path.is_file() else None
            for path in (folder / SPEECH_TOKENIZER, folder / GENERATION)
        ]
        return cls.of(root, *others)

    def _check(self) -> None:
        """Numbers in several files that have to agree."""
        dialects = {value for value in self.talker.spk_is_dialect.values() if value}
        unknown = sorted(str(name) for name in dialects - set(self.talker.codec_language_id))
        agreements = {
            "code groups of talker and predictor": (
                self.talker.num_code_groups,
                self.predictor.num_code_groups,
            ),
            "codebooks of talker and speech tokenizer": (
                self.talker.num_code_groups,
                self.decoder.num_quantizers,
            ),
            "codebooks of the speech tokenizer's two sides": (
                self.decoder.num_quantizers,
                self.num_kept,
            ),
            "entries of a codebook": (self.predictor.vocab_size, self.decoder.codebook_size),
            "samples a frame": (self.hop_length, self.decoder.hop_length),
        }
        if self.speaker is not None:
            agreements["widths of talker and speaker vector"] = (
                self.talker.hidden_size,
                self.speaker.enc_dim,
            )
            agreements["sample rates of speech and speaker encoder"] = (
                self.sample_rate,
                self.speaker.sample_rate,
            )
        for what, (one, other) in agreements.items():
            if one != other:
                raise CheckpointError(f"the checkpoint's {what} differ: {one} and {other}")
        if unknown:
            raise CheckpointError(f"{CONFIG}: codec_language_id lacks {', '.join(unknown)}")

    # ------------------------------------------------------------ smaller

    def shortened(self) -> Self:
        """The same with two layers a stack, the first and the last: those between are like them."""
        stacks = {
            name: getattr(self, name) for name in ("talker", "predictor", "decoder", "encoder")
        }
        return replace(
            self,
            **{
                name: replace(stack, num_hidden_layers=min(2, stack.num_hidden_layers))
                for name, stack in stacks.items()
            },
        )


def _codec(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """What `speech_tokenizer/config.json` says."""
    if values is None:
        return {"decoder": DecoderConfig(), "encoder": EncoderConfig()}
    _check_rate(str(values.get("model_type", "")), SPEECH_TOKENIZER)
    names = (
        "encoder_valid_num_quantizers", "input_sample_rate", "output_sample_rate",
        "decode_upsample_rate", "encode_downsample_rate",
    )  # fmt: skip
    missing = [name for name in names if not isinstance(values.get(name), int)]
    if missing:
        raise CheckpointError(f"{SPEECH_TOKENIZER} lacks {', '.join(missing)}")
    for one, other in (names[1:3], names[3:5]):
        if values[one] != values[other]:
            raise CheckpointError(f"{SPEECH_TOKENIZER}: {one} and {other} differ")
    return {
        "decoder": DecoderConfig.from_dict(
            values.get("decoder_config"), f"{SPEECH_TOKENIZER}: decoder_config"
        ),
        "encoder": EncoderConfig.from_dict(
            values.get("encoder_config"), f"{SPEECH_TOKENIZER}: encoder_config"
        ),
        "num_kept": values["encoder_valid_num_quantizers"],
        "sample_rate": values["output_sample_rate"],
        "hop_length": values["decode_upsample_rate"],
    }


def _check_rate(kind: str, where: str) -> None:
    """Refuse the speech tokenizer of 25 frames a second, which is another model."""
    if "12hz" not in kind:
        raise CheckpointError(
            f"{where}: the speech tokenizer '{kind}' is not supported",
            hint="voxcli has the 12 Hz models, such as Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice",
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as err:
        raise CheckpointError(f"{path} cannot be read: {err}") from err
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return values
