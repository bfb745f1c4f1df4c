"""A batch whose engine fails goes on in a fresh process; nothing is lost, or done twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from batches import prepare, speak, statuses
from fakes import FakeModel, FakeState

from voxcli.batch.session import Choices
from voxcli.engine.takeover import TakeOver
from voxcli.errors import EngineError, EngineFaultError
from voxcli.models.data import Rows, StepOutput

ROWS = ("The first one is short.", "The second one is a bit longer.", "Three.",
        "Number four is here.", "And the fifth of six.", "The last one of them all.")  # fmt: skip
POISON = ROWS[3]


class PoisonedModel(FakeModel):
    """The device fails whenever one text is spoken."""

    def decode(self, state: FakeState, rows: Rows) -> StepOutput:
        if any(state.texts[slot] == POISON for slot, *_ in rows.host or ()):
            self.fail_at_step = self.num_decodes + 1
        return super().decode(state, rows)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "six.csv"
    path.write_text("\n".join(["text", *(f'"{row}"' for row in ROWS)]), "utf-8")
    return path


def speak_on(
    table: Path, out: Path, models: Iterable[FakeModel], **choices: bool
) -> tuple[dict[str, Any], int]:
    """A run through one process after the other; its report and how many it took."""
    notes: dict[str, Any] = {}
    for number, model in enumerate(models, 1):
        session = prepare(table, out, choices=Choices(**choices))
        try:
            return speak(session, model, notes=notes), number
        except TakeOver as end:
            partial = json.loads((out / "report.json").read_text("utf-8"))
            assert not partial["is_complete"]
            notes = json.loads(json.dumps(end.notes))
    raise AssertionError("more processes than models")


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("*.wav")}


@pytest.mark.parametrize("step", [1, 3, 14, 18])
def test_a_fault_changes_nothing_of_what_a_batch_makes(
    table: Path, tmp_path: Path, step: int
) -> None:
    whole = speak(prepare(table, tmp_path / "whole"))
    models = [FakeModel(fail_at_step=step), FakeModel()]
    report, number = speak_on(table, tmp_path / "out", models)
    assert number == 2
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert statuses(report) == ["ok"] * 6
    assert report["is_complete"]
    assert report["audio_s"] == pytest.approx(whole["audio_s"])
    assert report["wall_s"] > 0
    for row, same in zip(report["rows"], whole["rows"], strict=True):
        assert {**row, "output": ""} == {**same, "output": ""}
    lines = (tmp_path / "out" / "manifest.jsonl").read_text("utf-8").splitlines()
    kinds = [next(iter(json.loads(line))) for line in lines]
    assert (kinds.count("run"), kinds.count("fault")) == (1, 1)


def test_what_was_done_before_a_fault_is_not_done_again_even_where_all_is_forced(
    table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    speak(prepare(table, out))
    models = [FakeModel(fail_at_step=18), FakeModel()]
    report, _ = speak_on(table, out, models, force=True)
    assert statuses(report) == ["ok"] * 6
    assert {row["reason"] for row in report["rows"]} == {"forced"}
    spoken = [text for model in models for text, _ in model.prompts]
    assert len(spoken) < 2 * len(ROWS)


def test_a_row_that_brings_the_fault_fails_alone(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report, number = speak_on(table, out, [PoisonedModel() for _ in range(4)])
    assert number == 3  # with others, alone, and without it
    assert statuses(report) == ["ok", "ok", "ok", "failed", "ok", "ok"]
    assert report["counts"]["failed"] == 1
    row = report["rows"][3]
    assert "illegal memory access" in row["reason"]
    assert "the engine failed twice while it spoke this row" in row["reason"]
    again = speak(prepare(table, out), FakeModel())  # the next run tries it again
    assert statuses(again) == ["kept", "kept", "kept", "ok", "kept", "kept"]


def test_suspects_are_spoken_last_and_alone(table: Path, tmp_path: Path) -> None:
    models = [FakeModel(fail_at_step=1), FakeModel()]
    report, _ = speak_on(table, tmp_path / "out", models)
    sizes = models[1].batch_sizes  # four of six were being spoken
    first_alone = sizes.index(1, sizes.index(2))
    assert set(sizes[first_alone:]) == {1}
    assert len({text for text, _ in models[1].prompts[:2]} & set(ROWS)) == 2
    assert statuses(report) == ["ok"] * 6


def test_a_fault_that_comes_every_time_ends_the_run_and_all_can_be_resumed(
    table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    models = [FakeModel(fail_at_step=2) for _ in range(9)]
    with pytest.raises(EngineError, match="4 faults and no row done between them"):
        speak_on(table, out, models)
    assert sum(model.num_decodes > 0 for model in models) == 4
    report = speak(prepare(table, out))
    assert statuses(report) == ["ok"] * 6


def test_a_run_that_is_to_stop_is_not_taken_over(table: Path, tmp_path: Path) -> None:
    model = FakeModel(fail_at_step=3)
    with pytest.raises(EngineFaultError):
        speak(prepare(table, tmp_path / "out"), model, is_stopping=lambda: model.num_decodes > 1)


def test_the_notes_of_an_earlier_run_are_not_those_of_a_later_one(
    table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(TakeOver) as end:
        speak(prepare(table, out), FakeModel(fail_at_step=3))
    notes = {**end.value.notes, "run": {**end.value.notes["run"], "began": "long ago"}}
    report = speak(prepare(table, out), notes=notes)
    assert statuses(report) == ["ok"] * 6
    assert (out / "manifest.jsonl").read_text("utf-8").count('"run"') == 2
