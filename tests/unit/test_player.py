"""The player on a fake device in fake time: prebuffer, underruns, stops, continuity."""

from __future__ import annotations

import numpy as np
import pytest
from needs import PATIENCE_S

from voxcli.audio.player import DRY_S, STUCK_S, OutputDevice, Player
from voxcli.audio.prebuffer import MAX_PREBUFFER_S, Prebuffer
from voxcli.audio.resample import Samples
from voxcli.audio.ring import SampleRing
from voxcli.errors import DeviceError

RATE = 8000
BUFFER = RATE // 2


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeDevice:
    """Plays in fake time; `heard` is what a microphone would record while it ran."""

    def __init__(self, clock: Clock, sample_rate: int = RATE) -> None:
        self.sample_rate = sample_rate
        self.clock = clock
        self.events: list[str] = []
        self.written: list[Samples] = []
        self.queued = 0.0
        self.seen_at = clock.now
        self.is_running = self.has_run_out = self.fails = False

    def _play(self) -> None:
        """Let time pass."""
        if self.fails:
            raise DeviceError("the sound device has gone")
        passed = (self.clock.now - self.seen_at) * self.sample_rate if self.is_running else 0.0
        self.seen_at = self.clock.now
        self.queued, had = max(0.0, self.queued - passed), self.queued
        self.has_run_out |= bool(passed > had + 1)

    def start(self) -> None:
        self._play()
        self.is_running = True
        self.events.append("start")

    def room(self) -> int:
        self._play()
        return BUFFER - int(self.queued)

    def pending(self) -> int:
        self._play()
        return int(self.queued)

    def write(self, samples: Samples) -> bool:
        self._play()
        assert len(samples) <= BUFFER - int(self.queued)
        self.written.append(samples)
        self.queued += len(samples)
        had, self.has_run_out = self.has_run_out, False
        return had

    def drain(self) -> None:
        self._play()
        self.clock.now += self.queued / self.sample_rate
        self._play()
        self.is_running = False
        self.events.append("drain")

    def abort(self) -> None:
        self.is_running = False
        self.events.append("abort")

    def close(self) -> None:
        self.events.append("close")


class Stage:
    """A player whose thread is this test: `run` lets fake time pass."""

    def __init__(self, source_rate: int = RATE, sample_rate: int = RATE) -> None:
        self.clock = Clock()
        self.device = FakeDevice(self.clock, sample_rate)
        checked: OutputDevice = self.device
        self.player = Player(checked, source_rate, clock=self.clock)
        self.is_over = False

    def run(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while not self.is_over:
            wait_s = self.player.tick()
            if wait_s is None:
                self.is_over = True
            elif self.clock.now + wait_s > end:
                self.clock.now = max(self.clock.now, end)
                return
            else:
                self.clock.now += wait_s

    @property
    def heard(self) -> Samples:
        return np.concatenate(self.device.written)


def tone(seconds: float, rate: int = RATE) -> Samples:
    return np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate).astype(np.float32)


def test_a_ring_gives_back_what_it_took_in_any_pieces() -> None:
    rng = np.random.default_rng(1)
    ring, data = SampleRing(1000), rng.standard_normal(20_000).astype(np.float32)
    taken, start = [], 0
    while start < len(data) or len(ring):
        start += ring.push(data[start : start + int(rng.integers(1, 700))])
        assert len(ring) + ring.room == ring.capacity
        taken.append(ring.take(int(rng.integers(1, 700))))
    assert np.array_equal(np.concatenate(taken), data)
    assert len(ring.take(5)) == 0


def test_a_ring_takes_no_more_than_fits() -> None:
    ring = SampleRing(10)
    assert ring.push(np.ones(25, np.float32)) == 10
    assert ring.push(np.ones(1, np.float32)) == 0


def test_nothing_is_heard_before_it_is_released() -> None:
    stage = Stage()
    stage.player.push(tone(0.3))
    stage.run(2.0)
    assert stage.device.written == []
    stage.player.release()
    stage.run(0.1)
    assert stage.device.events == ["start"]
    assert stage.player.stats.first_sound_at == 102.0


