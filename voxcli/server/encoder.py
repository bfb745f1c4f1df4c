"""What the model hears in recordings, found while others go on speaking.

On a CPU a thread of its own encodes: the weights are only read. On a card the engine's thread does
it between two steps, because the device's memory and its stream of work have one owner.

One recording at a time; more than `MAX_WAITING` are refused like texts that are too many.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from voxcli.errors import UsageError
from voxcli.server.worker import RETRY_AFTER_S, BusyError, EngineWorker
from voxcli.engine.native.engine import Synthesizer
from voxcli.utterance import Recording, Utterance

if TYPE_CHECKING:
    import numpy as np

MAX_WAITING = 16  # recordings


class Encoder:
    """See the module.

    Args:
        worker: who has the model.

    Attributes:
        num_waiting: recordings that are not done.
    """

    def __init__(self, worker: EngineWorker) -> None:
        self._worker = worker
        self._orders: queue.SimpleQueue[tuple[Future[np.ndarray], Callable[[], np.ndarray]]]
        self._orders = queue.SimpleQueue()
        # a daemon, as the engine's: a long recording keeps no process that is told to end
        self._thread = threading.Thread(target=self._serve, name="encoder", daemon=True)
        self.num_waiting = 0

    async def encode(self, recording: Recording, *, pad_left: bool = False) -> np.ndarray:
        """As `Synthesizer.encode`.

        Raises:
            UnavailableError: as `EngineWorker.check_ready`.
            BusyError: too many recordings wait.
        """
        self._worker.check_ready()
        if self.num_waiting >= MAX_WAITING:
            raise BusyError(
                f"{self.num_waiting} recordings wait to be encoded",
                hint=f"try again in {RETRY_AFTER_S} s",
            )
        self.num_waiting += 1
        try:
            return await self._run(lambda model: model.encode(recording, pad_left=pad_left))
        finally:
            self.num_waiting -= 1

    async def encode_all(self, utterance: Utterance) -> Utterance:
        """The utterance with its recordings as the model hears them.

        Raises:
            UsageError: they were encoded for another model; else as `encode`.
        """
        reference, prompt = utterance.reference, utterance.prompt
        assert self._worker.synthesizer is not None
        shape = self._worker.synthesizer.engine.model.info.patch_shape
        for each in (reference, prompt):
            if each is not None and each.latents is not None and each.latents.shape[1:] != shape:
                raise UsageError("the recording was encoded for another model", hint="encode it")
        if reference is not None and reference.latents is None:
            utterance = replace(
                utterance, reference=replace(reference, latents=await self.encode(reference))
            )
        if prompt is not None and prompt.latents is None:
            heard = await self.encode(prompt, pad_left=True)
            utterance = replace(utterance, prompt=replace(prompt, latents=heard))
        return utterance

    async def _run(self, function: Callable[[Synthesizer], np.ndarray]) -> np.ndarray:
        synthesizer = self._worker.synthesizer
        assert synthesizer is not None
        if synthesizer.setup.device_type != "cpu":
            return await asyncio.wrap_future(self._worker.call(function))
        if not self._thread.ident:
            self._thread.start()
        future: Future[np.ndarray] = Future()
        self._orders.put((future, lambda: function(synthesizer)))
        return await asyncio.wrap_future(future)

    def _serve(self) -> None:
        from voxcli.engine.native.device import set_threads

        assert self._worker.synthesizer is not None
        # as many as an engine of one's own has: the number shows in the last bits
        set_threads(self._worker.synthesizer.setup.threads)
        while True:
            future, function = self._orders.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except Exception as err:
                future.set_exception(err)
