"""Lines with their latents, laid out as prompts and packed into rows, a function of the step.

A line is spoken without a reference, in the voice of one, as the continuation of another line of
the same speaker, or both.

Letters: `B` rows, `N` positions, `P` latents a patch, `D` latent width.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from recipes.train_mini.language import Packed
from recipes.train_mini.latents import HELD
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
    """All lines; row 0 of the patches is silence for text positions."""

    patches: Tensor  # half precision [T, P, D]
    phones: Tensor  # uint8 [T, P]
    tokens: list[np.ndarray]
    starts: np.ndarray
    lengths: np.ndarray
    speakers: list[str]

    @classmethod
    def read(cls, folder: Path, tokens: Tokens, *, is_held: bool = False) -> Store | None:
        """Every file of the step `latents` that is trained on, or that is not; None without any."""
        patches, phones, texts, lengths, speakers = [], [], [], [], []
        files = [
            path for path in sorted(folder.glob("*.pt")) if path.name.startswith(HELD) == is_held
        ]
        for path in files:
            for text, speaker, patch, phone in torch.load(path):
                if len(patch) < 2 or not torch.isfinite(patch).all():
                    continue
                patches.append(patch)
                phones.append(phone)
                texts.append(np.array(tokens(text), np.int64))
                lengths.append(len(patch))
                speakers.append(speaker)
        if not patches:
            return None
        empty = torch.zeros_like(patches[0][:1]), torch.zeros_like(phones[0][:1])
        ends = np.cumsum(lengths)
        return cls(
            torch.cat((empty[0], *patches)), torch.cat((empty[1], *phones)), texts,
            1 + ends - lengths, np.array(lengths), speakers,
        )  # fmt: skip

    def to(self, device: torch.device) -> Store:
        """The same with its tensors there."""
        return replace(self, patches=self.patches.to(device), phones=self.phones.to(device))


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
            count = int(min(store.lengths[mate], random.integers(*REFERENCE_PATCHES)))
            skipped = int(random.integers(0, store.lengths[mate] - count + 1))
            layout.text([REFERENCE_START])
            layout.audio(int(store.starts[mate]) + skipped, count, is_trained=False)
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
