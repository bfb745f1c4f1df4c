"""Gaussian noise as a function of (seed, step): Philox 4x32-10 and Box-Muller.

The same integers come out on every device, so a request's noise depends on nothing but its own seed
and step. The counter of one block of four words is `(block, step, 0, 0)`, the key is the seed's two
halves.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

_MULTIPLIER_0, _MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
_WEYL_0, _WEYL_1 = 0x9E3779B9, 0xBB67AE85
_MASK = 0xFFFFFFFF
_ROUNDS = 10

# 32-bit words: int64 tensors, or uint64 arrays, whose hundred small operations take a tenth of the
# time on a CPU
Words = TypeVar("Words", Tensor, np.ndarray)


def _multiply_high_low(multiplier: int, x: Words) -> tuple[Words, Words]:
    """High and low 32 bits of a 32 x 32 bit product."""
    if isinstance(x, np.ndarray):
        product = multiplier * x
        return product >> 32, product & _MASK
    # int64 must not overflow its sign
    low_part = multiplier * (x & 0xFFFF)
    high_part = multiplier * (x >> 16) + (low_part >> 16)
    return high_part >> 16, ((high_part & 0xFFFF) << 16) | (low_part & 0xFFFF)


def philox(
    counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]
) -> tuple[Words, Words, Words, Words]:
    """Philox 4x32-10; four words for each counter."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        high_0, low_0 = _multiply_high_low(_MULTIPLIER_0, c0)
        high_1, low_1 = _multiply_high_low(_MULTIPLIER_1, c2)
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0, k1 = (k0 + _WEYL_0) & _MASK, (k1 + _WEYL_1) & _MASK
    return c0, c1, c2, c3


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
    block = torch.arange(size // 4, device=seeds.device).expand(len(seeds), -1)  # [B, size/4]
    step = (steps & _MASK).unsqueeze(1).expand_as(block)
    zero = torch.zeros_like(block)
    key = ((seeds & _MASK).unsqueeze(1), ((seeds >> 32) & _MASK).unsqueeze(1))
    if seeds.device.type == "cpu" and not in_tensors:
        c0, c1, c2, c3, k0, k1 = (
            words.numpy().astype(np.uint64) for words in (block, step, zero, zero, *key)
        )
        arrays = philox((c0, c1, c2, c3), (k0, k1))
        words = torch.from_numpy(np.stack(arrays, axis=-1).astype(np.int64))
    else:
        words = torch.stack(philox((block, step, zero, zero), key), dim=-1)
    # words: [B, size/4, 4]; 24 bits fill a float32 mantissa, and the half keeps the logarithm's
    # argument above 0
    uniform = ((words >> 8).to(torch.float32) + 0.5) * 2.0**-24
    radius = torch.sqrt(-2.0 * torch.log(uniform[..., :2]))
    angle = 2.0 * math.pi * uniform[..., 2:]
    return torch.cat((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1).flatten(1)
