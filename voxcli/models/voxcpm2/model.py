"""VoxCPM2 whole: prompts into slot state, one patch a step, patches into samples.

One step: condition -> LocDiT -> patch -> LocEnc -> base LM -> FSQ -> residual LM -> next condition,
with the stop head beside it. A step reads and writes rows of `SlotState` in place and returns no
decision to the host.

Source: OpenBMB/VoxCPM `model/voxcpm2.py` (Apache-2.0). Differences: many slots, noise is an
input, no work on text positions that LocEnc would do on zeros.

Letters: `B` rows, `N` positions, `A` audio positions, `P` latent vectors a patch, `D` latent width,
`H` width of the language models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.errors import CheckpointError
from voxcli.models.base import ModelInfo, Prompt, Rows, StepOutput
from voxcli.models.voxcpm2 import vae_weights, weights
from voxcli.models.voxcpm2.backbone import KVCache, ends_of
from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.sources import Source
from voxcli.models.voxcpm2.tokenize import (
    AUDIO_START,
    REFERENCE_END,
    REFERENCE_START,
    TextTokenizer,
)
from voxcli.models.voxcpm2.vae import VocoderState

MIN_PATCHES = 4  # the official loop ignores the stop head for its first three patches
NUM_WARM_PATCHES = 3  # prompt patches the vocoder hears before it continues a prompt
DEFAULT_STEPS = 10
DEFAULT_CFG = 2.0


@dataclass
class SlotState:
    """Everything a running request has on the device, one row a slot.

    Attributes:
        base_cache, residual_cache: keys and values `[L, slots, G, N, C]`.
        hidden: `[slots, 2, H]`; what base and residual LM said last.
        cond: `[slots, P, D]`; the patch before.
        vocoder: past inputs of the decoder's convolutions, fp32.
    """

    base_cache: KVCache
    residual_cache: KVCache
    hidden: Tensor
    cond: Tensor
    vocoder: VocoderState


class VoxCPM2:
    """A loaded model; see `models.base.AcousticModel` for the contract of each method."""

    def __init__(
        self, config: VoxCPM2Config, source: Source, tokenizer: TextTokenizer | None
    ) -> None:
        width = config.lm.hidden_size
        self.config = config
        self.tokenizer = tokenizer
        self.embedding = source.take("base_lm.embed_tokens.weight", config.lm.vocab_size, width)
        self.base_lm = weights.load_causal_stack(source, "base_lm", config.lm)
        self.residual_lm = weights.load_causal_stack(source, "residual_lm", config.residual_lm)
        self.local_encoder = weights.load_local_encoder(source, config)
        self.dit = weights.load_local_dit(source, config)
        self.quantizer = weights.load_quantizer(source, config)
        self.enc_to_lm = source.linear("enc_to_lm_proj", width, config.encoder.hidden_size)
        self.lm_to_dit = source.linear("lm_to_dit_proj", config.dit.hidden_size, width)
        self.res_to_dit = source.linear("res_to_dit_proj", config.dit.hidden_size, width)
        self.fusion = source.linear("fusion_concat_proj", width, 2 * width)
        self.stop_proj = source.linear("stop_proj", width, width)
        self.stop_head = source.linear("stop_head", 2, width, bias=False)
        self.decoder = vae_weights.load_decoder(source, config.vae)
        self.encoder = vae_weights.load_encoder(source, config.vae)
        self.device, self.dtype = source.device, source.dtype
        self.info = ModelInfo(
            family="voxcpm2",
            sample_rate=config.vae.out_sample_rate,
            reference_sample_rate=config.vae.sample_rate,
            hop_length=config.patch_size * config.vae.decoder_hop,
            patch_shape=(config.patch_size, config.feat_dim),
            max_positions=min(config.max_length, config.lm.max_position_embeddings),
            min_patches=MIN_PATCHES,
            num_parameters=source.num_parameters,
            default_steps=DEFAULT_STEPS,
            default_cfg=DEFAULT_CFG,
        )

    # ------------------------------------------------------------ prompts

    def encode_prompt(
        self,
        text: str,
        *,
        reference: np.ndarray | None = None,
        prompt_text: str = "",
        prompt_audio: np.ndarray | None = None,
    ) -> Prompt:
        if self.tokenizer is None:
            raise CheckpointError("this model has no tokenizer files, so it cannot take a text")
        no_patches = np.zeros((0, self.config.patch_size, self.config.feat_dim), np.float32)
        reference = no_patches if reference is None else reference
        prompt_audio = no_patches if prompt_audio is None else prompt_audio
        ids: list[int] = []
        if len(reference):
            ids += [REFERENCE_START, *[-1] * len(reference), REFERENCE_END]
        ids += [*self.tokenizer.encode(prompt_text + text), AUDIO_START, *[-1] * len(prompt_audio)]
        token_ids = np.array(ids, np.int64)
        return Prompt(
            token_ids=np.maximum(token_ids, 0),
            is_audio=token_ids < 0,
            patches=np.concatenate((reference, prompt_audio)),
            is_continuation=len(prompt_audio) > 0,
            prefix_len=len(reference) + 2 if len(reference) else 0,
            prefix_key=hashlib.sha256(reference.tobytes()).hexdigest() if len(reference) else "",
        )

    def encode_audio(self, samples: np.ndarray, *, pad_left: bool = False) -> np.ndarray:
        P = self.config.patch_size
        missing = -len(samples) % (P * self.config.vae.encoder_hop)
        padded = np.pad(samples, (missing, 0) if pad_left else (0, missing))
        with torch.inference_mode():
            batch = torch.from_numpy(padded.astype(np.float32)).unsqueeze(0).to(self.device)
            latents = self.encoder(batch)[0]  # [T, D]
        patches: np.ndarray = latents.unflatten(0, (-1, P)).cpu().numpy()
        return patches

    def can_say(self, character: str) -> bool:
        return self.tokenizer is not None and self.tokenizer.can_say(character)

    # ------------------------------------------------------------ state

    def state_bytes(self, num_slots: int, num_positions: int) -> int:
        config, size = self.config, self.dtype.itemsize
        layers = config.lm.num_hidden_layers + config.residual_lm.num_hidden_layers
        heads = 2 * config.lm.num_key_value_heads * config.lm.head_dim  # keys and values
        numbers = layers * heads * num_positions
        numbers += 2 * config.lm.hidden_size + config.patch_size * config.feat_dim
        contexts = self.decoder.new_state(1).contexts
        return num_slots * (size * numbers + sum(context.nbytes for context in contexts))

    def new_state(self, num_slots: int, num_positions: int) -> SlotState:
        config = self.config
        assert num_positions <= self.info.max_positions, (num_positions, self.info.max_positions)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(num_slots, *shape, dtype=self.dtype, device=self.device)

        return SlotState(
            base_cache=self.base_lm.new_cache(num_slots, num_positions),
            residual_cache=self.residual_lm.new_cache(num_slots, num_positions),
            hidden=zeros(2, config.lm.hidden_size),
            cond=zeros(config.patch_size, config.feat_dim),
            vocoder=self.decoder.new_state(num_slots),
        )

    # ------------------------------------------------------------ prefill

    def prefill(self, state: SlotState, prompt: Prompt, slot: int, start: int = 0) -> None:
        self.prefill_together(state, [(prompt, slot, start)])

    def prefill_together(self, state: SlotState, spans: Sequence[tuple[Prompt, int, int]]) -> None:
        hidden, residual = self._run_prompts(
            state, [(prompt, slot, start, len(prompt)) for prompt, slot, start in spans]
        )
        for index, (prompt, slot, _) in enumerate(spans):
            state.hidden[slot, 0] = hidden[index]
            state.hidden[slot, 1] = residual[index]
            state.vocoder.reset(slot)
            state.cond[slot].zero_()
            if prompt.is_continuation:
                self.resume(state, slot, prompt.patches)

    def prefill_prefix(self, state: SlotState, prompt: Prompt, slot: int) -> None:
        self._run_prompts(state, [(prompt, slot, 0, prompt.prefix_len)])

    def copy_prefix(self, state: SlotState, source: int, slot: int, length: int) -> None:
        for cache in (state.base_cache, state.residual_cache):
            for rows in (cache.keys, cache.values):  # [L, slots, G, N, C]
                rows[:, slot, :, :length] = rows[:, source, :, :length]

    def _run_prompts(
        self, state: SlotState, spans: Sequence[tuple[Prompt, int, int, int]]
    ) -> tuple[Tensor, Tensor]:
        """Both language models over positions of prompts: each with its slot, first and end.

        Returns:
            what they say behind each span, `[spans, H]` each.
        """
        own = np.concatenate([prompt.is_audio[start:end] for prompt, _, start, end in spans])
        token_ids = np.concatenate([prompt.token_ids[start:end] for prompt, _, start, end in spans])
        patches = np.concatenate(
            [_patches_of(prompt, start, end) for prompt, _, start, end in spans]
        )
        places = [(slot, start, end - start) for _, slot, start, end in spans]
        embeds = F.embedding(self._upload(token_ids), self.embedding)
        embeds = embeds * self.config.lm.embedding_scale
        audio = torch.zeros_like(embeds)
        if len(patches):
            is_audio = self._upload(own).unsqueeze(1)
            encoded = self.local_encoder(self._upload(patches).to(self.dtype))
            audio[self._upload(np.flatnonzero(own))] = self.enc_to_lm(encoded)
            embeds = torch.where(is_audio, audio, embeds)
        hidden = self.base_lm.prefill_spans(embeds, state.base_cache, places)  # [N, H]
        if len(patches):
            hidden = torch.where(is_audio, self.quantizer(hidden), hidden)
        fused = self.fusion(torch.cat((hidden, audio), dim=-1))
        residual = self.residual_lm.prefill_ends(fused, state.residual_cache, places)
        return torch.stack([hidden[end] for end in ends_of(places)]), residual

    def prefill_rows(
        self, state: SlotState, token_ids: Tensor, slots: Tensor, starts: Tensor, last: Tensor,
        audio: tuple[Tensor, Tensor] | None = None,
    ) -> None:  # fmt: skip
        B, N = token_ids.shape
        embeds = F.embedding(token_ids, self.embedding) * self.config.lm.embedding_scale
        if audio is None:
            heard = torch.zeros_like(embeds)
            hidden = self.base_lm.prefill_rows(embeds, state.base_cache, slots, starts)
        else:
            patches, places = audio
            heard = embeds.new_zeros(B * N + 1, embeds.shape[-1])
            heard[places] = self.enc_to_lm(self.local_encoder(patches.to(self.dtype)))
            is_audio = torch.zeros(B * N + 1, dtype=torch.bool, device=self.device)
            is_audio = is_audio.index_fill(0, places, True)[:-1].view(B, N, 1)
            heard = heard[:-1].view(B, N, -1)
            embeds = torch.where(is_audio, heard, embeds)
            hidden = self.base_lm.prefill_rows(embeds, state.base_cache, slots, starts)
            hidden = torch.where(is_audio, self.quantizer(hidden), hidden)
        fused = self.fusion(torch.cat((hidden, heard), dim=-1))
        residual = self.residual_lm.prefill_rows(fused, state.residual_cache, slots, starts)
        rows = torch.arange(B, device=self.device)
        state.hidden[slots] = torch.stack((hidden[rows, last], residual[rows, last]), dim=1)
        for part in (state.cond, *state.vocoder.contexts):
            part.index_fill_(0, slots, 0)

    def resume(self, state: SlotState, slot: int, patches: np.ndarray) -> None:
        recent = self._upload(patches[-NUM_WARM_PATCHES:]).to(self.dtype)
        state.cond[slot] = recent[-1]
        self.vocode(state, [slot], recent.unsqueeze(0))

    def _upload(self, array: np.ndarray) -> Tensor:
        """A copy on the device that does not wait for what runs there."""
        tensor = torch.from_numpy(array)
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    # ------------------------------------------------------------ decode

    def decode(self, state: SlotState, rows: Rows) -> StepOutput:
        output = self.generate(state, rows)
        self.advance(state, rows, output.patches)
        return output

    def generate(self, state: SlotState, rows: Rows) -> StepOutput:
        lm_hidden, residual_hidden = state.hidden[rows.slots].unbind(1)  # [B, H] each
        mu = torch.stack((self.lm_to_dit(lm_hidden), self.res_to_dit(residual_hidden)), dim=1)
        patches = self.dit.solve(
            rows.noise.to(self.dtype),
            mu,
            state.cond[rows.slots],
            rows.num_steps,
            rows.cfg if rows.is_guided else None,
        )
        logits = self.stop_head(F.silu(self.stop_proj(lm_hidden)))  # [B, 2]
        # equal logits are no stop, as in argmax, which returns the first
        is_end = logits[:, 1] > logits[:, 0]
        return StepOutput(patches, is_end)

    def advance(self, state: SlotState, rows: Rows, patches: Tensor) -> None:
        embeds = self.enc_to_lm(self.local_encoder(patches))
        lm_hidden = self.quantizer(self.base_lm.decode(embeds, state.base_cache, rows))
        fused = self.fusion(torch.cat((lm_hidden, embeds), dim=-1))
        residual_hidden = self.residual_lm.decode(fused, state.residual_cache, rows)
        state.hidden[rows.slots] = torch.stack((lm_hidden, residual_hidden), dim=1)
        state.cond[rows.slots] = patches

    # ------------------------------------------------------------ vocode

    def vocode(self, state: SlotState, slots: Sequence[int] | Tensor, patches: Tensor) -> Tensor:
        rows: Tensor | slice
        if isinstance(slots, Tensor):
            rows = slots
        elif len(slots) == 1 and self.device.type == "cpu":
            rows = slice(slots[0], slots[0] + 1)
        else:
            rows = self._upload(np.array(slots))
        return self.decoder(patches.flatten(1, 2).float(), state.vocoder, rows)


def _patches_of(prompt: Prompt, start: int, end: int) -> np.ndarray:
    """Patches `[A, P, D]` of positions `start .. end`."""
    first, stop = (int(prompt.is_audio[:place].sum()) for place in (start, end))
    return prompt.patches[first:stop]
