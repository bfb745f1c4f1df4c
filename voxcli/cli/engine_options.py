"""The options of what is loaded and who speaks, and the engine that they come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from voxcli.cli import output
from voxcli.cli.options import ENGINE, MaxSlotsOption, OfflineOption, model_names
from voxcli.config import EngineConfig, UserSettings, load_settings, seconds_of
from voxcli.errors import UsageError
from voxcli.parameters import Values
from voxcli.process import started

if TYPE_CHECKING:
    from voxcli.engine.base import SpeechEngine
    from voxcli.hub import ModelFiles


@dataclass(frozen=True)
class ModelOptions:
    """What model is loaded, and on what."""

    panel: ClassVar[str] = ENGINE

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            autocompletion=model_names,
            metavar="MODEL",
            help="Name, hub id or folder of a model. See 'voxcli models list'.",
            show_default=UserSettings.model,
        ),
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="Where the model runs: auto, cpu, cuda or cuda:N.",
            show_default=UserSettings.device,
        ),
    ] = None
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            metavar="PRECISION",
            help="Number format of the model: auto, fp32, bf16, or fp8 on GPUs that support it.",
            show_default=True,
        ),
    ] = EngineConfig.precision
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            help="CPU threads, 0 (automatic) or more.",
            show_default=str(UserSettings.threads),
        ),
    ] = None
    eager: Annotated[
        bool,
        typer.Option("--eager", help="On a GPU, run without CUDA graphs: slower, for debugging."),
    ] = False
    offline: OfflineOption = False

    def settings(self) -> UserSettings:
        """The user's settings with these on top.

        Raises:
            UsageError: a bad config file or `VOXCLI_*` variable.
        """
        typed: dict[str, Any] = {
            "model": self.model,
            "device": self.device,
            "threads": self.threads,
            "offline": self.offline or None,
        }
        given = {name: value for name, value in typed.items() if value is not None}
        return replace(load_settings(), **given)

    def config(self, settings: UserSettings, graphs: tuple[Values, ...] = ()) -> EngineConfig:
        """What an engine of our own is built from; a running one has to match it.

        Args:
            graphs: values of the model's parameters that will be asked for, where they are known.
        """
        return EngineConfig(
            settings.model,
            settings.device,
            self.precision,
            settings.threads,
            eager=self.eager,
            native=settings.native,
            graphs=graphs,
        )


@dataclass(frozen=True)
class EngineOptions(ModelOptions):
    """The same, and who speaks."""

    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="auto|native|vllm-omni|URL[,URL...]",
            help="What runs the model: auto (a running 'voxcli serve' with this model, else this "
            "process), this process, vLLM-Omni, or servers.",
            show_default=UserSettings.engine,
        ),
    ] = None

    def settings(self) -> UserSettings:
        """The user's settings with these on top.

        Raises:
            UsageError: a bad config file or `VOXCLI_*` variable; no such engine.
        """
        from voxcli.engine.choose import check_spec

        settings = super().settings()
        return replace(
            settings, engine=check_spec(settings.engine if self.engine is None else self.engine)
        )

    def open(
        self,
        settings: UserSettings,
        config: EngineConfig,
        *,
        is_quiet: bool,
        is_speaking: bool = True,
        rows_a_server: int | None = None,
        files: ModelFiles | None = None,
    ) -> SpeechEngine:
        """Who speaks; loads no model. Why a running server is not used goes to stderr.

        Args:
            is_speaking: False where recordings are encoded and nothing is said.
            rows_a_server: see `open_engine`.
            files: of the model, where they are found already.

        Raises:
            UsageError, EngineError: the server at a URL does not answer, or does not fit.
            ModelNotFoundError, CheckpointError: the model's files, for an engine of our own.
        """
        from voxcli.engine.choose import open_engine

        return open_engine(
            settings.engine, config, settings,
            files=files, is_speaking=is_speaking, rows_a_server=rows_a_server,
            is_model_named=self.model is not None,
            on_note=lambda why: output.note(why, is_quiet=is_quiet),
        )  # fmt: skip


@dataclass(frozen=True)
class SizedEngineOptions(EngineOptions):
    """The same for a command that speaks as much at once as there is room for."""

    max_slots: MaxSlotsOption = EngineConfig.max_slots

    def config(self, settings: UserSettings, graphs: tuple[Values, ...] = ()) -> EngineConfig:
        return replace(super().config(settings, graphs), max_slots=self.max_slots)


@dataclass(frozen=True)
class WarmOptions:
    """Whether a command leaves a server behind."""

    panel: ClassVar[str] = ENGINE

    keep_warm: Annotated[
        str | None,
        typer.Option(
            "--keep-warm",
            metavar="TIME",
            help="Leave a server running for the next commands. It stops when no command has used "
            "it for this time: '5 min', '90 s' or '1 h'.",
            show_default="no server",
        ),
    ] = None

    def check(self, settings: UserSettings) -> float:
        """The seconds of it; 0 for none.

        Raises:
            UsageError: it is no time.
            MissingExtraError: what a server needs is not installed.
        """
        try:
            idle_s = settings.keep_warm if self.keep_warm is None else seconds_of(self.keep_warm)
        except ValueError as err:
            hint = "give a time such as '5 min', '90 s' or 0"
            raise UsageError(f"--keep-warm is '{self.keep_warm}'", hint=hint) from err
        if idle_s:
            from voxcli.cli.background import NEEDED
            from voxcli.extras import require

            require("--keep-warm", *NEEDED)
        return idle_s

    def leave_server(
        self, engine: SpeechEngine, settings: UserSettings, config: EngineConfig
    ) -> None:
        """Leave one behind, where that was asked for; see `background.leave_server`."""
        if (idle_s := self.check(settings)) and not engine.facts.is_elsewhere:
            from voxcli.cli.background import leave_server

            leave_server(settings.engine, config, idle_s)


def start(engine: SpeechEngine, wanted: Iterable[Values], *, is_quiet: bool) -> None:
    """Start who speaks; shows on a terminal what that takes its time for, then what is doubtful."""
    with output.Spinner("starting", is_quiet=is_quiet):
        engine.start(wanted)
    started()
    if engine.setup.warning and not is_quiet:
        output.warn(engine.setup.warning)


def say_who(engine: SpeechEngine, *, is_quiet: bool) -> None:
    """Who is asked, where that is another process, once there is something to say."""
    if engine.facts.is_elsewhere:
        name = engine.facts.name
        who = name if engine.server_counts() else f"the running server ({name})"
        output.note(f"asking {who} to speak", is_quiet=is_quiet)
