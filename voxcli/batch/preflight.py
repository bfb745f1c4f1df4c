"""Everything that is wrong with a table, found before a model loads, and a job for each row.

Cheap on purpose: a text of plain words is not prepared here, only its language is looked at; one
with markup, addresses or other scripts is. So ten thousand rows take seconds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from voxcli.audio.fit import SpeedLimits
from voxcli.audio.pace import speaking_time
from voxcli.batch import fitting
from voxcli.batch.casting import Casting
from voxcli.batch.names import Namer
from voxcli.batch.rows import Defaults, Problem, Row, parse_row, utterance_of
from voxcli.batch.tables import Table
from voxcli.hub.catalog import known_models
from voxcli.config import SamplingParams
from voxcli.errors import UsageError, VoxError
from voxcli.plan import VoiceModel, make_plan
from voxcli.text import check_language, is_plain
from voxcli.utterance import Utterance


@dataclass(frozen=True, slots=True)
class Job:
    """A row with everything settled but its recordings.

    Attributes:
        name: path below the output folder, with `/`; empty where the row gets no file.
        utterance: without the voice, see `Casting.fill`.
        key: SHA-256 of all that decides the file's samples.
        problems: what must be corrected; such a job is not run.
        fit: how it is fitted into its slot; None where it is not.
    """

    row: Row
    name: str
    utterance: Utterance
    key: str = ""
    problems: tuple[Problem, ...] = ()
    fit: SpeedLimits | None = None

    @property
    def estimated_audio_s(self) -> float:
        return estimate_audio_s(self.utterance)


@dataclass(frozen=True)
class Rules:
    """What all rows of a run have in common.

    Attributes:
        model: the voice model, for languages and settings.
        checksum: of the model's files.
        storage: bit depth, rate and whatever else changes the samples in the file.
        fit: tempo that slots may ask for; None fits no row.
    """

    defaults: Defaults
    model: VoiceModel
    checksum: str
    storage: Mapping[str, Any] = field(default_factory=dict)
    fit: SpeedLimits | None = None


def check_table(table: Table, rules: Rules, casting: Casting, namer: Namer) -> list[Job]:
    """A job for each record, in order, each with all its problems."""
    fields = {name for record in table.records[:1] for name in record.values}
    has_output = bool(fields & {"output", "id"})
    jobs = []
    for record in table.records:
        row, problems = parse_row(record)
        if row.skipped:
            jobs.append(Job(row, "", utterance_of(row, rules.defaults), "", tuple(problems)))
            continue
        name, wrong = namer.name(row, has_output=has_output) if not record.problem else ("", [])
        utterance, limits = utterance_of(row, rules.defaults), None
        try:
            utterance, limits = fitting.prepare(row, utterance, rules.fit)
        except UsageError as err:
            problems.append(Problem(row.number, row.line, "speed", str(err)))
        key, more = _check(row, utterance, rules, casting, limits)
        is_readable = not record.problem and row.text.strip()
        found = (*problems, *wrong, *(more if is_readable else ()))
        jobs.append(Job(row, name, utterance, key, found, limits))
    return jobs


def _check(
    row: Row, utterance: Utterance, rules: Rules, casting: Casting, limits: SpeedLimits | None
) -> tuple[str, list[Problem]]:
    problems = []
    voice: Mapping[str, Any] = {}
    try:
        check_words(utterance, rules.model)
    except VoxError as err:
        problems.append(Problem(row.number, row.line, "text", str(err)))
    try:
        voice = casting.identity(row)
    except VoxError as err:
        column = "ref" if casting.part_of(row).ref else "voice"
        problems.append(Problem(row.number, row.line, column, str(err)))
    if problems:
        return "", problems
    fit: dict[str, Any] = {}
    if limits:
        fit = {**asdict(limits), "slot_s": row.slot_s, "retries": utterance.sampling.retries}
    return content_key(utterance, rules, voice, fit), problems


def check_words(utterance: Utterance, model: VoiceModel) -> None:
    """Raise what `make_plan` would raise about the text, without its work where that is possible.

    Raises:
        TextError, UsageError: as `make_plan`.
    """
    if utterance.sampling.max_seconds is None and is_plain(utterance.text):
        others = tuple(name for name in known_models() if name != model.name)
        check_language(utterance.text, model.languages, utterance.language, model.name, others)
    else:
        make_plan(Utterance(
            utterance.text, sampling=utterance.sampling, language=utterance.language,
            speed=utterance.speed, is_normalised=utterance.is_normalised,
        ), model)  # fmt: skip


def content_key(
    utterance: Utterance, rules: Rules, voice: Mapping[str, Any], fit: Mapping[str, Any]
) -> str:
    """Hash of what decides the samples: text, voice, seed, model, settings, storage, slot.

    Device and number format are left out: the same batch may go on on another machine.
    """
    sampling = utterance.sampling
    steps, cfg = solver_settings(
        sampling, rules.model, bool(voice.keys() & {"reference", "prompt"})
    )
    parts = {
        "text": utterance.text,
        "language": utterance.language,
        "speed": utterance.speed,
        "is_normalised": utterance.is_normalised,
        "seed": sampling.seed,
        "steps": steps,
        "cfg": cfg,
        "max_seconds": sampling.max_seconds,
        "pause_s": utterance.pause_s,
        "model": rules.checksum,
        "voice": dict(voice),
        "storage": dict(rules.storage),
        **({"fit": dict(fit)} if fit else {}),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def solver_settings(
    sampling: SamplingParams, model: VoiceModel, is_cloning: bool
) -> tuple[int, float]:
    """Steps and guidance as `make_plan` settles them."""
    best = model.settings
    best_cfg = best.clone_cfg if is_cloning else best.cfg
    return sampling.steps or best.steps, best_cfg if sampling.cfg is None else sampling.cfg


def estimate_audio_s(utterance: Utterance) -> float:
    """Seconds at an ordinary pace, from the text as written."""
    pace = speaking_time(utterance.text, utterance.language)
    return math.sqrt(pace.slowest_s * max(pace.fastest_s, 0.05)) / utterance.speed
