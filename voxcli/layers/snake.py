"""Snake, the periodic activation of neural vocoders.

Source: the SnakeBeta of NVIDIA/BigVGAN (MIT), after Ziyin et al. 2020; scale and gain are given as
they are used, not as logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Snake:
    """`x + gain sin(scale x)^2`, each `[C]`."""

    scale: Tensor
    gain: Tensor

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """`[..., C]` to the same, into `out` where it is given, which may be `x`."""
        sine = torch.mul(x, self.scale).sin_()
        return torch.addcmul(x, sine.mul_(sine), self.gain, out=out)
