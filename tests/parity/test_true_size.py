"""The loader asks for exactly the weights of openbmb/VoxCPM2, without holding any of them.

`voxcpm2_weights.tsv` lists the 577 + 312 official names and shapes (`{0..27}` stands for a layer
index), `voxcpm2_config.json` is the official configuration. Running at that size takes minutes and
gigabytes: `true_size.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from torch import Tensor

from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.model import VoxCPM2
from voxcli.models.voxcpm2.sources import VAE_PREFIX, Source

HERE = Path(__file__).parent


class ShapeSource(Source):
    """Tensors without memory."""

    def __init__(self) -> None:
        super().__init__(torch.device("meta"), torch.bfloat16)
        self.shapes: dict[str, tuple[int, ...]] = {}

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        assert name not in self.shapes, f"{name} was read twice"
        self.shapes[name] = shape
        return torch.empty(shape, device="meta")


def official_shapes() -> dict[str, tuple[int, ...]]:
    shapes = {}
    for line in (HERE / "voxcpm2_weights.tsv").read_text("utf-8").splitlines():
        name, shape = line.split("\t")
        layers = re.search(r"\{0\.\.(\d+)\}", name)
        for index in range(int(layers[1]) + 1 if layers else 1):
            full = name.replace(layers[0], str(index)) if layers else name
            shapes[full] = tuple(json.loads(shape))
    return shapes


def test_the_loader_asks_for_every_official_weight_and_no_other() -> None:
    config = json.loads((HERE / "voxcpm2_config.json").read_text("utf-8"))
    source = ShapeSource()
    with torch.inference_mode():
        VoxCPM2(VoxCPM2Config.from_dict(config), source, None)
    official = official_shapes()
    assert sum(not name.startswith(VAE_PREFIX) for name in official) == 577
    assert sum(name.startswith(VAE_PREFIX) for name in official) == 312
    assert source.shapes == official
