"""Every kernel against the torch code beside it, over odd sizes.

bf16 results are compared with the reference in float64 by relative norm: one bf16 rounding is
2**-9, and a few follow each other. `TRITON_INTERPRET=1 KERNEL_DEVICE=cpu` runs this without a card,
in fp16, because Triton's interpreter has no bf16 products.
"""

from __future__ import annotations

import os
from itertools import pairwise

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")
DEVICE = torch.device(os.environ.get("KERNEL_DEVICE", "cuda"))
if DEVICE.type == "cuda" and not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from voxcli.kernels import attention, codes, linear, noise, product, solver, vocoder  # noqa: E402
from voxcli.kernels import patch_attention as patch  # noqa: E402
from voxcli.layers.rope import rotations  # noqa: E402

pytestmark = pytest.mark.gpu
BF16_ERROR = 8e-3
FP32_ERROR = 2e-6
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
DTYPES = [torch.float32, HALF]


def error(out: Tensor, reference: Tensor) -> float:
    assert out.shape == reference.shape, (out.shape, reference.shape)
    assert out.isfinite().all()
    reference = reference.double()
    return float((out.double() - reference).norm() / reference.norm())


def bound(dtype: torch.dtype) -> float:
    return FP32_ERROR if dtype is torch.float32 else BF16_ERROR


def normal(*shape: int, dtype: torch.dtype = HALF, scale: float = 1.0) -> Tensor:
    return (scale * torch.randn(shape, device=DEVICE)).to(dtype)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(torch.seed() if os.environ.get("FRESH") else 0)


SIZES = [
    (1, 64, 96),
    (1, 100, 6144),
    (1, 40, 1024),
    (5, 100, 384),
    (8, 130, 4096),
    (22, 256, 1024),
    (64, 40, 128),
    (70, 96, 256),
]


@pytest.mark.parametrize(("M", "N", "K"), SIZES)
def test_rms_linear(M: int, N: int, K: int) -> None:
    x, norm, weight, bias = normal(M, K), normal(K), normal(N, K, scale=K**-0.5), normal(N)
    for shift in (None, bias):
        out = linear.rms_linear(x, norm, 1e-5, weight, shift)
        wide = [None if part is None else part.double() for part in (x, norm, weight, shift)]
        reference = linear.rms_linear_reference(wide[0], wide[1], 1e-5, wide[2], wide[3])
        assert error(out, reference) < BF16_ERROR


@pytest.mark.parametrize(("M", "N", "K"), SIZES)
def test_linear_add(M: int, N: int, K: int) -> None:
    x, weight, residual = normal(M, K), normal(N, K, scale=K**-0.5), normal(M, N)
    reference = linear.linear_add_reference(x.double(), weight.double(), residual.double())
    out = linear.linear_add(x, weight, residual)
    assert error(out, reference) < BF16_ERROR


@pytest.mark.parametrize(("M", "N", "K"), [*SIZES[3:], (70, 40, 2048), (140, 96, 4096)])
def test_linear_add_norm(M: int, N: int, K: int) -> None:
    x, weight, norm = normal(M, K), normal(N, K, scale=K**-0.5), normal(N)
    residual = normal(M, N)
    wide = [part.double() for part in (x, weight, residual, norm)]
    expected = linear.linear_add_norm_reference(*wide, 1e-5)
    before = residual.clone()
    for keep in (True, False):
        found = linear.linear_add_norm(x, weight, residual, norm, 1e-5, keep=keep)
        for part, reference in zip(found, expected, strict=True):
            assert error(part, reference) < BF16_ERROR
        assert not keep or torch.equal(residual, before)


@pytest.mark.parametrize(("M", "N", "K"), SIZES)
def test_rms_swiglu(M: int, N: int, K: int) -> None:
    x, norm, weight = normal(M, K), normal(K), normal(2 * N, K, scale=K**-0.5)
    out = linear.rms_swiglu(x, norm, 1e-5, weight)
    reference = linear.rms_swiglu_reference(x.double(), norm.double(), 1e-5, weight.double())
    assert error(out, reference) < BF16_ERROR