def test_what_is_pushed_is_what_is_heard_and_then_the_device_is_let_go() -> None:
    stage, data = Stage(), tone(3.0)
    for part in np.split(data, [4000, 4001, 9000, 20_000]):
        stage.player.push(part)
        stage.player.release()
        stage.run(0.001)
    stage.player.finish()
    stage.run(60)
    assert np.array_equal(stage.heard, data)
    assert stage.device.events == ["start", "drain", "close"]
    assert stage.player.heard_s == 3.0
    assert 3.0 <= stage.clock.now - 100 < 3.2
    assert stage.player.stats.num_underruns == 0


def test_running_dry_while_more_is_due_is_counted_and_timed() -> None:
    stage = Stage()
    stage.player.push(tone(1.0))
    stage.player.release()
    stage.run(3.0)  # 1 s is heard, then 2 s of silence
    assert stage.player.stats.num_underruns == 1
    stage.player.push(tone(1.0))
    stage.run(0.5)
    assert len(stage.heard) == RATE  # it waits for a new release
    stage.player.release()
    stage.player.finish()
    stage.run(60)
    assert stage.player.stats.num_underruns == 1
    assert stage.player.stats.underrun_s == pytest.approx(2.5, abs=0.1)
    assert stage.player.heard_s == 2.0


def test_a_rest_that_nobody_speaks_in_is_no_underrun() -> None:
    stage = Stage()
    stage.player.push(tone(0.5))
    stage.player.pause_due()
    stage.run(10)
    stage.player.push(tone(0.5))
    stage.run(1)
    assert len(stage.heard) == RATE // 2  # a new prebuffer
    stage.player.finish()
    stage.run(60)
    assert (stage.player.stats.num_underruns, stage.player.stats.underrun_s) == (0, 0.0)
    assert stage.player.heard_s == 1.0
    assert stage.device.events.count("start") == 2


def test_a_player_that_is_fed_too_late_counts_the_gap() -> None:
    stage = Stage()
    stage.player.push(tone(5.0))
    stage.player.release()
    stage.run(1.0)
    stage.clock.now += 2.0  # its thread got no turn; the device had half a second
    stage.run(1.0)
    assert stage.player.stats.num_underruns == 1
    assert stage.player.stats.underrun_s == pytest.approx(1.5, abs=0.11)


def test_samples_that_come_in_the_last_moment_cause_no_underrun() -> None:
    stage = Stage()
    stage.player.push(tone(0.5))
    stage.player.release()
    stage.run(0.5 - 2 * DRY_S)
    stage.player.push(tone(0.5))
    stage.run(0.3)
    assert stage.player.stats.num_underruns == 0
    assert stage.device.events == ["start"]


def test_a_stop_ends_at_the_next_tick_and_knows_what_was_heard() -> None:
    stage = Stage()
    stage.player.push(tone(5.0))
    stage.player.release()
    stage.run(1.0)
    stage.player.stop()
    assert stage.player.tick() is None
    assert stage.device.events == ["start", "abort", "close"]
    assert stage.player.heard_s == pytest.approx(1.0, abs=0.01)
    assert len(stage.heard) > 1.3 * RATE  # the device had more, which was dropped


def test_a_device_that_goes_away_ends_the_player_with_its_error() -> None:
    stage = Stage()
    stage.player.push(tone(5.0))
    stage.player.release()
    stage.run(1.0)
    stage.device.fails = True
    stage.run(1.0)
    assert stage.is_over
    assert "has gone" in str(stage.player.error)
    assert stage.player.heard_s == pytest.approx(1.0, abs=0.06)
    stage.player.push(tone(500.0))  # more than the ring holds: dropped, not waited for
    stage.player.finish()


def test_a_device_that_takes_nothing_is_given_up() -> None:
    stage = Stage()
    stage.player.push(tone(5.0))
    stage.player.release()
    stage.run(1.0)
    stage.device.room = lambda: 0  # type: ignore[method-assign]
    stage.run(STUCK_S + 1)
    assert "has accepted no samples" in str(stage.player.error)


