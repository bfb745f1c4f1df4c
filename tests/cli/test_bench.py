"""`voxcli bench` and `voxcli bench compare`: streams, files, exit codes, and one real run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile
from fakes import FakeModel, fake_engine
from needs import PATIENCE_S
from shell import VOXCLI

from voxcli import cli
from voxcli.bench import html
from voxcli.bench.metrics import DEFINITIONS
from voxcli.engine import choose
from voxcli.engine.native.engine import NativeEngine
from voxcli.errors import (
    EXIT_DEVICE,
    EXIT_INTERRUPTED,
    EXIT_ITEM_FAILED,
    EXIT_MODEL,
    EXIT_OUTPUT,
    EXIT_USAGE,
)
from voxcli.hub.catalog import bundled_folder

ROOT = Path(__file__).resolve().parents[2]
VOICES = ROOT / "samples" / "voices"
EMMA = str(VOICES / "emma.flac")
TEXTS = "A sentence of ordinary length.\nAnother one, a little longer than it.\n"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `voxcli bench` in this process, in an empty folder with a file of two texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    Path("two.txt").write_text(TEXTS)

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["bench", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have `voxcli bench` speak with the fake model."""

    def use(**settings: Any) -> None:
        model = FakeModel(**settings)
        monkeypatch.setattr(choose, "open_engine", lambda *_, **__: fake_engine(model))

    use()
    return use


def test_the_table_is_the_result_and_the_rest_is_on_stderr(run: Run, fake: object) -> None:
    code, out, err = run("--prompts", "two.txt", "--concurrency", "1,2", "--repeats", "2")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split()[:5] == ["set", "lang", "load", "n", "failed"]
    assert [line.split()[:5] for line in lines[1:]] == [
        ["two", "en", "1", "4", "0"],
        ["two", "en", "2", "4", "0"],
    ]
    assert "device: a fake" in err
    assert run("--prompts", "two.txt", "--repeats", "1", "--quiet")[2] == ""


def test_every_file_is_written_and_none_is_replaced(run: Run, fake: object) -> None:
    words = ["--prompts", "two.txt", "--json", "b.json", "--html", "b.html", "--csv", "b.csv"]
    assert run(*words)[0] == 0
    report = json.loads(Path("b.json").read_text())
    assert report["identity"]["command"][0] == "voxcli"
    assert len(report["identity"]["checksum"]) == 64
    assert report["definitions"] == DEFINITIONS
    assert Path("b.html").read_text().startswith("<!doctype html>")
    assert len(Path("b.csv").read_text().splitlines()) == len(report["runs"]) + 1
    code, _, err = run(*words)
    assert code == EXIT_USAGE
    assert "b.json exists" in err or "b.html exists" in err
    assert run(*words, "--overwrite")[0] == 0
    assert run("--json", "no/b.json")[0] == EXIT_OUTPUT


def test_a_page_without_its_package_is_refused_before_anything_runs(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "NEEDED", "a_package_that_is_not_there")
    monkeypatch.setattr(choose, "open_engine", lambda *_, **__: pytest.fail("an engine was opened"))
    code, out, err = run("--html", "b.html")
    assert (code, out) == (EXIT_DEVICE, "")
    assert "'--html' needs the Python package a-package-that-is-not-there" in err


@pytest.mark.parametrize("option", ["--json", "--html", "--csv"])
def test_a_report_that_is_no_file_is_refused(run: Run, fake: object, option: str) -> None:
    code, _, err = run(option, "")
    assert (code, "empty" in err) == (EXIT_USAGE, True)
    for more in ((), ("--overwrite",)):
        code, _, err = run(option, "/dev/null", *more)
        assert (code, "/dev/null is not a regular file" in err) == (EXIT_OUTPUT, True)
    assert Path("/dev/null").is_char_device()


def test_json_on_stdout_is_the_report_alone(run: Run, fake: object) -> None:
    code, out, err = run("--prompts", "two.txt", "--repeats", "1", "--json", "-")
    assert code == 0
    assert json.loads(out)["format"] == "voxcli-bench/2"
    assert "two" in err


def test_a_reference_is_encoded_once_within_the_first_request(run: Run, fake: object) -> None:
    report = measured_with(run, "--ref", EMMA)
    who, setup = report["identity"], report["setup"]
    assert (who["voice"], who["mode"]) == (EMMA, "reference")
    assert setup["num_encoded"] == 1
    assert 0 < setup["encode_s"] < setup["first_ttfa_s"]
    other = measured_with(run, "--ref", str(VOICES / "oscar.flac"))
    assert len({who["voice_key"], other["identity"]["voice_key"], None}) == 3
    code, _, err = run("compare", "voice.json", "voice.json")
    assert code == 0
    Path("old.json").write_text(json.dumps(report))
    code, _, err = run("compare", "old.json", "voice.json")
    assert (code, "voice_key: " in err) == (EXIT_USAGE, True)


