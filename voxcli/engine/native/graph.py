"""`GraphRunner`: one CUDA graph a step, captured at start-up and replayed for every request.

A graph holds one function of `engine.program`: a whole step of one bucket (number of rows) under
one solver setting, or prompts of one shape. In a step the vocoder runs on a branch of its own
beside the language models.

The host never waits for the step it has just launched: `decode` launches a step and returns the
results of the one before. A step that was launched before its request turned out to be finished is
discarded. A frame here is the patch's samples, so `vocode` has only to join them.

Knows no model family. Letters: `R` rows of the largest bucket, `S` samples a patch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from voxcli import kernels
from voxcli.engine.native.memory import GIB, free_memory, require_memory
from voxcli.engine.native.prefilling import Prefilling
from voxcli.engine.native.program import Branch, Program, Setting, StepKey
from voxcli.engine.native.prompts import PromptShape
from voxcli.engine.native.request import Request
from voxcli.engine.native.runner import Result
from voxcli.errors import EngineError
from voxcli.models.base import AcousticModel

logger = logging.getLogger(__name__)

MAIN_PRIORITY = -1  # of the captured stream; the vocoder's branch has 0, which is lower
LOWER = "lower --max-slots"  # what makes everything smaller that is sized here


@dataclass(frozen=True)
class HostRows:
    """Pinned copies of one launch's inputs and outputs; shapes as in `program.StaticRows`."""

    inputs: Tensor
    samples: Tensor
    ends: Tensor

    @classmethod
    def allocate(cls, num_rows: int, hop_length: int) -> HostRows:
        is_pinned = torch.cuda.is_available()
        return cls(
            inputs=torch.zeros(5, num_rows, dtype=torch.int64, pin_memory=is_pinned),
            samples=torch.zeros(num_rows, hop_length, pin_memory=is_pinned),
            ends=torch.zeros(num_rows, dtype=torch.bool, pin_memory=is_pinned),
        )


@dataclass(frozen=True)
class Launch:
    """A step on its way: whose rows it has, where its results arrive, and when."""

    requests: list[Request]
    host: HostRows
    done: torch.cuda.Event


