"""Patterns of the rules: compiled late, and the same as if they had been compiled at once."""

from __future__ import annotations

import gc
import importlib
import pickle
import pkgutil
import re

import pytest

import voxcli.text
from voxcli.text.patterns import LatePattern, pattern_of


def _all() -> list[LatePattern]:
    """Those that the modules of rules hold, by themselves or in a collection."""
    names = [f"voxcli.text.{module.name}" for module in pkgutil.iter_modules(voxcli.text.__path__)]
    waiting: list[object] = [vars(importlib.import_module(name)) for name in names]
    seen: dict[int, object] = {}
    while waiting:
        for found in gc.get_referents(waiting.pop()):
            if id(found) not in seen and isinstance(found, LatePattern | dict | list | tuple):
                seen[id(found)] = found
                waiting.append(found)
    return [found for found in seen.values() if type(found) is LatePattern]


def test_every_pattern_of_the_rules_is_one() -> None:
    found = _all()
    assert len(found) > 100
    for late in found:
        re.compile(late.pattern, late._flags)


def test_a_late_pattern_finds_what_one_compiled_at_once_does() -> None:
    text = "Ab ab aB"
    late, at_once = pattern_of("ab", re.IGNORECASE), re.compile("ab", re.IGNORECASE)
    assert late.findall(text) == at_once.findall(text)
    assert late.sub("x", text) == at_once.sub("x", text)
    assert late.match(text, 3).span() == at_once.match(text, 3).span()
    assert (late.pattern, late.flags, late.groups) == (
        at_once.pattern, at_once.flags, at_once.groups,
    )  # fmt: skip


def test_a_wrong_pattern_is_refused_at_its_first_use() -> None:
    late = pattern_of("(")
    for _ in range(2):
        with pytest.raises(re.error):
            late.search("text")


def test_a_late_pattern_that_was_not_used_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(pattern_of("a+"))).fullmatch("aa")
