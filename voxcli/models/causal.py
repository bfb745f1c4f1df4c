"""Causal transformer layers over slots, of whatever family.

A family says what a block projects to and how it finishes; here is how positions are cached and
attended to. `CausalLayers` keeps a key/value row for every slot and runs prompts or one position of
each running request. Knows no tokens, no audio and no requests.

On CPU the host's rows attend one by one, each over its own length: no padding is computed, and a
row's bits do not depend on its neighbours. Elsewhere slots and positions are tensors and attention
is masked, so that a step asks nothing of the host.

Letters: `B` rows, `N` positions, `D` width, `H` query heads, `G` key/value heads, `C` head width,
`F` inner width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.layers.attention import attend, attend_slots, attend_tiles
from voxcli.layers.fp8 import Fp8Linear
from voxcli.layers.linear import Linear
from voxcli.layers.norm import rms_norm
from voxcli.models.data import HostRow, PackedSpans, Rows
from voxcli.models.kv_cache import KVCache, Past

Span = tuple[int, int, int]  # slot, first position and length


def ends_of(spans: Sequence[Span]) -> list[int]:
    """Rows of the last positions of spans that lie one behind the other."""
    return [end - 1 for end in accumulate(length for _, _, length in spans)]


@dataclass
class Block:
    """Weights of one layer.

    Attributes:
        head_norm: `[H + G, C]`, of each query head and each key head, or None.
    """

    input_norm: Tensor  # [D]
    qkv: Linear | Fp8Linear  # D -> (H + 2 G) C, queries first
    output: Linear | Fp8Linear  # H C -> D
    mlp_norm: Tensor  # [D]
    gate_up: Linear | Fp8Linear  # D -> 2 F, gate first
    down: Linear | Fp8Linear  # F -> D
    head_norm: Tensor | None = None


class Sizes(Protocol):
    """What layers need of a family's configuration."""

    @property
    def num_attention_heads(self) -> int: ...
    @property
    def num_key_value_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def rms_norm_eps(self) -> float: ...


class Layers(ABC):
    """Blocks and their sizes.

    Attributes:
        rotation: rotary factors of each position, or None; a family sets it.
        scale: of the scores of attention.
    """

    rotation: Tensor | None

    def __init__(self, sizes: Sizes, blocks: list[Block], norm: Tensor) -> None:
        self.blocks = blocks
        self.norm = norm
        self.num_heads = sizes.num_attention_heads
        self.num_kv_heads = sizes.num_key_value_heads
        self.head_dim = sizes.head_dim
        self.scale = sizes.head_dim**-0.5
        self.eps = sizes.rms_norm_eps

    @abstractmethod
    def _project(self, block: Block, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, ...]:
        """Queries `[..., H, C]`, keys and values `[..., G, C]` of `x [..., D]`."""

    @abstractmethod
    def _finish(self, block: Block, attended: Tensor, residual: Tensor) -> Tensor:
        """Output projection, feed-forward and both residual adds; `[..., D]`."""

    def _rotation_at(self, positions: Tensor | slice) -> Tensor | None:
        return None if self.rotation is None else self.rotation[positions]


