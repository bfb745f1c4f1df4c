"""hibari as a teacher: a line to speech and durations, on one core, in its own voice or another.

`hibari-tts` (PyPI, Apache-2.0) distils one voice of Kokoro; its phones are Kokoro's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from recipes.train_mini.speakers import Throat, through

FRAME = 300  # samples
MAX_PHONES = 400
DURATIONS = "/CumSum_output_0"  # ends of the phones, in units of two frames


class Phones:
    """Text to the ids that both teachers speak."""

    def __init__(self, folder: Path) -> None:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        from hibari import Hibari

        self._teacher: Any = Hibari()

    def __call__(self, text: str) -> list[int]:
        """Ids with a 0 at both ends; several sentences are one line."""
        ids = self._teacher.ids(" ".join(self._teacher.phonemize(text)))
        return [int(each) for each in ids]


class HibariTeacher:
    """Speaks in its own voice, or through a throat."""

    def __init__(self, folder: Path) -> None:
        import onnx
        import onnxruntime

        self.phones = Phones(folder)
        from hibari import dsp

        self._dsp = dsp
        model = onnx.load(folder / "hibari" / "assets" / "hibari.onnx")
        ends = onnx.helper.make_tensor_value_info(DURATIONS, onnx.TensorProto.INT64, None)
        model.graph.output.append(ends)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def __call__(
        self, ids: list[int], throat: Throat | None, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """float32 samples at 24 kHz, and the samples of each phone."""
        speed = 1.0 if throat is None else throat.speed
        *spectra, ends = self._session.run(
            None, {"ids": np.array([ids], np.int64), "speed": np.array([speed], np.float32)}
        )
        spectra = [each[0] for each in spectra]
        if throat is not None:
            spectra = through(throat, tuple(spectra))
        samples = self._dsp.synth(*spectra, random)
        return samples, np.diff(ends.reshape(-1), prepend=0) * 2 * FRAME
