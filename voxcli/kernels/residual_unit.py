"""Residual units of the AudioVAE decoder in CUDA C++, for cards of compute capability 9.0 in fp16.

A unit of few channels is one kernel; of more channels all but its product is one. `kind_for` says
which, or that there is none: elsewhere callers go on with `vocoder.py` and `product.py`.
`residual_unit.cu` says how it works.

Letters: `B` rows, `T` time steps, `C` channels, `J` context length.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from math import ceil

import torch
from torch import Tensor

from voxcli.kernels import capability, compiling_alone
from voxcli.kernels.cubin import CubinError, Function, compiling, source_of

logger = logging.getLogger(__name__)

CAPABILITY = (9, 0)
SWITCH = "VOXCLI_UNITS"  # "0": Triton's kernels instead
TAPS, DILATIONS = 7, (1, 3, 9)
_WARPS, _HALO, _TABLES = 9, 54, 12  # as in `residual_unit.cu`


@dataclass(frozen=True)
class Kind:
    """A kernel.

    Attributes:
        channels: of a block.
        deep: times 16 rows that a warp has of a tile.
        blocks: that a processor is to hold, for which registers are limited.
        has_product: whether a unit is whole.
    """

    channels: int
    deep: int
    blocks: int
    has_product: bool = True

    @property
    def num_threads(self) -> int:
        return 32 * _WARPS

    @property
    def num_rows(self) -> int:
        """Time steps of a tile."""
        return 16 * _WARPS * self.deep

    @property
    def shared_bytes(self) -> int:
        pitch = 2 * (self.channels + 8)
        rows = _HALO + self.num_rows + self.has_product * self.channels
        return rows * pitch + 4 * _TABLES * self.channels


UNITS = {32: Kind(32, 2, 4), 64: Kind(64, 1, 4), 128: Kind(128, 1, 2)}
"""Whole units, by channels."""

FILTER = Kind(64, 1, 4, has_product=False)
"""Of more channels, as many at once; these are a multiple of it."""

MIN_ROWS = 16
"""From how many rows on; an H200 was faster with Triton's kernels at 8."""


def _kind(C: int) -> Kind | None:
    return UNITS.get(C) or (FILTER if C % FILTER.channels == 0 else None)


def _runs_here(device: torch.device, dtype: torch.dtype) -> bool:
    return (
        capability(device) == CAPABILITY
        and dtype == torch.float16
        and os.environ.get(SWITCH) != "0"
    )


def kind_for(
    C: int, dilations: Iterable[int], num_rows: int, dtype: torch.dtype, device: torch.device
) -> Kind | None:
    """The kernel of units of so many channels; its first call is not in a capture."""
    kind = _kind(C)
    can_run = set(dilations) <= set(DILATIONS) and _runs_here(device, dtype)
    if kind is None or not can_run or num_rows < MIN_ROWS:
        return None
    if device.type == "meta":
        return kind
    return None if _loaded(kind, device) is None else kind


# ------------------------------------------------------------ the kernel

_POINTERS = (
    "x", "out", "context", "slots", "scale", "shift", "taps", "bias", "weight", "next_scale",
    "next_shift", "next_context",
)  # fmt: skip
_NUMBERS = ("steps", "width", "dilation", "next_length", "stream_blocks")


