"""The mixdown: starts exact to the sample, nothing clips, loudness, ducking, stems, memory."""

from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyloudnorm
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from test_audio_stretch import voice

from voxcli.audio.clips import ClipReader
from voxcli.audio.ducking import BedGain, Ducking
from voxcli.audio.limiter import CEILING, Limiter, true_peaks
from voxcli.audio.loudness import LoudnessMeter
from voxcli.audio.mixdown import Bed, Clip, Mix, overall, write_mix
from voxcli.audio.resample import Samples
from voxcli.errors import RecordingError

RATE = 16_000


def save(path: Path, samples: Samples, rate: int = RATE, subtype: str = "FLOAT") -> Path:
    soundfile.write(path, samples, rate, subtype=subtype)
    return path


def clips(folder: Path, sounds: Sequence[tuple[int, Samples]]) -> list[Clip]:
    return [
        Clip(save(folder / f"{index}.wav", samples), start, len(samples))
        for index, (start, samples) in enumerate(sounds)
    ]


def total(mix: Mix) -> Samples:
    return np.concatenate(list(mix.blocks()))


def read(path: Path) -> Samples:
    samples: Samples = soundfile.read(path, dtype="float32")[0]
    return samples


def noise(count: int, seed: int = 0, level: float = 0.1) -> Samples:
    return np.random.default_rng(seed).normal(0, level, count).astype(np.float32)


# ------------------------------------------------------------ limiter


def limited(samples: Samples, sizes: int = 5000) -> Samples:
    limiter = Limiter(RATE)
    pieces = [limiter.push(samples[i : i + sizes]) for i in range(0, len(samples), sizes)]
    return np.concatenate([*pieces, limiter.flush()])


def test_what_is_not_too_loud_passes_bit_for_bit() -> None:
    source = voice(150.0, 1.0, RATE)
    assert np.abs(source).max() < 0.8
    assert np.array_equal(limited(source), source)


@pytest.mark.parametrize("gain", [2.0, 5.0, 30.0])
def test_no_peak_is_above_the_ceiling_not_even_between_samples(gain: float) -> None:
    result = limited(voice(150.0, 1.0, RATE) * np.float32(gain))
    assert np.abs(result).max() <= CEILING * 1.000001
    assert np.abs(soxr.resample(result, RATE, 8 * RATE, "VHQ")).max() <= CEILING * 1.02


def test_the_true_peak_of_a_sine_between_samples_is_found() -> None:
    sine = np.sin(np.pi / 2 * np.arange(2000) + np.pi / 4).astype(np.float32)
    assert np.abs(sine).max() == pytest.approx(math.sqrt(0.5), rel=1e-4)
    assert true_peaks(sine)[100:-100].max() == pytest.approx(1.0, rel=0.01)


def test_the_limiter_does_not_change_the_pitch_pulses() -> None:
    """Over a steady voice the gain is steady: no buzz."""
    source = voice(100.0, 1.0, RATE) * np.float32(8)
    result = limited(source)
    inside = slice(RATE // 4, 3 * RATE // 4)
    gain = result[inside] / np.where(np.abs(source[inside]) > 0.5, source[inside], np.nan)
    assert np.nanmax(gain) / np.nanmin(gain) < 1.02


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 9000), min_size=1, max_size=12), st.integers(0, 99))
def test_the_limiter_does_not_depend_on_how_it_is_fed(sizes: list[int], seed: int) -> None:
    source = noise(sum(sizes), seed, 0.5)
    limiter = Limiter(RATE)
    pieces = [limiter.push(part) for part in np.split(source, np.cumsum(sizes)[:-1])]
    result = np.concatenate([*pieces, limiter.flush()])
    assert len(result) == len(source)
    assert np.abs(result - limited(source)).max() < 1e-6


# ------------------------------------------------------------ loudness


