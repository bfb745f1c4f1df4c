"""Machines that vLLM-Omni would start on, by the versions that they are said to have."""

from __future__ import annotations

from voxcli.engine.vllm_omni.packages import Machine

TORCHES = {"0.26.0": "2.11.0", "0.30.0": "2.13.0"}


def machine(version: str = "0.26.0") -> Machine:
    versions = {"torch": TORCHES[version], "vllm": version, "vllm-omni": version, "voxcpm": "2.0.3"}
    return Machine((3, 12), "linux", has_card=True, has_ninja=True, versions=versions)
