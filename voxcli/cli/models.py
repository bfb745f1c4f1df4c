"""`voxcli models`: what there is, what is on this machine, whether it is whole; download."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxcli.cli import new_app, output
from voxcli.cli.options import JsonOption, OfflineOption, QuietOption, model_names
from voxcli.config import load_settings
from voxcli.errors import EXIT_MODEL, CheckpointError, ModelError, ModelNotFoundError

if TYPE_CHECKING:
    from voxcli.hub import FileCheck, ModelFiles, ModelFolder
    from voxcli.hub.catalog import KnownModel, ModelSettings
    from voxcli.models.base import ModelFamily, Published
    from voxcli.parameters import Parameter, Value

EXAMPLES = (
    "voxcli models list",
    "voxcli models info mini",
    "voxcli models verify mini --json",
)

app = new_app("List, inspect, check, download and remove models.", no_args_is_help=True)

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name, hub id or folder of a model.", autocompletion=model_names
    ),
]
HubArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name or hub id of a model.", autocompletion=model_names),
]


@app.command("list")
def list_models(json: JsonOption = False) -> None:
    """List the models that voxcli knows by name."""
    from voxcli.hub.catalog import known_models, other_models

    models: list[KnownModel | Published] = [*known_models().values(), *other_models()]
    rows = [_row(model) for model in models]
    if json:
        output.result_json({"models": rows})
        return
    header = ("NAME", "STATE", "SIZE", "LANGUAGES", "LICENCE", "WHAT")
    cells = [
        (
            row["name"],
            row["state"],
            output.size(row["size_bytes"]),
            _short(row["languages"]),
            row["licence"],
            row["title"],
        )
        for row in rows
    ]
    output.result(output.table([header, *cells]))


@app.command()
def info(name: NameArgument, json: JsonOption = False) -> None:
    """Describe a model: voices, parameters, files."""
    from voxcli.hub import resolve_model
    from voxcli.hub.catalog import known_models
    from voxcli.models import family_named

    known, settings = known_models().get(name), load_settings()
    row: dict[str, Any] = _row(known) if known else {"name": name}
    try:
        model = resolve_model(name, offline=settings.offline, cache_dir=settings.cache_dir)
        row |= _describe(model)
    except ModelError as err:
        if known is None:
            raise
        row |= {**_told(family_named(known.family), known.settings), "problem": str(err)}
    if json:
        output.result_json(row)
    else:
        output.result(output.table(_lines(row)))


@app.command()
def verify(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of a model. Without it, all known models on this machine.",
            autocompletion=model_names,
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare a model's files with their known sizes and hashes."""
    checks = [
        {"model": model.name, "file": check.name, "ok": check.is_ok, "detail": check.detail}
        for model in _models_here(name)
        for check in _verify(model, is_quiet=quiet)
    ]
    is_ok = all(check["ok"] for check in checks)
    if json:
        output.result_json({"ok": is_ok, "files": checks})
    else:
        rows = [
            (str(c["model"]), str(c["file"]), "ok" if c["ok"] else "bad", str(c["detail"]))
            for c in checks
        ]
        output.result(output.table(rows))
    if not is_ok:
        output.error("a file is not what it should be", "see the lines marked bad")
        raise typer.Exit(EXIT_MODEL)


