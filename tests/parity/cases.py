"""What the parity goldens hold: texts, utterances, and the synthetic voices they start from.

Shared by `make_goldens.py` (official package) and the tests (ours); it runs neither model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from checkpoints import TINY, TINY_MEAN
from safetensors import safe_open

HERE = Path(__file__).resolve().parent
MINI = HERE.parents[1] / "voxcli" / "assets" / "mini"
TOLERANCE = 1e-4  # on latents and samples after 60 autoregressive steps in fp32

FULL_SAMPLES = 4000  # stored of the beginning and of the end
STRIDE = 23  # prime: every phase of a patch is seen

TEXTS = [
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog.",
    " leading and trailing spaces ",
    "two  spaces and a\ttab",
    "It's 12:30 - isn't it... (yes) [no] {3} <4> \"quoted\"",
    "hello",
    "H",
    "!?",
    "你好",
    "你好，世界！",
    "中国人你好上海 Hello 天气ing",
    "a中国人b 世界",
    "emoji 😀 and flags 🇨🇳",
    "café naïve — Zürich",
    "literal <|audio_start|> and <s> markers ▁ too",
    "\u4e00\u9fff\u0000",
]


@dataclass(frozen=True)
class Case:
    """One utterance.

    Stored: latents `patches [n, P, D]`, stop `logits [n, 2]`, what both language models say after
    the prompt (`base`, `residual`), the decoded `samples` thinned, latents of the prompt's audio.
    """

    name: str
    num_patches: int
    num_steps: int
    cfg: float
    seed: int
    text: str = "The birch canoe slid on the smooth planks."
    reference_s: float = 0.0
    prompt_s: float = 0.0
    prompt_text: str = "Glue the sheet. "
    reference_pitch: float = 120.0
    prompt_pitch: float = 190.0


# Seeds are those of a dozen whose FSQ inputs stay farthest from a rounding border, so that another
# processor's rounding does not flip a level: 1e-3 of a level or more in the tiny ones, 6e-5 in
# `mini`, where our arithmetic differs from the official one by 1e-5. Lengths of the audio are no
# multiple of a patch, so that padding is seen.
CASES: dict[str, list[Case]] = {
    "mini": [
        Case("zero_shot_6_unguided", 60, 6, 1.0, seed=12),
        Case("zero_shot_10_guided", 60, 10, 2.0, seed=9),
        Case("zero_shot_6_guided", 12, 6, 2.0, seed=12),
        Case("zero_shot_10_unguided", 12, 10, 1.0, seed=5),
        Case("reference", 20, 6, 1.5, seed=5, reference_s=1.05),
        Case("continuation", 20, 6, 1.5, seed=6, prompt_s=0.71),
        Case("combined", 20, 10, 2.0, seed=5, reference_s=0.53, prompt_s=0.27),
    ],
    "tiny": [
        Case("zero_shot_10_guided", 60, 10, 2.0, seed=10),
        Case("zero_shot_6_unguided", 60, 6, 1.0, seed=8),
        Case("reference", 20, 10, 2.0, seed=3, reference_s=0.1),
        Case("continuation", 20, 6, 1.5, seed=5, prompt_s=0.05),
        # one patch of prompt: the vocoder's warm-up takes two of the reference
        Case("combined", 20, 6, 2.0, seed=5, reference_s=0.1, prompt_s=0.002),
    ],
    "tiny_mean": [
        Case("zero_shot_10_guided", 30, 10, 2.0, seed=11),
        # 50 steps: the first two have no velocity
        Case("combined", 8, 50, 1.5, seed=5, reference_s=0.011, prompt_s=0.0133),
    ],
}

CONFIGS: dict[str, tuple[dict[str, Any], int]] = {"tiny": (TINY, 11), "tiny_mean": (TINY_MEAN, 12)}


def golden_path(name: str, case: str) -> Path:
    return HERE / "goldens" / f"{name}_{case}.npz"


def checkpoint_folder(name: str, folder: Path, write: Callable[..., Any]) -> Path:
    """The folder of a named checkpoint; random ones are written to `folder` first."""
    if name == "mini":
        return MINI
    config, seed = CONFIGS[name]
    write(folder, config, seed)
    return folder


def checkpoint_keys(folder: Path) -> set[str]:
    keys: set[str] = set()
    for file, prefix in (("model", ""), ("audiovae", "audio_vae.")):
        with safe_open(folder / f"{file}.safetensors", framework="np") as opened:
            keys |= {prefix + key for key in opened.keys()}  # noqa: SIM118
    return keys


def speech_like(rate: int, seconds: float, *, pitch: float) -> np.ndarray:
    """A buzz with moving formants, syllables and a little noise; float32, peak about 0.5."""
    t = np.arange(int(rate * seconds)) / rate
    phase = 2 * np.pi * pitch * (t + 0.02 * np.sin(2 * np.pi * 3 * t))
    voice = np.zeros_like(t)
    for harmonic in range(1, int(0.45 * rate / pitch) + 1):
        frequency = harmonic * pitch
        formants = sum(
            np.exp(-(((frequency - centre * (1 + 0.2 * np.sin(2 * np.pi * f * t))) / width) ** 2))
            for centre, width, f in ((600, 200, 2.1), (1500, 300, 1.3), (2600, 400, 0.7))
        )
        voice += (0.05 + formants) / harmonic * np.sin(harmonic * phase)
    noise = np.random.default_rng(int(pitch)).standard_normal(len(t))
    signal = (voice + 0.02 * noise) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t))
    return (0.5 * signal / np.abs(signal).max()).astype(np.float32)


def thinned(samples: np.ndarray) -> np.ndarray:
    """What a golden keeps of a waveform: beginning and end, and every 23rd sample between."""
    middle = samples[FULL_SAMPLES:-FULL_SAMPLES:STRIDE]
    return np.concatenate((samples[:FULL_SAMPLES], middle, samples[-FULL_SAMPLES:]))


def difference(expected: np.ndarray, actual: np.ndarray) -> float:
    """Largest absolute difference; infinite where the shapes differ."""
    if expected.shape != actual.shape:
        return float("inf")
    return float(np.abs(expected.astype(np.float64) - actual).max(initial=0))
