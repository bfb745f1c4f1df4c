"""Speeches side by side on a fleet: the dispatcher decides, this does it.

A speech that nobody listens to leaves when it is whole, so that a try that fails can be thrown away
and made again elsewhere. One that somebody listens to leaves as it comes; it can be made again as
long as nothing of it has left.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from voxcli.engine.base import EngineFacts, Event, Speech
from voxcli.engine.fleet.dispatcher import Dispatcher, Row, Server, ServerState
from voxcli.engine.fleet.held import Held
from voxcli.engine.fleet.member import ROOM_S, Member
from voxcli.engine.news import NewsSession
from voxcli.errors import BusyError, EngineError, NotServedError, UnavailableError, VoxError
from voxcli.plan import Plan
from voxcli.utterance import AudioChunk

if TYPE_CHECKING:
    from voxcli.utterance import Utterance

logger = logging.getLogger(__name__)

HOPE_S = 120.0  # that none of the servers may be up before everything ends


@dataclass(eq=False)
class _Flight:
    """One speech on its way.

    Attributes:
        speech: as the caller sees it.
        tried: as the server's session sees it; None while it waits.
        held: chunks of the try that may not leave yet.
        failure: what ended the last try that failed.
    """

    speech: Speech
    row: Row
    tried: Speech | None = None
    held: Held = field(default_factory=Held)
    failure: VoxError | None = None

    @property
    def has_left(self) -> bool:
        return self.speech.num_samples > 0


class FleetSession(NewsSession):
    """See the module, and `SpeechSession` for the contract of each method.

    Args:
        members: who may speak.
        facts: that all of them have.
        checksum: of the model that all of them have.
        is_endless: see `Dispatcher`.
    """

    def __init__(
        self, members: Sequence[Member], facts: EngineFacts, checksum: str, *, is_endless: bool
    ) -> None:
        super().__init__()
        self._members = {member.server: member for member in members}
        for member in members:
            member.server.is_being_asked = False  # by a session that is gone
        self._facts = facts
        self._checksum = checksum
        self._dispatcher = Dispatcher([member.server for member in members], is_endless=is_endless)
        self._sessions: dict[Server, NewsSession] = {}
        self._flights: dict[Speech, _Flight] = {}
        self._by_row: dict[Row, _Flight] = {}
        self._by_tried: dict[Speech, _Flight] = {}
        self._answers: queue.SimpleQueue[tuple[Server, str | None]] = queue.SimpleQueue()
        self._is_endless = is_endless
        self._back: queue.SimpleQueue[Server] = queue.SimpleQueue()
        self._to_be_asked: set[Server] = set()
        self._hopeless_since_s: float | None = None
        self._refused: tuple[float, BusyError] | None = None  # since when nothing else was heard

    @property
    def is_idle(self) -> bool:
        return not self._flights

    @property
    def has_work(self) -> bool:
        return not self.is_idle

    def add(self, plan: Plan, *, is_live: bool = True) -> Speech:
        """See the base; it is sent by the next step."""
        now_s = time.perf_counter()
        speech = Speech(plan, self._facts.sample_rate, is_live=is_live, started_s=now_s)
        speech.num_tries = 0
        row = Row(plan.estimated_audio_s, _voice_of(plan.utterance), is_movable=not is_live)
        flight = _Flight(speech, row)
        self._flights[speech] = self._by_row[flight.row] = flight
        self._dispatcher.add(flight.row)
        self.bell.set()
        return speech

    def is_waiting(self, speech: Speech) -> bool:
        return speech in self._flights and self._flights[speech].tried is None

    def leave(self, speech: Speech) -> None:
        flight = self._flights.get(speech)
        if flight is not None:
            self._give_up_try(flight, flight.row.server)
            self._forget(flight)
            self.bell.set()  # its place is free

    def pause(self, speech: Speech) -> None:
        self._set_paused(speech, True)

    def resume(self, speech: Speech) -> None:
        self._set_paused(speech, False)

    def _set_paused(self, speech: Speech, is_paused: bool) -> None:
        flight = self._flights.get(speech)
        if flight is None:
            return
        self._dispatcher.pause(flight.row, is_paused)
        self.bell.set()  # its place is free, or it takes one
        if flight.tried is not None and flight.row.server is not None:
            session = self._sessions[flight.row.server]
            (session.pause if is_paused else session.resume)(flight.tried)

    def ask_again(self, server: Server) -> None:
        """Ask a server that was down at once: it may be up; always safe, from any thread."""
        self._back.put(server)
        self.bell.set()

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        for flight in list(self._flights.values()):
            self._forget(flight)
        self.bell.set()

    # ------------------------------------------------------------ news

    def patience_s(self) -> float | None:
        now_s = time.perf_counter()
        at_s = self._dispatcher.wake_s(now_s)
        if self._hopeless_since_s is not None:
            end_s = self._hopeless_since_s + HOPE_S
            at_s = end_s if at_s is None else min(at_s, end_s)
        return None if at_s is None else max(0.0, at_s - now_s)

    def poll(self) -> list[Event]:
        """See the base.

        Raises:
            EngineError: none of the servers has been up, or has had room, for long.
        """
        events = self._hear_answers()
        for session in self._sessions.values():
            for tried, event in session.poll():
                flight = self._by_tried.get(tried)
                if flight is not None:
                    events += self._take(flight, event)
        for row, server in self._dispatcher.moves(time.perf_counter()):
            self._give_up_try(self._by_row[row], server)
        events += self._send()
        self._hurry()
        for server in self._dispatcher.probes(time.perf_counter()):
            threading.Thread(target=self._ask, args=(server,), daemon=True).start()
        events += self._check_hope()
        return events

    def _hurry(self) -> None:
        """Let servers that may be back wait for no backoff; an answer that is still on its way may
        be older than that, and counts for nothing."""
        while not self._back.empty():
            self._to_be_asked.add(self._back.get())
        for server in [each for each in self._to_be_asked if not each.is_being_asked]:
            self._to_be_asked.discard(server)
            if server.state is not ServerState.UP:
                server.not_before_s = 0.0

    def _ask(self, server: Server) -> None:
        """Whether a server is up; in a thread of its own."""
        why: str | None = ""
        try:
            why = self._members[server].look(self._facts, self._checksum)
        except Exception:  # a bug: said in the log, and the server is asked again
            logger.exception("asking %s failed", server.name)
        self._answers.put((server, why))
        self.bell.set()

    def _hear_answers(self) -> list[Event]:
        events: list[Event] = []
        while not self._answers.empty():
            server, why = self._answers.get()
            if why:
                self._dispatcher.retire(server, why)
                continue
            for given_up in self._dispatcher.probed(server, why is None, time.perf_counter()):
                flight = self._by_row.get(given_up.row)
                if flight is not None:
                    events.append(self._end(flight, _why_given_up(flight, given_up.why)))
        return events

    def _check_room(self, now_s: float) -> None:
        if self.is_idle or self._is_endless:
            self._refused = None
        if self._refused is None or self._by_tried or now_s - self._refused[0] < ROOM_S:
            return
        error = self._refused[1]
        raise EngineError(
            f"no server has had room for {ROOM_S:g} s: {error.message}",
            hint="try it later; a batch goes on with the same command",
        )

    def _check_hope(self) -> list[Event]:
        """Whether there is a server that may speak.

        Returns:
            what will not be spoken, where others may come later.

        Raises:
            EngineError: it is over.
        """
        now_s = time.perf_counter()
        self._check_room(now_s)
        if self._dispatcher.num_up or self.is_idle:
            self._hopeless_since_s = None
            return []
        servers = self._dispatcher.servers
        if self._hopeless_since_s is None:
            self._hopeless_since_s = now_s
        is_over = all(server.retired for server in servers)
        if not is_over and now_s - self._hopeless_since_s < HOPE_S:
            return []
        if self._is_endless and not is_over:
            self._hopeless_since_s = None
            error = EngineError(f"none of {len(servers)} servers has come back")
            return [self._end(flight, error) for flight in list(self._flights.values())]
        why = "; ".join(f"{each.name}: {each.retired or 'it does not answer'}" for each in servers)
        raise EngineError(
            f"no server is left to speak: {why}",
            hint="start one again; a batch goes on with the same command",
        )

    # ------------------------------------------------------------ tries

    def _send(self) -> list[Event]:
        events: list[Event] = []
        for row, server in self._dispatcher.next(time.perf_counter()):
            flight = self._by_row[row]
            flight.speech.num_tries += 1
            try:
                session = self._session_of(server)
                session.limit(server.cap.now)
                flight.tried = session.add(flight.speech.plan, is_live=flight.speech.is_live)
                self._by_tried[flight.tried] = flight
                if row.is_paused:
                    session.pause(flight.tried)
            except VoxError as err:
                events += self._take(flight, err)
        return events

    def _session_of(self, server: Server) -> NewsSession:
        if server not in self._sessions:
            session = self._members[server].connect().session()
            session.bell = self.bell
            self._sessions[server] = session
        return self._sessions[server]

    def _take(self, flight: _Flight, event: AudioChunk | VoxError) -> list[Event]:
        """What came of a try."""
        if isinstance(event, VoxError):
            return self._take_failure(flight, event)
        speech = flight.speech
        self._refused = None
        assert flight.tried is not None
        if speech.ttfa_s is None and flight.tried.ttfa_s is not None:
            speech.ttfa_s = flight.tried.started_s - speech.started_s + flight.tried.ttfa_s
        flight.held.append(event)
        if not (speech.is_live or event.is_last):
            return []
        if event.is_last:
            self._finish(flight)
        chunks = flight.held.take()
        speech.num_samples += sum(len(chunk.samples) for chunk in chunks)
        speech.wall_s = time.perf_counter() - speech.started_s
        return [(speech, chunk) for chunk in chunks]

    def _finish(self, flight: _Flight) -> None:
        speech, tried, server = flight.speech, flight.tried, flight.row.server
        assert tried is not None
        assert server is not None
        audio_s = tried.num_samples / tried.sample_rate
        self._dispatcher.done(flight.row, time.perf_counter(), audio_s)
        speech.reports, speech.made_by, speech.is_done = tried.reports, server.name, True
        self._forget(flight)

    def _take_failure(self, flight: _Flight, error: VoxError) -> list[Event]:
        server, now_s = flight.row.server, time.perf_counter()
        assert server is not None
        flight.failure = error
        if not isinstance(error, BusyError):
            self._refused = None
        elif self._refused is None:
            self._refused = now_s, error
        if isinstance(error, NotServedError) and not flight.has_left:
            self._give_up_try(flight, server)
            self._dispatcher.unwanted(flight.row, now_s)
            return []
        if not isinstance(error, EngineError):  # the row's own
            self._dispatcher.failed(flight.row)
            return [self._end(flight, error)]
        if flight.has_left:
            self._dispatcher.lost(flight.row, now_s)
            lost = EngineError(f"{server.name} failed after the speech began: {error.message}")
            return [self._end(flight, lost)]
        self._give_up_try(flight, server)
        if isinstance(error, BusyError):
            self._dispatcher.busy(flight.row, now_s, error.retry_after_s)
        else:
            had_begun = not isinstance(error, UnavailableError) or error.had_begun
            self._dispatcher.broken(flight.row, now_s, had_begun=had_begun)
        return []

    def _give_up_try(self, flight: _Flight, server: Server | None) -> None:
        """Throw away what a try has made, and hang up on the server that made it."""
        flight.held.clear()
        flight.speech.ttfa_s = None
        tried, flight.tried = flight.tried, None
        if tried is not None:
            self._by_tried.pop(tried, None)
            if server is not None:
                self._sessions[server].leave(tried)

    def _end(self, flight: _Flight, error: VoxError) -> Event:
        self._forget(flight)
        return flight.speech, error

    def _forget(self, flight: _Flight) -> None:
        self._dispatcher.drop(flight.row)
        self._flights.pop(flight.speech, None)
        self._by_row.pop(flight.row, None)
        if not flight.speech.is_done:
            flight.held.clear()
        if flight.tried is not None:
            self._by_tried.pop(flight.tried, None)


def _why_given_up(flight: _Flight, why: str) -> VoxError:
    """The error of a row that is not tried again, with what its last server said."""
    error = flight.failure
    if error is None:
        return EngineError(why)
    if isinstance(error, EngineError):
        return EngineError(f"{why}: {error.message}", hint=error.hint)
    return error


def _voice_of(utterance: Utterance) -> str:
    """What a server may have heard before."""
    recordings = (utterance.reference, utterance.prompt)
    return " ".join(each.key for each in recordings if each is not None)
