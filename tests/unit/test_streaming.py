"""From a source of texts to an outlet, on a fake model: order, pauses, failures, pace, files."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from fakes import SAMPLE_RATE, FakeModel, fake_engine

from voxcli.audio import player
from voxcli.audio.heard import HeardFile
from voxcli.audio.joins import FADE_S, QUIET
from voxcli.audio.player import Player
from voxcli.audio.prebuffer import Prebuffer
from voxcli.audio.resample import Samples
from voxcli.audio.write import AudioWriter
from voxcli.config import SamplingParams
from voxcli.engine.base import SpeechEngine
from voxcli.errors import DeviceError, SynthesisError, TextError, UsageError, VoxError
from voxcli.plan import Plan
from voxcli.streaming.outlet import MAX_AHEAD_S, Loudspeaker, Made, Outlet
from voxcli.streaming.source import Item, OneText, TextLines
from voxcli.streaming.streamer import Streamer, StreamReport
from voxcli.text.lines import Line
from voxcli.text.pauses import silence_alone
from voxcli.text.prepared import PAUSE_LINE_S, PAUSE_PARAGRAPH_S, PAUSE_SENTENCE_S
from voxcli.text.thoughts import Thoughts
from voxcli.text.whole import says_nothing
from voxcli.utterance import FinishReason, Utterance

ONE = "A sentence of ordinary length."
TWO = "Another sentence comes here."


class Recorder(Outlet):
    """Keeps what it gets, and when it was told that no more is due."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []
        self.samples: list[Samples] = []
        self.made: list[Made] = []

    def write(self, samples: Samples, made: Made) -> None:
        self.samples.append(samples)
        self.made.append(made)
        self.events.append("write")

    def rest(self) -> None:
        self.events.append("rest")

    def finish(self, tick: Callable[[], None]) -> None:
        self.events.append("finish")

    def interrupt(self) -> None:
        self.events.append("interrupt")


class Lines:
    """A source that is given its items, with None where nothing has come yet."""

    is_by_line = True

    def __init__(self, items: list[Item | None]) -> None:
        self.items = items

    @property
    def is_over(self) -> bool:
        return not self.items

    @property
    def has_waiting(self) -> bool:
        return bool(self.items) and self.items[0] is not None

    def next(self, timeout_s: float) -> Item | None:
        return self.items.pop(0)


def plan(text: str, engine: SpeechEngine) -> Plan:
    return engine.plan(Utterance(text, sampling=SamplingParams(seed=5)))


def test_one_text_gives_the_samples_of_its_file() -> None:
    engine, outlet = fake_engine(), Recorder()
    report = Streamer(engine, OneText(plan(ONE, engine)), outlet).run()
    expected = engine.synthesize([plan(ONE, engine)])[0].samples
    assert np.array_equal(np.concatenate(outlet.samples), expected)
    assert report.audio_s == pytest.approx(len(expected) / SAMPLE_RATE)
    assert outlet.events[-2:] == ["rest", "finish"]
    assert outlet.made[0].is_first
    assert not any(made.is_first for made in outlet.made[1:])
    assert report.ttfa_s is not None
    assert report.num_texts == 1


def test_lines_are_spoken_in_order_with_pauses_and_bad_ones_skipped() -> None:
    engine, outlet = fake_engine(), Recorder()
    bad = TextError("nothing in it")
    failed: list[tuple[int, VoxError]] = []
    items = [
        Item(line=1), Item(plan(ONE, engine), line=2), Item(line=3), Item(line=4),
        Item(error=bad, line=5), Item(plan(TWO, engine), line=6),
    ]  # fmt: skip
    streamer = Streamer(
        engine, Lines([*items]), outlet, on_failure=lambda *what: failed.append(what)
    )
    report = streamer.run()
    expected = []
    for text, pause_s in ((ONE, PAUSE_PARAGRAPH_S), (TWO, PAUSE_LINE_S)):
        samples = engine.synthesize([plan(text, engine)])[0].samples
        last = np.flatnonzero(np.abs(samples) >= 1e-3)[-1] + 1
        silence = np.zeros(round(pause_s * SAMPLE_RATE), np.float32)
        silence[: len(samples) - last] = samples[last:][: len(silence)]
        expected += [samples[:last], silence]
    assert np.array_equal(np.concatenate(outlet.samples), np.concatenate(expected))
    assert failed == report.failed == [(5, bad)]
    assert report.num_texts == 2


