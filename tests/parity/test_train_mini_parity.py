"""What the recipe of the bundled voice trains is what the engine loads and computes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from voxcli.models.voxcpm2.acoustic import sinusoids
from voxcli.models.voxcpm2.backbone import Repeats
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import VoxCPM2
from voxcli.models.voxcpm2.prompt import lay_out

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from recipes.train_mini import export, settings  # noqa: E402
from recipes.train_mini.codec import MAX_LOG_VARIANCE, AudioVae, scale_latents  # noqa: E402
from recipes.train_mini.depthwise import depthwise  # noqa: E402
from recipes.train_mini.language import LanguageModel, Packed  # noqa: E402
from recipes.train_mini.snake import plain_snake, snake  # noqa: E402
from recipes.train_mini.tokens import Tokens  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

# sums in another order, fp32
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
TOY = settings.Settings(
    codec=settings.Codec(encoder_dim=4, latent_dim=8, decoder_dim=32),
    language=settings.Language(
        hidden=128, feed_forward=96, heads=2, kv_heads=1, layers=2, residual_layers=1,
        quantised=16, encoder_hidden=64, encoder_feed_forward=96, encoder_heads=2,
        encoder_layers=1, dit_hidden=64, dit_feed_forward=96, dit_heads=2, dit_layers=2,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Both:
    """What was trained, and the engine over the folder that was made of it."""

    vae: AudioVae
    language: LanguageModel
    engine: VoxCPM2


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "native"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    torch.manual_seed(0)
    vae, language = AudioVae(TOY.codec), LanguageModel(TOY.language, TOY.codec)
    with torch.no_grad():
        for parameter in (*vae.parameters(), *language.parameters()):
            parameter.add_(torch.randn_like(parameter) * 0.05)
    folder = tmp_path_factory.mktemp("voice")
    states = vae.state_dict(), language.state_dict()
    export.write_folder(folder, TOY, *states, dtype=torch.float32)
    engine = load(folder, torch.device("cpu"), torch.float32, is_native=request.param)
    return Both(vae, language, engine)


@torch.inference_mode()
def test_the_trained_encoder_is_the_engine_s(both: Both) -> None:
    samples = torch.randn(2, 640 * 12) * 0.3
    mean, _ = both.vae.encoder(samples.unsqueeze(1))
    torch.testing.assert_close(both.engine.encoder(samples), mean.transpose(1, 2), **TOLERANCE)


@torch.inference_mode()
def test_the_trained_decoder_is_the_engine_s(both: Both) -> None:
    latents = torch.randn(2, TOY.codec.latent_dim, 9)
    state = both.engine.decoder.new_state(2)
    made = both.engine.decoder(latents.transpose(1, 2), state, slice(0, 2))
    torch.testing.assert_close(made, both.vae.decoder(latents).squeeze(1), **TOLERANCE)


@torch.inference_mode()
def test_scaled_latents_make_the_same_samples(both: Both) -> None:
    scaled = AudioVae(TOY.codec)
    scaled.load_state_dict(both.vae.state_dict())
    deviations = torch.rand(TOY.codec.latent_dim) + 0.3
    scale_latents(scaled, deviations)
    samples = torch.randn(1, 1, 640 * 8) * 0.3
    mean, log_variance = both.vae.encoder(samples)
    ours, our_log_variance = scaled.encoder(samples)
    torch.testing.assert_close(ours * deviations.view(-1, 1), mean, **TOLERANCE)
    moved = our_log_variance + 2 * deviations.view(-1, 1).log()
    is_free = (log_variance.abs() < MAX_LOG_VARIANCE) & (our_log_variance < MAX_LOG_VARIANCE)
    torch.testing.assert_close(moved[is_free], log_variance[is_free], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(scaled.decoder(ours), both.vae.decoder(mean), **TOLERANCE)


def packed_of(ids: np.ndarray, is_audio: np.ndarray, patches: Tensor) -> Packed:
    """One utterance as a row, behind another one that must not be seen."""
    N, other = len(ids), 5
    shape = 1, other + N
    tokens = torch.full(shape, 7)
    tokens[0, other:] = torch.from_numpy(ids)
    audio = torch.zeros(shape, dtype=torch.bool)
    audio[0, other:] = torch.from_numpy(is_audio)
    audio[0, 2] = True
    every = torch.zeros(*shape, *patches.shape[1:])
    every[0, 2] = 1.0
    every[0, other:][torch.from_numpy(is_audio)] = patches
    utterance = torch.tensor([[0] * other + [1] * N])
    positions = torch.tensor([[*range(other), *range(N)]])
    none = torch.zeros(shape, dtype=torch.bool)
    phones = torch.zeros(*shape, patches.shape[1], dtype=torch.long)
    return Packed(
        tokens, every, audio, none, none, utterance, positions, phones, torch.zeros(0)
    )  # fmt: skip


@pytest.mark.parametrize(("reference", "continued"), [(0, 0), (3, 0), (0, 2), (3, 2)])
@torch.inference_mode()
def test_both_language_models_say_what_the_engine_s_say(
    both: Both, reference: int, continued: int
) -> None:
    engine, shape = both.engine, (TOY.language.patch, TOY.codec.latent_dim)
    generator = torch.Generator().manual_seed(reference)
    patches = torch.randn(reference + continued, *shape, generator=generator)
    ids = Tokens(TOY.language.vocabulary)("Is it so?")
    prompt = lay_out(ids, patches[:reference].numpy(), patches[reference:].numpy())
    state = engine.new_state(1, len(prompt) + 1)
    engine.prefill(state, prompt, 0)
    packed = packed_of(prompt.token_ids, prompt.is_audio, patches)
    base, residual = both.language.hidden(packed, packed.patches)
    torch.testing.assert_close(state.hidden[0, 0], base[0, -1], **TOLERANCE)
    torch.testing.assert_close(state.hidden[0, 1], residual[0, -1], **TOLERANCE)
    logits = engine.stop_head(torch.nn.functional.silu(engine.stop_proj(state.hidden[0:1, 0])))
    torch.testing.assert_close(both.language.stop(base[:, -1]), logits, **TOLERANCE)


@torch.inference_mode()
def test_the_velocity_is_the_engine_s(both: Both) -> None:
    dit, trained = both.engine.dit, both.language.feat_decoder.estimator
    M, P, D, W = 3, TOY.language.patch, TOY.codec.latent_dim, TOY.language.dit_hidden
    x, before, mu = torch.randn(M, P, D), torch.randn(M, P, D), torch.randn(M, 2, W)
    at = torch.tensor([0.3])
    embedded = dit.time_mlp(sinusoids(at, W)) + dit.delta_time_mlp(sinusoids(at * 0, W))
    repeats = Repeats(torch.arange(3 + 2 * P))
    ours = dit.velocity(dit.in_proj(x), mu, embedded, dit.cond_proj(before), repeats)
    theirs = trained(x, mu, at.expand(M), before)
    torch.testing.assert_close(theirs, ours, **TOLERANCE)


@pytest.mark.parametrize("text", ["Hello there, it's 5 o'clock!", "a  b", "naïve — “quote” ☃ x"])
def test_texts_have_the_ids_that_training_gave_them(both: Both, text: str) -> None:
    assert both.engine.tokenizer is not None
    assert list(both.engine.tokenizer.encode(text)) == Tokens(TOY.language.vocabulary)(text)


def test_snake_is_the_official_function() -> None:
    x, alpha = torch.randn(2, 3, 50), torch.rand(1, 3, 1) + 0.5
    expected = x + torch.sin(alpha * x) ** 2 / alpha
    torch.testing.assert_close(snake(x, alpha), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(plain_snake(x, alpha), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dilation", [1, 3, 9])
def test_depthwise_convolution_is_the_padded_one_of_torch(dilation: int) -> None:
    x, weight, bias = torch.randn(2, 3, 50), torch.randn(3, 1, 7), torch.randn(3)
    padded = torch.nn.functional.pad(x, (6 * dilation, 0))
    expected = torch.nn.functional.conv1d(padded, weight, bias, dilation=dilation, groups=3)
    torch.testing.assert_close(depthwise(x, weight, bias, dilation), expected)
