"""Checkpoint files to modules: names, folding and fusing live here and nowhere else.

A `Source` hands out tensors by their official name and shape. `CheckpointSource` reads the official
files and proves that every key was used; `RandomSource` makes weights of the same shapes, for tests
and for speed measurements without a checkpoint.

Official names are those of OpenBMB/VoxCPM (`docs/models/voxcpm2.md`): the language model
in `model.safetensors` or `pytorch_model.bin`, the AudioVAE in `audiovae.safetensors` or
`audiovae.pth`, whose keys carry no prefix in the file and `audio_vae.` here.
"""

from __future__ import annotations

import logging
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from voxcli.errors import CheckpointError
from voxcli.kernels import native_product
from voxcli.layers import fp8
from voxcli.layers.linear import Linear
from voxcli.layers.rope import interleave_heads
from voxcli.models.voxcpm2.acoustic import LocalDiT, LocalEncoder, ScalarQuantizer, TimeMlp
from voxcli.models.voxcpm2.backbone import Block, CausalStack, LocalStack
from voxcli.models.voxcpm2.config import TransformerConfig, VaeConfig, VoxCPM2Config
from voxcli.models.voxcpm2.fused import (
    FusedCausalStack,
    FusedDecoder,
    FusedLocalDiT,
    FusedLocalStack,
    supports,
    supports_vocoder,
)
from voxcli.models.voxcpm2.native import NativeDecoder
from voxcli.models.voxcpm2.native import supports_vocoder as supports_native_vocoder
from voxcli.models.voxcpm2.native_layers import NativeCausalStack, NativeLocalStack
from voxcli.models.voxcpm2.native_layers import supports as supports_native
from voxcli.models.voxcpm2.vae import (
    DILATIONS,
    KERNEL,
    Decoder,
    DecoderBlock,
    DepthwiseConv,
    Encoder,
    EncoderBlock,
    EncoderUnit,
    ResidualUnit,
)

logger = logging.getLogger(__name__)

VAE_PREFIX = "audio_vae."
# Snake divides by alpha; folding needs it away from zero. The change is below 1e-6 * x^2.
MIN_ALPHA = 1e-6


class Source(ABC):
    """Hands out tensors by official name; the caller states the shape it relies on.

    Args:
        device, dtype: of the language-model side; the AudioVAE is always fp32. With e4m3 the
            products of the transformer layers have eight bits, and all else is bf16.
        is_native: use compiled kernels on a CPU where there are any.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype, *, is_native: bool = True) -> None:
        self.device = device
        self.is_native = is_native
        self.is_fp8 = dtype == fp8.FORMAT
        self.dtype = torch.bfloat16 if self.is_fp8 else dtype
        self.num_parameters = 0

    @abstractmethod
    def read(self, name: str, shape: tuple[int, ...]) -> Tensor: ...

    def take(self, name: str, *shape: int) -> Tensor:
        tensor = self.read(name, shape)
        self.num_parameters += tensor.numel()
        dtype = torch.float32 if name.startswith(VAE_PREFIX) else self.dtype
        return tensor.to(self.device, dtype)

    def linear(self, name: str, out_features: int, in_features: int, bias: bool = True) -> Linear:
        weight = self.take(f"{name}.weight", out_features, in_features)
        return self._linear(weight, self.take(f"{name}.bias", out_features) if bias else None)

    def layer_linear(self, weight: Tensor) -> Linear | fp8.Fp8Linear:
        """A product of a transformer layer."""
        return fp8.Fp8Linear(weight) if self.is_fp8 else self._linear(weight, None)

    def _linear(self, weight: Tensor, bias: Tensor | None) -> Linear:
        if self.is_native and native_product.supports(weight):
            return native_product.NativeLinear(weight, bias)
        return Linear(weight, bias)


class RandomSource(Source):
    """Reproducible random weights of any shape; the stop head is zero, so speech never ends."""

    def __init__(
        self, device: torch.device, dtype: torch.dtype, seed: int = 0, *, is_native: bool = True
    ) -> None:
        super().__init__(device, dtype, is_native=is_native)
        self._generator = torch.Generator(device).manual_seed(seed)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        if name.startswith("stop_head"):
            return torch.zeros(shape)
        values = torch.randn(shape, generator=self._generator, device=self.device)
        if "norm" in name or name.endswith(("alpha", "weight_g", "scale_embed.weight")):
            return 1 + 0.1 * values
        fan_in = 1
        for size in shape[1:]:
            fan_in *= size
        weight = values * max(fan_in, 16) ** -0.5
        return weight.bfloat16().float()  # numbers as a bf16 checkpoint has them


class ShapeSource(Source):
    """Weights without data, on torch's device "meta"."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(torch.device("meta"), dtype)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        return torch.empty(shape, device=self.device)


