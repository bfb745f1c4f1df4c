"""The engine's loop: schedule, prefill, decode, vocode, once a step.

It knows requests and frames; it does not know texts, files, utterances or model families.
"""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from voxcli.config import EngineConfig
from voxcli.engine.native.request import Request
from voxcli.engine.native.running import Runner
from voxcli.engine.native.scheduler import PrefillLimits, Scheduler
from voxcli.engine.native.turns import Turns
from voxcli.engine.native.vocoding import Vocoding
from voxcli.errors import EngineError, EngineFaultError, UsageError, VoxError
from voxcli.layers import cores
from voxcli.utterance import FinishReason

if TYPE_CHECKING:
    import numpy as np
    import torch

    from voxcli.models.base import ArrayModel, GraphKey, ModelFamily, SpeechModel
    from voxcli.models.data import ModelInfo

logger = logging.getLogger(__name__)

DEFAULT_POSITIONS = 2048  # static length of a slot where the model allows it
# A card runs 256 positions in less than a step's time of one stream (3 to 4.3 ms of 4.7), which
# grows by as much every 24 streams; and thousands at once better than a few.
PREFILL_LIMITS = {"cuda": PrefillLimits(256, 24, 16384), "cpu": PrefillLimits(1024, 24, 1024)}


def num_positions_of(info: ModelInfo, config: EngineConfig) -> int:
    """The static length of a slot."""
    return min(config.max_positions or DEFAULT_POSITIONS, info.max_positions)


def keys_of(family: ModelFamily, config: EngineConfig) -> tuple[GraphKey, ...]:
    """The graph keys that are captured: of the configured parameters, else of the defaults."""
    return tuple(cheapest_of(family, config))


def cheapest_of(family: ModelFamily, config: EngineConfig) -> dict[GraphKey, GraphKey]:
    """For each captured key the one that launches the same kernels, and fewest."""
    wanted = map(family.parameters_of, config.graphs or ({},))
    return {family.graph_key(each): family.graph_key(family.cheapest(each)) for each in wanted}


def make_runner(
    model: Any,
    device: torch.device | None,
    config: EngineConfig,
    is_compiled: Callable[[], bool],
) -> Runner:
    """Captured graphs on CUDA, eager execution elsewhere and where it is asked for."""
    num_positions = num_positions_of(model.info, config)
    if device is None:
        from voxcli.engine.native.array_runner import ArrayRunner

        return ArrayRunner(model, config.max_slots, num_positions)
    if device.type != "cuda" or config.eager:
        from voxcli.engine.native.runner import ModelRunner

        return ModelRunner(model, device, config.max_slots, num_positions)
    from voxcli.engine.native.card import CudaCard
    from voxcli.engine.native.graph import GraphRunner

    cheapest = cheapest_of(model.family, config)
    card = CudaCard(device)
    return GraphRunner(model, card, config.max_slots, num_positions, cheapest, is_compiled)


@dataclass(frozen=True)
class Output:
    """What a step produced for one request.

    Attributes:
        samples: float32 `[S]`, the new ones only; empty when none are due yet.
        finish_reason: None while the request goes on.
    """

    request: Request
    samples: np.ndarray
    finish_reason: FinishReason | None


