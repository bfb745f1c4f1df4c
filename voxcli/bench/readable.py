"""What is read of a report that lies in a file: types and ranges, compared by msgspec.

A report holds more; only what a comparison computes with is named here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from voxcli.errors import UsageError

Seconds = Annotated[float, Meta(ge=1e-9, le=1e9)]
NotNegative = Annotated[float, Meta(ge=0, le=1e9)]


class _Identity(msgspec.Struct):
    usable_cores: Annotated[int, Meta(ge=1, le=2**16)] | None = None
    device: str = ""


class _Options(msgspec.Struct):
    parameters: dict[str, Any]
    is_streaming: bool


class _Load(msgspec.Struct, kw_only=True):
    set: str
    language: str
    concurrency: int | None
    rate: NotNegative | None


class _Cell(_Load):
    probe_s: Seconds | None = None
    taken_s: NotNegative | None = None
    cell_wall_s: Seconds | None = None

    def __post_init__(self) -> None:
        if self.taken_s is not None and self.cell_wall_s is None:
            raise ValueError("cell_wall_s is missing")


class _Run(_Load):
    phase: str
    status: str
    prompt: str
    seed: int | None
    ttfa_s: Seconds | None = None
    rtf: Seconds | None = None

    def __post_init__(self) -> None:
        if self.status == "ok" and (self.ttfa_s is None or self.rtf is None):
            raise ValueError("ttfa_s or rtf is missing in a run that is ok")


class _Readable(msgspec.Struct):
    is_partial: bool
    stamp: str | None
    identity: _Identity
    options: _Options
    cells: list[_Cell]
    runs: list[_Run]


def check_readable(report: object, path: Path) -> None:
    """Raise UsageError for a report with a field that is missing, of another type or range."""
    try:
        msgspec.convert(report, _Readable)
    except (msgspec.ValidationError, UnicodeEncodeError) as err:
        what = str(err).replace(" - at `$.", ": `")
        raise UsageError(f"{path} is damaged: {what}", hint="give a report of --json") from err
