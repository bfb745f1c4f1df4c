"""Where a run's time goes: the stages of the core's runner, timed one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from voxcli.engine.native.core import EngineCore


@contextmanager
def timed(
    core: EngineCore, stages: Sequence[str], seconds: dict[str, float], clock: Callable[[], float]
) -> Iterator[None]:
    """Add the time of each stage to `seconds` while the block runs; see `NativeEngine`."""
    runner: Any = core.runner

    def measured(name: str) -> Callable[..., Any]:
        stage = getattr(runner, name)

        @wraps(stage)
        def run(*args: Any) -> Any:
            began_s = clock()
            try:
                return stage(*args)
            finally:
                if core.is_on_card:
                    import torch

                    torch.cuda.synchronize(core.device)
                seconds[name] = seconds.get(name, 0.0) + clock() - began_s

        return run

    try:
        for name in stages:
            setattr(runner, name, measured(name))
        with core.vocoding.at_once():
            yield
    finally:
        for name in stages:
            vars(runner).pop(name, None)
