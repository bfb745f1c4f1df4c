"""The bench's own arithmetic, on a fake model and a clock that only its decode steps move."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from fakes import SAMPLE_RATE, FakeModel, fake_engine
from rich.console import Console

from voxcli.bench.cells import BenchOptions
from voxcli.bench.live import LiveTable, draw, remaining
from voxcli.bench.metrics import DEFINITIONS, PERCENTILES, SUMMARIES, underrun
from voxcli.bench.prompts import Prompt, built_in_prompts, choose_languages, load_prompts
from voxcli.bench.report import build_report, report_as_json, runs_as_csv
from voxcli.bench.session import Session
from voxcli.errors import UsageError

STEP_S = 0.05  # of the fake clock, a decode step of 0.16 s of audio
SLOW_S = 1.0
PROMPTS = [
    Prompt("one", "pair", "en", "A sentence of ordinary length."),
    Prompt("two", "pair", "en", "Another one, a little longer than it."),
]
IDENTITY = {"model": "fake", "device_name": "fake"}


class Clock:
    """Seconds that pass only in decode steps and naps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def run_session(
    options: BenchOptions,
    prompts: list[Prompt] = PROMPTS,
    *,
    slow_step: int | None = None,
    on_step: Callable[[int], None] = lambda step: None,
    **fake: Any,
) -> dict[str, Any]:
    """The report of a session in which decode step `slow_step` takes `SLOW_S` longer."""
    engine, clock = fake_engine(FakeModel(**fake)), Clock()
    assert engine.core is not None
    runner: Any = engine.core.runner
    decode = runner.decode
    count = 0

    def timed(requests: Any) -> Any:
        nonlocal count
        on_step(count)
        clock.now_s += STEP_S + (SLOW_S if count == slow_step else 0.0)
        count += 1
        return decode(requests)

    runner.decode = timed
    session = Session(engine, options, prompts, clock=clock, sleep=clock.sleep)
    session.run()
    report = build_report(session, dict(IDENTITY), memory={"peak_rss_bytes": 1})
    loaded: dict[str, Any] = json.loads(report_as_json(report))
    return loaded


