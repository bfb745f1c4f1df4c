"""Runs our model the way the goldens were made, and the small helpers the parity tests share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from asking import new_rows
from cases import Case, speech_like
from torch import Tensor

from voxcli.models.data import Rows
from voxcli.models.voxcpm2.model import SlotState, VoxCPM2
from voxcli.models.voxcpm2.prompt import Prompt


@dataclass(frozen=True)
class Replay:
    """What our model makes of a case; the same parts as in a golden."""

    prompt: Prompt
    base: np.ndarray
    residual: np.ndarray
    patches: np.ndarray
    logits: np.ndarray
    samples: np.ndarray
    reference: np.ndarray | None
    prompt_audio: np.ndarray | None


def make_rows(
    model: VoxCPM2,
    slots: Sequence[int],
    positions: Sequence[int],
    seeds: Sequence[int],
    steps: Sequence[int],
    *,
    num_steps: int = 6,
    cfg: Sequence[float] | float = 1.0,
) -> Rows:
    """Rows of a step; the state keeps their noise in blocks, so each is drawn for its own step."""
    return new_rows(slots, positions, seeds, steps, num_steps=num_steps, guidance=cfg)


def stop_logits(model: VoxCPM2, lm_hidden: Tensor) -> Tensor:
    return model.stop_head(torch.nn.functional.silu(model.stop_proj(lm_hidden)))


def encode(model: VoxCPM2, seconds: float, pitch: float, *, pad_left: bool) -> np.ndarray | None:
    if not seconds:
        return None
    samples = speech_like(model.info.reference_sample_rate, seconds, pitch=pitch)
    return model.encode_audio(samples, pad_left=pad_left)


@torch.inference_mode()
def replay(model: VoxCPM2, case: Case, *, slot: int = 0, num_slots: int = 1) -> Replay:
    reference = encode(model, case.reference_s, case.reference_pitch, pad_left=False)
    prompt_audio = encode(model, case.prompt_s, case.prompt_pitch, pad_left=True)
    prompt = model.encode_prompt(
        case.text,
        reference=reference,
        prompt_text=case.prompt_text if prompt_audio is not None else "",
        prompt_audio=prompt_audio,
    )
    state = model.new_state(num_slots, len(prompt) + case.num_patches)
    model.prefill(state, prompt, slot)
    base, residual = (hidden.clone().numpy() for hidden in state.hidden[slot])
    patches, logits = [], []
    for step in range(case.num_patches):
        logits.append(stop_logits(model, state.hidden[slot, 0]))
        rows = make_rows(
            model, [slot], [len(prompt) + step], [case.seed], [step],
            num_steps=case.num_steps, cfg=case.cfg,
        )  # fmt: skip
        output = model.decode(state, rows)
        assert bool(output.is_end[0]) == bool(logits[-1].argmax())
        patches.append(output.frames[0])
    stacked = torch.stack(patches)
    samples = model.vocode(state, [slot], stacked.unsqueeze(0))[0]
    return Replay(
        prompt, base, residual, stacked.numpy(), torch.stack(logits).numpy(), samples.numpy(),
        reference, prompt_audio,
    )  # fmt: skip


def fresh_state(model: VoxCPM2, num_slots: int) -> SlotState:
    return model.new_state(num_slots, 128)
