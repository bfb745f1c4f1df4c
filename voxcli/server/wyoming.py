"""Wyoming, the protocol of Home Assistant's voice services, on a port of its own.

    describe                              -> info: the voices and their languages
    synthesize                            -> audio-start, audio-chunk ..., audio-stop
    synthesize-start, -chunk ..., -stop   -> the same while the text is written; synthesize-stopped

The worker, the voices and the limits are those of HTTP. An error is an event too and ends the
connection, for clients wait for the end of the audio and not for errors. Knows no key: the protocol
has none.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_write_event
from wyoming.info import Attribution, Describe, Info, TtsProgram, TtsVoice
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
)

from voxcli import __version__
from voxcli.audio.joins import TextPauses, silences
from voxcli.audio.pcm import quantise
from voxcli.config import SamplingParams, random_seed
from voxcli.engine.base import OWN_VOICE
from voxcli.errors import UsageError, VoxError
from voxcli.plan import Plan
from voxcli.server.failures import explain
from voxcli.server.inbox import MAX_EVENT_BYTES, Inbox, check_length, is_text, text_of
from voxcli.server.listener import Listener
from voxcli.server.patience import Patience
from voxcli.server.service import Service
from voxcli.server.voices import voice_rows
from voxcli.text.arriving import ArrivingText, Sentence
from voxcli.text.pauses import silence_alone
from voxcli.text.prepared import PAUSE_SENTENCE_S
from voxcli.text.whole import language_of
from voxcli.utterance import Utterance

logger = logging.getLogger(__name__)

Write = Callable[[Eventable], Awaitable[None]]

WIDTH = 2  # bytes of a sample
SILENCE_S = 30.0  # a client that asks for nothing is waited for so long, as over HTTP
WRITER_S = 300.0  # and one whose text is still being written
CLOSING_S = 2.0  # what was spoken may still reach clients; the same for an error
MAX_CONNECTIONS = 64
MAX_NAME = 200  # characters


class WyomingServer:
    """See the module.

    Args:
        bound: where it listens; closed by this class.
    """

    def __init__(self, service: Service, bound: socket.socket) -> None:
        self._service = service
        self._bound = bound
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.Task[None], _Client] = {}  # whose connections are open

    async def start(self) -> None:
        """Take connections, on the loop that runs."""
        self._server = await asyncio.start_server(
            self._connected, sock=self._bound, limit=MAX_EVENT_BYTES
        )

    async def close(self) -> None:
        """Take none any more, and let those end that are about to."""
        if self._server is None:
            return
        self._server.close()
        for task, client in self._clients.items():
            if not client.is_answered:
                task.cancel()
        if self._clients:
            await asyncio.wait(self._clients, timeout=CLOSING_S)
        left = list(self._clients)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task of ours: asyncio's own takes an end by `close` for a bug."""
        if len(self._clients) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        client = _Client(self._service, reader, writer)
        task = asyncio.create_task(_served(client, writer))
        self._clients[task] = client

        def ended(task: asyncio.Task[None]) -> None:
            del self._clients[task]
            writer.transport.abort()

        task.add_done_callback(ended)


async def _served(client: _Client, writer: asyncio.StreamWriter) -> None:
    """Serve a client to its end, and wait a moment for it to take what is left."""
    try:
        await client.serve()
    except TimeoutError:
        logger.warning("%s was let go: it did nothing for too long", client.name)
    except OSError as err:
        logger.info("%s has gone: %s", client.name, err)
    except Exception:  # a bug, which ends this connection alone
        logger.exception("answering %s failed", client.name)
    writer.close()
    with suppress(OSError):  # a TimeoutError is one too
        async with asyncio.timeout(CLOSING_S):
            await writer.wait_closed()


