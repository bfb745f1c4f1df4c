"""The same layers over fused kernels: what runs on CUDA in bf16.

Each class overrides only how its parent computes; weights, state and results (up to rounding) are
the parent's, so the parent is the reference. `supports` and `supports_vocoder` say where.

Letters: `B` rows, `T` tokens, `D` width, `P` latent vectors a patch, `W` LocDiT width.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli import kernels
from voxcli.layers.linear import Linear
from voxcli.models.base import Rows
from voxcli.models.voxcpm2.acoustic import LocalDiT
from voxcli.models.voxcpm2.backbone import CausalStack, KVCache, LocalStack, rms_norm
from voxcli.models.voxcpm2.config import TransformerConfig
from voxcli.models.voxcpm2.vae import KERNEL, Decoder, DepthwiseConv, VocoderState

HEAD_DIMS = (32, 64, 128)
MIN_SPLIT_ROWS = 32  # below, a half's products are too small to gain


def supports(config: TransformerConfig, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the fused layers can run a stack."""
    return (
        kernels.is_available(device)
        and dtype == torch.bfloat16
        and config.head_dim in HEAD_DIMS
        and config.hidden_size % 32 == 0
        and config.intermediate_size % 32 == 0
        and config.residual_scale == 1.0
    )


class FusedLocalStack(LocalStack):
    """`LocalStack` in five kernels a layer."""

    def hidden(self, x: Tensor, first: int) -> Tensor:
        """All layers, without the final norm; `[B, T, D] -> [B, T - first, D]`; keeps `x`."""
        from voxcli.kernels.attention import local_attention
        from voxcli.kernels.linear import linear_add, rms_linear, rms_swiglu

        for block in self.blocks:
            is_last = block is self.blocks[-1]
            start = first if is_last else 0
            qkv = rms_linear(x, block.input_norm, self.eps, block.qkv.weight)
            attended = local_attention(
                qkv, self.rotation, self.num_heads, self.num_kv_heads, start, self.scale
            )
            residual = x[:, start:].clone() if start or block is self.blocks[0] else x
            x = linear_add(attended, block.output.weight, residual)
            inner = rms_swiglu(x, block.mlp_norm, self.eps, block.gate_up.weight)
            x = linear_add(inner, block.down.weight, x)
        return x

    def __call__(self, x: Tensor, keep: slice) -> Tensor:
        hidden = self.hidden(x, keep.start or 0)
        if keep.stop is not None:
            hidden = hidden[:, : keep.stop - (keep.start or 0)]
        return rms_norm(hidden, self.norm, self.eps)


class FusedCausalStack(CausalStack):
    """`CausalStack` in five kernels a layer and decode step."""

    def new_cache(self, num_slots: int, num_positions: int) -> KVCache:
        from voxcli.kernels.attention import Scratch

        cache = super().new_cache(num_slots, num_positions)
        cache.scratch = Scratch(
            num_slots, num_positions, self.num_kv_heads, self.num_heads // self.num_kv_heads,
            self.head_dim, self.norm.device,
        )  # fmt: skip
        return cache

    def prefill_rows(self, x: Tensor, cache: KVCache, slots: Tensor) -> Tensor:
        from voxcli.kernels.attention import rotate_prompt, split_heads
        from voxcli.kernels.linear import linear_add, rms_linear, rms_swiglu

        x = x.clone()  # a residual may be written over
        for layer, block in enumerate(self.blocks):
            qkv = rms_linear(x, block.input_norm, self.eps, block.qkv.weight)
            rotate_prompt(
                qkv, self.rotation, cache.keys[layer], cache.values[layer], slots, self.num_heads
            )
            heads = split_heads(qkv, self.num_heads, self.num_kv_heads)
            queries, keys, values = (part.transpose(1, 2) for part in heads)
            attended = F.scaled_dot_product_attention(
                queries, keys, values, is_causal=True, scale=self.scale, enable_gqa=True
            )  # [B, H, N, C]
            x = linear_add(attended.transpose(1, 2).flatten(2), block.output.weight, x)
            inner = rms_swiglu(x, block.mlp_norm, self.eps, block.gate_up.weight)
            x = linear_add(inner, block.down.weight, x)
        return rms_norm(x, self.norm, self.eps)

    def decode(self, x: Tensor, cache: KVCache, rows: Rows) -> Tensor:
        from voxcli.kernels.attention import decode_attention
        from voxcli.kernels.linear import linear_add, rms_linear, rms_swiglu

        assert cache.scratch is not None
        x = x.clone()  # a residual may be written over
        for layer, block in enumerate(self.blocks):
            qkv = rms_linear(x, block.input_norm, self.eps, block.qkv.weight)
            attended = decode_attention(
                qkv, self.rotation, cache.keys[layer], cache.values[layer], rows.slots,
                rows.positions, self.num_heads, self.scale, cache.scratch,
            )  # fmt: skip
            x = linear_add(attended, block.output.weight, x)
            inner = rms_swiglu(x, block.mlp_norm, self.eps, block.gate_up.weight)
            x = linear_add(inner, block.down.weight, x)
        return rms_norm(x, self.norm, self.eps)


