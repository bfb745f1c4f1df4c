"""What both trainings do on a card: a step as one CUDA graph, and losses of averaged weights.

Without a card a captured step is the step itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from recipes.train_mini.progress import SECONDS_LEFT, Budget, Log

NO_GRAPHS = "TRAIN_MINI_NO_GRAPHS"
NUM_WARM_STEPS = 3  # allocations, autotuning, compiling and the optimisers' states


def capturing_stream(device: torch.device) -> None:
    """Work on a stream of its own from now on: the default one cannot be captured."""
    if device.type == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream())


@contextmanager
def averaged(model: nn.Module, average: Mapping[str, Tensor]) -> Iterator[None]:
    """The averaged weights in the places of a model's own, without a gradient."""
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(average)
    with torch.no_grad():
        yield
    model.load_state_dict(weights)


class Captured:
    """Calls a step with tensors of fixed shapes.

    Args:
        step: what a call does, without a word to the host.
        like: inputs of the first call; their shapes and devices are those of all calls.
        rates: the optimisers' learning rates, which are zero while the graph is made.
        optimisers: fused and capturable.
    """

    def __init__(
        self,
        step: Callable[..., None],
        like: Sequence[Tensor],
        rates: Sequence[Tensor],
        optimisers: Sequence[torch.optim.Optimizer],
    ) -> None:
        self._inputs, self._step = [each.clone() for each in like], step
        self._graph: torch.cuda.CUDAGraph | None = None
        if rates[0].device.type != "cuda" or os.environ.get(NO_GRAPHS):
            return
        for rate in rates:
            rate.zero_()  # so that nothing moves
        for _ in range(NUM_WARM_STEPS):
            step(*self._inputs)
        torch.cuda.synchronize()
        for optimiser in optimisers:
            optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            step(*self._inputs)
        torch.cuda.synchronize()
        self._graph = graph

    def __call__(self, *inputs: Tensor) -> None:
        for place, given in zip(self._inputs, inputs, strict=True):
            place.copy_(given, non_blocking=True)
        if self._graph is None:
            self._step(*self._inputs)
        else:
            self._graph.replay()


def captured(
    step: Callable[..., None],
    like: Sequence[Tensor],
    rates: Sequence[Tensor],
    optimisers: Sequence[torch.optim.Optimizer],
    log: Log,
    budget: Budget,
) -> Captured:
    """A step as a graph; where none can be captured, this command begins again without graphs.

    Args:
        step, like, rates, optimisers: as of `Captured`.
    """
    try:
        return Captured(step, like, rates, optimisers)
    except RuntimeError as error:
        if rates[0].device.type != "cuda":
            raise
        log(f"no graph could be captured, so steps run one kernel at a time: {error!r}")
    # a failed capture leaves a process that cannot go on
    os.environ |= {NO_GRAPHS: "1", SECONDS_LEFT: str(budget.left)}
    os.execv(sys.executable, [sys.executable, "-m", "recipes.train_mini", *sys.argv[1:]])
