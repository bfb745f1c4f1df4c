"""Make the parity goldens with the official package, or check that they are still what it gives.

    OFFICIAL=/tmp/official; python3.11 -m venv $OFFICIAL
    $OFFICIAL/bin/pip install torch==2.13.0  # its CPU build is enough
    $OFFICIAL/bin/pip install transformers==4.57.6 safetensors einops pydantic librosa soundfile
    $OFFICIAL/bin/pip install --no-deps voxcpm==2.0.3
    mkdir -p $OFFICIAL/lib/python3.11/site-packages/torchaudio   # imported, never called
    touch $OFFICIAL/lib/python3.11/site-packages/torchaudio/{__init__,functional}.py
    $OFFICIAL/bin/python tests/parity/make_goldens.py [--check]

Upstream: voxcpm 2.0.3 (OpenBMB/VoxCPM, Apache-2.0), fp32 on CPU, run through its public
`generate`. Only the noise is ours: `torch.randn` of its solver returns
`voxcli.layers.noise.normal(seed, step)`, so a golden stores no noise. Stop decisions are ignored
(`min_len`) so that every case has a known length; the logits are stored.

A golden needs no reader of this file but `cases.py`, which both sides share.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools"), str(Path(__file__).parent)]
os.environ["TQDM_DISABLE"] = "1"
warnings.filterwarnings("ignore")

import cases  # noqa: E402
import numpy as np  # noqa: E402
import soundfile  # noqa: E402
import torch  # noqa: E402
from checkpoints import write_random_checkpoint  # noqa: E402
from voxcpm.model.voxcpm2 import VoxCPM2Model  # noqa: E402
from widen_mini import widened  # noqa: E402

from voxcli.layers.noise import normal  # noqa: E402


def load_official(folder: Path) -> VoxCPM2Model:
    with contextlib.redirect_stderr(io.StringIO()):
        model = VoxCPM2Model.from_local(str(folder), optimize=False, device="cpu")
    assert next(model.parameters()).dtype == torch.float32
    return model


@contextlib.contextmanager
def recorded(model: VoxCPM2Model, seed: int) -> Iterator[dict[str, list[torch.Tensor]]]:
    """Give the solver our noise, and keep what the loop computes."""
    log: dict[str, list[torch.Tensor]] = {"patches": [], "logits": [], "base": [], "residual": []}
    P, D = model.patch_size, model.feat_dim

    def noise(shape: tuple[int, ...], **_: Any) -> torch.Tensor:
        assert tuple(shape) == (1, D, P), shape
        step = torch.tensor([len(log["patches"])])
        return normal(torch.tensor([seed]), step, P * D).view(1, P, D).mT

    def keep(name: str, of_input: bool) -> Any:
        def hook(_: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            log[name].append((inputs[0] if of_input else output)[0].clone())

        return hook

    handles = [
        model.feat_decoder.register_forward_hook(keep("patches", False)),
        model.stop_head.register_forward_hook(keep("logits", False)),
        model.lm_to_dit_proj.register_forward_hook(keep("base", True)),
        model.res_to_dit_proj.register_forward_hook(keep("residual", True)),
    ]
    try:
        with mock.patch("torch.randn", noise):
            yield log
    finally:
        for handle in handles:
            handle.remove()


def write_wav(folder: Path, name: str, samples: np.ndarray, rate: int) -> str:
    path = folder / name
    soundfile.write(path, samples, rate, subtype="FLOAT")
    return str(path)


def run_case(model: VoxCPM2Model, case: cases.Case, folder: Path) -> dict[str, np.ndarray]:
    """One utterance through the official loop; see `cases.Case` for what is stored."""
    rate = model._encode_sample_rate
    wavs = {}
    if case.reference_s:
        samples = cases.speech_like(rate, case.reference_s, pitch=case.reference_pitch)
        wavs["reference_wav_path"] = write_wav(folder, "reference.wav", samples, rate)
    if case.prompt_s:
        samples = cases.speech_like(rate, case.prompt_s, pitch=case.prompt_pitch)
        wavs["prompt_wav_path"] = write_wav(folder, "prompt.wav", samples, rate)
        wavs["prompt_text"] = case.prompt_text
    with recorded(model, case.seed) as log:
        samples = model.generate(
            target_text=case.text, **wavs, min_len=case.num_patches, max_len=case.num_patches,
            inference_timesteps=case.num_steps, cfg_value=case.cfg,
        )  # fmt: skip
    assert len(log["patches"]) == case.num_patches, (case.name, len(log["patches"]))
    audio = samples[0].numpy()
    out = {
        "patches": torch.stack(log["patches"]).mT.numpy(),  # [n, D, P] -> [n, P, D]
        "logits": torch.stack(log["logits"]).numpy(),
        "base": log["base"][0].numpy(),
        "residual": log["residual"][0].numpy(),
        "num_samples": np.array(len(audio)),
        "samples": cases.thinned(audio),
    }
    if "reference_wav_path" in wavs:
        feat = model._encode_wav(wavs["reference_wav_path"], padding_mode="right")
        out["reference"] = feat.numpy()
    if "prompt_wav_path" in wavs:
        feat = model._encode_wav(wavs["prompt_wav_path"], padding_mode="left")
        out["prompt"] = feat.numpy()
    return {name: np.ascontiguousarray(value) for name, value in out.items()}


@torch.inference_mode()
def make(name: str) -> dict[str, dict[str, np.ndarray]]:
    """All goldens of one checkpoint, by case."""
    goldens = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = cases.checkpoint_folder(name, Path(temporary) / name, write_random_checkpoint)
        folder = widened(folder, Path(temporary) / "wide")
        model = load_official(folder)
        ours = cases.checkpoint_keys(folder)
        theirs = set(model.state_dict())
        assert ours == theirs, (sorted(ours - theirs), sorted(theirs - ours))
        ids = [model.text_tokenizer(text) for text in cases.TEXTS]
        goldens["tokens"] = {
            "ids": np.array([i for row in ids for i in row], np.int32),
            "lengths": np.array([len(row) for row in ids], np.int32),
        }
        for case in cases.CASES[name]:
            goldens[case.name] = run_case(model, case, Path(temporary))
    return goldens


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("names", nargs="*", default=list(cases.CASES))
    options = parser.parse_args()
    failed = 0
    for name in options.names:
        for case, arrays in make(name).items():
            path = cases.golden_path(name, case)
            if not options.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                np.savez_compressed(path, **arrays)
                print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
                continue
            stored = np.load(path)
            worst = max(cases.difference(stored[key], value) for key, value in arrays.items())
            failed += worst > cases.TOLERANCE
            print(f"{path.name}: {worst:.1e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
