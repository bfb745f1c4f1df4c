"""What is known of the processor before torch is there, and whether that is needed. No torch."""

from __future__ import annotations

import logging

from voxcli.config import EngineConfig, num_cores
from voxcli.process import may_be_card

logger = logging.getLogger(__name__)


def cpu_name() -> str:
    """The processor's own name where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            for line in info:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()


def available_memory() -> int | None:
    """Bytes of memory that can be had without swapping, where the system tells it."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as info:
            for line in info:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def has_room(num_bytes: int) -> bool:
    """Whether weights in fp32 leave enough of the memory to all else."""
    available = available_memory()
    if available is None or num_bytes <= 0.8 * available:
        return True
    logger.info("fp32 needs %.1f GB of %.1f GB: bf16", num_bytes / 1e9, available / 1e9)
    return False


def threads_of(count: int) -> int:
    """At most the usable cores: more threads only wait for each other. 0 means all of them."""
    most = num_cores()
    return min(count, most) or most


def why_torch(config: EngineConfig, num_bytes: int) -> str | None:
    """Why an engine needs torch whatever its model; None where it may do without.

    Args:
        num_bytes: of the model's files, two a number.
    """
    device, precision = config.device, config.precision
    if not config.light:
        return "the command or a setting asks for it"
    if not config.native:
        return "the native kernels are switched off"
    if device not in ("auto", "cpu"):
        return f"the device is {device}"
    if may_be_card(device):
        return "there may be a GPU"
    if precision not in ("auto", "fp32"):
        return f"the precision is {precision}"
    if precision == "auto" and not has_room(num_bytes):
        return "fp32 does not fit into the memory"
    return None
