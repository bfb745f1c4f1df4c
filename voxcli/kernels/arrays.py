"""The compiled kernels over numpy arrays, for a model that speaks without torch.

The same functions that `native_product.py`, `native_layers.py` and `native_vocoder.py` call over
tensors, and so the same bits; those modules say what each does, and have the references. No torch.

Letters: `B` rows, `M` rows or queries, `N` positions or columns out, `K` in, `D` width, `F`
feed-forward width, `H` query heads, `G` key/value heads, `C` head width or channels, `T` time
steps, `W` table length.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from voxcli.kernels.native import load, loaded
from voxcli.kernels.structs import (
    LANES,
    MIN_THREADED,
    MOST_UNITS,
    PART,
    Heads,
    LayerStruct,
    PanelsStruct,
    SolverStruct,
    UnitStruct,
    causal_stack_scratch,
    changing_positions,
    check_solver,
    check_stack,
    local_stack_scratch,
    num_taken,
    solver_scratch,
    table_repeats,
    unit_threads,
    whole,
)
from voxcli.layers import cores

FLOAT, HALF = np.dtype(np.float32), np.dtype(np.float16)


def is_available() -> bool:
    """Whether the kernels run here; products need AVX2."""
    library = load()
    return library is not None and library.vox_vector() > 0


@cache
def parallel() -> int | None:
    """Address of the call that runs a function in the kernels' own threads."""
    return ctypes.cast(loaded().vox_parallel, ctypes.c_void_p).value


def address(array: np.ndarray | None) -> int:
    if array is None:
        return 0
    place: int = array.__array_interface__["data"][0]
    return place


def empty(*shape: int) -> np.ndarray:
    return np.empty(shape, FLOAT)


def _row_addresses(array: np.ndarray) -> np.ndarray:
    return np.arange(len(array)) * array.strides[0] + address(array)


# ---------------------------------------------------------------- products


@dataclass(frozen=True)
class Matrix:
    """A weight as a checkpoint has it.

    Attributes:
        values: `[N, K]`, each row's numbers beside each other: fp16, fp32, or int8 with a scale.
        scale: float32 `[N]`, of int8 alone; the product is rounded to fp16.
    """

    values: np.ndarray
    scale: np.ndarray | None = None


class Product(Protocol):
    """A weight in panels, as layers and solvers take it: `Linear`, and `Panels` of tensors."""

    @property
    def vector(self) -> int: ...
    @property
    def out_features(self) -> int: ...
    @property
    def in_features(self) -> int: ...
    def as_struct(self) -> PanelsStruct: ...


