"""What graphs capture, run on the CPU: tensors alone give what the host-driven path gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from voxcli.layers.noise import normal
from voxcli.models.base import Rows
from voxcli.models.voxcpm2.family import load
from voxcli.models.voxcpm2.model import VoxCPM2

MINI = Path(__file__).parents[2] / "voxcli" / "assets" / "mini"
TEXTS = ["Hello there.", "The birch canoe slid on the smooth planks.", "No."]
SLOTS = [4, 0, 2]


@pytest.fixture(scope="module")
def model() -> VoxCPM2:
    return load(MINI, torch.device("cpu"), torch.float32)


@torch.inference_mode()
def test_masked_attention_and_padded_prompts_equal_the_row_loop(model: VoxCPM2) -> None:
    loop, tensors = model.new_state(5, 128), model.new_state(5, 128)
    for cache in (tensors.base_cache, tensors.residual_cache):
        cache.keys.fill_(torch.nan)  # what a former request left there must not matter
        cache.values.fill_(torch.nan)
    prompts = [model.encode_prompt(text) for text in TEXTS]
    ids = torch.ones(3, 96, dtype=torch.int64)
    for row, (slot, prompt) in enumerate(zip(SLOTS, prompts, strict=True)):
        model.prefill(loop, prompt, slot)
        ids[row, : len(prompt)] = torch.from_numpy(prompt.token_ids)
    last = torch.tensor([len(prompt) - 1 for prompt in prompts])
    model.prefill_rows(tensors, ids, torch.tensor(SLOTS), last)
    P, D = model.info.patch_shape
    for step in range(4):
        steps = torch.full((3,), step)
        positions = [len(prompt) + step for prompt in prompts]
        rows = Rows(
            slots=torch.tensor(SLOTS),
            positions=torch.tensor(positions),
            noise=normal(torch.tensor([1, 2, 3]), steps, P * D).view(-1, P, D),
            cfg=torch.tensor([1.5, 2.0, 3.0]),
            num_steps=4,
            is_guided=True,
            host_slots_positions=list(zip(SLOTS, positions, strict=True)),
        )
        expected = model.decode(loop, rows)
        found = model.decode(tensors, replace(rows, host_slots_positions=None))
        torch.testing.assert_close(found.patches, expected.patches, atol=1e-4, rtol=1e-3)
        samples = model.vocode(tensors, rows.slots, found.patches.unsqueeze(1))
        reference = model.vocode(loop, SLOTS, expected.patches.unsqueeze(1))
        torch.testing.assert_close(samples, reference, atol=1e-4, rtol=1e-3)
