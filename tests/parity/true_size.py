"""Load and step VoxCPM2 at its true size with random weights, and print time and memory.

    python tests/parity/true_size.py [--dtype bfloat16] [--steps 2] [--cfg 2.0]

Not a test: it takes minutes and gigabytes. The weights are rounded to bf16 first, as the official
checkpoint stores them, so that `--dtype float32` does with them what it would do with those.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE)]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from replay import make_rows  # noqa: E402
from torch import Tensor  # noqa: E402

from voxcli.models.data import Prompt  # noqa: E402
from voxcli.models.voxcpm2.config import VoxCPM2Config  # noqa: E402
from voxcli.models.voxcpm2.model import VoxCPM2  # noqa: E402
from voxcli.models.voxcpm2.sources import RandomSource  # noqa: E402


class RoundedSource(RandomSource):
    """Random weights that are bf16 numbers; one block of noise is reused, to save minutes."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(device, dtype)
        self._block = torch.randn(1 << 22, generator=self._generator).bfloat16()

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        size = int(np.prod(shape))
        if size <= 1 << 20:
            return super().read(name, shape).bfloat16()
        values = self._block.repeat(-(-size // len(self._block)))[:size]
        return values.view(shape) * float(np.prod(shape[1:])) ** -0.5


def gigabytes() -> str:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return f"RSS {now / 2**30:.1f} GiB, peak {peak / 2**30:.1f} GiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--cfg", type=float, default=2.0)
    options = parser.parse_args()
    config = VoxCPM2Config.from_dict(json.loads((HERE / "voxcpm2_config.json").read_text()))
    began = time.perf_counter()

    def report(what: str) -> None:
        nonlocal began
        print(f"{what}: {time.perf_counter() - began:.1f} s, {gigabytes()}", flush=True)
        began = time.perf_counter()

    with torch.inference_mode():
        source = RoundedSource(torch.device("cpu"), getattr(torch, options.dtype))
        model = VoxCPM2(config, source, None)
        report(f"load {source.num_parameters / 1e9:.2f} B parameters, {options.dtype}")
        state = model.new_state(1, 512)
        ids = np.arange(1000, 1020)
        P, D = model.patch_shape
        prompt = Prompt(ids, np.zeros(20, bool), np.zeros((0, P, D), np.float32))
        model.prefill(state, prompt, 0)
        report("prefill of 20 positions")
        for step in range(options.steps):
            rows = make_rows(model, [0], [20 + step], [1], [step], num_steps=10, cfg=options.cfg)
            output = model.decode(state, rows)
            assert bool(output.frames.isfinite().all())
            report(f"step {step}")
            samples = model.vocode(state, [0], output.frames.unsqueeze(1))
            assert samples.shape == (1, 7680)
            assert bool(samples.isfinite().all())
            report(f"vocode {step}")


if __name__ == "__main__":
    main()