class _Params(ctypes.Structure):
    """`Params` of `residual_unit.cu`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int) for name in _NUMBERS),
    )


def compile_options(kind: Kind) -> tuple[str, ...]:
    values = {
        "CHANNELS": kind.channels, "DEEP": kind.deep, "BLOCKS": kind.blocks,
        "PRODUCT": int(kind.has_product),
    }  # fmt: skip
    return (
        "--gpu-architecture=sm_90a", "--std=c++17",
        *(f"-D{name}={value}" for name, value in values.items()),
    )  # fmt: skip


def _compiling(kind: Kind) -> Future[bytes]:
    return compiling(source_of("residual_unit").encode(), compile_options(kind))


def compile_ahead(device: torch.device, channels: Iterable[int], dtype: torch.dtype) -> None:
    """Begin to compile what units of so many channels will launch; returns at once."""
    if device.type == "cuda" and _runs_here(device, dtype):
        for kind in {kind for C in channels if (kind := _kind(C)) is not None}:
            _compiling(kind)


@cache
def _loaded(kind: Kind, device: torch.device) -> Function | None:
    try:
        cubin = _compiling(kind).result()
        return Function(cubin, "unit", kind.num_threads, kind.shared_bytes, device)
    except CubinError as err:
        logger.info("residual units of the vocoder are left to Triton: %s", err)
        return None


def num_blocks(T: int, kind: Kind) -> int:
    """Blocks that have a stream's tiles, two each; the kernel takes any number from this one on.

    The first and the last tile are one block's: it reads a stream's context and replaces it.
    """
    return ceil(T / (2 * kind.num_rows))


def _run(
    kind: Kind, x: Tensor, out: Tensor, given: dict[str, Tensor], dilation: int, next_length: int
) -> Tensor:
    if compiling_alone.get():  # nothing is launched
        return out
    B, T, C = x.shape
    assert x.is_contiguous(), x.stride()
    assert given["context"].shape[1:] == ((TAPS - 1) * dilation, C), given["context"].shape
    assert T * C < 2**31, x.shape
    function = _loaded(kind, x.device)
    assert function is not None, "found by kind_for"
    stream_blocks = num_blocks(T, kind)
    params = _Params(
        **{name: tensor.data_ptr() for name, tensor in given.items()},
        x=x.data_ptr(), out=out.data_ptr(), steps=T, width=C, dilation=dilation,
        next_length=next_length, stream_blocks=stream_blocks,
    )  # fmt: skip
    function.launch_early(B * (C // kind.channels) * stream_blocks, params)
    return out


# ------------------------------------------------------------ what it computes


def filtered_reference(
    x: Tensor, scale: Tensor, shift: Tensor, taps: Tensor, bias: Tensor, dilation: int,
    context: Tensor, slots: Tensor,
) -> Tensor:  # fmt: skip
    from voxcli.kernels.vocoder import depthwise_reference, pad_reference

    padded = pad_reference(x, scale, shift, context, slots)
    return depthwise_reference(padded, taps, bias, dilation, context, slots, is_snake=True)


def filtered(
    x: Tensor, scale: Tensor, shift: Tensor, taps: Tensor, bias: Tensor, dilation: int,
    context: Tensor, slots: Tensor,
) -> Tensor:  # fmt: skip
    """Snake of `scale x + shift`, a causal depthwise convolution behind its context, and Snake.

    Args:
        x: fp16 `[B, T, C]`, C a multiple of the channels of `FILTER`.
        scale, shift, bias: fp32 `[C]`.
        taps: fp32 `[7, C]`.
        dilation: one of `DILATIONS`.
        context: fp16 `[slots, J, C]`, read and replaced at `slots`.
        slots: int64 `[B]`.

    Returns:
        `[B, T, C]`.
    """
    given = {
        "scale": scale, "shift": shift, "taps": taps, "bias": bias, "context": context,
        "slots": slots,
    }  # fmt: skip
    return _run(FILTER, x, torch.empty_like(x), given, dilation, 0)


def residual_unit_reference(
    x: Tensor, scale: Tensor, shift: Tensor, taps: Tensor, bias: Tensor, dilation: int,
    context: Tensor, slots: Tensor, weight: Tensor,
    reader: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Tensor:  # fmt: skip
    from voxcli.kernels.vocoder import pad_reference

    inner = filtered_reference(x, scale, shift, taps, bias, dilation, context, slots)
    x = (x.float() + inner.float() @ weight.float().t()).to(x.dtype)
    return x if reader is None else pad_reference(x, *reader, slots)


def residual_unit(
    x: Tensor, scale: Tensor, shift: Tensor, taps: Tensor, bias: Tensor, dilation: int,
    context: Tensor, slots: Tensor, weight: Tensor,
    reader: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """`x` plus a product of what `filtered` makes of it.

    Args:
        x, scale, shift, taps, bias, dilation, context, slots: as of `filtered`; `UNITS` says of
            how many channels.
        weight: fp16 `[C, C]`, from the last axis to the first.
        reader: scale, shift and context `[slots, J', C]` of the Snake that alone reads the sum.

    Returns:
        `[B, T, C]`; for a reader `[B, J' + T, C]` as `vocoder.pad` gives it.
    """
    B, T, C = x.shape
    assert weight.shape == (C, C), weight.shape
    assert weight.is_contiguous(), weight.stride()
    given = {
        "scale": scale, "shift": shift, "taps": taps, "bias": bias, "context": context,
        "slots": slots, "weight": weight,
    }  # fmt: skip
    next_length = 0
    if reader is not None:
        given |= dict(zip(("next_scale", "next_shift", "next_context"), reader, strict=True))
        next_length = reader[2].shape[1]
    return _run(UNITS[C], x, x.new_empty(B, next_length + T, C), given, dilation, next_length)
