"""A model of a given true size with random weights: speed without a checkpoint, never speech.

Nothing in random weights ends a speech, so a fixed number of frames ends each utterance, and the
output guard is not asked. A configuration is all that is needed; a tokenizer beside it is used.
Knows no family by name.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from voxcli.audio.joins import PauseFitter
from voxcli.config import EngineConfig
from voxcli.engine.native.engine import NativeEngine
from voxcli.engine.native.request import Request
from voxcli.engine.native.speech import NativeSpeech
from voxcli.engine.planning import PlannedModel
from voxcli.errors import CheckpointError, UsageError
from voxcli.hub.catalog import ModelSettings
from voxcli.models import family_of
from voxcli.models.base import ArrayModel, SpeechModel
from voxcli.models.settings import read_json
from voxcli.plan import Plan
from voxcli.utterance import FinishReason

OPTION = "--dummy-weights"
WHOLE_TEXT = 100_000  # characters: one segment an utterance


class AllLeaves(PauseFitter):
    """Random samples leave at once: how loud they are means nothing."""

    def push(self, samples: np.ndarray) -> np.ndarray:
        return samples


class FixedLengthSpeech(NativeSpeech):
    """Speech that ends after a given number of frames and is not judged."""

    def __init__(
        self, plan: Plan, model: SpeechModel | ArrayModel, *, num_frames: int, **given: Any
    ) -> None:
        super().__init__(plan, model, **given)
        self._num_frames = num_frames
        self._pauses = AllLeaves()

    def next_request(self) -> Request | None:
        request = super().next_request()
        if request is not None:
            request.max_frames = request.min_frames = self._num_frames
        return request

    def accept(self, request: Request, samples: np.ndarray, reason: FinishReason | None) -> None:
        run = self._runs[self._by_request[request]]
        if self.ttfa_s is None:
            self.ttfa_s = time.perf_counter() - self.started_s
        run.chunks.append(samples)
        if reason is not None:
            del self._by_request[request]
            run.report = run.report_of(self.sample_rate, reason)


class RandomEngine(NativeEngine):
    """A `NativeEngine` over random weights, whose utterances all have as many frames.

    Args:
        path: a config.json or its folder; needs no weights beside it.
        config: what the engine is built from.
        num_frames: of each utterance.

    Raises:
        UsageError: the configuration is not there, not readable, of a family that voxcli does not
            have, or lacks something.
    """

    def __init__(self, path: Path, config: EngineConfig, num_frames: int) -> None:
        self._values = _read(path)
        self._folder = path if path.is_dir() else path.parent
        self._num_frames = num_frames
        with _refused():
            family = family_of(self._values, str(path))
            facts = family.facts(self._folder, self._values)
        settings = ModelSettings(max_chars=WHOLE_TEXT)
        self._prepare(PlannedModel(str(path), family, facts, settings), config)

    def _load(self, began_s: float) -> None:
        from voxcli.engine.native.core import EngineCore
        from voxcli.engine.native.device import resolve_device, resolve_dtype, set_threads

        started_s, config = time.perf_counter(), self.config
        device = resolve_device(config.device)
        threads = set_threads(config.threads)
        dtype = resolve_dtype(config.precision, device.torch_device, 0)
        with _refused():
            model = self._family.load_random(
                self._values, self._folder, device.torch_device, dtype, is_native=config.native
            )
        core = EngineCore(model, device.torch_device, config)
        self._run_on(core, device, dtype, threads, started_s, started_s - began_s)

    def _new_speech(self, plan: Plan, **given: Any) -> NativeSpeech:
        assert self.core is not None
        return FixedLengthSpeech(plan, self.core.model, num_frames=self._num_frames, **given)


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path / "config.json" if path.is_dir() else path)
    except CheckpointError as err:
        hint = "give a config.json or its folder"
        raise UsageError(f"{OPTION}: {err.message}", hint=hint) from err


@contextmanager
def _refused() -> Iterator[None]:
    """What is wrong with a configuration that a user typed is a wrong option."""
    try:
        yield
    except CheckpointError as err:
        raise UsageError(f"{OPTION}: {err.message}", hint=err.hint) from err
