"""The transformer layers over native kernels: what runs on a CPU where they were compiled.

Many rows run a whole layer a call and are shared out to threads. Of few rows the products are
shared out instead, and all between them is four calls a layer. The bits are the same. Weights,
state and results (up to rounding) are the parents'; long prompts run as in the parents.

Letters: `B` rows, `N` positions, `D` width, `H` query heads, `C` head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.kernels import native_layers as kernels
from voxcli.kernels.native import load
from voxcli.kernels.native_product import NativeLinear
from voxcli.kernels.structs import Heads
from voxcli.models.causal import ends_of
from voxcli.models.data import Rows
from voxcli.models.kv_cache import KVCache
from voxcli.models.voxcpm2.acoustic import LocalDiT
from voxcli.models.voxcpm2.backbone import (
    CausalStack,
    LocalStack,
    Repeats,
    Stack,
)
from voxcli.models.voxcpm2.host import MIN_SHARED

MAX_PROMPT = 512  # positions; from about there on torch's attention over all of them is faster


def supports(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the stacks below can run."""
    return device.type == "cpu" and dtype == torch.float32 and load() is not None


def _heads(stack: Stack) -> Heads:
    return Heads(stack.num_heads, stack.num_kv_heads, stack.head_dim, stack.scale)


def _layers(stack: Stack) -> list[kernels.Layer]:
    """Of a stack; an empty list where a product is not the kernel's."""
    layers = []
    next_norms = [*(block.input_norm for block in stack.blocks[1:]), stack.norm]
    for block, next_norm in zip(stack.blocks, next_norms, strict=True):
        qkv, output, gate_up, down = block.qkv, block.output, block.gate_up, block.down
        if not (
            isinstance(qkv, NativeLinear)
            and isinstance(output, NativeLinear)
            and isinstance(gate_up, NativeLinear)
            and isinstance(down, NativeLinear)
        ):
            return []
        layer = kernels.Layer(
            (qkv.panels, output.panels, gate_up.panels, down.panels),
            (block.input_norm, block.mlp_norm, next_norm),
            stack.rotation,
            _heads(stack),
            residual_scale=stack.config.residual_scale,
            eps=stack.eps,
        )
        layers.append(layer)
    return layers


class NativeLocalStack(LocalStack):
    """`LocalStack` in one call a layer, which shares rows out to threads.

    Fewer positions than `MIN_SHARED` share products out instead, and take four calls and four
    products a layer.
    """

    @cached_property
    def _layers(self) -> list[kernels.Layer]:
        return _layers(self)

    @cached_property
    def together(self) -> kernels.LayerStack | None:
        """All layers in one call, where their products are the kernel's."""
        return kernels.LayerStack(self._layers) if self._layers else None

    def __call__(self, x: Tensor, keep: slice, repeats: Repeats | None = None) -> Tensor:
        if self.together is None:
            return self._run_apart(x, keep)
        known, changed = None, None
        if repeats is not None:
            known, changed = repeats.known, repeats.changed
            if known is None:
                known = repeats.known = x.new_empty(*x.shape[:2], _heads(self).width)
                changed = None
        if x.shape[0] * x.shape[1] < MIN_SHARED:
            return self.together.local(x.contiguous(), keep, known, changed)
        normed = None
        if known is None:
            normed = kernels.norm(x, self.blocks[0].input_norm, self.eps)
        for layer in self._layers:
            kept = keep if layer is self._layers[-1] else slice(None)
            x, normed = layer.local(x, normed, kept, known, changed)
            known, changed = None, None
        assert normed is not None
        return normed

    def _run_apart(self, x: Tensor, keep: slice) -> Tensor:
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