@pytest.mark.parametrize("seconds", [0.4, 0.8, 3.0, 61.3])
@pytest.mark.parametrize("rate", [16_000, 24_000, 44_100, 48_000])
def test_loudness_is_that_of_pyloudnorm(seconds: float, rate: int) -> None:
    samples = noise(round(seconds * rate)) * np.linspace(0.01, 1, round(seconds * rate))
    samples = samples.astype(np.float32)
    expected = pyloudnorm.Meter(rate).integrated_loudness(samples.astype(np.float64))
    meter = LoudnessMeter(rate)
    for part in np.array_split(samples, 7):
        meter.push(part)
    assert meter.overall() == pytest.approx(expected, abs=0.05)


def test_silence_has_no_loudness_and_a_short_sound_has() -> None:
    assert overall(LoudnessMeter(RATE), [np.zeros(RATE, np.float32)]) == -math.inf
    assert overall(LoudnessMeter(RATE), []) == -math.inf
    short, long = (overall(LoudnessMeter(RATE), [noise(RATE * n // 5)]) for n in (1, 25))
    assert short == pytest.approx(long, abs=1.0)


@pytest.mark.parametrize("target", [-30.0, -23.0, -16.0])
@pytest.mark.parametrize("seconds", [0.3, 2.0, 30.0])
def test_a_mix_has_the_loudness_that_was_asked(
    tmp_path: Path, target: float, seconds: float
) -> None:
    sound = voice(150.0, seconds, RATE) * np.float32(0.3)
    mix = Mix(clips(tmp_path, [(0, sound), (RATE * 2, sound)]), RATE, target_lufs=target)
    written = write_mix(mix, tmp_path / "mix.wav")
    assert written.lufs == pytest.approx(target, abs=0.5)
    found = pyloudnorm.Meter(RATE).integrated_loudness(read(tmp_path / "mix.wav").astype(float))
    assert found == pytest.approx(target, abs=0.5)
    assert written.audio.peak <= 1.0


def test_loudness_is_reached_against_the_limiter(tmp_path: Path) -> None:
    sound = voice(150.0, 5.0, RATE)
    sound[::4000] = 0.9  # clicks that the limiter must hold down
    written = write_mix(
        Mix(clips(tmp_path, [(0, sound)]), RATE, target_lufs=-11.0), tmp_path / "mix.wav"
    )
    assert written.level.limited_db > 1.0
    assert written.lufs == pytest.approx(-11.0, abs=0.5)
    assert written.audio.peak <= CEILING + 1e-4


# ------------------------------------------------------------ the timeline


def test_600_cues_start_exact_to_the_sample_and_nothing_clips(tmp_path: Path) -> None:
    """Each cue is a pulse of its own height, so that none can be taken for another."""
    starts = np.cumsum(np.random.default_rng(1).integers(100, 4000, 600))
    heights = np.linspace(0.1, 0.8, 600).astype(np.float32)
    pulse = np.zeros(60, np.float32)
    pulse[0] = 1.0
    sounds = [(int(s), pulse * h) for s, h in zip(starts, heights, strict=True)]
    write_mix(Mix(clips(tmp_path, sounds), RATE), tmp_path / "mix.wav", bits="32f")
    result = read(tmp_path / "mix.wav")
    assert len(result) == starts[-1] + 60
    found = np.flatnonzero(result)
    assert np.array_equal(found, starts)
    assert np.array_equal(result[found], heights)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 90_000), st.integers(1, 50_000)), min_size=1, max_size=8))
