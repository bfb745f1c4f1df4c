"""Torch building blocks shared by model families. Nothing here knows a family or the engine."""