def test_parts_of_a_line_are_sentences_apart_and_its_end_makes_the_pause_a_lines() -> None:
    def spoken(*items: Item) -> np.ndarray:
        outlet = Recorder()
        Streamer(engine, Lines([*items]), outlet).run()
        return np.concatenate(outlet.samples)

    engine = fake_engine()
    one, two = plan(ONE, engine), plan(TWO, engine)
    parts = spoken(Item(one, line=1, is_part=True), Item(two, line=1, is_rest=True))
    lines = spoken(Item(one, line=1), Item(two, line=2))
    shorter = round(PAUSE_LINE_S * SAMPLE_RATE) - round(PAUSE_SENTENCE_S * SAMPLE_RATE)
    assert len(lines) - len(parts) == shorter
    ended = spoken(
        Item(one, line=1, is_part=True), Item(line=1, is_rest=True), Item(two, line=2)
    )  # fmt: skip
    assert len(ended) == len(lines)
    paragraph = spoken(
        Item(one, line=1, is_part=True), Item(line=1, is_rest=True), Item(line=2),
        Item(two, line=3),
    )  # fmt: skip
    assert len(paragraph) == len(spoken(Item(one, line=1), Item(line=2), Item(two, line=3)))


def test_a_line_of_marks_alone_is_an_empty_line() -> None:
    class Reader:
        is_over, has_waiting = False, False

        def __init__(self, texts: list[str]) -> None:
            self.lines = [Line(number, text) for number, text in enumerate(texts)]

        def get(self, timeout_s: float) -> Line | None:
            line = self.lines.pop(0)
            self.is_over = not self.lines
            return line

    engine = fake_engine()

    def spoken(*texts: str) -> tuple[np.ndarray, StreamReport]:
        outlet = Recorder()
        source = TextLines(
            Reader([*texts]),  # type: ignore[arg-type]
            lambda text: plan(text, engine),
            says_nothing=says_nothing,
            thoughts=Thoughts(),
        )
        report = Streamer(engine, source, outlet).run()
        return np.concatenate(outlet.samples), report

    samples, report = spoken(ONE, "```python", TWO, "---", "***")
    assert not report.failed
    assert np.array_equal(samples, spoken(ONE, "", TWO, "", "")[0])


@pytest.mark.parametrize(
    "lines",
    [
        ["One sentence is here. [pause 2s]", "Then comes another."],
        ["One sentence is here.", "[pause 2s] Then comes another."],
        ["One sentence is here.", "[pause 2s]", "Then comes another."],
        ["One sentence is here. [pause 2s]", "", "Then comes another."],
        ["One sentence is here.", "", "<break time='2s'/>", "Then comes another."],
        ["One sentence is here.", "[pause 1s]", "[pause 1s]", "Then comes another."],
    ],
)
def test_a_pause_between_lines_is_as_long_as_they_ask(lines: list[str]) -> None:
    engine, outlet = fake_engine(), Recorder()
    items: list[Item | None] = []
    for line in lines:
        silence_s = silence_alone(line)
        is_empty = not line or silence_s > 0
        items.append(Item(None if is_empty else plan(line, engine), silence_s=silence_s))
    Streamer(engine, Lines(items), outlet).run()
    audible = np.flatnonzero(np.abs(np.concatenate(outlet.samples)) >= QUIET)
    more = int(np.diff(audible).max()) - 1 - 2 * SAMPLE_RATE
    assert 0 <= more < SAMPLE_RATE // 10  # the next voice's own beginning, where it is no mark's


