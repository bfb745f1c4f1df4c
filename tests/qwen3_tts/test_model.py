"""What a loaded Qwen3-TTS keeps: rows apart, seeds, slots, its official files, true sizes."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from qwen_models import Models
from safetensors.torch import load_file, save_file
from torch import Tensor

from voxcli.engine.native.program import Program
from voxcli.errors import CheckpointError
from voxcli.hub.checkpoint import inspect_checkpoint, safetensors_header
from voxcli.layers.sampling import Filters, gumbel
from voxcli.models.data import HostRow, PromptParts, Rows
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.family import Parameters, Qwen3TTSFamily
from voxcli.models.qwen3_tts.loading import (
    FP32,
    UNHEARD,
    UNUSED,
    load,
    load_shapes,
    random_model,
)
from voxcli.models.qwen3_tts.model import Qwen3TTS
from voxcli.models.qwen3_tts.prompt import Prompt
from voxcli.models.qwen3_tts.tokenize import tokenizer_for_random
from voxcli.models.sources import CheckpointSource, Source, is_any
from voxcli.utterance import Use

HERE = Path(__file__).parent
CPU, FP32_DTYPE = torch.device("cpu"), torch.float32
NUM_SLOTS, NUM_POSITIONS = 18, 96
DRAWN, GREEDY = Parameters(), Parameters(is_greedy=True)
MAIN, CODEC = "model.safetensors", "speech_tokenizer/model.safetensors"


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


def tensors(state: Any) -> list[Tensor]:
    """Every tensor of a state, its slot axis first."""
    if isinstance(state, Tensor):
        return [state.transpose(0, 1) if state.shape[0] != NUM_SLOTS else state]
    parts = state if isinstance(state, list) else []
    if is_dataclass(state):
        parts = [getattr(state, field.name) for field in fields(state)]
    return [tensor for part in parts for tensor in tensors(part)]


def prompts(model: Qwen3TTS) -> list[Prompt]:
    """Sixteen, all different: plain ones, clones of two kinds, both text layouts."""
    samples = tiny.reference_wav(4000)
    voice = model.encode_recording(samples, Use.REFERENCE)
    told = model.encode_recording(samples, Use.PROMPT)
    made = []
    for number in range(16):
        text = "hello the user of the morning"[: 2 + number]
        parts = [
            PromptParts(text, "en", reference=voice),
            PromptParts(text, "de", prompt=told, prompt_text="hello"),
            PromptParts(text, "fr"),
        ][number % 3]
        made.append(model.lay_out(parts, is_text_streamed=number % 2 == 0))
    return made


def make_rows(
    model: Qwen3TTS, places: Sequence[HostRow], own: Sequence[Prompt],
    parameters: Parameters = DRAWN, *, on_host: bool = True,
) -> Rows:  # fmt: skip
    values = [
        model.row_values(prompt, parameters, place.step)
        for place, prompt in zip(places, own, strict=True)
    ]
    return Rows(
        *torch.tensor(places).unbind(1),
        inputs={
            each.name: torch.tensor(column, dtype=getattr(torch, each.dtype))
            for each, column in zip(model.row_inputs, zip(*values, strict=True), strict=True)
        },
        key=model.family.graph_key(parameters),
        host=list(places) if on_host else None,
    )


def run(
    model: Qwen3TTS,
    made: Sequence[Prompt],
    schedule: Sequence[Sequence[int]],
    slots: Sequence[int],
    *,
    parameters: Parameters = DRAWN,
    state: Any = None,
    on_host: bool = True,
    seed: int = 100,
) -> tuple[dict[int, list[Tensor]], Any]:
    """Step the prompts that each entry of a schedule names, in that row order.

    Returns:
        frames and ends `[17]` of each, and the state they leave.
    """
    state = state or model.new_state(NUM_SLOTS, NUM_POSITIONS)
    frames: dict[int, list[Tensor]] = {}
    for numbers in schedule:
        for number in numbers:
            if number not in frames:
                frames[number] = []
                model.prefill_together(state, [(made[number], slots[number], 0)])
        places = [
            HostRow(
                slots[number], len(made[number]) + len(frames[number]), seed + number,
                len(frames[number]),
            )
            for number in numbers
        ]  # fmt: skip
        rows = make_rows(
            model, places, [made[number] for number in numbers], parameters, on_host=on_host
        )
        output = model.decode(state, rows)
        for row, number in enumerate(numbers):
            frames[number].append(torch.cat((output.frames[row], output.is_end[row : row + 1])))
    return frames, state


# ---------------------------------------------------------------- rows and slots

COMING_AND_GOING = [
    [1], [1, 0], [0, 1, 2], [2, 1, 0, 3], list(range(16)), list(reversed(range(16))), [5, 1, 6],
    [6, 1, 5, 0, 7, 15], [1],
]  # fmt: skip


def bf16_model(name: str, *, is_native: bool) -> Qwen3TTS:
    """Weights as a bf16 checkpoint has them.

    NOTE: and a text embedding as wide as torch's block of vectors, like the real one: what is left
    of a batch after whole blocks is rounded otherwise.
    """
    root = tiny.config(name)
    root["talker_config"]["text_hidden_size"] = 32
    config = Qwen3TTSConfig.of(root, tiny.speech_tokenizer_config())
    tokenizer = tokenizer_for_random(HERE, config)
    return random_model(config, CPU, FP32_DTYPE, tokenizer=tokenizer, is_native=is_native)


@pytest.mark.parametrize(
    ("name", "is_native", "parameters"),
    [("base_1b7", True, DRAWN), ("base_0b6", False, DRAWN), ("base_1b7", False, GREEDY)],
)
def test_a_request_is_bit_equal_alone_and_among_fifteen_that_come_and_go(
    name: str, is_native: bool, parameters: Parameters
) -> None:
    model = bf16_model(name, is_native=is_native)
    made = prompts(model)
    slots = [(5 * number + 3) % 17 for number in range(16)]
    together, state = run(model, made, COMING_AND_GOING, slots, parameters=parameters)
    for number in (0, 1, 2):
        alone_slots = [0] * 16
        alone_slots[number] = 17
        count = len(together[number])
        alone, other = run(model, made, [[number]] * count, alone_slots, parameters=parameters)
        assert all(map(torch.equal, together[number], alone[number]))
        for ours, theirs in zip(tensors(state), tensors(other), strict=True):
            assert torch.equal(ours[slots[number]], theirs[17])


def test_two_requests_in_a_row_in_one_slot_do_not_see_each_other(models: Models) -> None:
    model = models("base_1b7")
    made = prompts(model)
    for poison in (None, float("inf"), float("nan")):
        state = model.new_state(NUM_SLOTS, NUM_POSITIONS)
        run(model, made, [[3, 4]] * 9, [2] * 3 + [2, 3] + [2] * 11, state=state)
        if poison is not None:
            for tensor in (state.cache.keys, state.cache.values, state.hidden):
                tensor.fill_(poison)
        again, _ = run(model, made, [[1]] * 6, [2] * 16, state=state)
        fresh, _ = run(model, made, [[1]] * 6, [7] * 16)
        assert all(map(torch.equal, again[1], fresh[1]))


def test_a_step_in_tensors_alone_reads_nothing_of_what_was_in_its_slot(models: Models) -> None:
    model = models("base_0b6")
    made = prompts(model)
    state = model.new_state(NUM_SLOTS, NUM_POSITIONS)
    for tensor in (state.cache.keys, state.cache.values, state.hidden):
        tensor.fill_(float("nan"))
    found, _ = run(model, made, [[1, 2]] * 6, [2] * 16, state=state, on_host=False)
    wanted, _ = run(model, made, [[1]] * 6, [7] * 16)
    del found[2]  # in the same slot: what it says means nothing, and harms nobody
    found, _ = run(model, made, [[1]] * 6, [2] * 16, state=state, on_host=False)
    assert all(map(torch.equal, found[1], wanted[1]))


def test_seeds_repeat_and_steps_draw_anew(models: Models) -> None:
    model = models("base_0b6")
    made = prompts(model)
    spoken = [run(model, made, [[2]] * 6, [1] * 16, seed=seed)[0][2] for seed in (5, 5, 6)]
    assert all(map(torch.equal, spoken[0], spoken[1]))
    assert not all(map(torch.equal, spoken[0], spoken[2]))
    assert len({tuple(frame.tolist()) for frame in spoken[0]}) == 6


def test_rows_that_nobody_has_are_harmless(models: Models) -> None:
    """In a graph they hold zeros."""
    model = models("base_0b6")
    state = model.new_state(NUM_SLOTS, NUM_POSITIONS)
    for key in ((True, True), (False, False)):
        nobody = torch.zeros(2, dtype=torch.int64)
        inputs = {
            each.name: torch.zeros(2, dtype=getattr(torch, each.dtype)) for each in model.row_inputs
        }
        output = model.decode(state, Rows(nobody, nobody, nobody, nobody, inputs, key))
        assert output.frames.min() >= 0
        assert output.frames.max() < model.num_codes
        assert state.hidden.isfinite().all()


# ---------------------------------------------------------------- drawing


def test_noise_is_the_same_integers_in_arrays_and_in_tensors() -> None:
    seeds = torch.tensor([0, 1, 2**62 + 12345])
    steps = torch.tensor([0, 7, 2**31])
    noise = [gumbel(seeds, steps, range(1, 4), 64, in_tensors=flag) for flag in (False, True)]
    assert noise[0].shape == (3, 3, 64)
    assert torch.equal(*noise)
    assert noise[0].unique().numel() > 0.99 * noise[0].numel()
    assert torch.equal(noise[0][1:2, :1], gumbel(seeds[1:2], steps[1:2], range(1, 2), 64,
                                                 in_tensors=True))  # fmt: skip


def test_noise_is_finite_and_gumbel() -> None:
    """Mean 0.5772 and variance 1.645; their errors at this many are 0.0009 and 0.003."""
    seeds, steps = torch.arange(64), torch.arange(64)
    noise = gumbel(seeds, steps, range(16), 2048, in_tensors=False)
    assert noise.isfinite().all()
    assert abs(float(noise.mean()) - 0.5772) < 0.006
    assert abs(float(noise.var()) - 1.6449) < 0.02


def test_codes_are_drawn_as_often_as_their_scores_say() -> None:
    """16,384 draws of 5 codes: chi square with 4 degrees above 30 has odds of 5e-6."""
    scores = torch.tensor([1.0, 0.2, -1.0, 2.0, 0.0, -9.0, -9.0, -9.0])
    B = 16_384
    filters = Filters(torch.full((B,), 0.8), torch.full((B,), 5), torch.ones(B))
    left = filters(scores.expand(B, -1))
    noise = gumbel(torch.full((B,), 3), torch.arange(B), range(1), 8, in_tensors=False)
    drawn = (left + noise[:, 0]).argmax(-1)
    wanted = B * (scores[:5] / 0.8).softmax(-1)
    counts = torch.bincount(drawn, minlength=8)
    assert counts[5:].sum() == 0
    assert float(((counts[:5] - wanted) ** 2 / wanted).sum()) < 30


def test_filters_are_those_of_transformers_row_by_row() -> None:
    random = np.random.default_rng(0)
    scores = random.normal(0, 3, (40, 64)).astype(np.float32)
    scores[::3] = np.round(scores[::3])  # ties
    temperature = random.uniform(0.3, 2, 40).astype(np.float32)
    top_k = random.integers(1, 70, 40)
    top_p = random.choice([0.1, 0.5, 0.8, 0.95, 1.0], 40).astype(np.float32)
    filters = Filters(*(torch.from_numpy(each) for each in (temperature, top_k, top_p)))
    left = filters(torch.from_numpy(scores)).numpy()
    for row in range(40):
        wanted = scores[row] / temperature[row]
        least = np.sort(wanted)[-min(top_k[row], 64)]
        wanted[wanted < least] = -np.inf
        if top_p[row] < 1:
            order = np.argsort(wanted, kind="stable")
            shares = np.exp(wanted[order].astype(np.float64) - wanted.max())
            shares = np.cumsum(shares / shares.sum())
            gone = shares <= 1 - np.float64(top_p[row])
            gone[-1] = False
            removed = wanted[order][gone].max(initial=-np.inf)
            kept = wanted[order][~gone].min()
            if removed < kept:  # of equal scores transformers keeps some, here all stay
                wanted[wanted < kept] = -np.inf
            else:
                continue
        assert np.array_equal(np.isfinite(left[row]), np.isfinite(wanted))
        finite = np.isfinite(wanted)
        assert np.allclose(left[row][finite], wanted[finite], atol=1e-5)


# ---------------------------------------------------------------- recordings


def test_what_was_heard_is_taken_back_and_anything_else_refused(models: Models) -> None:
    model = models("base_1b7")
    voice = model.encode_recording(tiny.reference_wav(4000), Use.REFERENCE)
    told = model.encode_recording(tiny.reference_wav(4000), Use.PROMPT)
    assert (list(voice), list(told)) == (["x_vector"], ["x_vector", "codes"])
    assert told["codes"].shape == (3, 16)
    assert model.can_take(voice, Use.REFERENCE)
    assert model.can_take(told, Use.PROMPT)
    assert not model.can_take(voice, Use.PROMPT)
    for wrong in (
        told["codes"][:, :15], told["codes"].astype(np.int32), told["codes"][:0],
        told["codes"] + 2048, told["codes"] - 2048, told["codes"][0],
    ):  # fmt: skip
        assert not model.can_take({**told, "codes": wrong}, Use.PROMPT)
    assert not model.can_take({"x_vector": voice["x_vector"][:-1]}, Use.REFERENCE)
    assert not models("cv_1b7").can_take(voice, Use.REFERENCE)


def test_the_vocoder_continues_a_recording_that_it_has_heard(models: Models) -> None:
    model = models("base_1b7")
    prompt = next(each for each in prompts(model) if len(each.ref_codes))
    state = model.new_state(NUM_SLOTS, NUM_POSITIONS)
    model.prefill_together(state, [(prompt, 4, 0)])
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 2048, (1, 2, 16)))
    continued = model.vocode(state, [4], frames)
    whole = model.vocode(
        state, torch.tensor([5]), torch.cat((torch.from_numpy(prompt.ref_codes)[None], frames), 1)
    )
    assert torch.allclose(continued, whole[:, -continued.shape[1] :], atol=1e-5)


# ---------------------------------------------------------------- files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny.write(tmp_path, "base_0b6")


def change(path: Path, **tensors: Tensor | None) -> None:
    """Add, replace or (None) remove tensors of a file."""
    held = {name: tensor.clone() for name, tensor in load_file(path).items()}
    for name, tensor in tensors.items():
        if tensor is None:
            del held[name]
        else:
            held[name] = tensor.clone()
    save_file(held, path)


KEYS = [
    (MAIN, "talker.model.layers.2.self_attn.q_norm.weight"),
    (MAIN, "talker.code_predictor.lm_head.14.weight"),
    (MAIN, "speaker_encoder.fc.bias"),
    (CODEC, "decoder.pre_conv.conv.bias"),
    (CODEC, "encoder.downsample.conv.weight"),
]


@pytest.mark.parametrize(("file", "key"), KEYS)
def test_a_missing_surplus_or_wrong_weight_is_named(folder: Path, file: str, key: str) -> None:
    named = re.escape(f"speech_tokenizer.{key}" if file == CODEC else key)
    right = load_file(folder / file)[key]
    for changes in ({key: None}, {key: torch.zeros(3, 1)}, {key: right, f"{key}_": right}):
        change(folder / file, **changes)
        with pytest.raises(CheckpointError, match=named):
            load(folder, CPU, FP32_DTYPE)


def test_a_missing_or_damaged_file_is_named_by_its_path(folder: Path) -> None:
    for name in (MAIN, CODEC, "speech_tokenizer/config.json", "config.json"):
        content = (folder / name).read_bytes()
        for damage in (None, b"", content[: len(content) // 2]):
            (folder / name).unlink(missing_ok=True)
            if damage is not None:
                (folder / name).write_bytes(damage)
            with pytest.raises(CheckpointError, match=re.escape(Path(name).name)):
                load(folder, CPU, FP32_DTYPE)
        (folder / name).write_bytes(content)


def shard(path: Path, *, count: int = 2) -> dict[str, Any]:
    """Split a file into shards with an index, as the hub has large ones."""
    held = load_file(path)
    names = sorted(held)
    index: dict[str, str] = {}
    for number in range(count):
        own = names[number::count]
        shard_name = f"model-{number + 1:05}-of-{count:05}.safetensors"
        save_file({name: held[name].clone() for name in own}, path.parent / shard_name)
        index |= dict.fromkeys(own, shard_name)
    path.unlink()
    written = {"metadata": {}, "weight_map": index}
    path.with_name("model.safetensors.index.json").write_text(json.dumps(written))
    return written


def test_sharded_files_load_as_single_ones(folder: Path, models: Models) -> None:
    for name in (MAIN, CODEC):
        shard(folder / name)
    ours, theirs = load(folder, CPU, FP32_DTYPE), models("base_0b6")
    made = prompts(theirs)
    spoken = [run(model, made, [[1]] * 3, [0] * 16)[0][1] for model in (ours, theirs)]
    assert all(map(torch.equal, *spoken))


@pytest.mark.parametrize("kind", ["nan", "inf", "int8"])
@pytest.mark.parametrize(
    "name", ["talker.code_predictor.lm_head.0.weight", "talker.model.layers.1.mlp.up_proj.weight"]
)
def test_weights_that_are_no_numbers_are_refused_by_name(
    folder: Path, kind: str, name: str
) -> None:
    held = load_file(folder / MAIN)
    if kind == "int8":
        held[name] = held[name].to(torch.int8)
    else:
        held[name][-1, -1] = float(kind)
    save_file(held, folder / MAIN)
    with pytest.raises(CheckpointError, match=re.escape(name)):
        load(folder, CPU, FP32_DTYPE)


def test_a_shard_that_changes_or_is_missing_is_seen_without_loading(folder: Path) -> None:
    shard(folder / MAIN)
    before = inspect_checkpoint(folder)
    first = before.shards[0]
    assert first in before.files_of("weights")
    assert set(before.shards) < set(before.files)
    whole = safetensors_header(first)[0]
    assert before.num_parameters > sum(math.prod(each.shape) for each in whole.values())
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="cut short"):
        inspect_checkpoint(folder)
    first.unlink()
    with pytest.raises(CheckpointError, match="has no model-"):
        inspect_checkpoint(folder)


def test_a_damaged_index_and_a_missing_shard_are_named(folder: Path) -> None:
    index = shard(folder / MAIN)
    path = folder / "model.safetensors.index.json"
    first = index["weight_map"]["talker.model.norm.weight"]
    content = (folder / first).read_bytes()
    (folder / first).unlink()
    with pytest.raises(CheckpointError, match=first):
        load(folder, CPU, FP32_DTYPE)
    (folder / first).write_bytes(content)
    other = next(name for name in index["weight_map"].values() if name != first)
    elsewhere = {**index["weight_map"], "talker.model.norm.weight": other}
    for wrong, named in (
        ("{", path.name), ("{}", path.name), ('{"weight_map": [1]}', path.name),
        (json.dumps({"weight_map": {"a": "../model.safetensors"}}), path.name),
        (json.dumps({"weight_map": elsewhere}), "talker.model.norm.weight"),
    ):  # fmt: skip
        path.write_text(wrong)
        with pytest.raises(CheckpointError, match=re.escape(named)):
            load(folder, CPU, FP32_DTYPE)


def test_a_checkpoint_that_takes_no_recordings_does_not_read_the_encoder(models: Models) -> None:
    model = models("cv_0b6")
    assert model.speaker_encoder is None
    assert model.speech_encoder is None


# ---------------------------------------------------------------- true sizes


class RecordingSource(Source):
    """Tensors without memory, and what was asked for."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__(torch.device("meta"), dtype, fp32=FP32)
        self.shapes: dict[str, tuple[int, ...]] = {}

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        assert name not in self.shapes, f"{name} was read twice"
        self.shapes[name] = shape
        return torch.empty(shape, device="meta")


