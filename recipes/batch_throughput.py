"""300 rows as one batch beside the same rows one at a time: how much faster, and are they equal?

    python recipes/batch_throughput.py [--rows 300]

Three rounds, each with all rows as a batch and then a third of them one after the other on one
engine, so that a machine whose speed drifts slows both. Each part is a fresh process; loading the
model is not counted, writing the batch's files is. A row alone has the seed that the report names,
and must equal the batch's file to 1e-5. Expected on two cores with nothing else running, in eight
minutes or so: 300 of 300 rows equal, and the ratio of the last line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import islice, product
from pathlib import Path

import numpy as np
import soundfile

from voxcli import EngineConfig, SamplingParams, Synthesizer, Utterance

WHO = ("The ferryman", "My sister", "A tall guest", "Nobody here", "The old painter", "Our captain")
DOES = ("keeps a lamp", "found three letters", "lost the key", "left a coat", "hid some bread")
WHERE = ("by the door", "under the stairs", "near the harbour", "in a small green box", "at home")
WHEN = ("", " last night", " while the rain fell on the roof", " before anyone had asked for it")
ROUNDS, TOLERANCE = 3, 1e-5


def batch(table: Path, out: Path) -> dict[str, float]:
    options = ["--seed", "1", "--force", "--bits", "32f", "--server", "off", "--quiet"]
    command = [sys.executable, "-m", "voxcli", "batch", str(table), "-o", str(out), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    report = json.loads((out / "report.json").read_text("utf-8"))
    return {"wall_s": report["wall_s"], "audio_s": report["audio_s"]}


def alone(out: Path, part: int) -> dict[str, float]:
    rows = json.loads((out / "report.json").read_text("utf-8"))["rows"][part::ROUNDS]
    synthesizer = Synthesizer.load(EngineConfig())
    synthesizer.synthesize([Utterance("Once before.", sampling=SamplingParams(seed=1))])
    found = {"wall_s": 0.0, "audio_s": 0.0, "equal": 0.0}
    for row in rows:
        utterance = Utterance(row["text"], sampling=SamplingParams(seed=row["seed"]))
        started = time.perf_counter()
        samples = synthesizer.synthesize([utterance])[0].samples
        found["wall_s"] += time.perf_counter() - started
        found["audio_s"] += len(samples) / synthesizer.sample_rate
        beside, _ = soundfile.read(out / row["output"], dtype="float32")
        is_equal = len(beside) == len(samples) and np.abs(beside - samples).max() <= TOLERANCE
        found["equal"] += is_equal
    return found


def speed(parts: list[dict[str, float]]) -> float:
    return sum(part["audio_s"] for part in parts) / sum(part["wall_s"] for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--alone", nargs=2, metavar=("OUT", "PART"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(alone(Path(options.alone[0]), int(options.alone[1]))))
        return
    folder = Path(tempfile.mkdtemp(prefix="throughput-"))
    table, out = folder / "rows.txt", folder / "rows"
    sentences = islice(product(WHEN, WHERE, DOES, WHO), options.rows)
    table.write_text("\n".join(f"{d} {c} {b}{a}." for a, b, c, d in sentences), "utf-8")
    parts: dict[str, list[dict[str, float]]] = {"batch": [], "alone": []}
    for part in range(ROUNDS):
        parts["batch"].append(batch(table, out))
        command = [sys.executable, __file__, "--alone", str(out), str(part)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        parts["alone"].append(json.loads(done.stdout.splitlines()[-1]))
        now = ", ".join(f"{name} {speed(each[-1:]):.2f}x" for name, each in parts.items())
        print(f"round {part + 1}: {now}")
    equal = sum(round(part["equal"]) for part in parts["alone"])
    print(f"{equal} of {options.rows} rows equal, {len(list(out.glob('*.wav')))} files in {out}")
    together, apart = speed(parts["batch"]), speed(parts["alone"])
    print(f"batch {together:.2f}x, alone {apart:.2f}x real time: ratio {together / apart:.2f}")
    sys.exit(equal != options.rows)


if __name__ == "__main__":
    main()
