"""Products of many rows in CUDA C++, beside the same in float64; and attention a warp a head.

bf16 is rounded once in a product, so errors are some 2e-3.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("no card of compute capability 9.0", allow_module_level=True)

from voxcli.kernels import dense
from voxcli.kernels import patch_attention as patch
from voxcli.kernels.dense import Tiles
from voxcli.layers.rope import rotations

pytestmark = pytest.mark.gpu
DEVICE = torch.device("cuda", 0)
MAX_ERROR = 8e-3
SHAPES = [(40, 264, 1024), (176, 320, 1024), (33, 136, 1024), (1408, 1024, 2048)]
CUTS = [(1, 1, 16), (1, 1, 176), (2, 1, 96), (2, 1, 256), (2, 2, 176)]


def error(out: Tensor, reference: Tensor) -> float:
    assert out.isfinite().all()
    return float((out.double() - reference.double()).norm() / reference.double().norm())


def weight_of(N: int, K: int) -> Tensor:
    """A weight whose rows differ in size."""
    return torch.randn(N, K, device=DEVICE) * K**-0.5 * (0.5 + torch.rand(N, 1, device=DEVICE))


def poisoned(tiles: Tiles, M: int, N: int) -> Tensor:
    return torch.full((tiles.parts, M, N), float("nan"), dtype=torch.bfloat16, device=DEVICE)


def swiglu(y: Tensor) -> Tensor:
    gate, up = y.chunk(2, dim=-1)
    return F.silu(gate) * up


@torch.inference_mode()
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("is_swiglu", "parts"), [(False, 1), (True, 1), (False, 4)])
def test_a_product_is_that_of_float64(
    cut: tuple[int, int, int], is_swiglu: bool, parts: int
) -> None:
    tiles = Tiles(*cut, parts)
    for M, N, K in SHAPES:
        x = torch.randn(M, K, device=DEVICE).bfloat16()
        weight = weight_of(2 * N if is_swiglu else N, K).bfloat16()
        out = poisoned(tiles, M, N)
        dense.run(x, weight, tiles, out, is_swiglu=is_swiglu)
        reference = x.double() @ weight.double().t()
        reference = swiglu(reference) if is_swiglu else reference
        assert error(out.double().sum(0), reference) < MAX_ERROR, (M, N, K)


MEASURED = [
    (size, most, tiles) for size, rules in dense.TABLE.items() for most, tiles in rules if tiles
]


@torch.inference_mode()
@pytest.mark.parametrize(("size", "most", "tiles"), MEASURED, ids=str)
def test_every_product_of_the_table_is_that_of_float64(
    size: dense.Size, most: int, tiles: Tiles
) -> None:
    N, K, is_swiglu = size
    weight = weight_of(2 * N if is_swiglu else N, K).bfloat16()
    for M in (2, most - 7, most):
        x = torch.randn(M, K, device=DEVICE).bfloat16()
        out = poisoned(tiles, M, N)
        dense.run(x, weight, tiles, out, is_swiglu=is_swiglu)
        wide = x.double() @ weight.double().t()
        reference = swiglu(wide) if is_swiglu else wide
        assert error(out.double().sum(0), reference) < MAX_ERROR, M


@torch.inference_mode()
def test_products_that_start_early_read_what_the_one_before_wrote() -> None:
    tiles = Tiles(2, 1, 96)
    weights = [weight_of(1024, 1024).bfloat16() for _ in range(12)]
    x = torch.randn(200, 1024, device=DEVICE).bfloat16()

    def chain(*, is_waiting: bool) -> Tensor:
        y = x
        for weight in weights:
            y = dense.product(y, weight, tiles)[0]
            if is_waiting:
                torch.cuda.synchronize()
        return y

    wanted = chain(is_waiting=True)
    for _ in range(10):
        assert torch.equal(chain(is_waiting=False), wanted)


@torch.inference_mode()
@pytest.mark.parametrize(("num_tokens", "first"), [(11, 0), (11, 7), (9, 0), (16, 3)])
@pytest.mark.parametrize("has_rope", [False, True])
def test_attention_a_warp_a_head_is_that_of_its_reference(
    num_tokens: int, first: int, has_rope: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch, "WARP_MIN_ROWS", 1)
    turns = rotations(num_tokens, 128, theta=10000.0, factors=[1.0] * 64, device=DEVICE)
    rotation = turns if has_rope else None
    for num_rows in (1, 3, 64):
        qkv = torch.randn(num_rows, num_tokens, 20 * 128, device=DEVICE).bfloat16()
        given = (rotation, 16, 2, first, 128**-0.5)
        out = patch.local_attention(qkv, *given)
        assert error(out, patch.local_attention_reference(qkv.float(), *given)) < MAX_ERROR
