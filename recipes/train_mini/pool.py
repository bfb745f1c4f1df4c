"""All speech as samples on the device, taken in while it is still being made, and crops of it.

Letters: `B` rows, `S` samples.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recipes.train_mini.resample import MARGIN, read_warped
from recipes.train_mini.settings import Codec

SAMPLE_RATE = 24_000
FULL_SCALE = 32768


class Samples:
    """Files of one kind, one behind the other in one tensor."""

    def __init__(self, folder: Path, kind: str, seconds: float, device: torch.device) -> None:
        self._folder, self._kind, self._seen = folder, kind, set[str]()
        room = int(seconds * SAMPLE_RATE)
        self.data = torch.zeros(room, dtype=torch.int16, device=device)
        self.filled = 0

    def take_in(self) -> None:
        """Files that are new, as long as there is room."""
        for path in sorted(self._folder.glob(f"{self._kind}-*.npy")):
            if path.name in self._seen or self.filled == len(self.data):
                continue
            self._seen.add(path.name)
            samples = torch.from_numpy(np.load(path))[: len(self.data) - self.filled]
            self.data[self.filled : self.filled + len(samples)] = samples.to(self.data.device)
            self.filled += len(samples)

    def crops(
        self, rows: int, length: int, generator: torch.Generator, rates: Tensor | None = None,
        fastest: float = 1.0,
    ) -> Tensor:  # fmt: skip
        """`[rows, length]` in full scale, at random places; read `rates` times as fast, if given.

        Nothing here waits for the device.
        """
        device = self.data.device
        span = length if rates is None else int(length * fastest) + 1
        places = self.filled - span - 2 * MARGIN
        if places <= 0:
            raise SystemExit(f"too little speech of kind {self._kind}: {self.filled} samples")
        starts = (_rand(generator, rows, dtype=torch.float64) * places).long() + MARGIN
        if rates is None:
            at = starts.unsqueeze(1) + torch.arange(length, device=device)
            return self.data[at].float() / FULL_SCALE
        return read_warped(self.data, starts, length, rates) / FULL_SCALE


def _rand(generator: torch.Generator, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    return torch.rand(*shape, generator=generator, device=generator.device, dtype=dtype)


class Pool:
    """Crops of both teachers, warped, louder and softer, some with noise."""

    def __init__(self, folder: Path, settings: Codec, device: torch.device) -> None:
        self._settings, self._device = settings, device
        seconds = settings.pool_hours * 3600
        share = settings.kokoro_share
        self._kinds = [
            (Samples(folder, kind, seconds * part, device), part)
            for kind, part in (("kokoro", share), ("hibari", 1 - share))
            if part > 0
        ]

    def take_in(self) -> None:
        for samples, _ in self._kinds:
            samples.take_in()

    @property
    def seconds(self) -> list[float]:
        """Of speech, of each teacher."""
        return [samples.filled / SAMPLE_RATE for samples, _ in self._kinds]

    def batch(self, rows: int, length: int, step: int) -> Tensor:
        """`[rows, 1, length]`, a function of the step and of what has been taken in."""
        settings = self._settings
        generator = torch.Generator(self._device).manual_seed(settings.seed * 1_000_003 + step)
        parts, left = [], rows
        for samples, share in self._kinds:
            count = left if samples is self._kinds[-1][0] else round(rows * share)
            left -= count
            warped = round(count * settings.warp_share)
            if warped:
                span = settings.max_warp - settings.min_warp
                rates = settings.min_warp + span * _rand(generator, warped)
                parts.append(samples.crops(warped, length, generator, rates, settings.max_warp))
            parts.append(samples.crops(count - warped, length, generator))
        x = torch.cat(parts)
        x = x * 10 ** ((_rand(generator, rows, 1) * 15 - 12) / 20)
        is_noisy = _rand(generator, rows, 1) < settings.noise_share
        ratio = is_noisy * 10 ** (-(_rand(generator, rows, 1) * 35 + 15) / 20)
        level = x.square().mean(1, keepdim=True).sqrt() + 1e-4
        noise = torch.randn(rows, length, generator=generator, device=self._device)
        return (x + noise * ratio * level).clamp(-0.99, 0.99).unsqueeze(1)
