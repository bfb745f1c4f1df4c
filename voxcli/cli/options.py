"""Options and arguments that two commands or more share, and how a user's settings fill them in.

An option that a user may set once for all (model, device, threads, voice, offline) has the default
None; `settings_with` then takes the environment, the config file or the dataclass default.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from voxcli.config import (
    MAX_SEED,
    EngineConfig,
    SamplingParams,
    UserSettings,
    load_settings,
)


def default_of(config: type, name: str) -> Any:
    """The default of a dataclass field: the only source of defaults in the command line."""
    return next(field.default for field in fields(config) if field.name == name)


def _shown(config: type, name: str) -> str:
    return str(default_of(config, name))


ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="A model name, a hub id or a folder; see 'voxcli models list'.",
        show_default=_shown(UserSettings, "model"),
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="Where the model runs: auto, cpu, cuda or cuda:N.",
        show_default=_shown(UserSettings, "device"),
    ),
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="PRECISION",
        help="Number format of the model: auto, fp32 or bf16.",
        show_default=True,
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        help="CPU threads, 0 (automatic) or more.",
        show_default=_shown(UserSettings, "threads"),
    ),
]
VoiceOption = Annotated[
    str | None,
    typer.Option(
        "--voice",
        metavar="VOICE",
        help="Name of a voice of the model.",
        show_default="the model's own",
    ),
]
LanguageOption = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE",
        help="Language of the text as an ISO 639-1 code, such as en.",
        show_default="found from the text",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        help=f"Seed of the noise, from 0 to {MAX_SEED}; same seed, same speech.",
        show_default="chosen and reported",
    ),
]
StepsOption = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="N",
        help="Solver steps for each patch of audio, from 2 to 100.",
        show_default="the model's best",
    ),
]
CfgOption = Annotated[
    float | None,
    typer.Option(
        "--cfg",
        metavar="X",
        help="Guidance, from 0 to 10; 1 is unguided and fastest.",
        show_default="the model's best",
    ),
]
MaxSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--max-seconds",
        metavar="S",
        help="Longest audio of the whole text in seconds, above 0.",
        show_default="by text length",
    ),
]
RetriesOption = Annotated[
    int,
    typer.Option(
        "--retries",
        metavar="N",
        help="Fresh attempts after speech that came out bad, 0 or more.",
        show_default=True,
    ),
]
EagerOption = Annotated[
    bool, typer.Option("--eager", help="On a GPU, run without CUDA graphs: slower, for debugging.")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace an output file that exists.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result (or the error) as one JSON object.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no summary on stderr.")
]
OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Open no network connection, whatever is missing.")
]

PRECISION_DEFAULT: str = default_of(EngineConfig, "precision")
RETRIES_DEFAULT: int = default_of(SamplingParams, "retries")


def settings_with(
    *,
    model: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    voice: str | None = None,
    cache_dir: Path | None = None,
    offline: bool = False,
) -> UserSettings:
    """The user's settings with what was typed on top.

    Raises:
        UsageError: a bad config file or `VOXCLI_*` variable.
    """
    typed = {
        "model": model,
        "device": device,
        "threads": threads,
        "voice": voice,
        "cache_dir": cache_dir,
        "offline": offline or None,
    }
    given = {name: value for name, value in typed.items() if value is not None}
    return replace(load_settings(), **given)  # type: ignore[arg-type]
