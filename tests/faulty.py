"""voxcli with an engine that fails when it is told to, for tests of what takes over.

    FAULTY=faults.txt python tests/faulty.py serve --port 0

Each process takes the first line of the file away: `STEP ROWS` lets it fail at the first step from
that number on that has so many rows, an empty file never. The model is the fake one, or with
FAULTY_DEVICE=cuda the bundled one and the fault one of the card.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import torch
from fakes import FakeModel, FakeState, fake_engine

from voxcli import cli
from voxcli.engine.native import engine
from voxcli.engine.native.graph import GraphRunner
from voxcli.engine.native.request import Request
from voxcli.engine.native.running import Result
from voxcli.models.data import Rows, StepOutput

STEP_S = 0.002  # so that two clients find each other
NEVER = (1 << 30, 0)


def take_order(path: Path) -> tuple[int, int]:
    """This process's fault."""
    first, *rest = path.read_text("utf-8").splitlines() or [""]
    path.write_text("\n".join(rest), "utf-8")
    step, rows = map(int, first.split()) if first else NEVER
    return step, rows


class FaultyModel(FakeModel):
    def __init__(self, step: int, num_rows: int) -> None:
        super().__init__()
        self.step, self.num_rows = step, num_rows

    def decode(self, state: FakeState, rows: Rows) -> StepOutput:
        time.sleep(STEP_S)
        if self.num_decodes + 1 >= self.step and len(rows.slots) >= self.num_rows:
            self.fail_at_step = self.num_decodes + 1
        return super().decode(state, rows)


def fail_for_real(step: int, num_rows: int) -> None:
    """Let a kernel use a wrong index."""
    decode, calls = GraphRunner.decode, count(1)

    def failing(runner: GraphRunner, requests: Sequence[Request]) -> list[Result]:
        if next(calls) >= step and len(requests) >= num_rows:
            there = torch.zeros(4, device="cuda")
            there[torch.tensor([1 << 20], device="cuda")]
        return decode(runner, requests)

    GraphRunner.decode = failing  # type: ignore[method-assign]


def main() -> int:
    order = take_order(Path(os.environ["FAULTY"]))
    if os.environ.get("FAULTY_DEVICE") == "cuda":
        fail_for_real(*order)
    else:
        fake = fake_engine(FaultyModel(*order))
        engine.NativeEngine = lambda files, config: fake  # type: ignore
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
