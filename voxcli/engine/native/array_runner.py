"""A model in arrays, step by step: what runs where torch is not needed. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from voxcli.engine.native.request import Request
from voxcli.engine.native.running import (
    NUM_PREFIXES,
    PROMPT_POSITIONS,
    EagerRunner,
    Result,
    slot_of,
)
from voxcli.models.base import ArrayModel
from voxcli.models.data import HostRow


class ArrayRunner(EagerRunner):
    """See `EagerRunner`.

    Args:
        model: a loaded model.
        num_slots, num_positions: size of the state, allocated here and never again.
    """

    def __init__(self, model: ArrayModel, num_slots: int, num_positions: int) -> None:
        state = model.new_state(num_slots + NUM_PREFIXES, num_positions)
        super().__init__(model, state, num_slots, PROMPT_POSITIONS)

    def decode(self, requests: Sequence[Request]) -> list[Result]:
        model = self.model
        rows = [
            HostRow(slot_of(request), request.position, request.seed, request.step)
            for request in requests
        ]
        own = [model.row_values(each.prompt, each.parameters, each.step) for each in requests]
        frames, ends = model.decode(self.state, rows, own, requests[0].key)
        return [Result(*row) for row in zip(requests, frames, ends.tolist(), strict=True)]

    def _stack(self, frames: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
        return np.stack([np.stack(own) for own in frames])

    def _vocode(self, slots: Sequence[int], frames: np.ndarray) -> list[np.ndarray]:
        return list(self.model.vocode(self.state, slots, frames))
