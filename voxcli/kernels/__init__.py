"""Fused kernels, each beside the torch code it stands for: Triton's for cards, C for processors.

What is called `native` is for a CPU and has a path in torch beside it. `persistent` is CUDA C++ for
one kind of card and has a path in Triton beside it (`cubin.py`). All else is Triton: importing this
package imports none of it, and `is_available` says whether its modules may be imported for a
device. Its kernels take bf16 or eight bits on the language-model side and fp32 or fp16 in the
vocoders, sum in fp32, allocate only their outputs and never wait for the device, so all of them may
be captured into a graph.

Tensors without data, on torch's device "meta", stand for those of a card that `stand_in` names:
`ahead.py` learns from them which kernels a model needs.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

MIN_CAPABILITY = (8, 0)  # bf16 tensor cores

_stand_in = (0, 0)
compiling_alone: ContextVar[bool] = ContextVar("compiling_alone", default=False)
"""Whether kernels are only compiled or named here, and nothing is launched; see `launch.py`."""


def stand_in(capability: tuple[int, int]) -> None:
    """Let "meta" stand for a card of this compute capability, before anything else is asked."""
    global _stand_in
    _stand_in = capability


@cache
def capability(device: torch.device) -> tuple[int, int]:
    """Compute capability of a device; below all others where there is none."""
    if device.type == "meta":
        return _stand_in
    if device.type != "cuda":
        return (0, 0)
    import torch

    return torch.cuda.get_device_capability(device)


@cache
def is_available(device: torch.device) -> bool:
    """Whether the kernels run on a device."""
    return find_spec("triton") is not None and capability(device) >= MIN_CAPABILITY
