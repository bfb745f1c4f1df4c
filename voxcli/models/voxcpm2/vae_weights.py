"""Weights to the AudioVAE: weight norms and Snakes are folded into convolutions here.

And the choice of who decodes: plain convolutions, fused kernels on a card, compiled ones on a CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from voxcli.layers.linear import Linear
from voxcli.models.voxcpm2.config import VaeConfig
from voxcli.models.voxcpm2.fused import FusedDecoder, supports_vocoder
from voxcli.models.voxcpm2.host import DILATIONS, KERNEL, MIN_ALPHA
from voxcli.models.voxcpm2.native import NativeDecoder
from voxcli.models.voxcpm2.native import supports_vocoder as supports_native_vocoder
from voxcli.models.voxcpm2.sources import VAE_PREFIX, Source
from voxcli.models.voxcpm2.vae import (
    Decoder,
    DecoderBlock,
    DepthwiseConv,
    Encoder,
    EncoderBlock,
    EncoderUnit,
    ResidualUnit,
)


def _conv(
    source: Source, name: str, *shape: int, transposed: bool = False
) -> tuple[Tensor, Tensor]:
    """Weight with its norm folded in, and bias. Weight norm is over all but the first axis."""
    gain = source.take(f"{VAE_PREFIX}{name}.weight_g", shape[0], 1, 1)
    direction = source.take(f"{VAE_PREFIX}{name}.weight_v", *shape)
    bias = source.take(f"{VAE_PREFIX}{name}.bias", shape[1 if transposed else 0])
    # in double precision the order of a sum does not show
    norm = torch.linalg.vector_norm(direction.double(), dim=(1, 2), keepdim=True).float()
    return direction * (gain / norm), bias


def _alpha(source: Source, name: str, channels: int) -> Tensor:
    alpha = source.take(f"{VAE_PREFIX}{name}.alpha", 1, channels, 1).flatten()
    return torch.where(alpha.abs() < MIN_ALPHA, MIN_ALPHA, alpha)


def _depthwise(weight: Tensor, bias: Tensor, dilation: int = 1) -> DepthwiseConv:
    image = weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)  # [C, 1, 1, KERNEL]
    return DepthwiseConv(image, bias.contiguous(), dilation)


def _residual_unit(source: Source, name: str, channels: int, dilation: int) -> ResidualUnit:
    alpha_in = _alpha(source, f"{name}.block.0", channels)
    weight, bias = _conv(source, f"{name}.block.1", channels, 1, KERNEL)
    alpha_out = _alpha(source, f"{name}.block.2", channels)
    mix, mix_bias = _conv(source, f"{name}.block.3", channels, channels, 1)
    # u -> (u + sin(u)^2) / alpha_in on the way in, and the next Snake's alpha_out on the way out
    folded = weight * (alpha_out / alpha_in).view(-1, 1, 1)
    return ResidualUnit(
        scale=alpha_in,
        depthwise=_depthwise(folded, bias * alpha_out, dilation),
        pointwise=source.vocoder_linear(mix.squeeze(-1) / alpha_out, mix_bias),
    )


def _decoder_block(
    source: Source, index: int, channels: int, stride: int, config: VaeConfig
) -> DecoderBlock:
    name = f"decoder.model.{index}"
    alpha = _alpha(source, f"{name}.block.0", channels)
    scale, shift = alpha, torch.zeros_like(alpha)
    if config.sr_bin_boundaries is not None:
        num_bins, row = len(config.sr_bin_boundaries) + 1, config.sample_rate_bin
        table = f"{VAE_PREFIX}decoder.sr_cond_model.{index}"
        gains = source.take(f"{table}.scale_embed.weight", num_bins, channels)
        offsets = source.take(f"{table}.bias_embed.weight", num_bins, channels)
        scale, shift = alpha * gains[row], alpha * offsets[row]
    half = channels // 2
    weight, bias = _conv(source, f"{name}.block.1", channels, half, 2 * stride, transposed=True)
    weight = weight / alpha.view(-1, 1, 1)
    present, past = weight.split(stride, dim=2)  # [C, C/2, stride] each
    # row (j, c) of the product is channel c of the j-th of the `stride` outputs
    stacked = torch.cat((past, present)).permute(2, 1, 0).reshape(stride * half, 2 * channels)
    return DecoderBlock(
        scale=scale,
        shift=shift,
        upsample=source.vocoder_linear(stacked, bias.repeat(stride)),
        stride=stride,
        units=[
            _residual_unit(source, f"{name}.block.{2 + i}", half, dilation)
            for i, dilation in enumerate(DILATIONS)
        ],
    )


def load_decoder(source: Source, config: VaeConfig) -> Decoder:
    width = config.decoder_dim
    first = _depthwise(*_conv(source, "decoder.model.0", config.latent_dim, 1, KERNEL))
    expand, bias = _conv(source, "decoder.model.1", width, config.latent_dim, 1)
    blocks = [
        _decoder_block(source, 2 + i, width >> i, stride, config)
        for i, stride in enumerate(config.decoder_rates)
    ]
    if config.sr_bin_boundaries is not None:
        # the boundaries themselves are stored too; config.json is what counts
        source.take(f"{VAE_PREFIX}decoder.sr_bin_boundaries", len(config.sr_bin_boundaries))
    last = 2 + len(config.decoder_rates)
    channels = width >> len(config.decoder_rates)
    alpha = _alpha(source, f"decoder.model.{last}", channels)
    weight, last_bias = _conv(source, f"decoder.model.{last + 1}", 1, channels, KERNEL)
    taps = Linear((weight / alpha.view(1, -1, 1))[0].T.contiguous())
    expand_linear = source.vocoder_linear(expand.squeeze(-1), bias)
    decoder = Decoder(config, first, expand_linear, blocks, alpha, taps, last_bias)
    if source.is_native and supports_native_vocoder(decoder):
        return NativeDecoder(decoder)
    if not supports_vocoder(decoder):
        return decoder
    # fp16 has the finer mantissa, and activations stay far below its range
    is_half = source.dtype == torch.bfloat16
    return FusedDecoder(decoder, torch.float16 if is_half else torch.float32)


def load_encoder(source: Source, config: VaeConfig) -> Encoder:
    def alpha(name: str, channels: int) -> Tensor:
        return source.take(f"{VAE_PREFIX}{name}.alpha", 1, channels, 1)

    def unit(name: str, channels: int, dilation: int) -> EncoderUnit:
        return EncoderUnit(
            alphas=(alpha(f"{name}.block.0", channels), alpha(f"{name}.block.2", channels)),
            depthwise=_conv(source, f"{name}.block.1", channels, 1, KERNEL),
            pointwise=_conv(source, f"{name}.block.3", channels, channels, 1),
            dilation=dilation,
        )

    width = config.encoder_dim
    first = _conv(source, "encoder.block.0", width, 1, KERNEL)
    blocks = []
    for index, stride in enumerate(config.encoder_rates, start=1):
        name = f"encoder.block.{index}.block"
        blocks.append(
            EncoderBlock(
                units=[unit(f"{name}.{i}", width, d) for i, d in enumerate(DILATIONS)],
                alpha=alpha(f"{name}.3", width),
                downsample=_conv(source, f"{name}.4", 2 * width, width, 2 * stride),
                stride=stride,
            )
        )
        width *= 2
    mean = _conv(source, "encoder.fc_mu", config.latent_dim, width, 3)
    _conv(source, "encoder.fc_logvar", config.latent_dim, width, 3)  # used in training only
    return Encoder(first, blocks, mean)
