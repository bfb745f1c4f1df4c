"""A small acoustic model with predictable output, and a synthesizer around it.

Each patch is 0.16 s of a tone that swells and fades like syllables, so the output guard takes it
for speech; a text of n characters ends after as many patches as an ordinary voice would need. A
recording is two patches of ones, of twos where it is to be continued; prompts are remembered.
Faults can be ordered by text and attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from voxcli.hub.catalog import ModelSettings
from voxcli.config import EngineConfig
from voxcli.engine.native.core import Engine
from voxcli.models.base import ModelInfo, Prompt, Rows, StepOutput
from voxcli.plan import VoiceModel
from voxcli.engine.base import Setup
from voxcli.engine.native.engine import Synthesizer

SAMPLE_RATE = 8000
HOP = 1280  # 0.16 s
CHARACTERS_PER_PATCH = 2  # 12.5 characters a second
P, D = 2, 4


def num_patches(text: str) -> int:
    return max(4, -(-len(text) // CHARACTERS_PER_PATCH))


@dataclass
class FakeState:
    """One row a slot: what it says, how far it is, which fault it has."""

    texts: list[str]
    steps: list[int]
    faults: list[str]
    sums: Tensor
    num_vocoded: list[int] = field(default_factory=list)


class FakeAcousticModel:
    """See the module.

    Args:
        faults: text -> what goes wrong at its first, second, ... attempt: "silent", "nan",
            "endless", "" for nothing.
        fail_at_step: decode step (of all) that raises RuntimeError, as a device would.
    """

    info = ModelInfo(
        family="fake", sample_rate=SAMPLE_RATE, reference_sample_rate=16000, hop_length=HOP,
        patch_shape=(P, D), max_positions=512, min_patches=4, num_parameters=0, default_steps=6,
        default_cfg=1.0,
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

    def encode_prompt(self, text: str, **given: Any) -> Prompt:
        self.prompts.append((text, given))
        ids = np.array([*map(ord, text)], np.int64)
        return Prompt(ids, np.zeros(len(ids), bool), np.zeros((0, P, D), np.float32))

    def encode_audio(self, samples: np.ndarray, *, pad_left: bool = False) -> np.ndarray:
        self.num_encoded += 1
        return np.full((2, P, D), 1.0 + pad_left, np.float32)

    def can_say(self, character: str) -> bool:
        return character.isascii()

    def new_state(self, num_slots: int, num_positions: int) -> FakeState:
        return FakeState(
            [""] * num_slots, [0] * num_slots, [""] * num_slots, torch.zeros(num_slots),
            [0] * num_slots,
        )  # fmt: skip

    def prefill_together(self, state: FakeState, spans: Sequence[tuple[Prompt, int, int]]) -> None:
        for prompt, slot, start in spans:
            self.prefill(state, prompt, slot, start)

    def prefill(self, state: FakeState, prompt: Prompt, slot: int, start: int = 0) -> None:
        text = "".join(map(chr, prompt.token_ids))
        kinds = self.faults.get(text, [])
        state.texts[slot], state.steps[slot], state.num_vocoded[slot] = text, 0, 0
        state.faults[slot] = kinds.pop(0) if kinds else ""
        state.sums[slot] = 0

    def decode(self, state: FakeState, rows: Rows) -> StepOutput:
        self.num_decodes += 1
        self.batch_sizes.append(len(rows.slots))
        if self.num_decodes == self.fail_at_step:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        ends = []
        for slot, _ in rows.host_slots_positions:
            state.steps[slot] += 1
            is_over = state.steps[slot] >= num_patches(state.texts[slot])
            ends.append(is_over and state.faults[slot] != "endless")
        return StepOutput(rows.noise.clone(), torch.tensor(ends))

    def vocode(self, state: FakeState, slots: Sequence[int], patches: Tensor) -> Tensor:
        rows = []
        for slot, own in zip(slots, patches, strict=True):
            start = state.num_vocoded[slot] * HOP
            state.num_vocoded[slot] += len(own)
            time = np.arange(start, start + len(own) * HOP) / SAMPLE_RATE
            # the first number of a patch's noise sets its pitch: another seed sounds different
            pitch = np.repeat(200 + own[:, 0, 0].numpy(), HOP)
            wave = 0.3 * np.sin(2 * np.pi * pitch * time) * np.sin(2 * np.pi * 3.125 * time) ** 2
            if state.faults[slot] == "silent":
                wave = 0.0 * wave
            if state.faults[slot] == "nan":
                wave = wave + np.nan
            rows.append(torch.from_numpy(wave.astype(np.float32)))
        return torch.stack(rows)


def fake_synthesizer(
    model: FakeAcousticModel | None = None,
    *,
    max_slots: int = 4,
    max_chars: int = 40,
    threads: int = 1,
) -> Synthesizer:
    """A synthesizer on the fake model, English only; with one thread its steps repeat exactly."""
    model = model or FakeAcousticModel()
    engine = Engine(model, torch.device("cpu"), EngineConfig(max_slots=max_slots, threads=threads))
    settings = ModelSettings(steps=6, cfg=1.0, clone_cfg=1.5, max_chars=max_chars)
    setup = Setup("fake", "a fake", "cpu", "fp32", 1, 0.0)
    return Synthesizer(engine, VoiceModel("fake", ("en",), settings, model.can_say), setup)
