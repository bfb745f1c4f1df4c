"""What is known of a checkpoint before it is loaded, and what is refused of it by name."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny

from voxcli.engine.planning import PlannedModel, make_plan
from voxcli.errors import CheckpointError, TextError, UsageError, VoiceNotFoundError
from voxcli.hub import pull_model, resolve_model
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.family import Parameters, Qwen3TTSFamily
from voxcli.models.qwen3_tts.sizes import RELEASED_CODEC
from voxcli.parameters import settle
from voxcli.utterance import Mode, Recording, Utterance

FAMILY = Qwen3TTSFamily()
LANGUAGES = ("en", "zh", "ja", "ko", "fr", "de", "es", "it", "pt", "ru")
CLONES = (Mode.REFERENCE, Mode.CONTINUATION, Mode.BOTH)
KINDS = {
    "cv_1b7": (tuple(tiny.SPEAKERS), (Mode.ZERO_SHOT, Mode.STYLE)),
    "cv_0b6": (tuple(tiny.SPEAKERS), (Mode.ZERO_SHOT,)),
    "vd_1b7": ((), (Mode.ZERO_SHOT, Mode.STYLE)),
    "base_1b7": ((), CLONES),
    "base_0b6": ((), CLONES),
}


@pytest.fixture(scope="module", params=KINDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The JSON files of each, without weights."""
    root, found = tmp_path_factory.mktemp("facts"), {}
    for name in KINDS:
        folder = root / name
        (folder / "speech_tokenizer").mkdir(parents=True)
        files = {
            "config.json": tiny.config(name),
            "generation_config.json": tiny.GENERATION,
            "speech_tokenizer/config.json": tiny.speech_tokenizer_config(),
        }
        for path, values in files.items():
            (folder / path).write_text(json.dumps(values), "utf-8")
        found[name] = folder
    return found


def planned(folders: dict[str, Path], name: str) -> PlannedModel:
    folder = folders[name]
    return PlannedModel(name, FAMILY, FAMILY.facts(folder, tiny.config(name)))


def said(text: str = "The tide turns at nine.", **given: Any) -> Utterance:
    return Utterance(text, **given)


# ---------------------------------------------------------------- facts


def test_a_checkpoint_says_what_its_kind_can_do(folders: dict[str, Path], name: str) -> None:
    assert FAMILY.recognises(tiny.config(name))
    facts = planned(folders, name).facts
    voices, modes = KINDS[name]
    assert set(facts.voices) == set(voices)
    assert facts.modes == modes
    assert facts.languages == LANGUAGES
    assert (facts.sample_rate, facts.reference_sample_rate) == (24_000, 24_000)
    by_name = {each.name: each.default for each in facts.parameters}
    assert by_name == {**vars(Parameters()), "is_text_streamed": name.startswith("base")}


def test_defaults_are_the_checkpoints(folders: dict[str, Path], tmp_path: Path) -> None:
    own = {"temperature": 0.7, "top_k": 0, "subtalker_top_p": 0.8, "repetition_penalty": 5.0}
    greedy = {"do_sample": False, "subtalker_dosample": False}
    (tmp_path / "generation_config.json").write_text(json.dumps({**own, **greedy}), "utf-8")
    facts = FAMILY.facts(tmp_path, tiny.config("cv_1b7"))
    found = settle("it", facts.parameters)
    assert found == {
        **vars(Parameters()), "temperature": 0.7, "top_k": 1000, "predictor_top_p": 0.8,
        "repetition_penalty": 2.0, "is_greedy": True,
    }  # fmt: skip
    assert FAMILY.parameters_of(found).is_greedy


def test_the_official_names_of_parameters_are_taken() -> None:
    found = settle("it", FAMILY.declaration, {"subtalker_temperature": 0.5})
    assert found["predictor_temperature"] == 0.5


def test_a_configuration_alone_is_enough_for_facts(tmp_path: Path) -> None:
    facts = FAMILY.facts(tmp_path, tiny.config("vd_1b7"))
    assert facts.sample_rate == 24_000
    config = Qwen3TTSConfig.beside(tmp_path, tiny.config("vd_1b7"))
    assert config.decoder == RELEASED_CODEC.decoder_config
    assert config.encoder == RELEASED_CODEC.encoder_config
    assert config.decoder.hop_length == config.hop_length == 1920


def test_files_are_known_by_their_paths() -> None:
    names = [name for options in FAMILY.parts.values() for name in options]
    assert "speech_tokenizer/model.safetensors" in names
    assert "model.safetensors" in names
    assert len(set(names)) == len(names)
    assert set(FAMILY.encoder_parts) <= {"config.json", *FAMILY.parts}


def test_the_families_module_loads_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, voxcli.models.qwen3_tts.family\n"
        "assert not {'torch', 'numpy', 'tokenizers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- what a checkpoint cannot do


