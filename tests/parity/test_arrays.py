"""The model in arrays: as the model in tensors, bit for bit, whatever is asked of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from cases import MINI
from checkpoints import (
    TINY,
    TINY_MEAN,
    write_random_checkpoint,
    write_settings,
    write_weights,
)
from safetensors.numpy import load_file, save_file

from voxcli.errors import CheckpointError
from voxcli.kernels import arrays, native, native_product
from voxcli.layers import cores
from voxcli.models.data import HostRow, Rows
from voxcli.models.voxcpm2 import array_layers, array_model
from voxcli.models.voxcpm2.array_model import ArrayVoxCPM2
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import VoxCPM2
from voxcli.models.voxcpm2.prompt import Prompt

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from recipes.train_mini.export import in_eight_bits

NEVER = 10**9

pytestmark = [
    pytest.mark.instructions("AVX2", "AVX512"),
    pytest.mark.usefixtures("compiled_kernels", "inference_mode"),
]


@dataclass(frozen=True)
class Pair:
    """One checkpoint, loaded twice."""

    tensors: VoxCPM2
    arrays: ArrayVoxCPM2


Pairs = Callable[[str], Pair]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Checkpoints whose numbers are all halves, or whose layers have eight bits."""
    found = {"mini": MINI}
    for name, config in (("tiny", TINY), ("tiny_mean", TINY_MEAN)):
        folder = found[name] = tmp_path_factory.mktemp(name)
        tensors = write_random_checkpoint(folder, config)
        write_weights(folder, {key: halved(each) for key, each in tensors.items()}, "safetensors")
        write_settings(folder, config)
    folder = found["tiny_eight"] = tmp_path_factory.mktemp("tiny_eight")
    write_settings(folder, TINY)
    tensors = in_eight_bits(write_random_checkpoint(folder, TINY))
    write_weights(folder, {key: halved(each) for key, each in tensors.items()}, "safetensors")
    return found


