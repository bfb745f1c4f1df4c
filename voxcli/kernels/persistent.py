"""A LocDiT solve, or a LocEnc, of one stream as one kernel that does not end before it is done.

`persistent.cu` says how it works. Here its weights are packed, its memory is made, and it is
launched. It is for one size and for cards of compute capability 9.0; `why_not` says what stands
against it elsewhere, and the Triton kernels do the same there.

Letters: `D` width, `K` inputs of a product, `L` layers, `E` evaluations.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from voxcli.kernels import capability
from voxcli.kernels.cubin import CubinError, Function, compiled, source_of

CAPABILITY = (9, 0)
BLOCKS, TEAM = 128, 8
WIDTH, HEADS, GROUPS, HEAD_DIM, WIDE, PATCH, LATENT = 1024, 16, 2, 128, 4096, 4, 64
HALF, POSITIONS = 12, 11  # rows of a guided half, and how many of them are tokens
CHUNK = 128  # inputs of a chunk of 64 outputs
THREADS = 288
SHARED_BYTES = 227_424
QKV_FEATURES = 16 + 4  # of a block: of a query head, and of keys or values
LAYER = QKV_FEATURES * WIDTH + 14 * 64 * CHUNK  # numbers a block
IN_FLIGHT = 1  # chunks on their way to a block; more delay what blocks say to each other

_POINTERS = (
    "weights", "out_weights", "turns", "in_weight", "in_bias", "cond_weight", "cond_bias",
    "out_bias", "times", "sizes", "noise", "mu", "cond", "cfg", "norm", "out", "x_qkv", "x_mlp",
    "x_out", "hidden", "q", "kv", "sums_output", "sums_down", "state",
)  # fmt: skip


class _Params(ctypes.Structure):
    """`Params` of `persistent.cu`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int) for name in ("layers", "evaluations", "in_flight")),
        ("eps", ctypes.c_float),
    ]


@dataclass(frozen=True)
class Layer:
    """The weights of a layer, `[outputs, inputs]`; queries and keys with interleaved pairs.

    They are rounded to bf16 after the norms are folded into them.
    """

    input_norm: Tensor
    qkv: Tensor
    output: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class Weights:
    """All weights of a LocDiT but its time embedding.

    Attributes:
        layers: each made when it is asked for.
        turns: complex64 `[positions, 1, HEAD_DIM / 2]`, the rotation of each position.
    """

    layers: Iterable[Layer]
    num_layers: int
    norm: Tensor
    in_weight: Tensor
    in_bias: Tensor
    cond_weight: Tensor
    cond_bias: Tensor
    out_weight: Tensor
    out_bias: Tensor
    turns: Tensor
    eps: float


def why_not(device: torch.device, dtype: torch.dtype, sizes: Sequence[int]) -> str | None:
    """What stands against the kernel, or None.

    Args:
        sizes: width, query heads, key/value heads, head width, hidden width, latent vectors a
            patch, latent width.
    """
    if capability(device) != CAPABILITY:
        return "it is for cards of compute capability 9.0"
    if dtype != torch.bfloat16:
        return "it is for activations in bf16"
    if tuple(sizes) != (WIDTH, HEADS, GROUPS, HEAD_DIM, WIDE, PATCH, LATENT):
        return f"it is for another size of model than {', '.join(map(str, sizes))}"
    return None


# ------------------------------------------------------------ packing


def _folded(weight: Tensor, norm: Tensor) -> Tensor:
    folded: Tensor = (weight.float() * norm.float()).to(weight.dtype)
    return folded


def _pack_qkv(weight: Tensor) -> Tensor:
    """`[2560, D] -> [BLOCKS, ...]`: 16 features of a query head, four of keys or values."""
    queries, others = weight.split((HEADS * HEAD_DIM, 2 * GROUPS * HEAD_DIM))
    features = torch.cat((queries.view(BLOCKS, -1, WIDTH), others.view(BLOCKS, -1, WIDTH)), 1)
    return features.view(BLOCKS, QKV_FEATURES, -1, 8).transpose(1, 2).flatten(1)


