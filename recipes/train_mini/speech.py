"""Step `speech`: both teachers say the corpus, in many processes, a file at a time.

A file is `KIND-WORKER-NUMBER.npy`, int16 samples at 24 kHz of some lines one behind the other, with
a `.json` beside it that says for each line: text, speaker, first sample, number of samples, phones
as pairs of id and samples. `held` is Kokoro in voices that no training may hear.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recipes.train_mini import kokoro, speakers
from recipes.train_mini.hibari import MAX_PHONES, HibariTeacher, Phones
from recipes.train_mini.pool import SAMPLE_RATE
from recipes.train_mini.progress import Budget, Log, wait_for, write_whole
from recipes.train_mini.resample import MARGIN, read_warped
from recipes.train_mini.settings import Settings

LEAD, TAIL, FADE = int(0.08 * SAMPLE_RATE), int(0.25 * SAMPLE_RATE), 60  # samples
FRAME = 240  # samples of which a level is measured
QUIET = 0.005  # of a line's loudest frame: what is below it at the end is silence
LEVEL = 0.085  # root mean square of a line
DEFAULT_SPEAKER = ""  # hibari's own voice

Line = tuple[np.ndarray, np.ndarray, list[int], str]  # samples, durations, phones, speaker
Speaks = Callable[[str, np.random.Generator], Line | None]


def texts(settings: Settings) -> list[str]:
    with gzip.open(settings.work / "corpus.txt.gz", "rt", encoding="utf-8") as handle:
        return handle.read().splitlines()


def last_sound(samples: np.ndarray) -> int:
    """Where the last frame ends that is not silence; what is not finite is as long as it is."""
    frames = np.pad(samples, (0, -len(samples) % FRAME)).reshape(-1, FRAME)
    levels = np.sqrt((frames**2).mean(1))
    loud = np.flatnonzero(levels >= QUIET * levels.max())
    return FRAME * (int(loud[-1]) + 1) if len(loud) else len(samples)


def trimmed(samples: np.ndarray, durations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Short silence at both ends, faded; the first and last phone are the silence.

    The end goes by sound: a full stop is a phone too, of 0.3 s and more that are silence.
    """
    first = max(0, int(durations[0]) - LEAD)
    last = min(len(samples), last_sound(samples) + TAIL)
    durations = np.diff(np.clip(np.cumsum(durations), first, last), prepend=first)
    durations[-1] += last - first - durations.sum()
    samples = samples[first:last].astype(np.float32)
    ramp = np.linspace(0, 1, min(FADE, len(samples)), dtype=np.float32)
    samples[: len(ramp)] *= ramp
    samples[len(samples) - len(ramp) :] *= ramp[::-1]
    return samples, durations


def levelled(samples: np.ndarray, decibels: float = 0.0) -> np.ndarray:
    level = float(np.sqrt(np.mean(samples**2))) + 1e-9
    samples = samples * (LEVEL * 10 ** (decibels / 20) / level)
    return samples * min(1.0, 0.97 / max(1e-9, float(np.abs(samples).max())))


def is_plausible(text: str, samples: np.ndarray, max_seconds: float) -> bool:
    """Neither silent nor broken, and as long as such a text is."""
    seconds = len(samples) / SAMPLE_RATE
    letters = max(1, sum(each.isalnum() for each in text))
    is_sound = bool(np.isfinite(samples).all()) and float(np.abs(samples).max(initial=0)) > 0
    return is_sound and 0.25 < seconds <= max_seconds and seconds / letters < 0.3 + 1 / letters


