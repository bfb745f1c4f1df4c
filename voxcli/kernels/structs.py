"""What the compiled kernels read, as `native*.c` and `native*.h` say: structures and constants.

No torch and no arrays.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

LANES = 16
VECTORS = 3  # of a panel
# Multiply-adds from which on a product is split over threads; below, the split costs more.
MIN_THREADED = 1_000_000
# Positions that a thread takes at once in a whole layer: no more than the second cache holds, and
# enough to read weights for; where there are more, parts, so that a late thread is helped.
MAX_TAKEN, MIN_TAKEN, PARTS = 48, 16, 2
PART = 18432  # numbers of a row that a residual unit has in work
MIN_TABLE = 288  # numbers, so that there is some work between two looks at the table's end


class PanelsStruct(ctypes.Structure):
    """`Panels` of `native_panels.h`."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("N", ctypes.c_int64),
        ("K", ctypes.c_int64),
        ("is_half", ctypes.c_int),
        ("is_sum", ctypes.c_int),
    )


class LayerStruct(ctypes.Structure):
    """`Layer` of `native_layers.c`."""

    _fields_ = (
        *((name, PanelsStruct) for name in ("qkv", "output", "gate_up", "down")),
        *((name, ctypes.c_void_p) for name in ("input_norm", "mlp_norm", "next_norm", "rotation")),
        *((name, ctypes.c_int64) for name in ("D", "F", "H", "G", "C")),
        *((name, ctypes.c_float) for name in ("attention_scale", "residual_scale", "eps")),
    )


class SolverStruct(ctypes.Structure):
    """`Solver` of `native_stacks.c`."""

    _fields_ = tuple((name, PanelsStruct) for name in ("in_proj", "cond_proj", "out_proj"))


class UnitStruct(ctypes.Structure):
    """`Unit` of `native_vocoder.c`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("scale", "shift", "taps")),
        ("product", PanelsStruct),
        ("dilation", ctypes.c_int64),
    )


@dataclass(frozen=True)
class Heads:
    """How a row of queries, keys and values is cut; `[H C, G C, G C]` numbers."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float

    @property
    def width(self) -> int:
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    @property
    def group(self) -> int:
        """Query heads that share a key."""
        return self.num_heads // self.num_kv_heads


def unit_threads(B: int, T: int, C: int, num_threads: int) -> tuple[int, int]:
    """Threads of residual units, and into how many parts they cut the time of a row."""
    num_threads = num_threads if B * T * C * C >= MIN_THREADED else 1
    return num_threads, num_threads if num_threads > B else 1


def num_taken(num_positions: int, num_threads: int) -> int:
    """Positions that a thread takes at once."""
    return max(MIN_TAKEN, min(MAX_TAKEN, -(-num_positions // (PARTS * num_threads))))


def whole(N: int) -> int:
    """Up to whole `LANES`."""
    return -(-N // LANES) * LANES


MOST_LAYERS = 128  # in one call, as `native_stacks.c` says
MOST_UNITS = 16  # the same, as `native_vocoder.c` says


def check_stack(layers: ctypes.Array[LayerStruct]) -> None:
    """What a call of all layers relies on: they are few enough, and of one size."""
    assert 0 < len(layers) <= MOST_LAYERS, len(layers)
    sizes = {(layer.D, layer.F, layer.H, layer.G, layer.C) for layer in layers}
    assert len(sizes) == 1, sizes


def check_solver(solver: SolverStruct, layer: LayerStruct) -> None:
    """What a solver relies on: its products fit together and to a layer."""
    x, cond, velocity = solver.in_proj, solver.cond_proj, solver.out_proj
    assert x.N == cond.N == velocity.K == layer.D, (x.N, cond.N, velocity.K, layer.D)
    assert x.K == cond.K == velocity.N, (x.K, cond.K, velocity.N)


def local_stack_scratch(layer: LayerStruct, num_rows: int, num_positions: int) -> int:
    """Numbers of scratch, as `native_stacks.c` says."""
    of_head = layer.C + num_positions * layer.H // layer.G
    heads: int = num_rows * layer.G * of_head * whole(num_positions)
    return _stack_scratch(layer, num_rows * num_positions) + heads


def causal_stack_scratch(
    layer: LayerStruct, num_rows: int, num_positions: int, num_threads: int
) -> int:
    """The same."""
    return _stack_scratch(layer, num_rows) + num_threads * whole(num_positions)


def solver_scratch(
    solver: SolverStruct, layer: LayerStruct, num_rows: int, patch_size: int, num_fixed: int
) -> int:
    """The same."""
    num_positions = num_fixed + 1 + 2 * patch_size
    tokens = num_positions * (layer.D + layer.qkv.N)
    read = patch_size * (2 * layer.D + solver.in_proj.K)
    num: int = num_rows * (tokens + read)
    return num + local_stack_scratch(layer, num_rows, num_positions)


def changing_positions(num_fixed: int, patch_size: int) -> ctypes.Array[ctypes.c_int64]:
    """Of a solver's tokens those that differ from step to step: the time and x."""
    first = num_fixed + 1 + patch_size
    return (ctypes.c_int64 * (1 + patch_size))(num_fixed, *range(first, first + patch_size))


def _stack_scratch(layer: LayerStruct, num_rows: int) -> int:
    attended, width = layer.H * layer.C, (layer.H + 2 * layer.G) * layer.C
    num: int = num_rows * (2 * width + attended + 3 * layer.D + 3 * layer.F)
    return num


def table_repeats(num_channels: int) -> int:
    """How often one number a channel is repeated in a table."""
    period = math.lcm(num_channels, LANES)
    return max(1, MIN_TABLE // period) * period // num_channels
