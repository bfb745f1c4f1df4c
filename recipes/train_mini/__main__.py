"""The bundled voice from nothing: one step a call, each of which goes on where it was left.

    python -m recipes.train_mini STEP SETTINGS.toml [--seconds N]

Steps, in their order: corpus, speech, codec, latents, language, distil, export, score. `distil` may
be left out; with it, a clone needs no guidance. `pack FOLDER` and `unpack FOLDER` carry what has
been trained from one machine to another, in parts of 15 MiB. `adopt FOLDER` begins with a
checkpoint's codec; `start_from` in the settings with its language models.
Exit code: 0 the step is done, 75 its budget of seconds is spent and the same command goes on.
"""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path

import torch

from recipes.train_mini import carry, checkpoint, settings
from recipes.train_mini.progress import SECONDS_LEFT, Budget

STEPS = {
    "corpus": "corpus",
    "speech": "speech",
    "codec": "codec_training",
    "latents": "latents",
    "language": "language_training",
    "distil": "distillation",
    "export": "export",
    "score": "score",
}
OTHERS = {"pack": carry.pack, "unpack": carry.unpack, "adopt": checkpoint.adopt_codec}
IS_UNFINISHED = 75  # sysexits' EX_TEMPFAIL


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="recipes.train_mini",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("step", choices=[*STEPS, *OTHERS])
    parser.add_argument("settings", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", help="of pack, unpack and adopt")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    budget = Budget(float(os.environ.pop(SECONDS_LEFT, given.seconds)))
    chosen = settings.load(given.settings)
    if given.step in OTHERS:
        if given.folder is None:
            parser.error(f"{given.step} needs a folder")
        OTHERS[given.step](chosen, given.folder)
        return 0
    name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name if chosen.device == "auto" else chosen.device)
    step = importlib.import_module(f"recipes.train_mini.{STEPS[given.step]}")
    return 0 if step.run(chosen, device, budget) else IS_UNFINISHED


if __name__ == "__main__":
    raise SystemExit(main())
