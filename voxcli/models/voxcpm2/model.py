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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.kernels import is_available
from voxcli.layers.memory import upload
from voxcli.layers.noise import normal
from voxcli.models.causal import ends_of
from voxcli.models.data import (
    HostRow,
    Input,
    PackedSpans,
    PromptShape,
    Rows,
    Span,
    StepOutput,
)
from voxcli.models.kv_cache import KVCache
from voxcli.models.voxcpm2 import vae_weights, weights
from voxcli.models.voxcpm2.acoustic import silu_of
from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.prompt import AUDIO, TEXT, Prompt
from voxcli.models.voxcpm2.prompting import GUIDANCE, NOISE_BLOCK, NUM_WARM_PATCHES, Prompting
from voxcli.models.voxcpm2.sources import Source
from voxcli.models.voxcpm2.tokenize import StandInTokenizer, TextTokenizer
from voxcli.models.voxcpm2.vae import VocoderState


@dataclass
class SlotState:
    """Everything a running request has on the device, one row a slot.

    Attributes:
        base_cache, residual_cache: keys and values `[L, slots, G, N, C]`.
        hidden: `[slots, 2, H]`; what base and residual LM said last.
        cond: `[slots, P, D]`; the patch before.
        vocoder: past inputs of the decoder's convolutions, fp32.
        noise: `[slots, NOISE_BLOCK, P, D]`, fp32, on a CPU alone: of the next steps of each row.
    """

    base_cache: KVCache
    residual_cache: KVCache
    hidden: Tensor
    cond: Tensor
    vocoder: VocoderState
    noise: Tensor | None = None


