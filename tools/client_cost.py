"""Measure how much CPU a batch over servers costs the client, for each second of audio.

    voxcli serve --no-socket --port 8101 --background
    python tools/client_cost.py http://127.0.0.1:8101[,URL...] [--model mini] [--rows 200]

The script runs `voxcli batch` three times over the same servers: with a fifth of the rows, with all
rows, and with all rows and long texts. The differences are the cost of a row and of a second of
audio. The rest is start and end. The CPU seconds are those of the batch's process only (`getrusage`
of the child), without servers on this machine. The last line has the numbers for
`simulate_fleet.py`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SHORT = "Row {number} is short."
LONG = (
    "Row {number} says that the ferry leaves at noon, that it rains, and that a jacket is needed."
)
PARTS = 5


@dataclass(frozen=True)
class Cost:
    """Of one run: CPU and wall seconds, seconds of audio, bytes written, rows."""

    cpu_s: float
    wall_s: float
    audio_s: float
    num_bytes: int
    num_rows: int


def measure(servers: str, model: str, num_rows: int, text: str, folder: Path) -> Cost:
    table, out = folder / f"{num_rows}-{len(text)}.csv", folder / f"{num_rows}-{len(text)}"
    lines = [text.format(number=number) for number in range(num_rows)]
    table.write_text("\n".join(["text", *(f'"{line}"' for line in lines)]), "utf-8")
    command = [sys.executable, "-m", "voxcli", "batch", str(table), "-o", str(out), "--quiet"]
    command += ["--engine", servers, "--model", model, "--seed", "1"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads((out / "report.json").read_text("utf-8"))
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    num_bytes = sum(path.stat().st_size for path in out.glob("*.wav"))
    return Cost(cpu_s, report["wall_s"], report["audio_s"], num_bytes, num_rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("servers", help="URLs with commas between, as for --engine")
    parser.add_argument("--model", default="mini")
    parser.add_argument("--rows", type=int, default=200, help="of the longer run")
    options = parser.parse_args()
    kinds = ((max(1, options.rows // PARTS), SHORT), (options.rows, SHORT), (options.rows, LONG))
    with tempfile.TemporaryDirectory(prefix="client-cost-") as name:
        runs = [
            measure(options.servers, options.model, num_rows, text, Path(name))
            for num_rows, text in kinds
        ]
    for run in runs:
        print(f"{run.num_rows} rows, {run.audio_s:.0f} s of audio: {run.cpu_s:.2f} s of CPU")
    few, short, long = runs
    second_s = (long.cpu_s - short.cpu_s) / (long.audio_s - short.audio_s)
    added_s = short.cpu_s - few.cpu_s - second_s * (short.audio_s - few.audio_s)
    row_s = added_s / (short.num_rows - few.num_rows)
    start_s = few.cpu_s - row_s * few.num_rows - second_s * few.audio_s
    print(f"start and end: {start_s:.2f} s of CPU")
    print(
        f"{1e3 * row_s:.1f} ms of CPU a row, {1e3 * second_s:.2f} ms and "
        f"{long.num_bytes / long.audio_s / 1e3:.0f} kB of disk a second of audio"
    )


if __name__ == "__main__":
    main()
