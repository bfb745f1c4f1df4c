"""A checkpoint's arrays to the layers of `array_layers.py`; as `weights.py` and `vae_weights.py`.

Only checkpoints whose numbers are all fp16, or int8 with a scale for each row, are read, as the
bundled one: what else there is needs torch. No torch.

Letters: `D` width, `C` channels or head width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from voxcli.kernels import arrays as kernels
from voxcli.kernels.arrays import Linear, Matrix
from voxcli.kernels.structs import whole
from voxcli.models import refusals
from voxcli.models.refusals import SCALE
from voxcli.models.voxcpm2.array_layers import (
    Block,
    CausalStack,
    Decoder,
    DecoderBlock,
    LocalDiT,
    LocalEncoder,
    LocalStack,
    ScalarQuantizer,
    TimeMlp,
)
from voxcli.models.voxcpm2.config import TransformerConfig, VaeConfig, VoxCPM2Config
from voxcli.models.voxcpm2.host import DILATIONS, KERNEL, MIN_ALPHA

MODEL, VAE = "model.safetensors", "audiovae.safetensors"
BOUNDARIES = "sr_bin_boundaries"  # whole numbers that nothing reads: config.json is what counts
INFINITE = 0x7C00  # the exponent of a half number that is none
SAFE_SCALE = 65504 / 128  # whatever int8 holds, it is a half number times this


class ArraySource:
    """Hands out the arrays of one file by name, in fp16.

    Args:
        path: of a safetensors file.
        prefix: of its names in messages.

    Attributes:
        num_parameters: in all that was taken.

    Raises:
        CheckpointError: as `models.sources.CheckpointSource`.
    """

    def __init__(self, path: Path, prefix: str = "") -> None:
        self._path = path
        self._prefix = prefix
        self.num_parameters = 0
        with self._read():
            self._file: Any = safe_open(str(path), framework="np")
            self._unused = set(self._file.keys())

    @property
    def is_readable(self) -> bool:
        """Whether all numbers of the file are fp16, or int8 with scales beside them."""
        with self._read():
            return all(map(self._is_half, self._unused))

    def _is_half(self, name: str) -> bool:
        stored = self._file.get_slice(name)
        dtype = stored.get_dtype()
        is_matrix = len(stored.get_shape()) == 2
        is_scaled = dtype == "I8" and is_matrix and f"{name}{SCALE}" in self._unused
        return dtype == "F16" or is_scaled or name.endswith(BOUNDARIES)

    def take(self, name: str, *shape: int) -> np.ndarray:
        """float16 of that shape."""
        array = self._stored(name, shape)
        if array.dtype == np.int8:
            array = _widened(array, self._scale(name, array))
        self._require_finite(name, array)
        return array

    def matrix(self, name: str, num_out: int, num_in: int) -> Matrix:
        """A product's weight, as it is stored."""
        array = self._stored(name, (num_out, num_in))
        if array.dtype != np.int8:
            self._require_finite(name, array)
            return Matrix(array)
        scale = self._scale(name, array)
        if not (np.abs(scale) <= SAFE_SCALE).all():  # then what is there
            self._require_finite(name, _widened(array, scale))
        return Matrix(array, scale)

    def folded(self, name: str, *shape: int) -> np.ndarray:
        """float32: a convolution's weight with its norm, over all but the first axis, folded in."""
        weight, norm = kernels.folded(*self._convolution(name, shape))
        self._require_finite(f"{name}.weight_v", norm)
        return weight

    def upsampling(self, name: str, shape: tuple[int, int, int], alpha: np.ndarray) -> Linear:
        """A transposed convolution, by `alpha`; see `kernels.arrays.upsampling`."""
        direction, gain = self._convolution(name, shape)
        bias = self.floats(f"{name}.bias", shape[1])
        product, norm = kernels.upsampling(direction, gain, alpha, bias)
        self._require_finite(f"{name}.weight_v", norm)
        return product

    def floats(self, name: str, *shape: int) -> np.ndarray:
        """The same as float32."""
        return self.take(name, *shape).astype(np.float32)

    def skip(self, name: str, *shape: int) -> None:
        """Take what nothing reads here."""
        self._find(name, shape)
        self.num_parameters += int(np.prod(shape))

    def linear(self, name: str, num_out: int, num_in: int, bias: bool = True) -> Linear:
        weight = self.matrix(f"{name}.weight", num_out, num_in)
        return Linear.of_rows([weight], self.take(f"{name}.bias", num_out) if bias else None)

    def linear_of(
        self, sizes: Mapping[str, int], num_in: int, order: np.ndarray | None = None
    ) -> Linear:
        """One product with the weights of several, one below the other.

        Args:
            sizes: numbers out of each, by its name.
            order: see `kernels.arrays.Linear`.
        """
        parts = [self.matrix(f"{name}.weight", size, num_in) for name, size in sizes.items()]
        if len({part.values.dtype for part in parts}) > 1:
            parts = [
                part if part.scale is None else Matrix(_widened(part.values, part.scale))
                for part in parts
            ]
        return Linear.of_rows(parts, order=order)

    def finish(self) -> None:
        """Refuse a file with weights that nothing asked for."""
        if self._unused:
            names = {self._prefix + name for name in self._unused}
            raise refusals.unused(self._path.parent, names)

    def _stored(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """float16, or int8 that has its scales: the file `is_readable`."""
        self._find(name, shape)
        with self._read():
            array: np.ndarray = self._file.get_tensor(name)
        self.num_parameters += array.size
        return array

    def _convolution(self, name: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Direction and gain, which is looked at for numbers."""
        gain = self.floats(f"{name}.weight_g", shape[0], 1, 1).ravel()
        return self._stored(f"{name}.weight_v", shape), gain

    def _scale(self, name: str, weight: np.ndarray) -> np.ndarray:
        """float32 `[N]` of an int8 matrix."""
        beside = f"{name}{SCALE}"
        with self._read():
            scale: np.ndarray = self._file.get_tensor(beside)
        if scale.shape != (len(weight), 1):
            raise refusals.no_scale(self._path.parent, self._prefix + name, "torch.int8")
        self._unused.discard(beside)
        return scale.ravel().astype(np.float32)

    def _require_finite(self, name: str, array: np.ndarray) -> None:
        is_half = array.dtype == np.float16  # numpy is slow with those
        is_bad = (array.view(np.uint16) & INFINITE) == INFINITE if is_half else ~np.isfinite(array)
        if is_bad.any():
            raise refusals.no_number(self._path.parent, self._prefix + name)

    def _find(self, name: str, shape: tuple[int, ...]) -> None:
        if name not in self._unused:
            raise refusals.no_weight(self._path.parent, self._prefix + name)
        self._unused.discard(name)
        with self._read():
            found = self._file.get_slice(name).get_shape()
        if tuple(found) != shape:
            raise refusals.other_shape(self._path.parent, self._prefix + name, found, shape)

    @contextmanager
    def _read(self) -> Iterator[None]:
        try:
            yield
        except (OSError, SafetensorError) as err:
            raise refusals.damaged(self._path, err) from err


# ---------------------------------------------------------------- transformer layers


def _widened(weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A matrix of int8 times its scales, as `models.sources.CheckpointSource` does it."""
    with np.errstate(over="ignore"):  # what is infinite is looked for
        return (weight * scale[:, np.newaxis]).astype(np.float16)


def _interleaved(num_heads: int, head_dim: int) -> np.ndarray:
    """The order in which a head's channels `i` and `i + C/2` are neighbours; as
    `layers.rope.interleave_heads`."""
    halves = np.arange(num_heads * head_dim).reshape(num_heads, 2, head_dim // 2)
    return halves.swapaxes(1, 2).ravel()


def _blocks(source: ArraySource, prefix: str, config: TransformerConfig) -> list[Block]:
    D, F, C = config.hidden_size, config.intermediate_size, config.head_dim
    H, G = config.num_attention_heads, config.num_key_value_heads
    order = np.arange((H + 2 * G) * C)
    if not config.no_rope:
        order[: (H + G) * C] = _interleaved(H + G, C)  # queries and keys
    blocks = []
    for index in range(config.num_hidden_layers):
        name = f"{prefix}.layers.{index}"
        heads = {
            f"{name}.self_attn.{kind}_proj": n * C for kind, n in (("q", H), ("k", G), ("v", G))
        }
        blocks.append(
            Block(
                input_norm=source.floats(f"{name}.input_layernorm.weight", D),
                qkv=source.linear_of(heads, D, order),
                output=source.linear(f"{name}.self_attn.o_proj", D, H * C, bias=False),
                mlp_norm=source.floats(f"{name}.post_attention_layernorm.weight", D),
                gate_up=source.linear_of(
                    {f"{name}.mlp.{kind}_proj": F for kind in ("gate", "up")}, D
                ),
                down=source.linear(f"{name}.mlp.down_proj", D, F, bias=False),
            )
        )
    return blocks


def load_causal_stack(
    source: ArraySource, prefix: str, config: TransformerConfig, num_positions: int
) -> CausalStack:
    norm = source.floats(f"{prefix}.norm.weight", config.hidden_size)
    blocks = _blocks(source, prefix, config)
    return CausalStack(config, blocks, norm, num_positions)


def _local_stack(
    source: ArraySource, prefix: str, config: TransformerConfig, num_positions: int
) -> LocalStack:
    norm = source.floats(f"{prefix}.norm.weight", config.hidden_size)
    return LocalStack(config, _blocks(source, prefix, config), norm, num_positions)


def load_local_encoder(source: ArraySource, config: VoxCPM2Config) -> LocalEncoder:
    width = config.encoder.hidden_size
    return LocalEncoder(
        source.floats("feat_encoder.special_token", 1, 1, 1, width).reshape(width),
        source.linear("feat_encoder.in_proj", width, config.feat_dim),
        _local_stack(source, "feat_encoder.encoder", config.encoder, 1 + config.patch_size),
    )


def load_local_dit(source: ArraySource, config: VoxCPM2Config) -> LocalDiT:
    prefix, width = "feat_decoder.estimator", config.dit.hidden_size
    num_positions = 3 + 2 * config.patch_size  # two mu, time, condition, patch

    def time_mlp(name: str) -> TimeMlp:
        return TimeMlp(
            *(source.linear(f"{prefix}.{name}.linear_{i}", width, width) for i in (1, 2))
        )

    return LocalDiT(
        in_proj=source.linear(f"{prefix}.in_proj", width, config.feat_dim),
        cond_proj=source.linear(f"{prefix}.cond_proj", width, config.feat_dim),
        out_proj=source.linear(f"{prefix}.out_proj", config.feat_dim, width),
        time_mlp=time_mlp("time_mlp"),
        delta_time_mlp=time_mlp("delta_time_mlp"),
        stack=_local_stack(source, f"{prefix}.decoder", config.dit, num_positions),
        width=width,
        is_mean_mode=config.dit_mean_mode,
    )


def load_quantizer(source: ArraySource, config: VoxCPM2Config) -> ScalarQuantizer:
    width = config.lm.hidden_size
    return ScalarQuantizer(
        source.linear("fsq_layer.in_proj", config.fsq_dim, width),
        source.linear("fsq_layer.out_proj", width, config.fsq_dim),
        config.fsq_scale,
    )


# ---------------------------------------------------------------- the AudioVAE


def _conv(source: ArraySource, name: str, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Weight with its norm folded in, and bias."""
    return source.folded(name, *shape), source.floats(f"{name}.bias", shape[0])


def _alpha(source: ArraySource, name: str, channels: int) -> np.ndarray:
    alpha = source.floats(f"{name}.alpha", 1, channels, 1).ravel()
    return np.where(np.abs(alpha) < np.float32(MIN_ALPHA), np.float32(MIN_ALPHA), alpha)


def _snake(scale: np.ndarray, shift: np.ndarray | None = None) -> np.ndarray:
    return kernels.table(np.stack((scale, np.zeros_like(scale) if shift is None else shift)))


def _taps(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return kernels.filter_table(weight.reshape(-1, KERNEL).T, bias)


def _residual_unit(source: ArraySource, name: str, channels: int, dilation: int) -> kernels.Unit:
    alpha_in = _alpha(source, f"{name}.block.0", channels)
    weight, bias = _conv(source, f"{name}.block.1", channels, 1, KERNEL)
    alpha_out = _alpha(source, f"{name}.block.2", channels)
    mix, mix_bias = _conv(source, f"{name}.block.3", channels, channels, 1)
    folded = weight * (alpha_out / alpha_in).reshape(-1, 1, 1)
    return kernels.Unit(
        snake=_snake(alpha_in),
        taps=_taps(folded, bias * alpha_out),
        dilation=dilation,
        product=Linear.of_rows([Matrix(mix.squeeze(-1) / alpha_out)], mix_bias),
    )


def _decoder_block(
    source: ArraySource, index: int, channels: int, stride: int, config: VaeConfig
) -> DecoderBlock:
    name = f"decoder.model.{index}"
    alpha = _alpha(source, f"{name}.block.0", channels)
    scale, shift = alpha, np.zeros_like(alpha)
    if config.sr_bin_boundaries is not None:
        num_bins, row = len(config.sr_bin_boundaries) + 1, config.sample_rate_bin
        table = f"decoder.sr_cond_model.{index}"
        gains = source.floats(f"{table}.scale_embed.weight", num_bins, channels)
        offsets = source.floats(f"{table}.bias_embed.weight", num_bins, channels)
        scale, shift = alpha * gains[row], alpha * offsets[row]
    half = channels // 2
    return DecoderBlock(
        snake=_snake(scale, shift),
        upsample=source.upsampling(f"{name}.block.1", (channels, half, 2 * stride), alpha),
        units=kernels.Units(
            [
                _residual_unit(source, f"{name}.block.{2 + i}", half, dilation)
                for i, dilation in enumerate(DILATIONS)
            ]
        ),
        dilations=DILATIONS,
        channels=half,
    )


def load_decoder(source: ArraySource, config: VaeConfig) -> Decoder:
    width = config.decoder_dim
    first = _conv(source, "decoder.model.0", config.latent_dim, 1, KERNEL)
    expand, bias = _conv(source, "decoder.model.1", width, config.latent_dim, 1)
    blocks = [
        _decoder_block(source, 2 + i, width >> i, stride, config)
        for i, stride in enumerate(config.decoder_rates)
    ]
    if config.sr_bin_boundaries is not None:
        source.skip(f"decoder.{BOUNDARIES}", len(config.sr_bin_boundaries))
    last = 2 + len(config.decoder_rates)
    channels = width >> len(config.decoder_rates)
    alpha = _alpha(source, f"decoder.model.{last}", channels)
    weight, last_bias = _conv(source, f"decoder.model.{last + 1}", 1, channels, KERNEL)
    taps = (weight / alpha.reshape(1, -1, 1))[0].T.ravel()  # [KERNEL * C]
    return Decoder(
        config=config,
        first_taps=_taps(*first),
        expand=Linear.of_rows([Matrix(expand.squeeze(-1))], bias),
        blocks=blocks,
        last_snake=_snake(alpha),
        last_taps=np.pad(taps, (0, whole(len(taps)) - len(taps))),
        last_bias=float(last_bias[0]),
    )


def skip_encoder(source: ArraySource, config: VaeConfig) -> None:
    """Take the weights of the encoder, which torch reads where they are needed."""

    def conv(name: str, *shape: int) -> None:
        source.skip(f"{name}.weight_g", shape[0], 1, 1)
        source.skip(f"{name}.weight_v", *shape)
        source.skip(f"{name}.bias", shape[0])

    width = config.encoder_dim
    conv("encoder.block.0", width, 1, KERNEL)
    for index, stride in enumerate(config.encoder_rates, start=1):
        name = f"encoder.block.{index}.block"
        for i in range(len(DILATIONS)):
            source.skip(f"{name}.{i}.block.0.alpha", 1, width, 1)
            conv(f"{name}.{i}.block.1", width, 1, KERNEL)
            source.skip(f"{name}.{i}.block.2.alpha", 1, width, 1)
            conv(f"{name}.{i}.block.3", width, width, 1)
        source.skip(f"{name}.3.alpha", 1, width, 1)
        conv(f"{name}.4", 2 * width, width, 2 * stride)
        width *= 2
    for name in ("encoder.fc_mu", "encoder.fc_logvar"):
        conv(name, config.latent_dim, width, 3)
