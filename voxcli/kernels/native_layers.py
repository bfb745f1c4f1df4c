"""What stands between a transformer layer's products on a CPU, each beside its torch reference.

A call takes the place of five to fifteen torch calls, whose dispatch cost more than their work. A
row's bits depend on nothing but that row.

Letters: `B` rows, `M` rows or queries, `N` positions, `D` width, `F` feed-forward width, `H` query
heads, `G` key/value heads, `C` head width.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.kernels.native import loaded
from voxcli.kernels.native_product import Panels, parallel
from voxcli.kernels.structs import (
    Heads,
    LayerStruct,
    SolverStruct,
    causal_stack_scratch,
    changing_positions,
    check_solver,
    check_stack,
    local_stack_scratch,
    solver_scratch,
    whole,
)
from voxcli.kernels.structs import num_taken as taken_at_once
from voxcli.layers import cores
from voxcli.layers.rope import rotate_


def norm_reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`x / sqrt(mean(x^2) + eps) * weight`; `[..., D]`."""
    _check(x, weight)
    out = torch.empty_like(x)
    library = loaded()
    D = x.shape[-1]
    assert weight.shape == (D,), (weight.shape, x.shape)
    library.vox_norm(
        x.data_ptr(), 0, weight.data_ptr(), out.data_ptr(), 1.0, eps, x.numel() // D, D
    )
    return out


