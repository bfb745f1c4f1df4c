"""The kernel of one stream without a card: what it reads and how it is chosen.

`tests/gpu/test_persistent.py` runs it. Here its weights are read back in the order in which
`persistent.cu` reads them, block by block, and must give the patch of the plain LocDiT.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dits import random_dit
from torch import Tensor

from voxcli.kernels import cubin, persistent
from voxcli.kernels.persistent import BLOCKS, HALF, TEAM
from voxcli.models.voxcpm2.acoustic import LocalDiT, guide
from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.fused import FusedLocalDiT

CONFIG = VoxCPM2Config.from_dict(
    json.loads((Path(__file__).parent / "voxcpm2_config.json").read_text())
)
SIZES = (1024, 16, 2, 128, 4096, 4, 64)
CPU = torch.device("cpu")


def chunks(numbers: Tensor, num_features: int, num_chunks: int) -> tuple[Tensor, Tensor]:
    """The first chunks of a block's weights as `[features, K]`, and what lies behind them.

    The tensor cores read 8 inputs of every feature, then the next 8.
    """
    inputs = 128 if num_features == 64 else 256
    size = num_features * inputs
    parts = [
        numbers[i * size : (i + 1) * size].view(inputs // 8, num_features, 8)
        .transpose(0, 1).reshape(num_features, inputs)
        for i in range(num_chunks)
    ]  # fmt: skip
    return torch.cat(parts, 1), numbers[num_chunks * size :]


def scale(x: Tensor, eps: float) -> Tensor:
    return (x.square().mean(1, keepdim=True) + eps).rsqrt()


def rotated(heads: Tensor, turns: Tensor) -> Tensor:
    """`[rows, heads, 128]` with interleaved pairs."""
    pairs = torch.view_as_complex(heads.reshape(len(heads), -1, 64, 2))
    return torch.view_as_real(pairs * turns).flatten(2)


def run_layer(x: Tensor, packed: Tensor, turns: Tensor, eps: float) -> Tensor:
    """What the blocks do in a layer, over packed weights; `x [24, 1024]`."""
    rests, queries, others = [], [], []
    for block in range(BLOCKS):
        qkv, rest = chunks(packed[block], persistent.QKV_FEATURES, 4)
        rests.append(rest)
        features = x @ qkv.T * scale(x, eps)
        queries.append(features[:, :16])
        others.append(features[:, 16:])
    q = rotated(torch.cat(queries, 1).view(24, 16, 128), turns)
    k, v = torch.cat(others, 1).view(24, 2, 2, 128).unbind(1)
    k = rotated(k, turns)
    q, k, v = (each.unflatten(0, (2, HALF)).transpose(1, 2) for each in (q, k, v))
    k, v = (each.repeat_interleave(8, 1) for each in (k, v))
    mask = (torch.arange(HALF) < persistent.POSITIONS).expand(HALF, HALF)
    mixed = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(24, -1)
    sums = torch.zeros(24, 16, 64)
    for block in range(BLOCKS):
        team, rank = divmod(block, TEAM)
        weight, rests[block] = chunks(rests[block], 64, 2)
        sums[:, team] += mixed[:, rank * 256 : (rank + 1) * 256] @ weight.T
    x = x + sums.flatten(1)
    hidden = []
    for block in range(BLOCKS):
        weight, rests[block] = chunks(rests[block], 64, 8)
        gate, up = (x @ weight.T * scale(x, eps)).view(24, 4, 2, 8).unbind(2)
        hidden.append((F.silu(gate) * up).flatten(1))
    wide = torch.cat(hidden, 1)
    sums = torch.zeros(24, 16, 64)
    for block in range(BLOCKS):
        team, rank = divmod(block, TEAM)
        weight, _ = chunks(rests[block], 64, 4)
        sums[:, team] += wide[:, rank * 512 : (rank + 1) * 512] @ weight.T
    return x + sums.flatten(1)


def run(
    weights: persistent.Weights, noise: Tensor, mu: Tensor, cond: Tensor, cfg: Tensor,
    sizes: list[float], times: Tensor,
) -> Tensor:  # fmt: skip
    """What the kernel does, in fp32."""
    packed = [persistent.pack_layer(layer) for layer in weights.layers]
    out_weight, _ = chunks(persistent.pack_output(weights.out_weight, weights.norm), 64, 8)
    turns = F.pad(torch.view_as_real(weights.turns), (0, 0) * 3 + (0, 1))
    turns = torch.view_as_complex(turns).repeat(2, 1, 1)
    tokens = torch.zeros(2, HALF, 1024)
    tokens[0, :2] = mu
    tokens[:, 3:7] = F.linear(cond, weights.cond_weight, weights.cond_bias)
    patch = noise
    for size, time in zip(sizes, times, strict=True):
        tokens[:, 2] = time
        tokens[:, 7:11] = F.linear(patch, weights.in_weight, weights.in_bias)
        x = tokens.flatten(0, 1)
        for layer in packed:
            x = run_layer(x, layer, turns, weights.eps)
        velocity = x @ out_weight.T * scale(x, weights.eps) + weights.out_bias
        positive, negative = velocity.view(2, 1, HALF, -1)[:, :, 7:11].unbind(0)
        patch = patch - size * guide(positive, negative, cfg)
    return patch


def wide_weights(plain: LocalDiT, half: LocalDiT) -> persistent.Weights:
    """fp32: products from the model whose weights are kept as they are, norms unrounded."""
    weights = FusedLocalDiT._weights(half)  # type: ignore[arg-type]
    values = {
        each.name: value.float() if isinstance(value := getattr(weights, each.name), Tensor)
        and not value.is_complex() else value
        for each in fields(weights)
    }  # fmt: skip
    values["layers"] = [
        persistent.Layer(
            block.input_norm, layer.qkv.float(), layer.output.float(), block.mlp_norm,
            layer.gate_up.float(), layer.down.float(),
        )
        for block, layer in zip(plain.stack.blocks, weights.layers, strict=True)
    ]  # fmt: skip
    return persistent.Weights(**values | {"norm": plain.stack.norm})


def test_packed_weights_give_the_plain_models_patch() -> None:
    plain, half = (random_dit(CONFIG, 2, CPU, dtype) for dtype in (torch.float32, torch.bfloat16))
    chance = torch.Generator().manual_seed(1)
    noise, cond = torch.randn(2, 1, 4, 64, generator=chance).unbind(0)
    mu, cfg = torch.randn(1, 2, 1024, generator=chance), torch.tensor([2.0])
    schedule = plain.schedule(3)
    weights = wide_weights(plain, half)
    with torch.inference_mode():
        found = run(weights, noise, mu, cond, cfg, schedule.step_sizes, schedule.embeddings)
        wanted = plain.solve(noise, mu, cond, 3, cfg)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("capability", "dtype", "sizes", "reason"),
    [
        ((9, 0), torch.bfloat16, SIZES, None),
        ((8, 9), torch.bfloat16, SIZES, "compute capability 9.0"),
        ((10, 0), torch.bfloat16, SIZES, "compute capability 9.0"),
        ((9, 0), torch.float32, SIZES, "activations in bf16"),
        ((9, 0), torch.bfloat16, (*SIZES[:-1], 128), "another size of model"),
        ((9, 0), torch.bfloat16, (512, *SIZES[1:]), "another size of model"),
    ],
)
def test_what_the_kernel_is_not_for_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], dtype: torch.dtype,
    sizes: tuple[int, ...], reason: str | None,
) -> None:  # fmt: skip
    monkeypatch.setattr(persistent, "capability", lambda device: capability)
    found = persistent.why_not(CPU, dtype, sizes)
    assert found is None if reason is None else found is not None and reason in found


class Card:
    """A card that holds some blocks of any kernel at once, and says what was launched."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.launched: list[int] = []

    def function(self, *_: object) -> Card:
        return self

    def num_blocks_at_once(self) -> int:
        return self.num_blocks

    def launch(self, num_blocks: int, params: object) -> None:
        self.launched.append(num_blocks)


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> FusedLocalDiT:
    """A fused LocDiT that takes this processor for a card of the right kind."""
    monkeypatch.setattr(persistent, "capability", lambda device: (9, 0))
    half = random_dit(CONFIG, 1, CPU, torch.bfloat16)
    return FusedLocalDiT(
        half.in_proj, half.cond_proj, half.out_proj, half.time_mlp, half.delta_time_mlp,
        half.stack, width=half.width, is_mean_mode=False,
    )  # fmt: skip


