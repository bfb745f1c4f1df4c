"""`Synthesizer`: the one door to speech for the command line, the server and other programs.

    synthesizer = Synthesizer.load(EngineConfig())
    result = synthesizer.synthesize([Utterance("Hello there.")])[0]

It owns an engine, turns utterances into plans and requests, and puts what comes back in order. One
thread at a time may use it; on a CPU `encode` may run in a second one meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from voxcli.engine.native.ahead import Ahead
from voxcli.audio.resample import resample
from voxcli.closing import Closing
from voxcli.config import EngineConfig, UserSettings
from voxcli.errors import VoxError
from voxcli.hub import ModelFiles, resolve_model
from voxcli.plan import Plan, VoiceModel, make_plan, voice_model
from voxcli.engine.base import Setup
from voxcli.engine.native.speech import Speech
from voxcli.utterance import AudioChunk, Recording, Result, Utterance

if TYPE_CHECKING:
    import torch

    from voxcli.engine.native.device import Device
    from voxcli.engine.native.core import Engine
    from voxcli.engine.native.request import Request

logger = logging.getLogger(__name__)

MAX_CACHED_RECORDINGS = 64  # encoded ones: 25 latents a second each, so a few megabytes in all


class SpeechStream(Closing, Iterator[AudioChunk]):
    """Chunks of one utterance; closing it early frees what it holds in the engine."""

    def __init__(self, speech: Speech, chunks: Iterator[AudioChunk]) -> None:
        self.speech = speech
        self._chunks = chunks

    def __next__(self) -> AudioChunk:
        return next(self._chunks)

    def close(self) -> None:
        close: Callable[[], None] = getattr(self._chunks, "close", lambda: None)
        close()


class SpeechGroup(Closing):
    """Speeches side by side on one engine. They may join and leave between steps, and fail alone.

    Args:
        engine: to step; nothing else may step it meanwhile.
        start: an utterance or plan to a speech; keyword `is_live`.
        speeches: the first members.
        num_reserved: slots that only the first request of a speech may take, so that who joins
            beside a long text need not wait for one of its segments to end.
    """

    def __init__(
        self,
        engine: Engine,
        start: Callable[..., Speech],
        speeches: Sequence[Speech] = (),
        *,
        num_reserved: int = 0,
    ) -> None:
        self._engine = engine
        self._start = start
        self._speeches = [speech for speech in speeches if not speech.is_done]
        self._owners: dict[Request, Speech] = {}
        self._num_reserved = num_reserved
        self._paused: set[Speech] = set()

    @property
    def is_idle(self) -> bool:
        """Whether every speech has ended."""
        return not self._speeches

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything: False when idle or when all that is left is paused."""
        return bool(self._owners) or len(self._speeches) > len(self._paused)

    def add(self, utterance: Utterance | Plan, *, is_live: bool = True) -> Speech:
        """Let an utterance join; its first request is submitted by the next step.

        Raises:
            UsageError, TextError: as `Synthesizer.stream`.
        """
        speech = self._start(utterance, is_live=is_live)
        self._speeches.append(speech)
        return speech

    def pause(self, speech: Speech) -> None:
        """Submit no further segment of it; those in flight go on to their end."""
        if speech in self._speeches:
            self._paused.add(speech)

    def resume(self, speech: Speech) -> None:
        """The opposite of `pause`; always safe."""
        self._paused.discard(speech)

    def leave(self, speech: Speech) -> None:
        """Forget one speech and free its slots at once; always safe."""
        if speech in self._speeches:
            self._drop(speech)

    def step(self) -> list[tuple[Speech, AudioChunk | VoxError]]:
        """Advance all speeches by one patch.

        Returns:
            chunks that leave, each with its speech; an error in their place ends that speech alone.

        Raises:
            EngineError: the device failed; everything in flight is lost.
        """
        events = self._submit()
        for output in self._engine.step():
            speech = self._owners.get(output.request)
            if speech is None:  # of a speech that failed
                continue
            if output.finish_reason is not None:
                del self._owners[output.request]
            try:
                again = speech.accept(output.request, output.samples, output.finish_reason)
                if again is not None:
                    self._engine.abort([output.request])
                    self._add(again, speech)
                events += [(speech, chunk) for chunk in speech.ready_chunks()]
            except VoxError as err:
                self._drop(speech)
                events.append((speech, err))
        for speech in [speech for speech in self._speeches if speech.is_done]:
            self._forget(speech)
        return events

    def _submit(self) -> list[tuple[Speech, AudioChunk | VoxError]]:
        """Keep the engine's slots busy; who has the fewest is next. Returns refusals."""
        refused: list[tuple[Speech, AudioChunk | VoxError]] = []
        num_free = self._engine.scheduler.num_free_slots - len(self._engine.scheduler.waiting)
        hopeful = [speech for speech in self._speeches if speech not in self._paused]
        while hopeful and num_free > 0:
            speech = min(hopeful, key=lambda speech: len(speech.requests))  # the earliest of equals
            if speech.requests and num_free <= self._num_reserved:
                break
            try:
                request = speech.next_request()
                if request is None:
                    hopeful.remove(speech)
                    continue
                self._add(request, speech)
                num_free -= 1
            except VoxError as err:
                hopeful.remove(speech)
                self._drop(speech)
                refused.append((speech, err))
        return refused

    def _add(self, request: Request, speech: Speech) -> None:
        self._engine.add_request(request)
        self._owners[request] = speech

    def _drop(self, speech: Speech) -> None:
        requests = [request for request, owner in self._owners.items() if owner is speech]
        self._engine.abort(requests)
        for request in requests:
            del self._owners[request]
        self._forget(speech)

    def _forget(self, speech: Speech) -> None:
        self._speeches.remove(speech)
        self._paused.discard(speech)

    def close(self) -> None:
        """Abort what is left; always safe."""
        self._engine.abort(self._owners)
        self._owners.clear()
        self._speeches.clear()
        self._paused.clear()


