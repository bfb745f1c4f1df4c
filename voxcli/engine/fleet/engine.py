"""`FleetEngine`: servers that speak the same, as one engine.

Some of them may be down, as long as one is up; one that comes back is used again, if it still
speaks the same.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar
from weakref import WeakSet

from voxcli.engine.base import EngineFacts, Setup, SpeechEngine, Wanted
from voxcli.engine.fleet.dispatcher import Server, ServerState, room_of
from voxcli.engine.fleet.member import Member, beside
from voxcli.engine.fleet.session import HOPE_S, FleetSession
from voxcli.engine.news import NewsEngine
from voxcli.errors import (
    BusyError,
    EngineError,
    EngineFaultError,
    UnavailableError,
    UsageError,
    VoxError,
)
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.utterance import Recording, Use, Utterance, VoiceEncoding

logger = logging.getLogger(__name__)

ASK_AGAIN_S = 0.5  # where no server answers
ANSWER_S = 2.0  # that a server has for a question, until another is asked too
ENCODE_S = 30.0  # the same for a recording to be encoded

T = TypeVar("T")


class FleetEngine(SpeechEngine):
    """See `SpeechEngine` for the contract of each method.

    Args:
        members: at least one of which has answered, all that have speak the same.
        is_endless: it serves whoever comes, see `Dispatcher`.
    """

    def __init__(self, members: Sequence[Member], *, is_endless: bool = False) -> None:
        self._members = members
        self._is_endless = is_endless
        self._sessions: WeakSet[FleetSession] = WeakSet()
        known = [each for each in members if each.server.state is ServerState.UP]
        assert known, "a fleet needs a server that answers"
        self._expected = known[0].connect().facts
        self._checksum = known[0].checksum
        self._is_closed = False

    @property
    def _name(self) -> str:
        """What messages call it: how many there are, and how many of them speak."""
        if len(self._members) == 1:
            return self._expected.name
        servers = [member.server for member in self._members]
        num_down = sum(each.state is ServerState.DOWN or bool(each.retired) for each in servers)
        num_up = f"{len(servers) - num_down} of " if num_down else ""
        return f"{num_up}{len(servers)} servers"

    @property
    def facts(self) -> EngineFacts:  # type: ignore[override]
        """What all have; as many streams as the servers take now, and some that wait."""
        room = room_of(member.server for member in self._members)
        return replace(self._expected, name=self._name, max_streams=max(1, room))

    @property
    def setup(self) -> Setup:
        return replace(self._any(lambda engine: engine.setup), device=self._name)

    def start(self, wanted: Iterable[Values] = ()) -> None:
        """See the base; a server that is down is asked when it comes back."""
        known = tuple(wanted)
        for member in self._members:
            try:
                member.start(known)
            except EngineFaultError as err:
                self._doubt(member, err)

    def plan(self, utterance: Utterance) -> Plan:
        return self._any(lambda engine: engine.plan(utterance))

    def session(self, *, num_reserved: int = 0) -> FleetSession:
        """See the base; places are the servers' to give."""
        session = FleetSession(
            self._members, self._expected, self._checksum, is_endless=self._is_endless
        )
        self._sessions.add(session)
        return session

    def model_checksum(self) -> str:
        return self._checksum

    def encoder_checksum(self) -> str:
        return self._any(lambda engine: engine.encoder_checksum())

    def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        if not self.facts.can_encode:
            raise UsageError(f"{self._name} encode no voices", hint="use --engine native")
        wanted = tuple(uses)
        return self._any(lambda engine: engine.encode(recording, wanted), ENCODE_S)

    def mismatch(self, wanted: Wanted) -> str | None:
        """See the base; one that fits is enough, as they speak the same.

        Raises:
            UnavailableError: none answers.
        """
        reasons: list[str] = []
        for member in self._up():
            try:
                why = member.connect().mismatch(wanted)
            except (EngineFaultError, BusyError) as err:
                self._doubt(member, err)
                continue
            if why is None:
                return None
            reasons.append(why)
        if not reasons:
            raise UnavailableError(f"{self._name}: none answers", hint="try again in a moment")
        return reasons[0]

    def ask_again(self, name: str) -> None:
        """A server may be up again; from any thread."""
        for member in self._members:
            if member.server.name == name:
                for session in tuple(self._sessions):
                    session.ask_again(member.server)

    def num_in_flight(self) -> dict[str, int]:
        """What each server speaks now, by its name."""
        return {member.server.name: len(member.server.rows) for member in self._members}

    def server_counts(self) -> dict[str, dict[str, float | str]]:
        """See the base; in the order in which the servers were given."""
        return {member.server.name: _account(member.server) for member in self._members}

    def close(self) -> None:
        self._is_closed = True
        for session in tuple(self._sessions):
            session.close()
        for member in self._members:
            member.close()

    def _up(self) -> list[Member]:
        """Members that may be asked, those that are in no doubt first."""
        known = [each for each in self._members if each.engine and not each.server.retired]
        return sorted(known, key=lambda each: each.server.state is not ServerState.UP)

    def _any(self, question: Callable[[NewsEngine], T], patience_s: float | None = None) -> T:
        """The first answer. One that is silent is doubted, and the next is asked beside it; waits
        for one to come back as long as there is hope.

        Args:
            patience_s: with one that is silent; None means `ANSWER_S`.

        Raises:
            UnavailableError: none answers.
        """
        patience_s = ANSWER_S if patience_s is None else patience_s
        give_up_s = time.monotonic() + HOPE_S
        last: VoxError | None = None
        answers: queue.SimpleQueue[tuple[Member, Future[T]]] = queue.SimpleQueue()
        pending: set[Member] = set()
        failed: set[Member] = set()
        while not self._is_closed and (pending or time.monotonic() < give_up_s):
            others = [each for each in self._up() if each not in pending | failed]
            if others:
                self._put(question, others[0], answers)
                pending.add(others[0])
            try:
                member, answer = answers.get(timeout=patience_s if pending else ASK_AGAIN_S)
            except queue.Empty:
                for member in pending:
                    self._doubt(member, UnavailableError(f"silent for {patience_s:g} s"))
                failed.clear()
                continue
            pending.discard(member)
            try:
                return answer.result()
            except (EngineFaultError, BusyError) as err:
                self._doubt(member, err)
                failed.add(member)
                last = err
        raise UnavailableError(f"{self._name}: none answers", hint="start them again") from last

    def _put(
        self,
        question: Callable[[NewsEngine], T],
        member: Member,
        answers: queue.SimpleQueue[tuple[Member, Future[T]]],
    ) -> None:
        """Put a question to a member, beside the caller."""
        engine, is_doubted = member.connect(), member.server.state is not ServerState.UP

        def ask() -> T:
            if is_doubted and not engine.is_up():  # it may be silent, and a question waits for long
                raise UnavailableError(f"{member.server.name} does not answer")
            return question(engine)

        beside(ask).add_done_callback(lambda answer: answers.put((member, answer)))

    def _doubt(self, member: Member, error: EngineError) -> None:
        logger.info("%s: %s", member.server.name, error)
        if isinstance(error, EngineFaultError) and member.server.state is ServerState.UP:
            member.server.state = ServerState.DOUBTED


def _account(server: Server) -> dict[str, float | str]:
    found: dict[str, float | str] = {
        "rows": server.num_rows,
        "audio_s": round(server.audio_s, 3),
        "failed_tries": server.num_failed,
        "refusals": server.num_refused,
        "times_down": server.num_down,
        "moved_away": server.num_moved,
        "rows_at_once": server.cap.now,
    }
    return found | ({"retired": server.retired} if server.retired else {})
