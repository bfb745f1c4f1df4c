"""A family that differs from VoxCPM2 in every point that the engine must not rely on.

Chimes: frames are sampled codes, the end is a token without a frame, the vocoder's chunks begin
with two frames and grow, a step has row inputs of both types, prompts are of one kind with a shared
beginning, parameters are of all three types, presets are voices, and a checkpoint has two files of
one base name, twice. Each frame is 80 ms of a tone that swells like syllables, so the output guard
takes it for speech.

Letters: `B` rows, `N` positions, `K` codebooks, `V` codes a book, `T` frames, `S` samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from voxcli.errors import CheckpointError, UsageError
from voxcli.layers.noise import normal
from voxcli.models.base import GraphKey, ModelFacts, ModelFamily
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
from voxcli.parameters import parameter
from voxcli.utterance import Mode, Use, Utterance

K, V = 3, 16
SAMPLE_RATE, HOP = 12_000, 960
VOICES = ("ada", "bo")
CHARACTERS_A_FRAME = 1  # 12.5 characters a second
PREFIX = 4  # positions of a voice


@dataclass(frozen=True)
class Parameters:
    """What chimes can be told."""

    temperature: float = parameter(
        0.9, "How freely a code is drawn", minimum=0.1, maximum=2.0, note="0.1 is nearly greedy"
    )
    top_k: int = parameter(8, "Codes that are drawn from", minimum=1, maximum=V)
    is_greedy: bool = parameter(False, "Take the likeliest code")


class ChimesFamily(ModelFamily):
    """See `ModelFamily`."""

    name = "chimes"
    parameters = Parameters
    parts: ClassVar = {
        "weights": ("model.safetensors",),
        "codec": ("codec/model.safetensors",),
        "codec_config": ("codec/config.json",),
    }
    extras = ("generation_config.json",)
    encoder_parts = ("codec", "codec_config")

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return config.get("model_type") == self.name

    def facts(self, folder: Path, config: Mapping[str, Any]) -> ModelFacts:
        if "vocab" not in config:
            raise CheckpointError(f"{folder / 'config.json'}: vocab is missing")
        modes = (Mode.ZERO_SHOT, Mode.REFERENCE, Mode.STYLE)
        return ModelFacts(
            self.name, SAMPLE_RATE, 16_000, self.declaration, ("en", "de"), modes, VOICES
        )

    def can_say(self, folder: Path) -> Callable[[str], bool]:
        return str.isascii

    def check(self, utterance: Utterance) -> Utterance:
        if utterance.style == "underwater":
            raise UsageError("--style cannot be underwater", hint="leave it out")
        # a clip with its transcript is imitated like any other
        return replace(utterance, prompt=None) if utterance.reference else utterance

    def graph_key(self, parameters: Parameters) -> GraphKey:
        return (parameters.is_greedy,)

    def load(
        self, folder: Path, device: torch.device, dtype: torch.dtype, *, is_native: bool = True
    ) -> Chimes:
        weights = load_file(folder / "model.safetensors")
        codec = load_file(folder / "codec" / "model.safetensors")
        return Chimes(self, weights["embedding"].to(device), codec["pitches"].to(device))

    def load_shapes(self, folder: Path, dtype: torch.dtype) -> Chimes:
        meta = torch.device("meta")
        return Chimes(self, torch.empty(128, V, device=meta), torch.empty(K, V, device=meta))

    def load_random(
        self, config: Mapping[str, Any], folder: Path, device: torch.device, dtype: torch.dtype,
        *, is_native: bool = True,
    ) -> Chimes:  # fmt: skip
        weights, codec = _tensors(0)
        return Chimes(self, weights["embedding"], codec["pitches"])


def _tensors(seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    pitches = 150 + 150 * torch.rand(K, V, generator=generator)
    return {"embedding": torch.randn(128, V, generator=generator)}, {"pitches": pitches}


def write_checkpoint(folder: Path, seed: int = 0) -> Path:
    """A checkpoint in the family's layout."""
    (folder / "codec").mkdir(parents=True)
    weights, codec = _tensors(seed)
    save_file(weights, folder / "model.safetensors")
    save_file(codec, folder / "codec" / "model.safetensors")
    config = {"model_type": "chimes", "vocab": 128}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "codec" / "config.json").write_text(json.dumps({"codebooks": K}))
    return folder


