"""A checkpoint in the official layout as the beginning of a training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from recipes.train_mini import codec_training, latents
from recipes.train_mini.codec import AudioVae
from recipes.train_mini.progress import save
from recipes.train_mini.settings import Settings


def language_weights(folder: Path) -> dict[str, Tensor]:
    """The language models' tensors; matrices in int8 times their scales."""
    held = load_file(folder / "model.safetensors")
    return {
        name: value.float() * held[f"{name}_scale"] if value.dtype == torch.int8 else value
        for name, value in held.items()
        if not name.endswith("_scale")
    }


def codec_weights(folder: Path) -> dict[str, Tensor]:
    """The AudioVAE's tensors in fp32, gains and directions as plain weights."""
    return plain(load_file(folder / "audiovae.safetensors"))


def plain(pairs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `codec.official` makes, undone."""
    weights = {}
    for name, value in pairs.items():
        value = value.float()
        if name.endswith(".weight_v"):
            stem = name.removesuffix("_v")
            size = torch.linalg.vector_norm(value, dim=(1, 2), keepdim=True).clamp(min=1e-12)
            weights[stem] = value / size * pairs[f"{stem}_g"].float()
        elif not name.endswith(".weight_g"):
            weights[name] = value
    return weights


def adopt_codec(settings: Settings, folder: Path) -> None:
    """Begin with a checkpoint's AudioVAE, whose latents have been scaled already.

    Raises:
        SystemExit: there is a codec in the folder of work.
    """
    target = settings.work / codec_training.STATE
    if target.exists():
        raise SystemExit(f"{target} exists")
    vae = AudioVae(settings.codec)
    vae.load_state_dict(codec_weights(folder))
    save({"average": vae.state_dict(), "ages": (0, 0, 0)}, target)
    save(torch.ones(settings.codec.latent_dim), settings.work / latents.DEVIATIONS)
