"""Measure how much faster a batch of 300 rows is than one row at a time, and compare the audio.

    python tools/batch_throughput.py [--rows 300]

The script runs three rounds. Each round speaks all rows as `voxcli batch` does, and then a third of
them with `--slots 1`, so that a machine whose speed drifts slows both. The times include checking
and writing the files, but not loading the model. Each row has its own seed, and its files must be
equal to 1e-5. On two idle cores this takes about nine minutes. Expected: 300 of 300 rows equal, and
the ratio in the last line.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from itertools import islice, product
from pathlib import Path

import numpy as np
import soundfile

WHO = ("The ferryman", "My sister", "A tall guest", "Nobody here", "The old painter", "Our captain")
DOES = ("keeps a lamp", "found three letters", "lost the key", "left a coat", "hid some bread")
WHERE = ("by the door", "under the stairs", "near the harbour", "in a small green box", "at home")
WHEN = ("", " last night", " while the rain fell on the roof", " before anyone had asked for it")
ROUNDS, TOLERANCE = 3, 1e-5


Row = dict[str, str | int]


def speak(rows: list[Row], out: Path, *options: str) -> dict[str, float]:
    """Speak a table in a process of its own; seconds it took and made."""
    table = out.with_suffix(".csv")
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("id", "text", "seed"))
        writer.writeheader()
        writer.writerows(rows)
    options = ("--force", "--bits", "32f", "--engine", "native", "--quiet", *options)
    command = [sys.executable, "-m", "voxcli", "batch", str(table), "-o", str(out), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    report = json.loads((out / "report.json").read_text("utf-8"))
    return {"wall_s": report["wall_s"], "audio_s": report["audio_s"]}


def is_equal(one: Path, other: Path) -> bool:
    left, right = (soundfile.read(path, dtype="float32")[0] for path in (one, other))
    return len(left) == len(right) and bool(np.abs(left - right).max() <= TOLERANCE)


def speed(parts: list[dict[str, float]]) -> float:
    return sum(part["audio_s"] for part in parts) / sum(part["wall_s"] for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=300, help="how many rows")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="throughput-"))
    sentences = islice(product(WHEN, WHERE, DOES, WHO), options.rows)
    rows: list[Row] = [
        {"id": f"{number:03}", "text": f"{who} {does} {where}{when}.", "seed": number}
        for number, (when, where, does, who) in enumerate(sentences, start=1)
    ]
    together, alone = [], []
    for part in range(ROUNDS):
        together.append(speak(rows, folder / "together"))
        alone.append(speak(rows[part::ROUNDS], folder / "alone", "--slots", "1"))
        speeds = f"batch {speed(together[-1:]):.2f}x, alone {speed(alone[-1:]):.2f}x"
        print(f"round {part + 1}: {speeds}", flush=True)
    files = [path.name for path in (folder / "together").glob("*.wav")]
    num_equal = sum(is_equal(folder / "together" / name, folder / "alone" / name) for name in files)
    print(f"{num_equal} of {len(rows)} rows equal, in {folder}")
    faster = speed(together) / speed(alone)
    print(f"batch {speed(together):.2f}x, alone {speed(alone):.2f}x real time: ratio {faster:.2f}")
    sys.exit(0 if num_equal == len(rows) else 1)


if __name__ == "__main__":
    main()
