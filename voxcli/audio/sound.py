"""Sound devices of this machine, and an output on one of them, through PortAudio.

The only module that imports `sounddevice` (extra `play`), and only when a function is called.
Knows nothing about speech; `player.py` says what an output must do.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from voxcli.audio.chatter import native_stderr_hidden
from voxcli.audio.resample import Samples
from voxcli.errors import DeviceError, nearest
from voxcli.extras import missing

T = TypeVar("T")

LIST_HINT = "see 'voxcli stream --list-devices'"
# Half a second may pass before the device has to be fed again. With the interpreter's lock held for
# 0.12 s at a time, 0.1 s was too little and 0.2 s just enough (docs/streaming.md); this has margin.
BUFFER_S = 0.5
ANSWER_S = 30.0  # longest wait for a sound system; on a busy machine it was once 15 s
CLOSE_S = 2.0  # longest wait for a device to be let go
MAX_CHANNELS = 2  # the voice is mono; both ears get it


@dataclass(frozen=True)
class SoundDevice:
    """One output.

    Attributes:
        index: as PortAudio counts, inputs included.
        api: the sound system it belongs to, such as ALSA or Core Audio.
        sample_rate: its own, in Hz.
    """

    index: int
    name: str
    api: str
    channels: int
    sample_rate: int
    is_default: bool

    @property
    def printable_name(self) -> str:
        """The name on one line, whatever a driver put into it."""
        return "".join(char if char.isprintable() else "?" for char in self.name)


def import_sounddevice() -> Any:
    """The library.

    Raises:
        MissingPackageError: it is not installed.
        DeviceError: PortAudio is not, or cannot be used.
    """
    _quieten_alsa()
    try:
        import sounddevice
    except ModuleNotFoundError as err:
        raise missing("sounddevice", "the loudspeaker") from err
    except OSError as err:  # the package is there, the library below it is not
        raise DeviceError(
            "playing needs the PortAudio library",
            hint="install it: apt install libportaudio2, dnf install portaudio, "
            "or brew install portaudio",
        ) from err
    except Exception as err:  # PortAudio's own error class is in what could not be imported
        raise DeviceError(
            f"PortAudio does not start: {err}", hint="check the sound system"
        ) from err
    return sounddevice


_ALSA_HANDLER = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p
)
_ignore_alsa = _ALSA_HANDLER(lambda file, line, function, code, message: None)


def _quieten_alsa() -> None:
    """Keep libasound from writing to stderr about devices that nobody asked for."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libasound.so.2").snd_lib_error_set_handler(_ignore_alsa)


def in_time(ask: Callable[[], T]) -> T:
    """What the sound system answers; one that never does is left behind, and Ctrl-C is heard.

    Args:
        ask: calls `list_devices`, or opens a `SoundOutput`.

    Raises:
        DeviceError: no answer within `ANSWER_S`; else what `ask` raises.
    """
    if sys.platform == "win32":  # whose sound belongs to the thread that began with it
        return ask()
    future: Future[T] = Future()

    def answer() -> None:
        try:
            future.set_result(ask())
        except BaseException as err:
            future.set_exception(err)

    with ExitStack() as stack:
        shown = None
        with suppress(OSError):  # stderr is closed
            shown = os.dup(2)
            stack.callback(os.close, shown)
        threading.Thread(target=answer, name="sound", daemon=True).start()
        try:
            return future.result(ANSWER_S)
        except TimeoutError as err:
            if shown is not None:  # sounddevice hides stderr until PortAudio has started
                os.dup2(shown, 2)
            raise DeviceError(
                f"the sound system has not answered for {ANSWER_S:g} s",
                hint="is the sound server running? -o - sends the speech to another program",
            ) from err


def list_devices() -> list[SoundDevice]:
    """All outputs, in PortAudio's order.

    Raises:
        DeviceError: as `import_sounddevice`, or the sound system does not answer.
    """
    sounddevice = import_sounddevice()
    devices = []
    with _explained("the sound system does not answer"):
        apis = sounddevice.query_hostapis()
        default = apis[sounddevice.default.hostapi]["default_output_device"]
        for api in apis:
            for index in api["devices"]:
                try:
                    found = sounddevice.query_devices(index)
                except UnicodeDecodeError:  # a name in no known encoding cannot be typed either
                    continue
                device = SoundDevice(
                    index, str(found["name"]), api["name"], found["max_output_channels"],
                    round(found["default_samplerate"]), index == default,
                )  # fmt: skip
                if device.channels > 0:
                    devices.append(device)
    return sorted(devices, key=lambda device: device.index)


