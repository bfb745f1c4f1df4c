"""The program `voxcli`, also as `python -m voxcli`.

Everything is imported inside `main`, so that Ctrl-C while modules load ends like any other Ctrl-C.
Knows nothing else: the command line and its errors are `voxcli.cli`.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress


def main() -> int:
    """Run the command line of this process and return its exit code."""
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
