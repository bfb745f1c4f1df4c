"""Compiled kernels: as their torch references, to the bit the same for any cut, absent in peace."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from cases import CASES, MINI
from helpers import Models, random
from replay import Replay, replay
from torch import Tensor

from voxcli.engine.native.device import resolve_device
from voxcli.kernels import native, structs
from voxcli.kernels import native_vocoder as kernels
from voxcli.kernels.native_product import Panels
from voxcli.kernels.structs import LANES
from voxcli.layers import cores
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.native import NativeDecoder, supports_vocoder
from voxcli.models.voxcpm2.vae import Decoder

SIZES = [(1, 1, 1), (2, 3, 5), (1, 40, 18), (3, 7, 36), (2, 33, 100), (1, 2, 288), (2, 5, 301)]
NUM_SLOTS = 4

pytestmark = pytest.mark.usefixtures("compiled_kernels", "inference_mode")


def some_slots(B: int) -> Tensor:
    return torch.arange(NUM_SLOTS).flip(0)[:B].contiguous()


def buffers(*sizes: int) -> list[Tensor]:
    """Scratch and output as they are after another call: full of what must not matter."""
    return [torch.full((size,), torch.nan) for size in sizes]


def depthwise(x: Tensor, snake: Tensor | None, taps: Tensor, d: int, *state: Tensor) -> Tensor:
    rows, length, C = x.shape
    scratch, out = buffers((6 * d + length) * C, rows * length * C)
    return kernels.depthwise(x, snake, taps, d, *state, scratch, out)


@pytest.mark.parametrize("has_snake", [True, False])
@pytest.mark.parametrize("dilation", [1, 3, 9])
@pytest.mark.parametrize(("B", "T", "C"), SIZES)
def test_depthwise_is_its_reference(B: int, T: int, C: int, dilation: int, has_snake: bool) -> None:
    x, slots = 3 * random(B, T, C), some_slots(B)
    snake = kernels.table(random(2, C, seed=1)) if has_snake else None
    taps = kernels.filter_table(random(7, C, seed=2), random(C, seed=4))
    contexts = random(NUM_SLOTS, 6 * dilation, C, seed=3)
    expected_contexts = contexts.clone()
    expected = kernels.depthwise_reference(x, snake, taps, dilation, expected_contexts, slots)
    found = depthwise(x, snake, taps, dilation, contexts, slots)
    # fp32 sums of seven products in another order, of size up to 30
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(contexts, expected_contexts, atol=2e-6, rtol=1e-6)


@pytest.mark.instructions("AVX2", "AVX512")
@pytest.mark.parametrize("dilation", [1, 9])
@pytest.mark.parametrize(("B", "T", "C"), [*SIZES, (2, 700, 18)])
def test_a_residual_unit_is_its_reference(B: int, T: int, C: int, dilation: int) -> None:
    x, slots = 3 * random(B, T, C), some_slots(B)
    snake = kernels.table(random(2, C, seed=1))
    taps = kernels.filter_table(random(7, C, seed=2), random(C, seed=4))
    weight, bias = random(C, C, seed=5) / C**0.5, random(C, seed=6)
    contexts = random(NUM_SLOTS, 6 * dilation, C, seed=3)
    expected_contexts, parts_contexts = contexts.clone(), contexts.clone()
    expected = kernels.unit_reference(
        x, snake, taps, dilation, weight, bias, expected_contexts, slots
    )
    unit = kernels.Unit(snake, taps, dilation, Panels.of(weight, bias, torch.float32))
    units = kernels.Units([unit])
    parts = [
        units(part.clone(memory_format=torch.contiguous_format), [parts_contexts], slots)
        for part in x.split([T // 3, T - T // 3], dim=1)
        if part.shape[1]
    ]
    found = units(x.clone(), [contexts], slots)
    torch.testing.assert_close(found, expected, atol=5e-5, rtol=1e-5)
    torch.testing.assert_close(contexts, expected_contexts, atol=2e-6, rtol=1e-6)
    assert torch.equal(torch.cat(parts, dim=1), found), "the same bits for any cut"


@pytest.mark.parametrize(("B", "T", "C"), SIZES)
def test_pairs_are_their_reference(B: int, T: int, C: int) -> None:
    x, slots, contexts = random(B, T, C), some_slots(B), random(NUM_SLOTS, 1, C, seed=1)
    snake = kernels.table(random(2, C, seed=2))
    expected_contexts = contexts.clone()
    expected = kernels.pairs_reference(x, snake, expected_contexts, slots)
    scratch, out = buffers(snake.shape[1], 2 * x.numel())
    found = kernels.pairs(x, snake, contexts, slots, scratch, out)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-6)
    torch.testing.assert_close(contexts, expected_contexts, atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize(("B", "T", "C"), SIZES)
def test_the_last_convolution_is_its_reference(B: int, T: int, C: int) -> None:
    x, slots, contexts = random(B, T, C), some_slots(B), random(NUM_SLOTS, 6, C, seed=1)
    snake = kernels.table(random(2, C, seed=2))
    taps = torch.nn.functional.pad(random(7 * C, seed=3), (0, -7 * C % LANES)) / C
    expected_contexts = contexts.clone()
    expected = kernels.last_reference(x, snake, taps, 0.1, expected_contexts, slots)
    (scratch,) = buffers((6 + T) * C + LANES)
    found = kernels.last(x, snake, taps, 0.1, contexts, slots, scratch)
    torch.testing.assert_close(found, expected, atol=5e-6, rtol=0)
    torch.testing.assert_close(contexts, expected_contexts, atol=2e-6, rtol=1e-6)


def snake(u: Tensor) -> Tensor:
    """`u + sin(u)^2` of a few numbers, by the kernel."""
    table = torch.tensor([[1.0], [0.0]]).expand(2, len(u)).contiguous()
    scratch, out = buffers(len(u), 2 * len(u))
    context = torch.zeros(1, 1, len(u))
    slots = torch.zeros(1, dtype=torch.int64)
    return kernels.pairs(u.view(1, 1, -1), table, context, slots, scratch, out)[0, 0, len(u) :]


@pytest.mark.parametrize("limit", [2.0, 30.0, 1e3, 5e4])
def test_snake_is_within_its_bound_of_double_precision(limit: float) -> None:
    u = limit * (2 * torch.rand(200_000, generator=torch.Generator().manual_seed(0)) - 1)
    exact = u.double() + torch.sin(u.double()).square()
    error = (snake(u).double() - exact).abs()
    rounding = 2.0**-24 * exact.abs()  # of the sum itself: half a step of its result
    assert float((error - rounding).max()) < 2e-7


def test_snake_is_finite_exactly_where_its_argument_is() -> None:
    bits = torch.randint(-(2**31), 2**31, (200_000,), generator=torch.Generator().manual_seed(0))
    u = bits.to(torch.int32).view(torch.float32)
    extremes = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38, -3.4e38, 0.0, 1e-45])
    u = torch.cat((u, extremes))
    found = snake(u)
    assert torch.equal(found.isfinite(), u.isfinite())
    assert found[~u.isfinite()].isnan().all(), "infinity must not pass as a number"


@pytest.mark.instructions("AVX2", "AVX512")
@pytest.mark.parametrize(("B", "T", "C"), [(1, 1, 18), (1, 20, 48), (2, 700, 18), (3, 40, 100)])
def test_threads_do_not_show_in_residual_units(
    monkeypatch: pytest.MonkeyPatch, B: int, T: int, C: int
) -> None:
    parts = [
        kernels.Unit(
            kernels.table(random(2, C, seed=1)),
            kernels.filter_table(random(7, C, seed=2), random(C, seed=4)),
            dilation,
            Panels.of(random(C, C, seed=5) / C**0.5, random(C, seed=6), torch.float32),
        )
        for dilation in (1, 3, 9)
    ]
    units, slots, x = kernels.Units(parts), some_slots(B), random(B, T, C)
    monkeypatch.setattr(structs, "MIN_THREADED", 0)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(cores, "num_threads", lambda own=threads: own)
        contexts = [random(NUM_SLOTS, 6 * part.dilation, C, seed=3) for part in parts]
        samples = [units(x.clone(), contexts, slots) for _ in range(2)]
        found.append(torch.cat([each.flatten() for each in (*samples, *contexts)]))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_row_has_the_same_bits_alone_in_a_batch_and_in_parts() -> None:
    C, dilation = 18, 3
    x, taps = random(3, 50, C), kernels.filter_table(random(7, C, seed=1), random(C, seed=4))
    tables = kernels.table(random(2, C, seed=2))
    whole = depthwise(
        x, tables, taps, dilation, torch.zeros(NUM_SLOTS, 18, C), torch.tensor([2, 0, 1])
    ).clone()
    for cuts in ([50], [1, 49], [7, 13, 30]):
        contexts, slots = torch.zeros(NUM_SLOTS, 18, C), torch.tensor([3])
        parts = [
            depthwise(part.contiguous(), tables, taps, dilation, contexts, slots).clone()
            for part in x[1:2].split(cuts, dim=1)
        ]
        assert torch.equal(torch.cat(parts, dim=1), whole[1:2])


def plain(decoder: Decoder) -> Decoder:
    return Decoder(
        decoder.config, decoder.first, decoder.expand, decoder.blocks, decoder.last_scale,
        decoder.last, decoder.last_bias,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["mini", "tiny", "tiny_mean"])
def test_the_decoder_is_the_plain_one(models: Models, name: str) -> None:
    decoder = models(name).decoder
    assert type(decoder) is NativeDecoder
    reference = plain(decoder)
    state, expected_state = decoder.new_state(3), reference.new_state(3)
    latents = random(2, 12, decoder.config.latent_dim)
    for part, slots in zip(
        latents.split([4, 1, 7], dim=1), (torch.tensor([2, 0]),) * 3, strict=True
    ):
        found = decoder(part, state, slots)
        torch.testing.assert_close(found, reference(part, expected_state, slots), atol=1e-5, rtol=0)
    one = slice(1, 2)
    found = decoder(latents[:1], state, one)
    torch.testing.assert_close(
        found, reference(latents[:1], expected_state, one), atol=1e-5, rtol=0
    )
    for context, wanted in zip(state.contexts, expected_state.contexts, strict=True):
        # what is kept is up to a hundred in size, and rounded where it is made
        torch.testing.assert_close(context, wanted, atol=1e-4, rtol=1e-5)


@pytest.mark.instructions("AVX512")
def test_a_voice_speaks_the_same_bits_with_both_widths_of_vectors() -> None:
    case = CASES["mini"][4]

    def speak() -> Replay:
        return replay(load(MINI, torch.device("cpu"), torch.float32), case)

    wide = speak()
    assert native.choose(native.loaded(), "AVX2") == "AVX2"
    narrow = speak()
    assert np.array_equal(wide.patches, narrow.patches)
    assert np.array_equal(wide.logits, narrow.logits)
    assert np.array_equal(wide.samples, narrow.samples)


def test_without_them_the_plain_decoder_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = load(MINI, torch.device("cpu"), torch.float32, is_native=False).decoder
    assert type(decoder) is Decoder
    assert supports_vocoder(decoder)
    monkeypatch.setattr("voxcli.models.voxcpm2.native.load", lambda: None)
    assert not supports_vocoder(decoder)


def test_a_folder_without_the_compiled_file_says_so(tmp_path: Path) -> None:
    found = native.find(tmp_path)
    assert (found.library, found.is_broken) == (None, False)
    assert "not compiled" in found.detail


def compiled_file() -> Path:
    return next(path for path in native.HERE.glob("_native.*"))


def test_what_was_compiled_from_another_source_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(compiled_file(), tmp_path)
    for source in native.HERE.glob("native*.[ch]"):
        shutil.copy(source, tmp_path)
    assert native.find(tmp_path).library is not None
    (tmp_path / "native.h").write_bytes((tmp_path / "native.h").read_bytes() + b"\n")
    found = native.find(tmp_path)
    assert (found.library, found.is_broken) == (None, True)
    monkeypatch.setattr(native, "find", lambda: found)
    assert "install voxcli again to compile its kernels" in (resolve_device("cpu").warning or "")
    with caplog.at_level(logging.INFO):
        assert native.load.__wrapped__() is None
    assert "another version" in caplog.text


def test_a_file_that_is_no_library_is_not_used(tmp_path: Path) -> None:
    (tmp_path / compiled_file().name).write_bytes(b"no library")
    (tmp_path / "native.c").write_bytes(b"")
    assert "cannot be used" in native.find(tmp_path).detail


@pytest.mark.parametrize("share", [0.0, 0.0003, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("keeps_size", [True, False])
def test_a_file_that_was_cut_short_is_not_loaded(
    tmp_path: Path, share: float, keeps_size: bool
) -> None:
    """As on a full disk, which may leave zeros. To load it would end Python with a bus error."""
    whole = compiled_file().read_bytes()
    kept = whole[: int(len(whole) * share)]
    damaged = tmp_path / compiled_file().name
    damaged.write_bytes(kept + bytes(len(whole) - len(kept)) * keeps_size)
    found = native.find(tmp_path)
    assert (found.library, found.is_broken) == (None, True)
    assert damaged.name in found.detail
