"""Float samples to integer PCM bytes.

Rounds to nearest and clips, never wraps. Little-endian, mono. Knows no container.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.resample import Samples


def as_mono(samples: Samples) -> Samples:
    """Contiguous float32 `[S]`; a wrong rank is our own bug."""
    array = np.ascontiguousarray(samples, dtype=np.float32)
    assert array.ndim == 1, f"mono samples expected, got shape {array.shape}"
    return array


def quantise(samples: Samples, bits: str) -> bytes:
    """float32 `[S]` in [-1, 1] -> PCM bytes; values outside are clipped."""
    if bits == "32f":
        return np.clip(samples, -1.0, 1.0).astype("<f4").tobytes()
    steps = to_integers(samples, int(bits))
    if bits == "8":
        return (steps + 128).astype(np.uint8).tobytes()  # 8-bit WAV is unsigned
    if bits == "16":
        return steps.astype("<i2").tobytes()
    return steps.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()


def to_integers(samples: Samples, bits: int) -> NDArray[np.int32]:
    """float32 `[S]` -> int32 `[S]` in [-2**(bits-1), 2**(bits-1))."""
    scale = 2 ** (bits - 1)
    # float64: 24-bit steps near full scale are below float32's own rounding after scaling
    scaled = np.rint(samples.astype(np.float64) * scale)
    steps: NDArray[np.int32] = np.clip(scaled, -scale, scale - 1).astype(np.int32)
    return steps
