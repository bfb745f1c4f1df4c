"""`--precision fp8` on a card: kernels, layers and a whole model, each beside its reference.

The reference of a product widens the same e4m3 numbers, in float64, so what is left is the rounding
of bf16 and of pairs. Many rows are rounded to eight bits themselves, which has a bound of its own.
`TRITON_INTERPRET=1 KERNEL_DEVICE=cpu` runs the kernels without a card, one row in fp16.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from asking import new_request
from torch import Tensor

pytest.importorskip("triton")
DEVICE = torch.device(os.environ.get("KERNEL_DEVICE", "cuda"))
if DEVICE.type == "cuda" and not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)
if DEVICE.type == "cuda" and torch.cuda.get_device_capability() < (8, 9):
    pytest.skip("no e4m3 before compute capability 8.9", allow_module_level=True)

from voxcli.config import EngineConfig  # noqa: E402
from voxcli.engine.native.core import EngineCore  # noqa: E402
from voxcli.engine.native.request import Request  # noqa: E402
from voxcli.kernels import fp8, fp8_rows, linear  # noqa: E402
from voxcli.kernels.fp8_rows import MAX_PAIRED_ROWS, Fp8Rows  # noqa: E402
from voxcli.kernels.patch_attention import local_attention, local_attention_fp8  # noqa: E402
from voxcli.layers.fp8 import FORMAT, Fp8Weight, quantize  # noqa: E402
from voxcli.models.voxcpm2.backbone import LocalStack  # noqa: E402
from voxcli.models.voxcpm2.loading import load  # noqa: E402
from voxcli.models.voxcpm2.model import VoxCPM2  # noqa: E402

pytestmark = pytest.mark.gpu
on_a_card = pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a GPU")
MINI = Path(__file__).parents[2] / "voxcli" / "assets" / "mini"
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
CUT = 1 if DEVICE.type == "cuda" else 3  # the interpreter rounds to eight bits carelessly
PAIRS = CUT * 1.2e-2  # a few roundings of bf16 and of pairs, 0.3 % each
EIGHT_BITS = CUT * 0.045  # rows rounded to e4m3: 2.6 % of a row in the mean
FEW = [(5, 96, 384), (8, 130, 4096), (22, 256, 1024), (40, 1024, 2048), (64, 40, 96)]
MANY = [(65, 96, 128), (70, 200, 256), (140, 96, 4096), (352, 1024, 2048), (1408, 2560, 1024)]


def error(out: Tensor, reference: Tensor) -> float:
    assert out.shape == reference.shape, (out.shape, reference.shape)
    assert out.isfinite().all()
    reference = reference.double()
    return float((out.double() - reference).norm() / reference.norm())


def normal(*shape: int, scale: float = 1.0) -> Tensor:
    return (scale * torch.randn(shape, device=DEVICE)).to(HALF)


def weight_of(N: int, K: int) -> tuple[Fp8Weight, Tensor]:
    """A weight whose rows differ in size by orders of magnitude, and the same in float64."""
    rows = torch.randn(N, K, device=DEVICE) * K**-0.5
    rows *= torch.logspace(-1, 1, N, device=DEVICE).unsqueeze(1)
    weight = Fp8Weight(*quantize(rows))
    return weight, weight.widened(torch.float64)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(torch.seed() if os.environ.get("FRESH") else 0)


@pytest.mark.parametrize(("N", "K"), [(64, 96), (100, 6144), (40, 1024)])
def test_one_row_multiplies_the_widened_weight(N: int, K: int) -> None:
    x, norm, residual = normal(1, K), normal(K), normal(1, N)
    weight, wide = weight_of(N, K)
    double, both = weight_of(2 * N, K)
    exact = [part.double() for part in (x, norm, residual)]
    plain = linear.rms_linear_reference(exact[0], exact[1], 1e-5, wide)
    assert error(linear.rms_linear(x, norm, 1e-5, weight), plain) < 8e-3
    gated = linear.rms_swiglu_reference(exact[0], exact[1], 1e-5, both)
    assert error(linear.rms_swiglu(x, norm, 1e-5, double), gated) < 8e-3
    total = linear.linear_add_reference(exact[0], wide, exact[2])
    assert error(linear.linear_add(x, weight, residual.clone()), total) < 8e-3


def same_rows(rows: Fp8Rows, reference: Fp8Rows) -> None:
    """The format is one; numbers agree to a step of it now and then."""
    assert rows.values.dtype == reference.values.dtype
    assert rows.shape == reference.shape
    assert error(rows.widened(), reference.widened()) < (PAIRS if rows.is_pair else CUT * 3e-2)


@pytest.mark.parametrize(("M", "K"), [(3, 64), (MAX_PAIRED_ROWS, 96), (65, 96), (70, 1026)])
def test_rows_are_rounded_as_they_are_written(M: int, K: int) -> None:
    x, residual, norm = normal(M, K), normal(M, K), normal(K)
    x[1] *= 20
    rows = fp8_rows.quantized(x)
    same_rows(rows, fp8_rows.quantized_reference(x))
    assert error(rows.widened(), x) < CUT * (5e-3 if rows.is_pair else 0.03)
    same_rows(fp8_rows.rms_norm(x, norm, 1e-5), fp8_rows.rms_norm_reference(x, norm, 1e-5))
    same_rows(fp8_rows.swiglu(x), fp8_rows.swiglu_reference(x))
    parts = torch.stack((x, normal(M, K)))
    expected, normed = fp8_rows.add_norm_reference(parts, residual, norm, 1e-5)
    before = residual.clone()
    for keep in (True, False):
        total, found = fp8_rows.add_norm(parts, residual, norm, 1e-5, keep=keep)
        assert error(total, expected) < PAIRS
        same_rows(found, normed)
        assert not keep or torch.equal(residual, before)


@pytest.mark.parametrize("M", [3, 70])
def test_zeros_stay_zeros(M: int) -> None:
    rows = fp8_rows.quantized(torch.zeros(M, 128, device=DEVICE, dtype=HALF))
    assert not rows.widened().any()
    assert rows.scale is None or (rows.scale == 1).all()


@pytest.mark.parametrize(
    ("M", "N", "K"), [*FEW, *(pytest.param(*size, marks=on_a_card) for size in MANY)]
)
def test_rows_in_eight_bits_multiply_weights_in_eight_bits(M: int, N: int, K: int) -> None:
    x, norm, residual = normal(M, K), normal(N), normal(M, N)
    weight, wide = weight_of(N, K)
    double, _ = weight_of(2 * N, K)
    rows = fp8_rows.quantized(x)
    product = fp8.product_reference(rows, weight)
    assert error(fp8.linear(rows, weight), product) < PAIRS
    gate, up = fp8.product_reference(rows, double).chunk(2, dim=-1)
    gated = torch.nn.functional.silu(gate) * up
    bound = PAIRS if rows.is_pair else EIGHT_BITS
    assert error(fp8.linear_swiglu(rows, double).widened(), gated) < bound
    total = product + residual.double()
    before = residual.clone()
    for keep in (True, False):
        found, normed = fp8.linear_add_norm(rows, weight, residual, norm, 1e-5, keep=keep)
        assert error(found, total) < PAIRS
        reference = torch.nn.functional.rms_norm(total, norm.shape, norm.double(), 1e-5)
        assert error(normed.widened(), reference) < bound
        assert not keep or torch.equal(residual, before)
        residual.copy_(before)
    assert error(fp8.linear_add(rows, weight, residual), total) < PAIRS
    exact = linear.linear_add_reference(x.double(), wide, before.double())
    assert error(linear.linear_add(x, weight, before), exact) < bound


MEASURED = [
    (size, most, tiles) for size, rules in fp8.TABLE.items() for most, tiles in rules if tiles
]


@on_a_card
@pytest.mark.parametrize(("size", "most", "tiles"), MEASURED, ids=str)
def test_every_product_of_the_table_is_that_of_float64(
    size: fp8.Size, most: int, tiles: fp8.WideTiles
) -> None:
    N, K, is_swiglu = size
    weight, _ = weight_of(2 * N if is_swiglu else N, K)
    for M in (MAX_PAIRED_ROWS + 1, most - 7, most):
        rows = fp8_rows.quantized(normal(M, K))
        reference = fp8.product_reference(rows, weight)
        if is_swiglu:
            gate, up = reference.chunk(2, dim=-1)
            reference = torch.nn.functional.silu(gate) * up
        out = fp8.run_wide(rows, weight, tiles, is_swiglu=is_swiglu)
        assert error(out.double().sum(0), reference) < PAIRS, M


@pytest.mark.parametrize(("B", "T", "first"), [(2, 11, 0), (3, 11, 7), (9, 11, 0)])
def test_attention_writes_rows_in_eight_bits(B: int, T: int, first: int) -> None:
    qkv = normal(B, T, (6 + 2 * 2) * 64)
    found = local_attention_fp8(qkv, None, 6, 2, first, 0.125)
    expected = local_attention(qkv, None, 6, 2, first, 0.125)
    assert found.shape == expected.shape
    bound = PAIRS if found.is_pair else EIGHT_BITS
    assert error(found.widened(), expected.flatten(0, 1)) < bound


@pytest.fixture(scope="module")
def model() -> VoxCPM2:
    return load(MINI, torch.device("cuda:0"), FORMAT)


@on_a_card
@pytest.mark.parametrize("B", [1, 2, 5, 16])
def test_a_fused_stack_is_the_plain_one_over_widened_weights(model: VoxCPM2, B: int) -> None:
    """Three layers of residuals; up to 64 rows are pairs, more are rounded to eight bits."""
    stack = model.dit.stack
    x, keep = normal(B, 11, model.dit.width), slice(7, 11)
    with torch.inference_mode():
        expected = LocalStack.__call__(stack, x, keep)
        found = stack(x, keep)
    assert error(found, expected) < (0.02 if 11 * B <= MAX_PAIRED_ROWS else 0.08)


def spoken(engine: EngineCore, num_rows: int) -> Tensor:
    """All requests' samples, one request behind the other: they may start in any step."""
    pieces: dict[Request, list[Tensor]] = {}
    for seed in range(num_rows):
        prompt = engine.model.encode_prompt("Hello there.")
        request = new_request(prompt, seed, 6, 2.0, max_frames=6, min_frames=6)
        engine.add_request(request)
        pieces[request] = []
    while engine.has_work:
        for output in engine.step():
            pieces[output.request].append(torch.from_numpy(output.samples))
    return torch.cat([piece for each in pieces.values() for piece in each])


@on_a_card
@pytest.mark.parametrize("num_rows", [1, 3])
def test_captured_steps_repeat_and_are_near_the_eager_ones(model: VoxCPM2, num_rows: int) -> None:
    """Not equal: eager prompts run over widened weights, captured ones over rows in eight bits."""
    config = EngineConfig(
        max_slots=3, max_positions=300, graphs=({"steps": 6, "guidance_scale": 2.0},)
    )
    engine = EngineCore(model, model.device, config)
    found = spoken(engine, num_rows)
    assert found.abs().max() > 0.01, "silence proves nothing"
    assert torch.equal(spoken(engine, num_rows), found)
    eager = EngineCore(model, model.device, replace(config, eager=True))
    assert error(found, spoken(eager, num_rows)) < 0.3


@on_a_card
def test_no_weight_of_a_layer_has_more_than_eight_bits(model: VoxCPM2) -> None:
    layers = (model.base_lm, model.residual_lm, model.local_encoder.stack, model.dit.stack)
    for stack in layers:
        for block in stack.blocks:
            for product in (block.qkv, block.output, block.gate_up, block.down):
                assert product.weight.values.dtype == FORMAT
    assert model.embedding.dtype == torch.bfloat16
