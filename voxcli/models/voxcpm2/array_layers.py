"""VoxCPM2's layers in arrays, over the compiled kernels: what speaks on a CPU without torch.

The classes are those of `backbone.py`, `acoustic.py` and `vae.py` in the forms that
`native_layers.py` and `native.py` give them, with the same bits. No torch.

Letters: `B` rows, `N` positions, `T` time steps, `D` width, `P` latent vectors a patch, `C`
channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from voxcli.kernels import arrays as kernels
from voxcli.kernels.arrays import Layer, Linear, Places
from voxcli.kernels.structs import Heads
from voxcli.layers import pages
from voxcli.layers.rotary import rotation_table
from voxcli.models.voxcpm2 import host
from voxcli.models.voxcpm2.config import TransformerConfig, VaeConfig
from voxcli.models.voxcpm2.host import KERNEL, MIN_SHARED


@dataclass(frozen=True)
class Block:
    """Weights of one layer; as `models.causal.Block`."""

    input_norm: np.ndarray
    qkv: Linear
    output: Linear
    mlp_norm: np.ndarray
    gate_up: Linear
    down: Linear


class Stack:
    """Layers and the norm behind them.

    Args:
        num_positions: rotary positions that there are.
    """

    def __init__(
        self, config: TransformerConfig, blocks: list[Block], norm: np.ndarray, num_positions: int
    ) -> None:
        self.config = config
        self.blocks = blocks
        self.norms = [*(block.input_norm for block in blocks), norm]
        self.scale, self.eps = config.residual_scale, config.rms_norm_eps
        self.heads = Heads(
            config.num_attention_heads, config.num_key_value_heads, config.head_dim,
            config.head_dim**-0.5,
        )  # fmt: skip
        self.rotation: np.ndarray | None = None
        if not config.no_rope:
            self.rotation = rotation_table(
                num_positions, config.head_dim, theta=config.rope_theta,
                factors=config.rope_factors, amplitude=config.rope_amplitude,
            )  # fmt: skip

    @cached_property
    def layers(self) -> list[Layer]:
        """The same for a whole layer a call."""
        return [
            Layer(
                (block.qkv, block.output, block.gate_up, block.down),
                (block.input_norm, block.mlp_norm, next_norm), self.rotation, self.heads,
                residual_scale=self.scale, eps=self.eps,
            )
            for block, next_norm in zip(self.blocks, self.norms[1:], strict=True)
        ]  # fmt: skip

    @cached_property
    def together(self) -> kernels.Stack:
        """All of them in one call."""
        return kernels.Stack(self.layers)


@dataclass
class Repeats:
    """Calls of a `LocalStack` one behind the other; as `backbone.Repeats`."""

    changed: np.ndarray
    known: np.ndarray | None = None


class LocalStack(Stack):
    """Bidirectional layers over the few positions of one patch."""

    def __call__(self, x: np.ndarray, keep: slice, repeats: Repeats | None = None) -> np.ndarray:
        """`[B, N, D] -> [B, len(keep), D]`; as `backbone.LocalStack`."""
        B, N, _ = x.shape
        known, changed = None, None
        if repeats is not None:
            known, changed = repeats.known, repeats.changed
            if known is None:
                known, changed = kernels.empty(B, N, self.heads.width), None
                repeats.known = known
        if B * N < MIN_SHARED:
            return self.together.local(x, keep, known, changed)
        normed = None if known is not None else kernels.norm(x, self.norms[0], self.eps)
        for layer in self.layers:
            kept = keep if layer is self.layers[-1] else slice(None)
            x, normed = layer.local(x, normed, kept, known, changed)
            known, changed = None, None
        assert normed is not None
        return normed


@dataclass(frozen=True)
class Cache:
    """Keys and values, `[L, slots, G, N, C]`."""

    keys: np.ndarray
    values: np.ndarray


class CausalStack(Stack):
    """A language model over slots."""

    def new_cache(self, num_slots: int, num_positions: int) -> Cache:
        heads = self.heads
        shape = len(self.blocks), num_slots, heads.num_kv_heads, num_positions, heads.head_dim
        return Cache(pages.zeros(*shape), pages.zeros(*shape))

    def __call__(
        self, x: np.ndarray, cache: Cache, places: Places, kept: np.ndarray | None = None
    ) -> np.ndarray:
        """One position of each row, in their order; `[B, D] -> [B, D]`, or of rows `kept` alone."""
        assert int(places.positions.max()) < cache.keys.shape[3], places
        if len(x) < MIN_SHARED:
            every = self.together.causal(x, cache.keys, cache.values, places)
            return every if kept is None else every[kept]
        normed = kernels.norm(x, self.norms[0], self.eps)
        for index, layer in enumerate(self.layers):
            x, normed = layer.causal(
                x, normed, cache.keys[index], cache.values[index], places,
                kept if layer is self.layers[-1] else None,
            )  # fmt: skip
        return normed


# ---------------------------------------------------------------- acoustic parts


class LocalEncoder:
    """One patch to one embedding for the language models."""

    def __init__(self, special_token: np.ndarray, in_proj: Linear, stack: LocalStack) -> None:
        self.special_token = special_token  # [width]
        self.in_proj = in_proj
        self.stack = stack

    def __call__(self, patches: np.ndarray) -> np.ndarray:
        """`[B, P, D] -> [B, width]`."""
        B, P, _ = patches.shape
        x = kernels.empty(B, P + 1, self.in_proj.out_features)
        x[:, 0] = self.special_token
        x[:, 1:] = self.in_proj(patches)
        return self.stack(x, slice(0, 1))[:, 0]


class ScalarQuantizer:
    """Finite scalar quantisation."""

    def __init__(self, in_proj: Linear, out_proj: Linear, scale: int) -> None:
        self.in_proj = in_proj
        self.out_proj = out_proj
        self.scale = scale

    def __call__(self, hidden: np.ndarray) -> np.ndarray:
        return self.out_proj(host.quantize(self.in_proj(hidden), self.scale))


@dataclass(frozen=True)
class TimeMlp:
    linear_1: Linear
    linear_2: Linear

    def __call__(self, embedding: np.ndarray) -> np.ndarray:
        return self.linear_2(host.silu(self.linear_1(embedding)))


@dataclass(frozen=True)
class Schedule:
    """Times and time embeddings of one number of solver steps; as `acoustic.Schedule`."""

    step_sizes: list[float]
    embeddings: np.ndarray


@dataclass(frozen=True)
class LocalDiT:
    """The velocity field of one patch, and the Euler solver that integrates it."""

    in_proj: Linear
    cond_proj: Linear
    out_proj: Linear
    time_mlp: TimeMlp
    delta_time_mlp: TimeMlp
    stack: LocalStack
    width: int
    is_mean_mode: bool

    def schedule(self, num_steps: int) -> Schedule:
        """The schedule of `num_steps`, computed at its first use."""
        if num_steps not in self._schedules:
            sizes, (times, deltas) = host.solver_times(num_steps, is_mean_mode=self.is_mean_mode)
            embeddings = self.time_mlp(host.sinusoids(times, self.width))
            embeddings += self.delta_time_mlp(host.sinusoids(deltas, self.width))
            self._schedules[num_steps] = Schedule(sizes, embeddings)
        return self._schedules[num_steps]

    @cached_property
    def _solver(self) -> kernels.Solver:
        products = self.in_proj, self.cond_proj, self.out_proj
        return kernels.Solver(self.stack.together, products)

    @cached_property
    def _schedules(self) -> dict[int, Schedule]:
        return {}

    def solve(
        self, noise: np.ndarray, mu: np.ndarray, cond: np.ndarray, num_steps: int,
        guidance: np.ndarray | None,
    ) -> np.ndarray:  # fmt: skip
        """Integrate from noise to a patch; see `acoustic.LocalDiT.solve`."""
        schedule = self.schedule(num_steps)
        (B, P, _), times = noise.shape, 1 if guidance is None else 2
        first = mu.shape[1] + 1 + P
        if guidance is None and B * (first + P) < MIN_SHARED:
            return self._solver(noise, mu, cond, schedule.embeddings, schedule.step_sizes)
        tokens = kernels.empty(times * B, first + P, self.width)
        tokens[:B, : mu.shape[1]] = mu
        tokens[B:, : mu.shape[1]] = 0
        projected_cond = self.cond_proj(cond)
        repeats = Repeats(np.array([mu.shape[1], *range(first, first + P)]))
        x = noise
        for size, time in zip(schedule.step_sizes, schedule.embeddings, strict=True):
            tokens[:, mu.shape[1]] = time
            projected = self.in_proj(x)
            for rows in (slice(B), slice(B, None)):
                tokens[rows, mu.shape[1] + 1 : first] = projected_cond[: len(tokens[rows])]
                tokens[rows, first:] = projected[: len(tokens[rows])]
            velocity = self.out_proj(self.stack(tokens, slice(first, None), repeats))
            if guidance is not None:
                velocity = host.guide(velocity[:B], velocity[B:], guidance)
            x = host.move(x, velocity, size)
        return x


# ---------------------------------------------------------------- the vocoder


@dataclass(frozen=True)
class DecoderBlock:
    """As `vae.DecoderBlock`, with Snake's tables `[2, W]`."""

    snake: np.ndarray
    upsample: Linear
    units: kernels.Units
    dilations: tuple[int, ...]
    channels: int  # behind it


