"""`NativeSession`: speeches side by side on one engine core. Knows no text and no file."""

from __future__ import annotations

from collections.abc import Callable

from voxcli.engine.base import Event
from voxcli.engine.native.core import EngineCore, Output
from voxcli.engine.native.request import Request
from voxcli.engine.native.speech import NativeSpeech
from voxcli.engine.session import SegmentedSession
from voxcli.plan import Plan


class NativeSession(SegmentedSession[Request]):
    """See `SpeechSession` for the contract of each method.

    Sessions of one core step it in turn: what a step made for another session waits for that one.

    Args:
        core: to step; sessions alone may step it meanwhile.
        start: a plan to a speech; keyword `is_live`.
        routes: whose a request is, shared by the sessions of a core.
        num_reserved: slots that only the first request of a speech may take.
    """

    def __init__(
        self,
        core: EngineCore,
        start: Callable[..., NativeSpeech],
        routes: Routes,
        *,
        num_reserved: int = 0,
    ) -> None:
        super().__init__(num_reserved=num_reserved)
        self._core = core
        self._start = start
        self._routes = routes
        self._arrived: list[Output] = []  # made by a step of another session

    def _speech_of(self, plan: Plan, *, is_live: bool) -> NativeSpeech:
        """See the base.

        Raises:
            UsageError: no graph was captured for its parameters, it may not be as long as the
                model's shortest, or its recordings were encoded for another model.
        """
        return self._start(plan, is_live=is_live)

    def step(self) -> list[Event]:
        events = self._submit()
        for output in self._core.step():
            if session := self._routes.get(output.request):
                session._arrived.append(output)
        arrived, self._arrived = self._arrived, []
        for output in arrived:
            events += self._take(output.request, output.samples, output.finish_reason)
        self._drop_done()
        return events

    def _num_free(self) -> int:
        scheduler = self._core.scheduler
        return scheduler.num_free_slots - len(scheduler.waiting)

    def _begin(self, request: Request) -> None:
        self._core.add_request(request)
        self._routes[request] = self

    def _end(self, request: Request) -> None:
        self._routes.pop(request, None)
        self._core.abort([request])

    def close(self) -> None:
        super().close()
        self._arrived.clear()


Routes = dict[Request, NativeSession]
