"""What stands between a transformer layer's products on a CPU, each beside its torch reference.

A call takes the place of five to fifteen torch calls, whose dispatch cost more than their work. A
row's bits depend on nothing but that row.

Letters: `B` rows, `M` rows or queries, `N` positions, `D` width, `F` feed-forward width, `H` query
heads, `G` key/value heads, `C` head width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.kernels import arrays
from voxcli.kernels.native import loaded
from voxcli.kernels.native_product import Panels
from voxcli.kernels.structs import Heads, whole
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
        over_arrays: the same layer; tensors on a CPU are arrays without a copy.
    """

    def __init__(
        self, products: tuple[Panels, Panels, Panels, Panels],
        norms: tuple[Tensor, Tensor, Tensor], rotation: Tensor | None, heads: Heads, *,
        residual_scale: float, eps: float,
    ) -> None:  # fmt: skip
        before, between, behind = (norm.numpy() for norm in norms)
        self.over_arrays = arrays.Layer(
            products, (before, between, behind), _array(rotation), heads,
            residual_scale=residual_scale, eps=eps,
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
        sums, out = self.over_arrays.local(
            x.numpy(), _array(normed), keep, _array(known), _array(changed)
        )
        return torch.from_numpy(sums), torch.from_numpy(out)

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
        places = arrays.Places(slots.numpy(), positions.numpy())
        sums, out = self.over_arrays.causal(
            x.numpy(), normed.numpy(), keys.numpy(), values.numpy(), places, _array(kept)
        )
        return torch.from_numpy(sums), torch.from_numpy(out)


class LayerStack:
    """Layers of one size in one call, which shares their products out to threads.

    Args:
        layers: each with the norm of the next one.

    Attributes:
        over_arrays: the same, as of `Layer`.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.over_arrays = arrays.Stack([layer.over_arrays for layer in layers])

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
        return torch.from_numpy(
            self.over_arrays.local(x.numpy(), keep, _array(known), _array(changed))
        )

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
        places = arrays.Places(slots.numpy(), positions.numpy())
        return torch.from_numpy(
            self.over_arrays.causal(x.numpy(), keys.numpy(), values.numpy(), places)
        )


class Solver:
    """LocDiT's Euler steps in one call, without guidance.

    Args:
        layers: of LocDiT.
        products: of x and the condition to tokens, and of tokens to a velocity.
    """

    def __init__(self, layers: LayerStack, products: tuple[Panels, Panels, Panels]) -> None:
        self._over_arrays = arrays.Solver(layers.over_arrays, products)

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
        return torch.from_numpy(
            self._over_arrays(noise.numpy(), mu.numpy(), cond.numpy(), times.numpy(), sizes)
        )


def _array(tensor: Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.numpy()


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
