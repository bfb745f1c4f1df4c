"""What tests of the model share: the fixture's type, and random tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from voxcli.models.voxcpm2.model import VoxCPM2

Models = Callable[[str], VoxCPM2]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
