"""Is there room on the device? Asked before anything large is allocated.

Knows sizes in bytes; does not know what they are for.
"""

from __future__ import annotations

import torch

from voxcli.errors import EngineError

GIB = 2**30


def free_memory(device: torch.device) -> tuple[int, int]:
    """Bytes that can still be allocated on a CUDA device, and all it has."""
    free, total = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + held, total


def require_memory(device: torch.device, num_bytes: int, purpose: str, hint: str) -> None:
    """Check for room on a CUDA device; other devices always pass.

    Args:
        purpose: what it is for, as the subject of a sentence in the plural.
        hint: what lowers it.

    Raises:
        EngineError: too little is free; says how much is needed and how much there is.
    """
    if device.type != "cuda":
        return
    free, total = free_memory(device)
    if num_bytes > free:
        raise EngineError(
            f"{purpose} need {num_bytes / GIB:.1f} GiB of GPU memory; {free / GIB:.1f} of "
            f"{total / GIB:.1f} GiB are free on {device}",
            hint=hint,
        )
