"""What an engine runs on, as plain data for reports. No torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setup:
    """What the engine runs on, and what starting it took.

    Attributes:
        device: the processor's or card's own name.
        device_type: "cpu" or "cuda:0".
        precision: "fp32", "bf16" or "fp8".
        load_s: finding the device, reading the weights, allocating the state.
        import_s: importing torch and the engine before that.
        num_captures, capture_s, capture_bytes: CUDA graphs, within `load_s`.
        warning: what the user should know about the choice of device, or None.
    """

    model: str
    device: str
    device_type: str
    precision: str
    threads: int
    load_s: float
    import_s: float = 0.0
    num_captures: int = 0
    capture_s: float = 0.0
    capture_bytes: int = 0
    warning: str | None = None
