"""Requests and rows of VoxCPM2 as the engine makes them, for tests that drive a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from voxcli.engine.native.request import Request
from voxcli.models.data import HostRow, Rows
from voxcli.models.voxcpm2.family import Parameters, VoxCPM2Family


def new_request(
    prompt: Any, seed: int = 0, steps: int = 6, guidance_scale: float = 1.0, **given: Any
) -> Request:
    """A request with these settings; `given` as of `Request`."""
    parameters = Parameters(steps, guidance_scale)
    key = VoxCPM2Family().graph_key(parameters)
    return Request(prompt, seed, parameters, key, **{"max_frames": 10, **given})


def new_rows(
    slots: Sequence[int],
    positions: Sequence[int],
    seeds: Sequence[int],
    steps: Sequence[int],
    *,
    num_steps: int = 6,
    guidance: Sequence[float] | float = 1.0,
    is_on_host: bool = True,
) -> Rows:
    """Rows of one step; guided where any of them is."""
    scales = [guidance] * len(slots) if isinstance(guidance, (int, float)) else list(guidance)
    host = [HostRow(*row) for row in zip(slots, positions, seeds, steps, strict=True)]
    return Rows(
        *(torch.tensor(values) for values in (slots, positions, seeds, steps)),
        inputs={"guidance_scale": torch.tensor(scales, dtype=torch.float32)},
        key=(num_steps, any(scale != 1.0 for scale in scales)),
        host=host if is_on_host else None,
    )
