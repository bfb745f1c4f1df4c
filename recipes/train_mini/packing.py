"""Lines with their latents, laid out as prompts and packed into rows, a function of the step.

A line is spoken without a reference, in the voice of one, as the continuation of another line of
the same speaker, or both.

Letters: `B` rows, `N` positions, `P` latents a patch, `D` latent width.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from recipes.train_mini.language import Packed
from recipes.train_mini.latents import HELD, Encoded
from recipes.train_mini.settings import Language
from recipes.train_mini.speech import DEFAULT_SPEAKER
from recipes.train_mini.tokens import (
    AUDIO_END,
    AUDIO_START,
    REFERENCE_END,
    REFERENCE_START,
    SPACE_ID,
    Tokens,
)

AUDIO, TRAINED, LAST = 1, 2, 4  # flags of a position
MODES = ("reference", "continuation", "both")
MODE_SHARES = (0.75, 0.15, 0.10)  # of the lines that have a reference
DEFAULT_AS_REFERENCE = 0.15  # of them that are in the default voice
REFERENCE_PATCHES = (10, 45)  # fewest and most
UNKNOWN_SHARE = 0.02  # of the texts that hold a character that is not heard
MAX_MISSES = 6  # lines that found no row before a step is full


@dataclass(frozen=True)
class Store:
    """All lines, behind them their recordings; row 0 of the patches is for text positions.

    Attributes:
        patches: half precision `[T, P, D]`. phones: uint8 `[T, P]`, those of recordings are zero.
        tokens, speakers: of each line.
        starts, lengths: of each line in patches, `[lines]`.
        recordings: the same of each line's recording, `[lines, 2]`; of no length without one.
    """

    patches: Tensor
    phones: Tensor
    tokens: list[np.ndarray]
    starts: np.ndarray
    lengths: np.ndarray
    speakers: list[str]
    recordings: np.ndarray

    @classmethod
    def read(cls, folder: Path, tokens: Tokens, *, is_held: bool = False) -> Store | None:
        """Every file of the step `latents` that is trained on, or that is not; None without any."""
        files = [
            Encoded.read(path)
            for path in sorted(folder.glob("*.pt"))
            if path.name.startswith(HELD) == is_held
        ]
        files = [each for each in map(_usable, files) if each.texts]
        if not files:
            return None
        patches = [torch.zeros_like(files[0].patches[:1])]
        patches += [each.patches for each in files] + [each.recordings for each in files]
        phones = [torch.zeros_like(files[0].phones[:1]), *(each.phones for each in files)]
        lengths = [length for each in files for length in each.lengths]
        recorded = [length for each in files for length in each.recorded_lengths]
        phones.append(phones[0].expand(sum(recorded), -1))
        starts = 1 + np.cumsum([0, *lengths, *recorded])[:-1]
        return cls(
            torch.cat(patches), torch.cat(phones),
            [np.array(tokens(text), np.int64) for each in files for text in each.texts],
            starts[: len(lengths)], np.array(lengths),
            [speaker for each in files for speaker in each.speakers],
            np.stack((starts[len(lengths) :], recorded), 1),
        )  # fmt: skip

    def to(self, device: torch.device) -> Store:
        """The same with its tensors there."""
        return replace(self, patches=self.patches.to(device), phones=self.phones.to(device))


def _usable(lines: Encoded) -> Encoded:
    """Those of two patches or more that are finite, as their recordings are."""

    def is_finite(patches: Tensor, lengths: list[int]) -> list[bool]:
        each = patches.isfinite().flatten(1).all(1).split(lengths)
        return [bool(part.all()) for part in each]

    good = [
        length >= 2 and line and recording
        for length, line, recording in zip(
            lines.lengths, is_finite(lines.patches, lines.lengths),
            is_finite(lines.recordings, lines.recorded_lengths), strict=True,
        )
    ]  # fmt: skip
    if all(good):
        return lines
    kept = torch.tensor(good, dtype=torch.bool)
    spoken, recorded = (
        kept.repeat_interleave(torch.tensor(lengths, dtype=torch.int64))
        for lengths in (lines.lengths, lines.recorded_lengths)
    )
    return Encoded(
        texts=list(compress(lines.texts, good)),
        speakers=list(compress(lines.speakers, good)),
        lengths=list(compress(lines.lengths, good)),
        patches=lines.patches[spoken],
        phones=lines.phones[spoken],
        recordings=lines.recordings[recorded],
        recorded_lengths=list(compress(lines.recorded_lengths, good)),
    )


class Layout:
    """Positions of one utterance, in parts."""

    def __init__(self) -> None:
        self._tokens: list[np.ndarray] = []
        self._places: list[np.ndarray] = []
        self._flags: list[np.ndarray] = []

    def text(self, ids: np.ndarray | list[int]) -> None:
        count = len(ids)
        self._tokens.append(np.asarray(ids, np.int64))
        self._places.append(np.zeros(count, np.int64))
        self._flags.append(np.zeros(count, np.int64))

    def audio(self, start: int, count: int, *, is_trained: bool) -> None:
        flags = np.full(count, AUDIO | (TRAINED if is_trained else 0), np.int64)
        if is_trained:
            flags[-1] |= LAST
        self._tokens.append(np.zeros(count, np.int64))
        self._places.append(start + np.arange(count))
        self._flags.append(flags)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens, places in the store and flags, `[N]` each."""
        parts = self._tokens, self._places, self._flags
        tokens, places, flags = (np.concatenate(part) for part in parts)
        return tokens, places, flags