@pytest.mark.parametrize("max_seconds", [0.1, 0.7, 2.0, 2.43, 2.6, 3.0, 4.5, 5.1, 5.5])
def test_max_seconds_is_of_all_lines_together(max_seconds: float) -> None:
    """What is heard is the beginning of the same stream; a limit that cuts is told."""

    def spoken(limit_s: float | None) -> tuple[np.ndarray, StreamReport]:
        engine, outlet = fake_engine(), Recorder()
        lines = [Item(plan(text, engine), line=i) for i, text in enumerate((ONE, TWO), start=1)]
        report = Streamer(engine, Lines([*lines]), outlet, max_seconds=limit_s).run()
        return np.concatenate(outlet.samples), report

    whole, _ = spoken(None)
    if max_seconds < 0.64:  # of the first line
        with pytest.raises(UsageError, match="or more"):
            spoken(max_seconds)
        return
    samples, report = spoken(max_seconds)
    assert report.audio_s == len(samples) / SAMPLE_RATE <= max_seconds
    heard = len(samples) - round(FADE_S * SAMPLE_RATE)
    assert np.array_equal(samples[:heard], whole[:heard])
    num_spoken = len(whole) - round(PAUSE_LINE_S * SAMPLE_RATE)
    is_cut = max_seconds * SAMPLE_RATE < num_spoken
    assert report.finish_reason is (FinishReason.LENGTH if is_cut else FinishReason.STOP)
    assert not report.failed


def test_the_first_line_is_heard_before_the_second_arrives() -> None:
    engine, outlet = fake_engine(), Recorder()
    seen: list[str] = []

    class Late(Lines):
        def next(self, timeout_s: float) -> Item | None:
            if self.items[0] is None:
                seen.extend(outlet.events)
            return super().next(timeout_s)

    late = Late([Item(plan(ONE, engine), line=1), None, Item(plan(TWO, engine), line=2)])
    Streamer(engine, late, outlet).run()
    assert seen.count("write") > 3
    assert seen[-1] == "rest"


def test_a_line_that_goes_wrong_is_skipped_and_a_single_text_is_an_error() -> None:
    faults = {ONE: ["silent"] * 8}
    engine, outlet = fake_engine(FakeModel(faults)), Recorder()
    source = Lines([Item(plan(ONE, engine), line=1), Item(plan(TWO, engine), line=2)])
    report = Streamer(engine, source, outlet).run()
    assert [line for line, _ in report.failed] == [1]
    assert outlet.events[-1] == "finish"
    outlet = Recorder()
    with pytest.raises(SynthesisError):
        Streamer(engine, OneText(plan(ONE, engine)), outlet).run()
    assert outlet.events[-1] == "interrupt"


def test_speech_is_not_made_far_ahead_of_the_listener() -> None:
    engine = fake_engine()

    class Slow(Recorder):
        behind_s = 0.0
        num_waits = 0

        @property
        def is_full(self) -> bool:
            total_s = sum(map(len, self.samples)) / SAMPLE_RATE
            is_full = total_s - self.behind_s > 1.0
            self.num_waits += is_full
            self.behind_s += 0.5 * is_full
            return is_full

    outlet = Slow()
    Streamer(engine, OneText(plan(ONE, engine)), outlet).run()
    assert outlet.num_waits > 0
    assert max(len(samples) for samples in outlet.samples) < MAX_AHEAD_S * SAMPLE_RATE


