"""A running server as an engine, and an engine of our own in its place once it is gone.

A command that found a server need not fail with it: what has not begun to leave is spoken here.
What has left cannot be taken back, so a speech that is cut in its middle is an error. Many speeches
side by side (`session`) are left to their caller, who knows which of them to speak again.

Knows neither of the two engines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TypeVar

from voxcli.engine.base import (
    EngineFacts,
    Setup,
    SpeechEngine,
    SpeechSession,
    SpeechStream,
)
from voxcli.errors import EngineFaultError
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.utterance import AudioChunk, Recording, Use, Utterance, VoiceEncoding

T = TypeVar("T")


class StandInEngine(SpeechEngine):
    """See the module.

    Args:
        server: who speaks as long as it is there.
        open_own: makes the engine in its place.
        on_note: told that the server is gone.
    """

    def __init__(
        self,
        server: SpeechEngine,
        open_own: Callable[[], SpeechEngine],
        on_note: Callable[[str], None],
    ) -> None:
        self._server = server
        self._engine = server
        self._open_own = open_own
        self._on_note = on_note

    @property
    def facts(self) -> EngineFacts:  # type: ignore[override]
        return self._engine.facts

    @property
    def setup(self) -> Setup:
        return self._engine.setup

    def start(self, wanted: Iterable[Values] = ()) -> None:
        known = list(wanted)
        self._ask(lambda engine: engine.start(known))

    def plan(self, utterance: Utterance) -> Plan:
        return self._ask(lambda engine: engine.plan(utterance))

    def session(self, *, num_reserved: int = 0) -> SpeechSession:
        return self._engine.session(num_reserved=num_reserved)

    def model_checksum(self) -> str:
        return self._ask(lambda engine: engine.model_checksum())

    def encoder_checksum(self) -> str:
        return self._ask(lambda engine: engine.encoder_checksum())

    def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        wanted = tuple(uses)
        return self._ask(lambda engine: engine.encode(recording, wanted))

    def begin(self, plan: Plan, *, takes_integers: bool = False) -> None:
        self._ask(lambda engine: engine.begin(plan, takes_integers=takes_integers))

    def stream(self, utterance: Utterance | Plan, *, is_live: bool = True) -> SpeechStream:
        """See the base; goes on with the other engine where nothing has left."""
        plan = utterance if isinstance(utterance, Plan) else self.plan(utterance)
        self.start([plan.parameters])
        return _Stream(self, plan, is_live=is_live)

    def go_on(self, fault: EngineFaultError) -> SpeechEngine:
        """The engine of our own, which speaks from now on.

        Raises:
            EngineFaultError: it does already, and this fault is its own.
        """
        if self._engine is not self._server:
            raise fault
        self._on_note(f"{fault.message}; this command goes on without it")
        self._server.close()
        self._engine = self._open_own()
        return self._engine

    def _ask(self, question: Callable[[SpeechEngine], T]) -> T:
        try:
            return question(self._engine)
        except EngineFaultError as err:
            return question(self.go_on(err))

    def voice_counts(self) -> dict[str, float]:
        return self._engine.voice_counts()

    def timed_stages(
        self, seconds: dict[str, float], clock: Callable[[], float] = time.perf_counter
    ) -> AbstractContextManager[None]:
        return self._engine.timed_stages(seconds, clock)

    def close(self) -> None:
        """Close whichever speaks; always safe."""
        self._engine.close()


class _Stream(SpeechStream):
    """One speech, begun once more where the server went before any of it had left."""

    def __init__(self, engines: StandInEngine, plan: Plan, *, is_live: bool) -> None:
        self._engines = engines
        self._plan = plan
        self._is_live = is_live
        self._has_left = False
        try:
            super().__init__(engines.session(), plan, is_live=is_live)
        except EngineFaultError as err:
            self._begin_again(err)

    def __next__(self) -> AudioChunk:
        try:
            chunk = super().__next__()
        except EngineFaultError as err:
            if self._has_left:
                raise
            self._begin_again(err)
            chunk = super().__next__()
        self._has_left = True
        return chunk

    def _begin_again(self, fault: EngineFaultError) -> None:
        own = self._engines.go_on(fault)
        own.start([self._plan.parameters])
        super().__init__(own.session(), self._plan, is_live=self._is_live)
