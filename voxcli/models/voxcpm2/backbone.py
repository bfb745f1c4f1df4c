"""MiniCPM4 layers: the causal language models over slots, and the small bidirectional stacks.

Two uses of one block. `CausalStack` keeps a key/value row for every slot and runs a prompt
(`prefill`) or one position of each running request (`decode`). `LocalStack` sees a few positions at
once and keeps nothing. Knows no tokens, no audio and no requests.

On CPU attention runs row by row over a request's own length: no padding is computed, and a row's
bits do not depend on its neighbours. Elsewhere slots and positions are tensors and attention is
masked, so that a step asks nothing of the host.

Source: OpenBMB/VoxCPM `modules/minicpm4/model.py` (Apache-2.0). Differences: projections are fused,
rotary pairs are interleaved (`layers/rope.py`), state is an argument.

Letters: `B` rows, `N` positions, `D` width, `H` query heads, `G` key/value heads, `C` head width,
`L` layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.layers.attention import attend, attend_slots
from voxcli.layers.fp8 import Fp8Linear
from voxcli.layers.linear import Linear
from voxcli.layers.norm import rms_norm
from voxcli.layers.rope import rotate, rotate_, rotations
from voxcli.models.data import HostRow, Rows
from voxcli.models.kv_cache import KVCache, Past
from voxcli.models.voxcpm2.config import TransformerConfig


def ends_of(spans: Sequence[tuple[int, int, int]]) -> list[int]:
    """Rows of the last positions of spans that lie one behind the other."""
    return [end - 1 for end in accumulate(length for _, _, length in spans)]


@dataclass
class Block:
    """Weights of one layer."""

    input_norm: Tensor  # [D]
    qkv: Linear | Fp8Linear  # D -> (H + 2 G) C, queries first
    output: Linear | Fp8Linear  # H C -> D
    mlp_norm: Tensor  # [D]
    gate_up: Linear | Fp8Linear  # D -> 2 F, gate first
    down: Linear | Fp8Linear  # F -> D


class Stack:
    """What both uses share: sizes, weights, the feed-forward half of a block."""

    def __init__(
        self, config: TransformerConfig, blocks: list[Block], norm: Tensor, num_positions: int
    ) -> None:
        self.config = config
        self.blocks = blocks
        self.norm = norm
        self.num_heads = config.num_attention_heads
        self.num_kv_heads = config.num_key_value_heads
        self.head_dim = config.head_dim
        self.scale = config.head_dim**-0.5
        self.eps = config.rms_norm_eps
        self.rotation: Tensor | None = None
        if not config.no_rope:
            self.rotation = rotations(
                num_positions,
                config.head_dim,
                theta=config.rope_theta,
                factors=config.rope_factors,
                amplitude=config.rope_amplitude,
                device=norm.device,
            )

    def _project(self, block: Block, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, ...]:
        """Queries `[..., H, C]`, keys and values `[..., G, C]` of `x [..., D]`."""
        normed = rms_norm(x, block.input_norm, self.eps)
        heads = block.qkv(normed).unflatten(-1, (-1, self.head_dim))
        num_rotated = self.num_heads + self.num_kv_heads
        if rotation is not None and heads.dtype == torch.float32:
            rotate_(heads[..., :num_rotated, :], rotation)
        elif rotation is not None:
            rotated, values = heads.split((num_rotated, self.num_kv_heads), dim=-2)
            return *rotate(rotated, rotation).split((self.num_heads, self.num_kv_heads), -2), values
        return heads.split((self.num_heads, self.num_kv_heads, self.num_kv_heads), dim=-2)

    def _finish(self, block: Block, attended: Tensor, residual: Tensor) -> Tensor:
        """Output projection, feed-forward and both residual adds; `[..., D]`."""
        scale = self.config.residual_scale
        if scale != 1.0:
            residual = residual + scale * block.output(attended)
        else:
            residual = block.output.add(attended, residual)
        gate, up = block.gate_up(rms_norm(residual, block.mlp_norm, self.eps)).chunk(2, dim=-1)
        hidden = F.silu(gate).mul_(up)
        if scale != 1.0:
            return residual + scale * block.down(hidden)
        return block.down.add(hidden, residual)


@dataclass
class Repeats:
    """Calls of a `LocalStack` one behind the other, the same in most of their input.

    Attributes:
        changed: int64, the positions that are new in each call.
        known: what a stack keeps of the last call, if it keeps anything.
    """

    changed: Tensor
    known: Tensor | None = None


class LocalStack(Stack):
    """Bidirectional layers over the few positions of one patch."""

    def __call__(self, x: Tensor, keep: slice, repeats: Repeats | None = None) -> Tensor:
        """Run all layers and the final norm.

        Args:
            x: `[B, N, D]`.
            keep: positions whose output is wanted; the last layer computes no other.
            repeats: what this call shares with the last one that was given the same; a subclass
                may leave out what it knows from there.

        Returns:
            `[B, len(keep), D]`.
        """
        for block in self.blocks[:-1]:
            queries, keys, values = self._project(block, x, self.rotation)
            x = self._finish(block, self._attend(queries, keys, values), x)
        queries, keys, values = self._project(self.blocks[-1], x, self.rotation)
        attended = self._attend(queries[:, keep], keys, values)
        x = self._finish(self.blocks[-1], attended, x[:, keep].contiguous())
        return rms_norm(x, self.norm, self.eps)

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Queries `[B, M, H, C]` on all keys and values `[B, N, G, C]` -> `[B, M, H C]`."""
        B, M, H, C = queries.shape
        G = self.num_kv_heads
        # the query heads of a group share its keys: one product a group
        grouped = queries.reshape(B, M, G, H // G, C).permute(0, 2, 3, 1, 4)  # [B, G, H/G, M, C]
        q = grouped.reshape(B * G, -1, C)
        k = keys.transpose(1, 2).reshape(B * G, -1, C)
        v = values.transpose(1, 2).reshape(B * G, -1, C)
        mixed = attend(q, k, v, self.scale).view(B, G, H // G, M, C)
        return mixed.permute(0, 3, 1, 2, 4).reshape(B, M, H * C)


class CausalStack(Stack):
    """A causal language model over slots; it has no embedding and no head of its own."""

    def new_cache(self, num_slots: int, num_positions: int) -> KVCache:
        """A zeroed cache; on CPU its pages cost no memory until a request writes them."""
        return KVCache.zeroed(
            len(self.blocks), num_slots, self.num_kv_heads, num_positions, self.head_dim,
            self.norm.dtype, self.norm.device,
        )  # fmt: skip

    def prefill(self, x: Tensor, cache: KVCache, slot: int, start: int = 0) -> Tensor:
        """Run positions `start ..` of one request and fill its cache row; `[N, D] -> [N, D]`."""
        row = slice(slot, slot + 1)
        N = len(x)
        end = start + N
        rotation = None if self.rotation is None else self.rotation[start:end]
        groups = self.num_heads // self.num_kv_heads
        mask = None
        if start:
            mask = torch.ones(N, end, dtype=torch.bool, device=x.device).tril(start)
        for layer, block in enumerate(self.blocks):
            queries, keys, values = self._project(block, x, rotation)
            cache.keys[layer][row, :, start:end] = keys.transpose(0, 1).unsqueeze(0)
            cache.values[layer][row, :, start:end] = values.transpose(0, 1).unsqueeze(0)
            k = cache.keys[layer][row, :, :end].repeat_interleave(groups, dim=1)
            v = cache.values[layer][row, :, :end].repeat_interleave(groups, dim=1)
            attended = F.scaled_dot_product_attention(
                queries.transpose(0, 1).unsqueeze(0), k, v,
                attn_mask=mask, is_causal=mask is None, scale=self.scale,
            )  # fmt: skip  # [1, H, N, C]
            x = self._finish(block, attended[0].transpose(0, 1).flatten(1), x)
        return rms_norm(x, self.norm, self.eps)

    def prefill_spans(
        self, x: Tensor, cache: KVCache, spans: Sequence[tuple[int, int, int]]
    ) -> Tensor:
        """`prefill` of several requests, one behind the other; `[N, D] -> [N, D]`.

        Args:
            spans: slot, first position and length of each.
        """
        parts = zip(x.split([length for _, _, length in spans]), spans, strict=True)
        done = [self.prefill(part, cache, slot, start) for part, (slot, start, _) in parts]
        return done[0] if len(done) == 1 else torch.cat(done)

    def prefill_ends(
        self, x: Tensor, cache: KVCache, spans: Sequence[tuple[int, int, int]]
    ) -> Tensor:
        """`prefill_spans` where only the last position of each is read; `[N, D] -> [spans, D]`."""
        every = self.prefill_spans(x, cache, spans)
        return torch.stack([every[end] for end in ends_of(spans)])

    def prefill_rows(self, x: Tensor, cache: KVCache, slots: Tensor, starts: Tensor) -> Tensor:
        """Spans of prompts from positions `starts [B]` on, in tensors alone; `[B, N, D]` to same.

        Positions behind a prompt's last are computed and cached too, as far as the slot goes;
        decoding overwrites each one before it is read.
        """
        B, N, _ = x.shape
        most = cache.keys.shape[3]
        ends = starts + N
        # NOTE: what is behind the slot's end lands on its last position, which no prompt reaches
        positions = (starts.unsqueeze(1) + torch.arange(N, device=x.device)).clamp(max=most - 1)
        places = torch.arange(most, device=x.device)
        stale = (places >= ends.unsqueeze(1)).view(B, 1, most, 1)
        seen = (places <= positions.unsqueeze(2)).unsqueeze(1)  # [B, 1, N, most]
        rotation = None if self.rotation is None else self.rotation[positions]
        groups = self.num_heads // self.num_kv_heads
        for layer, block in enumerate(self.blocks):
            queries, keys, values = self._project(block, x, rotation)  # [B, N, heads, C]
            cache.keys[layer][slots.unsqueeze(1), :, positions] = keys
            cache.values[layer][slots.unsqueeze(1), :, positions] = values
            k = cache.keys[layer][slots].masked_fill(stale, 0.0).repeat_interleave(groups, 1)
            v = cache.values[layer][slots].masked_fill(stale, 0.0).repeat_interleave(groups, 1)
            attended = F.scaled_dot_product_attention(
                queries.transpose(1, 2), k, v, attn_mask=seen, scale=self.scale
            )  # [B, H, N, C]
            x = self._finish(block, attended.transpose(1, 2).flatten(2), x)
        return rms_norm(x, self.norm, self.eps)

    def decode(self, x: Tensor, cache: KVCache, rows: Rows) -> Tensor:
        """One position of each row; `[B, D] -> [B, D]`."""
        if rows.host is not None:
            return self._decode_row_by_row(x, cache, rows, rows.host)
        rotation = None if self.rotation is None else self.rotation[rows.positions]
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
        positions = F.pad(rows.positions, (0, num_extra))
        rotation = None if self.rotation is None else self.rotation[positions]
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
