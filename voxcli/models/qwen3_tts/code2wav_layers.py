"""The layers of the speech tokenizer's decoder, and how they are read.

What is linear is folded, in fp64: a codebook is its embeddings behind the output projection, the
first convolution holds the projection after it, the first upsampling the projection before it,
norms and layer scales are in their neighbours, queries in their scale.

Source: as `code2wav.py`.

Letters: `B` rows, `T` time steps, `K` taps or codebooks, `V` codebook size, `C` channels, `D`
width, `H` heads, `J` context length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from voxcli.layers.linear import Linear
from voxcli.layers.rope import interleave_heads
from voxcli.layers.snake import Snake
from voxcli.models.qwen3_tts.sizes import DecoderConfig
from voxcli.models.sources import Source

PREFIX = "speech_tokenizer.decoder."

KERNEL = 7  # of all convolutions but the first and the ones that upsample
FIRST_KERNEL = 3
DILATIONS = (1, 3, 9)  # of a block's residual units
MIN_USAGE = 1e-5  # of a codebook entry, which its sum is divided by
MIN_BETA = 1e-9  # Snake divides by e^beta plus this


class Conv:
    """A causal convolution over time steps behind their context, frozen.

    Args:
        weight: `[C', C / groups, K]`.
        bias: `[C']`.
    """

    def __init__(self, weight: Tensor, bias: Tensor, dilation: int = 1, groups: int = 1) -> None:
        self.channels = weight.shape[1] * groups
        self.context_length = (weight.shape[2] - 1) * dilation
        self.bias, self.dilation = bias, dilation
        self._dilation, self._groups = [1, dilation], groups
        self.weight = weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        self._is_packed = _has_packed_convolutions(weight)
        if self._is_packed:  # torch would pack it again at each call
            self.weight = torch.ops.mkldnn._reorder_convolution_weight(
                self.weight, [0, 0], [1, 1], self._dilation, groups
            )

    def __call__(self, padded: Tensor) -> Tensor:
        """`[B, J + T, C] -> [B, T, C']`."""
        image = padded.mT.unsqueeze(2)  # [B, C, 1, J + T], channels-last in memory
        if self._is_packed:
            out = torch.ops.mkldnn._convolution_pointwise(
                image, self.weight, self.bias, [0, 0], [1, 1], self._dilation, self._groups,
                "none", [], "",
            )  # fmt: skip
        else:
            out = F.conv2d(
                image, self.weight, self.bias, dilation=self._dilation, groups=self._groups
            )
        return out.squeeze(2).mT


def _has_packed_convolutions(weight: Tensor) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and bool(torch._C._has_mkldnn)
        and hasattr(torch.ops.mkldnn, "_reorder_convolution_weight")
    )


def behind(context: Tensor, slots: Tensor | slice, x: Tensor, snake: Snake | None = None) -> Tensor:
    """`x`, or its Snake, behind the slots' context, which is replaced; `[B, J + T, C]`."""
    B, T, C = x.shape
    J = context.shape[1]
    padded = x.new_empty(B, J + T, C)
    padded[:, :J] = context[slots]
    if snake is None:
        padded[:, J:] = x
    else:
        snake(x, out=padded[:, J:])
    context[slots] = padded[:, T:]
    return padded


@dataclass(frozen=True)
class Layer:
    """Of the transformer; norms, scales and layer scales are in the weights.

    Attributes:
        qkv: `D -> 3 H C`, rotary pairs neighbours.
        gate_up: `D -> 2 D'`.
    """

    qkv: Linear
    output: Linear
    gate_up: Linear
    down: Linear


@dataclass(frozen=True)
class Upsample:
    """Twice (or so) the time steps, then a ConvNeXt unit.

    Attributes:
        expand: `C -> stride C'`.
        depthwise, widen, narrow: of the unit.
    """

    expand: Linear
    depthwise: Conv
    widen: Linear
    narrow: Linear


@dataclass(frozen=True)
class Unit:
    """Residual: Snake, convolution, Snake, pointwise.

    Attributes:
        snake, inner: before the convolution, and between it and the product.
    """

    snake: Snake
    conv: Conv
    inner: Snake
    pointwise: Linear


