"""Puts a report's table between two markers of a Markdown file.

python -m voxcli.bench.markdown REPORT.json docs/benchmarks.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from voxcli.bench.report import load_report, write_text
from voxcli.bench.tables import markdown
from voxcli.errors import UsageError

BEGIN = "<!-- voxcli bench: begin -->"
END = "<!-- voxcli bench: end -->"


def refreshed(page: str, table: str) -> str:
    """The page with what is between its markers replaced.

    Raises:
        UsageError: it has not both markers, in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UsageError("the page lacks the markers", hint=f"add the lines '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n{table}{END}{after}"


def main(report: str, page: str) -> None:
    path = Path(page)
    text = refreshed(path.read_text("utf-8"), markdown(load_report(Path(report))))
    write_text(path, text, overwrite=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
