"""Fused Triton kernels of the decode step, each beside the torch code it stands for.

Nothing here is needed on CPU, and importing this package imports no Triton; `is_available` says
whether its modules may be imported for a device. Kernels take bf16 on the language-model side and
fp32 in the vocoder, sum in fp32, allocate only their outputs and never wait for the device, so all
of them may be captured into a graph.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch

MIN_CAPABILITY = (8, 0)  # bf16 tensor cores


@cache
def is_available(device: torch.device) -> bool:
    """Whether the kernels run on a device."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(device) >= MIN_CAPABILITY
