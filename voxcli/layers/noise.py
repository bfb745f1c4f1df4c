"""Gaussian noise as a function of (seed, step): Philox 4x32-10 and Box-Muller.

The same integers come out on every device, so a request's noise depends on nothing but its own seed
and step (`philox.py`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from voxcli.layers.philox import MASK, normal_arrays, philox

__all__ = ["normal", "philox"]


def normal(seeds: Tensor, steps: Tensor, size: int, *, in_tensors: bool = False) -> Tensor:
    """Standard normal noise.

    Args:
        seeds: int64 `[B]`, in [0, 2**63).
        steps: int64 `[B]`, in [0, 2**32).
        size: numbers a row, a multiple of 4.
        in_tensors: use no array on a CPU either, so that the function can be captured.

    Returns:
        float32 `[B, size]`, on the device of `seeds`.
    """
    assert size % 4 == 0, size
    if seeds.device.type == "cpu" and not in_tensors:
        return torch.from_numpy(normal_arrays(seeds.numpy(), steps.numpy(), size))
    block = torch.arange(size // 4, device=seeds.device).expand(len(seeds), -1)  # [B, size/4]
    step = (steps & MASK).unsqueeze(1).expand_as(block)
    zero = torch.zeros_like(block)
    key = ((seeds & MASK).unsqueeze(1), ((seeds >> 32) & MASK).unsqueeze(1))
    words = torch.stack(philox((block, step, zero, zero), key), dim=-1)  # [B, size/4, 4]
    uniform = ((words >> 8).to(torch.float32) + 0.5) * 2.0**-24  # as `normal_arrays` says
    radius = torch.sqrt(-2.0 * torch.log(uniform[..., :2]))
    angle = 2.0 * math.pi * uniform[..., 2:]
    return torch.cat((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1).flatten(1)
