"""Real faults of the card: a batch and a server go on in a new process, with the same samples."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
FAULTY = Path(__file__).parents[1] / "faulty.py"
START_S = 120.0
TEXT = "The ferry leaves at noon, and the train leaves an hour later."


def environment(folder: Path, faults: str) -> dict[str, str]:
    """For a process that lets kernels use wrong indices, see `faulty.py`."""
    (folder / "faults.txt").write_text(faults, "utf-8")
    return {
        **os.environ,
        "FAULTY": str(folder / "faults.txt"),
        "FAULTY_DEVICE": "cuda",
        "VOXCLI_ENGINE": "native",
    }


def batch(folder: Path, name: str, faults: str) -> tuple[dict[str, Any], str]:
    """Speak six rows; the report and what was said on stderr."""
    rows = [f"Row number {number} goes on a little." for number in range(6)]
    (folder / "six.txt").write_text("\n".join(rows), "utf-8")
    words = ["batch", folder / "six.txt", "-o", folder / name, "--seed", "7", "--json"]
    done = subprocess.run(
        [sys.executable, FAULTY, *words, "--device", "cuda"],
        env=environment(folder, faults), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def digests(folder: Path) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.wav"))]


def test_a_batch_goes_on_after_a_fault_of_the_card(tmp_path: Path) -> None:
    report, said = batch(tmp_path, "out", "3 1\n")
    assert "the engine failed: CUDA error" in said
    assert "a new process goes on with the other rows" in said
    assert report["counts"]["ok"] == 6
    again, said = batch(tmp_path, "whole", "")
    assert "new process" not in said
    assert again["counts"]["ok"] == 6
    assert [row["spoken_text"] for row in report["rows"]] == [
        row["spoken_text"] for row in again["rows"]
    ]
    assert len(digests(tmp_path / "out")) == 6
    print(
        f"\nbatch of six with a fault: {report['wall_s']:.1f} s, without {again['wall_s']:.1f} s; "
        f"{len(set(digests(tmp_path / 'out')) & set(digests(tmp_path / 'whole')))} files equal"
    )


def test_a_server_goes_on_after_a_fault_of_the_card(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    env = environment(tmp_path, "20 1\n") | {"XDG_RUNTIME_DIR": str(tmp_path / "run")}
    words = ["serve", "--port", "0", "--no-socket", "--device", "cuda"]
    process = subprocess.Popen(
        [sys.executable, FAULTY, *words], env=env, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        url = next(line for line in process.stderr if "is ready on" in line).split()[4]
        assert speak(url, "One.").status_code == 200  # less than twenty steps
        answer = speak(url, TEXT)
        assert answer.status_code == 503
        assert "CUDA error" in answer.json()["error"]["message"]
        failed_s = time.monotonic()
        health = {"restarts": 0}
        while not health["restarts"]:  # the old process may answer first, or hang up
            assert time.monotonic() - failed_s < START_S
            with suppress(httpx.TransportError):
                health = httpx.get(f"{url}/health", timeout=START_S).json()
        listens_s = time.monotonic() - failed_s
        assert (health["pid"], health["restarts"]) == (process.pid, 1)
        while httpx.get(f"{url}/health", timeout=START_S).status_code != 200:
            assert time.monotonic() - failed_s < START_S
            time.sleep(0.05)
        ready_s = time.monotonic() - failed_s
        assert speak(url, TEXT).status_code == 200
        print(f"\nafter the fault: listens in {listens_s:.1f} s, is ready in {ready_s:.1f} s")
    finally:
        process.terminate()
        process.communicate(timeout=START_S)
    assert process.returncode == 0


def speak(url: str, text: str) -> httpx.Response:
    body = {"model": "mini", "input": text, "response_format": "wav", "seed": 7}
    return httpx.post(f"{url}/v1/audio/speech", json=body, timeout=START_S)
