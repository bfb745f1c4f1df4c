"""Recordings people bring: decoded by content, measured, refused or prepared."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from voxcli.audio import read
from voxcli.audio.joins import fade
from voxcli.audio.measure import measure
from voxcli.audio.read import Audio, read_audio
from voxcli.audio.reference import Preparation, add_transcript, prepare_reference
from voxcli.audio.resample import resample
from voxcli.audio.vad import Region, best_part, find_speech, regions_within
from voxcli.audio.write import AudioWriter
from voxcli.errors import RecordingError, UsageError

ROOT = Path(__file__).resolve().parents[2]
INPUTS = ROOT / "tests" / "inputs" / "reference"
SPOKEN = INPUTS / "ref_wav_named.mp3"  # a 16-bit wav, in truth


@pytest.fixture(scope="module")
def spoken() -> Audio:
    return read_audio(SPOKEN)


@pytest.fixture(scope="module")
def voice() -> Audio:
    return read_audio(ROOT / "samples" / "voices" / "emma.flac")


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    length = min(len(a), len(b))
    return float(np.corrcoef(a[:length], b[:length])[0, 1])


# Decoding


def test_a_recording_in_two_containers_has_one_key(spoken: Audio, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", spoken.samples, spoken.sample_rate, subtype="PCM_16")
    other = read_audio(tmp_path / "a.flac")
    assert other.format == "FLAC PCM_16"
    keys = {prepare_reference(audio)[1].key for audio in (spoken, other)}
    assert len(keys) == 1


@pytest.mark.parametrize(("channels", "rate"), [(2, 44_100), (6, 48_000)])
def test_channels_become_one(spoken: Audio, tmp_path: Path, channels: int, rate: int) -> None:
    """A right channel 6 dB lower; surround where only the centre speaks."""
    gains = np.array([1.0, 0.5]) if channels == 2 else np.array([0, 0, 1.0, 0, 0, 0])
    soundfile.write(tmp_path / "a.wav", np.outer(spoken.samples, gains), rate)
    audio = read_audio(tmp_path / "a.wav")
    assert (audio.channels, audio.sample_rate) == (channels, rate)
    assert correlation(audio.samples, spoken.samples) > 0.999
    assert np.abs(audio.samples).max() > 0.7 * np.abs(spoken.samples).max()


def test_channels_that_cancel_are_not_averaged(spoken: Audio, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.outer(spoken.samples, [0.9, -1.0]), 24_000)
    audio = read_audio(tmp_path / "a.wav")
    assert audio.downmix == "channel 2 of 2"
    assert correlation(-audio.samples, spoken.samples) > 0.999


@pytest.mark.parametrize(
    ("subtype", "gain"), [("PCM_24", 1), ("PCM_32", 1), ("FLOAT", 1), ("FLOAT", 4.3), ("ALAW", 1)]
)
def test_no_number_format_wraps(spoken: Audio, tmp_path: Path, subtype: str, gain: float) -> None:
    loud = spoken.samples * np.float32(gain)
    soundfile.write(tmp_path / "a.wav", loud, spoken.sample_rate, subtype=subtype)
    audio = read_audio(tmp_path / "a.wav")
    assert np.abs(audio.samples).max() <= 1.0
    assert correlation(audio.samples, spoken.samples) > 0.999
    assert (audio.gain_db < -9) == (gain > 1)


def test_a_law_as_others_write_it_is_read(spoken: Audio) -> None:
    assert correlation(read_audio(INPUTS / "ref_alaw.wav").samples, spoken.samples) > 0.99


def test_the_suffix_does_not_count(
    spoken: Audio, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And nothing that mpg123 says about a damaged file reaches the user."""
    named_wav = INPUTS / "ref_mp3_named.wav"
    assert read_audio(named_wav).format.startswith("MP3")
    assert spoken.format == "WAV PCM_16"
    soundfile.write(tmp_path / "a.ogg", spoken.samples, spoken.sample_rate)
    (tmp_path / "b.wav").write_bytes((tmp_path / "a.ogg").read_bytes())
    assert read_audio(tmp_path / "b.wav").format == "OGG VORBIS"
    (tmp_path / "cut.mp3").write_bytes(named_wav.read_bytes()[:20_001] + b"\xff" * 2000)
    read_audio(tmp_path / "cut.mp3")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty file"),
        (b"just some words\n", "is text, not audio"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG image, not audio"),
        (b"\x00\x01" * 300, "no audio format that voxcli knows"),
        (b"\x00\x00\x00\x20ftypM4A " + bytes(100), "MP4 or M4A"),
    ],
)
def test_what_is_no_recording_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=said):
        read_audio(path)


