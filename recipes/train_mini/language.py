"""VoxCPM2's language models and LocDiT as modules that can be trained, with the official names.

The engine's modules are for inference over slots; this is the same function over packed rows, held
to it by a test. Losses: flow matching, the end of speech, and, only here, which phone sounds.

Source: OpenBMB/VoxCPM `model/voxcpm2.py` and `modules/` (Apache-2.0). Differences: rows hold many
utterances, noise on what is read back, the phone head.

Letters: `B` rows, `N` positions, `M` draws, `P` latents a patch, `D` latent width, `H` heads,
`G` key/value heads, `C` head width, `W` width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recipes.train_mini.settings import Codec, Language

HEAD = 64
EPSILON = 1e-5
THETA = 10_000.0
TIME_SCALE = 1000
NUM_PHONES = 180
PHONE_WIDTH = 512
MU_TOKENS = 2  # what LocDiT gets from the two language models


def rotations(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of positions `[...]`, `[..., C]` each, halves alike."""
    frequencies = THETA ** (-torch.arange(0, HEAD, 2, device=positions.device) / HEAD)
    angles = positions.unsqueeze(-1).float() * frequencies
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = rotation
    left, right = x.float().chunk(2, -1)
    return (x.float() * cos + torch.cat((-right, left), -1) * sin).to(x.dtype)


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON) * self.weight


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, heads * HEAD, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * HEAD, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * HEAD, bias=False)
        self.o_proj = nn.Linear(heads * HEAD, width, bias=False)

    def forward(
        self, x: Tensor, rotation: tuple[Tensor, Tensor] | None, mask: Tensor | None
    ) -> Tensor:
        q, k, v = (
            projected(x).unflatten(-1, (-1, HEAD)).transpose(1, 2)  # [B, heads, N, C]
            for projected in (self.q_proj, self.k_proj, self.v_proj)
        )
        if rotation is not None:
            q, k = _rotate(q, rotation), _rotate(k, rotation)
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads, kv_heads)
        self.mlp = FeedForward(width, inner)
        self.input_layernorm = Norm(width)
        self.post_attention_layernorm = Norm(width)

    def forward(
        self, x: Tensor, rotation: tuple[Tensor, Tensor] | None, mask: Tensor | None
    ) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotation, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Stack(nn.Module):
    """MiniCPM4: layers and a norm; causal by the mask, or over all of a few positions."""

    def __init__(
        self, width: int, inner: int, heads: int, kv_heads: int, layers: int, vocabulary: int = 0
    ) -> None:
        super().__init__()
        if vocabulary:
            self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            [Layer(width, inner, heads, kv_heads) for _ in range(layers)]
        )  # fmt: skip
        self.norm = Norm(width)

    def forward(
        self, x: Tensor, positions: Tensor | None, mask: Tensor | None = None
    ) -> Tensor:  # fmt: skip
        """`[B, N, W]`; without positions nothing is rotated."""
        rotation = None
        if positions is not None:
            cos, sin = rotations(positions)
            rotation = cos.unsqueeze(-3), sin.unsqueeze(-3)  # over heads
        for layer in self.layers:
            x = layer(x, rotation, mask)
        return self.norm(x)


class LocalEncoder(nn.Module):
    def __init__(self, settings: Language, latent: int) -> None:
        super().__init__()
        width, heads = settings.encoder_hidden, settings.encoder_heads
        self.special_token = nn.Parameter(torch.randn(1, 1, 1, width) * 0.3)
        self.in_proj = nn.Linear(latent, width)
        kv = _kv_heads(heads, settings.kv_heads)
        inner = settings.encoder_feed_forward
        self.encoder = Stack(width, inner, heads, kv, settings.encoder_layers)

    def forward(self, patches: Tensor) -> Tensor:
        """`[M, P, D] -> [M, W]`."""
        special = self.special_token.view(1, 1, -1).expand(len(patches), -1, -1)
        x = torch.cat((special, self.in_proj(patches).float()), 1)
        places = torch.arange(x.shape[1], device=x.device)
        return self.encoder(x, places)[:, 0]


def _kv_heads(heads: int, kv_heads: int) -> int:
    """The local stacks inherit the key/value heads of the language model."""
    assert heads % kv_heads == 0, f"{heads} heads, {kv_heads} key/value heads"
    return kv_heads


class TimeMlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(width, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(F.silu(self.linear_1(x)))


def sinusoids(times: Tensor, width: int) -> Tensor:
    """`[M] -> [M, width]`, sines then cosines."""
    half = width // 2
    steps = torch.arange(half, device=times.device)
    angles = TIME_SCALE * times.unsqueeze(1) * torch.exp(steps * (-math.log(10_000) / (half - 1)))
    return torch.cat((angles.sin(), angles.cos()), -1)


class LocalDiT(nn.Module):
    def __init__(self, settings: Language, latent: int) -> None:
        super().__init__()
        self.width = width = settings.dit_hidden
        self.in_proj = nn.Linear(latent, width)
        self.cond_proj = nn.Linear(latent, width)
        self.out_proj = nn.Linear(width, latent)
        self.time_mlp = TimeMlp(width)
        self.delta_time_mlp = TimeMlp(width)
        kv = _kv_heads(settings.dit_heads, settings.kv_heads)
        inner = settings.dit_feed_forward
        self.decoder = Stack(width, inner, settings.dit_heads, kv, settings.dit_layers)

    def forward(self, x: Tensor, mu: Tensor, times: Tensor, before: Tensor) -> Tensor:
        """Velocity `[M, P, D]` of `x` under `mu [M, 2, W]`, behind the patch `before`."""
        time = self.time_mlp(sinusoids(times, self.width))
        time = time + self.delta_time_mlp(sinusoids(torch.zeros_like(times), self.width))
        parts = mu, time.unsqueeze(1), self.cond_proj(before), self.in_proj(x)
        tokens = torch.cat([part.float() for part in parts], 1)
        places = torch.arange(tokens.shape[1], device=x.device)
        return self.out_proj(self.decoder(tokens, places)[:, -x.shape[1] :]).float()


class FlowMatching(nn.Module):
    """Holds LocDiT under its official name."""

    def __init__(self, settings: Language, latent: int) -> None:
        super().__init__()
        self.estimator = LocalDiT(settings, latent)


class Quantiser(nn.Module):
    """Finite scalar quantisation; gradients pass straight through."""

    def __init__(self, width: int, inner: int, scale: int) -> None:
        super().__init__()
        self.in_proj = nn.Linear(width, inner)
        self.out_proj = nn.Linear(inner, width)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        smooth = torch.tanh(self.in_proj(x).float())
        steps = torch.round(smooth * self.scale) / self.scale
        return self.out_proj(smooth + (steps - smooth).detach()).float()


@dataclass(frozen=True)
class Packed:
    """A step's rows: many utterances behind each other, told apart by `utterance`.

    Attributes:
        tokens: int64 `[B, N]`. patches: `[B, N, P, D]`, zero where there is text.
        is_audio, is_trained, is_last: bool `[B, N]`; the last patch of an utterance ends it.
        utterance: int64 `[B, N]`, -1 for padding. positions: int64 `[B, N]`, in its utterance.
        phones: int64 `[B, N, P]`.
        draws: int64 `[M]`, places in `B N` whose diffusion is trained.
    """

    tokens: Tensor
    patches: Tensor
    is_audio: Tensor
    is_trained: Tensor
    is_last: Tensor
    utterance: Tensor
    positions: Tensor
    phones: Tensor
    draws: Tensor


class LanguageModel(nn.Module):
    def __init__(self, settings: Language, codec: Codec) -> None:
        super().__init__()
        self.settings = settings
        width, latent = settings.hidden, codec.latent_dim
        inner, heads, kv = settings.feed_forward, settings.heads, settings.kv_heads
        self.base_lm = Stack(width, inner, heads, kv, settings.layers, settings.vocabulary)
        self.residual_lm = Stack(width, inner, heads, kv, settings.residual_layers)
        self.feat_encoder = LocalEncoder(settings, latent)
        self.feat_decoder = FlowMatching(settings, latent)
        self.fsq_layer = Quantiser(width, settings.quantised, settings.quantiser_scale)
        self.enc_to_lm_proj = nn.Linear(settings.encoder_hidden, width)
        self.lm_to_dit_proj = nn.Linear(width, settings.dit_hidden)
        self.res_to_dit_proj = nn.Linear(width, settings.dit_hidden)
        self.fusion_concat_proj = nn.Linear(2 * width, width)
        self.stop_proj = nn.Linear(width, width)
        self.stop_head = nn.Linear(width, 2, bias=False)
        self._start()

    @torch.no_grad()
    def _start(self) -> None:
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                deep = name.endswith(("o_proj", "down_proj"))
                module.weight.normal_(
                    0, 0.02 / math.sqrt(2 * self.settings.layers) if deep else 0.02
                )
                if module.bias is not None:
                    module.bias.zero_()
        self.base_lm.embed_tokens.weight.normal_(0, 0.3)
        # what carries a condition starts at the size of what it carries
        for module in (
            self.enc_to_lm_proj, self.lm_to_dit_proj, self.res_to_dit_proj,
            self.fusion_concat_proj, self.fsq_layer.in_proj, self.fsq_layer.out_proj,
            self.feat_encoder.in_proj, self.feat_decoder.estimator.in_proj,
            self.feat_decoder.estimator.cond_proj,
        ):  # fmt: skip
            module.weight.normal_(0, 0.7 / math.sqrt(module.in_features))

    def hidden(self, packed: Packed, patches: Tensor) -> tuple[Tensor, Tensor]:
        """States of both models after each position `[B, N, W]`; patches as they are read back."""
        B, N = packed.tokens.shape
        is_audio = packed.is_audio.unsqueeze(-1)
        encoded = self.enc_to_lm_proj(self.feat_encoder(patches.flatten(0, 1))).float()
        encoded = encoded.view(B, N, -1)
        x = torch.where(is_audio, encoded, self.base_lm.embed_tokens(packed.tokens))
        same = packed.utterance.unsqueeze(2) == packed.utterance.unsqueeze(1)
        causal = torch.ones(N, N, dtype=torch.bool, device=x.device).tril()
        mask = (same & causal).unsqueeze(1)  # [B, 1, N, N]
        base = self.base_lm(x, packed.positions, mask)
        base = torch.where(is_audio, self.fsq_layer(base), base)
        fused = self.fusion_concat_proj(torch.cat((base, is_audio * encoded), -1)).float()
        return base, self.residual_lm(fused, None, mask)

    def stop(self, base: Tensor) -> Tensor:
        """Logits of going on and of the end, from the state before a patch."""
        return self.stop_head(F.silu(self.stop_proj(base))).float()

    def mu(self, base: Tensor, residual: Tensor) -> Tensor:
        """`[M, W]` each to `[M, 2, W']`."""
        both = self.lm_to_dit_proj(base), self.res_to_dit_proj(residual)
        return torch.stack([each.float() for each in both], 1)


class PhoneHead(nn.Module):
    """Which phone sounds in each latent of the patch that comes; never exported."""

    def __init__(self, width: int, patch: int) -> None:
        super().__init__()
        self.patch = patch
        self.layers = nn.Sequential(
            nn.Linear(width, PHONE_WIDTH), nn.SiLU(), nn.Linear(PHONE_WIDTH, patch * NUM_PHONES)
        )

    def forward(self, base: Tensor) -> Tensor:
        """`[M, W] -> [M, P, phones]`."""
        return self.layers(base).float().unflatten(-1, (self.patch, NUM_PHONES))


def before(x: Tensor) -> Tensor:
    """Each position `[B, N, W]` has what the one before it has, the first nothing."""
    return F.pad(x, (0, 0, 1, 0))[:, :-1]


def read_back(packed: Packed, settings: Language) -> Tensor:
    """The patches as the models read them, `[B, N, P, D]`: some with noise, as speech that is made
    has errors."""
    patches = packed.patches
    shape = *patches.shape[:2], 1, 1
    is_noisy = torch.rand(shape, device=patches.device) < settings.history_share
    size = torch.rand(shape, device=patches.device) * settings.history_noise * is_noisy
    return patches + torch.randn_like(patches) * size * packed.is_audio[..., None, None]


def noised(target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Patches `[M, P, D]` part of the way to noise, how far `[M]`, and the noise."""
    times = torch.sigmoid(torch.randn(len(target), device=target.device) - 0.4)
    noise, share = torch.randn_like(target), times.view(-1, 1, 1)
    return (1 - share) * target + share * noise, times, noise


def losses(model: LanguageModel, phones: PhoneHead, packed: Packed) -> dict[str, Tensor]:
    """Diffusion, stop and phone losses, and the share of phones that are right."""
    settings = model.settings
    patches, device = packed.patches, packed.patches.device
    read = read_back(packed, settings)
    base, residual = (before(each) for each in model.hidden(packed, read))
    trained = packed.is_trained.float()
    stop = F.cross_entropy(
        model.stop(base).flatten(0, 1), packed.is_last.long().flatten(), reduction="none"
    )
    stop = (stop * trained.flatten()).sum() / trained.sum().clamp(min=1)
    draws = packed.draws
    base, residual = base.flatten(0, 1)[draws], residual.flatten(0, 1)[draws]
    sounding, guessed = packed.phones.flatten(0, 1)[draws], phones(base)
    phone = F.cross_entropy(guessed.flatten(0, 1), sounding.flatten())
    right = (guessed.argmax(-1) == sounding).float().mean()
    target, previous = patches.flatten(0, 1)[draws], read.flatten(0, 1)[draws - 1]
    # text before a first patch has patches of zeros, and that is what the engine gives there
    mu = model.mu(base, residual)
    mu = mu * (torch.rand(len(mu), 1, 1, device=device) >= settings.guidance_drop)
    x, times, noise = noised(target)
    velocity = model.feat_decoder.estimator(x, mu, times, previous)
    diffusion = F.mse_loss(velocity, noise - target)
    return {"diffusion": diffusion, "stop": stop, "phone": phone, "right": right}
