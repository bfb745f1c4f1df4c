"""The talker: text and frames so far to a state, and scores of the next frame's code 0.

What it hears at a position is a sum: the embedding of a text id, projected, and on the codec track
the embedding of a codec id, of the 16 codes of a frame, or a vector that stands for a voice.

Source: QwenLM/Qwen3-TTS@022e286b `core/models/modeling_qwen3_tts.py` (Apache-2.0).

Letters: `B` rows, `K` codebooks, `V` codes a book, `C` codec ids, `T` width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.layers.sampling import penalised
from voxcli.models.qwen3_tts.backbone import SlotStack, load_blocks
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.sizes import TalkerConfig
from voxcli.models.sources import Source

PREFIX = "talker"
PROJECTED_AT_ONCE = 8192  # text ids; bounds what loading needs
MIN_TOKENS = 2  # the official code forbids the end before so many codes


class TextEmbedding:
    """Text ids to what the talker hears of them.

    A table of all ids on a card, where it takes no time to make; on a CPU that would take half a
    minute, so there the projection runs for the ids that come.
    """

    def __init__(self, source: Source, config: TalkerConfig) -> None:
        inner, name = config.text_hidden_size, f"{PREFIX}.text_projection"
        table = source.take(f"{PREFIX}.model.text_embedding.weight", config.text_vocab_size, inner)
        self._inner = source.linear(f"{name}.linear_fc1", inner, inner)
        self._outer = source.linear(f"{name}.linear_fc2", config.hidden_size, inner)
        self._is_projected = source.device.type != "cpu"
        if self._is_projected:
            table = torch.cat([self._project(part) for part in table.split(PROJECTED_AT_ONCE)])
        self.table = table

    def _project(self, x: Tensor) -> Tensor:
        return self._outer(F.silu(self._inner(x)))

    def __call__(self, ids: Tensor) -> Tensor:
        """`[...] -> [..., T]`."""
        embedded = F.embedding(ids, self.table)
        return embedded if self._is_projected else self._project(embedded)


class Talker:
    """See the module.

    Args:
        kind: who computes its layers.

    Attributes:
        embeddings: `[K V + C - V, T]`: the codes of all books, book by book, then the codec ids
            that are no codes. Those of book 0 are the first V codec ids.
        min_tokens: the end is forbidden before so many codes 0.
        is_end, is_never: bool `[C]`, the id of the end and the ids that may never come.
    """

    def __init__(
        self, source: Source, config: Qwen3TTSConfig, kind: type[SlotStack] = SlotStack
    ) -> None:
        talker, predictor = config.talker, config.predictor
        width, V, K = talker.hidden_size, predictor.vocab_size, talker.num_code_groups
        C = talker.vocab_size
        codec = source.take(f"{PREFIX}.model.codec_embedding.weight", C, width)
        books = [
            source.take(f"{PREFIX}.code_predictor.model.codec_embedding.{book}.weight", V, width)
            for book in range(K - 1)
        ]
        self.embeddings = torch.cat((codec[:V], *books, codec[V:]))
        self.text = TextEmbedding(source, talker)
        self.stack = kind(
            talker,
            load_blocks(source, f"{PREFIX}.model", talker),
            source.take(f"{PREFIX}.model.norm.weight", width),
            talker.max_position_embeddings,
        )
        self.head = source.linear(f"{PREFIX}.codec_head", C, width, bias=False)
        self.end_id = talker.codec_eos_token_id
        self.min_tokens = MIN_TOKENS
        self.num_books, self.num_codes = K, V
        device = source.device
        self._first_of_book = torch.arange(K, device=device) * V
        first, end = talker.suppressed
        ids = torch.arange(C, device=device)
        self.is_end = ids == self.end_id
        self.is_never = (ids >= first) & (ids < end) & ~self.is_end

    def codes_of_books(self) -> Tensor:
        """`[K V, T]`, the embeddings of all codes, book by book; no copy."""
        return self.embeddings[: self.num_books * self.num_codes]

    def hear_codec(self, ids: Tensor) -> Tensor:
        """Codec ids `[...]` to `[..., T]`."""
        behind = (self.num_books - 1) * self.num_codes
        return F.embedding(torch.where(ids < self.num_codes, ids, ids + behind), self.embeddings)

    def hear_frames(self, frames: Tensor) -> Tensor:
        """Frames `[..., K]` to `[..., T]`."""
        return F.embedding(frames + self._first_of_book, self.embeddings).sum(-2)

    def scores(self, hidden: Tensor, seen: Tensor, penalty: Tensor, num_tokens: Tensor) -> Tensor:
        """Scores of code 0, float32 `[B, C]`; -inf for ids that may not come.

        Args:
            hidden: `[B, T]`.
            seen: bool `[B, C]`, the codes 0 so far.
            penalty: float32 `[B]`, on those.
            num_tokens: int64 `[B]`, how many codes 0 there are so far.
        """
        scores = penalised(self.head(hidden).float(), seen, penalty)
        is_early = (num_tokens < self.min_tokens).unsqueeze(1)
        return scores.masked_fill(self.is_never | (self.is_end & is_early), -torch.inf)