def measured(report: dict[str, Any], cell: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    keys = ("set", "language", "concurrency", "rate")
    return [
        run
        for run in report["runs"]
        if run["phase"] == "measured" and (not cell or all(run[k] == cell[k] for k in keys))
    ]


def test_the_built_in_prompts_have_their_lengths() -> None:
    lengths = {p.id: len(p.text) for p in built_in_prompts() if p.set != "everyday"}
    assert all(int(name.rsplit("_", 1)[1]) == length for name, length in lengths.items())
    assert sorted(lengths.values()) == [15, 49, 55, 145, 169, 412]
    assert len({p.text for p in load_prompts("everyday")}) == 20


def test_a_prompt_file_is_a_set_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("The first text is here.\n\nAnd the second one.\n")
    prompts = load_prompts(f"short,{path}")
    assert [p.id for p in prompts if p.set == "mine"] == ["mine_01", "mine_02"]
    with pytest.raises(UsageError, match="'shrt'; did you mean 'short'"):
        load_prompts("shrt")
    path.write_text("\n")
    with pytest.raises(UsageError, match="holds no texts"):
        load_prompts(str(path))


def test_prompts_of_a_language_the_model_lacks_are_skipped_with_a_note() -> None:
    prompts = load_prompts("short")
    chosen, notes = choose_languages(prompts, ("en", "zh"), ("en",), "mini")
    assert [p.id for p in chosen] == ["en_short_49"]
    assert notes == ["model 'mini' does not speak 'zh': skipped zh_short_15"]
    with pytest.raises(UsageError, match="no prompt is left"):
        choose_languages(prompts, ("zh",), ("en",), "mini")


def test_underrun_is_the_worst_shortage_of_a_real_time_player() -> None:
    assert underrun([(5.0, 1000)], 1000) == 0.0
    assert underrun([(5.0, 1000), (6.0, 1000), (7.5, 1000), (7.6, 10)], 1000) == 0.5


def test_every_run_agrees_with_its_definitions() -> None:
    report = run_session(BenchOptions(concurrency=(1, 3), repeats=2))
    for run in report["runs"]:
        assert abs(run["rtf"] - run["wall_s"] / run["audio_s"]) < 1e-6
        assert abs(run["speed_x"] * run["rtf"] - 1) < 1e-9
        assert abs(run["ms_per_frame"] - 1000 * run["wall_s"] / run["frames"]) < 1e-9
        assert run["audio_s"] == pytest.approx(0.16 * run["frames"])
    alone = measured(report, report["cells"][0])
    assert [run["wall_s"] for run in alone] == pytest.approx([STEP_S * r["frames"] for r in alone])
    assert [run["ttfa_s"] for run in alone] == pytest.approx([STEP_S] * len(alone))
    fields = {"ttfa_s", "wall_s", "audio_s", "rtf", "speed_x", "frames", "ms_per_frame"}
    assert {*fields, "underrun_s", "finish_reason", "attempts"} <= set(DEFINITIONS)
    assert report["definitions"] == DEFINITIONS


def test_statistics_can_be_computed_again_from_the_raw_runs() -> None:
    report = run_session(BenchOptions(concurrency=(1, 2), repeats=3), slow_step=40)
    for cell in report["cells"]:
        runs = measured(report, cell)
        assert cell["n"] == len(runs) == cell["num_planned"] == 6
        for name, field in SUMMARIES.items():
            values = [run[field] for run in runs]
            assert cell[name]["mean"] == pytest.approx(np.mean(values))
            assert cell[name]["std"] == pytest.approx(np.std(values, ddof=1))
            for percent in PERCENTILES:
                expected = np.percentile(values, percent, method="linear")
                assert cell[name][f"p{percent}"] == pytest.approx(expected)
        audio_s = sum(run["audio_s"] for run in runs)
        end_s = max(run["started_s"] + run["wall_s"] for run in runs)
        assert cell["audio_throughput"] == pytest.approx(audio_s / end_s)
        assert cell["requests_per_s"] == pytest.approx(len(runs) / end_s)


def test_a_slow_step_shows_in_the_high_percentiles_and_in_underrun() -> None:
    options = BenchOptions(repeats=10, warmup=0)
    calm, slow = run_session(options), run_session(options, slow_step=52)
    before, after = calm["cells"][0], slow["cells"][0]
    assert after["e2e_s"]["p99"] > before["e2e_s"]["p99"] + 0.5 * SLOW_S
    assert after["rtf"]["p50"] == pytest.approx(before["rtf"]["p50"])
    assert before["underrun_s"]["max"] == 0.0
    assert after["underrun_s"]["max"] > 0.3
    assert after["continuity_ok"] < before["continuity_ok"] == 1.0


def test_first_request_and_warm_ups_are_listed_and_left_out() -> None:
    report = run_session(BenchOptions(repeats=2, warmup=3), slow_step=1)
    phases = [run["phase"] for run in report["runs"]]
    assert phases == ["first", *["warmup"] * 3, *["measured"] * 4]
    assert report["setup"]["first_wall_s"] > SLOW_S
    assert report["cells"][0]["n"] == 4
    assert report["cells"][0]["e2e_s"]["max"] < SLOW_S + STEP_S


def test_failures_are_counted_and_never_averaged() -> None:
    faults = {PROMPTS[0].text: ["", "", "silent", ""]}  # first, warm-up, then the measured ones
    clean = run_session(BenchOptions(repeats=2))
    report = run_session(BenchOptions(repeats=2), faults=faults)
    cell = report["cells"][0]
    failed = [run for run in measured(report) if run["status"] == "failed"]
    assert (cell["n"], cell["num_failed"], len(failed)) == (3, 1, 1)
    assert failed[0]["error"]
    assert failed[0]["rtf"] is failed[0]["wall_s"] is None
    assert cell["rtf"]["min"] == pytest.approx(clean["cells"][0]["rtf"]["min"])


def test_after_a_device_fault_no_run_is_reported_as_good() -> None:
    report = run_session(BenchOptions(concurrency=(1,), repeats=2, warmup=0), fail_at_step=44)
    cell = report["cells"][0]
    errors = [run["error"] for run in measured(report)]
    first = next(index for index, error in enumerate(errors) if error)
    assert first > 0
    assert all(errors[first:])
    assert "cannot run" in errors[-1]
    assert cell["n"] + cell["num_failed"] == cell["num_planned"]


def test_a_closed_loop_keeps_its_streams_in_flight() -> None:
    report = run_session(BenchOptions(concurrency=(3,), repeats=3, warmup=0))
    runs = measured(report)
    assert len(runs) == 9  # three streams, three utterances each
    for run in runs:
        others = [
            r for r in runs if r["started_s"] <= run["started_s"] < r["started_s"] + r["wall_s"]
        ]
        assert len(others) <= 3
    assert sum(run["started_s"] == 0.0 for run in runs) == 3
    assert len({(run["prompt"], run["seed"]) for run in runs}) == len(runs)


def test_an_open_loop_counts_from_the_planned_arrival() -> None:
    options = BenchOptions(concurrency=(), rate=50.0, repeats=10, warmup=0, seed=4)
    report = run_session(options)
    cell, runs = report["cells"][0], measured(report)
    assert (cell["rate"], cell["concurrency"], cell["n"]) == (50.0, None, 20)
    starts = sorted(run["started_s"] for run in runs)
    gaps = np.random.default_rng(4).exponential(1 / 50, 20)
    assert starts == pytest.approx(np.cumsum(gaps) - gaps[0])
    # arrivals come faster than steps end: most wait, and the wait is theirs
    assert cell["ttfa_s"]["max"] > STEP_S


def test_an_idle_open_loop_waits_for_its_arrivals() -> None:
    options = BenchOptions(concurrency=(), rate=0.01, repeats=2, warmup=0)
    cell = run_session(options)["cells"][0]
    assert cell["cell_wall_s"] > 50
    assert cell["ttfa_s"]["max"] == pytest.approx(STEP_S)


def test_saved_audio_has_the_length_that_is_reported(tmp_path: Path) -> None:
    report = run_session(BenchOptions(repeats=2, save_audio=tmp_path))
    runs = measured(report)
    assert len(list(tmp_path.iterdir())) == len(runs) == 4
    for run in runs:
        info = soundfile.info(run["file"])
        assert info.samplerate == run["sample_rate"] == SAMPLE_RATE
        assert run["audio_s"] == info.frames / info.samplerate


def test_ctrl_c_keeps_what_was_measured_and_says_so() -> None:
    def interrupt(step: int) -> None:
        if step == 100:
            raise KeyboardInterrupt

    report = run_session(BenchOptions(repeats=10, warmup=0), on_step=interrupt)
    cell = report["cells"][0]
    assert report["is_partial"]
    assert 0 < cell["n"] < cell["num_planned"]
    assert not run_session(BenchOptions(repeats=1))["is_partial"]


def test_the_breakdown_adds_up_and_leaves_the_engine_as_it_was() -> None:
    report = run_session(BenchOptions(repeats=1))
    found = report["breakdown"]
    parts = [found[f"{name}_s"] for name in fake_engine().facts.stages] + [found["host_s"]]
    assert sum(parts) == pytest.approx(found["wall_s"])
    assert found["decode_s"] == pytest.approx(found["wall_s"])


def test_the_csv_has_every_run() -> None:
    report = run_session(BenchOptions(repeats=2))
    lines = runs_as_csv(report).splitlines()
    assert len(lines) == len(report["runs"]) + 1
    assert lines[0].startswith("phase,set,language,prompt")


@pytest.mark.parametrize(
    "wrong", [{"repeats": 0}, {"warmup": -1}, {"rate": 0.0}, {"concurrency": (0,)}]
)
def test_options_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"--{next(iter(wrong))}"):
        BenchOptions(**wrong)


def test_the_live_table_shows_progress_and_what_is_left() -> None:
    session = Session(fake_engine(), BenchOptions(repeats=2), PROMPTS)
    assert remaining(session.cells, 3.0) is None
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    live = LiveTable(is_enabled=True, console=console)
    with live:
        live.watch(session)
        live.tick()
        session.run()
    assert remaining(session.cells, 3.0) == 0.0
    console.print(draw(session, 12.0))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "4/4" in shown
    assert "12 s gone, about 0 s left" in shown
