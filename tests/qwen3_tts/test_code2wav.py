"""code2wav against the official decoder, and against itself however a stream is cut.

`goldens/code2wav.safetensors` is from qwen-tts 0.1.1 on the tiny speech tokenizer: 330 frames in
one call of the decoder (frames 0 to 23 and 297 to 326 are kept), and the package's own decoding in
pieces of 300 frames. Samples agree within 5e-5 in fp32, a few ulps through some twenty layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
import torch
from graphs import RecordingCard
from safetensors.torch import load_file
from torch import Tensor

from voxcli.errors import CheckpointError
from voxcli.models.qwen3_tts import code2wav
from voxcli.models.qwen3_tts.code2wav import UNUSED, Code2Wav, Code2WavState
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.sizes import RELEASED_CODEC
from voxcli.models.sources import CheckpointSource, ShapeSource

FILES = {"speech_tokenizer.": ("speech_tokenizer/model.safetensors",)}
ENCODER = "speech_tokenizer.encoder.*"  # another module's weights
CPU = torch.device("cpu")
TOLERANCE = 5e-5
HOP = 1920


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def goldens() -> dict[str, Tensor]:
    return load_file(tiny.GOLDENS / "code2wav.safetensors")


@pytest.fixture(scope="module")
def codes(goldens: dict[str, Tensor]) -> Tensor:
    return goldens["codes"].long().unsqueeze(0)  # [1, 330, 16]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("qwen3_tts"), "cv_0b6")


def load(folder: Path, device: torch.device = CPU, dtype: torch.dtype = torch.float32) -> Code2Wav:
    source = CheckpointSource(folder, FILES, device, dtype, unused=(*UNUSED, ENCODER))
    decoder = Code2Wav(source, Qwen3TTSConfig.load(folder).decoder)
    source.finish()  # every weight is used or declared
    return decoder


@pytest.fixture(scope="module")
def decoder(folder: Path) -> Code2Wav:
    with torch.inference_mode():
        return load(folder)


def decode(decoder: Code2Wav, codes: Tensor, size: int) -> Tensor:
    """A new stream in chunks of a size, in the middle of three slots; `[S]`."""
    state = decoder.new_state(3)
    return torch.cat([decoder(each, state, slice(1, 2)) for each in codes.split(size, 1)], 1)[0]


def assert_near(found: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


def bits(state: Code2WavState, slot: int) -> list[Tensor]:
    return [tensor[slot].clone() for tensor in state.tensors]


def are_equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# ------------------------------------------------------------ the official decoder


def assert_official(samples: Tensor, goldens: dict[str, Tensor]) -> None:
    assert samples.dtype == torch.float32
    assert_near(samples[: 24 * HOP], goldens["wav_24"])
    assert_near(samples[297 * HOP : 327 * HOP], goldens["wav_whole_297_327"])


def test_one_call_is_the_official_decoder(
    decoder: Code2Wav, codes: Tensor, goldens: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code2wav, "MAX_FRAMES", 1000)  # in one piece
    assert_official(decode(decoder, codes, 330), goldens)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 25, 100, 330])
def test_a_stream_is_the_official_decoder_however_it_is_cut(
    decoder: Code2Wav, codes: Tensor, goldens: dict[str, Tensor], size: int
) -> None:
    assert_official(decode(decoder, codes, size), goldens)


def test_codebooks_are_the_official_ones(
    decoder: Code2Wav, codes: Tensor, goldens: dict[str, Tensor]
) -> None:
    offsets = torch.arange(16) * 2048
    vectors = decoder.table[codes[0, :24] + offsets].sum(1)
    assert_near(vectors.T.unsqueeze(0), goldens["rvq_24"], 1e-5)


def test_the_official_pieces_are_new_streams_with_little_context(
    decoder: Code2Wav, codes: Tensor, goldens: dict[str, Tensor]
) -> None:
    """What the package says after 24 s is not what its decoder says: it has forgotten."""
    official = goldens["wav_official_297_327"]
    again = decode(decoder, codes[:, 275:], 100)[25 * HOP : 52 * HOP]
    assert_near(again, official[3 * HOP :])
    assert (official - goldens["wav_whole_297_327"]).abs().max() > 100 * TOLERANCE


def test_codes_that_are_none_are_taken_for_the_nearest(decoder: Code2Wav, codes: Tensor) -> None:
    odd = codes[:, :4].clone()
    odd[0, 1], odd[0, 2, 0] = -1, 2150
    assert torch.equal(decode(decoder, odd, 4), decode(decoder, odd.clamp(0, 2047), 4))


# ------------------------------------------------------------ slots


def test_rows_at_different_frames_are_their_own_streams(decoder: Code2Wav, codes: Tensor) -> None:
    """Rows before, at and beyond a full window, in any order of slots."""
    starts, slots = [0, 5, 40], torch.tensor([3, 0, 2])
    streams = [codes[:, 60 * i : 60 * i + start + 12] for i, start in enumerate(starts)]
    state = decoder.new_state(4)
    for stream, start, slot in zip(streams, starts, slots.tolist(), strict=True):
        if start:
            decoder(stream[:, :start], state, slice(slot, slot + 1))
    found = []
    for cut in (slice(0, 1), slice(1, 2), slice(2, 12)):
        new = torch.cat(
            [stream[:, start:][:, cut] for stream, start in zip(streams, starts, strict=True)]
        )
        found.append(decoder(new, state, slots))
    for stream, row in zip(streams, torch.cat(found, 1), strict=True):
        assert_near(row, decode(decoder, stream, 60)[-12 * HOP :])
    assert state.frames.tolist() == [17, 0, 52, 12]


@pytest.mark.parametrize("num_frames", [1, 4, 40])
def test_other_slots_keep_their_bits(decoder: Code2Wav, codes: Tensor, num_frames: int) -> None:
    state = decoder.new_state(4)
    decoder(codes[:, :36].view(4, 9, 16), state, slice(0, 4))
    before = [bits(state, slot) for slot in range(4)]
    rows = codes[:, 100 : 100 + 2 * num_frames].view(2, num_frames, 16)
    decoder(rows, state, torch.tensor([2, 0]))
    after = [bits(state, slot) for slot in range(4)]
    assert are_equal(after[1], before[1])
    assert are_equal(after[3], before[3])
    assert not are_equal(after[0], before[0])
    decoder(rows[:1], state, slice(3, 4))
    assert are_equal(bits(state, 1), before[1])
    assert are_equal(bits(state, 2), after[2])


@pytest.mark.parametrize("slots", [1, torch.tensor([1, 2])])
def test_a_reset_slot_is_a_new_one(decoder: Code2Wav, codes: Tensor, slots: int | Tensor) -> None:
    state, new = decoder.new_state(4), decoder.new_state(4)
    decoder(codes[:, :80].view(4, 20, 16), state, slice(0, 4))
    other = bits(state, 3)
    state.reset(slots)
    assert are_equal(bits(state, 1), bits(new, 1))
    found = decoder(codes[:, 40:60], state, slice(1, 2))
    assert torch.equal(found, decoder(codes[:, 40:60], new, slice(1, 2)))
    assert are_equal(bits(state, 3), other)


@pytest.mark.parametrize("num_frames", [1, 7, 60])
def test_frames_that_are_only_heard_leave_the_state_of_frames_decoded(
    decoder: Code2Wav, codes: Tensor, num_frames: int
) -> None:
    rows = codes[:, : 2 * num_frames].view(2, num_frames, 16)
    heard, decoded = decoder.new_state(3), decoder.new_state(3)
    slots = torch.tensor([2, 1])
    for state in (heard, decoded):  # not from the start
        decoder(codes[:, 200:210].view(2, 5, 16), state, slots)
    decoder.hear(rows, heard, slots)
    decoder(rows, decoded, slots)
    for one, other in zip(heard.tensors, decoded.tensors, strict=True):
        assert_near(one, other)
    following = codes[:, 220:240].view(2, 10, 16)
    assert_near(decoder(following, heard, slots), decoder(following, decoded, slots))


# ------------------------------------------------------------ in tensors alone


@pytest.mark.parametrize("num_frames", [1, 3])
def test_a_recorded_call_goes_on_like_one_that_python_makes(
    decoder: Code2Wav, codes: Tensor, num_frames: int
) -> None:
    """Over more frames than the window has, from slots that are as far as they happen to be."""
    frames, slots = torch.zeros(3, num_frames, 16, dtype=torch.int64), torch.zeros(3).long()
    out = torch.empty(3, num_frames * HOP)
    state, eager = decoder.new_state(5), decoder.new_state(5)

    def step() -> None:
        out.copy_(decoder(frames, state, slots))

    graph = RecordingCard().capture(step)
    state.reset(torch.arange(5))
    decoder(codes[:, :4], state, slice(4, 5))
    decoder(codes[:, :4], eager, slice(4, 5))
    untouched = bits(state, 1)
    slots.copy_(torch.tensor([4, 0, 2]))
    for step_codes in codes[:, : 3 * 20 * num_frames].view(20, 3, num_frames, 16):
        frames.copy_(step_codes)
        graph.replay()
        assert torch.equal(out, decoder(step_codes, eager, slots))
    assert graph.num_replays == 20
    assert are_equal(bits(state, 1), untouched)
    assert state.frames.tolist() == [20 * num_frames, 0, 20 * num_frames, 0, 20 * num_frames + 4]


# ------------------------------------------------------------ sizes, formats, refusals


def test_state_is_as_large_as_is_said() -> None:
    decoder = Code2Wav(ShapeSource(torch.float32), RELEASED_CODEC.decoder_config)
    keys_and_values, contexts = 1_163_264, 135_232  # of facts about the released decoder
    assert decoder.state_bytes(2) == 2 * (4 * (keys_and_values + contexts) + 8)
    assert sum(each.nbytes for each in decoder.new_state(2).tensors) == decoder.state_bytes(2)
    empty = torch.empty(2, 3, 16, dtype=torch.int64, device="meta")
    assert decoder(empty, decoder.new_state(2), slice(0, 2)).shape == (2, 3 * HOP)
    assert decoder.num_convolved < 12


@pytest.mark.parametrize(("dtype", "min_snr"), [(torch.bfloat16, 20.0), (torch.float16, 40.0)])
def test_half_precision_is_near(
    folder: Path, decoder: Code2Wav, codes: Tensor, dtype: torch.dtype, min_snr: float
) -> None:
    half = load(folder, dtype=dtype)
    expected = decode(decoder, codes[:, :24], 24)
    noise = (decode(half, codes[:, :24], 5) - expected).square().mean()
    assert half.new_state(1).contexts[0].dtype == dtype
    assert 10 * torch.log10(expected.square().mean() / noise) > min_snr


def test_weights_that_nobody_declared_are_an_error(folder: Path) -> None:
    source = CheckpointSource(folder, FILES, CPU, torch.float32, unused=(ENCODER,))
    Code2Wav(source, Qwen3TTSConfig.load(folder).decoder)
    with pytest.raises(CheckpointError, match=r"2 weights were not used.*input_proj"):
        source.finish()


# ------------------------------------------------------------ a card


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_captured_stream_on_a_card_is_near_the_cpus(
    folder: Path, decoder: Code2Wav, codes: Tensor
) -> None:
    device = torch.device("cuda:0")
    on_card = load(folder, device)
    state = on_card.new_state(4)
    frames = torch.zeros(2, 1, 16, dtype=torch.int64, device=device)
    slots = torch.tensor([3, 1], device=device)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        on_card(frames, state, slots)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = on_card(frames, state, slots)
    state.reset(torch.arange(4, device=device))
    rows, parts = codes[:, :80].view(2, 40, 16), []
    for step in range(40):
        frames.copy_(rows[:, step : step + 1])
        graph.replay()
        parts.append(out.cpu())
    expected = decoder(rows, decoder.new_state(2), slice(0, 2))
    assert_near(torch.cat(parts, 1), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_rounded_products_are_near_exact_ones(folder: Path, codes: Tensor) -> None:
    """Beside a model in bf16; the process's own settings are as before."""
    device = torch.device("cuda:0")
    config = Qwen3TTSConfig.load(folder).decoder
    unused = (*UNUSED, ENCODER)
    source = CheckpointSource(folder, FILES, device, torch.bfloat16, fp32=("",), unused=unused)
    rounded, exact = Code2Wav(source, config), load(folder, device)
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    found, expected = (decode(each, codes.to(device), 25) for each in (rounded, exact))
    assert before == (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    noise = (found - expected).square().mean()
    snr = 10 * torch.log10(expected.square().mean() / noise)
    assert 50 < snr < 100, snr  # dB; infinite where nothing is rounded
