"""Everything that is wrong with a table, found before a model loads, and a job for each row.

Cheap on purpose: a text of plain words is not prepared here, only its language is looked at; one
with markup, addresses or other scripts is. So ten thousand rows take seconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from voxcli.audio.fit import SpeedLimits
from voxcli.audio.pace import min_speech_seconds
from voxcli.batch import fitting
from voxcli.batch.cast import Cast
from voxcli.batch.casting import Casting
from voxcli.batch.columns import columns_of
from voxcli.batch.jobs import Job
from voxcli.batch.names import Namer
from voxcli.batch.records import Table
from voxcli.batch.rows import Defaults, Problem, Row, parse_row, utterance_of
from voxcli.engine.base import SpeechEngine
from voxcli.errors import EngineError, UsageError, VoxError
from voxcli.hub.catalog import models_but
from voxcli.text import check_language, is_plain
from voxcli.utterance import Utterance

LEVEL = "loudness"  # in `Rules.storage`, where one is asked for
NO_LEXICON = "none"  # in a row: not the command's
_IN_ORDER = json.JSONEncoder(sort_keys=True)
MOST_WRITTEN_OUT = 20  # times as long as it is written a text may be said: "$1,299.50" is 6 times


@dataclass(frozen=True)
class Rules:
    """What all rows of a run have in common.

    Attributes:
        engine: who will speak; need not be started.
        checksum: of what decides the samples, see `SpeechEngine.model_checksum`.
        storage: bit depth, rate, level and whatever else changes the samples in the file.
        fit: tempo that slots may ask for; None fits no row.
        cast: which voice each speaker has.
    """

    defaults: Defaults
    engine: SpeechEngine
    checksum: str
    storage: Mapping[str, Any] = field(default_factory=dict)
    fit: SpeedLimits | None = None
    cast: Cast = field(default_factory=Cast)


def check_table(
    table: Table,
    rules: Rules,
    casting: Casting,
    namer: Namer,
    *,
    on_row: Callable[[], None] = lambda: None,
) -> list[Job]:
    """A job for each record, in order, each with all its problems.

    Args:
        on_row: called before each.

    Raises:
        UsageError: a parameter for all rows that the model does not have, or out of range.
    """
    rules.engine.settled(Utterance("", sampling=rules.defaults.sampling))
    columns = columns_of(rules.engine.facts)
    fields = {name for record in table.records[:1] for name in record.values}
    has_output = bool(fields & {"output", "id"})
    jobs = []
    for record in table.records:
        on_row()
        row, problems = parse_row(record, columns)
        row, lack = rules.cast.fill(row)
        if lack:
            problems.append(Problem(row.number, row.line, "speaker", lack))
        if row.skipped:
            jobs.append(Job(row, "", utterance_of(row, rules.defaults)))
            continue
        name, wrong = namer.name(row, has_output=has_output) if not record.problem else ("", [])
        utterance, limits = utterance_of(row, rules.defaults), None
        try:
            utterance = with_own_lexicon(row, utterance, table.path.parent)
        except UsageError as err:
            problems.append(Problem(row.number, row.line, "lexicon", str(err)))
        try:
            utterance, limits = fitting.prepare(row, utterance, rules.fit)
        except UsageError as err:
            problems.append(Problem(row.number, row.line, "speed", str(err)))
        keys, language, more = _check(row, utterance, rules, casting, limits)
        is_readable = not record.problem and row.text.strip()
        found = (*problems, *wrong, *(more if is_readable else ()))
        key, spoken_key = keys
        jobs.append(Job(row, name, utterance, key, language, found, limits, spoken_key))
    return jobs


def with_own_lexicon(row: Row, utterance: Utterance, folder: Path) -> Utterance:
    """The utterance with the lexicon that its row names.

    Args:
        folder: that relative paths begin at.

    Raises:
        UsageError: the file cannot be used.
    """
    if not row.lexicon or row.lexicon.lower() == NO_LEXICON:
        return utterance
    if not utterance.is_normalised:
        raise UsageError("a text with --raw-text uses no lexicon")
    from voxcli.text.pronunciations import load_lexicon

    return replace(utterance, lexicon=load_lexicon(folder / row.lexicon))


def _check(
    row: Row, utterance: Utterance, rules: Rules, casting: Casting, limits: SpeedLimits | None
) -> tuple[tuple[str, str], str, list[Problem]]:
    """The content hash and that of the row before its level is set, the language of the text, and
    what is wrong with it or its voice."""
    problems = []
    language = ""
    voice: Mapping[str, Any] = {}
    try:
        language = check_words(utterance, rules.engine)
    except EngineError:  # says nothing of the text
        raise
    except VoxError as err:
        option, _, rest = str(err).partition(" ")
        is_length = option == "--max-seconds"  # which is a column here
        column, message = ("max_seconds", rest) if is_length else ("text", str(err))
        problems.append(Problem(row.number, row.line, column, message))
    try:
        voice = casting.identity(row)
    except VoxError as err:
        column = "ref" if casting.part_of(row).ref else "voice"
        problems.append(Problem(row.number, row.line, column, str(err)))
    if problems:
        return ("", ""), language, problems
    fit: dict[str, Any] = {}
    if limits:
        fit = {**asdict(limits), "slot_s": row.slot_s, "retries": utterance.sampling.retries}
    key, spoken_key = content_key(utterance, rules, voice, fit, language), ""
    if LEVEL in rules.storage:
        stored = {name: value for name, value in rules.storage.items() if name != LEVEL}
        spoken = replace(rules, storage=stored)
        spoken_key = content_key(utterance, spoken, voice, fit, language)
    return (key, spoken_key), language, problems


def check_words(utterance: Utterance, engine: SpeechEngine) -> str:
    """The language of the text; without the work of planning where that is possible.

    Raises:
        TextError, UsageError: as `SpeechEngine.plan`.
    """
    facts = engine.facts
    max_seconds = utterance.sampling.max_seconds
    fits = max_seconds is None or (
        MOST_WRITTEN_OUT * min_speech_seconds(utterance.text) < max_seconds * utterance.speed
        and not utterance.lexicon
    )
    if fits and is_plain(utterance.text):
        others = models_but(facts.model)
        return check_language(
            utterance.text, facts.languages, utterance.language, facts.model, others
        )
    plan = engine.plan(Utterance(
        utterance.text, sampling=utterance.sampling, language=utterance.language,
        speed=utterance.speed, is_normalised=utterance.is_normalised, lexicon=utterance.lexicon,
    ))  # fmt: skip
    return plan.text.language


def _asked_by_text(utterance: Utterance, language: str) -> dict[str, Any]:
    """What is in the hash of rows alone that use a lexicon, or ask for pauses."""
    text = utterance.text
    if not utterance.is_normalised:
        return {}
    found: dict[str, Any] = {}
    if not is_plain(text):
        from voxcli.text.pauses import has_mark

        found |= {"has_pauses": True} if has_mark(text) else {}
    if utterance.lexicon:
        from voxcli.text.pronunciations import uses

        used = uses(text, utterance.lexicon, language)
        found |= {"lexicon": used} if used else {}
    return found


def content_key(
    utterance: Utterance,
    rules: Rules,
    voice: Mapping[str, Any],
    fit: Mapping[str, Any],
    language: str,
) -> str:
    """Hash of what decides the samples: text, voice, seed, model, parameters, storage, slot, and
    what of a lexicon the text uses.

    Device and number format are left out: the same batch may go on on another machine.
    """
    sampling = utterance.sampling
    is_cloning = bool(voice.keys() & {"reference", "prompt"})
    parts = {
        "text": utterance.text,
        "language": utterance.language,
        "speed": utterance.speed,
        "is_normalised": utterance.is_normalised,
        "seed": sampling.seed,
        "parameters": rules.engine.settled(utterance, is_cloning=is_cloning),
        "max_seconds": sampling.max_seconds,
        "pause_s": utterance.pause_s,
        "model": rules.checksum,
        "voice": dict(voice),
        "storage": dict(rules.storage),
        **({"fit": dict(fit)} if fit else {}),
        **_asked_by_text(utterance, language),
    }
    return hashlib.sha256(_IN_ORDER.encode(parts).encode()).hexdigest()
