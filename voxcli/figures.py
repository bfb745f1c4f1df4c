"""Figures of reports as people read them: no more digits than mean anything."""

from __future__ import annotations

_DIGITS = {"rtf": 6, "speed_x": 3}
MICROSECONDS = 6


def rounded(value: object, name: str = "") -> object:
    """The same with the seconds of all fields `*_s` in whole microseconds, and ratios of times
    rounded as well, however deep they are.

    Args:
        name: of the field that has the value.
    """
    if isinstance(value, dict):
        return {key: rounded(inside, str(key)) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inside, name) for inside in value]
    digits = MICROSECONDS if name.endswith("_s") else _DIGITS.get(name)
    return round(value, digits) if isinstance(value, float) and digits is not None else value
