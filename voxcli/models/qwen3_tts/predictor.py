"""The code predictor: codes 1 to 15 of a frame from the talker's state and code 0.

Per frame an empty cache and 16 positions: the talker's state, then codes 0 to 14. Position 1 gives
code 1, and so on; code 15 is not heard here. Nothing is kept from frame to frame.

Embeddings of codes are kept as the predictor hears them: where it is narrower than the talker, the
projection of every code is computed once, when the weights are loaded.

Source: QwenLM/Qwen3-TTS@022e286b `core/models/modeling_qwen3_tts.py` (Apache-2.0).

Letters: `B` rows, `K` codebooks, `V` codes a book, `D` width, `T` width of the talker.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.models.qwen3_tts.backbone import FrameStack, load_blocks
from voxcli.models.qwen3_tts.sizes import PredictorConfig
from voxcli.models.sources import Source

PREFIX = "talker.code_predictor"
PROJECTED_AT_ONCE = 4096  # codes; bounds what loading needs

Choose = Callable[[int, Tensor], Tensor]  # codebook and scores float32 [B, V] to codes int64 [B]


class Predictor:
    """See the module.

    Args:
        embeddings: `[K V, T]`, of all codes, as the talker hears them: books 0, 1, …
        kind: who computes its layers.

    Attributes:
        embedding: `[(K - 1) V, D]`, of all codes but the last book's, as they are heard here.
    """

    def __init__(
        self, source: Source, config: PredictorConfig, embeddings: Tensor,
        kind: type[FrameStack] = FrameStack,
    ) -> None:  # fmt: skip
        D, V, K = config.hidden_size, config.vocab_size, config.num_code_groups
        T = embeddings.shape[1]
        self.num_codes = V
        # NOTE: where both are as wide, the official class has no projection and the file no key
        name = f"{PREFIX}.small_to_mtp_projection"
        self.project = source.linear(name, D, T) if T != D else None
        heard = embeddings[: (K - 1) * V]
        if self.project is not None:
            heard = torch.cat([self.project(part) for part in heard.split(PROJECTED_AT_ONCE)])
        self.embedding = heard
        self.stack = kind(
            config,
            load_blocks(source, f"{PREFIX}.model", config),
            source.take(f"{PREFIX}.model.norm.weight", D),
            num_positions=K,
        )
        self.heads = [
            source.linear(f"{PREFIX}.lm_head.{book}", V, D, bias=False) for book in range(K - 1)
        ]

    def __call__(self, hidden: Tensor, code0: Tensor, choose: Choose) -> Tensor:
        """The other codes of a frame.

        Args:
            hidden: `[B, T]`, the talker's state that gave code 0.
            code0: int64 `[B]`.
            choose: called for books 1, 2, … in order.

        Returns:
            int64 `[B, K - 1]`.
        """
        cache = self.stack.new_cache(len(hidden))
        state = hidden if self.project is None else self.project(hidden)
        heard = F.embedding(code0, self.embedding)
        x = self.stack.first(torch.stack((state, heard), dim=1), cache)
        codes: list[Tensor] = []
        for book, head in enumerate(self.heads, start=1):
            if book > 1:
                heard = F.embedding(codes[-1] + (book - 1) * self.num_codes, self.embedding)
                x = self.stack.step(heard, cache, book)
            codes.append(choose(book, head(x).float()))
        return torch.stack(codes, dim=1)
