"""Kernels of code2wav against the torch code beside them, and the fused decoder against the plain.

`TRITON_INTERPRET=1 KERNEL_DEVICE=cpu` runs this without a card.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from qwen3_tts import tiny
from torch import Tensor

pytest.importorskip("triton")
DEVICE = torch.device(os.environ.get("KERNEL_DEVICE", "cuda"))
if DEVICE.type == "cuda" and not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from voxcli.kernels import convolution, ring_attention, vocoder  # noqa: E402
from voxcli.kernels.convolution import Reader  # noqa: E402
from voxcli.layers.snake import Snake  # noqa: E402
from voxcli.models.qwen3_tts.code2wav import Code2Wav  # noqa: E402
from voxcli.models.qwen3_tts.fused_code2wav import FusedCode2Wav  # noqa: E402
from voxcli.models.qwen3_tts.loading import FP32, SPEECH_TOKENIZER  # noqa: E402
from voxcli.models.qwen3_tts.sizes import DecoderConfig  # noqa: E402
from voxcli.models.sources import Source  # noqa: E402

pytestmark = pytest.mark.gpu
ERROR = 2e-3  # relative norm; fp16 rounds by 5e-4
MIN_SNR = 40.0  # dB against fp32, through a network of random weights
NUM_SLOTS = 5


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.inference_mode():
        yield


def normal(*shape: int, dtype: torch.dtype = torch.float16, scale: float = 1.0) -> Tensor:
    return (scale * torch.randn(shape, device=DEVICE)).to(dtype)


def snake_of(num_channels: int) -> Snake:
    scale, gain = torch.rand(2, num_channels, device=DEVICE) + 0.5
    return Snake(scale, gain)


def assert_near(found: Tensor, wanted: Tensor, error: float = ERROR) -> None:
    assert found.shape == wanted.shape
    assert found.isfinite().all()
    wanted = wanted.double()
    assert float((found.double() - wanted).norm() / wanted.norm()) < error


# rows, time steps, channels, taps, outputs, dilation
CONVOLUTIONS = [
    (1, 1, 64, 1, 64, 1),
    (1, 4, 96, 7, 32, 9),
    (3, 5, 32, 3, 96, 1),
    (2, 70, 16, 7, 40, 3),
    (3, 90, 48, 2, 160, 1),
    (1, 2, 256, 7, 64, 1),
]


@pytest.mark.parametrize("size", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("kind", ["plain", "snake", "gelu"])
def test_a_convolution_is_torchs(size: tuple[int, ...], kind: str) -> None:
    B, T, C, K, N, dilation = size
    J = (K - 1) * dilation
    slots = torch.randperm(NUM_SLOTS, device=DEVICE)[:B]
    contexts = [normal(NUM_SLOTS, J, C) if J else None] * 2
    contexts = [each if each is None else each.clone() for each in contexts]
    inputs = normal(B, J + T, C), normal(N, K, C, scale=(K * C) ** -0.5), normal(N).float(), slots
    options = {
        "dilation": dilation,
        "snake": snake_of(N) if kind == "snake" else None,
        "is_gelu": kind == "gelu",
    }
    wanted, _ = convolution.convolve_reference(*inputs, contexts[0], **options)
    assert_near(convolution.convolve(*inputs, contexts[1], **options), wanted)
    if J:
        assert torch.equal(contexts[0], contexts[1])


@pytest.mark.parametrize("size", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("has_snake", [True, False], ids=["snake", "no_snake"])
@pytest.mark.parametrize("has_residual", [True, False], ids=["residual", "no_residual"])
def test_a_sum_stands_behind_its_readers_context(
    size: tuple[int, ...], stride: int, has_snake: bool, has_residual: bool
) -> None:
    B, T, C, K, N, _ = size
    J = K - 1
    slots = torch.randperm(NUM_SLOTS, device=DEVICE)[:B]
    own = normal(NUM_SLOTS, J, C) if J else None
    reader = Reader(
        normal(NUM_SLOTS, 54, N // stride), snake_of(N // stride) if has_snake else None
    )
    before = reader.context.clone()
    inputs = normal(B, J + T, C), normal(N, K, C, scale=(K * C) ** -0.5), normal(N).float(), slots
    residual = normal(B, T, N) if has_residual else None
    wanted, wanted_padded = convolution.convolve_reference(
        *inputs, own if own is None else own.clone(), residual=residual, reader=reader
    )
    found, padded = convolution.convolve_for(reader, *inputs, own, residual=residual)
    assert_near(found, wanted)
    assert wanted_padded is not None
    assert_near(padded, wanted_padded)
    assert torch.equal(padded[:, :54], before[slots])
    assert torch.equal(reader.context, before)
    _, alone = convolution.convolve_for(reader, *inputs, own, residual=residual, is_kept=False)
    assert torch.equal(alone, padded)


def test_what_is_too_large_ends_at_the_largest_number_and_what_is_none_stays_none() -> None:
    weight = torch.full((16, 1, 32), 500.0, device=DEVICE, dtype=torch.float16)
    x = torch.full((1, 2, 32), 500.0, device=DEVICE, dtype=torch.float16)
    bias, slots = torch.zeros(16, device=DEVICE), torch.zeros(1, dtype=torch.int64, device=DEVICE)
    assert (convolution.convolve(x, weight, bias, slots) == convolution.LIMIT).all()
    assert (convolution.convolve(-x, weight, bias, slots) == -convolution.LIMIT).all()
    x[0, 1, 3] = torch.nan
    found = convolution.convolve(x, weight, bias, slots)
    assert found[0, 0].isfinite().all()
    assert found[0, 1].isnan().all()


@pytest.mark.parametrize("num_frames", [1, 3])
def test_codes_are_summed_behind_the_context(num_frames: int) -> None:
    codes = torch.randint(-3, 40, (3, num_frames, 4), device=DEVICE)
    table, context = normal(4 * 32, 48), normal(NUM_SLOTS, 2, 48)
    slots = torch.tensor([4, 0, 2], device=DEVICE)
    frames = torch.arange(NUM_SLOTS, device=DEVICE) * 7
    other = frames.clone()
    wanted, wanted_starts = convolution.embed_reference(codes, table, context, other, slots)
    found, starts = convolution.embed(codes, table, context, frames, slots)
    assert_near(found, wanted)
    assert torch.equal(starts, wanted_starts)
    assert torch.equal(frames, other)


@pytest.mark.parametrize("num_steps", [1, 2, 4, 9])
def test_a_depthwise_convolution_is_normalised(num_steps: int) -> None:
    x, weight, bias = normal(3, num_steps, 40), normal(7, 40).float(), normal(40).float()
    slots, context = torch.tensor([4, 0, 2], device=DEVICE), normal(NUM_SLOTS, 6, 40)
    other = context.clone()
    wanted = convolution.depthwise_norm_reference(x, weight, bias, 1e-6, other, slots)
    assert_near(convolution.depthwise_norm(x, weight, bias, 1e-6, context, slots), wanted)
    assert torch.equal(context, other)


def test_samples_end_at_one() -> None:
    padded, weight = normal(2, 6 + 50, 24, scale=0.2), normal(7, 24).float()
    slots, context = torch.tensor([3, 1], device=DEVICE), normal(NUM_SLOTS, 6, 24)
    bias, other = normal(1).float(), context.clone()
    wanted = vocoder.last_reference(padded, weight, bias, other, slots, is_clamped=True)
    found = vocoder.last(padded, weight, bias, context, slots, is_clamped=True)
    assert_near(found, wanted)
    assert found.abs().max() == 1
    assert torch.equal(context, other)


@pytest.mark.parametrize("num_frames", [1, 3, 20, 32])
@pytest.mark.parametrize("ring", [71, 7])
def test_a_ring_of_keys_goes_round(num_frames: int, ring: int) -> None:
    """Rows that have just begun, are before their window's end and far beyond it."""
    B, H, C = 3, 2, 32
    slots = torch.tensor([4, 0, 2], device=DEVICE)
    starts = torch.tensor([0, ring - 2, 1000], device=DEVICE)
    keys, values = normal(NUM_SLOTS, H, ring, C), normal(NUM_SLOTS, H, ring, C)
    others = keys.clone(), values.clone()
    frequencies = 10_000.0 ** -(torch.arange(0, C, 2, device=DEVICE) / C)
    for _ in range(3):
        qkv = normal(B, num_frames, 3 * H * C)
        wanted = ring_attention.ring_attention_reference(qkv, frequencies, *others, slots, starts)
        found = ring_attention.ring_attention(qkv, frequencies, keys, values, slots, starts)
        assert_near(found, wanted)
        assert_near(keys, others[0])
        assert torch.equal(values, others[1])
        starts += num_frames


