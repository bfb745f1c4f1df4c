"""LocDiTs and LocEncs of the size that one stream's kernels are for, with random weights."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from voxcli.models.voxcpm2 import weights
from voxcli.models.voxcpm2.acoustic import LocalDiT, LocalEncoder
from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.sources import RandomSource


def random_dit(
    config: VoxCPM2Config, num_layers: int, device: torch.device, dtype: torch.dtype, *,
    seed: int = 0, is_native: bool = True,
) -> LocalDiT:  # fmt: skip
    """The same weights on any device and in any dtype."""
    source = _source(device, dtype, seed, is_native=is_native)
    dit = replace(config.dit, num_hidden_layers=num_layers)
    return weights.load_local_dit(source, replace(config, dit=dit))


def random_encoder(
    config: VoxCPM2Config, num_layers: int, device: torch.device, dtype: torch.dtype, *,
    seed: int = 0, is_native: bool = True,
) -> LocalEncoder:  # fmt: skip
    """The same weights on any device and in any dtype."""
    source = _source(device, dtype, seed, is_native=is_native)
    encoder = replace(config.encoder, num_hidden_layers=num_layers)
    return weights.load_local_encoder(source, replace(config, encoder=encoder))


def _source(device: torch.device, dtype: torch.dtype, seed: int, *, is_native: bool) -> _CpuSource:
    source = _CpuSource(torch.device("cpu"), dtype, seed)
    source.device, source.is_native = device, is_native
    return source


class _CpuSource(RandomSource):
    """Draws numbers that bf16 has, on the CPU whatever device they are for."""

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        device, self.device = self.device, torch.device("cpu")
        try:
            return super().read(name, shape).bfloat16().float()
        finally:
            self.device = device