@app.command()
def pull(
    name: HubArgument,
    revision: Annotated[
        str | None,
        typer.Option(
            "--revision",
            metavar="COMMIT",
            help="Commit, branch or tag of the hub model.",
            show_default="the pinned commit, else main",
        ),
    ] = None,
    offline: OfflineOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Download a model from the Hugging Face hub. Run it again to resume."""
    from voxcli.hub import pull_model

    settings = load_settings()
    model = pull_model(
        name,
        revision=revision,
        offline=offline or settings.offline,
        cache_dir=settings.cache_dir,
        show_progress=output.can_show_progress(is_quiet=quiet),
    )
    for check in _verify(model, is_quiet=quiet):
        if not check.is_ok:
            hint = f"run 'voxcli models remove {name}' and the same command again"
            raise CheckpointError(f"{check.name} of '{name}': {check.detail}", hint=hint)
    if json:
        output.result_json({"name": model.name, **_describe(model)})
    else:
        output.result(model.folder)


@app.command()
def remove(name: HubArgument, json: JsonOption = False) -> None:
    """Delete a downloaded model from this machine."""
    from voxcli.hub.remove import remove_model

    freed = remove_model(name, load_settings().cache_dir)
    if json:
        output.result_json({"name": name, "freed_bytes": freed})
    else:
        output.note(f"{output.size(freed)} were freed")
        output.result(name)


def _row(model: KnownModel | Published) -> dict[str, Any]:
    """The row of the table for one model, with whether it is here."""
    from voxcli.hub.catalog import KnownModel

    known = model if isinstance(model, KnownModel) else None
    return {
        "name": model.name,
        "state": _state(model.name),
        "title": model.title,
        "licence": model.licence,
        "size_bytes": model.size,
        "sample_rate": known.sample_rate if known else None,
        "languages": list(model.languages),
        "revision": known.revision if known else None,
    }


def _state(name: str) -> str:
    from voxcli.hub import resolve_model
    from voxcli.hub.catalog import BUNDLED

    settings = load_settings()
    try:
        resolve_model(name, offline=settings.offline, cache_dir=settings.cache_dir)
    except ModelNotFoundError:
        return "not here"
    except ModelError:
        return "damaged"
    return "bundled" if name == BUNDLED else "here"


def _describe(model: ModelFiles) -> dict[str, Any]:
    return {
        "folder": str(model.folder),
        "revision": model.revision,
        "languages": list(model.facts.languages),
        "modes": [str(mode) for mode in model.facts.modes],
        "voices": list(model.facts.voices),
        **_told(model.family, model.settings),
        "num_parameters": model.checkpoint.num_parameters,
        "files": list(model.names),
    }


def _told(family: ModelFamily, settings: ModelSettings) -> dict[str, Any]:
    """What a model can be told, from its family's declaration, and what sounds best."""
    from voxcli.parameters import settle

    best = settle(family.name, family.declaration, settings.parameters)
    parameters = [
        {
            "name": each.name,
            "kind": each.kind,
            "meaning": each.meaning,
            "minimum": each.minimum,
            "maximum": each.maximum,
            "default": each.default,
            "best": best[each.name],
        }
        for each in family.declaration
    ]
    return {"family": family.name, "settings": asdict(settings), "parameters": parameters}


def _models_here(name: str | None) -> list[ModelFolder]:
    """The model of that name, or every known one that is on this machine."""
    from voxcli.hub import locate_model
    from voxcli.hub.catalog import known_models

    settings = load_settings()
    found = []
    for wanted in [name] if name else known_models():
        try:
            at = locate_model(wanted, offline=settings.offline, cache_dir=settings.cache_dir)
            found.append(at)
        except ModelNotFoundError:
            if name:
                raise
    return found


def _verify(model: ModelFolder, *, is_quiet: bool) -> list[FileCheck]:
    from voxcli.hub import verify_model

    size = model.known.size if model.known else None
    with output.Progress(f"verify {model.name}", size, unit="bytes", is_quiet=is_quiet) as progress:
        return list(verify_model(model, progress.advance))


def _short(languages: list[str]) -> str:
    return " ".join(languages) if len(languages) <= 3 else f"{len(languages)} languages"


def _lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows of a table; each parameter has one of its own."""
    from voxcli.models import family_named

    lines = []
    for key, value in row.items():
        if key == "parameters":
            for each in family_named(row["family"]).declaration:
                lines.append((each.option, _parameter(each, row["settings"])))
        elif key == "settings":
            told = ("parameters", "clone_parameters")
            lines.append((key, ", ".join(f"{k} {v}" for k, v in value.items() if k not in told)))
        elif value not in (None, []):
            lines.append(
                (key, " ".join(map(str, value)) if isinstance(value, list) else str(value))
            )
    return lines


def _parameter(declared: Parameter, settings: dict[str, Any]) -> str:
    what = ", ".join(filter(None, (declared.meaning, declared.range)))
    note = f" ({declared.note})" if declared.note else ""
    usual = _number(declared.default)
    best = _number(settings["parameters"].get(declared.name, declared.default))
    others = f" ({usual} in other models of its family)" if best != usual else ""
    if declared.name in settings["clone_parameters"]:
        best += f", {_number(settings['clone_parameters'][declared.name])} in a recorded voice"
    return f"{what}{note}; default {best}{others}"


def _number(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
