"""What a reader can paste works where only voxcli is installed: README, docs and examples of help.

What is pasted together runs together, in a folder that begins empty: a page's blocks of shell and
Python in their order, and the examples of a command. Files that a page shows can be read. What no
test runs is named in `NOT_RUN`, with a reason.
The `voxcli` on the path is one whose processes need not import; others prove what those that do.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from filelock import FileLock
from needs import PATIENCE_S
from nursery import Nursery
from shell import VOXCLI
from typer.main import get_command

from voxcli import cli
from voxcli.config import load_settings
from voxcli.text.pronunciations import load_lexicon

pytestmark = pytest.mark.usefixtures("own_home")

ROOT = Path(__file__).resolve().parents[2]
PATH = [str(Path(VOXCLI).parent)]
PAGES = [
    "README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
]  # fmt: skip
RECIPES = sorted((ROOT / "recipes").glob("*.py"))
NOT_RUN = {
    "sets up a machine": r"^(make|pip|pipx|uv|\.) ",
    "downloads gigabytes": r"openbmb/VoxCPM2|Qwen/Qwen3-TTS",
    "asks other machines": r"http://(one|two|host|gpu1):|--host 0\.0\.0\.0 --no-socket|API_KEY=…",
    "needs a film": r"\bfilm\.mp4",
    "needs a GPU": r"^python tests/gpu/",
    "needs Docker": r"^docker ",
    "compares two installations": r"^for i in|^  (old|new)/voxcli|^done$|\bold-reports\b",
    "trains for hours": r"-m recipes\.train_mini",
}  # fmt: skip
LANGUAGES = {"sh", "console", "text", "python", "json", "toml", "csv"}
# Options of vLLM-Omni and Docker, of recipes and of tools.
OF_OTHERS = {
    "--omni-master-address", "--omni-lb-policy", "--build-arg", "--stop-timeout", "--rows",
    "--seconds", "--times",
}  # fmt: skip


def fences(page: str) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    text = (ROOT / page).read_text("utf-8")
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def reasons_not_to_run(line: str) -> list[str]:
    return [reason for reason, pattern in NOT_RUN.items() if re.search(pattern, line)]


def scripts_of(page: str) -> list[str]:
    """The page's blocks of shell without the lines that no test runs, and those of Python."""
    blocks = []
    for language, text in fences(page):
        if language == "sh":
            lines = text.splitlines()
            blocks.append("\n".join(line for line in lines if not reasons_not_to_run(line)))
        elif language == "python":
            blocks.append(f"python - << 'END'\n{text}END")
    return [block for block in blocks if block.strip()]


def servers_of(recipe: Path) -> list[str]:
    """The commands among its first words that start a server in the background."""
    head = recipe.read_text("utf-8").split('"""', 2)[:2]
    return re.findall(r"^ *(voxcli serve .*--background)$", head[-1], re.MULTILINE)


def examples_of(command: str) -> tuple[str, ...]:
    module = import_module(f"voxcli.cli.{command}") if command else cli
    return module.EXAMPLES  # type: ignore[no-any-return]


@cache
def options() -> dict[str, frozenset[str]]:
    """The options of each command by its words, such as "voxcli voices add"."""
    found: dict[str, frozenset[str]] = {}

    def walk(command: Any, parent: typer.Context | None, name: str) -> None:
        context = typer.Context(command, info_name=name, parent=parent)
        parameters = command.get_params(context)
        names = {name for each in parameters for name in (*each.opts, *each.secondary_opts)}
        found[context.command_path] = frozenset(names)
        for child in command.list_commands(context) if hasattr(command, "list_commands") else ():
            walk(command.get_command(context, child), context, child)

    walk(get_command(cli.app), None, "voxcli")
    return found


def options_in(code: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", code))


def finish(script: str, folder: Path, environ: dict[str, str]) -> None:
    """Run lines of shell to their end, which has to be a good one, each of them."""
    command = ["bash", "-eo", "pipefail", "-c", script]
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stderr.decode(errors='replace')}"