@pytest.mark.parametrize("positions", [[0], [3, 127, 128], [5, 300, 299, 0, 255]])
@pytest.mark.parametrize(("H", "G", "C"), [(16, 2, 128), (6, 2, 64), (2, 2, 32)])
@pytest.mark.parametrize("has_rope", [True, False])
def test_decode_attention(positions: list[int], H: int, G: int, C: int, has_rope: bool) -> None:
    B, num_slots, N = len(positions), 7, 301
    rotation = rotations(N, C, theta=1e4, factors=[1.0] * (C // 2), device=DEVICE)
    turn = rotation if has_rope else None
    keys, values = normal(num_slots, G, N, C), normal(num_slots, G, N, C)
    slots = torch.randperm(num_slots, device=DEVICE)[:B]
    places = torch.tensor(positions, device=DEVICE)
    for row in range(B):  # what a former request left there must not matter
        values[slots[row], :, positions[row] + 1 :] = torch.nan
        keys[slots[row], :, positions[row] + 1 :] = torch.nan
    qkv = normal(B, (H + 2 * G) * C)
    scratch = attention.Scratch(num_slots, N, G, H // G, C, DEVICE)
    expected_keys, expected_values = keys.clone(), values.clone()
    reference = attention.decode_attention_reference(
        qkv, turn, expected_keys, expected_values, slots, places, H, C**-0.5
    )
    for _ in range(2):  # the counters must be ready for the next call
        out = attention.decode_attention(
            qkv, turn, keys, values, slots, places, H, C**-0.5, scratch
        )
        assert error(out, reference) < BF16_ERROR
    torch.testing.assert_close(keys, expected_keys, equal_nan=True, atol=2e-2, rtol=1e-2)
    torch.testing.assert_close(values, expected_values, equal_nan=True, atol=0, rtol=0)


@pytest.mark.parametrize(("N", "chunk"), [(301, 256), (16, 16)])
@pytest.mark.parametrize(("H", "G", "C"), [(16, 8, 128), (6, 2, 64)])
def test_decode_attention_of_normalised_heads(N: int, chunk: int, H: int, G: int, C: int) -> None:
    B, eps = 3, 1e-6
    rotation = rotations(N, C, theta=1e4, factors=[1.0] * (C // 2), device=DEVICE)
    keys, values = normal(B, G, N, C), normal(B, G, N, C)
    slots, places = (torch.tensor(each, device=DEVICE) for each in ([2, 0, 1], [0, N - 1, 9]))
    qkv, head_norm = normal(B, (H + 2 * G) * C, scale=4.0), 1 + normal(H + G, C, scale=0.3)
    scratch = attention.Scratch(B, N, G, H // G, C, DEVICE, chunk)
    expected = [part.float() for part in (keys, values)]
    reference = attention.decode_attention_reference(
        qkv.float(), rotation, *expected, slots, places, H, C**-0.5, head_norm.float(), eps
    )
    out = attention.decode_attention(
        qkv, rotation, keys, values, slots, places, H, C**-0.5, scratch, head_norm, eps
    )
    assert error(out, reference) < BF16_ERROR
    assert error(keys, expected[0]) < BF16_ERROR
    assert torch.equal(values.float(), expected[1])


@pytest.mark.parametrize(("B", "T", "first"), [(2, 11, 0), (3, 11, 7), (1, 5, 0), (2, 16, 1)])
@pytest.mark.parametrize(("H", "G", "C"), [(16, 2, 128), (6, 2, 64)])
def test_local_attention(B: int, T: int, first: int, H: int, G: int, C: int) -> None:
    rotation = rotations(T, C, theta=1e4, factors=[1.0] * (C // 2), device=DEVICE)
    qkv = normal(B, T, (H + 2 * G) * C)
    out = patch.local_attention(qkv, rotation, H, G, first, C**-0.5)
    reference = patch.local_attention_reference(qkv.float(), rotation, H, G, first, C**-0.5)
    assert error(out, reference) < BF16_ERROR


def test_local_attention_with_shared_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch, "sharing", lambda num_rows, group: (group, 4))
    test_local_attention(3, 11, 7, 16, 2, 128)
    test_local_attention(2, 5, 0, 8, 2, 32)


def packed(*spans: tuple[int, int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Slots, positions and tiles of spans, each with its slot, first position and length."""
    slots = [slot for slot, _, length in spans for _ in range(length)]
    positions = [start + n for _, start, length in spans for n in range(length)]
    tiles, first = [[0, 0]], 0
    for _, _, length in spans:
        cuts = [*range(0, length, attention.PROMPT_TILE), length]
        tiles += [[first + a, first + b] for a, b in pairwise(cuts)]
        first += length
    tiles.append([0, 0])
    return tuple(torch.tensor(each, device=DEVICE) for each in (slots, positions, tiles))


SPANS = [
    [(4, 0, 5)],
    [(4, 0, 70), (0, 141, 70), (2, 64, 70)],
    [(1, 0, 1), (3, 63, 2), (0, 300, 100), (2, 0, 65)],
    [(2, 10, 64), (2, 74, 30), (1, 0, 33)],  # the second sees the first
]


@pytest.mark.parametrize("spans", SPANS)
@pytest.mark.parametrize(("H", "G", "C"), [(16, 2, 128), (6, 2, 64)])
@pytest.mark.parametrize("has_rope", [True, False])
def test_prompt_attention(
    spans: list[tuple[int, int, int]], H: int, G: int, C: int, has_rope: bool
) -> None:
    N = 400
    rotation = rotations(N, C, theta=1e4, factors=[1.0] * (C // 2), device=DEVICE)
    turn = rotation if has_rope else None
    keys, values = normal(5, G, N, C), normal(5, G, N, C)
    slots, positions, tiles = packed(*spans)
    for slot in range(5):  # what a former request left there must not matter
        first = min((start for row, start, _ in spans if row == slot), default=0)
        keys[slot, :, first:] = torch.nan
        values[slot, :, first:] = torch.nan
    qkv = normal(len(slots), (H + 2 * G) * C)
    expected = [part.float() for part in (keys, values)]
    given = slots, positions
    reference = attention.prompt_attention_reference(
        qkv.float(), turn, *expected, *given, H, C**-0.5
    )
    out = attention.prompt_attention(qkv, turn, keys, values, *given, tiles, H, C**-0.5)
    assert error(out, reference) < BF16_ERROR
    for found, cached in zip((keys, values), expected, strict=True):
        torch.testing.assert_close(found.float(), cached, equal_nan=True, atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize(
    ("spans", "N"),
    [([(0, 0, 70), (2, 0, 70), (1, 0, 9)], 100), ([(row, 0, 2) for row in range(5)], 16)],
)
@pytest.mark.parametrize("has_rope", [True, False])
def test_prompt_attention_of_normalised_heads(
    spans: list[tuple[int, int, int]], N: int, has_rope: bool
) -> None:
    H, G, C, eps = 6, 2, 64, 1e-6
    rotation = rotations(N, C, theta=1e4, factors=[1.0] * (C // 2), device=DEVICE)
    turn = rotation if has_rope else None
    keys, values = normal(5, G, N, C), normal(5, G, N, C)
    slots, positions, tiles = packed(*spans)
    qkv = normal(len(slots), (H + 2 * G) * C, scale=4.0)
    head_norm = 1 + normal(H + G, C, scale=0.3)
    expected = [part.float() for part in (keys, values)]
    reference = attention.prompt_attention_reference(
        qkv.float(), turn, *expected, slots, positions, H, C**-0.5, head_norm.float(), eps
    )
    out = attention.prompt_attention(
        qkv, turn, keys, values, slots, positions, tiles, H, C**-0.5, head_norm, eps
    )
    assert error(out, reference) < BF16_ERROR
    assert error(keys, expected[0]) < BF16_ERROR


def test_prompt_attention_keeps_what_is_not_its_own() -> None:
    H, G, C, N = 16, 2, 128, 100
    keys, values = normal(3, G, N, C), normal(3, G, N, C)
    before = [part.clone() for part in (keys, values)]
    slots, positions, tiles = packed((1, 80, 20))
    attention.prompt_attention(
        normal(20, (H + 2 * G) * C), None, keys, values, slots, positions, tiles, H, C**-0.5
    )
    for found, old in zip((keys, values), before, strict=True):
        assert torch.equal(found[[0, 2]], old[[0, 2]])
        assert torch.equal(found[1, :, :80], old[1, :, :80])
        assert not torch.equal(found[1, :, 80:], old[1, :, 80:])


@pytest.mark.parametrize("halves", [1, 2])
@pytest.mark.parametrize(("B", "P", "D", "W"), [(1, 4, 64, 1024), (3, 4, 32, 384), (2, 3, 8, 96)])
def test_write_tokens(halves: int, B: int, P: int, D: int, W: int) -> None:
    x, weight, bias, time = (
        normal(B, P, D, dtype=torch.float32), normal(W, D, scale=D**-0.5), normal(W), normal(W)
    )  # fmt: skip
    tokens = normal(halves * B, 3 + 2 * P, W)
    expected = tokens.clone()
    solver.write_tokens(tokens, x, weight, bias, time)
    solver.write_tokens_reference(expected, x, weight, bias, time)
    assert torch.equal(tokens[:, : 3 + P], expected[:, : 3 + P])
    assert error(tokens, expected) < BF16_ERROR


@pytest.mark.parametrize("is_guided", [False, True])
def test_euler_step(is_guided: bool) -> None:
    B = 3
    x = normal(B, 3, 10, dtype=torch.float32)
    velocity = normal(2 * B if is_guided else B, 3, 10)
    cfg = torch.tensor([1.0, 2.0, 3.5], device=DEVICE) if is_guided else None
    expected = x.clone()
    solver.euler_step(x, velocity, cfg, 0.125)
    solver.euler_step_reference(expected, velocity, cfg, 0.125)
    assert error(x, expected) < FP32_ERROR


def test_noise_is_the_same_as_in_plain_torch() -> None:
    seeds = torch.tensor([0, 1, 2**63 - 1, 0x1234_5678_9ABC_DEF0], device=DEVICE)
    steps = torch.tensor([0, 7, 2**32 - 1, 100], device=DEVICE)
    out = noise.normal(seeds, steps, 256)
    reference = noise.normal_reference(seeds.cpu(), steps.cpu(), 256).to(DEVICE)
    torch.testing.assert_close(out, reference, atol=3e-6, rtol=1e-5)


def draws(B: int, *, is_greedy: bool) -> codes.Draws:
    """Rows of all kinds: with and without each filter, and one that nobody has."""
    floats = {
        "temperature": [0.9, 0.3, 1.5, 1.0, 0.05, 2.0, 0.0],
        "top_p": [1.0, 0.9, 0.3, 0.05, 0.999, 0.5, 0.0],
    }
    return codes.Draws(
        seeds=torch.tensor([3, 2**62 + 5, 0, 77, 9, 10, 0], device=DEVICE)[:B],
        steps=torch.tensor([0, 1, 2, 3, 100, 7, 0], device=DEVICE)[:B],
        top_k=torch.tensor([50, 1, 3000, 7, 64, 40, 0], device=DEVICE)[:B],
        is_greedy=is_greedy,
        **{name: torch.tensor(values, device=DEVICE)[:B] for name, values in floats.items()},
    )


@pytest.mark.parametrize("is_greedy", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("V", "D", "book"), [(2048, 96, 3), (200, 64, 15)])
def test_draw(V: int, D: int, book: int, dtype: torch.dtype, is_greedy: bool) -> None:
    B = 7
    how = draws(B, is_greedy=is_greedy)
    table = normal(V, D)
    scores = (3 * torch.randn(B, V, device=DEVICE)).to(dtype)
    scores[:, ::9] = scores[:, :1]  # ties
    found, expected = (torch.zeros(B, 16, dtype=torch.int64, device=DEVICE) for _ in range(2))
    heard, expected_heard = (torch.zeros(B, 2, D, dtype=HALF, device=DEVICE) for _ in range(2))
    codes.draw(scores, how, book, found, table, heard[:, 1])
    codes.draw_reference(scores, how, book, expected, table, expected_heard[:, 1], None)
    assert torch.equal(found, expected)
    assert torch.equal(heard, expected_heard)


@pytest.mark.parametrize("is_greedy", [False, True])
def test_draw_with_a_history(is_greedy: bool) -> None:
    B, C = 7, 3072
    how = draws(B, is_greedy=is_greedy)
    kinds = torch.full((C,), codes.ALWAYS, dtype=torch.int8, device=DEVICE)
    kinds[2048:] = codes.NEVER
    kinds[2150] = codes.END
    scores = 3 * torch.randn(B, C, device=DEVICE).to(HALF)
    scores[:, 2100] = 50.0
    scores[2:5, 2150] = scores[0, 2150] = 40.0
    seen = torch.rand(9, C, device=DEVICE) < 0.5
    penalty = torch.tensor([1.05, 1.0, 2.0, 1.3, 1.05, 1.5, 0.0], device=DEVICE)
    results = []
    for run in (codes.draw, codes.draw_reference):
        history = codes.History(
            torch.tensor([8, 1, 5, 0, 2, 3, 4], device=DEVICE), seen, penalty, kinds, 2,
            torch.zeros(B, dtype=torch.bool, device=DEVICE),
        )  # fmt: skip
        frames = torch.full((B, 16), -1, device=DEVICE)
        run(scores, how, 0, frames, None, None, history)
        results.append((frames, history.ends))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert results[0][1].tolist() == [False, False, True, True, True, False, False]


def test_hear() -> None:
    B, K, V, T = 3, 16, 40, 600
    frames = torch.randint(0, V, (B, K), device=DEVICE)
    table, texts = normal(K * V + 9, T), normal(11, T)
    text_ids, slots = (torch.tensor(each, device=DEVICE) for each in ([0, 10, 4], [3, 0, 2]))
    seen = [torch.zeros(5, V + 9, dtype=torch.bool, device=DEVICE) for _ in range(2)]
    out = codes.hear(frames, table, texts, text_ids, V, seen[0], slots)
    expected = codes.hear_reference(
        frames, table.float(), texts.float(), text_ids, V, seen[1], slots
    )
    assert error(out, expected) < BF16_ERROR
    assert torch.equal(*seen)
    assert seen[0].sum() == B


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("T", "C", "dilation"), [(4, 64, 1), (32, 100, 9), (200, 32, 3)])
def test_pad_then_depthwise(dtype: torch.dtype, T: int, C: int, dilation: int) -> None:
    B, J = 2, 6 * dilation
    x, context = normal(B, T, C, dtype=dtype), normal(4, J, C, dtype=dtype)
    scale, shift, bias = (normal(C, dtype=torch.float32) for _ in range(3))
    weight = normal(7, C, dtype=torch.float32)
    slots = torch.tensor([3, 1], device=DEVICE)
    expected_context = context.clone()
    for given in ((scale, shift), (scale, None), (None, None)):
        padded = vocoder.pad(x, *given, context, slots)
        expected = vocoder.pad_reference(x, *given, expected_context, slots)
        assert error(padded, expected) < bound(dtype)
        for is_snake in (True, False):
            out = vocoder.depthwise(
                padded, weight, bias, dilation, context, slots, is_snake=is_snake
            )
            reference = vocoder.depthwise_reference(
                padded, weight, bias, dilation, expected_context, slots, is_snake=is_snake
            )
            assert error(out, reference) < bound(dtype)
            assert torch.equal(context, expected_context)


@pytest.mark.parametrize(("T", "C", "J"), [(4, 256, 18), (150, 16, 1), (70, 64, 54)])
def test_product_then_pad(T: int, C: int, J: int) -> None:
    B, half = 2, torch.float16
    context = normal(4, J, C, dtype=half)
    scale, shift = normal(C, dtype=torch.float32), normal(C, dtype=torch.float32)
    slots = torch.tensor([3, 1], device=DEVICE)
    x = normal(B, T, C, dtype=half)
    source = normal(B, T + 1, 2 * C, dtype=half)
    pairs = source.as_strided((B, T, 4 * C), ((T + 1) * 2 * C, 2 * C, 1))  # rows overlap
    upsample = normal(3 * C, 4 * C, dtype=half, scale=(4 * C) ** -0.5)
    weight, bias = normal(C, C, dtype=half, scale=C**-0.5), normal(3 * C, dtype=half)
    for given in ((pairs, upsample, bias, None), (normal(B, T, C, dtype=half), weight, None, x)):
        plain = [None if part is None else part.clone() for part in given[1:]]
        expected = product.product_pad_reference(given[0], *plain, scale, shift, context, slots)
        found = product.product_pad(*given, scale, shift, context, slots)
        for part, reference in zip(found, expected, strict=True):
            assert error(part, reference) < 4e-3


@pytest.mark.parametrize(("T", "C", "stride"), [(4, 256, 2), (150, 16, 3), (70, 64, 1)])
def test_product_for_one_reader_and_its_own_context(T: int, C: int, stride: int) -> None:
    B, half = 2, torch.float16
    source, own = normal(B, T + 1, 2 * C, dtype=half), normal(4, 1, 2 * C, dtype=half)
    pairs = source.as_strided((B, T, 4 * C), ((T + 1) * 2 * C, 2 * C, 1))
    weight = normal(stride * C, 4 * C, dtype=half, scale=(4 * C) ** -0.5)
    context, slots = normal(4, 6, C, dtype=half), torch.tensor([3, 1], device=DEVICE)
    snake = normal(C, dtype=torch.float32), normal(C, dtype=torch.float32)
    expected = product.product_pad_reference(pairs, weight, None, None, *snake, context, slots)
    kept = own.clone()
    kept[slots] = source[:, -1:]
    contexts = own.clone(), own.clone()
    alone = product.product(pairs, weight, None, None, C, slots, contexts[0])
    _, padded = product.product_pad(
        pairs, weight, None, None, *snake, context, slots, own_context=contexts[1], is_kept=False
    )
    for part, reference in zip((alone, padded), expected, strict=True):
        assert error(part, reference) < 4e-3
    for found in contexts:
        assert torch.equal(found, kept)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("T", "C"), [(3, 18), (333, 32)])
def test_last_convolution(dtype: torch.dtype, T: int, C: int) -> None:
    padded, context = normal(2, 6 + T, C, dtype=dtype), normal(3, 6, C, dtype=dtype)
    weight, bias = normal(7, C, dtype=torch.float32, scale=0.1), normal(1, dtype=torch.float32)
    slots = torch.tensor([0, 2], device=DEVICE)
    expected_context = context.float()
    out = vocoder.last(padded, weight, bias, context, slots)
    reference = vocoder.last_reference(padded, weight, bias, expected_context, slots)
    assert error(out, reference) < 1e-5
    assert torch.equal(context.float(), expected_context)
