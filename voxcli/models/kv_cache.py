"""Keys and values of requests in slots, and views of one request's on a CPU.

Letters: `L` layers, `G` key/value heads, `N` positions, `C` head width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from voxcli.layers.memory import zeros

if TYPE_CHECKING:
    from voxcli.kernels.attention import Scratch


@dataclass
class KVCache:
    """Keys and values of every slot.

    Attributes:
        keys, values: `[L, slots, G, N, C]`.
        scratch: of the attention kernel; holds nothing between calls.
    """

    keys: Tensor
    values: Tensor
    scratch: Scratch | None = None

    @classmethod
    def zeroed(
        cls, num_layers: int, num_slots: int, num_heads: int, num_positions: int, head_dim: int,
        dtype: torch.dtype, device: torch.device,
    ) -> KVCache:  # fmt: skip
        """On CPU its pages cost no memory until a request writes them."""
        shape = (num_layers, num_slots, num_heads, num_positions, head_dim)
        return cls(zeros(shape, dtype, device), zeros(shape, dtype, device))

    def add_scratch(self, num_query_heads: int) -> None:
        """What `kernels.attention.decode_attention` needs."""
        from voxcli.kernels.attention import Scratch

        _, num_slots, G, num_positions, C = self.keys.shape
        self.scratch = Scratch(
            num_slots, num_positions, G, num_query_heads // G, C, self.keys.device
        )


@dataclass(frozen=True)
class Past:
    """Views of one slot's cache, a layer each: all up to a position, and the position itself."""

    keys: tuple[Tensor, ...]  # [G, N, C]
    values: tuple[Tensor, ...]
    new_keys: tuple[Tensor, ...]  # [G, C]
    new_values: tuple[Tensor, ...]

    @classmethod
    def of(cls, cache: KVCache, slot: int, position: int) -> Past:
        return cls(
            cache.keys[:, slot, :, : position + 1].unbind(0),
            cache.values[:, slot, :, : position + 1].unbind(0),
            cache.keys[:, slot, :, position].unbind(0),
            cache.values[:, slot, :, position].unbind(0),
        )
