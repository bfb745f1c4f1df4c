"""A prompt of Qwen3-TTS: two tracks of ids, text and codec, whose embeddings are added.

    text   <instruction> <role> pad … pad bos | the text, whole or one token a step
    codec                       language, speaker, pad | what the layout says

In order: an instruction, if any; the role of who speaks; language and voice; then the text in one
of three layouts: whole before the speech, one token a step beside it, or behind a recording of the
same voice with its transcript. `layout` makes one; nothing here knows an embedding.

Source: QwenLM/Qwen3-TTS@022e286b `qwen_tts/core/models/modeling_qwen3_tts.py`, `generate`
(Apache-2.0); the layouts are the same.

Letters: `N` positions, `M` ids that follow, `R` frames of the recording, `K` codebooks, `H` width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from voxcli.errors import UsageError
from voxcli.models.data import PromptParts
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.names import LANGUAGES
from voxcli.models.qwen3_tts.tokenize import TextTokenizer

OWN_VOICE = "default"  # nobody is named
# who speaks then, each in the own language, and the first in all others
USUAL_VOICES = {"en": "aiden", "zh": "vivian", "ja": "ono_anna", "ko": "sohee"}
NOTHING = -1
X_VECTOR, CODES = "x_vector", "codes"  # arrays of an encoding


@dataclass(frozen=True, eq=False)
class Prompt:
    """What a request starts from.

    Attributes:
        text_ids: int64 `[N]`; `NOTHING` where the text track has nothing.
        codec_ids: int64 `[N]`, of the talker's codec embedding; `NOTHING` as well.
        pad_id: what the text track has in every step after `trailing`.
        trailing: int64 `[M]`, text ids that go with the first `M` frames, one each.
        speaker_at: where the codec track has `speaker`, or `NOTHING`.
        speaker: float32 `[H]`, or None.
        ref_at: where the codec track's first frame of a recording is, or `NOTHING`.
        ref_codes: int64 `[R, K]`, those frames; no rows where there are none.
        max_frames_hint: the most frames that the checkpoint is made for after this prompt.
        prefix_len, prefix_key: positions that prompts in one voice share; see `Prompt` in `data`.
    """

    text_ids: np.ndarray
    codec_ids: np.ndarray
    pad_id: int
    trailing: np.ndarray
    speaker_at: int
    speaker: np.ndarray | None
    ref_at: int
    ref_codes: np.ndarray
    max_frames_hint: int
    prefix_len: int = 0
    prefix_key: str = ""

    def __len__(self) -> int:
        return len(self.text_ids)

    def trailing_id(self, step: int) -> int:
        """The text id that goes with frame `step`."""
        return int(self.trailing[step]) if step < len(self.trailing) else self.pad_id


class _Tracks:
    """Both tracks while they grow."""

    def __init__(self) -> None:
        self.text: list[int] = []
        self.codec: list[int] = []

    def __len__(self) -> int:
        return len(self.text)

    def add(self, text: Sequence[int] | int, codec: Sequence[int] | int) -> None:
        """Positions; a single id goes with each of the other track's."""
        length = max(len(each) for each in (text, codec) if not isinstance(each, int))
        for track, ids in ((self.text, text), (self.codec, codec)):
            track.extend([ids] * length if isinstance(ids, int) else ids)
        assert len(self.text) == len(self.codec)


def layout(
    config: Qwen3TTSConfig, tokenizer: TextTokenizer, parts: PromptParts, is_streaming_text: bool
) -> Prompt:
    """Lay out a prompt.

    Args:
        is_streaming_text: the text goes one token a step beside the speech, not whole before it.

    Raises:
        UsageError: a language or voice that the checkpoint does not have.
    """
    talker, pad = config.talker, config.tts_pad_token_id
    voice, (speaker, codes) = _preset(config, parts), _heard(parts)
    has_style = bool(parts.style.strip())
    tracks = _Tracks()
    if has_style:
        assert config.has_style, "the planner refuses a style that the model does not follow"
        tracks.add(tokenizer.instruction(parts.style), NOTHING)
    tracks.add(tokenizer.opening, NOTHING)
    tracks.add(pad, _language(config, parts.language, voice))
    speaker_at = NOTHING
    if voice:
        tracks.add(pad, [config.speakers[voice]])
    elif speaker is not None:
        speaker_at = len(tracks)
        tracks.add(pad, [NOTHING])
    tracks.add([config.tts_bos_token_id], [talker.codec_pad_id])

    body = [*tokenizer.body(parts.text), config.tts_eos_token_id]
    assert len(body) > 1, "the planner refuses an empty text"
    begin, ref_at, trailing = len(tracks), NOTHING, body[:0]
    shared = begin if has_style or voice or speaker is not None else 0
    if codes is not None:
        own = tokenizer.body(parts.prompt_text)
        shared += len(own)
        trailing = _continue(tracks, config, [*own, *body], len(codes), is_streaming_text)
        ref_at = len(tracks) - len(codes)
    elif is_streaming_text:
        tracks.add(body[:1], [talker.codec_bos_id])
        trailing = body[1:]
    else:
        tracks.add(body, talker.codec_pad_id)
        tracks.add([pad], [talker.codec_bos_id])
    prompt = Prompt(
        text_ids=np.array(tracks.text, np.int64),
        codec_ids=np.array(tracks.codec, np.int64),
        pad_id=pad,
        trailing=np.array(trailing, np.int64),
        speaker_at=speaker_at,
        speaker=speaker,
        ref_at=ref_at,
        ref_codes=np.zeros((0, talker.num_code_groups), np.int64) if codes is None else codes,
        max_frames_hint=_most_frames(config, len(tracks)),
    )
    return _with_prefix(prompt, min(shared, len(prompt) - 1))