@dataclass(frozen=True)
class Block:
    """Snake, upsampling, residual units.

    Attributes:
        upsample: `2 C -> stride C'`, from the previous and the present time step.
    """

    snake: Snake
    upsample: Linear
    units: list[Unit]


class Loader:
    """Tensors of the file to layers; folding is done in fp64.

    Args:
        weights: dtype of the codebooks and of what products multiply by; None for the source's.
    """

    def __init__(
        self, source: Source, config: DecoderConfig, weights: torch.dtype | None = None
    ) -> None:
        self._source, self._config, self._weights = source, config, weights
        self._dtype = torch.float32  # of what is taken, known from the first

    def _take(self, name: str, *shape: int) -> Tensor:
        tensor = self._source.take(PREFIX + name, *shape)
        self._dtype = tensor.dtype
        return tensor.double()

    def _keep(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._dtype).contiguous()

    def _keep_weight(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._weights or self._dtype).contiguous()

    def _linear(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        return Linear(self._keep_weight(weight), None if bias is None else self._keep(bias))

    def _snake(self, name: str, channels: int) -> Snake:
        scale = self._take(f"{name}.alpha", channels).exp()
        gain = 1 / (self._take(f"{name}.beta", channels).exp() + MIN_BETA)
        return Snake(self._keep(scale), self._keep(gain))

    def codebooks(self) -> Tensor:
        """What each code of each codebook adds, `[K V, D]`: behind its side's projection."""
        config = self._config
        V, D = config.codebook_size, config.codebook_dim
        sides = {
            "rvq_first": config.num_semantic_quantizers,
            "rvq_rest": config.num_quantizers - config.num_semantic_quantizers,
        }
        tables = []
        for side, count in sides.items():
            projection = self._take(f"quantizer.{side}.output_proj.weight", D, D // 2, 1)
            for index in range(count):
                name = f"quantizer.{side}.vq.layers.{index}._codebook"
                usage = self._take(f"{name}.cluster_usage", V).clamp(min=MIN_USAGE)
                total = self._take(f"{name}.embedding_sum", V, D // 2)
                tables.append(self._keep_weight(total / usage.unsqueeze(1) @ projection[..., 0].T))
        return torch.cat(tables)

    def conv(self, name: str, out: int, channels: int, dilation: int = 1, groups: int = 1) -> Conv:
        weight = self._take(f"{name}.conv.weight", out, channels // groups, KERNEL)
        bias = self._take(f"{name}.conv.bias", out)
        return Conv(self._keep_weight(weight), self._keep(bias), dilation, groups)

    def first(self) -> Conv:
        """The first convolution, and the transformer's input projection."""
        config = self._config
        latent, D = config.latent_dim, config.hidden_size
        weight = self._take("pre_conv.conv.weight", latent, config.codebook_dim, FIRST_KERNEL)
        bias = self._take("pre_conv.conv.bias", latent)
        projection = self._take("pre_transformer.input_proj.weight", D, latent)
        folded = torch.einsum("dl,lck->dck", projection, weight)
        shift = self._take("pre_transformer.input_proj.bias", D)
        return Conv(self._keep_weight(folded), self._keep(projection @ bias + shift))

    def layer(self, index: int) -> Layer:
        config = self._config
        D, inner = config.hidden_size, config.intermediate_size
        C, width = config.head_dim, config.head_dim * config.num_attention_heads
        name = f"pre_transformer.layers.{index}"
        norm = self._take(f"{name}.input_layernorm.weight", D)
        q, k, v = (self._take(f"{name}.self_attn.{p}_proj.weight", width, D) for p in "qkv")
        q, k = interleave_heads(q * C**-0.5, C), interleave_heads(k, C)
        scale = self._take(f"{name}.self_attn_layer_scale.scale", D).unsqueeze(1)
        output = self._take(f"{name}.self_attn.o_proj.weight", D, width) * scale
        mlp_norm = self._take(f"{name}.post_attention_layernorm.weight", D)
        gate, up = (self._take(f"{name}.mlp.{p}_proj.weight", inner, D) for p in ("gate", "up"))
        mlp_scale = self._take(f"{name}.mlp_layer_scale.scale", D).unsqueeze(1)
        down = self._take(f"{name}.mlp.down_proj.weight", D, inner) * mlp_scale
        return Layer(
            qkv=self._linear(torch.cat((q, k, v)) * norm),
            output=self._linear(output),
            gate_up=self._linear(torch.cat((gate, up)) * mlp_norm),
            down=self._linear(down),
        )

    def upsample(self, index: int) -> Upsample:
        """A stage before the decoder; the first holds the transformer's norm and projection."""
        config = self._config
        C, stride = config.latent_dim, config.upsampling_ratios[index]
        name = f"upsample.{index}.1"
        weight = self._take(f"upsample.{index}.0.conv.weight", C, C, stride)
        bias = self._take(f"upsample.{index}.0.conv.bias", C).repeat(stride)
        weight = weight.permute(2, 1, 0).flatten(0, 1)  # [C, C', s] -> [s C', C]
        if index == 0:
            D = config.hidden_size
            projection = self._take("pre_transformer.output_proj.weight", C, D)
            bias = bias + weight @ self._take("pre_transformer.output_proj.bias", C)
            weight = weight @ projection * self._take("pre_transformer.norm.weight", D)
        depthwise = self.conv(f"{name}.dwconv", C, C, groups=C)
        norm = self._take(f"{name}.norm.weight", C)
        widen = self._take(f"{name}.pwconv1.weight", 4 * C, C)
        widen_bias = widen @ self._take(f"{name}.norm.bias", C)
        gamma = self._take(f"{name}.gamma", C)
        narrow = self._take(f"{name}.pwconv2.weight", C, 4 * C) * gamma.unsqueeze(1)
        return Upsample(
            expand=self._linear(weight, bias),
            depthwise=depthwise,
            widen=self._linear(
                widen * norm, widen_bias + self._take(f"{name}.pwconv1.bias", 4 * C)
            ),
            narrow=self._linear(narrow, self._take(f"{name}.pwconv2.bias", C) * gamma),
        )

    def block(self, index: int) -> Block:
        channels = self._config.decoder_dim >> index
        half, stride = channels // 2, self._config.upsample_rates[index]
        name = f"decoder.{index + 1}.block"
        snake = self._snake(f"{name}.0", channels)
        weight = self._take(f"{name}.1.conv.weight", channels, half, 2 * stride)
        bias = self._take(f"{name}.1.conv.bias", half)
        present, past = weight.split(stride, dim=2)  # [C, C/2, stride] each
        # row (j, c) of the product is channel c of the j-th of the `stride` outputs
        stacked = torch.cat((past, present)).permute(2, 1, 0).flatten(0, 1)
        return Block(
            snake=snake,
            upsample=self._linear(stacked, bias.repeat(stride)),
            units=[
                self._unit(f"{name}.{2 + i}", half, dilation)
                for i, dilation in enumerate(DILATIONS)
            ],
        )

    def _unit(self, name: str, channels: int, dilation: int) -> Unit:
        weight = self._take(f"{name}.conv2.conv.weight", channels, channels, 1)[..., 0]
        return Unit(
            snake=self._snake(f"{name}.act1", channels),
            conv=self.conv(f"{name}.conv1", channels, channels, dilation),
            inner=self._snake(f"{name}.act2", channels),
            pointwise=self._linear(weight, self._take(f"{name}.conv2.conv.bias", channels)),
        )

    def last(self) -> tuple[Snake, Linear, Tensor]:
        """Snake; what each time step adds to the KERNEL outputs that it reaches; their bias."""
        index = len(self._config.upsample_rates) + 1
        channels = self._config.decoder_dim >> (index - 1)
        snake = self._snake(f"decoder.{index}", channels)
        weight = self._take(f"decoder.{index + 1}.conv.weight", 1, channels, KERNEL)
        bias = self._take(f"decoder.{index + 1}.conv.bias", 1)
        return snake, self._linear(weight[0].T), bias.float()
