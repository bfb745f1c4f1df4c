"""`voxcli voices`: save a voice once, use it everywhere with `--voice NAME`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxcli.cli import new_app, output
from voxcli.cli.engine_options import EngineOptions
from voxcli.cli.options import JsonOption, OverwriteOption, QuietOption, grouped, voice_names
from voxcli.cli.references import RECORDING, ReferenceOptions
from voxcli.config import load_settings
from voxcli.errors import UsageError, VoiceFileError
from voxcli.utterance import Mode

if TYPE_CHECKING:
    from voxcli.config import UserSettings
    from voxcli.engine.base import SpeechEngine
    from voxcli.voices import Voice
    from voxcli.voices.profile import VoiceCard

EXAMPLES = (
    "voxcli voices list",
    'voxcli speak "I read every morning before work, and in the evening I walk." --voice mia '
    "-o me.wav && "
    "voxcli voices add me --ref me.wav --consent 'a synthetic voice' && "
    "voxcli voices rename me reader && voxcli voices export reader -o reader.safetensors",
)

app = new_app("List, save, describe, rename and share voices.", no_args_is_help=True)


def _saved_names(incomplete: str) -> list[str]:
    """For a shell that completes."""
    from voxcli.voices import VoiceStore

    return [name for name in VoiceStore().names() if name.startswith(incomplete)]


NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of a saved voice.", autocompletion=_saved_names),
]
AnyNameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of a bundled or saved voice.", autocompletion=voice_names
    ),
]


@app.command()
@grouped
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="New name, as used with --voice.")],
    reference: ReferenceOptions,
    options: EngineOptions,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="CODE",
            help="Language for '--ref-text auto', such as en.",
            show_default="detected",
            rich_help_panel=RECORDING,
        ),
    ] = None,
    consent: Annotated[
        str,
        typer.Option(
            "--consent",
            metavar="NOTE",
            help="Note kept with the voice: whose voice it is, and what they agreed to.",
            show_default=False,
        ),
    ] = "",
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Save the voice of a recording under a name."""
    from voxcli.voices import Voice, VoiceStore

    store = VoiceStore()
    name = store.check_free(name, overwrite=overwrite)
    if reference.ref is None:
        raise UsageError("no recording was given", hint=f"run: voxcli voices add {name} --ref FILE")
    settings = options.settings()
    with _open(options, settings, is_quiet=quiet) as engine:
        engine.require(Mode.REFERENCE)
        heard = reference.load(settings, language)
        assert heard is not None
        voice = Voice(
            name=name,
            recording=heard.recording,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            consent=consent.strip(),
            facts=heard.as_json(),
        )
        voice = _encoded(voice, engine)
    path = store.add(voice, overwrite=overwrite)
    _show_saved(voice, path, is_json=json, is_quiet=quiet)
    _tell_hidden(name, is_quiet=quiet)


@app.command()
@grouped
def encode(
    name: NameArgument,
    options: EngineOptions,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Encode a saved voice for another model, from its kept recording."""
    from voxcli.voices import VoiceStore

    store = VoiceStore()
    voice = store.find(name)
    with _open(options, options.settings(), is_quiet=quiet) as engine:
        engine.require(Mode.REFERENCE)
        if not engine.facts.can_encode:
            raise UsageError(
                f"{engine.facts.name} encodes no voices",
                hint=f"you do not need this: --voice {name} sends it the recording",
            )
        voice = _encoded(voice, engine)
    path = store.add(voice, overwrite=True)
    _show_saved(voice, path, is_json=json, is_quiet=quiet)


@app.command("list")
def list_voices(
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL", help="Also list the voices of this model."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the voices that --voice takes.

    A voice comes with voxcli, is saved, or comes with a model. --model also lists the model's.
    """
    from voxcli.voices import VoiceStore

    store = VoiceStore()
    rows = [{**row, "kind": "preset"} for row in _presets(model)]
    for kind, names in (("bundled", store.bundled()), ("saved", store.names())):
        for name in names:
            try:
                rows.append({**_card(store.card(name)), "kind": kind})
            except VoiceFileError as err:
                rows.append({"name": name, "problem": str(err), "kind": kind})
    if problem := store.problem():
        output.warn(f"{problem.message}; {problem.hint}")
    if json:
        output.result_json({"voices": rows})
        return
    cells = [
        (
            row["name"],
            "damaged" if "problem" in row else row["kind"],
            " ".join(row.get("models") or [row.get("model", "")]),
            row.get("description", ""),
        )
        for row in rows
    ]
    output.result(output.table([("NAME", "KIND", "MODELS", "WHAT"), *cells]))


def _presets(model: str | None) -> list[dict[str, Any]]:
    """The voices that a model has of its own.

    Raises:
        ModelNotFoundError, CheckpointError: no such model.
    """
    if model is None:
        return []
    from voxcli.hub import resolve_model

    settings = load_settings()
    files = resolve_model(model, offline=settings.offline, cache_dir=settings.cache_dir)
    return [{"name": name, "model": files.name} for name in files.facts.voices]


@app.command()
def show(name: AnyNameArgument, json: JsonOption = False) -> None:
    """Describe a voice and its recording."""
    from voxcli.voices import VoiceStore

    store = VoiceStore()
    voice = store.find(name)
    if doubt := store.doubt([name]):
        output.warn(doubt)
    row = {**_summary(voice), "path": str(store.path(name)), "facts": dict(voice.facts)}
    if json:
        output.result_json(row)
        return
    output.result("\n".join(_in_words(voice, is_bundled=name in store.bundled())))


def _in_words(voice: Voice, *, is_bundled: bool) -> Iterator[str]:
    """What a person wants to know of a voice, a fact a line."""
    facts = voice.facts
    yield f"{voice.name}: {_what(voice.card)}, {'bundled with voxcli' if is_bundled else 'saved'}"
    yield f"  models: {', '.join(voice.models) or 'none yet; see voxcli voices encode'}"
    sound = [f"{voice.duration_s:.1f} s", f"{voice.recording.sample_rate} Hz"]
    if "level_dbfs" in facts:
        sound.append(f"speech at {facts['level_dbfs']:.0f} dBFS")
    if "snr_db" in facts:
        sound.append(f"{facts['snr_db']:.0f} dB above the noise")
    yield f"  recording: {', '.join(sound)}"
    yield f"  transcript: {voice.recording.text or 'none'}"
    if voice.consent:
        yield f"  consent: {voice.consent}"
    if voice.created:
        yield f"  made: {voice.created[:10]}"
    for key, word in (("actions", "done to it"), ("warnings", "doubtful")):
        for each in facts.get(key, ()):
            yield f"  {word}: {each}"


@app.command()
def remove(name: NameArgument, json: JsonOption = False) -> None:
    """Delete a saved voice."""
    from voxcli.voices import VoiceStore

    path = VoiceStore().remove(name)
    if json:
        output.result_json({"name": name, "removed": str(path)})
    else:
        output.result(name)


@app.command()
def rename(
    name: NameArgument,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="New name, as used with --voice.")],
    json: JsonOption = False,
) -> None:
    """Rename a saved voice."""
    from voxcli.voices import VoiceStore

    new_name = VoiceStore().rename(name, new_name)
    _tell_hidden(new_name)
    if json:
        output.result_json({"name": new_name, "before": name})
    else:
        output.result(new_name)


