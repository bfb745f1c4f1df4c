"""Stand-ins for parts of torch, in a process that has tensors without data and compiles nothing.

What torch does with such tensors it asks its compiler not to compile, and of every size it asks
whether that is a number or a symbol. To ask, it imports compiler and symbols, which takes longer
than all that is done with the tensors. Here the answers are those for numbers; where something else
is asked, the module itself is imported.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class _Nothing:
    """A class that nothing is of."""


def _itself(value: Any, *_: Any, **__: Any) -> Any:
    return value


_COMPILER: dict[str, Any] = {"disable": _itself}
_SYMBOLS: dict[str, Any] = {"Basic": _Nothing}
_SIZES: dict[str, Any] = {
    **dict.fromkeys(("guard_or_false", "guard_or_true", "guard_size_oblivious"), bool),
    **dict.fromkeys(("guard_int", "guarding_hint_or_throw", "size_hint"), _itself),
    **dict.fromkeys(("has_guarding_hint", "has_hint"), lambda _: True),
    "expect_true": lambda value, *_: bool(value),
    "free_unbacked_symbols": lambda _: (),
    "is_nested_int": lambda _: False,
    "statically_known_true": bool,
    "sym_and": lambda *values: all(values),
    "sym_eq": operator.eq,
    "sym_or": lambda *values: any(values),
}


class _StandIn(ModuleType):
    """Some names of a module; for others, and for its submodules, it is imported."""

    def __init__(self, name: str, known: Mapping[str, Any], *, is_package: bool) -> None:
        super().__init__(name)
        self._is_package = is_package
        vars(self).update(known)

    def __getattr__(self, attribute: str) -> Any:
        is_special = attribute.startswith("__")
        if is_special and not (attribute == "__path__" and self._is_package):
            raise AttributeError(attribute)
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        return getattr(import_module(name), attribute)


def stand_in() -> None:
    """Put the stand-ins where the modules are not imported yet; before torch is."""
    for name, known, is_package in (
        ("sympy", _SYMBOLS, True),
        ("torch._dynamo", _COMPILER, True),
        ("torch.fx.experimental.symbolic_shapes", _SIZES, False),
    ):
        if name not in sys.modules:
            sys.modules[name] = _StandIn(name, known, is_package=is_package)