@pytest.mark.usefixtures("ffmpeg")
def test_what_phones_record_is_read(spoken: Audio, tmp_path: Path) -> None:
    with AudioWriter(tmp_path / "a.m4a", spoken.sample_rate) as writer:
        writer.write(spoken.samples)
        writer.commit()
    (tmp_path / "memo.wav").write_bytes((tmp_path / "a.m4a").read_bytes())
    audio = read_audio(tmp_path / "memo.wav")
    assert audio.format == "MP4 or M4A (by ffmpeg)"
    assert audio.duration_s == pytest.approx(spoken.duration_s, abs=0.15)  # whole frames of codec
    heard = resample(audio.samples, audio.sample_rate, spoken.sample_rate)
    start = int(np.abs(spoken.samples).argmax())
    probe = spoken.samples[start : start + 2_000]
    delay = int(np.correlate(heard[start - 4_000 : start + 6_000], probe, "valid").argmax()) - 4_000
    aligned = heard[max(0, delay) :], spoken.samples[max(0, -delay) :]
    assert correlation(*aligned) > 0.95
    assert prepare_reference(audio)[1].speech_s > 1


def test_without_ffmpeg_its_formats_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "has_ffmpeg", lambda: False)
    with pytest.raises(RecordingError, match="WMA or WMV, which needs ffmpeg"):
        read.decode_audio(b"\x30\x26\xb2\x75\x8e\x66\xcf\x11" + bytes(100), "a.wma")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no such file"):
        read_audio(tmp_path / "no.wav")
    with pytest.raises(RecordingError, match="is a folder"):
        read_audio(tmp_path)


def test_what_never_ends_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_BYTES", 1000)
    with pytest.raises(RecordingError, match="/dev/zero is more than"):
        read_audio("/dev/zero")


def test_nan_is_refused() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.full(100, np.nan, np.float32), 16_000, format="WAV", subtype="FLOAT")
    with pytest.raises(RecordingError, match="NaN"):
        read.decode_audio(file.getvalue(), "a.wav")


# Unusable


@pytest.mark.parametrize(
    ("name", "said"),
    [("ref_0p3s.wav", r"0\.30 s long, at least 1 s"), ("ref_0samples.wav", "0 samples")],
)
def test_too_short_is_refused_with_both_numbers(name: str, said: str) -> None:
    with pytest.raises(RecordingError, match=said):
        prepare_reference(read_audio(INPUTS / name))


@pytest.mark.parametrize("level", [0.0, 10 ** (-70 / 20), 0.1])
def test_silence_and_noise_are_no_speech(level: float, spoken: Audio) -> None:
    noise = np.random.default_rng(0).standard_normal(160_000).astype(np.float32) * np.float32(level)
    with pytest.raises(RecordingError, match="no speech in"):
        prepare_reference(replace(spoken, samples=noise.clip(-1, 1), sample_rate=16_000))


def test_of_a_long_recording_the_best_part_is_used_unless_its_words_are_given(
    voice: Audio,
) -> None:
    long = replace(voice, samples=np.tile(voice.samples, 9))
    assert long.duration_s > 36
    recording, report = prepare_reference(long)
    assert recording.samples is not None
    assert len(recording.samples) == round(report.duration_s * voice.sample_rate)
    assert 3 < report.speech_s <= report.duration_s <= 15
    assert report.actions[0].startswith(f"used {report.start_s:.2f} to {report.end_s:.2f} s of")
    with pytest.raises(RecordingError, match=r"s long, at most 30 s can be used with its trans"):
        prepare_reference(long, has_text=True)
    with pytest.raises(UsageError, match=r"--ref-end take 35\.0 s .*at most 30 s"):
        prepare_reference(long, Preparation(start_s=1.0, end_s=36.0))


@pytest.mark.parametrize("gain", [0.08, 0.03, 0.012])
def test_a_quiet_recording_is_levelled_by_itself(voice: Audio, gain: float) -> None:
    """What the model hears is as loud as of one that was recorded well."""
    loud, _ = prepare_reference(voice, Preparation(is_normalised=True))
    recording, report = prepare_reference(replace(voice, samples=voice.samples * np.float32(gain)))
    assert recording.samples is not None
    assert loud.samples is not None
    assert report.level_dbfs < -40
    assert "LUFS" in report.actions[0]
    assert report.warnings == ()
    assert np.abs(recording.samples - loud.samples).max() < 0.01


