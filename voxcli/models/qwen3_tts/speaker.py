"""A recording to the vector of its voice: log-mel spectrogram and ECAPA-TDNN (an x-vector).

All of the recording is heard at once; one recording at a time, since a padded neighbour would
change the means. The spectrogram is fp32, the rest is of the weights' dtype.

Source: QwenLM/Qwen3-TTS@022e286b `core/models/modeling_qwen3_tts.py` (Apache-2.0), after
ECAPA-TDNN (arXiv:2005.07143).

Letters: `S` samples, `T` mel frames, `M` mel bands, `C` channels, `E` width of the vector.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.errors import RecordingError
from voxcli.layers.mel import slaney_filters
from voxcli.models.qwen3_tts.sizes import SpeakerConfig
from voxcli.models.sources import Source

PREFIX = "speaker_encoder."
UNUSED: tuple[str, ...] = ()  # keys of the official file that nothing reads: none

FFT, HOP = 1024, 256  # samples of a window and between windows
MIN_MAGNITUDE = 1e-5  # before the logarithm
MIN_POWER, MIN_VARIANCE = 1e-9, 1e-12


@dataclass
class Conv:
    """Keeps the length: the ends are mirrored.

    Attributes:
        weight: `[C', C, K]`, K odd.
        bias: `[C']`.
    """

    weight: Tensor
    bias: Tensor
    dilation: int = 1

    @property
    def reach(self) -> int:
        """Frames that it sees on either side."""
        return (self.weight.shape[2] - 1) * self.dilation // 2

    def __call__(self, x: Tensor) -> Tensor:
        """`[1, C, T] -> [1, C', T]`; T is more than the reach."""
        if self.reach:
            x = F.pad(x, (self.reach, self.reach), mode="reflect")
        return F.conv1d(x, self.weight, self.bias, dilation=self.dilation)


@dataclass
class Block:
    """SE-Res2Net: each group of channels also hears what the group before it became.

    Attributes:
        before, after: mix channels around the groups.
        groups: of all groups but the first, which passes through.
        squeeze, excite: the means over time to a gate for each channel.
    """

    before: Conv
    groups: list[Conv]
    after: Conv
    squeeze: Conv
    excite: Conv

    def __call__(self, x: Tensor) -> Tensor:
        """`[1, C, T] -> [1, C, T]`."""
        first, *rest = self.before(x).relu().chunk(len(self.groups) + 1, dim=1)
        heard = [first]
        last: Tensor | None = None
        for group, channels in zip(self.groups, rest, strict=True):
            last = group(channels if last is None else channels + last).relu()
            heard.append(last)
        inner = self.after(torch.cat(heard, dim=1)).relu()
        gate = self.excite(self.squeeze(inner.mean(2, keepdim=True)).relu()).sigmoid()
        return x + inner * gate


class SpeakerEncoder:
    """Mono samples at `config.sample_rate` to the vector that stands for a voice.

    Attributes:
        min_samples: the shortest recording that there is a vector of.
    """

    def __init__(self, source: Source, config: SpeakerConfig) -> None:
        widths, kernels, dilations = (
            config.enc_channels,
            config.enc_kernel_sizes,
            config.enc_dilations,
        )

        def conv(name: str, out: int, into: int, kernel: int = 1, dilation: int = 1) -> Conv:
            weight = source.take(f"{PREFIX}{name}.weight", out, into, kernel)
            return Conv(weight, source.take(f"{PREFIX}{name}.bias", out), dilation)

        def block(index: int) -> Block:
            name, width = f"blocks.{index}", widths[index]
            scale = config.enc_res2net_scale
            group = width // scale
            return Block(
                before=conv(f"{name}.tdnn1.conv", width, widths[index - 1]),
                groups=[
                    conv(f"{name}.res2net_block.blocks.{part}.conv", group, group,
                         kernels[index], dilations[index])
                    for part in range(scale - 1)
                ],
                after=conv(f"{name}.tdnn2.conv", width, width),
                squeeze=conv(f"{name}.se_block.conv1", config.enc_se_channels, width),
                excite=conv(f"{name}.se_block.conv2", width, config.enc_se_channels),
            )  # fmt: skip

        wide, narrow = widths[-1], config.enc_attention_channels
        self.sample_rate = config.sample_rate
        self.first = conv("blocks.0.conv", widths[0], config.mel_dim, kernels[0], dilations[0])
        self.blocks = [block(index) for index in range(1, len(widths) - 1)]
        self.join = conv("mfa.conv", wide, sum(widths[1:-1]), kernels[-1], dilations[-1])
        self.attention = conv("asp.tdnn.conv", narrow, 3 * wide)
        self.attention_out = conv("asp.conv", wide, narrow)
        self.last = conv("fc", config.enc_dim, 2 * wide)
        convs = [self.first, self.join, *(group for block in self.blocks for group in block.groups)]
        self.min_samples = HOP * (1 + max(conv.reach for conv in convs))
        device = source.device
        filters = slaney_filters(config.sample_rate, FFT, config.mel_dim)
        self._filters = torch.tensor(filters, dtype=torch.float32, device=device)
        self._window = torch.hann_window(FFT, device=device)

    @torch.inference_mode()
    def __call__(self, samples: Tensor) -> Tensor:
        """`[S]` to float32 `[E]`.

        Args:
            samples: float32, on the weights' device.

        Raises:
            RecordingError: shorter than `min_samples`.
        """
        if len(samples) < self.min_samples:
            raise RecordingError(
                f"the recording has {len(samples)} samples at {self.sample_rate} Hz; a voice is "
                f"heard in {self.min_samples} ({1000 * self.min_samples / self.sample_rate:.0f} ms)"
                " or more",
                hint="give a longer one: some seconds of speech",
            )
        mel = self.log_mel(samples).to(self.first.weight.dtype)
        x = self.first(mel.T[None]).relu()
        outputs = []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        x = self.join(torch.cat(outputs, dim=1)).relu()
        return self.last(self._pool(x))[0, :, 0].float()

    def log_mel(self, samples: Tensor) -> Tensor:
        """Logarithm of mel magnitudes, `[S] -> [T, M]`, T = S // HOP."""
        pad = (FFT - HOP) // 2
        padded = F.pad(samples[None], (pad, pad), mode="reflect")[0]
        spectrum = torch.fft.rfft(padded.unfold(0, FFT, HOP) * self._window)  # [T, FFT // 2 + 1]
        magnitude = (spectrum.real.square() + spectrum.imag.square() + MIN_POWER).sqrt()
        return (magnitude @ self._filters.T).clamp(min=MIN_MAGNITUDE).log()

    def _pool(self, x: Tensor) -> Tensor:
        """Mean and deviation over time, weighted by attention: `[1, C, T] -> [1, 2 C, 1]`."""
        mean, deviation = _statistics(x, torch.full_like(x, 1 / x.shape[2]))
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), dim=1)
        weights = self.attention_out(self.attention(context).relu().tanh()).softmax(2)
        return torch.cat(_statistics(x, weights), dim=1)


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    mean = (weights * x).sum(2, keepdim=True)
    variance = (weights * (x - mean).square()).sum(2, keepdim=True)
    return mean, variance.clamp(min=MIN_VARIANCE).sqrt()
