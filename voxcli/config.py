"""Settings: one frozen dataclass per concern; the only reader of `VOXCLI_*` and the config file.

Precedence, highest first: command-line option, `VOXCLI_<NAME>` variable, the config file
(`$XDG_CONFIG_HOME/voxcli/config.toml` on Linux), the dataclass default. Unknown keys are refused.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from voxcli.errors import UsageError, nearest, reason_of
from voxcli.parameters import Values

DEFAULT_MODEL = "mini"
MAX_SEED = 2**63 - 1
MAX_CHOSEN_SEED = 2**31  # short enough to be typed again
PRECISIONS = ("auto", "fp32", "bf16", "fp8")
MIN_SPEED, MAX_SPEED = 0.25, 4.0  # as OpenAI's interface has them
MIN_GOOD_SPEED, MAX_GOOD_SPEED = 0.5, 2.0  # what `audio/stretch.py` does well
MAX_PAUSE_S = 10.0
MAX_CONFIG_BYTES = 1 << 20
# What clients of OpenAI's interface ask for where nobody told them otherwise.
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15")
OPENAI_VOICES = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage",
    "shimmer", "verse",
)  # fmt: skip


def random_seed() -> int:
    """A seed for who gave none; nobody can foresee it."""
    return int.from_bytes(os.urandom(8)) % MAX_CHOSEN_SEED


def num_cores() -> int:
    """Cores that this process may use: those of its affinity, and no more than its quota pays."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cores if quota is None else min(cores, math.ceil(quota))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Cores' worth of time that a container, or another control group of Linux, grants.

    Args:
        root: where `proc` and `sys` are.

    Returns:
        The smallest of the process's groups and those they are in; None without a quota.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return None
    quotas = []
    for line in groups:  # "0::/group" is version 2, "4:cpu,cpuacct:/group" version 1
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        # NOTE: a container may see its own group as the top of the tree, under its name outside
        for mount in ("unified", "") if not controllers else (controllers, "cpu"):
            top = root / "sys/fs/cgroup" / mount
            own = top / group.lstrip("/")
            quotas += [_quota_of(each) for each in (own, *own.parents) if each.is_relative_to(top)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota_of(group: Path) -> float | None:
    try:
        if (group / "cpu.max").is_file():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # none is "max", or -1
        return None


@dataclass(frozen=True)
class EngineConfig:
    """What the engine is built from, once.

    Attributes:
        model: a name, a hub id or a folder.
        device: "auto", "cpu", "cuda" or "cuda:N".
        precision: one of `PRECISIONS`; "auto" is bf16 on CUDA, fp32 on CPU if it fits.
        threads: CPU threads of the engine; 0 means torch's own choice.
        max_slots: requests that can run at once.
        max_positions: static KV length of a slot; 0 means what the model family recommends.
        eager: run CUDA without graphs, for debugging.
        native: use kernels in C on a CPU and the one in CUDA C++ on a card; without the former
            torch does the same, without the latter Triton's kernels do.
        light: speak without torch where that gives the same samples: on a CPU, with compiled
            kernels, as the bundled model does.
        graphs: values of the model's parameters to capture graphs for; empty means its best ones.
    """

    model: str = DEFAULT_MODEL
    device: str = "auto"
    precision: str = "auto"
    threads: int = 0
    max_slots: int = 16
    max_positions: int = 0
    eager: bool = False
    native: bool = True
    light: bool = False
    graphs: tuple[Values, ...] = ()

    def __post_init__(self) -> None:
        if self.max_slots < 1:
            raise UsageError(f"--slots is {self.max_slots}", hint="give 1 or more")
        if self.threads < 0:
            raise UsageError(f"--threads is {self.threads}", hint="give 0 (automatic) or more")
        if self.precision not in PRECISIONS:
            raise UsageError(
                f"precision '{self.precision}' is unknown", hint="use auto, fp32, bf16 or fp8"
            )


@dataclass(frozen=True)
class SamplingParams:
    """How one utterance is generated.

    Attributes:
        seed: in [0, 2**63); None means chosen and reported.
        max_seconds: cap on the audio of the whole utterance; None means by text length alone.
        retries: fresh attempts (seed + attempt) after the output guard refused a segment.
        parameters: of the model, by name; what is left out is the model's best. Checked by the
            plan, which knows the model.
    """

    seed: int | None = None
    max_seconds: float | None = None
    retries: int = 3
    parameters: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.seed is not None and not 0 <= self.seed <= MAX_SEED:
            raise UsageError(
                f"--seed is {self.seed}", hint=f"give a whole number from 0 to {MAX_SEED}"
            )
        if self.retries < 0:
            raise UsageError(f"--retries is {self.retries}", hint="give 0 or more")
        if self.max_seconds is not None and not 0 < self.max_seconds < float("inf"):
            raise UsageError(f"--max-seconds is {self.max_seconds:g}", hint="give seconds above 0")


def is_device(name: str) -> bool:
    """Whether it has the form of a device's name."""
    return re.fullmatch(r"auto|cpu|cuda(:\d+)?", name) is not None


def check_speed(speed: float) -> float:
    """Raise UsageError unless `speed` is a tempo that speech can be given."""
    if not MIN_SPEED <= speed <= MAX_SPEED:
        raise UsageError(
            f"--speed is {speed:g}", hint=f"give a number from {MIN_SPEED:g} to {MAX_SPEED:g}"
        )
    return speed


def check_pause(pause_s: float) -> float:
    """Raise UsageError unless `pause_s` is a pause that a listener would not take for the end."""
    if not 0 <= pause_s <= MAX_PAUSE_S:
        raise UsageError(f"--pause is {pause_s:g}", hint=f"give seconds from 0 to {MAX_PAUSE_S:g}")
    return pause_s


@dataclass(frozen=True)
class UserSettings:
    """What a user may set once for all commands.

    Attributes:
        model_aliases: other names of the model that `serve` has.
        voice_aliases: other names of its voices, and what each stands for.
        cast: voices of speakers in tables.
        keep_warm: seconds for which a command that found no server leaves one behind, counted from
            its last use; 0 is never.
    """

    model: str = DEFAULT_MODEL
    device: str = "auto"
    threads: int = 0
    native: bool = True
    light: bool = True
    voice: str | None = None
    cache_dir: Path | None = None
    offline: bool = False
    debug: bool = False
    engine: str = "auto"
    api_key: str | None = field(default=None, repr=False)
    model_aliases: tuple[str, ...] = OPENAI_MODELS
    voice_aliases: Mapping[str, str] = field(
        default_factory=lambda: dict.fromkeys(OPENAI_VOICES, "default")
    )
    lexicon: Path | None = None
    cast: Mapping[str, str] = field(default_factory=dict)
    keep_warm: float = 0.0


_TYPES: dict[str, Any] = {
    "model": str, "device": str, "threads": int, "native": bool, "light": bool, "voice": str,
    "cache_dir": Path, "offline": bool, "debug": bool, "engine": str, "api_key": str,
    "model_aliases": tuple, "voice_aliases": dict, "lexicon": Path,
    "cast": dict,
    "keep_warm": float,
}  # fmt: skip

_WANTED = {
    int: "a whole number", str: "text in quotes", Path: "a path, in quotes",
    float: "a time such as '5 min', '90 s' or 0",
    tuple: 'a list of names: ["tts-1"], or tts-1 in a variable',
    dict: 'a table of names: {alloy = "default"}, or alloy=default in a variable',
}  # fmt: skip


def _parse(name: str, value: object, origin: str) -> Any:
    kind = _TYPES[name]
    if kind is bool:
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("1", "true", "yes", "on"):
            return True
        if str(value).lower() in ("", "0", "false", "no", "off"):
            return False
        raise UsageError(f"{origin} is '{value}'", hint="use true or false")
    try:
        if kind is float:
            return seconds_of(str(value))
        if kind in (tuple, dict):
            return _names(value) if kind is tuple else _table(value)
        # TOML has types of its own: "threads = true" is no number, "model = 5" no name
        if isinstance(value, bool) or not isinstance(value, (str, int) if kind is int else str):
            raise TypeError(value)
        return Path(os.path.expanduser(str(value))) if kind is Path else kind(value)
    except (TypeError, ValueError) as err:
        raise UsageError(f"{origin} is '{value}'", hint=f"give {_WANTED[kind]}") from err


def seconds_of(text: str) -> float:
    """A time in words: "5 min", "90 s", "1 h"; seconds where it has no unit.

    Raises:
        ValueError: it is none.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)?\s*", text, re.ASCII)
    if match is None:
        raise ValueError(text)
    return float(match[1]) * {"s": 1, "min": 60, "h": 3600}[match[2] or "s"]


def _names(value: object) -> tuple[str, ...]:
    """A list of TOML, or words with commas between."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list):
        raise TypeError(value)
    if value == "":
        return ()
    return tuple(_name(each) for each in found)


def _table(value: object) -> dict[str, str]:
    """A table of TOML, or pairs with commas between."""
    if isinstance(value, str):
        pairs = [each.partition("=") for each in value.split(",")] if value else []
        value = {name: target for name, _, target in pairs}
    if not isinstance(value, dict):
        raise TypeError(value)
    return {_name(name): _name(target) for name, target in value.items()}


def _name(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError(value)
    return value.strip()


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the config file is looked for."""
    if named := environ.get("VOXCLI_CONFIG"):
        return Path(named)
    from platformdirs import user_config_path  # costs 3 ms, which no `--help` needs

    return user_config_path("voxcli", appauthor=False) / "config.toml"


def _config_text(path: Path) -> str:
    """What the config file says.

    Raises:
        OSError, ValueError: it cannot be read; a pipe is not waited for.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_CONFIG_BYTES + 1)
    if len(data) > MAX_CONFIG_BYTES:
        raise ValueError(f"it has more than {MAX_CONFIG_BYTES:,} bytes")
    return data.decode("utf-8-sig")  # Notepad begins with a mark


def load_settings(environ: Mapping[str, str] = os.environ) -> UserSettings:
    """Read the config file and the environment.

    Raises:
        UsageError: unreadable file, unknown key or variable, value of the wrong type.
    """
    known = {each.name for each in fields(UserSettings)}
    values: dict[str, Any] = {}
    path = config_path(environ)
    if environ.get("VOXCLI_CONFIG") and not path.is_file():
        raise UsageError(
            f"VOXCLI_CONFIG names {path}, which is not a file", hint="correct or unset it"
        )
    if os.path.lexists(path):
        try:
            import tomllib

            table = tomllib.loads(_config_text(path))
        except RecursionError as err:
            message = f"config file {path}: its values are nested too deeply"
            raise UsageError(message, hint="correct or remove it") from err
        except (OSError, ValueError) as err:
            hint = "correct or remove it"
            if "invalid value" in str(err).lower():
                hint = f'put text in straight quotes, as in voice = "emma"; {hint}'
            raise UsageError(f"config file {path}: {reason_of(err)}", hint=hint) from err
        for key, value in table.items():
            if key not in known:
                hint = f"{nearest(key, known)}known keys: {', '.join(sorted(known))}"
                raise UsageError(f"config file {path}: unknown key '{key}'", hint=hint)
            if value == "" and _TYPES[key] in (str, Path):
                hint = "give a value, or remove the line"
                raise UsageError(f"config file {path}: {key} is empty", hint=hint)
            values[key] = _parse(key, value, f"{path}: {key}")
    for variable, value in environ.items():
        if not variable.startswith("VOXCLI_") or variable == "VOXCLI_CONFIG":
            continue
        key = variable.removeprefix("VOXCLI_").lower()
        if key not in known:
            names = [f"VOXCLI_{name.upper()}" for name in sorted({*known, "config"})]
            hint = f"{nearest(variable, names)}known: {', '.join(names)}"
            raise UsageError(f"unknown variable {variable}", hint=hint)
        if value or _TYPES[key] in (tuple, dict):  # an empty list is one, an empty name is none
            values[key] = _parse(key, value, variable)
    if environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        values["offline"] = True
    return UserSettings(**values)


def data_dir() -> Path:
    """Where voice profiles live."""
    from platformdirs import user_data_path

    return user_data_path("voxcli", appauthor=False)


def runtime_dirs(environ: Mapping[str, str] = os.environ) -> tuple[Path | None, Path]:
    """The user's folder of this session, where one is named, and that of temporary files.

    platformdirs guesses a folder where none is named (`/run/user/UID`, else another name in the
    temporary folder); a socket in a guessed folder has to be checked by who looks for it.
    """
    base = environ.get("XDG_RUNTIME_DIR")
    return Path(base) if base else None, Path(environ.get("TMPDIR") or "/tmp")
