"""Weights to the transformer layers: renaming, reordering and fusing live here.

And the choice of who computes: the plain layers, fused kernels on a card, compiled ones on a CPU.
"""

from __future__ import annotations

from typing import TypeVar

import torch

from voxcli.layers.rope import interleave_heads
from voxcli.models.causal import Block, compile_products_ahead
from voxcli.models.voxcpm2.acoustic import LocalDiT, LocalEncoder, ScalarQuantizer, TimeMlp
from voxcli.models.voxcpm2.backbone import CausalStack, LocalStack, Stack
from voxcli.models.voxcpm2.config import TransformerConfig, VoxCPM2Config
from voxcli.models.voxcpm2.fused import (
    FusedCausalStack,
    FusedLocalDiT,
    FusedLocalEncoder,
    FusedLocalStack,
    supports,
)
from voxcli.models.voxcpm2.native_layers import (
    NativeCausalStack,
    NativeLocalDiT,
    NativeLocalStack,
)
from voxcli.models.voxcpm2.native_layers import supports as supports_native
from voxcli.models.voxcpm2.sources import Source

T = TypeVar("T", bound=Stack)


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


def _kind(
    source: Source, config: TransformerConfig, plain: type[T], fused: type[T], native: type[T]
) -> type[T]:
    """Who computes a stack where the weights are."""
    if supports(config, source.device, source.dtype):
        return fused
    return native if _is_native_host(source) else plain


def _is_native_host(source: Source) -> bool:
    return source.is_native and supports_native(source.device, source.dtype)


def load_causal_stack(
    source: Source, prefix: str, config: TransformerConfig, num_positions: int
) -> CausalStack:
    blocks = _blocks(source, prefix, config)
    norm = source.take(f"{prefix}.norm.weight", config.hidden_size)
    kind = _kind(source, config, CausalStack, FusedCausalStack, NativeCausalStack)
    stack = kind(config, blocks, norm, num_positions)
    if isinstance(stack, FusedCausalStack):
        compile_products_ahead(stack)
    return stack


def _local_stack(
    source: Source, prefix: str, config: TransformerConfig, num_positions: int
) -> LocalStack:
    blocks = _blocks(source, prefix, config)
    norm = source.take(f"{prefix}.norm.weight", config.hidden_size)
    kind = _kind(source, config, LocalStack, FusedLocalStack, NativeLocalStack)
    stack = kind(config, blocks, norm, num_positions)
    if isinstance(stack, FusedLocalStack):
        compile_products_ahead(stack)
        stack.compile_attention_ahead(num_positions)
    return stack


def _is_native_card(source: Source) -> bool:
    return source.is_native and source.device.type == "cuda"


def load_local_encoder(source: Source, config: VoxCPM2Config) -> LocalEncoder:
    width = config.encoder.hidden_size
    special = source.take("feat_encoder.special_token", 1, 1, 1, width)
    is_fused = supports(config.encoder, source.device, source.dtype)
    kind = FusedLocalEncoder if is_fused else LocalEncoder
    encoder = kind(
        special.view(1, 1, width),
        source.linear("feat_encoder.in_proj", width, config.feat_dim),
        _local_stack(source, "feat_encoder.encoder", config.encoder, 1 + config.patch_size),
    )
    if isinstance(encoder, FusedLocalEncoder) and _is_native_card(source):
        encoder.use_persistent(config.patch_size)
    return encoder


def load_local_dit(source: Source, config: VoxCPM2Config) -> LocalDiT:
    prefix, width = "feat_decoder.estimator", config.dit.hidden_size
    num_positions = 3 + 2 * config.patch_size  # two mu, time, condition, patch

    def time_mlp(name: str) -> TimeMlp:
        parts = [source.linear(f"{prefix}.{name}.linear_{i}", width, width) for i in (1, 2)]
        return TimeMlp(*parts)

    plain = NativeLocalDiT if _is_native_host(source) else LocalDiT
    kind = FusedLocalDiT if supports(config.dit, source.device, source.dtype) else plain
    dit = kind(
        in_proj=source.linear(f"{prefix}.in_proj", width, config.feat_dim),
        cond_proj=source.linear(f"{prefix}.cond_proj", width, config.feat_dim),
        out_proj=source.linear(f"{prefix}.out_proj", config.feat_dim, width),
        time_mlp=time_mlp("time_mlp"),
        delta_time_mlp=time_mlp("delta_time_mlp"),
        stack=_local_stack(source, f"{prefix}.decoder", config.dit, num_positions),
        width=width,
        is_mean_mode=config.dit_mean_mode,
    )
    if isinstance(dit, FusedLocalDiT) and _is_native_card(source):
        dit.use_persistent(config.patch_size)
    return dit


def load_quantizer(source: Source, config: VoxCPM2Config) -> ScalarQuantizer:
    width = config.lm.hidden_size
    return ScalarQuantizer(
        source.linear("fsq_layer.in_proj", config.fsq_dim, width),
        source.linear("fsq_layer.out_proj", width, config.fsq_dim),
        config.fsq_scale,
    )
