"""`OpenAIEngine`: a speech server elsewhere that speaks as OpenAI's does, as an engine.

    with LoopThread("servers") as loop:
        engine = open_server("http://host:8091", "openbmb/VoxCPM2", None, loop)

Texts are planned here, and what comes back passes the same guard as our own speech. One server: who
asks which of several, how often and how many at once is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakSet

import httpx

from voxcli.engine.base import OWN_VOICE, EngineFacts, Setup
from voxcli.engine.calls import CalledSpeech, CallSession, LoopThread, Piece, SegmentCall
from voxcli.engine.clips import plan_heard
from voxcli.engine.news import NewsEngine
from voxcli.engine.openai.answer import Reader, reader_of
from voxcli.engine.openai.ask import Asker, max_tokens
from voxcli.engine.openai.failures import failure, in_one_line, is_without_audio
from voxcli.engine.openai.probe import learn_rate, probe
from voxcli.engine.openai.profile import SPEECH, Kind, ModelRow, Profile
from voxcli.engine.openai.transport import Limits, Transport, beginning, pieces_of
from voxcli.engine.openai.waves import EMPTY, Samples
from voxcli.engine.planning import PlannedModel
from voxcli.errors import (
    EngineError,
    UnavailableError,
    UsageError,
    VoiceNotFoundError,
)
from voxcli.hub.catalog import ModelSettings, known_models
from voxcli.models import family_named
from voxcli.models.base import ModelFacts
from voxcli.models.served import ServedModel
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.utterance import FinishReason, Mode, Recording, Use, Utterance, VoiceEncoding

if TYPE_CHECKING:
    from voxcli.voices import VoiceStore

HEALTH_S = 3.0
END_S = 1.0  # for a connection to end after its last event
MAX_STREAMS = 8  # at once, unless the caller says otherwise: vLLM-Omni's own default
NOMINAL_FRAME_S = 0.08  # of a model whose frames are not known; no server is told it
ELSEWHERE = "elsewhere"


def open_server(
    url: str,
    model: str | None,
    api_key: str | None,
    loop: LoopThread,
    *,
    max_streams: int = MAX_STREAMS,
    limits: Limits | None = None,
) -> OpenAIEngine | None:
    """The server at a URL, asked what it is.

    Args:
        model: which has to be served; None means whatever is, if it is one.
        loop: where requests run; the caller closes it, after the engine.
        max_streams: requests at once.

    Returns:
        None for a `voxcli serve`, which has a better way to be spoken to (`engine/remote`).

    Raises:
        UsageError: it serves something else, has no speech, is too old, or refuses the key.
        EngineError: nothing answers there.
    """
    limits = limits or Limits()
    began_s = time.perf_counter()
    transport = Transport(url, api_key)
    try:
        profile = loop.run(probe(transport, model))
        if profile.kind is Kind.VOXCLI:
            loop.run(transport.close())
            return None
        rate = known_rate(profile) or loop.run(learn_rate(transport, profile, limits))
    except BaseException:
        loop.run(transport.close())
        raise
    return OpenAIEngine(
        transport, profile, rate, loop, max_streams=max_streams, limits=limits,
        load_s=time.perf_counter() - began_s,
    )  # fmt: skip


def known_rate(profile: Profile) -> int | None:
    """Hz of the speech, where the server states it, or has the model's own."""
    if profile.model.sample_rate is None and profile.kind is Kind.VLLM_OMNI and profile.family:
        return profile.family.facts.sample_rate
    return profile.model.sample_rate


