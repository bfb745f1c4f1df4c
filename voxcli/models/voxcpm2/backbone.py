"""MiniCPM4 layers: the causal language models over slots, and the small bidirectional stacks.

Two uses of one block. `CausalStack` keeps a key/value row for every slot (`models/causal.py`),
`LocalStack` sees a few positions at once and keeps nothing. Knows no tokens, no audio and no
requests.

Source: OpenBMB/VoxCPM `modules/minicpm4/model.py` (Apache-2.0). Differences: projections are fused,
rotary pairs are interleaved (`layers/rope.py`), state is an argument.

Letters: `B` rows, `N` positions, `D` width, `H` query heads, `G` key/value heads, `C` head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.layers.attention import attend
from voxcli.layers.norm import rms_norm
from voxcli.layers.rope import rotate, rotate_, rotations
from voxcli.models.causal import Block, CausalLayers, Layers
from voxcli.models.voxcpm2.config import TransformerConfig


class Stack(Layers):
    """What both uses share: sizes, weights, all of a block but attention."""

    def __init__(
        self, config: TransformerConfig, blocks: list[Block], norm: Tensor, num_positions: int
    ) -> None:
        super().__init__(config, blocks, norm)
        self.config = config
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


class CausalStack(Stack, CausalLayers):
    """MiniCPM4 over slots."""
