"""`WS /v1/audio/speech/stream`: text comes in pieces and leaves as speech, sentence by sentence.

    -> {"type": "session.config", "voice": "emma"}    <- {"type": "session.created", ...}
    -> {"type": "input.text", "text": "It is "}
    -> {"type": "input.text", "text": "done. Th"}     <- {"type": "audio.start", ...}, bytes, ...
    -> {"type": "input.done"}                         <- ..., {"type": "session.done", ...}

Two tasks serve a connection: one reads, the other follows what was read, one message at a time, and
alone sends. `response.cancel` goes before what waits. The messages are explained in docs/server.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import ValidationError
from websockets.frames import CloseCode

from voxcli import __version__
from voxcli.audio.joins import silences
from voxcli.engine.base import OWN_VOICE
from voxcli.errors import BusyError, TextError, UnavailableError, UsageError, VoxError
from voxcli.plan import Plan
from voxcli.server.backlog import Backlog
from voxcli.server.encode import Coding, choose_coding
from voxcli.server.failures import ApiError, error_body, explain, refused
from voxcli.server.guard import TEXT_BYTES, log_let_go
from voxcli.server.listener import Listener
from voxcli.server.orders import OF_SPEECH, Kind, Order, order_of
from voxcli.server.outgoing import Outgoing
from voxcli.server.patience import STALLED_S, Patience
from voxcli.server.reading import check_model, plan_of
from voxcli.server.response import error_response
from voxcli.server.schema import SpeechRequest
from voxcli.server.service import Service
from voxcli.server.validation import explain_validation
from voxcli.server.worker import State
from voxcli.text.arriving import ArrivingText, Sentence
from voxcli.text.decode import whole_characters
from voxcli.text.directions import names_of
from voxcli.text.pauses import silence_alone
from voxcli.text.prepared import PAUSE_SENTENCE_S
from voxcli.text.whole import language_of
from voxcli.times import as_json
from voxcli.utterance import FinishReason, Mode, Utterance

PATH = "/v1/audio/speech/stream"
PROTOCOL = 1  # of the messages; a client may state the one it knows
SUBPROTOCOL = "realtime"  # that OpenAI's clients offer beside their key
CONFIG_S = 10.0  # for the first message
IDLE_S = 120.0  # without a message, while nothing is spoken
SESSION_S = 3600.0  # in all
BUSY_S = 30.0  # a sentence waits so long for a server that has too much to do
BUSY_PAUSE_S = 0.2  # between two tries
FAREWELL_S = 5.0  # for the last words to a client
MAX_WAITING = 1_000_000  # characters, hours of speech; more is read when some of them are spoken
PROBE = "1"  # a text that shows whether anything can be spoken as it is asked

T = TypeVar("T")


@dataclass(frozen=True)
class End:
    """How a session ends.

    Attributes:
        code: what the WebSocket is closed with.
        error: what the client is told before.
    """

    code: CloseCode
    error: VoxError | ApiError | None = None


@dataclass(frozen=True)
class Settings:
    """What `session.config` settled.

    Attributes:
        utterance: with a text that is to be replaced, its voice and its seed.
        max_seconds: of the speech of an utterance.
        has_times: the end of a sentence says when its segments and words sound.
    """

    utterance: Utterance
    coding: Coding
    max_seconds: float | None
    has_times: bool


def build_router(request_type: type[SpeechRequest]) -> APIRouter:
    """The route.

    Args:
        request_type: with a field for each parameter.
    """
    router = APIRouter()

    @router.get(PATH, include_in_schema=False)
    async def explain_upgrade() -> None:
        raise ApiError(426, f"{PATH} is a WebSocket; open it as ws://", code="upgrade_required")

    @router.websocket(PATH)
    async def stream(websocket: WebSocket) -> None:
        service: Service = websocket.app.state.service
        try:
            service.worker.check_ready()
            place = service.live.enter()
        except VoxError as err:
            await websocket.send_denial_response(error_response(err))
            return
        with place, suppress(WebSocketDisconnect):
            offered = websocket.scope["subprotocols"]
            await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
            await LiveSession(websocket, service, request_type).run()

    return router


class _Stalled(TimeoutError):
    """The client takes too little for too long."""


class LiveSession:
    """One connection; see the module."""

    def __init__(
        self, websocket: WebSocket, service: Service, request_type: type[SpeechRequest]
    ) -> None:
        self._websocket = websocket
        self._service = service
        self._request_type = request_type
        self._loop = asyncio.get_running_loop()
        self._backlog: Backlog[Order] = Backlog(MAX_WAITING)
        self._patience = Patience()
        self._settings: Settings | None = None
        self._text = ArrivingText(self._language_of)
        self._outgoing: Outgoing | None = None  # the utterance that has begun
        self._sentence: int | None = None  # that is being spoken
        self._num_utterances = 0
        self._following: asyncio.Task[End | None] | None = None
        self._followed: Order | None = None
        self._is_cut = False  # by `response.cancel`

    async def run(self) -> None:
        """From the accepted connection to its end.

        Raises:
            WebSocketDisconnect: the client is gone.
        """
        worker = self._service.worker
        tasks: list[asyncio.Task[End | None]] = []
        end: End | None = None
        try:
            with worker.watched(self._changed):
                self._look(worker.state)
                tasks += [asyncio.create_task(self._read()), asyncio.create_task(self._work())]
                done, _ = await asyncio.wait(
                    tasks, timeout=SESSION_S, return_when=asyncio.FIRST_COMPLETED
                )
                end = End(CloseCode.NORMAL_CLOSURE, refused(f"{SESSION_S:g} s are over"))
                for task in done:
                    end = task.result()
        except _Stalled:
            log_let_go(self._websocket.scope, "took next to nothing of its speech", STALLED_S)
        finally:
            try:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # also where this is cancelled once more meanwhile
                if self._outgoing is not None:
                    await self._outgoing.close()
        if end is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    await self._say_farewell(end)

    # ------------------------------------------------------------ what comes

    async def _read(self) -> End | None:
        """Take messages until there are no more; None where the client is gone."""
        has_begun = False
        while True:
            try:
                async with asyncio.timeout(IDLE_S if has_begun else CONFIG_S):
                    message = await self._websocket.receive()
            except TimeoutError:
                if not has_begun:
                    error = refused(f"no {Kind.CONFIG} came within {CONFIG_S:g} s")
                    return End(CloseCode.POLICY_VIOLATION, error)
                if self._followed is not None or not self._backlog.is_empty:
                    continue
                return End(CloseCode.NORMAL_CLOSURE, refused(f"no message for {IDLE_S:g} s"))
            if message["type"] == "websocket.disconnect":
                return None
            has_begun = True
            order = await self._order(message.get("text"))
            if order.kind is Kind.CANCEL:
                self._cut(order)
            if order.weight:
                await self._backlog.put(order, order.weight, join=order.join)
            await asyncio.sleep(0)  # what came at once is not read at once: others wait too

    async def _order(self, text: str | None) -> Order:
        if text is None or len(text) <= TEXT_BYTES:
            return order_of(text)
        return await self._service.beside(lambda: order_of(text))

    def _cut(self, order: Order) -> None:
        """Stop what is being spoken, and take back what waits for it."""
        dropped = self._backlog.drop(lambda each: each.kind in OF_SPEECH)
        order.texts = [text for each in dropped for text in each.texts]
        if self._followed is not None and self._followed.kind in OF_SPEECH:
            assert self._following is not None
            self._is_cut = True
            self._following.cancel()

    def _changed(self, state: State) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._look, state)

    def _look(self, state: State) -> None:
        """End after the sentence that is being spoken, where the server does."""
        if state is not State.READY:
            self._backlog.end(Order(None, error=_unavailable(state)))

    # ------------------------------------------------------------ what is done about it

    async def _work(self) -> End | None:
        """Follow messages until one ends the session."""
        while True:
            self._followed = None
            self._followed = order = await self._backlog.take()
            if order.kind in OF_SPEECH or order.kind is Kind.CLOSE:
                self._feed(order)
            self._following = asyncio.create_task(self._follow(order))
            try:
                await asyncio.wait((self._following,))
            finally:
                self._following.cancel()
                await asyncio.gather(self._following, return_exceptions=True)
            if self._following.cancelled():
                continue  # the message that cancelled it is the next, or soon
            if (end := self._following.result()) is not None:
                return end

    def _feed(self, order: Order) -> None:
        """Take what is to be spoken; done at once, so that a cancelled message is known whole."""
        self._text.feed("".join(order.texts))
        if order.kind is Kind.FLUSH:
            self._text.flush()
        elif order.kind is not Kind.TEXT:
            self._text.end()
        settings = self._settings
        if order.texts and settings is not None and self._outgoing is None:
            rate = self._service.facts.sample_rate
            self._outgoing = Outgoing(
                self._num_utterances, settings.coding, rate, settings.max_seconds
            )

    async def _follow(self, order: Order) -> End | None:
        if self._backlog.is_ended:
            return End(CloseCode.SERVICE_RESTART, order.error)
        if order.error is not None:
            await self._say_error(order.error)
            return None if self._settings else End(CloseCode.POLICY_VIOLATION)
        if order.kind is Kind.CONFIG:
            return await self._configure(order.fields)
        if self._settings is None:
            error = refused(f"{Kind.CONFIG} has to be the first message")
            return End(CloseCode.POLICY_VIOLATION, error)
        if order.kind is Kind.CANCEL:
            await self._say_cancelled(order)
            return None
        while (sentence := self._text.next()) is not None:
            if self._backlog.is_ended:
                return None
            if (end := await self._speak(sentence)) is not None:
                return end
        if order.kind is Kind.DONE or (order.kind is Kind.CLOSE and self._outgoing):
            await self._finish()
        return End(CloseCode.NORMAL_CLOSURE) if order.kind is Kind.CLOSE else None

    async def _configure(self, fields: dict[str, Any]) -> End | None:
        """Settle how everything from now on is spoken."""
        service = self._service
        try:
            if self._outgoing is not None:
                raise refused(f"an utterance has begun; {Kind.CONFIG} goes behind {Kind.DONE}")
            body = self._body(fields)
            check_model(body.model, service)
            coding = choose_coding(
                body.response_format, service.facts.sample_rate, body.sample_rate
            )
            coding.check_stream()
            max_seconds = body.max_seconds
            plan, ignored = await plan_of(body.model_copy(update={"max_seconds": None}), service)
        except (ApiError, VoxError, ValidationError) as err:
            await self._say_error(err)
            return None if self._settings else End(CloseCode.POLICY_VIOLATION)
        sampling = replace(plan.utterance.sampling, seed=plan.seed)
        utterance = replace(plan.utterance, sampling=sampling)
        self._settings = Settings(utterance, coding, max_seconds, body.timestamps)
        self._text = ArrivingText(self._language_of, is_raw=not utterance.is_normalised)
        service.dialect.headers(ignored)  # which logs those that are new
        await self._say(
            "session.created",
            protocol=PROTOCOL,
            version=__version__,
            model=service.facts.model,
            voice=_voice_of(plan),
            seed=plan.seed,
            response_format=coding.name,
            sample_rate=coding.rate,
            channels=1,
            ignored_fields=ignored,
        )
        return None

    def _body(self, fields: dict[str, Any]) -> SpeechRequest:
        """A speech request with all but the text.

        Raises:
            ApiError, ValidationError: it cannot be one.
        """
        fields = {name: value for name, value in fields.items() if value is not None}
        protocol = fields.pop("protocol", PROTOCOL)
        if protocol != PROTOCOL:
            raise refused(
                f"'protocol' is {protocol!r:.40}, here it is {PROTOCOL}", param="protocol"
            )
        if "input" in fields:
            raise refused(f"'input' is sent by {Kind.TEXT}", param="input")
        if fields.pop("stream_format", "audio") != "audio":
            raise refused("'stream_format' is audio here", param="stream_format")
        if fields.pop("stream", True) is not True:
            raise refused("'stream' is true here", param="stream")
        given = {"response_format": "pcm", **fields, "input": PROBE}
        return self._request_type.model_validate(given)

    def _language_of(self, text: str) -> str:
        asked = None if self._settings is None else self._settings.utterance.language
        return language_of(text, asked, self._service.facts.languages)

    async def _finish(self) -> None:
        """End the utterance, with all that is left of it."""
        outgoing, settings = self._outgoing, self._settings
        if outgoing is None:
            assert settings is not None
            rate = self._service.facts.sample_rate
            outgoing = Outgoing(self._num_utterances, settings.coding, rate, None)
        await self._send_audio(outgoing, await outgoing.finish())
        await self._say(
            "session.done",
            utterance_index=outgoing.index,
            total_sentences=outgoing.num_sentences,
            duration=round(outgoing.audio_s, 6),
            total_bytes=outgoing.num_bytes,
            finish_reason=outgoing.finish_reason,
        )
        await self._let_go()

    async def _let_go(self) -> None:
        """The next text begins another utterance."""
        outgoing, self._outgoing = self._outgoing, None
        self._num_utterances += 1
        self._sentence = None
        if outgoing is not None:
            await outgoing.close()

    async def _say_cancelled(self, order: Order) -> None:
        self._is_cut = False
        outgoing = self._outgoing
        await self._say(
            "response.cancelled",
            utterance_index=self._num_utterances,
            sentence_index=self._sentence,
            duration=round(outgoing.sent_s, 6) if outgoing else 0.0,
            total_bytes=outgoing.num_bytes if outgoing else 0,
            unspoken_text=whole_characters(self._text.clear() + "".join(order.texts)),
        )
        if outgoing is not None or order.texts:
            await self._let_go()

    # ------------------------------------------------------------ speech

    async def _speak(self, sentence: Sentence) -> End | None:
        """Speak a sentence; a failure is told, and ends the session where the engine failed."""
        outgoing, settings = self._outgoing, self._settings
        assert outgoing is not None
        assert settings is not None
        if outgoing.finish_reason is FinishReason.LENGTH:
            return None
        try:
            seconds = silence_alone(sentence.text) if settings.utterance.is_normalised else 0.0
            if seconds:
                await self._rest(outgoing, seconds)
                return None
            index = self._sentence = outgoing.num_sentences
            outgoing.num_sentences += 1
            plan = await self._plan(sentence, outgoing, settings)
            if plan is not None:
                await self._speak_plan(plan, sentence, index, outgoing, settings)
        except (VoxError, ApiError) as err:
            await self._say(
                "audio.done",
                utterance_index=outgoing.index,
                sentence_index=self._sentence,
                sentence_text=sentence.text,
                **_body_of(err),
            )
            if self._service.worker.state is not State.READY:
                return End(CloseCode.SERVICE_RESTART, None)
        self._sentence = None
        return None

    async def _plan(
        self, sentence: Sentence, outgoing: Outgoing, settings: Settings
    ) -> Plan | None:
        """A sentence's plan; None where the utterance may become no longer."""
        left_s = outgoing.left_s
        sampling = replace(settings.utterance.sampling, max_seconds=left_s)
        utterance = replace(settings.utterance, text=sentence.text, sampling=sampling)
        try:
            return await self._patiently(lambda: self._service.plan(utterance))
        except TextError:
            raise
        except UsageError:
            if left_s is None or not outgoing.audio_s:
                raise
            outgoing.finish_reason = FinishReason.LENGTH
            return None

    async def _speak_plan(
        self,
        plan: Plan,
        sentence: Sentence,
        index: int,
        outgoing: Outgoing,
        settings: Settings,
    ) -> None:
        longer = outgoing.pauses.lengthen(sentence.pause_s - PAUSE_SENTENCE_S, is_last=True)
        num_passed = outgoing.pauses.begin_text(plan.text.silence_s)
        start_s = outgoing.audio_s + len(longer) / outgoing.rate
        num_bytes = outgoing.num_bytes

        has_begun = False

        async def begin(samples: Any) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                await self._say_start(plan, sentence, index, start_s, outgoing)
                await self._leave(outgoing, longer)
            await self._leave(outgoing, samples)

        async def speak() -> Listener:
            listener = Listener(self._service.worker)
            async with listener.speaking(plan, is_live=True):
                with self._service.metrics.counted(listener, lambda: self._is_cut):
                    async for chunk in listener:
                        await begin(outgoing.pauses.push(chunk.samples))
            return listener

        try:
            listener = await self._patiently(speak, lambda: not has_begun)
        except VoxError:
            if has_begun:
                tail = outgoing.pauses.end_text(PAUSE_SENTENCE_S, is_asked=False)
                await self._leave(outgoing, tail)
            raise
        outgoing.finish_reason = listener.speech.finish_reason
        is_asked = plan.text.ends_in_silence
        tail = outgoing.pauses.end_text(PAUSE_SENTENCE_S, is_asked=is_asked)
        await self._leave(outgoing, tail)
        begun_s = start_s - num_passed / outgoing.rate
        reports = [each.later(begun_s) for each in listener.speech.reports]
        language = plan.text.language
        times = as_json(reports, language) if settings.has_times else {}
        await self._say(
            "audio.done",
            utterance_index=outgoing.index,
            sentence_index=index,
            sentence_text=sentence.text,
            start=round(reports[0].start_s, 3),
            end=round(reports[-1].end_s, 3),
            total_bytes=outgoing.num_bytes - num_bytes,
            **times,
        )

    async def _rest(self, outgoing: Outgoing, seconds: float) -> None:
        """Exact silence."""
        for block in silences(outgoing.pauses.rest(seconds), outgoing.rate):
            await self._leave(outgoing, block)

    async def _patiently(
        self, work: Callable[[], Awaitable[T]], can_repeat: Callable[[], bool] = lambda: True
    ) -> T:
        """What it returns, once the server has room for it."""
        until_s = self._loop.time() + BUSY_S
        while True:
            try:
                return await work()
            except (BusyError, UnavailableError):
                is_ready = self._service.worker.state is State.READY
                if not (is_ready and can_repeat()) or self._loop.time() > until_s:
                    raise
            await asyncio.sleep(BUSY_PAUSE_S)

    # ------------------------------------------------------------ what goes

    async def _leave(self, outgoing: Outgoing, samples: Any) -> None:
        await self._send_audio(outgoing, await outgoing.encode(samples))

    async def _send_audio(self, outgoing: Outgoing, data: bytes) -> None:
        if data:
            await self._put(self._websocket.send_bytes(data), len(data))
            outgoing.count_sent(len(data))

    async def _say_start(
        self, plan: Plan, sentence: Sentence, index: int, start_s: float, outgoing: Outgoing
    ) -> None:
        assert self._settings is not None
        coding = self._settings.coding
        directions = (*sentence.thoughts, *plan.text.directions)
        more = {"not_followed": names_of(directions)} if directions else {}
        await self._say(
            "audio.start",
            utterance_index=outgoing.index,
            sentence_index=index,
            sentence_text=sentence.text,
            start=round(start_s, 3),
            language=plan.text.language,
            format=coding.name,
            sample_rate=coding.rate,
            channels=1,
            **more,
        )

    async def _say_error(self, error: Exception) -> None:
        await self._say("error", **_body_of(error))

    async def _say(self, kind: str, **fields: Any) -> None:
        text = msgspec.json.encode({"type": kind, **fields}).decode()
        await self._put(self._websocket.send_text(text), len(text))

    async def _put(self, sending: Awaitable[None], num_bytes: int) -> None:
        try:
            await self._patience.wait_for(sending, num_bytes)
        except TimeoutError as err:
            raise _Stalled from err

    async def _say_farewell(self, end: End) -> None:
        if end.error is not None:
            await self._say_error(end.error)
        await self._websocket.close(end.code)


def _body_of(error: Exception) -> dict[str, Any]:
    if isinstance(error, ApiError):
        return error.body
    if isinstance(error, ValidationError):
        problems: Any = error.errors()
        return explain_validation(problems)
    if isinstance(error, VoxError):
        return explain(error)[1]
    return error_body("the server failed; see its log", "server_error", None, "bug")


def _unavailable(state: State) -> ApiError:
    body = explain(UnavailableError(f"the server is {state}"))[1]
    return ApiError(503, body["error"]["message"], code="unavailable", kind="server_error")


def _voice_of(plan: Plan) -> str | None:
    """The voice's name; None where it is that of a recording in the request."""
    is_own = plan.utterance.mode is Mode.ZERO_SHOT
    return plan.utterance.voice or (OWN_VOICE if is_own else None)
