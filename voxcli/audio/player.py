"""The player: one open output device, fed from a ring by a thread of its own.

Samples are pushed at the model's rate, resampled as one stream to the device's, and wait in a ring
until `release` lets them be heard. The thread never waits for the device: twenty times a second it
hands over what the device has room for. The device's own buffer (half a second) covers the moments
in which the engine keeps the interpreter's lock; filling it late costs nothing, because the device
sounds as soon as it has samples.

When samples end while more are due, that is an underrun: the device is stopped, the silence is
counted, and playing goes on when `release` is called again. When none are due it just rests.

Knows no synthesis. What a device is, is said by `OutputDevice`; the clock is an argument.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from voxcli.audio.pcm import as_mono
from voxcli.audio.prebuffer import MAX_PREBUFFER_S
from voxcli.audio.resample import Resampler, Samples
from voxcli.audio.ring import SampleRing
from voxcli.errors import DeviceError

POLL_S = 0.05  # a tenth of the device's buffer
BLOCK_S = 0.1  # most handed over at once, so that a stop is seen soon
DRY_S = 0.06  # left in the device when it is stopped for want of samples; stopping plays them
ROOM_S = 5.0  # in the ring beside the largest prebuffer
STUCK_S = 5.0  # a device that takes nothing for so long has gone


class OutputDevice(Protocol):
    """A loudspeaker. All methods are called by one thread; each may raise DeviceError."""

    @property
    def sample_rate(self) -> int: ...

    def start(self) -> None:
        """Begin, or begin again after `drain`; silent until samples come."""
        ...

    def room(self) -> int:
        """Samples it takes without waiting."""
        ...

    def pending(self) -> int:
        """Samples it took that have not been heard."""
        ...

    def write(self, samples: Samples) -> bool:
        """Take samples, no more than `room`; True when it had run out before."""
        ...

    def drain(self) -> None:
        """Play what is pending, then stop."""
        ...

    def abort(self) -> None:
        """Stop at once; what is pending is lost."""
        ...

    def close(self) -> None:
        """Let go of it; always safe."""
        ...


@dataclass
class PlayerStats:
    """What happened.

    Attributes:
        first_sound_at: the clock when the device took its first samples.
        num_underruns, underrun_s: times and seconds that the listener waited for speech.
    """

    first_sound_at: float | None = None
    num_underruns: int = 0
    underrun_s: float = 0.0


class Player:
    """Plays a stream of samples on a device.

    Args:
        device: open, not started.
        source_rate: of the samples that will be pushed, in Hz.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        device: OutputDevice,
        source_rate: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.device = device
        self.source_rate = source_rate
        self.stats = PlayerStats()
        self.error: DeviceError | None = None
        self._rate = device.sample_rate
        self._clock = clock
        self._resampler = Resampler(source_rate, self._rate)
        self._ring = SampleRing(round((MAX_PREBUFFER_S + ROOM_S) * self._rate))
        self._num_written = 0
        self._num_heard = 0  # where the device is not running
        self._is_running = False  # the device is
        self._is_fresh = False  # it has had no samples since it was started
        self._is_released = False
        self._is_more_due = False
        self._is_finished = False  # nothing will be pushed any more
        self._is_stopping = False
        self._dry_since: float | None = None
        self._dry_at = 0.0  # when the device will have played what it has
        self._moved_at = 0.0  # when the device last took samples
        self._asked_at: float | None = None  # since when the device has been asked for something
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="player", daemon=True)

    # ------------------------------------------------------------ for the thread that makes speech

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def push(self, samples: Samples) -> None:
        """Queue float32 `[S]` at the source rate; more is due after them.

        Waits while the ring is full, which begins to play if need be.
        """
        self._is_more_due = True
        self._queue(self._resampler.push(as_mono(samples)))

    @property
    def buffered_s(self) -> float:
        """Seconds that are queued here or in the device and not heard."""
        pending = self._num_written - self.num_heard
        return (len(self._ring) + pending) / self._rate

    @property
    def heard_s(self) -> float:
        """Seconds that were heard; silence is not counted."""
        return self.num_heard / self._rate

    @property
    def num_heard(self) -> int:
        return self._num_heard

    @property
    def is_released(self) -> bool:
        return self._is_released

    def release(self) -> None:
        """Let what is queued be heard now."""
        self._is_released = True
        self._wake.set()

    def pause_due(self) -> None:
        """No more is due for now: play what is queued; its end is no underrun."""
        self._is_more_due = False
        self._wake.set()

    def finish(self) -> None:
        """Nothing will be pushed any more: play what is queued, then end. Does not wait."""
        self._queue(self._resampler.flush())
        self._is_finished = True
        self.pause_due()

    def stop(self) -> None:
        """End the sound at once; from any thread, and safe to call twice. Does not wait."""
        self._is_stopping = True
        self._wake.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end after `finish` or `stop`; False when it has not come yet.

        Args:
            timeout_s: None waits as long as a device may take to answer.
        """
        self._thread.join(STUCK_S if timeout_s is None else timeout_s)
        return not self._thread.is_alive()

    def check_answers(self) -> None:
        """Set `error` when the device keeps the player's thread waiting; it may never come back."""
        asked_at = self._asked_at
        if self.error is None and asked_at is not None and self._clock() - asked_at > STUCK_S:
            self.error = DeviceError(
                f"the sound device has not answered for {STUCK_S:.0f} s",
                hint="is the sound server running? see 'voxcli stream --list-devices'",
            )

    def _queue(self, samples: Samples) -> None:
        while len(samples) and self.error is None and not self._is_stopping:
            self.check_answers()
            samples = samples[self._ring.push(samples) :]
            self._wake.set()
            if len(samples):
                self.release()
                time.sleep(POLL_S)

    # ------------------------------------------------------------ the player's own thread

    def _run(self) -> None:
        wait_s: float | None = 0.0
        while wait_s is not None:
            self._wake.wait(wait_s)
            self._wake.clear()
            wait_s = self.tick()

    def tick(self) -> float | None:
        """Do what is due now.

        Returns:
            seconds until the next call, unless something happens before; None at the end.
        """
        self._asked_at = self._clock()
        try:
            wait_s = self._tick()
        except DeviceError as err:
            self.error, self._is_running, wait_s = err, False, None
        if wait_s is None:
            self.device.close()
        self._asked_at = None
        return wait_s

    def _tick(self) -> float | None:
        if self._is_stopping:
            if self._is_running:
                self._note_heard()
                self._is_running = False
                self.device.abort()
            return None
        if not self._is_running:
            if not len(self._ring):
                return None if self._is_finished else POLL_S
            if self._is_more_due and not self._is_released:
                return POLL_S
            self._begin()
        is_full_block = self._feed()
        self._note_heard()
        if not len(self._ring):
            return self._rest_when_dry()
        self._check_not_stuck()
        return 0.0 if is_full_block else POLL_S

    def _begin(self) -> None:
        self.device.start()
        self._is_running = self._is_fresh = True
        now = self._moved_at = self._dry_at = self._clock()
        if self._dry_since is not None:
            self.stats.underrun_s += now - self._dry_since
            self._dry_since = None

    def _feed(self) -> bool:
        """Hand over one block; True when there was room for all of it."""
        block = round(BLOCK_S * self._rate)
        samples = self._ring.take(min(self.device.room(), block))
        if not len(samples):
            return False
        now = self._clock()
        if self.device.write(samples) and not self._is_fresh:
            # this thread came too late, though there were samples
            self.stats.num_underruns += 1
            self.stats.underrun_s += max(0.0, now - self._dry_at)
        self._is_fresh = False
        self._num_written += len(samples)
        self._moved_at = self._clock()
        if self.stats.first_sound_at is None:
            self.stats.first_sound_at = self._moved_at
        return len(samples) == block

    def _note_heard(self) -> None:
        pending = min(self.device.pending(), self._num_written)
        self._num_heard = max(self._num_heard, self._num_written - pending)
        self._dry_at = self._clock() + pending / self._rate

    def _check_not_stuck(self) -> None:
        if self._clock() - self._moved_at > STUCK_S:
            raise DeviceError(
                f"the sound device has accepted no samples for {STUCK_S:.0f} s",
                hint="is it suspended? see 'voxcli stream --list-devices'",
            )

    def _rest_when_dry(self) -> float | None:
        """With an empty ring: stop the device before it runs out by itself."""
        left_s = self._dry_at - self._clock()
        if left_s > DRY_S:
            return min(POLL_S, max(left_s - DRY_S, DRY_S / 10))
        is_underrun = self._is_more_due
        self.device.drain()
        self._num_heard = self._num_written
        self._is_running = False
        if len(self._ring):  # came while it drained: on without a new prebuffer
            return 0.0
        # NOTE: a `release` in this very moment is lost; the next chunk asks for it again
        self._is_released = False
        if is_underrun:
            self.stats.num_underruns += 1
            self._dry_since = self._clock()
        return None if self._is_finished else POLL_S
