"""Prompts against the official package's: what it gave the talker, and what text followed.

The embeddings are made here in float64 from a prompt's ids; the goldens are fp32, so 5e-6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tiny
from safetensors.numpy import load_file

from voxcli.errors import UsageError
from voxcli.models.data import PromptParts
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.prompt import NOTHING, Prompt, layout
from voxcli.models.qwen3_tts.tokenize import TextTokenizer, load_tokenizer

TOLERANCE = 5e-6
TEXT, SHORT = "hello the user of the morning, 12 times: ok?", "hi there"


@dataclass(frozen=True)
class Case:
    """One row of a golden and what was asked for."""

    golden: str
    checkpoint: str
    parts: PromptParts
    is_streaming_text: bool = False
    row: int = 0


def _clone(text: str, prompt_text: str = "", language: str = "fr") -> PromptParts:
    """A clone of the reference recording, with its transcript where there is one."""
    heard = golden("encoders")
    # of the same recording; the two checkpoints' speaker encoders differ
    vectors = {"fr": golden("base_xvector_streaming_text"), "": heard}
    vector = {"x_vector": vectors[language]["xvector"]}
    prompt = {**vector, "codes": heard["codes_10300"].astype(np.int64)} if prompt_text else None
    return PromptParts(text, language, reference=vector, prompt=prompt, prompt_text=prompt_text)


@cache
def golden(name: str) -> dict[str, np.ndarray]:
    return load_file(tiny.GOLDENS / f"{name}.safetensors")


def cases() -> list[Case]:
    def said(text: str, language: str, voice: str | None = None, style: str = "") -> PromptParts:
        return PromptParts(text, language, voice, style)

    morning = said(TEXT, "de", style="hello user of the morning")
    batch = (("zh", "eric", ""), ("en", "dylan", "the user"), ("", "aiden", ""))
    return [
        Case("cv_instruct", "cv_1b7", said(TEXT, "en", "vivian", "the user of hello")),
        Case("cv_streaming_text", "cv_1b7", said(TEXT, "", "ryan"), True),
        Case("cv_dialect_text_ends_first", "cv_1b7", said(SHORT, "", "eric"), True),
        *(
            Case("cv_batch", "cv_1b7", said((TEXT, SHORT, TEXT)[row], *batch[row]), True, row)
            for row in range(3)
        ),
        Case("cv_sampled", "cv_1b7", said(TEXT, "ko", "sohee")),
        Case("cv06_min_new_tokens_eos", "cv_0b6", said(SHORT, "zh", "serena")),
        Case("vd", "vd_1b7", morning),
        Case("vd_streaming_text", "vd_1b7", morning, True),
        Case("base_xvector", "base_1b7", _clone(TEXT)),
        Case("base_xvector_streaming_text", "base_1b7", _clone(TEXT), True),
        Case("base_icl_text_longer", "base_1b7", _clone(TEXT, "hello user"), True),
        Case("base_icl_codes_longer", "base_1b7", _clone("a", "b"), True),
        Case("base_icl_non_streaming", "base_1b7", _clone(TEXT, "hello user")),
        Case("base06_icl", "base_0b6", _clone(TEXT, "the ref", ""), True),
    ]


CASES = {f"{case.golden}-{case.row}": case for case in cases()}


@dataclass(frozen=True)
class Checkpoint:
    config: Qwen3TTSConfig
    tokenizer: TextTokenizer
    weights: dict[str, np.ndarray]

    def lay_out(self, parts: PromptParts, is_streaming_text: bool = False) -> Prompt:
        return layout(self.config, self.tokenizer, parts, is_streaming_text)

    def text(self, ids: Any) -> np.ndarray:
        """Embeddings of text ids, `[…, H]`."""
        w = {name: array for name, array in self.weights.items() if "text_" in name}
        hidden = w["talker.model.text_embedding.weight"][ids]
        for name in ("talker.text_projection.linear_fc1", "talker.text_projection.linear_fc2"):
            hidden = hidden @ w[f"{name}.weight"].T + w[f"{name}.bias"]
            if name.endswith("1"):
                hidden = hidden / (1 + np.exp(-hidden))
        return hidden

    def embed(self, prompt: Prompt) -> np.ndarray:
        """What the talker gets, `[N, H]`."""
        text = np.where((prompt.text_ids >= 0)[:, None], self.text(prompt.text_ids), 0.0)
        table = self.weights["talker.model.codec_embedding.weight"]
        codec = np.where((prompt.codec_ids >= 0)[:, None], table[prompt.codec_ids], 0.0)
        if prompt.speaker_at >= 0:
            codec[prompt.speaker_at] = prompt.speaker
        for book in range(16 if prompt.ref_at >= 0 else 0):
            name = f"talker.code_predictor.model.codec_embedding.{book - 1}.weight"
            own = table if book == 0 else self.weights[name]
            end = prompt.ref_at + len(prompt.ref_codes)
            codec[prompt.ref_at : end] += own[prompt.ref_codes[:, book]]
        return text + codec


@cache
def checkpoint(name: str) -> Checkpoint:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        written = tiny.write(Path(folder), name)
        config = Qwen3TTSConfig.load(written)
        tokenizer = load_tokenizer(written, config)
    weights = {key: value.astype(np.float64) for key, value in tiny.weights(name).items()}
    return Checkpoint(config, tokenizer, weights)


# ---------------------------------------------------------------- against the official package


@pytest.mark.parametrize("name", CASES)
def test_the_talker_gets_what_the_official_package_gives_it(name: str) -> None:
    case = CASES[name]
    prompt = checkpoint(case.checkpoint).lay_out(case.parts, case.is_streaming_text)
    found = golden(case.golden)
    mask = found["attention_mask"][case.row].astype(bool)
    wanted = found["prompt_embeds"][case.row][mask]
    assert len(prompt) == len(wanted)
    made = checkpoint(case.checkpoint).embed(prompt)
    np.testing.assert_allclose(made, wanted, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_the_text_that_follows_is_the_official_one(name: str) -> None:
    case = CASES[name]
    prompt = checkpoint(case.checkpoint).lay_out(case.parts, case.is_streaming_text)
    wanted = golden(case.golden)["trailing_text"][case.row]
    assert len(prompt.trailing) <= len(wanted)
    ids = [prompt.trailing_id(step) for step in range(len(wanted))]
    made = checkpoint(case.checkpoint).text(ids)
    np.testing.assert_allclose(made, wanted, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_texts_have_the_official_ids(name: str) -> None:
    case = CASES[name]
    found, tokenizer = golden(case.golden), checkpoint(case.checkpoint).tokenizer
    text = found[f"input_ids_{case.row}"].tolist()
    assert tokenizer.opening == text[:3]
    assert tokenizer.body(case.parts.text) == text[3:-5]
    instruction = found.get(f"instruct_ids_{case.row}")
    if instruction is not None:
        assert tokenizer.instruction(case.parts.style) == instruction.tolist()
    if case.parts.prompt_text:
        wanted = found[f"ref_ids_{case.row}"].tolist()[3:-2]
        assert tokenizer.body(case.parts.prompt_text) == wanted


# ---------------------------------------------------------------- what the layouts keep


def test_a_dialect_is_spoken_by_its_speaker_in_chinese_alone() -> None:
    custom = checkpoint("cv_1b7")

    def languages(code: str, voice: str | None) -> set[int]:
        ids = set(custom.lay_out(PromptParts(SHORT, code, voice)).codec_ids.tolist())
        return ids & set(custom.config.talker.codec_language_id.values())

    assert languages("zh", "eric") == languages("", "eric") == {2062}
    assert languages("zh", "dylan") == {2074}
    assert languages("en", "eric") == {2050}
    assert languages("zh", "vivian") == languages("zh", None) == {2055}
    assert languages("", "vivian") == set()


def test_where_nobody_is_named_a_language_is_always_spoken_by_the_same_voice() -> None:
    custom = checkpoint("cv_1b7")
    for language, voice in (("en", "aiden"), ("zh", "vivian"), ("ja", "ono_anna"), ("de", "aiden")):
        named, *own = (
            custom.lay_out(PromptParts(SHORT, language, name)) for name in (voice, None, "default")
        )
        assert [each.codec_ids.tolist() for each in own] == 2 * [named.codec_ids.tolist()]
        assert {each.prefix_key for each in own} == {named.prefix_key}


def test_where_the_usual_voice_is_not_there_the_first_one_speaks() -> None:
    custom = checkpoint("cv_1b7")
    talker = custom.config.talker
    ids = {name: index for name, index in talker.spk_id.items() if name != "aiden"}
    changed = replace(custom.config, talker=replace(talker, spk_id=ids))
    few = replace(custom, config=changed)
    first, own = (few.lay_out(PromptParts(SHORT, "en", name)) for name in (next(iter(ids)), None))
    assert own.codec_ids.tolist() == first.codec_ids.tolist()


def test_unknown_voices_and_languages_are_refused_by_name() -> None:
    custom, clone = checkpoint("cv_1b7"), checkpoint("base_1b7")
    with pytest.raises(UsageError, match="no voice 'alba'"):
        custom.lay_out(PromptParts(SHORT, "en", "alba"))
    with pytest.raises(UsageError, match="does not speak 'nl'"):
        custom.lay_out(PromptParts(SHORT, "nl", "aiden"))
    # a saved voice comes with what the model heard of it, and its name says nothing more
    parts = replace(CASES["base_xvector-0"].parts, voice="alba")
    assert clone.lay_out(parts).speaker_at >= 0


@pytest.mark.parametrize("streaming", [False, True])
def test_speech_to_continue_needs_no_reference_beside_it(streaming: bool) -> None:
    both = CASES["base_icl_text_longer-0"].parts
    alone = replace(both, reference=None)
    clone = checkpoint("base_1b7")
    first, second = (clone.lay_out(parts, streaming) for parts in (both, alone))
    assert np.array_equal(clone.embed(first), clone.embed(second))
    assert first.prefix_key == second.prefix_key


@pytest.mark.parametrize("name", CASES)
def test_a_shared_beginning_is_the_same_whatever_the_text(name: str) -> None:
    case = CASES[name]
    made = checkpoint(case.checkpoint)
    one, other = (
        made.lay_out(replace(case.parts, text=text), case.is_streaming_text)
        for text in (case.parts.text, "ok, the other words of the user")
    )
    assert one.prefix_key == other.prefix_key
    assert one.prefix_len == other.prefix_len
    length = one.prefix_len
    assert 0 < length < len(one)
    assert np.array_equal(made.embed(one)[:length], made.embed(other)[:length])
    # one position more is the text's
    if case.parts.prompt is None:
        assert not np.array_equal(made.embed(one)[: length + 1], made.embed(other)[: length + 1])


def test_keys_differ_where_beginnings_do() -> None:
    custom, clone = checkpoint("cv_1b7"), checkpoint("base_1b7")
    said = PromptParts(SHORT, "en", "aiden", "hello")
    changes: list[dict[str, Any]] = [
        {}, {"voice": "ryan"}, {"style": "user"}, {"language": "zh"}, {"style": ""},
    ]  # fmt: skip
    keys = [custom.lay_out(replace(said, **change)).prefix_key for change in changes]
    heard = CASES["base_icl_non_streaming-0"].parts
    assert heard.reference is not None
    assert heard.prompt is not None
    other = {"x_vector": heard.reference["x_vector"] + 1}
    codes = {**heard.prompt, "codes": (heard.prompt["codes"] + 1) % 2048}
    more: list[dict[str, Any]] = [
        {}, {"reference": other}, {"prompt": codes}, {"prompt_text": "bye user"}, {"prompt": None},
    ]  # fmt: skip
    keys += [clone.lay_out(replace(heard, **change), True).prefix_key for change in more]
    assert len(set(keys)) == len(keys)


def test_what_is_not_there_is_marked() -> None:
    plain = checkpoint("vd_1b7").lay_out(PromptParts(SHORT, "en"))
    assert (plain.speaker_at, plain.ref_at, plain.speaker) == (NOTHING, NOTHING, None)
    assert plain.ref_codes.shape == (0, 16)
    assert (plain.prefix_len, plain.prefix_key) == (0, "")
    assert plain.trailing_id(0) == plain.trailing_id(99) == plain.pad_id
    assert plain.max_frames_hint == 8191
