"""How exactly CUDA multiplies numbers of 32 bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tf32(is_allowed: bool) -> Iterator[None]:
    """Inside, products and convolutions of fp32 round their factors to ten bits (TF32), or do not.

    The range of the numbers stays, their sums are fp32, and tensor cores are several times faster.
    torch alone rounds convolutions and not products. The setting is the process's, so one thread
    alone may compute on cards. A captured graph keeps what was set at its capture.
    """
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = is_allowed
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before
