"""A small speech model with predictable output, and an engine around it.

Each frame is 0.16 s of a tone that swells and fades like syllables, so the output guard takes it
for speech; a text of n characters ends after as many frames as an ordinary voice would need. A
recording is two frames of ones, of twos where it is to be continued; prompts are remembered.
Faults can be ordered by text and attempt. A family with another shape: `otherfamily.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from voxcli.config import EngineConfig
from voxcli.engine.base import Setup
from voxcli.engine.native.core import EngineCore
from voxcli.engine.native.engine import NativeEngine
from voxcli.engine.planning import PlannedModel
from voxcli.hub.catalog import ModelSettings
from voxcli.layers.noise import normal
from voxcli.models.base import GraphKey, ModelFacts, ModelFamily
from voxcli.models.data import Input, ModelInfo, PromptKind, PromptParts, Rows, StepOutput
from voxcli.parameters import parameter
from voxcli.utterance import Use

SAMPLE_RATE = 8000
HOP = 1280  # 0.16 s
CHARACTERS_PER_FRAME = 2  # 12.5 characters a second
P, D = 2, 4


def num_frames(text: str) -> int:
    return max(4, -(-len(text) // CHARACTERS_PER_FRAME))


@dataclass(frozen=True)
class Parameters:
    """What the fake can be told; it listens to none of it."""

    steps: int = parameter(6, "Solver steps", minimum=2, maximum=100)
    guidance_scale: float = parameter(1.0, "Guidance", minimum=0, maximum=10, aliases=("cfg",))


class FakeFamily(ModelFamily):
    """The family of a model that has no files."""

    name = "fake"
    parameters = Parameters
    parts: ClassVar = {}
    encoder_parts = ()

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return config.get("architecture") == self.name

    def facts(self, folder: Path, config: Mapping[str, Any]) -> ModelFacts:
        return ModelFacts(self.name, SAMPLE_RATE, 16000, self.declaration, ("en",))

    def can_say(self, folder: Path) -> Callable[[str], bool]:
        return str.isascii

    def graph_key(self, parameters: Parameters) -> GraphKey:
        return parameters.steps, parameters.guidance_scale != 1.0

    def load(self, *args: Any, **given: Any) -> FakeModel:
        return FakeModel()

    load_shapes = load_random = load


@dataclass(frozen=True, eq=False)
class FakePrompt:
    """A text, a character a position."""

    text: str
    prefix_len: int = 0
    prefix_key: str = ""

    def __len__(self) -> int:
        return len(self.text)


@dataclass
class FakeState:
    """One row a slot: what it says, how far it is, which fault it has."""

    texts: list[str]
    steps: list[int]
    faults: list[str]
    sums: Tensor
    num_vocoded: list[int] = field(default_factory=list)


class FakeModel:
    """See the module.

    Args:
        faults: text -> what goes wrong at its first, second, ... attempt: "silent", "nan",
            "endless", "" for nothing.
        fail_at_step: decode step (of all) that raises RuntimeError, as a device would.
    """

    family = FakeFamily()
    row_inputs: tuple[Input, ...] = ()
    prompt_kinds = (PromptKind("text", (64, 256)),)
    info = ModelInfo(
        family="fake", sample_rate=SAMPLE_RATE, reference_sample_rate=16000, hop_length=HOP,
        max_positions=512, min_frames=4, num_parameters=0,
    )  # fmt: skip

    def __init__(
        self, faults: dict[str, list[str]] | None = None, fail_at_step: int | None = None
    ) -> None:
        self.faults = {text: list(kinds) for text, kinds in (faults or {}).items()}
        self.fail_at_step = fail_at_step
        self.num_decodes = 0
        self.num_encoded = 0
        self.batch_sizes: list[int] = []
        self.prompts: list[tuple[str, dict[str, Any]]] = []

    def make_prompt(self, parts: PromptParts) -> FakePrompt:
        given = {
            "reference": None if parts.reference is None else parts.reference["reference"],
            "prompt_text": parts.prompt_text,
            "prompt_audio": None if parts.prompt is None else parts.prompt["prompt"],
        }
        style = f"({parts.style})" if parts.style else ""
        self.prompts.append((f"{style}{parts.text}", given))
        return FakePrompt(f"{style}{parts.text}")

    def encode_recording(self, samples: np.ndarray, use: Use) -> dict[str, np.ndarray]:
        self.num_encoded += 1
        value = 2.0 if use is Use.PROMPT else 1.0
        return {str(use): np.full((2, P, D), value, np.float32)}

    def can_take(self, arrays: Mapping[str, np.ndarray], use: Use) -> bool:
        return use in arrays and arrays[use].shape[1:] == (P, D)

    def can_say(self, character: str) -> bool:
        return character.isascii()

    def new_state(self, num_slots: int, num_positions: int) -> FakeState:
        return FakeState(
            [""] * num_slots, [0] * num_slots, [""] * num_slots, torch.zeros(num_slots),
            [0] * num_slots,
        )  # fmt: skip

    def prefill_together(
        self, state: FakeState, spans: Sequence[tuple[FakePrompt, int, int]]
    ) -> None:
        for prompt, slot, start in spans:
            self.prefill(state, prompt, slot, start)

    def prefill(self, state: FakeState, prompt: FakePrompt, slot: int, start: int = 0) -> None:
        text = prompt.text
        kinds = self.faults.get(text, [])
        state.texts[slot], state.steps[slot], state.num_vocoded[slot] = text, 0, 0
        state.faults[slot] = kinds.pop(0) if kinds else ""
        state.sums[slot] = 0

    def row_values(self, prompt: FakePrompt, parameters: Parameters, step: int) -> tuple[()]:
        return ()

    def decode(self, state: FakeState, rows: Rows) -> StepOutput:
        self.num_decodes += 1
        self.batch_sizes.append(len(rows.slots))
        if self.num_decodes == self.fail_at_step:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        ends = []
        assert rows.host is not None
        for slot, *_ in rows.host:
            state.steps[slot] += 1
            is_over = state.steps[slot] >= num_frames(state.texts[slot])
            ends.append(is_over and state.faults[slot] != "endless")
        noise = normal(rows.seeds, rows.steps, P * D).view(-1, P, D)
        return StepOutput(noise, torch.tensor(ends))

    def vocode(self, state: FakeState, slots: Sequence[int], frames: Tensor) -> Tensor:
        rows = []
        for slot, own in zip(slots, frames, strict=True):
            start = state.num_vocoded[slot] * HOP
            state.num_vocoded[slot] += len(own)
            time = np.arange(start, start + len(own) * HOP) / SAMPLE_RATE
            # the first number of a frame's noise sets its pitch: another seed sounds different
            pitch = np.repeat(200 + own[:, 0, 0].numpy(), HOP)
            wave = 0.3 * np.sin(2 * np.pi * pitch * time) * np.sin(2 * np.pi * 3.125 * time) ** 2
            if state.faults[slot] == "silent":
                wave = 0.0 * wave
            if state.faults[slot] == "nan":
                wave = wave + np.nan
            rows.append(torch.from_numpy(wave.astype(np.float32)))
        return torch.stack(rows)


class FakeEngine(NativeEngine):
    """A native engine, started, over a model without files."""

    def __init__(self, model: FakeModel, config: EngineConfig, settings: ModelSettings) -> None:
        family = FakeFamily()
        facts = family.facts(Path(), {})
        self._prepare(PlannedModel("fake", family, facts, settings, model.can_say), config)
        self.core = EngineCore(model, torch.device("cpu"), config)
        self._setup = Setup("fake", "a fake", "cpu", "fp32", 1, 0.0)

    @property
    def model(self) -> Any:
        assert self.core is not None
        return self.core.model


def fake_engine(
    model: FakeModel | None = None, *, max_slots: int = 4, max_chars: int = 40, threads: int = 1
) -> FakeEngine:
    """An engine on the fake model, English only; with one thread its steps repeat exactly."""
    settings = ModelSettings(
        {"steps": 6, "guidance_scale": 1.0}, {"guidance_scale": 1.5}, max_chars
    )
    config = EngineConfig("fake", max_slots=max_slots, threads=threads)
    return FakeEngine(model or FakeModel(), config, settings)