def test_a_saved_voice_needs_no_encoder(
    run: Run, fake: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert cli.main(["voices", "add", "emma", "--ref", EMMA]) == 0
    report = measured_with(run, "--voice", "emma")
    assert (report["identity"]["voice"], report["identity"]["mode"]) == ("emma", "reference")
    assert len(report["identity"]["voice_key"]) == 64
    assert report["setup"]["num_encoded"] == 0


def measured_with(run: Run, *words: str) -> dict[str, Any]:
    """The report of a short bench with these options."""
    words = (*words, "--prompts", "two.txt", "--repeats", "2", "--json", "voice.json")
    code, _, err = run(*words, "--overwrite")
    assert code == 0, err
    found: dict[str, Any] = json.loads(Path("voice.json").read_text())
    shown = found["identity"]["voice_key"]
    assert f"voice: {found['identity']['voice']} (mode reference), SHA-256 {shown[:16]}" in err
    return found


def test_a_failed_run_ends_with_1_and_is_told(run: Run, fake: Callable[..., None]) -> None:
    fake(faults={TEXTS.splitlines()[1]: ["silent"]})
    code, out, err = run("--prompts", "two.txt", "--repeats", "1", "--json", "b.json")
    assert code == EXIT_ITEM_FAILED
    assert out.splitlines()[1].split()[3:5] == ["1", "1"]
    assert "1 measured runs failed" in err
    assert json.loads(Path("b.json").read_text())["cells"][0]["num_failed"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "vllm"], "--engine is 'vllm'"),
        (["--engine", "vllm-omni"], "vLLM-Omni does not have the model 'mini'"),
        (["--engine", "auto", "--dummy-weights", "c.json"], "use --engine native"),
        (["--dummy-weights", "two.txt"], "two.txt cannot be read"),
        (["--dummy-weights", "two.txt", "--frames", "3"], "--frames is 3"),
        (["--rate", "2", "--concurrency", "1"], "cannot be used together"),
        (["--concurrency", "one"], "--concurrency is 'one'"),
        (["--concurrency", "0"], "give 1 or more"),
        (["--repeats", "0"], "--repeats is 0"),
        (["--frames", "9"], "only for --dummy-weights"),
        (["--prompts", "shrt"], "did you mean 'short'"),
        (["--lang", "zh"], "no prompt is left"),
        (["--voice", "nobody"], "no voice 'nobody'"),
        (["--voice", "a", "--ref", EMMA], "--voice and --ref cannot be used together"),
        (["--ref-text", "Hi."], "--ref is not given"),
        (["--ref", "gone.wav"], "cannot read gone.wav"),
        (["--style", "warm"], "'mini' has no style mode"),
        (["--dummy-weights", "c.json", "--voice", "a"], "use --ref"),
        (["--steps", "1"], "--steps is 1"),
        (["--guidance-scale", "11"], "--guidance-scale is 11"),
        (["--dummy-weights", "none.json"], "none.json cannot be read"),
        (["compare", "none.json", "none.json"], "none.json cannot be read"),
        (["compare", "two.txt", "two.txt"], "two.txt cannot be read"),
        (["compare", "two.txt", "two.txt", "--fail-over", "x"], "--fail-over is 'x'"),
    ],
)
def test_what_cannot_work_is_refused_before_a_model_loads(
    words: list[str], message: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NativeEngine, "start", lambda *_: pytest.fail("a model was loaded"))
    code, out, err = run(*words)
    assert (code, out) == (EXIT_USAGE, "")
    assert message in err


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"architecture": "nobody"}', "architecture 'nobody' is not supported; supported: "),
        ("{}", "architecture or model_type 'voxcpm' is not supported"),
        ("[]", "c.json holds no JSON object"),
        ("[" * 5000, "c.json cannot be read: "),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused_before_torch(
    config: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "c.json").write_text(config)
    script = (
        "import sys; from voxcli.cli import main;"
        "code = main(['bench', '--dummy-weights', 'c.json']); print(code, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{EXIT_USAGE} False\n"
    assert "--dummy-weights: c.json" in done.stderr
    assert message in done.stderr


def test_a_configuration_that_lacks_something_is_a_wrong_option(run: Run) -> None:
    Path("c.json").write_text('{"architecture": "voxcpm2"}')
    code, _, err = run("--dummy-weights", "c.json", "--device", "cpu")
    message = "--dummy-weights: config.json: Object missing required field `lm_config`"
    assert (code, message in err) == (EXIT_USAGE, True)


def test_an_unknown_model_ends_with_3(run: Run) -> None:
    assert run("--model", "minni")[0] == EXIT_MODEL


def test_compare_passes_a_report_against_itself_and_fails_a_slower_one(
    run: Run, fake: object
) -> None:
    assert run("--prompts", "two.txt", "--json", "old.json")[0] == 0
    report = json.loads(Path("old.json").read_text())
    for timed in report["runs"]:
        timed["rtf"], timed["wall_s"] = 1.1 * timed["rtf"], 1.1 * timed["wall_s"]
    Path("new.json").write_text(json.dumps(report))
    code, out, _ = run("compare", "old.json", "old.json")
    assert code == 0
    assert "1.000" in out
    code, out, _ = run("compare", "old.json", "new.json", "--fail-over", "5%", "--json")
    found = json.loads(out)
    assert (code, found["is_regression"]) == (EXIT_ITEM_FAILED, True)
    slower = [change for change in found["changes"] if change["verdict"] == "slower"]
    assert [change["metric"] for change in slower] == ["rtf"]
    assert slower[0]["ratio"] == pytest.approx(1.1)
    assert run("compare", "old.json", "new.json", "--fail-over", "15")[0] == 0


def test_compare_refuses_another_card_unless_forced(run: Run, fake: object) -> None:
    assert run("--prompts", "two.txt", "--json", "old.json")[0] == 0
    report = json.loads(Path("old.json").read_text())
    report["identity"]["device_name"] = "another card"
    Path("new.json").write_text(json.dumps(report))
    code, _, err = run("compare", "old.json", "new.json")
    assert code == EXIT_USAGE
    assert "another card" in err
    code, _, err = run("compare", "old.json", "new.json", "--force")
    assert code == 0
    assert "another card" in err


def test_the_document_and_the_report_define_the_same_fields() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    missing = [name for name, text in DEFINITIONS.items() if f"| `{name}` | {text} |" not in page]
    assert not missing


def test_random_weights_run_from_a_configuration_and_are_stamped(run: Run) -> None:
    config = bundled_folder() / "config.json"
    small = json.loads(config.read_text("utf-8"))
    small["lm_config"]["num_hidden_layers"] = small["residual_lm_num_layers"] = 1
    Path("config.json").write_text(json.dumps(small))
    words = ["--dummy-weights", "config.json", "--frames", "5", "--prompts", "long", "--ref", EMMA]
    code, out, _ = run(*words, "--repeats", "1", "--device", "cpu", "--json", "b.json")
    report = json.loads(Path("b.json").read_text())
    assert code == 0
    assert out.startswith("RANDOM WEIGHTS\n")
    assert report["stamp"] == "RANDOM WEIGHTS"
    for timed in report["runs"]:
        assert (timed["frames"], timed["num_segments"], timed["status"]) == (5, 1, "ok")
        assert timed["num_chunks"] == 4  # of one, one, two and one frames
        assert timed["audio_s"] == pytest.approx(0.8)
    assert report["setup"]["num_encoded"] == 1
    assert report["identity"]["mode"] == "reference"


def test_the_bundled_voice_is_measured(run: Run) -> None:
    words = ["--prompts", "short", "--repeats", "1", "--warmup", "0", "--save-audio", "audio"]
    code, _, _ = run(*words, "--json", "b.json")
    report = json.loads(Path("b.json").read_text())
    timed = report["runs"][-1]
    assert code == 0
    assert abs(timed["rtf"] - timed["wall_s"] / timed["audio_s"]) < 1e-6
    info = soundfile.info(timed["file"])
    assert timed["audio_s"] == info.frames / info.samplerate
    assert timed["finish_reason"] == "stop"
    assert report["setup"]["load_s"] > 0
    assert report["memory"]["peak_rss_bytes"] > 10**8
    peaks = [cell["memory"]["peak_rss_bytes"] for cell in report["cells"]]
    assert all(peak is None or 10**8 < peak <= report["memory"]["peak_rss_bytes"] for peak in peaks)


def test_ctrl_c_writes_what_was_measured_and_ends_with_130(tmp_path: Path) -> None:
    command = [VOXCLI, "-v", "bench", "--prompts", "short", "--repeats", "500", "--warmup", "0"]
    command += ["--json", "b.json", "--csv", "b.csv", "--save-audio", "audio"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | {"OMP_WAIT_POLICY": "passive", "VOXCLI_DEBUG": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    seen = next(line for line in process.stderr if ": step 60:" in line)  # three utterances
    assert seen
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == EXIT_INTERRUPTED, err
    report = json.loads((tmp_path / "b.json").read_text())
    assert report["is_partial"]
    assert 0 < report["cells"][0]["n"] < 500
    assert "PARTIAL" in err
    assert out.startswith("set")
