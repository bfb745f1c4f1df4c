"""Tables of rotary position embedding in arrays. No torch.

Source: RoFormer (arXiv:2104.09864), LongRoPE (arXiv:2402.13753); the amplitude factor and the
choice of factors follow OpenBMB/VoxCPM `modules/minicpm4/model.py` (Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rotation_table(
    num_positions: int, head_dim: int, *, theta: float, factors: Sequence[float], amplitude: float
) -> np.ndarray:
    """Rotations, complex64 `[N, 1, D/2]`.

    Angles are of single precision, as in the official model; their cosines and sines are computed
    in double precision and rounded, so that they have the same bits on any processor.
    """
    exponents = np.arange(0, head_dim, 2) / head_dim
    inverse_frequencies = (1.0 / theta**exponents).astype(np.float32)
    stretch = np.array(factors, np.float32)
    positions = np.arange(num_positions, dtype=np.float32)
    angles = np.outer(positions, np.float32(1) / stretch) * inverse_frequencies
    turns = amplitude * np.exp(1j * angles.astype(np.float64))
    return turns.astype(np.complex64)[:, np.newaxis]
