"""Every command: its help, its options, its examples; `models` and `doctor`; the generated page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from needs import PATIENCE_S
from shell import VOXCLI
from typer.main import get_command

from voxcli import cli
from voxcli.cli import docs, doctor, output
from voxcli.errors import EXIT_DEVICE, EXIT_MODEL, EXIT_USAGE
from voxcli.extras import missing
from voxcli.hub import files as hub
from voxcli.hub.catalog import known_models
from voxcli.models import FAMILIES

pytestmark = pytest.mark.usefixtures("own_home")

ROOT = Path(__file__).resolve().parents[2]


def every_command() -> Iterator[tuple[str, Any]]:
    """Path of words and command, groups included."""

    def walk(command: Any, parent: typer.Context | None, name: str) -> Iterator[tuple[str, Any]]:
        context = typer.Context(command, info_name=name, parent=parent)
        yield context.command_path, command
        for child in command.list_commands(context) if hasattr(command, "list_commands") else ():
            yield from walk(command.get_command(context, child), context, child)

    yield from walk(get_command(cli.app), None, "voxcli")


def examples_of(command: str) -> tuple[str, ...]:
    return import_module(f"voxcli.cli.{command}").EXAMPLES  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", [path for path, _ in every_command()])
def test_every_command_explains_itself(path: str, run: Any) -> None:
    code, out, err = run(*path.split()[1:], "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: {path}")


def test_help_shows_words_as_they_are_typed() -> None:
    """No braces around what is required, no type of Python, no second brackets at a default."""
    for path, command in every_command():
        context = typer.Context(command, info_name=path, terminal_width=300)
        shown = command.get_help(context)
        assert not re.search(r"Usage: .*[{}]|<\w+>|\[default: \(", shown), path


def test_help_of_every_option_is_a_sentence() -> None:
    wrong = [
        f"{path} {parameter.name}: {parameter.help!r}"
        for path, command in every_command()
        for parameter in command.params
        if not (parameter.help or "").endswith(".")
    ]
    assert not wrong, "\n".join(wrong)


def test_every_command_has_examples_in_its_help(run: Any) -> None:
    for name in cli.COMMANDS:
        examples = examples_of(name)
        assert examples, name
        _, out, _ = run(name, "--help")
        assert all(example in out for example in examples), name


def test_what_is_generated_in_the_docs_is_current() -> None:
    made = docs.pages(ROOT / "docs")
    assert len(made) > 1
    for path, page in made.items():
        assert path.read_text("utf-8") == page, f"{path}: run 'make docs'"


# models


def test_models_list_tells_what_is_here(run: Any) -> None:
    code, out, _ = run("models", "list", "--json")
    rows = {row["name"]: row for row in json.loads(out)["models"]}
    assert code == 0
    assert rows["mini"]["state"] == "bundled"
    assert rows["openbmb/VoxCPM2"]["state"] == "not here"


def test_models_info_works_for_a_model_that_is_not_here(run: Any) -> None:
    code, out, _ = run("models", "info", "openbmb/VoxCPM2", "--json")
    info = json.loads(out)
    assert code == 0
    assert info["settings"]["parameters"]["steps"] == 10
    assert [each["name"] for each in info["parameters"]] == ["steps", "guidance_scale"]
    assert "voxcli models pull openbmb/VoxCPM2" in info["problem"]


def test_models_info_describes_the_bundled_voice(run: Any) -> None:
    code, out, _ = run("models", "info", "mini", "--json")
    info = json.loads(out)
    assert code == 0
    assert info["settings"] == {
        "parameters": {"steps": 6, "guidance_scale": 1.0},
        "clone_parameters": {"guidance_scale": 1.75},
        "max_chars": 120,
        "clone_mode": "reference",
    }
    assert info["num_parameters"] == 34_024_738
    assert run("models", "info", "mini")[0] == 0


def test_models_verify_names_the_bad_file(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("models", "verify")[0] == 0
    damaged = tmp_path / "mini"
    shutil.copytree(hub.bundled_folder(), damaged)
    with (damaged / "config.json").open("a") as config:
        config.write("\n")
    monkeypatch.setattr(hub, "bundled_folder", lambda: damaged)
    code, out, err = run("models", "verify", "mini")
    assert code == EXIT_MODEL
    assert [line.split()[1] for line in out.splitlines() if " bad " in line] == ["config.json"]
    assert "voxcli: error:" in err
    code, out, _ = run("models", "verify", "mini", "--json")
    assert code == EXIT_MODEL
    assert json.loads(out)["ok"] is False


def test_a_package_that_is_gone_is_named(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "run", lambda words: import_module("sox_gone.effects"))
    code, out, err = run("speak", "Hello.", "-o", "a.wav", "--json")
    assert code == EXIT_DEVICE
    assert "this needs the Python package sox-gone, which is not installed; run: " in err
    assert json.loads(out)["error"]["type"] == "MissingPackageError"


@pytest.mark.parametrize("switch", ["--offline", "VOXCLI_OFFLINE", "HF_HUB_OFFLINE"])
def test_an_offline_pull_ends_with_3(
    switch: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["models", "pull", "openbmb/VoxCPM2"]
    if switch.startswith("--"):
        words.append(switch)
    else:
        monkeypatch.setenv(switch, "1")
    code, out, err = run(*words)
    assert (code, out) == (EXIT_MODEL, "")
    assert "offline: run 'voxcli models pull openbmb/VoxCPM2'" in err


def test_a_pull_without_a_network_ends_with_3(tmp_path: Path) -> None:
    nowhere = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    command = [VOXCLI, "models", "pull", "openbmb/VoxCPM2"]
    done = subprocess.run(command, env=nowhere, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (EXIT_MODEL, "")
    assert done.stderr.startswith("voxcli: error: cannot reach the hub")
    assert done.stderr.count("\n") == 1


def test_pulling_the_bundled_voice_prints_where_it_is(run: Any) -> None:
    assert run("models", "pull", "mini")[:2] == (0, f"{hub.bundled_folder()}\n")


def test_models_without_a_verb_shows_help_and_ends_with_2(run: Any) -> None:
    code, out, err = run("models")
    assert (code, out) == (EXIT_USAGE, "")
    assert "Usage: voxcli models" in err


def test_a_damaged_folder_is_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    program = (
        "import sys; from voxcli.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(99 if 'torch' in sys.modules else code)"
    )
    command = [sys.executable, "-c", program, "models", "info", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == EXIT_MODEL
    assert "config.json is missing" in done.stderr


# doctor


def test_doctor_says_that_the_bundled_voice_can_speak(run: Any) -> None:
    code, out, _ = run("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert code == 0
    assert checks["torch"]["status"] == "ok"
    assert checks["bundled voice"]["status"] == "ok"
    assert all(check["status"] in ("ok", "warn", "missing") for check in checks.values())
    assert run("doctor")[0] == 0


def test_doctor_warns_of_nothing_that_a_machine_need_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unavailable() -> None:
        raise missing("sounddevice")

    monkeypatch.setattr("voxcli.audio.sound.list_devices", unavailable)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    checks = (doctor._gpu(), doctor._sound(), doctor._ffmpeg())
    assert [check.status for check in checks] == ["ok", "ok", "ok"]
    assert "none found" in checks[0].detail
    assert all("(optional)" in check.detail for check in checks[1:])


def test_doctor_names_a_quota_of_the_container(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOXCLI_THREADS", raising=False)
    monkeypatch.setattr("voxcli.config.cpu_quota", lambda: 0.5)
    monkeypatch.setattr("voxcli.cli.doctor.cpu_quota", lambda: 0.5)
    code, out, _ = run("doctor")
    assert (code, "1 usable, setting: automatic; this container's CPU quota is 0.5" in out) == (
        0,
        True,
    )


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        (None, "", None),
        ("VOXCLI_LIGHT", "false", "it is switched off"),
        ("VOXCLI_NATIVE", "false", "the native kernels are switched off"),
        ("VOXCLI_DEVICE", "cuda:1", "the device is cuda:1"),
        ("library", None, "the CPU kernels are not compiled"),
        ("memory", 1000, "fp32 does not fit into the memory"),
    ],
)
def test_doctor_says_whether_the_bundled_voice_needs_torch_and_why(
    run: Any, monkeypatch: pytest.MonkeyPatch, variable: str | None, value: Any, why: str | None
) -> None:
    for name in ("VOXCLI_LIGHT", "VOXCLI_NATIVE", "VOXCLI_DEVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("voxcli.process._CARDS", ())
    library = value if variable == "library" else object()
    monkeypatch.setattr("voxcli.kernels.native.find", lambda: SimpleNamespace(library=library))
    memory = value if variable == "memory" else None
    monkeypatch.setattr("voxcli.engine.native.host.available_memory", lambda: memory)
    if variable is not None and variable.startswith("VOXCLI_"):
        monkeypatch.setenv(variable, value)
    check = doctor._without_torch()
    assert (check.status, check.data) == ("ok", {"is_without": why is None, "why": why})
    assert "without importing torch" in check.detail if why is None else why in check.detail


def test_doctor_shows_whether_the_bundled_voice_needs_torch(run: Any) -> None:
    _, out, _ = run("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    found = checks["voice without torch"]
    assert found["data"]["is_without"] is (found["data"]["why"] is None)
    assert found["detail"] in run("doctor")[1]


def test_doctor_survives_bad_settings(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXCLI_THREADS", "many")
    code, out, _ = run("doctor")
    assert code == 0
    assert "VOXCLI_THREADS is 'many'" in out


def test_every_model_that_families_publish_is_listed_once(run: Any) -> None:
    rows = json.loads(run("models", "list", "--json")[1])["models"]
    names = [row["name"] for row in rows]
    published = {each.name for family in FAMILIES for each in family.published}
    assert len(names) == len(set(names))
    assert set(names) == published | known_models().keys()
    assert all(row["languages"] and row["size_bytes"] and row["title"] for row in rows)


def test_sizes_in_the_readme_are_those_of_the_list(run: Any) -> None:
    rows = json.loads(run("models", "list", "--json")[1])["models"]
    table = (ROOT / "README.md").read_text("utf-8").partition("## Models")[2].partition("\n##")[0]
    for row in rows:
        size, (name, _, _) = output.size(row["size_bytes"]), row["name"].partition("Hz-")
        line = next(line for line in table.splitlines() if f"[`{name}" in line)
        assert size.split()[0] in line, row["name"]
