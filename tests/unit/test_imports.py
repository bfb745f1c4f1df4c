"""The import rules: nothing points up, heavy libraries stay where they belong, one place prints."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "voxcli"

# Part of the package -> the parts it may import besides itself. A part is a top-level module or
# package; `engine` is told apart by what lies in it, and `models` by its registry, its protocol and
# its families. A part that is not listed here has no rule yet and fails the test.
WORDS = {"errors", "extras", "closing", "parameters", "config", "utterance", "plan"}
MAY_IMPORT: dict[str, set[str]] = {
    "__init__": set(),
    "errors": set(),
    "extras": {"errors"},
    "closing": set(),
    "figures": set(),
    "process": set(),
    "parameters": {"errors"},
    "config": {"errors", "parameters"},
    "utterance": {"config"},
    "plan": {"parameters", "utterance", "text", "audio"},
    "times": {"utterance", "text", "audio"},
    "alignment": {"utterance", "text", "audio", "times"},
    "text": {"errors", "config", "utterance"},
    "audio": {"errors", "extras", "closing", "config", "utterance"},
    "voices": {"errors", "config", "utterance", "audio", "layers"},
    "layers": set(),
    "kernels": {"layers"},
    "models.base": {"parameters", "utterance", "errors"},
    "models": {"models.base", "models.family", "errors", "parameters"},
    "models.family": {"models.base", "layers", "kernels", "errors", "parameters", "utterance"},
    "hub": {"models", "models.base", "errors", "config", "utterance", "parameters"},
    "engine": set(),
    "engine.takeover": {"errors"},
    "engine.base": WORDS | {"voices", "hub"},
    "engine.standin": WORDS | {"engine.base"},
    "engine.addresses": set(),
    "engine.choose": {"engine.base", "engine.standin", "engine.native", "engine.remote"}
    | {"engine.addresses"}
    | {"engine.fleet", "engine.openai", "engine.vllm_omni", "engine.news", "engine.calls"}
    | {"hub", "config", "errors", "extras"},
    "engine.planning": WORDS | {"hub", "models.base", "text", "audio"},
    "engine.speech": WORDS | {"engine.base", "engine.planning", "text", "audio"},
    "engine.session": WORDS | {"engine.base", "engine.speech"},
    "engine.news": WORDS | {"engine.base"},
    "engine.calls": WORDS | {"engine.base", "engine.news", "engine.session", "engine.speech"},
    "engine.remote": WORDS | {"engine.base", "engine.news", "text"},
    "engine.fleet": WORDS | {"engine.base", "engine.news"},
    "engine.clips": {"engine.planning", "models.base", "plan", "audio", "utterance", "errors"},
    "engine.vllm_omni": WORDS
    | {"engine.base", "engine.calls", "engine.clips", "engine.planning"}
    | {"models", "models.base", "hub"},
    "engine.openai": WORDS
    | {"engine.base", "engine.calls", "engine.clips", "engine.news", "engine.planning"}
    | {"models", "models.base", "hub", "audio", "voices"},
    "engine.native": WORDS
    | {"engine.base", "engine.planning", "engine.session", "engine.speech"}
    | {"models", "models.base", "layers", "kernels", "text", "audio", "hub", "voices", "process"},
}
# what the capabilities share: the engine protocol and what is below it, no engine by name
ENGINE = {"engine.base", "engine.choose", "engine.takeover"}
BELOW = (
    WORDS
    | ENGINE
    | {"text", "audio", "times", "alignment", "voices", "hub", "models", "models.base", "figures"}
)
MAY_IMPORT |= {name: set(BELOW) for name in ("streaming", "batch", "bench")}
# the server speaks the wire and holds the place that clients look for
MAY_IMPORT["server"] = BELOW | {"engine.remote", "engine.fleet"}
MAY_IMPORT["cli"] = BELOW | {"engine.remote", "engine.vllm_omni", "kernels"}
MAY_IMPORT["cli"] |= {"streaming", "batch", "bench", "server", "process"}
MAY_IMPORT["__main__"] = {"cli", "errors", "process"}

WITHOUT_TORCH = {
    *(WORDS | ENGINE),
    *("__init__", "hub", "text", "audio", "times", "figures", "streaming", "batch", "models"),
    "models.base",
    *("engine", "engine.planning", "engine.remote", "engine.openai", "engine.fleet"),
    *("engine.speech", "engine.session", "engine.news", "engine.calls", "engine.clips"),
    "engine.vllm_omni",
}
# What command modules may import only inside a command body, for help without delay.
HEAVY = ("torch", "numpy", "soundfile", "huggingface_hub", "rich", "tokenizers", "safetensors")
HEAVY_PARTS = ("server", "bench", "batch", "engine", "hub", "text", "audio", "plan", "streaming")
LIGHT_PARTS = ("engine.takeover",)


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


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def part_of(path: Path) -> str:
    return _part(["voxcli", *path.relative_to(PACKAGE).with_suffix("").parts])


def _part(words: list[str]) -> str:
    """The part that a module, as the words of its dotted name, belongs to."""
    below = [word for word in words[1:] if word != "__init__"]
    if not below:
        return "__init__"
    if below[0] == "engine" and len(below) > 1:
        return ".".join(below[:2])
    if below[0] == "models" and len(below) > 1:
        return (
            "models.base"
            if below[1] in ("base", "data", "settings", "shards", "served")
            else "models.family"
        )
    return below[0]


@cache
def imports(path: Path) -> tuple[Import, ...]:
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

    return tuple(walk(tree_of(path), True))


def own_part(target: str) -> str | None:
    """`voxcli.hub.resolve_model` -> `hub`; None for other packages."""
    words = target.split(".")
    if words[0] != "voxcli":
        return None
    known = [words[0]]
    for word in words[1:]:  # the last word may be a thing in a module
        inside = PACKAGE.joinpath(*known[1:])
        if not ((inside / word).is_dir() or (inside / f"{word}.py").is_file()):
            break
        known.append(word)
    return _part(known)


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_is_below_it(path: Path) -> None:
    part = part_of(path)
    assert part in MAY_IMPORT, f"{part} has no import rule; add one"
    allowed = MAY_IMPORT[part] | {part, "__init__"}
    wrong = []
    for found in imports(path):
        target = own_part(found.target)
        is_allowed = target is None or target in allowed
        if not is_allowed:
            wrong.append(str(found))
    assert not wrong, "\n".join(wrong)


def test_what_is_asked_before_a_model_loads_imports_no_torch() -> None:
    wrong = [
        str(found)
        for path in sources()
        if part_of(path) in WITHOUT_TORCH | {"voices"} and path.name != "likeness.py"
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
        and (
            found.target.split(".")[0] in HEAVY
            or (
                str(own_part(found.target)).split(".")[0] in HEAVY_PARTS
                and own_part(found.target) not in LIGHT_PARTS
            )
        )
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
        if path.name != "download.py" and part_of(path) not in ("server", "engine.openai")
        for found in imports(path)
        if found.target.endswith(fetching)
    ]
    assert not wrong, "\n".join(wrong)


def calls(path: Path, names: Sequence[str]) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names
    ]


def test_only_the_output_module_prints() -> None:
    names = ("print", "typer.echo", "typer.secho", "sys.stderr.write", "sys.stdout.write")
    wrong = [
        f"{path.relative_to(ROOT)}:{line} prints"
        for path in sources()
        if path != PACKAGE / "cli" / "output.py"
        for line in calls(path, names)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_family_is_named_nowhere_but_in_its_registry() -> None:
    wrong = [
        str(found)
        for path in sources()
        if part_of(path) not in ("models", "models.family")
        for found in imports(path)
        if own_part(found.target) == "models.family"
    ]
    assert not wrong, "\n".join(wrong)


def test_the_torch_free_part_is_so_in_truth() -> None:
    program = """
