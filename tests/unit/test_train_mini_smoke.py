"""The whole recipe at toy size, as the commands that a person types, to a voice that loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from asking import new_rows
from needs import PATIENCE_S

from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.prompt import lay_out

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from test_train_mini import TOY, write_speech  # noqa: E402

IS_UNFINISHED = 75
MORE = """
[corpus]
sources = ["source.txt"]
num_templates = 3
[latents]
takes = 2
recorded_share = 0.5
[distillation]
steps = 3
[score]
references = "references"
"""


def step(folder: Path, *words: str, seconds: float = PATIENCE_S) -> int:
    command = [
        sys.executable, "-m", "recipes.train_mini", words[0], str(folder / "toy.toml"), *words[1:],
        "--seconds", str(seconds),
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert result.returncode in (0, IS_UNFINISHED), result.stderr
    return result.returncode


@pytest.mark.long
@pytest.mark.slow
def test_from_texts_to_a_voice_that_the_engine_loads(tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(TOY + MORE, "utf-8")
    (tmp_path / "source.txt").write_text("This is one line.\nAnd this is another.\n", "utf-8")
    (tmp_path / "references").mkdir()
    reference = (ROOT / "samples" / "voices" / "emma.flac").read_bytes()
    (tmp_path / "references" / "emma.flac").write_bytes(reference)
    assert step(tmp_path, "corpus") == 0
    for kind in ("kokoro", "hibari"):  # teachers are no part of the tests
        write_speech(tmp_path / "work" / "speech", kind, 2)
    assert step(tmp_path, "codec", seconds=0) == IS_UNFINISHED
    for name in ("codec", "latents", "language", "distil", "export", "score"):
        assert step(tmp_path, name) == 0
    index = (tmp_path / "work" / "score" / "index.jsonl").read_text("utf-8").splitlines()
    assert [Path(json.loads(line)["wav"]).name for line in index] == ["emma.wav"]
    model = load(tmp_path / "work" / "voice", torch.device("cpu"), torch.float32)
    assert model.tokenizer is not None
    none = torch.zeros(0, *model.patch_shape).numpy()
    prompt = lay_out(model.tokenizer.encode("One line."), none, none)
    state = model.new_state(1, len(prompt) + 2)
    with torch.inference_mode():
        model.prefill(state, prompt, 0)
        rows = new_rows([0], [len(prompt)], [1], [0], num_steps=4, guidance=1.0)
        frames = model.decode(state, rows).frames
        samples = model.vocode(state, [0], frames.unsqueeze(1))
    assert samples.shape == (1, model.info.hop_length)
    assert torch.isfinite(samples).all()
