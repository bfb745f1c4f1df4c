"""`FleetEngine`: servers that speak the same, as one engine.

Some of them may be down, as long as one is up; one that comes back is used again, if it still
speaks the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar
from weakref import WeakSet

from voxcli.engine.base import EngineFacts, Setup, SpeechEngine, Wanted
from voxcli.engine.fleet.dispatcher import Server, ServerState, room_of
from voxcli.engine.fleet.member import Member
from voxcli.engine.fleet.session import HOPE_S, FleetSession
from voxcli.engine.news import NewsEngine
from voxcli.errors import (
    BusyError,
    EngineError,
    EngineFaultError,
    UnavailableError,
    UsageError,
)
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.utterance import Recording, Use, Utterance, VoiceEncoding

logger = logging.getLogger(__name__)

ASK_AGAIN_S = 0.5  # where no server answers

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
        known = [member.engine for member in members if member.engine is not None]
        assert known, "a fleet needs a server that answers"
        first = known[0]
        self._expected = first.facts
        self._checksum = first.model_checksum()
        self._name = f"{len(members)} servers" if len(members) > 1 else first.facts.name

    @property
    def facts(self) -> EngineFacts:  # type: ignore[override]
        """What all have; as many streams as the servers take now, and some that wait."""
        room = room_of(member.server for member in self._members)
        return replace(self._expected, name=self._name, max_streams=max(1, room))

    @property
    def setup(self) -> Setup:
        return replace(self._any(lambda engine: engine.setup), device=self._name)

    def start(self, wanted: Iterable[Values] = ()) -> None:
        """See the base; a server that is down is asked again when it comes back."""
        known = tuple(wanted)
        for member in self._up():
            try:
                member.connect().start(known)
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
        return self._any(lambda engine: engine.encode(recording, wanted))

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
        for session in tuple(self._sessions):
            session.close()
        for member in self._members:
            member.close()

    def _up(self) -> list[Member]:
        """Members that may be asked, those that are in no doubt first."""
        known = [each for each in self._members if each.engine and not each.server.retired]
        return sorted(known, key=lambda each: each.server.state is not ServerState.UP)

    def _any(self, question: Callable[[NewsEngine], T]) -> T:
        """What the first one answers that does; waits for one as long as there is hope.

        Raises:
            UnavailableError: none does.
        """
        give_up_s = time.monotonic() + HOPE_S
        last: EngineError | None = None
        while True:
            for member in self._up():
                try:
                    engine = member.connect()
                    if member.server.state is not ServerState.UP and not engine.is_up():
                        continue  # it may be silent, and a question waits for long
                    return question(engine)
                except (EngineFaultError, BusyError) as err:
                    self._doubt(member, err)
                    last = err
            if time.monotonic() > give_up_s:
                raise UnavailableError(
                    f"{self._name}: none answers", hint="start them again"
                ) from last
            time.sleep(ASK_AGAIN_S)

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
