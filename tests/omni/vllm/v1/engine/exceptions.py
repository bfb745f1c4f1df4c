"""Errors of vLLM's engine."""


class EngineDeadError(Exception):
    """The engine is gone."""


class EngineGenerateError(Exception):
    """One request failed."""