def find_device(asked: str | None) -> SoundDevice:
    """The output a user means: its index, its name, or a part of the name that only it has.

    Raises:
        DeviceError: none, no such, or several.
    """
    return choose_device(list_devices(), asked)


def choose_device(devices: list[SoundDevice], asked: str | None) -> SoundDevice:
    """`find_device` among given ones; None asks for the system's default."""
    if not devices:
        raise DeviceError(
            "there is no sound device to play on",
            hint=f"{LIST_HINT}; --save FILE keeps the speech, -o - sends it to another program",
        )
    if asked is None:
        return next((device for device in devices if device.is_default), devices[0])
    wanted = asked.strip().casefold()
    ways = (
        [d for d in devices if str(d.index) == wanted],
        [d for d in devices if d.name.strip().casefold() == wanted],
        [d for d in devices if wanted and wanted in d.name.casefold()],
    )
    matches: list[SoundDevice] = next(filter(None, ways), [])
    if not matches:
        guess = nearest(asked, [device.name for device in devices])
        raise DeviceError(f"no sound device {asked!r}", hint=f"{guess}{LIST_HINT}")
    if len(matches) > 1 and not (default := [d for d in matches if d.is_default]):
        found = ", ".join(f"{device.index} {device.name!r}" for device in matches)
        raise DeviceError(
            f"{len(matches)} sound devices match {asked!r}: {found}", hint="give the number"
        )
    return matches[0] if len(matches) == 1 else default[0]


class SoundOutput:
    """An open output that implements `player.OutputDevice`.

    Args:
        device: where to play.
        sample_rate: in Hz; None means the device's own.

    Raises:
        DeviceError: it cannot be opened.
    """

    def __init__(self, device: SoundDevice, sample_rate: int | None = None) -> None:
        sounddevice = import_sounddevice()
        self.device = device
        self.sample_rate = sample_rate or device.sample_rate
        self._channels = min(device.channels, MAX_CHANNELS)
        with self._explained("cannot be opened"):
            self._stream = sounddevice.OutputStream(
                samplerate=self.sample_rate, device=device.index, channels=self._channels,
                dtype="float32", latency=BUFFER_S,
            )  # fmt: skip
            self._capacity: int = self._stream.write_available
        self._is_closing = False

    def start(self) -> None:
        with self._explained("does not start"):
            self._stream.start()

    def room(self) -> int:
        with self._answering():
            return int(self._stream.write_available)

    def pending(self) -> int:
        return max(0, self._capacity - self.room())

    def write(self, samples: Samples) -> bool:
        frames = np.repeat(samples[:, np.newaxis], self._channels, axis=1)  # [S] -> [S, channels]
        with self._answering():
            return bool(self._stream.write(np.clip(frames, -1.0, 1.0)))

    def drain(self) -> None:
        with self._answering():
            self._stream.stop()

    def abort(self) -> None:
        with self._answering():
            self._stream.abort()

    def close(self) -> None:
        """Let go of it; always safe. A sound system that does not answer is left behind."""
        if self._is_closing:
            return
        self._is_closing = True
        closing = threading.Thread(target=self._close, daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        if closing.is_alive():  # and so would be what the library does when Python ends
            atexit.unregister(getattr(import_sounddevice(), "_exit_handler", self.close))

    def _close(self) -> None:
        with native_stderr_hidden():
            self._stream.close()  # ignores errors

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """A call that a device which has gone fails, without PortAudio's own lines about it."""
        with native_stderr_hidden(), self._explained("has gone"):
            yield

    def _explained(self, what: str) -> Any:
        return _explained(f"the sound device {self.device.name!r} {what}")


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn PortAudio's errors into one a user can act on."""
    sounddevice = import_sounddevice()
    try:
        yield
    except (sounddevice.PortAudioError, ValueError) as err:
        reason = str(err.args[0] if err.args else err).rstrip(".")
        raise DeviceError(f"{what}: {reason}", hint=LIST_HINT) from err
