"""`GraphRunner`: one CUDA graph a step, captured at start-up and replayed for every request.

A graph holds a whole step of one bucket (number of rows) under one solver setting: noise from
(seed, step), the flow-matching solve, the language models with their cache writes, the stop head
and, on a branch of its own beside the language models, the vocoder. Rows that a batch does not fill
work on a reserved slot. Prompts are graphs too: several texts together, each padded to a length, or
one with audio; longer ones run eagerly, between replays.

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
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from voxcli import kernels
from voxcli.engine.memory import GIB, free_memory, require_memory
from voxcli.engine.prefixes import PrefixCache
from voxcli.engine.prompts import (
    PromptShape,
    StaticPrompts,
    audio_shape,
    group_texts,
    prompt_shapes,
)
from voxcli.engine.request import Request
from voxcli.engine.runner import Result
from voxcli.errors import EngineError
from voxcli.layers import noise
from voxcli.models.base import AcousticModel, Rows

logger = logging.getLogger(__name__)

BUCKETS = (1, 2, 4, 8, 16, 32, 64, 96, 128)

MAIN_PRIORITY = -1  # of the captured stream; the vocoder's branch has 0, which is lower

Setting = tuple[int, bool]  # solver steps, guided or not


@dataclass(frozen=True)
class StaticRows:
    """What graphs read and write; allocated once.

    Attributes:
        inputs: int64 `[5, R]`: slot, position, seed, step, guidance (its float32 bits).
        cfg: float32 `[R]`, a view of the last row of inputs.
        samples: float32 `[R, S]`.
        ends: bool `[R]`.
    """

    inputs: Tensor
    cfg: Tensor
    samples: Tensor
    ends: Tensor

    @classmethod
    def allocate(cls, num_rows: int, hop_length: int, device: torch.device) -> StaticRows:
        inputs = torch.zeros(5, num_rows, dtype=torch.int64, device=device)
        return cls(
            inputs=inputs,
            cfg=inputs[4].view(torch.float32)[::2],  # little-endian: the low half
            samples=torch.zeros(num_rows, hop_length, device=device),
            ends=torch.zeros(num_rows, dtype=torch.bool, device=device),
        )


@dataclass(frozen=True)
class HostRows:
    """Pinned copies of one launch's inputs and outputs; shapes as in `StaticRows`."""

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
        num_slots: requests that run at once; the state has one slot more, for unused rows.
        num_positions: static length of a slot.
        settings: solver settings to capture. A step under another one runs eagerly, with a warning
            in the log, because capturing under load would stall everyone.
    """

    def __init__(
        self,
        model: AcousticModel,
        device: torch.device,
        num_slots: int,
        num_positions: int,
        settings: Sequence[Setting],
    ) -> None:
        self.model = model
        self.device = device
        self.dummy_slot = num_slots
        self.buckets = [size for size in BUCKETS if size < num_slots] + [num_slots]
        self.prompt_shapes = prompt_shapes(self.buckets, num_positions)
        self.graph_captures = 0
        self.num_eager_steps = 0
        self.capture_s = 0.0
        self.compile_s = 0.0
        self.capture_bytes = 0
        self.prefixes: PrefixCache | None = None
        self._graphs: dict[tuple[Setting, int], torch.cuda.CUDAGraph] = {}
        self._prompt_graphs: dict[PromptShape, torch.cuda.CUDAGraph] = {}
        self._in_flight: dict[Setting, Launch] = {}
        self._launched: WeakKeyDictionary[Request, int] = WeakKeyDictionary()
        self._normal = _noise_function(device)
        hop_length = model.info.hop_length
        require_memory(
            device,
            model.state_bytes(num_slots + 1, num_positions),
            f"{num_slots + 1} slots of {num_positions} positions",
            "lower max_slots or max_positions",
        )
        with torch.inference_mode(), torch.cuda.device(device):
            self.state = model.new_state(num_slots + 1, num_positions)
            self._static = StaticRows.allocate(num_slots, hop_length, device)
            self._prompts = StaticPrompts.allocate(
                self.prompt_shapes, model.info.patch_shape, device
            )
            # the vocoder takes what the language models beside it leave of the card
            self._main = torch.cuda.Stream(device, priority=MAIN_PRIORITY)  # type: ignore[no-untyped-call]
            self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._host_free: list[HostRows] = []
        self._capture(settings)

    # ------------------------------------------------------------ capture

    def _step(self, num_rows: int, setting: Setting) -> None:
        """One whole step of the first rows of the static buffers, on the device alone."""
        static = self._static
        slots, positions, seeds, steps, _ = static.inputs[:, :num_rows].unbind()
        P, D = self.model.info.patch_shape
        num_steps, is_guided = setting
        rows = Rows(
            slots=slots,
            positions=positions,
            noise=self._normal(seeds, steps, P * D).view(-1, P, D),
            cfg=static.cfg[:num_rows].contiguous(),
            num_steps=num_steps,
            is_guided=is_guided,
        )
        output = self.model.generate(self.state, rows)
        # the vocoder needs the patch alone: it runs beside the language models
        main = torch.cuda.current_stream(self.device)
        self._side.wait_stream(main)
        with torch.cuda.stream(self._side):
            samples = self.model.vocode(self.state, slots, output.patches.unsqueeze(1))
            static.samples[:num_rows] = samples
        self.model.advance(self.state, rows, output.patches)
        static.ends[:num_rows] = output.is_end
        main.wait_stream(self._side)

    @torch.inference_mode()
    def _capture(self, settings: Sequence[Setting]) -> None:
        """Capture every bucket under every setting: the largest first, into one pool."""
        started = time.perf_counter()
        reserved = torch.cuda.memory_reserved(self.device)
        self._static.inputs[0].fill_(self.dummy_slot)
        steps = [
            (partial(self._step, num_rows, setting), (setting, num_rows))
            for num_rows in reversed(self.buckets)
            for setting in settings
        ]
        prompts = [(partial(self._prefill_rows, shape), shape) for shape in self.prompt_shapes]
        pool: Any = None
        try:
            with torch.cuda.device(self.device):
                # prompts of all sizes share their kernels
                self._compile([function for function, _ in [*steps, *prompts[:1], *prompts[-1:]]])
                for function, key in steps:
                    graph = self._graphs[key] = self._capture_one(function, pool)
                    pool = pool or graph.pool()
                for function, shape in prompts:
                    self._prompt_graphs[shape] = self._capture_one(function, pool)
        except torch.OutOfMemoryError as err:
            free, total = (size / GIB for size in free_memory(self.device))
            raise EngineError(
                f"capturing graphs for up to {self.dummy_slot} requests at once needs more GPU "
                f"memory than there is: {free:.1f} of {total:.1f} GiB are left ({err})",
                hint="lower max_slots or max_positions, or run without graphs: --eager",
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

    def _prefill_rows(self, shape: PromptShape) -> None:
        """The prompts in the static buffers, on the device alone."""
        slots, last, token_ids = self._prompts.rows(shape)
        audio = self._prompts.audio(shape) if shape.has_audio else None
        self.model.prefill_rows(self.state, token_ids, slots, last, audio)

    # ------------------------------------------------------------ running

    @torch.inference_mode()
    def prefill(self, requests: Sequence[Request]) -> None:
        """Run the prompts of newcomers into their slots."""
        texts = [request for request in requests if not len(request.prompt.patches)]
        for shape, group in group_texts(texts, self.prompt_shapes):
            self._prefill_group(shape, group)
        for request in requests:
            if len(request.prompt.patches):
                self._prefill_group(audio_shape(request, self.prompt_shapes), [request])

    def _prefill_group(self, shape: PromptShape | None, requests: Sequence[Request]) -> None:
        if shape is None:
            for request in requests:
                self.model.prefill(self.state, request.prompt, _slot(request))
            return
        with torch.cuda.device(self.device):
            self._prompts.upload(shape, requests, self.dummy_slot)
            self._prompt_graphs[shape].replay()
        for request in requests:
            if request.prompt.is_continuation:
                self.model.resume(self.state, _slot(request), request.prompt.patches)

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
        num_rows = next(size for size in self.buckets if size >= len(requests))
        host = self._host_free.pop() if self._host_free else self._new_host()
        inputs = host.inputs.numpy()
        inputs[:, :num_rows] = 0
        inputs[0, :num_rows] = self.dummy_slot
        for row, request in enumerate(requests):
            step = self._step_of(request)
            self._launched[request] = step + 1
            inputs[:4, row] = (request.slot, len(request.prompt) + step, request.seed, step)
        inputs[4].view(np.float32)[: 2 * len(requests) : 2] = [r.cfg for r in requests]
        with torch.cuda.device(self.device):
            self._static.inputs.copy_(host.inputs, non_blocking=True)
            self._run(num_rows, setting)
            used = slice(len(requests))
            host.samples[used].copy_(self._static.samples[used], non_blocking=True)
            host.ends[used].copy_(self._static.ends[used], non_blocking=True)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record()
        return Launch(requests, host, done)

    def _new_host(self) -> HostRows:
        return HostRows.allocate(self.dummy_slot, self.model.info.hop_length)

    def _run(self, num_rows: int, setting: Setting) -> None:
        graph = self._graphs.get((setting, num_rows))
        if graph is not None:
            graph.replay()
            return
        if self.num_eager_steps == 0:
            logger.warning("no graph for (steps, is_guided) = %s: running eagerly", setting)
        self.num_eager_steps += 1
        self._step(num_rows, setting)

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


def _slot(request: Request) -> int:
    assert request.slot is not None
    return request.slot


def _noise_function(device: torch.device) -> Callable[[Tensor, Tensor, int], Tensor]:
    if not kernels.is_available(device):
        return noise.normal
    from voxcli.kernels.noise import normal

    return normal