@dataclass(frozen=True, eq=False)
class ChimesPrompt:
    """Characters behind a voice; `num_frames` is how long it will take to say them."""

    ids: np.ndarray
    num_frames: int
    prefix_len: int = 0
    prefix_key: str = ""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class ChimesState:
    """One row a slot.

    Attributes:
        keys: `[slots, N, V]`, what each position said.
        left: int64 `[slots]`, frames until the end.
        phase: int64 `[slots]`, samples that the vocoder made.
    """

    keys: Tensor
    left: Tensor
    phase: Tensor


class Chimes:
    """A loaded model; see `SpeechModel` for the contract of each method."""

    row_inputs = (Input("temperature", "float32"), Input("top_k", "int64"))
    prompt_kinds = (PromptKind("words", (32, 64, 128, 512)),)

    def __init__(self, family: ChimesFamily, embedding: Tensor, pitches: Tensor) -> None:
        self.family = family
        self.embedding, self.pitches = embedding, pitches
        self.device = embedding.device
        self.info = ModelInfo(
            family="chimes", sample_rate=SAMPLE_RATE, reference_sample_rate=16_000,
            hop_length=HOP, max_positions=600, min_frames=2, num_parameters=embedding.numel(),
            first_chunk=2, chunk=6,
        )  # fmt: skip

    # ------------------------------------------------------------ prompts

    def make_prompt(self, parts: PromptParts) -> ChimesPrompt:
        said = [min(ord(char), 127) for char in f"{parts.style}{parts.text}"]
        voice, key = [], ""
        if parts.reference is not None:
            voice = [int(value) for value in parts.reference["ids"]][:PREFIX]
            key = f"reference {voice}"
        elif parts.voice in VOICES:
            voice = [1 + VOICES.index(str(parts.voice))] * PREFIX
            key = f"preset {parts.voice}"
        ids = np.array([*voice, *said], np.int64)
        num_frames = max(2, len(parts.text) // CHARACTERS_A_FRAME)
        return ChimesPrompt(ids, num_frames, len(voice), key)

    def encode_recording(self, samples: np.ndarray, use: Use) -> dict[str, np.ndarray]:
        assert use is Use.REFERENCE
        crossings = np.flatnonzero(np.diff(np.signbit(samples))).size
        ids = np.array([1 + crossings % 101, 2, 3 + len(samples) % 97, 4], np.int64)
        return {"ids": ids, "timbre": np.array([samples.std(), 0.5], np.float32)}

    def can_take(self, arrays: Mapping[str, np.ndarray], use: Use) -> bool:
        ids = arrays.get("ids")
        return use is Use.REFERENCE and ids is not None and ids.shape == (PREFIX,)

    def can_say(self, character: str) -> bool:
        return character.isascii()

    # ------------------------------------------------------------ state

    def state_bytes(self, num_slots: int, num_positions: int) -> int:
        return num_slots * (4 * num_positions * V + 16)

    def new_state(self, num_slots: int, num_positions: int) -> ChimesState:
        whole = {"dtype": torch.int64, "device": self.device}
        return ChimesState(
            torch.zeros(num_slots, num_positions, V, device=self.device),
            torch.zeros(num_slots, **whole),
            torch.zeros(num_slots, **whole),
        )

    def copy_prefix(self, state: ChimesState, source: int, slot: int, length: int) -> None:
        state.keys[slot, :length] = state.keys[source, :length]

    # ------------------------------------------------------------ prefill

    def prefill_together(
        self, state: ChimesState, spans: Sequence[tuple[ChimesPrompt, int, int]]
    ) -> None:
        for prompt, slot, start in spans:
            ids = torch.from_numpy(prompt.ids[start:]).to(self.device)
            state.keys[slot, start : len(prompt)] = self.embedding[ids]
            state.left[slot] = prompt.num_frames
            state.phase[slot] = 0

    def prefill_prefix(self, state: ChimesState, prompt: ChimesPrompt, slot: int) -> None:
        ids = torch.from_numpy(prompt.ids[: prompt.prefix_len]).to(self.device)
        state.keys[slot, : prompt.prefix_len] = self.embedding[ids]

    def kind_of(self, prompt: ChimesPrompt, start: int, end: int) -> str:
        return "words"

    def prompt_inputs(self, shape: PromptShape) -> tuple[Input, ...]:
        return (
            Input("ids", "int64", (shape.num_positions,)),
            Input("num_frames", "int64", (shape.num_spans,)),
        )

    def fill_inputs(
        self, shape: PromptShape, spans: Sequence[Span], arrays: Mapping[str, np.ndarray]
    ) -> None:
        num_before = 0
        for index, span in enumerate(spans):
            prompt = span.prompt
            assert isinstance(prompt, ChimesPrompt)
            own = slice(num_before, num_before + len(span))
            arrays["ids"][own] = prompt.ids[span.start : span.end]
            arrays["num_frames"][index] = prompt.num_frames
            num_before += len(span)

    def prefill_packed(
        self, state: ChimesState, shape: PromptShape, packed: PackedSpans,
        inputs: Mapping[str, Tensor],
    ) -> None:  # fmt: skip
        state.keys[packed.rows, packed.positions] = self.embedding[inputs["ids"]]
        state.left[packed.ended_rows] = inputs["num_frames"]
        state.phase.index_fill_(0, packed.ended_rows, 0)

    def resume(self, state: ChimesState, slot: int, prompt: ChimesPrompt) -> None:
        pass

    # ------------------------------------------------------------ decode

    def row_values(
        self, prompt: ChimesPrompt, parameters: Parameters, step: int
    ) -> Sequence[float]:
        return parameters.temperature, parameters.top_k

    def decode(self, state: ChimesState, rows: Rows) -> StepOutput:
        output = self.generate(state, rows)
        self.advance(state, rows, output.frames)
        return output

    def generate(self, state: ChimesState, rows: Rows) -> StepOutput:
        (is_greedy,) = rows.key
        B = len(rows.slots)
        N = state.keys.shape[1]
        seen = torch.arange(N, device=self.device) < rows.positions.unsqueeze(1)
        said = torch.where(seen.unsqueeze(2), state.keys[rows.slots], 0.0).sum(1)
        logits = torch.stack([said.roll(k, 1) for k in range(K)], dim=1)  # [B, K, V]
        if not is_greedy:
            noise = normal(rows.seeds, rows.steps, K * V, in_tensors=True).view(B, K, V)
            logits = logits / N + rows.inputs["temperature"].view(B, 1, 1) * noise
            least = logits.sort(dim=2, descending=True).values.gather(
                2, (rows.inputs["top_k"] - 1).clamp(min=0).view(B, 1, 1).expand(B, K, 1)
            )
            logits = logits.masked_fill(logits < least, -1e9)
        is_end = state.left[rows.slots] <= 0
        return StepOutput(logits.argmax(2), is_end, ~is_end)

    def advance(self, state: ChimesState, rows: Rows, frames: Tensor) -> None:
        state.keys[rows.slots, rows.positions] = self.embedding[frames[:, 0]]
        state.left[rows.slots] = state.left[rows.slots] - 1

    def vocode(self, state: ChimesState, slots: Sequence[int] | Tensor, frames: Tensor) -> Tensor:
        rows = slots if isinstance(slots, Tensor) else torch.tensor(slots, device=self.device)
        T = frames.shape[1]
        time = torch.arange(T * HOP, device=self.device)
        at = (state.phase[rows].unsqueeze(1) + time).double() / SAMPLE_RATE  # [B, S]
        books = torch.arange(K, device=self.device)
        pitch = self.pitches[books, frames].mean(2).repeat_interleave(HOP, dim=1)  # [B, S]
        swell = torch.sin(2 * torch.pi * 3.125 * at) ** 2
        state.phase[rows] = state.phase[rows] + T * HOP
        return (0.3 * torch.sin(2 * torch.pi * pitch * at) * swell).float()
