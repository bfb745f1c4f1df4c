"""Settings from the environment and the config file: what is refused, and in which words."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from needs import PATIENCE_S

from voxcli import config
from voxcli.config import (
    EngineConfig,
    UserSettings,
    config_path,
    cpu_quota,
    data_dir,
    load_settings,
    runtime_dirs,
)
from voxcli.errors import UsageError


def settings(tmp_path: Path, toml: str = "", **variables: str) -> UserSettings:
    path = tmp_path / "config.toml"
    path.write_text(toml)
    return load_settings({"VOXCLI_CONFIG": str(path), **variables})


def test_variables_beat_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_settings({"VOXCLI_THREADS": "2"}).threads == 2
    assert settings(tmp_path, "threads = 3", VOXCLI_THREADS="1").threads == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("threads = 'abc'", "threads is 'abc'; give a whole number"),
        ("threads = true", "threads is 'True'; give a whole number"),
        ("threads = 2.5", "threads is '2.5'; give a whole number"),
        ("model = 5", "model is '5'; give text in quotes"),
        ("cache_dir = 5", "cache_dir is '5'; give a path, in quotes"),
        ("offline = 'maybe'", "offline is 'maybe'; use true or false"),
        ("model_aliases = 5", "is '5'; give a list of names: [\"tts-1\"], or tts-1 in a variable"),
        ("model_aliases = [5]", "or tts-1 in a variable"),
        ("voice_aliases = ['alloy']", "or alloy=default in a variable"),
        ("voice_aliases = {alloy = ''}", "or alloy=default in a variable"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_in_words(
    tmp_path: Path, toml: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        settings(tmp_path, toml)
    assert str(caught.value).endswith(message)


def test_other_names_replace_all_of_those_that_were_there(tmp_path: Path) -> None:
    assert load_settings({}).voice_aliases["nova"] == "default"
    toml = 'model_aliases = ["kokoro"]\nvoice_aliases = {nova = "clara", "af bella" = "default"}'
    found = settings(tmp_path, toml)
    assert found.model_aliases == ("kokoro",)
    assert found.voice_aliases == {"nova": "clara", "af bella": "default"}
    found = settings(tmp_path, toml, VOXCLI_MODEL_ALIASES="a, b", VOXCLI_VOICE_ALIASES="nova=emma")
    assert (found.model_aliases, found.voice_aliases) == (("a", "b"), {"nova": "emma"})
    none = settings(tmp_path, "model_aliases = []\n[voice_aliases]\n")
    assert none == settings(tmp_path, toml, VOXCLI_MODEL_ALIASES="", VOXCLI_VOICE_ALIASES="")
    assert (none.model_aliases, none.voice_aliases) == ((), {})


@pytest.mark.parametrize(
    "name",
    [
        each.name
        for each in fields(UserSettings)
        if not isinstance(getattr(UserSettings(), each.name), (tuple, dict))
    ],
)
def test_an_empty_variable_is_one_that_is_not_set(tmp_path: Path, name: str) -> None:
    """As compose files and scripts leave those that nobody filled in."""
    toml = "voice = 'emma'\nthreads = 2\nnative = false\nkeep_warm = '5 min'"
    told = settings(tmp_path, toml)
    assert settings(tmp_path, toml, **{f"VOXCLI_{name.upper()}": ""}) == told
    assert load_settings({"VOXCLI_CONFIG": ""}) == load_settings({})


def test_an_unknown_variable_is_told_all_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown variable VOXCLI_CONFG") as caught:
        settings(tmp_path, VOXCLI_CONFG="x")
    assert "did you mean 'VOXCLI_CONFIG'?" in str(caught.value)
    assert "VOXCLI_CACHE_DIR, VOXCLI_CAST, VOXCLI_CONFIG, VOXCLI_DEBUG" in str(caught.value)


def test_the_number_of_slots_is_refused_by_the_name_of_its_option() -> None:
    with pytest.raises(UsageError, match="--slots is 0"):
        EngineConfig(max_slots=0)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_folders_follow_the_variables_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for empty in ("unset", ""):
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
            if empty:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, "")
        assert config_path({}) == tmp_path / "home" / ".config" / "voxcli" / "config.toml"
        assert data_dir() == tmp_path / "home" / ".local" / "share" / "voxcli"
        assert runtime_dirs() == (None, Path(os.environ.get("TMPDIR") or "/tmp"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "d"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "r"))
    assert config_path({}) == tmp_path / "c" / "voxcli" / "config.toml"
    assert config_path({"VOXCLI_CONFIG": "here.toml"}) == Path("here.toml")
    assert data_dir() == tmp_path / "d" / "voxcli"
    assert runtime_dirs()[0] == tmp_path / "r"


def test_a_name_for_the_engine_is_a_setting(tmp_path: Path) -> None:
    assert settings(tmp_path, "engine = 'native'").engine == "native"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="unknown variable VOXCLI_SERVER"):
        settings(tmp_path, VOXCLI_SERVER="off")


def test_nothing_heavy_is_loaded_to_know_the_settings() -> None:
    program = "import sys, voxcli.config; assert not {'platformdirs', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


# ---------------------------------------------------------------- CPU quotas

HALF, TWO = "50000 100000", "200000 100000"


def system(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A stand-in for `/`, with a control group's files of that content."""
    for name, content in {"proc/self/cgroup": groups, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return root


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/", {"cpu.max": HALF}, 0.5),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/a/b", {"a/b/cpu.max": TWO, "cpu.max": "max 100000"}, 2.0),
        ("0::/a/b", {"a/b/cpu.max": TWO, "a/cpu.max": HALF}, 0.5),  # the tighter one counts
        ("0::/a/b", {"cpu.max": "150000 100000"}, 1.5),  # its name outside of the container
        ("0::/../../a", {"cpu.max": HALF}, 0.5),
        ("0::/a", {"unified/a/cpu.max": TWO}, 2.0),
        ("4:memory:/\n3:cpu,cpuacct:/a\n0::/", {"cpu,cpuacct/a/cpu.cfs_quota_us": "50000"}, 0.5),
        ("1:cpu:/a", {"cpu/cpu.cfs_quota_us": "50000"}, 0.5),
        ("1:cpu:/a", {"cpu/a/cpu.cfs_quota_us": "-1"}, None),
        ("1:memory:/a", {"cpu/a/cpu.cfs_quota_us": "50000"}, None),
        ("0::/", {}, None),
        ("0::/", {"cpu.max": "nonsense"}, None),
        ("0::/", {"cpu.max": "100 0"}, None),
        ("", {}, None),
        ("what is this\n\n::", {}, None),
    ],
)
def test_the_tightest_cpu_quota_is_found(
    tmp_path: Path, groups: str, files: dict[str, str], quota: float | None
) -> None:
    root = "sys/fs/cgroup/"
    periods = {
        f"{root}{Path(name).parent}/cpu.cfs_period_us": "100000" for name in files if "cfs" in name
    }
    there = periods | {f"{root}{name}": content for name, content in files.items()}
    assert cpu_quota(system(tmp_path, groups, there)) == quota