def test_a_click_that_keeps_a_quiet_recording_quiet_is_told(voice: Audio) -> None:
    samples = voice.samples * np.float32(0.012)
    samples[100] = 0.9
    assert "quiet: speech at -6" in warnings_of(replace(voice, samples=samples))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"start_s": 3.0, "end_s": 2.0}, "--ref-end is 2"),
        ({"start_s": -1.0}, "--ref-start is -1"),
        ({"is_auto": True, "end_s": 2.0}, "--ref-auto chooses"),
    ],
)
def test_impossible_parts_are_refused(values: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Preparation(**values)  # type: ignore[arg-type]


def test_a_part_after_the_end_is_refused(voice: Audio) -> None:
    with pytest.raises(UsageError, match=r"--ref-start 9 is after the end .*4\.07 s"):
        prepare_reference(voice, Preparation(start_s=9.0))
    with pytest.raises(UsageError, match="--ref-end 9 is after the end"):
        prepare_reference(voice, Preparation(end_s=9.0))


# Doubtful


def warnings_of(audio: Audio, preparation: Preparation | None = None) -> str:
    return " | ".join(prepare_reference(audio, preparation)[1].warnings)


def test_a_good_recording_raises_no_doubt(voice: Audio) -> None:
    recording, report = prepare_reference(voice)
    assert (report.warnings, report.actions) == ((), ())
    assert recording.samples is not None
    assert np.array_equal(recording.samples, voice.samples)
    assert report.key == recording.key
    assert report.snr_db > 30
    assert -30 < report.level_dbfs < -15


def test_doubts_have_numbers(voice: Audio) -> None:
    rng = np.random.default_rng(0)
    loud = np.sqrt(np.square(voice.samples).mean())
    noise = rng.standard_normal(len(voice.samples)) * loud * 10 ** (-10 / 20)
    noisy = (voice.samples + noise).astype(np.float32).clip(-1, 1)
    assert "dB above the noise" in warnings_of(replace(voice, samples=noisy))
    clipped = (voice.samples * 12).clip(-1, 1) * np.float32(0.5)
    assert "in flat tops" in warnings_of(replace(voice, samples=clipped))
    assert "nothing above 4000 Hz" in warnings_of(
        replace(voice, samples=np.ascontiguousarray(voice.samples[::2]), sample_rate=8_000)
    )


def test_a_dc_offset_is_reported_and_taken_out(voice: Audio) -> None:
    shifted = replace(voice, samples=voice.samples * np.float32(0.5) + np.float32(0.05))
    recording, report = prepare_reference(shifted)
    assert report.dc_offset == pytest.approx(0.05, abs=1e-3)
    assert recording.samples is not None
    assert abs(float(recording.samples.mean())) < 1e-3
    assert "DC offset of 0.050" in report.actions[0]


def test_words_cut_at_either_end_are_found(voice: Audio) -> None:
    region = find_speech(voice.samples, voice.sample_rate)[0]
    middle = Preparation(start_s=region.start_s + 0.35, end_s=region.start_s + 2.5)
    found = warnings_of(voice, middle)
    assert "sound up to its very start" in found
    assert "sound up to its very end" in found
    assert "only 1." in found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rate", [8_000, 24_000, 48_000])
def test_a_word_that_begins_with_the_recording_is_not_cut(seed: int, rate: int) -> None:
    """A hiss as long as a consonant, which rises as fast as those of the bundled voice do."""
    hiss = np.random.default_rng(seed).standard_normal(rate).astype(np.float32) * np.float32(0.1)
    rising = fade(hiss, rate, in_s=0.008, out_s=0.2)
    for samples, is_cut in ((rising, False), (hiss, True)):
        audio = Audio(samples, rate, "hiss.wav", "WAV", 1)
        report = measure(audio, samples, [Region(0.0, 1.0)], 0.0, 1.0)
        assert (report.is_cut_at_start, report.is_cut_at_end) == (is_cut, is_cut)


def test_a_transcript_that_cannot_be_the_words_is_doubted(voice: Audio) -> None:
    prepared = prepare_reference(voice)
    said = (ROOT / "samples" / "voices" / "emma.txt").read_text()
    assert add_transcript(*prepared, said)[1].warnings == ()
    long = add_transcript(*prepared, said * 10)[1].warnings[0]
    assert "too long" in long
    assert "829 characters" in long
    assert "s of speech" in long
    assert "too short" in add_transcript(*prepared, "A map.")[1].warnings[0]


# Prepared


def test_the_best_part_goes_from_pause_to_pause(voice: Audio) -> None:
    rate = voice.sample_rate
    quiet = np.zeros(rate, np.float32)
    noise = np.random.default_rng(0).standard_normal(3 * rate).astype(np.float32) * np.float32(0.05)
    long = np.concatenate(
        (voice.samples[rate : 2 * rate], quiet, noise, *[quiet, voice.samples] * 2)
    )
    _, report = prepare_reference(replace(voice, samples=long), Preparation(is_auto=True))
    after = 5.0 - 0.2  # the scrap, the pause and the noise
    assert report.start_s > after
    assert report.speech_s > 6
    assert not report.is_cut_at_start
    assert not report.is_cut_at_end
    assert report.actions[0].startswith(f"used {report.start_s:.2f} to {report.end_s:.2f} s")


@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_best_part_does_not_end_where_the_recording_cuts_speech(
    voice: Audio, is_reversed: bool
) -> None:
    """Though it has a little more speech there."""
    regions = [Region(1.0, 10.0), Region(10.5, 13.0), Region(14.0, 24.5)]
    if is_reversed:
        regions = [Region(24.5 - each.end_s, 24.5 - each.start_s) for each in reversed(regions)]
    part = best_part(regions, 24.5)
    assert part.start_s > 0
    assert part.end_s < 24.5
    lone = [Region(0.0, 8.0)]  # there is nothing else
    assert best_part(lone, 8.0) == Region(0.0, 8.0)
    rate = voice.sample_rate
    cut = np.tile(voice.samples, 12)[: -round(0.7 * rate)]
    _, report = prepare_reference(replace(voice, samples=cut))
    assert not report.is_cut_at_start
    assert not report.is_cut_at_end


@pytest.mark.parametrize("snr_db", [12, 22])
def test_steady_noise_cuts_no_word(voice: Audio, snr_db: float) -> None:
    """And a word that is cut is found in it."""
    rate, numbers = voice.sample_rate, np.random.default_rng(3)
    level = float(np.sqrt(np.square(voice.samples).mean())) * 10 ** (-snr_db / 20)
    quiet = np.zeros(rate // 2, np.float32)
    for is_cut in (False, True):
        loudest = int(np.abs(voice.samples).argmax())
        words = np.append(voice.samples, voice.samples[:loudest] if is_cut else quiet)
        speech = np.append(quiet, words)
        noisy = speech + numbers.standard_normal(len(speech)).astype(np.float32) * np.float32(level)
        _, report = prepare_reference(replace(voice, samples=noisy))
        assert not report.is_cut_at_start
        assert report.is_cut_at_end == is_cut


def test_what_was_done_is_not_suggested(voice: Audio) -> None:
    start = round(0.5 * voice.sample_rate)
    cut = replace(voice, samples=voice.samples[start:-start])
    told, chosen = (
        " ".join(prepare_reference(cut, Preparation(is_auto=is_auto))[1].warnings)
        for is_auto in (False, True)
    )
    assert "--ref-auto" in told
    assert "--ref-auto" not in chosen


def test_one_long_stretch_is_cut_and_crumbs_are_kept() -> None:
    assert best_part([Region(1.0, 41.0)], 50.0) == Region(0.8, 10.8)
    assert best_part([Region(1.0, 1.6), Region(9.0, 9.5)], 10.0).start_s == pytest.approx(0.8)
    many = [Region(at, at + 0.5) for at in range(1, 20, 2)]
    assert speech_in(best_part(many, 22.0), many) >= 3
    assert speech_in(best_part([Region(1, 41), Region(43, 44.3)], 50.0), [Region(1, 41)]) > 9


def speech_in(part: Region, regions: list[Region]) -> float:
    return sum(region.duration_s for region in regions_within(regions, part))


@given(
    st.lists(st.tuples(st.floats(0.25, 20), st.floats(0.1, 40)), min_size=1, max_size=30),
    st.floats(0, 5),
)
def test_the_best_part_is_never_too_short_where_another_is_not(
    steps: list[tuple[float, float]], rest_s: float
) -> None:
    """And it is never longer than 15 s."""
    regions, at = [], 0.0
    for pause_s, speech_s in steps:
        regions.append(Region(at + pause_s, at + pause_s + speech_s))
        at = regions[-1].end_s
    part = best_part(regions, at + rest_s)
    assert 0 <= part.start_s < part.end_s <= at + rest_s
    assert part.duration_s <= 15.0 + 1e-6
    found_s = speech_in(part, regions)
    most_s = 15.0 - 0.4  # what is kept of the pauses around
    best_s = max(
        9.5 if whole[0].duration_s > most_s else sum(region.duration_s for region in whole)
        for first, last in combinations(range(len(regions) + 1), 2)
        if last - first == 1 or regions[last - 1].end_s - regions[first].start_s <= most_s
        for whole in [regions[first:last]]
    )
    for enough_s in (1.0, 3.0):
        assert found_s > enough_s - 1e-6 or best_s < enough_s + 1e-6


def test_trimmed_and_normalised(voice: Audio) -> None:
    quiet = np.zeros(16_000, np.float32)
    padded = replace(voice, samples=np.concatenate((quiet, voice.samples * np.float32(0.1), quiet)))
    recording, report = prepare_reference(padded, Preparation(is_trimmed=True, is_normalised=True))
    assert report.duration_s < voice.duration_s + 0.2
    assert "LUFS" in report.actions[-1]
    assert recording.samples is not None
    assert 0.2 < np.abs(recording.samples).max() <= 0.9
