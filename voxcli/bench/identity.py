"""Who measured what on which machine: the facts without which a number means nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import voxcli
from voxcli.config import num_cores
from voxcli.engine.base import SpeechEngine
from voxcli.hub import ModelFiles, file_sha256, joint_checksum
from voxcli.parameters import Values
from voxcli.utterance import Utterance


def identity(
    engine: SpeechEngine, command: Sequence[str], seed: int, parameters: Values
) -> dict[str, Any]:
    """Everything but the model's checksum and the voice; see `checksum` and `voice_facts`.

    Args:
        engine: started.
        parameters: of the model, all of them, as the first prompt has them.
    """
    facts, setup = engine.facts, engine.setup
    return {
        "tool": "voxcli",
        "version": voxcli.__version__,
        "commit": commit(),
        "model": setup.model,
        "engine": facts.engine,
        "engine_name": facts.name or None,
        "parameters": dict(parameters),
        "max_slots": facts.max_streams,
        "precision": setup.precision,
        "device": setup.device_type,
        "device_name": setup.device,
        **gpu_facts("" if facts.is_elsewhere else setup.device_type),
        **({"torch": None, "cuda": None} if facts.is_elsewhere else torch_facts()),
        "threads": setup.threads,
        "usable_cores": num_cores(),
        "native_kernels": setup.kernels,
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        "load_average_1m": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "os": platform.platform(),
        "python": platform.python_version(),
        "command": list(command),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
    }


def torch_facts() -> dict[str, Any]:
    """Which torch this process has, and what that was built for."""
    import torch

    return {"torch": torch.__version__, "cuda": torch.version.cuda}


def voice_facts(manner: Utterance) -> dict[str, Any]:
    """Whose voice: its name or file, a hash of what the model hears, and how it is used."""
    recording = manner.reference or manner.prompt
    return {
        "voice": manner.voice,
        "voice_key": recording.key if recording else None,
        "mode": str(manner.mode),
        "style": manner.style,
    }


def commit() -> str | None:
    """Commit of the checkout voxcli runs from, with "+" where files differ; None if installed."""
    package = Path(voxcli.__file__).parent
    top = _output("git", "-C", str(package), "rev-parse", "--show-toplevel")
    if top is None or Path(top) != package.parent:
        return None
    found = _output("git", "-C", top, "rev-parse", "HEAD")
    is_changed = bool(_output("git", "-C", top, "status", "--porcelain", "--", "voxcli"))
    return f"{found}+" if found and is_changed else found


def gpu_facts(device_type: str) -> dict[str, Any]:
    """Driver, power limit and clocks as the driver tells them; all None without a GPU."""
    names = ("driver", "power_limit", "max_clock", "clock")
    if not device_type.startswith("cuda"):
        return dict.fromkeys(names)
    index = device_type.partition(":")[2] or "0"
    fields = "driver_version,power.limit,clocks.max.sm,clocks.sm"
    row = _output("nvidia-smi", f"--id={index}", f"--query-gpu={fields}", "--format=csv,noheader")
    values = [value.strip() for value in row.split(",")] if row else [None] * len(names)
    return dict(zip(names, values, strict=False))


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def checksum(engine: SpeechEngine, files: ModelFiles | None) -> dict[str, Any]:
    """SHA-256 of the model; where its files are known also of each, by its name in the folder."""
    if files is None:
        return {"checksum": engine.model_checksum()}
    hashes = {path.relative_to(files.folder).as_posix(): file_sha256(path) for path in files.files}
    return {"checksum": joint_checksum(hashes), "files": dict(sorted(hashes.items()))}
