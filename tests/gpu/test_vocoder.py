"""The fused AudioVAE decoder: equal to the plain one in fp32, near it in half precision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from asking import new_request

from voxcli.models.voxcpm2.fused import FusedDecoder
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import VoxCPM2
from voxcli.models.voxcpm2.sources import RandomSource
from voxcli.models.voxcpm2.vae import Decoder
from voxcli.models.voxcpm2.vae_weights import load_decoder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
MINI = Path(__file__).parents[2] / "voxcli" / "assets" / "mini"
# signal to noise in dB against fp32 on the CPU; 16-bit samples of full scale have 98
MIN_SNR = {torch.float32: 90.0, torch.float16: 50.0}


@pytest.fixture(scope="module")
def speech() -> tuple[VoxCPM2, torch.Tensor, torch.Tensor]:
    """The CPU's model, latents `[1, T, D]` of real speech it made, and their samples."""
    from voxcli.config import EngineConfig
    from voxcli.engine.native.core import EngineCore

    model = load(MINI, torch.device("cpu"), torch.float32)
    engine = EngineCore(
        model,
        model.device,
        EngineConfig(max_slots=1, max_positions=200, graphs=({"steps": 6, "guidance_scale": 1.0},)),
    )
    prompt = model.encode_prompt("The birch canoe slid on the smooth planks.")
    request = new_request(prompt, 3, 6, 1.0, max_frames=16, min_frames=16, chunk=100)
    engine.add_request(request)
    patches = []
    for _ in range(16):
        engine.step()
        patches.append(request.pending[-1].clone() if request.pending else None)
    kept = torch.cat([patch for patch in patches if patch is not None]).unsqueeze(0)
    with torch.inference_mode():
        samples = model.decoder(kept, model.decoder.new_state(1), slice(0, 1))
    return model, kept, samples


@pytest.mark.parametrize("dtype", MIN_SNR)
@torch.inference_mode()
def test_streamed_samples_are_near_the_cpus_whole(
    speech: tuple[VoxCPM2, torch.Tensor, torch.Tensor], dtype: torch.dtype
) -> None:
    _, latents, expected = speech
    loaded = load(MINI, torch.device("cuda:0"), torch.float32).decoder
    plain = Decoder(
        loaded.config, loaded.first, loaded.expand, loaded.blocks, loaded.last_scale, loaded.last,
        loaded.last_bias,
    )  # fmt: skip
    decoder = FusedDecoder(plain, dtype)
    state = decoder.new_state(3)
    slots = torch.tensor([2], device="cuda")
    pieces = [
        decoder(latents[:, start : start + 4].cuda(), state, slots)
        for start in range(0, latents.shape[1], 4)
    ]
    found = torch.cat(pieces, dim=1).cpu()
    noise = (found - expected).square().mean()
    snr = float(10 * torch.log10(expected.square().mean() / noise))
    print(f"SNR {dtype} {snr:.1f} dB")
    assert snr > MIN_SNR[dtype]


@torch.inference_mode()
def test_channels_that_are_powers_of_two_stream_like_the_cpus_whole(
    speech: tuple[VoxCPM2, torch.Tensor, torch.Tensor],
) -> None:
    """The large model's channels take other kernels than the bundled voice's; random weights.

    They are halved, because a louder random decoder saturates and amplifies rounding 400 times.
    """
    config = replace(speech[0].config.vae, decoder_dim=512, decoder_rates=(4, 3, 2, 2))
    device = torch.device("cuda:0")
    expected_from = load_decoder(QuietSource(torch.device("cpu"), torch.float32), config)
    decoder = load_decoder(QuietSource(device, torch.bfloat16), config)
    assert isinstance(decoder, FusedDecoder)
    latents = speech[1][..., : config.latent_dim]
    expected = expected_from(latents, expected_from.new_state(1), slice(0, 1))
    state, slots = decoder.new_state(3), torch.tensor([1], device=device)
    found = torch.cat(
        [
            decoder(latents[:, start : start + 4].to(device), state, slots)
            for start in range(0, latents.shape[1], 4)
        ],
        dim=1,
    ).cpu()
    noise = (found - expected).square().mean()
    assert expected.std() > 0.05
    snr = float(10 * torch.log10(expected.square().mean() / noise))
    print(f"SNR random {snr:.1f} dB")
    assert snr > 40


class QuietSource(RandomSource):
    """The CPU's random weights on any device, halved."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(device, dtype)
        self._cpu = RandomSource(torch.device("cpu"), torch.float32)

    def read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        weight = self._cpu.read(name, shape)
        return weight / 2 if name.endswith("weight_g") else weight
