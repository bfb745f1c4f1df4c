"""`RemoteEngine`: a running `voxcli serve` as an engine.

The server plans too, so nothing that prepares text is imported here. A server that dies in the
middle is an `UnavailableError`.
"""

from __future__ import annotations

import http.client
import logging
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakSet

from voxcli.engine.base import (
    EngineFacts,
    Event,
    Setup,
    Speech,
    Wanted,
)
from voxcli.engine.news import NewsEngine, NewsSession
from voxcli.engine.remote import wire
from voxcli.engine.remote.transport import ANSWER_S, Asked, Server, check, send
from voxcli.errors import UnavailableError, UsageError, VoxError
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.utterance import (
    AudioChunk,
    Mode,
    Pcm,
    PcmChunk,
    Recording,
    Use,
    Utterance,
    VoiceEncoding,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Between two messages of a speech that is paused: what is not read makes the server pause it too,
# and what is shows the server that its client lives.
TRICKLE_S = 4.0


class _Call:
    """One speech's own connection; it is asked for by `send`, or by whoever reads it first."""

    def __init__(
        self, server: Server, facts: EngineFacts, plan: Plan, *, is_live: bool,
        takes_integers: bool = False,
    ) -> None:  # fmt: skip
        now_s = time.perf_counter()
        self.speech = Speech(plan, facts.sample_rate, is_live=is_live, started_s=now_s)
        self._takes_integers = takes_integers
        self._server = server
        sampling = replace(plan.utterance.sampling, seed=plan.seed, parameters=plan.parameters)
        said = _without_samples(_in_unicode(plan.utterance))
        settled = replace(said, sampling=sampling)
        order = wire.SpeechOrder(settled, is_live, takes_integers)
        self.asked = Asked(server, wire.PATH_SPEECH, wire.pack(order))
        self.close = self.asked.close
        self.may_read = threading.Event()
        self.may_read.set()

    def send(self) -> None:
        """Ask for it already.

        Raises:
            UnavailableError: the server is gone.
        """
        with self._server.explained():
            self.asked.send()

    def hang_up(self) -> None:
        """End it for the thread that reads; always safe, from any thread."""
        self.asked.hang_up()
        self.may_read.set()

    def messages(self) -> Iterator[wire.Chunk]:
        """What the server sends, as it comes, to the end.

        Raises:
            VoxError: what ended it.
        """
        try:
            with self._server.explained(), self.asked:
                width = 2 if self._takes_integers else 4
                for message in self.asked.messages(wire.Chunk):
                    if len(message.samples) % width:
                        raise ValueError("half a sample")
                    yield message
                    if message.is_last:
                        return
        except UnavailableError as err:
            if err.had_begun is None and self.asked.is_taken:
                err.had_begun = True
            raise

    def take(self, message: wire.Chunk, now_s: float) -> AudioChunk:
        """A chunk from what came, which is counted."""
        chunk = self._chunk(message)
        speech = self.speech
        speech.wall_s = now_s - speech.started_s
        if speech.ttfa_s is None and len(chunk.samples):
            speech.ttfa_s = speech.wall_s
        speech.num_samples += len(chunk.samples)
        if chunk.is_last:
            speech.reports = message.reports
            if not speech.is_live:  # the server held the samples, and knows when the first came
                speech.ttfa_s = message.ttfa_s
            speech.is_done = True
        return chunk

    def _chunk(self, message: wire.Chunk) -> AudioChunk:
        rate, segment, is_last = self.speech.sample_rate, message.segment, message.is_last
        if self._takes_integers:
            return PcmChunk(Pcm(message.samples), rate, segment, is_last)
        import numpy as np

        samples = np.frombuffer(message.samples, "<f4").astype(np.float32, copy=False)
        return AudioChunk(samples, rate, segment, is_last)


class RemoteSession(NewsSession):
    """Speeches side by side on the server, each on a connection of its own."""

    def __init__(self, engine: RemoteEngine) -> None:
        super().__init__()
        self._engine = engine
        self._calls: dict[Speech, _Call] = {}
        self._news: queue.SimpleQueue[tuple[_Call, wire.Chunk | VoxError, float]]
        self._news = queue.SimpleQueue()

    @property
    def is_idle(self) -> bool:
        return not self._calls

    @property
    def has_work(self) -> bool:
        return not self.is_idle

    def add(self, plan: Plan, *, is_live: bool = True) -> Speech:
        """See the base; what the server refuses, or that it is gone, comes as an event of the
        speech: a server that takes no connection is waited for in the thread that reads."""
        call = self._engine.call(plan, is_live=is_live)
        self._calls[call.speech] = call
        threading.Thread(target=self._read, args=(call,), daemon=True).start()
        return call.speech

    def _read(self, call: _Call) -> None:
        try:
            for message in call.messages():
                self._tell(call, message)
                call.may_read.wait(TRICKLE_S)
        except VoxError as err:
            self._tell(call, err)
        except Exception as err:  # a bug: said in the log, and nobody waits for ever
            logger.exception("reading from the server failed")
            self._tell(call, UnavailableError(f"what the server sent cannot be read: {err}"))

    def _tell(self, call: _Call, news: wire.Chunk | VoxError) -> None:
        self._news.put((call, news, time.perf_counter()))
        self.bell.set()

    def poll(self) -> list[Event]:
        events: list[Event] = []
        while not self._news.empty():
            call, news, at_s = self._news.get()
            if call.speech not in self._calls:  # it left
                continue
            event = news if isinstance(news, VoxError) else call.take(news, at_s)
            if isinstance(event, VoxError) or event.is_last:
                del self._calls[call.speech]
            events.append((call.speech, event))
        return events

    def is_waiting(self, speech: Speech) -> bool:
        return speech in self._calls and not self._calls[speech].asked.has_room

    def leave(self, speech: Speech) -> None:
        call = self._calls.pop(speech, None)
        if call is not None:
            call.hang_up()

    def pause(self, speech: Speech) -> None:
        """See the base; what is read no more is soon made no more."""
        if speech in self._calls:
            self._calls[speech].may_read.clear()

    def resume(self, speech: Speech) -> None:
        if speech in self._calls:
            self._calls[speech].may_read.set()

    def close(self) -> None:
        for speech in tuple(self._calls):
            self.leave(speech)
        self.bell.set()  # who waits for news waits for nothing more


class RemoteEngine(NewsEngine):
    """A server that speaks what was wanted, found by `find.connect_here` or `connect_to`.

    Args:
        facts, setup: as the server states them.
    """

    def __init__(self, server: Server, wanted: Wanted, facts: EngineFacts, setup: Setup) -> None:
        self.facts = facts
        self._setup = replace(setup, warning=None)  # its starter was warned
        self._server = server
        self._wanted = wanted
        self._known = list(wanted.parameters)  # that it has graphs for, if it needs any
        self._checksums: dict[bool, str] = {}
        self._begun: _Call | None = None
        self._sessions: WeakSet[RemoteSession] = WeakSet()

    @property
    def setup(self) -> Setup:
        return self._setup

    def start(self, wanted: Iterable[Values] = ()) -> None:
        """See the base; asks only a server whose engine has graphs."""
        new = tuple(values for values in wanted if values not in self._known)
        if not new or self._setup.num_captures == 0:
            return
        question = wire.Question(replace(self._wanted, parameters=new))
        found = self._asked(wire.PATH_MATCH, question, wire.Match)
        if found.mismatch is not None:
            hint = "start it with 'voxcli serve --graphs …', or use --engine native"
            raise UsageError(f"{self._server.name} cannot be used: {found.mismatch}", hint=hint)
        self._known += new

    def plan(self, utterance: Utterance) -> Plan:
        """See the base."""
        order = wire.PlanOrder(_in_unicode(utterance))
        found = self._asked(wire.PATH_PLAN, order, wire.Planned)
        utterance = _in_mode(utterance, found.mode)
        return Plan(utterance, found.text, found.seed, found.parameters, found.prompt_text)

    def session(self, *, num_reserved: int = 0) -> RemoteSession:
        """See the base; places are the server's to give, to all its clients alike."""
        session = RemoteSession(self)
        self._sessions.add(session)
        return session

    def is_up(self) -> bool:
        try:
            return ask_who(self._server, self._wanted).mismatch is None
        except (OSError, http.client.HTTPException, ValueError, VoxError):
            return False

    def mismatch(self, wanted: Wanted) -> str | None:
        """See the base; the server itself says.

        Raises:
            UnavailableError: it is gone.
        """
        with self._server.explained():
            return ask_who(self._server, wanted).mismatch

    def model_checksum(self) -> str:
        return self._checksum(of_encoder=False)

    def encoder_checksum(self) -> str:
        return self._checksum(of_encoder=True)

    def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        """See the base."""
        if not self.facts.can_encode:
            raise UsageError(f"{self._server.name} encodes no voices", hint="use --engine native")
        order = wire.EncodeOrder(replace(recording, encoding=None), tuple(uses))
        return self._asked(wire.PATH_ENCODE, order, VoiceEncoding)

    def begin(self, plan: Plan, *, takes_integers: bool = False) -> None:
        """Ask for the speech already; the next session that is given this plan takes it up.

        Args:
            takes_integers: its chunks are `PcmChunk`s: numpy, which takes longer to import than a
                server to speak, is not needed.
        """
        self.close()
        self._begun = _Call(
            self._server, self.facts, plan, is_live=True, takes_integers=takes_integers
        )
        self._begun.send()

    def call(self, plan: Plan, *, is_live: bool) -> _Call:
        """Ask for a speech, unless it was begun."""
        begun, self._begun = self._begun, None
        if begun is not None:
            if is_live and begun.speech.plan is plan:
                return begun
            begun.close()
        return _Call(self._server, self.facts, plan, is_live=is_live)

    def close(self) -> None:
        """Give up what was begun and not taken up, and end every session; always safe."""
        for session in tuple(self._sessions):
            session.close()
        if self._begun is not None:
            self._begun.close()
            self._begun = None

    def _checksum(self, *, of_encoder: bool) -> str:
        if of_encoder not in self._checksums:
            order = wire.ChecksumOrder(of_encoder)
            self._checksums[of_encoder] = self._asked(wire.PATH_CHECKSUM, order, str)
        return self._checksums[of_encoder]

    def _asked(self, path: str, message: object, kind: type[T]) -> T:
        with self._server.explained(), self._server.ask(path, message) as asked:
            return next(asked.messages(kind))


def ask_who(server: Server, wanted: Wanted) -> wire.Match:
    """Ask a server what it is, and whether it serves what is wanted; within a few seconds.

    Raises:
        OSError, http.client.HTTPException, ValueError, VoxError: nobody answers, or another
            program does.
    """
    body = wire.pack(wire.Question(wanted))
    sent = send(server.target, wire.PATH_MATCH, body, server.api_key, ANSWER_S)
    with sent, sent.ended_after(ANSWER_S):
        answer = sent.answer()
        check(answer, server.name)
        try:
            return wire.read_next(wire.Match, answer)
        except EOFError as err:
            raise http.client.IncompleteRead(b"") from err


def _in_unicode(utterance: Utterance) -> Utterance:
    """The utterance without bytes of an argument that were no UTF-8, which Python keeps as halves
    of characters and no message can hold."""

    def clean(text: str) -> str:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    names = ("text", "style", "language", "voice", "id")
    given = {name: value for name in names if (value := getattr(utterance, name)) is not None}
    cleaned: dict[str, Any] = {name: clean(value) for name, value in given.items()}
    return replace(utterance, **cleaned)


def _without_samples(utterance: Utterance) -> Utterance:
    """The utterance without samples, which may be megabytes, of what is encoded already."""

    def heard(recording: Recording | None) -> Recording | None:
        if recording is None or recording.encoding is None:
            return recording
        return replace(recording, samples=None)

    return replace(utterance, reference=heard(utterance.reference), prompt=heard(utterance.prompt))


def _in_mode(utterance: Utterance, mode: Mode) -> Utterance:
    """The utterance without a recording that the plan does without."""
    if mode not in (Mode.REFERENCE, Mode.BOTH):
        utterance = replace(utterance, reference=None)
    if mode not in (Mode.CONTINUATION, Mode.BOTH):
        utterance = replace(utterance, prompt=None)
    return utterance
