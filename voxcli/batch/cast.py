"""Which voice each speaker of a table has: `--cast`, a file of the same, and the config.

A row that names a voice or a recording itself keeps it. Names are the same in upper and lower case.
Knows no voices: whether one is there is found where the row's own would be.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from voxcli.batch.captions import folded
from voxcli.batch.encoding import decode_table
from voxcli.batch.records import fold_header, misspelt
from voxcli.batch.rows import Row
from voxcli.errors import UsageError, hint_for_file, nearest, reason_of

SILENT = "none"  # a voice: the speaker's rows are not spoken
COLUMNS = ("speaker", "voice", "ref", "ref_text", "style")
_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Role:
    """How a speaker sounds.

    Attributes:
        ref: a recording to imitate, as a path that can be opened; then `voice` is empty.
        is_typed: on the command line, so that a name that nobody has is a mistake.
    """

    name: str
    voice: str = ""
    ref: str = ""
    ref_text: str = ""
    style: str = ""
    is_typed: bool = False


@dataclass(frozen=True)
class Cast:
    """The roles of a run.

    Attributes:
        roles: by folded name.
        is_asked: for this run; then a speaker without a voice is a problem.
        has_rest: others have the command's voice.
        unused: for people: columns of the files that say nothing.
    """

    roles: Mapping[str, Role] = field(default_factory=dict)
    is_asked: bool = False
    has_rest: bool = False
    unused: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, asked: Sequence[str], settings: Mapping[str, str] | None = None, *, has_rest: bool
    ) -> Cast:
        """The cast of a command.

        Args:
            asked: values of `--cast`: pairs with commas between, or the path of a file.
            settings: voices by speaker, for whom the command has none.

        Raises:
            UsageError, TextError: a file or a value that cannot be used, or a speaker twice.
        """
        roles = {
            folded(name): Role(name, _voice(voice)) for name, voice in (settings or {}).items()
        }
        given: dict[str, Role] = {}
        unused: list[str] = []
        for value in asked:
            is_file = "=" not in value or Path(value).is_file()
            for role in _filed(Path(value), unused.append) if is_file else _typed(value):
                if folded(role.name) in given:
                    raise UsageError(f"--cast has '{role.name}' twice", hint="drop one of them")
                given[folded(role.name)] = role
        return cls(roles | given, bool(asked), has_rest, tuple(unused))

    @property
    def names(self) -> tuple[str, ...]:
        """Speakers that the command gives voices, as it names them."""
        return tuple(role.name for role in self.roles.values()) if self.is_asked else ()

    def fill(self, row: Row) -> tuple[Row, str]:
        """A row in the voice of its speaker, and what is wrong with that; empty where nothing."""
        if not row.speaker or row.skipped or row.voice or row.ref:
            return row, ""
        role = self.roles.get(folded(row.speaker))
        if role is None:
            return row, self._lack(row.speaker) if self.is_asked and not self.has_rest else ""
        if role.voice == SILENT:
            return replace(row, skipped=f"the cast leaves out '{row.speaker}'"), ""
        return replace(
            row, voice=role.voice, ref=role.ref, ref_text=row.ref_text or role.ref_text,
            style=row.style or role.style,
        ), ""  # fmt: skip

    def _lack(self, name: str) -> str:
        hint = nearest(name, [role.name for role in self.roles.values()])
        return (
            f"'{name}' has no voice; {hint}add '{name}=VOICE' to --cast, {SILENT} to leave it out, "
            "or give all others --voice"
        )

    def notes(self, rows: Iterable[Row]) -> list[str]:
        """For people: who has a voice in vain, who that of the command, and who none."""
        known: dict[str, str] = {}  # as it is written first
        rest: Counter[str] = Counter()
        silent: Counter[str] = Counter()
        for row in rows:
            role = self.roles.get(folded(row.speaker))
            known.setdefault(folded(row.speaker), row.speaker)
            if role is None and row.speaker and not (row.voice or row.ref):
                rest[row.speaker] += 1
            elif role is not None and role.voice == SILENT and row.skipped:
                silent[row.speaker] += 1
        names = list(known.values())
        vain = [
            f"{role.name}{f' ({near.strip()})' if (near := nearest(role.name, names)) else ''}"
            for key, role in self.roles.items()
            if role.is_typed and key not in known
        ]
        notes = [*self.unused]
        notes += [f"nobody in the table is called {', '.join(vain)}"] if vain else []
        if rest and self.is_asked and self.has_rest:
            notes.append(f"not in the cast, so in the command's voice: {_counted(rest)}")
        if silent:
            notes.append(f"rows of speakers whom the cast leaves out: {_counted(silent)}")
        return notes


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{name} ({num})" for name, num in found.items())


def _typed(value: str) -> Iterable[Role]:
    for pair in value.split(","):
        name, _, voice = (each.strip() for each in pair.partition("="))
        if not (name and voice) or set(voice) & {"=", ";"}:
            hint = "write Anna=emma,Ben=george, or name a CSV with the columns speaker and voice"
            raise UsageError(f"--cast is '{value}'", hint=hint)
        yield Role(name, _voice(voice), is_typed=True)


def _filed(path: Path, on_note: Callable[[str], None]) -> Iterable[Role]:
    """Roles of a CSV; recordings are relative to its folder.

    Args:
        on_note: gets what of the file is not used.
    """
    try:
        text, _ = decode_table(path.read_bytes(), None, str(path))
    except OSError as err:
        hint = hint_for_file(path, "write --cast Anna=emma,Ben=george, or name a CSV")
        raise UsageError(f"cannot read the cast {path}: {reason_of(err)}", hint=hint) from err
    header = text.partition("\n")[0]
    reader = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=max(_DELIMITERS, key=header.count), strict=True
    )
    try:
        columns = [fold_header(name) for name in reader.fieldnames or ()]
        reader.fieldnames = columns
        rows = list(enumerate(reader, start=2))
    except csv.Error as err:
        raise UsageError(
            f"the cast {path} cannot be read: {reason_of(err)}", hint="correct it"
        ) from err
    lacking = [name for name in COLUMNS if name not in columns]
    meant = next((found for name in columns if (found := misspelt(name, lacking))), "")
    if "speaker" not in columns or not {"voice", "ref"} & set(columns) or meant:
        hint = (f"did you mean '{meant}'? " if meant else "") + f"columns: {', '.join(COLUMNS)}"
        raise UsageError(f"the cast {path} has the columns {', '.join(columns)}", hint=hint)
    if others := [name for name in columns if name and name not in COLUMNS]:
        on_note(f"the cast {path} has columns that are not used: {', '.join(others)}")
    for number, cells in rows:
        values = {name: (cells.get(name) or "").strip() for name in COLUMNS}
        if not any(values.values()) and None not in cells:
            continue
        if not values["speaker"] or bool(values["voice"]) == bool(values["ref"]) or None in cells:
            hint = "give each line a speaker, and a voice or a ref"
            raise UsageError(f"the cast {path}, line {number} cannot be used", hint=hint)
        if values["ref"]:
            values["ref"] = str((path.parent / values["ref"]).absolute())
        yield Role(
            values["speaker"], _voice(values["voice"]), values["ref"], values["ref_text"],
            values["style"],
        )  # fmt: skip


def _voice(name: str) -> str:
    return SILENT if name.lower() == SILENT else name
