"""From an utterance to a plan: prepared segments, resolved settings, estimated length. No torch.

Everything a user can get wrong about a text is found here, before a model loads.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from voxcli.audio.pace import min_speech_seconds, speaking_time
from voxcli.catalog import ModelSettings, known_models
from voxcli.config import MAX_SEED
from voxcli.errors import UsageError, VoiceNotFoundError
from voxcli.hub import ModelFiles
from voxcli.models import load_can_say
from voxcli.text import PreparedText, prepare
from voxcli.utterance import Utterance

MAX_CHOSEN_SEED = 2**31  # short enough to be typed again


@dataclass(frozen=True)
class VoiceModel:
    """What planning needs to know of a model.

    Attributes:
        languages: ISO 639-1 codes, the model's own first; empty means any.
        settings: what sounded best.
        can_say: whether the tokenizer has a character.
    """

    name: str
    languages: tuple[str, ...]
    settings: ModelSettings
    can_say: Callable[[str], bool]


@dataclass(frozen=True)
class Plan:
    """What will be spoken, and how.

    Attributes:
        seed, steps, cfg: as given, else chosen.
    """

    utterance: Utterance
    text: PreparedText
    seed: int
    steps: int
    cfg: float

    @property
    def estimated_audio_s(self) -> float:
        """Seconds of speech at an ordinary pace: the geometric mean of slowest and fastest."""
        total = 0.0
        for segment in self.text.segments:
            pace = speaking_time(segment.text, self.text.language)
            total += (pace.slowest_s * max(pace.fastest_s, 0.05)) ** 0.5 + segment.pause_s
        return total / self.utterance.speed


def voice_model(files: ModelFiles) -> VoiceModel:
    """What planning needs of a model that is found; loads its tokenizer, no weights."""
    return VoiceModel(files.name, files.languages, files.settings, load_can_say(files.folder))


def make_plan(utterance: Utterance, model: VoiceModel) -> Plan:
    """Prepare the text and resolve every open setting.

    Raises:
        TextError: the text is empty, not speakable or of a language the model does not speak.
        VoiceNotFoundError: the model has no such voice.
        UsageError: settings that contradict the text.
    """
    if utterance.voice is not None and utterance.voice != "default":
        raise VoiceNotFoundError(
            f"no voice '{utterance.voice}' for model '{model.name}'",
            hint="its only voice is 'default'",
        )
    alternatives = tuple(
        known.name for known in known_models().values() if known.name != model.name
    )
    prepared = prepare(
        utterance.text,
        languages=model.languages,
        language=utterance.language,
        max_chars=model.settings.max_chars,
        can_say=model.can_say,
        model=model.name,
        alternatives=alternatives,
        rewrite=utterance.is_normalised,
    )
    sampling = utterance.sampling
    if sampling.max_seconds is not None:
        needed_s = min_speech_seconds(prepared.text, prepared.language) / utterance.speed
        if needed_s > sampling.max_seconds:
            raise UsageError(
                f"--max-seconds is {sampling.max_seconds:g}, but this text needs at least "
                f"{needed_s:.1f} s",
                hint="raise it or shorten the text",
            )
    return Plan(
        utterance=utterance,
        text=prepared,
        seed=secrets.randbelow(MAX_CHOSEN_SEED) if sampling.seed is None else sampling.seed,
        steps=sampling.steps or model.settings.steps,
        cfg=model.settings.cfg if sampling.cfg is None else sampling.cfg,
    )


def segment_seed(seed: int, index: int, attempt: int) -> int:
    """Seed of one attempt at one segment; retries count up, segments stay clear of each other."""
    return (seed + 1000 * index + attempt) % (MAX_SEED + 1)
