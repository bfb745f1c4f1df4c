"""JSON with one field changed to something odd, for files that come from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

MISSING = object()
VALUES = (
    None, True, "", "text", "1", [], [[]], {}, {"a": 1}, [0], ["a"], 0, 1, -1, 7, 2**31, 2**63,
    10**400, 0.5, 1e300, math.nan, -math.inf, "\ud800", MISSING,
)  # fmt: skip


def fields(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all values of a JSON object; of a list's or a table's entries, the first."""
    if path:
        yield path
    if isinstance(value, dict):
        is_table = str(path[-1:]).endswith(("_id',)", "_dialect',)"))
        for key, inner in list(value.items())[: 1 if is_table else None]:
            yield from fields(inner, (*path, key))
    if isinstance(value, list) and value:
        yield from fields(value[0], (*path, 0))


def changed(root: Any, path: tuple[str | int, ...], value: object) -> Any:
    """A copy of the JSON, of which what is not changed is shared."""
    root, (key, *more) = root.copy(), path
    if more:
        root[key] = changed(root[key], tuple(more), value)
    elif value is MISSING:
        del root[key]
    else:
        root[key] = value
    return root