class HibariSpeech:
    """Half of the lines in its own voice, then others for some lines each."""

    def __init__(self, settings: Settings, _: str, __: torch.device) -> None:
        self._settings = settings.speech
        self._teacher = HibariTeacher(settings.path(settings.speech.hibari))

    def cast(self, random: np.random.Generator) -> list[Any]:
        count = self._settings.utterances // 2
        made = [speakers.throat(random) for _ in range(-(-count // self._settings.lines_a_speaker))]
        others = [each for each in made for _ in range(self._settings.lines_a_speaker)]
        return [*[None] * (self._settings.utterances - count), *others[:count]]

    def line(self, text: str, speaker: Any, random: np.random.Generator) -> tuple | None:
        ids = self._teacher.phones(text)
        if not 4 <= len(ids) <= MAX_PHONES:
            return None
        samples, durations = trimmed(*self._teacher(ids, speaker, random))
        return levelled(samples, 0.0 if speaker is None else speaker.gain), durations, ids


class KokoroSpeech:
    """Speakers around the voices that may be heard, or the voices that are held back."""

    def __init__(self, settings: Settings, kind: str, device: torch.device) -> None:
        self._settings, self._device = settings.speech, device
        folder = settings.path(settings.speech.kokoro)
        self._phones = Phones(settings.path(settings.speech.hibari))
        self._teacher = kokoro.Kokoro(folder, device)
        with np.load(folder / "voices.npz") as styles:
            self._styles = {name: styles[name] for name in styles.files}
        held = set(settings.speech.held_voices)
        if surplus := sorted(held - set(self._styles)):
            raise SystemExit(f"{folder / 'voices.npz'} has no voice {surplus[0]}")
        wanted = held if kind == "held" else set(self._styles) - held
        self._voices, self._is_held = sorted(wanted), kind == "held"
        self._draw = speakers.Cast({name: self._styles[name] for name in self._voices})

    def cast(self, random: np.random.Generator) -> list[Any]:
        settings = self._settings
        count = -(-settings.utterances // settings.lines_a_speaker)
        if self._is_held:
            names = [self._voices[i % len(self._voices)] for i in range(count)]
            made = [speakers.Mixture({name: 1.0}, {name: 1.0}) for name in names]
        else:
            made = [self._draw(random) for _ in range(count)]
        cast = [each for each in made for _ in range(settings.lines_a_speaker)]
        return cast[: settings.utterances]

    def line(self, text: str, speaker: Any, random: np.random.Generator) -> tuple | None:
        ids = self._phones(text)
        if not 4 <= len(ids) <= MAX_PHONES:
            return None
        style = speaker.style(self._styles, len(ids) - 2)
        samples, durations = self._teacher(ids, style, speaker.speed / speaker.rate)
        if speaker.rate != 1.0:
            samples, durations = faster(samples, durations, speaker.rate)
        if speaker.colour is not None:
            samples = speaker.colour(samples)
        samples, durations = trimmed(samples, durations)
        return levelled(samples, float(random.uniform(-3, 1))), durations, ids


def faster(
    samples: np.ndarray, durations: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """Read `rates` times as fast, pitch and formants with it."""
    length = int(len(samples) / rate)
    padded = torch.nn.functional.pad(torch.from_numpy(samples.copy()), (MARGIN, MARGIN))
    start = torch.tensor([MARGIN])
    read = read_warped(padded, start, length, torch.tensor([rate]))[0].numpy()
    ends = np.minimum(np.round(np.cumsum(durations) / rate).astype(np.int64), length)
    return read, np.diff(ends, prepend=0)


TEACHERS: dict[str, Any] = {"hibari": HibariSpeech, "kokoro": KokoroSpeech, "held": KokoroSpeech}


def write_file(
    teacher: Any, lines: list[str], random: np.random.Generator, stem: Path, max_seconds: float
) -> float:
    """One file of speech; returns its seconds."""
    pieces, index, at = [], [], 0
    for number, (text, speaker) in enumerate(zip(lines, teacher.cast(random), strict=False)):
        made = teacher.line(text, speaker, random)
        if made is None or not is_plausible(text, made[0], max_seconds):
            continue
        samples, durations, ids = made
        name = DEFAULT_SPEAKER if speaker is None else f"{stem.name}-{_rank(teacher, number)}"
        phones = [[int(i), int(n)] for i, n in zip(ids, durations, strict=True)]
        pieces.append(np.round(samples * 32767).astype("<i2"))
        index.append([text, name, at, len(samples), phones])
        at += len(samples)
    stem.with_suffix(".json").write_text(json.dumps(index), "utf-8")
    every = np.concatenate(pieces) if pieces else np.zeros(0, "<i2")

    def write(beside: Path) -> None:
        with beside.open("wb") as handle:
            np.save(handle, every)

    write_whole(stem.with_suffix(".npy"), write)
    return at / SAMPLE_RATE


def _rank(teacher: Any, number: int) -> int:
    return number // int(teacher._settings.lines_a_speaker)


def spoken_hours(folder: Path, kind: str) -> float:
    total = sum(path.stat().st_size for path in folder.glob(f"{kind}-*.npy"))
    return total / 2 / SAMPLE_RATE / 3600


def work(settings: Settings, kind: str, worker: int, workers: int, hours: float, seconds: float,
         device: str) -> None:  # fmt: skip
    """One process: files of its own until all have spoken so many hours."""
    budget, folder = Budget(seconds), settings.work / "speech"
    torch.set_num_threads(1)
    lines = texts(settings)
    order = np.random.default_rng(settings.speech.seed).permutation(len(lines))
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(device)  # this process works there alone
    teacher = TEACHERS[kind](settings, kind, torch.device(device))
    number, count = 0, settings.speech.utterances
    while not budget.is_spent and spoken_hours(folder, kind) < hours:
        stem = folder / f"{kind}-{worker:02d}-{number:04d}"
        number += 1
        if stem.with_suffix(".npy").exists():
            continue
        at = ((number - 1) * workers + worker) * count
        chosen = [lines[order[(at + i) % len(order)]] for i in range(count)]
        seed = [settings.speech.seed, sorted(TEACHERS).index(kind), worker, number]
        random = np.random.default_rng(seed)
        torch.manual_seed(int(random.integers(2**31)))
        write_file(teacher, chosen, random, stem, settings.speech.max_seconds)


def places(device: torch.device) -> list[str]:
    """All cards where any is asked for, else the device."""
    if device != torch.device("cuda"):
        return [str(device)]
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def run(settings: Settings, device: torch.device, budget: Budget) -> bool:
    """Speak until the hours are full or the budget is spent; True when full."""
    speech, folder = settings.speech, settings.work / "speech"
    folder.mkdir(parents=True, exist_ok=True)
    log = Log("speech", settings.work / "logs")
    held_hours = 0.0 if not speech.held_voices or not speech.kokoro_hours else 1e-6
    plans = {
        "held": (held_hours, 1, places(device)),
        "kokoro": (speech.kokoro_hours, speech.kokoro_processes, places(device)),
        "hibari": (speech.hibari_hours, speech.hibari_processes, ["cpu"]),
    }
    context = multiprocessing.get_context("spawn")
    processes = []
    for kind, (hours, workers, devices) in plans.items():
        if spoken_hours(folder, kind) >= hours:
            continue
        for worker in range(workers):
            place = devices[worker % len(devices)]
            given = (settings, kind, worker, workers, hours, budget.left, place)
            processes.append(context.Process(target=work, args=given, name=kind))
    for process in processes:
        process.start()
    wait_for(processes)
    done = {kind: spoken_hours(folder, kind) for kind in plans}
    log(" ".join(f"{kind} {hours:.3f} h" for kind, hours in done.items()))
    return all(done[kind] >= hours for kind, (hours, *_) in plans.items())
