"""Step `distil`: LocDiT learns what its solver makes with guidance, or with more steps.

The language models stay. The trained voice is the teacher; a copy of its LocDiT learns to give
without guidance the velocity that the teacher has with it (Meng et al., arXiv:2210.03142), where an
utterance follows a recording; the others keep theirs. With `solver_steps` it learns a solver of so
few steps whose every step goes where the teacher's `substeps` go (Salimans and Ho,
arXiv:2202.00512), from wherever its own steps before have led.

Letters: `B` rows, `N` positions, `M` draws, `P` latents a patch, `D` latent width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recipes.train_mini.language import LanguageModel, LocalDiT, Packed, before, noised, read_back
from recipes.train_mini.language_training import STATE as TAUGHT
from recipes.train_mini.language_training import Trainer, go_on, open_store
from recipes.train_mini.packing import Store
from recipes.train_mini.progress import Budget
from recipes.train_mini.settings import Distillation, Settings

STATE = "distilled.pt"


def solver_times(num_steps: int) -> list[float]:
    """`num_steps + 1` times from 1 to 0 (sway sampling, arXiv:2410.06885)."""
    times = np.linspace(1, 0, num_steps + 1)
    return (times + (np.cos(math.pi / 2 * times) - 1 + times)).tolist()


def guided(conditional: Tensor, unconditional: Tensor, scale: Tensor) -> Tensor:
    """CFG-Zero* (arXiv:2503.18886): `[M, P, D]` each, and guidance `[M]`; 1 is `conditional`."""
    along, against = conditional.flatten(1), unconditional.flatten(1)
    fit = (along * against).sum(1) / (against.square().sum(1) + 1e-8)
    fitted = unconditional * fit.view(-1, 1, 1)
    return fitted + scale.view(-1, 1, 1) * (conditional - fitted)


def follows_a_recording(packed: Packed) -> Tensor:
    """bool `[M]`: whether a draw's utterance has audio that is not trained on, so is a clone."""
    utterance = (packed.utterance + 1).flatten()
    given = (packed.is_audio & ~packed.is_trained).flatten()
    marks = torch.zeros(len(utterance) + 1, device=given.device)
    marks = marks.index_add(0, utterance, given.float())
    return marks[utterance[packed.draws]] > 0


class Velocities:
    """A LocDiT under the conditions of some draws."""

    def __init__(self, estimator: LocalDiT, mu: Tensor, previous: Tensor) -> None:
        self._estimator, self._mu, self._previous = estimator, mu, previous

    def __call__(self, x: Tensor, times: Tensor) -> Tensor:
        """`[M, P, D]` at times `[M]`."""
        return self._estimator(x, self._mu, times, self._previous)


class Guided:
    """A teacher's, with guidance `[M]`."""

    def __init__(self, estimator: LocalDiT, mu: Tensor, previous: Tensor, guidance: Tensor) -> None:
        self._with = Velocities(estimator, mu, previous)
        self._without = Velocities(estimator, torch.zeros_like(mu), previous)
        self._guidance = guidance

    def __call__(self, x: Tensor, times: Tensor) -> Tensor:
        return guided(self._with(x, times), self._without(x, times), self._guidance)


def velocity_loss(teacher: Guided, student: Velocities, target: Tensor) -> Tensor:
    """At any time between noise and the patches `target [M, P, D]`."""
    x, times, _ = noised(target)
    with torch.no_grad():
        wanted = teacher(x, times)
    return F.mse_loss(student(x, times), wanted)


def solver_loss(
    teacher: Guided, student: Velocities, noise: Tensor, solver_steps: int, substeps: int
) -> Tensor:
    """Of a solver's every step, from the same noise `[M, P, D]`; its first one is empty."""

    def at(time: float) -> Tensor:
        return torch.full((len(noise),), time, device=noise.device)

    fine, coarse = solver_times(solver_steps * substeps), solver_times(solver_steps)
    theirs = ours = noise
    places = {}
    with torch.no_grad():
        for number in range(1, len(fine) - 1):
            theirs = theirs - (fine[number] - fine[number + 1]) * teacher(theirs, at(fine[number]))
            places[number + 1] = theirs
    losses = []
    for number in range(1, solver_steps):
        size = coarse[number] - coarse[number + 1]
        velocity = student(ours, at(coarse[number]))
        wanted = (ours - places[(number + 1) * substeps]) / size
        losses.append(F.mse_loss(velocity, wanted))
        ours = (ours - size * velocity).detach()
    return torch.stack(losses).mean()


def loss(
    teacher: LanguageModel, student: LocalDiT, packed: Packed, settings: Distillation
) -> Tensor:
    """What the student of a teacher's LocDiT has to learn from a step's rows."""
    draws = packed.draws[: settings.draws]
    packed = replace(packed, draws=draws)
    with torch.no_grad():
        read = read_back(packed, teacher.settings)
        base, residual = (
            before(each).flatten(0, 1)[draws] for each in teacher.hidden(packed, read)
        )
        mu = teacher.mu(base, residual)
    target, previous = packed.patches.flatten(0, 1)[draws], read.flatten(0, 1)[draws - 1]
    is_dropped = torch.rand(len(mu), 1, 1, device=mu.device) < teacher.settings.guidance_drop
    mu = mu * ~is_dropped
    guidance = torch.where(follows_a_recording(packed), settings.guidance, 1.0)
    theirs = Guided(teacher.feat_decoder.estimator, mu, previous, guidance)
    ours = Velocities(student, mu, previous)
    if not settings.solver_steps:
        return velocity_loss(theirs, ours, target)
    noise = torch.randn_like(target)
    return solver_loss(theirs, ours, noise, settings.solver_steps, settings.substeps)


class Distiller(Trainer):
    """Trains LocDiT alone, towards a frozen teacher.

    Args:
        taught: the state that the step `language` has saved.
    """

    names = ("distance",)

    def __init__(
        self, settings: Settings, store: Store, device: torch.device, taught: Mapping
    ) -> None:
        chosen = settings.distillation
        course = replace(
            settings.language, steps=chosen.steps, learning_rate=chosen.learning_rate,
            last_rate=chosen.last_rate,
        )  # fmt: skip
        super().__init__(replace(settings, language=course), store, device)
        self._chosen = chosen
        self.teacher = LanguageModel(settings.language, settings.codec).to(device)
        self.teacher.load_state_dict(taught["average"])
        self.teacher.requires_grad_(False)
        self.load({"average": taught["average"], "heads": taught["heads"], "ages": (0, 0)})

    def trained(self) -> nn.Module:
        return self.model.feat_decoder

    def losses(self, packed: Packed) -> dict[str, Tensor]:
        estimator = self.model.feat_decoder.estimator
        return {"distance": loss(self.teacher, estimator, packed, self._chosen)}

    def total(self, made: Mapping[str, Tensor]) -> Tensor:
        return made["distance"]


def run(settings: Settings, device: torch.device, budget: Budget) -> bool:
    """Distil until the steps are done or the budget is spent; True when done."""
    path = settings.work / TAUGHT
    if not path.is_file():
        raise SystemExit(f"no {path}; run the step language first")
    log, store = open_store(settings, "distil", device)
    taught = torch.load(path, map_location=device)
    trainer = Distiller(settings, store.to(device), device, taught)
    return go_on(trainer, store, settings.work / STATE, log, budget)