class VoxCPM2(Prompting):
    """A loaded model; see `models.base.SpeechModel` for the contract of each method."""

    def __init__(
        self,
        config: VoxCPM2Config,
        source: Source,
        tokenizer: TextTokenizer | StandInTokenizer | None,
    ) -> None:
        width = config.lm.hidden_size
        self.embedding = source.take("base_lm.embed_tokens.weight", config.lm.vocab_size, width)
        self.base_lm = weights.load_causal_stack(source, "base_lm", config.lm, config.max_positions)
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
        self.decoder = vae_weights.load_decoder(source, config.vae)
        self.encoder = vae_weights.load_encoder(source, config.vae)
        self.device, self.dtype = source.device, source.dtype
        super().__init__(config, tokenizer, source.num_parameters)
        self._normal = _noise_function(self.device)

    def _encode(self, samples: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            latents = self.encoder(torch.from_numpy(samples).unsqueeze(0).to(self.device))[0]
        array: np.ndarray = latents.cpu().numpy()
        return array

    # ------------------------------------------------------------ state

    def state_bytes(self, num_slots: int, num_positions: int) -> int:
        config, size = self.config, self.dtype.itemsize
        layers = config.lm.num_hidden_layers + config.residual_lm.num_hidden_layers
        heads = 2 * config.lm.num_key_value_heads * config.lm.head_dim  # keys and values
        numbers = layers * heads * num_positions
        numbers += 2 * config.lm.hidden_size + config.patch_size * config.feat_dim
        contexts = self.decoder.new_state(1).contexts
        noise = 4 * NOISE_BLOCK * prod(self.patch_shape) if self.device.type == "cpu" else 0
        return num_slots * (size * numbers + sum(each.nbytes for each in contexts) + noise)

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
            noise=torch.zeros(num_slots, NOISE_BLOCK, *self.patch_shape, device=self.device)
            if self.device.type == "cpu" else None,
        )  # fmt: skip

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
            self.resume(state, slot, prompt)

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
        patches = np.concatenate([prompt.patches_of(start, end) for prompt, _, start, end in spans])
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

    def prompt_inputs(self, shape: PromptShape) -> tuple[Input, ...]:
        N = shape.num_positions
        token_ids = Input("token_ids", "int64", (N,))
        if shape.kind == TEXT:
            return (token_ids,)
        # where in N each patch is, or N for one that is padding
        return token_ids, Input("places", "int64", (N,)), Input(
            "patches", "float32", (N, *self.patch_shape)
        )  # fmt: skip

    def fill_inputs(
        self, shape: PromptShape, spans: Sequence[Span], arrays: Mapping[str, np.ndarray]
    ) -> None:
        if shape.kind == AUDIO:
            arrays["places"][:] = shape.num_positions  # a place that is thrown away
        num_before = num_patches = 0
        for span in spans:
            prompt, own = span.prompt, slice(span.start, span.end)
            assert isinstance(prompt, Prompt)
            arrays["token_ids"][num_before : num_before + len(span)] = prompt.token_ids[own]
            if shape.kind == AUDIO:
                places = np.flatnonzero(prompt.is_audio[own])
                patches = slice(num_patches, num_patches + len(places))
                arrays["places"][patches] = num_before + places
                arrays["patches"][patches] = prompt.patches_of(span.start, span.end)
                num_patches += len(places)
            num_before += len(span)

    def prefill_packed(
        self, state: SlotState, shape: PromptShape, packed: PackedSpans,
        inputs: Mapping[str, Tensor],
    ) -> None:  # fmt: skip
        token_ids = inputs["token_ids"]
        N = len(token_ids)
        embeds = F.embedding(token_ids, self.embedding) * self.config.lm.embedding_scale
        if shape.kind == TEXT:
            heard = torch.zeros_like(embeds)
            hidden = self.base_lm.prefill_packed(embeds, state.base_cache, packed)
        else:
            patches, places = inputs["patches"], inputs["places"]
            heard = embeds.new_zeros(N + 1, embeds.shape[-1])
            heard[places] = self.enc_to_lm(self.local_encoder(patches.to(self.dtype)))
            heard = heard[:-1]
            is_audio = torch.zeros(N + 1, dtype=torch.bool, device=self.device)
            is_audio = is_audio.index_fill(0, places, True)[:-1].unsqueeze(1)
            embeds = torch.where(is_audio, heard, embeds)
            hidden = self.base_lm.prefill_packed(embeds, state.base_cache, packed)
            hidden = torch.where(is_audio, self.quantizer(hidden), hidden)
        fused = self.fusion(torch.cat((hidden, heard), dim=-1))
        residual = self.residual_lm.prefill_packed(fused, state.residual_cache, packed, ends=True)
        rows = packed.ended_rows
        state.hidden[rows] = torch.stack((hidden[packed.ends], residual), dim=1)
        for part in (state.cond, *state.vocoder.contexts):
            part.index_fill_(0, rows, 0)

    def resume(self, state: SlotState, slot: int, prompt: Prompt) -> None:
        """Let a prefilled slot continue the prompt's speech: its condition and vocoder."""
        if not prompt.is_continuation:
            return
        recent = self._upload(prompt.patches[-NUM_WARM_PATCHES:]).to(self.dtype)
        state.cond[slot] = recent[-1]
        self.vocode(state, [slot], recent.unsqueeze(0))

    def _upload(self, array: np.ndarray) -> Tensor:
        return upload(array, self.device)

    # ------------------------------------------------------------ decode

    def noise(self, state: SlotState, rows: Rows) -> Tensor:
        """The noise of a step, `[B, P, D]`."""
        if rows.host is None:
            size = prod(self.patch_shape)
            return self._normal(rows.seeds, rows.steps, size).view(-1, *self.patch_shape)
        return self._noise_by_block(state, rows.host)

    def _noise_by_block(self, state: SlotState, rows: Sequence[HostRow]) -> Tensor:
        """The same numbers; each slot's block is drawn when its row gets there."""
        assert state.noise is not None, "the host drives steps on a CPU alone"
        slots, offsets = [], []
        for row in rows:
            offset = row.step % NOISE_BLOCK
            if offset == 0:
                steps = torch.arange(row.step, row.step + NOISE_BLOCK, device=self.device)
                seeds = torch.full_like(steps, row.seed)
                block = normal(seeds, steps, state.noise[0, 0].numel())
                state.noise[row.slot] = block.view_as(state.noise[row.slot])
            slots.append(row.slot)
            offsets.append(offset)
        return state.noise[
            torch.tensor(slots, device=self.device), torch.tensor(offsets, device=self.device)
        ]

    def decode(self, state: SlotState, rows: Rows) -> StepOutput:
        output = self.generate(state, rows)
        self.advance(state, rows, output.frames)
        return output

    def generate(self, state: SlotState, rows: Rows) -> StepOutput:
        lm_hidden, residual_hidden = state.hidden[rows.slots].unbind(1)  # [B, H] each
        mu = torch.stack((self.lm_to_dit(lm_hidden), self.res_to_dit(residual_hidden)), dim=1)
        num_steps, is_guided = rows.key
        patches = self.dit.solve(
            self.noise(state, rows).to(self.dtype),
            mu,
            state.cond[rows.slots],
            num_steps,
            rows.inputs[GUIDANCE.name] if is_guided else None,
        )
        logits = self.stop_head(silu_of(self.stop_proj, lm_hidden))  # [B, 2]
        # equal logits are no stop, as in argmax, which returns the first
        is_end = logits[:, 1] > logits[:, 0]
        return StepOutput(patches, is_end)

    def advance(self, state: SlotState, rows: Rows, frames: Tensor) -> None:
        embeds = self.enc_to_lm(self.local_encoder(frames))
        lm_hidden = self.quantizer(self.base_lm.decode(embeds, state.base_cache, rows))
        fused = self.fusion(torch.cat((lm_hidden, embeds), dim=-1))
        residual_hidden = self.residual_lm.decode(fused, state.residual_cache, rows)
        state.hidden[rows.slots] = torch.stack((lm_hidden, residual_hidden), dim=1)
        state.cond[rows.slots] = frames

    # ------------------------------------------------------------ vocode

    def vocode(self, state: SlotState, slots: Sequence[int] | Tensor, frames: Tensor) -> Tensor:
        rows: Tensor | slice
        if isinstance(slots, Tensor):
            rows = slots
        elif len(slots) == 1 and self.device.type == "cpu":
            rows = slice(slots[0], slots[0] + 1)
        else:
            rows = self._upload(np.array(slots))
        return self.decoder(frames.flatten(1, 2).float(), state.vocoder, rows)


def _noise_function(device: torch.device) -> Callable[[Tensor, Tensor, int], Tensor]:
    if not is_available(device):
        return partial(normal, in_tensors=True)
    from voxcli.kernels.noise import normal as kernel

    return kernel