class Linear:
    """A product with a weight in panels, as `native_panels.h` reads them.

    Args:
        weight: in panels; `of_rows` and `upsampling` make them.
        bias: `[N]`, or None.
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray | None, N: int, K: int) -> None:
        self.out_features, self.in_features = N, K
        self.is_half = weight.dtype == HALF
        self.vector = loaded().vox_vector()
        self.weight = weight
        missing = -N % self.vector
        self.bias = None if bias is None else np.pad(bias.astype(FLOAT, copy=False), (0, missing))
        self._addresses = address(self.weight), address(self.bias)

    @classmethod
    def of_rows(
        cls, parts: Sequence[Matrix], bias: np.ndarray | None = None,
        order: np.ndarray | None = None,
    ) -> Linear:  # fmt: skip
        """Of matrices of one dtype, one below the other; panels are fp32 where it is, else fp16.

        Args:
            order: in which the rows are taken; None for their own.
        """
        N = sum(len(part.values) for part in parts)
        first = parts[0].values
        K, dtype = first.shape[1], first.dtype
        assert dtype in (np.int8, HALF, FLOAT), dtype
        for part in parts:
            assert part.values.dtype == dtype, (part.values.dtype, dtype)
            assert part.values.shape[1] == K, (part.values.shape, K)
            assert part.values.flags.c_contiguous, part.values.strides
            assert (part.scale is None) == (dtype != np.int8), dtype
        rows = np.concatenate([_row_addresses(part.values) for part in parts])
        scales = [part.scale for part in parts if part.scale is not None]
        scale = np.concatenate(scales) if scales else None
        if order is not None:
            rows, scale = rows[order], None if scale is None else scale[order]
        assert scale is None or scale.dtype == FLOAT, scale.dtype
        vector = loaded().vox_vector()
        weight = np.empty((N + -N % vector) * K, FLOAT if dtype == FLOAT else HALF)
        loaded().vox_pack(
            address(rows), address(scale), address(weight), N, K, first.itemsize, vector
        )
        return cls(weight, bias, N, K)

    def as_struct(self, *, is_sum: bool = False) -> PanelsStruct:
        """As C reads it.

        Args:
            is_sum: the product is added to what it is written to.
        """
        return PanelsStruct(
            *self._addresses, self.out_features, self.in_features, self.is_half, is_sum
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """`[..., K] -> [..., N]`."""
        N, K = self.out_features, self.in_features
        M = x.size // K
        _check(x)
        assert x.shape[-1] == K, (x.shape, K)
        y = empty(*x.shape[:-1], N)
        num_threads = cores.num_threads() if M * N * K >= MIN_THREADED else 1
        loaded().vox_product(
            address(x), *self._addresses, address(y), parallel(), M, N, K, self.is_half,
            self.vector, num_threads,
        )  # fmt: skip
        return y


# ---------------------------------------------------------------- layers


def norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """`x / sqrt(mean(x^2) + eps) * weight`; `[..., D]`."""
    _check(x, weight)
    out = np.empty_like(x)
    D = x.shape[-1]
    assert weight.shape == (D,), (weight.shape, x.shape)
    loaded().vox_norm(address(x), 0, address(weight), address(out), 1.0, eps, x.size // D, D)
    return out


@dataclass(frozen=True)
class Places:
    """Where rows go: int64 `[B]`, each a slot and a position that are there."""

    slots: np.ndarray
    positions: np.ndarray


class Layer:
    """A whole layer in one call, its rows shared out to threads; see `native_layers.Layer`.

    Attributes:
        struct: as C reads it.
    """

    def __init__(
        self, products: tuple[Product, Product, Product, Product],
        norms: tuple[np.ndarray, np.ndarray, np.ndarray], rotation: np.ndarray | None,
        heads: Heads, *, residual_scale: float, eps: float,
    ) -> None:  # fmt: skip
        qkv, output, gate_up, down = products
        self._kept = products, norms, rotation  # read by address
        self._heads = heads
        self.vector = qkv.vector
        self._width, self._hidden = output.out_features, down.in_features
        self._num_rotations = None if rotation is None else len(rotation)
        _check(*norms)
        assert all(len(norm) == self._width for norm in norms), [norm.shape for norm in norms]
        assert qkv.out_features == heads.width, (qkv.out_features, heads)
        assert gate_up.out_features == 2 * self._hidden, (gate_up.out_features, self._hidden)
        self.struct = LayerStruct(
            *(product.as_struct() for product in products),
            *(address(norm) for norm in norms), address(rotation), self._width, self._hidden,
            heads.num_heads, heads.num_kv_heads, heads.head_dim, heads.scale, residual_scale, eps,
        )  # fmt: skip

    def local(
        self, x: np.ndarray, normed: np.ndarray | None, keep: slice,
        known: np.ndarray | None = None, changed: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Over all positions of each row, of which `keep` are read behind it."""
        B, N, D = x.shape
        first, stop, _ = keep.indices(N)
        M = stop - first
        heads = self._heads
        assert (normed is None) != (known is None)
        self.check_local(x, normed, known, changed)
        sums, out = empty(B, M, D), empty(B, M, D)
        num_threads = cores.num_threads()
        taken = max(1, num_taken(B * N, num_threads) // N)
        size = taken * N * self._scratch + whole(N) * (heads.head_dim + M * heads.group)
        scratch = empty(num_threads * size)
        loaded().vox_local_layer(
            ctypes.addressof(self.struct), address(x), address(normed), address(known),
            address(changed), address(sums), address(out), address(scratch), parallel(),
            B, N, 0 if changed is None else len(changed), first, M, taken, size, self.vector,
            num_threads,
        )  # fmt: skip
        return sums, out

    def causal(
        self, x: np.ndarray, normed: np.ndarray, keys: np.ndarray, values: np.ndarray,
        places: Places, kept: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Over one position of each row, of which those `kept` are read behind it; None for all."""
        B, D = x.shape
        heads = self._heads
        N = keys.shape[2]
        self.check_causal(x, keys, values, places)
        _check(normed)
        assert normed.shape == x.shape, (normed.shape, x.shape)
        assert kept is None or kept.dtype == np.int64, kept.dtype
        E = B if kept is None else len(kept)
        qkv, sums, out = empty(B, heads.width), empty(E, D), empty(E, D)
        num_threads = cores.num_threads()
        taken = num_taken(B, num_threads)
        size = taken * (self._scratch + D) + whole(N)
        scratch = empty(num_threads * size)
        loaded().vox_causal_layer(
            ctypes.addressof(self.struct), address(x), address(normed), address(keys),
            address(values), address(places.slots), address(places.positions), address(kept),
            address(qkv), address(sums), address(out), address(scratch), parallel(),
            B, N, E, taken, size, self.vector, num_threads,
        )  # fmt: skip
        return sums, out

    def check_local(
        self, x: np.ndarray, normed: np.ndarray | None, known: np.ndarray | None,
        changed: np.ndarray | None,
    ) -> None:  # fmt: skip
        """What a call over all positions of each row relies on."""
        B, N, D = x.shape
        _check(x, *(array for array in (normed, known) if array is not None))
        assert normed is None or normed.shape == x.shape, (normed.shape, x.shape)
        assert known is None or known.shape == (B, N, self._heads.width), (known.shape, self._heads)
        assert changed is None or changed.dtype == np.int64, changed.dtype
        assert self._width == D, (self._width, x.shape)
        assert self._num_rotations is None or self._num_rotations >= N, (self._num_rotations, N)

    def check_causal(
        self, x: np.ndarray, keys: np.ndarray, values: np.ndarray, places: Places
    ) -> None:
        """What a call over one position of each row relies on."""
        B, D = x.shape
        N = keys.shape[2]
        _check(x, keys, values)
        _check_cache(keys, values, places, self._heads)
        assert len(places.slots) == len(places.positions) == B, (places, B)
        assert self._width == D, (self._width, x.shape)
        assert self._num_rotations is None or self._num_rotations >= N, (self._num_rotations, N)

    @property
    def _scratch(self) -> int:
        """Numbers of a position, as `native_layers.c` says."""
        heads, D, F = self._heads, self._width, self._hidden
        attended = heads.num_heads * heads.head_dim
        num: int = heads.width + attended + max(2 * D + 3 * F, D + heads.width)
        return num


class Stack:
    """Layers of one size in one call, their products shared out; see `native_layers.LayerStack`.

    Attributes:
        structs: as C reads them.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers  # read by address
        self.structs = (LayerStruct * len(layers))(*(layer.struct for layer in layers))
        check_stack(self.structs)

    def local(
        self, x: np.ndarray, keep: slice, known: np.ndarray | None = None,
        changed: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Over all positions of each row, normed; `[B, N, D] -> [B, len(keep), D]`."""
        B, N, D = x.shape
        first, stop, _ = keep.indices(N)
        layer = self._layers[0]
        layer.check_local(x, None, known, changed)
        out = empty(B, stop - first, D)
        scratch = empty(local_stack_scratch(layer.struct, B, N))
        loaded().vox_local_stack(
            ctypes.addressof(self.structs), address(x), address(known), address(changed),
            address(out), address(scratch), parallel(), len(self._layers), B, N,
            0 if changed is None else len(changed), first, stop - first, layer.vector,
            cores.num_threads(),
        )  # fmt: skip
        return out

    def causal(
        self, x: np.ndarray, keys: np.ndarray, values: np.ndarray, places: Places
    ) -> np.ndarray:
        """Over one position of each row, normed; `[B, D] -> [B, D]`.

        Args:
            keys, values: of each layer those of `decode_attention`.
        """
        layer = self._layers[0]
        layer.check_causal(x, keys[0], values[0], places)
        _check(keys, values)
        num_threads = cores.num_threads()
        out = np.empty_like(x)
        scratch = empty(causal_stack_scratch(layer.struct, len(x), keys.shape[3], num_threads))
        loaded().vox_causal_stack(
            ctypes.addressof(self.structs), address(x), address(keys), address(values),
            address(places.slots), address(places.positions), address(out), address(scratch),
            parallel(), len(self._layers), len(x), keys.shape[3], keys[0].size, layer.vector,
            num_threads,
        )  # fmt: skip
        return out


class Solver:
    """LocDiT's Euler steps in one call, without guidance; see `native_layers.Solver`."""

    def __init__(self, layers: Stack, products: tuple[Product, Product, Product]) -> None:
        self._products, self._layers = products, layers  # read by address
        self._struct = SolverStruct(*(product.as_struct() for product in products))
        check_solver(self._struct, layers.structs[0])

    def __call__(
        self, noise: np.ndarray, mu: np.ndarray, cond: np.ndarray, times: np.ndarray,
        sizes: Sequence[float],
    ) -> np.ndarray:  # fmt: skip
        """`[B, P, D]` from noise to a patch."""
        B, P, D = noise.shape
        fixed, W = mu.shape[1:]
        _check(noise, mu, cond, times)
        assert cond.shape == noise.shape, (cond.shape, noise.shape)
        assert mu.shape == (B, fixed, self._struct.in_proj.N), (mu.shape, noise.shape)
        assert self._struct.in_proj.K == D, (self._struct.in_proj.K, noise.shape)
        assert times.shape == (len(sizes), W), (times.shape, mu.shape)
        layer, layers = self._layers.structs[0], self._layers
        changed, moves = changing_positions(fixed, P), (ctypes.c_float * len(sizes))(*sizes)
        out = np.empty_like(noise)
        scratch = empty(solver_scratch(self._struct, layer, B, P, fixed))
        loaded().vox_solve(
            ctypes.addressof(self._struct), ctypes.addressof(layers.structs), address(noise),
            address(mu), address(cond), address(times),
            ctypes.addressof(moves), ctypes.addressof(changed),
            address(out), address(scratch), parallel(), len(layers.structs), B, P, fixed,
            len(changed), len(sizes), self._products[0].vector, cores.num_threads(),
        )  # fmt: skip
        return out


# ---------------------------------------------------------------- the vocoder


def table(values: np.ndarray) -> np.ndarray:
    """`[..., C] -> [..., W]`: repeated, so that few channels fill vectors too."""
    repeats = table_repeats(values.shape[-1])
    return np.tile(values, repeats).astype(FLOAT, copy=False)


def folded(direction: np.ndarray, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A convolution's weight, which is its direction times its gain by its norm, and that norm.

    It is over all but the first axis; in double precision the order of its sum does not show.

    Args:
        direction: float16 `[N, ...]`.
        gain: float32 `[N]`.

    Returns:
        float32 `[N, ...]` and `[N]`, which is finite where the direction is.
    """
    assert direction.dtype == HALF, direction.dtype
    assert direction.flags.c_contiguous, direction.strides
    N = len(direction)
    assert gain.shape == (N,), (gain.shape, direction.shape)
    out, norm = empty(*direction.shape), empty(N)
    loaded().vox_fold(
        address(direction), address(gain), address(norm), address(out), N, direction.size // N
    )
    return out, norm


def upsampling(
    direction: np.ndarray, gain: np.ndarray, alpha: np.ndarray, bias: np.ndarray
) -> tuple[Linear, np.ndarray]:
    """A transposed convolution as a product over pairs of time steps, and its norm as above.

    Args:
        direction: float16 `[C, D, 2 s]`.
        gain, alpha: float32 `[C]`; alpha is divided by.
        bias: float32 `[D]`.

    Returns:
        a product whose column `(j, d)` is channel `d` of the j-th of `s` outputs, and `[C]`.
    """
    C, D, size = direction.shape
    stride = size // 2
    assert direction.dtype == HALF, direction.dtype
    assert direction.flags.c_contiguous, direction.strides
    assert gain.shape == alpha.shape == (C,), (gain.shape, alpha.shape)
    _check(gain, alpha)
    vector = loaded().vox_vector()
    N, K = stride * D, 2 * C
    weight, norm, line = empty((N + -N % vector) * K), empty(C), empty(2 * N)
    loaded().vox_fold_upsampling(
        address(direction), address(gain), address(alpha), address(norm), address(line),
        address(weight), C, D, stride, vector,
    )  # fmt: skip
    return Linear(weight, np.tile(bias, stride), N, K), norm


def filter_table(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """`[K, C]` and `[C]` to `[W / LANES, K + 1, LANES]`."""
    rows = table(np.concatenate((weight, bias[np.newaxis])))  # [K + 1, W]
    return np.ascontiguousarray(rows.reshape(len(rows), -1, LANES).swapaxes(0, 1))


def depthwise(
    x: np.ndarray, taps: np.ndarray, dilation: int, contexts: np.ndarray, slots: np.ndarray
) -> np.ndarray:
    """A causal convolution with one filter a channel, without Snake; `[B, T, C]`."""
    B, T, C = x.shape
    W, J = taps.shape[0] * LANES, contexts.shape[1]
    assert 6 * dilation == J, (dilation, J)
    out = empty(B, T, C)
    scratch = empty((J + T) * C + LANES)
    _check_vocoder(x, contexts, slots, taps, 8 * W)
    loaded().vox_depthwise(
        address(x), 0, 0, address(contexts), address(slots), address(taps), address(scratch),
        address(out), B, T, C, W, dilation,
    )  # fmt: skip
    return out


def pairs(x: np.ndarray, snake: np.ndarray, contexts: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Snake, with the time step before in front of each; `[B, T, 2 C]`.

    Args:
        snake: tables of scale and shift, `[2, W]`.
        contexts: `[slots, 1, C]`.
    """
    B, T, C = x.shape
    W = snake.shape[1]
    assert contexts.shape[1] == 1, contexts.shape
    out = empty(B, T, 2 * C)
    line = empty(W)
    _check_vocoder(x, contexts, slots, snake, 2 * W)
    loaded().vox_pairs(
        address(x), address(snake), address(snake) + 4 * W, address(contexts), address(slots),
        address(line), address(out), B, T, C, W,
    )  # fmt: skip
    return out


def last(
    x: np.ndarray, snake: np.ndarray, taps: np.ndarray, bias: float, contexts: np.ndarray,
    slots: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Snake, a causal convolution to one channel, tanh; `[B, T]`.

    Args:
        taps: `[K C]`, time step by time step, and zeros up to a multiple of `LANES`.
    """
    B, T, C = x.shape
    W = snake.shape[1]
    out = empty(B, T)
    scratch = empty((6 + T) * C + LANES + W)
    assert contexts.shape[1] == 6, contexts.shape
    _check_vocoder(x, contexts, slots, taps, whole(7 * C))
    loaded().vox_last(
        address(x), address(snake), address(snake) + 4 * W, address(contexts), address(slots),
        address(taps), bias, address(scratch), address(out), B, T, C, W,
    )  # fmt: skip
    np.tanh(out, out=out)
    return out


@dataclass(frozen=True)
class Unit:
    """A residual unit; see `native_vocoder.Unit`."""

    snake: np.ndarray
    taps: np.ndarray
    dilation: int
    product: Linear


class Units:
    """Residual units one behind the other, in one call; see `native_vocoder.Units`."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = units  # read by address
        assert len(units) <= MOST_UNITS, len(units)
        W = units[0].taps.shape[0] * LANES
        C = units[0].product.out_features
        for unit in units:
            shape = unit.product.out_features, unit.product.in_features
            assert shape == (C, C), (shape, C)
            assert not unit.product.is_half
            assert unit.taps.shape[0] * LANES == W, (unit.taps.shape, W)
            _check(unit.taps, unit.snake)
        structs = [
            UnitStruct(
                address(unit.snake), address(unit.snake) + 4 * W, address(unit.taps),
                unit.product.as_struct(is_sum=True), unit.dilation,
            )
            for unit in units
        ]  # fmt: skip
        self._structs = (UnitStruct * len(units))(*structs)
        self._num_channels, self._table, self._part = C, W, max(1, PART // W) * W
        self._past = [6 * unit.dilation for unit in units]
        self._vector = units[0].product.vector

    def __call__(
        self, x: np.ndarray, contexts: Sequence[np.ndarray], slots: np.ndarray
    ) -> np.ndarray:
        """Run them on `[B, T, C]`, which the sum takes the place of."""
        B, T, C = x.shape
        assert self._num_channels == C, (x.shape, self._num_channels)
        assert [context.shape[1] for context in contexts] == self._past, self._past
        for context in contexts:
            _check_vocoder(x, context, slots, x, 0)
        num_threads, num_cuts = unit_threads(B, T, C, cores.num_threads())
        longest = max(self._past) * C
        scratch = empty(B * num_cuts * longest + num_threads * (longest + 2 * self._part))
        addresses = (ctypes.c_void_p * len(contexts))(*map(address, contexts))
        loaded().vox_units(
            address(x), ctypes.addressof(self._structs), ctypes.addressof(addresses),
            address(slots), address(scratch), parallel(), len(contexts), B, T, C, self._table,
            self._part, longest, num_cuts, self._vector, num_threads,
        )  # fmt: skip
        return x


# ---------------------------------------------------------------- checks


def _check(*arrays: np.ndarray) -> None:
    """What the functions rely on, so that a mistake ends here and not in memory."""
    for array in arrays:
        assert array.dtype == FLOAT, array.dtype
        assert array.flags.c_contiguous, array.strides


def _check_cache(keys: np.ndarray, values: np.ndarray, places: Places, heads: Heads) -> None:
    assert keys.shape == values.shape, (keys.shape, values.shape)
    assert keys.shape[1] == heads.num_kv_heads, (keys.shape, heads)
    assert keys.shape[3] == heads.head_dim, (keys.shape, heads)
    for numbers in (places.slots, places.positions):
        assert numbers.dtype == np.int64, numbers.dtype
        assert numbers.flags.c_contiguous, numbers.strides


def _check_vocoder(
    x: np.ndarray, contexts: np.ndarray, slots: np.ndarray, constants: np.ndarray, size: int
) -> None:
    """The same.

    Args:
        constants: of which so many numbers are read.
    """
    _check(x, contexts, constants)
    assert slots.dtype == np.int64, slots.dtype
    assert slots.shape == x.shape[:1], (slots.shape, x.shape)
    assert contexts.shape[2] == x.shape[2], (contexts.shape, x.shape)
    assert constants.size >= size, (constants.shape, size)
