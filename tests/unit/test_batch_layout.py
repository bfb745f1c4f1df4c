"""The parts of a batch stand in an order: none imports one that imports it, not even in a function.

And they know engines by `engine.base` alone.
"""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "voxcli" / "batch"
ENGINES = {"voxcli.engine.base", "voxcli.engine.choose", "voxcli.engine.takeover"}


def imported(path: Path) -> set[str]:
    """Every module that a file imports: at its top, in a function, or for types alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: relative import"
            assert node.module is not None
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            is_part = node.module == "voxcli.batch"
            found |= inner if is_part else {node.module}
    return found


def test_the_imports_have_no_circle() -> None:
    parts = {
        path.stem: {
            name.removeprefix("voxcli.batch.").split(".")[0]
            for name in imported(path)
            if name.startswith("voxcli.batch.")
        }
        for path in FOLDER.glob("*.py")
    }
    assert {"records", "jobs"} <= parts.keys()
    assert sum(map(len, parts.values())) > 50  # the walk finds them
    assert all(part not in needed for part, needed in parts.items())
    order = list(TopologicalSorter(parts).static_order())  # raises CycleError
    assert order.index("records") < order.index("tables")


def test_no_part_knows_an_engine_or_a_family_by_name() -> None:
    wrong = [
        f"{path.name} imports {name}"
        for path in FOLDER.glob("*.py")
        for name in imported(path)
        if (name.startswith("voxcli.engine") and name not in ENGINES)
        or name.startswith("voxcli.models.")
    ]
    assert not wrong, wrong