class GraphRunner:
    """Captured execution on a CUDA device; the methods are those of `runner.Runner`.

    Args:
        model: a loaded model.
        device: where it is.
        num_slots: requests that run at once.
        num_positions: static length of a slot.
        settings: solver settings to capture. A step under another one runs eagerly, with a warning
            in the log, because capturing under load would stall everyone.
        is_compiled: asked before the first kernel is needed; True where all of them are in Triton's
            cache.
    """

    def __init__(
        self,
        model: AcousticModel,
        device: torch.device,
        num_slots: int,
        num_positions: int,
        settings: Sequence[Setting],
        is_compiled: Callable[[], bool],
    ) -> None:
        self.device = device
        self.graph_captures = 0
        self.num_eager_steps = 0
        self.capture_s = 0.0
        self.compile_s = 0.0
        self.capture_bytes = 0
        self._graphs: dict[StepKey, torch.cuda.CUDAGraph] = {}
        self._prompt_graphs: dict[PromptShape, torch.cuda.CUDAGraph] = {}
        self._in_flight: dict[Setting, Launch] = {}
        self._launched: WeakKeyDictionary[Request, int] = WeakKeyDictionary()
        require_memory(
            device,
            Program.state_bytes(model, num_slots, num_positions),
            f"{num_slots} slots of {num_positions} positions",
            LOWER,
        )
        with torch.inference_mode(), torch.cuda.device(device):
            # the vocoder takes what the language models beside it leave of the card
            self._main = torch.cuda.Stream(device, priority=MAIN_PRIORITY)  # type: ignore[no-untyped-call]
            self.program = Program(model, device, num_slots, num_positions, Branch(device))
        graphs = self._prompt_graphs
        self._prefilling = Prefilling(self.program, lambda shape: graphs[shape].replay())
        self.prefixes = self._prefilling.prefixes
        self._host_free: list[HostRows] = []
        self._capture(settings, is_compiled)

    # ------------------------------------------------------------ capture

    @torch.inference_mode()
    def _capture(self, settings: Sequence[Setting], is_compiled: Callable[[], bool]) -> None:
        """Capture every bucket under every setting: the largest first, into one pool."""
        started = time.perf_counter()
        reserved = torch.cuda.memory_reserved(self.device)
        self.program.rows.inputs[0].fill_(self.program.dummy_slot)
        steps, prompts = list(self.program.steps(settings)), list(self.program.prompts())
        pool: Any = None
        try:
            with torch.cuda.device(self.device):
                if not is_compiled():
                    self._compile(self.program.with_all_kernels(settings))
                for function, key in steps:
                    graph = self._graphs[key] = self._capture_one(function, pool)
                    pool = pool or graph.pool()
                for function, shape in prompts:
                    self._prompt_graphs[shape] = self._capture_one(function, pool)
        except torch.OutOfMemoryError as err:
            free, total = (size / GIB for size in free_memory(self.device))
            raise EngineError(
                f"capturing graphs for up to {self.program.dummy_slot} requests at once needs more "
                f"GPU memory than there is: {free:.1f} of {total:.1f} GiB are left ({err})",
                hint=f"{LOWER}, or run without graphs: --eager",
            ) from err
        except RuntimeError as err:
            raise EngineError(
                f"capturing the step as a CUDA graph failed: {err}",
                hint="run without graphs: --eager",
            ) from err
        self.capture_s = time.perf_counter() - started
        self.capture_bytes = torch.cuda.memory_reserved(self.device) - reserved
        logger.info(
            "%d graphs captured in %.1f s, %.1f s of them compiling",
            self.graph_captures, self.capture_s, self.compile_s,
        )  # fmt: skip

    def _compile(self, functions: Sequence[Callable[[], None]]) -> None:
        """Make every kernel ready, many at once; what this leaves in the dummy slot is rubbish."""
        if not kernels.is_available(self.device):
            return
        from voxcli.kernels.launch import compiling

        started = time.perf_counter()
        with compiling(self.device):
            for function in functions:
                function()
        self.compile_s = time.perf_counter() - started

    def _capture_one(self, function: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph:
        warm = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        warm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(warm):
            function()  # loads kernels and makes the libraries' workspaces
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=self._main):
            function()
        self.graph_captures += 1
        return graph

    # ------------------------------------------------------------ running

    @torch.inference_mode()
    def prefill(self, requests: Sequence[Request], max_positions: int) -> None:
        """Run the prompts of newcomers into their slots, at most so many positions of them."""
        with torch.cuda.device(self.device):
            self._prefilling.run(requests, max_positions)

    @torch.inference_mode()
    def decode(self, requests: Sequence[Request]) -> list[Result]:
        """Launch the next step of requests and return what the one before gave."""
        setting = requests[0].solver
        before = self._in_flight.pop(setting, None)
        going = [request for request in requests if self._step_of(request) < request.max_patches]
        if going:
            self._in_flight[setting] = self._launch(going, setting)
        return self._collect(before) if before else []

    def vocode(self, requests: Sequence[Request]) -> list[np.ndarray]:
        """Join the pending samples of each request."""
        joined = []
        for request in requests:
            joined.append(torch.cat(tuple(request.pending)).numpy())
            request.num_vocoded += len(request.pending)
            request.pending.clear()
        return joined

    def _step_of(self, request: Request) -> int:
        """The step that is to be launched next; results lag behind it."""
        return self._launched.get(request, 0)

    def _launch(self, requests: list[Request], setting: Setting) -> Launch:
        program = self.program
        num_rows = next(size for size in program.buckets if size >= len(requests))
        host = self._host_free.pop() if self._host_free else self._new_host()
        inputs = host.inputs.numpy()
        inputs[:, :num_rows] = 0
        inputs[0, :num_rows] = program.dummy_slot
        for row, request in enumerate(requests):
            step = self._step_of(request)
            self._launched[request] = step + 1
            inputs[:4, row] = (request.slot, len(request.prompt) + step, request.seed, step)
        inputs[4].view(np.float32)[: 2 * len(requests) : 2] = [r.cfg for r in requests]
        with torch.cuda.device(self.device):
            program.rows.inputs.copy_(host.inputs, non_blocking=True)
            self._run(num_rows, setting)
            used = slice(len(requests))
            host.samples[used].copy_(program.rows.samples[used], non_blocking=True)
            host.ends[used].copy_(program.rows.ends[used], non_blocking=True)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record()
        return Launch(requests, host, done)

    def _new_host(self) -> HostRows:
        return HostRows.allocate(self.program.dummy_slot, self.program.model.info.hop_length)

    def _run(self, num_rows: int, setting: Setting) -> None:
        graph = self._graphs.get((setting, num_rows))
        if graph is not None:
            graph.replay()
            return
        if self.num_eager_steps == 0:
            logger.warning("no graph for (steps, is_guided) = %s: running eagerly", setting)
        self.num_eager_steps += 1
        self.program.step(num_rows, setting)

    def _collect(self, launch: Launch) -> list[Result]:
        """Wait for a launch; results of requests that ended meanwhile are dropped."""
        launch.done.synchronize()
        ends = launch.host.ends.tolist()
        results = [
            Result(request, launch.host.samples[row].clone(), ends[row])
            for row, request in enumerate(launch.requests)
            if request.finish_reason is None
        ]
        self._host_free.append(launch.host)
        return results
