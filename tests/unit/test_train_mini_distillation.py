"""LocDiT's training towards its own solver: the right target, and only LocDiT moves."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from test_train_mini import CPU, TOY, average, write_speech  # noqa: E402

from recipes.train_mini import (  # noqa: E402
    codec_training,
    distillation,
    export,
    language_training,
    latents,
    packing,
    settings,
)
from recipes.train_mini.language import LanguageModel, LocalDiT  # noqa: E402
from recipes.train_mini.progress import Budget  # noqa: E402
from recipes.train_mini.tokens import Tokens  # noqa: E402
from voxcli.models.voxcpm2 import host  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

EXACT = {"rtol": 1e-5, "atol": 1e-5}
M = 6


@pytest.fixture
def taught(tmp_path: Path) -> settings.Settings:
    """A toy voice after the step `language`."""
    (tmp_path / "toy.toml").write_text(TOY, "utf-8")
    chosen = settings.load(tmp_path / "toy.toml")
    for kind in ("kokoro", "hibari"):
        write_speech(chosen.work / "speech", kind)
    codec_training.run(chosen, CPU, Budget(60))
    latents.run(chosen, CPU, Budget(60))
    language_training.run(chosen, CPU, Budget(60))
    return chosen


@pytest.fixture
def estimator(tmp_path: Path) -> LocalDiT:
    (tmp_path / "sizes.toml").write_text(TOY, "utf-8")
    chosen = settings.load(tmp_path / "sizes.toml")
    torch.manual_seed(0)
    model = LanguageModel(chosen.language, chosen.codec).feat_decoder.estimator
    for parameter in model.parameters():
        parameter.data += torch.randn_like(parameter) * 0.1
    return model


def conditions(estimator: LocalDiT) -> tuple[Tensor, Tensor, Tensor]:
    """Noise, mu and the patch before, of `M` draws."""
    width = estimator.width
    patch = (M, 4, estimator.out_proj.out_features)
    return torch.randn(patch), torch.randn(M, 2, width), torch.randn(patch)


@pytest.mark.parametrize("num_steps", [2, 3, 6, 10, 25])
def test_times_are_those_of_the_engine_s_solver(num_steps: int) -> None:
    times = distillation.solver_times(num_steps)
    np.testing.assert_allclose(times, host.sway_times(num_steps), atol=1e-6)
    assert host.num_zero_steps(num_steps) == 1  # which `solver_loss` takes for granted


def test_guidance_is_that_of_the_engine() -> None:
    one, other, scale = torch.randn(M, 4, 8), torch.randn(M, 4, 8), torch.linspace(1, 3, M)
    made = distillation.guided(one, other, scale)
    expected = host.guide(one.numpy(), other.numpy(), scale.numpy())
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(made[0], one[0], **EXACT)  # 1 is no guidance


def teacher_and_student(
    estimator: LocalDiT, guidance: float
) -> tuple[distillation.Guided, distillation.Velocities, Tensor]:
    noise, mu, previous = conditions(estimator)
    scale = torch.full((M,), guidance)
    teacher = distillation.Guided(estimator, mu, previous, scale)
    return teacher, distillation.Velocities(estimator, mu, previous), noise


@torch.no_grad()
@pytest.mark.parametrize("solver_steps", [2, 3, 6])
def test_nothing_is_to_learn_from_oneself(estimator: LocalDiT, solver_steps: int) -> None:
    teacher, student, noise = teacher_and_student(estimator, 1.0)
    assert float(distillation.velocity_loss(teacher, student, noise)) < 1e-8
    assert float(distillation.solver_loss(teacher, student, noise, solver_steps, 1)) < 1e-8


@torch.no_grad()
def test_guidance_and_fewer_steps_are_to_learn(estimator: LocalDiT) -> None:
    teacher, student, noise = teacher_and_student(estimator, 2.0)
    assert float(distillation.velocity_loss(teacher, student, noise)) > 1e-4
    teacher, student, noise = teacher_and_student(estimator, 1.0)
    assert float(distillation.solver_loss(teacher, student, noise, 3, 4)) > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("substeps", [1, 2, 5])
def test_a_student_without_loss_ends_where_the_teacher_s_finer_solver_does(
    estimator: LocalDiT, substeps: int
) -> None:
    """The ideal student is told what to answer, and then rolled out like the engine's solver."""
    teacher, _, noise = teacher_and_student(estimator, 1.5)
    wanted: list[Tensor] = []

    class Ideal(distillation.Velocities):
        def __init__(self) -> None:
            self.asked: list[tuple[Tensor, Tensor]] = []

        def __call__(self, x: Tensor, times: Tensor) -> Tensor:
            self.asked.append((x, times))
            return wanted[len(self.asked) - 1] if wanted else torch.zeros_like(x)

    sizes, told = host.solver_times(4 * substeps, is_mean_mode=False)
    x, ends = noise, [noise]
    for number, size in enumerate(sizes):
        x = x - size * teacher(x, torch.full((M,), float(told[0, number])))
        ends.append(x)
    coarse, coarse_told = host.solver_times(4, is_mean_mode=False)
    at = noise
    for number, size in enumerate(coarse):
        goal = ends[(number + 2) * substeps - 1]
        wanted.append((at - goal) / size)
        at = at - size * wanted[-1]
    ideal = Ideal()
    assert float(distillation.solver_loss(teacher, ideal, noise, 4, substeps)) < 1e-8
    asked = [float(times[0]) for _, times in ideal.asked]
    np.testing.assert_allclose(asked, coarse_told[0], atol=1e-6)
    torch.testing.assert_close(at, ends[-1], rtol=1e-4, atol=1e-4)