def official_shapes(size: str) -> dict[str, tuple[int, ...]]:
    """Keys and shapes of a Base checkpoint, those of the speech tokenizer with their prefix."""
    shapes = {}
    for file, prefix in ((size, ""), ("tokenizer", "speech_tokenizer.")):
        for line in (HERE / f"weights_{file}.tsv").read_text("utf-8").splitlines():
            name, shape = line.split("\t")
            indices = re.search(r"\{(\d+)\.\.(\d+)\}", name)
            for index in range(int(indices[1]), int(indices[2]) + 1) if indices else [0]:
                full = name.replace(indices[0], str(index)) if indices else name
                shapes[prefix + full] = tuple(json.loads(shape))
    return shapes


def true_config(size: str, kind: str = "base") -> dict[str, Any]:
    config = json.loads((HERE / f"config_{size}.json").read_text("utf-8"))
    config["tts_model_type"] = kind
    if kind == "base":
        width = config["talker_config"]["hidden_size"]
        config["speaker_encoder_config"] = {"enc_dim": width, "sample_rate": 24_000}
    return config


@pytest.mark.parametrize(
    ("size", "kind", "parameters"),
    [("0b6", "base", 914_643_008), ("1b7", "base", 1_928_677_440),
     ("0b6", "custom_voice", 905_788_672), ("1b7", "voice_design", 1_916_676_352)],
)  # fmt: skip
def test_the_loader_asks_for_every_official_weight_in_its_true_shape(
    size: str, kind: str, parameters: int
) -> None:
    source = RecordingSource()
    Qwen3TTS(Qwen3TTSConfig.of(true_config(size, kind)), source, None)
    official = official_shapes(size)
    unused = UNUSED
    if kind != "base":
        unused = (*UNUSED, *UNHEARD)
        official = {k: v for k, v in official.items() if not k.startswith("speaker_encoder.")}
    main = sum(np.prod(v) for k, v in source.shapes.items() if not k.startswith("speech_"))
    assert main == parameters
    assert {k: v for k, v in official.items() if not is_any(k, unused)} == source.shapes
    assert source.shapes.items() <= official.items()


