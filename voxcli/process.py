"""What lets the program start and end sooner than Python and torch do by themselves.

A library may not decide such things for the process it is in: what is not safe for everybody is
done after `own` alone, which only the program calls.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

# torch registers in Python how operations act on tensors without data, for its compiler; of its
# import that is two fifths. Nothing that speaks has such tensors, on a card either.
_FOR_TRACING = "torch._meta_registrations"
_CARDS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # the second is WSL's

# Until `started`, objects that are made and not freed before garbage is looked for. Importing makes
# tens of thousands, and Python's 700 take a tenth of a short command's time.
_MANY_OBJECTS = 200_000

# A thread that packs weights asks for the interpreter between two short calls of C, beside one that
# imports; by itself Python lets it wait 5 ms each time.
_SWITCH_S = 0.0002

_PYTHONS = gc.get_threshold(), sys.getswitchinterval()

_is_own = False
_exit_code: int | None = None


def own() -> None:
    """Say that the process is the program's, and nobody else's."""
    global _is_own
    _is_own = True
    gc.set_threshold(_MANY_OBJECTS)
    sys.setswitchinterval(_SWITCH_S)
    # numpy's BLAS starts threads that spin when it is imported, and is asked for little
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    atexit.register(_leave)  # before all others, so that it is called after them


def started() -> None:
    """Say that the quick start is over: a process that may run for days has Python's own rules."""
    if _is_own:
        thresholds, switch_s = _PYTHONS
        gc.freeze()  # what is there stays, and is not looked through once more
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch_s)


def end_with(exit_code: int) -> int:
    """Have Python's end of the process free nothing, and return the exit code.

    Threads are waited for and what modules registered for the end is called, as always. Only then
    the process ends, instead of taking every module apart.
    """
    global _exit_code
    _exit_code = exit_code
    return exit_code


def _leave() -> None:
    if _exit_code is None:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # None when the shell closed it
                stream.flush()
    except (OSError, ValueError):  # Python reports it
        return
    os._exit(_exit_code)


def may_be_card(device: str) -> bool:
    """Whether a device as asked for may turn out to be a card."""
    has_card = not sys.platform.startswith("linux") or any(path.exists() for path in _CARDS)
    return device != "cpu" and (has_card or device.startswith("cuda"))


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import torch in the block: no garbage is looked for, and the program's torch cannot trace."""
    was_enabled = gc.isenabled()
    gc.disable()
    is_left_out = _is_own and "torch" not in sys.modules
    if is_left_out:
        sys.modules[_FOR_TRACING] = ModuleType(_FOR_TRACING)
    try:
        yield
    finally:
        if is_left_out:  # whoever imports it by name has it
            sys.modules.pop(_FOR_TRACING, None)
            if (torch := sys.modules.get("torch")) is not None:
                vars(torch).pop(_FOR_TRACING.rpartition(".")[2], None)
        if was_enabled:
            gc.enable()
