"""`VllmOmniEngine`: vLLM-Omni in this process.

    with VllmOmniEngine(files, EngineConfig("openbmb/VoxCPM2"), on_note=print) as engine:
        engine.synthesize([Utterance("Hello.")])

Its `AsyncOmni` lives on an event loop of its own; each segment is one `generate`. Texts are planned
here, and what comes back passes the same guard as our own speech. It admits newcomers in waves:
none begins while any row of VoxCPM2 is being decoded. Read: vllm_omni 0.26.0 and 0.30.0.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from voxcli.config import EngineConfig, SamplingParams
from voxcli.engine.base import EngineFacts, Setup, SpeechEngine
from voxcli.engine.calls import CalledSpeech, CallSession, LoopThread, Piece, SegmentCall
from voxcli.engine.clips import plan_heard
from voxcli.engine.planning import PlannedModel, planned_model
from voxcli.engine.vllm_omni import deploy
from voxcli.engine.vllm_omni.packages import Machine, require
from voxcli.engine.vllm_omni.prompts import PROMPTS, Prompts
from voxcli.errors import EngineError, EngineFaultError, UsageError, VoxError
from voxcli.hub.catalog import BUNDLED
from voxcli.hub.files import ModelFiles, model_checksum
from voxcli.models.served import ServedModel
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.utterance import FinishReason, Recording, Use, Utterance, VoiceEncoding

logger = logging.getLogger(__name__)

NAME = "vLLM-Omni"
ELSEWHERE = "elsewhere"  # its processes have the card; who measures must not open it in this one
TELL_S = 15.0  # between two notes while it starts
WARM_FRAMES = 12  # of a warm-up: its graphs are captured after three steps
WARM_TEXT = "The ferry leaves at noon."
LEAD_TEXT = "The ferry leaves at noon, and the last one back leaves the island at half past six."
LEAD_FRAMES = 60
CARDS = "CUDA_VISIBLE_DEVICES"
WATCH_S = 1.0  # between two looks whether it lives
EMPTY = np.zeros(0, np.float32)


class VllmOmniEngine(SpeechEngine):
    """See `SpeechEngine` for the contract of each method.

    Args:
        files: of the model, found and checked.
        config: device and streams at once; what it cannot be told is refused.
        on_note: told what its long start is doing.
        machine: what is installed; this machine's where it is None.

    Raises:
        EngineError: the packages are not there, are not compatible, or cannot run here.
        UsageError: a model or a setting that it does not have.
    """

    def __init__(
        self,
        files: ModelFiles,
        config: EngineConfig,
        *,
        on_note: Callable[[str], None] = lambda note: None,
        machine: Machine | None = None,
    ) -> None:
        served = _served(files)
        _check(config)
        self._machine = machine or require(needs_voxcpm=files.family.name == "voxcpm2")
        self._files = files
        self._served = served
        self._config = config
        self._on_note = on_note
        self._planned = _planned(files, served)
        self._loop: LoopThread | None = None
        self._omni: Any = None
        self._prompts: Prompts | None = None
        self._setup: Setup | None = None
        self._num_calls = 0
        self._sessions: WeakSet[CallSession] = WeakSet()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._import_s = 0.0
        self._is_closed = self._is_dead = False
        self._dead_error: type[Exception] = EngineFaultError
        self._waiting: set[asyncio.Timeout] = set()
        facts = self._planned.facts
        self.facts = EngineFacts(
            engine="vllm-omni",
            model=files.name,
            family=facts.family,
            sample_rate=facts.sample_rate,
            reference_sample_rate=facts.reference_sample_rate,
            languages=facts.languages,
            modes=facts.modes,
            voices=facts.voices,
            parameters=facts.parameters,
            best=self._planned.settings.parameters,
            max_streams=config.max_slots,
            is_repeatable=self._machine.release >= served.seeds_since,
            can_encode=False,
        )

    # ------------------------------------------------------------ plans

    def plan(self, utterance: Utterance) -> Plan:
        """See the base.

        Raises:
            UsageError, RecordingError: besides, what vLLM-Omni cannot do.
        """
        return plan_heard(utterance, self._planned, self._served, NAME)

    def model_checksum(self) -> str:
        return model_checksum(self._files)

    def encoder_checksum(self) -> str:
        """Empty: nothing is encoded, voices are given as recordings."""
        return ""

    def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        """See the base."""
        raise UsageError(f"{NAME} encodes no voices", hint="they are kept as recordings")

    # ------------------------------------------------------------ start

    @property
    def setup(self) -> Setup:
        assert self._setup is not None, "the engine is not started"
        return self._setup

    def start(self, wanted: Iterable[Values] = ()) -> None:
        """Start its processes and warm what is captured at first use; once.

        Raises:
            EngineError: it did not come up.
        """
        if self._omni is not None:
            return
        began_s = time.perf_counter()
        self._is_closed = False
        folder = self._folder = tempfile.TemporaryDirectory(prefix="voxcli-omni-")
        loop = self._loop = LoopThread("vllm-omni")
        sizes = deploy.buckets(self._config.max_slots) if self.facts.family == "voxcpm2" else []
        try:
            with _environment(self._config):
                with self._told("starts; its first start compiles"):
                    loop.run(self._open(Path(folder.name)))
                opened_s = time.perf_counter()
                for size in sizes:
                    with self._told(f"captures the graph for {size} at once"):
                        loop.run(self._warm(size))
        except BaseException as err:
            was_closed = self._is_closed
            self.close()
            if was_closed and isinstance(err, Exception):
                raise EngineError(f"{NAME} was closed while it started") from err
            raise
        ready_s = time.perf_counter()
        self._setup = Setup(
            model=self.facts.model,
            device=f"{NAME} {self._machine.versions['vllm-omni']}",
            device_type=ELSEWHERE,
            precision="bf16",
            threads=0,
            load_s=ready_s - began_s - self._import_s,
            import_s=self._import_s,
            num_captures=len(sizes),
            capture_s=ready_s - opened_s,
        )

    async def _open(self, folder: Path) -> None:
        try:
            began_s = time.perf_counter()
            import vllm_omni
            from transformers import AutoTokenizer
            from vllm.v1.engine.exceptions import EngineDeadError

            self._import_s = time.perf_counter() - began_s
            self._dead_error = EngineDeadError
            base = Path(vllm_omni.__file__).parent / "deploy" / f"{self.facts.family}.yaml"
            path = deploy.write(
                folder / "deploy.yaml", base, self.facts.family, self._config.max_slots
            )
            omni = vllm_omni.AsyncOmni(
                model=str(self._files.folder), deploy_config=str(path), trust_remote_code=True
            )
        except Exception as err:
            raise _not_started(err) from err
        if self._is_closed:  # it could not be interrupted
            omni.shutdown()
            return
        self._omni = omni
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                str(self._files.folder), trust_remote_code=True, padding_side="left"
            )
            hf_config = omni.engine.stage_vllm_configs[0].model_config.hf_config
            self._prompts = PROMPTS[self.facts.family](self._served, hf_config, tokenizer)
        except Exception as err:
            raise _not_started(err) from err
        self._watcher = asyncio.create_task(self._watch())

    async def _warm(self, num_rows: int) -> None:
        """Have so many rows decoded at once. Who comes while a row is decoded has to wait, so one
        goes before them, and they begin together when it ends."""
        is_running = asyncio.Event()

        async def go_before() -> None:
            call = self._warm_call(LEAD_TEXT, LEAD_FRAMES, 0)
            try:
                await self._to_end(call, is_running.set)
            finally:
                is_running.set()

        async def follow(seed: int) -> None:
            await is_running.wait()
            await self._to_end(self._warm_call(WARM_TEXT, WARM_FRAMES, seed))

        rows = range(num_rows) if num_rows > 1 else ()
        await asyncio.gather(go_before(), *(follow(seed) for seed in rows))

    def _warm_call(self, text: str, max_frames: int, seed: int) -> SegmentCall:
        plan = self.plan(Utterance(text, language="en", sampling=SamplingParams(seed=seed)))
        return SegmentCall(plan, text, seed, max_frames, is_live=False)

    async def _to_end(self, call: SegmentCall, on_piece: Callable[[], None] = lambda: None) -> None:
        async with aclosing(self.speak(call)) as pieces:  # type: ignore[type-var]
            async for _ in pieces:
                on_piece()

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Say what takes long, and again as long as it does."""
        is_over = threading.Event()
        began_s = time.monotonic()

        def tell() -> None:
            while not is_over.wait(TELL_S):
                self._on_note(f"{NAME} {what}: {time.monotonic() - began_s:.0f} s")

        teller = threading.Thread(target=tell, daemon=True)
        self._on_note(f"{NAME} {what}")
        teller.start()
        try:
            yield
        finally:
            is_over.set()
            teller.join()

    # ------------------------------------------------------------ speaking

    def session(self, *, num_reserved: int = 0) -> CallSession:
        self.start()
        assert self._loop is not None
        session = CallSession(
            self._loop, self.speak, self._start_speech, self._config.max_slots,
            num_reserved=num_reserved,
        )  # fmt: skip
        self._sessions.add(session)
        return session

    def _start_speech(self, plan: Plan, *, is_live: bool, started_s: float) -> CalledSpeech:
        return CalledSpeech(
            plan, self.facts.sample_rate, self._served.frame_s,
            is_live=is_live, started_s=started_s,
        )  # fmt: skip

    async def speak(self, call: SegmentCall) -> AsyncIterator[Piece]:
        """One attempt at one segment; see `Speak`.

        Raises:
            EngineFaultError: vLLM-Omni's engine is dead.
            EngineError: it failed with this segment.
        """
        assert self._prompts is not None
        num_samples = 0
        try:
            await self._check_alive()
            # NOTE: the package's tokenizer takes one call at a time, so prompts are made here
            prompt = self._prompts(call)
            self._num_calls += 1
            # NOTE: in 0.26 only closing the generator ends a request, and nothing but this
            generator = self._omni.generate(
                prompt,
                request_id=f"voxcli-{self._num_calls}",
                sampling_params_list=self._sampling(call),
                output_modalities=["audio"],
            )
            async with aclosing(generator) as outputs:
                while (output := await self._next(outputs)) is not None:
                    piece = self._piece(output, call, num_samples)
                    num_samples += len(piece.samples)
                    if len(piece.samples) or piece.reason is not None:
                        yield piece
                    if piece.reason is not None:
                        return
        except VoxError:
            raise
        except Exception as err:
            self._is_dead |= isinstance(err, self._dead_error)
            await self._check_alive()
            raise EngineError(f"{NAME} failed: {_line(err)}") from err

    async def _next(self, outputs: AsyncIterator[Any]) -> Any:
        """The next message, or None after the last.

        Raises:
            TimeoutError: its engine has died.
        """
        async with asyncio.timeout(None) as patience:
            self._waiting.add(patience)
            try:
                return await anext(outputs, None)
            finally:
                self._waiting.discard(patience)

    async def _watch(self) -> None:
        """Let nobody wait for an engine that has died: in 0.26 it may never say so."""
        with suppress(EngineFaultError):
            while True:
                await asyncio.sleep(WATCH_S)
                await self._check_alive()
        for patience in self._waiting:
            patience.reschedule(0.0)

    async def _check_alive(self) -> None:
        # NOTE: in 0.30 `errored` stays False when a stage has died, and only its health tells
        try:
            await self._omni.check_health()
        except self._dead_error:
            self._is_dead = True
        if self._is_dead or self._omni.errored:
            raise EngineFaultError(f"{NAME}'s engine has died", hint="look at what it printed")

    def _sampling(self, call: SegmentCall) -> list[Any]:
        """Parameters of every stage: its own, with what a call changes. Each message then holds new
        samples alone; without that they repeat."""
        from vllm.sampling_params import RequestOutputKind

        stages = copy.deepcopy(list(self._omni.default_sampling_params_list))
        for stage in stages:
            stage.output_kind = RequestOutputKind.DELTA
        first = stages[0]
        first.max_tokens = self._served.limit(call.max_frames)
        if self._machine.release >= self._served.seeds_since:
            first.seed = call.seed
            if self.facts.family == "qwen3_tts":
                first.extra_args = {**(first.extra_args or {}), "tts_local_seed": call.seed}
        for name, value in call.plan.parameters.items():
            setattr(first, name, value)
        return stages

    def _piece(self, output: Any, call: SegmentCall, num_before: int) -> Piece:
        """What a message brings; the last may have no samples.

        Args:
            num_before: samples that came before.
        """
        made = output.outputs[0] if output.outputs else None
        sound = getattr(made, "multimodal_output", None)
        samples = self._samples(sound) if sound else EMPTY
        frame = self._served.frame_s * self.facts.sample_rate
        before, num_frames = (
            int(num / frame + 1e-6) for num in (num_before, num_before + len(samples))
        )
        reason = None
        if output.finished:
            is_cut = getattr(made, "finish_reason", None) == "length"
            # the last of several stages does not say why the first one ended
            is_cut |= len(self._omni.default_sampling_params_list) > 1 and (
                num_frames >= call.max_frames
            )
            reason = FinishReason.LENGTH if is_cut else FinishReason.STOP
        return Piece(samples, num_frames - before, reason)

    def _samples(self, sound: Any) -> np.ndarray:
        audio = sound.get("audio") if "audio" in sound else sound.get("model_outputs")
        if audio is None:
            return EMPTY
        parts = audio if isinstance(audio, (list, tuple)) else [audio]
        arrays = [_array(part) for part in parts]
        samples = np.concatenate(arrays) if arrays else EMPTY
        rate = sound.get("sr")
        if len(samples) and rate is not None:
            last = rate[-1] if isinstance(rate, (list, tuple)) else rate
            if int(last) != self.facts.sample_rate:
                raise EngineError(
                    f"{NAME} speaks at {int(last)} Hz where {self.facts.sample_rate} Hz are right"
                )
        return samples

    def close(self) -> None:
        """End every session and its processes; always safe, from any thread."""
        self._is_closed = True
        for session in tuple(self._sessions):
            session.close()
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()  # ends the generators, which have to be gone first
        omni, self._omni = self._omni, None
        if omni is not None:
            try:
                omni.shutdown()
            except Exception:
                logger.exception("%s did not shut down well", NAME)
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()