def _pack_slices(weight: Tensor) -> Tensor:
    """`[D, K] -> [BLOCKS, ...]`: 64 features of a team, one eighth of their inputs a block."""
    teams, chunks = BLOCKS // TEAM, weight.shape[1] // TEAM // CHUNK
    cut = weight.view(teams, 8, 8, TEAM, chunks, 8, 2, 8)  # team, group, feature, K
    return cut.permute(0, 3, 4, 5, 6, 1, 2, 7).reshape(BLOCKS, -1)


def _pack_gate_up(weight: Tensor) -> Tensor:
    """`[2 WIDE, D] -> [BLOCKS, ...]`: eight gates, the eight that they let through, and so on."""
    gate, up = (half.view(BLOCKS, 4, 8, WIDTH) for half in weight.chunk(2))
    cut = torch.stack((gate, up), 2).view(BLOCKS, 8, 8, 8, 8, 2, 8)  # block, group, feature, K
    return cut.permute(0, 3, 4, 5, 1, 2, 6).flatten(1)


def pack_layer(layer: Layer) -> Tensor:
    """A layer in the order in which each block reads it; `[BLOCKS, LAYER]`."""
    qkv = _pack_qkv(_folded(layer.qkv, layer.input_norm))
    rest = (
        _pack_slices(layer.output),
        _pack_gate_up(_folded(layer.gate_up, layer.mlp_norm)),
        _pack_slices(layer.down),
    )
    return torch.cat((qkv, *rest), 1)


def pack_output(weight: Tensor, norm: Tensor) -> Tensor:
    """The projection to latent vectors, which every block reads whole; `[64 D]`."""
    cut = _folded(weight, norm).view(8, 8, 8, 8, 2, 8)  # group, feature, K
    return cut.permute(2, 3, 4, 0, 1, 5).flatten()


# ------------------------------------------------------------ the kernel


@cache
def _cubin(folder: Path, is_encoder: bool) -> bytes:
    options = (
        "--gpu-architecture=sm_90a", "--std=c++17", f"-DSHARED_BYTES={SHARED_BYTES}",
        f"-DPARAMS_BYTES={ctypes.sizeof(_Params)}", f"-DENCODER={int(is_encoder)}",
    )  # fmt: skip
    return compiled(source_of("persistent").encode(), options, folder)


class _Persistent:
    """Runs of one stack, one behind the other: they share the memory in which blocks talk.

    Args:
        weights: of the layers, on the card.
        norm: of the last layer's output.
        turns: complex64 `[positions, 1, HEAD_DIM / 2]`, the rotation of each position.
        folder: of compiled kernels.
    """

    is_encoder: bool

    def __init__(
        self, layers: Iterable[Layer], num_layers: int, norm: Tensor, turns: Tensor, eps: float,
        folder: Path,
    ) -> None:  # fmt: skip
        self.device = norm.device
        self._num_layers = num_layers
        self._eps = eps
        self._folder = folder
        # compiled while the rest of the model loads; NVRTC runs without Python's lock
        self._compiler = threading.Thread(target=self._try_compile, daemon=True)
        self._compiler.start()
        self._function: Function | None = None
        self.is_refused = False
        packed = torch.empty(num_layers, BLOCKS, LAYER, dtype=torch.bfloat16, device=self.device)
        for index, layer in enumerate(layers):
            packed[index] = pack_layer(layer)
        turned = torch.view_as_real(turns.flatten(1)).float()  # [positions, HEAD_DIM / 2, 2]
        turned = torch.nn.functional.pad(turned, (0, 0, 0, 0, 0, HALF - len(turned)))
        self._tensors = {
            "weights": packed, "turns": turned.contiguous(),
            "x_qkv": self._words(WIDTH), "x_mlp": self._words(WIDTH), "x_out": self._words(WIDTH),
            "hidden": self._words(WIDE), "q": self._words(HEADS * HEAD_DIM),
            "kv": self._words(2 * GROUPS * HEAD_DIM),
            "sums_output": self._sums(), "sums_down": self._sums(),
            "state": torch.zeros(1, dtype=torch.int32, device=self.device),
        }  # fmt: skip

    def _words(self, num_features: int) -> Tensor:
        shape = (2 * HALF, num_features)
        return torch.zeros(shape, dtype=torch.bfloat16, device=self.device)

    def _sums(self) -> Tensor:
        return torch.zeros(BLOCKS, TEAM, 96, dtype=torch.int64, device=self.device)

    def _try_compile(self) -> None:
        try:
            _cubin(self._folder, self.is_encoder)
        except CubinError:
            pass  # `prepare` meets it again

    @property
    def is_prepared(self) -> bool:
        return self._function is not None

    def prepare(self) -> str | None:
        """Load the kernel; what stands against it, or None. Not while a graph is captured."""
        self._compiler.join()
        try:
            cubin = _cubin(self._folder, self.is_encoder)
            function = Function(cubin, "solve", THREADS, SHARED_BYTES, self.device)
            fit = function.num_blocks_at_once()
        except CubinError as err:
            self.is_refused = True
            return str(err)
        self.is_refused = fit < BLOCKS
        if self.is_refused:
            return f"its {BLOCKS} blocks wait for each other, and {fit} fit on this card at once"
        self._function = function
        return None

    def _launch(self, given: dict[str, Tensor], num_evaluations: int) -> None:
        assert self._function is not None, "prepared before"
        params = _Params(
            **{name: tensor.data_ptr() for name, tensor in (self._tensors | given).items()},
            layers=self._num_layers, evaluations=num_evaluations, in_flight=IN_FLIGHT,
            eps=self._eps,
        )  # fmt: skip
        self._function.launch(BLOCKS, params)


