"""Qwen3 layers: the talker's stack over slots, and the code predictor's over one frame.

Two uses of one block. `SlotStack` keeps a key/value row for every slot and runs prompts
(`prefill_spans`, `prefill_rows`) or one position of each running request (`decode`). `FrameStack`
runs the few positions of a frame one after the other and keeps nothing. Knows no codes, no text and
no requests.

On CPU the host's rows attend one by one, each over its own length: no padding is computed, and a
row's bits do not depend on its neighbours. Elsewhere slots and positions are tensors and attention
is masked, so that a step asks nothing of the host.

Source: Qwen3 as in QwenLM/Qwen3-TTS@022e286b `core/models/modeling_qwen3_tts.py` (Apache-2.0).
Differences: projections are fused, rotary pairs are interleaved (`layers/rope.py`), state is an
argument. The official three rows of positions are equal, so they are one here.

Letters: `B` rows, `N` positions, `D` width, `H` query heads, `G` key/value heads, `C` head width,
`L` layers, `F` inner width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.layers.attention import attend, attend_slots
from voxcli.layers.fp8 import Fp8Linear
from voxcli.layers.linear import Linear
from voxcli.layers.norm import rms_norm
from voxcli.layers.rope import interleave_heads, rotate, rotate_, rotations
from voxcli.models.data import HostRow, Rows
from voxcli.models.kv_cache import KVCache, Past
from voxcli.models.qwen3_tts.sizes import StackConfig
from voxcli.models.sources import Source


@dataclass
class Block:
    """Weights of one layer.

    Attributes:
        head_norm: `[H + G, C]`, of each query head and each key head; interleaved like them.
    """

    input_norm: Tensor  # [D]
    qkv: Linear | Fp8Linear  # D -> (H + 2 G) C, queries first
    head_norm: Tensor
    output: Linear | Fp8Linear  # H C -> D
    mlp_norm: Tensor  # [D]
    gate_up: Linear | Fp8Linear  # D -> 2 F, gate first
    down: Linear | Fp8Linear  # F -> D


def load_blocks(source: Source, prefix: str, config: StackConfig) -> list[Block]:
    """All layers of a stack; fusing and reordering happen here."""
    D, inner, C = config.hidden_size, config.intermediate_size, config.head_dim
    H, G = config.num_attention_heads, config.num_key_value_heads

    def block(name: str) -> Block:
        heads = [
            source.take(f"{name}.self_attn.{kind}_proj.weight", count * C, D)
            for kind, count in (("q", H), ("k", G), ("v", G))
        ]
        heads[:2] = (interleave_heads(each, C) for each in heads[:2])
        norms = [
            interleave_heads(source.take(f"{name}.self_attn.{kind}_norm.weight", C).view(C, 1), C)
            .view(1, C).expand(count, C)
            for kind, count in (("q", H), ("k", G))
        ]  # fmt: skip
        gate_up = [
            source.take(f"{name}.mlp.{kind}_proj.weight", inner, D) for kind in ("gate", "up")
        ]
        return Block(
            input_norm=source.take(f"{name}.input_layernorm.weight", D),
            qkv=source.layer_linear(torch.cat(heads)),
            head_norm=torch.cat(norms),
            output=source.layer_linear(source.take(f"{name}.self_attn.o_proj.weight", D, H * C)),
            mlp_norm=source.take(f"{name}.post_attention_layernorm.weight", D),
            gate_up=source.layer_linear(torch.cat(gate_up)),
            down=source.layer_linear(source.take(f"{name}.mlp.down_proj.weight", D, inner)),
        )

    return [block(f"{prefix}.layers.{index}") for index in range(config.num_hidden_layers)]


class Stack:
    """What both uses share: sizes, weights, all of a block but attention.

    Args:
        num_positions: the most that it can rotate by.
    """

    def __init__(
        self, config: StackConfig, blocks: list[Block], norm: Tensor, num_positions: int
    ) -> None:
        self.config = config
        self.blocks = blocks
        self.norm = norm
        self.num_heads = config.num_attention_heads
        self.num_kv_heads = config.num_key_value_heads
        self.head_dim = config.head_dim
        self.scale = config.head_dim**-0.5
        self.eps = config.rms_norm_eps
        self.rotation = rotations(
            num_positions,
            config.head_dim,
            theta=config.rope_theta,
            factors=[1.0] * (config.head_dim // 2),
            device=norm.device,
        )

    def _project(self, block: Block, x: Tensor, rotation: Tensor) -> tuple[Tensor, ...]:
        """Queries `[..., H, C]`, keys and values `[..., G, C]` of `x [..., D]`."""
        normed = rms_norm(x, block.input_norm, self.eps)
        heads = block.qkv(normed).unflatten(-1, (-1, self.head_dim))
        H, G = self.num_heads, self.num_kv_heads
        turned, values = heads.split((H + G, G), dim=-2)
        turned = self._norm_heads(turned, block.head_norm)
        if turned.dtype == torch.float32:
            rotate_(turned, rotation)
        else:
            turned = rotate(turned, rotation)
        return *turned.split((H, G), dim=-2), values

    def _norm_heads(self, heads: Tensor, weight: Tensor) -> Tensor:
        """Each head's RMS norm; a new tensor."""
        if heads.device.type == "cpu" and heads.dtype == torch.float32:
            return rms_norm(heads, weight, self.eps)
        return F.rms_norm(heads, (self.head_dim,), None, self.eps) * weight

    def _finish(self, block: Block, attended: Tensor, residual: Tensor) -> Tensor:
        """Output projection, feed-forward and both residual adds; `[..., D]`."""
        residual = block.output.add(attended, residual)
        gate, up = block.gate_up(rms_norm(residual, block.mlp_norm, self.eps)).chunk(2, dim=-1)
        return block.down.add(F.silu(gate).mul_(up), residual)


