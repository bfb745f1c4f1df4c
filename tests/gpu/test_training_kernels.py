"""The kernels of the codec's training against torch's own, forward and backward.

`TRITON_INTERPRET=1 KERNEL_DEVICE=cpu` runs this without a card.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")
DEVICE = torch.device(os.environ.get("KERNEL_DEVICE", "cuda"))
if DEVICE.type == "cuda" and not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from recipes.train_mini import depthwise, snake  # noqa: E402

pytestmark = pytest.mark.gpu
SIZES = [(2, 3, 40), (2, 4, 1500), (1, 5, 1030)]


def compare(
    fast: Callable[..., Tensor], slow: Callable[..., Tensor], *inputs: Tensor, tolerance: float
) -> None:
    for each in inputs:
        each.requires_grad_()
    made, expected = fast(*inputs), slow(*inputs)
    towards = torch.randn_like(expected)
    pairs = zip(
        (made, *torch.autograd.grad(made, inputs, towards)),
        (expected, *torch.autograd.grad(expected, inputs, towards)), strict=True,
    )  # fmt: skip
    for one, other in pairs:
        error = (one.double() - other.double()).norm() / other.double().norm()
        assert error < tolerance


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dilation", [1, 3, 9])
def test_depthwise_convolution(size: tuple[int, int, int], dilation: int) -> None:
    torch.manual_seed(0)
    C = size[1]
    x, weight, bias = (torch.randn(s, device=DEVICE) for s in (size, (C, 1, 7), (C,)))
    compare(
        lambda *inputs: depthwise._Kernels.apply(*inputs, dilation),
        lambda *inputs: depthwise.plain_depthwise(*inputs, dilation),
        x, weight, bias, tolerance=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_snake(size: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    x, alpha = torch.randn(size, device=DEVICE), torch.rand(1, size[1], 1, device=DEVICE) + 0.5
    compare(snake._Kernels.apply, snake.plain_snake, x, alpha, tolerance=1e-5)
