"""Compare the speed of voxcli and the official `voxcpm` package with the bundled model.

    python tools/beside_official.py --official path/to/python

`path/to/python` is the interpreter of another environment, with torch, voxcpm 2.0.3 and what it
imports. Each side runs in its own process, warms up once, and speaks the sentence `--repeats`
times. The sides take turns, so that a machine whose speed drifts slows both. The result is a
Markdown table of the median real-time factor (wall / audio). Expected on two cores without a GPU:
about 0.4 for the official package at ten steps, and less than half of that for voxcli.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

TEXT = "The ferry leaves at noon, so bring a warm jacket."  # 49 characters
ROUNDS = 3
SETTINGS = ((6, 1.0), (10, 2.0))


def official(steps: int, guidance: float, repeats: int) -> list[float]:
    for name in ("torchaudio", "torchaudio.functional"):  # imported, never called for this model
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__spec__ = ModuleSpec(name, None)
    from voxcpm import VoxCPM
    from widen_mini import MINI, widened

    with tempfile.TemporaryDirectory() as scratch:
        folder = widened(MINI, Path(scratch) / "mini")
        model = VoxCPM(str(folder), enable_denoiser=False, optimize=False, device="cpu")
    rates = []
    for _ in range(1 + repeats):
        started = time.perf_counter()
        samples = model.generate(
            TEXT, cfg_value=guidance, inference_timesteps=steps, retry_badcase=False, max_len=60
        )
        rates.append((time.perf_counter() - started) / (len(samples) / 24000))
    return rates[1:]


def voxcli(steps: int, guidance: float, repeats: int) -> list[float]:
    from voxcli import EngineConfig, SamplingParams, Utterance, open_engine

    told = {"steps": steps, "guidance_scale": guidance}
    with open_engine("native", EngineConfig(device="cpu")) as engine:
        rates = []
        for seed in range(1 + repeats):
            sampling = SamplingParams(seed=seed, parameters=told)
            rates.append(engine.synthesize([Utterance(TEXT, sampling=sampling)])[0].rtf)
    return rates[1:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--official", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--repeats", type=int, default=5, help="of each round")
    one = parser.add_argument_group("one side alone, as the table's processes are started")
    one.add_argument("--role", choices=("official", "voxcli"))
    one.add_argument("--steps", type=int, default=6)
    one.add_argument("--guidance", type=float, default=1.0)
    options = parser.parse_args()
    if options.role:
        measure = {"official": official, "voxcli": voxcli}[options.role]
        print(json.dumps(measure(options.steps, options.guidance, options.repeats)))
        return
    print("| steps, guidance | official voxcpm RTF | voxcli RTF | times |\n|---|---|---|---|")
    for steps, guidance in SETTINGS:
        rates: dict[str, list[float]] = {"official": [], "voxcli": []}
        for _ in range(ROUNDS):
            for role, python in (("official", options.official), ("voxcli", sys.executable)):
                command = [python, __file__, "--role", role, "--steps", steps]
                command += ["--guidance", guidance, "--repeats", options.repeats]
                done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True)
                rates[role] += json.loads(done.stdout.splitlines()[-1])
        theirs, ours = (statistics.median(rates[role]) for role in ("official", "voxcli"))
        print(f"| {steps}, {guidance} | {theirs:.3f} | {ours:.3f} | {theirs / ours:.1f} |")


if __name__ == "__main__":
    main()
