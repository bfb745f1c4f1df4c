"""The program `voxcli`, also as `python -m voxcli`.

Everything is imported inside `main`, so that Ctrl-C while modules load ends like any other Ctrl-C.
Knows nothing else: the command line and its errors are `voxcli.cli`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

_AGAIN_S = 0.01
_UNWIND_S = 5.0  # after SIGTERM; then the process ends wherever it is
_waiting: set[int] = set()  # signals that could not be raised yet


class _Terminated(SystemExit):
    """SIGTERM, on its way through every `with` block: programs that were started are ended, and
    temporary files go."""


def _take(number: int, frame: FrameType | None) -> None:
    """KeyboardInterrupt, or an end by SIGTERM, but not in a function of torch's own.

    That may be called by C++, or call C++, which ends the process where an exception comes out of
    Python, or raises one of its own instead. Nor in this function: on a busy machine it may still
    be at work for such a one when the signal comes again.
    """
    module: str = frame.f_globals.get("__name__", "") if frame is not None else ""
    if module.partition(".")[0] == "torch" or module == __name__:
        _send_again(number)
    elif number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
        main_thread = threading.main_thread().ident
        end = threading.Timer(_UNWIND_S, signal.pthread_kill, (main_thread, number))
        end.daemon = True
        end.start()
        raise _Terminated
    else:
        raise KeyboardInterrupt


def _take_unraisable(unraisable: Any) -> None:
    """Ctrl-C in a callback of the interpreter (a weak reference's, a `__del__`) would be lost."""
    if unraisable.exc_type is KeyboardInterrupt:
        _send_again(signal.SIGINT)
    elif unraisable.exc_type is _Terminated:
        _send_again(signal.SIGTERM)
    else:
        sys.__unraisablehook__(unraisable)


def _send_again(number: int) -> None:
    """Let a signal that cannot be raised now come a moment later."""
    _waiting.add(number)
    signal.signal(signal.SIGALRM, _take_waiting)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


def _take_waiting(_: int, frame: FrameType | None) -> None:
    numbers = sorted(_waiting, reverse=True)  # SIGTERM first: it ends the process
    _waiting.clear()
    for number in numbers:
        _take(number, frame)


def main() -> int:
    """Run the command line of this process and return its exit code."""
    sys.unraisablehook = _take_unraisable
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _take)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _take)
    try:
        from voxcli.process import end_with, own

        own()
        from voxcli.cli import main as run

        return end_with(run())
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from voxcli.errors import EXIT_INTERRUPTED
        from voxcli.process import end_with

        with suppress(OSError):  # not through voxcli.cli.output, which may be half loaded
            os.write(2, b"voxcli: interrupted\n")
        return end_with(EXIT_INTERRUPTED)
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)  # for who asks how it ended
        raise
    finally:  # what modules do at Python's end is not interrupted: it would show a traceback
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
