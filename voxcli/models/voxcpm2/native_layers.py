"""The transformer layers over native kernels: what runs on a CPU where they were compiled.

Products are the parents'; all between them is four calls a layer. Weights, state and results (up to
rounding) are the parents' too. Long prompts run as in the parents.

Letters: `B` rows, `N` positions, `D` width, `H` query heads, `C` head width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.kernels import native_layers as kernels
from voxcli.kernels.native import load
from voxcli.models.base import Rows
from voxcli.models.voxcpm2.backbone import CausalStack, KVCache, LocalStack, Stack

MAX_PROMPT = 128  # positions; from about there on torch's attention over all of them is faster


def supports(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the stacks below can run."""
    return device.type == "cpu" and dtype == torch.float32 and load() is not None


def _heads(stack: Stack) -> kernels.Heads:
    return kernels.Heads(stack.num_heads, stack.num_kv_heads, stack.head_dim, stack.scale)


class NativeLocalStack(LocalStack):
    """`LocalStack` in four calls and four products a layer."""

    def __call__(self, x: Tensor, keep: slice) -> Tensor:
        heads, scale = _heads(self), self.config.residual_scale
        normed = kernels.norm(x, self.blocks[0].input_norm, self.eps)
        next_norms = [*(block.input_norm for block in self.blocks[1:]), self.norm]
        for block, next_norm in zip(self.blocks, next_norms, strict=True):
            kept = keep if block is self.blocks[-1] else slice(None)
            attended = kernels.local_attention(block.qkv(normed), self.rotation, heads, kept)
            x, normed = kernels.add_norm(
                x[:, kept].contiguous(), block.output(attended), scale, block.mlp_norm, self.eps
            )
            inner = kernels.swiglu(block.gate_up(normed))
            x, normed = kernels.add_norm(x, block.down(inner), scale, next_norm, self.eps)
        return normed


class NativeCausalStack(CausalStack):
    """`CausalStack` in four calls and four products a layer, but for long prompts."""

    def prefill(self, x: Tensor, cache: KVCache, slot: int, start: int = 0) -> Tensor:
        if len(x) > MAX_PROMPT:
            return super().prefill(x, cache, slot, start)
        return self.prefill_spans(x, cache, [(slot, start, len(x))])

    def prefill_spans(
        self, x: Tensor, cache: KVCache, spans: Sequence[tuple[int, int, int]]
    ) -> Tensor:
        if any(length > MAX_PROMPT for _, _, length in spans):
            return super().prefill_spans(x, cache, spans)
        num_positions = cache.keys.shape[3]
        assert all(start + length <= num_positions for _, start, length in spans), num_positions
        # rows are written and read in their order, so each sees those in front of it
        slots = torch.cat([torch.full((length,), slot) for slot, _, length in spans])
        positions = torch.cat([torch.arange(start, start + n) for _, start, n in spans])
        return self._run(x, cache, slots, positions)

    def decode(self, x: Tensor, cache: KVCache, rows: Rows) -> Tensor:
        if rows.host_slots_positions is None:
            return super().decode(x, cache, rows)
        num_positions = cache.keys.shape[3]
        assert all(at < num_positions for _, at in rows.host_slots_positions), num_positions
        return self._run(x, cache, rows.slots, rows.positions)

    def _run(self, x: Tensor, cache: KVCache, slots: Tensor, positions: Tensor) -> Tensor:
        """One position of each row, in their order; `[B, D] -> [B, D]`."""
        B = len(x)
        heads, scale = _heads(self), self.config.residual_scale
        num_extra = self.blocks[0].qkv.num_rows(B) - B  # rows that only fill a product's block
        x = F.pad(x, (0, 0, 0, num_extra))
        attended = x.new_zeros(len(x), self.num_heads * self.head_dim)
        normed = kernels.norm(x, self.blocks[0].input_norm, self.eps)
        next_norms = [*(block.input_norm for block in self.blocks[1:]), self.norm]
        for layer, (block, next_norm) in enumerate(zip(self.blocks, next_norms, strict=True)):
            kernels.decode_attention(
                block.qkv(normed), self.rotation, heads, cache.keys[layer], cache.values[layer],
                slots, positions, attended,
            )  # fmt: skip
            x, normed = kernels.add_norm(x, block.output(attended), scale, block.mlp_norm, self.eps)
            inner = kernels.swiglu(block.gate_up(normed))
            x, normed = kernels.add_norm(x, block.down(inner), scale, next_norm, self.eps)
        return normed[:B]