def _any(lines: Sequence[int], random: np.random.Generator) -> int:
    return lines[random.integers(len(lines))]  # `choice` would copy all of them


def _another(lines: Sequence[int], line: int, random: np.random.Generator) -> int:
    """Any of them but `line`, which is one of them, unless there is no other."""
    chosen = lines[random.integers(max(1, len(lines) - 1))]
    return lines[-1] if chosen == line else chosen


class Steps(Dataset[tuple[np.ndarray, ...]]):
    """Item `step` is what that step is trained on."""

    def __init__(self, store: Store, settings: Language) -> None:
        self._store, self._settings = store, settings
        groups: dict[str, list[int]] = defaultdict(list)
        for index, speaker in enumerate(store.speakers):
            groups[speaker].append(index)
        self._default = groups.pop(DEFAULT_SPEAKER, [])
        self._mates = {i: group for group in groups.values() if len(group) > 1 for i in group}
        self._others = sorted(self._mates)
        if not self._default and not self._others:
            raise SystemExit("no speaker has two lines")

    def __len__(self) -> int:
        return self._settings.steps

    def _utterance(self, random: np.random.Generator) -> Layout:
        store = self._store
        is_default = bool(self._default) and (
            not self._others or random.random() < self._settings.default_share
        )
        if is_default:
            line, mode = _any(self._default, random), "alone"
            mates = self._default
        else:
            as_default = bool(self._default) and random.random() < DEFAULT_AS_REFERENCE
            line = _any(self._default if as_default else self._others, random)
            mates = self._default if as_default else self._mates[line]
            mode = str(random.choice(MODES, p=MODE_SHARES))
        mate, other = _another(mates, line, random), _another(mates, line, random)
        tokens, layout = store.tokens[line], Layout()
        if random.random() < UNKNOWN_SHARE:
            tokens = np.insert(tokens, random.integers(1, len(tokens) + 1), 0)
        if mode in ("reference", "both"):
            start, length = int(store.starts[mate]), int(store.lengths[mate])
            if store.recordings[mate, 1] and random.random() < self._settings.recording_share:
                start, length = store.recordings[mate].tolist()
            count = int(min(length, random.integers(*REFERENCE_PATCHES)))
            skipped = int(random.integers(0, length - count + 1))
            layout.text([REFERENCE_START])
            layout.audio(start + skipped, count, is_trained=False)
            layout.text([REFERENCE_END])
        if mode in ("continuation", "both"):
            # a transcript and the text are joined as they are, with a space or without
            joint = [SPACE_ID] if random.random() < 0.5 else []
            layout.text(np.concatenate((store.tokens[other], joint, tokens[1:])).astype(np.int64))
            layout.text([AUDIO_START])
            layout.audio(
                int(store.starts[other]), int(store.lengths[other]), is_trained=False
            )  # fmt: skip
        else:
            layout.text(tokens)
            layout.text([AUDIO_START])
        layout.audio(int(store.starts[line]), int(store.lengths[line]), is_trained=True)
        layout.text([AUDIO_END])
        return layout

    def __getitem__(self, step: int) -> tuple[np.ndarray, ...]:
        """Tokens, places, flags, utterances and positions `[B, N]`, and the draws `[M]`."""
        settings = self._settings
        random = np.random.default_rng([settings.seed, step])
        B, N = settings.rows, settings.row_tokens
        tokens, places, flags, positions = (np.zeros((B, N), np.int64) for _ in range(4))
        utterances = np.full((B, N), -1, np.int64)
        filled, count, misses = np.zeros(B, int), 0, 0
        while misses < MAX_MISSES:
            parts = self._utterance(random).arrays()
            length = len(parts[0])
            rows = np.flatnonzero(filled + length <= N)
            if not len(rows):
                misses += 1
                continue
            row = int(rows[filled[rows].argmax()])
            place = slice(int(filled[row]), int(filled[row]) + length)
            for array, part in zip((tokens, places, flags), parts, strict=True):
                array[row, place] = part
            utterances[row, place] = count
            positions[row, place] = np.arange(length)
            filled[row] += length
            count += 1
        trained = np.flatnonzero(flags & TRAINED)
        if not len(trained):
            raise SystemExit(f"no line fits a row of {N} positions")
        repeats = np.tile(trained, settings.draws // len(trained))
        rest = random.permutation(trained)[: settings.draws - len(repeats)]
        return tokens, places, flags, utterances, positions, np.concatenate((repeats, rest))


def on_device(arrays: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """A step's arrays as tensors there."""
    return [torch.as_tensor(each).to(device) for each in arrays]


def packed_rows(store: Store, item: Sequence[Tensor]) -> Packed:
    """A step's rows with their patches; all tensors are on one device."""
    tokens, places, flags, utterances, positions, draws = item
    return Packed(
        tokens=tokens,
        patches=store.patches[places].float(),
        is_audio=(flags & AUDIO) > 0,
        is_trained=(flags & TRAINED) > 0,
        is_last=(flags & LAST) > 0,
        utterance=utterances,
        positions=positions,
        phones=store.phones[places].long(),
        draws=draws,
    )
