"""Peak memory of this process: over all of its life, and since a restart of the count.

Resident memory is restarted on Linux alone; elsewhere a part's peak is null. Knows no bench.
"""

from __future__ import annotations

import sys
from pathlib import Path

_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
Peaks = dict[str, int | None]  # bytes


class PeakMemory:
    """Counts peaks in parts.

    Args:
        device_type: where the model is; on CUDA torch's allocator is counted too.
    """

    def __init__(self, device_type: str) -> None:
        self._device = device_type if device_type.startswith("cuda") else None
        self._before: Peaks = {}
        self._can_restart = False

    def restart(self) -> None:
        """Count from here on."""
        self._before = self.overall()
        try:
            _RESET.write_text("5")  # Linux: the peak becomes what is resident now
            self._can_restart = True
        except OSError:
            self._can_restart = False
        if self._device is not None:
            import torch

            torch.cuda.reset_peak_memory_stats(self._device)

    def since_restart(self) -> Peaks:
        """The largest values since `restart`."""
        resident = _resident_peak() if self._can_restart else None
        return {"peak_rss_bytes": resident, **self._gpu()}

    def overall(self) -> Peaks:
        """The largest values of all parts."""
        now = {"peak_rss_bytes": _resident_peak(), **self._gpu()}
        return {name: _larger(value, self._before.get(name)) for name, value in now.items()}

    def _gpu(self) -> Peaks:
        if self._device is None:
            return {"peak_gpu_allocated_bytes": None, "peak_gpu_reserved_bytes": None}
        import torch

        return {
            "peak_gpu_allocated_bytes": torch.cuda.max_memory_allocated(self._device),
            "peak_gpu_reserved_bytes": torch.cuda.max_memory_reserved(self._device),
        }


def _larger(a: int | None, b: int | None) -> int | None:
    known = [value for value in (a, b) if value is not None]
    return max(known, default=None)


def _resident_peak() -> int | None:
    try:
        for line in _STATUS.read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes but on a Mac
