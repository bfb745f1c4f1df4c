"""Packages that a plain install leaves out, and numbers beside their limits."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from voxcli import extras
from voxcli.errors import EXIT_DEVICE, MissingPackageError, told_apart

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))[
    "project"
]
MAX_PACKAGES = 25  # of voxcli's own; with theirs a plain install has 50


def packages(requirements: list[str]) -> list[str]:
    return [re.split(r"[^\w-]", requirement, maxsplit=1)[0] for requirement in requirements]


@pytest.mark.parametrize("extra", sorted({*PROJECT["optional-dependencies"]} - {"dev", "eval"}))
def test_a_missing_package_names_an_extra_that_brings_it(extra: str) -> None:
    for package in packages(PROJECT["optional-dependencies"][extra]):
        hint = extras.missing(package.replace("-", "_")).hint or ""
        named = re.search(r"'voxcli\[([a-z]+)\]'$", hint)
        assert named or package in packages(PROJECT["dependencies"]), hint
        assert package in packages(PROJECT["optional-dependencies"][named[1] if named else extra])


def test_a_package_of_the_plain_install_is_named_itself() -> None:
    assert (extras.missing("soundfile").hint or "").endswith("pip install 'soundfile'")


def test_what_is_there_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    extras.require("this", "json", "email")
    with pytest.raises(
        MissingPackageError, match="'--it' needs the Python package no-such"
    ) as seen:
        extras.require("'--it'", "json", "no_such")
    assert seen.value.exit_code == EXIT_DEVICE


@pytest.mark.parametrize(
    ("mark", "command"),
    [
        ("pipx_metadata.json", "pipx runpip own install 'voxcli[dub]'"),
        ("uv-receipt.toml", "uv pip install --python {prefix} 'voxcli[dub]'"),
        ("nothing", "{python} -m pip install 'voxcli[dub]'"),
    ],
)
def test_the_command_suits_who_installed_voxcli(
    mark: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "own"
    prefix.mkdir()
    (prefix / mark).touch()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "executable", str(prefix / "python"))
    wanted = command.format(prefix=prefix, python=prefix / "python")
    assert extras.install_command("voxcli[dub]") == wanted


def test_files_of_a_shell_are_installed_where_it_looks_for_them() -> None:
    """What the build takes for each folder is there, and nothing of it is forgotten."""
    root = Path(__file__).parents[2]
    tables = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    found = {
        (folder, path.name)
        for folder, patterns in tables["data-files"].items()
        for pattern in patterns
        for path in root.glob(pattern)
    }
    manuals = {("share/man/man1", path.name) for path in (root / "docs/man").iterdir()}
    assert found == manuals | {
        ("share/bash-completion/completions", "voxcli"),
        ("share/zsh/site-functions", "_voxcli"),
        ("share/fish/vendor_completions.d", "voxcli.fish"),
    }


def test_what_an_index_is_told_is_true() -> None:
    known = [each for each in PROJECT["classifiers"] if "Python :: 3." in each]
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert known[0].endswith(f":: {lowest}")
    assert not any("License" in each for each in PROJECT["classifiers"]), "`license` says it"


def test_a_plain_install_has_few_packages() -> None:
    assert len(PROJECT["dependencies"]) <= MAX_PACKAGES


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.integers(0, 3))
def test_a_number_and_its_limit_are_told_apart(value: float, limit: float, digits: int) -> None:
    assume(abs(value - limit) > 1e-8)
    shown, bound = map(float, told_apart(value, limit, digits))
    assert (shown > bound) == (value > limit)
    assert (shown == 0) == (f"{value:.9f}" == "0.000000000")