# ------------------------------------------------------------ the decoder


class TinySource(Source):
    """Weights that keep signals as they are, of any size."""

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(tiny.value("fused", name.removeprefix(SPEECH_TOKENIZER), shape))


@pytest.fixture(scope="module")
def config() -> DecoderConfig:
    """A small one that the fused layers take."""
    return DecoderConfig(
        latent_dim=64, codebook_dim=32, codebook_size=64, decoder_dim=256, hidden_size=64,
        intermediate_size=96, head_dim=32, num_attention_heads=2, num_key_value_heads=2,
        num_hidden_layers=2, sliding_window=16, upsample_rates=(2, 3, 2, 2),
        upsampling_ratios=(2, 2), num_quantizers=16, rms_norm_eps=1e-5, rope_theta=10_000.0,
        vector_quantization_hidden_dimension=512,
    )  # fmt: skip


@pytest.fixture(scope="module")
def decoders(config: DecoderConfig) -> tuple[Code2Wav, FusedCode2Wav]:
    with torch.inference_mode():
        plain, half = (
            TinySource(DEVICE, dtype, fp32=FP32) for dtype in (torch.float32, torch.bfloat16)
        )
        return Code2Wav(plain, config), FusedCode2Wav(half, config)


def snr(found: Tensor, wanted: Tensor) -> float:
    noise = (found - wanted).square().mean()
    return float(10 * torch.log10(wanted.square().mean() / noise))


