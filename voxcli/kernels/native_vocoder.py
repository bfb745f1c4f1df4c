"""The AudioVAE decoder's elementwise and depthwise work on a CPU, each beside its torch reference.

A call is one pass over channels-last fp32 data and takes the place of four to seven torch calls;
sine costs a seventh of torch's, because `sin(u)^2` alone is needed (`native_vocoder.c`). A row's
bits depend on nothing but that row, and are the same for any cut into calls.

Letters: `B` rows, `T` time steps, `C` channels, `J` context length, `K` taps, `W` table length.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.kernels.native import loaded
from voxcli.kernels.native_product import Panels, parallel
from voxcli.kernels.structs import LANES, MOST_UNITS, PART, UnitStruct, table_repeats, unit_threads
from voxcli.layers import cores


def bump(u: Tensor) -> Tensor:
    """Snake without its scales: `u + sin(u)^2`."""
    return u + torch.sin(u).square()


def table(values: Tensor) -> Tensor:
    """`[..., C] -> [..., W]`: repeated, so that few channels fill vectors too."""
    times = table_repeats(values.shape[-1])
    return values.float().repeat(*[1] * (values.ndim - 1), times).contiguous()


def filter_table(weight: Tensor, bias: Tensor) -> Tensor:
    """`[K, C]` and `[C]` to `[W / LANES, K + 1, LANES]`."""
    rows = table(torch.cat((weight, bias.unsqueeze(0))))  # [K + 1, W]
    return rows.view(len(rows), -1, LANES).transpose(0, 1).contiguous()


def depthwise_reference(
    x: Tensor, snake: Tensor | None, taps: Tensor, dilation: int, contexts: Tensor, slots: Tensor
) -> Tensor:  # fmt: skip
    C = x.shape[2]
    if snake is not None:
        x = bump(x * snake[0, :C] + snake[1, :C])
    padded = torch.cat((contexts[slots], x), dim=1)
    contexts[slots] = padded[:, -contexts.shape[1] :]
    rows = taps.transpose(0, 1).flatten(1)[:, :C]  # [K + 1, C]
    weight = rows[:-1].T.unsqueeze(1)  # [C, 1, K]
    out = F.conv1d(padded.mT, weight, rows[-1], dilation=dilation, groups=C).mT
    return out if snake is None else bump(out)


def depthwise(
    x: Tensor, snake: Tensor | None, taps: Tensor, dilation: int, contexts: Tensor, slots: Tensor,
    scratch: Tensor, out: Tensor,
) -> Tensor:  # fmt: skip
    """Snake, a causal convolution with one filter a channel, Snake.

    Args:
        x: `[B, T, C]`.
        snake: tables of scale and shift before the convolution, `[2, W]`; None for no Snake at all.
        taps: filters and their bias, as `filter_table` makes them.
        contexts: past inputs of the convolution, `[slots, J, C]`; those of `slots` are replaced.
        slots: int64 `[B]`.
        scratch: `(J + T) C` numbers or more.
        out: `B T C` numbers or more.

    Returns:
        `[B, T, C]`, a view of `out`.
    """
    B, T, C = x.shape
    W = taps.shape[0] * LANES
    J = contexts.shape[1]
    assert 6 * dilation == J, (dilation, J)
    _check(
        x, contexts, slots, taps=(taps, 8 * W), scratch=(scratch, (J + T) * C), out=(out, B * T * C)
    )
    library = loaded()
    library.vox_depthwise(
        x.data_ptr(), *_addresses(snake), contexts.data_ptr(), slots.data_ptr(),
        taps.data_ptr(), scratch.data_ptr(), out.data_ptr(), B, T, C, W, dilation,
    )  # fmt: skip
    return out.view(-1)[: x.numel()].view(x.shape)


def pairs_reference(x: Tensor, snake: Tensor, contexts: Tensor, slots: Tensor) -> Tensor:
    C = x.shape[2]
    padded = torch.cat((contexts[slots], bump(x * snake[0, :C] + snake[1, :C])), dim=1)
    contexts[slots] = padded[:, -1:]
    return torch.cat((padded[:, :-1], padded[:, 1:]), dim=-1)


def pairs(
    x: Tensor, snake: Tensor, contexts: Tensor, slots: Tensor, scratch: Tensor, out: Tensor
) -> Tensor:
    """Snake, with the time step before in front of each; arguments as of `depthwise`.

    Args:
        contexts: `[slots, 1, C]`.
        scratch: `W` numbers or more.
        out: `2 B T C` numbers or more.

    Returns:
        `[B, T, 2 C]`, a view of `out`.
    """
    B, T, C = x.shape
    W = snake.shape[1]
    assert contexts.shape[1] == 1, contexts.shape
    _check(x, contexts, slots, scratch=(scratch, W), out=(out, 2 * B * T * C))
    library = loaded()
    library.vox_pairs(
        x.data_ptr(), *_addresses(snake), contexts.data_ptr(), slots.data_ptr(),
        scratch.data_ptr(), out.data_ptr(), B, T, C, W,
    )  # fmt: skip
    return out.view(-1)[: 2 * x.numel()].view(B, T, 2 * C)


def last_reference(
    x: Tensor, snake: Tensor, taps: Tensor, bias: float, contexts: Tensor, slots: Tensor
) -> Tensor:
    C = x.shape[2]
    padded = torch.cat((contexts[slots], bump(x * snake[0, :C] + snake[1, :C])), dim=1)
    contexts[slots] = padded[:, -contexts.shape[1] :]
    weight = taps[: 7 * C].view(1, 7, C).mT
    return torch.tanh(F.conv1d(padded.mT, weight).squeeze(1) + bias)


def last(
    x: Tensor, snake: Tensor, taps: Tensor, bias: float, contexts: Tensor, slots: Tensor,
    scratch: Tensor,
) -> Tensor:  # fmt: skip
    """Snake, a causal convolution to one channel, tanh; arguments as of `depthwise`.

    Args:
        taps: `[K C]`, time step by time step, and zeros up to a multiple of `LANES`.
        scratch: `(J + T) C + LANES` numbers or more.

    Returns:
        `[B, T]`.
    """
    B, T, C = x.shape
    out = x.new_empty(B, T)
    assert contexts.shape[1] == 6, contexts.shape
    size = -(-7 * C // LANES) * LANES
    _check(x, contexts, slots, taps=(taps, size), scratch=(scratch, (6 + T) * C + LANES))
    library = loaded()
    library.vox_last(
        x.data_ptr(), *_addresses(snake), contexts.data_ptr(), slots.data_ptr(), taps.data_ptr(),
        bias, scratch.data_ptr(), out.data_ptr(), B, T, C, snake.shape[1],
    )  # fmt: skip
    np.tanh(out.numpy(), out=out.numpy())  # in arrays, as without torch
    return out


@dataclass(frozen=True)
class Unit:
    """A residual unit: what `depthwise` makes times a weight `[C, C]`, and its bias, added to `x`.

    Attributes:
        snake, taps, dilation: as of `depthwise`.
        panels: weight and bias, where `native_product.is_available`.
    """

    snake: Tensor
    taps: Tensor
    dilation: int
    panels: Panels


class Units:
    """Residual units one behind the other, in one call.

    Each runs over a part of a row at a time, so that what is between stays in the near caches.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = units  # read by address
        assert len(units) <= MOST_UNITS, len(units)
        W = units[0].taps.shape[0] * LANES
        C = units[0].panels.out_features
        for unit in units:
            shape = unit.panels.out_features, unit.panels.in_features
            assert shape == (C, C), (shape, C)
            assert unit.panels.weight.dtype == torch.float32, unit.panels.weight.dtype
            assert unit.taps.shape[0] * LANES == W, (unit.taps.shape, W)
            assert unit.taps.is_contiguous(), unit.taps.stride()
            assert unit.snake.is_contiguous(), unit.snake.stride()
        structs = [
            UnitStruct(
                *_addresses(unit.snake),
                unit.taps.data_ptr(),
                unit.panels.as_struct(is_sum=True),
                unit.dilation,
            )
            for unit in units
        ]
        self._structs = (UnitStruct * len(units))(*structs)
        self._num_channels, self._table, self._part = C, W, max(1, PART // W) * W
        self._past = [6 * unit.dilation for unit in units]
        self._vector = units[0].panels.vector

    def __call__(self, x: Tensor, contexts: Sequence[Tensor], slots: Tensor) -> Tensor:
        """Run them.

        Args:
            x: `[B, T, C]`; the sum takes its place.
            contexts: of each unit, as of `depthwise`.
            slots: int64 `[B]`.

        Returns:
            `x`.
        """
        B, T, C = x.shape
        assert self._num_channels == C, (x.shape, self._num_channels)
        assert [context.shape[1] for context in contexts] == self._past, self._past
        for context in contexts:
            _check(x, context, slots)
        num_threads, num_cuts = unit_threads(B, T, C, cores.num_threads())
        longest = max(self._past) * C
        num_of_threads = num_threads * (longest + 2 * self._part)
        scratch = x.new_empty(B * num_cuts * longest + num_of_threads)
        addresses = (ctypes.c_void_p * len(contexts))(*(c.data_ptr() for c in contexts))
        loaded().vox_units(
            x.data_ptr(), ctypes.addressof(self._structs), ctypes.addressof(addresses),
            slots.data_ptr(), scratch.data_ptr(), parallel(), len(contexts), B, T, C, self._table,
            self._part, longest, num_cuts, self._vector, num_threads,
        )  # fmt: skip
        return x


def unit_reference(
    x: Tensor, snake: Tensor, taps: Tensor, dilation: int, weight: Tensor, bias: Tensor,
    contexts: Tensor, slots: Tensor,
) -> Tensor:  # fmt: skip
    inner = depthwise_reference(x, snake, taps, dilation, contexts, slots)
    return x + F.linear(inner, weight, bias)


def _addresses(snake: Tensor | None) -> tuple[int, int]:
    """Of the tables of scale and shift; none where there is no Snake."""
    if snake is None:
        return 0, 0
    return snake.data_ptr(), snake.data_ptr() + 4 * snake.shape[1]


def _check(x: Tensor, contexts: Tensor, slots: Tensor, **buffers: tuple[Tensor, int]) -> None:
    """What the functions rely on, so that a mistake ends here and not in memory.

    Args:
        buffers: each with the numbers that it must have room for.
    """
    for tensor in (x, contexts, *(buffer for buffer, _ in buffers.values())):
        assert tensor.dtype == torch.float32, tensor.dtype
        assert tensor.is_contiguous(), tensor.stride()
    assert slots.dtype == torch.int64, slots.dtype
    assert slots.shape == x.shape[:1], (slots.shape, x.shape)
    assert contexts.shape[2] == x.shape[2], (contexts.shape, x.shape)
    for name, (buffer, size) in buffers.items():
        assert buffer.numel() >= size, f"{name} has room for {buffer.numel()} of {size} numbers"
