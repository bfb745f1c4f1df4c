"""Where voice profiles lie: one file each, in a folder of the user's, and those of the package.

A voice that the user saved under the name of a bundled one takes its place.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from voxcli.audio import files, names
from voxcli.config import data_dir
from voxcli.errors import (
    OutputExistsError,
    UsageError,
    VoiceFileError,
    VoiceNotFoundError,
    nearest,
    reason_of,
)
from voxcli.voices.file import SUFFIX, read_card, read_voice, voice_bytes
from voxcli.voices.profile import Voice, VoiceCard, check_name, same_name_key


@cache
def bundled_folder() -> Path:
    """Where the voices that come with voxcli were installed."""
    return Path(__file__).resolve().parents[1] / "assets" / "voices"


def is_bundled(name: str) -> bool:
    """Whether a voice that comes with voxcli has this name."""
    return any(
        same_name_key(known) == same_name_key(name) for known, _ in _entries(bundled_folder())
    )


class VoiceStore:
    """The profiles of this user, one file each, and those that come with voxcli.

    Args:
        folder: where the user's are; None means the user's own folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = data_dir() / "voices" if folder is None else folder

    def problem(self) -> VoiceFileError | None:
        """Why the user's profiles cannot be listed, if they cannot."""
        try:
            next(_entries(self.folder), None)
        except VoiceFileError as err:
            return err
        return None

    def doubt(self, names: Iterable[str]) -> str:
        """Why bundled voices may not be those that are meant: the user's of the same names cannot
        be seen. Empty where there is no doubt."""
        problem, bundled = self.problem(), set(map(same_name_key, self.bundled()))
        unseen = [f"'{name}'" for name in names if same_name_key(name) in bundled]
        if problem is None or not unseen:
            return ""
        taken = f"{' and '.join(unseen)} as bundled with voxcli"
        return f"{problem.message}, so voxcli takes {taken}; {problem.hint}"

    def names(self) -> list[str]:
        """Of the user's profiles, in order; the files are not opened. None where `problem` says."""
        if self.problem():
            return []
        return sorted((name for name, _ in _entries(self.folder)), key=str.casefold)

    def bundled(self) -> list[str]:
        """Names of the profiles that come with voxcli, without those that the user replaced."""
        own = {same_name_key(name) for name in self.names()}
        names = (name for name, _ in _entries(bundled_folder()))
        return sorted(name for name in names if same_name_key(name) not in own)

    def path(self, name: str) -> Path:
        """The file of a profile that is here.

        Raises:
            VoiceNotFoundError: none of that name, with the nearest one.
            VoiceFileError: the user's cannot be listed, and none that is bundled has that name.
        """
        problem = self.problem()
        for folder in (bundled_folder(),) if problem else (self.folder, bundled_folder()):
            for known, path in _entries(folder):
                if same_name_key(known) == same_name_key(name):
                    return path
        if problem:
            raise problem
        hint = f"{nearest(name, (*self.names(), *self.bundled()))}see 'voxcli voices list'"
        if Path(name).suffix:  # what others take for their option of this name
            hint = f"for the voice of a recording, run: voxcli clone TEXT --ref {name}"
        raise VoiceNotFoundError(f"no voice '{name}'", hint=hint)

    def find(self, name: str) -> Voice:
        """Read a profile.

        Raises:
            VoiceNotFoundError: none of that name.
            VoiceFileError: its file is damaged.
        """
        path = self.path(name)
        known = path.name.removesuffix(SUFFIX)
        return replace(read_voice(path, known), name=known)

    def card(self, name: str) -> VoiceCard:
        """What a list shows of a profile.

        Raises:
            VoiceNotFoundError, VoiceFileError: as `find`, but its samples are not looked at.
        """
        path = self.path(name)
        known = path.name.removesuffix(SUFFIX)
        return replace(read_card(path, known), name=known)

    def check_free(self, name: str, *, overwrite: bool) -> str:
        """A valid name that is not taken, or may be replaced.

        Raises:
            UsageError: not a possible name.
            OutputExistsError: there is a voice of that name.
        """
        name = check_name(name)
        if not overwrite and same_name_key(name) in {
            same_name_key(known) for known, _ in _entries(self.folder)
        }:
            raise OutputExistsError(
                f"voice '{name}' exists already",
                hint="choose another name, or give --overwrite to replace it",
            )
        return name

    def add(self, voice: Voice, *, overwrite: bool = False) -> Path:
        """Keep a profile; a reader sees the whole new file or what was there.

        Raises:
            UsageError, OutputExistsError: as `check_free`.
            OutputError: it cannot be written.
        """
        name = self.check_free(voice.name, overwrite=overwrite)
        older = [
            path
            for known, path in _entries(self.folder)
            if same_name_key(known) == same_name_key(name)
        ]
        path = older[0] if older else self.folder / f"{name}{SUFFIX}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise files.output_error(err, path) from err
        _write(path, voice_bytes(replace(voice, name=name)), overwrite=overwrite)
        return path

    def remove(self, name: str) -> Path:
        """Delete a profile, damaged or not.

        Raises:
            VoiceNotFoundError: none of that name.
            UsageError: it comes with voxcli.
            OutputError: it cannot be deleted.
        """
        path = self._own_path(name)
        try:
            path.unlink()
        except OSError as err:
            raise files.output_error(err, path) from err
        return path

    def rename(self, name: str, new_name: str) -> str:
        """Call a profile otherwise, damaged or not; returns its new name in its one Unicode form.

        Raises:
            VoiceNotFoundError: none of that name.
            UsageError: it comes with voxcli; not a possible name.
            OutputExistsError: there is a voice of the new name.
            OutputError: it cannot be done.
        """
        path = self._own_path(name)
        is_same = same_name_key(check_name(new_name)) == same_name_key(name)
        new_name = self.check_free(new_name, overwrite=is_same)
        target = self.folder / f"{new_name}{SUFFIX}"
        try:
            files.publish(path, target, overwrite=is_same)
        except OSError as err:
            raise files.output_error(err, target) from err
        return new_name

    def _own_path(self, name: str) -> Path:
        path = self.path(name)
        if path.parent == bundled_folder():
            raise UsageError(
                f"voice '{name}' comes with voxcli and cannot be changed",
                hint="save one of your own under that name to replace it",
            )
        return path

    def export(self, name: str, target: Path | None = None, *, overwrite: bool = False) -> Path:
        """Copy a profile, once it has been checked, into one file, which has the name that the
        voice has here.

        Args:
            target: None means the voice's name in this folder, with a number if it is taken.

        Raises:
            VoiceNotFoundError, VoiceFileError: as `find`.
            OutputExistsError, OutputError: it cannot be written.
        """
        voice = self.find(name)
        data = voice_bytes(voice)
        if target is not None:
            return _write(target, data, overwrite=overwrite)
        while True:
            try:
                free = names.free_path(Path(f"{voice.name}{SUFFIX}"))
                return _write(free, data, overwrite=False)
            except OutputExistsError:  # somebody else took it meanwhile
                continue

    def import_file(self, path: Path, name: str | None = None, *, overwrite: bool = False) -> Path:
        """Keep a copy of an exported profile, under its own name or another.

        Raises:
            UsageError: not there, or no sound profile: input, not one of our own assets.
            UsageError, OutputExistsError, OutputError: as `add`.
        """
        try:
            voice = read_voice(path)
        except VoiceFileError as err:
            raise UsageError(err.message, hint=err.hint) from err
        return self.add(replace(voice, name=name or voice.name), overwrite=overwrite)


def _entries(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and file of each profile in a folder.

    Raises:
        VoiceFileError: the folder is there and cannot be read.
    """
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as err:
        raise VoiceFileError(
            f"cannot read the saved voices in {folder}: {reason_of(err)}",
            hint="make the folder yours, or set XDG_DATA_HOME to a folder of yours",
        ) from err
    for path in paths:
        if path.name.endswith(SUFFIX) and not path.name.startswith("."):
            yield unicodedata.normalize("NFC", path.name.removesuffix(SUFFIX)), path


def _write(path: Path, data: bytes, *, overwrite: bool) -> Path:
    try:
        files.check_regular(path)
        if path.is_dir():
            raise files.folder_error(path, path / f"voice{SUFFIX}")
        files.check_folder(path.parent)
        if path.exists() and not overwrite:
            raise files.exists_error(path)
    except OSError as err:
        raise files.output_error(err, path) from err
    temporary = files.hidden_name(path)
    try:
        files.create(temporary)
        temporary.write_bytes(data)
        files.publish(temporary, path, overwrite=overwrite)
        return path
    except OSError as err:
        raise files.output_error(err, path) from err
    finally:
        temporary.unlink(missing_ok=True)