def _continue(
    tracks: _Tracks, config: Qwen3TTSConfig, text: list[int], num_frames: int, is_streaming: bool
) -> list[int]:
    """Text and recording, as the speech of the same voice before; what text is left for later."""
    talker, pad = config.talker, config.tts_pad_token_id
    speech = [talker.codec_bos_id, *[NOTHING] * num_frames]
    if not is_streaming:
        tracks.add(text, talker.codec_pad_id)
        tracks.add(pad, speech)
        return []
    beside = text[: len(speech)]
    tracks.add([*beside, *[pad] * (len(speech) - len(beside))], speech)
    return text[len(speech) :]


def _heard(parts: PromptParts) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The vector of the voice, float32 `[H]`, and the frames of the recording, int64 `[R, K]`."""
    voice: Mapping[str, np.ndarray] | None = parts.reference
    if voice is None:
        voice = parts.prompt
    vector = None if voice is None else voice[X_VECTOR].astype(np.float32, copy=False)
    codes = None if parts.prompt is None else parts.prompt[CODES].astype(np.int64, copy=False)
    return vector, codes


def _preset(config: Qwen3TTSConfig, parts: PromptParts) -> str:
    """The preset speaker as the checkpoint spells it; empty where it has none.

    A voice that comes with a recording only names that. Where nobody is named it is always the same
    one for a language: without any, each segment would be somebody else's.
    """
    name = (parts.voice or "").lower()
    if parts.reference is not None or parts.prompt is not None:
        return ""
    if name in ("", OWN_VOICE):
        usual = USUAL_VOICES.get(parts.language, USUAL_VOICES["en"])
        return usual if usual in config.speakers else next(iter(config.speakers), "")
    if name not in config.speakers:
        known = ", ".join(config.speakers) or "none"
        raise UsageError(f"the model has no voice '{parts.voice}'", hint=f"it has: {known}")
    return name


def _language(config: Qwen3TTSConfig, code: str, voice: str) -> list[int]:
    """Codec ids that say the language, or that nothing is said about it.

    A speaker of a dialect speaks Chinese in it; no other way leads to a dialect.
    """
    talker = config.talker
    index = config.languages.get(LANGUAGES.get(code, ""))
    if code and index is None:
        known = ", ".join(config.languages)
        raise UsageError(f"the model does not speak '{code}'", hint=f"it speaks {known}")
    if code in ("", "zh"):
        index = config.dialects.get(voice, index)
    ends = talker.codec_think_bos_id, talker.codec_think_eos_id
    if index is None:
        return [talker.codec_nothink_id, *ends]
    return [talker.codec_think_id, ends[0], index, ends[1]]


def _most_frames(config: Qwen3TTSConfig, length: int) -> int:
    """The last token of the official limit makes no frame."""
    room = config.talker.max_position_embeddings - length
    return max(0, min(room, config.generation.max_new_tokens - 1))


def _with_prefix(prompt: Prompt, length: int) -> Prompt:
    """The prompt with its key, a hash of all that the first positions hold."""
    if length == 0:
        return prompt
    held = [prompt.text_ids[:length], prompt.codec_ids[:length]]
    if prompt.speaker is not None and 0 <= prompt.speaker_at < length:
        held.append(prompt.speaker)
    if 0 <= prompt.ref_at < length:
        held.append(prompt.ref_codes[: length - prompt.ref_at])
    digest = hashlib.sha256()
    for array in held:
        digest.update(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
    return replace(prompt, prefix_len=length, prefix_key=digest.hexdigest())
