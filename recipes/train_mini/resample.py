"""Resampling on the device: 24 kHz to the encoder's 16 kHz, and crops read at another speed.

Letters: `B` rows, `S` samples.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HALF = 48  # taps on each side of the filter to 16 kHz
CUT = 0.96  # of the new band's edge
WARP_HALF = 16
MARGIN = WARP_HALF + 1  # samples before and behind what is read


def _windowed_sinc(times: Tensor, cutoff: Tensor | float, half: float) -> Tensor:
    window = 0.5 + 0.5 * torch.cos(torch.pi * (times / half).clamp(-1, 1))
    return cutoff * torch.sinc(cutoff * times) * window


class ToEncoderRate(nn.Module):
    """24 kHz to 16 kHz: two filters, one for each output of three inputs."""

    def __init__(self) -> None:
        super().__init__()
        taps = torch.arange(2 * HALF + 2, dtype=torch.float64) - HALF
        filters = [_windowed_sinc(taps - 1.5 * phase, 2 / 3 * CUT, HALF + 2) for phase in (0, 1)]
        weight = torch.stack([each / each.sum() for each in filters]).float()
        self.register_buffer("weight", weight.unsqueeze(1), persistent=False)

    def forward(self, samples: Tensor) -> Tensor:
        """`[B, 1, 3 n] -> [B, 1, 2 n]`."""
        pairs = F.conv1d(F.pad(samples, (HALF, HALF + 2)), self.weight, stride=3)
        num_pairs = samples.shape[-1] // 3
        return pairs[..., :num_pairs].transpose(1, 2).reshape(len(samples), 1, -1)


def read_warped(pool: Tensor, starts: Tensor, length: int, rates: Tensor) -> Tensor:
    """Crops of a pool of samples, read `rates` times as fast: pitch and formants move together.

    Args:
        pool: `[S]`, any number format.
        starts: int64 `[B]`, with WARP_HALF samples before and after what is read.
        rates: `[B]`.

    Returns:
        float32 `[B, length]`, in the pool's units.
    """
    times = torch.arange(length, device=pool.device, dtype=torch.float64)
    at = starts.unsqueeze(1) + rates.double().unsqueeze(1) * times  # [B, length]
    whole = at.floor()
    taps = torch.arange(1 - WARP_HALF, WARP_HALF + 1, device=pool.device)
    away = taps - (at - whole).float().unsqueeze(2)  # [B, length, taps]
    cutoff = (1 / rates.float()).clamp(max=1.0).view(-1, 1, 1)
    weights = _windowed_sinc(away, cutoff, WARP_HALF)
    read = pool[whole.long().unsqueeze(2) + taps].float()
    return (weights * read).sum(2) / weights.sum(2)
