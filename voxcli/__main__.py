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
from typing import Any

_AGAIN_S = 0.01


def _send_again(unraisable: Any) -> None:
    """Let Ctrl-C that cannot be raised where it came come again: it would be lost.

    That is in a callback of the interpreter: a weak reference's, a `__del__`, a C library's.
    """
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    main_thread = threading.main_thread().ident
    again = threading.Timer(_AGAIN_S, signal.pthread_kill, (main_thread, signal.SIGINT))
    again.daemon = True
    again.start()


def main() -> int:
    """Run the command line of this process and return its exit code."""
    sys.unraisablehook = _send_again
    try:
        from voxcli.cli import main as run

        return run()
    except KeyboardInterrupt:
        from voxcli.errors import EXIT_INTERRUPTED

        with suppress(OSError):  # not through voxcli.cli.output, which may be half loaded
            os.write(2, b"voxcli: interrupted\n")
        return EXIT_INTERRUPTED
    finally:  # what modules do at Python's end is not interrupted: it would show a traceback
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
