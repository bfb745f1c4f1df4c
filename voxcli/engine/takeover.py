"""A fresh process in the place of this one, after a fault of its device.

    raise TakeOver(fault, {"faults": [12.5]}, descriptors)  in a command that can go on
    notes = take_notes()                                    in the same command, started afresh

A fault ends every use of the device in its process, but not the work. `exec` starts the same
program with the same words and keeps the process id, the terminal and the descriptors it is given;
memory, threads and all that the process had of the device are gone.

Why no supervisor process: it would stand beside every batch and every server for the rare fault,
and would have to pass on signals, the terminal, output and exit codes, all of which `exec` keeps as
they are. Knows no command and no device.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from voxcli.errors import EngineError

# Not a VOXCLI_ variable: those are the user's settings.
VARIABLE = "_VOXCLI_NOTES"
_STANDARD = (0, 1, 2)


class TakeOver(Exception):
    """A fresh process is to go on with this command.

    Args:
        fault: what ended this one; reported where no fresh one can be started.
        notes: for the fresh one, as JSON.
        descriptors: open files and sockets that it gets under the same numbers.
    """

    def __init__(
        self, fault: EngineError, notes: dict[str, Any], descriptors: Sequence[int] = ()
    ) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.notes = notes
        self.descriptors = tuple(descriptors)


def take_notes() -> dict[str, Any]:
    """What the process before wrote for this one; empty where this is the first."""
    packed: dict[str, Any] = json.loads(os.environ.pop(VARIABLE, "{}"))
    return packed["notes"] if packed.get("pid") == os.getpid() else {}


def replace_process(end: TakeOver) -> None:
    """Start the fresh process; returns only where that cannot be."""
    if os.name != "posix":
        return
    packed = json.dumps({"pid": os.getpid(), "notes": end.notes})
    command = [sys.executable, *sys.orig_argv[1:]]
    with suppress(OSError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        _keep_only({*_STANDARD, *end.descriptors})
        os.execve(sys.executable, command, {**os.environ, VARIABLE: packed})


def _keep_only(kept: set[int]) -> None:
    """Let every other open file end with this process, also those that C libraries opened."""
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the listing itself is over
            os.set_inheritable(int(name), int(name) in kept)
