"""Qwen3-TTS whole: prompts into slot state, one frame a step, frames into samples.

One step: the talker's state -> code 0 -> the code predictor's other codes -> a frame; then the sum
of the frame's embeddings and of the next text id -> the talker's next state. A step reads and
writes rows of `SlotState` in place and returns no decision to the host. The end is a code 0 without
a frame.

Source: QwenLM/Qwen3-TTS@022e286b `core/models/modeling_qwen3_tts.py` (Apache-2.0). Differences:
many slots; the vocoder is exact at any length. The step itself is in `step.py` and `fused.py`.

Letters: `B` rows, `N` positions, `K` codebooks, `H` width of the talker, `S` samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from voxcli.errors import CheckpointError
from voxcli.layers.memory import upload
from voxcli.models.causal import compile_products_ahead
from voxcli.models.data import (
    Input,
    ModelInfo,
    PackedSpans,
    PromptKind,
    PromptParts,
    PromptShape,
    Rows,
    Span,
    StepOutput,
)
from voxcli.models.qwen3_tts import fused_code2wav
from voxcli.models.qwen3_tts.backbone import FrameStack, SlotStack
from voxcli.models.qwen3_tts.code2wav import Code2Wav
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.encoder import SpeechEncoder
from voxcli.models.qwen3_tts.family import Parameters, Qwen3TTSFamily
from voxcli.models.qwen3_tts.fused import FusedFrameStack, FusedSlotStack, FusedStep, supports
from voxcli.models.qwen3_tts.fused_code2wav import FusedCode2Wav
from voxcli.models.qwen3_tts.names import BASE
from voxcli.models.qwen3_tts.predictor import Predictor
from voxcli.models.qwen3_tts.prompt import CODES, NOTHING, X_VECTOR, Prompt, layout
from voxcli.models.qwen3_tts.sizes import DecoderConfig
from voxcli.models.qwen3_tts.speaker import SpeakerEncoder
from voxcli.models.qwen3_tts.step import ROW_INPUTS, SlotState, Step
from voxcli.models.qwen3_tts.talker import Talker
from voxcli.models.qwen3_tts.tokenize import TextTokenizer
from voxcli.models.sources import Source
from voxcli.utterance import Use

MIN_FRAMES = 2  # the end is forbidden for the first two
FIRST_CHUNK, CHUNK = 1, 12  # frames; 0.96 s

IDS, FRAMES = "ids", "frames"  # kinds of spans: without and with frames of a recording
PROMPT_KINDS = (
    PromptKind(IDS, (32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048)),
    PromptKind(FRAMES, (64, 128, 256, 512, 1024)),
)


class Qwen3TTS:
    """A loaded model; see `models.base.SpeechModel` for the contract of each method.

    Args:
        tokenizer: None where no text is to be read.
    """

    family = Qwen3TTSFamily()
    row_inputs = ROW_INPUTS
    prompt_kinds = PROMPT_KINDS

    def __init__(
        self, config: Qwen3TTSConfig, source: Source, tokenizer: TextTokenizer | None
    ) -> None:
        self.config = config
        self.tokenizer = tokenizer
        stacks: tuple[type[SlotStack], type[FrameStack]] = SlotStack, FrameStack
        step = Step
        if supports(config, source.device, source.dtype):
            stacks, step = (FusedSlotStack, FusedFrameStack), FusedStep
        self.talker = Talker(source, config, stacks[0])
        if isinstance(self.talker.stack, FusedSlotStack):
            compile_products_ahead(self.talker.stack)
        codes = self.talker.codes_of_books()
        self.predictor = Predictor(source, config.predictor, codes, stacks[1])
        self.step = step(self.talker, self.predictor)
        decoder: Callable[[Source, DecoderConfig], Code2Wav] = Code2Wav
        if fused_code2wav.supports(config.decoder, source.device, source.dtype):
            decoder = FusedCode2Wav
        self.code2wav = decoder(source, config.decoder)
        self.speaker_encoder: SpeakerEncoder | None = None
        self.speech_encoder: SpeechEncoder | None = None
        if config.speaker is not None:
            self.speaker_encoder = SpeakerEncoder(source, config.speaker)
            self.speech_encoder = SpeechEncoder(source, config)
        self.device, self.dtype = source.device, source.dtype
        self.num_codes, self.num_codec_ids = config.predictor.vocab_size, config.talker.vocab_size
        self.num_books = config.talker.num_code_groups
        self.width = config.talker.hidden_size
        self.info = ModelInfo(
            family=self.family.name,
            sample_rate=config.sample_rate,
            reference_sample_rate=config.sample_rate,
            hop_length=config.hop_length,
            max_positions=config.talker.max_position_embeddings,
            min_frames=MIN_FRAMES,
            num_parameters=source.num_parameters,
            first_chunk=FIRST_CHUNK,
            chunk=CHUNK,
        )

    # ------------------------------------------------------------ prompts

    def make_prompt(self, parts: PromptParts) -> Prompt:
        if parts.parameters is not None:
            return self.lay_out(parts, is_text_streamed=parts.parameters.is_text_streamed)
        # as the official package: text streamed beside cloned speech, whole before any other
        return self.lay_out(parts, is_text_streamed=self.config.kind == BASE)

    def lay_out(self, parts: PromptParts, *, is_text_streamed: bool) -> Prompt:
        """A prompt in one of the two text layouts."""
        if self.tokenizer is None:
            raise CheckpointError("this model has no tokenizer files, so it cannot take a text")
        return layout(self.config, self.tokenizer, parts, is_text_streamed)

    def encode_recording(self, samples: np.ndarray, use: Use) -> dict[str, np.ndarray]:
        """The voice's vector, float32 `[H]`; for speech to continue its frames `[T, K]` as well.

        Raises:
            RecordingError: too short to hear a voice in.
        """
        assert self.speaker_encoder is not None, "the planner refuses recordings for this model"
        assert self.speech_encoder is not None
        with torch.inference_mode():
            uploaded = torch.from_numpy(samples.astype(np.float32, copy=False)).to(self.device)
            heard = {X_VECTOR: self.speaker_encoder(uploaded).float().cpu().numpy()}
            if use is Use.PROMPT:
                heard[CODES] = self.speech_encoder(uploaded).cpu().numpy()
        return heard

    def can_take(self, arrays: Mapping[str, np.ndarray], use: Use) -> bool:
        if self.speaker_encoder is None:
            return False
        vector, codes = arrays.get(X_VECTOR), arrays.get(CODES)
        can_hear = vector is not None and _is(vector, np.float32, (self.width,))
        if use is not Use.PROMPT or codes is None:
            return can_hear and use is not Use.PROMPT
        is_frames = _is(codes, np.int64, (len(codes), self.num_books)) and len(codes) > 0
        return can_hear and is_frames and bool(codes.min() >= 0 and codes.max() < self.num_codes)

    def can_say(self, character: str) -> bool:
        return self.tokenizer is not None and self.tokenizer.can_say(character)

    # ------------------------------------------------------------ state

    def state_bytes(self, num_slots: int, num_positions: int) -> int:
        talker = self.config.talker
        heads = 2 * talker.num_key_value_heads * talker.head_dim  # keys and values
        numbers = talker.num_hidden_layers * heads * num_positions + self.width
        row = self.dtype.itemsize * numbers + self.num_codec_ids
        return num_slots * row + self.code2wav.state_bytes(num_slots)

    def new_state(self, num_slots: int, num_positions: int) -> SlotState:
        assert num_positions <= self.info.max_positions, (num_positions, self.info.max_positions)
        device = self.device
        return SlotState(
            cache=self.talker.stack.new_cache(num_slots, num_positions),
            hidden=torch.zeros(num_slots, self.width, dtype=self.dtype, device=device),
            seen=torch.zeros(num_slots, self.num_codec_ids, dtype=torch.bool, device=device),
            code2wav=self.code2wav.new_state(num_slots),
        )

    def copy_prefix(self, state: SlotState, source: int, slot: int, length: int) -> None:
        for rows in (state.cache.keys, state.cache.values):  # [L, slots, G, N, C]
            rows[:, slot, :, :length] = rows[:, source, :, :length]

    # ------------------------------------------------------------ prefill

    def prefill_together(self, state: SlotState, spans: Sequence[tuple[Prompt, int, int]]) -> None:
        hidden = self._run_prompts(
            state, [(prompt, slot, start, len(prompt)) for prompt, slot, start in spans]
        )
        for index, (prompt, slot, _) in enumerate(spans):
            state.hidden[slot] = hidden[index]
            state.seen[slot].zero_()
            state.code2wav.reset(slot)
            self.resume(state, slot, prompt)

    def prefill_prefix(self, state: SlotState, prompt: Prompt, slot: int) -> None:
        self._run_prompts(state, [(prompt, slot, 0, prompt.prefix_len)])

    def _run_prompts(
        self, state: SlotState, spans: Sequence[tuple[Prompt, int, int, int]]
    ) -> Tensor:
        """Positions of prompts, each with its slot, first and end; the last of each, `[B, H]`."""
        x = torch.cat([self.embed(prompt, start, end) for prompt, _, start, end in spans])
        places = [(slot, start, end - start) for _, slot, start, end in spans]
        return self.talker.stack.prefill_ends(x, state.cache, places)

    def embed(self, prompt: Prompt, start: int, end: int) -> Tensor:
        """What the talker hears at positions `start .. end` of a prompt; `[N, H]`."""
        shape = PromptShape(end - start, 1, self.kind_of(prompt, start, end))
        span = Span(prompt, 0, start, end)
        arrays = {each.name: np.zeros(each.shape, each.dtype) for each in self.prompt_inputs(shape)}
        self.fill_inputs(shape, [span], arrays)
        inputs = {name: self._upload(array) for name, array in arrays.items()}
        return self._embed_packed(inputs)

    def kind_of(self, prompt: Prompt, start: int, end: int) -> str:
        has_frames = len(prompt.ref_codes) and end > prompt.ref_at and start < _ref_end(prompt)
        return FRAMES if has_frames else IDS

    def prompt_inputs(self, shape: PromptShape) -> tuple[Input, ...]:
        N = shape.num_positions
        ids = (
            Input("text_ids", "int64", (N,)),
            Input("codec_ids", "int64", (N,)),
            # where in N the speaker of each span is, or N where it has none
            Input("speakers_at", "int64", (shape.num_spans,)),
            Input("speakers", "float32", (shape.num_spans, self.width)),
        )
        return ids if shape.kind == IDS else (*ids, Input("codes", "int64", (N, self.num_books)))

    def fill_inputs(
        self, shape: PromptShape, spans: Sequence[Span], arrays: Mapping[str, np.ndarray]
    ) -> None:
        for name in ("text_ids", "codec_ids", *(("codes",) * (shape.kind == FRAMES))):
            arrays[name][:] = NOTHING
        arrays["speakers_at"][:] = shape.num_positions  # a place that is thrown away
        num_before = 0
        for index, span in enumerate(spans):
            prompt, start, end = span.prompt, span.start, span.end
            assert isinstance(prompt, Prompt)
            own = slice(num_before, num_before + len(span))
            arrays["text_ids"][own] = prompt.text_ids[start:end]
            arrays["codec_ids"][own] = prompt.codec_ids[start:end]
            if prompt.speaker is not None and start <= prompt.speaker_at < end:
                arrays["speakers_at"][index] = num_before + prompt.speaker_at - start
                arrays["speakers"][index] = prompt.speaker
            if shape.kind == FRAMES and len(prompt.ref_codes):
                first, stop = max(start, prompt.ref_at), min(end, _ref_end(prompt))
                codes = prompt.ref_codes[first - prompt.ref_at : max(first, stop) - prompt.ref_at]
                at = num_before + first - start
                arrays["codes"][at : at + len(codes)] = codes
            num_before += len(span)

    def _embed_packed(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Both tracks of spans, added; `[N, H]`."""
        text_ids, codec_ids = inputs["text_ids"], inputs["codec_ids"]
        x = _where_any(text_ids, self.talker.text(text_ids.clamp(min=0)))
        x = x + _where_any(codec_ids, self.talker.hear_codec(codec_ids.clamp(min=0)))
        speakers = x.new_zeros(len(x) + 1, x.shape[1])
        speakers[inputs["speakers_at"]] = inputs["speakers"].to(x.dtype)
        x = x + speakers[:-1]
        if "codes" in inputs:
            codes = inputs["codes"]
            x = x + _where_any(codes[:, 0], self.talker.hear_frames(codes.clamp(min=0)))
        return x

    def prefill_packed(
        self, state: SlotState, shape: PromptShape, packed: PackedSpans,
        inputs: Mapping[str, Tensor],
    ) -> None:  # fmt: skip
        x = self._embed_packed(inputs)
        said = self.talker.stack.prefill_packed(x, state.cache, packed, ends=True)
        rows = packed.ended_rows
        state.hidden[rows] = said
        state.seen.index_fill_(0, rows, False)
        state.code2wav.reset(rows)

    def resume(self, state: SlotState, slot: int, prompt: Prompt) -> None:
        """Let the vocoder hear the frames that the new speech continues."""
        if len(prompt.ref_codes):
            frames = self._upload(prompt.ref_codes).unsqueeze(0)
            self.code2wav.hear(frames, state.code2wav, slice(slot, slot + 1))

    def _upload(self, array: np.ndarray) -> Tensor:
        return upload(array, self.device)

    # ------------------------------------------------------------ decode

    def row_values(self, prompt: Prompt, parameters: Parameters, step: int) -> Sequence[float]:
        return (
            parameters.temperature,
            parameters.top_k,
            parameters.top_p,
            parameters.repetition_penalty,
            parameters.predictor_temperature,
            parameters.predictor_top_k,
            parameters.predictor_top_p,
            prompt.trailing_id(step),
        )

    def decode(self, state: SlotState, rows: Rows) -> StepOutput:
        output = self.generate(state, rows)
        self.advance(state, rows, output.frames)
        return output

    def generate(self, state: SlotState, rows: Rows) -> StepOutput:
        return self.step.generate(state, rows)

    def advance(self, state: SlotState, rows: Rows, frames: Tensor) -> None:
        self.step.advance(state, rows, frames)

    # ------------------------------------------------------------ vocode

    def vocode(self, state: SlotState, slots: Sequence[int] | Tensor, frames: Tensor) -> Tensor:
        rows: Tensor | slice
        if isinstance(slots, Tensor):
            rows = slots
        elif len(slots) == 1 and self.device.type == "cpu":
            rows = slice(slots[0], slots[0] + 1)
        else:
            rows = self._upload(np.array(slots))
        return self.code2wav(frames, state.code2wav, rows)


def _ref_end(prompt: Prompt) -> int:
    """Where the last frame of a prompt's recording is, plus one."""
    return prompt.ref_at + len(prompt.ref_codes)


def _where_any(ids: Tensor, heard: Tensor) -> Tensor:
    """`heard [..., H]`, and zeros where a track has nothing."""
    return torch.where((ids != NOTHING).unsqueeze(-1), heard, 0.0)


def _is(array: np.ndarray, dtype: type, shape: tuple[int, ...]) -> bool:
    return array.dtype == dtype and array.shape == shape