class SlotStack(Stack):
    """A causal language model over slots; it has no embedding and no head of its own."""

    def new_cache(self, num_slots: int, num_positions: int) -> KVCache:
        """A zeroed cache; on CPU its pages cost no memory until a request writes them."""
        return KVCache.zeroed(
            len(self.blocks), num_slots, self.num_kv_heads, num_positions, self.head_dim,
            self.norm.dtype, self.norm.device,
        )  # fmt: skip

    # ------------------------------------------------------------ prefill

    def prefill(self, x: Tensor, cache: KVCache, slot: int, start: int) -> Tensor:
        """Run positions `start ..` of one request and fill its cache row; `[N, D] -> [N, D]`."""
        N = len(x)
        end = start + N
        groups = self.num_heads // self.num_kv_heads
        mask = None
        if start:
            mask = torch.ones(N, end, dtype=torch.bool, device=x.device).tril(start)
        for layer, block in enumerate(self.blocks):
            queries, keys, values = self._project(block, x, self.rotation[start:end])
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
        return x

    def prefill_ends(
        self, x: Tensor, cache: KVCache, spans: Sequence[tuple[int, int, int]]
    ) -> Tensor:
        """`prefill` of several requests, one behind the other; their last positions, normalised.

        Args:
            x: `[N, D]`, all positions.
            spans: slot, first position and length of each.

        Returns:
            `[spans, D]`.
        """
        parts = zip(x.split([length for _, _, length in spans]), spans, strict=True)
        last = [self.prefill(part, cache, slot, start)[-1] for part, (slot, start, _) in parts]
        return rms_norm(torch.stack(last), self.norm, self.eps)

    def prefill_rows(
        self, x: Tensor, cache: KVCache, slots: Tensor, starts: Tensor, last: Tensor
    ) -> Tensor:
        """Spans of prompts from positions `starts [B]` on, in tensors alone.

        Positions behind a prompt's last are computed and cached too, as far as the slot goes;
        decoding overwrites each one before it is read.

        Args:
            x: `[B, N, D]`.
            last: int64 `[B]`, where each span's last position is.

        Returns:
            `[B, D]`, the last positions, normalised.
        """
        B, N, _ = x.shape
        most = cache.keys.shape[3]
        # NOTE: what is behind the slot's end lands on its last position, which no prompt reaches
        offsets = torch.arange(N, device=x.device)
        positions = (starts.unsqueeze(1) + offsets).clamp(max=most - 1)
        places = torch.arange(most, device=x.device)
        stale = (places >= (starts + N).unsqueeze(1)).view(B, 1, most, 1)
        seen = (places <= positions.unsqueeze(2)).unsqueeze(1)  # [B, 1, N, most]
        rotation = self.rotation[positions]
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
        ends = x[torch.arange(B, device=x.device), last]
        return rms_norm(ends, self.norm, self.eps)

    # ------------------------------------------------------------ decode

    def decode(self, x: Tensor, cache: KVCache, rows: Rows) -> Tensor:
        """One position of each row; `[B, D] -> [B, D]`."""
        if rows.host is not None:
            return self._decode_row_by_row(x, cache, rows, rows.host)
        rotation = self.rotation[rows.positions]
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
        rotation = self.rotation[rows.positions]
        past = [Past.of(cache, row.slot, row.position) for row in host]
        for layer, block in enumerate(self.blocks):
            queries, keys, values = (
                part.unbind(0) for part in self._project(block, x, rotation)
            )  # [H, C], [G, C], [G, C] of each row
            attended = []
            for row, own in enumerate(past):
                own.new_keys[layer].copy_(keys[row])
                own.new_values[layer].copy_(values[row])
                q = queries[row].view(self.num_kv_heads, -1, self.head_dim)
                mixed = attend(q, own.keys[layer], own.values[layer], self.scale)
                attended.append(mixed.flatten())
            x = self._finish(block, torch.stack(attended), x)
        return rms_norm(x, self.norm, self.eps)


