"""The import rules: nothing points up, heavy libraries stay where they belong, one place prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "voxcli"

# Part of the package -> the parts it may import besides itself. A part is a top-level module or
# package; a part that is not listed here has no rule yet and fails the test.
MAY_IMPORT: dict[str, set[str]] = {
    "__init__": set(),
    "errors": set(),
    "closing": set(),
    "config": {"errors"},
    "utterance": {"config"},
    "catalog": {"errors", "utterance"},
    "checkpoint": {"errors"},
    "download": {"catalog", "errors"},
    "hub": {"catalog", "checkpoint", "download", "errors", "config", "utterance"},
    "text": {"errors", "config", "utterance"},
    "audio": {"errors", "closing", "config", "utterance"},
    "voices": {"errors", "config", "utterance", "audio"},
    "setup": set(),
    "takeover": {"errors"},
    "hot": {"errors", "closing", "config", "utterance", "setup", "text"},
    "layers": set(),
    "kernels": {"layers"},
    "models": {"layers", "kernels", "errors"},
    "engine": {"models.base", "layers", "kernels", "config", "utterance", "errors"},
    "ahead": {"closing", "config", "kernels", "engine", "models"},
    "plan": {
        *("catalog", "hub", "models", "text", "audio", "config", "utterance", "errors"),
    },
    "similarity": {"audio", "errors"},
    "speech": {"plan", "engine", "models.base", "text", "audio", "utterance", "errors"},
    "synthesizer": {
        *("ahead", "engine", "models", "text", "audio", "hub", "voices", "plan", "speech"),
        *("config", "utterance", "errors", "closing", "setup", "__init__"),
    },
}
MAY_IMPORT["streaming"] = {
    *("plan", "audio", "text", "utterance", "errors"),
}
BELOW = {*MAY_IMPORT, "models.base"}
MAY_IMPORT["batch"] = {
    *("synthesizer", "speech", "plan", "hub", "catalog", "text", "audio", "voices"),
    *("config", "utterance", "errors", "takeover"),
}
MAY_IMPORT |= {"server": BELOW, "bench": BELOW, "cli": BELOW | {"server", "bench", "batch"}}
MAY_IMPORT["__main__"] = {"cli", "errors"}

WITHOUT_TORCH = {
    *("__init__", "errors", "closing", "config", "utterance", "catalog", "checkpoint"),
    *("download", "hub"),
    *("text", "audio", "voices", "plan", "streaming", "batch", "setup", "hot", "takeover"),
}
# What command modules may import only inside a command body, for help without delay.
HEAVY = ("torch", "numpy", "soundfile", "huggingface_hub", "rich", "tokenizers", "safetensors")
HEAVY_PARTS = (
    "server",
    "bench",
    "batch",
    "synthesizer",
    "engine",
    "models",
    "hub",
    "text",
    "audio",
    "plan",
    "similarity",
    "speech",
    "streaming",
    "hot",
)


@dataclass(frozen=True)
class Import:
    path: Path
    line: int
    target: str  # dotted name of the module, or of the thing in it
    is_top_level: bool  # runs when the module is imported

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.target}"


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[Import]:
    """Every import that can run; those under `if TYPE_CHECKING` cannot."""

    def walk(node: ast.AST, is_top_level: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(path, child.lineno, alias.name, is_top_level)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}:{child.lineno}: relative import"
                for alias in child.names:
                    target = f"{child.module}.{alias.name}"
                    yield Import(path, child.lineno, target, is_top_level)
            is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from walk(child, is_top_level and not is_function)

    yield from walk(ast.parse(path.read_text("utf-8")), True)


def own_part(target: str) -> str | None:
    """`voxcli.hub.resolve_model` -> `hub`; None for other packages."""
    words = target.split(".")
    if words[0] != "voxcli":
        return None
    if len(words) == 1 or not (
        (PACKAGE / words[1]).is_dir() or (PACKAGE / f"{words[1]}.py").is_file()
    ):
        return "__init__"
    return "models.base" if words[1:3] == ["models", "base"] else words[1]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_is_below_it(path: Path) -> None:
    part = part_of(path)
    assert part in MAY_IMPORT, f"{part} has no import rule; add one"
    allowed = MAY_IMPORT[part] | {part, "__init__"}
    wrong = []
    for found in imports(path):
        target = own_part(found.target)
        is_allowed = target is None or target in allowed or target.split(".")[0] in allowed
        if not is_allowed:
            wrong.append(str(found))
    assert not wrong, "\n".join(wrong)


def test_text_audio_and_hub_import_no_torch() -> None:
    wrong = [
        str(found)
        for path in sources()
        if part_of(path) in WITHOUT_TORCH
        for found in imports(path)
        if found.target.split(".")[0] == "torch"
    ]
    assert not wrong, "\n".join(wrong)


def test_commands_import_heavy_modules_inside_their_bodies_only() -> None:
    wrong = [
        str(found)
        for path in sources()
        if part_of(path) == "cli"
        for found in imports(path)
        if found.is_top_level
        and (found.target.split(".")[0] in HEAVY or own_part(found.target) in HEAVY_PARTS)
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_imports_click() -> None:
    wrong = [str(i) for path in sources() for i in imports(path) if i.target.startswith("click")]
    assert not wrong, "\n".join(wrong)


def test_only_download_fetches_files() -> None:
    fetching = ("snapshot_download", "hf_hub_download", "urllib.request", "httpx", "requests")
    wrong = [
        str(found)
        for path in sources()
        if part_of(path) not in ("download", "server", "synthesizer")
        for found in imports(path)
        if found.target.endswith(fetching)
    ]
    assert not wrong, "\n".join(wrong)


def calls(path: Path, name: str) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    ]


def test_only_the_output_module_prints() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} prints"
        for path in sources()
        if path != PACKAGE / "cli" / "output.py"
        for name in ("print", "typer.echo", "typer.secho", "sys.stderr.write", "sys.stdout.write")
        for line in calls(path, name)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_is_described_in_the_architecture() -> None:
    document = ROOT / "docs" / "architecture.md"
    if not document.is_file():
        pytest.skip("docs/architecture.md is not written yet")
    text = document.read_text("utf-8")
    names = [str(path.relative_to(PACKAGE)) for path in sources() if path.stat().st_size > 0]
    missing = [
        name for name in names if f"`{name}`" not in text and not name.endswith("__init__.py")
    ]
    assert not missing, f"docs/architecture.md does not name {missing}"