def test_the_mix_is_the_sum_of_its_clips(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("mix")
    sounds = [(start, noise(count, seed)) for seed, (start, count) in enumerate(places)]
    expected = np.zeros(max(start + count for start, count in places), np.float32)
    for start, samples in sounds:
        expected[start : start + len(samples)] += samples
    result = total(Mix(clips(folder, sounds), RATE))
    assert result.shape == expected.shape
    assert np.abs(result - expected).max() < 1e-6


def test_overlapping_loud_cues_do_not_clip(tmp_path: Path) -> None:
    loud = (voice(150.0, 2.0, RATE) / np.abs(voice(150.0, 2.0, RATE)).max()).astype(np.float32)
    sounds = [(0, loud), (RATE // 2, loud), (RATE // 2, loud)]
    written = write_mix(Mix(clips(tmp_path, sounds), RATE), tmp_path / "mix.wav")
    assert written.audio.peak <= 1.0
    assert written.level.limited_db > 3.0


def test_a_cut_clip_fades_out_where_it_is_cut(tmp_path: Path) -> None:
    (clip,) = clips(tmp_path, [(1000, np.full(RATE, 0.5, np.float32))])
    result = total(Mix([Clip(clip.path, 1000, 8000, is_cut=True)], RATE))
    assert len(result) == 9000
    assert result[8000] == 0.5
    assert 0 < result[8900] < 0.2
    assert np.all(np.diff(result[8700:]) <= 0)


def test_a_word_in_a_long_silence_is_no_silence(tmp_path: Path) -> None:
    quiet = voice(150.0, 0.3, RATE) * np.float32(0.05)
    write_mix(Mix(clips(tmp_path, [(RATE * 600, quiet)]), RATE), tmp_path / "mix.wav")
    assert len(read(tmp_path / "mix.wav")) == RATE * 600 + len(quiet)


def test_clips_at_another_rate_are_resampled(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", voice(150.0, 1.0, 24_000), 24_000)
    result = total(Mix([Clip(tmp_path / "a.wav", 100, RATE)], RATE))
    assert len(result) == RATE + 100
    assert np.abs(result[100:] - voice(150.0, 1.0, RATE))[200:-200].max() < 0.02


@pytest.mark.parametrize("suffix", ["flac", "mp3", "ogg"])
def test_the_suffix_is_the_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"mix.{suffix}"
    write_mix(Mix(clips(tmp_path, [(500, voice(150.0, 1.0, RATE))]), RATE), path)
    assert soundfile.info(path).format in ("FLAC", "MP3", "OGG")


def test_what_is_no_sound_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"no sound" * 100)
    for path in (tmp_path / "a.wav", tmp_path / "missing.wav"):
        with pytest.raises(RecordingError, match=path.name):
            ClipReader(path, RATE)


def test_a_clip_that_is_damaged_in_its_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    soundfile.write(path, noise(48_000, 3), RATE)
    data = path.read_bytes()
    path.write_bytes(data[:20_000] + bytes(9_000) + data[29_000:])
    with pytest.raises(RecordingError, match=r"a\.flac is damaged"), ClipReader(path, RATE) as clip:
        clip.read(1_000_000)


@pytest.mark.parametrize("rate", [1, 999, 1 << 30])
def test_a_clip_at_a_rate_that_no_sound_has_is_refused(tmp_path: Path, rate: int) -> None:
    save(tmp_path / "a.wav", np.zeros(9, np.float32), rate)
    with pytest.raises(RecordingError, match="samples a second"):
        ClipReader(tmp_path / "a.wav", RATE)


# ------------------------------------------------------------ bed and stems


def test_a_bed_steps_back_under_speech(tmp_path: Path) -> None:
    bed = save(tmp_path / "bed.wav", np.full(RATE * 10, 0.2, np.float32))
    silent = clips(tmp_path, [(RATE * 4, np.zeros(RATE * 2, np.float32))])
    ducking = Ducking(gain_db=-6.0, duck_db=12.0, attack_s=0.2, release_s=0.5)
    result = total(Mix(silent, RATE, Bed(bed, ducking)))
    assert len(result) == RATE * 10

    def level_db(at_s: float) -> float:
        return 20 * math.log10(result[round(at_s * RATE)] / 0.2)

    assert level_db(1.0) == pytest.approx(-6.0, abs=0.01)
    assert level_db(3.9) == pytest.approx(-12.0, abs=0.01)  # halfway down
    assert level_db(4.0) == pytest.approx(-18.0, abs=0.01)
    assert level_db(5.9) == pytest.approx(-18.0, abs=0.01)
    assert level_db(6.25) == pytest.approx(-12.0, abs=0.01)  # halfway up
    assert level_db(7.0) == pytest.approx(-6.0, abs=0.01)


def test_a_bed_does_not_pump_between_words() -> None:
    gain = BedGain([(1.0, 2.0), (2.4, 3.0)], Ducking(attack_s=0.2, release_s=0.5))
    levels = gain.at(round(1.0 * RATE), 2 * RATE, RATE)
    assert levels.max() == pytest.approx(levels.min())


@pytest.mark.usefixtures("ffmpeg")
def test_a_video_is_a_bed(tmp_path: Path) -> None:
    video = tmp_path / "a.mp4"
    command = ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=d=1:s=64x64:r=5"]
    command += ["-f", "lavfi", "-i", "sine=f=440:d=1", "-shortest", str(video)]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
    with ClipReader(video, RATE) as reader:
        samples = reader.read(10 * RATE)
    assert len(samples) / RATE == pytest.approx(1.0, abs=0.1)
    assert np.abs(samples).max() > 0.05


def test_stems_add_up_to_the_mix_before_the_limiter(tmp_path: Path) -> None:
    placed = clips(tmp_path, [(seed * 9000, noise(20_000, seed)) for seed in range(6)])
    bed = Bed(save(tmp_path / "bed.wav", noise(RATE * 5, 99)), Ducking())
    mix = Mix(placed, RATE, bed)
    whole = total(mix)
    stems = [total(mix.stem(placed[::2])), total(mix.stem(placed[1::2])), total(mix.bed_stem())]
    added = np.zeros(len(whole), np.float32)
    for each in stems:
        added[: len(each)] += each
    assert np.abs(added - whole).max() < 1e-6


# ------------------------------------------------------------ memory


def test_memory_does_not_grow_with_the_timeline(tmp_path: Path) -> None:
    sound = voice(150.0, 2.0, RATE)
    path = save(tmp_path / "a.wav", sound)

    def peak_bytes(num_cues: int) -> int:
        placed = [Clip(path, index * 3 * RATE, len(sound)) for index in range(num_cues)]
        tracemalloc.start()
        write_mix(Mix(placed, RATE, target_lufs=-20.0), tmp_path / f"{num_cues}.wav")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak_bytes(2)  # imports and caches
    short, long = peak_bytes(10), peak_bytes(100)  # 30 s and 5 min: 1.9 and 19 MB as float32
    assert long < short + 1_000_000
    assert long < 12_000_000


TWO_HOURS = """
import resource, sys
from pathlib import Path
from voxcli.audio.mixdown import Clip, Mix, write_mix
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
clips = [Clip(Path(sys.argv[1]), n * 12 * 8000, 8000) for n in range(600)]
written = write_mix(Mix(clips, 8000), Path(sys.argv[2]))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) / 1024, written.audio.audio_s)
"""


def test_two_hours_need_no_two_hours_in_memory(tmp_path: Path) -> None:
    """57.6 million samples, 230 MB as float32, in a process of its own."""
    path = save(tmp_path / "a.wav", voice(150.0, 1.0, 8000), 8000)
    command = [sys.executable, "-c", TWO_HOURS, str(path), str(tmp_path / "mix.wav")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    grown_mb, audio_s = map(float, run.stdout.split())
    assert audio_s == pytest.approx(599 * 12 + 1)
    assert grown_mb < 40


@pytest.mark.parametrize("name", ["mix.wav", "mix.flac"])
def test_a_mix_tells_how_far_it_is_to_the_end_of_every_stage(tmp_path: Path, name: str) -> None:
    soundfile.write(tmp_path / "a.wav", noise(5 * RATE), RATE)
    told: dict[str, list[float]] = {}
    clips = [Clip(tmp_path / "a.wav", RATE, 5 * RATE)]
    mix = Mix(clips, RATE, target_lufs=-20.0, length=8 * RATE)
    write_mix(
        mix, tmp_path / name, tell=lambda stage, share: told.setdefault(stage, []).append(share)
    )
    assert list(told) == ["level", "write", "check"]
    for stage, shares in told.items():
        passes = [
            each for each, after in zip(shares, [*shares[1:], 0.0], strict=True) if after < each
        ]
        assert passes == pytest.approx([1.0] * len(passes)), stage
