"""Compile in child processes what would be launched, on a processor without a card.

Inside `Compilers` a launch under `kernels.launch.naming` only names a kernel and what it is
specialised for; a child compiles it and builds its launcher into Triton's own cache on disk, where
the process that has the card finds both. Children inherit what is imported, so that one import
serves them all; threads of one process would wait for Python's lock instead.

Does not know models: whoever launches inside decides what is compiled. For a process of its own:
Triton's driver is replaced by one that has no card.
"""

from __future__ import annotations

import os
import pickle
import socket
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any, Self

from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import CudaLauncher, CudaUtils
from triton.compiler import make_backend
from triton.runtime import driver
from triton.runtime.cache import triton_key

WARP_SIZE = 32
MAX_BYTES = 1 << 16  # of one kernel's name and specialisation


class _NoCard:
    """What Triton asks of its driver before it launches something."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self._target = GPUTarget("cuda", 10 * capability[0] + capability[1], WARP_SIZE)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return self._target


class Compilers:
    """Children that compile; all have ended when the block ends.

    Args:
        capability: of the card that the kernels are for.
        num_processes: children.

    Attributes:
        num_kernels: named so far.
        has_failed: whether a child met an error; known when the block has ended.
    """

    def __init__(self, capability: tuple[int, int], num_processes: int) -> None:
        self.num_kernels = 0
        self.has_failed = False
        self._num_processes = num_processes
        self._named: set[tuple[str, str]] = set()
        driver.set_active(_NoCard(capability))

    def __enter__(self) -> Self:
        self._jobs, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # forking takes long in a large process: a child does it while kernels are named here
        self._parent = _fork(lambda: self._fork_all(theirs))
        theirs.close()
        knobs.runtime.jit_cache_hook = self._name
        return self

    def __exit__(self, *_: object) -> None:
        knobs.runtime.jit_cache_hook = None
        self._jobs.close()
        self.has_failed = not _has_ended_well(self._parent)

    def _name(self, *, key: str, fn: Any, compile: dict[str, Any], **_: Any) -> bool:
        """Triton's hook before it compiles; True tells it that there is nothing to do."""
        if (fn.name, key) not in self._named:
            self._named.add((fn.name, key))
            self.num_kernels += 1
            function = fn.jit_function
            self._jobs.send(
                pickle.dumps((fn.module, function.__name__, compile["specialization_data"]))
            )
        return True

    def _fork_all(self, jobs: socket.socket) -> bool:
        """The children's parent: whether all of them end well."""
        self._jobs.close()
        # what every child would do: hash all of Triton, ask the assembler's version, import
        triton_key()
        make_backend(driver.active.get_current_target()).hash()
        import_module("triton.compiler.code_generator")
        children = [_fork(_build_utilities)]
        children += [_fork(lambda: _compile_all(jobs)) for _ in range(self._num_processes)]
        jobs.close()
        return all([_has_ended_well(child) for child in children])


def _fork(work: Callable[[], bool]) -> int:
    """A child that does some work; its exit code says whether that went well."""
    child = os.fork()
    if child:
        return child
    has_gone_well = False
    try:
        has_gone_well = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(not has_gone_well)  # nothing of the parent's is cleaned up here
    return 0


def _has_ended_well(child: int) -> bool:
    return os.waitpid(child, 0)[1] == 0


def _build_utilities() -> bool:
    """What Triton's driver loads kernels with."""
    CudaUtils()
    return True


def _compile_all(jobs: socket.socket) -> bool:
    """Kernels and their launchers, one after the other, until no more are named."""
    while job := jobs.recv(MAX_BYTES):
        module, name, specialization = pickle.loads(job)
        kernel = getattr(import_module(module), name).preload(specialization)
        CudaLauncher(kernel.src, kernel.metadata)
    return True
