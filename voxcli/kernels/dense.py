"""Products of many rows as one CUDA kernel, `dense.cu`: `x W^T`, its SwiGLU, or its sum in parts.

For cards of compute capability 9.0, in bf16.
`choice` says which tiles a product takes, or that cuBLAS is faster; `is_available` whether the
kernel runs here at all. Elsewhere callers go on as without it.

Letters: `M` rows, `K` in, `N` out.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from voxcli.kernels import capability, compiling_alone
from voxcli.kernels.cubin import CubinError, Function, compiling, source_of, tensor_map

logger = logging.getLogger(__name__)

CAPABILITY = (9, 0)
SWITCH = "VOXCLI_DENSE"  # "0": cuBLAS instead
SLICE_BYTES = 128  # of a row in a stage
MAX_SHARED_BYTES = 232_448
_NUM_REGISTERS, _PRODUCER_REGISTERS, _OTHER_REGISTERS = 65536, 24, 40


@dataclass(frozen=True)
class Tiles:
    """How a product is cut.

    Attributes:
        warpgroups, deep: each of so many computes `64 deep` features of a tile; with SwiGLU half
            as many outputs.
        rows: of a tile; a multiple of 16, at most 256.
        parts: of the sum.
    """

    warpgroups: int
    deep: int
    rows: int
    parts: int = 1

    @property
    def features(self) -> int:
        return 64 * self.deep * self.warpgroups

    @property
    def consumer_registers(self) -> int:
        """What a thread that multiplies takes of the producers' registers; 0 if it needs none."""
        num_threads = 128 * (self.warpgroups + 1)
        own = min(255, _NUM_REGISTERS // num_threads // 8 * 8)
        if self.deep * self.rows // 2 + _OTHER_REGISTERS <= own:
            return 0
        left = own * num_threads - 128 * _PRODUCER_REGISTERS
        return min(240, left // (128 * self.warpgroups) // 8 * 8)

    @property
    def num_threads(self) -> int:
        return 128 * self.warpgroups + self.num_producers

    @property
    def num_producers(self) -> int:
        """A warpgroup where it gives registers away, else a warp."""
        return 128 if self.consumer_registers else 32

    @property
    def num_stages(self) -> int:
        """Slices of 128 bytes a row that are on their way."""
        return min(8, MAX_SHARED_BYTES // self._stage_bytes)

    @property
    def shared_bytes(self) -> int:
        return self.num_stages * self._stage_bytes

    @property
    def _stage_bytes(self) -> int:
        return (self.features + self.rows) * SLICE_BYTES + 16


class _Map(ctypes.Structure):
    _fields_ = (("words", ctypes.c_uint64 * 16),)


class _Params(ctypes.Structure):
    """`Params` of `dense.cu`."""

    _fields_ = (
        ("weights", _Map), ("rows", _Map),
        ("out", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in (
            "num_rows", "num_outputs", "slices", "row_tiles", "feature_tiles", "parts",
        )),
        ("padding", ctypes.c_uint64 * 4),
    )  # fmt: skip


# ------------------------------------------------------------ the kernel


def wgmma(num_rows: int) -> str:
    """The tensor cores' product of 64 features and so many rows, in CUDA C++."""
    n = num_rows // 2
    sums = ",".join(f"%{i}" for i in range(n))
    operands = ",".join(f'"+f"(d[{i}])' for i in range(n))
    return (
        f"__device__ __forceinline__ void wgmma(float (&d)[{n}], unsigned long long a, "
        "unsigned long long b, int keep) {\n"
        f'asm volatile("{{.reg .pred p; setp.ne.b32 p, %{n + 2}, 0; '
        f"wgmma.mma_async.sync.aligned.m64n{num_rows}k16.f32.bf16.bf16 {{{sums}}}, %{n}, "
        f'%{n + 1}, p, 1,1,0,0;}}" : {operands} : "l"(a), "l"(b), "r"(keep));\n}}\n'
    )


def source(tiles: Tiles) -> bytes:
    """`dense.cu` with the product of a size in front."""
    return (wgmma(tiles.rows) + source_of("dense")).encode()


def compile_options(tiles: Tiles, *, is_swiglu: bool) -> tuple[str, ...]:
    values = {
        "WARPGROUPS": tiles.warpgroups, "DEEP": tiles.deep, "ROWS": tiles.rows,
        "STAGES": tiles.num_stages, "PRODUCERS": tiles.num_producers,
        "CONSUMER_REGISTERS": tiles.consumer_registers,
        "SWIGLU": int(is_swiglu), "PARAMS_BYTES": ctypes.sizeof(_Params),
    }  # fmt: skip
    return (
        "--gpu-architecture=sm_90a", "--std=c++17",
        *(f"-D{name}={value}" for name, value in values.items()),
    )  # fmt: skip


Kernel = tuple[Tiles, bool]  # tiles without parts, with SwiGLU


def _compiling(kernel: Kernel) -> Future[bytes]:
    tiles, is_swiglu = kernel
    return compiling(source(tiles), compile_options(tiles, is_swiglu=is_swiglu))


class _Loader:
    """Kernels of one card, loaded when they are first needed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._functions: dict[Kernel, tuple[Function, int]] = {}

    def get(self, kernel: Kernel) -> tuple[Function, int]:
        """A kernel and how many of its blocks fit; the first time not while a graph is captured.

        Raises:
            CubinError: it cannot be compiled or loaded.
        """
        if kernel not in self._functions:
            tiles, cubin = kernel[0], _compiling(kernel).result()
            function = Function(
                cubin, "multiply", tiles.num_threads, tiles.shared_bytes, self._device
            )
            self._functions[kernel] = function, function.num_blocks_at_once()
        return self._functions[kernel]


@cache
def _loader(device: torch.device) -> _Loader:
    return _Loader(device)


# ------------------------------------------------------------ which tiles

Size = tuple[int, int, bool]  # outputs, inputs, with SwiGLU
Rule = tuple[int, Tiles | None]  # up to so many rows these tiles, or those of others

_FEW = Tiles(2, 1, 32)
_SOME = Tiles(2, 1, 48)
_SIXTY_FOUR = Tiles(1, 1, 64)
TABLE: dict[Size, tuple[Rule, ...]] = {
    # LocDiT of two streams and more; LocEnc. Where a last wave would be half empty cuBLAS is left
    (2560, 1024, False): (
        (176, _SIXTY_FOUR), (528, None), (704, Tiles(2, 1, 64)), (880, None),
        (1056, Tiles(2, 1, 176)),
    ),
    (1024, 2048, False): (
        (48, replace(_SIXTY_FOUR, parts=4)), (96, replace(_SOME, parts=4)),
        (176, replace(_SIXTY_FOUR, parts=2)), (352, replace(_SOME, parts=2)), (528, None),
        (704, _SOME), (1056, None), (1408, Tiles(2, 1, 176, 2)),
    ),
    (1024, 4096, False): (
        (48, replace(_SIXTY_FOUR, parts=4)), (176, replace(_SOME, parts=4)), (1056, None),
        (1408, Tiles(2, 1, 176, 2)),
    ),
    (4096, 1024, True): (
        (48, Tiles(1, 1, 48)), (96, Tiles(2, 1, 96)), (176, Tiles(1, 1, 176)),
        (352, Tiles(2, 1, 176)), (528, Tiles(1, 1, 176)), (704, Tiles(2, 1, 176)),
        (880, Tiles(2, 1, 224)), (1056, Tiles(2, 1, 176)), (1408, Tiles(2, 2, 176)),
    ),
    # language models of some streams, and prompts
    (2560, 2048, False): ((8, None), (128, _SIXTY_FOUR)),
    (2048, 2048, False): ((32, replace(_FEW, parts=4)), (128, replace(_SIXTY_FOUR, parts=2))),
    (2048, 6144, False): (
        (32, replace(_FEW, parts=4)), (64, replace(_SIXTY_FOUR, parts=4)),
        (96, replace(_SOME, parts=2)), (128, replace(_SIXTY_FOUR, parts=2)),
    ),
    (6144, 2048, True): (
        (32, Tiles(1, 1, 32)), (64, Tiles(2, 1, 64)), (128, Tiles(2, 1, 128)), (384, None),
        (512, Tiles(2, 1, 128)), (768, Tiles(2, 1, 192)), (1024, Tiles(2, 1, 256)),
        (2048, Tiles(2, 2, 192)),
    ),
}  # fmt: skip
"""What was faster than others on an H200, by size; rows in ascending order."""


_TRIED: Kernel = (_FEW, False)  # on a card, before any is chosen


def choice(x: Tensor, weight: Tensor, *, is_swiglu: bool = False, can_part: bool) -> Tiles | None:
    """The tiles of a product, or None where others are faster or it cannot run.

    Args:
        x: `[..., K]`.
        weight: `[N, K]`; with SwiGLU `[2 N, K]`.
        can_part: whether the sum may be left in parts.
    """
    N, K = len(weight) // (2 if is_swiglu else 1), weight.shape[1]
    rules = TABLE.get((N, K, is_swiglu))
    if rules is None or weight.dtype != torch.bfloat16 or not is_available(x.device):
        return None
    M = x.numel() // K
    tiles = next((tiles for most, tiles in rules if most >= M), None)
    return None if tiles is None or (tiles.parts > 1 and not can_part) else tiles


def compile_ahead(device: torch.device, weights: Iterable[tuple[Tensor, bool]]) -> None:
    """Begin to compile what products of these weights will launch; returns at once.

    Args:
        weights: `[N, K]`, and whether its product goes through SwiGLU.
    """
    if device.type != "cuda" or capability(device) != CAPABILITY or os.environ.get(SWITCH) == "0":
        return
    kernels: set[Kernel] = set()
    for weight, is_swiglu in weights:
        N, K = len(weight) // (2 if is_swiglu else 1), weight.shape[1]
        rules = TABLE.get((N, K, is_swiglu), ()) if weight.dtype == torch.bfloat16 else ()
        kernels |= {(replace(tiles, parts=1), is_swiglu) for _, tiles in rules if tiles is not None}
    for kernel in kernels | {_TRIED} if kernels else ():
        _compiling(kernel)


@cache
def is_available(device: torch.device) -> bool:
    """Whether the kernel runs on a card, which is tried once."""
    if capability(device) != CAPABILITY or os.environ.get(SWITCH) == "0":
        return False
    if device.type == "meta":
        return True
    try:
        _loader(device).get(_TRIED)
    except CubinError as err:
        logger.info("products of many rows are left to cuBLAS: %s", err)
        return False
    return True


# ------------------------------------------------------------ products


def _weight_map(weight: Tensor, tiles: Tiles, *, is_swiglu: bool) -> bytes:
    N, K = weight.shape
    slice_, box = SLICE_BYTES // weight.element_size(), tiles.features
    if not is_swiglu:
        return tensor_map(weight, (K, N), (K,), (slice_, box))
    # eight gates, the eight that they let through, and so on
    F = N // 2
    return tensor_map(weight, (K, 8, 2, F // 8), (K, F * K, 8 * K), (slice_, 8, 2, box // 16))


def product(x: Tensor, weight: Tensor, tiles: Tiles, *, is_swiglu: bool = False) -> Tensor:
    """`x W^T` or its SwiGLU, in parts that are still to be added up.

    Args:
        x: bf16 `[..., K]`.
        weight: bf16 `[N, K]`; with SwiGLU `[2 N, K]`.

    Returns:
        `[parts, ..., N]`.
    """
    N, K = len(weight) // (2 if is_swiglu else 1), weight.shape[1]
    out = x.new_empty(tiles.parts, *x.shape[:-1], N)
    rows = x.view(-1, K)
    run(rows, weight, tiles, out.view(tiles.parts, -1, N), is_swiglu=is_swiglu)
    return out


def run(x: Tensor, weight: Tensor, tiles: Tiles, out: Tensor, *, is_swiglu: bool = False) -> None:
    """A product with tiles of one's choice.

    Args:
        x: bf16 `[M, K]`.
        weight: bf16 `[N, K]`; with SwiGLU `[2 N, K]`, gates first.
        out: bf16 `[parts, M, N]`, which is written.

    Raises:
        CubinError: the kernel cannot be compiled or loaded.
    """
    M, K = x.shape
    N = out.shape[-1]
    assert x.dtype == weight.dtype == out.dtype == torch.bfloat16
    slice_ = SLICE_BYTES // x.element_size()
    assert all(each.is_contiguous() for each in (x, weight, out))
    assert out.shape == (tiles.parts, M, N), (out.shape, tiles, M)
    assert weight.shape == (2 * N if is_swiglu else N, K), (weight.shape, x.shape, N)
    assert K % (slice_ * tiles.parts) == 0, (K, tiles)
    assert N % 8 == 0, N
    assert not (is_swiglu and tiles.parts > 1), tiles
    if compiling_alone.get():  # nothing is launched
        return
    function, fit = _loader(x.device).get((replace(tiles, parts=1), is_swiglu))
    params = _Params()
    maps = {
        "weights": _weight_map(weight, tiles, is_swiglu=is_swiglu),
        "rows": tensor_map(x, (K, M), (K,), (slice_, tiles.rows)),
    }
    for name, value in maps.items():
        ctypes.memmove(ctypes.addressof(getattr(params, name)), value, len(value))
    params.out = out.data_ptr()
    params.num_rows, params.num_outputs = M, N
    params.slices = K // slice_ // tiles.parts
    params.row_tiles, params.feature_tiles = -(-M // tiles.rows), -(-len(weight) // tiles.features)
    params.parts = tiles.parts
    num_tiles = params.row_tiles * params.feature_tiles * params.parts
    function.launch_early(min(num_tiles, fit), params)
