"""Options that are made from what families declare, and the engine that is asked for by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import PATIENCE_S

from voxcli.models import FAMILIES

pytestmark = pytest.mark.usefixtures("empty_folder")

ROOT = Path(__file__).resolve().parents[2]
EMMA = str(ROOT / "samples" / "voices" / "emma.flac")
OWN_LIST = "it has: --steps (from 2 to 100), --guidance-scale (from 0 to 10)"

Run = Callable[..., tuple[int, str, str]]


def beside_another(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The program where another family is known as well."""
    program = [sys.executable, str(Path(__file__).with_name("other_family.py"))]
    return subprocess.run(
        [*program, *words], capture_output=True, text=True, timeout=PATIENCE_S, **options
    )


def flat(text: str) -> str:
    return " ".join(text.split())


# Parameters


@pytest.mark.parametrize("command", ["speak", "clone", "batch", "stream"])
def test_every_parameter_of_every_family_is_an_option(command: str, run: Run) -> None:
    """Its meaning and range are the help, and other names for it are not shown."""
    shown = flat(run(command, "--help")[1])
    for each in (each for family in FAMILIES for each in family.declaration):
        no = each.option.replace("--", "--no-", 1)
        value = {"int": "N", "float": "X", "bool": f"/ {no}"}[each.kind]
        assert f"{each.option} {value} {each.meaning}" in shown
        assert each.range in shown
        assert not any(f"--{alias}" in shown for alias in each.aliases)


def test_a_new_family_brings_its_options_along() -> None:
    shown = flat(beside_another("speak", "--help").stdout)
    assert (
        "--temperature X Sampling temperature of the first code of a frame, from 0.05 to 2;"
        in shown
    )
    assert "--sampled / --no-sampled Draw codes; off takes the likeliest." in shown
    assert "--steps N Steps that refine each piece of audio, from 1 to 200." in shown
    assert "--heat" not in shown


@pytest.mark.parametrize(
    "words",
    [
        ("speak", "Hello.", "-o", "a.wav"),
        ("clone", "Hello.", "--ref", EMMA, "-o", "a.wav"),
        ("stream", "Hello.", "-o", "-"),
        ("stream", "-", "-o", "-"),
    ],
)
@pytest.mark.parametrize("option", [("--temperature", "0.5"), ("--heat", "1"), ("--no-sampled",)])
def test_a_parameter_of_another_family_is_refused_with_the_models_own(
    words: tuple[str, ...], option: tuple[str, ...]
) -> None:
    done = beside_another(*words, *option, input="A line.\n")
    assert (done.returncode, done.stdout) == (2, "")
    name = {"--heat": "--temperature", "--no-sampled": "--sampled"}.get(option[0], option[0])
    assert f"{name} is not a parameter of model 'mini'; {OWN_LIST}" in done.stderr
    assert os.listdir() == []


def test_a_range_is_the_models_own_where_families_share_a_name() -> None:
    done = beside_another("speak", "Hello.", "--steps", "101", "-o", "a.wav")
    assert done.returncode == 2
    assert "--steps is 101; give a whole number from 2 to 100" in done.stderr


def test_what_is_given_is_told_to_the_model_and_the_rest_is_its_best(run: Run) -> None:
    def told(*words: str) -> Any:
        code, out, _ = run("speak", "Hello.", "--dry-run", "--json", *words)
        assert code == 0
        return json.loads(out)["parameters"]

    assert told() == {"steps": 6, "guidance_scale": 1.0}
    assert told("--steps", "9") == {"steps": 9, "guidance_scale": 1.0}
    assert told("--guidance-scale", "2") == {"steps": 6, "guidance_scale": 2.0}


def test_cfg_is_another_name_of_the_guidance_scale(run: Run) -> None:
    both = [
        run("speak", "Hello.", "--dry-run", "--json", "--seed", "1", option, "2.5")
        for option in ("--cfg", "--guidance-scale")
    ]
    assert both[0] == both[1]
    assert json.loads(both[0][1])["parameters"]["guidance_scale"] == 2.5
    same = ("--cfg", "2", "--guidance-scale", "2")
    assert run("speak", "Hello.", "--dry-run", *same)[0] == 0
    code, _, err = run("speak", "Hello.", "--dry-run", "--cfg", "2", "--guidance-scale", "3")
    assert code == 2
    assert "--guidance-scale is 3.0 and --cfg is 2.0" in err


# Engines


