"""What C code prints is hidden; nothing that Python prints is, then or later."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys, threading
from voxcli.audio.chatter import native_stderr_hidden

inside, first_left = threading.Barrier(2), threading.Event()

def first():
    with native_stderr_hidden():
        inside.wait(20)
    first_left.set()

def second():
    with native_stderr_hidden():
        inside.wait(20)
        first_left.wait(20)
        os.write(2, b"C code says\\n")
        print("Python says", file=sys.stderr)

threads = [threading.Thread(target=first), threading.Thread(target=second)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os.write(2, b"C code again\\n")
print("Python again", file=sys.stderr)
"""


def test_overlapping_blocks_hide_c_code_alone_and_bring_stderr_back() -> None:
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
        assert done.stderr.splitlines() == ["Python says", "C code again", "Python again"]


def test_a_closed_stderr_is_no_error() -> None:
    program = (
        "import os; os.close(2)\n"
        "from voxcli.audio.chatter import native_stderr_hidden\n"
        "with native_stderr_hidden(): print('fine')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "fine\n")
