"""`NativeSession`: speeches side by side on one engine core. Knows no text and no file."""

from __future__ import annotations

import logging
from collections.abc import Callable

from voxcli.engine.base import Event, Speech, SpeechSession
from voxcli.engine.native.core import EngineCore, Output
from voxcli.engine.native.request import Request
from voxcli.engine.native.speech import SegmentedSpeech
from voxcli.errors import EngineError, VoxError
from voxcli.plan import Plan

logger = logging.getLogger(__name__)


class NativeSession(SpeechSession):
    """See `SpeechSession` for the contract of each method.

    A request has one owner from the moment it is submitted until it ends, is tried again or is
    dropped, and `_owners` alone says who that is. Sessions of one core step it in turn: what a step
    made for another session waits for that one.

    Args:
        core: to step; sessions alone may step it meanwhile.
        start: a plan to a speech; keyword `is_live`.
        routes: whose a request is, shared by the sessions of a core.
        num_reserved: slots that only the first request of a speech may take.
    """

    def __init__(
        self,
        core: EngineCore,
        start: Callable[..., SegmentedSpeech],
        routes: Routes,
        *,
        num_reserved: int = 0,
    ) -> None:
        self._core = core
        self._start = start
        self._speeches: list[SegmentedSpeech] = []
        self._owners: dict[Request, SegmentedSpeech] = {}
        self._routes = routes
        self._arrived: list[Output] = []  # made by a step of another session
        self._num_reserved = num_reserved
        self._paused: set[Speech] = set()

    @property
    def is_idle(self) -> bool:
        return not self._speeches

    @property
    def has_work(self) -> bool:
        return bool(self._owners) or len(self._speeches) > len(self._paused)

    def add(self, plan: Plan, *, is_live: bool = True) -> Speech:
        """Let a plan join; its first request is submitted by the next step.

        Raises:
            UsageError: no graph was captured for its parameters, it may not be as long as the
                model's shortest, or its recordings were encoded for another model.
        """
        speech = self._start(plan, is_live=is_live)
        self._speeches.append(speech)
        return speech

    def pause(self, speech: Speech) -> None:
        if speech in self._speeches:
            self._paused.add(speech)

    def resume(self, speech: Speech) -> None:
        self._paused.discard(speech)

    def leave(self, speech: Speech) -> None:
        if speech in self._speeches:
            self._drop(speech)

    def step(self) -> list[Event]:
        events = self._submit()
        for output in self._core.step():
            if session := self._routes.get(output.request):
                session._arrived.append(output)
        arrived, self._arrived = self._arrived, []
        for output in arrived:
            speech = self._owners.get(output.request)
            if speech is None or speech.is_done:  # it failed, tries again already, or was cut
                continue
            try:
                self._take(speech, output)
                events += [(speech, chunk) for chunk in speech.ready_chunks()]
            except Exception as err:
                self._drop(speech)
                events.append((speech, _failure(err)))
        for speech in [speech for speech in self._speeches if speech.is_done]:
            self._drop(speech)  # one that was cut has requests in flight
        return events

    def _take(self, speech: SegmentedSpeech, output: Output) -> None:
        """Hand a speech what was made of its request; it may want to try again."""
        again = speech.accept(output.request, output.samples, output.finish_reason)
        if again is not None or output.finish_reason is not None:
            self._disown(output.request)
        if again is not None:
            self._submit_one(again, speech)

    def _submit(self) -> list[Event]:
        """Keep the core's slots busy; who has the fewest is next. Returns refusals."""
        refused: list[Event] = []
        scheduler = self._core.scheduler
        num_free = scheduler.num_free_slots - len(scheduler.waiting)
        hopeful = [speech for speech in self._speeches if speech not in self._paused]
        while hopeful and num_free > 0:
            speech = min(hopeful, key=lambda speech: len(speech.requests))  # the earliest of equals
            if speech.requests and num_free <= self._num_reserved:
                break
            try:
                request = speech.next_request()
                if request is None:
                    hopeful.remove(speech)
                    continue
                self._submit_one(request, speech)
                num_free -= 1
            except Exception as err:
                hopeful.remove(speech)
                self._drop(speech)
                refused.append((speech, _failure(err)))
        return refused

    def _submit_one(self, request: Request, speech: SegmentedSpeech) -> None:
        self._core.add_request(request)
        self._owners[request] = speech
        self._routes[request] = self

    def _disown(self, request: Request) -> None:
        """The end of a request here: nothing it still makes is taken, and its slot is free."""
        self._owners.pop(request, None)
        self._routes.pop(request, None)
        self._core.abort([request])

    def _drop(self, speech: Speech) -> None:
        for request in [request for request, owner in self._owners.items() if owner is speech]:
            self._disown(request)
        self._forget(speech)

    def _forget(self, speech: Speech) -> None:
        self._speeches = [each for each in self._speeches if each is not speech]
        self._paused.discard(speech)

    def close(self) -> None:
        for request in list(self._owners):
            self._disown(request)
        self._arrived.clear()
        self._speeches.clear()
        self._paused.clear()


def _failure(error: Exception) -> VoxError:
    """What ends one speech. A bug that a text brings out is the end of that text alone: a fault of
    the device is met by the next step of all again."""
    if isinstance(error, VoxError):
        return error
    logger.error("a speech failed", exc_info=error)
    return EngineError(f"the engine failed: {type(error).__name__}: {error}")


Routes = dict[Request, NativeSession]
