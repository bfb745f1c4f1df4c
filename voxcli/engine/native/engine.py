"""`NativeEngine`: this package's own engine, in this process.

Its facts and plans come from the model's files, so nothing heavy is imported before `start`, which
loads the model, allocates the state of every slot and captures graphs. One thread at a time may use
it; on a CPU `encode` may run in a second one meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from voxcli.config import EngineConfig
from voxcli.engine.base import EngineFacts, Setup, SpeechEngine, SpeechSession, Wanted
from voxcli.engine.native.beside import Beside
from voxcli.engine.native.host import cpu_name, threads_of, why_torch
from voxcli.engine.planning import PlannedModel, make_plan, planned_model
from voxcli.errors import UsageError
from voxcli.hub.files import ModelFiles, encoder_checksum, model_checksum
from voxcli.parameters import Value, Values, settle
from voxcli.plan import Plan
from voxcli.process import quick_imports
from voxcli.utterance import Recording, Use, Utterance, VoiceEncoding

if TYPE_CHECKING:
    import numpy as np
    import torch

    from voxcli.engine.native.core import EngineCore
    from voxcli.engine.native.device import Device
    from voxcli.engine.native.session import NativeSession, Routes
    from voxcli.engine.native.speech import NativeSpeech
    from voxcli.models.base import ArrayLoader, ArrayModel

logger = logging.getLogger(__name__)

MAX_CACHED_RECORDINGS = 64  # encoded ones: a few megabytes in all
STAGES = ("prefill", "decode", "vocode")


class NativeEngine(SpeechEngine):
    """See `SpeechEngine` for the contract of each method.

    Args:
        files: of the model, found and checked.
        config: what the engine is built from.

    Attributes:
        config: with the graphs that are captured, once it is started.
        core: the running engine; None before.
    """

    def __init__(self, files: ModelFiles, config: EngineConfig) -> None:
        from voxcli.engine.native.matching import fingerprint

        self._prepare(planned_model(files), config)
        self.files: ModelFiles | None = files
        self.loaded_files = fingerprint(files)

    def _prepare(self, model: PlannedModel, config: EngineConfig) -> None:
        self.files = None
        self.config = config
        self.core: EngineCore | None = None
        self.num_encoded = 0
        self.encode_s = 0.0
        assert model.family is not None
        self._planned = model
        self._family = model.family
        self._setup: Setup | None = None
        self._loading: Beside[ArrayModel | None] | None = None
        self._routes: Routes = {}
        self._sessions: WeakSet[NativeSession] = WeakSet()
        self._encoder_checksum: str | None = None
        self._encoded: OrderedDict[tuple[str, Use], dict[str, np.ndarray]] = OrderedDict()
        self.facts = EngineFacts(
            engine="native",
            model=model.name,
            family=model.facts.family,
            sample_rate=model.facts.sample_rate,
            reference_sample_rate=model.facts.reference_sample_rate,
            languages=model.facts.languages,
            modes=model.facts.modes,
            voices=model.facts.voices,
            parameters=model.facts.parameters,
            best=model.settings.parameters,
            clone_best=model.settings.clone_parameters,
            max_streams=config.max_slots,
            stages=STAGES,
        )

    # ------------------------------------------------------------ before it is started

    def plan(self, utterance: Utterance) -> Plan:
        return make_plan(utterance, self._planned)

    def model_checksum(self) -> str:
        return model_checksum(self.files) if self.files else ""

    def encoder_checksum(self) -> str:
        """Read once: a server asks with every voice by name."""
        if self._encoder_checksum is None:
            self._encoder_checksum = encoder_checksum(self.files) if self.files else ""
        return self._encoder_checksum

    def mismatch(self, wanted: Wanted) -> str | None:
        from voxcli.engine.native.matching import mismatch

        return mismatch(self, wanted)

    # ------------------------------------------------------------ start

    @property
    def setup(self) -> Setup:
        assert self._setup is not None, "the engine is not started"
        return self._setup

    def check_machine(self) -> None:
        device, precision = self.config.device, self.config.precision
        if device in ("auto", "cpu") and precision != "fp8":
            return  # which every machine has; whether it has others only torch knows
        with quick_imports():
            from voxcli.engine.native.device import resolve_device, resolve_dtype

        resolve_dtype(precision, resolve_device(device).torch_device, num_bytes=0)

    def prepare(self) -> None:
        if self.core is None and self.files is not None and self._why_torch(self.files) is None:
            # NOTE: imported in this thread: two that import only wait for each other
            load = self.files.family.array_loader()
            self._loading = self._loading or Beside(partial(_load_arrays, self.files, load))

    def start(self, wanted: Iterable[Values] = ()) -> None:
        """Load the model and capture graphs for what is wanted; once.

        Raises:
            CheckpointError, DeviceError: it cannot be loaded.
            UsageError: it runs, and no graph was captured for these parameters.
        """
        wanted = tuple(wanted)
        if self.core is not None:
            for values in wanted:
                self._require_graph(values)
            return
        began_s = time.perf_counter()
        self.config = replace(self.config, graphs=self._graphs(wanted or self.config.graphs))
        self._load(began_s)

    def _graphs(self, wanted: Iterable[Values]) -> tuple[Values, ...]:
        """Full settings, one for each graph key; without any, the model's best."""
        found: dict[Any, Values] = {}
        for values in tuple(wanted) or ({},):
            for settled in self._meant(values):
                found.setdefault(self._key_of(settled), settled)
        return tuple(found[key] for key in sorted(found))

    def _meant(self, values: Values) -> list[dict[str, Value]]:
        """Full settings: what is left out is the model's best, without a recording and with one."""
        best, facts = self._planned.settings, self.facts
        return [
            settle(facts.model, facts.parameters, best.parameters, more, values)
            for more in ({}, best.clone_parameters)
        ]

    def _key_of(self, settled: Values) -> Any:
        return self._family.graph_key(self._family.parameters_of(settled))

    def captured(self, values: Values) -> str | None:
        """Why parameters cannot be asked for: no graph was captured for them. None if they can."""
        if self.core is None or self.core.keys is None:
            return None
        for settled in self._meant(values):
            if self._key_of(settled) not in self.core.keys:
                there = "; ".join(_show(each) for each in self.config.graphs)
                return f"no graph was captured for {_show(settled)}; captured: {there}"
        return None

    def _require_graph(self, values: Values) -> None:
        if why := self.captured(values):
            raise UsageError(why, hint="use a captured one, or start again with --graphs")

    def _load(self, began_s: float) -> None:
        assert self.files is not None
        why_torch = self._why_torch(self.files)
        if why_torch is None:
            if self._start_arrays(self.files, began_s):
                return
            why_torch = "there are no native kernels, or the model's numbers are not those of fp16"
        logger.info("importing torch: %s", why_torch)
        self._load_tensors(self.files, began_s)

    def _why_torch(self, files: ModelFiles) -> str | None:
        return why_torch(self.config, files.num_bytes)

    def _start_arrays(self, files: ModelFiles, began_s: float) -> bool:
        """Run a model in arrays; False where it has none."""
        self.prepare()
        from voxcli.engine.native import session  # noqa: F401  # beside the loading
        from voxcli.engine.native.core import EngineCore
        from voxcli.kernels import native
        from voxcli.layers import cores

        started_s = time.perf_counter()
        assert self._loading is not None
        model = self._loading.result()
        self._loading = None
        if model is None:
            return False
        threads = threads_of(self.config.threads)
        logger.info("loaded %s without torch", files.name)
        cores.set_num_threads(threads)
        self.core = EngineCore(model, None, self.config)
        self._setup = Setup(
            model=self.facts.model,
            device=cpu_name(),
            device_type="cpu",
            precision="fp32",
            threads=threads,
            load_s=time.perf_counter() - started_s,
            import_s=started_s - began_s,
            kernels=native.find().detail,
        )
        self.facts = replace(self.facts, can_encode_beside=True)
        logger.info("%s", self._setup)
        return True

    def _load_tensors(self, files: ModelFiles, began_s: float) -> None:
        from voxcli.engine.native.ahead import Ahead

        config, num_bytes = self.config, files.num_bytes
        with Ahead.begin(files.folder, files.family, config) as ahead:  # before torch is imported
            with quick_imports():
                from voxcli.engine.native.card import loading_beside
                from voxcli.engine.native.core import EngineCore
                from voxcli.engine.native.device import resolve_device, resolve_dtype, set_threads
                from voxcli.engine.native.memory import require_memory

            started_s = time.perf_counter()
            device = resolve_device(config.device, num_bytes)
            threads = set_threads(config.threads)
            dtype = resolve_dtype(config.precision, device.torch_device, num_bytes)
            require_memory(
                device.torch_device,
                num_bytes * dtype.itemsize // 2,  # files hold two bytes a number
                f"the weights of {files.name}",
                "use a smaller model, --precision bf16 or fp8, or --device cpu",
            )
            files.require_whole()
            logger.info("loading %s on %s", files.name, device.name)
            is_card = device.torch_device.type == "cuda"
            with loading_beside(device.torch_device) if is_card else nullcontext():
                model = files.family.load(
                    files.folder, device.torch_device, dtype, is_native=config.native
                )
            logger.info("preparing %s for %d streams", files.name, config.max_slots)
            core = EngineCore(model, device.torch_device, config, ahead.is_ready)
        self._run_on(core, device, dtype, threads, started_s, started_s - began_s)

    def _run_on(
        self, core: EngineCore, device: Device, dtype: torch.dtype, threads: int,
        started_s: float, import_s: float,
    ) -> None:  # fmt: skip
        """Take over a core that is ready.

        Args:
            started_s: on `time.perf_counter`, behind the imports.
            import_s: what those took.
        """
        from voxcli.engine.native.device import PRECISION_NAMES, kernels_of

        device_type = str(device.torch_device)
        self.core = core
        self._setup = Setup(
            model=self.facts.model,
            device=device.name,
            device_type=device_type,
            precision=PRECISION_NAMES[dtype],
            threads=threads,
            load_s=time.perf_counter() - started_s,
            import_s=import_s,
            num_captures=core.runner.graph_captures,
            capture_s=core.runner.capture_s,
            capture_bytes=core.runner.capture_bytes,
            kernels=kernels_of(device.torch_device, is_wanted=self.config.native),
            warning=device.warning,
        )
        self.facts = replace(self.facts, can_encode_beside=device_type == "cpu")
        logger.info("%s", self._setup)

    # ------------------------------------------------------------ speaking

    def session(self, *, num_reserved: int = 0) -> SpeechSession:
        self.start()
        from voxcli.engine.native.session import NativeSession

        assert self.core is not None
        session = NativeSession(
            self.core, self._start_speech, self._routes, num_reserved=num_reserved
        )
        self._sessions.add(session)
        return session

    def _start_speech(self, plan: Plan, *, is_live: bool) -> NativeSpeech:
        started_s = time.perf_counter()
        self._require_graph(plan.parameters)
        reference, prompt = plan.utterance.reference, plan.utterance.prompt
        return self._new_speech(
            plan,
            is_live=is_live,
            started_s=started_s,
            reference=self._arrays(reference, Use.REFERENCE) if reference else None,
            prompt=self._arrays(prompt, Use.PROMPT) if prompt else None,
        )

    def _new_speech(self, plan: Plan, **given: Any) -> NativeSpeech:
        from voxcli.engine.native.speech import NativeSpeech

        assert self.core is not None
        return NativeSpeech(plan, self.core.model, **given)

    # ------------------------------------------------------------ voices

    def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        self.start()
        if self.setup.device_type == "cpu":  # the number is a thread's own, and shows in the bits
            from voxcli.engine.native.device import set_threads

            set_threads(self.setup.threads)
        arrays: dict[str, np.ndarray] = {}
        for use in uses:
            arrays |= self._arrays(recording, use)
        return VoiceEncoding(self.facts.model, self.encoder_checksum(), arrays)

    def _arrays(self, recording: Recording, use: Use) -> dict[str, np.ndarray]:
        """What the model hears of a recording; the same recording is encoded once."""
        assert self.core is not None
        model = self.core.model
        if recording.encoding is not None:
            arrays = dict(recording.encoding.arrays)
            if not model.can_take(arrays, use):
                raise UsageError("the recording was encoded for another model", hint="encode it")
            return arrays
        key = (recording.key, use)
        if key not in self._encoded:
            from voxcli.audio.resample import resample

            assert recording.samples is not None
            began_s = time.perf_counter()
            rate = model.info.reference_sample_rate
            samples = resample(recording.samples, recording.sample_rate, rate)
            if self.core.device is None:
                self._import_torch()
            self._encoded[key] = model.encode_recording(samples, use)
            self.num_encoded += 1
            self.encode_s += time.perf_counter() - began_s
            while len(self._encoded) > MAX_CACHED_RECORDINGS:
                self._encoded.popitem(last=False)
        self._encoded.move_to_end(key)
        return self._encoded[key]

    def _import_torch(self) -> None:
        """Let a model in arrays, which imports torch for recordings, find it there as if it had
        been there from the start."""
        with quick_imports():
            from voxcli.engine.native.device import set_threads

            set_threads(self.setup.threads)

    def voice_counts(self) -> dict[str, float]:
        """Recordings encoded and the seconds that took; beginnings of prompts run and shared."""
        if self.core is None:
            return {}
        prefixes = self.core.runner.prefixes
        return {
            "recordings_encoded": self.num_encoded,
            "encode_s": self.encode_s,
            "prefixes_run": prefixes.num_run,
            "prefixes_shared": prefixes.num_shared,
        }

    # ------------------------------------------------------------ measuring

    def num_settings(self) -> int:
        return 0 if self.core is None else self.core.num_keys

    def card_memory(self) -> dict[str, float]:
        if self._setup is None or self._setup.device_type == "cpu":
            return {}
        import torch

        return {
            "allocated": torch.cuda.memory_allocated(),
            "reserved": torch.cuda.memory_reserved(),
        }

    @contextmanager
    def timed_stages(
        self, seconds: dict[str, float], clock: Callable[[], float] = time.perf_counter
    ) -> Iterator[None]:
        """Time the stages one by one, which costs the overlap that a real run has.

        On a card each stage is followed by a synchronisation; on a CPU the vocoder is waited for.
        """
        self.start()
        from voxcli.engine.native.stages import timed

        assert self.core is not None
        with timed(self.core, STAGES, seconds, clock):
            yield

    def close(self) -> None:
        """End every session; always safe."""
        for session in tuple(self._sessions):
            session.close()


def _load_arrays(files: ModelFiles, load: ArrayLoader) -> ArrayModel | None:
    """Load a model; that its files are damaged is said before all else."""
    try:
        return load(files.folder)
    finally:
        files.require_whole()


def _show(values: Values) -> str:
    """ "steps 10, guidance_scale 2"."""
    return ", ".join(f"{name} {value:g}" for name, value in values.items())