def test_no_system_of_groups_means_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None


@pytest.mark.parametrize(
    ("quota", "cores"), [(None, 8), (0.01, 1), (0.5, 1), (1.0, 1), (1.2, 2), (3.0, 3), (99.0, 8)]
)
def test_there_are_as_many_cores_as_the_quota_pays_rounded_up(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, cores: int
) -> None:
    monkeypatch.setattr(config.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(config, "cpu_quota", lambda: quota)
    assert config.num_cores() == cores


def test_spinning_threads_are_stopped_before_torch_can_be_imported() -> None:
    shown = "os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules"
    program = f"import os, sys, voxcli; print({shown})"
    plain = {name: value for name, value in os.environ.items() if "OMP" not in name}
    cases: list[tuple[dict[str, str], str]] = [
        ({}, "10000 False"),
        ({"GOMP_SPINCOUNT": "7"}, "7 False"),
        ({"OMP_WAIT_POLICY": "active"}, "None False"),  # the user's own word
    ]
    for more, expected in cases:
        done = subprocess.run(
            [sys.executable, "-c", program], env=plain | more, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        assert done.stdout.strip() == expected


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('voice = ""', "voice is empty; give a value, or remove the line"),
        ("voice = emma", 'put text in straight quotes, as in voice = "emma"; correct'),
        ("voice = “emma”", 'put text in straight quotes, as in voice = "emma"; correct'),
    ],
)
def test_a_line_of_the_config_file_that_says_nothing_is_told(
    tmp_path: Path, line: str, told: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"{line}\n", "utf-8")
    with pytest.raises(UsageError) as caught:
        load_settings({"VOXCLI_CONFIG": str(path)})
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("90 s", 90), ("5 min", 300), ("1.5min", 90), ("1 h", 3600)],
)
def test_a_time_is_written_with_its_unit(text: str, seconds: float) -> None:
    assert load_settings({"VOXCLI_KEEP_WARM": text}).keep_warm == seconds


@pytest.mark.parametrize("text", [" ", "soon", "-1", "5 m", "1e3", "5 min 3 s", "inf"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"VOXCLI_KEEP_WARM is .*"):
        load_settings({"VOXCLI_KEEP_WARM": text})