@pytest.mark.parametrize("size", [1, 3, 40])
def test_a_fused_stream_is_near_the_plain_one_however_it_is_cut(
    decoders: tuple[Code2Wav, FusedCode2Wav], config: DecoderConfig, size: int
) -> None:
    plain, fused = decoders
    num_frames = 40 if size > 1 else 12
    codes = torch.randint(0, config.codebook_size, (2, num_frames, 16), device=DEVICE)
    slots = torch.tensor([3, 1], device=DEVICE)
    wanted = plain(codes, plain.new_state(NUM_SLOTS), slots)
    state = fused.new_state(NUM_SLOTS)
    found = torch.cat([fused(each, state, slots) for each in codes.split(size, 1)], 1)
    assert snr(found, wanted) > MIN_SNR
    assert state.frames.tolist() == [0, num_frames, 0, num_frames, 0]
    assert all(not tensor[2].any() for tensor in state.tensors)


def test_frames_that_are_only_heard_leave_the_state_of_frames_decoded(
    decoders: tuple[Code2Wav, FusedCode2Wav], config: DecoderConfig
) -> None:
    _, fused = decoders
    codes = torch.randint(0, config.codebook_size, (1, 45, 16), device=DEVICE)
    heard, decoded = fused.new_state(2), fused.new_state(2)
    fused.hear(codes, heard, slice(1, 2))
    fused(codes, decoded, slice(1, 2))
    for one, other in zip(heard.tensors, decoded.tensors, strict=True):
        torch.testing.assert_close(one.float(), other.float(), atol=0.1, rtol=0.05)