@pytest.mark.parametrize("kind", ["cv_0b6", "base_1b7"])
def test_a_style_is_refused_where_it_would_be_dropped(folders: dict[str, Path], kind: str) -> None:
    given = {"reference": _recording()} if kind == "base_1b7" else {}
    with pytest.raises(UsageError, match=f"model '{kind}' has no style mode"):
        make_plan(said(style="softly", **given), planned(folders, kind))


@pytest.mark.parametrize("kind", ["cv_1b7", "vd_1b7"])
def test_a_style_is_taken_by_the_others(folders: dict[str, Path], kind: str) -> None:
    assert make_plan(said(style="softly"), planned(folders, kind)).utterance.style == "softly"


def test_presets_belong_to_their_checkpoints(folders: dict[str, Path]) -> None:
    plan = make_plan(said(voice="eric"), planned(folders, "cv_0b6"))
    assert plan.utterance.voice == "eric"
    with pytest.raises(VoiceNotFoundError, match="no voice 'eric' for model 'vd_1b7'"):
        make_plan(said(voice="eric"), planned(folders, "vd_1b7"))


@pytest.mark.parametrize("name", ["cv_0b6", "base_1b7", "vd_1b7"])
def test_advice_names_the_checkpoints_of_the_family_that_can_do_it_first(
    folders: dict[str, Path], name: str
) -> None:
    model, here = planned(folders, name), "Qwen/Qwen3-TTS-12Hz-"
    wishes = {
        Mode.STYLE: (
            {"style": "softly"},
            f"models with it: {here}1.7B-CustomVoice, {here}1.7B-VoiceDesign, ",
        ),
        Mode.REFERENCE: (
            {"reference": _recording()}, f"models with it: {here}0.6B-Base, {here}1.7B-",
        ),
    }  # fmt: skip
    for mode, (given, hint) in wishes.items():
        if mode not in model.facts.modes:
            asked = {"reference": _recording()} if name == "base_1b7" else {}
            with pytest.raises(UsageError) as caught:
                make_plan(said(**{**asked, **given}), model)
            assert str(caught.value.hint).startswith(hint)
    if not model.facts.voices and Mode.ZERO_SHOT in model.facts.modes:
        with pytest.raises(VoiceNotFoundError) as unknown:
            make_plan(said(voice="Aiden"), model)
        assert unknown.value.hint == (
            f"it is a voice of: {here}0.6B-CustomVoice, {here}1.7B-CustomVoice"
        )


def test_what_is_published_can_do_what_its_files_say(folders: dict[str, Path]) -> None:
    kinds = dict(
        zip(("cv_0b6", "cv_1b7", "vd_1b7", "base_0b6", "base_1b7"), FAMILY.published, strict=True)
    )
    for name, published in kinds.items():
        facts = planned(folders, name).facts
        assert (published.modes, bool(published.voices)) == (facts.modes, bool(facts.voices)), name
    assert kinds["cv_0b6"].voices == kinds["cv_1b7"].voices
    assert {*tiny.SPEAKERS} <= {*kinds["cv_0b6"].voices}


@pytest.mark.parametrize("is_offline", [True, False])
@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        ("Qwen/Qwen3-TTS-25Hz-0.6B-Base", "Qwen/Qwen3-TTS-12Hz-0.6B-Base"),
        ("qwen/qwen3-tts-25hz-1.7b-customvoice", "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"),
        ("someone/Qwen3-TTS-25Hz-mine", "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"),
    ],
)
def test_a_name_of_25_hz_is_refused_before_it_is_looked_for(
    asked: str, instead: str, is_offline: bool
) -> None:
    for find in (resolve_model, pull_model):
        with pytest.raises(CheckpointError, match="is not supported") as caught:
            find(asked, offline=is_offline)
        assert caught.value.hint == f"use {instead}"


def test_recordings_are_for_the_base_models(folders: dict[str, Path]) -> None:
    for kind in ("cv_1b7", "vd_1b7"):
        with pytest.raises(UsageError, match=f"model '{kind}' has no reference mode"):
            make_plan(said(reference=_recording()), planned(folders, kind))
    clip = _recording("Hello there.")
    for given in ({"reference": clip}, {"prompt": clip}, {"reference": clip, "prompt": clip}):
        plan = make_plan(said(**given), planned(folders, "base_0b6"))
        assert plan.prompt_text == ("Hello there." if "prompt" in given else "")
        assert plan.parameters["is_text_streamed"] is True
    with pytest.raises(UsageError, match="model 'base_0b6' has no zero-shot mode"):
        make_plan(said(), planned(folders, "base_0b6"))


@pytest.mark.parametrize("language", ["sichuan_dialect", "beijing_dialect", "yue", "nl"])
def test_dialects_and_other_languages_are_refused_by_name(
    folders: dict[str, Path], language: str
) -> None:
    told = rf"no language '{language}'.* it speaks en \(English\), zh \(Chinese\), ja \(Japanese\)"
    with pytest.raises(TextError, match=f"speaks only English, Chinese, Japanese|{told}"):
        make_plan(said(language=language), planned(folders, "cv_1b7"))