class NativeLocalDiT(LocalDiT):
    """`LocalDiT` whose solver is one call for few rows without guidance."""

    @cached_property
    def _solver(self) -> kernels.Solver | None:
        x, cond, velocity = self.in_proj, self.cond_proj, self.out_proj
        if not (
            isinstance(self.stack, NativeLocalStack)
            and self.stack.together is not None
            and isinstance(x, NativeLinear)
            and isinstance(cond, NativeLinear)
            and isinstance(velocity, NativeLinear)
        ):
            return None
        return kernels.Solver(self.stack.together, (x.panels, cond.panels, velocity.panels))

    def solve(
        self, noise: Tensor, mu: Tensor, cond: Tensor, num_steps: int, cfg: Tensor | None
    ) -> Tensor:
        num_positions = mu.shape[1] + 1 + 2 * cond.shape[1]
        is_few = len(noise) * num_positions < MIN_SHARED
        if cfg is not None or not is_few or self._solver is None:
            return super().solve(noise, mu, cond, num_steps, cfg)
        schedule = self.schedule(num_steps)
        return self._solver(
            noise.contiguous(), mu.contiguous(), cond.contiguous(), schedule.embeddings,
            schedule.step_sizes,
        )  # fmt: skip


class NativeCausalStack(CausalStack):
    """`CausalStack` as `NativeLocalStack` is, but for long prompts."""

    @cached_property
    def _layers(self) -> list[kernels.Layer]:
        return _layers(self)

    @cached_property
    def _together(self) -> kernels.LayerStack:
        return kernels.LayerStack(self._layers)

    def prefill(self, x: Tensor, cache: KVCache, slot: int, start: int = 0) -> Tensor:
        if len(x) > MAX_PROMPT:
            return super().prefill(x, cache, slot, start)
        return self.prefill_spans(x, cache, [(slot, start, len(x))])

    def prefill_spans(
        self, x: Tensor, cache: KVCache, spans: Sequence[tuple[int, int, int]]
    ) -> Tensor:
        if any(length > MAX_PROMPT for _, _, length in spans):
            return super().prefill_spans(x, cache, spans)
        return self._run(x, cache, *_places(cache, spans))

    def prefill_ends(
        self, x: Tensor, cache: KVCache, spans: Sequence[tuple[int, int, int]]
    ) -> Tensor:
        if any(length > MAX_PROMPT for _, _, length in spans):
            return super().prefill_ends(x, cache, spans)
        return self._run(x, cache, *_places(cache, spans), torch.tensor(ends_of(spans)))

    def decode(self, x: Tensor, cache: KVCache, rows: Rows) -> Tensor:
        if rows.host is None:
            return super().decode(x, cache, rows)
        num_positions = cache.keys.shape[3]
        assert all(row.position < num_positions for row in rows.host), num_positions
        return self._run(x, cache, rows.slots, rows.positions)

    def _run(
        self, x: Tensor, cache: KVCache, slots: Tensor, positions: Tensor,
        kept: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """One position of each row, in their order; `[B, D] -> [B, D]`, or of rows `kept` alone."""
        if len(x) < MIN_SHARED or not self._layers:
            run = self._run_together if self._layers else self._run_apart
            every = run(x, cache, slots, positions)
            return every if kept is None else every[kept]
        normed = kernels.norm(x, self.blocks[0].input_norm, self.eps)
        for index, layer in enumerate(self._layers):
            x, normed = layer.causal(
                x, normed, cache.keys[index], cache.values[index], slots, positions,
                kept if layer is self._layers[-1] else None,
            )  # fmt: skip
        return normed

    def _run_together(self, x: Tensor, cache: KVCache, slots: Tensor, positions: Tensor) -> Tensor:
        return self._together.causal(x.contiguous(), cache.keys, cache.values, slots, positions)

    def _run_apart(self, x: Tensor, cache: KVCache, slots: Tensor, positions: Tensor) -> Tensor:
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


def _places(cache: KVCache, spans: Sequence[tuple[int, int, int]]) -> tuple[Tensor, Tensor]:
    """Slot and position of each row of spans; rows are written and read in this order."""
    num_positions = cache.keys.shape[3]
    assert all(start + length <= num_positions for _, start, length in spans), num_positions
    slots = torch.cat([torch.full((length,), slot) for slot, _, length in spans])
    return slots, torch.cat([torch.arange(start, start + n) for _, start, n in spans])