class OpenAIEngine(NewsEngine):
    """See the module, and `SpeechEngine` for the contract of each method.

    Args:
        transport: to the server; closed with the engine.
        profile: what it is.
        sample_rate: Hz of what it speaks.
        load_s: what asking it took.
    """

    states_streams = False  # no such server says it

    def __init__(
        self,
        transport: Transport,
        profile: Profile,
        sample_rate: int,
        loop: LoopThread,
        *,
        max_streams: int = MAX_STREAMS,
        limits: Limits | None = None,
        load_s: float = 0.0,
    ) -> None:
        self.profile = profile
        self._transport = transport
        self._transport.name = profile.name
        self._loop = loop
        self._limits = limits or Limits()
        self._served = profile.family if profile.kind is Kind.VLLM_OMNI else None
        self._frame_s = NOMINAL_FRAME_S if self._served is None else self._served.frame_s
        self._planned = _planned_model(profile, self._served, sample_rate)
        self._sessions: WeakSet[CallSession] = WeakSet()
        self._is_closed = False
        facts, settings = self._planned.facts, self._planned.settings
        self._asker = Asker(profile, self._served, facts.parameters)
        self.facts = EngineFacts(
            engine=str(profile.kind),
            model=profile.model.name,
            family=facts.family,
            sample_rate=sample_rate,
            reference_sample_rate=facts.reference_sample_rate,
            name=profile.name,
            languages=facts.languages,
            modes=facts.modes,
            voices=facts.voices,
            parameters=facts.parameters,
            best=settings.parameters,
            clone_best=settings.clone_parameters,
            max_streams=max_streams,
            is_repeatable=_is_repeatable(profile, self._served),
            can_encode=False,
        )
        self._setup = Setup(
            model=profile.model.name,
            device=profile.name,
            device_type=ELSEWHERE,
            precision=ELSEWHERE,
            threads=0,
            load_s=load_s,
        )

    @property
    def setup(self) -> Setup:
        return self._setup

    def start(self, wanted: Iterable[Values] = ()) -> None:
        """See the base; it runs already."""

    # ------------------------------------------------------------ plans

    @property
    def title(self) -> str:
        return self._planned.name

    def plan(self, utterance: Utterance) -> Plan:
        model = self._model_for(utterance)
        return plan_heard(utterance, model, self._served, self.facts.name)

    def in_voice(self, utterance: Utterance, store: VoiceStore | None = None) -> Utterance:
        """See the base; a server that does not list its voices is given any name that no saved
        voice has."""
        try:
            return super().in_voice(utterance, store)
        except VoiceNotFoundError:
            if self.profile.lists_voices:
                raise
            return utterance

    def _model_for(self, utterance: Utterance) -> PlannedModel:
        voice = utterance.voice
        if self.profile.lists_voices or voice in (None, OWN_VOICE):
            return self._planned
        return replace(self._planned, facts=replace(self._planned.facts, voices=(str(voice),)))

    # ------------------------------------------------------------ speaking

    def session(self, *, num_reserved: int = 0) -> CallSession:
        session = CallSession(
            self._loop, self.speak, self.start_speech, self.facts.max_streams,
            num_reserved=num_reserved,
        )  # fmt: skip
        self._sessions.add(session)
        return session

    def start_speech(self, plan: Plan, *, is_live: bool, started_s: float) -> CalledSpeech:
        """A plan as a speech whose segments are made by `speak`."""
        return CalledSpeech(
            plan, self.facts.sample_rate, self._frame_s, is_live=is_live, started_s=started_s
        )

    async def speak(self, call: SegmentCall) -> AsyncIterator[Piece]:
        """One attempt at one segment; see `Speak` in `engine/calls.py`. Cancelled, it closes its
        connection, which ends the work on the server.

        Raises:
            UnavailableError: the server is gone, hangs, fails, or what it sends is cut or spoilt.
            BusyError: it has no room now.
            UsageError: it refuses this request.
            EngineError: what it answers is no speech, or of another rate than before.
        """
        body = await asyncio.to_thread(self._asker.body, call)
        clock = _Clock(self._limits, call.max_frames * self._frame_s)
        count = _Count(call, self._frame_s, self.facts.sample_rate, self._served)
        num_tokens = None
        with self._transport.explained("in the middle of a speech"):
            async with AsyncExitStack() as stack:
                async with asyncio.timeout_at(clock.first_at):
                    asked = self._transport.post(SPEECH, body)
                    response = await stack.enter_async_context(asked)
                    reader = await self._reader_of(response)
                if reader is not None:
                    async with aclosing(self._heard(response, reader, clock)) as heard:
                        async for samples in heard:
                            if len(samples):
                                yield count.piece(samples)
                            if count.is_over:
                                break
                    num_tokens = reader.num_tokens
        yield Piece(EMPTY, reason=count.reason(num_tokens))

    async def _reader_of(self, response: httpx.Response) -> Reader | None:
        """Who reads an answer; None where it says that there is no audio.

        Raises:
            VoxError: it is a refusal.
        """
        if response.status_code == 200:
            return reader_of(response.headers, self.facts.name)
        body = await beginning(response)
        if is_without_audio(response.status_code, body):
            return None
        raise failure(response.status_code, response.headers, body, self.facts.name)

    async def _heard(
        self, response: httpx.Response, reader: Reader, clock: _Clock
    ) -> AsyncGenerator[Samples, None]:
        """The samples of an answer as they come, to its end."""
        chunks = pieces_of(response)
        try:
            while not reader.is_done:
                async with asyncio.timeout_at(clock.next_at()):
                    data = await anext(chunks, None)
                if data is None:
                    break
                samples = reader.feed(data)
                if len(samples):
                    clock.has_begun = True
                    self._check_rate(reader.rate)
                yield samples
            samples = await asyncio.to_thread(reader.finish)
            if len(samples):
                self._check_rate(reader.rate)
            yield samples
        except ValueError as err:  # includes what is cut
            why = in_one_line(str(err))
            raise UnavailableError(f"what {self.facts.name} sent is damaged: {why}") from err
        if reader.is_done:  # read to the end, the connection serves again
            with suppress(httpx.HTTPError, OSError):
                async with asyncio.timeout(END_S):
                    await anext(chunks, None)

    def _check_rate(self, rate: int | None) -> None:
        if rate != self.facts.sample_rate:
            raise EngineError(
                f"{self.facts.name} speaks at {rate} Hz, and {self.facts.sample_rate} Hz was "
                "expected of it",
                hint="it may have another model now: run the command again",
            )

    # ------------------------------------------------------------ the rest

    def is_up(self, timeout_s: float = HEALTH_S) -> bool:
        """Whether it answers that it is well; from any thread but the loop's."""
        return self._loop.run(self.answers(timeout_s))

    async def answers(self, timeout_s: float = HEALTH_S) -> bool:
        """The same on the loop."""
        status = await self._transport.status_of("/health", timeout_s)
        if status in (404, 405, 501):
            status = await self._transport.status_of("/v1/models", timeout_s)
        return status == 200

    def model_checksum(self) -> str:
        return self.profile.checksum

    def encoder_checksum(self) -> str:
        """Empty: nothing is encoded, voices are sent as recordings."""
        return ""

    def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        """See the base."""
        raise UsageError(
            f"{self.facts.name} encodes no voices", hint="they are sent to it as recordings"
        )

    def close(self) -> None:
        """End every session and connection; always safe."""
        for session in tuple(self._sessions):
            session.close()
        if not self._is_closed:
            self._is_closed = True
            self._loop.run(self._transport.close())


