"""The kernel of one stream on a card, beside the plain LocDiT in fp32 and the separate kernels.

The weights are those of all three, rounded to bf16. A patch goes through `12 * 9` layers of bf16
activations; the separate kernels are 0.7 % from fp32 there, and so is the one kernel.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("no card of compute capability 9.0", allow_module_level=True)

PARITY = Path(__file__).resolve().parents[1] / "parity"
sys.path.append(str(PARITY))

from dits import random_dit, random_encoder  # noqa: E402

from voxcli.kernels import persistent  # noqa: E402
from voxcli.kernels.cubin import CubinError, Function  # noqa: E402
from voxcli.layers.fp8 import FORMAT  # noqa: E402
from voxcli.models.voxcpm2.acoustic import LocalDiT  # noqa: E402
from voxcli.models.voxcpm2.config import VoxCPM2Config  # noqa: E402
from voxcli.models.voxcpm2.fused import FusedLocalDiT, FusedLocalEncoder  # noqa: E402

pytestmark = pytest.mark.gpu
DEVICE = torch.device("cuda", 0)
CONFIG = VoxCPM2Config.from_dict(json.loads((PARITY / "voxcpm2_config.json").read_text()))
MAX_ERROR = 1.5e-2
Dits = dict[int, tuple[FusedLocalDiT, FusedLocalDiT, LocalDiT]]


def make(num_layers: int) -> tuple[FusedLocalDiT, FusedLocalDiT, LocalDiT]:
    one = random_dit(CONFIG, num_layers, DEVICE, torch.bfloat16)
    separate = random_dit(CONFIG, num_layers, DEVICE, torch.bfloat16, is_native=False)
    plain = random_dit(CONFIG, num_layers, DEVICE, torch.float32)
    assert isinstance(one, FusedLocalDiT)
    assert isinstance(separate, FusedLocalDiT)
    return one, separate, plain


@pytest.fixture(scope="module")
def dits() -> Dits:
    with torch.inference_mode():
        return {num_layers: make(num_layers) for num_layers in (1, 12)}


def inputs(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator(DEVICE).manual_seed(seed)
    shapes = ((1, 4, 64), (1, 2, 1024), (1, 4, 64))
    noise, mu, cond = (
        torch.randn(shape, generator=generator, device=DEVICE).bfloat16() for shape in shapes
    )
    return noise, mu, cond


def is_used(dit: LocalDiT) -> bool:
    """Whether its one kernel has run."""
    assert isinstance(dit, FusedLocalDiT)
    return dit._persistent is not None and dit._persistent.is_prepared


def error(out: Tensor, reference: Tensor) -> float:
    assert out.isfinite().all()
    return float((out.double() - reference.double()).norm() / reference.double().norm())


@torch.inference_mode()
@pytest.mark.parametrize("scale", [None, 1.0, 2.0, 3.5])
@pytest.mark.parametrize(("num_layers", "num_steps"), [(1, 2), (1, 7), (12, 2), (12, 10)])
def test_a_patch_is_as_near_to_fp32_as_that_of_separate_kernels(
    dits: Dits, num_layers: int, num_steps: int, scale: float | None
) -> None:
    one, separate, plain = dits[num_layers]
    cfg = None if scale is None else torch.tensor([scale], device=DEVICE)
    for seed in range(3):
        given = inputs(seed)
        wanted = plain.solve(*(each.float() for each in given), num_steps, cfg)
        found = error(one.solve(*given, num_steps, cfg), wanted)
        assert is_used(one)
        usual = error(separate.solve(*given, num_steps, cfg), wanted)
        assert found < min(MAX_ERROR, 1.5 * usual), (found, usual)


@torch.inference_mode()
def test_weights_in_eight_bits_lose_no_more_than_in_separate_kernels() -> None:
    one, separate = (
        random_dit(CONFIG, 2, DEVICE, FORMAT, is_native=is_native) for is_native in (True, False)
    )
    plain = random_dit(CONFIG, 2, DEVICE, torch.float32)
    cfg = torch.tensor([2.0], device=DEVICE)
    for seed in range(3):
        given = inputs(seed)
        wanted = plain.solve(*(each.float() for each in given), 10, cfg)
        found, usual = (error(dit.solve(*given, 10, cfg), wanted) for dit in (one, separate))
        assert found < min(0.2, 1.2 * usual), (found, usual)
    assert is_used(one)


@torch.inference_mode()
def test_a_patch_has_the_same_bits_whatever_was_solved_before(dits: Dits) -> None:
    one, _, _ = dits[1]
    cfg = torch.tensor([2.0], device=DEVICE)
    wanted = {}
    for turn in range(4):  # what blocks say to each other differs by a bit from turn to turn
        for seed, num_steps in ((0, 2), (1, 3), (2, 6), (3, 2)):
            found = one.solve(*inputs(seed), num_steps, cfg if seed else None)
            assert torch.equal(found, wanted.setdefault(seed, found)), (turn, seed)


@torch.inference_mode()
def test_a_replayed_solve_reads_its_inputs_again(dits: Dits) -> None:
    one, _, _ = dits[12]
    cfg = torch.tensor([2.0], device=DEVICE)
    static = inputs(0)
    wanted = [one.solve(*inputs(seed), 10, cfg) for seed in range(5)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = one.solve(*static, 10, cfg)
    for seed in (0, 3, 1, 4, 2):
        for to, value in zip(static, inputs(seed), strict=True):
            to.copy_(value)
        graph.replay()
        assert torch.equal(out, wanted[seed]), seed


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.bfloat16, FORMAT])
def test_an_encoded_patch_is_as_near_to_fp32_as_that_of_separate_kernels(
    dtype: torch.dtype,
) -> None:
    for num_layers in (1, 12):
        one, separate = (
            random_encoder(CONFIG, num_layers, DEVICE, dtype, is_native=is_native)
            for is_native in (True, False)
        )
        plain = random_encoder(CONFIG, num_layers, DEVICE, torch.float32)
        assert isinstance(one, FusedLocalEncoder)
        for seed in range(5):  # what blocks say to each other differs by a bit from turn to turn
            patch = inputs(seed)[2]
            wanted = plain(patch.float())
            found, usual = (error(encoder(patch), wanted) for encoder in (one, separate))
            assert found < 1.5 * usual, (num_layers, found, usual)
            assert torch.equal(one(patch), one(patch))
        assert one._persistent is not None
        assert one._persistent.is_prepared


@torch.inference_mode()
def test_more_blocks_than_fit_are_refused_and_nothing_hangs(dits: Dits) -> None:
    solver = dits[1][0]._persistent
    assert solver is not None
    given = inputs(0)
    wanted = dits[1][0].solve(*given, 3, None)
    function = solver._function
    assert function is not None
    fit = function.num_blocks_at_once()
    assert fit >= persistent.BLOCKS
    with pytest.raises(CubinError, match="launching a kernel"):
        function.launch(fit + 1, persistent._Params())
    assert torch.equal(dits[1][0].solve(*given, 3, None), wanted)


@torch.inference_mode()
def test_a_card_with_too_little_room_runs_separate_kernels(
    dits: Dits, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dit = random_dit(CONFIG, 1, DEVICE, torch.bfloat16)
    monkeypatch.setattr(Function, "num_blocks_at_once", lambda self: persistent.BLOCKS - 1)
    given = inputs(0)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            assert torch.equal(dit.solve(*given, 3, None), dits[1][1].solve(*given, 3, None))
    (record,) = [each for each in caplog.records if "separate kernels" in each.message]
    assert "127 fit on this card at once" in record.message
