"""A transcript that is 'auto' has the words of the recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from voxcli import cli

if TYPE_CHECKING:
    from scorer import Scorer

pytestmark = pytest.mark.speech

OSCAR = Path(__file__).parents[2] / "samples" / "voices" / "oscar.flac"


def test_auto_hears_what_is_said_in_the_reference(
    scorer: Scorer, capsys: pytest.CaptureFixture[str]
) -> None:
    from wording import compare

    words = ["--ref", str(OSCAR), "--ref-text", "auto", "--dry-run", "--json"]
    code = cli.main(["clone", "Hello there.", *words, "--asr-model", str(scorer.whisper_folder)])
    out, err = capsys.readouterr()
    reference = json.loads(out)["reference"]
    said = compare(OSCAR.with_suffix(".txt").read_text("utf-8"), reference["transcript"])
    assert code == 0
    assert said.errors <= 0.1 * said.words
    assert f"heard in {OSCAR}: {reference['transcript']}" in err
    assert reference["warnings"] == []
