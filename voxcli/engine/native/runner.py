"""The border between host and device: every tensor is made, moved and read back here.

`ModelRunner` runs the model eagerly over its slot state. A runner that replays captured graphs has
the same methods, so nothing above this file knows the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from voxcli.engine.native.request import Request
from voxcli.engine.native.running import (
    NUM_PREFIXES,
    PROMPT_POSITIONS,
    EagerRunner,
    Result,
    equal_groups,
    slot_of,
)
from voxcli.models.base import SpeechModel
from voxcli.models.data import HostRow, Rows


class ModelRunner(EagerRunner):
    """Eager execution on any device, under any graph key.

    Args:
        model: a loaded model.
        device: where it is.
        num_slots, num_positions: size of the state, allocated here and never again.
    """

    def __init__(
        self, model: SpeechModel, device: torch.device, num_slots: int, num_positions: int
    ) -> None:
        with torch.inference_mode():
            state = model.new_state(num_slots + NUM_PREFIXES, num_positions)
        is_host = device.type == "cpu"
        # elsewhere a sum's rounding depends on how many rows a product has
        super().__init__(model, state, num_slots, PROMPT_POSITIONS if is_host else 0)
        self.device = device
        self.works_beside = is_host

    @torch.inference_mode()
    def prefill(self, requests: Sequence[Request], max_positions: int) -> None:
        super().prefill(requests, max_positions)

    @torch.inference_mode()
    def decode(self, requests: Sequence[Request]) -> list[Result]:
        """One step, complete when it returns."""
        model, key = self.model, requests[0].key
        host = [
            HostRow(slot_of(request), request.position, request.seed, request.step)
            for request in requests
        ]
        columns = self._tensor(list(zip(*host, strict=True)), torch.int64)
        slots, positions, seeds, steps = columns  # `[B]` each, as kernels read them: without gaps
        own = [model.row_values(each.prompt, each.parameters, each.step) for each in requests]
        output = model.decode(
            self.state,
            Rows(
                slots=slots,
                positions=positions,
                seeds=seeds,
                steps=steps,
                inputs={
                    each.name: self._tensor(column, getattr(torch, each.dtype))
                    for each, column in zip(model.row_inputs, zip(*own, strict=True), strict=True)
                },
                key=key,
                host=host if self.device.type == "cpu" else None,
            ),
        )
        ends = output.is_end.tolist()
        frames: Sequence[Tensor | None] = list(output.frames)
        if output.has_frame is not None:
            has_frame = output.has_frame.tolist()
            frames = [frame if has else None for frame, has in zip(frames, has_frame, strict=True)]
        return [Result(*row) for row in zip(requests, frames, ends, strict=True)]

    def _stack(self, frames: Sequence[Sequence[Tensor]]) -> Tensor:
        return torch.stack([torch.stack(list(own)) for own in frames])

    @torch.inference_mode()
    def _vocode(self, slots: Sequence[int], frames: Tensor) -> list[np.ndarray]:
        return list(self.model.vocode(self.state, slots, frames).cpu().numpy())

    def _vocoder_groups(self, requests: Sequence[Request]) -> list[list[Request]]:
        if self.works_beside:
            return super()._vocoder_groups(requests)
        return equal_groups(requests, len)

    def _tensor(self, values: Sequence[object], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)
