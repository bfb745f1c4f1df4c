"""From an utterance to a plan: prepared segments, resolved settings, estimated length. No torch.

Everything a user can get wrong about a text is found here, before a model loads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from voxcli.audio.pace import min_speech_seconds, speaking_time
from voxcli.hub.catalog import ModelSettings, known_models, models_with
from voxcli.config import MAX_SEED, random_seed
from voxcli.errors import UsageError, VoiceNotFoundError
from voxcli.hub import ModelFiles
from voxcli.models import load_can_say
from voxcli.text import PreparedText, prepare
from voxcli.utterance import Mode, Utterance


@dataclass(frozen=True)
class VoiceModel:
    """What planning needs to know of a model.

    Attributes:
        languages: ISO 639-1 codes, the model's own first; empty means any.
        settings: what sounded best.
        can_say: whether the tokenizer has a character.
        modes: what it can be given besides a text.
    """

    name: str
    languages: tuple[str, ...]
    settings: ModelSettings
    can_say: Callable[[str], bool]
    modes: tuple[Mode, ...] = tuple(Mode)


@dataclass(frozen=True)
class Plan:
    """What will be spoken, and how.

    Attributes:
        seed, steps, cfg: as given, else chosen.
        prompt_text: transcript of the speech to continue, written out like the text.
    """

    utterance: Utterance
    text: PreparedText
    seed: int
    steps: int
    cfg: float
    prompt_text: str = ""

    @property
    def solver(self) -> tuple[int, bool]:
        """Solver steps, and whether they are guided: what a CUDA graph is captured for."""
        return self.steps, self.cfg != 1.0

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
    return VoiceModel(
        files.name, files.languages, files.settings, load_can_say(files.folder), files.modes
    )


def make_plan(utterance: Utterance, model: VoiceModel) -> Plan:
    """Prepare the text and resolve every open setting.

    Raises:
        TextError: the text is empty, not speakable or of a language the model does not speak.
        VoiceNotFoundError: a voice by name without its recordings.
        UsageError: settings that contradict the text, each other or the model.
    """
    _check_mode(utterance, model)
    if model.settings.clone_mode is Mode.REFERENCE and _is_one_clip(utterance):
        utterance = replace(utterance, prompt=None)
    alternatives = tuple(
        known.name for known in known_models().values() if known.name != model.name
    )

    def prepared_text(text: str) -> PreparedText:
        return prepare(
            text,
            languages=model.languages,
            language=utterance.language,
            max_chars=model.settings.max_chars,
            can_say=model.can_say,
            model=model.name,
            alternatives=alternatives,
            rewrite=utterance.is_normalised,
        )

    prepared = prepared_text(utterance.text)
    best = model.settings
    best_cfg = best.cfg if utterance.mode is Mode.ZERO_SHOT else best.clone_cfg
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
        seed=random_seed() if sampling.seed is None else sampling.seed,
        steps=sampling.steps or best.steps,
        cfg=best_cfg if sampling.cfg is None else sampling.cfg,
        prompt_text=prepared_text(utterance.prompt.text).text if utterance.prompt else "",
    )


def _is_one_clip(utterance: Utterance) -> bool:
    """Whether the same recording is imitated and continued, as a clip with its transcript is."""
    reference, prompt = utterance.reference, utterance.prompt
    return reference is not None and prompt is not None and reference.text == prompt.text


def _check_mode(utterance: Utterance, model: VoiceModel) -> None:
    """Refuse what the model cannot be given, and words for a voice beside speech to continue."""
    mode = utterance.mode
    if mode is Mode.ZERO_SHOT and utterance.voice not in (None, "default"):
        raise VoiceNotFoundError(
            f"no voice '{utterance.voice}' for model '{model.name}'",
            hint="see 'voxcli voices list'",
        )
    style = utterance.style.strip()
    wanted = [mode, Mode.STYLE] if style else [mode]
    if utterance.continuity:
        wanted.append(Mode.BOTH if utterance.reference else Mode.CONTINUATION)
    for missing in [each for each in wanted if each not in model.modes]:
        others = ", ".join(models_with(missing)) or "none that voxcli knows"
        raise UsageError(f"model '{model.name}' has no {missing} mode", hint=f"it is in: {others}")
    if style and utterance.continuity:
        raise UsageError(
            "a style in words and continuity exclude each other",
            hint="drop --style or --continuity",
        )
    if style and utterance.prompt:
        raise UsageError(
            "a style in words and speech to continue exclude each other",
            hint="drop --style, or the prompt's audio and transcript",
        )
    if any(char in style for char in "()（）"):
        raise UsageError(f"the style '{style}' has parentheses", hint="write it without them")
    if utterance.prompt and not utterance.prompt.text.strip():
        raise UsageError("speech to continue needs its transcript", hint="give --prompt-text")


def segment_seed(seed: int, index: int, attempt: int) -> int:
    """Seed of one attempt at one segment; retries count up, segments stay clear of each other."""
    return (seed + 1000 * index + attempt) % (MAX_SEED + 1)