def halved(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.half() if tensor.is_floating_point() else tensor


@pytest.fixture(scope="module")
def pairs(folders: dict[str, Path]) -> Pairs:
    loaded: dict[tuple[str, int], Pair] = {}

    def get(name: str) -> Pair:
        key = name, native.loaded().vox_vector()
        if key not in loaded:
            there = load(folders[name], torch.device("cpu"), torch.float32)
            here = array_model.load(folders[name])
            assert here is not None
            loaded[key] = Pair(there, here)
        return loaded[key]

    return get


def prompts_of(pair: Pair) -> list[Prompt]:
    """A text, one in a voice, one that goes on from speech, and a long one."""
    random = np.random.default_rng(3)
    voice = random.standard_normal((9, *pair.arrays.patch_shape), np.float32)
    encode = pair.arrays.encode_prompt
    return [
        encode("The ferry leaves at noon."),
        encode("The ferry leaves.", reference=voice),
        encode("It is late.", prompt_text="So. ", prompt_audio=voice[:5]),
        encode(20 * "long "),
    ]


def run_tensors(
    pair: Pair, prompts: list[Prompt], key: tuple[int, bool], guidance: list[float], num_steps: int
) -> list[np.ndarray]:
    """Frames, ends, samples and all state after some steps."""
    model = pair.tensors
    state = model.new_state(len(prompts) + 1, 120)
    model.prefill_together(state, [(prompt, slot, 0) for slot, prompt in enumerate(prompts)])
    found, ends = [], []
    for step in range(num_steps):
        host = [
            HostRow(slot, len(prompt) + step, 5 + slot, step) for slot, prompt in enumerate(prompts)
        ]
        slots, positions, seeds, steps = torch.tensor(host).unbind(1)
        rows = Rows(
            slots.contiguous(), positions.contiguous(), seeds, steps,
            {"guidance_scale": torch.tensor(guidance)}, key, host,
        )  # fmt: skip
        output = model.decode(state, rows)
        found.append(output.frames)
        ends.append(output.is_end)
    frames = torch.stack(found, 1)
    parts = [model.vocode(state, [*range(len(prompts))], part) for part in frames.split(2, 1)]
    kept = (
        state.hidden, state.cond, state.base_cache.keys, state.base_cache.values,
        state.residual_cache.keys, state.residual_cache.values, *state.vocoder.contexts,
    )  # fmt: skip
    return [each.numpy() for each in (frames, torch.stack(ends), torch.cat(parts, 1), *kept)]


def run_arrays(
    pair: Pair, prompts: list[Prompt], key: tuple[int, bool], guidance: list[float], num_steps: int
) -> list[np.ndarray]:
    model = pair.arrays
    state = model.new_state(len(prompts) + 1, 120)
    model.prefill_together(state, [(prompt, slot, 0) for slot, prompt in enumerate(prompts)])
    found, ends = [], []
    for step in range(num_steps):
        rows = [
            HostRow(slot, len(prompt) + step, 5 + slot, step) for slot, prompt in enumerate(prompts)
        ]
        own, is_end = model.decode(state, rows, [(scale,) for scale in guidance], key)
        found.append(own)
        ends.append(is_end)
    frames = np.stack(found, 1)
    slots = [*range(len(prompts))]
    parts = [
        model.vocode(state, slots, frames[:, first : first + 2]) for first in range(0, num_steps, 2)
    ]
    return [
        frames, np.stack(ends), np.concatenate(parts, 1), state.hidden, state.cond,
        state.base_cache.keys, state.base_cache.values, state.residual_cache.keys,
        state.residual_cache.values, *state.vocoder,
    ]  # fmt: skip


def assert_same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    assert len(one) == len(other)
    for mine, wanted in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("mini", (3, False)), ("mini", (2, True)),
        ("tiny", (6, False)), ("tiny", (2, True)), ("tiny", (11, True)),
        ("tiny_mean", (6, False)), ("tiny_mean", (11, True)), ("tiny_eight", (3, True)),
    ],
)  # fmt: skip
def test_arrays_have_the_bits_of_tensors(pairs: Pairs, name: str, key: tuple[int, bool]) -> None:
    pair = pairs(name)
    every = prompts_of(pair)
    guidance = [1.5, 2.0, 0.0, 3.0] if key[1] else [1.0] * 4
    for chosen in (slice(4), slice(0, 1)):
        arguments = pair, every[chosen], key, guidance[chosen], 4
        assert_same(run_arrays(*arguments), run_tensors(*arguments))


def test_a_row_has_the_same_bits_alone_and_among_others(pairs: Pairs) -> None:
    pair = pairs("tiny")
    prompts = prompts_of(pair) * 5  # so many that rows are shared out, not products
    together = run_arrays(pair, prompts, (3, True), [2.0] * 20, 4)[:3]
    alone = run_arrays(pair, prompts[:1], (3, True), [2.0], 4)[:3]
    assert_same([together[0][0], together[2][0]], [alone[0][0], alone[2][0]])


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("least", [1, NEVER])
def test_threads_do_not_show(
    pairs: Pairs, monkeypatch: pytest.MonkeyPatch, threads: int, least: int
) -> None:
    pair = pairs("mini")
    arguments = pair, prompts_of(pair), (3, True), [2.0] * 4, 2
    wanted = run_arrays(*arguments)
    monkeypatch.setattr(cores, "num_threads", lambda: threads)
    monkeypatch.setattr(arrays, "MIN_THREADED", 1000)
    monkeypatch.setattr(array_layers, "MIN_SHARED", least)
    assert_same(run_arrays(*arguments), wanted)


