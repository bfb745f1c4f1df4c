"""Weights in eight bits: e4m3 numbers with one fp32 scale for each output.

Each row of a weight is scaled so that its largest magnitude is 448, the largest e4m3 number, and
rounded: each number by at most 1/16 of itself, a row by 2.6 % of its norm. `Fp8Linear` widens what
is left at each call: slow, the reference of the kernels (`kernels/fp8.py`), and the path where they
do not run.

Letters: `M` rows, `K` in, `N` out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

FORMAT = torch.float8_e4m3fn
LARGEST = torch.finfo(FORMAT).max
SMALLEST_SCALE = torch.finfo(torch.float32).tiny  # below, a scale would be coarse


@dataclass(frozen=True)
class Fp8Weight:
    """A weight `[N, K]` in eight bits.

    Attributes:
        values: e4m3 `[N, K]`.
        scale: fp32 `[N]`; a row is its values times its scale.
    """

    values: Tensor
    scale: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    def widened(self, dtype: torch.dtype) -> Tensor:
        """`[N, K]` in another format, rounded to it once."""
        return (self.values.float() * self.scale.unsqueeze(1)).to(dtype)


def quantize(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows `[M, K]` as e4m3 `[M, K]` and the fp32 scale `[M]` of each, which is 1 for zeros."""
    largest = rows.abs().amax(dim=1).float()
    scale = (largest / LARGEST).clamp(min=SMALLEST_SCALE)
    scale = torch.where(largest > 0, scale, 1.0)
    # rounding of the scale may leave the largest a little above what the format holds
    scaled = (rows.float() / scale.unsqueeze(1)).clamp(-LARGEST, LARGEST)
    return scaled.to(FORMAT), scale


class Fp8Linear:
    """`layers.linear.Linear` over a weight in eight bits.

    Args:
        weight: `[N, K]` in any format; only its eight bits are kept.
    """

    bias: Tensor | None = None

    def __init__(self, weight: Tensor) -> None:
        self.out_features, self.in_features = weight.shape
        self.weight: Any = Fp8Weight(*quantize(weight))  # as wide a type as a `Linear`'s weight

    def __call__(self, x: Tensor) -> Tensor:
        """`[..., K] -> [..., N]`."""
        return F.linear(x, self.weight.widened(x.dtype))

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """`residual + x W^T`, `[..., N]`."""
        return self(x).add_(residual)

    def num_rows(self, num_rows: int) -> int:
        """The rows it computes for so many: no more."""
        return num_rows
