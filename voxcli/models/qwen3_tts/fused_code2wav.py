"""code2wav over fused kernels: what runs on CUDA beside a talker in bf16 or fp8.

The parent is the reference. Weights and activations have fp16, whose mantissa is three bits longer
than that of the bf16 that the official package decodes with on a card; what would be beyond fp16's
range ends at its largest number. Sums, sines and biases are fp32.

Between two products nothing is left to do: each writes its sum as its reader wants it, behind the
reader's context (`kernels/convolution.py`).

Letters: `B` rows, `T` frames or time steps, `K` codebooks, `D` width, `S` samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from voxcli import kernels
from voxcli.layers.linear import Linear
from voxcli.models.qwen3_tts.code2wav import LAYER_NORM_EPS, Code2Wav, Code2WavState
from voxcli.models.qwen3_tts.code2wav_layers import Conv
from voxcli.models.qwen3_tts.sizes import DecoderConfig
from voxcli.models.sources import Source

if TYPE_CHECKING:
    from voxcli.kernels.convolution import Reader

HEAD_DIMS = (32, 64, 128)
MAX_WINDOW = 129  # frames; all of a head's are in one tile
MAX_LAST_CHANNELS = 128


def supports(config: DecoderConfig, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the fused layers can decode beside a model of a dtype."""
    last = config.decoder_dim >> len(config.upsample_rates)
    widths = config.codebook_dim, config.hidden_size, config.latent_dim, config.intermediate_size
    return (
        kernels.is_available(device)
        and dtype != torch.float32
        and config.head_dim in HEAD_DIMS
        and config.sliding_window <= MAX_WINDOW
        and all(width % 32 == 0 for width in widths)
        and last % 16 == 0
        and last <= MAX_LAST_CHANNELS
        and len(config.upsampling_ratios) > 0
    )


class FusedCode2Wav(Code2Wav):
    """`Code2Wav` in some eighty kernels a call."""

    def __init__(self, source: Source, config: DecoderConfig) -> None:
        super().__init__(source, config, weights=torch.float16)
        self._ones = self.table.new_ones(config.hidden_size)  # norms are in the weights
        self._depthwise = [
            stage.depthwise.weight[:, 0, 0].T.float().contiguous() for stage in self.upsamples
        ]
        self._last = self.last.weight.float()

    def _rows(self, slots: Tensor | slice, state: Code2WavState) -> Tensor:
        if isinstance(slots, Tensor):
            return slots
        start, stop, _ = slots.indices(len(state.frames))
        return torch.arange(start, stop, device=self.table.device)

    def _vectors(self, codes: Tensor, state: Code2WavState, slots: Tensor | slice) -> Tensor:
        from voxcli.kernels.convolution import convolve, embed
        from voxcli.kernels.linear import linear_add, rms_linear, rms_swiglu
        from voxcli.kernels.ring_attention import ring_attention

        rows, eps = self._rows(slots, state), self.config.rms_norm_eps
        context = state.contexts[0]
        padded, starts = embed(codes.contiguous(), self.table, context, state.frames, rows)
        x = convolve(padded, *_product(self.first), rows, context)
        for layer, keys, values in zip(self.layers, state.keys, state.values, strict=True):
            qkv = rms_linear(x, self._ones, eps, layer.qkv.weight)
            attended = ring_attention(qkv, self._frequencies, keys, values, rows, starts)
            x = linear_add(attended, layer.output.weight, x)
            inner = rms_swiglu(x, self._ones, eps, layer.gate_up.weight)
            x = linear_add(inner, layer.down.weight, x)
        return x

    def _samples(self, x: Tensor, state: Code2WavState, slots: Tensor | slice) -> Tensor:
        from voxcli.kernels.convolution import convolve, convolve_for, depthwise_norm
        from voxcli.kernels.rows import rms_norm
        from voxcli.kernels.vocoder import last

        rows, readers = self._rows(slots, state), self._readers(state)
        depthwise = state.contexts[1 : 1 + len(self.upsamples)]
        reader = next(readers)
        x = rms_norm(x.contiguous(), self._ones, self.config.rms_norm_eps)
        padded = x
        for stage, taps, context in zip(self.upsamples, self._depthwise, depthwise, strict=True):
            x = convolve(x, *_product(stage.expand), rows)
            x = x.view(len(x), -1, stage.depthwise.channels)  # [B, T, s C] -> [B, s T, C]
            inner = depthwise_norm(x, taps, stage.depthwise.bias, LAYER_NORM_EPS, context, rows)
            inner = convolve(inner, *_product(stage.widen), rows, is_gelu=True)
            x, padded = convolve_for(reader, inner, *_product(stage.narrow), rows, residual=x)
        context, reader = reader.context, next(readers)
        _, padded = convolve_for(
            reader, padded, *_product(self.expand), rows, context, is_kept=False
        )
        for block in self.blocks:
            context, reader = reader.context, next(readers)
            x, padded = convolve_for(reader, padded, *_product(block.upsample, 2), rows, context)
            x = x.view(len(x), -1, block.units[0].conv.channels)  # [B, T, s C] -> [B, s T, C]
            for unit in block.units:
                context, reader = reader.context, next(readers)
                inner = convolve(
                    padded, *_product(unit.conv), rows, context,
                    dilation=unit.conv.dilation, snake=unit.inner,
                )  # fmt: skip
                x, padded = convolve_for(
                    reader, inner, *_product(unit.pointwise), rows, residual=x,
                    is_kept=unit is not block.units[-1],
                )  # fmt: skip
        return last(padded, self._last, self.last_bias, reader.context, rows, is_clamped=True)

    def _readers(self, state: Code2WavState) -> Iterator[Reader]:
        """What each convolution but the depthwise ones reads, in their order."""
        from voxcli.kernels.convolution import Reader

        contexts = iter(state.contexts[1 + len(self.upsamples) :])
        yield Reader(next(contexts))
        for block in self.blocks:
            yield Reader(next(contexts), block.snake)
            for unit in block.units:
                yield Reader(next(contexts), unit.snake)
        yield Reader(next(contexts), self.last_snake)


def _product(layer: Conv | Linear, num_taps: int = 1) -> tuple[Tensor, Tensor]:
    """Weight `[N, K, C]` and bias, as `convolve` has them."""
    assert layer.bias is not None
    if isinstance(layer, Conv):
        return layer.weight.squeeze(2).transpose(1, 2), layer.bias  # channels are last in memory
    return layer.weight.unflatten(1, (num_taps, -1)), layer.bias
