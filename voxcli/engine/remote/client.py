"""A running server in the place of a `Synthesizer`: the same calls, another process's engine.

The server plans too, so nothing that prepares text is imported here. A server that dies in the
middle is an `UnavailableError`.
"""

from __future__ import annotations

import http.client
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from voxcli.closing import Closing
from voxcli.errors import EngineFaultError, VoxError
from voxcli.engine.remote import wire
from voxcli.engine.remote.speech import RemotePlan, RemoteSpeech
from voxcli.engine.remote.transport import Explained, Target, ask, refusal
from voxcli.engine.base import Setup
from voxcli.text.changes import Change
from voxcli.text.prepared import PreparedText, Segment, Unspeakable
from voxcli.utterance import AudioChunk, PcmChunk, Result, Utterance

if TYPE_CHECKING:
    import numpy as np


class _Answer(Closing):
    """The frames of one utterance; closing it early frees what it holds in the server."""

    is_pcm = False

    def __init__(self, server: RemoteSynthesizer, plan: RemotePlan, *, is_live: bool) -> None:
        self.speech = RemoteSpeech(plan, is_live=is_live)
        self._server = server
        sampling = replace(plan.utterance.sampling, seed=plan.seed, steps=plan.steps, cfg=plan.cfg)
        settled = replace(plan.utterance, sampling=sampling)
        self._body = wire.utterance_frame(settled, is_live=is_live, is_pcm=self.is_pcm)
        self._answer: http.client.HTTPResponse | None = None
        self._is_closed = False
        with server.explained():  # asked at once: the server works while its caller gets ready
            self._connection = server.ask(wire.PATH_SPEECH, self._body, timeout_s=None)

    def _next_frame(self) -> tuple[dict[str, Any], bytes]:
        """Header and samples of the next chunk; StopIteration after the last."""
        if self.speech.is_done:
            raise StopIteration
        with self._server.explained():
            if self._answer is None:
                self._answer = self._begin()
            frame = wire.read_frame(self._answer)
            if frame is None:
                raise EOFError
        header, payload = frame
        if "error" in header:
            self.close()
            raise wire.error_in(header["error"])
        if header["is_last"]:
            self.speech.finish(header["reports"], header["ttfa_s"])
            self.close()
        return header, payload

    def _begin(self) -> http.client.HTTPResponse:
        """The answer; asks again as long as the server is busy."""
        while not self._is_closed:
            answer = self._connection.getresponse()
            if answer.status != 429:
                self._server.check(answer)
                return answer
            self._connection.close()
            time.sleep(float(answer.headers.get("Retry-After", 1)))
            self._connection = self._server.ask(wire.PATH_SPEECH, self._body, timeout_s=None)
        raise EOFError

    def hang_up(self) -> None:
        """End it for the thread that reads, which closes it; always safe, from any thread."""
        self._is_closed = True
        sock = self._connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.hang_up()
        self._connection.close()


class RemoteStream(_Answer, Iterator[AudioChunk]):
    """Chunks of one utterance."""

    def __next__(self) -> AudioChunk:
        return self.speech.take(*self._next_frame())


class PcmStream(_Answer, Iterator[PcmChunk]):
    """The same as integers, for a pipe: numpy, which takes longer to import than a server to
    speak, is not needed."""

    is_pcm = True

    def __next__(self) -> PcmChunk:
        return self.speech.take_pcm(*self._next_frame())


class RemoteGroup(Closing):
    """Speeches side by side on the server, each on a connection of its own."""

    def __init__(self, server: RemoteSynthesizer) -> None:
        self._server = server
        self._streams: dict[RemoteSpeech, RemoteStream] = {}
        self._events: queue.SimpleQueue[tuple[RemoteSpeech, AudioChunk | VoxError]]
        self._events = queue.SimpleQueue()

    @property
    def is_idle(self) -> bool:
        """Whether every speech has ended."""
        return not self._streams

    def add(self, utterance: Utterance | RemotePlan, *, is_live: bool = True) -> RemoteSpeech:
        """Let an utterance join."""
        plan = self._server.plan(utterance) if isinstance(utterance, Utterance) else utterance
        stream = RemoteStream(self._server, plan, is_live=is_live)
        self._streams[stream.speech] = stream
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()
        return stream.speech

    def _read(self, stream: RemoteStream) -> None:
        try:
            with stream:
                for chunk in stream:
                    self._events.put((stream.speech, chunk))
        except VoxError as err:
            self._events.put((stream.speech, err))

    def step(self) -> list[tuple[RemoteSpeech, AudioChunk | VoxError]]:
        """Wait for news of the speeches.

        Returns:
            chunks that arrived, each with its speech; an error in their place ends that speech.

        Raises:
            EngineFaultError: the server stops or is gone, or its engine failed, and with it
                everything in flight.
        """
        events: list[tuple[RemoteSpeech, AudioChunk | VoxError]] = []
        while self._streams and (not events or not self._events.empty()):
            speech, event = self._events.get()
            if speech not in self._streams:  # of a speech that left
                continue
            if isinstance(event, EngineFaultError):
                raise event
            if isinstance(event, VoxError) or event.is_last:
                del self._streams[speech]
            events.append((speech, event))
        return events

    def leave(self, speech: RemoteSpeech) -> None:
        """Forget one speech; always safe."""
        stream = self._streams.pop(speech, None)
        if stream is not None:
            stream.hang_up()

    def close(self) -> None:
        """Abort what is left; always safe."""
        for speech in tuple(self._streams):
            self.leave(speech)


