"""How the program's own process starts and ends; each test looks at a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest


def _run(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


_END = """
import atexit, sys, threading, time
from voxcli.process import end_with, own
own()
atexit.register(print, "told")
def work():
    threading.main_thread().join()
    print("worked")
threading.Thread(target=work).start()
sys.stdout.write("said, ")
sys.exit(end_with(3))
"""


def test_a_quick_end_waits_for_threads_and_calls_and_writes_what_was_said() -> None:
    done = _run(_END)
    assert (done.returncode, done.stdout) == (3, "said, worked\ntold\n"), done.stderr


def test_a_quick_end_takes_no_module_apart() -> None:
    script = (
        "import sys\n"
        "from voxcli.process import end_with, own\n"
        "class Loud:\n"
        "    def __del__(self): print('apart')\n"
        "kept = Loud()\n"
        "own()\n"
    )
    assert _run(script).stdout == "apart\n"
    assert _run(script + "end_with(0)").stdout == ""


def test_a_bug_ends_the_program_as_python_does() -> None:
    done = _run("from voxcli.process import own\nown()\n1 / 0")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("is_own", [True, False])
def test_what_hastens_the_start_of_the_program_ends_with_the_start(is_own: bool) -> None:
    done = _run(
        "import gc, sys\n"
        "from voxcli import process\n"
        "def rules(): return gc.get_threshold(), round(sys.getswitchinterval(), 6)\n"
        "before = rules()\n"
        f"if {is_own}: process.own()\n"
        "during = rules()\n"
        "process.started()\n"
        "print(during != before, rules() == before)"
    )
    assert done.stdout == f"{is_own} True\n", done.stderr


def test_the_start_ends_without_a_look_at_all_that_was_imported() -> None:
    done = _run(
        "import gc\n"
        "from voxcli import process\n"
        "process.own()\n"
        "kept = [[] for _ in range(10_000)]\n"
        "process.started()\n"
        "looked = []\n"
        "gc.callbacks.append(lambda phase, info: looked.append(len(gc.get_objects())))\n"
        "more = [[] for _ in range(2_000)]\n"
        "print(bool(looked), max(looked) < 5_000)"
    )
    assert done.stdout == "True True\n", done.stderr


@pytest.mark.parametrize("is_own", [True, False])
def test_only_the_program_leaves_out_a_part_of_torch(is_own: bool) -> None:
    done = _run(
        "import sys\n"
        "from voxcli import process\n"
        f"if {is_own}: process.own()\n"
        "name = 'torch._meta_registrations'\n"
        "with process.quick_imports(): print(name in sys.modules)\n"
        "print(name in sys.modules)\n"
    )
    assert done.stdout == f"{is_own}\nFalse\n", done.stderr


def test_what_was_left_out_of_torch_is_there_for_who_imports_it() -> None:
    done = _run(
        "import sys\n"
        "from voxcli.process import own, quick_imports\n"
        "own()\n"
        "with quick_imports(): import torch\n"
        "print(hasattr(torch, '_meta_registrations'))\n"
        "import torch._meta_registrations\n"
        "shape = torch.nn.functional.linear(*(torch.empty(3, 4, device='meta'),) * 2).shape\n"
        "print(tuple(shape), torch._meta_registrations.register_meta.__name__)\n"
    )
    assert done.stdout == "False\n(3, 3) register_meta\n", done.stderr