def test_a_beginning_that_prompts_share_leaves_the_same_bits(pairs: Pairs) -> None:
    pair = pairs("tiny")
    prompt = prompts_of(pair)[1]
    here, there = pair.arrays.new_state(2, 120), pair.tensors.new_state(2, 120)
    for model, state in ((pair.arrays, here), (pair.tensors, there)):
        model.prefill_prefix(state, prompt, 1)  # type: ignore[arg-type]
        model.copy_prefix(state, 1, 0, prompt.prefix_len)  # type: ignore[arg-type]
        model.prefill_together(state, [(prompt, 0, prompt.prefix_len)])  # type: ignore[arg-type]
    whole = pair.arrays.new_state(2, 120)
    pair.arrays.prefill_together(whole, [(prompt, 0, 0)])
    for name in ("base_cache", "residual_cache"):
        mine, wanted = getattr(here, name), getattr(there, name)
        assert_same([mine.keys, mine.values], [wanted.keys.numpy(), wanted.values.numpy()])
        np.testing.assert_array_equal(mine.keys[:, 0], getattr(whole, name).keys[:, 0])
    np.testing.assert_array_equal(here.hidden[0], there.hidden[0].numpy())


def test_a_recording_is_encoded_as_by_the_model_in_tensors(pairs: Pairs) -> None:
    pair = pairs("tiny")
    samples = np.random.default_rng(1).standard_normal(700).astype(np.float32) / 4
    for is_left in (False, True):
        found = pair.arrays.encode_audio(samples, pad_left=is_left)
        np.testing.assert_array_equal(found, pair.tensors.encode_audio(samples, pad_left=is_left))
    assert pair.arrays.info == pair.tensors.info


def test_a_child_process_has_threads_of_its_own(pairs: Pairs) -> None:
    product = pairs("mini").arrays.fusion
    x = np.random.default_rng(1).standard_normal((64, product.in_features), np.float32)
    cores.set_num_threads(2)
    wanted = product(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(product(x), wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0


SHAPES = [(1, 1), (3, 7), (5, 8), (8, 16), (40, 33), (75, 24), (211, 9)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_a_weight_lies_in_panels_as_that_of_tensors(
    shape: tuple[int, int], dtype: type[np.generic]
) -> None:
    """In int8 of scales from the smallest halves to large ones; in parts, and in any order."""
    random = np.random.default_rng(2)
    N = shape[0]
    order, cut = random.permutation(N), N // 2
    scale = None
    if dtype is np.int8:
        weight = random.integers(-128, 128, shape, np.int8)
        scale = np.exp2(random.uniform(-24, 9, N)).astype(np.float16).astype(np.float32)
        rows = (torch.from_numpy(weight).float() * torch.from_numpy(scale).unsqueeze(1)).half()
    else:
        weight = random.standard_normal(shape).astype(dtype)
        rows = torch.from_numpy(weight)
    wanted = native_product.Panels.of(rows[order], None, rows.dtype).weight.numpy()
    parts = [
        arrays.Matrix(weight[part], None if scale is None else scale[part])
        for part in (slice(cut), slice(cut, N))
        if len(weight[part])
    ]
    np.testing.assert_array_equal(arrays.Linear.of_rows(parts, order=order).weight, wanted)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 3, 2), (16, 24, 5), (9, 40, 4)])
def test_an_upsampling_is_folded_as_in_tensors(shape: tuple[int, int, int]) -> None:
    """As `vae_weights.py` does it: weight norm, Snake's alpha, pairs of time steps."""
    C, D, stride = shape
    random = np.random.default_rng(3)
    direction = random.standard_normal((C, D, 2 * stride)).astype(np.float16)
    gain, alpha = (random.uniform(0.5, 2, C).astype(np.float32) for _ in range(2))
    norm = torch.from_numpy(direction).double().flatten(1).norm(dim=1).float()
    weight = torch.from_numpy(direction).float() * (torch.from_numpy(gain) / norm).view(-1, 1, 1)
    present, past = (weight / torch.from_numpy(alpha).view(-1, 1, 1)).split(stride, dim=2)
    stacked = torch.cat((past, present)).permute(2, 1, 0).reshape(stride * D, 2 * C)
    wanted = native_product.Panels.of(stacked, None, torch.float32).weight.numpy()
    found, norms = arrays.upsampling(direction, gain, alpha, np.zeros(D, np.float32))
    np.testing.assert_array_equal(found.weight, wanted)
    np.testing.assert_array_equal(norms, norm.numpy())


