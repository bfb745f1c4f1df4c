"""Fixtures of the speech tests: the bundled voice, the scorer, and `listen`, which uses both.

The scorer's packages and model files may be missing: then these tests are skipped and say why,
except where CI is set to "true" (`make test-speech` does so): there it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest
from assets import AssetsError, find_assets
from listening import Heard, Listen
from needs import unavailable

from voxcli import EngineConfig, Result, SamplingParams, SpeechEngine, Utterance, open_engine

if TYPE_CHECKING:
    from scorer import Scorer

PACKAGES = ("faster_whisper", "num2words", "onnxruntime", "scipy")
BATCH = 16  # utterances synthesised side by side


@pytest.fixture(scope="session")
def scorer() -> Scorer:
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        unavailable(f"needs {', '.join(missing)}: pip install -e '.[eval]', or make test-speech")
    try:
        assets = find_assets()
    except AssetsError as err:
        unavailable(str(err))
    from scorer import Scorer

    return Scorer(assets)


@pytest.fixture(scope="session")
def engine() -> Iterator[SpeechEngine]:
    with open_engine("native", EngineConfig()) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def listen(scorer: Scorer, engine: SpeechEngine) -> Listen:
    """`listen(texts)` speaks them in batches and judges each; seeds are the texts' positions."""
    from wording import compare

    def listen(texts: Sequence[str]) -> list[Heard]:
        utterances = [
            Utterance(text, sampling=SamplingParams(seed=seed)) for seed, text in enumerate(texts)
        ]
        results: list[Result] = []
        for start in range(0, len(utterances), BATCH):
            results += engine.synthesize(utterances[start : start + BATCH])
        found = []
        for text, result in zip(texts, results, strict=True):
            assert np.isfinite(result.samples).all(), text
            heard = scorer.hear(result.samples, result.sample_rate)
            quality = scorer.quality(result.samples, result.sample_rate)
            found.append(Heard(text, result, heard, compare(text, heard), quality))
        return found

    return listen