def _not_started(err: Exception) -> EngineError:
    logger.error("%s did not start", NAME, exc_info=err)
    why = f"{NAME} did not start: {_line(err)}"
    return EngineError(why, hint="look at what it printed above")


def _array(part: Any) -> np.ndarray:
    """Samples of a tensor or a list, float32 `[S]`."""
    found = part.detach().float().cpu().numpy() if hasattr(part, "detach") else part
    return np.asarray(found, np.float32).reshape(-1)


def _served(files: ModelFiles) -> ServedModel:
    served = files.family.served_here(files.folder, files.checkpoint.config)
    if files.name == BUNDLED or served is None or files.family.name not in PROMPTS:
        raise UsageError(
            f"{NAME} does not have the model '{files.name}'", hint="use --model openbmb/VoxCPM2"
        )
    return served


def _check(config: EngineConfig) -> None:
    """Refuse what it cannot be told."""
    if config.device == "cpu":
        raise UsageError(f"{NAME} needs a GPU, and --device is cpu", hint="drop --device")
    card = _card(config.device)
    if card is not None:
        _visible(card)
    if config.precision not in ("auto", "bf16"):
        raise UsageError(
            f"{NAME} computes in bf16, and --precision is {config.precision}",
            hint="drop --precision",
        )
    if config.eager:
        raise UsageError(f"{NAME} has no --eager", hint="drop it, or use --engine native")