class FusedLocalDiT(LocalDiT):
    """`LocalDiT` that keeps one token buffer a step; the patch is integrated in fp32.

    Many rows go in two halves side by side: one half's products fill the card while the other's
    small kernels and the ends of its products leave most of it idle.
    """

    stack: FusedLocalStack

    def solve(
        self, noise: Tensor, mu: Tensor, cond: Tensor, num_steps: int, cfg: Tensor | None
    ) -> Tensor:
        x = noise.float().clone()
        self.schedule(num_steps)  # made here, before streams part
        half = len(x) // 2
        if len(x) < MIN_SPLIT_ROWS:
            self._integrate(x, mu, cond, num_steps, cfg)
            return x.to(mu.dtype)
        main, side = torch.cuda.current_stream(x.device), _side_stream(x.device)
        side.wait_stream(main)
        for stream, rows in ((side, slice(half)), (main, slice(half, None))):
            with torch.cuda.stream(stream):
                guidance = None if cfg is None else cfg[rows]
                self._integrate(x[rows], mu[rows], cond[rows], num_steps, guidance)
        main.wait_stream(side)
        return x.to(mu.dtype)

    def _integrate(
        self, x: Tensor, mu: Tensor, cond: Tensor, num_steps: int, cfg: Tensor | None
    ) -> None:
        """Integrate `x`, float32 `[B, P, D]`, in place."""
        from voxcli.kernels.linear import rms_linear
        from voxcli.kernels.solver import euler_step, write_tokens

        schedule = self.schedule(num_steps)
        B, P, _ = x.shape
        halves = 1 if cfg is None else 2
        num_tokens = 3 + 2 * P
        tokens = mu.new_zeros(halves * B, num_tokens, self.width)
        tokens[:B, :2] = mu
        tokens.view(halves, B, num_tokens, -1)[:, :, 3 : 3 + P] = self.cond_proj(cond)
        for size, time in zip(schedule.step_sizes, schedule.embeddings, strict=True):
            assert self.in_proj.bias is not None
            write_tokens(tokens, x, self.in_proj.weight, self.in_proj.bias, time)
            hidden = self.stack.hidden(tokens, num_tokens - P)
            velocity = rms_linear(
                hidden, self.stack.norm, self.stack.eps, self.out_proj.weight, self.out_proj.bias
            )
            euler_step(x, velocity, cfg, size)


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def supports_vocoder(decoder: Decoder) -> bool:
    """Whether `FusedDecoder` can run a decoder."""
    return kernels.is_available(decoder.last_scale.device) and len(decoder.last_scale) <= 128


@dataclass(frozen=True)
class FusedUnit:
    """A residual unit whose input lacks the biases of the units before it in its block."""

    scale: Tensor  # fp32 [C]
    shift: Tensor  # fp32 [C]: scale times those biases
    taps: Tensor  # fp32 [KERNEL, C]
    bias: Tensor  # fp32 [C], of the depthwise convolution
    dilation: int
    weight: Tensor  # [C, C], from the last axis to the first


@dataclass(frozen=True)
class FusedBlock:
    scale: Tensor  # fp32 [C]
    shift: Tensor  # fp32 [C], with the biases that its input lacks
    upsample: Linear
    stride: int
    units: list[FusedUnit]


def _taps(conv: DepthwiseConv) -> Tensor:
    return conv.weight.reshape(-1, KERNEL).t().contiguous()  # [KERNEL, C]