@app.command()
def export(
    name: AnyNameArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Output file.",
            show_default="a free name made from the voice's name",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Copy a voice into a file, to keep or to share."""
    from voxcli.voices import SUFFIX, VoiceStore

    target = Path(f"{name}{SUFFIX}") if out is None and overwrite else out
    path = VoiceStore().export(name, target, overwrite=overwrite)
    if json:
        output.result_json({"name": name, "path": str(path)})
    else:
        output.result(path)


@app.command("import")
def import_voice(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File that 'voxcli voices export' wrote.")
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Another name for the voice.",
            show_default="the name in the file",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Save a voice from an exported file."""
    from voxcli.voices import VoiceStore, read_voice

    path = VoiceStore().import_file(file, name, overwrite=overwrite)
    voice = read_voice(path)
    _show_saved(voice, path, is_json=json, is_quiet=quiet)
    _tell_hidden(voice.name, is_quiet=quiet)


def _open(options: EngineOptions, settings: UserSettings, *, is_quiet: bool) -> SpeechEngine:
    """Who encodes."""
    config = options.config(settings)
    return options.open(settings, config, is_quiet=is_quiet, is_speaking=False)


def _encoded(voice: Voice, engine: SpeechEngine) -> Voice:
    """The voice with what the model hears in its recording, where that can be kept; loads the
    model."""
    from voxcli.engine.base import uses_of

    if not engine.facts.can_encode:
        return voice
    return voice.encoded(engine.encode(voice.recording, uses_of(voice.recording)))


def _card(voice: VoiceCard) -> dict[str, Any]:
    return {
        "name": voice.name,
        "duration_s": round(voice.duration_s, 3),
        "sample_rate": voice.sample_rate,
        "text": voice.text,
        "models": list(voice.models),
        "created": voice.created,
        "consent": voice.consent,
        "description": _what(voice),
    }


def _what(voice: VoiceCard) -> str:
    """One phrase about a voice: what was written of it, or how long its recording is."""
    return str(voice.facts.get("description") or f"{voice.duration_s:.1f} s of a recording")


def _summary(voice: Voice) -> dict[str, Any]:
    return _card(voice.card)


def _show_saved(voice: Voice, path: Path, *, is_json: bool, is_quiet: bool) -> None:
    kept = f"for {', '.join(voice.models)}" if voice.models else "kept as its recording"
    output.note(
        f"voice '{voice.name}': {voice.duration_s:.1f} s, {kept}; use it with --voice {voice.name}",
        is_quiet=is_quiet,
    )
    if is_json:
        row = {**_summary(voice), "path": str(path), "facts": dict(voice.facts)}
        output.result_json(row)
    else:
        output.result(voice.name)


def _tell_hidden(name: str, *, is_quiet: bool = False) -> None:
    """Say that a voice has the name of a bundled one."""
    from voxcli.voices.store import is_bundled

    if is_bundled(name):
        said = f"it is used in place of the bundled voice '{name}' until you remove or rename it"
        output.note(said, is_quiet=is_quiet)