class CausalLayers(Layers):
    """A causal language model over slots; it has no embedding and no head of its own.

    What its methods return is normalised.
    """

    def new_cache(self, num_slots: int, num_positions: int) -> KVCache:
        """A zeroed cache; on CPU its pages cost no memory until a request writes them."""
        return KVCache.zeroed(
            len(self.blocks), num_slots, self.num_kv_heads, num_positions, self.head_dim,
            self.norm.dtype, self.norm.device,
        )  # fmt: skip

    # ------------------------------------------------------------ prompts

    def prefill(self, x: Tensor, cache: KVCache, slot: int, start: int = 0) -> Tensor:
        """Run positions `start ..` of one request and fill its cache row; `[N, D] -> [N, D]`."""
        N = len(x)
        end = start + N
        rotation = self._rotation_at(slice(start, end))
        groups = self.num_heads // self.num_kv_heads
        mask = None
        if start:
            mask = torch.ones(N, end, dtype=torch.bool, device=x.device).tril(start)
        for layer, block in enumerate(self.blocks):
            queries, keys, values = self._project(block, x, rotation)
            row_keys, row_values = cache.keys[layer, slot], cache.values[layer, slot]  # [G, N, C]
            row_keys[:, start:end] = keys.transpose(0, 1)
            row_values[:, start:end] = values.transpose(0, 1)
            attended = F.scaled_dot_product_attention(
                queries.transpose(0, 1).unsqueeze(0),
                row_keys[:, :end].repeat_interleave(groups, dim=0).unsqueeze(0),
                row_values[:, :end].repeat_interleave(groups, dim=0).unsqueeze(0),
                attn_mask=mask, is_causal=mask is None, scale=self.scale,
            )  # fmt: skip  # [1, H, N, C]
            x = self._finish(block, attended[0].transpose(0, 1).flatten(1), x)
        return rms_norm(x, self.norm, self.eps)

    def prefill_spans(self, x: Tensor, cache: KVCache, spans: Sequence[Span]) -> Tensor:
        """`prefill` of several requests, one behind the other; `[N, D] -> [N, D]`."""
        parts = zip(x.split([length for _, _, length in spans]), spans, strict=True)
        done = [self.prefill(part, cache, slot, start) for part, (slot, start, _) in parts]
        return done[0] if len(done) == 1 else torch.cat(done)

    def prefill_ends(self, x: Tensor, cache: KVCache, spans: Sequence[Span]) -> Tensor:
        """`prefill_spans` where only the last position of each is read; `[N, D] -> [spans, D]`."""
        every = self.prefill_spans(x, cache, spans)
        return torch.stack([every[end] for end in ends_of(spans)])

    def prefill_packed(
        self, x: Tensor, cache: KVCache, packed: PackedSpans, *, ends: bool = False
    ) -> Tensor:
        """Spans of prompts, in tensors alone; `[N, D]` to same, or to `[S, D]` of their ends.

        Args:
            ends: whether only the last position of each span is read.
        """
        rotation = self._rotation_at(packed.positions)
        for layer, block in enumerate(self.blocks):
            queries, keys, values = self._project(block, x, rotation)  # [N, heads, C]
            layer_keys, layer_values = cache.keys[layer], cache.values[layer]
            layer_keys[packed.rows, :, packed.positions] = keys
            layer_values[packed.rows, :, packed.positions] = values
            attended = attend_tiles(
                queries, layer_keys, layer_values, packed.rows, packed.positions, packed.tiles,
                self.scale,
            ).flatten(1)  # fmt: skip
            if ends and block is self.blocks[-1]:
                attended, x = attended[packed.ends], x[packed.ends]
            x = self._finish(block, attended, x)
        return rms_norm(x, self.norm, self.eps)

    # ------------------------------------------------------------ decode

    def decode(self, x: Tensor, cache: KVCache, rows: Rows) -> Tensor:
        """One position of each row; `[B, D] -> [B, D]`."""
        if rows.host is not None:
            return self._decode_row_by_row(x, cache, rows, rows.host)
        rotation = self._rotation_at(rows.positions)
        for layer, block in enumerate(self.blocks):
            queries, keys, values = self._project(block, x, rotation)
            layer_keys, layer_values = cache.keys[layer], cache.values[layer]
            layer_keys[rows.slots, :, rows.positions] = keys
            layer_values[rows.slots, :, rows.positions] = values
            attended = attend_slots(
                queries, layer_keys, layer_values, rows.slots, rows.positions, self.scale
            )
            x = self._finish(block, attended.flatten(1), x)
        return rms_norm(x, self.norm, self.eps)

    def _decode_row_by_row(
        self, x: Tensor, cache: KVCache, rows: Rows, host: Sequence[HostRow]
    ) -> Tensor:
        """`decode` on the CPU: each row attends over its own length; views are made once a step."""
        B = len(x)
        num_extra = self.blocks[0].qkv.num_rows(B) - B  # rows that only fill a product's block
        x = F.pad(x, (0, 0, 0, num_extra))
        rotation = self._rotation_at(F.pad(rows.positions, (0, num_extra)))
        attended = x.new_zeros(len(x), self.num_heads * self.head_dim)
        grouped = attended.view(len(x), self.num_kv_heads, -1, self.head_dim)
        outputs = grouped.unbind(0)  # [G, H/G, C] each
        past = [Past.of(cache, row.slot, row.position) for row in host]
        for layer, block in enumerate(self.blocks):
            queries, keys, values = (
                part.unbind(0) for part in self._project(block, x, rotation)
            )  # [H, C], [G, C], [G, C] of each row
            for row, own in enumerate(past):
                own.new_keys[layer].copy_(keys[row])
                own.new_values[layer].copy_(values[row])
                q = queries[row].view(self.num_kv_heads, -1, self.head_dim)
                mixed = attend(q, own.keys[layer], own.values[layer], self.scale)
                outputs[row].copy_(mixed)
            x = self._finish(block, attended, x)
        return rms_norm(x[:B], self.norm, self.eps)


