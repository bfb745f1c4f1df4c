"""Voice profiles: what is kept comes back, and nothing else is let in."""

from __future__ import annotations

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
from voxcli.utterance import Mode, Recording, Utterance
from voxcli.voices import Encoding, Voice, VoiceStore, check_name, read_voice, voice_bytes

RNG = np.random.default_rng(0)
SAMPLES = RNG.uniform(-0.5, 0.5, 16_000).astype(np.float32)
LATENTS = RNG.standard_normal((3, 4, 32)).astype(np.float32)
VOICE = Voice(
    name="ada",
    recording=Recording(SAMPLES, 16_000, "Grüße, 世界."),
    encodings=(Encoding("mini", "c0ffee", LATENTS, LATENTS + 1),),
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
    assert (heard.model, heard.checksum) == ("mini", "c0ffee")
    assert heard.prompt is not None
    assert np.array_equal(heard.reference, LATENTS)
    assert np.array_equal(heard.prompt, LATENTS + 1)
    assert [entry.name for entry in path.parent.iterdir()] == ["ada.safetensors"]


def test_a_voice_is_applied_with_its_latents(store: VoiceStore) -> None:
    spoken = VOICE.apply(Utterance("Hello.", voice="ada"), "mini", "c0ffee")
    assert spoken.mode is Mode.BOTH
    assert spoken.reference is not None
    assert spoken.prompt is not None
    assert spoken.reference.latents is LATENTS
    assert spoken.prompt.text == "Grüße, 世界."
    styled = VOICE.apply(Utterance("Hello.", voice="ada", style="warm"), "mini", "c0ffee")
    assert styled.mode is Mode.REFERENCE
    silent = replace(VOICE, encodings=(Encoding("mini", "c0ffee", LATENTS),))
    assert silent.apply(Utterance("Hello."), "mini", "c0ffee").mode is Mode.REFERENCE


def test_a_voice_of_another_model_is_refused_with_the_way_out() -> None:
    with pytest.raises(VoiceNotFoundError, match="not encoded for model 'big'") as failure:
        VOICE.apply(Utterance("Hello."), "big", "abad1dea")
    assert failure.value.hint == "run 'voxcli voices encode ada --model big'"
    with pytest.raises(VoiceNotFoundError, match="another version of model 'mini'"):
        VOICE.apply(Utterance("Hello."), "mini", "abad1dea")


def test_encodings_are_kept_side_by_side_one_a_model() -> None:
    both = VOICE.encoded(Encoding("big", "abad1dea", LATENTS))
    assert both.models == ("mini", "big")
    newer = both.encoded(Encoding("mini", "beef", LATENTS))
    assert [(each.model, each.checksum) for each in newer.encodings] == [
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
    path.write_bytes(save({"x": LATENTS}))
    with pytest.raises(VoiceFileError, match="is no voice profile"):
        read_voice(path)
    path.write_bytes(save({"x": LATENTS}, {"format": "voxcli-voice", "version": "2"}))
    with pytest.raises(VoiceFileError, match=r"version 2, this voxcli reads version 1; upgrade"):
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


def test_latents_that_are_no_numbers_are_damaged(tmp_path: Path) -> None:
    bad = replace(VOICE, encodings=(Encoding("mini", "c0ffee", LATENTS * np.nan),))
    path = tmp_path / "a.safetensors"
    path.write_bytes(voice_bytes(bad))
    with pytest.raises(VoiceFileError, match="not finite"):
        read_voice(path)