class Encoder(_Persistent):
    """LocEnc of one patch.

    Args:
        special: `[D]`, the token in front of the patch.
        in_weight, in_bias: `[D, LATENT]` and `[D]`, which projects the patch.
    """

    is_encoder = True

    def __init__(
        self, layers: Iterable[Layer], num_layers: int, norm: Tensor, turns: Tensor, eps: float,
        folder: Path, special: Tensor, in_weight: Tensor, in_bias: Tensor,
    ) -> None:  # fmt: skip
        super().__init__(layers, num_layers, norm, turns, eps, folder)
        self._tensors |= {
            "norm": norm, "mu": special, "in_weight": in_weight, "in_bias": in_bias,
        }  # fmt: skip

    def encode(self, patch: Tensor) -> Tensor:
        """The normed output of the token in front; `[1, PATCH, LATENT] -> [1, D]`."""
        assert patch.shape == (1, PATCH, LATENT), patch.shape
        assert patch.dtype == torch.bfloat16, patch.dtype
        out = patch.new_empty(1, WIDTH)
        self._launch({"noise": patch.contiguous(), "out": out}, 1)
        return out


class Solver(_Persistent):
    """Solves of one LocDiT."""

    is_encoder = False

    def __init__(self, weights: Weights, folder: Path) -> None:
        super().__init__(
            weights.layers, weights.num_layers, weights.norm, weights.turns, weights.eps, folder
        )
        self._tensors |= {
            "out_weights": pack_output(weights.out_weight, weights.norm),
            "in_weight": weights.in_weight, "in_bias": weights.in_bias,
            "cond_weight": weights.cond_weight, "cond_bias": weights.cond_bias,
            "out_bias": weights.out_bias,
        }  # fmt: skip

    def solve(
        self, noise: Tensor, mu: Tensor, cond: Tensor, cfg: Tensor | None, sizes: Tensor,
        times: Tensor,
    ) -> Tensor:  # fmt: skip
        """One patch; see `LocalDiT.solve`.

        Args:
            noise, cond: `[1, PATCH, LATENT]`.
            mu: `[1, 2, D]`.
            cfg: fp32 `[1]` or None.
            sizes: fp32 `[E]`, of the steps.
            times: `[E, D]`, their time tokens.

        Returns:
            `[1, PATCH, LATENT]`.
        """
        assert noise.shape == cond.shape == (1, PATCH, LATENT), (noise.shape, cond.shape)
        assert mu.shape == (1, 2, WIDTH), mu.shape
        assert times.shape == (len(sizes), WIDTH), times.shape
        assert cfg is None or (cfg.dtype == torch.float32 and cfg.shape == (1,)), cfg
        given = {"noise": noise, "mu": mu, "cond": cond, "times": times}
        given = {name: tensor.contiguous() for name, tensor in given.items()}
        assert all(tensor.dtype == torch.bfloat16 for tensor in given.values())
        out = torch.empty_like(given["noise"])
        given |= {"sizes": sizes, "out": out}
        if cfg is not None:
            given["cfg"] = cfg
        self._launch(given, len(sizes))
        return out
