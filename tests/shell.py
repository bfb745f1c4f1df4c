"""The command line as a user starts it, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from needs import PATIENCE_S

VOXCLI = str(Path(sys.executable).with_name("voxcli"))
START_S = 120.0


def environment(place: Path, **own: str) -> dict[str, str]:
    """Settings, data and runtime files in a folder, the native engine, and what else is given."""
    run = place / "run"
    run.mkdir(mode=0o700, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VOXCLI_")}
    if threads := os.environ.get("VOXCLI_THREADS"):
        kept["VOXCLI_THREADS"] = threads
    return {
        **kept,
        "XDG_DATA_HOME": str(place / "data"), "XDG_CONFIG_HOME": str(place / "config"),
        "XDG_RUNTIME_DIR": str(run), "VOXCLI_ENGINE": "native", **own,
    }  # fmt: skip


def wait_until_ready(start: Callable[..., subprocess.Popen[str]]) -> str:
    """The URL of the server, which `start` asks by the words it is given."""
    give_up_s = time.monotonic() + START_S
    while time.monotonic() < give_up_s:
        status = start("serve", "--status", "--json")
        found = json.loads(status.communicate(timeout=PATIENCE_S)[0] or "{}")
        if found.get("status") == "ready":
            return str(found["url"])
        time.sleep(0.2)
    raise AssertionError("the server was not ready in time")


def post_speech(url: str, body: dict[str, Any]) -> bytes:
    """What the server answers to a request for speech."""
    request = urllib.request.Request(
        f"{url}/v1/audio/speech", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        data: bytes = answer.read()
    return data
