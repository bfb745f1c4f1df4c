"""Step `latents`: all speech through the frozen encoder, to patches with their phones.

A file of speech becomes a file of the same name with `.pt`: a list of lines, each with text,
speaker, patches `[N, P, D]` in half precision, and the phone at the middle of each latent `[N, P]`.

Letters: `B` rows, `S` samples, `N` patches, `P` latents a patch, `D` latent width.
"""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recipes.train_mini.codec import AudioVae, scale_latents
from recipes.train_mini.codec_training import STATE
from recipes.train_mini.pool import FULL_SCALE
from recipes.train_mini.progress import Budget, Log, save, wait_for
from recipes.train_mini.resample import ToEncoderRate
from recipes.train_mini.settings import Settings
from recipes.train_mini.speech import places

DEVIATIONS = "deviations.pt"  # of the encoder's latents before they are scaled, [D]
NUM_MEASURED_FILES = 16
HELD = "held-"  # files of voices that no training hears


def frozen_codec(settings: Settings, device: torch.device) -> AudioVae:
    """The averaged weights of the codec's training, not scaled."""
    vae = AudioVae(settings.codec)
    state = torch.load(settings.work / STATE, map_location="cpu")
    vae.load_state_dict({name: value.float() for name, value in state["average"].items()})
    return vae.to(device).eval().requires_grad_(False)


class Encoding:
    """Lines of files through an encoder, many at once."""

    def __init__(self, vae: AudioVae, settings: Settings, device: torch.device) -> None:
        self._vae, self._device = vae, device
        self._rows, self._patch = settings.latents.batch, settings.language.patch
        self._to_encoder = ToEncoderRate().to(device)

    @property
    def patch_samples(self) -> int:
        return self._patch * self._vae.hop

    @torch.inference_mode()
    def means(self, lines: list[np.ndarray]) -> list[Tensor]:
        """int16 samples of each line to its latents `[T, D]`, T a multiple of the patch."""
        order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
        made: list[Tensor] = [torch.empty(0)] * len(lines)
        for start in range(0, len(order), self._rows):
            rows = order[start : start + self._rows]
            lengths = [-(-len(lines[i]) // self.patch_samples) for i in rows]
            padded = np.zeros((len(rows), 1, max(lengths) * self.patch_samples), "<i2")
            for row, i in enumerate(rows):
                padded[row, 0, : len(lines[i])] = lines[i]
            samples = torch.from_numpy(padded).to(self._device).float() / FULL_SCALE
            latents = self._vae.encoder(self._to_encoder(samples))[0].transpose(1, 2).cpu()
            for row, (i, length) in enumerate(zip(rows, lengths, strict=True)):
                made[i] = latents[row, : length * self._patch]
        return made


def phones_of(pairs: list[list[int]], num_latents: int, hop: int) -> np.ndarray:
    """The phone that sounds at the middle of each latent, 0 behind the end; uint8 `[T]`."""
    ids = np.array([phone for phone, _ in pairs], np.uint8)
    ends = np.cumsum([samples for _, samples in pairs])
    middles = (np.arange(num_latents) + 0.5) * hop
    places = np.searchsorted(ends, middles, side="right")
    return np.where(places < len(ids), ids[np.minimum(places, len(ids) - 1)], 0).astype(np.uint8)


def _lines(path: Path) -> tuple[list[Any], list[np.ndarray]]:
    index, samples = json.loads(path.with_suffix(".json").read_text("utf-8")), np.load(path)
    return index, [samples[at : at + count] for _, _, at, count, _ in index]


def _target(settings: Settings, path: Path) -> Path:
    return settings.work / "latents" / f"{path.stem}.pt"


def measure_deviations(settings: Settings, device: torch.device, files: list[Path]) -> None:
    """Of each latent number over some files, unless they are known; kept for the export."""
    path = settings.work / DEVIATIONS
    if path.is_file():
        return
    encoding = Encoding(frozen_codec(settings, device), settings, device)
    latents = torch.cat([m for file in files for m in encoding.means(_lines(file)[1])])
    save(latents.std(0).clamp(min=1e-3), path)


def work(settings: Settings, files: list[Path], device: torch.device, seconds: float) -> None:
    """Encode some files, with deviations that are known; what is there already stays."""
    budget = Budget(seconds)
    vae = frozen_codec(settings, device)
    encoding = Encoding(vae, settings, device)
    scale_latents(vae, torch.load(settings.work / DEVIATIONS))
    for path in files:
        target = _target(settings, path)
        if target.exists():
            continue
        if budget.is_spent:
            return
        index, lines = _lines(path)
        records = []
        for (text, speaker, _, _, pairs), means in zip(index, encoding.means(lines), strict=True):
            patches = means.unflatten(0, (-1, settings.language.patch)).half()
            phones = phones_of(pairs, len(means), vae.hop).reshape(patches.shape[:2])
            records.append((text, speaker, patches, torch.from_numpy(phones)))
        save(records, target)


def run(settings: Settings, device: torch.device, budget: Budget) -> bool:
    """Encode what is not encoded yet, on all cards; True when all is."""
    log = Log("latents", settings.work / "logs")
    files = sorted((settings.work / "speech").glob("*.npy"))
    trained = [path for path in files if not path.name.startswith(HELD)]
    if not trained:
        raise SystemExit(f"no speech in {settings.work / 'speech'}; run the step speech first")
    measure_deviations(settings, device, trained[:: max(1, len(trained) // NUM_MEASURED_FILES)])
    devices = [torch.device(name) for name in places(device)]
    context = multiprocessing.get_context("spawn")
    others = [
        context.Process(
            target=work,
            args=(settings, files[i :: len(devices)], each, budget.left),
            name="latents",
        )
        for i, each in enumerate(devices[1:], 1)
    ]
    for process in others:
        process.start()
    work(settings, files[:: len(devices)], devices[0], budget.left)
    wait_for(others)
    done = [_target(settings, path).exists() for path in files]
    log(f"{sum(done)} of {len(files)} files")
    return all(done)
