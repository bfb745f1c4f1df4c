"""A checkpoint folder, or a configuration alone, to a loaded model."""

from __future__ import annotations

from pathlib import Path

import torch

from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.model import VoxCPM2
from voxcli.models.voxcpm2.sources import CheckpointSource, RandomSource, ShapeSource
from voxcli.models.voxcpm2.tokenize import StandInTokenizer, TextTokenizer


def load(
    folder: Path, device: torch.device, dtype: torch.dtype, *, is_native: bool = True
) -> VoxCPM2:
    """Load the official files; every weight is used or the load fails.

    Args:
        is_native: use compiled kernels on a CPU where there are any.

    Raises:
        CheckpointError: missing, damaged or surplus parts, by name.
    """
    config = VoxCPM2Config.load(folder)
    tokenizer = TextTokenizer(folder)
    tokenizer.require_room(config.lm.vocab_size)
    with torch.inference_mode():
        source = CheckpointSource(folder, device, dtype)
        source.is_native = is_native
        model = VoxCPM2(config, source, tokenizer)
        source.finish()
    return model


def load_shapes(folder: Path, dtype: torch.dtype) -> VoxCPM2:
    """A model without weights, to learn which kernels the model of a folder needs."""
    with torch.inference_mode():
        return VoxCPM2(VoxCPM2Config.load(folder).shortened(), ShapeSource(dtype), None)


def random_model(
    config: VoxCPM2Config,
    device: torch.device,
    dtype: torch.dtype,
    *,
    tokenizer: TextTokenizer | StandInTokenizer | None = None,
    seed: int = 0,
    is_native: bool = True,
) -> VoxCPM2:
    """A model of that size with random weights: for speed and for tests, never for sound."""
    with torch.inference_mode():
        source = RandomSource(device, dtype, seed)
        source.is_native = is_native
        return VoxCPM2(config, source, tokenizer)