def test_a_text_finds_its_language(folders: dict[str, Path]) -> None:
    texts = {
        "zh": "今天天气很好，我们去公园散步。",
        "de": "Das ist ein kurzer Satz.",
        "en": "1 2 3",
    }
    for language, text in texts.items():
        plan = make_plan(said(text), planned(folders, "cv_1b7"))
        assert plan.text.language == language


def _recording(text: str = "") -> Recording:
    return Recording(tiny.reference_wav(24_000), 24_000, text)


# ---------------------------------------------------------------- configurations


def _changed(**changes: Any) -> dict[str, Any]:
    return {**tiny.config("base_1b7"), **changes}


def _talker(**changes: Any) -> dict[str, Any]:
    return _changed(talker_config={**tiny.config("base_1b7")["talker_config"], **changes})


def _codec(**changes: Any) -> dict[str, Any]:
    return {**tiny.speech_tokenizer_config(), **changes}


def _decoder(**changes: Any) -> dict[str, Any]:
    return _codec(decoder_config={**tiny.speech_tokenizer_config()["decoder_config"], **changes})


def test_models_of_25_hz_are_refused_by_name(tmp_path: Path) -> None:
    config = _changed(tokenizer_type="qwen3_tts_tokenizer_25hz")
    assert FAMILY.recognises(config)
    with pytest.raises(CheckpointError, match="qwen3_tts_tokenizer_25hz' is not supported"):
        FAMILY.facts(tmp_path, config)
    codec = _codec(model_type="qwen3_tts_tokenizer_25hz")
    with pytest.raises(CheckpointError, match=r"speech_tokenizer/config\.json: model_type: "):
        Qwen3TTSConfig.of(_changed(), codec)


@pytest.mark.parametrize(
    ("root", "codec", "message"),
    [
        (_changed(tts_model_type="other"), _codec(), "tts_model_type: Invalid enum value 'other'"),
        (_changed(talker_config=None), _codec(), "talker_config: Expected `object`, got `null`"),
        (_changed(tts_pad_token_id=None), _codec(), "tts_pad_token_id: Expected `int`"),
        (_changed(tts_pad_token_id=10**6), _codec(), "tts_pad_token_id 1000000 is outside of text"),
        (_changed(speaker_encoder_config=None), _codec(), "speaker_encoder_config is missing"),
        (_changed(speaker_encoder_config={"enc_dim": 8}), _codec(), "enc_dim differ: 48 and 8"),
        (_talker(attention_bias=True), _codec(), "attention_bias True is not supported"),
        (_talker(hidden_act="gelu"), _codec(), "hidden_act: Invalid enum value 'gelu'"),
        (_talker(code_predictor_config=None), _codec(), "code_predictor_config: Expected `object`"),
        (_talker(num_code_groups=8), _codec(), "num_code_groups of talker and code predictor diff"),
        (_talker(rope_scaling={"rope_type": "yarn"}), _codec(), "rope_scaling.rope_type: Invalid"),
        (_talker(spk_is_dialect={"eric": "wu"}), _codec(), "codec_language_id lacks 'wu'"),
        (_talker(spk_id={"eric": 3072}), _codec(), "spk_id.eric 3072 is outside of vocab_size"),
        (_changed(), _codec(decoder_config={}), "decoder_config: Object missing required field"),
        (_changed(), _codec(encoder_config=7), "encoder_config: Expected `object`, got `int`"),
        (_changed(), _decoder(num_key_value_heads=2), "num_key_value_heads 2 differ"),
        (
            _changed(),
            _decoder(sliding_window=1),
            "decoder_config.sliding_window: Expected `int` >=",
        ),
        (_changed(), _codec(decode_upsample_rate=2000), "encode_downsample_rate differ"),
        (_changed(), _codec(encoder_valid_num_quantizers=8), "_valid_num_quantizers differ: 16 an"),
        (_changed(), _codec(output_sample_rate=None), "output_sample_rate: Expected `int`"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    root: dict[str, Any], codec: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        Qwen3TTSConfig.of(root, codec)


def test_a_shortened_one_has_two_layers_a_stack(folders: dict[str, Path]) -> None:
    config = Qwen3TTSConfig.load(folders["cv_1b7"])
    short = config.shortened()
    stacks = (short.talker, short.predictor, short.decoder, short.encoder)
    assert {stack.num_hidden_layers for stack in stacks} == {2}
    assert replace(short.talker, num_hidden_layers=3) == config.talker


def test_broken_files_are_named(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read"):
        Qwen3TTSConfig.load(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="holds no JSON object"):
        Qwen3TTSConfig.load(tmp_path)
