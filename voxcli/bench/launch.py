"""From a command's settings to a report: check everything, start the engine, run the session.

`prepare` refuses without torch what cannot work; `measure` starts and runs. Knows no engine but by
its facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from voxcli.bench.cells import BenchOptions, check_files, utterance_of
from voxcli.bench.prompts import Prompt, choose_languages, load_prompts
from voxcli.bench.report import RANDOM_WEIGHTS, Report, build_report
from voxcli.engine.base import SpeechEngine
from voxcli.errors import UsageError
from voxcli.hub import ModelFiles
from voxcli.parameters import Values
from voxcli.utterance import Utterance

if TYPE_CHECKING:
    from voxcli.bench.live import LiveTable

DEFAULT_FRAMES = 125  # of random weights; 20 s of audio with VoxCPM2
MIN_FRAMES = 4


@dataclass(frozen=True)
class Launch:
    """A checked benchmark, ready to start.

    Attributes:
        manner: how every prompt is spoken, with the recordings of its voice.
        parameters: of the model, all of them, as each prompt needs them.
        files: of the model; None for random weights and for an engine that has its own.
        stamp: as of `build_report`.
        notes: what was left out and what must be known, for the user and the report.
    """

    options: BenchOptions
    prompts: list[Prompt]
    manner: Utterance
    engine: SpeechEngine
    parameters: tuple[Values, ...]
    files: ModelFiles | None
    stamp: str | None
    notes: tuple[str, ...]


def frames_for(count: int | None) -> int:
    """The length of speech from random weights.

    Raises:
        UsageError: too short.
    """
    if count is not None and count < MIN_FRAMES:
        raise UsageError(f"--frames is {count}", hint=f"give {MIN_FRAMES} or more")
    return DEFAULT_FRAMES if count is None else count


def prepare(
    prompts: str,
    languages: Sequence[str],
    options: BenchOptions,
    manner: Utterance,
    engine: SpeechEngine,
    files: ModelFiles | None = None,
    *,
    is_random: bool = False,
) -> Launch:
    """Check prompts, languages, voice, parameters and audio files.

    Args:
        manner: voice, style and settings; its text is not spoken.
        engine: not started yet, where it can be helped.
        files: of the model, where the engine has none of its own.
        is_random: the engine's weights are random.

    Raises:
        UsageError, TextError, VoiceNotFoundError: what was typed.
        OutputError: the folder for audio.
    """
    found, facts = load_prompts(prompts), engine.facts
    if is_random and options.save_audio is not None:
        raise UsageError("random weights make no speech to save", hint="drop --save-audio")
    chosen, notes = choose_languages(found, tuple(languages), facts.languages, facts.model)
    if facts.is_elsewhere:
        notes.append(f"spoken by {facts.name}: memory is that of this process alone")
    manner = engine.in_voice(manner)
    plans = [engine.plan(utterance_of(prompt, manner, options.seed)) for prompt in chosen]
    check_files(options, chosen)
    return Launch(
        options,
        chosen,
        plans[0].utterance,
        engine,
        tuple(plan.parameters for plan in plans),
        files,
        RANDOM_WEIGHTS if is_random else None,
        tuple(notes),
    )


def measure(
    launch: Launch,
    command: Sequence[str],
    live: LiveTable,
    warn: Callable[[str], None],
) -> Report:
    """Start the engine and run the session; Ctrl-C ends it early with a partial report.

    Raises:
        ModelError, DeviceError, UsageError: while starting.
    """
    from voxcli.bench.session import Session

    engine = launch.engine
    engine.start(launch.parameters)
    with live:
        if engine.setup.warning:
            warn(engine.setup.warning)
        session = Session(
            engine, launch.options, launch.prompts, manner=launch.manner, on_tick=live.tick
        )
        live.watch(session)
        session.run()
    from voxcli.bench.identity import checksum, identity, voice_facts

    who = identity(engine, command, launch.options.seed, launch.parameters[0])
    who |= voice_facts(launch.manner)
    if launch.stamp is None:
        who |= checksum(engine, launch.files)
    return build_report(
        session, who, memory=session.memory.overall(), stamp=launch.stamp, notes=launch.notes
    )
