"""A coroutine that is cancelled where it waits for the n-th time, for every n.

for step in count():
    if not await is_cancelled_at(step, speak()):
        break                                  # it waits no more often
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class _AtStep:
    def __init__(self, step: int, work: Coroutine[Any, Any, Any]) -> None:
        self.num_left = step
        self._work = work

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        steps, error = self._work.__await__(), None
        while True:
            try:
                waited_for = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            if self.num_left == 0:
                asyncio.get_running_loop().call_soon(task.cancel)
            self.num_left -= 1
            error = None
            try:
                yield waited_for
            except BaseException as err:
                error = err


async def is_cancelled_at(step: int, work: Coroutine[Any, Any, Any]) -> bool:
    """Whether it waits so often; raises what it raises unless it was cancelled there.

    Args:
        step: counted from 0; what it waits for in tasks of its own is not counted.
    """
    at_step = _AtStep(step, work)

    async def done() -> None:
        await at_step

    task = asyncio.create_task(done())
    await asyncio.wait((task,))
    if at_step.num_left >= 0:
        task.result()
        return False
    if not task.cancelled():
        task.exception()
    return True
