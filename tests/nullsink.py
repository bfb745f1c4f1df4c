"""A sound card without a loudspeaker: a PulseAudio server of our own, and its recording.

Needs the Debian packages in `PACKAGES`; no root, no service, nothing of the user's sound system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from needs import PATIENCE_S, unavailable

PACKAGES = "pulseaudio pulseaudio-utils libasound2-plugins libportaudio2"
RATE = 44_100  # what PortAudio says of PulseAudio through ALSA, so that nothing resamples twice
QUIET = 1e-4
ENDS_S = 0.3  # of silence after what was heard


def require_sound() -> None:
    """Skip where the sound card cannot be had; fail in continuous integration."""
    missing = [name for name in ("pulseaudio", "parec", "pactl") if shutil.which(name) is None]
    missing += [] if find_library("portaudio") else ["libportaudio"]
    missing += [] if find_spec("sounddevice") else ["sounddevice"]
    if not missing:
        return
    reason = f"no null sink ({', '.join(missing)}); apt install {PACKAGES}"
    unavailable(reason)


class NullSink:
    """The server; `env` is for programs that are to play on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "PULSE_SERVER": f"unix:{folder}/native",
            "PULSE_RUNTIME_PATH": str(folder / "pulse"),
            "XDG_RUNTIME_DIR": str(folder),
            "HOME": str(folder),
        }
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.chmod(0o700)
        command = ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"]
        command += ["--disable-shm=yes", "--log-level=error"]
        command += ["-L", f"module-null-sink sink_name=test rate={RATE} channels=2"]
        socket = f"socket={self.folder}/native"
        command += ["-L", f"module-native-protocol-unix {socket} auth-anonymous=1"]
        self._server = subprocess.Popen(command, env=self.env, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            asked = subprocess.run(["pactl", "info"], env=self.env, capture_output=True)
            if asked.returncode == 0:
                return self
            time.sleep(0.1)
        pytest.fail("the null sink does not start")

    def kill(self) -> None:
        """As when a card is unplugged."""
        assert self._server is not None
        self._server.kill()
        self._server.wait()

    def __exit__(self, *_: object) -> None:
        self.kill()


class Recording:
    """What the sink plays while the `with` block runs, with the time at which it came."""

    def __init__(self, sink: NullSink) -> None:
        self._chunks: list[tuple[float, np.ndarray]] = []
        command = ["parec", "-d", "test.monitor", "--format=float32le", "--channels=1"]
        command += [f"--rate={RATE}", "--latency-msec=5"]
        self._process = subprocess.Popen(command, env=sink.env, stdout=subprocess.PIPE)
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        rest = b""
        assert self._process.stdout is not None
        while data := self._process.stdout.read1(65536):  # type: ignore[attr-defined]
            whole = len(rest + data) // 4 * 4
            samples = np.frombuffer((rest + data)[:whole], "<f4")
            rest = (rest + data)[whole:]
            self._chunks.append((time.monotonic(), samples))

    def __enter__(self) -> Self:
        self._thread.start()
        self._until(lambda: bool(self._chunks))
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:  # all has come
            self._until(lambda: self._is_silent() or not self._thread.is_alive())
        self._process.terminate()
        self._process.wait()
        self._thread.join(5)
        assert self._process.stdout is not None
        self._process.stdout.close()

    @staticmethod
    def _until(is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, "the sink is not recorded"
            time.sleep(0.02)

    def _is_silent(self) -> bool:
        """Whether the last that came is silence; a sink that plays nothing brings it too."""
        num_silent = 0
        for _, samples in reversed(list(self._chunks)):
            if np.abs(samples).max(initial=0) > QUIET:
                return False
            num_silent += len(samples)
            if num_silent >= ENDS_S * RATE:
                return True
        return False

    @property
    def samples(self) -> np.ndarray:
        """From the first to the last that is not silent."""
        return sounding(np.concatenate([samples for _, samples in self._chunks]))

    def sound_times(self) -> list[float]:
        """When chunks came that are not silent."""
        return [at for at, samples in list(self._chunks) if np.abs(samples).max(initial=0) > QUIET]

    @property
    def ended_at(self) -> float:
        """When the last sound was played: by the sink's own clock, however late it was read."""
        ends = np.cumsum([len(samples) for _, samples in self._chunks])
        began_at = min(at - end / RATE for (at, _), end in zip(self._chunks, ends, strict=True))
        heard = np.abs(np.concatenate([samples for _, samples in self._chunks])) > QUIET
        return float(began_at + (np.flatnonzero(heard)[-1] + 1) / RATE)

    def wait_for_sound(self, timeout_s: float) -> float:
        """The time of the first sound."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if times := self.sound_times():
                return times[0]
            time.sleep(0.01)
        pytest.fail(f"nothing was heard within {timeout_s} s")


def sounding(samples: np.ndarray) -> np.ndarray:
    """Without the silence at both ends."""
    found = np.flatnonzero(np.abs(samples) > QUIET)
    return samples[found[0] : found[-1] + 1] if len(found) else samples[:0]