class CheckpointSource(Source):
    """The official files of a folder.

    Raises:
        CheckpointError: a file is missing or damaged, a key is missing, of another shape or unused.
    """

    def __init__(
        self, folder: Path, device: torch.device, dtype: torch.dtype, *, is_native: bool = True
    ) -> None:
        super().__init__(device, dtype, is_native=is_native)
        self._folder = folder
        model = _open(folder, "model.safetensors", "pytorch_model.bin")
        vae = _open(folder, "audiovae.safetensors", "audiovae.pth")
        self._tensors = {**model, **{VAE_PREFIX + name: value for name, value in vae.items()}}
        self._unused = set(self._tensors)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        if name not in self._tensors:
            raise CheckpointError(f"{self._folder}: the checkpoint has no weight '{name}'")
        tensor = self._tensors[name]()
        self._unused.discard(name)
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"{self._folder}: weight '{name}' has shape {list(tensor.shape)}, "
                f"config.json asks for {list(shape)}"
            )
        return tensor

    def finish(self) -> None:
        """Refuse a checkpoint with weights that nothing asked for."""
        if self._unused:
            names = sorted(self._unused)
            shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
            raise CheckpointError(f"{self._folder}: {len(names)} weights were not used: {shown}")


def _open(folder: Path, safetensors_name: str, pickle_name: str) -> dict[str, Callable[[], Tensor]]:
    """Readers of a file's tensors by name; each reads when called: no file is held twice."""
    path = folder / safetensors_name
    try:
        if path.is_file():
            file = safe_open(str(path), framework="pt")
            return {name: partial(file.get_tensor, name) for name in file.keys()}  # noqa: SIM118
        path = folder / pickle_name
        if path.is_file():
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            state = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else None
            if not isinstance(state, dict) or not all(map(torch.is_tensor, state.values())):
                raise CheckpointError(f"{path} holds no named weights")
            return {name: partial(_itself, tensor) for name, tensor in state.items()}
    except (OSError, SafetensorError, RuntimeError, pickle.UnpicklingError, EOFError) as err:
        raise CheckpointError(f"{path} is damaged or incomplete: {err}") from err
    raise CheckpointError(f"{folder} has neither {safetensors_name} nor {pickle_name}")


def _itself(tensor: Tensor) -> Tensor:
    return tensor


# ---------------------------------------------------------------- transformers


def _blocks(source: Source, prefix: str, config: TransformerConfig) -> list[Block]:
    D, F_, C = config.hidden_size, config.intermediate_size, config.head_dim
    H, G = config.num_attention_heads, config.num_key_value_heads
    blocks = []
    for index in range(config.num_hidden_layers):
        name = f"{prefix}.layers.{index}"
        heads = [
            source.take(f"{name}.self_attn.{kind}_proj.weight", count * C, D)
            for kind, count in (("q", H), ("k", G), ("v", G))
        ]
        if not config.no_rope:
            heads[0], heads[1] = interleave_heads(heads[0], C), interleave_heads(heads[1], C)
        gate_up = [source.take(f"{name}.mlp.{kind}_proj.weight", F_, D) for kind in ("gate", "up")]
        blocks.append(
            Block(
                input_norm=source.take(f"{name}.input_layernorm.weight", D),
                qkv=source.layer_linear(torch.cat(heads)),
                output=source.layer_linear(
                    source.take(f"{name}.self_attn.o_proj.weight", D, H * C)
                ),
                mlp_norm=source.take(f"{name}.post_attention_layernorm.weight", D),
                gate_up=source.layer_linear(torch.cat(gate_up)),
                down=source.layer_linear(source.take(f"{name}.mlp.down_proj.weight", D, F_)),
            )
        )
    return blocks


def load_causal_stack(source: Source, prefix: str, config: TransformerConfig) -> CausalStack:
    blocks = _blocks(source, prefix, config)
    norm = source.take(f"{prefix}.norm.weight", config.hidden_size)
    kind: type[CausalStack] = CausalStack
    if supports(config, source.device, source.dtype):
        kind = FusedCausalStack
    elif source.is_native and supports_native(source.device, source.dtype):
        kind = NativeCausalStack
    return kind(config, blocks, norm, config.max_position_embeddings)