@pytest.mark.parametrize("size", [1, 160, 999, 3840, 24_000])
def test_resampling_leaves_no_click_at_the_borders_of_chunks(size: int) -> None:
    """A sine stays a sine: no sample is further from its neighbours than a sine allows."""
    stage = Stage(24_000, 44_100)
    wave = 0.5 * tone(1.0, 24_000)
    for start in range(0, len(wave), size):
        stage.player.push(wave[start : start + size])
        stage.player.release()
    stage.player.finish()
    stage.run(60)
    ideal = 0.5 * tone(1.0, 44_100)
    assert len(stage.heard) == 44_100
    inside = slice(500, -500)  # the sine itself begins and ends at once
    assert np.abs(stage.heard - ideal)[inside].max() < 1e-3


def test_a_thread_plays_by_itself() -> None:
    """In real time, but without sound: the device takes all at once."""
    clock = Clock()
    device = FakeDevice(clock)
    player = Player(device, RATE, clock=clock)
    player.start()
    player.push(tone(0.04))
    player.finish()
    assert player.wait(PATIENCE_S)
    assert device.events == ["start", "drain", "close"]


# Prebuffer


def paced(rtf: float) -> Prebuffer:
    prebuffer = Prebuffer()
    prebuffer.pace.record(9.0, 0.16, is_first=True)  # the prompt's time is not the pace
    prebuffer.pace.record(rtf * 0.16, 0.16, is_first=False)
    return prebuffer


def starved_s(rtf: float, total_s: float) -> float:
    """Seconds without sound when a text of `total_s` is made at `rtf` in growing chunks."""
    prebuffer, now, made_s = Prebuffer(), 0.0, 0.0
    begun, end_of_sound, starved = None, 0.0, 0.0
    for index, patches in enumerate([1, 1, 2, *[4] * 1000]):
        chunk_s = min(0.16 * patches, total_s - made_s)
        if chunk_s <= 1e-9:
            break
        now += rtf * chunk_s
        prebuffer.pace.record(rtf * chunk_s, chunk_s, is_first=index == 0)
        made_s += chunk_s
        if begun is None:
            if made_s >= prebuffer.needed_s(made_s, total_s - made_s):
                begun = now
                end_of_sound = now + made_s
        else:
            starved += max(0.0, now - end_of_sound)
            end_of_sound = max(end_of_sound, now) + chunk_s
    return starved


@pytest.mark.parametrize("rtf", [0.02, 0.2, 0.5, 0.7, 0.79, 0.95, 1.0, 1.2, 2.0, 5.0])
@pytest.mark.parametrize("total_s", [1.0, 4.0, 10.0, 20.0])
def test_the_prebuffer_never_runs_dry_at_a_steady_pace(rtf: float, total_s: float) -> None:
    assert starved_s(rtf, total_s) == 0.0


def test_a_fast_machine_begins_with_the_second_patch() -> None:
    assert paced(0.2).needed_s(0.32, 10.0) < 0.32


def test_nothing_begins_before_the_pace_is_known() -> None:
    prebuffer = Prebuffer()
    prebuffer.pace.record(1.0, 0.16, is_first=True)
    assert prebuffer.needed_s(0.16, 10.0) == MAX_PREBUFFER_S


def test_a_slow_machine_makes_first_what_would_come_too_late() -> None:
    assert paced(2.0).needed_s(0.32, 10.0) >= (2.0 - 1.0) * 10.0
    assert paced(50.0).needed_s(0.32, 3600.0) == MAX_PREBUFFER_S


def test_the_users_own_buffer_is_taken_as_it_is() -> None:
    prebuffer = Prebuffer(0.5)
    assert prebuffer.needed_s(0.0, 100.0) == 0.5
    assert "--buffer-ms" in prebuffer.explain(0.5)


def test_the_prebuffer_explains_itself() -> None:
    assert paced(0.2).explain(0.3).endswith("speech is made at 5.0x real time")
    assert "too late" in paced(2.0).explain(8.0)
    assert "whole text" in Prebuffer().explain(0.2)
