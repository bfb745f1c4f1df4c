"""Philox against the published vectors, and the shape of the noise made from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from voxcli.layers.noise import normal, philox

# kat_vectors of the Random123 distribution: philox4x32, 10 rounds: counter, key, result
KNOWN = [
    ("00000000 " * 4, "00000000 " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff " * 4, "ffffffff " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def on_device(word: str) -> torch.Tensor:
    return torch.tensor([int(word, 16)])


def on_host(word: str) -> np.ndarray:
    return np.array([int(word, 16)], np.uint64)


@pytest.mark.parametrize("words", [on_device, on_host])
@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_the_published_words(
    counter: str, key: str, expected: str, words: Callable[[str], Any]
) -> None:
    c0, c1, c2, c3 = map(words, counter.split())
    k0, k1 = map(words, key.split())
    result = philox((c0, c1, c2, c3), (k0, k1))
    assert [f"{int(word[0]):08x}" for word in result] == expected.split()


def test_noise_is_standard_normal() -> None:
    """400,000 numbers: each bound is five standard errors, so a false alarm is 1 in a million."""
    count = 400_000
    x = normal(torch.arange(40), torch.arange(40) * 7, count // 40).double()
    assert abs(float(x.mean())) < 5 / math.sqrt(count)
    assert abs(float(x.square().mean()) - 1) < 5 * math.sqrt(2 / count)
    assert abs(float((x**3).mean())) < 5 * math.sqrt(15 / count)
    assert abs(float((x**4).mean()) - 3) < 5 * math.sqrt(96 / count)
    within = float((x.abs() < 1).double().mean())
    assert abs(within - math.erf(math.sqrt(0.5))) < 5 * math.sqrt(0.217 / count)
    lagged = float((x[:, 1:] * x[:, :-1]).mean())
    assert abs(lagged) < 5 / math.sqrt(count)


def test_noise_is_finite_and_bounded_by_24_bits() -> None:
    x = normal(torch.arange(1000), torch.zeros(1000, dtype=torch.int64), 512)
    assert float(x.abs().max()) <= math.sqrt(2 * 25 * math.log(2))


def test_a_rows_noise_depends_on_its_seed_and_step_alone() -> None:
    seeds, steps = torch.tensor([5, 6, 2**62 + 5, 5]), torch.tensor([0, 0, 0, 1])
    together = normal(seeds, steps, 128)
    for row in range(4):
        alone = normal(seeds[row : row + 1], steps[row : row + 1], 128)
        assert torch.equal(alone[0], together[row])
    assert len({tuple(row.tolist()) for row in together}) == 4


def test_less_noise_is_a_prefix_of_more() -> None:
    seed, step = torch.tensor([3]), torch.tensor([9])
    assert torch.equal(normal(seed, step, 64), normal(seed, step, 256)[:, :64])