class RemoteSynthesizer(Closing):
    """A server that speaks what was wanted.

    Args:
        facts: what the server answered to `wire.PATH_MATCH`.

    Attributes:
        setup, sample_rate, reference_sample_rate, max_streams: as of a `Synthesizer`.
        name: what messages call it, such as "pid 12, http://127.0.0.1:8091".
    """

    def __init__(self, target: Target, api_key: str | None, facts: dict[str, Any]) -> None:
        self.setup = Setup(**{**facts["setup"], "warning": None})  # its starter was warned
        self.sample_rate: int = facts["sample_rate"]
        self.reference_sample_rate: int = facts["reference_sample_rate"]
        self.max_streams: int = facts["max_streams"]
        self.name: str = facts["name"]
        self._target = target
        self._api_key = api_key
        self._begun: RemoteStream | PcmStream | None = None

    def voice_counts(self) -> dict[str, int]:
        """None: the server counts for all its clients together, in its metrics."""
        return {}

    def plan(self, utterance: Utterance) -> RemotePlan:
        """What would be spoken.

        Raises:
            UsageError, TextError: as `make_plan`.
        """
        with self.explained():
            body = wire.utterance_frame(utterance)
            with closing(self.ask(wire.PATH_PLAN, body, timeout_s=30.0)) as connection:
                answer = connection.getresponse()
                self.check(answer)
                plain = json.loads(answer.read())
        text = plain.pop("text")
        prepared = PreparedText(
            text["original"],
            text["language"],
            text["text"],
            tuple(Segment(**each) for each in text["segments"]),
            tuple(Change(**each) for each in text["changes"]),
            tuple(Unspeakable(**each) for each in text["unspeakable"]),
        )
        return RemotePlan(utterance=utterance, text=prepared, **plain)

    def stream(
        self, utterance: Utterance | RemotePlan, *, is_live: bool = True
    ) -> RemoteStream | PcmStream:
        """Speak one utterance, chunk by chunk; arguments and errors as `Synthesizer.stream`."""
        plan = self.plan(utterance) if isinstance(utterance, Utterance) else utterance
        begun, self._begun = self._begun, None
        if begun is not None:
            if is_live and begun.speech.plan is plan:
                return begun
            begun.close()
        return RemoteStream(self, plan, is_live=is_live)

    def begin(self, plan: RemotePlan, *, is_pcm: bool = False) -> None:
        """Ask for the live stream of a plan already; the next `stream` takes it up.

        Args:
            is_pcm: as 16 bit integers, whose chunks are `PcmChunk`.
        """
        self.close()
        self._begun = (PcmStream if is_pcm else RemoteStream)(self, plan, is_live=True)

    def synthesize(self, utterances: Sequence[Utterance | RemotePlan]) -> list[Result]:
        """Speak utterances side by side; results in the order given."""
        import numpy as np

        with self.group() as group:
            speeches = [group.add(utterance, is_live=False) for utterance in utterances]
            parts: dict[RemoteSpeech, list[np.ndarray]] = {speech: [] for speech in speeches}
            while not group.is_idle:
                for speech, event in group.step():
                    if isinstance(event, VoxError):
                        raise event
                    parts[speech].append(event.samples)
        return [speech.result(np.concatenate(parts[speech])) for speech in speeches]

    def group(self) -> RemoteGroup:
        """Utterances that join and leave while others are spoken; see `RemoteGroup`."""
        return RemoteGroup(self)

    def close(self) -> None:
        """Give up what was begun and not taken up; always safe."""
        if self._begun is not None:
            self._begun.close()
            self._begun = None

    # ------------------------------------------------------------ HTTP

    def ask(self, path: str, body: bytes, *, timeout_s: float | None) -> http.client.HTTPConnection:
        return ask(self._target, path, body, self._api_key, timeout_s)

    def explained(self) -> Explained:
        return Explained(self.name)

    def check(self, answer: http.client.HTTPResponse) -> None:
        """Raise what an answer without success says."""
        if answer.status != 200:
            raise refusal(answer)
