"""Where VoxCPM2's tensors are: its files, and what `models/sources.py` has to know of their names.

Official names are those of OpenBMB/VoxCPM (`docs/models/voxcpm2.md`): the language model
in `model.safetensors` or `pytorch_model.bin`, the AudioVAE in `audiovae.safetensors` or
`audiovae.pth`, whose keys carry no prefix in the file and `audio_vae.` here.
"""

from __future__ import annotations

from pathlib import Path

import torch

from voxcli.models import sources
from voxcli.models.sources import Source
from voxcli.models.voxcpm2.host import VAE_PREFIX

__all__ = ["VAE_PREFIX", "CheckpointSource", "RandomSource", "ShapeSource", "Source"]

FILES = {
    "": ("model.safetensors", "pytorch_model.bin"),
    VAE_PREFIX: ("audiovae.safetensors", "audiovae.pth"),
}
NEAR_ONE = ("*norm*", "*alpha", "*weight_g", "*scale_embed.weight")


class CheckpointSource(sources.CheckpointSource):
    """The official files of a folder."""

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(folder, FILES, device, dtype, fp32=(VAE_PREFIX,))


class RandomSource(sources.RandomSource):
    """Random weights; the stop head is zero, so speech never ends."""

    def __init__(self, device: torch.device, dtype: torch.dtype, seed: int = 0) -> None:
        super().__init__(
            device, dtype, seed, fp32=(VAE_PREFIX,), ones=NEAR_ONE, zeros=("stop_head*",)
        )


class ShapeSource(sources.ShapeSource):
    """Weights without data."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(dtype, fp32=(VAE_PREFIX,))
