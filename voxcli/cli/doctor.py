"""`voxcli doctor`: what this machine can do, and what to type where it cannot.

Every check is a function that returns one `Check` and never raises; a new one joins `CHECKS`.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import typer

from voxcli import __version__
from voxcli.cli import output
from voxcli.cli.options import JsonOption
from voxcli.config import EngineConfig, config_path, cpu_quota, data_dir, load_settings, num_cores
from voxcli.errors import (
    EXIT_DEVICE,
    EXIT_MODEL,
    MissingPackageError,
    ModelNotFoundError,
    VoxError,
    reason_of,
)

EXAMPLES = ("voxcli doctor", "voxcli doctor --json")

LOW_DISK_GB = 6  # the large model takes 5
OK, WARN, MISSING = "ok", "warn", "missing"


@dataclass(frozen=True)
class Check:
    """One line of the report.

    Attributes:
        status: "ok", "warn" (works, but not as well as this machine could) or "missing".
        advice: what to type, where something can be done.
        data: the same for programs.
    """

    name: str
    status: str
    detail: str
    advice: str = ""
    data: dict[str, Any] | None = None


def doctor(json: JsonOption = False) -> None:
    """Report what this machine can do: torch, devices, sound, formats, models, disk.

    The exit code is 0 if the bundled model can speak on this machine, 3 if its files are damaged,
    and 4 if torch does not work.
    """
    checks = [check() for check in CHECKS]
    if json:
        output.result_json({"checks": [asdict(check) for check in checks]})
    else:
        rows = [(c.status, c.name, c.detail) for c in checks]
        lines = output.table(rows).splitlines()
        for line, check in zip(lines, checks, strict=True):
            output.result(f"{line}; {check.advice}" if check.advice else line)
    states = {check.name: check.status for check in checks}
    if states["torch"] == MISSING:
        raise typer.Exit(EXIT_DEVICE)
    if states["bundled voice"] == MISSING:
        raise typer.Exit(EXIT_MODEL)


def _voxcli() -> Check:
    system = f"{platform.system()} {platform.machine()}"
    detail = f"voxcli {__version__}, Python {platform.python_version()}, {system}"
    return Check("version", OK, detail, data={"voxcli": __version__, "python": sys.version})


def _torch() -> Check:
    try:
        import torch

        torch.ones(2).sum().item()
    except (
        Exception
    ) as err:  # a broken build fails in many ways: ImportError, OSError, RuntimeError
        advice = "reinstall it: pip install --force-reinstall torch"
        return Check("torch", MISSING, f"does not work: {_one_line(err)}", advice)
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA in this build"
    data = {"torch": torch.__version__, "cuda": torch.version.cuda}
    return Check("torch", OK, f"{torch.__version__}, {build}", data=data)


def _threads() -> Check:
    usable, quota = num_cores(), cpu_quota()
    try:
        asked = load_settings().threads
    except VoxError:
        asked = 0
    detail = f"{usable} usable, setting: {asked or 'automatic'}"
    if quota is not None:
        detail += f"; this container's CPU quota is {quota:g} cores"
    data = {"usable": usable, "asked": asked, "quota": quota}
    return Check("CPU threads", OK, detail, data=data)


def _native() -> Check:
    from voxcli.kernels.native import find

    try:
        is_wanted = load_settings().native
        found = find()
    except Exception as err:  # bad settings, or torch that does not import
        return Check("CPU kernels", WARN, f"unknown: {_one_line(err)}")
    data = {"is_there": found.library is not None, "is_wanted": is_wanted, "detail": found.detail}
    if found.library is None:
        advice = "install a C compiler, then install voxcli again"
        return Check(
            "CPU kernels",
            WARN,
            f"not compiled, so torch does the work: {found.detail}",
            advice,
            data,
        )
    if not is_wanted:
        return Check(
            "CPU kernels", OK, "switched off in the settings, so torch does the work", data=data
        )
    return Check("CPU kernels", OK, f"compiled, using {found.detail} instructions", data=data)


def _gpu() -> Check:
    driver = _driver()
    try:
        import torch

        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        is_available, cuda = torch.cuda.is_available(), torch.version.cuda
    except Exception as err:
        return Check("GPU", MISSING, f"torch does not answer: {_one_line(err)}")
    data = {"driver": driver, "devices": names, "can_capture_graphs": is_available}
    if is_available:
        found = ", ".join(f"cuda:{i} {name}" for i, name in enumerate(names))
        detail = f"{found}; driver {driver or 'unknown'}; CUDA graphs possible"
        return Check("GPU", OK, detail, data=data)
    if driver and not cuda:
        advice = "install a CUDA build of torch, see https://pytorch.org/get-started/locally"
        return Check("GPU", WARN, f"driver {driver}, but torch has no CUDA", advice, data)
    if driver:
        detail = f"driver {driver} does not work with torch's CUDA {cuda}"
        return Check("GPU", WARN, detail, "update the driver", data)
    return Check("GPU", OK, "none found; the bundled voice needs none", data=data)


def _sound() -> Check:
    from voxcli.audio.sound import in_time, list_devices

    try:
        outputs = in_time(list_devices)
    except MissingPackageError as err:
        return Check("loudspeaker", OK, "not installed (optional)", f"to use it, {err.hint}")
    except VoxError as err:
        detail = f"{err.message}; files work without it"
        return Check("loudspeaker", WARN, detail, err.hint or "")
    if not outputs:
        return Check("loudspeaker", OK, "none found; files need none")
    first = next((device for device in outputs if device.is_default), outputs[0])
    detail = f"{len(outputs)} devices, default: {first.printable_name}"
    data = {"devices": [device.name for device in outputs]}
    return Check("loudspeaker", OK, detail, data=data)


def _formats() -> Check:
    try:
        import soundfile

        known = soundfile.available_formats()
        formats = [name for name in ("WAV", "FLAC", "OGG", "MP3") if name in known]
        has_opus = "OPUS" in soundfile.available_subtypes("OGG")
    except Exception as err:
        advice = "reinstall it: pip install --force-reinstall soundfile"
        return Check("audio files", MISSING, f"libsndfile: {_one_line(err)}", advice)
    formats += ["OPUS"] if has_opus else []
    detail = f"libsndfile {soundfile.__libsndfile_version__}: {' '.join(formats).lower()}"
    status, advice = (OK, "") if "MP3" in formats else (WARN, "mp3 needs libsndfile 1.1 or later")
    return Check("audio files", status, detail, advice, {"formats": formats})


def _ffmpeg() -> Check:
    path = shutil.which("ffmpeg")
    if path:
        return Check("ffmpeg", OK, path, data={"path": path})
    detail = "not installed (optional); only m4a, m4b, aac and wma files need it"
    return Check("ffmpeg", OK, detail, "install it with the system's package manager")


def _word_times() -> Check:
    from importlib.metadata import version

    from voxcli.alignment import LANGUAGE, PACKAGE, can_align
    from voxcli.extras import missing

    is_there = can_align(LANGUAGE)
    data = {"is_measured": is_there, "languages": [LANGUAGE] if is_there else []}
    if is_there:
        detail = f"measured in English by {PACKAGE} {version(PACKAGE)}, else estimated"
        return Check("times of words", OK, detail, data=data)
    advice = f"to measure them in English, {missing(PACKAGE).hint}"
    return Check("times of words", OK, "estimated (optional)", advice, data)


def _vllm_omni() -> Check:
    from voxcli.engine.vllm_omni.packages import Machine

    machine = Machine.this()
    problem, fitting = machine.problem(), machine.fitting
    data = {"versions": machine.versions, "would_start": problem is None,
            "fitting": None if fitting is None else fitting.command}  # fmt: skip
    if problem is None:
        detail = f"{machine.versions['vllm-omni']}; use it with --engine vllm-omni"
        return Check("vLLM-Omni", OK, detail, data=data)
    why, what_to_do = problem
    if not machine.is_able:
        return Check("vLLM-Omni", OK, f"not for this machine: {why}", data=data)
    if not machine.has_omni:
        return Check("vLLM-Omni", OK, "not installed (optional)", what_to_do, data)
    return Check("vLLM-Omni", WARN, why, what_to_do, data)


def _bundled_voice() -> Check:
    from voxcli.hub import resolve_model

    try:
        model = resolve_model("mini")
    except VoxError as err:
        return Check("bundled voice", MISSING, err.message, err.hint or "")
    data = {"folder": str(model.folder)}
    return Check("bundled voice", OK, "complete, hashes correct", data=data)


def _without_torch() -> Check:
    from voxcli.engine.choose import why_torch
    from voxcli.hub import resolve_model
    from voxcli.kernels.native import find

    name = "voice without torch"
    try:
        settings, model = load_settings(), resolve_model("mini")
        config = EngineConfig(
            model.name, settings.device, native=settings.native, light=settings.light
        )
        why = why_torch(config, model) if settings.light else "it is switched off"
        if why is None and find().library is None:
            why = "the CPU kernels are not compiled"
    except Exception as err:  # bad settings, a damaged model
        return Check(name, WARN, f"unknown: {_one_line(err)}")
    detail = "the bundled voice speaks without importing torch, so it starts sooner"
    if why is not None:
        detail = f"the bundled voice speaks with torch: {why}"
    return Check(name, OK, detail, data={"is_without": why is None, "why": why})


def _models() -> Check:
    from voxcli.hub import resolve_model
    from voxcli.hub.catalog import BUNDLED, known_models

    here, absent = [], []
    try:
        settings = load_settings()
        for name in (name for name in known_models() if name != BUNDLED):
            try:
                resolve_model(name, offline=settings.offline, cache_dir=settings.cache_dir)
                here.append(name)
            except ModelNotFoundError:
                absent.append(name)
    except VoxError as err:  # bad settings or a damaged model
        return Check("other models", WARN, err.message, err.hint or "")
    detail = (
        f"downloaded: {', '.join(here) or 'none'}; not downloaded: {', '.join(absent) or 'none'}"
    )
    advice = f"'voxcli models pull {absent[0]}' downloads one" if absent else ""
    return Check("other models", OK, detail, advice, {"here": here, "absent": absent})


def _server() -> Check:
    from voxcli.engine.remote.place import Place, describe

    if os.name != "posix":
        return Check("server's folder", OK, "none on this system")
    place = Place.default()
    data = {"folder": str(place.folder), "why": place.why}
    try:
        place.check()
    except VoxError as err:
        return Check("server's folder", WARN, err.message, err.hint or "", data)
    if place.why:
        advice = "set it to a folder of yours, or unset it"
        return Check("server's folder", WARN, f"{place.folder}: {place.why}", advice, data)
    holder = place.holder()
    runs = "" if holder is None else f"; a server runs: {describe(holder)}"
    return Check("server's folder", OK, f"{place.folder}{runs}", data=data | {"server": holder})


def _disk() -> Check:
    folder = data_dir()
    try:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
    except OSError as err:
        advice = "set XDG_DATA_HOME to a folder of yours, or unset it"
        detail = f"{folder} cannot be used: {reason_of(err)}"
        return Check("disk", WARN, detail, advice, {"folder": str(folder), "free_bytes": None})
    free_gb = shutil.disk_usage(existing).free / 1e9
    data = {"folder": str(folder), "free_bytes": round(free_gb * 1e9)}
    if free_gb < LOW_DISK_GB:
        detail = f"{free_gb:.1f} GB free in {folder}; a large model needs 5"
        return Check("disk", WARN, detail, "free some space, or set XDG_DATA_HOME", data)
    return Check("disk", OK, f"{free_gb:.0f} GB free in {folder}", data=data)


def _settings() -> Check:
    path = config_path()
    try:
        settings = load_settings()
    except VoxError as err:
        return Check("settings", WARN, err.message, err.hint or "")
    origin = str(path) if path.is_file() else f"no file {path} (optional)"
    network = "offline" if settings.offline else "uses the network only for 'voxcli models pull'"
    data = {"file": str(path), "is_there": path.is_file(), "is_offline": settings.offline}
    return Check("settings", OK, f"{origin}; {network}", data=data)


def _driver() -> str | None:
    """Version of the NVIDIA driver, or None."""
    if not shutil.which("nvidia-smi"):
        return None
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.split()[0] if done.stdout.split() else None


def _one_line(err: BaseException) -> str:
    return " ".join(f"{type(err).__name__}: {err}".split())[:200]


CHECKS: tuple[Callable[[], Check], ...] = (
    _voxcli,
    _torch,
    _threads,
    _native,
    _gpu,
    _vllm_omni,
    _bundled_voice,
    _without_torch,
    _models,
    _formats,
    _ffmpeg,
    _word_times,
    _server,  # before PortAudio, under which PulseAudio makes the folder
    _sound,
    _disk,
    _settings,
)
