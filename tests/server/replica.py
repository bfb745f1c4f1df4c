"""voxcli with the fake model, which steps only as far as it is let, for tests of replicas.

    GATES=folder python tests/server/replica.py serve

A file `start` in the folder holds processes at their start; a file `steps` holds those that have
decoded as many times as it says. The fake passes for the bundled voice.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from fakes import FakeModel, fake_engine

from voxcli import cli
from voxcli.config import EngineConfig
from voxcli.engine.native import engine
from voxcli.engine.native.matching import fingerprint
from voxcli.hub.files import ModelFiles

STEP_S = 0.002


def gate(name: str) -> Path:
    return Path(os.environ["GATES"]) / name


class HeldModel(FakeModel):
    def decode(self, *given: Any) -> Any:
        time.sleep(STEP_S)
        with suppress(FileNotFoundError):
            while self.num_decodes >= int(gate("steps").read_text("ascii")):
                time.sleep(STEP_S)
        return super().decode(*given)


def open_fake(files: ModelFiles, config: EngineConfig) -> Any:
    fake = fake_engine(HeldModel(), max_slots=config.max_slots)
    fake.files, fake.loaded_files = files, fingerprint(files)
    return fake


def main() -> int:
    while gate("start").exists():
        time.sleep(STEP_S)
    engine.NativeEngine = open_fake  # type: ignore
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
