"""AudioVAE V2 as modules that can be trained, with the official names.

The engine's AudioVAE has its norms and scales folded and keeps contexts; this is the same function
over whole crops, held to it by a test. Weights are plain while they are trained; `official` writes
them as the pairs of gain and direction that the official file has.

Source: OpenBMB/VoxCPM `modules/audiovae/audio_vae_v2.py` (Apache-2.0). Differences: no weight norm
in training, a start that keeps the variance.

Letters: `B` rows, `C` channels, `T` time steps, `D` latent width, `S` samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recipes.train_mini.depthwise import depthwise
from recipes.train_mini.settings import Codec
from recipes.train_mini.snake import snake

KERNEL = 7
DILATIONS = (1, 3, 9)
RESIDUAL_START = 0.3  # residual branches start small
OUTPUT_START = 0.1  # and so does the wave, far from where tanh is flat
MIN_LOG_VARIANCE, MAX_LOG_VARIANCE = -7.0, 2.0


class Snake(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        return snake(x, self.alpha)


class CausalConv(nn.Conv1d):
    """Pads with zeros on the left alone; `pad` defaults to what keeps the length."""

    def __init__(
        self, inner: int, outer: int, kernel: int, *, stride: int = 1, dilation: int = 1,
        groups: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(inner, outer, kernel, stride=stride, dilation=dilation, groups=groups)
        self.pad = stride if stride > 1 else (kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        if self.groups > 1 and self.bias is not None:  # all of these are depthwise, with stride 1
            return depthwise(x, self.weight, self.bias, self.dilation[0])
        return super().forward(F.pad(x, (self.pad, 0)) if self.pad else x)


class CausalUpsample(nn.ConvTranspose1d):
    """`[B, C, T] -> [B, C', stride T]`; each output sees the present and the past step."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__(inner, outer, 2 * stride, stride=stride)

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        return super().forward(x, output_size)[..., : x.shape[-1] * self.stride[0]]


class ResidualUnit(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            Snake(channels),
            CausalConv(channels, channels, KERNEL, dilation=dilation, groups=channels),
            Snake(channels),
            CausalConv(channels, channels, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)


def _units(channels: int) -> list[nn.Module]:
    return [ResidualUnit(channels, dilation) for dilation in DILATIONS]


class EncoderBlock(nn.Module):
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        down = CausalConv(channels, 2 * channels, 2 * stride, stride=stride)
        self.block = nn.Sequential(*_units(channels), Snake(channels), down)

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)


class DecoderBlock(nn.Module):
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        up = CausalUpsample(channels, channels // 2, stride)
        self.block = nn.Sequential(Snake(channels), up, *_units(channels // 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)


class Encoder(nn.Module):
    def __init__(self, settings: Codec) -> None:
        super().__init__()
        width = settings.encoder_dim
        layers: list[nn.Module] = [CausalConv(1, width, KERNEL)]
        for stride in settings.encoder_rates:
            layers.append(EncoderBlock(width, stride))
            width *= 2
        self.block = nn.Sequential(*layers)
        self.fc_mu = CausalConv(width, settings.latent_dim, 3)
        self.fc_logvar = CausalConv(width, settings.latent_dim, 3)

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, 1, S]` at the encoder's rate to mean and log variance, `[B, D, T]` each."""
        hidden = self.block(samples)
        log_variance = self.fc_logvar(hidden).float()
        return self.fc_mu(hidden).float(), log_variance.clamp(MIN_LOG_VARIANCE, MAX_LOG_VARIANCE)


class Decoder(nn.Module):
    def __init__(self, settings: Codec) -> None:
        super().__init__()
        width, latent = settings.decoder_dim, settings.latent_dim
        layers: list[nn.Module] = [
            CausalConv(latent, latent, KERNEL, groups=latent),
            CausalConv(latent, width, 1),
        ]
        for stride in settings.decoder_rates:
            layers.append(DecoderBlock(width, stride))
            width //= 2
        layers += [Snake(width), CausalConv(width, 1, KERNEL), nn.Tanh()]
        self.model = nn.Sequential(*layers)

    def forward(self, latents: Tensor) -> Tensor:
        """`[B, D, T] -> [B, 1, S]` in [-1, 1].

        On a card products are TF32, but for the last block and what follows it: there the rounding
        would be heard as noise.
        """
        layers = list(self.model)
        with torch.autocast(latents.device.type, enabled=False):
            x = nn.Sequential(*layers[:-4])(latents.float())
            allowed = torch.backends.cudnn.allow_tf32
            torch.backends.cudnn.allow_tf32 = False
            x = nn.Sequential(*layers[-4:])(x)
            torch.backends.cudnn.allow_tf32 = allowed
        return x


class AudioVae(nn.Module):
    def __init__(self, settings: Codec) -> None:
        super().__init__()
        self.encoder = Encoder(settings)
        self.decoder = Decoder(settings)
        self.settings = settings
        self._start()

    @torch.no_grad()
    def _start(self) -> None:
        """Variance in is variance out; torch's own start makes the signal a hundred times less."""
        for module in self.modules():
            if isinstance(module, nn.ConvTranspose1d):
                fan_in = module.in_channels * module.kernel_size[0] / module.stride[0]
            elif isinstance(module, nn.Conv1d):
                fan_in = module.in_channels // module.groups * module.kernel_size[0]
            else:
                continue
            module.weight.normal_(0, fan_in**-0.5)
            if module.bias is not None:
                module.bias.zero_()
        for module in self.modules():
            if isinstance(module, ResidualUnit):
                module.block[3].weight.mul_(RESIDUAL_START)
        self.decoder.model[-2].weight.mul_(OUTPUT_START)
        self.encoder.fc_logvar.weight.mul_(0.01)
        self.encoder.fc_logvar.bias.fill_(-3.0)

    @property
    def hop(self) -> int:
        """Output samples a latent frame."""
        return math.prod(self.settings.decoder_rates)


def official(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Plain weights as the official file's gains and directions, along the first axis."""
    pairs = {}
    for name, value in state.items():
        if name.endswith(".weight"):
            stem = name.removesuffix("weight")
            pairs[f"{stem}weight_g"] = torch.linalg.vector_norm(value, dim=(1, 2), keepdim=True)
            pairs[f"{stem}weight_v"] = value
        else:
            pairs[name] = value
    return pairs


@torch.no_grad()
def scale_latents(vae: AudioVae, deviations: Tensor) -> None:
    """Latents divided by `deviations [D]`, exactly undone in the decoder's first convolution."""
    scale = deviations.view(-1, 1, 1).to(vae.encoder.fc_mu.weight)
    vae.encoder.fc_mu.weight.div_(scale)
    vae.encoder.fc_mu.bias.div_(scale.flatten())
    vae.encoder.fc_logvar.bias.sub_(2 * scale.flatten().log())
    vae.decoder.model[0].weight.mul_(scale)