def test_numbers_that_are_no_halves_need_tensors(folders: dict[str, Path], tmp_path: Path) -> None:
    write_random_checkpoint(tmp_path, TINY)
    assert array_model.load(tmp_path) is None
    for part in ("audiovae.safetensors", "config.json", "tokenizer.json"):
        (tmp_path / part).write_bytes((folders["tiny_eight"] / part).read_bytes())
    tensors = load_file(folders["tiny_eight"] / "model.safetensors")
    del tensors["base_lm.layers.0.mlp.up_proj.weight_scale"]
    save_file(tensors, tmp_path / "model.safetensors")
    assert array_model.load(tmp_path) is None


def test_a_damaged_checkpoint_is_refused_in_the_same_words(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = folders["tiny_eight"]
    scale = "base_lm.layers.0.mlp.up_proj.weight_scale"

    def lacks(found: dict[str, np.ndarray]) -> None:
        del found["fusion_concat_proj.weight"]

    def has_more(found: dict[str, np.ndarray]) -> None:
        found["nobody.asks"] = np.zeros(3, np.float16)

    def is_no_number(found: dict[str, np.ndarray]) -> None:
        found["stop_proj.weight"][1, 2] = np.inf

    def has_another_shape(found: dict[str, np.ndarray]) -> None:
        found["stop_proj.weight"] = found["stop_proj.weight"][:-1]

    def has_another_scale(found: dict[str, np.ndarray]) -> None:
        found[scale] = found[scale][:-1]

    def has_a_scale_that_is_no_number(found: dict[str, np.ndarray]) -> None:
        found[scale][3] = np.nan

    def is_too_large(found: dict[str, np.ndarray]) -> None:
        found[scale][3] = 60000

    def has_a_scale_for_nothing(found: dict[str, np.ndarray]) -> None:
        found["stop_proj.weight_scale"] = found[scale]

    def lacks_a_bias(found: dict[str, np.ndarray]) -> None:
        del found["decoder.model.1.bias"]

    def has_a_gain_of_another_shape(found: dict[str, np.ndarray]) -> None:
        found["decoder.model.2.block.1.weight_g"] = np.ones((1, 1, 1), np.float16)

    def has_a_direction_that_is_no_number(found: dict[str, np.ndarray]) -> None:
        found["decoder.model.2.block.1.weight_v"][1, 0, 1] = -np.inf

    layers = (
        lacks, has_more, is_no_number, has_another_shape, has_another_scale,
        has_a_scale_that_is_no_number, is_too_large, has_a_scale_for_nothing,
    )  # fmt: skip
    vocoder = (
        lacks_a_bias, has_more, has_a_gain_of_another_shape, has_a_direction_that_is_no_number,
    )  # fmt: skip
    parts = ("model.safetensors", "audiovae.safetensors", "config.json", "tokenizer.json")
    damages = [(parts[0], each) for each in layers] + [(parts[1], each) for each in vocoder]
    for name, damage in damages:
        for part in parts:
            (tmp_path / part).write_bytes((folder / part).read_bytes())
        tensors = load_file(folder / name)
        damage(tensors)
        save_file(tensors, tmp_path / name)
        said = []
        for loading in (
            array_model.load,
            lambda folder: load(folder, torch.device("cpu"), torch.float32),
        ):
            with pytest.raises(CheckpointError) as refused:
                loading(tmp_path)
            said.append((refused.value.message, refused.value.hint))
        assert said[0] == said[1], damage