def add_norm_reference(
    x: Tensor, y: Tensor, scale: float, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    total = x + scale * y
    return total, norm_reference(total, weight, eps)


def add_norm(
    x: Tensor, y: Tensor, scale: float, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """`x + scale * y`, written over `y`, and its norm; `[..., D]` each."""
    _check(x, y, weight)
    out = torch.empty_like(y)
    library = loaded()
    D = y.shape[-1]
    assert weight.shape == (D,), (weight.shape, y.shape)
    assert x.shape == y.shape, (x.shape, y.shape)
    library.vox_norm(
        x.data_ptr(), y.data_ptr(), weight.data_ptr(), out.data_ptr(), scale, eps,
        y.numel() // D, D,
    )  # fmt: skip
    return y, out


def swiglu_reference(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def swiglu(x: Tensor) -> Tensor:
    """`silu(gate) * up` of both side by side; `[..., 2 F] -> [..., F]`."""
    _check(x)
    width = x.shape[-1] // 2
    out = x.new_empty(*x.shape[:-1], width)
    library = loaded()
    library.vox_swiglu(x.data_ptr(), out.data_ptr(), out.numel() // width, width)
    return out


def _split(qkv: Tensor, rotation: Tensor | None, heads: Heads) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries `[..., H, C]`, rotated keys and values `[..., G, C]`."""
    H, G = heads.num_heads, heads.num_kv_heads
    parts = qkv.clone().unflatten(-1, (-1, heads.head_dim))
    if rotation is not None:
        rotate_(parts[..., : H + G, :], rotation)
    queries, keys, values = parts.split((H, G, G), dim=-2)
    return queries, keys, values


def local_attention_reference(
    qkv: Tensor, rotation: Tensor | None, heads: Heads, keep: slice
) -> Tensor:
    q, k, v = (part.transpose(1, 2) for part in _split(qkv, rotation, heads))
    k, v = (part.repeat_interleave(heads.group, dim=1) for part in (k, v))
    mixed = F.scaled_dot_product_attention(q[:, :, keep], k, v, scale=heads.scale)
    return mixed.transpose(1, 2).flatten(2)


def local_attention(qkv: Tensor, rotation: Tensor | None, heads: Heads, keep: slice) -> Tensor:
    """Attention without a mask over the few positions of a row.

    Args:
        qkv: `[B, N, (H + 2 G) C]`; queries and keys are rotated in place.
        rotation: complex64 `[N, 1, C / 2]`, or None.
        keep: positions whose queries are asked.

    Returns:
        `[B, len(keep), H C]`.
    """
    B, N, width = qkv.shape
    C = heads.head_dim
    _check(qkv)
    assert width == heads.width, (width, heads)
    assert rotation is None or rotation.shape == (N, 1, C // 2), rotation.shape
    first, stop, _ = keep.indices(N)
    M = stop - first
    W = whole(N)
    scratch = qkv.new_empty((C + M * heads.group) * W)
    out = qkv.new_empty(B, M, heads.num_heads * C)
    library = loaded()
    keys = scratch.data_ptr()
    library.vox_local_attention(
        qkv.data_ptr(), _address(rotation), keys, keys + 4 * C * W, out.data_ptr(), heads.scale,
        B, N, first, M, heads.num_heads, heads.num_kv_heads, C,
    )  # fmt: skip
    return out


def decode_attention_reference(
    qkv: Tensor, rotation: Tensor | None, heads: Heads, keys: Tensor, values: Tensor,
    slots: Tensor, positions: Tensor,
) -> Tensor:  # fmt: skip
    own = None if rotation is None else rotation[positions]
    q, k, v = _split(qkv, own, heads)
    keys[slots, :, positions] = k
    values[slots, :, positions] = v
    rows = []
    for query, slot, position in zip(q, slots.tolist(), positions.tolist(), strict=True):
        past_k, past_v = (
            cache[slot, :, : position + 1].repeat_interleave(heads.group, dim=0)
            for cache in (keys, values)
        )  # [H, N, C] each
        query = query.unsqueeze(1)
        mixed = F.scaled_dot_product_attention(query, past_k, past_v, scale=heads.scale)
        rows.append(mixed.flatten())
    return torch.stack(rows)


def decode_attention(
    qkv: Tensor, rotation: Tensor | None, heads: Heads, keys: Tensor, values: Tensor,
    slots: Tensor, positions: Tensor, out: Tensor,
) -> None:  # fmt: skip
    """Attention of one position a row over its slot, which takes its key and value first.

    Args:
        qkv: `[rows, (H + 2 G) C]`, of which the first `B` are read and rotated in place.
        rotation: complex64 `[positions, 1, C / 2]`, or None.
        keys, values: `[slots, G, N, C]`.
        slots, positions: int64 `[B]`, each of a slot and a position that are there.
        out: `[rows, H C]`, of which the first `B` are written.
    """
    B = len(slots)
    _, G, N, C = keys.shape
    _check(qkv, keys, values, out)
    _check_cache(keys, values, slots, positions, heads)
    assert qkv.shape[1] == heads.width, (qkv.shape, heads)
    assert min(len(qkv), len(out), len(positions)) >= B, (qkv.shape, out.shape, B)
    assert out.shape[1] == heads.num_heads * C, (out.shape, heads)
    scores = qkv.new_empty(whole(N))
    library = loaded()
    library.vox_decode_attention(
        qkv.data_ptr(), _address(rotation), keys.data_ptr(), values.data_ptr(), slots.data_ptr(),
        positions.data_ptr(), scores.data_ptr(), out.data_ptr(), heads.scale,
        B, N, heads.num_heads, G, C,
    )  # fmt: skip


class Layer:
    """A whole layer in one call, whose rows are shared out to threads.

    Args:
        products: to queries, keys and values, of what attention gives, to gate and up, and down.
        norms: before attention, before the feed-forward half, and of what comes behind; `[D]`.
        rotation: complex64 `[positions, 1, C / 2]`, or None.
        residual_scale: of what attention and feed-forward add.

    Attributes:
        struct: as C reads it.
    """

    def __init__(
        self, products: tuple[Panels, Panels, Panels, Panels],
        norms: tuple[Tensor, Tensor, Tensor], rotation: Tensor | None, heads: Heads, *,
        residual_scale: float, eps: float,
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
            *(panels.as_struct() for panels in products),
            *(norm.data_ptr() for norm in norms), _address(rotation), self._width, self._hidden,
            heads.num_heads, heads.num_kv_heads, heads.head_dim, heads.scale, residual_scale, eps,
        )  # fmt: skip

    def local(
        self, x: Tensor, normed: Tensor | None, keep: slice, known: Tensor | None = None,
        changed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Over all positions of each row at once.

        Args:
            x: `[B, N, D]`.
            normed: its norm; None where `known` is given.
            keep: positions that are read behind it.
            known: `[B, N, (H + 2 G) C]`, queries, keys and values of the last call, which this one
                brings up to date.
            changed: int64, the positions that differ from those of the last call; None for all.

        Returns:
            what is read behind the layer and the next norm of it, `[B, M, D]` each.
        """
        B, N, D = x.shape
        first, stop, _ = keep.indices(N)
        M = stop - first
        heads = self._heads
        assert (normed is None) != (known is None)
        self.check_local(x, normed, known, changed)
        sums, out = x.new_empty(B, M, D), x.new_empty(B, M, D)
        num_threads = cores.num_threads()
        num_taken = max(1, taken_at_once(B * N, num_threads) // N)
        size = num_taken * N * self._scratch + whole(N) * (heads.head_dim + M * heads.group)
        scratch = x.new_empty(num_threads * size)
        loaded().vox_local_layer(
            ctypes.addressof(self.struct), x.data_ptr(), _address(normed), _address(known),
            _address(changed), sums.data_ptr(), out.data_ptr(), scratch.data_ptr(), parallel(),
            B, N, 0 if changed is None else len(changed), first, M, num_taken, size, self.vector,
            num_threads,
        )  # fmt: skip
        return sums, out

    def causal(
        self, x: Tensor, normed: Tensor, keys: Tensor, values: Tensor, slots: Tensor,
        positions: Tensor, kept: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Over one position of each row; of rows of one slot each sees those in front of it.

        Args:
            x, normed: `[B, D]`.
            keys, values, slots, positions: as of `decode_attention`.
            kept: int64 `[E]`, the rows that are read behind it; None for all.

        Returns:
            what is read behind the layer and the next norm of it, `[E, D]` each.
        """
        B, D = x.shape
        heads = self._heads
        N = keys.shape[2]
        self.check_causal(x, keys, values, slots, positions)
        _check(normed)
        assert normed.shape == x.shape, (normed.shape, x.shape)
        assert kept is None or kept.dtype == torch.int64, kept.dtype
        E = B if kept is None else len(kept)
        qkv, sums, out = x.new_empty(B, heads.width), x.new_empty(E, D), x.new_empty(E, D)
        num_threads = cores.num_threads()
        num_taken = taken_at_once(B, num_threads)
        size = num_taken * (self._scratch + D) + whole(N)
        scratch = x.new_empty(num_threads * size)
        loaded().vox_causal_layer(
            ctypes.addressof(self.struct), x.data_ptr(), normed.data_ptr(), keys.data_ptr(),
            values.data_ptr(), slots.data_ptr(), positions.data_ptr(), _address(kept),
            qkv.data_ptr(), sums.data_ptr(), out.data_ptr(), scratch.data_ptr(), parallel(),
            B, N, E, num_taken, size, self.vector, num_threads,
        )  # fmt: skip
        return sums, out

    def check_local(
        self, x: Tensor, normed: Tensor | None, known: Tensor | None, changed: Tensor | None
    ) -> None:
        """What a call over all positions of each row relies on."""
        B, N, D = x.shape
        _check(x, *(tensor for tensor in (normed, known) if tensor is not None))
        assert normed is None or normed.shape == x.shape, (normed.shape, x.shape)
        assert known is None or known.shape == (B, N, self._heads.width), (known.shape, self._heads)
        assert changed is None or changed.dtype == torch.int64, changed.dtype
        assert self._width == D, (self._width, x.shape)
        assert self._num_rotations is None or self._num_rotations >= N, (self._num_rotations, N)

    def check_causal(
        self, x: Tensor, keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor
    ) -> None:
        """What a call over one position of each row relies on."""
        B, D = x.shape
        N = keys.shape[2]
        _check(x, keys, values)
        _check_cache(keys, values, slots, positions, self._heads)
        assert len(slots) == len(positions) == B, (slots.shape, positions.shape, B)
        assert self._width == D, (self._width, x.shape)
        assert self._num_rotations is None or self._num_rotations >= N, (self._num_rotations, N)

    @property
    def _scratch(self) -> int:
        """Numbers of a position, as `native_layers.c` says."""
        heads, D, F = self._heads, self._width, self._hidden
        attended = heads.num_heads * heads.head_dim
        return heads.width + attended + max(2 * D + 3 * F, D + heads.width)


class LayerStack:
    """Layers of one size in one call, which shares their products out to threads.

    Args:
        layers: each with the norm of the next one.

    Attributes:
        structs: as C reads them.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers  # read by address
        self.structs = (LayerStruct * len(layers))(*(layer.struct for layer in layers))
        check_stack(self.structs)

    def local(
        self, x: Tensor, keep: slice, known: Tensor | None = None, changed: Tensor | None = None
    ) -> Tensor:
        """Over all positions of each row.

        Args:
            x: `[B, N, D]`.
            keep: positions that are read behind the last layer.
            known, changed: of the first layer, as of `Layer.local`.

        Returns:
            `[B, len(keep), D]`, normed.
        """
        B, N, D = x.shape
        first, stop, _ = keep.indices(N)
        layer = self._layers[0]
        layer.check_local(x, None, known, changed)
        out = x.new_empty(B, stop - first, D)
        scratch = x.new_empty(local_stack_scratch(layer.struct, B, N))
        loaded().vox_local_stack(
            ctypes.addressof(self.structs), x.data_ptr(), _address(known), _address(changed),
            out.data_ptr(), scratch.data_ptr(), parallel(), len(self._layers), B, N,
            0 if changed is None else len(changed), first, stop - first, layer.vector,
            cores.num_threads(),
        )  # fmt: skip
        return out

    def causal(
        self, x: Tensor, keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor
    ) -> Tensor:
        """Over one position of each row; of rows of one slot each sees those in front of it.

        Args:
            x: `[B, D]`.
            keys, values: `[L, slots, G, N, C]`.
            slots, positions: as of `decode_attention`.

        Returns:
            `[B, D]`, normed.
        """
        layer = self._layers[0]
        layer.check_causal(x, keys[0], values[0], slots, positions)
        _check(keys, values)
        N, num_threads = keys.shape[3], cores.num_threads()
        out = torch.empty_like(x)
        scratch = x.new_empty(causal_stack_scratch(layer.struct, len(x), N, num_threads))
        loaded().vox_causal_stack(
            ctypes.addressof(self.structs), x.data_ptr(), keys.data_ptr(), values.data_ptr(),
            slots.data_ptr(), positions.data_ptr(), out.data_ptr(), scratch.data_ptr(), parallel(),
            len(self._layers), len(x), N, keys[0].numel(), layer.vector, num_threads,
        )  # fmt: skip
        return out


class Solver:
    """LocDiT's Euler steps in one call, without guidance.

    Args:
        layers: of LocDiT.
        products: of x and the condition to tokens, and of tokens to a velocity.
    """

    def __init__(self, layers: LayerStack, products: tuple[Panels, Panels, Panels]) -> None:
        self._products, self._layers = products, layers  # read by address
        self._struct = SolverStruct(*(panels.as_struct() for panels in products))
        check_solver(self._struct, layers.structs[0])

    def __call__(
        self, noise: Tensor, mu: Tensor, cond: Tensor, times: Tensor, sizes: Sequence[float]
    ) -> Tensor:
        """Integrate from noise to a patch.

        Args:
            noise, cond: `[B, P, D]`.
            mu: `[B, fixed, W]`.
            times: `[steps, W]`, the time token of each step.
            sizes: how far each step moves against the velocity.

        Returns:
            `[B, P, D]`.
        """
        B, P, D = noise.shape
        fixed, W = mu.shape[1:]
        _check(noise, mu, cond, times)
        assert cond.shape == noise.shape, (cond.shape, noise.shape)
        assert mu.shape == (B, fixed, self._struct.in_proj.N), (mu.shape, noise.shape)
        assert self._struct.in_proj.K == D, (self._struct.in_proj.K, noise.shape)
        assert times.shape == (len(sizes), W), (times.shape, mu.shape)
        layer, layers = self._layers.structs[0], self._layers
        changed, moves = changing_positions(fixed, P), (ctypes.c_float * len(sizes))(*sizes)
        out = torch.empty_like(noise)
        scratch = noise.new_empty(solver_scratch(self._struct, layer, B, P, fixed))
        loaded().vox_solve(
            ctypes.addressof(self._struct), ctypes.addressof(layers.structs), noise.data_ptr(),
            mu.data_ptr(), cond.data_ptr(), times.data_ptr(),
            ctypes.addressof(moves), ctypes.addressof(changed),
            out.data_ptr(), scratch.data_ptr(), parallel(), len(layers.structs), B, P, fixed,
            len(changed), len(sizes), self._products[0].vector, cores.num_threads(),
        )  # fmt: skip
        return out


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _check(*tensors: Tensor) -> None:
    """What the functions rely on, so that a mistake ends here and not in memory."""
    for tensor in tensors:
        assert tensor.dtype == torch.float32, tensor.dtype
        assert tensor.is_contiguous(), tensor.stride()


def _check_cache(
    keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, heads: Heads
) -> None:
    assert keys.shape == values.shape, (keys.shape, values.shape)
    assert keys.shape[1] == heads.num_kv_heads, (keys.shape, heads)
    assert keys.shape[3] == heads.head_dim, (keys.shape, heads)
    assert slots.dtype == positions.dtype == torch.int64, (slots.dtype, positions.dtype)