def _local_stack(
    source: Source, prefix: str, config: TransformerConfig, num_positions: int
) -> LocalStack:
    blocks = _blocks(source, prefix, config)
    norm = source.take(f"{prefix}.norm.weight", config.hidden_size)
    kind: type[LocalStack] = LocalStack
    if supports(config, source.device, source.dtype):
        kind = FusedLocalStack
    elif source.is_native and supports_native(source.device, source.dtype):
        kind = NativeLocalStack
    return kind(config, blocks, norm, num_positions)


def load_local_encoder(source: Source, config: VoxCPM2Config) -> LocalEncoder:
    width = config.encoder.hidden_size
    special = source.take("feat_encoder.special_token", 1, 1, 1, width)
    return LocalEncoder(
        special.view(1, 1, width),
        source.linear("feat_encoder.in_proj", width, config.feat_dim),
        _local_stack(source, "feat_encoder.encoder", config.encoder, 1 + config.patch_size),
    )


def load_local_dit(source: Source, config: VoxCPM2Config) -> LocalDiT:
    prefix, width = "feat_decoder.estimator", config.dit.hidden_size
    num_positions = 3 + 2 * config.patch_size  # two mu, time, condition, patch

    def time_mlp(name: str) -> TimeMlp:
        parts = [source.linear(f"{prefix}.{name}.linear_{i}", width, width) for i in (1, 2)]
        return TimeMlp(*parts)

    kind = FusedLocalDiT if supports(config.dit, source.device, source.dtype) else LocalDiT
    return kind(
        in_proj=source.linear(f"{prefix}.in_proj", width, config.feat_dim),
        cond_proj=source.linear(f"{prefix}.cond_proj", width, config.feat_dim),
        out_proj=source.linear(f"{prefix}.out_proj", config.feat_dim, width),
        time_mlp=time_mlp("time_mlp"),
        delta_time_mlp=time_mlp("delta_time_mlp"),
        stack=_local_stack(source, f"{prefix}.decoder", config.dit, num_positions),
        width=width,
        is_mean_mode=config.dit_mean_mode,
    )


def load_quantizer(source: Source, config: VoxCPM2Config) -> ScalarQuantizer:
    width = config.lm.hidden_size
    return ScalarQuantizer(
        source.linear("fsq_layer.in_proj", config.fsq_dim, width),
        source.linear("fsq_layer.out_proj", width, config.fsq_dim),
        config.fsq_scale,
    )


# ---------------------------------------------------------------- AudioVAE


def _conv(
    source: Source, name: str, *shape: int, transposed: bool = False
) -> tuple[Tensor, Tensor]:
    """Weight with its norm folded in, and bias. Weight norm is over all but the first axis."""
    gain = source.take(f"{VAE_PREFIX}{name}.weight_g", shape[0], 1, 1)
    direction = source.take(f"{VAE_PREFIX}{name}.weight_v", *shape)
    bias = source.take(f"{VAE_PREFIX}{name}.bias", shape[1 if transposed else 0])
    norm = torch.linalg.vector_norm(direction, dim=(1, 2), keepdim=True)
    return direction * (gain / norm), bias


def _alpha(source: Source, name: str, channels: int) -> Tensor:
    alpha = source.take(f"{VAE_PREFIX}{name}.alpha", 1, channels, 1).flatten()
    return torch.where(alpha.abs() < MIN_ALPHA, MIN_ALPHA, alpha)


def _depthwise(weight: Tensor, bias: Tensor, dilation: int = 1) -> DepthwiseConv:
    image = weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)  # [C, 1, 1, KERNEL]
    return DepthwiseConv(image, bias.contiguous(), dilation)


def _residual_unit(source: Source, name: str, channels: int, dilation: int) -> ResidualUnit:
    alpha_in = _alpha(source, f"{name}.block.0", channels)
    weight, bias = _conv(source, f"{name}.block.1", channels, 1, KERNEL)
    alpha_out = _alpha(source, f"{name}.block.2", channels)
    mix, mix_bias = _conv(source, f"{name}.block.3", channels, channels, 1)
    # u -> (u + sin(u)^2) / alpha_in on the way in, and the next Snake's alpha_out on the way out
    folded = weight * (alpha_out / alpha_in).view(-1, 1, 1)
    return ResidualUnit(
        scale=alpha_in,
        depthwise=_depthwise(folded, bias * alpha_out, dilation),
        pointwise=Linear(mix.squeeze(-1) / alpha_out, mix_bias),
    )


