"""A server in a process of its own, which goes on when the command that started it has ended."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from voxcli.config import EngineConfig
from voxcli.errors import OutputError, UsageError

if TYPE_CHECKING:
    import subprocess

    from voxcli.engine.remote.place import Place

NEEDED = ("fastapi", "uvicorn", "websockets", "prometheus_client", "python_multipart")
HELD = "_VOXCLI_HELD"  # the descriptor by which a server in the background gets its place


def leave_server(spec: str, config: EngineConfig, idle_s: float) -> bool:
    """Start a server that speaks as this command did, and do not wait for it.

    Where a server runs, or the command was not to use one, none is started.

    Args:
        spec: who was to speak, as for `open_engine`.
        config: of the engine.
        idle_s: the server ends when nobody used it for so long.

    Returns:
        whether one was started.
    """
    from voxcli.engine.choose import AUTO

    if spec != AUTO or os.name != "posix":
        return False
    from voxcli.engine.remote.place import Place

    place = Place.default()
    if place.holder() is not None:
        return False
    words = ["serve", "--no-port", "--idle", f"{idle_s:g}", "--model", config.model]
    words += ["--device", config.device, "--precision", config.precision]
    words += ["--threads", str(config.threads), *(["--eager"] if config.eager else [])]
    try:
        child = spawn(place, {"model": config.model, "idle_s": idle_s, "status": "starting"}, words)
        child.returncode = 0  # nobody waits for it, which Python else warns of
    except (UsageError, OutputError):  # somebody has the place, or nobody can: no harm is done
        return False
    return True


def spawn(place: Place, info: dict[str, Any], words: list[str]) -> subprocess.Popen[bytes]:
    """A server in a process of its own, which has the place from now on.

    Args:
        info: what the place says of it until it speaks for itself.
        words: of its command line.

    Raises:
        HeldError: another server has the place.
        OutputError: the place cannot be used.
    """
    import subprocess

    hold = place.hold()
    try:
        hold.write(info)
        with place.open_log() as log:
            child = subprocess.Popen(  # -P: not a folder of that name in the present one
                [sys.executable, "-P", "-m", "voxcli", *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                pass_fds=(hold.file.fileno(),), env={**os.environ, HELD: str(hold.file.fileno())},
            )  # fmt: skip
    except BaseException:
        hold.release()
        raise
    hold.file.close()  # the child has it open
    return child
