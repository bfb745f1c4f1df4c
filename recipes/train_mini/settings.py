"""One TOML file of settings for all steps; a name that no step knows is refused."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Corpus:
    """Where texts come from and how long a line may be.

    Attributes:
        sources: files of sentences, one a line (`.txt`, `.gz`), or folders of them.
        wordnet: folder of WordNet's `data.*` files, or nothing.
        held_out: file of lines that no training text may equal.
        min_chars, max_chars: of one line.
        num_templates: lines of each kind that this recipe writes itself.
        marked_share: lines with marks inside that this recipe joins, to all others.
    """

    sources: tuple[str, ...] = ()
    wordnet: str = ""
    held_out: str = ""
    min_chars: int = 2
    max_chars: int = 300
    num_templates: int = 6000
    marked_share: float = 0.25
    seed: int = 1


@dataclass(frozen=True)
class Speech:
    """Teachers and their speakers.

    Attributes:
        hibari: folder of the unpacked wheel `hibari-tts`.
        kokoro: folder with `kokoro.int8.onnx` and `voices.npz`.
        held_voices: Kokoro's voices that no training speech may contain.
        hibari_processes, kokoro_processes: how many speak at once; Kokoro's share all cards.
        hibari_hours, kokoro_hours: when to stop; 0 leaves that teacher out.
        utterances: lines in one file of speech.
        lines_a_speaker: lines that one made-up speaker says.
        max_seconds: of one utterance.
    """

    hibari: str = "teachers/hibari"
    kokoro: str = "teachers/kokoro"
    held_voices: tuple[str, ...] = ()
    hibari_processes: int = 1
    kokoro_processes: int = 1
    hibari_hours: float = 0.0
    kokoro_hours: float = 0.0
    utterances: int = 64
    lines_a_speaker: int = 8
    max_seconds: float = 20.0
    seed: int = 1


@dataclass(frozen=True)
class Codec:
    """AudioVAE: sizes as in the official `config.json`, and its training.

    Attributes:
        frames: latent frames of a crop that the losses see.
        context_frames: latent frames before them, decoded and not judged.
        batch: crops a step.
        kokoro_share: part of the crops that Kokoro spoke.
        warp_share, min_warp, max_warp: part of the crops that are resampled, and by how much.
        noise_share: part of the crops with noise behind the voice.
        steps: in all; the learning rate falls over the last `decay_share` of them.
        warm_steps: first steps, without discriminators.
        kl_weight: of the divergence from a unit normal, summed over a latent frame's numbers.
        discriminator_start_steps: steps that train the discriminators alone, where they are new.
        is_encoder_trained: False trains the decoder alone.
    """

    encoder_dim: int = 32
    encoder_rates: tuple[int, ...] = (2, 5, 8, 8)
    latent_dim: int = 64
    decoder_dim: int = 1024
    decoder_rates: tuple[int, ...] = (5, 6, 8, 4)
    frames: int = 16
    context_frames: int = 12
    batch: int = 24
    pool_hours: float = 40.0
    min_pool_seconds: float = 600.0
    kokoro_share: float = 0.6
    warp_share: float = 0.3
    min_warp: float = 0.9
    max_warp: float = 1.15
    noise_share: float = 0.1
    steps: int = 75_000
    warm_steps: int = 4000
    decay_share: float = 0.35
    restart_steps: int = 300
    discriminator_start_steps: int = 200
    learning_rate: float = 3e-4
    discriminator_rate: float = 2e-4
    mel_weight: float = 45.0
    feature_weight: float = 2.0
    kl_weight: float = 0.003
    kl_warm_steps: int = 3000
    ema: float = 0.999
    period_channels: tuple[int, ...] = (32, 64, 128, 256, 256)
    spectral_channels: tuple[int, ...] = (16, 32, 32, 32)
    is_encoder_trained: bool = True
    report_steps: int = 100
    save_seconds: float = 60.0
    seed: int = 1


@dataclass(frozen=True)
class Latents:
    """Speech to latents.

    Attributes:
        batch: rows of one batch through the encoder.
        processes: that share a card.
        takes: how many speakers are made of each, with the one that spoke; not of the default one.
        recorded_share: part of those speakers' lines that are there a second time, as a recording
            with a room and noise, to be a reference.
    """

    batch: int = 48
    processes: int = 1
    takes: int = 1
    recorded_share: float = 0.0


@dataclass(frozen=True)
class Language:
    """The language models and their training: sizes as in the official `config.json`.

    Attributes:
        rows, row_tokens: a step's packed rows and the positions of each.
        draws: patches a step whose diffusion is trained.
        default_share: part of the utterances in the default voice, without a reference.
        steps: in all; the learning rate is a cosine over them after `warm_steps`.
        ends_with_seconds: the learning rate has fallen when the seconds of the call end, if that is
            sooner.
        recording_share: part of the references that are recordings, where there are some.
        guidance_drop: part of the draws without condition.
        history_noise, history_share: standard deviation of noise on what the models read back, and
            on which part of the patches.
        start_from: folder of a checkpoint whose tensors of the same size training begins with, or
            nothing.
    """

    hidden: int = 384
    feed_forward: int = 1024
    heads: int = 6
    kv_heads: int = 2
    layers: int = 6
    residual_layers: int = 3
    quantised: int = 128
    quantiser_scale: int = 9
    encoder_hidden: int = 256
    encoder_feed_forward: int = 768
    encoder_heads: int = 4
    encoder_layers: int = 2
    dit_hidden: int = 384
    dit_feed_forward: int = 1024
    dit_heads: int = 6
    dit_layers: int = 3
    patch: int = 4
    vocabulary: int = 384
    rows: int = 32
    row_tokens: int = 512
    draws: int = 8192
    default_share: float = 0.4
    steps: int = 20_000
    ends_with_seconds: bool = False
    warm_steps: int = 400
    learning_rate: float = 1e-3
    last_rate: float = 3e-5
    weight_decay: float = 0.02
    recording_share: float = 0.5
    guidance_drop: float = 0.1
    history_noise: float = 0.25
    history_share: float = 0.7
    stop_weight: float = 0.3
    phone_weight: float = 0.3
    ema: float = 0.9993
    start_from: str = ""
    report_steps: int = 100
    save_seconds: float = 60.0
    seed: int = 1


@dataclass(frozen=True)
class Distillation:
    """LocDiT's training towards its own solver.

    Attributes:
        guidance: of the teacher, for utterances that follow a recording.
        solver_steps: of the solver that is learnt; 0 learns velocities for any number of steps.
        substeps: the teacher's, for each of them.
        draws: patches a step; no more than the step `language` draws.
        steps: in all; the learning rate is a cosine over them.
    """

    guidance: float = 1.75
    solver_steps: int = 0
    substeps: int = 2
    draws: int = 4096
    steps: int = 3000
    learning_rate: float = 2e-4
    last_rate: float = 1e-6


@dataclass(frozen=True)
class Score:
    """What is synthesised and judged.

    Attributes:
        lines: file of held-out lines.
        references: folder of recordings that no training saw.
        num_lines: how many lines are spoken.
    """

    lines: str = ""
    references: str = ""
    num_lines: int = 100


@dataclass(frozen=True)
class Settings:
    """All steps; `work` is the folder that they share, relative to the file of settings."""

    work: Path = Path("work")
    device: str = "auto"
    corpus: Corpus = field(default_factory=Corpus)
    speech: Speech = field(default_factory=Speech)
    codec: Codec = field(default_factory=Codec)
    latents: Latents = field(default_factory=Latents)
    language: Language = field(default_factory=Language)
    distillation: Distillation = field(default_factory=Distillation)
    score: Score = field(default_factory=Score)

    def path(self, name: str) -> Path:
        """A file or folder named in the settings, relative to the file of settings."""
        return self.work.parent / name


def _value(kind: Any, value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise SystemExit(f"{name} must be a table")
        return _fill(kind, value, f"{name}.")
    if get_origin(kind) is tuple:
        member = get_args(kind)[0]
        if not isinstance(value, list):
            raise SystemExit(f"{name} must be a list")
        return tuple(_value(member, each, name) for each in value)
    if kind is Path:
        return Path(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise SystemExit(f"{name} must be of type {kind.__name__}, not {value!r}")
    return value


def _fill(kind: Any, table: Mapping[str, Any], prefix: str = "") -> Any:
    hints = get_type_hints(kind)
    if surplus := sorted(set(table) - set(hints)):
        known = ", ".join(sorted(hints))
        raise SystemExit(f"no setting {prefix}{surplus[0]}; known here: {known}")
    return kind(**{name: _value(hints[name], table[name], prefix + name) for name in table})


def load(path: Path) -> Settings:
    """The settings of a file.

    Raises:
        SystemExit: a name or a type that no step knows.
    """
    with path.open("rb") as handle:
        settings: Settings = _fill(Settings, tomllib.load(handle))
    return dataclasses.replace(settings, work=path.resolve().parent / settings.work)
