"""Weights in eight bits: errors within the format, whatever the rows; refused where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from voxcli import kernels
from voxcli.config import EngineConfig
from voxcli.engine.native.device import resolve_dtype
from voxcli.errors import UsageError
from voxcli.layers.fp8 import FORMAT, LARGEST, SMALLEST_SCALE, Fp8Linear, Fp8Weight, quantize
from voxcli.layers.linear import Linear
from voxcli.models.voxcpm2.loading import load

MINI = Path(__file__).parents[2] / "voxcli" / "assets" / "mini"
STEP = 2.0**-4  # half a step of three bits of mantissa, of the number itself
SMALL = 2.0**-10 / LARGEST  # half a step below the normal numbers, of the row's largest


def widened(rows: Tensor) -> Tensor:
    return Fp8Weight(*quantize(rows)).widened(torch.float64)


@pytest.mark.parametrize(("N", "K"), [(1, 1), (3, 7), (40, 96), (5, 1000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_number_is_kept_to_half_a_step(N: int, K: int, dtype: torch.dtype) -> None:
    torch.manual_seed(N * K)
    rows = (torch.randn(N, K) * torch.logspace(-6, 6, N).unsqueeze(1)).to(dtype)
    exact = rows.double()
    bound = STEP * exact.abs() + SMALL * exact.abs().amax(1, keepdim=True)
    assert ((widened(rows) - exact).abs() <= bound * (1 + 1e-6)).all()


def test_a_normal_row_loses_under_three_percent() -> None:
    rows = torch.randn(20, 4000, generator=torch.Generator().manual_seed(0))
    error = (widened(rows) - rows).norm(dim=1) / rows.norm(dim=1)
    assert (error < 0.03).all(), error


def test_the_largest_number_of_a_row_is_exact_and_rows_are_apart() -> None:
    rows = torch.tensor([[1.0, -3.0, 0.5], [1e-3, 2e-3, -5e-4]])
    values, scale = quantize(rows)
    assert values.dtype == FORMAT
    torch.testing.assert_close(scale, torch.tensor([3.0, 2e-3]) / LARGEST)
    assert values.float().abs().amax(1).tolist() == [LARGEST, LARGEST]


@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-38, 3.3e38])
def test_rows_of_any_size_stay_finite(size: float) -> None:
    values, scale = quantize(torch.tensor([[size, -size, 0.0, size / 2]]))
    wide = Fp8Weight(values, scale).widened(torch.float64)
    assert wide.isfinite().all()
    assert float(scale[0]) == 1.0 if size == 0.0 else float(scale[0]) >= SMALLEST_SCALE
    assert (wide - torch.tensor([[size, -size, 0.0, size / 2]])).abs().max() <= max(
        STEP * size, SMALLEST_SCALE
    )


def test_the_reference_is_a_product_with_what_is_left_of_the_weight() -> None:
    torch.manual_seed(0)
    weight, x, residual = torch.randn(24, 40), torch.randn(2, 5, 40), torch.randn(2, 5, 24)
    linear, plain = Fp8Linear(weight), Linear(widened(weight).float())
    torch.testing.assert_close(linear(x), plain(x))
    torch.testing.assert_close(linear.add(x, residual.clone()), plain(x) + residual)
    assert not hasattr(linear, "layout")
    assert linear.weight.values.element_size() == 1


def test_a_checkpoint_loads_with_layers_in_eight_bits_and_nothing_else() -> None:
    model = load(MINI, torch.device("cpu"), FORMAT)
    for stack in (model.base_lm, model.residual_lm, model.local_encoder.stack, model.dit.stack):
        for block in stack.blocks:
            for product in (block.qkv, block.output, block.gate_up, block.down):
                assert isinstance(product, Fp8Linear)
    assert model.dtype == model.embedding.dtype == torch.bfloat16
    assert isinstance(model.dit.out_proj, Linear)


def test_a_processor_has_no_fp8() -> None:
    EngineConfig(precision="fp8")
    with pytest.raises(UsageError, match="needs an NVIDIA GPU") as caught:
        resolve_dtype("fp8", torch.device("cpu"), 0)
    assert "--precision" in (caught.value.hint or "")


def test_an_older_card_has_no_fp8(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100")
    monkeypatch.setattr(kernels, "capability", lambda device: (8, 0))
    with pytest.raises(UsageError, match=r"8\.9 or above .*NVIDIA A100 has 8\.0"):
        resolve_dtype("fp8", device, 0)
    monkeypatch.setattr(kernels, "capability", lambda device: (9, 0))
    assert resolve_dtype("fp8", device, 0) == FORMAT
