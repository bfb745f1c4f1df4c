"""Plain values of options and arguments without Typer's pydantic, which costs 0.15 s to import.

Typer hands every value but a flag to a pydantic adapter. A value that is just what its type says
(text, a decimal number, a path that can be read) is taken here; anything else goes Typer's own way
and gets its messages. A Typer that works otherwise is only slower.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,15}(\.\d{1,15})?", re.ASCII)


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> Any:
    is_plain = isinstance(value, str) and _INTEGER.fullmatch(value)
    return int(value) if is_plain else None


def _decimal(value: Any) -> Any:
    is_plain = isinstance(value, str) and _DECIMAL.fullmatch(value)
    return float(value) if is_plain else None


def _path(value: Any) -> Any:
    is_plain = isinstance(value, str) and "\0" not in value
    if is_plain and (os.access(value, os.R_OK) or not os.path.lexists(value)):
        return Path(value)
    return None


_KINDS: dict[Any, Callable[[Any], Any]] = {
    str: _text, int: _integer, float: _decimal, Path: _path,
}  # fmt: skip


class _Plain:
    """Stands in for a parameter's coercion."""

    def __init__(self, kind: type, original: Callable[[], Any]) -> None:
        self._kind = kind
        self._original = original

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as its type, or None for an option that was not given."""
        if value is None or type(value) is self._kind:
            return value
        plain = _KINDS[self._kind](value)
        return self._original().coerce(value, param=param, ctx=ctx) if plain is None else plain


def take_plain_values(command: Any) -> None:
    """Let the parameters of a command, and of the commands below it, take plain values as such."""
    for parameter in command.params:
        described: Any = getattr(parameter, "type_descriptor", None)
        kind: Any = getattr(described, "annotation", None)
        if kind not in _KINDS or parameter.multiple or parameter.nargs != 1:
            continue
        info = described.parameter_info
        asked = (info.min, info.max, info.parser, info.exists, info.resolve_path, info.writable)
        if not any(asked) and hasattr(parameter, "get_runtime_param"):
            stand_in = _Plain(kind, parameter.get_runtime_param)
            parameter.get_runtime_param = lambda stand_in=stand_in: stand_in
    help_option = command.get_help_option

    def get_help_option(ctx: Any) -> Any:  # an absent --help would be None, which is no flag
        option = help_option(ctx)
        if option is not None:
            option.default = False
        return option

    command.get_help_option = get_help_option
    for below in getattr(command, "commands", {}).values():
        take_plain_values(below)