def setup_of(
    engine: Engine, model: str, device: Device, dtype: torch.dtype, threads: int, started_s: float,
    import_s: float = 0.0,
) -> Setup:  # fmt: skip
    """The facts of an engine that is ready now.

    Args:
        started_s: on `time.perf_counter`, behind the imports.
        import_s: what those took.
    """
    from voxcli.engine.native.device import PRECISION_NAMES

    return Setup(
        model=model,
        device=device.name,
        device_type=str(device.torch_device),
        precision=PRECISION_NAMES[dtype],
        threads=threads,
        load_s=time.perf_counter() - started_s,
        import_s=import_s,
        num_captures=engine.runner.graph_captures,
        capture_s=engine.runner.capture_s,
        capture_bytes=engine.runner.capture_bytes,
        warning=device.warning,
    )


class Synthesizer(Closing):
    """A loaded model behind an engine.

    Args:
        engine: with the model.
        model: what planning needs of it.
        setup: facts for reports.

    Attributes:
        num_encoded: recordings that had to be encoded, once for each use.
        encode_s: seconds that took.
    """

    def __init__(self, engine: Engine, model: VoiceModel, setup: Setup) -> None:
        self.engine = engine
        self.model = model
        self.setup = setup
        self.num_encoded = 0
        self.encode_s = 0.0
        self._latents: OrderedDict[tuple[str, bool], np.ndarray] = OrderedDict()

    @classmethod
    def load(cls, config: EngineConfig, settings: UserSettings | None = None) -> Self:
        """Find the model, load it and allocate the engine's state.

        Raises:
            ModelNotFoundError, CheckpointError: the model's files.
            DeviceError: the device.
        """
        settings = settings or UserSettings()
        files = resolve_model(config.model, offline=settings.offline, cache_dir=settings.cache_dir)
        return cls.load_files(files, config)

    @classmethod
    def load_files(cls, files: ModelFiles, config: EngineConfig) -> Self:
        """The same for a model that is found already."""
        began_s = time.perf_counter()
        if not config.solver:  # graphs for what this model is used with by default
            best = files.settings
            guided = {best.cfg != 1.0, best.clone_cfg != 1.0}
            config = replace(config, solver=tuple((best.steps, is_on) for is_on in sorted(guided)))
        with Ahead.begin(files.folder, config) as ahead:  # before torch is imported
            return cls._load_beside(files, config, ahead, began_s)

    @classmethod
    def _load_beside(
        cls, files: ModelFiles, config: EngineConfig, ahead: Ahead, began_s: float
    ) -> Self:
        from voxcli.engine.native.device import resolve_device, resolve_dtype, set_threads
        from voxcli.engine.native.core import Engine
        from voxcli.engine.native.memory import require_memory
        from voxcli.models import load_model

        started_s = time.perf_counter()
        device = resolve_device(config.device)
        threads = set_threads(config.threads)
        num_bytes = sum(path.stat().st_size for path in files.files)
        dtype = resolve_dtype(config.precision, device.torch_device, num_bytes)
        require_memory(
            device.torch_device,
            num_bytes * dtype.itemsize // 2,  # files hold two bytes a number
            f"the weights of {files.name}",
            "use a smaller model, --precision bf16 or fp8, or --device cpu",
        )
        model = load_model(files.folder, device.torch_device, dtype, is_native=config.native)
        engine = Engine(model, device.torch_device, config, ahead.is_ready)
        setup = setup_of(engine, files.name, device, dtype, threads, started_s, started_s - began_s)
        logger.info("%s", setup)
        return cls(engine, voice_model(files), setup)

    @property
    def sample_rate(self) -> int:
        return self.engine.model.info.sample_rate

    @property
    def reference_sample_rate(self) -> int:
        """Hz of what the model hears of a recording."""
        return self.engine.model.info.reference_sample_rate

    @property
    def max_streams(self) -> int:
        """Utterances that are spoken at once without waiting for each other."""
        return self.engine.scheduler.num_free_slots

    def plan(self, utterance: Utterance) -> Plan:
        """What would be spoken; see `make_plan`."""
        return make_plan(utterance, self.model)

    def stream(self, utterance: Utterance | Plan, *, is_live: bool = True) -> SpeechStream:
        """Speak one utterance, chunk by chunk.

        Args:
            is_live: chunks leave as soon as they exist; False holds each segment until it is whole
                and checked, which is what allows it to be tried again.

        Raises:
            UsageError, TextError: before anything runs.
            SynthesisError, EngineError: while iterating.
        """
        speech = self._start(utterance, is_live=is_live)
        return SpeechStream(speech, self._drive([speech]))

    def synthesize(self, utterances: Sequence[Utterance | Plan]) -> list[Result]:
        """Speak utterances side by side; results in the order given.

        Raises:
            as `stream`; the first failure ends the call.
        """
        speeches = [self._start(utterance, is_live=False) for utterance in utterances]
        parts: dict[int, list[np.ndarray]] = {id(speech): [] for speech in speeches}
        for speech, chunk in self._drive_all(speeches):
            parts[id(speech)].append(chunk.samples)
        return [speech.result(np.concatenate(parts[id(speech)])) for speech in speeches]

    def group(self, *, num_reserved: int = 0) -> SpeechGroup:
        """Utterances that join and leave while others are spoken; see `SpeechGroup`."""
        return SpeechGroup(self.engine, self._start, num_reserved=num_reserved)

    def _start(self, utterance: Utterance | Plan, *, is_live: bool) -> Speech:
        started_s = time.perf_counter()
        plan = utterance if isinstance(utterance, Plan) else self.plan(utterance)
        reference, prompt = plan.utterance.reference, plan.utterance.prompt
        return self._new_speech(
            plan,
            is_live=is_live,
            started_s=started_s,
            reference=self.encode(reference) if reference else None,
            prompt=self.encode(prompt, pad_left=True) if prompt else None,
        )

    def _new_speech(self, plan: Plan, **given: Any) -> Speech:
        return Speech(plan, self.engine.model, **given)

    def voice_counts(self) -> dict[str, int]:
        """Work that voices took so far: recordings encoded, their positions prefilled or shared."""
        prefixes = self.engine.runner.prefixes
        return {
            "recordings_encoded": self.num_encoded,
            "prefixes_run": prefixes.num_run,
            "prefixes_shared": prefixes.num_shared,
        }

    def encode(self, recording: Recording, *, pad_left: bool = False) -> np.ndarray:
        """Latents `[A, P, D]` of a recording; the same recording is encoded once.

        Args:
            pad_left: complete the first patch instead of the last, as speech to continue needs.
        """
        if recording.latents is not None:
            return recording.latents
        key = (recording.key, pad_left)
        if key not in self._latents:
            assert recording.samples is not None
            began_s = time.perf_counter()
            rate = self.engine.model.info.reference_sample_rate
            samples = resample(recording.samples, recording.sample_rate, rate)
            self._latents[key] = self.engine.model.encode_audio(samples, pad_left=pad_left)
            self.num_encoded += 1
            self.encode_s += time.perf_counter() - began_s
            while len(self._latents) > MAX_CACHED_RECORDINGS:
                self._latents.popitem(last=False)
        self._latents.move_to_end(key)
        return self._latents[key]

    def _drive(self, speeches: Sequence[Speech]) -> Iterator[AudioChunk]:
        for _, chunk in self._drive_all(speeches):
            yield chunk

    def _drive_all(self, speeches: Sequence[Speech]) -> Iterator[tuple[Speech, AudioChunk]]:
        """Step the engine until every speech is done; aborts what is left when closed early."""
        with SpeechGroup(self.engine, self._start, speeches) as group:
            while not group.is_idle:
                for speech, event in group.step():
                    if isinstance(event, VoxError):
                        raise event
                    yield speech, event

    def close(self) -> None:
        """Abort what runs."""
        self.engine.abort([*self.engine.scheduler.waiting, *self.engine.scheduler.running])
