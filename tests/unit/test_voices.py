"""Voice profiles: what is kept comes back, and nothing else is let in."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from voxcli.errors import (
    OutputExistsError,
    UsageError,
    VoiceFileError,
    VoiceNotFoundError,
)
from voxcli.utterance import Mode, Recording, Utterance, VoiceEncoding
from voxcli.voices import Voice, VoiceStore, check_name, read_voice, voice_bytes
from voxcli.voices.file import read_card

RNG = np.random.default_rng(0)
SAMPLES = RNG.uniform(-0.5, 0.5, 16_000).astype(np.float32)
HEARD = RNG.standard_normal((3, 4, 32)).astype(np.float32)
VOICE = Voice(
    name="ada",
    recording=Recording(SAMPLES, 16_000, "Grüße, 世界."),
    encodings=(VoiceEncoding("mini", "c0ffee", {"reference": HEARD, "prompt": HEARD + 1}),),
    created="2026-01-02T03:04:05+00:00",
    consent="my own voice",
    facts={"snr_db": 40.0, "warnings": ["a", "b"]},
)


@pytest.fixture
def store(tmp_path: Path) -> VoiceStore:
    return VoiceStore(tmp_path / "voices")


def test_a_voice_comes_back_as_it_was(store: VoiceStore) -> None:
    path = store.add(VOICE)
    voice = store.find("ada")
    assert voice.recording.samples is not None
    assert np.array_equal(voice.recording.samples, SAMPLES)
    assert (voice.recording.text, voice.recording.sample_rate) == ("Grüße, 世界.", 16_000)
    assert (voice.created, voice.consent, voice.facts) == (
        VOICE.created, VOICE.consent, VOICE.facts,
    )  # fmt: skip
    heard = voice.encodings[0]
    assert (heard.model, heard.encoder) == ("mini", "c0ffee")
    assert set(heard.arrays) == {"reference", "prompt"}
    assert np.array_equal(heard.arrays["reference"], HEARD)
    assert np.array_equal(heard.arrays["prompt"], HEARD + 1)
    assert [entry.name for entry in path.parent.iterdir()] == ["ada.safetensors"]


@pytest.mark.parametrize("length", [10_000, 10_001])
def test_a_voice_that_is_kept_can_be_read(store: VoiceStore, length: int) -> None:
    """A transcript that a reader refuses is refused before it is written."""
    voice = replace(VOICE, recording=replace(VOICE.recording, text="a" * length))
    if length > 10_000:
        with pytest.raises(UsageError, match=f"has {length} characters, at most 10000"):
            store.add(voice)
        assert store.names() == []
    else:
        store.add(voice)
        assert len(store.find("ada").recording.text) == length


def test_a_voice_is_applied_with_its_encoding() -> None:
    spoken = VOICE.apply(Utterance("Hello.", voice="ada"), "mini", "c0ffee")
    assert spoken.mode is Mode.BOTH
    assert spoken.reference is not None
    assert spoken.prompt is not None
    assert spoken.reference.encoding is spoken.prompt.encoding is VOICE.encodings[0]
    assert spoken.reference.key != VOICE.recording.key
    assert spoken.prompt.text == "Grüße, 世界."
    silent = replace(VOICE, recording=replace(VOICE.recording, text=" "))
    assert silent.apply(Utterance("Hello."), "mini", "c0ffee").mode is Mode.REFERENCE


def test_arrays_of_any_name_type_and_rank_come_back_as_they_were(store: VoiceStore) -> None:
    arrays = {
        "speaker.embedding": RNG.standard_normal(7).astype(np.float32),
        "codes": RNG.integers(0, 2**40, (5, 16)),
        "turned": RNG.integers(0, 9, (2, 3, 4)).T,
        "gain": np.array(0.5, np.float32),
        "deep": np.zeros((1, 2, 1, 2, 1), np.float32),
    }
    other = VoiceEncoding("other", "beef", {"codes": np.array(3)})
    store.add(VOICE.encoded(VoiceEncoding("big", "abad1dea", arrays)).encoded(other))
    _, heard, last = store.find("ada").encodings
    assert heard.arrays.keys() == arrays.keys()
    for name, values in arrays.items():
        assert (heard.arrays[name].dtype, heard.arrays[name].shape) == (values.dtype, values.shape)
        assert np.array_equal(heard.arrays[name], values)
    assert (last.model, dict(last.arrays)) == ("other", {"codes": 3})


def version_1(tensors: dict[str, np.ndarray]) -> bytes:
    """A profile as the first version wrote it, by hand."""
    encodings = [
        {"model": "mini", "checksum": "c0ffee"},
        {"model": "big", "checksum": "abad1dea"},
    ]
    table = {
        "name": "ada", "created": VOICE.created, "consent": VOICE.consent, "text": "Hi.",
        "sample_rate": 16_000, "encodings": encodings, "facts": dict(VOICE.facts),
    }  # fmt: skip
    text = json.dumps(table)
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"\n{name} {tensors[name].dtype} {tensors[name].shape}\n".encode())
        digest.update(tensors[name].tobytes())
    metadata = {
        "format": "voxcli-voice", "version": "1", "voice": text, "sha256": digest.hexdigest()
    }  # fmt: skip
    return save(tensors, metadata)


def test_profiles_of_version_1_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {
        "samples": SAMPLES, "reference.0": HEARD, "prompt.0": HEARD + 1, "reference.1": HEARD + 2
    }  # fmt: skip
    path.write_bytes(version_1(tensors))
    voice = read_voice(path)
    assert [(each.model, each.encoder) for each in voice.encodings] == [
        ("mini", "c0ffee"), ("big", "abad1dea"),
    ]  # fmt: skip
    first, second = (each.arrays for each in voice.encodings)
    assert set(first) == {"reference", "prompt"}
    assert np.array_equal(first["prompt"], HEARD + 1)
    assert set(second) == {"reference"}
    assert np.array_equal(second["reference"], HEARD + 2)
    assert voice.recording.text == "Hi."
    path.write_bytes(voice_bytes(voice))  # and are written as what this version reads
    assert np.array_equal(read_voice(path).encodings[1].arrays["reference"], HEARD + 2)


@pytest.mark.parametrize("version", [1, 2])
def test_a_list_shows_what_the_profile_says_and_reads_no_array(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(version_1({"samples": SAMPLES, "reference.0": HEARD, "reference.1": HEARD}))
    voice = read_voice(path)
    if version == 2:
        path.write_bytes(voice_bytes(voice))
    assert read_card(path) == voice.card
    data = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    data[begin:] = bytes(len(data) - begin)
    path.write_bytes(data)
    assert read_card(path) == voice.card
    path.write_bytes(data[:-1])
    with pytest.raises(VoiceFileError, match="is damaged"):
        read_card(path)


def test_damaged_profiles_of_version_1_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(version_1({"samples": SAMPLES, "reference.0": HEARD}))
    with pytest.raises(VoiceFileError, match="an encoding has no arrays"):
        read_voice(path)
    data = version_1({"samples": SAMPLES, "reference.0": HEARD, "reference.1": HEARD})
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(VoiceFileError, match="checksum does not match"):
        read_voice(path)


def test_a_voice_of_another_model_is_refused_with_the_way_out() -> None:
    with pytest.raises(VoiceNotFoundError, match="not encoded for model 'big'") as failure:
        VOICE.apply(Utterance("Hello."), "big", "abad1dea")
    assert failure.value.hint == "run 'voxcli voices encode ada --model big'"
    with pytest.raises(VoiceNotFoundError, match="another version of model 'mini'"):
        VOICE.apply(Utterance("Hello."), "mini", "abad1dea")


def test_encodings_are_kept_side_by_side_one_a_model() -> None:
    both = VOICE.encoded(VoiceEncoding("big", "abad1dea", {"reference": HEARD}))
    assert both.models == ("mini", "big")
    newer = both.encoded(VoiceEncoding("mini", "beef", {"reference": HEARD}))
    assert [(each.model, each.encoder) for each in newer.encodings] == [
        ("big", "abad1dea"), ("mini", "beef"),
    ]  # fmt: skip


# Names


@pytest.mark.parametrize("name", ["ada", "Ada-2", "zoë", "李雷", "a.b_c", "7"])
def test_plain_names_are_taken(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "a b", "../ada", "a/b", "a\\b", ".ada", "-a", "ada.", "a\n", "a" * 65),
        *("CON", "nul.x", "lpt1", "default", "Auto", "a:b", "a\0b", "~", "\u202eada"),
    ],
)
def test_names_that_could_harm_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="name"):
        check_name(name)


def test_case_and_unicode_form_make_no_new_voice(store: VoiceStore) -> None:
    store.add(replace(VOICE, name=unicodedata.normalize("NFD", "Zoë")))
    assert store.names() == ["Zoë"]
    assert store.find("zoë").name == "Zoë"
    with pytest.raises(OutputExistsError, match="exists"):
        store.add(replace(VOICE, name="ZOË"))
    store.add(replace(VOICE, name="ZOË", consent="new"), overwrite=True)
    assert store.names() == ["Zoë"]
    assert store.find("zoë").consent == "new"


def test_an_unknown_voice_is_answered_with_the_nearest(store: VoiceStore) -> None:
    store.add(VOICE)
    with pytest.raises(VoiceNotFoundError, match="no voice 'adda'; did you mean 'ada'"):
        store.find("adda")


# Files


def test_export_and_import(store: VoiceStore, tmp_path: Path) -> None:
    store.add(VOICE)
    target = store.export("ada", tmp_path / "out.bin")
    with pytest.raises(OutputExistsError):
        store.export("ada", target)
    with pytest.raises(OutputExistsError):
        store.import_file(target)
    store.import_file(target, "bea")
    assert store.names() == ["ada", "bea"]
    assert store.find("bea").recording.text == "Grüße, 世界."
    store.remove("ADA")
    assert store.names() == ["bea"]
    with pytest.raises(UsageError):
        store.import_file(target, "../evil")


def test_an_exported_voice_has_the_name_that_it_was_given_last(
    store: VoiceStore, tmp_path: Path
) -> None:
    store.add(VOICE)
    store.rename("ada", "cleo")
    store.import_file(store.export("cleo", tmp_path / "cleo.safetensors"), overwrite=True)
    assert store.names() == ["cleo"]
    assert store.find("cleo").recording.text == VOICE.recording.text


def test_every_damaged_byte_is_found(tmp_path: Path) -> None:
    data = voice_bytes(VOICE)
    path = tmp_path / "a.safetensors"
    for position in [0, 7, 8, 40, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
        with pytest.raises(VoiceFileError, match=r"a\.safetensors"):
            read_voice(path)


@pytest.mark.parametrize("length", [0, 5, 100, 5000])
def test_a_cut_file_is_damaged(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(voice_bytes(VOICE)[:length])
    with pytest.raises(VoiceFileError, match="is damaged"):
        read_voice(path)


def test_other_files_are_no_profiles(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(save({"x": HEARD}))
    with pytest.raises(VoiceFileError, match="is not a voice profile"):
        read_voice(path)
    path.write_bytes(save({"x": HEARD}, {"format": "voxcli-voice", "version": "3"}))
    with pytest.raises(VoiceFileError, match=r"version 3, this voxcli reads 1 to 2; upgrade"):
        read_voice(path)
    with pytest.raises(VoiceFileError, match="no such file"):
        read_voice(tmp_path / "no")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../evil"},
        {"sample_rate": "fast"},
        {"sample_rate": 0},
        {"text": 5},
        {"encodings": [{"model": "mini"}]},
        {"encodings": None},
        {"facts": None},
    ],
)
def test_a_well_signed_profile_with_nonsense_inside_is_damaged(
    tmp_path: Path, change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = json.dumps
    monkeypatch.setattr(
        "voxcli.voices.file.json.dumps", lambda table, **kind: dumps({**table, **change}, **kind)
    )
    path = tmp_path / "a.safetensors"
    path.write_bytes(voice_bytes(VOICE))
    with pytest.raises(VoiceFileError, match="is damaged"):
        read_voice(path)


@pytest.mark.parametrize("values", [HEARD * np.nan, HEARD[:0]])
def test_arrays_that_are_no_numbers_are_damaged(tmp_path: Path, values: np.ndarray) -> None:
    bad = replace(VOICE, encodings=(VoiceEncoding("mini", "c0ffee", {"reference": values}),))
    path = tmp_path / "a.safetensors"
    path.write_bytes(voice_bytes(bad))
    with pytest.raises(VoiceFileError, match="is empty, or is not finite"):
        read_voice(path)


@pytest.mark.parametrize("samples", [SAMPLES[None], np.arange(9)])
def test_samples_of_another_shape_or_type_are_damaged(tmp_path: Path, samples: np.ndarray) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(version_1({"samples": samples, "reference.0": HEARD, "reference.1": HEARD}))
    with pytest.raises(VoiceFileError, match=r"is damaged"):
        read_voice(path)
