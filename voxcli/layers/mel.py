"""Slaney's mel filters: triangles of area one from 0 Hz to half the rate.

The scale is linear below 1 kHz (15 mel) and logarithmic above. Knows no spectrum and imports no
torch. Letters: `M` mel bands.

Source: M. Slaney, Auditory Toolbox (1998), as librosa's defaults have it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray


@cache
def slaney_filters(rate: int, fft: int, bands: int) -> NDArray[np.float64]:
    """What each bin of a spectrum gives to each band: `[M, fft // 2 + 1]`."""
    hertz = np.fft.rfftfreq(fft, 1 / rate)
    edges = _mel_to_hertz(np.linspace(0, _hertz_to_mel(rate / 2), bands + 2))
    rising = (hertz - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - hertz) / np.diff(edges)[1:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    filters: NDArray[np.float64] = triangles * (2 / (edges[2:] - edges[:-2]))[:, None]
    return filters


def _hertz_to_mel(hertz: float) -> float:
    return 15 + 27 * float(np.log(hertz / 1000) / np.log(6.4)) if hertz >= 1000 else hertz * 0.015


def _mel_to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel >= 15, 1000 * np.exp((mel - 15) * np.log(6.4) / 27), mel * 200 / 3)
