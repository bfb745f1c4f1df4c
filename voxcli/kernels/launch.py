"""How kernels are launched: early, and compiled many at once.

Programmatic dependent launch: a kernel starts while the one before it still runs. Between small
kernels the launch gap costs as much as the work. A kernel launched with `options(device)` may start
early; it calls `wait` before it touches anything that earlier kernels write. Until then it reads
weights, which nothing writes, and a step's slots and positions, which are there before it begins.
Needs compute capability 9.0; `wait` is a no-op elsewhere. Every kernel that is launched so must
call `wait`, because completion is only transitive through it.

Compiling: Triton compiles a kernel at its first launch, half a second each. Inside `compiling`
nothing is launched; every kernel that would be is handed to a pool of threads instead. Only
Triton's passes run without Python's lock, so `ahead.py`, in a process of its own, is faster.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from voxcli.kernels import capability, compiling_alone

logger = logging.getLogger(__name__)

MAX_COMPILERS = 32  # threads
MAX_STREAMS = 128  # torch has 32 of each priority, which it hands out again and again


@cache
def has_early_launch(device: torch.device) -> bool:
    return capability(device) >= (9, 0)


@cache
def options(device: torch.device) -> dict[str, Any]:
    """Launch options and the constant `EARLY` that kernels hand to `wait`."""
    if has_early_launch(device):
        return {"EARLY": True, "launch_pdl": True}
    return {"EARLY": False}


@cache
def _all_counters(device: torch.device) -> tuple[torch.Tensor, dict[int, int]]:
    """Counters of every stream, and which row is whose."""
    return torch.zeros(MAX_STREAMS, 4096, dtype=torch.int32, device=device), {}


def counters(device: torch.device) -> torch.Tensor:
    """Zeros, for programs of one kernel to count themselves; every kernel leaves them as zeros.

    Each stream has its own, because kernels of two streams may run at the same time. Memory is
    there from the first call on, which must not be in a capture.
    """
    rows, row_of = _all_counters(device)
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    return rows[row_of.setdefault(stream, len(row_of))]


@cache
def stages_that_fit(wanted: int, stage_bytes: int, device: torch.device) -> int:
    """How many stages of a pipeline fit into the shared memory; some cards have half as much."""
    if device.type != "cuda":
        return wanted
    properties = torch.cuda.get_device_properties(device)
    room: int = properties.shared_memory_per_block_optin  # type: ignore[attr-defined]
    return min(wanted, room // stage_bytes)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Launch a kernel, or only compile it inside `compiling`."""
    if compiling_alone.get():
        kernel.warmup(*arguments, grid=grid, **constants)
    else:
        kernel[grid](*arguments, **constants)


@contextmanager
def compiling(device: torch.device) -> Iterator[None]:
    """Compile what is launched in here; all of it is ready to run when the block ends.

    Outputs of kernels stay as they were allocated, so nothing computed inside may be used.
    """
    token = compiling_alone.set(True)
    num_threads = min(MAX_COMPILERS, os.cpu_count() or 1)
    try:
        with ThreadPoolExecutor(num_threads) as pool:
            started = time.perf_counter()
            with triton.AsyncCompileMode(pool) as mode:
                yield
                submitted = time.perf_counter()
            made = [future.result() for future in mode.future_kernels.values()]
            compiled = time.perf_counter()
            list(pool.map(lambda kernel: _load(kernel, device), made))
            logger.debug(
                "%d kernels: submitted in %.1f s, compiled in %.1f s, loaded in %.1f s", len(made),
                submitted - started, compiled - submitted, time.perf_counter() - compiled,
            )  # fmt: skip
    finally:
        compiling_alone.reset(token)


@contextmanager
def naming() -> Iterator[None]:
    """Only tell Triton's hook what would be launched in here; see `ahead.py`."""
    token = compiling_alone.set(True)
    try:
        yield
    finally:
        compiling_alone.reset(token)


def _load(kernel: Any, device: torch.device) -> None:
    """Load a kernel and build its launcher, which takes the C compiler a moment."""
    with torch.cuda.device(device):
        _ = kernel.run


@triton.jit
def wait(EARLY: tl.constexpr):
    """Let the next kernel start, then wait until all before this one are complete."""
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()
