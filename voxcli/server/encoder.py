"""What the model hears in recordings, found while others go on speaking.

Where the engine allows it, as on a CPU, a thread of its own encodes. Else the engine's thread does
it between two steps, because a card's memory and its stream of work have one owner.

One recording at a time; more than `MAX_WAITING` are refused like texts that are too many.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace

from voxcli.engine.base import SpeechEngine
from voxcli.errors import BusyError, UsageError
from voxcli.server.worker import RETRY_AFTER_S, EngineWorker
from voxcli.utterance import Recording, Use, Utterance, VoiceEncoding

MAX_WAITING = 16  # recordings

Work = Callable[[SpeechEngine], VoiceEncoding]


class Encoder:
    """See the module.

    Args:
        worker: who has the engine.

    Attributes:
        num_waiting: recordings that are not done.
    """

    def __init__(self, worker: EngineWorker) -> None:
        self._worker = worker
        self._orders: queue.SimpleQueue[tuple[Future[VoiceEncoding], Work]] = queue.SimpleQueue()
        # a daemon, as the engine's: a long recording keeps no process that is told to end
        self._thread = threading.Thread(target=self._serve, name="encoder", daemon=True)
        self.num_waiting = 0

    async def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        """As `SpeechEngine.encode`.

        Raises:
            UnavailableError: as `EngineWorker.check_ready`.
            UsageError: the engine encodes no voices.
            BusyError: too many recordings wait.
        """
        self._worker.check_ready()
        facts = self._worker.engine.facts
        if not facts.can_encode:
            raise UsageError(f"model '{facts.model}' encodes no recordings")
        if self.num_waiting >= MAX_WAITING:
            raise BusyError(
                f"{self.num_waiting} recordings wait to be encoded",
                hint=f"try again in {RETRY_AFTER_S} s",
            )
        wanted = tuple(uses)
        self.num_waiting += 1
        try:
            return await self._run(lambda engine: engine.encode(recording, wanted))
        finally:
            self.num_waiting -= 1

    async def encode_all(self, utterance: Utterance) -> Utterance:
        """The utterance with its recordings as the model hears them, so that none is encoded while
        others wait for the next step; errors as `encode`."""
        if not self._worker.engine.facts.can_encode:
            return utterance
        return replace(
            utterance,
            reference=await self._heard(utterance.reference, Use.REFERENCE),
            prompt=await self._heard(utterance.prompt, Use.PROMPT),
        )

    async def _heard(self, recording: Recording | None, use: Use) -> Recording | None:
        if recording is None or recording.encoding is not None:
            return recording
        return replace(recording, encoding=await self.encode(recording, (use,)))

    async def _run(self, work: Work) -> VoiceEncoding:
        if not self._worker.engine.facts.can_encode_beside:
            return await asyncio.wrap_future(self._worker.call(work))
        if not self._thread.ident:
            self._thread.start()
        future: Future[VoiceEncoding] = Future()
        self._orders.put((future, work))
        return await asyncio.wrap_future(future)

    def _serve(self) -> None:
        while True:
            future, work = self._orders.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work(self._worker.engine))
            except Exception as err:
                future.set_exception(err)