class EngineCore:
    """A model, its slots and the requests on them.

    Args:
        model: a loaded model.
        device: where it is; None for a model in arrays.
        config: `max_slots` and `max_positions` size the state, `graphs` says what is captured.
        is_compiled: asked when kernels are needed; True where they are in Triton's cache.
        runner: what runs the model; None chooses one for the device.

    Attributes:
        keys: graph keys that requests may have; None where any runs.
    """

    def __init__(
        self,
        model: SpeechModel | ArrayModel,
        device: torch.device | None,
        config: EngineConfig,
        is_compiled: Callable[[], bool] = lambda: False,
        runner: Runner | None = None,
    ) -> None:
        self.model = model
        self.device = device
        self.runner = runner or make_runner(model, device, config, is_compiled)
        device_type = "cpu" if device is None else device.type
        self.keys: tuple[GraphKey, ...] | None = self.runner.keys
        self.scheduler = Scheduler(
            config.max_slots, num_positions_of(model.info, config), PREFILL_LIMITS[device_type]
        )
        most = cores.num_threads()
        self.vocoding = Vocoding(self.runner, min(config.threads or most, most))
        self._turns = Turns()
        self.num_runs = 0
        self.is_on_card = device_type == "cuda"
        self._fault: str | None = None

    @property
    def num_positions(self) -> int:
        """Positions a request may have in all."""
        return self.scheduler.num_positions

    @property
    def has_work(self) -> bool:
        return self.scheduler.has_work

    @property
    def num_keys(self) -> int:
        """Graph keys of the running requests; safe in any thread."""
        return len({request.key for request in tuple(self.scheduler.running)})

    def add_request(self, request: Request) -> None:
        """Queue a request.

        Raises:
            AdmissionError: it could never fit, with the numbers.
            UsageError: no graph was captured for its key.
            EngineError: the device failed before.
        """
        self._refuse_after_fault()
        if self.keys is not None and request.key not in self.keys:
            raise UsageError(
                f"no graph was captured for {request.key}",
                hint=f"captured: {', '.join(map(str, self.keys))}",
            )
        self.scheduler.add(request)

    def abort(self, requests: Iterable[Request]) -> None:
        """Forget requests; safe for finished ones."""
        dropped = list(requests)
        self.vocoding.forget(dropped)
        for request in dropped:
            self.scheduler.abort(request)

    def step(self) -> list[Output]:
        """Advance every running request by one frame, or those whose turn it is.

        Returns:
            an output for each request that has new samples or ended.

        Raises:
            EngineFaultError: the device failed. Everything in flight is aborted, and the engine
                runs nothing more: after a fault a device's results mean nothing.
            EngineError: it failed before.
        """
        self._refuse_after_fault()
        started = time.perf_counter()
        try:
            outputs = self._step()
        except VoxError:
            self._abort_all()
            raise
        except (RuntimeError, MemoryError) as err:
            self._abort_all()
            if self.is_on_card:
                _keep_for_ever(err, self.runner)
            self._fault = str(err).split("\n", 1)[0]  # CUDA adds lines of advice to programmers
            raise EngineFaultError(
                f"the engine failed: {self._fault}",
                hint="all running speech was lost; start voxcli again",
            ) from err
        self.num_runs += 1
        logger.debug("step %d: %.1f ms", self.num_runs, 1e3 * (time.perf_counter() - started))
        return outputs

    def _refuse_after_fault(self) -> None:
        if self._fault is not None:
            raise EngineError(
                f"the engine failed before and cannot run: {self._fault}",
                hint="start voxcli again",
            )

    def _step(self) -> list[Output]:
        batch = self.scheduler.schedule()
        with self.vocoding.cores_shared():
            if batch.prefill:
                self.runner.prefill(batch.prefill, batch.max_positions)
            if self.keys is None:  # captured keys are few, and whoever captured them chose them
                for group in self._turns.next(batch.decode):
                    with self._turns.taken(group):
                        self._decode(group)
            else:
                for group in batch.decode:
                    self._decode([request for request in group if request.is_prefilled])
        due = [request for request in self.scheduler.running if request.is_chunk_due]
        is_last_work = not self.scheduler.is_generating
        outputs = []
        for ready in self.vocoding.vocode(due, is_last_work=is_last_work):
            outputs.append(Output(ready.request, ready.samples, ready.finish_reason))
            if ready.finish_reason is not None:
                self.scheduler.release(ready.request)
        return outputs

    def _decode(self, group: list[Request]) -> None:
        for result in self.runner.decode(group) if group else ():
            result.request.record(result.frame, result.is_end)

    def _abort_all(self) -> None:
        self.vocoding.forget()
        self.abort([*self.scheduler.waiting, *self.scheduler.running])


def _keep_for_ever(*things: object) -> None:
    """Let Python never free what may hold page-locked memory.

    NOTE: torch asks the card whether such memory may be freed. After a fault of the card that ends
    the whole process, before anything is said.
    """
    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
