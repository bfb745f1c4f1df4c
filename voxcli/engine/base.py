"""What every engine does: state its facts, plan, open sessions.

    with open_engine("auto", config, settings) as engine:      # engine/choose.py
        plan = engine.plan(Utterance("Hello."))                # nothing is loaded yet
        engine.start([plan.parameters])
        for chunk in engine.stream(plan):
            ...

Callers ask an engine's facts, never its type. `stream` and `synthesize` are written here, once,
over a session. Knows no model, no process and no connection; imports no torch, and numpy only where
samples are joined.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from voxcli.closing import Closing
from voxcli.errors import EngineError, UsageError, VoiceNotFoundError, VoxError, nearest
from voxcli.parameters import Parameter, Value, Values, settle
from voxcli.plan import Plan
from voxcli.utterance import (
    AudioChunk,
    FinishReason,
    Mode,
    Recording,
    Result,
    SegmentReport,
    Use,
    Utterance,
    VoiceEncoding,
    finish_of,
)

if TYPE_CHECKING:
    import numpy as np

    from voxcli.voices import VoiceStore

OWN_VOICE = "default"  # the model's, by name


@dataclass(frozen=True)
class Setup:
    """What an engine runs on, and what starting it took.

    Attributes:
        device: the processor's or card's own name.
        device_type: "cpu" or "cuda:0".
        precision: "fp32", "bf16" or "fp8".
        load_s: finding the device, reading the weights, allocating the state.
        import_s: importing torch and the engine before that.
        num_captures, capture_s, capture_bytes: CUDA graphs, within `load_s`.
        kernels: instructions of the compiled kernels that a CPU uses, or None.
        warning: what the user should know about the choice of device, or None.
    """

    model: str
    device: str
    device_type: str
    precision: str
    threads: int
    load_s: float
    import_s: float = 0.0
    num_captures: int = 0
    capture_s: float = 0.0
    capture_bytes: int = 0
    kernels: str | None = None
    warning: str | None = None

    def __str__(self) -> str:
        parts = [f"{self.model} is ready on {self.device} ({self.device_type}), {self.precision}"]
        parts.append(f"{self.threads} thread{'s' if self.threads != 1 else ''}")
        if self.kernels:
            parts.append(f"kernels {self.kernels}")
        if self.num_captures:
            gigabytes = self.capture_bytes / 1e9
            parts.append(
                f"{self.num_captures} CUDA graphs in {self.capture_s:.2f} s, {gigabytes:.2f} GB"
            )
        return f"{', '.join(parts)}; imports {self.import_s:.2f} s, loading {self.load_s:.2f} s"


@dataclass(frozen=True)
class EngineFacts:
    """What an engine is and can do; known before it is started.

    Attributes:
        engine: "native", "voxcli serve" and so on.
        name: what messages call it where it is another process, such as "pid 12, http://…"; empty
            for one in this process.
        sample_rate: Hz of the speech.
        reference_sample_rate: Hz of what the model hears of a recording.
        languages: ISO 639-1 codes, the model's own first; empty means any.
        modes: what it can be given besides a text.
        voices: preset ones, by name.
        parameters: what it can be told, with ranges and defaults.
        best, clone_best: values of them that sounded best, and where a recording is imitated.
        max_streams: utterances that are spoken at once without waiting for each other.
        is_repeatable: the same seed gives the same samples.
        can_hold: it can hold a segment until it was checked, and try it again.
        can_encode: it encodes recordings, so that voices are kept encoded; else it hears a kept
            voice's recording each time.
        can_encode_beside: it may encode in another thread while a session steps.
        stages: names under which `timed_stages` counts; empty where it cannot tell.
    """

    engine: str
    model: str
    family: str
    sample_rate: int
    reference_sample_rate: int
    name: str = ""
    languages: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = tuple(Mode)
    voices: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    best: Values = field(default_factory=dict)
    clone_best: Values = field(default_factory=dict)
    max_streams: int = 1
    is_repeatable: bool = True
    can_hold: bool = True
    can_encode: bool = True
    can_encode_beside: bool = False
    stages: tuple[str, ...] = ()

    @cached_property
    def unasked(self) -> dict[bool, dict[str, Value]]:
        """All parameters as nobody asked, by whether a recording is imitated."""
        best, cloning = self.best, (dict[str, Value](), self.clone_best)
        return {
            is_cloning: settle(self.model, self.parameters, best, cloning[is_cloning])
            for is_cloning in (False, True)
        }

    @property
    def designs_voices(self) -> bool:
        """Whether nothing but words can say how its voice is to be."""
        has_voice = bool(self.voices) or Mode.REFERENCE in self.modes
        return Mode.STYLE in self.modes and not has_voice

    @property
    def is_elsewhere(self) -> bool:
        """Whether another process speaks."""
        return bool(self.name)


@dataclass(frozen=True)
class Wanted:
    """What a command would load itself; a running engine compares it with what it has.

    Attributes:
        model: as a command names it; None means whichever the engine has.
        cache_dir: the hub cache; None means the engine's own.
        folder: where the command runs, for a model that is given as a relative path.
        is_near: whether the command runs on this machine, so that its files can be compared.
        parameters: settings that the command knows it will ask for.
    """

    model: str | None
    device: str = "auto"
    precision: str = "auto"
    eager: bool = False
    cache_dir: str | None = None
    folder: str | None = None
    is_near: bool = True
    parameters: tuple[Values, ...] = ()


class Speech:
    """One utterance on its way, as its caller sees it.

    Args:
        plan: what is said.
        is_live: chunks leave as soon as they exist.
        started_s: when it was asked for, on `time.perf_counter`.

    Attributes:
        ttfa_s: from the call to the first samples on the host; None before.
        wall_s: from the call to the latest samples.
        num_samples: that have left.
        sample_rate: Hz.
        reports: of the segments that have ended, in order; whole once it is done.
        made_by: which server spoke it, where there are several.
        num_tries: that servers were asked for it.
    """

    reports: tuple[SegmentReport, ...] = ()
    is_done: bool = False
    made_by: str = ""
    num_tries: int = 1

    def __init__(self, plan: Plan, sample_rate: int, *, is_live: bool, started_s: float) -> None:
        self.plan = plan
        self.is_live = is_live
        self.sample_rate = sample_rate
        self.ttfa_s: float | None = None
        self.wall_s = 0.0
        self.num_samples = 0
        self.started_s = started_s

    @property
    def finish_reason(self) -> FinishReason:
        """How it ended; LENGTH where `max_seconds` cut it."""
        return finish_of(self.reports)

    def result(self, samples: np.ndarray) -> Result:
        """The finished utterance, with all samples that left."""
        assert self.is_done
        return Result(
            utterance=self.plan.utterance,
            samples=samples,
            sample_rate=self.sample_rate,
            seed=self.plan.seed,
            segments=self.reports,
            ttfa_s=self.ttfa_s or 0.0,
            wall_s=self.wall_s,
        )


Event = tuple[Speech, AudioChunk | VoxError]


class SpeechSession(Closing, ABC):
    """Speeches side by side on one engine. They may join and leave between steps, and fail alone.

    One thread at a time may use it; closing it aborts what is left.
    """

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether every speech has ended."""

    @property
    @abstractmethod
    def has_work(self) -> bool:
        """Whether a step would do anything: False when idle or when all that is left is paused."""

    @abstractmethod
    def add(self, plan: Plan, *, is_live: bool = True) -> Speech:
        """Let a plan join.

        Raises:
            UsageError: it cannot be spoken as it is.
        """

    @abstractmethod
    def leave(self, speech: Speech) -> None:
        """Forget one speech and free what it holds at once; always safe."""

    @abstractmethod
    def step(self) -> list[Event]:
        """Go on: compute, or wait for news.

        Returns:
            chunks that leave, each with its speech; an error in their place ends that speech alone.

        Raises:
            EngineError: the engine failed; everything in flight is lost.
        """

    def pause(self, speech: Speech) -> None:
        """Begin no further segment of it, where the engine can; what is in flight goes on."""

    def resume(self, speech: Speech) -> None:
        """The opposite of `pause`; always safe."""

    def is_waiting(self, speech: Speech) -> bool:
        """Whether nobody speaks it yet, so that who wants to stop need not wait for it."""
        return False

    def wake(self) -> None:
        """Let a `step` that waits for news return; always safe, from any thread."""


