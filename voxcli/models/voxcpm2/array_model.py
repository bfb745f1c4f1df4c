"""VoxCPM2 whole in arrays: what speaks on a CPU without torch, with the bits of `model.py`.

Recordings alone need torch, for the AudioVAE's encoder; it is imported when one comes.

Letters: `B` rows, `N` positions, `P` latent vectors a patch, `D` latent width, `H` width of the
language models.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from voxcli.kernels import arrays as kernels
from voxcli.kernels.arrays import Places
from voxcli.layers.philox import normal_arrays
from voxcli.models.base import GraphKey
from voxcli.models.data import HostRow
from voxcli.models.voxcpm2 import array_weights as weights
from voxcli.models.voxcpm2 import host
from voxcli.models.voxcpm2.array_layers import Cache, Decoder
from voxcli.models.voxcpm2.array_weights import MODEL, VAE, ArraySource
from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.prompt import Prompt
from voxcli.models.voxcpm2.prompting import NOISE_BLOCK, NUM_WARM_PATCHES, Prompting
from voxcli.models.voxcpm2.tokenize import TextTokenizer

if TYPE_CHECKING:
    from voxcli.models.voxcpm2.vae import Encoder


@dataclass
class SlotState:
    """Everything a running request has, one row a slot; as `model.SlotState`."""

    base_cache: Cache
    residual_cache: Cache
    hidden: np.ndarray
    cond: np.ndarray
    vocoder: list[np.ndarray]
    noise: np.ndarray


class ArrayVoxCPM2(Prompting):
    """A loaded model; see `models.base.ArrayModel` for the contract of each method.

    Args:
        folder: of a checkpoint.
        source, vae: its weights.
    """

    def __init__(
        self, folder: Path, config: VoxCPM2Config, tokenizer: TextTokenizer, source: ArraySource,
        vae: ArraySource,
    ) -> None:  # fmt: skip
        width = config.lm.hidden_size
        with ThreadPoolExecutor(1) as pool:
            decoder = pool.submit(_load_vae, vae, config)
            self.embedding = source.take("base_lm.embed_tokens.weight", config.lm.vocab_size, width)
            self.base_lm = weights.load_causal_stack(
                source, "base_lm", config.lm, config.max_positions
            )
            self.residual_lm = weights.load_causal_stack(
                source, "residual_lm", config.residual_lm, config.max_positions
            )
            self.local_encoder = weights.load_local_encoder(source, config)
            self.dit = weights.load_local_dit(source, config)
            self.quantizer = weights.load_quantizer(source, config)
            self.enc_to_lm = source.linear("enc_to_lm_proj", width, config.encoder.hidden_size)
            self.lm_to_dit = source.linear("lm_to_dit_proj", config.dit.hidden_size, width)
            self.res_to_dit = source.linear("res_to_dit_proj", config.dit.hidden_size, width)
            self.fusion = source.linear("fusion_concat_proj", width, 2 * width)
            self.stop_proj = source.linear("stop_proj", width, width)
            self.stop_head = source.linear("stop_head", 2, width, bias=False)
            source.finish()
            self.decoder = decoder.result()
        super().__init__(config, tokenizer, source.num_parameters + vae.num_parameters)
        self._folder = folder

    @cached_property
    def _encoder(self) -> Encoder:
        import torch

        from voxcli.models.voxcpm2.sources import CheckpointSource
        from voxcli.models.voxcpm2.vae_weights import load_encoder

        with torch.inference_mode():
            source = CheckpointSource(self._folder, torch.device("cpu"), torch.float32)
            return load_encoder(source, self.config.vae)

    def _encode(self, samples: np.ndarray) -> np.ndarray:
        import torch

        with torch.inference_mode():
            array: np.ndarray = self._encoder(torch.from_numpy(samples).unsqueeze(0))[0].numpy()
        return array

    # ------------------------------------------------------------ state

    def new_state(self, num_slots: int, num_positions: int) -> SlotState:
        config = self.config
        assert num_positions <= self.info.max_positions, (num_positions, self.info.max_positions)

        def zeros(*shape: int) -> np.ndarray:
            return np.zeros((num_slots, *shape), np.float32)

        return SlotState(
            base_cache=self.base_lm.new_cache(num_slots, num_positions),
            residual_cache=self.residual_lm.new_cache(num_slots, num_positions),
            hidden=zeros(2, config.lm.hidden_size),
            cond=zeros(*self.patch_shape),
            vocoder=self.decoder.new_state(num_slots),
            noise=zeros(NOISE_BLOCK, *self.patch_shape),
        )

    def copy_prefix(self, state: SlotState, source: int, slot: int, length: int) -> None:
        for cache in (state.base_cache, state.residual_cache):
            for rows in (cache.keys, cache.values):  # [L, slots, G, N, C]
                rows[:, slot, :, :length] = rows[:, source, :, :length]

    # ------------------------------------------------------------ prefill

    def prefill_together(self, state: SlotState, spans: Sequence[tuple[Prompt, int, int]]) -> None:
        hidden, residual = self._run_prompts(
            state, [(prompt, slot, start, len(prompt)) for prompt, slot, start in spans]
        )
        for index, (prompt, slot, _) in enumerate(spans):
            state.hidden[slot, 0] = hidden[index]
            state.hidden[slot, 1] = residual[index]
            for context in state.vocoder:
                context[slot] = 0
            state.cond[slot] = 0
            if prompt.is_continuation:
                recent = prompt.patches[-NUM_WARM_PATCHES:]
                state.cond[slot] = recent[-1]
                self.vocode(state, [slot], recent[np.newaxis])

    def prefill_prefix(self, state: SlotState, prompt: Prompt, slot: int) -> None:
        self._run_prompts(state, [(prompt, slot, 0, prompt.prefix_len)])

    def _run_prompts(
        self, state: SlotState, spans: Sequence[tuple[Prompt, int, int, int]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Both language models over positions of prompts: each with its slot, first and end.

        Returns:
            what they say behind each span, `[spans, H]` each.
        """
        is_audio = np.concatenate([prompt.is_audio[first:end] for prompt, _, first, end in spans])
        token_ids = np.concatenate([prompt.token_ids[first:end] for prompt, _, first, end in spans])
        patches = np.ascontiguousarray(  # an encoder's latents have time behind their width
            np.concatenate([prompt.patches_of(first, end) for prompt, _, first, end in spans])
        )
        places = Places(
            np.concatenate([np.full(end - first, slot) for _, slot, first, end in spans]),
            np.concatenate([np.arange(first, end) for _, _, first, end in spans]),
        )
        embeds = self.embedding[token_ids].astype(np.float32)
        embeds *= np.float32(self.config.lm.embedding_scale)
        audio = np.zeros_like(embeds)
        if len(patches):
            audio[is_audio] = self.enc_to_lm(np.ascontiguousarray(self.local_encoder(patches)))
            embeds[is_audio] = audio[is_audio]
        hidden = self.base_lm(embeds, state.base_cache, places)  # [N, H]
        if len(patches):
            hidden[is_audio] = self.quantizer(hidden)[is_audio]
        fused = self.fusion(np.concatenate((hidden, audio), axis=-1))
        ends = np.array([*accumulate(end - first for _, _, first, end in spans)]) - 1
        residual = self.residual_lm(fused, state.residual_cache, places, ends)
        return hidden[ends], residual

    # ------------------------------------------------------------ decode

    def decode(
        self, state: SlotState, rows: Sequence[HostRow], values: Sequence[Sequence[float]],
        key: GraphKey,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        places = Places(
            np.array([row.slot for row in rows]), np.array([row.position for row in rows])
        )
        slots = places.slots
        lm_hidden = np.ascontiguousarray(state.hidden[slots, 0])
        residual_hidden = np.ascontiguousarray(state.hidden[slots, 1])
        mu = np.stack((self.lm_to_dit(lm_hidden), self.res_to_dit(residual_hidden)), axis=1)
        num_steps, is_guided = key
        frames = self.dit.solve(
            self._noise(state, rows), mu, state.cond[slots], num_steps,
            np.array(values, np.float32)[:, 0] if is_guided else None,
        )  # fmt: skip
        logits = self.stop_head(host.silu(self.stop_proj(lm_hidden)))  # [B, 2]
        is_end = logits[:, 1] > logits[:, 0]
        self._advance(state, places, frames)
        return frames, is_end

    def _noise(self, state: SlotState, rows: Sequence[HostRow]) -> np.ndarray:
        """`[B, P, D]`; each slot's block is drawn when its row gets there."""
        for row in rows:
            if row.step % NOISE_BLOCK == 0:
                steps = np.arange(row.step, row.step + NOISE_BLOCK)
                seeds = np.full_like(steps, row.seed)
                block = normal_arrays(seeds, steps, prod(self.patch_shape))
                state.noise[row.slot] = block.reshape(state.noise[row.slot].shape)
        return state.noise[[row.slot for row in rows], [row.step % NOISE_BLOCK for row in rows]]

    def _advance(self, state: SlotState, places: Places, frames: np.ndarray) -> None:
        embeds = self.enc_to_lm(np.ascontiguousarray(self.local_encoder(frames)))
        lm_hidden = self.quantizer(self.base_lm(embeds, state.base_cache, places))
        fused = self.fusion(np.concatenate((lm_hidden, embeds), axis=-1))
        state.hidden[places.slots, 1] = self.residual_lm(fused, state.residual_cache, places)
        state.hidden[places.slots, 0] = lm_hidden
        state.cond[places.slots] = frames

    # ------------------------------------------------------------ vocode

    def vocode(self, state: SlotState, slots: Sequence[int], frames: np.ndarray) -> np.ndarray:
        B, T, P, D = frames.shape
        latents = np.ascontiguousarray(frames).reshape(B, T * P, D)
        return self.decoder(latents, state.vocoder, np.array(slots))


def _load_vae(source: ArraySource, config: VoxCPM2Config) -> Decoder:
    decoder = weights.load_decoder(source, config.vae)
    weights.skip_encoder(source, config.vae)
    source.finish()
    return decoder


def load(folder: Path) -> ArrayVoxCPM2 | None:
    """A checkpoint without torch; None where it needs torch.

    Raises:
        CheckpointError: missing, damaged or surplus parts, by name.
    """
    if not kernels.is_available() or not all((folder / name).is_file() for name in (MODEL, VAE)):
        return None
    source, vae = ArraySource(folder / MODEL), ArraySource(folder / VAE, host.VAE_PREFIX)
    if not (source.is_readable and vae.is_readable):
        return None
    config = VoxCPM2Config.load(folder)
    tokenizer = TextTokenizer(folder)
    tokenizer.require_room(config.lm.vocab_size)
    return ArrayVoxCPM2(folder, config, tokenizer, source, vae)