def _planned(files: ModelFiles, served: ServedModel) -> PlannedModel:
    """What planning needs: the checkpoint's facts, as far as they can be asked for here."""
    planned = planned_model(files)
    asked = {each.name for each in served.facts.parameters}
    facts = replace(
        planned.facts,
        modes=tuple(mode for mode in planned.facts.modes if mode in served.facts.modes),
        parameters=tuple(each for each in planned.facts.parameters if each.name in asked),
    )
    best = {name: value for name, value in planned.settings.parameters.items() if name in asked}
    settings = replace(planned.settings, parameters=best, clone_parameters={})
    return replace(planned, name=f"{files.name} on {NAME}", facts=facts, settings=settings)


@contextmanager
def _environment(config: EngineConfig) -> Iterator[None]:
    """What its processes inherit: the card, and that nothing but results goes to stdout."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    card, kept = _card(config.device), os.environ.get(CARDS)
    if card is not None:
        os.environ[CARDS] = _visible(card)
    try:
        with _stdout_for_results():
            yield
    finally:
        if card is not None:
            os.environ.pop(CARDS)
            os.environ.update({} if kept is None else {CARDS: kept})


@contextmanager
def _stdout_for_results() -> Iterator[None]:
    """What is printed meanwhile goes to stderr, here and for ever in processes that begin."""
    if sys.stdout is None:  # closed: descriptor 1 may be another file
        yield
        return
    stdout = sys.stdout
    stdout.flush()
    kept = os.dup(1)
    other = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else os.dup(2)
    os.dup2(other, 1)
    os.close(other)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        stdout.flush()  # what came past the redirection
        os.dup2(kept, 1)
        os.close(kept)


def _card(device: str) -> int | None:
    """The number of the card that is asked for; None for any."""
    kind, separator, number = device.partition(":")
    if device in ("auto", "cuda"):
        return None
    if kind == "cuda" and separator and number.isdecimal():
        return int(number)
    raise UsageError(f"device '{device}' is unknown", hint="use auto, cuda or cuda:N")


def _visible(card: int) -> str:
    """A card, counted among those that this process may see."""
    seen = [each for each in os.environ.get(CARDS, "").split(",") if each]
    if seen and card >= len(seen):
        raise UsageError(f"--device is cuda:{card}", hint=f"GPUs here: {len(seen)}, from cuda:0")
    return seen[card] if seen else str(card)


def _line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
