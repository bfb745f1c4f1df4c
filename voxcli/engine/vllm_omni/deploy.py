"""vLLM-Omni's deploy file: its own for the family, with what more streams need raised together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# VoxCPM2 keeps keys and values of 28 + 8 layers, 2 heads of 128 numbers of two bytes each
VOXCPM2_TOKEN_BYTES = 36 * 2 * 2 * 128 * 2
MAX_POSITIONS = 4096  # of a row, in its deploy files
SPARE_BYTES = 256 << 20
MIN_CACHE_BYTES = 6 << 30  # what its deploy file has for eight rows
QWEN_STAGES = 2


def voxcpm2(num_streams: int) -> list[dict[str, Any]]:
    """Stages for so many streams at once: rows that are admitted, the decode graphs' largest batch
    and the cache have to agree, else the rest runs without a graph or waits."""
    cache = max(MIN_CACHE_BYTES, num_streams * MAX_POSITIONS * VOXCPM2_TOKEN_BYTES + SPARE_BYTES)
    runtime = {"unified_decode_graph_max_batch_size": num_streams}
    return [
        {
            "stage_id": 0,
            "max_num_seqs": num_streams,
            "kv_cache_memory_bytes": cache,
            "engine_extras": {"hf_overrides": {"voxcpm2_runtime_config": runtime}},
        }
    ]


def qwen3_tts(num_streams: int) -> list[dict[str, Any]]:
    """Stages for so many streams at once; its caches follow from its share of the card."""
    return [{"stage_id": stage, "max_num_seqs": num_streams} for stage in range(QWEN_STAGES)]


STAGES = {"voxcpm2": voxcpm2, "qwen3_tts": qwen3_tts}


def write(path: Path, base: Path, family: str, num_streams: int) -> Path:
    """Write the file; JSON is YAML.

    Args:
        base: the package's own file, as an absolute path: in 0.26 a bare name is not found.
    """
    content = {"base_config": str(base), "stages": STAGES[family](num_streams)}
    path.write_text(json.dumps(content, indent=1), "utf-8")
    return path


def buckets(num_streams: int) -> list[int]:
    """Batches that VoxCPM2's decode graphs are captured for, each at its first use."""
    sizes = (1, 2, 4, 8, 16, *range(24, num_streams + 1, 8))
    return [size for size in sizes if size <= num_streams]
