"""Memory for the state of many slots, most of them empty most of the time; arrays onto a device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from voxcli.layers.pages import pages

UPLOAD_BYTES = 32 << 20  # of one of the blocks that weights go through


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """`torch.zeros`, but on CPU with pages that take no memory until they are written.

    NOTE: torch writes the zeros.
    """
    if device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    return torch.frombuffer(pages(math.prod(shape) * dtype.itemsize), dtype=dtype).view(*shape)


class Upload:
    """Tensors onto a card, through page-locked memory that is used again and again.

    All cores fill a block while the ones before it are on their way. What is returned may be used
    by what is launched after it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._blocks = [torch.empty(UPLOAD_BYTES, dtype=torch.uint8).pin_memory() for _ in range(3)]
        self._sent = [torch.cuda.Event() for _ in self._blocks]
        self._next = 0

    def __call__(self, tensor: Tensor) -> Tensor:
        """A copy on the card."""
        there = torch.empty(tensor.shape, dtype=tensor.dtype, device=self._device)
        here = tensor.contiguous().view(-1).view(torch.uint8)
        bytes_there = there.view(-1).view(torch.uint8)
        for start in range(0, len(here), UPLOAD_BYTES):
            part = here[start : start + UPLOAD_BYTES]
            block, sent = self._blocks[self._next][: len(part)], self._sent[self._next]
            self._next = (self._next + 1) % len(self._blocks)
            sent.synchronize()
            block.copy_(part)
            bytes_there[start : start + len(part)].copy_(block, non_blocking=True)
            sent.record(torch.cuda.current_stream(self._device))
        return there


def upload(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy on the device that does not wait for what runs there; on CPU the array itself."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