def test_a_model_of_a_configuration_alone_speaks_and_never_ends(tmp_path: Path) -> None:
    (tmp_path / "speech_tokenizer").mkdir()
    codec = tmp_path / "speech_tokenizer" / "config.json"
    codec.write_text(json.dumps(tiny.speech_tokenizer_config()))
    model = Qwen3TTSFamily().load_random(tiny.config("cv_0b6"), tmp_path, CPU, FP32_DTYPE)
    assert isinstance(model, Qwen3TTS)
    made = [model.make_prompt(PromptParts("anything", "en", "ryan"))]
    spoken, _ = run(model, made, [[0]] * 40, [0], parameters=Parameters(top_k=1000))
    assert not any(frame[-1] for frame in spoken[0])
    assert len({int(frame[0]) for frame in spoken[0]}) > 20


def test_kernels_can_be_named_without_weights_or_a_card(folder: Path) -> None:
    """All of a program runs on tensors without data, so nothing in it asks the host."""
    model = load_shapes(folder, torch.bfloat16)
    program = Program(model, torch.device("meta"), 2, NUM_POSITIONS)
    for function in program.with_all_kernels([(False, False), (True, True)]):
        function()


def test_a_table_of_projected_texts_is_what_projecting_each_gives(folder: Path) -> None:
    from voxcli.models.qwen3_tts import talker

    config = Qwen3TTSConfig.load(folder)
    weights = {"": ("model.safetensors",)}
    embeddings = []
    for is_card in (False, True):
        source = CheckpointSource(folder, weights, CPU, FP32_DTYPE)
        if is_card:
            source.device = _Card()  # type: ignore[assignment]
        embeddings.append(talker.TextEmbedding(source, config.talker))
    ids = torch.arange(config.talker.text_vocab_size)
    assert torch.allclose(embeddings[0](ids), embeddings[1](ids), atol=1e-6)


class _Card(str):
    """Where tensors are put is the CPU; what the device says it is, is not."""

    type = "card"

    def __new__(cls) -> _Card:
        return super().__new__(cls, "cpu")


def test_it_is_loaded_anew_by_its_family(folder: Path, tmp_path: Path) -> None:
    moved = shutil.move(folder, tmp_path / "elsewhere")
    model = Qwen3TTSFamily().load(Path(moved), CPU, FP32_DTYPE, is_native=False)
    assert model.info.num_parameters > 100_000


def test_the_benchmark_runs_without_a_card(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(HERE.parent / "gpu")
    import bench_qwen

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(bench_qwen, "FRAMES", 3)
    monkeypatch.setattr(bench_qwen, "POSITIONS", 128)
    bench_qwen.main([str(folder / "config.json"), "fp32", "1", "2"])
    out = capsys.readouterr().out
    assert re.search(r"^BENCH fp32 streams 2: .* ms/step, RTF/stream ", out, re.MULTILINE)
    assert len(re.findall(r"^PARTS fp32 \d: talker \S+ predictor \S+ code2wav \S+ sum", out,
                          re.MULTILINE)) == 2  # fmt: skip
