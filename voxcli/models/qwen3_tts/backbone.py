"""Qwen3 layers: the talker's stack over slots, and the code predictor's over one frame.

Two uses of one block. `SlotStack` keeps a key/value row for every slot (`models/causal.py`),
`FrameStack` runs the few positions of a frame one after the other and keeps nothing. Knows no
codes, no text and no requests.

Source: Qwen3 as in QwenLM/Qwen3-TTS@022e286b `core/models/modeling_qwen3_tts.py` (Apache-2.0).
Differences: projections are fused, rotary pairs are interleaved (`layers/rope.py`), state is an
argument. The official three rows of positions are equal, so they are one here.

Letters: `B` rows, `N` positions, `D` width, `H` query heads, `G` key/value heads, `C` head width,
`F` inner width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.layers.attention import attend
from voxcli.layers.norm import rms_norm
from voxcli.layers.rope import interleave_heads, rotate, rotate_, rotations
from voxcli.models.causal import Block, CausalLayers, Layers
from voxcli.models.kv_cache import KVCache
from voxcli.models.qwen3_tts.sizes import StackConfig
from voxcli.models.sources import Source


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


class Stack(Layers):
    """What both uses share: sizes, weights, all of a block but attention.

    Args:
        num_positions: the most that it can rotate by.
    """

    rotation: Tensor

    def __init__(
        self, config: StackConfig, blocks: list[Block], norm: Tensor, num_positions: int
    ) -> None:
        super().__init__(config, blocks, norm)
        self.config = config
        self.rotation = rotations(
            num_positions,
            config.head_dim,
            theta=config.rope_theta,
            factors=[1.0] * (config.head_dim // 2),
            device=norm.device,
        )

    def _project(self, block: Block, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, ...]:
        """Queries `[..., H, C]`, keys and values `[..., G, C]` of `x [..., D]`."""
        assert rotation is not None
        assert block.head_norm is not None
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


class SlotStack(Stack, CausalLayers):
    """Qwen3 over slots."""


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
