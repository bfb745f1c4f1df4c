"""The AudioVAE decoder over native kernels: what runs on a CPU where they were compiled.

Letters: `B` rows, `T` time steps, `C` channels, `D` latent width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.kernels import native_vocoder as kernels
from voxcli.kernels.native import load
from voxcli.kernels.native_product import NativeLinear
from voxcli.kernels.structs import LANES
from voxcli.layers.linear import Linear
from voxcli.models.voxcpm2.host import KERNEL
from voxcli.models.voxcpm2.vae import Decoder, DepthwiseConv, VocoderState


def supports_vocoder(decoder: Decoder) -> bool:
    """Whether `NativeDecoder` can take a decoder's place."""
    return decoder.last_scale.device.type == "cpu" and load() is not None


@dataclass(frozen=True)
class _Unit:
    snake: Tensor  # tables of scale and shift, [2, W]
    taps: Tensor  # filters and bias, as `filter_table` makes them
    dilation: int
    pointwise: Linear


@dataclass(frozen=True)
class _Block:
    snake: Tensor
    upsample: Linear
    units: list[_Unit]
    fused: kernels.Units | None  # all of them, where their products are the kernel's


def _fuse(units: list[_Unit]) -> kernels.Units | None:
    fused = [
        kernels.Unit(unit.snake, unit.taps, unit.dilation, unit.pointwise.panels)
        for unit in units
        if isinstance(unit.pointwise, NativeLinear)
    ]
    return kernels.Units(fused) if len(fused) == len(units) else None


def _snake(scale: Tensor, shift: Tensor | None = None) -> Tensor:
    shift = torch.zeros_like(scale) if shift is None else shift
    return kernels.table(torch.stack((scale, shift)))


def _taps(conv: DepthwiseConv) -> Tensor:
    return kernels.filter_table(conv.weight.reshape(-1, KERNEL).T, conv.bias)


class NativeDecoder(Decoder):
    """`Decoder` in one call and one product for each convolution, or one for a residual unit.

    Args:
        plain: whose weights it takes.
    """

    def __init__(self, plain: Decoder) -> None:
        super().__init__(
            plain.config, plain.first, plain.expand, plain.blocks, plain.last_scale, plain.last,
            plain.last_bias,
        )  # fmt: skip
        self._first_taps = _taps(plain.first)
        self._blocks = []
        for block in plain.blocks:
            units = [
                _Unit(
                    _snake(unit.scale),
                    _taps(unit.depthwise),
                    unit.depthwise.dilation,
                    unit.pointwise,
                )
                for unit in block.units
            ]
            snake = _snake(block.scale, block.shift)
            self._blocks.append(_Block(snake, block.upsample, units, _fuse(units)))
        self._last_snake = _snake(plain.last_scale)
        C = len(plain.last_scale)
        taps = plain.last(torch.eye(C)).T.flatten()  # [KERNEL * C]
        self._last_taps = F.pad(taps, (0, -len(taps) % LANES))
        self._last_bias = float(plain.last_bias)

    def __call__(self, latents: Tensor, state: VocoderState, slots: Tensor | slice) -> Tensor:
        if isinstance(slots, slice):
            slots = torch.arange(slots.start, slots.stop)
        contexts = iter(state.contexts)
        B, T, _ = latents.shape
        # for one row a call; no smaller than a table, with room for a last vector
        scratch = latents.new_empty(max(self._largest(1, T), self._widest_table) + LANES)
        out = latents.new_empty(2 * self._largest(B, T))
        x = latents.contiguous()
        x = self.expand(
            kernels.depthwise(x, None, self._first_taps, 1, next(contexts), slots, scratch, out)
        )
        for block in self._blocks:
            x = block.upsample(kernels.pairs(x, block.snake, next(contexts), slots, scratch, out))
            x = x.view(B, -1, block.units[0].pointwise.in_features)  # [B, T, s C] -> [B, T s, C]
            own = [next(contexts) for _ in block.units]
            if block.fused is not None:
                x = block.fused(x, own, slots)
                continue
            for unit, context in zip(block.units, own, strict=True):
                conv = unit.snake, unit.taps, unit.dilation
                inner = kernels.depthwise(x, *conv, context, slots, scratch, out)
                x = unit.pointwise.add(inner, x)
        return kernels.last(
            x, self._last_snake, self._last_taps, self._last_bias, next(contexts), slots, scratch
        )

    @property
    def _widest_table(self) -> int:
        return max(block.snake.shape[1] for block in self._blocks)
