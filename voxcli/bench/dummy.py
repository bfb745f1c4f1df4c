"""A model of a given true size with random weights: speed without a checkpoint, never speech.

The stop head of random weights never stops, so a fixed number of patches ends each utterance, and
the output guard is not asked. Without tokenizer files a stand-in makes about 0.3 tokens a
character, the rate of a large English vocabulary.
"""

from __future__ import annotations

import math
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from voxcli.audio.joins import PauseFitter
from voxcli.hub.catalog import ModelSettings
from voxcli.config import EngineConfig
from voxcli.engine.native.device import resolve_device, resolve_dtype, set_threads
from voxcli.engine.native.core import Engine
from voxcli.engine.native.request import Request
from voxcli.errors import CheckpointError, UsageError
from voxcli.models import FAMILIES
from voxcli.models.base import AcousticModel
from voxcli.plan import Plan, VoiceModel
from voxcli.engine.native.speech import Speech
from voxcli.engine.native.engine import Synthesizer, setup_of
from voxcli.utterance import FinishReason, SegmentReport

TOKENS_PER_CHARACTER = 0.3
WHOLE_TEXT = 100_000  # characters: one segment an utterance


class StandInTokenizer:
    """Ids within the vocabulary, as many as a real tokenizer would make; they mean nothing."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def encode(self, text: str) -> list[int]:
        count = max(1, math.ceil(TOKENS_PER_CHARACTER * len(text)))
        return [ord(char) % self._vocab_size for char in text[:count]]

    def can_say(self, character: str) -> bool:
        return True


class AllLeaves(PauseFitter):
    """Random samples leave at once: how loud they are means nothing."""

    def push(self, samples: np.ndarray) -> np.ndarray:
        return samples


class FixedLengthSpeech(Speech):
    """Speech that ends after a given number of patches and is not judged."""

    def __init__(self, plan: Plan, model: AcousticModel, *, num_patches: int, **given: Any) -> None:
        super().__init__(plan, model, **given)
        self._num_patches = num_patches
        self._pauses = AllLeaves()

    def next_request(self) -> Request | None:
        request = super().next_request()
        if request is not None:
            request.max_patches = request.min_patches = self._num_patches
        return request

    def accept(self, request: Request, samples: np.ndarray, reason: FinishReason | None) -> None:
        run = self._runs[self._by_request[request]]
        if self.ttfa_s is None:
            self.ttfa_s = time.perf_counter() - self._started
        run.chunks.append(samples)
        if reason is not None:
            del self._by_request[request]
            audio_s = sum(map(len, run.chunks)) / self._info.sample_rate
            run.report = SegmentReport(
                run.segment.text, request.seed, 1, request.step, audio_s, reason
            )


class RandomSynthesizer(Synthesizer):
    """A `Synthesizer` whose utterances all have `num_patches` patches."""

    num_patches = 0

    def _new_speech(self, plan: Plan, **given: Any) -> Speech:
        return FixedLengthSpeech(plan, self.engine.model, num_patches=self.num_patches, **given)


def random_synthesizer(
    path: Path,
    values: dict[str, Any],
    config: EngineConfig,
    num_patches: int,
    *,
    import_s: float,
) -> RandomSynthesizer:
    """Build the model that a configuration describes.

    Args:
        path: of the configuration or its folder, where a tokenizer may be.
        values: what the configuration holds.
        num_patches: of each speech.
        import_s: what importing this module took.

    Raises:
        UsageError: a setting that the family does not have or needs.
        DeviceError: the device.
    """
    package = FAMILIES[str(values["architecture"]).lower()]
    started = time.perf_counter()
    device = resolve_device(config.device)
    threads = set_threads(config.threads)
    try:
        model_config = import_module(f"{package}.config").VoxCPM2Config.from_dict(values)
        folder = path if path.is_dir() else path.parent
        if (folder / "tokenizer.json").is_file():
            tokenizer = import_module(f"{package}.tokenize").TextTokenizer(folder)
        else:
            tokenizer = StandInTokenizer(values["lm_config"]["vocab_size"])
    except CheckpointError as err:
        raise UsageError(f"--dummy-weights: {err.message}") from err
    dtype = resolve_dtype(config.precision, device.torch_device, 0)
    family = import_module(f"{package}.family")
    model = family.random_model(
        model_config, device.torch_device, dtype, tokenizer=tokenizer, is_native=config.native
    )
    engine = Engine(model, device.torch_device, config)
    setup = setup_of(engine, str(path), device, dtype, threads, started, import_s)
    settings = ModelSettings(max_chars=WHOLE_TEXT)
    voice = VoiceModel(str(path), (), settings, tokenizer.can_say)
    synthesizer = RandomSynthesizer(engine, voice, setup)
    synthesizer.num_patches = num_patches
    return synthesizer
