"""From a command's settings to a report: find and check everything, load, run the session.

`prepare` refuses without torch what cannot work; `measure` loads and runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxcli.bench.cells import BenchOptions, check_files, utterance_of
from voxcli.bench.prompts import Prompt, choose_languages, load_prompts
from voxcli.bench.report import RANDOM_WEIGHTS, Report, build_report
from voxcli.hub.catalog import ModelSettings
from voxcli.config import EngineConfig
from voxcli.errors import UsageError
from voxcli.hub import ModelFiles
from voxcli.models import FAMILIES
from voxcli.plan import VoiceModel, make_plan, voice_model
from voxcli.utterance import Utterance

if TYPE_CHECKING:
    from voxcli.bench.live import LiveTable
    from voxcli.engine.native.engine import Synthesizer

DEFAULT_PATCHES = 125  # of random weights; 20 s of audio with VoxCPM2


@dataclass(frozen=True)
class Launch:
    """A checked benchmark, ready to load.

    Attributes:
        manner: how every prompt is spoken, with the recordings of its voice.
        files: of the model; None for random weights.
        dummy, dummy_values: file or folder of random weights' configuration and what it holds.
        notes: what was left out, for the user and the report.
    """

    options: BenchOptions
    prompts: list[Prompt]
    manner: Utterance
    config: EngineConfig
    files: ModelFiles | None
    dummy: Path | None
    dummy_values: dict[str, Any]
    num_patches: int
    notes: tuple[str, ...]


def prepare(
    prompts: str,
    languages: Sequence[str],
    options: BenchOptions,
    manner: Utterance,
    config: EngineConfig,
    files: ModelFiles | None,
    *,
    dummy: Path | None = None,
    num_patches: int | None = None,
) -> Launch:
    """Check prompts, languages, voice and audio files; settle what graphs are captured for.

    Args:
        manner: voice with its recordings, style and settings; its text is not spoken.
        files: of the model; None with `dummy`, the configuration of random weights.

    Raises:
        UsageError, TextError, VoiceNotFoundError: what was typed.
        OutputError: the folder for audio.
    """
    found = load_prompts(prompts)
    dummy_values = {} if dummy is None else read_config(dummy)
    if dummy is not None and options.save_audio is not None:
        raise UsageError("random weights make no speech to save", hint="drop --save-audio")
    if files is not None:
        model = voice_model(files)
    else:
        model = VoiceModel(str(dummy), (), ModelSettings(), lambda character: True)
    num_patches = DEFAULT_PATCHES if num_patches is None else num_patches
    if num_patches < 4:
        raise UsageError(f"--patches is {num_patches}", hint="give 4 or more")
    chosen, notes = choose_languages(found, tuple(languages), model.languages, model.name)
    plans = [make_plan(utterance_of(prompt, manner, options.seed), model) for prompt in chosen]
    check_files(options, chosen)
    config = replace(
        config,
        max_slots=max(config.max_slots, *options.concurrency, 1),
        solver=tuple(sorted({plan.solver for plan in plans})),
    )
    return Launch(
        options, chosen, plans[0].utterance, config, files, dummy, dummy_values, num_patches,
        tuple(notes),
    )  # fmt: skip


def read_config(path: Path) -> dict[str, Any]:
    """The model's config.json, given as the file or its folder; needs no weights beside it.

    Raises:
        UsageError: not there, not readable, or of a family voxcli does not have.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as err:
        hint = "give a config.json or its folder"
        raise UsageError(f"--dummy-weights: {file} cannot be read: {err}", hint=hint) from err
    name = str(values.get("architecture", "")).lower() if isinstance(values, dict) else ""
    if name not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise UsageError(f"--dummy-weights: {file} is of architecture '{name}'", hint=known)
    return dict(values)


def measure(
    launch: Launch,
    command: Sequence[str],
    live: LiveTable,
    warn: Callable[[str], None],
) -> Report:
    """Load the model and run the session; Ctrl-C ends it early with a partial report.

    Raises:
        CheckpointError, DeviceError, UsageError: while loading.
    """
    began_s = time.perf_counter()
    from voxcli.bench.session import Session

    import_s = time.perf_counter() - began_s
    with _load(launch) as synthesizer, live:
        if synthesizer.setup.warning:
            warn(synthesizer.setup.warning)
        session = Session(
            synthesizer, launch.options, launch.prompts, manner=launch.manner, on_tick=live.tick
        )
        live.watch(session)
        session.run()
    from voxcli.bench.identity import checksum, identity, voice_facts

    who = identity(synthesizer.setup, launch.config, command, launch.options.seed)
    who |= voice_facts(launch.manner)
    if launch.files is not None:
        who |= checksum(launch.files)
    return build_report(
        session,
        who,
        import_s=import_s + synthesizer.setup.import_s,
        memory=session.memory.overall(),
        stamp=RANDOM_WEIGHTS if launch.dummy is not None else None,
        notes=launch.notes,
    )


def _load(launch: Launch) -> Synthesizer:
    from voxcli.engine.native.engine import Synthesizer

    if launch.dummy is not None:
        began_s = time.perf_counter()
        from voxcli.bench.dummy import random_synthesizer

        return random_synthesizer(
            launch.dummy, launch.dummy_values, launch.config, launch.num_patches,
            import_s=time.perf_counter() - began_s,
        )  # fmt: skip
    assert launch.files is not None
    return Synthesizer.load_files(launch.files, launch.config)
