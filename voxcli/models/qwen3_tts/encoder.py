"""The speech tokenizer's encoder: a recording to codes (Mimi), offline.

    samples -> convolutions, 25 vectors a second -> transformer -> 12.5 a second -> 16 codes each

All of it is causal. The convolutions run over a long recording in blocks, each with the inputs that
it needs of the block before, so that memory does not grow with the rate; the transformer attends to
the whole past. One recording at a time: padding to a longer neighbour could change the last frame.

Source: QwenLM/Qwen3-TTS@022e286b `core/tokenizer_12hz/modeling_qwen3_tts_tokenizer_v2.py` and
huggingface/transformers v4.57.3 `models/mimi/modeling_mimi.py` (both Apache-2.0), after Moshi
(arXiv:2410.00037). Differences: blocks; layer scales folded into products; the nearest entry of a
codebook by largest `x b - |b|^2 / 2`. The configured window of attention is left out, as the
official package's eager and sdpa paths do.

Letters: `S` samples, `N` vectors at 25 Hz, `T` frames, `K` codebooks kept, `V` entries of one, `C`
channels, `D` width.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.errors import RecordingError
from voxcli.layers.rope import interleave_heads, rotate, rotations
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.sources import Source

PREFIX = "speech_tokenizer.encoder."
_RESIDUAL = "quantizer.{}_residual_vector_quantizer"
# Keys of the official file that nothing reads: what turns codes back into vectors, codebooks beyond
# the first 16 (1 semantic, 15 acoustic), flags of training.
UNUSED = (
    f"{PREFIX}{_RESIDUAL.format('*')}.output_proj.weight",
    f"{PREFIX}{_RESIDUAL.format('*')}.layers.*.codebook.initialized",
    f"{PREFIX}{_RESIDUAL.format('acoustic')}.layers.1[5-9].codebook.*",
    f"{PREFIX}{_RESIDUAL.format('acoustic')}.layers.[23]?.codebook.*",
)

BLOCK_STRIDES = 250  # a block of convolutions, in samples of 25 Hz: 10 s
MIN_USAGE = 1e-5  # of a codebook entry


@dataclass
class Conv:
    """Causal convolution.

    Attributes:
        weight: `[C', C, kernel]`, kernel no less than the stride.
        bias: `[C']` or None.
    """

    weight: Tensor
    bias: Tensor | None
    stride: int = 1

    @property
    def context(self) -> int:
        """Inputs that it sees before those of its stride."""
        return self.weight.shape[2] - self.stride

    def __call__(self, x: Tensor, past: list[Tensor]) -> Tensor:
        """`[1, C, L] -> [1, C', ceil(L / stride)]`.

        Args:
            past: its first is the context, `[1, C, context]`; that of the block after it is put at
                the end instead. Right where L is whole strides.
        """
        missing = x.new_zeros(*x.shape[:2], -x.shape[2] % self.stride)
        x = torch.cat((past.pop(0), x, missing), dim=2)
        past.append(x[:, :, x.shape[2] - self.context :].clone())  # a view would keep all of x
        return F.conv1d(x, self.weight, self.bias, self.stride)


@dataclass
class Stage:
    """A residual unit, then fewer and wider vectors."""

    unit: tuple[Conv, Conv]
    down: Conv


@dataclass
class Layer:
    """A transformer layer, whose layer scales are in its output weights.

    Attributes:
        norms: weight and bias before the attention, before the feed-forward layer.
        qkv: `[3 D, D]`, heads interleaved for `layers.rope`.
        out: `[D, D]`.
        up, down: `[D', D]` and `[D, D']`.
    """

    norms: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
    qkv: Tensor
    out: Tensor
    up: Tensor
    down: Tensor


@dataclass
class Quantizer:
    """Codebooks in a row, each for what the one before left.

    Attributes:
        project: `[C, D]`.
        books: `[V, C]` each.
        offsets: `[V]` each, `-|b|^2 / 2`.
    """

    project: Tensor
    books: list[Tensor]
    offsets: list[Tensor]

    def __call__(self, frames: Tensor) -> list[Tensor]:
        """`[T, D]` to a code `[T]` of each codebook."""
        rest = F.linear(frames, self.project)
        codes = []
        for book, offset in zip(self.books, self.offsets, strict=True):
            codes.append(torch.addmm(offset, rest, book.T).argmax(1))
            rest = rest - book[codes[-1]]
        return codes


class SpeechEncoder:
    """Mono samples at 24 kHz to codes, 1,920 samples a frame."""

    def __init__(self, source: Source, config: Qwen3TTSConfig) -> None:
        self.config = config.encoder
        self._take_convolutions(source)
        self.layers = [self._layer(source, at) for at in range(config.encoder.num_hidden_layers)]
        num_semantic = config.encoder.num_semantic_quantizers
        self.quantizers = (
            self._quantizer(source, "semantic", num_semantic),
            self._quantizer(source, "acoustic", config.num_kept - num_semantic),
        )

    @torch.inference_mode()
    def __call__(self, samples: Tensor) -> Tensor:
        """Float32 `[S]`, on the weights' device, to int64 codes `[T, K]`, T = ceil(S / 1920).

        Raises:
            RecordingError: no samples.
        """
        if not len(samples):
            raise RecordingError("the recording has no samples", hint="give some seconds of speech")
        frames = self.downsample(self.attend(self.convolve(samples)))
        codes = [code for quantizer in self.quantizers for code in quantizer(frames)]
        return torch.stack(codes, dim=1)

    # ------------------------------------------------------------ parts

    def convolve(self, samples: Tensor) -> Tensor:
        """`[S] -> [N, D]`."""
        x = samples.to(self.first.weight.dtype)[None, None]
        past = [x.new_zeros(1, conv.weight.shape[1], conv.context) for conv in self._convs]
        return torch.cat(
            [self._convolve(block, past) for block in x.split(self.block_length, dim=2)]
        )

    def attend(self, x: Tensor) -> Tensor:
        """`[N, D] -> [N, D]`."""
        config = self.config
        N, width = len(x), config.head_dim
        rotation = rotations(
            N, width, theta=config.rope_theta, factors=[1.0] * (width // 2), device=x.device
        )
        for layer in self.layers:
            heads = F.linear(self._norm(x, layer.norms[0]), layer.qkv).view(N, 3, -1, width)
            q, k = rotate(heads[:, :2].reshape(N, -1, width), rotation).chunk(2, dim=1)
            q, k, v = (each.transpose(0, 1)[None] for each in (q, k, heads[:, 2]))  # [1, H, N, C]
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + F.linear(mixed[0].transpose(0, 1).reshape(N, -1), layer.out)
            inner = F.gelu(F.linear(self._norm(x, layer.norms[1]), layer.up))
            x = x + F.linear(inner, layer.down)
        return x

    def downsample(self, x: Tensor) -> Tensor:
        """Half as many vectors, the ends repeated: `[N, D] -> [T, D]`."""
        weight, stride = self.halve.weight, self.halve.stride
        pads = (self.halve.context, -len(x) % stride)
        return F.conv1d(F.pad(x.T[None], pads, mode="replicate"), weight, stride=stride)[0].T

    def _convolve(self, x: Tensor, past: list[Tensor]) -> Tensor:
        """A block `[1, 1, S]` to `[N, D]`."""
        x = self.first(x, past)
        for stage in self.stages:
            narrow, wide = stage.unit
            x = x + wide(F.elu(narrow(F.elu(x), past)), past)
            x = stage.down(F.elu(x), past)
        return self.last(F.elu(x), past)[0].T

    def _norm(self, x: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], *norm, eps=self.config.norm_eps)

    # ------------------------------------------------------------ weights

    def _take_convolutions(self, source: Source) -> None:
        config = self.config

        def conv(
            name: str, out: int, into: int, kernel: int, stride: int = 1, *, has_bias: bool = True
        ) -> Conv:
            weight = source.take(f"{PREFIX}{name}.conv.weight", out, into, kernel)
            bias = source.take(f"{PREFIX}{name}.conv.bias", out) if has_bias else None
            return Conv(weight, bias, stride)

        width, index = config.num_filters, 0  # indices are those of the official module list
        self.first = conv("encoder.layers.0", width, config.audio_channels, config.kernel_size)
        self.stages: list[Stage] = []
        for stride in reversed(config.upsampling_ratios):
            unit, narrow = f"encoder.layers.{index + 1}.block", width // config.compress
            self.stages.append(
                Stage(
                    unit=(
                        conv(f"{unit}.1", narrow, width, config.residual_kernel_size),
                        conv(f"{unit}.3", width, narrow, 1),
                    ),
                    down=conv(f"encoder.layers.{index + 3}", 2 * width, width, 2 * stride, stride),
                )
            )
            width, index = 2 * width, index + 3
        D = config.hidden_size
        self.last = conv(f"encoder.layers.{index + 2}", D, width, config.last_kernel_size)
        self.halve = conv("downsample", D, D, 4, 2, has_bias=False)
        stages = [conv for stage in self.stages for conv in (*stage.unit, stage.down)]
        self._convs = [self.first, *stages, self.last]  # in the order they are used
        self.block_length = BLOCK_STRIDES * prod(config.upsampling_ratios)

    def _layer(self, source: Source, index: int) -> Layer:
        config, name = self.config, f"{PREFIX}encoder_transformer.layers.{index}"
        D, inner = config.hidden_size, config.intermediate_size
        heads = config.num_attention_heads * config.head_dim

        def norm(which: str) -> tuple[Tensor, Tensor]:
            full = f"{name}.{which}_layernorm"
            return source.take(f"{full}.weight", D), source.take(f"{full}.bias", D)

        def project(which: str) -> Tensor:
            return source.take(f"{name}.self_attn.{which}_proj.weight", heads, D)

        def scaled(product: str, which: str, into: int) -> Tensor:
            scale = source.take(f"{name}.{which}_layer_scale.scale", D)
            return source.take(f"{name}.{product}.weight", D, into) * scale[:, None]

        qk = (interleave_heads(project(which), config.head_dim) for which in "qk")
        return Layer(
            norms=(norm("input"), norm("post_attention")),
            qkv=torch.cat((*qk, project("v"))),
            out=scaled("self_attn.o_proj", "self_attn", heads),
            up=source.take(f"{name}.mlp.fc1.weight", inner, D),
            down=scaled("mlp.fc2", "mlp", inner),
        )

    def _quantizer(self, source: Source, side: str, num_books: int) -> Quantizer:
        config, name = self.config, PREFIX + _RESIDUAL.format(side)
        V, C = config.codebook_size, config.codebook_dim
        project = source.take(f"{name}.input_proj.weight", C, config.hidden_size, 1)[:, :, 0]
        books = []
        for index in range(num_books):
            book = f"{name}.layers.{index}.codebook"
            usage = source.take(f"{book}.cluster_usage", V).clamp(min=MIN_USAGE)
            books.append(source.take(f"{book}.embed_sum", V, C) / usage[:, None])
        return Quantizer(project, books, [-book.square().sum(1) / 2 for book in books])
