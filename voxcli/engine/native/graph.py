"""`GraphRunner`: one graph a step, captured at start-up and replayed for every request.

A graph holds one function of `program.py`: a whole step of one bucket (number of rows) under one
graph key, or prompts of one shape. In a step the vocoder runs on a branch of its own beside the
language models. A key without a graph is refused: capturing under load would make everyone wait,
and so would a step that is launched piece by piece.

The host never waits for the step it has just launched: `decode` launches a step and returns the
results of the one before. They leave the card when the vocoder ends, beside the language models. A
step that was launched before its request turned out to be finished is discarded. A frame here is
its samples, so `vocode` has only to join them.

Knows no model family. Letters: `R` rows of the largest bucket, `S` samples a frame.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from voxcli.engine.native.card import Card, Event, Graph
from voxcli.engine.native.memory import require_memory
from voxcli.engine.native.prefilling import Prefilling
from voxcli.engine.native.program import NUM_OWN, Program, StepKey
from voxcli.engine.native.request import Request
from voxcli.engine.native.running import NO_SAMPLES, Result
from voxcli.errors import EngineError
from voxcli.models.base import GraphKey, SpeechModel
from voxcli.models.data import PromptShape

logger = logging.getLogger(__name__)

LOWER = "lower --max-slots"  # what makes everything smaller that is sized here


@dataclass(frozen=True)
class HostRows:
    """The host's copies of one launch's inputs and outputs; shapes as in `program.StaticRows`."""

    inputs: Tensor
    samples: Tensor
    ends: Tensor

    @classmethod
    def like(cls, program: Program, *, is_pinned: bool) -> HostRows:
        rows = program.rows
        return cls(*(
            torch.zeros_like(each, device="cpu", pin_memory=is_pinned)
            for each in (rows.inputs, rows.samples, rows.ends)
        ))  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """A step on its way: whose rows it has, where its results arrive, and when."""

    requests: list[Request]
    host: HostRows
    done: Event


class GraphRunner:
    """Captured execution on a card; the methods are those of `runner.Runner`.

    Args:
        model: a loaded model.
        card: where it is.
        num_slots: requests that run at once.
        num_positions: static length of a slot.
        cheapest: graph keys to capture steps for; for each the one that launches the same kernels,
            and fewest, which makes them ready.
        is_compiled: asked before the first kernel is needed; True where all of them are in Triton's
            cache.
    """

    def __init__(
        self,
        model: SpeechModel,
        card: Card,
        num_slots: int,
        num_positions: int,
        cheapest: Mapping[GraphKey, GraphKey],
        is_compiled: Callable[[], bool],
    ) -> None:
        self.keys: tuple[GraphKey, ...] | None = tuple(cheapest)
        self.graph_captures = 0
        self.capture_s = 0.0
        self.compile_s = 0.0
        self.capture_bytes = 0
        self._card = card
        self._graphs: dict[StepKey, Graph] = {}
        self._prompt_graphs: dict[PromptShape, Graph] = {}
        self._in_flight: dict[GraphKey, Launch] = {}
        self._launched: WeakKeyDictionary[Request, int] = WeakKeyDictionary()
        require_memory(
            card.device,
            Program.state_bytes(model, num_slots, num_positions),
            f"{num_slots} slots of {num_positions} positions",
            LOWER,
        )
        with torch.inference_mode(), card.current():
            self._branch = card.branch()
            self.program = Program(model, card.device, num_slots, num_positions, self._branch)
        graphs = self._prompt_graphs
        self._prefilling = Prefilling(self.program, lambda shape: graphs[shape].replay())
        self.prefixes = self._prefilling.prefixes
        self._host_free: list[HostRows] = []
        self._capture(cheapest, is_compiled)

    # ------------------------------------------------------------ capture

    @torch.inference_mode()
    def _capture(
        self, cheapest: Mapping[GraphKey, GraphKey], is_compiled: Callable[[], bool]
    ) -> None:
        """Capture every bucket under every key: the largest first, into one pool."""
        started = time.perf_counter()
        reserved = self._card.reserved_bytes()
        self.program.rows.inputs[0].fill_(self.program.dummy_slot)
        program = self.program
        steps, prompts = list(program.steps(tuple(cheapest))), list(program.prompts())
        try:
            with self._card.current():
                if not is_compiled():
                    self._compile(program.with_all_kernels(tuple(dict.fromkeys(cheapest.values()))))
                for function, (key, num_rows) in steps:
                    cheap = partial(program.step, num_rows, cheapest[key])
                    # the first run of a key makes what the model keeps for it
                    is_first = num_rows == program.buckets[-1]
                    graph = self._capture_one(function, None if is_first else cheap)
                    self._graphs[key, num_rows] = graph
                for function, shape in prompts:
                    self._prompt_graphs[shape] = self._capture_one(function)
        except torch.OutOfMemoryError as err:
            raise EngineError(
                f"capturing graphs for up to {self.program.dummy_slot} requests at once needs more "
                f"GPU memory than there is: {self._card.memory()} ({err})",
                hint=f"{LOWER}, or run without graphs: --eager",
            ) from err
        except RuntimeError as err:
            raise EngineError(
                f"capturing the step as a CUDA graph failed: {err}",
                hint="run without graphs: --eager",
            ) from err
        self.capture_s = time.perf_counter() - started
        self.capture_bytes = self._card.reserved_bytes() - reserved
        logger.info(
            "%d graphs captured in %.1f s, %.1f s of them compiling",
            self.graph_captures, self.capture_s, self.compile_s,
        )  # fmt: skip

    def _compile(self, functions: Sequence[Callable[[], None]]) -> None:
        """Make every kernel ready, many at once; what this leaves in the dummy slot is rubbish."""
        compiling = self._card.compiling()
        if compiling is None:
            return
        started = time.perf_counter()
        with compiling:
            for function in functions:
                function()
        self.compile_s = time.perf_counter() - started

    def _capture_one(
        self, function: Callable[[], None], ready: Callable[[], None] | None = None
    ) -> Graph:
        graph = self._card.capture(function, ready)
        self.graph_captures += 1
        return graph

    # ------------------------------------------------------------ running

    @torch.inference_mode()
    def prefill(self, requests: Sequence[Request], max_positions: int) -> None:
        """Run the prompts of newcomers into their slots, at most so many positions of them."""
        with self._card.current():
            self._prefilling.run(requests, max_positions)

    @torch.inference_mode()
    def decode(self, requests: Sequence[Request]) -> list[Result]:
        """Launch the next step of requests and return what the one before gave."""
        key = requests[0].key
        before = self._in_flight.pop(key, None)
        going = [request for request in requests if self._step_of(request) < request.max_frames]
        if going:
            self._in_flight[key] = self._launch(going, key)
        return self._collect(before) if before else []

    def vocode(self, requests: Sequence[Request]) -> list[np.ndarray]:
        """Join the pending samples of each request."""
        joined: list[np.ndarray] = []
        for request in requests:
            frames = request.take_pending()
            if len(frames) != 1:
                frames = [np.concatenate(frames) if frames else NO_SAMPLES]
            joined += frames
        return joined

    def _step_of(self, request: Request) -> int:
        """The step that is to be launched next; results lag behind it."""
        return self._launched.get(request, 0)

    def _launch(self, requests: list[Request], key: GraphKey) -> Launch:
        program = self.program
        num_rows = next(size for size in program.buckets if size >= len(requests))
        host = self._host_free.pop() if self._host_free else self._new_host()
        inputs = host.inputs.numpy()
        inputs[:, :num_rows] = 0
        inputs[0, :num_rows] = program.dummy_slot
        for row, request in enumerate(requests):
            step = self._step_of(request)
            self._launched[request] = step + 1
            inputs[:NUM_OWN, row] = request.slot, len(request.prompt) + step, request.seed, step
        self._declare(requests, inputs)
        with self._card.current():
            program.rows.inputs.copy_(host.inputs, non_blocking=True)
            self._graphs[key, num_rows].replay()
            used = slice(len(requests))
            with self._branch.behind():
                host.samples[used].copy_(program.rows.samples[used], non_blocking=True)
                host.ends[used].copy_(program.rows.ends[used], non_blocking=True)
                done = self._card.event()
        return Launch(requests, host, done)

    def _declare(self, requests: Sequence[Request], inputs: np.ndarray) -> None:
        """Fill the model's own row inputs; of a float32 its bits, in the low half."""
        model = self.program.model
        own = [
            model.row_values(each.prompt, each.parameters, self._step_of(each) - 1)
            for each in requests
        ]
        columns = zip(model.row_inputs, zip(*own, strict=True), strict=True)
        for row, (each, column) in enumerate(columns, start=NUM_OWN):
            if each.dtype == "int64":
                inputs[row, : len(requests)] = column
            else:
                inputs[row].view(np.float32)[: 2 * len(requests) : 2] = column

    def _new_host(self) -> HostRows:
        return HostRows.like(self.program, is_pinned=self._card.is_pinned)

    def _collect(self, launch: Launch) -> list[Result]:
        """Wait for a launch; results of requests that ended meanwhile are dropped."""
        launch.done.synchronize()
        host = launch.host
        rows = zip(launch.requests, host.samples.numpy(), host.ends.tolist(), strict=False)
        results = [
            Result(request, samples.copy() if has_frame else None, is_end)
            for request, samples, (is_end, has_frame) in rows
            if request.finish_reason is None
        ]
        self._host_free.append(host)
        return results
