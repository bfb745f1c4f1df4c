"""Residual units in one kernel against the torch code beside them, and the decoder over them.

`TRITON_INTERPRET=1 KERNEL_DEVICE=cpu` runs what needs no card: the decoder over the references.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")
DEVICE = torch.device(os.environ.get("KERNEL_DEVICE", "cuda"))
if DEVICE.type == "cuda" and not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from voxcli.kernels import capability, residual_unit  # noqa: E402
from voxcli.kernels.residual_unit import FILTER, UNITS  # noqa: E402
from voxcli.layers.linear import Layout  # noqa: E402
from voxcli.models.voxcpm2.config import VoxCPM2Config  # noqa: E402
from voxcli.models.voxcpm2.fused import FusedDecoder  # noqa: E402
from voxcli.models.voxcpm2.sources import RandomSource  # noqa: E402
from voxcli.models.voxcpm2.vae import Decoder  # noqa: E402
from voxcli.models.voxcpm2.vae_weights import load_decoder  # noqa: E402

pytestmark = pytest.mark.gpu
on_card = pytest.mark.skipif(
    capability(DEVICE) != residual_unit.CAPABILITY, reason="needs compute capability 9.0"
)
MINI = Path(__file__).parents[2] / "voxcli" / "assets" / "mini"
SLOTS = 70


def normal(*shape: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, device=DEVICE)


def given(B: int, T: int, C: int, dilation: int, next_length: int | None) -> dict[str, Any]:
    torch.manual_seed(B + T + C + dilation)
    reader = None
    if next_length is not None:
        reader = normal(C), normal(C), normal(SLOTS, next_length, C).half()
    return {
        "x": normal(B, T, C).half(), "scale": normal(C), "shift": normal(C),
        "taps": normal(7, C, scale=0.4), "bias": normal(C), "dilation": dilation,
        "context": normal(SLOTS, 6 * dilation, C).half(),
        "slots": torch.randperm(SLOTS, device=DEVICE)[:B],
        "weight": normal(C, C, scale=C**-0.5).half(), "reader": reader,
    }  # fmt: skip


def error(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def run(given: dict[str, Any], *, is_reference: bool = False) -> tuple[Tensor, Tensor]:
    """What a unit, or all but its product, gives, and the contexts after it."""
    given = {**given, "context": given["context"].clone()}
    name = "residual_unit" if len(given["scale"]) in UNITS else "filtered"
    if name == "filtered":
        del given["weight"], given["reader"]
    function = getattr(residual_unit, f"{name}_reference" if is_reference else name)
    return function(**given), given["context"]


SIZES = [(1024, 32), (512, 192), (256, 960), (128, 1920), (64, 3840), (32, 7680)]


@on_card
@pytest.mark.parametrize("B", [1, 8, 64])
@pytest.mark.parametrize(("C", "T"), SIZES)
@pytest.mark.parametrize(("dilation", "next_length"), [(1, None), (3, 1), (9, 6)])
def test_true_sizes(C: int, T: int, B: int, dilation: int, next_length: int | None) -> None:
    sizes = given(B, T, C, dilation, next_length)
    (found, context), (expected, new) = run(sizes), run(sizes, is_reference=True)
    assert error(found, expected) < 1e-3
    assert error(context, new) < 1e-3
    others = torch.ones(SLOTS, dtype=torch.bool, device=DEVICE)
    others[sizes["slots"]] = False
    assert torch.equal(context[others], sizes["context"][others])


@on_card
@pytest.mark.parametrize("C", [32, 64, 128, 192])
@pytest.mark.parametrize("T", [1, 4, 53, 54, 143, 145, 288, 333, 1000, 2000])
@pytest.mark.parametrize("dilation", [1, 3, 9])
def test_odd_lengths(C: int, T: int, dilation: int) -> None:
    sizes = given(3, T, C, dilation, 6 if T % 2 else None)
    (found, context), (expected, new) = run(sizes), run(sizes, is_reference=True)
    assert error(found, expected) < 1e-3
    assert error(context, new) < 1e-3


@on_card
@pytest.mark.parametrize("C", [32, 64, 128, 256])
def test_a_row_has_the_same_bits_however_it_is_cut(C: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = given(8, 1500, C, 9, 1)  # in 6 or 11 tiles
    found, context = run(sizes)
    alone = {**sizes, "x": sizes["x"][5:6], "slots": sizes["slots"][5:6]}
    least = residual_unit.num_blocks(1500, UNITS.get(C, FILTER))
    for more in (0, 1, 2):
        monkeypatch.setattr(residual_unit, "num_blocks", lambda *_, more=more: least + more)
        again, new = run(alone)
        assert torch.equal(again[0], found[5])
        assert torch.equal(new[alone["slots"]], context[alone["slots"]])


class QuietSource(RandomSource):
    """The CPU's random weights on any device, halved; a louder decoder saturates."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device, torch.float32)
        self._cpu = RandomSource(torch.device("cpu"), torch.float32)
        self.is_native = False

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        weight = self._cpu.read(name, shape)
        return weight / 2 if name.endswith("weight_g") else weight


def plain(source: QuietSource) -> Decoder:
    """With units that are one kernel, and with one where a product follows."""
    config = replace(VoxCPM2Config.load(MINI).vae, decoder_dim=512, decoder_rates=(3, 2, 2))
    made = load_decoder(source, config)
    return Decoder(
        made.config, made.first, made.expand, made.blocks, made.last_scale, made.last,
        made.last_bias,
    )  # fmt: skip


def stream(decoder: Decoder, latents: Tensor, *, has_units: bool) -> tuple[Tensor, list[Tensor]]:
    """Samples of two slots of three, and their contexts."""
    state = decoder.new_state(3)
    slots = torch.tensor([2, 0], device=DEVICE)
    pieces = []
    for start in range(0, latents.shape[1], 4):
        piece = latents[:, start : start + 4].to(DEVICE)
        pieces.append(decoder(piece, state, slots).cpu())
    assert has_units == (decoder.fused_blocks[0].kind(2, decoder.dtype) is not None)  # type: ignore[attr-defined]
    return torch.cat(pieces, dim=1), [context.cpu() for context in state.contexts]


@torch.inference_mode()
def test_decoder_streams_like_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxcli.layers.linear.best_layout", lambda weight: Layout.PLAIN)
    monkeypatch.setattr(residual_unit, "MIN_ROWS", 1)
    decoder = FusedDecoder(plain(QuietSource(DEVICE)), torch.float16)
    whole = plain(QuietSource(torch.device("cpu")))
    torch.manual_seed(0)
    latents = torch.randn(2, 12, whole.config.latent_dim)
    expected = whole(latents, whole.new_state(2), slice(0, 2))
    if capability(DEVICE) != residual_unit.CAPABILITY:  # the decoder over the references
        monkeypatch.setattr(
            residual_unit, "kind_for", lambda C, *_: UNITS.get(C) or (C % 64 == 0 and FILTER)
        )
        for name in ("residual_unit", "filtered"):
            monkeypatch.setattr(residual_unit, name, getattr(residual_unit, f"{name}_reference"))
    found, contexts = stream(decoder, latents, has_units=True)
    monkeypatch.setattr(residual_unit, "kind_for", lambda *_: None)
    separate, separate_contexts = stream(decoder, latents, has_units=False)
    assert expected.std() > 0.01
    for samples in (found, separate):
        noise = (samples - expected).square().mean()
        assert 10 * torch.log10(expected.square().mean() / noise) > 40
    for one, other in zip(contexts, separate_contexts, strict=True):
        assert error(one, other) < 2e-2
        assert torch.equal(one[1], torch.zeros_like(one[1]))
