"""The only place that prints.

The rule: stdout carries the result alone; notes, warnings, errors and progress go to stderr, so
that `$(voxcli ...)` and pipes get what was asked for and nothing else. This module does not decide
exit codes and knows no command.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from traceback import format_exception
from typing import TYPE_CHECKING, Any, TextIO

from voxcli.errors import OutputError, reason_of
from voxcli.figures import rounded

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

ERROR = "voxcli: error: "  # begins the line that says why a command failed
PROGRESS_DELAY_S = 1.0
LIVE_INTERVAL_S = 0.2
SPINNER_DELAY_S = 0.5
SPINNER = "|/-\\"


def result(value: object, *, is_last: bool = True) -> None:
    """The result for a person or a shell: a path, a table, a word.

    Args:
        is_last: False where more comes at once; only a terminal shows it before.

    Raises:
        OutputError: stdout cannot be written, such as on a full disk.
    """
    try:
        print(value, flush=is_last)
    except BrokenPipeError:
        raise
    except OSError as err:
        drop_stdout()
        raise OutputError(f"cannot write to stdout: {reason_of(err)}") from err


def result_json(value: object, *, is_exact: bool = False) -> None:
    """The result of a `--json` run: one object on one line. Paths become strings.

    Args:
        is_exact: what is computed from the figures has to be what is said beside them.
    """
    shown = value if is_exact else rounded(value)
    is_ascii = not _is_utf8(sys.stdout)
    result(json.dumps(shown, ensure_ascii=is_ascii, allow_nan=False, default=str))


def never_fail_to_encode() -> None:
    """Let stdout take any text: what its encoding lacks is escaped as `\\u0142`.

    Bytes of a file name that are not in the file system's encoding go out as they are.
    """
    codecs.register_error("voxcli", _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="voxcli")


def _escaped(err: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(err, UnicodeEncodeError)
    char, end = err.object[err.start], err.start + 1
    if "\udc80" <= char <= "\udcff":
        return bytes([ord(char) - 0xDC00]), end
    return codecs.backslashreplace_errors(
        UnicodeEncodeError(err.encoding, err.object, err.start, end, err.reason)
    )


def _is_utf8(stream: TextIO | None) -> bool:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name == "utf-8"


def drop_stdout() -> None:
    """Let what is left for stdout vanish; else Python complains again when it flushes at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(message: str, *, is_quiet: bool = False) -> None:
    """Something good to know, such as the summary line; `--quiet` drops it."""
    if not is_quiet:
        _print_aside(message)


def warn(message: str) -> None:
    """Something the user should act on; shown even with `--quiet`."""
    _print_aside(f"voxcli: warning: {message}")


def error(message: str, hint: str | None = None) -> None:
    """Why the command failed and what to do about it, on one line."""
    text = f"{message}; {hint}" if hint else message
    _print_aside(f"{ERROR}{' '.join(text.split())}")


class _LogLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # who logs is not to fail with a terminal that went away
            _print_aside(f"voxcli: {record.levelname.lower()}: {self.format(record)}")


@contextmanager
def shown_warnings() -> Iterator[None]:
    """What voxcli's modules log as warnings or worse goes to stderr, also without `--verbose`."""
    logger, lines = logging.getLogger("voxcli"), _LogLines(logging.WARNING)
    if logger.getEffectiveLevel() >= logging.WARNING:  # else it goes there anyway
        logger.addHandler(lines)
    try:
        yield
    finally:
        logger.removeHandler(lines)


def traceback(error: BaseException) -> None:
    """Where an expected error came from; for `VOXCLI_DEBUG=1`."""
    _print_aside("".join(format_exception(error)).rstrip("\n"))


def _print_aside(text: str) -> None:
    if sys.stderr is not None:  # None when the shell closed it; print would then take stdout
        from voxcli.audio.chatter import lock

        with lock:
            print(text, file=sys.stderr, flush=True)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def size(num_bytes: float) -> str:
    """Bytes in the unit that people say: "4.9 GB", "48 MB", "0.3 MB"."""
    if num_bytes >= 1e9:
        return f"{num_bytes / 1e9:.1f} GB"
    return f"{num_bytes / 1e6:.{0 if num_bytes >= 1e7 else 1}f} MB"


def can_show_progress(*, is_quiet: bool) -> bool:
    """Whether a bar may be drawn: somebody is there to see it and did not ask for silence."""
    return not is_quiet and sys.stderr is not None and sys.stderr.isatty()