@dataclass(frozen=True)
class Decoder:
    """Latents to samples, streaming; as `native.NativeDecoder`."""

    config: VaeConfig
    first_taps: np.ndarray
    expand: Linear
    blocks: list[DecoderBlock]
    last_snake: np.ndarray
    last_taps: np.ndarray
    last_bias: float

    def new_state(self, num_slots: int) -> list[np.ndarray]:
        """Past inputs of each convolution, `[slots, context, C]`, in the order they are used."""
        past, channels = KERNEL - 1, self.config.decoder_dim
        shapes = [(past, self.config.latent_dim)]
        for block in self.blocks:
            shapes.append((1, channels))
            channels = block.channels
            shapes += [(past * dilation, channels) for dilation in block.dilations]
        shapes.append((past, channels))
        return [np.zeros((num_slots, *shape), np.float32) for shape in shapes]

    def __call__(
        self, latents: np.ndarray, contexts: Sequence[np.ndarray], slots: np.ndarray
    ) -> np.ndarray:
        """`[B, T, D]` to `[B, T * decoder_hop]`; the contexts of `slots` are replaced."""
        own = iter(contexts)
        B = len(latents)
        x = self.expand(kernels.depthwise(latents, self.first_taps, 1, next(own), slots))
        for block in self.blocks:
            x = block.upsample(kernels.pairs(x, block.snake, next(own), slots))
            x = x.reshape(B, -1, block.channels)  # [B, T, s C] -> [B, T s, C]
            x = block.units(x, [next(own) for _ in block.dilations], slots)
        return kernels.last(x, self.last_snake, self.last_taps, self.last_bias, next(own), slots)