def _decoder_block(
    source: Source, index: int, channels: int, stride: int, config: VaeConfig
) -> DecoderBlock:
    name = f"decoder.model.{index}"
    alpha = _alpha(source, f"{name}.block.0", channels)
    scale, shift = alpha, torch.zeros_like(alpha)
    if config.sr_bin_boundaries is not None:
        num_bins, row = len(config.sr_bin_boundaries) + 1, config.sample_rate_bin
        table = f"{VAE_PREFIX}decoder.sr_cond_model.{index}"
        gains = source.take(f"{table}.scale_embed.weight", num_bins, channels)
        offsets = source.take(f"{table}.bias_embed.weight", num_bins, channels)
        scale, shift = alpha * gains[row], alpha * offsets[row]
    half = channels // 2
    weight, bias = _conv(source, f"{name}.block.1", channels, half, 2 * stride, transposed=True)
    weight = weight / alpha.view(-1, 1, 1)
    present, past = weight.split(stride, dim=2)  # [C, C/2, stride] each
    # row (j, c) of the product is channel c of the j-th of the `stride` outputs
    stacked = torch.cat((past, present)).permute(2, 1, 0).reshape(stride * half, 2 * channels)
    return DecoderBlock(
        scale=scale,
        shift=shift,
        upsample=Linear(stacked, bias.repeat(stride)),
        stride=stride,
        units=[
            _residual_unit(source, f"{name}.block.{2 + i}", half, dilation)
            for i, dilation in enumerate(DILATIONS)
        ],
    )


def load_decoder(source: Source, config: VaeConfig) -> Decoder:
    width = config.decoder_dim
    first = _depthwise(*_conv(source, "decoder.model.0", config.latent_dim, 1, KERNEL))
    expand, bias = _conv(source, "decoder.model.1", width, config.latent_dim, 1)
    blocks = [
        _decoder_block(source, 2 + i, width >> i, stride, config)
        for i, stride in enumerate(config.decoder_rates)
    ]
    if config.sr_bin_boundaries is not None:
        # the boundaries themselves are stored too; config.json is what counts
        source.take(f"{VAE_PREFIX}decoder.sr_bin_boundaries", len(config.sr_bin_boundaries))
    last = 2 + len(config.decoder_rates)
    channels = width >> len(config.decoder_rates)
    alpha = _alpha(source, f"decoder.model.{last}", channels)
    weight, last_bias = _conv(source, f"decoder.model.{last + 1}", 1, channels, KERNEL)
    taps = Linear((weight / alpha.view(1, -1, 1))[0].T.contiguous())
    decoder = Decoder(
        config, first, Linear(expand.squeeze(-1), bias), blocks, alpha, taps, last_bias
    )
    if source.is_native and supports_native_vocoder(decoder):
        return NativeDecoder(decoder)
    if not supports_vocoder(decoder):
        return decoder
    # fp16 has the finer mantissa, and activations stay far below its range
    is_half = source.dtype == torch.bfloat16
    return FusedDecoder(decoder, torch.float16 if is_half else torch.float32)


def load_encoder(source: Source, config: VaeConfig) -> Encoder:
    def alpha(name: str, channels: int) -> Tensor:
        return source.take(f"{VAE_PREFIX}{name}.alpha", 1, channels, 1)

    def unit(name: str, channels: int, dilation: int) -> EncoderUnit:
        return EncoderUnit(
            alphas=(alpha(f"{name}.block.0", channels), alpha(f"{name}.block.2", channels)),
            depthwise=_conv(source, f"{name}.block.1", channels, 1, KERNEL),
            pointwise=_conv(source, f"{name}.block.3", channels, channels, 1),
            dilation=dilation,
        )

    width = config.encoder_dim
    first = _conv(source, "encoder.block.0", width, 1, KERNEL)
    blocks = []
    for index, stride in enumerate(config.encoder_rates, start=1):
        name = f"encoder.block.{index}.block"
        blocks.append(
            EncoderBlock(
                units=[unit(f"{name}.{i}", width, d) for i, d in enumerate(DILATIONS)],
                alpha=alpha(f"{name}.3", width),
                downsample=_conv(source, f"{name}.4", 2 * width, width, 2 * stride),
                stride=stride,
            )
        )
        width *= 2
    mean = _conv(source, "encoder.fc_mu", config.latent_dim, width, 3)
    _conv(source, "encoder.fc_logvar", config.latent_dim, width, 3)  # used in training only
    return Encoder(first, blocks, mean)