def test_clones_are_told_from_lines_in_the_default_voice(taught: settings.Settings) -> None:
    store = packing.Store.read(taught.work / "latents", Tokens(taught.language.vocabulary))
    assert store is not None
    kinds = set()
    for default_share in (0.0, 0.5, 1.0):
        steps = packing.Steps(store, replace(taught.language, default_share=default_share, rows=8))
        for step in range(3):
            item = packing.on_device(steps[step], CPU)
            rows = packing.packed_rows(store, item)
            found = distillation.follows_a_recording(rows)
            utterance = rows.utterance.flatten()
            given = {
                int(utterance[i])
                for i in torch.nonzero((rows.is_audio & ~rows.is_trained).flatten()).flatten()
            }
            expected = [int(utterance[draw]) in given for draw in rows.draws]
            assert found.tolist() == expected
            kinds |= {(default_share, kind) for kind in expected}
    assert kinds == {(0.0, True), (0.5, True), (0.5, False), (1.0, False)}


@pytest.mark.parametrize("solver_steps", [0, 3])
def test_distilling_goes_on_as_if_never_interrupted_and_moves_locdit_alone(
    taught: settings.Settings, solver_steps: int
) -> None:
    course = settings.Distillation(
        guidance=2.0, solver_steps=solver_steps, draws=8, steps=5, learning_rate=1e-2
    )
    whole = replace(taught, distillation=course)
    before = average(whole, language_training.STATE)
    assert distillation.run(whole, CPU, Budget(60))
    made = average(whole, distillation.STATE)
    for name, value in before.items():
        is_same = torch.equal(made[name], value)
        assert is_same != name.startswith("feat_decoder."), name
    (whole.work / distillation.STATE).unlink()
    assert not distillation.run(whole, CPU, Budget(0))
    assert distillation.run(whole, CPU, Budget(60))
    for name, value in average(whole, distillation.STATE).items():
        torch.testing.assert_close(value, made[name], rtol=0, atol=0)


def test_the_distance_falls(taught: settings.Settings) -> None:
    course = settings.Distillation(guidance=3.0, draws=16, steps=300, learning_rate=3e-3)
    chosen = replace(
        taught, distillation=course, language=replace(taught.language, default_share=0.0)
    )
    distillation.run(chosen, CPU, Budget(60))
    lines = (chosen.work / "logs" / "distil.jsonl").read_text("utf-8").splitlines()
    distances = [json.loads(line)["distance"] for line in lines]
    assert np.mean(distances[-20:]) < 0.5 * np.mean(distances[:5])


def test_what_was_distilled_is_exported(taught: settings.Settings) -> None:
    chosen = replace(taught, distillation=settings.Distillation(steps=2, learning_rate=1e-2))
    folder = chosen.work / export.FOLDER
    export.run(chosen, CPU, Budget(60))
    plain = load_file(folder / "model.safetensors")
    distillation.run(chosen, CPU, Budget(60))
    export.run(chosen, CPU, Budget(60))
    distilled = load_file(folder / "model.safetensors")
    name = "feat_decoder.estimator.out_proj.weight"
    assert not torch.equal(plain[name], distilled[name])
    assert torch.equal(plain["stop_head.weight"], distilled["stop_head.weight"])
