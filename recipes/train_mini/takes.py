"""Speech once more: as another speaker's, and as a recording with a room, noise and silence.

Letters: `S` samples, `F` frequencies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from recipes.train_mini.pool import SAMPLE_RATE
from recipes.train_mini.resample import MARGIN, read_warped
from recipes.train_mini.speakers import DECIBELS, Colour

NUM_GAINS = 513  # of a spectrum, evenly spaced in Hz
BLOCK = 4096  # transforms have a multiple of so many samples: few sizes, so few plans
RATES = FORMANTS = 0.88, 1.14  # least and most
FRAME, HOP = 1024, 256  # samples of a frame whose formants move
MAX_CHANGE = 2.3  # of a frame's logarithm: 20 dB
ENVELOPE = 40  # cepstral numbers of its envelope, 1.7 ms: less than the period of a high voice
# shares of the recordings that have it, and how much: seconds, dB, dB an octave, Hz
SILENCE_SHARE, MAX_SILENCE_S = 0.5, 0.8
ECHO_SHARE, ECHO_S, ECHO_DB = 0.6, (0.15, 0.6), (-18.0, -2.0)
NOISE_SHARE, NOISE_DB, NOISE_TILT = 0.8, (-45.0, -12.0), (-6.0, 0.0)
NARROW_SHARE, HIGHEST_HZ = 0.25, (3400.0, 8000.0)
EDGE_HZ = 150.0  # width of the edge of a narrow band
GAIN_DB = -9.0, 6.0
LOUDEST = 0.99


@dataclass(frozen=True)
class Take:
    """Another speaker out of one.

    Attributes:
        rate: the speech is read so much faster: pitch, formants and pace move.
        formants: these move so much further, and the pitch stays.
        colour: of what is read.
    """

    rate: float
    formants: float
    colour: Colour

    @classmethod
    def draw(cls, random: np.random.Generator) -> Take:
        rate, formants = np.exp([random.uniform(*np.log(each)) for each in (RATES, FORMANTS)])
        return cls(float(rate), float(formants), Colour.draw(random))

    def __call__(self, samples: Tensor) -> Tensor:
        """`[S]` in full scale to about `[S / rate]`."""
        length = int(len(samples) / self.rate)
        padded = F.pad(samples, (MARGIN, MARGIN))
        start = torch.tensor([MARGIN], device=samples.device)
        rate = torch.tensor([self.rate], device=samples.device)
        read = _with_formants(read_warped(padded, start, length, rate)[0], self.formants)
        n = _transform_size(length)
        frequencies = np.linspace(0, SAMPLE_RATE / 2, NUM_GAINS)
        decibels = np.clip(self.colour.decibels(frequencies), *DECIBELS)
        gains = torch.from_numpy(10 ** (decibels / 20)).to(read)
        coloured = torch.fft.irfft(torch.fft.rfft(read, n) * _spread(gains, n // 2 + 1), n)
        return coloured[:length].clamp(-LOUDEST, LOUDEST)


@dataclass(frozen=True)
class Recording:
    """How a voice reaches a microphone.

    Attributes:
        lead, tail: seconds before and behind the voice.
        echo: seconds in which the room's echo falls by 60 dB; 0 for none.
        echo_db: energy of the echo to that of the direct sound.
        noise_db: level of the noise to that of the voice; minus infinity for none.
        noise_tilt: of the noise, dB an octave.
        highest: Hz, above which nothing is heard.
        gain_db: of everything.
    """

    lead: float
    tail: float
    echo: float
    echo_db: float
    noise_db: float
    noise_tilt: float
    highest: float
    gain_db: float

    @classmethod
    def draw(cls, random: np.random.Generator) -> Recording:
        def silence() -> float:
            return float(random.uniform(0, MAX_SILENCE_S)) * (random.random() < SILENCE_SHARE)

        return cls(
            lead=silence(),
            tail=silence(),
            echo=float(random.uniform(*ECHO_S)) * (random.random() < ECHO_SHARE),
            echo_db=float(random.uniform(*ECHO_DB)),
            noise_db=float(random.uniform(*NOISE_DB))
            if random.random() < NOISE_SHARE
            else -math.inf,
            noise_tilt=float(random.uniform(*NOISE_TILT)),
            highest=float(np.exp(random.uniform(*np.log(HIGHEST_HZ))))
            if random.random() < NARROW_SHARE
            else SAMPLE_RATE / 2,
            gain_db=float(random.uniform(*GAIN_DB)),
        )

    def __call__(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        """`[S]` in full scale to `[S']`, longer by lead and tail."""
        lead, tail = (int(seconds * SAMPLE_RATE) for seconds in (self.lead, self.tail))
        length = lead + len(samples) + tail
        n = _transform_size(length + int(self.echo * SAMPLE_RATE))
        spectrum = torch.fft.rfft(F.pad(samples, (lead, n - lead - len(samples))))
        frequencies = torch.linspace(0, SAMPLE_RATE / 2, n // 2 + 1, device=samples.device)
        if self.echo:
            spectrum = spectrum * torch.fft.rfft(self._room(samples, generator), n)
        if self.noise_db > -math.inf:
            octaves = (frequencies.clamp(min=50) / 1000).log2()
            shape = 10 ** (self.noise_tilt * octaves / 20)
            noise = torch.fft.rfft(_white(n, samples, generator)) * shape
            level = samples.square().mean().sqrt() * 10 ** (self.noise_db / 20)
            spectrum = spectrum + noise * (level / torch.fft.irfft(noise, n).std())
        if self.highest < SAMPLE_RATE / 2:
            spectrum = spectrum * torch.sigmoid((self.highest - frequencies) / EDGE_HZ)
        made = torch.fft.irfft(spectrum, n)[:length] * 10 ** (self.gain_db / 20)
        return made.clamp(-LOUDEST, LOUDEST)

    def _room(self, like: Tensor, generator: torch.Generator) -> Tensor:
        """The direct sound, and behind it noise that falls evenly in dB."""
        size = int(self.echo * SAMPLE_RATE)
        fall = 10 ** (-3 * torch.arange(size, device=like.device) / size)
        response = _white(size, like, generator) * fall
        response = response * (10 ** (self.echo_db / 20) / response.square().sum().sqrt())
        response[0] = 1.0
        return response


def _with_formants(samples: Tensor, factor: float) -> Tensor:
    """`[S]` whose spectral envelope is stretched; each harmonic stays where it is.

    The envelope is the cepstrum's slow part (Oppenheim and Schafer, "From frequency to quefrency",
    2004).
    """
    window = torch.hann_window(FRAME, device=samples.device)
    frames = torch.stft(samples, FRAME, HOP, window=window, return_complex=True)  # [F, frames]
    cepstrum = torch.fft.irfft((frames.abs() + 1e-6).log(), dim=0)
    places = torch.arange(FRAME, device=samples.device)
    away = torch.minimum(places, FRAME - places) / ENVELOPE
    lifter = 0.5 + 0.5 * torch.cos(math.pi * away.clamp(max=1))
    envelope = torch.fft.rfft(cepstrum * lifter.unsqueeze(1), dim=0).real
    last = len(envelope) - 1
    at = (torch.arange(last + 1, device=samples.device) / factor).clamp(max=last)
    low = at.long().clamp(max=last - 1)
    share = (at - low).unsqueeze(1)
    moved = envelope[low] * (1 - share) + envelope[low + 1] * share
    frames = frames * (moved - envelope).clamp(-MAX_CHANGE, MAX_CHANGE).exp()
    return torch.istft(frames, FRAME, HOP, window=window, length=len(samples))


def _white(size: int, like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(size, generator=generator, device=like.device)


def _transform_size(length: int) -> int:
    return -(-length // BLOCK) * BLOCK


def _spread(gains: Tensor, size: int) -> Tensor:
    """Gains `[F]` at `size` evenly spaced frequencies."""
    return F.interpolate(gains.view(1, 1, -1), size, mode="linear", align_corners=True).flatten()
