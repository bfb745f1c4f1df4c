"""Our model against the official one: same weights, same noise, fp32, up to 60 steps.

Goldens are from voxcpm 2.0.3 (`make_goldens.py`). Sums run in another order here (fused and packed
products), which leaves 1e-6 a step; 60 autoregressive steps leave 3e-5 on latents of size 5.
FSQ could make more of it: a value within 1e-5 of a rounding border may fall to the other side. None
does; the seeds in `cases.py` keep sixteen times that distance.
"""

from __future__ import annotations

import cases
import numpy as np
import pytest
from helpers import Models
from replay import replay

ALL_CASES = [(name, case) for name, listed in cases.CASES.items() for case in listed]


@pytest.mark.parametrize("name", cases.CASES)
def test_tokens_are_those_of_the_official_tokenizer(models: Models, name: str) -> None:
    golden = np.load(cases.golden_path(name, "tokens"))
    expected = np.split(golden["ids"], np.cumsum(golden["lengths"])[:-1])
    tokenizer = models(name).tokenizer
    assert tokenizer is not None
    for text, ids in zip(cases.TEXTS, expected, strict=True):
        assert tokenizer.encode(text) == ids.tolist(), text


@pytest.mark.parametrize(
    ("name", "case"), ALL_CASES, ids=[f"{name}-{case.name}" for name, case in ALL_CASES]
)
def test_latents_and_samples_are_those_of_the_official_model(
    models: Models, name: str, case: cases.Case
) -> None:
    golden = np.load(cases.golden_path(name, case.name))
    ours = replay(models(name), case)
    parts = {
        "base": ours.base, "residual": ours.residual, "patches": ours.patches,
        "logits": ours.logits, "samples": cases.thinned(ours.samples),
        "reference": ours.reference, "prompt": ours.prompt_audio,
    }  # fmt: skip
    assert {part for part, value in parts.items() if value is not None} == (
        set(golden.files) - {"num_samples"}
    )
    assert len(ours.samples) == golden["num_samples"]
    differences = {
        part: cases.difference(golden[part], value)
        for part, value in parts.items()
        if value is not None
    }
    assert max(differences.values()) < cases.TOLERANCE, differences


@pytest.mark.parametrize("name", ["mini", "tiny"])
def test_a_reference_is_padded_at_its_end_and_a_prompt_at_its_start(
    models: Models, name: str
) -> None:
    model = models(name)
    patch = model.patch_shape[0] * model.config.vae.encoder_hop
    samples = cases.speech_like(model.info.reference_sample_rate, 2.5, pitch=150.0)
    samples = samples[: 2 * patch + patch // 3]
    missing = 3 * patch - len(samples)
    reference, prompt = model.encode_audio(samples), model.encode_audio(samples, pad_left=True)
    assert len(reference) == len(prompt) == 3
    assert np.array_equal(reference, model.encode_audio(np.pad(samples, (0, missing))))
    assert np.array_equal(prompt, model.encode_audio(np.pad(samples, (missing, 0))))
    assert cases.difference(reference, prompt) > 0.01


@pytest.mark.parametrize("name", cases.CASES)
def test_goldens_hear_recordings_that_need_padding(models: Models, name: str) -> None:
    model = models(name)
    info, vae = model.info, model.config.vae
    seconds = [s for case in cases.CASES[name] for s in (case.reference_s, case.prompt_s) if s]
    for length in (round(each * info.reference_sample_rate) for each in seconds):
        assert length % (model.patch_shape[0] * vae.encoder_hop), length
