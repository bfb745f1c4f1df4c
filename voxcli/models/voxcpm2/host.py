"""What a CPU computes in arrays, with torch or without: so both have the same bits. No torch.

Letters: `B` rows, `P` latent vectors a patch, `D` latent width, `W` LocDiT width.
"""

from __future__ import annotations

import math

import numpy as np

VAE_PREFIX = "audio_vae."  # of names of the AudioVAE's weights
TIME_SCALE = 1000  # diffusion time in [0, 1] is embedded as [0, 1000]
ZERO_INIT_SHARE = 0.04  # of the schedule's points: steps whose velocity is taken as zero
KERNEL = 7  # of the AudioVAE's depthwise convolutions and of its decoder's last one
DILATIONS = (1, 3, 9)  # of the three residual units of a block of it
# Snake divides by alpha; folding needs it away from zero. The change is below 1e-6 * x^2.
MIN_ALPHA = 1e-6
MIN_SHARED = (
    32  # positions of layers; with fewer, each thread would read all weights for too little
)
MOST_NEGATIVE = -80.0  # where e^-x is still a number


def sway_times(num_steps: int) -> np.ndarray:
    """`num_steps + 1` times from 1 to 0, denser near 1 (sway sampling, arXiv:2410.06885)."""
    times = np.linspace(1, 0, num_steps + 1)
    return (times + (np.cos(math.pi / 2 * times) - 1 + times)).astype(np.float32)


def num_zero_steps(num_steps: int) -> int:
    return max(1, int((num_steps + 1) * ZERO_INIT_SHARE))


def solver_times(num_steps: int, *, is_mean_mode: bool) -> tuple[list[float], np.ndarray]:
    """What a solver of so many steps evaluates.

    Args:
        is_mean_mode: whether the model is told how far a step moves.

    Returns:
        how far each evaluated step moves, and its time and what it is told, `[2, evaluations]`.
    """
    times = sway_times(num_steps)
    first = num_zero_steps(num_steps)
    sizes = times[:-1] - times[1:]
    told = sizes[first:] if is_mean_mode else np.zeros_like(sizes[first:])
    return sizes[first:].tolist(), np.stack((times[first:-1], told))


def sinusoids(times: np.ndarray, width: int) -> np.ndarray:
    """float32 `[n] -> [n, width]`, sines then cosines."""
    half = width // 2
    frequencies = np.exp(np.arange(half) * (-math.log(10000) / (half - 1))).astype(np.float32)
    angles = (np.float32(TIME_SCALE) * times[:, np.newaxis] * frequencies).astype(np.float64)
    return np.concatenate((np.sin(angles), np.cos(angles)), axis=-1).astype(np.float32)


def silu(x: np.ndarray) -> np.ndarray:
    """`x / (1 + e^-x)`."""
    return x / (1 + np.exp(-np.maximum(x, np.float32(MOST_NEGATIVE))))


def quantize(x: np.ndarray, scale: int) -> np.ndarray:
    """`tanh(x)` rounded to `2 * scale + 1` levels."""
    return np.rint(np.tanh(x) * np.float32(scale)) / np.float32(scale)


def guide(conditional: np.ndarray, unconditional: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """CFG-Zero*: guidance from the unconditional velocity scaled to fit the conditional one.

    Args:
        conditional, unconditional: float32 `[B, P, D]`.
        scale: float32 `[B]`.
    """
    B = len(scale)
    positive, negative = conditional.reshape(B, -1), unconditional.reshape(B, -1)
    fit = (positive * negative).sum(1) / ((negative * negative).sum(1) + np.float32(1e-8))
    scaled = unconditional * fit.reshape(B, 1, 1)
    return scaled + scale.reshape(B, 1, 1) * (conditional - scaled)


def move(x: np.ndarray, velocity: np.ndarray, size: float) -> np.ndarray:
    """An Euler step from `x` against its velocity."""
    return x - np.float32(size) * velocity
