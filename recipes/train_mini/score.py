"""Step `score`: held lines through the product, held recordings through the codec, for a judge.

Writes `work/score/KIND/NNN.wav` and `index.jsonl`, a line for each: kind, file, text, reference.
What was trained so far is scored: the codec alone, and the whole voice once it is exported. Scores
are a judge's work: any program that reads the index.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
import torch

from recipes.train_mini import codec_training
from recipes.train_mini.export import ENCODER_RATE, FOLDER
from recipes.train_mini.latents import frozen_codec
from recipes.train_mini.pool import SAMPLE_RATE
from recipes.train_mini.progress import Budget, Log, append_json
from recipes.train_mini.settings import Settings

SEEDS = (1, 2, 3)
LINES_A_REFERENCE = 4


def recordings(folder: Path) -> Iterator[tuple[Path, str]]:
    """Recordings and what they say, where that lies beside them."""
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in (".wav", ".flac"):
            beside = path.with_suffix(".txt")
            yield path, beside.read_text("utf-8").strip() if beside.is_file() else ""


def round_trips(settings: Settings, folder: Path, done: set[str]) -> Iterator[dict[str, Any]]:
    """Each reference through encoder and decoder."""
    vae = frozen_codec(settings, torch.device("cpu"))
    for path, text in recordings(settings.path(settings.score.references)):
        target = folder / "codec" / f"{path.stem}.wav"
        if str(target) in done:
            continue
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
        at_rate = soxr.resample(samples.mean(1), rate, ENCODER_RATE)
        hop = ENCODER_RATE * vae.hop // SAMPLE_RATE
        padded = np.pad(at_rate, (0, -len(at_rate) % hop))
        with torch.inference_mode():
            mean, _ = vae.encoder(torch.from_numpy(padded).view(1, 1, -1))
            made = vae.decoder(mean).flatten().numpy()
        target.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(target, made, SAMPLE_RATE)
        yield {"kind": "codec", "wav": str(target), "text": text, "reference": str(path)}


def utterances(settings: Settings, folder: Path, done: set[str]) -> Iterator[dict[str, Any]]:
    """Held lines, without a reference and in the voices of the references."""
    score = settings.score
    lines = settings.path(score.lines).read_text("utf-8").splitlines()[: score.num_lines]
    wanted: list[tuple[Path, str, int, Path | None]] = [
        (folder / f"alone-{seed}" / f"{number:03d}.wav", line, seed, None)
        for seed in SEEDS
        for number, line in enumerate(lines)
    ]
    for path, _ in recordings(settings.path(score.references)) if score.references else ():
        for number, line in enumerate(lines[:LINES_A_REFERENCE]):
            wanted.append((folder / "clone" / f"{path.stem}-{number}.wav", line, 1, path))
    for target, line, seed, reference in wanted:
        if str(target) not in done:
            yield _spoken(settings, target, line, seed, reference)


def _spoken(
    settings: Settings, target: Path, line: str, seed: int, reference: Path | None
) -> dict[str, Any]:
    target.parent.mkdir(parents=True, exist_ok=True)
    words = ["speak", line] if reference is None else ["clone", line, "--ref", str(reference)]
    command = [
        sys.executable, "-m", "voxcli", *words, "--model", str(settings.work / FOLDER),
        "--seed", str(seed), "-o", str(target), "--overwrite",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}: {result.stderr}")
    kind = target.parent.name
    return {"kind": kind, "wav": str(target), "text": line, "reference": str(reference or "")}


def run(settings: Settings, _: torch.device, budget: Budget) -> bool:
    folder = settings.work / "score"
    log = Log("score", settings.work / "logs")
    index = folder / "index.jsonl"
    done = set()
    if index.is_file():
        done = {json.loads(line)["wav"] for line in index.read_text("utf-8").splitlines()}
    sources = []
    if (settings.work / codec_training.STATE).is_file() and settings.score.references:
        sources.append(round_trips(settings, folder, done))
    if (settings.work / FOLDER / "config.json").is_file() and settings.score.lines:
        sources.append(utterances(settings, folder, done))
    for source in sources:
        for record in source:
            append_json(index, record)
            if budget.is_spent:
                return False
    log(f"{index} is complete")
    return True
