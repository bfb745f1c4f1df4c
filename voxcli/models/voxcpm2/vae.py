"""AudioVAE V2: samples to latents (offline) and latents to samples (streaming, stateful, exact).

Every convolution of the decoder is causal, so keeping the last inputs of each one makes a stream
equal to decoding everything at once, up to rounding; work grows with the length alone. State is an
argument: one row a slot, allocated by `VocoderState`.

The decoder works channels-last, where pointwise and transposed convolutions are matrix products.
Snake is `x + sin(a x)^2 / a`; its two scalings are folded into the neighbouring weights, which
leaves `u + sin(u)^2`.

Source: OpenBMB/VoxCPM `modules/audiovae/audio_vae_v2.py` (Apache-2.0). Differences: weight norm and
Snake scales are folded when loaded, layout, state.

Letters: `B` rows, `T` time steps, `C` channels, `D` latent width, `S` samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.layers.linear import Linear
from voxcli.models.voxcpm2.config import VaeConfig
from voxcli.models.voxcpm2.host import KERNEL


@dataclass
class DepthwiseConv:
    """Causal, one filter a channel."""

    weight: Tensor  # [C, 1, 1, KERNEL]
    bias: Tensor  # [C]
    dilation: int = 1

    @property
    def context_length(self) -> int:
        return (KERNEL - 1) * self.dilation

    def __call__(self, padded: Tensor) -> Tensor:
        """`[B, context + T, C] -> [B, T, C]`."""
        image = padded.transpose(1, 2).unsqueeze(2)  # [B, C, 1, T'], channels-last in memory
        out = F.conv2d(
            image, self.weight, self.bias, dilation=(1, self.dilation), groups=len(self.bias)
        )
        return out.squeeze(2).transpose(1, 2)


@dataclass
class ResidualUnit:
    scale: Tensor  # [C], Snake's alpha before the depthwise convolution
    depthwise: DepthwiseConv
    pointwise: Linear


@dataclass
class DecoderBlock:
    """Upsample by `stride`, then three residual units.

    Attributes:
        scale, shift: `[C]`; Snake's alpha, with the sample-rate conditioning folded in.
        upsample: `2 C -> stride * C'`, from the previous and the present time step.
    """

    scale: Tensor
    shift: Tensor
    upsample: Linear
    stride: int
    units: list[ResidualUnit]


@dataclass
class VocoderState:
    """Past inputs of each convolution, `[slots, context, C]`, in the order they are used."""

    contexts: list[Tensor]

    def reset(self, slot: int) -> None:
        for context in self.contexts:
            context[slot].zero_()


class Decoder:
    """Latents to samples."""

    def __init__(
        self,
        config: VaeConfig,
        first: DepthwiseConv,
        expand: Linear,
        blocks: list[DecoderBlock],
        last_scale: Tensor,
        last: Linear,
        last_bias: Tensor,
    ) -> None:
        self.config = config
        self.first = first
        self.expand = expand
        self.blocks = blocks
        self.last_scale = last_scale
        self.last = last  # C -> KERNEL: what each time step adds to the outputs it reaches
        self.last_bias = last_bias

    def new_state(self, num_slots: int) -> VocoderState:
        shapes = [(self.first.context_length, self.config.latent_dim)]
        for block in self.blocks:
            shapes.append((1, len(block.scale)))
            shapes += [
                (unit.depthwise.context_length, len(unit.scale)) for unit in block.units
            ]  # fmt: skip
        shapes.append((KERNEL - 1, len(self.last_scale)))
        device = self.last_scale.device
        return VocoderState([torch.zeros(num_slots, *shape, device=device) for shape in shapes])

    def _largest(self, num_rows: int, length: int) -> int:
        """Elements of the largest padded tensor in decoding `[B, length, D]`."""
        sizes = [(self.first.context_length + length) * self.config.latent_dim]
        for block in self.blocks:
            sizes.append((1 + length) * len(block.scale))
            length *= block.stride
            context_length = max(unit.depthwise.context_length for unit in block.units)
            sizes.append((context_length + length) * len(block.units[0].scale))
        return num_rows * max(sizes)

    def __call__(self, latents: Tensor, state: VocoderState, slots: Tensor | slice) -> Tensor:
        """Decode the next time steps of some slots.

        Args:
            latents: `[B, T, D]`.
            state: contexts of all slots; those of `slots` are replaced.
            slots: rows of the state, int64 `[B]` or a slice.

        Returns:
            float32 `[B, T * decoder_hop]` in [-1, 1].
        """
        contexts = iter(state.contexts)
        # A large tensor costs more to allocate than to fill, so two are used for all stages.
        size = self._largest(*latents.shape[:2])
        paddeds, sines = latents.new_empty(size), latents.new_empty(size)

        def bump_(x: Tensor) -> Tensor:
            sine = torch.sin(x, out=sines[: x.numel()].view(x.shape))
            return x.addcmul_(sine, sine)

        def after_context(x: Tensor, scale: Tensor | None = None) -> Tensor:
            """`x`, or its Snake with a scale, behind the context; `[B, context + T, C]`."""
            context = next(contexts)
            B, length, C = len(x), context.shape[1] + x.shape[1], x.shape[2]
            padded = paddeds[: B * length * C].view(B, length, C)
            padded[:, : context.shape[1]] = context[slots]
            if scale is None:
                padded[:, context.shape[1] :] = x
            else:
                bump_(torch.mul(x, scale, out=padded[:, context.shape[1] :]))
            context[slots] = padded[:, -context.shape[1] :]
            return padded

        x = self.expand(self.first(after_context(latents)))
        for block in self.blocks:
            x = bump_(torch.addcmul(block.shift, x, block.scale))
            x = block.upsample(torch.cat((after_context(x)[:, :-1], x), dim=-1))
            x = x.view(len(x), -1, len(block.units[0].scale))  # [B, T, s C] -> [B, T s, C]
            for unit in block.units:
                inner = unit.depthwise(after_context(x, unit.scale))
                x = unit.pointwise.add(bump_(inner), x)
        taps = self.last(after_context(x, self.last_scale))  # [B, KERNEL - 1 + T, KERNEL]
        B, length, _ = taps.shape
        # output t is the sum over k of taps[t + k, k]: a diagonal of the tap matrix
        diagonals = taps.as_strided(
            (B, length - KERNEL + 1, KERNEL), (length * KERNEL, KERNEL, KERNEL + 1)
        )
        return torch.tanh(diagonals.sum(-1) + self.last_bias)


@dataclass
class EncoderUnit:
    alphas: tuple[Tensor, Tensor]  # [1, C, 1] each
    depthwise: tuple[Tensor, Tensor]  # weight [C, 1, KERNEL], bias
    pointwise: tuple[Tensor, Tensor]
    dilation: int


@dataclass
class EncoderBlock:
    units: list[EncoderUnit]
    alpha: Tensor
    downsample: tuple[Tensor, Tensor]
    stride: int


def _snake(x: Tensor, alpha: Tensor) -> Tensor:
    return x + (alpha + 1e-9).reciprocal() * torch.sin(alpha * x).square()


def _causal(
    x: Tensor, conv: tuple[Tensor, Tensor], pad: int, *, stride: int = 1, dilation: int = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    weight, bias = conv
    padded = F.pad(x, (pad, 0))
    return F.conv1d(padded, weight, bias, stride=stride, dilation=dilation, groups=groups)


class Encoder:
    """Samples to the mean of the latent distribution, the whole recording at once."""

    def __init__(
        self,
        first: tuple[Tensor, Tensor],
        blocks: list[EncoderBlock],
        mean: tuple[Tensor, Tensor],
    ) -> None:
        self.first = first
        self.blocks = blocks
        self.mean = mean

    def __call__(self, samples: Tensor) -> Tensor:
        """`[B, S]`, S a multiple of the encoder's hop, to `[B, T, D]`."""
        x = _causal(samples.unsqueeze(1), self.first, KERNEL - 1)
        for block in self.blocks:
            for unit in block.units:
                inner = _causal(
                    _snake(x, unit.alphas[0]), unit.depthwise, (KERNEL - 1) * unit.dilation,
                    dilation=unit.dilation, groups=x.shape[1],
                )  # fmt: skip
                x = x + F.conv1d(_snake(inner, unit.alphas[1]), *unit.pointwise)
            x = _causal(_snake(x, block.alpha), block.downsample, block.stride, stride=block.stride)
        return _causal(x, self.mean, 2).transpose(1, 2)
