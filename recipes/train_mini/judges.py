"""What a codec is told by: log-mel distances, and discriminators over periods and spectra.

The discriminators have no biases and no weight norm, and the spectral ones halve the frequencies
from their first layer on: most of a step's time went there.

Sources: HiFi-GAN, arXiv:2010.05646 (periods); Descript Audio Codec, arXiv:2306.06546 (complex
spectra, losses). Differences: channels, strides, no sub-bands.

Letters: `B` rows, `S` samples, `T` frames, `F` frequencies.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PERIODS = (2, 3, 5, 7, 11)
SPECTRA = (2048, 1024, 512)
MEL_SCALES = ((2048, 160), (1024, 128), (512, 80), (256, 40), (128, 20))  # window, bands
SLOPE = 0.1

Features = list[list[Tensor]]  # of each discriminator: its layers, the verdict last


def mel_matrix(sample_rate: int, window: int, bands: int) -> Tensor:
    """Triangles of sum one, `[bands, window / 2 + 1]`."""
    top = 2595 * math.log10(1 + sample_rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, bands + 2, dtype=torch.float64) / 2595) - 1)
    bins = torch.linspace(0, sample_rate / 2, window // 2 + 1, dtype=torch.float64)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    triangles = torch.minimum(rising, falling).clamp(min=0)
    return (triangles / triangles.sum(1, keepdim=True).clamp(min=1e-6)).float()


class MelDistance(nn.Module):
    """Mean absolute difference of log mels over several windows."""

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        for window, bands in MEL_SCALES:
            self.register_buffer(f"window_{window}", torch.hann_window(window), persistent=False)
            matrix = mel_matrix(sample_rate, window, bands)
            self.register_buffer(f"mel_{window}", matrix, persistent=False)

    def log_mels(self, samples: Tensor) -> list[Tensor]:
        """`[B, 1, S]` to one `[B, bands, T]` a window."""
        mels = []
        for window, _ in MEL_SCALES:
            shape = getattr(self, f"window_{window}")
            spectrum = torch.stft(
                samples[:, 0].float(), window, window // 4, window=shape, return_complex=True
            )
            power = spectrum.real.square() + spectrum.imag.square()
            magnitude = (power + 1e-9).sqrt()
            mels.append((getattr(self, f"mel_{window}") @ magnitude).clamp(min=1e-4).log())
        return mels

    def forward(self, real: Tensor, made: Tensor) -> Tensor:
        with torch.no_grad():
            targets = self.log_mels(real)
        pairs = zip(targets, self.log_mels(made), strict=True)
        return torch.stack([(one - other).abs().mean() for one, other in pairs]).mean()


def _conv(inner: int, outer: int, kernel: tuple[int, int], stride: tuple[int, int]) -> nn.Conv2d:
    pad = (kernel[0] // 2, kernel[1] // 2)
    return nn.Conv2d(inner, outer, kernel, stride, pad, bias=False)


class _Layers(nn.ModuleList):
    def judge(self, x: Tensor) -> list[Tensor]:
        features = []
        *inner, verdict = self
        for layer in inner:
            x = F.leaky_relu(layer(x), SLOPE)
            features.append(x)
        return [*features, verdict(x)]


class PeriodDiscriminator(_Layers):
    def __init__(self, period: int, channels: tuple[int, ...]) -> None:
        widths = (1, *channels)
        last = len(channels) - 1
        super().__init__(
            [
                *(
                    _conv(widths[i], widths[i + 1], (5, 1), (1 if i == last else 3, 1))
                    for i in range(len(channels))
                ),
                _conv(widths[-1], 1, (3, 1), (1, 1)),
            ]
        )
        self.period = period

    def forward(self, samples: Tensor) -> list[Tensor]:
        rest = -samples.shape[-1] % self.period
        padded = F.pad(samples, (0, rest), mode="reflect") if rest else samples
        return self.judge(padded.unflatten(-1, (-1, self.period)))  # [B, 1, S / period, period]


class SpectralDiscriminator(_Layers):
    def __init__(self, window: int, channels: tuple[int, ...]) -> None:
        widths = (2, *channels)
        last = len(channels) - 1
        super().__init__(
            [
                *(
                    _conv(widths[i], widths[i + 1], (3, 3), (1, 1))
                    if i == last
                    else _conv(widths[i], widths[i + 1], (3, 9), (1, 2))
                    for i in range(len(channels))
                ),
                _conv(widths[-1], 1, (3, 3), (1, 1)),
            ]
        )
        self.window = window
        self.register_buffer("shape", torch.hann_window(window), persistent=False)

    def forward(self, samples: Tensor) -> list[Tensor]:
        with torch.autocast(samples.device.type, enabled=False):
            spectrum = torch.stft(
                samples[:, 0].float(), self.window, self.window // 4, window=self.shape,
                return_complex=True, normalized=True,
            )  # fmt: skip
            x = torch.stack((spectrum.real, spectrum.imag), 1).transpose(2, 3)  # [B, 2, T, F]
        return self.judge(x.contiguous(memory_format=torch.channels_last))


class Discriminators(nn.Module):
    def __init__(
        self, period_channels: tuple[int, ...], spectral_channels: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(
            [
                *(PeriodDiscriminator(period, period_channels) for period in PERIODS),
                *(SpectralDiscriminator(window, spectral_channels) for window in SPECTRA),
            ]
        )

    def forward(self, samples: Tensor) -> Features:
        """`[B, 1, S]`."""
        return [member(samples) for member in self.members]


def split_rows(features: Features, rows: int) -> tuple[Features, Features]:
    """Features of the first `rows` rows, without gradient, and of the rest."""
    first = [[layer[:rows].detach() for layer in member] for member in features]
    return first, [[layer[rows:] for layer in member] for member in features]


def judged_loss(features: Features, rows: int) -> Tensor:
    """Least squares: the first `rows` rows are real, the rest is made."""
    real = [(member[-1][:rows].float() - 1).square().mean() for member in features]
    made = [member[-1][rows:].float().square().mean() for member in features]
    return torch.stack(real + made).sum()


def fooling_loss(features: Features) -> Tensor:
    verdicts = [(member[-1].float() - 1).square().mean() for member in features]
    return torch.stack(verdicts).sum()


def feature_loss(real: Features, made: Features) -> Tensor:
    distances = [
        (one.float() - other.float()).abs().mean()
        for ours, theirs in zip(real, made, strict=True)
        for one, other in zip(ours[:-1], theirs[:-1], strict=True)
    ]
    return torch.stack(distances).sum()
