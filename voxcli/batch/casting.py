"""Who speaks each row: a named voice, a recording to imitate, or the model's own voice.

Each distinct voice is resolved once in the preflight, where its faults are found and its identity
is taken for the rows' content hashes, and again when a row is spoken; few are held at a time. How a
name or a recording becomes part of an utterance is the caller's business.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voxcli.batch.rows import Defaults, Row
from voxcli.engine.base import OWN_VOICE
from voxcli.errors import EngineError, RecordingError, VoxError
from voxcli.utterance import Utterance

MAX_HELD = 32  # recordings in memory; ten seconds at 48 kHz are 2 MB


@dataclass(frozen=True)
class Part:
    """What makes two rows' voices the same. `ref` is a path that can be opened, or empty."""

    voice: str | None
    ref: str = ""
    ref_text: str = ""
    style: str = ""


class Casting:
    """Fills voices into utterances.

    Args:
        defaults: the command's voice, for rows without one.
        folder: relative recordings of rows are looked for here; the command's are as typed.
        named: an utterance whose `voice` is a name, to one that has the voice.
        imitate: an utterance, a recording's path and its transcript, to one that imitates it.
        check: raises where the model cannot have such a voice; the utterance has no text yet.
    """

    def __init__(
        self,
        defaults: Defaults,
        folder: Path,
        *,
        named: Callable[[Utterance], Utterance],
        imitate: Callable[[Utterance, Path, str], Utterance],
        check: Callable[[Utterance], object] = lambda utterance: None,
    ) -> None:
        self._defaults = defaults
        self._folder = folder
        self._named = named
        self._imitate = imitate
        self._check = check
        self._held: OrderedDict[Part, Utterance] = OrderedDict()
        self._identities: dict[Part, dict[str, Any] | VoxError] = {}
        self._of_most = self._part(Row(0, 0, ""))

    def part_of(self, row: Row) -> Part:
        """The row's voice, or the command's where the row names none."""
        if not (row.voice or row.ref or row.ref_text or row.style):
            return self._of_most
        return self._part(row)

    def _part(self, row: Row) -> Part:
        given = self._defaults
        style = row.style or given.style
        if row.ref:
            return Part(None, str(self._folder / row.ref), row.ref_text, style)
        if row.voice or not given.ref:
            voice = row.voice or given.voice
            return Part(None if voice == OWN_VOICE else voice, style=style)
        return Part(None, given.ref, row.ref_text or given.ref_text, style)

    def identity(self, row: Row) -> Mapping[str, Any]:
        """What of the voice belongs into the row's content hash.

        Raises:
            VoxError: no such voice or recording, or one that this model cannot use.
        """
        part = self.part_of(row)
        found = self._identities.get(part)
        if found is None:
            try:
                voiced = self._voiced(part)
                self._check(voiced)
                found = _identity(part, voiced)
            except EngineError:  # says nothing of the voice
                raise
            except VoxError as err:
                found = err
            self._identities[part] = found
        if isinstance(found, VoxError):
            raise found
        return found

    def is_cloning(self, row: Row) -> bool:
        """Whether the row's voice is imitated; False where it cannot be found."""
        found = self._identities.get(self.part_of(row))
        return isinstance(found, dict) and bool(found.keys() & {"reference", "prompt"})

    def fill(self, row: Row, utterance: Utterance, language: str | None = None) -> Utterance:
        """The utterance with its voice in it.

        Args:
            language: of the text, where the utterance does not say.

        Raises:
            VoxError: as `identity`.
        """
        voiced = self._voiced(self.part_of(row))
        return replace(
            utterance, language=utterance.language or language, voice=voiced.voice,
            style=voiced.style, reference=voiced.reference, prompt=voiced.prompt,
        )  # fmt: skip

    def _voiced(self, part: Part) -> Utterance:
        """A blank utterance with the voice in it."""
        held = self._held.get(part)
        if held is None:
            held = self._resolve(part)
            self._refuse_changed(part, held)
            self._held[part] = held
            if len(self._held) > MAX_HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(part)
        return held

    def _refuse_changed(self, part: Part, utterance: Utterance) -> None:
        """A row's content hash has the voice that was there in the preflight, and no other."""
        known = self._identities.get(part)
        if isinstance(known, dict) and known != _identity(part, utterance):
            raise RecordingError(
                f"{part.ref or part.voice} has changed since the table was checked",
                hint="run it again",
            )

    def _resolve(self, part: Part) -> Utterance:
        blank = Utterance("", voice=part.voice, style=part.style)
        if part.ref:
            return self._imitate(blank, Path(part.ref), part.ref_text)
        return self._named(blank)


def _identity(part: Part, utterance: Utterance) -> dict[str, Any]:
    """Recordings by their samples' hash, so that a file that moved is the same voice."""
    found: dict[str, Any] = {"voice": part.voice, "style": utterance.style}
    for name in ("reference", "prompt"):
        recording = getattr(utterance, name)
        if recording is not None:
            found[name] = [recording.key, recording.text]
    return found
