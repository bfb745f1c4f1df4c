"""The same layers and the same step over fused kernels: what runs on CUDA in bf16 and in fp8.

Each class overrides only how its parent computes; weights, state and results (up to rounding) are
the parent's, so the parent is the reference. `supports` says where.

A frame of the predictor is 15 passes over five layers of few rows, so what counts is the number of
kernels: five a layer, and two for a code, one of which draws it and fetches its embedding.

Letters: `B` rows, `D` width, `H` query heads, `G` key/value heads, `K` codebooks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from voxcli import kernels
from voxcli.models.causal import Block, FusedCausalLayers, finish
from voxcli.models.data import Rows, StepOutput
from voxcli.models.kv_cache import KVCache
from voxcli.models.qwen3_tts.backbone import FrameStack, SlotStack
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.predictor import Predictor
from voxcli.models.qwen3_tts.sizes import StackConfig
from voxcli.models.qwen3_tts.step import SlotState, Step
from voxcli.models.qwen3_tts.talker import Talker

HEAD_DIMS = (32, 64, 128)
MAX_ROWS = 128  # of a step


def supports(config: Qwen3TTSConfig, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the fused layers can run a model."""

    def fits(stack: StackConfig) -> bool:
        widths = stack.hidden_size, stack.intermediate_size
        return stack.head_dim in HEAD_DIMS and all(width % 32 == 0 for width in widths)

    is_whole = config.talker.vocab_size % 4 == 0 and config.predictor.vocab_size % 4 == 0
    return (
        kernels.is_available(device)
        and dtype == torch.bfloat16
        and is_whole
        and fits(config.talker)
        and fits(config.predictor)
    )


class FusedSlotStack(FusedCausalLayers, SlotStack):
    """`SlotStack` over fused kernels."""


class FusedFrameStack(FrameStack):
    """`FrameStack` in five kernels a layer and position.

    Its methods write over what they are given, and return what is not normalised yet: `scores` is
    the norm and a product.
    """

    def __init__(
        self, config: StackConfig, blocks: list[Block], norm: Tensor, num_positions: int
    ) -> None:
        from voxcli.kernels.attention import Scratch

        super().__init__(config, blocks, norm, num_positions)
        device = norm.device
        self._slots = torch.arange(MAX_ROWS, device=device)
        rows = torch.arange(2 * MAX_ROWS, device=device)  # of the first two positions
        self._first_slots, self._first_positions = rows // 2, rows % 2
        self._first_tiles = torch.stack((rows[::2], rows[::2] + 2), dim=1)
        positions = torch.arange(num_positions, device=device)
        self._positions = positions.unsqueeze(1).expand(-1, MAX_ROWS).contiguous()
        # all positions are in one chunk, so nothing is handed from program to program
        self._scratch = Scratch(
            1, num_positions, self.num_kv_heads, self.num_heads // self.num_kv_heads,
            self.head_dim, device, chunk=max(16, 1 << (num_positions - 1).bit_length()),
        )  # fmt: skip

    def first(self, x: Tensor, cache: KVCache) -> Tensor:
        from voxcli.kernels.attention import prompt_attention
        from voxcli.kernels.linear import rms_linear

        B = len(x)
        slots, positions = self._first_slots[: 2 * B], self._first_positions[: 2 * B]
        x = x.flatten(0, 1)
        for layer, block in enumerate(self.blocks):
            qkv = rms_linear(x, block.input_norm, self.eps, block.qkv.weight)
            attended = prompt_attention(
                qkv, self.rotation, cache.keys[layer], cache.values[layer], slots, positions,
                self._first_tiles[:B], self.num_heads, self.scale, block.head_norm, self.eps,
            )  # fmt: skip
            if block is self.blocks[-1]:  # nobody reads position 0 any more
                attended, x = attended[1::2].contiguous(), x[1::2].contiguous()
            x = finish(block, attended, x, self.eps)
        return x

    def step(self, x: Tensor, cache: KVCache, position: int) -> Tensor:
        from voxcli.kernels.attention import decode_attention
        from voxcli.kernels.linear import rms_linear

        B = len(x)
        slots, positions = self._slots[:B], self._positions[position, :B]
        for layer, block in enumerate(self.blocks):
            qkv = rms_linear(x, block.input_norm, self.eps, block.qkv.weight)
            attended = decode_attention(
                qkv, self.rotation, cache.keys[layer], cache.values[layer], slots, positions,
                self.num_heads, self.scale, self._scratch, block.head_norm, self.eps,
            )  # fmt: skip
            x = finish(block, attended, x, self.eps)
        return x

    def scores(self, x: Tensor, head: Tensor) -> Tensor:
        """`[B, D] -> [B, V]`."""
        from voxcli.kernels.linear import rms_linear

        return rms_linear(x, self.norm, self.eps, head)


class FusedStep(Step):
    """`Step` whose codes are drawn where their scores are, without a word to the host."""

    def __init__(self, talker: Talker, predictor: Predictor) -> None:
        from voxcli.kernels.codes import ALWAYS, END, NEVER

        super().__init__(talker, predictor)
        kinds = torch.where(talker.is_never, NEVER, ALWAYS)
        self._kinds = torch.where(talker.is_end, END, kinds).to(torch.int8)

    def generate(self, state: SlotState, rows: Rows) -> StepOutput:
        from voxcli.kernels.codes import Draws, History, draw
        from voxcli.kernels.linear import linear

        stack, predictor, V = self.predictor.stack, self.predictor, self.num_codes
        assert isinstance(stack, FusedFrameStack)
        hidden = state.hidden[rows.slots]
        B = len(hidden)
        is_greedy, is_predictor_greedy = rows.key
        settings = [
            (rows.inputs[f"{prefix}temperature"], rows.inputs[f"{prefix}top_k"],
             rows.inputs[f"{prefix}top_p"])
            for prefix in ("", "predictor_")
        ]  # fmt: skip
        first = Draws(rows.seeds, rows.steps, *settings[0], is_greedy)
        others = Draws(rows.seeds, rows.steps, *settings[1], is_predictor_greedy)
        frames = rows.slots.new_empty(B, self.num_books)
        x = hidden.new_empty(B, 2, predictor.embedding.shape[1])
        ends = torch.empty(B, dtype=torch.bool, device=hidden.device)
        history = History(
            rows.slots, state.seen, rows.inputs["repetition_penalty"], self._kinds,
            self.talker.min_tokens, ends,
        )  # fmt: skip
        scores = linear(hidden, self.talker.head.weight)
        draw(scores, first, 0, frames, predictor.embedding[:V], x[:, 1], history)
        project = predictor.project
        x[:, 0] = hidden if project is None else linear(hidden, project.weight, project.bias)
        cache = stack.new_cache(B)
        said = stack.first(x, cache)
        for book, head in enumerate(predictor.heads, start=1):
            scores = stack.scores(said, head.weight)
            if book == len(predictor.heads):
                draw(scores, others, book, frames)
                break
            heard = torch.empty_like(said)
            table = predictor.embedding[book * V : (book + 1) * V]
            draw(scores, others, book, frames, table, heard)
            said = stack.step(heard, cache, book + 1)
        return StepOutput(frames, ends, ~ends)

    def advance(self, state: SlotState, rows: Rows, frames: Tensor) -> None:
        from voxcli.kernels.codes import hear

        talker = self.talker
        x = hear(
            frames, talker.embeddings, talker.text.table, rows.inputs["text_id"], self.num_codes,
            state.seen, rows.slots,
        )  # fmt: skip
        state.hidden[rows.slots] = talker.stack.decode(x, state.cache, rows)
