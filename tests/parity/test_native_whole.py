"""Whole layers in one call: as their references, and with the bits of a call for each part."""

from __future__ import annotations

import pytest
import torch
from helpers import Models, random
from test_native_layers import HEADS, rotation_of
from torch import Tensor

from voxcli.kernels import native_layers as kernels
from voxcli.kernels import structs
from voxcli.kernels.native_layers import Layer
from voxcli.kernels.native_product import Panels
from voxcli.kernels.structs import Heads
from voxcli.layers import cores
from voxcli.models.voxcpm2 import native_layers
from voxcli.models.voxcpm2.backbone import CausalStack, Repeats
from voxcli.models.voxcpm2.host import MIN_SHARED
from voxcli.models.voxcpm2.native_layers import NativeCausalStack

D, F, EPS, SCALE = 30, 50, 1e-5, 0.7
NEVER = 10**9

pytestmark = [
    pytest.mark.instructions("AVX2", "AVX512"),
    pytest.mark.usefixtures("compiled_kernels", "inference_mode"),
]


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many, and few rows for each at once, so that there is something to share out."""
    monkeypatch.setattr(cores, "num_threads", lambda: request.param)
    monkeypatch.setattr(structs, "MIN_TAKEN", 3)


class Weights:
    """Random ones of a layer, and what each half of it does in torch."""

    def __init__(self, heads: Heads, num_rotations: int, *, is_rotated: bool) -> None:
        H, C = heads.num_heads, heads.head_dim
        shapes = (heads.width, D), (D, H * C), (2 * F, D), (D, F)
        self.products = [
            (random(*shape, seed=seed) / shape[1] ** 0.5).half().float()
            for seed, shape in enumerate(shapes)
        ]
        self.norms = [1 + 0.1 * random(D, seed=seed) for seed in (10, 11, 12)]
        self.heads = heads
        self.rotation = rotation_of(num_rotations, heads, is_rotated)
        qkv, output, gate_up, down = (
            Panels.of(weight, None, torch.half) for weight in self.products
        )
        first, middle, last = self.norms
        self.layer = Layer(
            (qkv, output, gate_up, down), (first, middle, last), self.rotation, heads,
            residual_scale=SCALE, eps=EPS,
        )  # fmt: skip

    def normed(self, x: Tensor) -> Tensor:
        return kernels.norm_reference(x, self.norms[0], EPS)

    def finish(self, x: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
        _, output, gate_up, down = self.products
        x, normed = kernels.add_norm_reference(x, attended @ output.T, SCALE, self.norms[1], EPS)
        inner = kernels.swiglu_reference(normed @ gate_up.T)
        return kernels.add_norm_reference(x, inner @ down.T, SCALE, self.norms[2], EPS)


def same_numbers(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("is_rotated", [True, False])
@pytest.mark.parametrize("keep", [slice(None), slice(0, 1), slice(3, 7)])
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_a_local_layer_is_its_reference(heads: Heads, keep: slice, is_rotated: bool) -> None:
    weights = Weights(heads, 7, is_rotated=is_rotated)
    for B in (1, 5, 20):
        x = random(B, 7, D, seed=B)
        normed = weights.normed(x)
        attended = kernels.local_attention_reference(
            normed @ weights.products[0].T, weights.rotation, heads, keep
        )
        expected = weights.finish(x[:, keep], attended)
        for found, wanted in zip(weights.layer.local(x, normed, keep), expected, strict=True):
            same_numbers(found, wanted)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("changed", [[0, 1, 2, 3, 4, 5, 6], [2, 5, 6], [0]])
def test_a_call_that_knows_the_last_one_has_the_bits_of_one_that_does_not(
    changed: list[int],
) -> None:
    weights = Weights(HEADS[0], 7, is_rotated=True)
    x = random(20, 7, D)
    known = x.new_full((20, 7, HEADS[0].width), torch.nan)
    every = slice(None)
    for seed in (1, 2, 3):
        found = weights.layer.local(
            x, None, every, known, None if seed == 1 else torch.tensor(changed)
        )
        alone = weights.layer.local(x, None, every, torch.empty_like(known))
        for one, other in zip(found, alone, strict=True):
            assert torch.equal(one, other)
        x = x.clone()
        x[:, changed] = random(20, len(changed), D, seed=seed)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("is_rotated", [True, False])
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_a_causal_layer_is_its_reference(heads: Heads, is_rotated: bool) -> None:
    weights = Weights(heads, 40, is_rotated=is_rotated)
    slots = torch.tensor([3, *[1] * 20, 0])  # one position, a prompt, one position
    positions = torch.tensor([17, *range(5, 25), 39])
    shape = 4, heads.num_kv_heads, 40, heads.head_dim
    keys, values = random(*shape, seed=1), random(*shape, seed=2)
    caches = keys.clone(), values.clone()
    x = random(len(slots), D)
    normed = weights.normed(x)
    attended = kernels.decode_attention_reference(
        normed @ weights.products[0].T, weights.rotation, heads, *caches, slots, positions
    )
    kept = torch.tensor([0, 20, 21])
    sums, out = weights.finish(x, attended)
    for ends in (None, kept):
        found = weights.layer.causal(x, normed, keys, values, slots, positions, ends)
        for one, wanted in zip(found, (sums, out), strict=True):
            same_numbers(one, wanted if ends is None else wanted[ends])
    for one, wanted in zip((keys, values), caches, strict=True):
        same_numbers(one, wanted)


@pytest.mark.parametrize("is_guided", [False, True])
def test_a_patch_has_the_same_bits_whether_rows_or_products_are_shared_out(
    models: Models, monkeypatch: pytest.MonkeyPatch, is_guided: bool
) -> None:
    model = models("mini")
    B, (P, latent_dim) = 9, model.patch_shape
    width = model.config.dit.hidden_size
    arguments = (
        random(B, P, latent_dim), random(B, 2, width, seed=1), random(B, P, latent_dim, seed=2),
        6, torch.linspace(1, 3, B) if is_guided else None,
    )  # fmt: skip
    found = {}
    for least in (1, MIN_SHARED, NEVER):
        monkeypatch.setattr(native_layers, "MIN_SHARED", least)
        found[least] = model.dit.solve(*arguments)
    assert torch.equal(found[1], found[NEVER])
    assert torch.equal(found[MIN_SHARED], found[NEVER])
    for row in (0, B - 1):
        noise, mu, cond, num_steps, cfg = arguments
        own = slice(row, row + 1)
        alone = model.dit.solve(
            noise[own], mu[own], cond[own], num_steps, None if cfg is None else cfg[own]
        )
        assert torch.equal(alone[0], found[MIN_SHARED][row])


def test_what_repeats_is_kept_for_one_run_of_the_solver(models: Models) -> None:
    stack = models("mini").dit.stack
    repeats = Repeats(torch.tensor([2, 7, 8, 9, 10]))
    x = random(8, 11, stack.config.hidden_size)
    keep = slice(7, None)
    first = stack(x, keep, repeats)
    assert repeats.known is not None
    assert torch.equal(first, stack(x, keep))
    changed = x.clone()
    changed[:, repeats.changed] += 1
    assert torch.equal(stack(changed, keep, repeats), stack(changed, keep))


SPANS = [(3, 0, 20), (0, 4, 1), (1, 0, 33)]


@pytest.mark.parametrize(
    "spans", [SPANS, [(0, 0, 5)], [(2, 3, MIN_SHARED)], [(0, 0, 129), (1, 0, 3)]]
)
def test_prompts_whose_ends_alone_are_read_have_the_bits_of_whole_ones(
    models: Models, monkeypatch: pytest.MonkeyPatch, spans: list[tuple[int, int, int]]
) -> None:
    monkeypatch.setattr(native_layers, "MAX_PROMPT", 128)
    stack = models("mini").residual_lm
    assert type(stack) is NativeCausalStack
    x = random(sum(length for _, _, length in spans), stack.config.hidden_size)

    def run(form: str) -> tuple[Tensor, Tensor, Tensor]:
        cache = stack.new_cache(4, 200)
        cache.keys.copy_(random(*cache.keys.shape, seed=1))
        cache.values.copy_(random(*cache.values.shape, seed=2))
        found: Tensor = getattr(stack, form)(x, cache, spans)
        return found, cache.keys, cache.values

    ends = torch.tensor([length for _, _, length in spans]).cumsum(0) - 1
    whole, *caches = run("prefill_spans")
    found, *own = run("prefill_ends")
    assert torch.equal(found, whole[ends])
    monkeypatch.setattr(native_layers, "MIN_SHARED", NEVER)
    together, *others = run("prefill_spans")
    assert torch.equal(together, whole)
    for one, other, another in zip(caches, own, others, strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one, another)
    plain = CausalStack.prefill_ends(stack, x, stack.new_cache(4, 200), [(0, 0, len(x))])
    assert plain.shape == (1, stack.config.hidden_size)
