"""From an utterance to a plan: prepared segments, settled parameters. No torch.

Everything a user can get wrong about a text is found here, before a model loads. Shared by the
engines that prepare texts themselves; knows families by their facts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from voxcli.audio.pace import min_speech_seconds
from voxcli.config import MAX_SEED, SamplingParams, random_seed
from voxcli.errors import UsageError, VoiceNotFoundError, told_apart
from voxcli.hub.catalog import ModelSettings, models_but, models_with, models_with_voice
from voxcli.hub.files import ModelFiles
from voxcli.models.base import ModelFacts, ModelFamily
from voxcli.parameters import Value, settle
from voxcli.plan import Plan
from voxcli.utterance import Mode, Utterance

if TYPE_CHECKING:
    from voxcli.text import PreparedText


@dataclass(frozen=True)
class PlannedModel:
    """What planning needs to know of a model.

    Attributes:
        family: None where another program serves one that no family knows.
        facts: what it is and can be told.
        settings: what sounded best.
        can_say: whether the tokenizer has a character.
    """

    name: str
    family: ModelFamily | None
    facts: ModelFacts
    settings: ModelSettings = field(default_factory=ModelSettings)
    can_say: Callable[[str], bool] = lambda character: True

    @cached_property
    def unasked(self) -> dict[bool, dict[str, Value]]:
        """All parameters as nobody asked, by whether it is cloning."""
        facts, best = self.facts, self.settings
        cloning: tuple[Mapping[str, Value], ...] = ({}, best.clone_parameters)
        return {
            is_cloning: settle(self.name, facts.parameters, best.parameters, cloning[is_cloning])
            for is_cloning in (False, True)
        }


def planned_model(files: ModelFiles) -> PlannedModel:
    """What planning needs of a model that is found; loads its tokenizer, no weights."""
    # a tokenizer takes 4 us a character, and texts of thousands of rows share theirs
    can_say = lru_cache(1 << 16)(files.family.can_say(files.folder))
    return PlannedModel(files.name, files.family, files.facts, files.settings, can_say)


def make_plan(utterance: Utterance, model: PlannedModel) -> Plan:
    """Prepare the text and resolve every open setting.

    Raises:
        TextError: the text is empty, not speakable or of a language the model does not speak.
        VoiceNotFoundError: a voice by name without its recordings.
        UsageError: settings that contradict the text, each other or the model.
    """
    from voxcli.text import prepare  # its rules are many: weights are read beside this import

    _check_mode(utterance, model)
    if model.family is not None:
        utterance = model.family.check(utterance)
    if model.settings.clone_mode is Mode.REFERENCE and is_one_clip(utterance):
        utterance = replace(utterance, prompt=None)

    def prepared_text(text: str) -> PreparedText:
        return prepare(
            text,
            languages=model.facts.languages,
            language=utterance.language,
            max_chars=model.settings.max_chars,
            can_say=model.can_say,
            model=model.name,
            alternatives=models_but(model.name),
            rewrite=utterance.is_normalised,
            lexicon=utterance.lexicon,
        )

    sampling = utterance.sampling
    is_cloning = utterance.mode is not Mode.ZERO_SHOT
    parameters = settled_parameters(sampling, model, is_cloning=is_cloning)
    prepared = prepared_text(utterance.text)
    if sampling.max_seconds is not None:
        needed_s = min_speech_seconds(prepared.text, prepared.language) / utterance.speed
        silences_s = prepared.silences_s
        if needed_s + silences_s > sampling.max_seconds:
            of_silence = f", {silences_s:g} s of it the pauses it asks for" if silences_s else ""
            most, needed = told_apart(sampling.max_seconds, needed_s + silences_s)
            raise UsageError(
                f"--max-seconds is {most}, but this text needs at least {needed} s{of_silence}",
                hint="raise it or shorten the text",
            )
    return Plan(
        utterance=utterance,
        text=prepared,
        seed=random_seed() if sampling.seed is None else sampling.seed,
        parameters=parameters,
        prompt_text=prepared_text(utterance.prompt.text).text if utterance.prompt else "",
    )


def settled_parameters(
    sampling: SamplingParams, model: PlannedModel, *, is_cloning: bool
) -> dict[str, Value]:
    """All parameters of the model: as given, else what sounded best, else the family's default.

    Raises:
        UsageError: one that the model does not have, with those it has; a value out of range.
    """
    best, given = model.settings, sampling.parameters
    if not given:
        return dict(model.unasked[is_cloning])
    cloning: Mapping[str, Value] = best.clone_parameters if is_cloning else {}
    return settle(model.name, model.facts.parameters, best.parameters, cloning, given)


def one_recording(utterance: Utterance, modes: Sequence[Mode], max_continued_s: float) -> Utterance:
    """The utterance for who hears one recording alone: a clip that would be imitated and continued
    is continued where it is short enough to go with its transcript, else imitated.

    Args:
        modes: that there are.
    """
    if Mode.BOTH in modes or not is_one_clip(utterance) or utterance.prompt is None:
        return utterance
    samples = utterance.prompt.samples
    length_s = 0.0 if samples is None else len(samples) / utterance.prompt.sample_rate
    if Mode.CONTINUATION in modes and length_s <= max_continued_s:
        return replace(utterance, reference=None)
    return replace(utterance, prompt=None)


def is_one_clip(utterance: Utterance) -> bool:
    """Whether the same recording is imitated and continued, as a clip with its transcript is."""
    reference, prompt = utterance.reference, utterance.prompt
    return reference is not None and prompt is not None and reference.text == prompt.text


def _check_mode(utterance: Utterance, model: PlannedModel) -> None:
    """Refuse a voice that is not there, and what the model cannot be given."""
    mode, facts = utterance.mode, model.facts
    if mode is Mode.ZERO_SHOT and utterance.voice not in (None, "default", *facts.voices):
        others = ", ".join(models_with_voice(str(utterance.voice)))
        raise VoiceNotFoundError(
            f"no voice '{utterance.voice}' for model '{model.name}'",
            hint=f"it is a voice of: {others}" if others else "see 'voxcli voices list'",
        )
    wanted = [mode, Mode.STYLE] if utterance.style.strip() else [mode]
    if utterance.continuity:
        wanted.append(Mode.BOTH if utterance.reference else Mode.CONTINUATION)
    for missing in [each for each in wanted if each not in facts.modes]:
        others = ", ".join(models_with(missing, facts.family)) or "none that voxcli knows"
        hint = f"models with it: {others}"
        if missing is Mode.ZERO_SHOT:
            hint = "it speaks in the voice of a recording: use 'voxcli clone', or a saved --voice"
        raise UsageError(f"model '{model.name}' has no {missing} mode", hint=hint)
    if utterance.prompt and not utterance.prompt.text.strip():
        raise UsageError("speech to continue needs its transcript", hint="give --prompt-text")


def segment_seed(seed: int, index: int, attempt: int) -> int:
    """Seed of one attempt at one segment; retries count up, segments stay clear of each other."""
    return (seed + 1000 * index + attempt) % (MAX_SEED + 1)
