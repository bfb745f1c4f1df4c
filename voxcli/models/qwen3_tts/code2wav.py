"""The speech tokenizer's decoder: codes to samples, streaming, stateful by slot, exact.

Sixteen codebooks are summed, a small transformer looks back over a window of frames, and
convolutions make 1920 samples of each frame. All of it is causal: past keys and values within the
window and the last inputs of each convolution make a stream equal to decoding everything at once,
up to rounding, however it is cut. The official package decodes in pieces of 300 frames with 25
frames of context and so differs from itself after 24 s; a stream here does not.

State is an argument, one row a slot, written in place at the slots of a call alone. A call is
tensors alone for any number of frames, so that it can be captured.

All is channels-last; what is linear is folded when loaded (`code2wav_layers.py`).

On CUDA its products round to TF32, unless the whole model is asked for in fp32; where kernels run,
`fused_code2wav.py` takes its place.

Source: QwenLM/Qwen3-TTS@022e286b, the 12 Hz tokenizer's decoder (Apache-2.0). Differences: folding,
layout, state, rotary pairs that are neighbours (`layers/rope.py`).

Letters: `B` rows, `T` frames or time steps, `K` codebooks or taps, `V` codebook size, `C` channels,
`D` width, `H` heads, `R` frames of the ring, `J` context length, `S` samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.errors import CheckpointError
from voxcli.layers.rope import rotate
from voxcli.layers.rounding import tf32
from voxcli.models.qwen3_tts.code2wav_layers import (
    DILATIONS,
    KERNEL,
    PREFIX,
    Conv,
    Layer,
    Loader,
    behind,
)
from voxcli.models.qwen3_tts.sizes import DecoderConfig
from voxcli.models.sources import Source

UNUSED = (f"{PREFIX}quantizer.rvq_*.input_proj.weight",)  # keys of the file that encoding alone has

LAYER_NORM_EPS = 1e-6
MAX_FRAMES = 32  # at once; what is more goes in pieces, which keeps memory bounded


@dataclass
class Code2WavState:
    """What is kept between calls; all zero at the start of a stream.

    Attributes:
        frames: int64 `[slots]`, decoded so far; where the next one is in rotary position and ring.
        keys, values: of each layer, `[slots, H, R, C]`, R one less than the window; frame t is at
            `t % R`.
        contexts: past inputs of each convolution, `[slots, J, C]`, in the order they are used.
    """

    frames: Tensor
    keys: list[Tensor]
    values: list[Tensor]
    contexts: list[Tensor]

    @property
    def tensors(self) -> list[Tensor]:
        """All of them, slots first."""
        return [self.frames, *self.keys, *self.values, *self.contexts]

    def reset(self, slots: int | Tensor) -> None:
        """Start new streams: of one slot, or in tensors alone of some, int64 `[B]`."""
        for tensor in self.tensors:
            if isinstance(slots, Tensor):
                tensor.index_fill_(0, slots, 0)
            else:
                tensor[slots].zero_()


@dataclass(frozen=True)
class _Window:
    """What all layers of a call need to attend.

    Attributes:
        rotation: complex64 `[B, T, 1, C / 2]`, of the new frames.
        hidden: bool `[B, 1, T, R + T]`, which keys of ring and new frames a frame does not see.
        places: int64 `[B, R or less]`, where in the ring the last new frames go.
    """

    rotation: Tensor
    hidden: Tensor
    places: Tensor


class Code2Wav:
    """Codes to samples.

    Args:
        source: of tensors named as in the file, with the prefix `speech_tokenizer.`; their device
            and dtype are the decoder's. Where the source's own dtype is fp32, so are its products.
        weights: dtype of weights and state, None for the source's.

    Raises:
        CheckpointError: as `source` does; sizes that the decoder cannot have.
    """

    def __init__(
        self, source: Source, config: DecoderConfig, weights: torch.dtype | None = None
    ) -> None:
        if config.num_key_value_heads != config.num_attention_heads or config.sliding_window < 2:
            raise CheckpointError(
                "the speech tokenizer's decoder needs as many key/value heads as query heads and "
                "a window of 2 frames or more, not "
                f"{config.num_key_value_heads}, {config.num_attention_heads} and "
                f"{config.sliding_window}"
            )
        self.config = config
        self.hop_length = config.hop_length
        self.is_rounded = source.dtype != torch.float32
        load = Loader(source, config, weights)
        self.table = load.codebooks()  # [K * V, D]
        self.first = load.first()
        self.layers = [load.layer(index) for index in range(config.num_hidden_layers)]
        self.upsamples = [load.upsample(index) for index in range(len(config.upsampling_ratios))]
        self.expand = load.conv("decoder.0", config.decoder_dim, config.latent_dim)
        self.blocks = [load.block(index) for index in range(len(config.upsample_rates))]
        self.last_snake, self.last, self.last_bias = load.last()
        device = self.table.device
        self._offsets = torch.arange(config.num_quantizers, device=device) * config.codebook_size
        exponents = torch.arange(0, config.head_dim, 2, device=device) / config.head_dim
        self._frequencies = config.rope_theta**-exponents
        self._ring = torch.arange(config.sliding_window - 1, device=device)

    # ------------------------------------------------------------ state

    def new_state(self, num_slots: int) -> Code2WavState:
        return self._state(num_slots, self.table.device)

    def state_bytes(self, num_slots: int) -> int:
        """What `new_state` allocates."""
        state = self._state(num_slots, torch.device("meta"))
        return sum(tensor.nbytes for tensor in state.tensors)

    def _state(self, num_slots: int, device: torch.device) -> Code2WavState:
        config = self.config

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(num_slots, *shape, device=device, dtype=self.table.dtype)

        ring = (config.num_attention_heads, config.sliding_window - 1, config.head_dim)
        shapes = [(conv.context_length, conv.channels) for conv in self._first_convs()]
        for block in self.blocks:
            shapes.append((1, len(block.snake.scale)))
            shapes += [(unit.conv.context_length, unit.conv.channels) for unit in block.units]
        shapes.append((KERNEL - 1, len(self.last_snake.scale)))
        return Code2WavState(
            frames=torch.zeros(num_slots, dtype=torch.int64, device=device),
            keys=[zeros(*ring) for _ in self.layers],
            values=[zeros(*ring) for _ in self.layers],
            contexts=[zeros(*shape) for shape in shapes],
        )

    def _first_convs(self) -> Iterator[Conv]:
        yield self.first
        yield from (upsample.depthwise for upsample in self.upsamples)
        yield self.expand

    # ------------------------------------------------------------ decoding

    def __call__(self, codes: Tensor, state: Code2WavState, slots: Tensor | slice) -> Tensor:
        """Decode the next frames of some slots.

        Args:
            codes: int64 `[B, T, K]`; what is not in [0, V) is taken for the nearest that is.
            state: of all slots; that of `slots` is replaced, all other keeps its bits.
            slots: rows of the state, int64 `[B]` or a slice.

        Returns:
            float32 `[B, T * hop_length]` in [-1, 1].
        """
        pieces = codes.split(MAX_FRAMES, dim=1)
        with self._products():
            samples = [
                self._samples(self._vectors(each, state, slots), state, slots) for each in pieces
            ]
        return samples[0] if len(samples) == 1 else torch.cat(samples, dim=1)

    def hear(self, codes: Tensor, state: Code2WavState, slots: Tensor | slice) -> None:
        """Leave the state that a call would, up to rounding, where nobody wants the samples.

        Convolutions run over the last frames alone, the only ones that their contexts know of.
        """
        pieces = codes.split(MAX_FRAMES, dim=1)
        with self._products():
            vectors = torch.cat([self._vectors(each, state, slots) for each in pieces], dim=1)
            self._samples(vectors[:, -self.num_convolved :], state, slots)

    def _products(self) -> AbstractContextManager[None]:
        """Their rounding; nothing to set on a CPU, where several threads may decode."""
        return tf32(self.is_rounded) if self.table.is_cuda else nullcontext()

    @property
    def num_convolved(self) -> int:
        """Frames of the transformer that the contexts behind it depend on."""
        steps = KERNEL - 1
        for rate in reversed(self.config.upsample_rates):
            steps += (KERNEL - 1) * sum(DILATIONS)
            steps = -(-steps // rate) + 1  # and the step before
        steps += KERNEL - 1
        for ratio in reversed(self.config.upsampling_ratios):
            steps = -(-(steps + KERNEL - 1) // ratio)
        return steps

    def _vectors(self, codes: Tensor, state: Code2WavState, slots: Tensor | slice) -> Tensor:
        """What the transformer makes of the next frames; `[B, T, K] -> [B, T, D]`."""
        codes = codes.clamp(0, self.config.codebook_size - 1) + self._offsets
        x = F.embedding(codes, self.table).sum(2)  # [B, T, K, D] -> [B, T, D]
        padded = behind(state.contexts[0], slots, x)
        return self._attended(self.first(padded), state, slots)

    def _samples(self, x: Tensor, state: Code2WavState, slots: Tensor | slice) -> Tensor:
        """The transformer's frames to samples; `[B, T, D] -> [B, T * hop_length]`."""
        contexts = iter(state.contexts[1:])
        for stage in self.upsamples:
            x = stage.expand(x)
            x = x.view(len(x), -1, stage.depthwise.channels)  # [B, T, s C] -> [B, s T, C]
            inner = stage.depthwise(behind(next(contexts), slots, x))
            inner = F.layer_norm(inner, inner.shape[-1:], eps=LAYER_NORM_EPS)
            x = stage.narrow.add(F.gelu(stage.widen(inner)), x)
        x = self.expand(behind(next(contexts), slots, x))
        for block in self.blocks:
            padded = behind(next(contexts), slots, x, block.snake)
            x = block.upsample(torch.cat((padded[:, :-1], padded[:, 1:]), dim=-1))
            x = x.view(len(x), -1, block.units[0].conv.channels)  # [B, T, s C] -> [B, s T, C]
            for unit in block.units:
                inner = unit.conv(behind(next(contexts), slots, x, unit.snake))
                x = unit.pointwise.add(unit.inner(inner, out=inner), x)
        taps = self.last(behind(next(contexts), slots, x, self.last_snake))  # [B, J + T, KERNEL]
        # output t is the sum over k of taps[t + k, k]: a diagonal of the tap matrix
        B, length, _ = taps.shape
        diagonals = taps.as_strided(
            (B, length - KERNEL + 1, KERNEL), (length * KERNEL, KERNEL, KERNEL + 1)
        )
        return (diagonals.sum(-1, dtype=torch.float32) + self.last_bias).clamp_(-1, 1)

    def _attended(self, x: Tensor, state: Code2WavState, slots: Tensor | slice) -> Tensor:
        """The transformer over the next frames; `[B, T, D] -> [B, T, D]`, normalised."""
        if isinstance(slots, slice):
            start, stop, _ = slots.indices(len(state.frames))
            rows = torch.arange(start, stop, device=x.device)
        else:
            rows = slots
        window = self._window(state.frames[rows], x.shape[1])
        eps = self.config.rms_norm_eps
        for layer, keys, values in zip(self.layers, state.keys, state.values, strict=True):
            normed = F.rms_norm(x, x.shape[-1:], eps=eps)
            x = layer.output.add(self._attend(layer, normed, window, keys, values, slots, rows), x)
            gate, up = layer.gate_up(F.rms_norm(x, x.shape[-1:], eps=eps)).chunk(2, dim=-1)
            x = layer.down.add(F.silu(gate).mul_(up), x)
        state.frames[rows] += x.shape[1]
        return F.rms_norm(x, x.shape[-1:], eps=eps)

    def _window(self, frames: Tensor, T: int) -> _Window:
        R = len(self._ring)
        new = torch.arange(T, device=frames.device)
        positions = frames.unsqueeze(1) + new  # [B, T]
        angles = positions.unsqueeze(-1) * self._frequencies
        last = frames.unsqueeze(1) - 1
        old = last - (last - self._ring) % R  # [B, R], the frame at each place; below 0: none yet
        seen_from = positions.unsqueeze(-1) - R  # [B, T, 1], the oldest that each frame sees
        hidden_old = (old < 0).unsqueeze(1) | (old.unsqueeze(1) < seen_from)  # [B, T, R]
        age = new.unsqueeze(1) - new
        hidden_new = ((age < 0) | (age > R)).expand(len(frames), T, T)
        return _Window(
            rotation=torch.polar(torch.ones_like(angles), angles).unsqueeze(2),
            hidden=torch.cat((hidden_old, hidden_new), dim=-1).unsqueeze(1),
            places=positions[:, -R:] % R,
        )

    def _attend(
        self, layer: Layer, x: Tensor, window: _Window, keys: Tensor, values: Tensor,
        slots: Tensor | slice, rows: Tensor,
    ) -> Tensor:  # fmt: skip
        """Heads side by side, `[B, T, H C]`; the new frames replace the oldest of the ring."""
        heads = layer.qkv(x).unflatten(-1, (3 * keys.shape[1], keys.shape[3]))  # [B, T, 3 H, C]
        qk, v = heads.split((2 * keys.shape[1], keys.shape[1]), dim=2)
        q, k = rotate(qk, window.rotation).chunk(2, dim=2)
        all_keys = torch.cat((keys[slots], k.transpose(1, 2)), dim=2)  # [B, H, R + T, C]
        all_values = torch.cat((values[slots], v.transpose(1, 2)), dim=2)
        scores = q.transpose(1, 2) @ all_keys.mT  # [B, H, T, R + T]
        shares = scores.masked_fill_(window.hidden, -torch.inf).softmax(-1)
        kept = window.places.shape[1]
        at = rows.unsqueeze(1), window.places
        keys.transpose(1, 2)[at] = k[:, -kept:]
        values.transpose(1, 2)[at] = v[:, -kept:]
        return (shares @ all_values).transpose(1, 2).flatten(2)
