"""Programmatic dependent launch: a kernel starts while the one before it still runs.

Between small kernels the launch gap costs as much as the work. A kernel launched with
`options(device)` may start early; it calls `wait` before it touches anything that earlier kernels
write, and until then reads weights, which nothing writes. Needs compute capability 9.0; `wait`
is a no-op elsewhere. Every kernel that is launched so must call `wait`, because completion is only
transitive through it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@cache
def has_early_launch(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


@cache
def options(device: torch.device) -> dict[str, Any]:
    """Launch options and the constant `EARLY` that kernels hand to `wait`."""
    if has_early_launch(device):
        return {"EARLY": True, "launch_pdl": True}
    return {"EARLY": False}


@triton.jit
def wait(EARLY: tl.constexpr):
    """Let the next kernel start, then wait until all before this one are complete."""
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()
