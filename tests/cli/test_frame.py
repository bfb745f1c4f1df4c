"""The frame of the command line: one error boundary, clean streams, fast help."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
import typer
from needs import PATIENCE_S
from shell import VOXCLI

from voxcli import __version__, cli, errors
from voxcli.cli import output
from voxcli.cli.options import JsonOption

HELP_LIMIT_S = 0.3
CI_SLACK = 3.0  # a loaded machine with two cores takes up to three times as long


def every_error() -> list[type[errors.VoxError]]:
    found, todo = [], [errors.VoxError]
    while todo:
        found.append(todo.pop())
        todo += found[-1].__subclasses__()
    return found


class _Fake(ModuleType):
    """A command module whose command raises what a test put into `error`."""

    EXAMPLES = ("voxcli fake",)
    error: BaseException | None = None

    def fake(self) -> Any:
        def fake(
            json: JsonOption = False,
            number: Annotated[int, typer.Option("--number", help="A number, 1 or more.")] = 1,
        ) -> None:
            """Fail on purpose."""
            if self.error:
                raise self.error
            output.result("done")

        return fake


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> _Fake:
    """`voxcli fake`, a command that fails as the test asks."""
    module = _Fake("voxcli.cli.fake")
    module.fake = module.fake()  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "voxcli.cli.fake", module)
    monkeypatch.setattr(cli, "COMMANDS", {"fake": "A command."})
    monkeypatch.delenv("VOXCLI_DEBUG", raising=False)
    return module


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [VOXCLI, *words], capture_output=True, text=True, timeout=PATIENCE_S, **options
    )


# Errors


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_a_known_error_is_one_line_and_its_exit_code(
    kind: type[errors.VoxError], fake: _Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.error = kind("no voice 'albba'", hint="did you mean\n 'alba'?")
    assert cli.main(["fake"]) == kind.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    if kind.exit_code == errors.EXIT_BROKEN_PIPE:  # nobody is there to be told
        assert err == ""
        return
    assert err == "voxcli: error: no voice 'albba'; did you mean 'alba'?\n"


def test_every_exit_code_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text("utf-8")
    codes = {kind.exit_code for kind in every_error()} | {
        errors.EXIT_OK,
        errors.EXIT_INTERRUPTED,
        errors.EXIT_BROKEN_PIPE,
    }
    assert all(f"| {code} |" in text for code in codes)


def test_json_puts_the_error_with_its_data_on_stdout(
    fake: _Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.error = errors.SynthesisError(
        "no end", hint="try another --seed", finish_reason="length", attempts=4
    )
    assert cli.main(["fake", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "error": {
            "type": "SynthesisError",
            "message": "no end",
            "hint": "try another --seed",
            "finish_reason": "length",
            "attempts": 4,
            "exit_code": 1,
        }
    }
    assert out.count("\n") == 1
    assert err.startswith("voxcli: error: no end")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fake", "--nope"], "no option '--nope'; see 'voxcli fake --help'"),
        (
            ["fake", "--number", "x"],
            "--number is 'x'; give a whole number; see 'voxcli fake --help'",
        ),
        (["fake", "extra"], "too many words: extra; see 'voxcli fake --help'"),
        (["fak"], "no command 'fak'; did you mean 'fake'? see 'voxcli --help'"),
        (["--nope"], "no option '--nope'; see 'voxcli --help'"),
        (["fake", "-5"], "no option '-5'; put -- before a text that begins with a dash"),
        (["fake", "-²"], "no option '-²'; put -- before a text that begins with a dash"),
        (["fake", "-so it began"], "put -- before a text that begins with a dash"),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    words: list[str], message: str, fake: _Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--json"]) == errors.EXIT_USAGE
    out, err = capsys.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert json.loads(out)["error"]["exit_code"] == errors.EXIT_USAGE


def test_json_after_two_dashes_is_text(fake: _Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fake", "--", "--json"]) == errors.EXIT_USAGE
    assert capsys.readouterr().out == ""


def test_an_interrupt_ends_with_130(fake: _Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.error = KeyboardInterrupt()
    assert cli.main(["fake"]) == errors.EXIT_INTERRUPTED
    assert capsys.readouterr() == ("", "voxcli: interrupted\n")


def test_a_closed_pipe_ends_with_141_in_silence(
    fake: _Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.error = BrokenPipeError(32, "Broken pipe")
    assert cli.main(["fake"]) == errors.EXIT_BROKEN_PIPE
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_goes_away_causes_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [VOXCLI, "models", "list", "--json"],
        stdout=writing, stderr=subprocess.PIPE, timeout=PATIENCE_S,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (errors.EXIT_BROKEN_PIPE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words",
    [["models", "list"], ["models", "info", "nope", "--json"], ["--help"], ["speak", "--help"]],
)
def test_a_full_disk_behind_stdout_is_a_writing_error(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [VOXCLI, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
        )
    assert done.returncode == errors.EXIT_OUTPUT
    assert done.stderr.endswith("cannot write to stdout: no space left on device\n")
    assert "Traceback" not in done.stderr


def test_a_closed_stdout_causes_no_traceback() -> None:
    done = subprocess.run(
        ["sh", "-c", f"'{VOXCLI}' models list >&-"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")


def _run_with(modules: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program with modules of a test's own in front of the installed ones."""
    path = os.pathsep.join(filter(None, (str(modules), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", "voxcli", *arguments],
        capture_output=True, text=True, timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def test_an_interrupt_while_modules_load_is_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = _run_with(tmp_path, "--help")
    assert (done.returncode, done.stdout) == (errors.EXIT_INTERRUPTED, "")
    assert done.stderr == "voxcli: interrupted\n"


INTERRUPTED_TORCH = """
import os, signal, time

def work(what):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)
    print(what, flush=True)

"""


BUSY_MACHINE = """
import signal, time

pauses = [0.05, 0.05, 0.05]

def set_slowly(*timer, set_timer=signal.setitimer):
    set_timer(*timer)
    time.sleep(pauses.pop() if pauses else 0)

signal.setitimer = set_slowly
"""


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("where", ["import", "call"])
def test_an_interrupt_waits_for_torchs_own_functions(
    tmp_path: Path, where: str, is_busy: bool
) -> None:
    """C++ calls them, and ends the process or raises another error where they raise.

    On a busy machine the signal comes again before it has been put off.
    """
    busy = f"exec({BUSY_MACHINE!r}, {{'__name__': '__main__'}})\n" if is_busy else ""
    call = "work('done')\n" if where == "import" else ""
    (tmp_path / "torch.py").write_text(busy + INTERRUPTED_TORCH + call)
    call = "torch.work('done')\n" if where == "call" else ""
    (tmp_path / "typer.py").write_text(f"import time, torch\n{call}time.sleep(600)")
    done = _run_with(tmp_path, "speak", "Hello.")
    assert done.stdout == "done\n"
    assert (done.returncode, done.stderr) == (errors.EXIT_INTERRUPTED, "voxcli: interrupted\n")


INTERRUPTED_CALLBACK = """
import signal, sys, time, weakref
import voxcli.__main__, voxcli.cli

class Thing: pass

def command():
    thing = Thing()
    watched = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    time.sleep(600)

voxcli.cli.main = command
sys.exit(voxcli.__main__.main())
"""


def test_an_interrupt_is_not_lost_in_a_callback_of_the_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_CALLBACK],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (errors.EXIT_INTERRUPTED, "voxcli: interrupted\n")


def test_the_module_is_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "voxcli", "--version"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (0, f"voxcli {__version__}\n")


def test_an_exit_asked_for_by_a_command_is_kept(fake: _Fake) -> None:
    fake.error = typer.Exit(errors.EXIT_MODEL)
    assert cli.main(["fake"]) == errors.EXIT_MODEL


def test_a_bug_keeps_its_traceback(fake: _Fake) -> None:
    fake.error = ZeroDivisionError("bug")
    with pytest.raises(ZeroDivisionError):
        cli.main(["fake"])


def test_debugging_shows_the_traceback_of_a_known_error(
    fake: _Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOXCLI_DEBUG", "1")
    fake.error = errors.UsageError("wrong")
    assert cli.main(["fake"]) == errors.EXIT_USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" in err
    assert err.endswith("voxcli: error: wrong\n")


# Help


def test_the_version_is_on_stdout() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"voxcli {__version__}\n", "")


def test_without_a_command_help_goes_to_stderr_and_2() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (errors.EXIT_USAGE, "")
    assert done.stderr.startswith("Usage: voxcli")


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in cli.COMMANDS)])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    heavy = ("torch", "numpy", "soundfile", "huggingface_hub", "rich", "pydantic")
    program = (
        "import sys; from voxcli.cli import main; code = main(sys.argv[1:]); "
        f"sys.exit(code or ' '.join(name for name in {heavy} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stderr.strip() == ""
    assert done.stdout.startswith("Usage: voxcli")


@pytest.mark.parametrize("more", [[], ["--map", "text=said", "--map", "output=file"]])
def test_plain_values_of_options_import_no_checker(more: list[str], tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    names = "said,file" if more else "text,output"
    table.write_text(f"{names}\nHello there.,a\n")
    program = (
        "import sys; from voxcli.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or 'pydantic' in sys.modules)"
    )
    words = ["batch", str(table), "-o", str(tmp_path / "out"), "--dry-run", "--language", "en"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words, *more],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert "Hello there." in done.stdout
    assert (done.returncode, done.stderr.count("error")) == (0, 0), done.stderr


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in cli.COMMANDS)])
def test_help_is_there_at_once(words: list[str]) -> None:
    """In time of the processor, which others on the machine hardly change."""
    times: list[float] = []
    while not times or (min(times) >= HELP_LIMIT_S * CI_SLACK and len(times) < 5):
        before_s = _seconds_of_children()
        assert run(*words).returncode == 0
        times.append(_seconds_of_children() - before_s)
    print(f"voxcli {' '.join(words)}: {min(times):.3f} s, aim {HELP_LIMIT_S} s")
    assert min(times) < HELP_LIMIT_S * CI_SLACK


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Logging


def test_libraries_are_silent_unless_verbose() -> None:
    program = (
        "import logging, sys, types, warnings; from voxcli import cli\n"
        "def fake():\n"
        "    logging.getLogger('voxcli.fake').warning('log line')\n"
        "    warnings.warn('warning line')\n"
        "module = types.ModuleType('voxcli.cli.fake')\n"
        "module.fake, module.EXAMPLES = fake, ()\n"
        "sys.modules['voxcli.cli.fake'] = module\n"
        "cli.COMMANDS = {'fake': 'A command.'}\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", program]
    silent = subprocess.run([*command, "fake"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    loud = subprocess.run(
        [*command, "-v", "fake"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert "log line" in loud.stderr
    assert "warning line" in loud.stderr
    assert loud.stdout == ""