@pytest.fixture(scope="session", autouse=True)
def path(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The program `voxcli` of these tests is the first on the path, then those beside it."""
    program = nursery.program(tmp_path_factory.mktemp("bin") / "voxcli")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("test_documents.PATH", [str(program.parent), *PATH])
        yield


@pytest.fixture(scope="session")
def hot_place(path: None) -> Iterator[str]:
    """The runtime folder of a running server with the bundled voice."""
    with tempfile.TemporaryDirectory(prefix="voxcli") as name:
        environ = environment(XDG_RUNTIME_DIR=name)
        finish("voxcli serve --port 0 --background", Path(name), environ)
        yield name
        finish("voxcli serve --stop", Path(name), environ)


@pytest.fixture
def cold_place() -> Iterator[str]:
    """A runtime folder of one's own, and the port that `serve` takes when none is asked for."""
    lock = FileLock(Path(tempfile.gettempdir()) / f"voxcli-tests-port-{os.getuid()}.lock")
    with lock, tempfile.TemporaryDirectory(prefix="voxcli") as name:
        yield name
        stop = [VOXCLI, "serve", "--stop"]  # of what failed in the middle
        subprocess.run(stop, env=environment(XDG_RUNTIME_DIR=name), capture_output=True)


def environment(**changes: str) -> dict[str, str]:
    """This process's, with the `voxcli` of these tests first on the path."""
    path = os.pathsep.join((*PATH, os.environ["PATH"]))
    return dict(os.environ) | {"VOXCLI_ENGINE": "auto"} | changes | {"PATH": path}


def paste(scripts: list[str], folder: Path, request: pytest.FixtureRequest) -> None:
    """A running server speaks, but in scripts that start one of their own."""
    for script in scripts:
        if re.search(r"\.m4[ab]\b", script):
            request.getfixturevalue("ffmpeg")
        sound = request.getfixturevalue("sink").env if "voxcli stream" in script else {}
        has_server = "voxcli serve" in script
        place = request.getfixturevalue("cold_place" if has_server else "hot_place")
        finish(script, folder, environment(**sound | {"XDG_RUNTIME_DIR": place}))


@pytest.mark.parametrize("command", ["", *cli.COMMANDS])
def test_the_examples_of_a_command_work_one_after_the_other(
    command: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    first, *others = examples_of(command)
    if command in ("speak", "clone", "batch"):  # one of each loads a model of its own
        finish(first, tmp_path, environment(VOXCLI_ENGINE="native"))
        paste(others, tmp_path, request)
    else:
        paste([first, *others], tmp_path, request)


@pytest.mark.parametrize("page", [page for page in PAGES if scripts_of(page)])
def test_the_commands_of_a_page_work_one_after_the_other(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    paste(scripts_of(page), tmp_path, request)


@pytest.mark.parametrize("recipe", [each for each in RECIPES if servers_of(each)])
def test_the_server_that_a_recipe_asks_for_starts(recipe: Path, cold_place: str) -> None:
    environ = environment(XDG_RUNTIME_DIR=cold_place)
    for command in servers_of(recipe):
        finish(f"{command}; voxcli serve --stop", Path(cold_place), environ)


def test_a_recipe_takes_files_of_the_folder_that_one_is_in(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """And makes none in place of those that are not there."""
    recipes = ROOT / "recipes"
    (tmp_path / "lines.txt").write_text("Ann: Good morning.\nBen: Good evening.\n")
    (tmp_path / "cast.csv").write_text("speaker,voice\nAnn,emma\nBen,hugo\n")
    environ = environment(XDG_RUNTIME_DIR=request.getfixturevalue("hot_place"))
    finish(f"sh {recipes}/dialogue.sh lines.txt cast.csv", tmp_path, environ)
    assert (tmp_path / "out" / "dialogue" / "02_Ben.wav").exists()
    dub = ["sh", str(recipes / "dub_video.sh"), "none.mp4", "none.srt", "dubbed.mp4"]
    done = subprocess.run(dub, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (done.returncode, "cannot read none.srt" in done.stderr) == (2, True), done.stderr
    assert not list(tmp_path.glob("*.mp4"))


@pytest.mark.parametrize("page", PAGES)
def test_what_looks_like_shell_is_a_block_of_shell(page: str) -> None:
    for language, text in fences(page):
        assert language in LANGUAGES
        if language not in ("sh", "console"):
            assert not re.search(r"^(\$|voxcli|curl|pip|make) ", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_shows_can_be_read(page: str, tmp_path: Path) -> None:
    for language, text in fences(page):
        path = tmp_path / f"shown.{language}"
        path.write_text(text, "utf-8")
        if language == "toml":
            load_settings({"VOXCLI_CONFIG": str(path)})
        elif language == "csv":
            load_lexicon(path)
        elif language == "json":
            json.loads(text)


@pytest.mark.parametrize("page", [page for page in PAGES if "console" in dict(fences(page))])
def test_a_session_that_a_page_shows_goes_as_shown(page: str, tmp_path: Path) -> None:
    for language, text in fences(page):
        if language == "console":
            lines = text.splitlines(keepends=True)
            typed = "".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
            shown = "".join(line for line in lines if not line.startswith("$ "))
            done = subprocess.run(
                ["bash", "-c", typed], cwd=tmp_path, env=environment(), text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S,
            )  # fmt: skip
            assert done.stdout == shown


def test_what_no_test_runs_is_there() -> None:
    blocks = [text for page in PAGES for language, text in fences(page) if language == "sh"]
    lines = [line for block in blocks for line in block.splitlines()]
    unused = set(NOT_RUN) - {reason for line in lines for reason in reasons_not_to_run(line)}
    assert not unused


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_that_a_page_names_exists(page: str) -> None:
    text = re.sub(r"https?://\S+", "", (ROOT / page).read_text("utf-8"))
    everywhere = frozenset[str]().union(*options().values())
    for code in re.findall(r"`([^`\n]+)`", text):
        if words := re.match(r"voxcli( [a-z]+)+", code):
            command = words[0]
            while command not in options():  # the last words are arguments
                command = command.rpartition(" ")[0]
            assert command != "voxcli", code
            assert options_in(code) <= options()[command], code
        elif code.startswith("--"):
            assert options_in(code) <= everywhere | OF_OTHERS, code


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    here = ROOT / page
    for target in re.findall(r"\]\(([^)\s]+)\)", here.read_text("utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (here.parent / path).resolve() if path else here
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target