class _Clock:
    """How long to wait for what comes next; see `Limits`."""

    def __init__(self, limits: Limits, audio_s: float) -> None:
        self._now = asyncio.get_running_loop().time
        self._silence_s = limits.silence_s
        self.first_at = self._now() + limits.first_s
        self._last_at = self.first_at + limits.slowest * audio_s
        self.has_begun = False

    def next_at(self) -> float:
        if not self.has_begun:
            return self.first_at
        return min(self._last_at, self._now() + self._silence_s)


class _Count:
    """Samples and frames of one call, up to the most that it may have.

    Args:
        served: the model, whose frames are known and which was told the most of them; or None.
    """

    def __init__(
        self, call: SegmentCall, frame_s: float, rate: int, served: ServedModel | None
    ) -> None:
        self._call = call
        self._frame = frame_s * rate
        self._served = served
        self._num_samples = self._num_frames = 0
        self.is_over = False

    def piece(self, samples: Samples) -> Piece:
        """The samples that there is room for."""
        room = round(self._call.max_frames * self._frame) - self._num_samples
        self.is_over = len(samples) > room
        samples = samples[:room]
        self._num_samples += len(samples)
        before, self._num_frames = self._num_frames, int(self._num_samples / self._frame + 1e-6)
        return Piece(samples, 0 if self._served is None else self._num_frames - before)

    def reason(self, num_tokens: int | None) -> FinishReason:
        """Why the segment ended.

        Args:
            num_tokens: of output, as the server counts.
        """
        made = self._num_frames if num_tokens is None else num_tokens
        is_cut = self._served is not None and made >= max_tokens(self._call, self._served)
        return FinishReason.LENGTH if self.is_over or is_cut else FinishReason.STOP


def _is_repeatable(profile: Profile, served: ServedModel | None) -> bool:
    """Whether a seed is known to decide the samples."""
    if served is None:
        return profile.kind is Kind.VOXCLI
    return bool(profile.release) and profile.release >= served.seeds_since


def _planned_model(profile: Profile, served: ServedModel | None, rate: int) -> PlannedModel:
    """What planning needs of the model that a server has."""
    row = profile.model
    known = known_models().get(row.name) or known_models().get(row.root)
    settings = ModelSettings() if known is None else known.settings
    if served is not None:
        parameters = served.facts.parameters if "extra_params" in profile.fields else ()
        facts = replace(
            served.facts, sample_rate=rate, voices=profile.voices, parameters=parameters
        )
    else:
        is_told = known is not None and profile.kind is Kind.VOXCLI
        parameters = family_named(known.family).declaration if known and is_told else ()
        facts = ModelFacts(
            "unknown" if known is None else known.family,
            rate,
            rate,
            tuple(each for each in parameters if each.name in profile.fields),
            row.languages,
            _plain_modes(row),
            profile.voices,
        )
    names = {each.name for each in facts.parameters}
    settings = replace(
        settings,
        parameters={key: value for key, value in settings.parameters.items() if key in names},
        clone_parameters={},
    )
    title = " ".join(filter(None, (f"{row.name} on {profile.kind}", profile.version)))
    return PlannedModel(title, None, facts, settings)


def _plain_modes(row: ModelRow) -> tuple[Mode, ...]:
    """What can be said in OpenAI's own fields: a style where the server states that it has one."""
    return (Mode.ZERO_SHOT, *((Mode.STYLE,) if str(Mode.STYLE) in row.modes else ()))
