"""Philox 4x32-10, and Gaussian noise from (seed, step) in arrays. No torch.

The counter of one block of four words is `(block, step, 0, 0)`, the key is the seed's two halves.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

_MULTIPLIER_0, _MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
_WEYL_0, _WEYL_1 = 0x9E3779B9, 0xBB67AE85
MASK = 0xFFFFFFFF
_ROUNDS = 10

# 32-bit words: int64 tensors, or uint64 arrays, whose hundred small operations take a tenth of the
# time on a CPU
Words = TypeVar("Words", "Tensor", np.ndarray)


def _multiply_high_low(multiplier: int, x: Words) -> tuple[Words, Words]:
    """High and low 32 bits of a 32 x 32 bit product."""
    if isinstance(x, np.ndarray):
        product = multiplier * x
        return product >> 32, product & MASK
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
        k0, k1 = (k0 + _WEYL_0) & MASK, (k1 + _WEYL_1) & MASK
    return c0, c1, c2, c3


def normal_arrays(seeds: np.ndarray, steps: np.ndarray, size: int) -> np.ndarray:
    """Standard normal noise, float32 `[B, size]`; see `noise.normal`.

    In double precision but for the result, which so has the same bits on any processor.
    """
    assert size % 4 == 0, size
    block = np.broadcast_to(np.arange(size // 4, dtype=np.uint64), (len(seeds), size // 4))
    step, seed = (np.asarray(each, np.uint64).reshape(-1, 1) for each in (steps, seeds))
    zero = np.zeros_like(block)
    key = np.broadcast_to(seed & MASK, block.shape), np.broadcast_to(seed >> 32, block.shape)
    c0, c1, c2, c3 = philox((block, np.broadcast_to(step & MASK, block.shape), zero, zero), key)
    words = np.stack((c0, c1, c2, c3), axis=-1)  # [B, size/4, 4]
    # 24 bits fill a float32 mantissa, and the half keeps the logarithm's argument above 0
    uniform = ((words >> 8) + 0.5) * 2.0**-24
    radius = np.sqrt(-2.0 * np.log(uniform[..., :2]))
    angle = 2.0 * math.pi * uniform[..., 2:]
    pairs = np.concatenate((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
    return pairs.reshape(len(pairs), size).astype(np.float32)