class SpeechStream(Closing, Iterator[AudioChunk]):
    """Chunks of one utterance; closing it early frees what it holds in the engine."""

    def __init__(self, session: SpeechSession, plan: Plan, *, is_live: bool) -> None:
        self._session = session
        try:
            self.speech = session.add(plan, is_live=is_live)
        except BaseException:
            session.close()
            raise
        self._ready: list[AudioChunk] = []
        self._is_closed = False

    def __next__(self) -> AudioChunk:
        while not self._ready:
            if self._session.is_idle:
                is_cut = not (self.speech.is_done or self._is_closed)
                self.close()
                if is_cut:
                    raise EngineError("the engine was closed before the speech ended")
                raise StopIteration
            try:
                for _, event in self._session.step():
                    if isinstance(event, VoxError):
                        raise event
                    self._ready.append(event)
            except BaseException:
                self.close()
                raise
        return self._ready.pop(0)

    def close(self) -> None:
        self._is_closed = True
        self._ready.clear()
        self._session.close()


class SpeechEngine(Closing, ABC):
    """Who speaks. Found and checked when it is made, ready after `start`.

    Attributes:
        facts: what it is and can do.
    """

    facts: EngineFacts

    @property
    def title(self) -> str:
        """The model as messages call it."""
        return self.facts.model

    @property
    @abstractmethod
    def setup(self) -> Setup:
        """What it runs on; once it is started."""

    def check_machine(self) -> None:
        """Refuse what `start` would because this machine lacks what was asked for by name; loads
        no model.

        Raises:
            UsageError, DeviceError: no such device, or not this number format on it.
        """

    def prepare(self) -> None:
        """Say that `start` comes next, so that it may begin beside what is done before; always
        safe, and what fails does so in `start`."""

    @abstractmethod
    def start(self, wanted: Iterable[Values] = ()) -> None:
        """Load what speaking needs; what is started already stays as it is.

        Args:
            wanted: settled parameters that will be asked for, for an engine that prepares itself
                for some; empty means the model's best.

        Raises:
            DeviceError, ModelError: it cannot be loaded.
            UsageError: it runs already and cannot be asked for these parameters.
        """

    @abstractmethod
    def plan(self, utterance: Utterance) -> Plan:
        """What would be spoken; needs no start.

        Raises:
            UsageError, TextError, VoiceNotFoundError: what cannot be spoken.
        """

    @abstractmethod
    def session(self, *, num_reserved: int = 0) -> SpeechSession:
        """Utterances that join and leave while others are spoken; starts the engine.

        Args:
            num_reserved: places that only the first segment of a speech may take, so that who joins
                beside a long text need not wait for one of its segments to end.
        """

    @abstractmethod
    def model_checksum(self) -> str:
        """SHA-256 of what decides the samples: the model's files."""

    @abstractmethod
    def encoder_checksum(self) -> str:
        """SHA-256 of what the encoding of a recording depends on."""

    @abstractmethod
    def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        """What the model hears in a recording, for each use; starts the engine.

        Raises:
            UsageError: the engine encodes no voices.
        """

    def settled(self, utterance: Utterance, *, is_cloning: bool | None = None) -> dict[str, Value]:
        """What plans of this utterance will ask of the model, whatever their text.

        Args:
            is_cloning: whether it will have recordings; None means that it has them already.

        Raises:
            UsageError: a parameter that the model does not have; a value out of range.
        """
        facts = self.facts
        if is_cloning is None:
            is_cloning = utterance.mode is not Mode.ZERO_SHOT
        given = utterance.sampling.parameters
        if not given:
            return dict(facts.unasked[is_cloning])
        cloning: Values = facts.clone_best if is_cloning else {}
        return settle(self.title, facts.parameters, facts.best, cloning, given)

    def begin(self, plan: Plan, *, takes_integers: bool = False) -> None:
        """Say that `stream` of this plan, live, comes next, so that work may begin already.

        Args:
            takes_integers: the caller takes chunks whose samples are `Pcm` as well.
        """

    def stream(self, utterance: Utterance | Plan, *, is_live: bool = True) -> SpeechStream:
        """Speak one utterance, chunk by chunk.

        Args:
            is_live: chunks leave as soon as they exist; False holds each segment until it is whole
                and checked, which is what allows it to be tried again.

        Raises:
            UsageError, TextError: as `plan`, or it cannot be spoken as it is.
            SynthesisError, EngineError: while iterating.
        """
        plan = utterance if isinstance(utterance, Plan) else self.plan(utterance)
        self.start([plan.parameters])
        return SpeechStream(self.session(), plan, is_live=is_live)

    def synthesize(
        self, utterances: Sequence[Utterance | Plan], *, progress: bool = False
    ) -> list[Result]:
        """Speak utterances side by side; results in the order given.

        Args:
            progress: show a bar of the utterances that are done on stderr.

        Raises:
            as `plan` and `stream`; the first failure ends the call.
        """
        import numpy as np
        from tqdm import tqdm

        plans = [each if isinstance(each, Plan) else self.plan(each) for each in utterances]
        self.start([plan.parameters for plan in plans])
        parts: dict[Speech, list[np.ndarray]] = {}
        with (
            self.session() as session,
            tqdm(total=len(plans), unit="utterance", disable=not progress) as bar,
        ):
            speeches = [session.add(plan, is_live=False) for plan in plans]
            while not session.is_idle:
                for speech, event in session.step():
                    if isinstance(event, VoxError):
                        raise event
                    parts.setdefault(speech, []).append(event.samples)
                    bar.update(event.is_last)
        return [speech.result(np.concatenate(parts[speech])) for speech in speeches]

    def voice_counts(self) -> dict[str, float]:
        """Work that voices took so far in this process; empty where it is not known."""
        return {}

    def server_counts(self) -> dict[str, dict[str, float | str]]:
        """What each server did so far, by its name; empty where there are not several."""
        return {}

    def num_settings(self) -> int:
        """Settings of the model, among those that are spoken now, that share no step."""
        return 0

    def card_memory(self) -> dict[str, float]:
        """Bytes of a card that this process has "allocated" and "reserved"; empty without one."""
        return {}

    def timed_stages(
        self, seconds: dict[str, float], clock: Callable[[], float] = time.perf_counter
    ) -> AbstractContextManager[None]:
        """Add the time of each of `facts.stages` to `seconds` while the block runs."""
        return nullcontext()

    def mismatch(self, wanted: Wanted) -> str | None:
        """Why it cannot stand in for the engine a command would open itself; None if it can."""
        return None if wanted.model == self.facts.model else f"it serves '{self.facts.model}'"

    def check_up(self) -> None:
        """Raise UnavailableError where who speaks is gone for a moment, and will be back; from any
        thread."""

    def in_voice(self, utterance: Utterance, store: VoiceStore | None = None) -> Utterance:
        """The utterance with the recordings that a voice by name stands for.

        Args:
            store: of the saved voices; None means the user's own.

        Raises:
            VoiceNotFoundError: no such voice, or not for this model.
            VoiceFileError: its file is damaged.
            UsageError: it is a saved one, and the model imitates none.
        """
        name = utterance.voice
        if name in (None, OWN_VOICE) or utterance.mode is not Mode.ZERO_SHOT:
            return utterance
        own = {each.casefold(): each for each in self.facts.voices}
        if preset := own.get(str(name).casefold()):
            return replace(utterance, voice=preset)
        from voxcli.voices import VoiceStore

        try:
            voice = (store or VoiceStore()).find(str(name))
        except VoiceNotFoundError as err:
            if own:
                err.hint = f"{nearest(str(name), own.values())}its own: {', '.join(own.values())}"
            from voxcli.hub.catalog import models_with_voice

            if others := models_with_voice(str(name)):
                err.hint = f"it is a voice of: {', '.join(others)}"
            raise
        self.require(Mode.REFERENCE)
        if not self.facts.can_encode:
            return voice.recorded(utterance)
        return voice.apply(utterance, self.facts.model, self.encoder_checksum())

    def require(self, mode: Mode) -> None:
        """Refuse what the model has no mode for.

        Raises:
            UsageError: with the models that have it.
        """
        if mode not in self.facts.modes:
            from voxcli.hub.catalog import models_with

            others = ", ".join(models_with(mode, self.facts.family)) or "none that voxcli knows"
            hint = f"models with it: {others}"
            raise UsageError(f"model '{self.title}' has no {mode} mode", hint=hint)


def uses_of(recording: Recording) -> tuple[Use, ...]:
    """What a recording can be used for: with a transcript also to be continued."""
    return (Use.REFERENCE, Use.PROMPT) if recording.text.strip() else (Use.REFERENCE,)