class _Client:
    """One connection.

    Attributes:
        is_answered: an answer is on its way.
    """

    def __init__(
        self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._service = service
        self._reader = reader
        self._writer = writer
        self._inbox = Inbox(reader)
        self._patience = Patience()
        self.name = "a client of Wyoming at {}:{}".format(*writer.get_extra_info("peername")[:2])
        self.is_answered = False

    async def serve(self) -> None:
        """Answer until the client goes, stays silent or makes a mistake.

        Raises:
            TimeoutError: it is silent, or takes nothing.
            OSError: the connection is cut.
        """
        try:
            async with self._inbox.open():
                while event := await self._inbox.next(SILENCE_S):
                    self.is_answered = True
                    await self._answer(event)
                    self.is_answered = False
        except VoxError as err:
            self.is_answered = True
            await self._refuse(err)

    async def _answer(self, event: Event) -> None:
        if Describe.is_type(event.type):
            await self._write(await _info(self._service))
        elif Ping.is_type(event.type):
            await self._write(Pong())
        elif Synthesize.is_type(event.type):
            text = text_of(event)
            check_length(len(text))
            speech = _Speech(self._service, self._write, _utterance(event, self._service))
            await self._inbox.while_open(speech.say(text))
            await speech.end()
        elif SynthesizeStart.is_type(event.type):
            speech = _Speech(self._service, self._write, _utterance(event, self._service))
            await self._speak_pieces(speech)
            await self._write(SynthesizeStopped())
        elif SynthesizeChunk.is_type(event.type) or SynthesizeStop.is_type(event.type):
            raise UsageError(f"'{event.type}' came without a 'synthesize-start' before it")

    async def _speak_pieces(self, speech: _Speech) -> None:
        """Speak a text that is still being written, each sentence when it is certainly whole."""
        languages = self._service.facts.languages
        written = ArrivingText(lambda text: language_of(text, speech.language, languages))
        num_characters, is_over = 0, False
        while not is_over:
            event = await self._inbox.next(WRITER_S)
            if event is None:
                raise ConnectionResetError("the client went before its text was whole")
            if SynthesizeChunk.is_type(event.type):
                num_characters += len(text_of(event))
                check_length(num_characters)
                written.feed(text_of(event))
            elif SynthesizeStop.is_type(event.type):
                is_over = True
                written.end()
            elif SynthesizeStart.is_type(event.type):
                raise UsageError("a second 'synthesize-start' came before 'synthesize-stop'")
            elif not Synthesize.is_type(event.type):  # the whole text, for servers without pieces
                await self._answer(event)
            await self._inbox.while_open(self._speak_whole(written, speech))
        await speech.end()

    async def _speak_whole(self, written: ArrivingText, speech: _Speech) -> None:
        while sentence := await self._service.beside(written.next):
            await speech.say_sentence(sentence)

    async def _write(self, event: Eventable) -> None:
        whole = event.event()
        sending = async_write_event(whole, self._writer)
        await self._patience.wait_for(sending, len(whole.payload or b""))

    async def _refuse(self, error: VoxError) -> None:
        """Say what is wrong, and see that it arrives before the connection is closed."""
        problem = explain(error)[1]["error"]
        logger.info("%s was refused: %s", self.name, error)
        await self._write(Error(problem["message"], problem["code"]))
        self._writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                while await self._reader.read(MAX_EVENT_BYTES):  # a reset would overtake the error
                    pass


class _Speech:
    """The audio of one request.

    Args:
        write: sends an event.
        utterance: all but the text.
    """

    def __init__(self, service: Service, write: Write, utterance: Utterance) -> None:
        self._service = service
        self._write = write
        self._utterance = utterance
        self._rate = service.facts.sample_rate
        self._format = {"rate": self._rate, "width": WIDTH, "channels": 1}
        self._pauses = TextPauses(self._rate)
        self._is_begun = False

    @property
    def language(self) -> str | None:
        """That was asked for."""
        return self._utterance.language

    async def say(self, text: str) -> None:
        """Speak a whole text.

        Raises:
            VoxError: it cannot be spoken.
            TimeoutError: the client takes nothing.
        """
        listener = Listener(self._service.worker)
        with self._service.metrics.counted(listener):
            plan = await self._plan(text)
            async with listener.speaking(plan, is_live=True):
                async for chunk in listener:
                    await self._put(chunk.samples)

    async def say_sentence(self, sentence: Sentence) -> None:
        """Speak what others of the same text came before, or follow.

        Raises:
            as `say`.
        """
        await self._put(self._pauses.lengthen(sentence.pause_s - PAUSE_SENTENCE_S))
        if silence_s := silence_alone(sentence.text):
            for block in silences(self._pauses.rest(silence_s), self._rate):
                await self._put(block)
            return
        listener = Listener(self._service.worker)
        with self._service.metrics.counted(listener):
            plan = await self._plan(sentence.text)
            self._pauses.begin_text(plan.text.silence_s)
            async with listener.speaking(plan, is_live=True):
                async for chunk in listener:
                    await self._put(self._pauses.push(chunk.samples))
        is_asked = plan.text.ends_in_silence
        await self._put(self._pauses.end_text(PAUSE_SENTENCE_S, is_asked=is_asked))

    async def _plan(self, text: str) -> Plan:
        utterance = replace(self._utterance, text=text)
        return await self._service.plan(utterance, takes_aliases=True)

    async def end(self) -> None:
        """All was said.

        Raises:
            TextError: that was nothing.
        """
        if not self._is_begun:
            await self.say("")
        await self._write(AudioStop())

    async def _put(self, samples: np.ndarray) -> None:
        if not len(samples):
            return
        if not self._is_begun:
            self._is_begun = True
            await self._write(AudioStart(**self._format))
        await self._write(AudioChunk(audio=quantise(samples, "16"), **self._format))


def _utterance(event: Event, service: Service) -> Utterance:
    """What an event asks for beside a text.

    Raises:
        UsageError: it is of another form, or names somebody among the speakers of a voice.
    """
    voice = event.data.get("voice") or {}
    if not isinstance(voice, dict):
        raise UsageError("'voice' is no object")
    for key in ("name", "language", "speaker"):
        if not is_text(voice.get(key) or ""):
            raise UsageError(f"'{key}' of the voice is no text")
        if len(voice.get(key) or "") > MAX_NAME:
            raise UsageError(f"'{key}' of the voice has more than {MAX_NAME} characters")
    if speaker := voice.get("speaker"):
        raise UsageError(f"there is no speaker '{speaker}': no voice here has several")
    return Utterance(
        "",
        voice.get("name") or OWN_VOICE,
        SamplingParams(random_seed()),
        voice.get("language") or None,
        lexicon=service.lexicon,
    )


async def _info(service: Service) -> Info:
    """What is served, in the words of the protocol."""
    facts = service.facts
    credit = Attribution(facts.model, "")
    voices = [
        TtsVoice(
            name=row.name, attribution=credit, installed=True, description=row.name, version=None,
            languages=list(facts.languages),
        )
        for row in await voice_rows(service)
        if row.problem is None
    ]  # fmt: skip
    program = TtsProgram(
        name="voxcli", attribution=credit, installed=True, description=f"voxcli with {facts.model}",
        version=__version__, voices=voices, supports_synthesize_streaming=True,
    )  # fmt: skip
    return Info(tts=[program])
