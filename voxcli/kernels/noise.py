"""`layers.noise.normal` as one kernel: Philox 4x32-10, the same integers.

Logarithm, sine and cosine are the device's, so numbers agree to a few units in the last place.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from voxcli.kernels.launch import launch, options, wait
from voxcli.layers.noise import normal as normal_reference

__all__ = ["normal", "normal_reference"]

TWO_PI = tl.constexpr(2.0 * math.pi)


@triton.jit(do_not_specialize_on_alignment=["seeds", "steps"])
def _normal(seeds, steps, out, NUM_BLOCKS: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    row = tl.program_id(0)
    block = tl.arange(0, BLOCK)
    wait(EARLY)
    seed = tl.load(seeds + row)
    k0 = (seed & 0xFFFFFFFF).to(tl.uint32)
    k1 = ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32)
    c0 = block.to(tl.uint32)
    c1 = tl.zeros_like(c0) + (tl.load(steps + row) & 0xFFFFFFFF).to(tl.uint32)
    c2 = tl.zeros_like(c0)
    c3 = tl.zeros_like(c0)
    c0, c1, c2, c3 = tl.philox_impl(c0, c1, c2, c3, k0, k1, 10)
    # 24 bits fill a float32 mantissa; the half keeps the logarithm's argument above 0
    unit = 1.0 / 16777216.0
    radius_0 = tl.sqrt(-2.0 * tl.log(((c0 >> 8).to(tl.float32) + 0.5) * unit))
    radius_1 = tl.sqrt(-2.0 * tl.log(((c1 >> 8).to(tl.float32) + 0.5) * unit))
    angle_0 = TWO_PI * (((c2 >> 8).to(tl.float32) + 0.5) * unit)
    angle_1 = TWO_PI * (((c3 >> 8).to(tl.float32) + 0.5) * unit)
    places = out + row * 4 * NUM_BLOCKS + 4 * block
    inside = block < NUM_BLOCKS
    tl.store(places, radius_0 * tl.cos(angle_0), inside)
    tl.store(places + 1, radius_1 * tl.cos(angle_1), inside)
    tl.store(places + 2, radius_0 * tl.sin(angle_0), inside)
    tl.store(places + 3, radius_1 * tl.sin(angle_1), inside)


def normal(seeds: Tensor, steps: Tensor, size: int) -> Tensor:
    """Standard normal noise, float32 `[B, size]`; see `layers.noise.normal`."""
    assert size % 4 == 0, size
    assert seeds.is_contiguous()
    assert steps.is_contiguous()
    out = torch.empty(len(seeds), size, device=seeds.device)
    blocks = size // 4
    launch(
        _normal, (len(seeds),),
        seeds, steps, out, blocks, triton.next_power_of_2(blocks),
        num_warps=1, **options(seeds.device),
    )  # fmt: skip
    return out