class FusedDecoder(Decoder):
    """`Decoder` in one kernel a residual unit where channels are few, else in three.

    A unit's output is its input plus a product; the product's bias is left out and goes into the
    shift of every Snake that reads the sum, so that the addition is the product's own.

    Args:
        plain: whose weights it takes.
        dtype: of activations, contexts and products; scales, shifts and filters stay fp32.
    """

    def __init__(self, plain: Decoder, dtype: torch.dtype) -> None:
        super().__init__(
            plain.config, plain.first, plain.expand, plain.blocks, plain.last_scale, plain.last,
            plain.last_bias,
        )  # fmt: skip
        self.dtype = dtype
        self.first_taps = _taps(plain.first)
        self.fused_expand = self._cast(plain.expand)
        self.fused_blocks: list[FusedBlock] = []
        missing = torch.zeros_like(plain.blocks[0].scale)
        for block in plain.blocks:
            shift = block.shift + block.scale * missing
            missing = torch.zeros_like(block.units[0].scale)
            units = []
            for unit in block.units:
                weight = unit.pointwise.weight.to(dtype)
                units.append(
                    FusedUnit(
                        unit.scale,
                        unit.scale * missing,
                        _taps(unit.depthwise),
                        unit.depthwise.bias,
                        unit.depthwise.dilation,
                        weight,
                    )
                )
                assert unit.pointwise.bias is not None
                missing = missing + unit.pointwise.bias
            upsample = self._cast(block.upsample)
            self.fused_blocks.append(FusedBlock(block.scale, shift, upsample, block.stride, units))
        # of each block's Snake, then of the last convolution's
        self.snakes = [(block.scale, block.shift) for block in self.fused_blocks]
        self.snakes.append((plain.last_scale, plain.last_scale * missing))

    def _cast(self, linear: Linear) -> Linear:
        bias = None if linear.bias is None else linear.bias.to(self.dtype)
        return Linear(linear.weight.to(self.dtype), bias)

    def new_state(self, num_slots: int) -> VocoderState:
        state = super().new_state(num_slots)
        return VocoderState([context.to(self.dtype) for context in state.contexts])

    def __call__(self, latents: Tensor, state: VocoderState, slots: Tensor | slice) -> Tensor:
        from voxcli.kernels.vocoder import depthwise, last, pad

        assert isinstance(slots, Tensor), slots
        contexts = deque(state.contexts)
        context = contexts.popleft()
        padded = pad(latents.to(self.dtype), None, None, context, slots)
        x = depthwise(padded, self.first_taps, self.first.bias, 1, context, slots, is_snake=False)
        x = self.fused_expand(x)
        padded = pad(x, *self.snakes[0], contexts[0], slots)
        for block, next_snake in zip(self.fused_blocks, self.snakes[1:], strict=True):
            contexts.popleft()[slots] = padded[:, -1:]
            B, N, C = padded.shape
            pairs = padded.as_strided((B, N - 1, 2 * C), (N * C, C, 1))  # row t: t-1 and t
            x = block.upsample(pairs).view(B, (N - 1) * block.stride, -1)
            padded = pad(x, block.units[0].scale, block.units[0].shift, contexts[0], slots)
            snakes = [(unit.scale, unit.shift) for unit in block.units[1:]]
            for unit, snake in zip(block.units, [*snakes, next_snake], strict=True):
                padded = self._add(unit, padded, x, snake, contexts, slots)
        return last(padded, self.last.weight, self.last_bias, contexts[0], slots)

    def _add(
        self, unit: FusedUnit, padded: Tensor, x: Tensor, snake: tuple[Tensor, Tensor],
        contexts: deque[Tensor], slots: Tensor,
    ) -> Tensor:  # fmt: skip
        """Add a unit to x in place; the sum, padded for the Snake that reads it."""
        from voxcli.kernels.residual import residual_unit, supports
        from voxcli.kernels.vocoder import depthwise, pad

        context = contexts.popleft()
        if supports(x.shape[-1], x.dtype):
            return residual_unit(
                padded, unit.taps, unit.bias, unit.dilation, unit.weight, x, context, *snake,
                contexts[0], slots,
            )  # fmt: skip
        inner = depthwise(
            padded, unit.taps, unit.bias, unit.dilation, context, slots, is_snake=True
        )
        x.flatten(0, 1).addmm_(inner.flatten(0, 1), unit.weight.t())
        return pad(x, *snake, contexts[0], slots)
