"""Speakers that nobody recorded: mixtures of Kokoro's styles, styles drawn around all of them, and
hibari's voice in another throat.

Letters: `F` frequencies, `T` frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recipes.train_mini.pool import SAMPLE_RATE

Array = np.ndarray
Spectra = tuple[Array, Array, Array, Array, Array, Array]

VOICED_HZ = 40.0  # below it a frame of hibari is voiceless
BIN_HZ = 20.0
LOWEST_HZ = 55.0
CENTRE_HZ = 800.0  # where a tilt changes nothing
NUM_BANDS, LOWEST_BAND_HZ, HIGHEST_BAND_HZ = 8, 80.0, 12_000.0
DECIBELS = -13.9, 10.4  # least and most that a colour adds
MAX_PHONES = 510  # for which Kokoro has styles
HALF_STYLE = 128  # numbers for the timbre, and as many behind them for pitch and durations
BEYOND_SHARE, MAX_BEYOND = 0.5, 0.35  # of the pairs of voices, and how far
OTHER_PROSODY_SHARE = 0.5
DRAWN_SHARE = 0.65  # of Kokoro's speakers; a style of their own, not a sum of others
TIMBRE_SPREAD, PROSODY_SPREAD = (0.7, 1.3), (0.5, 0.9)  # of the voices' own, least and most
MAX_STRANGENESS = 0.7  # of each number's standard deviation, in directions that no voices differ in
COLOURED_SHARE = 0.4  # of Kokoro's speakers, as other microphones and rooms would be
SMOOTH_BINS = 5  # 100 Hz: wider than a harmonic, narrower than a formant


@dataclass(frozen=True)
class Colour:
    """What a speaker's spectrum is changed by.

    Attributes:
        tilt: dB an octave.
        bands: dB, evenly spaced in octaves.
    """

    tilt: float
    bands: tuple[float, ...]

    @classmethod
    def draw(cls, random: np.random.Generator) -> Colour:
        return cls(float(random.normal(0, 1.2)), tuple(random.normal(0, 1.6, NUM_BANDS).tolist()))

    def decibels(self, frequencies: Array) -> Array:
        """Of frequencies in Hz `[F]`."""
        octaves = np.log2(np.maximum(frequencies, LOWEST_BAND_HZ) / CENTRE_HZ)
        ends = np.log2(np.array([LOWEST_BAND_HZ, HIGHEST_BAND_HZ]) / CENTRE_HZ)
        return np.interp(octaves, np.linspace(*ends, NUM_BANDS), self.bands) + self.tilt * octaves

    def __call__(self, samples: Array, rate: int = SAMPLE_RATE) -> Array:
        """Samples `[T]` whose spectrum is changed; phases stay."""
        decibels = self.decibels(np.fft.rfftfreq(len(samples), 1 / rate))
        gains = 10 ** (np.clip(decibels, *DECIBELS) / 20)
        return np.fft.irfft(np.fft.rfft(samples) * gains, len(samples)).astype(np.float32)


@dataclass(frozen=True)
class Mixture:
    """A speaker of Kokoro.

    Attributes:
        timbre, prosody: weights of the voices whose styles are summed, for each half of a style.
            They sum to 1, and may be negative.
        speed: pace, 1 is the voices' own.
        rate: the speech is read so much faster: pitch and formants move, the pace is kept.
        shift: `[256]`, what is added to their styles.
        colour: of what is spoken.
    """

    timbre: Mapping[str, float]
    prosody: Mapping[str, float]
    speed: float = 1.0
    rate: float = 1.0
    shift: Array | None = None
    colour: Colour | None = None

    def style(self, styles: Mapping[str, Array], num_phones: int) -> Array:
        """`[256]`, for a line of `num_phones` phones; tables may leave out rows, evenly."""
        place = min(max(num_phones - 1, 0), MAX_PHONES - 1) / MAX_PHONES

        def summed(weights: Mapping[str, float]) -> Array:
            parts = [
                weight * styles[name][int(place * len(styles[name]))].astype(np.float32)
                for name, weight in weights.items()
            ]
            return np.sum(parts, axis=0)

        timbre, prosody = summed(self.timbre), summed(self.prosody)
        style = np.concatenate((timbre[:HALF_STYLE], prosody[HALF_STYLE:]))
        return style if self.shift is None else style + self.shift


def _weights(random: np.random.Generator, voices: Sequence[str]) -> dict[str, float]:
    """One voice, one a little further from another than it is, or a mixture of two or three."""
    count = min(len(voices), int(random.choice([1, 1, 2, 2, 3])))
    names = random.choice(len(voices), count, replace=False)
    if count == 2 and random.random() < BEYOND_SHARE:
        further = float(random.uniform(0, MAX_BEYOND))
        weights = np.array([1 + further, -further])
    else:
        weights = random.dirichlet(np.full(count, 2.0))
    return {voices[int(i)]: float(w) for i, w in zip(names, weights, strict=True)}


class Cast:
    """Draws speakers around voices.

    Mixtures stay among the voices they are made of, so a model that hears nothing else knows no
    other. Drawn styles have the voices' mean and covariance, and go some way in all other
    directions too: two of them resemble each other less than two mixtures do.

    Args:
        styles: `[rows, 256]` of each voice.
    """

    def __init__(self, styles: Mapping[str, Array]) -> None:
        self._voices = sorted(styles)
        table = np.stack([styles[name].mean(0, dtype=np.float64) for name in self._voices])
        self._means = dict(zip(self._voices, table, strict=True))
        self._centre = table.mean(0)
        self._deviations = table.std(0)
        _, sizes, self._directions = np.linalg.svd(table - self._centre, full_matrices=False)
        self._sizes = sizes / np.sqrt(max(1, len(table) - 1))

    def __call__(self, random: np.random.Generator) -> Mixture:
        """A speaker, sometimes resampled or in another colour."""
        colour = Colour.draw(random) if random.random() < COLOURED_SHARE else None
        return replace(self._speaker(random), colour=colour)

    def _speaker(self, random: np.random.Generator) -> Mixture:
        rate = float(random.uniform(0.86, 1.1)) if random.random() < 0.35 else 1.0
        speed = float(np.clip(np.exp(random.normal(0, 0.08)), 0.82, 1.2))
        if random.random() < DRAWN_SHARE:
            return self._drawn(random, speed, rate)
        timbre = _weights(random, self._voices)
        is_other = random.random() < OTHER_PROSODY_SHARE
        prosody = _weights(random, self._voices) if is_other else timbre
        return Mixture(timbre, prosody, speed, rate)

    def _drawn(self, random: np.random.Generator, speed: float, rate: float) -> Mixture:
        def around(spread: tuple[float, float]) -> Array:
            lengths = random.normal(size=len(self._sizes)) * self._sizes
            return self._centre + random.uniform(*spread) * lengths @ self._directions

        strange = random.uniform(0, MAX_STRANGENESS) * random.normal(size=HALF_STYLE)
        timbre = around(TIMBRE_SPREAD)[:HALF_STYLE] + strange * self._deviations[:HALF_STYLE]
        style = np.concatenate((timbre, around(PROSODY_SPREAD)[HALF_STYLE:]))
        like = self._voices[random.integers(len(self._voices))]  # styles change with the length
        shift = (style - self._means[like]).astype(np.float32)
        return Mixture({like: 1.0}, {like: 1.0}, speed, rate, shift)


@dataclass(frozen=True)
class Throat:
    """A speaker of hibari: what is changed before its vocoder.

    Attributes:
        pitch, melody: factors of the pitch and of its range around the median.
        formants: factor of the spectral envelope's frequencies.
        colour: of the spectrum.
        breath, rasp: added to the log magnitudes of noise and of the part of free phase.
        speed: pace. gain: dB.
    """

    pitch: float
    melody: float
    formants: float
    colour: Colour
    breath: float
    rasp: float
    speed: float
    gain: float


def throat(random: np.random.Generator) -> Throat:
    pitch = float(np.exp(random.uniform(np.log(0.5), np.log(1.35))))
    formants = pitch**0.28 * np.exp(random.normal(0, 0.045))
    return Throat(
        pitch=pitch,
        melody=float(random.uniform(0.65, 1.4)),
        formants=float(np.clip(formants, 0.84, 1.17)),
        colour=Colour.draw(random),
        breath=float(random.uniform(0, 2)),
        rasp=float(random.uniform(-0.6, 0.3)),
        speed=float(np.clip(np.exp(random.normal(0, 0.09)), 0.82, 1.22)),
        gain=float(random.uniform(-4, 2)),
    )


def _smooth(log_magnitudes: Array) -> Array:
    half = SMOOTH_BINS // 2
    padded = np.pad(log_magnitudes, ((half, half), (0, 0)), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, SMOOTH_BINS, axis=0).mean(-1)


def through(throat: Throat, spectra: Spectra) -> Spectra:
    """hibari's six outputs in another voice.

    Args:
        spectra: log magnitudes of harmonics, their phase, log magnitudes of noise and of the part
            of free phase, its phase, `[F, T]` each, and the pitch in Hz, `[T]`.
    """
    harmonics, phase, noise, free, free_phase, pitch = spectra
    voiced = pitch > VOICED_HZ
    if voiced.any():
        median = np.median(pitch[voiced])
        moved = median * throat.pitch * (pitch[voiced] / median) ** throat.melody
        pitch = pitch.copy()
        pitch[voiced] = np.maximum(LOWEST_HZ, moved)
    F = len(harmonics)
    at = np.arange(F) / throat.formants
    left = np.minimum(at.astype(int), F - 1)
    right = np.minimum(left + 1, F - 1)
    share = np.clip(at - left, 0, 1).astype(np.float32)[:, None]
    beyond = np.clip((at - (F - 1)) / max(1.0, F / throat.formants - F + 1), 0, 1)
    fall = (4 * beyond).astype(np.float32)[:, None]  # above what was spoken: quieter and quieter

    def stretched(log_magnitudes: Array) -> Array:
        return log_magnitudes[left] * (1 - share) + log_magnitudes[right] * share - fall

    decibels = np.clip(throat.colour.decibels(np.arange(F) * BIN_HZ), *DECIBELS)
    colour = (decibels * np.log(10) / 20).astype(np.float32)[:, None]
    nearest = np.minimum(np.round(at).astype(int), F - 1)
    rasp = np.where(voiced, np.float32(throat.rasp - 0.4), np.float32(0))
    # fewer harmonics under the same envelope are quieter
    level = np.float32(0.5 * np.log(throat.pitch))
    return (
        stretched(_smooth(harmonics)) + colour + level,
        phase[nearest],
        stretched(noise) + colour + np.float32(throat.breath),
        stretched(free) + colour + rasp,
        free_phase[nearest],
        pitch,
    )
