"""Where a run's time goes: the stages of the engine's runner, timed one by one.

Only for the one run outside the statistics: on a GPU each stage is followed by a synchronisation,
and on a CPU the vocoder is waited for, which costs the overlap that a real run has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from voxcli.engine.native.engine import Synthesizer

STAGES = ("prefill", "decode", "vocode")


@contextmanager
def timed_stages(
    synthesizer: Synthesizer, seconds: dict[str, float], clock: Callable[[], float]
) -> Iterator[None]:
    """Add the time of each stage of the engine's runner to `seconds` while the block runs."""
    runner: Any = synthesizer.engine.runner

    def timed(name: str) -> Callable[..., Any]:
        stage = getattr(runner, name)

        @wraps(stage)
        def run(*args: Any) -> Any:
            began_s = clock()
            try:
                return stage(*args)
            finally:
                synchronize(synthesizer)
                seconds[name] += clock() - began_s

        return run

    try:
        for name in STAGES:
            setattr(runner, name, timed(name))
        with synthesizer.engine.vocoding.at_once():
            yield
    finally:
        for name in STAGES:
            vars(runner).pop(name, None)


def synchronize(synthesizer: Synthesizer) -> None:
    """Wait until the device has done what it was given."""
    if synthesizer.setup.device_type.startswith("cuda"):
        import torch

        torch.cuda.synchronize(synthesizer.setup.device_type)
