"""What the routes share: the worker, the model's facts, planning and counting.

It knows no HTTP. Planning runs beside the event loop: a long text takes a while to be prepared.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from voxcli.config import EngineConfig
from voxcli.errors import VoxError
from voxcli.hub import ModelFiles, encoder_checksum, locate_model
from voxcli.plan import Plan, VoiceModel, make_plan
from voxcli.server.encoder import Encoder
from voxcli.server.listener import Listener
from voxcli.server.metrics import Metrics
from voxcli.server.worker import EngineWorker
from voxcli.engine.base import Setup
from voxcli.engine.native.engine import Synthesizer
from voxcli.utterance import Mode, Recording, Utterance
from voxcli.voices import Encoding, VoiceStore

NUM_PLANNERS = 2

T = TypeVar("T")

Fingerprint = tuple[tuple[str, int, int, int], ...]  # name, size, time, inode of each file


@dataclass(frozen=True)
class Service:
    """One model behind the routes.

    Attributes:
        files: of the model; None for one that is no files, in tests.
        url: where it listens, for messages.
        num_restarts: fresh processes that went on after a fault.
        store: of the saved voices.
        checksum: of what encodes recordings.
    """

    worker: EngineWorker
    model: VoiceModel
    config: EngineConfig = field(default_factory=EngineConfig)
    files: ModelFiles | None = None
    cache_dir: Path | None = None
    offline: bool = False
    url: str = ""
    num_restarts: int = 0
    started: int = field(default_factory=lambda: int(time.time()))
    store: VoiceStore = field(default_factory=VoiceStore)
    checksum: str = field(init=False)
    loaded_files: Fingerprint = field(init=False)
    metrics: Metrics = field(init=False)
    planners: ThreadPoolExecutor = field(init=False, repr=False)
    encoder: Encoder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        paths = self.files.files if self.files else ()
        object.__setattr__(self, "loaded_files", fingerprint(paths))
        checksum = encoder_checksum(self.files) if self.files else ""
        object.__setattr__(self, "checksum", checksum)
        object.__setattr__(self, "metrics", Metrics(self.worker, self.num_restarts))
        object.__setattr__(self, "planners", ThreadPoolExecutor(NUM_PLANNERS, "planner"))
        object.__setattr__(self, "encoder", Encoder(self.worker))

    @property
    def synthesizer(self) -> Synthesizer:
        """The loaded model.

        Raises:
            UnavailableError: not loaded, or not any more.
        """
        self.worker.check_ready()
        assert self.worker.synthesizer is not None
        return self.worker.synthesizer

    def ender(self, listener: Listener) -> Callable[[str], None]:
        """What a response calls when it ends: counts it and frees its slot."""

        def end(outcome: str) -> None:
            listener.close()
            self.metrics.end(outcome, listener)

        return end

    async def plan(self, utterance: Utterance) -> Plan:
        """As `make_plan`, with the recordings of a voice by name, and beside other clients."""
        return await self.beside(lambda: make_plan(self._with_voice(utterance), self.model))

    async def beside(self, work: Callable[[], T]) -> T:
        """Work for another thread than that of the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.planners, work)

    def _with_voice(self, utterance: Utterance) -> Utterance:
        if utterance.voice in (None, "default") or utterance.mode is not Mode.ZERO_SHOT:
            return utterance
        assert utterance.voice is not None
        voice = self.store.find(utterance.voice)
        return voice.apply(utterance, self.model.name, self.checksum)

    async def encode(self, recording: Recording) -> Encoding:
        """What the model hears in a recording."""

        return Encoding(
            self.model.name,
            self.checksum,
            await self.encoder.encode(recording),
            await self.encoder.encode(recording, pad_left=True) if recording.text else None,
        )


def fingerprint(paths: tuple[Path, ...]) -> Fingerprint:
    """Tells files apart without reading them; the served ones were checked before they loaded."""
    found = [(path, path.stat()) for path in paths]
    return tuple((path.name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for path, stat in found)


def mismatch(
    service: Service,
    *,
    model: str,
    device: str,
    precision: str,
    eager: bool,
    cache_dir: str | None,
    folder: str | None,
    is_near: bool,
) -> str | None:
    """Why this engine cannot stand in for the one that a command would load; None if it can.

    Args: as `hot.client.Wanted`; `is_near` when the command runs on this machine, so that its files
        can be compared.
    """
    from voxcli.engine.native.device import resolve_device

    setup = service.synthesizer.setup
    if eager:
        return "--eager asks for an engine of its own"
    if not is_near:
        if model != setup.model:
            return f"it serves model '{setup.model}', not '{model}'"
    elif not _has_same_files(service, model, cache_dir, folder):
        return f"it serves another model than '{model}': {setup.model}"
    if is_near or device != "auto":
        try:
            wanted_device = str(resolve_device(device).torch_device)
        except VoxError as err:
            return err.message
        if wanted_device != setup.device_type:
            return f"it runs on {setup.device_type}, not on {wanted_device}"
    if (is_near or precision != "auto") and setup.precision != _resolved(precision, service, setup):
        return f"it computes in {setup.precision}"
    return None


def _has_same_files(
    service: Service, model: str, cache_dir: str | None, folder: str | None
) -> bool:
    assert service.files is not None
    served = service.files
    name = model
    if folder is not None and model != served.name and (Path(folder) / model).is_dir():
        name = str(Path(folder) / model)
    try:
        at = locate_model(name, cache_dir=Path(cache_dir) if cache_dir else service.cache_dir)
        names = [path.relative_to(served.folder) for path in served.files]
        return fingerprint(tuple(at.folder / each for each in names)) == service.loaded_files
    except (VoxError, OSError):
        return False


def _resolved(precision: str, service: Service, setup: Setup) -> str:
    """What a command's own engine would compute in."""
    if precision != "auto":
        return precision
    if service.config.precision == "auto":
        return setup.precision
    return "fp32" if setup.device_type == "cpu" else "bf16"
