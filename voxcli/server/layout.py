"""`--replicas` and `--device` as one device for each replica. Imports nothing heavy."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

from voxcli.config import num_cores
from voxcli.errors import DeviceError, UsageError

# NOTE: in a process of its own: the front speaks itself on no card, and is small without torch.
_COUNT = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"


def count_cards() -> int:
    """CUDA cards that can be used here."""
    counted = subprocess.run(
        [sys.executable, "-P", "-c", _COUNT], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        return int(counted.stdout)
    except ValueError as err:
        raise DeviceError("torch cannot list the GPUs", hint="see 'voxcli doctor'") from err


def devices_of(
    device: str, num_replicas: int | None, count: Callable[[], int] = count_cards
) -> tuple[str, ...]:
    """The device of each replica; none for a server that speaks itself.

    Args:
        device: as `--device` says, several with commas between.
        num_replicas: as `--replicas` says; None where it is not given.
        count: of the cards that are here.

    Raises:
        UsageError: the options cannot be.
        DeviceError: there are too few cards.
    """
    if num_replicas is not None and num_replicas < 1:
        raise UsageError(f"--replicas is {num_replicas}", hint="give 1 or more")
    names = tuple(name.strip() for name in device.split(","))
    if len(names) > 1:
        return _named(device, names, num_replicas, count)
    if num_replicas is None:
        return ()
    if device == "cpu":
        return ("cpu",) * num_replicas
    if device not in ("auto", "cuda"):
        if num_replicas > 1:
            raise UsageError(
                f"--device is '{device}' and --replicas {num_replicas}",
                hint="name a GPU for each, such as --device cuda:0,cuda:1, or use cpu",
            )
        return (device,)
    cards = count()
    if device == "auto" and cards == 0:
        return ("cpu",) * num_replicas
    if cards < num_replicas:
        raise DeviceError(
            f"--replicas {num_replicas} needs a GPU for each, and {cards} can be used",
            hint="use fewer, --device cpu, or see 'voxcli doctor'",
        )
    return tuple(f"cuda:{index}" for index in range(num_replicas))


def _named(
    device: str, names: tuple[str, ...], num_replicas: int | None, count: Callable[[], int]
) -> tuple[str, ...]:
    odd = next((name for name in names if not re.fullmatch(r"cuda:\d+", name)), None)
    if odd is not None:
        raise UsageError(
            f"--device {device} has '{odd}' in it",
            hint="name GPUs, such as cuda:0,cuda:1, or use --device cpu with --replicas",
        )
    if len(set(names)) < len(names):
        raise UsageError(f"--device {device} names a GPU twice", hint="name each once")
    if num_replicas not in (None, len(names)):
        raise UsageError(
            f"--device {device} is for {len(names)} replicas, and --replicas {num_replicas}",
            hint="leave --replicas out",
        )
    cards = count()
    missing = next((name for name in names if int(name.partition(":")[2]) >= cards), None)
    if missing is not None:
        raise DeviceError(
            f"device '{missing}' is not available: {cards} GPUs can be used",
            hint="use --device cpu, or see 'voxcli doctor'",
        )
    return names


def threads_of(threads: int, num_replicas: int) -> int:
    """CPU threads of each replica: as many as are asked for, else the cores are shared out."""
    return threads or max(1, num_cores() // num_replicas)
