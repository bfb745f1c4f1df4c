"""A Qwen3-TTS checkpoint's JSON files as one frozen dataclass.

`config.json` gives the talker, its code predictor, the speaker encoder and every special id;
`speech_tokenizer/config.json` the codec; `generation_config.json` how codes are drawn. Keys this
version does not know are logged; missing ones, wrong types and ranges, and settings that the code
does not have are an error that names them. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from voxcli.errors import CheckpointError
from voxcli.models.qwen3_tts.names import (
    BASE,
    CONFIG,
    CUSTOM_VOICE,
    GENERATION,
    SPEECH_TOKENIZER,
    VOICE_DESIGN,
)
from voxcli.models.qwen3_tts.sizes import (
    IGNORED,
    RELEASED_CODEC,
    CodecConfig,
    DecoderConfig,
    EncoderConfig,
    GenerationConfig,
    PredictorConfig,
    SpeakerConfig,
    TalkerConfig,
)
from voxcli.models.settings import Settings, TokenId, read_json, require, shown


@dataclass(frozen=True, kw_only=True)
class _Root(Settings):
    """`config.json`."""

    ignored: ClassVar = IGNORED

    tokenizer_type: str = ""
    tts_model_type: Literal["custom_voice", "voice_design", "base"]
    tts_model_size: str = ""
    talker_config: TalkerConfig
    speaker_encoder_config: SpeakerConfig | None = None
    im_start_token_id: TokenId
    im_end_token_id: TokenId
    tts_pad_token_id: TokenId
    tts_bos_token_id: TokenId
    tts_eos_token_id: TokenId
    assistant_token_id: TokenId

    def __post_init__(self) -> None:
        is_base = self.tts_model_type == BASE
        has_speaker = self.speaker_encoder_config is not None
        require(has_speaker or not is_base, "speaker_encoder_config is missing")
        size = self.talker_config.text_vocab_size
        for name, value in vars(self).items():
            if name.endswith("_token_id"):
                require(value < size, f"{name} {value} is outside of text_vocab_size {size}")


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
    num_kept: int
    sample_rate: int
    hop_length: int

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
            CheckpointError: a field is missing, of another type, out of range or not supported.
        """
        _check_rate(root, "tokenizer_type", CONFIG)
        own = _Root.read(root, CONFIG)
        codec = RELEASED_CODEC
        if speech_tokenizer is not None:
            _check_rate(speech_tokenizer, "model_type", SPEECH_TOKENIZER)
            codec = CodecConfig.read(speech_tokenizer, SPEECH_TOKENIZER)
        config = cls(
            kind=own.tts_model_type,
            size=own.tts_model_size,
            talker=own.talker_config,
            predictor=own.talker_config.code_predictor_config,
            speaker=own.speaker_encoder_config if own.tts_model_type == BASE else None,
            decoder=codec.decoder_config,
            encoder=codec.encoder_config,
            generation=GenerationConfig.read(generation or {}, GENERATION),
            im_start_token_id=own.im_start_token_id,
            im_end_token_id=own.im_end_token_id,
            tts_pad_token_id=own.tts_pad_token_id,
            tts_bos_token_id=own.tts_bos_token_id,
            tts_eos_token_id=own.tts_eos_token_id,
            assistant_token_id=own.assistant_token_id,
            num_kept=codec.encoder_valid_num_quantizers,
            sample_rate=codec.output_sample_rate,
            hop_length=codec.decode_upsample_rate,
        )
        config._check()
        return config

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a checkpoint folder's files; raises CheckpointError as `of`."""
        return cls.beside(folder, read_json(folder / CONFIG))

    @classmethod
    def beside(cls, folder: Path, root: Mapping[str, Any]) -> Self:
        """From a parsed `config.json` and the other files where the folder has them."""
        others = [
            read_json(path) if path.is_file() else None
            for path in (folder / SPEECH_TOKENIZER, folder / GENERATION)
        ]
        return cls.of(root, *others)

    def _check(self) -> None:
        """Numbers in several files that have to agree."""
        talker, decoder = self.talker, self.decoder
        groups, books = talker.num_code_groups, decoder.num_quantizers
        agreements = {
            "num_code_groups of talker and code predictor": (
                groups, self.predictor.num_code_groups,
            ),
            "num_code_groups and decoder_config.num_quantizers": (groups, books),
            "decoder_config.num_quantizers and encoder_valid_num_quantizers": (
                books, self.num_kept,
            ),
            "vocab_size of the code predictor and decoder_config.codebook_size": (
                self.predictor.vocab_size, decoder.codebook_size,
            ),
            "codebook_size of decoder_config and encoder_config": (
                decoder.codebook_size, self.encoder.codebook_size,
            ),
            "decode_upsample_rate and upsample_rates times upsampling_ratios": (
                self.hop_length, decoder.hop_length,
            ),
        }  # fmt: skip
        if self.speaker is not None:
            agreements |= {
                "hidden_size of talker_config and enc_dim": (
                    talker.hidden_size, self.speaker.enc_dim,
                ),
                "output_sample_rate and sample_rate of speaker_encoder_config": (
                    self.sample_rate, self.speaker.sample_rate,
                ),
            }  # fmt: skip
        for what, (one, other) in agreements.items():
            if one != other:
                raise CheckpointError(
                    f"{CONFIG} and {SPEECH_TOKENIZER}: {what} differ: {one} and {other}"
                )

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


def _check_rate(values: Mapping[str, Any], key: str, where: str) -> None:
    """Refuse the speech tokenizer of 25 frames a second, which is another model."""
    kind = values.get(key)
    if "12hz" not in str(kind):
        raise CheckpointError(
            f"{where}: {key}: the speech tokenizer {shown(kind)} is not supported",
            hint="voxcli has the 12 Hz models, such as Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice",
        )
