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
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from voxcli.config import EngineConfig, SamplingParams
from voxcli.engine.base import EngineFacts, Setup, SpeechEngine
from voxcli.engine.calls import CalledSpeech, CallSession, LoopThread, Piece, SegmentCall
from voxcli.engine.planning import PlannedModel, make_plan, one_recording, planned_model
from voxcli.engine.vllm_omni import deploy
from voxcli.engine.vllm_omni.packages import Machine, require
from voxcli.engine.vllm_omni.prompts import PROMPTS, Prompts
from voxcli.errors import EngineError, EngineFaultError, UsageError
from voxcli.hub.catalog import BUNDLED
from voxcli.hub.files import ModelFiles, model_checksum
from voxcli.models.served import ServedModel
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.utterance import FinishReason, Recording, Use, Utterance, VoiceEncoding

logger = logging.getLogger(__name__)

NAME = "vLLM-Omni"
SEEDS_EVERYWHERE = (0, 30)  # from here on the deploy file's seed counts where a call has none
TELL_S = 15.0  # between two notes while it starts
WARM_FRAMES = 12  # of a warm-up: its graphs are captured after three steps
WARM_TEXT = "The ferry leaves at noon."
SHUTDOWN_S = 30.0
EMPTY = np.zeros(0, np.float32)


class VllmOmniEngine(SpeechEngine):
    """See `SpeechEngine` for the contract of each method.

    Args:
        files: of the model, found and checked.
        config: device and streams at once; what it cannot be told is refused.
        on_note: told what its long start is doing.
        machine: what is installed; this machine's where it is None.

    Raises:
        EngineError: the packages are not there, do not go together, or cannot run here.
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
            UsageError: besides, what vLLM-Omni cannot do.
        """
        if utterance.continuity:
            raise UsageError(
                f"{NAME} cannot let a segment continue the one before", hint="drop --continuity"
            )
        for recording in filter(None, (utterance.reference, utterance.prompt)):
            if recording.samples is None:
                raise UsageError(
                    f"{NAME} has to hear a recording, and only an encoding of it is kept",
                    hint="add the voice from its recording",
                )
        utterance = one_recording(utterance, self.facts.modes, self._served.max_told_s)
        return make_plan(self._served.check(utterance), self._planned)

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
        self._folder = tempfile.TemporaryDirectory(prefix="voxcli-omni-")
        self._loop = LoopThread("vllm-omni")
        try:
            with _environment(self._config), self._told("starts; its first start compiles"):
                self._loop.run(self._open(Path(self._folder.name)))
            import_s = time.perf_counter() - began_s
            if self.facts.family == "voxcpm2":
                for size in deploy.buckets(self._config.max_slots):
                    with self._told(f"captures the graph for {size} at once"):
                        self._loop.run(self._warm(size))
        except BaseException:
            self.close()
            raise
        self._setup = Setup(
            model=self.facts.model,
            device=f"{NAME} {'.'.join(map(str, self._machine.release))}",
            device_type=self._config.device,
            precision="bf16",
            threads=0,
            load_s=time.perf_counter() - began_s,
            import_s=import_s,
        )

    async def _open(self, folder: Path) -> None:
        try:
            import vllm_omni
            from transformers import AutoTokenizer

            base = Path(vllm_omni.__file__).parent / "deploy" / f"{self.facts.family}.yaml"
            path = deploy.write(
                folder / "deploy.yaml", base, self.facts.family, self._config.max_slots
            )
            self._omni = vllm_omni.AsyncOmni(
                model=str(self._files.folder), deploy_config=str(path), trust_remote_code=True
            )
            tokenizer = AutoTokenizer.from_pretrained(
                str(self._files.folder), trust_remote_code=True, padding_side="left"
            )
            hf_config = self._omni.engine.stage_vllm_configs[0].model_config.hf_config
            self._prompts = PROMPTS[self.facts.family](self._served, hf_config, tokenizer)
        except Exception as err:
            logger.exception("%s did not start", NAME)
            raise EngineError(
                f"{NAME} did not start: {_line(err)}", hint="look at what it printed above"
            ) from err

    async def _warm(self, num_rows: int) -> None:
        plan = self.plan(Utterance(WARM_TEXT, sampling=SamplingParams(seed=0)))
        calls = [
            SegmentCall(plan, WARM_TEXT, seed, WARM_FRAMES, is_live=False)
            for seed in range(num_rows)
        ]
        await asyncio.gather(*(self._to_end(call) for call in calls))

    async def _to_end(self, call: SegmentCall) -> None:
        async with aclosing(self.speak(call)) as pieces:  # type: ignore[type-var]
            async for _ in pieces:
                pass

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
        # NOTE: the package's tokenizer takes one call at a time, so prompts are made on the loop
        prompt = self._prompts(call)
        self._check_alive()
        self._num_calls += 1
        try:
            # NOTE: in 0.26 only closing the generator ends a request, and nothing but this
            generator = self._omni.generate(
                prompt,
                request_id=f"voxcli-{self._num_calls}",
                sampling_params_list=self._sampling(call),
                output_modalities=["audio"],
            )
            async with aclosing(generator) as outputs:
                async for output in outputs:
                    piece = self._piece(output)
                    if len(piece.samples) or piece.reason is not None:
                        yield piece
                    if piece.reason is not None:
                        return
        except EngineError:
            raise
        except Exception as err:
            self._check_alive()
            raise EngineError(f"{NAME} failed: {_line(err)}") from err

    def _check_alive(self) -> None:
        if self._omni.errored:
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

    def _piece(self, output: Any) -> Piece:
        """What a message brings; the last may have no samples."""
        made = output.outputs[0] if output.outputs else None
        samples, tokens, reason = EMPTY, 0, None
        if made is not None:
            sound = getattr(made, "multimodal_output", None)
            samples = self._samples(sound) if sound else EMPTY
            tokens = len(made.token_ids or ())
        if output.finished:
            is_cut = made is not None and made.finish_reason == "length"
            reason = FinishReason.LENGTH if is_cut else FinishReason.STOP
        return Piece(samples, tokens, reason)

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
        """End every session and its processes; always safe."""
        for session in tuple(self._sessions):
            session.close()
        omni, self._omni = self._omni, None
        if self._loop is not None:
            self._loop.close()  # ends the generators, which have to be gone first
            self._loop = None
        if omni is not None:
            with suppress(Exception):
                omni.shutdown()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


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
    if config.device == "cpu":
        raise UsageError(f"{NAME} needs a card, and --device is cpu", hint="drop --device")
    if config.precision not in ("auto", "bf16"):
        raise UsageError(
            f"{NAME} computes in bf16, and --precision is {config.precision}",
            hint="drop --precision",
        )
    if config.eager:
        raise UsageError(f"{NAME} knows no --eager", hint="drop it, or use --engine native")


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
    _, _, card = config.device.partition(":")
    if card:
        os.environ["CUDA_VISIBLE_DEVICES"] = _visible(int(card))
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _visible(card: int) -> str:
    """A card, counted among those that this process may see."""
    seen = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
    if seen and card >= len(seen):
        raise UsageError(f"--device is cuda:{card}", hint=f"there are {len(seen)} cards")
    return seen[card] if seen else str(card)


def _line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
