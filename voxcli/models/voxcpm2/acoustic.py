"""The acoustic parts around the language models: LocEnc, FSQ, LocDiT and its flow-matching solver.

Source: OpenBMB/VoxCPM `modules/locenc`, `modules/locdit`, `modules/layers` (Apache-2.0); CFG-Zero*
(arXiv:2503.18886). Differences: time embeddings are computed once a schedule; the last layer runs
only the positions that are read; the unconditional half is not computed without guidance; the
schedule is fp32 whatever the weights are.

Letters: `B` rows, `P` latent vectors a patch, `D` latent width, `W` LocDiT width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.kernels.native_product import NativeLinear
from voxcli.layers.linear import Linear
from voxcli.models.voxcpm2 import host
from voxcli.models.voxcpm2.backbone import LocalStack, Repeats


class LocalEncoder:
    """One patch to one embedding for the language models."""

    def __init__(self, special_token: Tensor, in_proj: Linear, stack: LocalStack) -> None:
        self.special_token = special_token  # [1, 1, width]
        self.in_proj = in_proj
        self.stack = stack

    def __call__(self, patches: Tensor) -> Tensor:
        """`[B, P, D] -> [B, width]`."""
        special = self.special_token.expand(len(patches), -1, -1)
        x = torch.cat((special, self.in_proj(patches)), dim=1)  # [B, 1 + P, width]
        return self.stack(x, slice(0, 1)).squeeze(1)


class ScalarQuantizer:
    """Finite scalar quantisation: `2 * scale + 1` levels a dimension."""

    def __init__(self, in_proj: Linear, out_proj: Linear, scale: int) -> None:
        self.in_proj = in_proj
        self.out_proj = out_proj
        self.scale = scale

    def __call__(self, hidden: Tensor) -> Tensor:
        x = self.in_proj(hidden)
        if is_host(self.in_proj):
            return self.out_proj(torch.from_numpy(host.quantize(x.numpy(), self.scale)))
        return self.out_proj(torch.round(torch.tanh(x) * self.scale) / self.scale)


@dataclass(frozen=True)
class TimeMlp:
    linear_1: Linear
    linear_2: Linear

    def __call__(self, embedding: Tensor) -> Tensor:
        return self.linear_2(silu_of(self.linear_1, embedding))


@dataclass(frozen=True)
class Schedule:
    """Times and time embeddings of one number of solver steps.

    Attributes:
        step_sizes: how far each evaluated step moves, fp32.
        sizes: the same on the device, `[evaluations]`.
        embeddings: `[evaluations, W]`, the time token of each.
    """

    step_sizes: list[float]
    sizes: Tensor
    embeddings: Tensor


def sinusoids(times: Tensor, width: int) -> Tensor:
    """`[n] -> [n, width]`, sines then cosines."""
    return torch.from_numpy(host.sinusoids(times.cpu().numpy(), width))


def is_host(product: Linear) -> bool:
    """Whether arrays compute what is behind a product, with the bits of a model without torch."""
    return isinstance(product, NativeLinear)


def silu_of(product: Linear, x: Tensor) -> Tensor:
    """SiLU of what a product makes of `x`."""
    y = product(x)
    return torch.from_numpy(host.silu(y.numpy())) if is_host(product) else F.silu(y)


class LocalDiT:
    """The velocity field of one patch, and the Euler solver that integrates it."""

    def __init__(
        self,
        in_proj: Linear,
        cond_proj: Linear,
        out_proj: Linear,
        time_mlp: TimeMlp,
        delta_time_mlp: TimeMlp,
        stack: LocalStack,
        *,
        width: int,
        is_mean_mode: bool,
    ) -> None:
        self.in_proj = in_proj
        self.cond_proj = cond_proj
        self.out_proj = out_proj
        self.time_mlp = time_mlp
        self.delta_time_mlp = delta_time_mlp
        self.stack = stack
        self.width = width
        self.is_mean_mode = is_mean_mode
        self._schedules: dict[int, Schedule] = {}

    def schedule(self, num_steps: int) -> Schedule:
        """The schedule of `num_steps`, computed at its first use."""
        if num_steps not in self._schedules:
            sizes, told = host.solver_times(num_steps, is_mean_mode=self.is_mean_mode)
            norm = self.stack.norm

            def embed(values: np.ndarray) -> Tensor:
                embedded = torch.from_numpy(host.sinusoids(values, self.width))
                return embedded.to(norm.device, norm.dtype)

            times, deltas = told
            embeddings = self.time_mlp(embed(times)) + self.delta_time_mlp(embed(deltas))
            self._schedules[num_steps] = Schedule(
                sizes, torch.tensor(sizes, device=norm.device), embeddings
            )
        return self._schedules[num_steps]

    def velocity(
        self, x: Tensor, prefix: Tensor, time: Tensor, cond: Tensor, repeats: Repeats
    ) -> Tensor:
        """Velocity of `x [B, P, W]` (projected) under `prefix [B, 2, W]`; `[B, P, D]`."""
        tokens = torch.cat((prefix, time.expand(len(x), 1, -1), cond, x), dim=1)
        first = tokens.shape[1] - x.shape[1]
        return self.out_proj(self.stack(tokens, slice(first, None), repeats))

    def solve(
        self, noise: Tensor, mu: Tensor, cond: Tensor, num_steps: int, cfg: Tensor | None
    ) -> Tensor:
        """Integrate from noise to a patch.

        Args:
            noise: `[B, P, D]`.
            mu: `[B, 2, W]`, what the two language models ask for.
            cond: `[B, P, D]`, the patch before.
            num_steps: Euler steps; the first ones have velocity zero and cost nothing.
            cfg: guidance `[B]`, or None for no guidance at all.

        Returns:
            `[B, P, D]`.
        """
        schedule = self.schedule(num_steps)
        projected_cond = self.cond_proj(cond)
        if cfg is not None:
            mu = torch.cat((mu, torch.zeros_like(mu)))
            projected_cond = torch.cat((projected_cond, projected_cond))
        num_fixed, P = mu.shape[1], cond.shape[1]
        places = range(num_fixed + 1 + 2 * P)  # of mu, time, the condition and x
        repeats = Repeats(torch.tensor([num_fixed, *places[-P:]]))
        x = noise
        for size, time in zip(schedule.step_sizes, schedule.embeddings, strict=True):
            projected = self.in_proj(x)
            if cfg is not None:
                projected = torch.cat((projected, projected))
            velocity = self.velocity(projected, mu, time, projected_cond, repeats)
            if is_host(self.out_proj):
                x = _move_on_host(x, velocity, size, cfg)
                continue
            if cfg is not None:
                conditional, unconditional = velocity.chunk(2)
                velocity = guide(conditional, unconditional, cfg)
            x = torch.add(x, velocity, alpha=-size)
        return x


def _move_on_host(x: Tensor, velocity: Tensor, size: float, cfg: Tensor | None) -> Tensor:
    """The same as in `LocalDiT.solve`, in arrays."""
    by = velocity.numpy()
    if cfg is not None:
        by = host.guide(by[: len(x)], by[len(x) :], cfg.numpy())
    return torch.from_numpy(host.move(x.numpy(), by, size))


def guide(conditional: Tensor, unconditional: Tensor, cfg: Tensor) -> Tensor:
    """CFG-Zero*: guidance from the unconditional velocity scaled to fit the conditional one.

    Args:
        conditional, unconditional: `[B, P, D]`.
        cfg: `[B]`.
    """
    positive, negative = conditional.flatten(1), unconditional.flatten(1)
    fit = (positive * negative).sum(1) / (negative.square().sum(1) + 1e-8)
    scaled = unconditional * fit.view(-1, 1, 1)
    return scaled + cfg.to(scaled.dtype).view(-1, 1, 1) * (conditional - scaled)
