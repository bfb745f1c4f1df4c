"""Memory for the state of many slots, most of them empty most of the time; arrays onto a device."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """`torch.zeros`, but on CPU with pages that take no memory until they are written.

    NOTE: torch writes the zeros. numpy does not, but asks for huge pages, and a slot's row is
    shorter than one: the first request would take the memory of all positions.
    """
    if device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    own: dict[str, int] = {} if os.name == "nt" else {"flags": mmap.MAP_PRIVATE}
    pages = mmap.mmap(-1, math.prod(shape) * dtype.itemsize, **own)  # freed with the tensor
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a system without huge pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(pages, dtype=dtype).view(*shape)


def upload(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy on the device that does not wait for what runs there; on CPU the array itself."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