@pytest.mark.parametrize(
    "words",
    [
        ("speak", "Hello.", "-o", "a.wav"),
        ("speak", "Hello.", "--dry-run"),
        ("clone", "Hello.", "--ref", EMMA, "-o", "a.wav"),
        ("stream", "Hello.", "-o", "-"),
        ("voices", "add", "emma", "--ref", EMMA),
    ],
)
@pytest.mark.parametrize("name", ["off", "nativ", "ftp://here", "http://"])
def test_an_engine_that_is_none_is_refused_by_name(
    run: Run, words: tuple[str, ...], name: str
) -> None:
    code, out, err = run(*words, "--engine", name)
    assert (code, out) == (2, "")
    assert err.endswith(f"--engine is '{name}'; use auto, native, vllm-omni or URLs of servers\n")


@pytest.mark.parametrize("is_typed", [True, False])
def test_a_server_that_is_named_has_to_be_there(
    run: Run, monkeypatch: pytest.MonkeyPatch, is_typed: bool
) -> None:
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setenv("VOXCLI_ENGINE", "auto" if is_typed else nowhere)
    code, out, err = run(
        "speak", "Hello.", "-o", "a.wav", *(("--engine", nowhere) if is_typed else ())
    )
    assert (code, out) == (4, "")
    assert f"no voxcli server answers at {nowhere}" in err
    assert os.listdir() == []


REFUSED = [
    ("-o", "gone/a.wav"), ("-o", "a.xyz"), ("-o", "here.wav"), ("-o", "."), ("-o", ""),
    ("-o", "a.opus", "--rate", "44100"), ("-o", "a.mp3", "--bits", "24"),
    ("-o", "a.wav", "--subtitles", "a.txt"), ("-o", "a.wav", "--subtitles", "gone/a.srt"),
    ("-o", "a.wav", "--device", "tpu"), ("-o", "a.wav", "--device", "cuda:99"),
    ("-o", "a.wav", "--device", "cpu", "--precision", "fp8"),
    ("-o", "a.wav", "--engine", "vllm-omni"),
]  # fmt: skip


@pytest.mark.parametrize(
    "command", [("speak",), ("clone", "--ref", EMMA)], ids=lambda words: words[0]
)
@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_dry_run_refuses_what_the_run_would_refuse(
    run: Run, command: tuple[str, ...], words: tuple[str, ...]
) -> None:
    Path("here.wav").touch()
    name, *more = command
    code, _, err = run(name, "Hello.", *more, *words)
    assert code != 0
    assert run(name, "Hello.", *more, *words, "--dry-run") == (code, "", err)
    assert os.listdir() == ["here.wav"]


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "here.wav"), ("-o", "/proc/out"), ("-o", "out", "--verify", "ears"),
        ("-o", "out", "--device", "cuda:99"), ("-o", "out", "--engine", "vllm-omni"),
        ("-o", "out", "--format", "xyz"), ("-o", "out", "--mix", "a.xyz"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_dry_run_of_a_table_refuses_what_the_run_would_refuse(
    run: Run, words: tuple[str, ...]
) -> None:
    Path("here.wav").touch()
    Path("t.csv").write_text("text\nHello.\n", "utf-8")
    dry = run("batch", "t.csv", *words, "--dry-run", "-q")
    assert sorted(os.listdir()) == ["here.wav", "t.csv"]
    assert dry[0] != 0
    assert dry == run("batch", "t.csv", *words, "-q")


def test_a_dry_run_asks_nobody_else(run: Run) -> None:
    words = ("--dry-run", "--engine", "http://127.0.0.1:9")
    assert run("speak", "Hello.", *words)[0] == 0
    assert run("clone", "Hello.", "--ref", EMMA, *words)[0] == 0


def test_the_setting_of_earlier_versions_is_refused_with_the_names_there_are(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOXCLI_SERVER", "off")
    code, _, err = run("speak", "Hello.", "-o", "a.wav")
    assert code == 2
    assert "unknown variable VOXCLI_SERVER" in err
    assert "VOXCLI_ENGINE" in err


def test_an_engine_of_this_process_is_used_where_it_is_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("a server was looked for")

    monkeypatch.setattr("voxcli.engine.remote.find.connect_here", refuse)
    monkeypatch.setenv("VOXCLI_ENGINE", "auto")
    code, _, err = run("speak", "Hello.", "-o", "a.wav", "--engine", "native")
    assert code == 0
    assert "server" not in err