class FusedCausalLayers(CausalLayers):
    """`CausalLayers` in five kernels a layer and decode step, on CUDA in bf16 and fp8.

    Weights, state and results (up to rounding) are the parent's, so the parent is the reference.
    """

    def new_cache(self, num_slots: int, num_positions: int) -> KVCache:
        cache = super().new_cache(num_slots, num_positions)
        cache.add_scratch(self.num_heads)
        return cache

    def prefill_packed(
        self, x: Tensor, cache: KVCache, packed: PackedSpans, *, ends: bool = False
    ) -> Tensor:
        from voxcli.kernels.attention import prompt_attention

        def attend(layer: int, qkv: Tensor) -> Tensor:
            return prompt_attention(
                qkv, self.rotation, cache.keys[layer], cache.values[layer], packed.rows,
                packed.positions, packed.tiles, self.num_heads, self.scale,
                self.blocks[layer].head_norm, self.eps,
            )  # fmt: skip

        return self._run(x, attend, packed.ends if ends else None)

    def decode(self, x: Tensor, cache: KVCache, rows: Rows) -> Tensor:
        from voxcli.kernels.attention import decode_attention

        scratch = cache.scratch
        assert scratch is not None

        def attend(layer: int, qkv: Tensor) -> Tensor:
            return decode_attention(
                qkv, self.rotation, cache.keys[layer], cache.values[layer], rows.slots,
                rows.positions, self.num_heads, self.scale, scratch, self.blocks[layer].head_norm,
                self.eps,
            )  # fmt: skip

        return self._run(x, attend)

    def _run(
        self, x: Tensor, attend: Callable[[int, Tensor], Tensor], ends: Tensor | None = None
    ) -> Tensor:
        """All layers and the final norm; `[N, D]` to same, or to the rows of `ends`.

        Args:
            attend: a layer's attention, from what it projected.
            ends: int64 `[S]`, rows whose result is read; None means all.
        """
        from voxcli.kernels.linear import linear, linear_add_norm, linear_swiglu, rms_linear
        from voxcli.kernels.rows import num_rows
        from voxcli.kernels.rows import rms_norm as fused_norm

        x = x.clone()  # a residual may be written over
        if num_rows(x) == 1 or isinstance(self.blocks[0].qkv, Fp8Linear):
            for layer, block in enumerate(self.blocks):
                qkv = rms_linear(x, block.input_norm, self.eps, block.qkv.weight)
                attended = attend(layer, qkv)
                if ends is not None and block is self.blocks[-1]:
                    attended, x = attended[ends], x[ends]
                x = finish(block, attended, x, self.eps)
            return fused_norm(x, self.norm, self.eps)
        norms = [*(block.input_norm for block in self.blocks[1:]), self.norm]
        normed = fused_norm(x, self.blocks[0].input_norm, self.eps)
        for layer, (block, next_norm) in enumerate(zip(self.blocks, norms, strict=True)):
            attended = attend(layer, linear(normed, block.qkv.weight))
            if ends is not None and block is self.blocks[-1]:
                attended, x = attended[ends], x[ends]
            x, normed = linear_add_norm(
                attended, block.output.weight, x, block.mlp_norm, self.eps, can_part=False
            )
            inner = linear_swiglu(normed, block.gate_up.weight)
            x, normed = linear_add_norm(
                inner, block.down.weight, x, next_norm, self.eps, can_part=False
            )
        return normed


def compile_products_ahead(layers: Layers) -> None:
    """Begin to compile the kernels of CUDA C++ that the products of these layers may take."""
    from voxcli.kernels.dense import compile_ahead

    block = layers.blocks[0]
    products = (
        (block.qkv, False),
        (block.output, False),
        (block.gate_up, True),
        (block.down, False),
    )
    weights = (
        (linear.weight.values if isinstance(linear, Fp8Linear) else linear.weight, is_swiglu)
        for linear, is_swiglu in products
    )
    compile_ahead(layers.norm.device, weights)


def finish(block: Block, attended: Tensor, residual: Tensor, eps: float) -> Tensor:
    """Output projection and feed-forward in fused kernels; `residual` may be written over."""
    from voxcli.kernels.linear import linear_add, rms_swiglu

    x = linear_add(attended, block.output.weight, residual)
    inner = rms_swiglu(x, block.mlp_norm, eps, block.gate_up.weight)
    return linear_add(inner, block.down.weight, x)
