"""Which packages vLLM-Omni can be started with, and what is said of all others."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import example, given
from hypothesis import strategies as st

from voxcli.engine.vllm_omni.packages import SETS, Machine

GOOD = {"torch": "2.11.0+cu130", "vllm": "0.26.0", "vllm-omni": "0.26.0", "voxcpm": "2.0.3"}
NEWER = {"torch": "2.13.1", "vllm": "0.30.2", "vllm-omni": "0.30.0", "voxcpm": "2.0.3"}
MINORS = {(each.release, each.torch) for each in SETS}

VERSIONS = {
    "torch": ["2.10.0", "2.11.0", "2.11.0+cu130", "2.13.0", "2.14.0a0", "nightly"],
    "vllm": ["0.24.0", "0.26.0", "0.26.1", "0.28.0", "0.30.0", "0.31.0", "dev"],
    "vllm-omni": ["0.24.0", "0.26.0", "0.28.0", "0.30.0", "0.30.1rc1", "main"],
    "voxcpm": ["2.0.3"],
}

machines = st.builds(
    Machine,
    python=st.sampled_from([(3, 11), (3, 12), (3, 13)]) | st.tuples(st.just(3), st.integers(8, 16)),
    platform=st.sampled_from(["linux", "linux", "linux", "darwin", "win32"]),
    has_card=st.sampled_from([True, True, True, False]),
    has_ninja=st.sampled_from([True, True, True, False]),
    versions=st.sampled_from([GOOD, NEWER])
    | st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in VERSIONS.items()}),
)  # fmt: skip


def minor(version: str) -> tuple[int, ...] | None:
    parts = version.split(".")[:2]
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else None


def fits(machine: Machine, *, needs_voxcpm: bool) -> bool:
    """The rule, said once more in another way."""
    found = {name: minor(version) for name, version in machine.versions.items()}
    return (
        machine.platform == "linux"
        and machine.python in {(3, 11), (3, 12), (3, 13)}
        and machine.has_card
        and machine.has_ninja
        and found.get("vllm") == found.get("vllm-omni")
        and (found.get("vllm-omni"), found.get("torch")) in MINORS
        and ("voxcpm" in found or not needs_voxcpm)
    )


@given(machine=machines, needs_voxcpm=st.booleans())
@example(Machine((3, 12), "linux", True, True, GOOD), True)
@example(Machine((3, 13), "linux", True, True, NEWER), True)
@example(Machine((3, 12), "linux", True, True, {**GOOD, "torch": "2.13.0"}), True)
@example(Machine((3, 12), "linux", True, True, {"torch": "2.11.0"}), False)
@example(Machine((3, 12), "linux", True, True, {}), False)
def test_exactly_the_supported_sets_pass_and_all_else_is_told(
    machine: Machine, needs_voxcpm: bool
) -> None:
    problem = machine.problem(needs_voxcpm=needs_voxcpm)
    assert (problem is None) == fits(machine, needs_voxcpm=needs_voxcpm)
    if problem is None:
        return
    why, what_to_do = problem
    for line in (why, what_to_do):
        assert line.isprintable()
        assert line
    assert "pip install" in what_to_do or "--engine native" in what_to_do


@given(machine=machines)
def test_what_the_hint_installs_would_fit(machine: Machine) -> None:
    problem = machine.problem()
    if problem is None or "pip install" not in problem[1]:
        return
    wanted = problem[1].split()[2:]
    versions = {}
    for each in wanted:
        name, _, version = each.strip("'").replace(">=", "==").partition("==")
        versions[name] = version.replace("*", "0")
    assert versions.pop("ninja") == ""
    then = Machine(machine.python, machine.platform, machine.has_card, True, versions)
    assert then.problem() is None


def test_asking_imports_nothing_of_it() -> None:
    program = """
import sys
from voxcli.engine.vllm_omni.packages import Machine
from voxcli.engine.vllm_omni import engine
Machine.this().problem()
sys.exit(bool({"vllm", "vllm_omni", "torch", "transformers"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