class LiveLine:
    """One line on stderr that is drawn over again; silent when quiet or no terminal."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self.is_enabled = can_show_progress(is_quiet=is_quiet)
        self._shown_at = 0.0
        self._width = 0

    def show(self, text: str) -> None:
        """Draw it, unless the last time was a moment ago."""
        now = time.monotonic()
        if self.is_enabled and now - self._shown_at >= LIVE_INTERVAL_S:
            self._shown_at = now
            self._draw(text)

    def clear(self) -> None:
        """Leave the line empty, so that something else can be printed."""
        if self._width:
            self._draw("")

    def _draw(self, text: str) -> None:
        print(f"\r{text:<{self._width}}", end="\r", file=sys.stderr, flush=True)
        self._width = len(text)


class Spinner:
    """What happens before there is progress, with seconds, on one line of a terminal's stderr.

    It shows what voxcli's engine logs, the words of `--verbose`, to which it leaves the line.
    Silent when quiet or no terminal, and in the first half second.

    Args:
        words: until the engine says something.
    """

    def __init__(self, words: str, *, is_quiet: bool = False) -> None:
        self._words = words
        self._logger = logging.getLogger("voxcli.engine")
        self._is_enabled = can_show_progress(is_quiet=is_quiet)
        self._is_enabled &= not self._logger.isEnabledFor(logging.INFO)
        self._line = LiveLine(is_quiet=is_quiet)
        self._is_done = threading.Event()

    def __enter__(self) -> Spinner:
        if self._is_enabled:
            self._handler = _Told(self._tell)
            self._logger.addHandler(self._handler)
            self._logger.setLevel(logging.INFO)
            self._thread = threading.Thread(target=self._turn, daemon=True)
            self._thread.start()
        return self

    def _tell(self, words: str) -> None:
        self._words = words

    def _turn(self) -> None:
        began_s = time.monotonic()
        for sign in cycle(SPINNER):
            if self._is_done.wait(LIVE_INTERVAL_S):
                break
            if (waited_s := time.monotonic() - began_s) > SPINNER_DELAY_S:
                with suppress(OSError):
                    self._line.show(f"{sign} {self._words} ({waited_s:.0f} s)")

    def __exit__(self, *_: object) -> None:
        if self._is_enabled:
            self._is_done.set()
            self._thread.join()
            self._logger.removeHandler(self._handler)
            self._logger.setLevel(logging.NOTSET)
            self._line.clear()


class _Told(logging.Handler):
    """Hands the words of what is logged on."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell_words = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell_words(record.getMessage().splitlines()[0][:60])


class Progress:
    """A bar with ETA on stderr, from the second second on; silent when quiet or no terminal.

        with Progress("verify", total=size, unit="bytes", is_quiet=quiet) as progress:
            progress.advance(len(block))

    Args:
        total: in the unit of `advance`; None where it is not known (a pulse without ETA).
        unit: shown after the numbers; "bytes" shows them as MB.
    """

    def __init__(
        self, description: str, total: float | None, *, unit: str = "", is_quiet: bool = False
    ) -> None:
        self.description = description
        self.total = total
        self.unit = unit
        self.is_enabled = can_show_progress(is_quiet=is_quiet)
        self.completed = 0.0
        self._started_s = time.monotonic()
        self._bar: RichProgress | None = None

    def __enter__(self) -> Progress:
        return self

    def advance(self, amount: float = 1.0) -> None:
        self.update(self.completed + amount)

    def describe(self, description: str) -> None:
        """Change the words before the bar."""
        self.description = description
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=description)

    def update(self, completed: float, total: float | None = None) -> None:
        """Set how far it is; `total` corrects the estimate."""
        self.completed = completed
        self.total = self.total if total is None else total
        if not self.is_enabled:
            return
        if self._bar is None and time.monotonic() - self._started_s >= PROGRESS_DELAY_S:
            self._bar = self._start_bar()
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=self.completed, total=self.total)

    def stop(self) -> None:
        """Take the bar away; always safe."""
        if self._bar is not None:
            self._bar.stop()
        self.is_enabled = False

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_bar(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        amount: ProgressColumn = DownloadColumn()
        if self.unit != "bytes":
            amount = TextColumn("{task.completed:.0f}/{task.total:.0f} " + self.unit)
            if self.total is None:
                amount = TextColumn("{task.completed:.0f} " + self.unit)
        columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), amount)
        bar = Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        bar.add_task(self.description, total=self.total, completed=int(self.completed))
        bar.start()
        return bar