class NoDevice:
    """A device that works until it fails."""

    sample_rate = SAMPLE_RATE

    def __init__(self, room: int) -> None:
        self.left = room

    def start(self) -> None: ...
    def drain(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...

    def pending(self) -> int:
        return 0

    def room(self) -> int:
        return 100_000

    def write(self, samples: Samples) -> bool:
        self.left -= len(samples)
        if self.left < 0:
            raise DeviceError("the sound device has gone")
        return False


def loudspeaker(device: NoDevice, file: HeardFile | None = None) -> Loudspeaker:
    playing = Player(device, SAMPLE_RATE)
    playing.start()
    return Loudspeaker(playing, Prebuffer(), file)


def test_a_loudspeaker_says_when_and_why_it_began() -> None:
    engine, outlet = fake_engine(), loudspeaker(NoDevice(10**9))
    report = Streamer(engine, OneText(plan(ONE, engine)), outlet).run()
    heard = outlet.heard()
    assert heard.played_s == pytest.approx(report.audio_s)
    assert heard.reason is not None
    assert "playing began with" in heard.reason
    assert heard.first_sound_at is not None
    assert report.begun_at is not None
    assert heard.first_sound_at >= report.begun_at


def test_without_a_file_a_device_that_goes_away_ends_the_stream() -> None:
    engine, outlet = fake_engine(), loudspeaker(NoDevice(4000))
    with pytest.raises(DeviceError, match="has gone"):
        Streamer(engine, OneText(plan(ONE, engine)), outlet).run()


def test_with_a_file_a_device_that_goes_away_leaves_the_file_whole(tmp_path: Path) -> None:
    engine = fake_engine()
    with AudioWriter(tmp_path / "a.wav", SAMPLE_RATE) as writer:
        file = HeardFile(writer)
        outlet = loudspeaker(NoDevice(4000), file)
        report = Streamer(engine, OneText(plan(ONE, engine)), outlet).run()
        file.commit()
    assert "has gone" in str(outlet.error)
    info = soundfile.info(tmp_path / "a.wav")
    assert info.frames == round(report.audio_s * SAMPLE_RATE)


class SilentServer(NoDevice):
    """A device whose sound server does not answer any more: no call comes back."""

    def __init__(self) -> None:
        super().__init__(10**9)
        self.answers = threading.Event()

    def drain(self) -> None:
        self.answers.wait(20)


@pytest.mark.parametrize("has_file", [False, True])
def test_a_sound_server_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_file: bool
) -> None:
    monkeypatch.setattr(player, "STUCK_S", 0.2)
    engine, device = fake_engine(), SilentServer()
    with AudioWriter(tmp_path / "a.wav", SAMPLE_RATE) as writer:
        outlet = loudspeaker(device, HeardFile(writer) if has_file else None)
        streamer = Streamer(engine, OneText(plan(ONE, engine)), outlet)
        if not has_file:
            with pytest.raises(DeviceError, match="has not answered"):
                streamer.run()
        else:
            report = streamer.run()
            assert "has not answered" in str(outlet.error)
            assert outlet.file is not None
            written = outlet.file.commit()
            assert written is not None
            assert written.num_frames == round(report.audio_s * SAMPLE_RATE)
    device.answers.set()


def test_a_file_holds_what_was_heard_and_nothing_more(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    data = (0.1 * rng.standard_normal(SAMPLE_RATE)).astype(np.float32)
    with AudioWriter(tmp_path / "a.wav", SAMPLE_RATE, bits="32f") as writer:
        file = HeardFile(writer)
        for part in np.split(data, [10, 3000, 3001]):
            file.push(part)
        for heard_s in (0.0, 0.1, 0.1, 0.25):
            file.heard(heard_s)
        written = file.commit()
    assert written is not None
    assert np.array_equal(soundfile.read(written.path, dtype="float32")[0], data[:2000])


def test_a_file_of_nothing_is_not_made(tmp_path: Path) -> None:
    with AudioWriter(tmp_path / "a.wav", SAMPLE_RATE) as writer:
        file = HeardFile(writer)
        file.push(np.ones(100, np.float32))
        assert file.commit() is None
    assert list(tmp_path.iterdir()) == []
