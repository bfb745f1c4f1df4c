"""Which device, number format and threads the engine uses; refused early, with what was found."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from voxcli import kernels
from voxcli.engine.native.host import cpu_name, has_room, threads_of
from voxcli.errors import DeviceError, UsageError
from voxcli.kernels import native
from voxcli.layers import fp8
from voxcli.layers.linear import has_half_storage

PRECISION_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", fp8.FORMAT: "fp8"}
LIGHT_BYTES = 500 << 20  # models up to this size are made for CPUs too
FP8_CAPABILITY = (8, 9)  # the first tensor cores that multiply e4m3


@dataclass(frozen=True)
class Device:
    """The resolved device.

    Attributes:
        torch_device: where tensors live.
        name: what reports call it.
        warning: why it is slower than it could be, or None.
    """

    torch_device: torch.device
    name: str
    warning: str | None = None


def found() -> str:
    """One phrase about this machine's torch build and cards."""
    build = torch.version.cuda
    if build is None:
        return f"torch {torch.__version__} is a build without CUDA"
    if not torch.cuda.is_available():
        return (
            f"torch {torch.__version__} is for CUDA {build}, but no usable GPU or driver is found"
        )
    return f"{torch.cuda.device_count()} CUDA device(s): " + ", ".join(
        f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())
    )


def _cpu(*warnings: str) -> Device:
    compiled = native.find()
    if compiled.is_broken:
        warnings += (f"slow: {compiled.detail}; install voxcli again to compile its kernels",)
    return Device(torch.device("cpu"), cpu_name(), "; ".join(warnings) or None)


def resolve_device(name: str, num_bytes: int = 0) -> Device:
    """Find the device that `--device` names.

    Args:
        num_bytes: of the model's files; that a large one has no GPU is worth a warning.

    Raises:
        UsageError: not a device name voxcli knows.
        DeviceError: not on this machine; the message says what is.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return resolve_device("cuda:0")
        is_slow = num_bytes > LIGHT_BYTES
        return _cpu(*([f"slow: no GPU, running on the CPU ({found()})"] if is_slow else []))
    if name == "cpu":
        return _cpu()
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match:
        index = int(match[1] or 0)
        if not torch.cuda.is_available() or index >= torch.cuda.device_count():
            hint = "use --device cpu, or see 'voxcli doctor'"
            raise DeviceError(f"device '{name}' is not available: {found()}", hint=hint)
        return Device(torch.device("cuda", index), torch.cuda.get_device_name(index))
    if name == "mps":
        raise DeviceError("device 'mps' is not supported yet", hint="use --device cpu")
    raise UsageError(f"device '{name}' is unknown", hint="use auto, cpu, cuda or cuda:N")


def resolve_dtype(precision: str, device: torch.device, num_bytes: int) -> torch.dtype:
    """The weights' number format.

    "auto" is bf16 on CUDA and fp32 on CPU, unless the weights would take most of the memory.

    Args:
        num_bytes: what the weights take in the checkpoint, two bytes each. fp32 keeps them so where
            fp16 storage works, else it needs twice as much.

    Raises:
        UsageError: fp8 on a device without it.
    """
    if precision == "fp8":
        _require_fp8(device)
        return fp8.FORMAT
    if precision == "fp32":
        return torch.float32
    if precision == "bf16" or device.type == "cuda":
        return torch.bfloat16
    needed = num_bytes if has_half_storage() else 2 * num_bytes
    return torch.float32 if has_room(needed) else torch.bfloat16


def _require_fp8(device: torch.device) -> None:
    if device.type == "cpu":
        raise UsageError(
            "--precision fp8 needs an NVIDIA GPU, and the model runs on the CPU",
            hint="use --precision fp32 or bf16, or --device cuda",
        )
    capability = kernels.capability(device)
    if capability < FP8_CAPABILITY:
        wanted, there = (".".join(map(str, each)) for each in (FP8_CAPABILITY, capability))
        raise UsageError(
            f"--precision fp8 needs a GPU of compute capability {wanted} or above (Ada, Hopper); "
            f"{torch.cuda.get_device_name(device)} has {there}",
            hint="use --precision bf16",
        )


def kernels_of(device: torch.device, *, is_wanted: bool) -> str | None:
    """The instructions that compiled kernels use on a device; None where none are used."""
    found = native.find()
    is_used = found.library is not None and is_wanted and device.type == "cpu"
    return found.detail if is_used else None


def set_threads(count: int) -> int:
    """Set the CPU threads: at most the usable cores, 0 for all. Returns the count in force."""
    torch.set_num_threads(threads_of(count))
    return torch.get_num_threads()
