"""Weights onto a card through page-locked memory."""

from __future__ import annotations

import pytest
import torch

from voxcli.layers import memory
from voxcli.layers.memory import Upload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
DEVICE = torch.device("cuda", 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int8])
def test_what_is_uploaded_is_what_was_there(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "UPLOAD_BYTES", 4096)  # so that blocks are used again and again
    upload = Upload(DEVICE)
    tensors = [torch.randn(size).mul(50).to(dtype) for size in (1, 5, 2048, 2049, 100_003)]
    tensors += [torch.randn(70, 300).mul(50).to(dtype).t(), torch.zeros(0, 4, dtype=dtype)]
    for there, here in [(upload(each), each) for each in tensors]:
        assert there.device == DEVICE
        assert there.dtype == dtype
        assert torch.equal(there.cpu(), here)
