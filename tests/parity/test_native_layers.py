"""Compiled layers: as their torch references, and a row the same alone and in a batch."""

from __future__ import annotations

import pytest
import torch
from asking import new_rows
from cases import MINI
from helpers import Models, random
from torch import Tensor

from voxcli.kernels import native_layers as kernels
from voxcli.kernels import native_product
from voxcli.kernels.native_product import NativeLinear
from voxcli.kernels.structs import Heads
from voxcli.layers.linear import Layout, Linear
from voxcli.layers.rope import rotations
from voxcli.models.data import Rows
from voxcli.models.voxcpm2 import backbone, native_layers
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.native_layers import (
    NativeCausalStack,
    NativeLocalStack,
    supports,
)
from voxcli.models.voxcpm2.sources import RandomSource

HEADS = [
    Heads(6, 2, 64, 64**-0.5), Heads(4, 2, 12, 12**-0.5), Heads(3, 3, 18, 0.3), Heads(5, 1, 34, 0.2)
]  # fmt: skip
NUM_SLOTS = 6

pytestmark = pytest.mark.usefixtures("compiled_kernels", "inference_mode")


def rotation_of(num_positions: int, heads: Heads, is_rotated: bool = True) -> Tensor | None:
    factors = [1.0] * (heads.head_dim // 2)
    table = rotations(num_positions, heads.head_dim, theta=1e4, factors=factors, amplitude=1.1)
    return table if is_rotated else None


def same_numbers(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("D", [1, 15, 48, 100, 384])
@pytest.mark.parametrize("B", [1, 3, 40])
def test_norms_are_their_references(B: int, D: int) -> None:
    x, y, weight = 3 * random(B, D), random(B, D, seed=1), random(D, seed=2)
    same_numbers(kernels.norm(x, weight, 1e-5), kernels.norm_reference(x, weight, 1e-5))
    expected = kernels.add_norm_reference(x, y, 0.7, weight, 1e-5)
    for found, wanted in zip(kernels.add_norm(x, y, 0.7, weight, 1e-5), expected, strict=True):
        same_numbers(found, wanted)


@pytest.mark.parametrize("F", [1, 15, 100, 1024])
def test_swiglu_is_its_reference(F: int) -> None:
    x = 5 * random(7, 2 * F)
    same_numbers(kernels.swiglu(x), kernels.swiglu_reference(x))


def test_the_exponential_is_within_its_bound_of_double_precision() -> None:
    gate = torch.linspace(-80, 80, 400_001)
    exact = gate.double() / (1 + torch.exp(-gate.double()))
    found = kernels.swiglu(torch.cat((gate, torch.ones_like(gate))))
    error = (found.double() - exact).abs() / exact.abs().clamp(min=1e-30)
    assert float(error.max()) < 3e-7


def test_swiglu_is_finite_for_large_numbers_and_hides_no_nan() -> None:
    gate = torch.tensor([1e30, -1e30, 88.0, -88.0, 3.4e38, -3.4e38, 0.0])
    found = kernels.swiglu(torch.cat((gate, torch.ones_like(gate))))
    same_numbers(found, gate.clamp(min=0.0))
    nan = kernels.swiglu(torch.tensor([torch.nan, 1.0, 1.0, torch.nan]))
    assert nan.isnan().all()


@pytest.mark.parametrize("is_rotated", [True, False])
@pytest.mark.parametrize("N", [1, 5, 11, 16, 37])
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_local_attention_is_its_reference(heads: Heads, N: int, is_rotated: bool) -> None:
    qkv, rotation = 2 * random(3, N, heads.width), rotation_of(N, heads, is_rotated)
    for keep in (slice(None), slice(0, 1), slice(N // 2, None)):
        expected = kernels.local_attention_reference(qkv, rotation, heads, keep)
        same_numbers(kernels.local_attention(qkv.clone(), rotation, heads, keep), expected)


@pytest.mark.parametrize("is_rotated", [True, False])
@pytest.mark.parametrize("positions", [[0], [3, 0, 15], [16, 299, 31, 7, 256]])
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_decode_attention_is_its_reference(
    heads: Heads, positions: list[int], is_rotated: bool
) -> None:
    B, rotation = len(positions), rotation_of(300, heads, is_rotated)
    slots = torch.tensor([4, 1, 5, 0, 2])[:B]
    where = torch.tensor(positions)
    keys, values = random(2, NUM_SLOTS, heads.num_kv_heads, 300, heads.head_dim).unbind(0)
    unread = torch.arange(300).view(1, 300, 1)
    for slot, position in zip(slots.tolist(), positions, strict=True):
        for cache in (keys, values):  # what another request left there
            cache[slot].masked_fill_(unread > position, torch.nan)
    qkv = random(B, heads.width, seed=1)
    caches = keys.clone(), values.clone()
    expected = kernels.decode_attention_reference(
        qkv.clone(), rotation, heads, *caches, slots, where
    )
    out = torch.full((B + 2, heads.num_heads * heads.head_dim), torch.nan)
    kernels.decode_attention(qkv, rotation, heads, keys, values, slots, where, out)
    same_numbers(out[:B], expected)
    assert out[B:].isnan().all(), "only the rows asked for are written"
    for found, wanted in zip((keys, values), caches, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", ["mini", "tiny", "tiny_mean"])
def test_the_stacks_are_the_plain_ones(models: Models, name: str) -> None:
    model = models(name)
    for stack, N in ((model.dit.stack, 3 + 2 * 4), (model.local_encoder.stack, 5)):
        assert type(stack) is NativeLocalStack
        N = min(N, 3 + 2 * model.config.patch_size)
        x = random(2, stack.rotation.shape[0] if stack.rotation is not None else N,
                   stack.config.hidden_size)  # fmt: skip
        before = x.clone()
        for keep in (slice(0, 1), slice(1, None)):
            same_numbers(stack(x, keep), backbone.LocalStack.__call__(stack, x, keep))
        assert torch.equal(x, before)


def step_rows(slots: list[int], positions: list[int]) -> Rows:
    return new_rows(slots, positions, [0] * len(slots), [0] * len(slots))


@pytest.mark.parametrize("name", ["mini", "tiny"])
@pytest.mark.parametrize("B", [1, 2, 7, 40])
def test_a_decode_step_is_the_plain_one_and_a_row_is_the_same_alone(
    models: Models, name: str, B: int
) -> None:
    stack = models(name).base_lm
    assert type(stack) is NativeCausalStack
    slots = torch.randperm(40, generator=torch.Generator().manual_seed(0))[:B].tolist()
    positions = [(37 * row) % 60 for row in range(B)]
    x = random(B, stack.config.hidden_size)

    def filled() -> backbone.KVCache:
        cache = stack.new_cache(40, 64)
        cache.keys.copy_(random(*cache.keys.shape, seed=1))
        cache.values.copy_(random(*cache.values.shape, seed=2))
        return cache

    found = stack.decode(x, filled(), step_rows(slots, positions))
    expected = backbone.CausalStack.decode(stack, x, filled(), step_rows(slots, positions))
    torch.testing.assert_close(found, expected, atol=5e-5, rtol=1e-5)
    cache = filled()
    for row in {0, B // 2, B - 1}:
        alone = stack.decode(x[row : row + 1], cache, step_rows([slots[row]], [positions[row]]))
        assert torch.equal(alone[0], found[row])


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("N", [1, 5, 128, 129])
def test_a_prompt_is_that_of_the_plain_stack(
    models: Models, N: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_layers, "MAX_PROMPT", 128)
    model = models("tiny")
    for stack in (model.base_lm, model.residual_lm):
        x = random(start + N, stack.config.hidden_size)
        caches = [stack.new_cache(2, start + N) for _ in range(2)]
        for cache in caches:
            backbone.CausalStack.prefill(stack, x[:start], cache, 1)
        found = stack.prefill(x[start:], caches[0], 1, start)
        expected = backbone.CausalStack.prefill(stack, x[start:], caches[1], 1, start)
        same_numbers(found, expected)
        same_numbers(caches[0].keys, caches[1].keys)
        same_numbers(caches[0].values, caches[1].values)


@pytest.mark.parametrize("name", ["mini", "tiny"])
def test_prompts_together_leave_the_bits_of_each_alone(
    models: Models, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_layers, "MAX_PROMPT", 128)
    model = models(name)
    reference = random(3, *model.patch_shape).numpy()
    prompts = [
        model.encode_prompt("One."),
        model.encode_prompt("Another one, in a voice.", reference=reference),
        model.encode_prompt(
            "And a third, that goes on.", prompt_text="So.", prompt_audio=reference
        ),
        model.encode_prompt(32 * "long "),
    ]
    for chosen in (prompts[:3], prompts):
        together, alone = (model.new_state(len(prompts), 200) for _ in range(2))
        places = [(prompt, slot, 0) for slot, prompt in enumerate(chosen)]
        model.prefill_together(together, places)
        for prompt, slot, start in places:
            model.prefill(alone, prompt, slot, start)
        for found, wanted in (
            (together.hidden, alone.hidden),
            (together.cond, alone.cond),
            (together.base_cache.keys, alone.base_cache.keys),
            (together.residual_cache.values, alone.residual_cache.values),
        ):
            assert torch.equal(found, wanted)


def test_without_them_the_plain_stacks_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(MINI, torch.device("cpu"), torch.float32, is_native=False)
    assert type(model.base_lm) is backbone.CausalStack
    assert type(model.dit.stack) is backbone.LocalStack
    assert supports(torch.device("cpu"), torch.float32)
    assert not supports(torch.device("cpu"), torch.bfloat16)
    assert not supports(torch.device("cuda"), torch.float32)
    monkeypatch.setattr("voxcli.models.voxcpm2.native_layers.load", lambda: None)
    assert not supports(torch.device("cpu"), torch.float32)


@pytest.mark.instructions("AVX2", "AVX512")
# an odd K, more of it than is summed at once, panels of one to three vectors, parts of a vector
@pytest.mark.parametrize(
    ("K", "N"),
    [(384, 640), (1024, 384), (13, 16), (1100, 80), (32, 112), (18, 18), (72, 36), (5, 7)],
)
@pytest.mark.parametrize("dtype", [torch.half, torch.float32])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_product_is_the_plain_one_and_a_row_has_its_own_bits_in_any_batch(
    monkeypatch: pytest.MonkeyPatch, K: int, N: int, has_bias: bool, dtype: torch.dtype
) -> None:
    weight = (random(N, K) / K**0.5).to(dtype).float()
    bias = random(N, seed=1) if has_bias else None
    linear = NativeLinear(weight, bias, dtype)
    x, residual = random(200, K, seed=2), random(200, N, seed=3)
    whole = linear(x)
    plain = Linear(weight, bias, Layout.PLAIN)
    torch.testing.assert_close(whole, plain(x), atol=2e-5, rtol=0)
    assert torch.equal(linear.add(x, residual), residual + whole)
    assert linear(x.view(2, 50, 2, K)).shape == (2, 50, 2, N)
    for threshold in (0, 10**9):  # over threads, and by one
        monkeypatch.setattr(native_product, "MIN_THREADED", threshold)
        for first, M in ((0, 0), *((7, M) for M in range(1, 14)), (3, 96), (5, 97), (0, 200)):
            rows = slice(first, first + M)
            assert torch.equal(linear(x[rows]), whole[rows]), (threshold, M)
    assert linear.num_rows(1) == 1


@pytest.mark.instructions("AVX2", "AVX512")
@pytest.mark.parametrize(("is_native", "has_kernel"), [(True, True), (True, False), (False, True)])
def test_products_are_native_where_they_run_and_half_where_that_holds_the_weight(
    monkeypatch: pytest.MonkeyPatch, is_native: bool, has_kernel: bool
) -> None:
    monkeypatch.setattr(native_product, "is_available", lambda: has_kernel)
    source = RandomSource(torch.device("cpu"), torch.float32)
    source.is_native = is_native
    inexact = torch.full((32, 8), 0.1)
    monkeypatch.setattr(source, "read", lambda name, shape: torch.full(shape, 0.5))
    exact = source.linear("x", 17, 8)
    vocoder = source.vocoder_linear(inexact, inexact[:, 0])
    if not (is_native and has_kernel):
        assert type(exact) is type(vocoder) is Linear
        return
    assert isinstance(exact, NativeLinear)
    assert isinstance(vocoder, NativeLinear)
    assert (exact.weight.dtype, vocoder.weight.dtype) == (torch.half, torch.float32)
    monkeypatch.setattr(source, "read", lambda name, shape: torch.full(shape, 0.1))
    assert type(source.linear("x", 17, 8)) is Linear


def test_without_threads_there_is_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_product, "parallel", lambda: None)
    assert not native_product.is_available()
