"""Step `latents`: all speech through the frozen encoder, to patches with their phones.

A file of speech becomes a file of the same name with `.pt` (`Encoded`). A speaker's lines may be
there in several takes, each another speaker, and as recordings.

Letters: `B` rows, `S` samples, `N` patches, `P` latents a patch, `D` latent width.
"""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import dataclass, replace
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
from recipes.train_mini.speech import DEFAULT_SPEAKER, places
from recipes.train_mini.takes import Recording, Take

DEVIATIONS = "deviations.pt"  # of the encoder's latents before they are scaled, [D]
NUM_MEASURED_FILES = 16
HELD = "held-"  # files of voices that no training hears


@dataclass(frozen=True)
class Encoded:
    """Lines of one file, one behind the other.

    Attributes:
        texts, speakers, lengths: of each line, the last in patches.
        patches: half precision `[T, P, D]`. phones: uint8 `[T, P]`, at the middle of each latent.
        recordings: `[R, P, D]`, the lines as recordings.
        recorded_lengths: of each line's recording in patches, 0 where it has none.
    """

    texts: list[str]
    speakers: list[str]
    lengths: list[int]
    patches: Tensor
    phones: Tensor
    recordings: Tensor
    recorded_lengths: list[int]

    @classmethod
    def read(cls, path: Path) -> Encoded:
        return cls(**torch.load(path))

    def write(self, path: Path) -> None:
        save(dict(vars(self)), path)


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
    def hop(self) -> int:
        """Samples a latent."""
        return self._vae.hop

    @property
    def patch_samples(self) -> int:
        return self._patch * self.hop

    @torch.inference_mode()
    def means(self, lines: list[Tensor]) -> list[Tensor]:
        """Samples in full scale of each line to its latents `[T, D]`, T a multiple of the patch."""
        order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
        made: list[Tensor] = [torch.empty(0)] * len(lines)
        for start in range(0, len(order), self._rows):
            rows = order[start : start + self._rows]
            lengths = [-(-len(lines[i]) // self.patch_samples) for i in rows]
            samples = torch.zeros(
                len(rows), 1, max(lengths) * self.patch_samples, device=self._device
            )
            for row, i in enumerate(rows):
                samples[row, 0, : len(lines[i])] = lines[i]
            latents = self._vae.encoder(self._to_encoder(samples))[0].transpose(1, 2).cpu()
            for row, (i, length) in enumerate(zip(rows, lengths, strict=True)):
                made[i] = latents[row, : length * self._patch]
        return made


def phones_of(pairs: list[list[int]], num_latents: int, hop: int, rate: float = 1.0) -> np.ndarray:
    """The phone that sounds at the middle of each latent, 0 behind the end; uint8 `[T]`.

    Args:
        pairs: each phone with its samples.
        rate: the speech has been read so much faster.
    """
    ids = np.array([phone for phone, _ in pairs], np.uint8)
    ends = np.cumsum([samples for _, samples in pairs]) / rate
    middles = (np.arange(num_latents) + 0.5) * hop
    places = np.searchsorted(ends, middles, side="right")
    return np.where(places < len(ids), ids[np.minimum(places, len(ids) - 1)], 0).astype(np.uint8)


def _lines(path: Path, device: torch.device) -> tuple[list[Any], list[Tensor]]:
    """A file's index, and the samples of each line in full scale."""
    index = json.loads(path.with_suffix(".json").read_text("utf-8"))
    samples = torch.from_numpy(np.load(path)).to(device).float() / FULL_SCALE
    return index, [samples[at : at + count] for _, _, at, count, _ in index]


def _target(settings: Settings, path: Path) -> Path:
    return settings.work / "latents" / f"{path.stem}.pt"


def measure_deviations(settings: Settings, device: torch.device, files: list[Path]) -> None:
    """Of each latent number over some files, unless they are known; kept for the export."""
    path = settings.work / DEVIATIONS
    if path.is_file():
        return
    encoding = Encoding(frozen_codec(settings, device), settings, device)
    latents = torch.cat([m for file in files for m in encoding.means(_lines(file, device)[1])])
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
        _encoded(settings, encoding, path, device).write(target)


@dataclass(frozen=True)
class _Line:
    """A line in one take; `pairs` are its phones with their samples before it was read faster."""

    text: str
    speaker: str
    samples: Tensor
    pairs: list[list[int]]
    rate: float = 1.0
    recording: Tensor | None = None


def _in_takes(lines: list[_Line], count: int, random: np.random.Generator) -> list[_Line]:
    """The lines, and those of made-up speakers as `count - 1` other speakers each."""
    made = list(lines)
    others = [line for line in lines if line.speaker != DEFAULT_SPEAKER]
    for number in range(1, count):
        takes = {name: Take.draw(random) for name in sorted({line.speaker for line in others})}
        for line in others:
            take = takes[line.speaker]
            speaker = f"{line.speaker}/{number}"
            made.append(_Line(line.text, speaker, take(line.samples), line.pairs, take.rate))
    return made


def _recorded(
    line: _Line, share: float, random: np.random.Generator, generator: torch.Generator
) -> _Line:
    """Sometimes with a recording."""
    if line.speaker == DEFAULT_SPEAKER or random.random() >= share:
        return line
    return replace(line, recording=Recording.draw(random)(line.samples, generator))


def _encoded(settings: Settings, encoding: Encoding, path: Path, device: torch.device) -> Encoded:
    """All lines of a file, in takes and as recordings, unless they are held back."""
    random = np.random.default_rng([settings.speech.seed, *path.stem.encode()])
    generator = torch.Generator(device).manual_seed(int(random.integers(2**31)))
    index, samples = _lines(path, device)
    lines = [
        _Line(text, speaker, each, pairs)
        for (text, speaker, _, _, pairs), each in zip(index, samples, strict=True)
    ]
    if not path.name.startswith(HELD):
        chosen = settings.latents
        lines = _in_takes(lines, chosen.takes, random)
        lines = [_recorded(line, chosen.recorded_share, random, generator) for line in lines]
    recordings = [line.recording for line in lines if line.recording is not None]
    means = encoding.means([*(line.samples for line in lines), *recordings])
    spoken, recorded = means[: len(lines)], means[len(lines) :]
    P, rest = settings.language.patch, iter(recorded)
    phones = [
        phones_of(line.pairs, len(each), encoding.hop, line.rate)
        for line, each in zip(lines, spoken, strict=True)
    ]

    def patches(parts: list[Tensor]) -> Tensor:
        empty = torch.zeros(0, settings.codec.latent_dim)
        return torch.cat((empty, *parts)).unflatten(0, (-1, P)).half()

    return Encoded(
        texts=[line.text for line in lines],
        speakers=[line.speaker for line in lines],
        lengths=[len(each) // P for each in spoken],
        patches=patches(spoken),
        phones=torch.from_numpy(np.concatenate((np.zeros(0, np.uint8), *phones)).reshape(-1, P)),
        recordings=patches(recorded),
        recorded_lengths=[0 if line.recording is None else len(next(rest)) // P for line in lines],
    )


def run(settings: Settings, device: torch.device, budget: Budget) -> bool:
    """Encode what is not encoded yet, on all cards; True when all is."""
    log = Log("latents", settings.work / "logs")
    files = sorted((settings.work / "speech").glob("*.npy"))
    trained = [path for path in files if not path.name.startswith(HELD)]
    if not trained:
        raise SystemExit(f"no speech in {settings.work / 'speech'}; run the step speech first")
    measure_deviations(settings, device, trained[:: max(1, len(trained) // NUM_MEASURED_FILES)])
    devices = [torch.device(name) for name in places(device) * settings.latents.processes]
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