class FrameStack(Stack):
    """A causal language model over the few positions of one frame, whose cache lives as long.

    The cache belongs to a call: each position is written before any reads it, and no position that
    was not written is read, so nothing of another frame can be.
    """

    def new_cache(self, num_rows: int) -> KVCache:
        """Memory for one frame of each row; what is in it means nothing."""
        shape = (len(self.blocks), num_rows, self.num_kv_heads, len(self.rotation), self.head_dim)
        return KVCache(self.norm.new_empty(shape), self.norm.new_empty(shape))

    def first(self, x: Tensor, cache: KVCache) -> Tensor:
        """Positions 0 and 1; `[B, 2, D] -> [B, D]`, of position 1."""
        for layer, block in enumerate(self.blocks):
            queries, keys, values = self._project(block, x, self.rotation[:2])
            cache.keys[layer, :, :, :2] = keys.transpose(1, 2)
            cache.values[layer, :, :, :2] = values.transpose(1, 2)
            groups = self.num_heads // self.num_kv_heads
            alone = values[:, 0].repeat_interleave(groups, dim=1).flatten(1)  # sees only itself
            attended = torch.stack((alone, self._attend(queries[:, 1], cache, layer, 2)), dim=1)
            x = self._finish(block, attended, x)
        return rms_norm(x[:, 1], self.norm, self.eps)

    def step(self, x: Tensor, cache: KVCache, position: int) -> Tensor:
        """The next position; `[B, D] -> [B, D]`."""
        for layer, block in enumerate(self.blocks):
            queries, keys, values = self._project(block, x, self.rotation[position])
            cache.keys[layer, :, :, position] = keys
            cache.values[layer, :, :, position] = values
            x = self._finish(block, self._attend(queries, cache, layer, position + 1), x)
        return rms_norm(x, self.norm, self.eps)

    def _attend(self, queries: Tensor, cache: KVCache, layer: int, end: int) -> Tensor:
        """Queries `[B, H, C]` over the first `end` positions; `[B, H C]`."""
        B, H, C = queries.shape
        G = self.num_kv_heads
        k = cache.keys[layer, :, :, :end].reshape(B * G, end, C)
        v = cache.values[layer, :, :, :end].reshape(B * G, end, C)
        return attend(queries.reshape(B * G, H // G, C), k, v, self.scale).view(B, H * C)