def use(dit: FusedLocalDiT, card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistent, "_cubin", lambda *_: b"")
    monkeypatch.setattr(persistent, "Function", card.function)
    dit.use_persistent(CONFIG.patch_size)


@pytest.mark.parametrize("num_blocks", [0, 1, BLOCKS - 1])
def test_blocks_that_wait_for_each_other_are_never_launched_where_fewer_fit(
    fused: FusedLocalDiT, num_blocks: int, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    card = Card(num_blocks)
    use(fused, card, monkeypatch)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert fused._solver(1) is None
    assert not card.launched
    (record,) = caplog.records
    assert f"{num_blocks} fit on this card at once" in record.message


def test_one_stream_is_one_launch_of_all_blocks(
    fused: FusedLocalDiT, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card(BLOCKS)
    use(fused, card, monkeypatch)
    noise, cond = torch.randn(2, 1, 4, 64).bfloat16().unbind(0)
    found = fused.solve(noise, torch.randn(1, 2, 1024).bfloat16(), cond, 10, torch.ones(1))
    assert found.shape == noise.shape
    assert card.launched == [BLOCKS]
    assert fused._solver(2) is None


def test_a_kernel_that_cannot_be_compiled_leaves_separate_kernels(
    fused: FusedLocalDiT, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> bytes:
        raise cubin.CubinError("NVRTC: no")

    monkeypatch.setattr(persistent, "_cubin", refuse)
    fused.use_persistent(CONFIG.patch_size)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert fused._solver(1) is None
    assert [record.message for record in caplog.records] == [
        "the LocDiT of one stream runs as separate kernels: NVRTC: no"
    ]


class Compiler:
    """Stands for NVRTC: what it compiles is the source and how often it was asked."""

    def __init__(self, version: int = 13) -> None:
        self.version = version
        self.asked = 0

    def nvrtcVersion(self, major: Any, minor: Any) -> None:
        major._obj.value, minor._obj.value = self.version, 0

    def compile(self, _: object, source: bytes, options: Sequence[str]) -> bytes:
        self.asked += 1
        return source + str((self.version, *options)).encode()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    compiler = Compiler()
    monkeypatch.setattr(cubin, "_nvrtc", lambda: compiler)
    monkeypatch.setattr(cubin, "_compile", compiler.compile)
    return compiler


def test_a_kernel_is_compiled_once_for_a_source_options_and_compiler(
    compiler: Compiler, tmp_path: Path
) -> None:
    def made() -> list[bytes]:
        return [
            cubin.compiled(source, options, tmp_path / "kernels")
            for source in (b"one", b"two") for options in (["-a"], ["-b"])
        ]  # fmt: skip

    first = made()
    assert len(set(first)) == compiler.asked == 4
    assert made() == first
    assert compiler.asked == 4
    compiler.version += 1
    assert not set(made()) & set(first)
    assert compiler.asked == 8


def test_a_cache_that_cannot_be_written_costs_time_alone(
    compiler: Compiler, tmp_path: Path
) -> None:
    (tmp_path / "kernels").write_text("a file where the folder should be")
    first = cubin.compiled(b"one", [], tmp_path / "kernels")
    assert cubin.compiled(b"one", [], tmp_path / "kernels") == first
    assert compiler.asked == 2
