"""One decode step: a frame from the talker's state, and the next state from the frame.

In torch's own operations, the reference of `fused.py` and the path where no kernel runs. All of it
is tensors alone, but that the host's rows, where there are any, let a CPU do less.

Source: QwenLM/Qwen3-TTS@022e286b `core/models/modeling_qwen3_tts.py` (Apache-2.0). Difference:
noise is a function of seed, step and codebook.

Letters: `B` rows, `K` codebooks, `H` width of the talker.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from voxcli.layers.sampling import Filters, gumbel
from voxcli.models.data import Input, Rows, StepOutput
from voxcli.models.kv_cache import KVCache
from voxcli.models.qwen3_tts.code2wav import Code2WavState
from voxcli.models.qwen3_tts.predictor import Predictor
from voxcli.models.qwen3_tts.talker import Talker

# In the order of `Qwen3TTS.row_values`.
ROW_INPUTS = (
    Input("temperature", "float32"),
    Input("top_k"),
    Input("top_p", "float32"),
    Input("repetition_penalty", "float32"),
    Input("predictor_temperature", "float32"),
    Input("predictor_top_k"),
    Input("predictor_top_p", "float32"),
    Input("text_id"),
)


@dataclass
class SlotState:
    """Everything a running request has on the device, one row a slot.

    Attributes:
        cache: the talker's keys and values `[L, slots, G, N, C]`.
        hidden: `[slots, H]`; what the talker said last.
        seen: bool `[slots, codec ids]`; the codes 0 so far.
        code2wav: past inputs of the vocoder's layers.
    """

    cache: KVCache
    hidden: Tensor
    seen: Tensor
    code2wav: Code2WavState


def filters_of(rows: Rows, prefix: str = "") -> Filters:
    """The talker's, or those of a prefix."""
    return Filters(*(rows.inputs[f"{prefix}{name}"] for name in ("temperature", "top_k", "top_p")))


class Step:
    """See the module; the methods are those of `SpeechModel`."""

    def __init__(self, talker: Talker, predictor: Predictor) -> None:
        self.talker, self.predictor = talker, predictor
        self.num_codes, self.num_books = talker.num_codes, talker.num_books

    def generate(self, state: SlotState, rows: Rows) -> StepOutput:
        hidden = state.hidden[rows.slots]
        first = self._first_codes(state, rows, hidden)
        is_end = first == self.talker.end_id
        code0 = first.masked_fill(is_end, 0)  # a code for the layers; nobody hears it
        frames = torch.cat((code0.unsqueeze(1), self._other_codes(rows, hidden, code0)), dim=1)
        return StepOutput(frames, is_end, ~is_end)

    def _first_codes(self, state: SlotState, rows: Rows, hidden: Tensor) -> Tensor:
        """Code 0 of each row, or the end; int64 `[B]`."""
        is_greedy, _ = rows.key
        penalty = rows.inputs["repetition_penalty"]
        scores = self.talker.scores(hidden, state.seen[rows.slots], penalty, rows.steps)
        if is_greedy:
            return scores.argmax(-1)
        noise = self._noise(rows, range(1), scores.shape[-1])
        return (filters_of(rows)(scores) + noise[:, 0]).argmax(-1)

    def _other_codes(self, rows: Rows, hidden: Tensor, code0: Tensor) -> Tensor:
        """Codes 1 to K - 1 of each row; int64 `[B, K - 1]`."""
        _, is_greedy = rows.key
        if is_greedy:
            return self.predictor(hidden, code0, lambda book, scores: scores.argmax(-1))
        filters = filters_of(rows, "predictor_")
        noise = self._noise(rows, range(1, self.num_books), self.num_codes)
        return self.predictor(
            hidden,
            code0,
            lambda book, scores: (filters(scores) + noise[:, book - 1]).argmax(-1),
        )

    def _noise(self, rows: Rows, books: range, num_codes: int) -> Tensor:
        return gumbel(rows.seeds, rows.steps, books, num_codes, in_tensors=rows.host is None)

    def advance(self, state: SlotState, rows: Rows, frames: Tensor) -> None:
        # NOTE: not by `state.seen[…] = True`, whose True would be copied from the host
        places = rows.slots * state.seen.shape[1] + frames[:, 0]
        state.seen.view(-1).index_fill_(0, places, True)
        x = self.talker.hear_frames(frames) + self.talker.text(rows.inputs["text_id"])
        state.hidden[rows.slots] = self.talker.stack.decode(x, state.cache, rows)