import sys
from voxcli.config import EngineConfig
from voxcli.engine.choose import open_engine
from voxcli.utterance import Utterance
engine = open_engine("native", EngineConfig())
engine.plan(Utterance("Hello there."))
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# Words of VoxCPM2, which no other code may know.
FOREIGN_WORDS = re.compile(
    r"(?i)(?<![a-z])(cfg|guidance\w*|patch(es)?|latents?|solver|vae|audiovae|locdit|locenc|dit|"
    r"voxcpm\w*|euler|fsq|num steps)(?![a-z])"
)
# Its solver's steps. The engine has steps of its own, and so have sound and numbers.
STEPS = re.compile(r"(?i)(?<![a-z])steps(?![a-z])")
# and families; a text's rules are made of words, and vLLM-Omni has a form for each family
MAY_KNOW = ("layers/", "kernels/", "text/", "engine/vllm_omni/")
MAY_STEP = ("engine/native/", "models/data.py", "audio/")
ALLOWED = {
    ("models/__init__.py", "VoxCPM2Family"),  # the registry
    ("models/__init__.py", "voxcpm"),  # what the official package takes a nameless one for
    ("bench/report.py", "steps"),  # in reports of a former version
    ("server/voices.py", "patch"),  # HTTP's method
}


def code_words(path: Path) -> Iterator[tuple[int, str]]:
    """Names and strings of a module, with their lines; comments and docstrings are prose."""
    tree = tree_of(path)
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for name in ("id", "attr", "arg", "name"):
            if isinstance(found := getattr(node, name, None), str):
                yield line, found
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield line, node.value


def test_no_word_of_voxcpm2_is_known_outside_its_family() -> None:
    wrong = []
    for path in sources():
        relative = path.relative_to(PACKAGE).as_posix()
        if relative.startswith(MAY_KNOW) or part_of(path) == "models.family":
            continue
        for line, text in code_words(path):
            words = text.replace("_", " ") if text.isidentifier() else text
            found = FOREIGN_WORDS.search(words)
            found = found or (not relative.startswith(MAY_STEP) and STEPS.search(words))
            if found and (relative, text) not in ALLOWED:
                wrong.append(f"{relative}:{line}: {text[:60]!r}")
    assert not wrong, "\n".join(wrong)


def test_every_module_is_described_in_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    names = [str(path.relative_to(PACKAGE)) for path in sources() if path.stat().st_size > 0]
    missing = [
        name for name in names if f"`{name}`" not in text and not name.endswith("__init__.py")
    ]
    assert not missing, f"docs/architecture.md does not name {missing}"


def test_one_function_says_why_the_system_refused() -> None:
    """So that the system's capital letter stands in no sentence."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FormattedValue)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "strerror"
    ]
    assert not found
