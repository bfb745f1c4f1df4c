"""What the bench says: six texts of fixed length, an everyday set, or a user's own file.

The six have exactly 49, 169 and 412 (English) and 15, 55 and 145 (Chinese) characters, so that
results of other tools with prompts of those lengths can be laid beside. Knows no model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files as resource_files
from pathlib import Path

from voxcli.errors import UsageError, hint_for_file, nearest, reason_of
from voxcli.text import decode_text, detect_language


@dataclass(frozen=True)
class Prompt:
    """One text.

    Attributes:
        id: unique within its set.
        set: what results are grouped by: "short", "medium", "long", "everyday" or a file's name.
        language: ISO 639-1 code, or "und".
    """

    id: str
    set: str
    language: str
    text: str


def built_in_prompts() -> list[Prompt]:
    table = resource_files("voxcli.bench").joinpath("prompts.json").read_text("utf-8")
    return [Prompt(**row) for row in json.loads(table)]


def load_prompts(names: str) -> list[Prompt]:
    """The prompts of a comma-separated list of built-in sets and files.

    A file holds one text a line, or, as .json, an object from id to text.

    Raises:
        UsageError: no such set or file, or a file without texts.
    """
    built_in = built_in_prompts()
    known = list(dict.fromkeys(prompt.set for prompt in built_in))
    found: dict[str, list[Prompt]] = {}
    for name in dict.fromkeys(part.strip() for part in names.split(",") if part.strip()):
        if name in known:
            found[name] = [prompt for prompt in built_in if prompt.set == name]
        elif Path(name).is_file():
            prompts = _read_file(Path(name))
            if prompts[0].set in found:
                raise UsageError(f"two prompt sets are called '{prompts[0].set}'")
            found[prompts[0].set] = prompts
        else:
            hint = hint_for_file(
                Path(name), f"{nearest(name, known)}known sets: {', '.join(known)}"
            )
            raise UsageError(f"--prompts: no set and no file '{name}'", hint=hint)
    if not found:
        raise UsageError("--prompts is empty", hint=f"give {','.join(known)} or a file")
    return [prompt for prompts in found.values() for prompt in prompts]


def _read_file(path: Path) -> list[Prompt]:
    try:
        text = decode_text(path.read_bytes(), source=str(path))
        rows = json.loads(text) if path.suffix == ".json" else _numbered(text, path.stem)
    except (OSError, ValueError) as err:
        raise UsageError(f"--prompts: {path} cannot be read: {reason_of(err)}") from err
    is_table = isinstance(rows, dict) and all(isinstance(value, str) for value in rows.values())
    if not is_table or not any(value.strip() for value in rows.values()):
        hint = "give one text a line, or a JSON object from id to text"
        raise UsageError(f"--prompts: {path} holds no texts", hint=hint)
    return [
        Prompt(str(key), path.stem, detect_language(value), value.strip())
        for key, value in rows.items()
        if value.strip()
    ]


def _numbered(text: str, stem: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line.strip()]
    return {f"{stem}_{number:02d}": line for number, line in enumerate(lines, start=1)}


def choose_languages(
    prompts: list[Prompt], asked: tuple[str, ...], spoken: tuple[str, ...], model: str
) -> tuple[list[Prompt], list[str]]:
    """Prompts of the asked languages that the model speaks, and a note for each language skipped.

    Args:
        asked: of `--lang`; prompts of an unknown language pass.
        spoken: by the model; empty means any.

    Raises:
        UsageError: nothing is left.
    """
    notes = []
    for code in asked:
        skipped = [prompt.id for prompt in prompts if prompt.language == code]
        if spoken and code not in spoken and skipped:
            notes.append(f"model '{model}' does not speak '{code}': skipped {', '.join(skipped)}")
    speakable = {code for code in asked if not spoken or code in spoken} | {"und"}
    chosen = [prompt for prompt in prompts if prompt.language in speakable]
    if not chosen:
        found = ", ".join(sorted({prompt.language for prompt in prompts}))
        raise UsageError(
            f"no prompt is left: --lang is {','.join(asked)}, the prompts are in {found}, "
            f"'{model}' speaks {', '.join(spoken) or 'any'}",
            hint="choose other --lang or --prompts",
        )
    return chosen, notes
