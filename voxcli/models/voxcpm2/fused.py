"""The same layers over fused kernels: what runs on CUDA in bf16 and with weights in eight bits.

Each class overrides only how its parent computes; weights, state and results (up to rounding) are
the parent's, so the parent is the reference. `supports` and `supports_vocoder` say where.

Letters: `B` rows, `T` tokens, `D` width, `P` latent vectors a patch, `W` LocDiT width.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli import kernels
from voxcli.kernels import cubin, persistent, residual_unit
from voxcli.kernels.residual_unit import Kind
from voxcli.layers.fp8 import Fp8Linear
from voxcli.layers.linear import Linear
from voxcli.models.causal import FusedCausalLayers
from voxcli.models.voxcpm2.acoustic import LocalDiT, LocalEncoder
from voxcli.models.voxcpm2.backbone import CausalStack, LocalStack, Repeats
from voxcli.models.voxcpm2.config import TransformerConfig
from voxcli.models.voxcpm2.host import KERNEL
from voxcli.models.voxcpm2.vae import Decoder, DepthwiseConv, VocoderState

logger = logging.getLogger(__name__)

HEAD_DIMS = (32, 64, 128)


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

    def compile_attention_ahead(self, num_positions: int) -> None:
        """Begin to compile what attention of many patches of so many positions may take."""
        from voxcli.kernels.patch_attention import compile_ahead

        compile_ahead(
            self.norm.device, num_positions, self.num_heads, self.num_kv_heads, self.head_dim
        )

    def normed(self, x: Tensor, first: int) -> Tensor:
        """All layers and the final norm; `[B, T, D] -> [B, T - first, D]`; keeps `x`."""
        if isinstance(self.blocks[0].qkv, Fp8Linear):
            return self._normed_fp8(x, first)
        from voxcli.kernels.linear import linear, linear_add_norm, linear_swiglu
        from voxcli.kernels.patch_attention import local_attention
        from voxcli.kernels.rows import rms_norm as fused_norm

        norms = [*(block.input_norm for block in self.blocks[1:]), self.norm]
        normed = fused_norm(x, self.blocks[0].input_norm, self.eps)
        for block, next_norm in zip(self.blocks, norms, strict=True):
            start = first if block is self.blocks[-1] else 0
            qkv = linear(normed, block.qkv.weight)
            attended = local_attention(
                qkv, self.rotation, self.num_heads, self.num_kv_heads, start, self.scale
            )
            is_kept = block is self.blocks[0]
            x, normed = linear_add_norm(
                attended, block.output.weight, x[:, start:].contiguous(), block.mlp_norm, self.eps,
                keep=is_kept,
            )  # fmt: skip
            inner = linear_swiglu(normed, block.gate_up.weight)
            x, normed = linear_add_norm(inner, block.down.weight, x, next_norm, self.eps)
        return normed

    def _normed_fp8(self, x: Tensor, first: int) -> Tensor:
        """`normed` over weights in eight bits."""
        from voxcli.kernels import fp8_rows
        from voxcli.kernels.fp8 import linear, linear_add, linear_add_norm, linear_swiglu
        from voxcli.kernels.patch_attention import local_attention_fp8
        from voxcli.kernels.rows import rms_norm as fused_norm

        rows = fp8_rows.rms_norm(x, self.blocks[0].input_norm, self.eps)
        for index, block in enumerate(self.blocks):
            is_last = index == len(self.blocks) - 1
            start = first if is_last else 0
            attended = local_attention_fp8(
                linear(rows, block.qkv.weight), self.rotation, self.num_heads, self.num_kv_heads,
                start, self.scale,
            )  # fmt: skip
            x, rows = linear_add_norm(
                attended, block.output.weight, x[:, start:].contiguous(), block.mlp_norm, self.eps,
                keep=index == 0,
            )  # fmt: skip
            inner = linear_swiglu(rows, block.gate_up.weight)
            if is_last:
                x = linear_add(inner, block.down.weight, x)
            else:
                next_norm = self.blocks[index + 1].input_norm
                x, rows = linear_add_norm(inner, block.down.weight, x, next_norm, self.eps)
        return fused_norm(x, self.norm, self.eps)

    def __call__(self, x: Tensor, keep: slice, repeats: Repeats | None = None) -> Tensor:
        start = keep.start or 0
        normed = self.normed(x, start)
        return normed if keep.stop is None else normed[:, : keep.stop - start]


class FusedCausalStack(FusedCausalLayers, CausalStack):
    """`CausalStack` over fused kernels."""


def _wide(linear: Linear | Fp8Linear) -> Tensor:
    """The weight for a kernel that widens none: eight bits are widened here."""
    is_fp8 = isinstance(linear, Fp8Linear)
    weight: Tensor = linear.weight.widened(torch.float32) if is_fp8 else linear.weight
    return weight


def _packed_layers(stack: FusedLocalStack) -> Iterator[persistent.Layer]:
    """The layers of a stack for its one kernel, each made when it is asked for."""
    return (
        persistent.Layer(
            block.input_norm, _wide(block.qkv), _wide(block.output), block.mlp_norm,
            _wide(block.gate_up), _wide(block.down),
        )
        for block in stack.blocks
    )  # fmt: skip


def _why_no_persistent(stack: FusedLocalStack, patch_size: int, latent_width: int) -> str | None:
    """What stands against one kernel for a stack, or None."""
    config = stack.config
    sizes = (
        config.hidden_size, config.num_attention_heads, config.num_key_value_heads,
        config.head_dim, config.intermediate_size, patch_size, latent_width,
    )  # fmt: skip
    reason = persistent.why_not(stack.norm.device, stack.norm.dtype, sizes)
    if stack.rotation is None:
        reason = reason or "it rotates queries and keys"
    return reason


def _can_run(kernel: persistent.Solver | persistent.Encoder, what: str) -> bool:
    """Whether the kernel of one stream runs; it is loaded at its first use."""
    if not kernel.is_prepared and not kernel.is_refused and (reason := kernel.prepare()):
        _log_why_not(what, reason)
    return kernel.is_prepared


class FusedLocalEncoder(LocalEncoder):
    """`LocalEncoder` whose one patch of one stream is one kernel where that can run."""

    stack: FusedLocalStack
    _persistent: persistent.Encoder | None = None

    def use_persistent(self, patch_size: int) -> None:
        """Have one kernel encode for one stream, or say in the log why not."""
        stack, bias = self.stack, self.in_proj.bias
        reason = _why_no_persistent(stack, patch_size, self.in_proj.in_features)
        if reason is not None:
            _log_why_not("LocEnc", reason)
            return
        assert stack.rotation is not None
        assert bias is not None
        self._persistent = persistent.Encoder(
            _packed_layers(stack), len(stack.blocks), stack.norm, stack.rotation, stack.eps,
            cubin.cache_folder(), self.special_token.flatten(), self.in_proj.weight, bias,
        )  # fmt: skip

    def __call__(self, patches: Tensor) -> Tensor:
        encoder = self._persistent
        is_one = len(patches) == 1 and not kernels.compiling_alone.get()
        if encoder is not None and is_one and _can_run(encoder, "LocEnc"):
            return encoder.encode(patches)
        return super().__call__(patches)


class FusedLocalDiT(LocalDiT):
    """`LocalDiT` that keeps one token buffer a step; the patch is integrated in fp32.

    One stream is solved by one kernel where `use_persistent` finds that it can be.
    """

    stack: FusedLocalStack
    _persistent: persistent.Solver | None = None

    def use_persistent(self, patch_size: int) -> None:
        """Have one kernel solve for one stream, or say in the log why not."""
        reason = _why_no_persistent(self.stack, patch_size, self.in_proj.in_features)
        if reason is None:
            self._persistent = persistent.Solver(self._weights(), cubin.cache_folder())
        else:
            _log_why_not("LocDiT", reason)

    def _weights(self) -> persistent.Weights:
        stack = self.stack
        biases = (self.in_proj.bias, self.cond_proj.bias, self.out_proj.bias)
        in_bias, cond_bias, out_bias = (bias for bias in biases if bias is not None)
        assert stack.rotation is not None
        return persistent.Weights(
            layers=_packed_layers(stack), num_layers=len(stack.blocks), norm=stack.norm,
            in_weight=self.in_proj.weight, in_bias=in_bias, cond_weight=self.cond_proj.weight,
            cond_bias=cond_bias, out_weight=self.out_proj.weight, out_bias=out_bias,
            turns=stack.rotation, eps=stack.eps,
        )  # fmt: skip

    def _solver(self, num_rows: int) -> persistent.Solver | None:
        """The kernel of one stream, where it can run."""
        solver = self._persistent
        if solver is None or num_rows > 1 or kernels.compiling_alone.get():
            return None
        return solver if _can_run(solver, "LocDiT") else None

    def solve(
        self, noise: Tensor, mu: Tensor, cond: Tensor, num_steps: int, cfg: Tensor | None
    ) -> Tensor:
        schedule = self.schedule(num_steps)
        if solver := self._solver(len(noise)):
            return solver.solve(noise, mu, cond, cfg, schedule.sizes, schedule.embeddings)
        from voxcli.kernels.linear import linear
        from voxcli.kernels.solver import euler_step, write_tokens

        B, P, _ = noise.shape
        halves = 1 if cfg is None else 2
        num_tokens = 3 + 2 * P
        tokens = mu.new_zeros(halves * B, num_tokens, self.width)
        tokens[:B, :2] = mu
        tokens.view(halves, B, num_tokens, -1)[:, :, 3 : 3 + P] = self.cond_proj(cond)
        x = noise.float().clone()
        for size, time in zip(schedule.step_sizes, schedule.embeddings, strict=True):
            assert self.in_proj.bias is not None
            write_tokens(tokens, x, self.in_proj.weight, self.in_proj.bias, time)
            normed = self.stack.normed(tokens, num_tokens - P)
            velocity = linear(normed, self.out_proj.weight, self.out_proj.bias)
            euler_step(x, velocity, cfg, size)
        return x.to(mu.dtype)


def _log_why_not(what: str, reason: str) -> None:
    logger.info("the %s of one stream runs as separate kernels: %s", what, reason)


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

    def kind(self, num_rows: int, dtype: torch.dtype) -> Kind | None:
        """The kernel that computes its units, where there is one."""
        dilations = [unit.dilation for unit in self.units]
        scale = self.units[0].scale
        return residual_unit.kind_for(len(scale), dilations, num_rows, dtype, scale.device)


def _taps(conv: DepthwiseConv) -> Tensor:
    return conv.weight.reshape(-1, KERNEL).t().contiguous()  # [KERNEL, C]


class FusedDecoder(Decoder):
    """`Decoder` in one to three kernels a residual unit; `residual_unit.py` says which.

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
        residual_unit.compile_ahead(
            missing.device, [len(block.units[0].scale) for block in plain.blocks], dtype
        )
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
        for block, after_block in zip(self.fused_blocks, self.snakes[1:], strict=True):
            own = contexts.popleft()
            B, N, C = padded.shape
            pairs = padded.as_strided((B, N - 1, 2 * C), (N * C, C, 1))  # row t: t-1 and t
            given = block, pairs, own, after_block, contexts, slots
            kind = block.kind(len(latents), self.dtype)
            if kind is None:
                padded = self._run_separately(*given)
            else:
                padded = self._run_units(*given, has_product=kind.has_product)
        return last(padded, self.last.weight, self.last_bias, contexts[0], slots)

    def _run_units(
        self, block: FusedBlock, pairs: Tensor, own: Tensor, after: tuple[Tensor, Tensor],
        contexts: deque[Tensor], slots: Tensor, *, has_product: bool,
    ) -> Tensor:  # fmt: skip
        """A block whose units are a kernel each, or one and a product."""
        C, upsample = len(block.units[0].scale), block.upsample
        x, _ = self._product(pairs, upsample.weight, upsample.bias, None, C, None, slots, own)
        for unit in block.units:
            conv = unit.scale, unit.shift, unit.taps, unit.bias, unit.dilation, contexts.popleft()
            reader = (*after, contexts[0]) if unit is block.units[-1] else None
            if has_product:
                x = residual_unit.residual_unit(x, *conv, slots, unit.weight, reader)
            else:
                inner = residual_unit.filtered(x, *conv, slots)
                _, x = self._product(
                    inner, unit.weight, None, x, C, reader, slots, is_kept=reader is None
                )
        return x

    def _run_separately(
        self, block: FusedBlock, pairs: Tensor, own: Tensor, after: tuple[Tensor, Tensor],
        contexts: deque[Tensor], slots: Tensor,
    ) -> Tensor:  # fmt: skip
        """A block in a depthwise convolution and a product a unit, and a pad where it is needed."""
        from voxcli.kernels.vocoder import depthwise

        snakes = [(unit.scale, unit.shift) for unit in block.units] + [after]
        C, upsample = len(snakes[0][0]), block.upsample
        reader = (*snakes[0], contexts[0])
        x, padded = self._product(
            pairs, upsample.weight, upsample.bias, None, C, reader, slots, own
        )
        for unit, snake in zip(block.units, snakes[1:], strict=True):
            context = contexts.popleft()
            inner = depthwise(
                padded, unit.taps, unit.bias, unit.dilation, context, slots, is_snake=True
            )
            x, padded = self._product(inner, unit.weight, None, x, C, (*snake, contexts[0]), slots)
        return padded

    def _product(
        self, rows: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, C: int,
        reader: tuple[Tensor, Tensor, Tensor] | None, slots: Tensor, own: Tensor | None = None,
        *, is_kept: bool = True,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """A product plus a residual, which is written over; and the sum padded for its reader.

        Without a reader both are the sum.

        Args:
            own: the context of an upsampling convolution, which is replaced.
        """
        from voxcli.kernels.product import product, product_pad, supports
        from voxcli.kernels.vocoder import pad

        if supports(C, rows.dtype):
            if reader is None:
                x = product(rows, weight, bias, residual, C, slots, own)
                return x, x
            return product_pad(
                rows, weight, bias, residual, *reader, slots, own_context=own, is_kept=is_kept
            )
        if own is not None:
            own[slots] = rows[:, -1:, rows.shape[2] // 2 :]
        if residual is None:
            # in two axes, the bias is the product's own
            x = F.linear(rows.flatten(0, 1), weight, bias).view(len(rows), -1, C)
        else:
            x = residual
            x.flatten(0, 1).addmm_(rows.flatten(0, 1), weight.t())
        return x, x if reader is None else pad(x, *reader, slots)
