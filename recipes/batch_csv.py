"""Speak a table, edit one line, and speak it again: voxcli keeps the rows that are done.

    python recipes/batch_csv.py

The script speaks `samples/dubbing.csv` into a new folder under `out/` and runs the same command
again. Then it edits one line, runs the command a third time, and reads the reports. Expected:

    first run: 6 ok
    second run: 6 kept
    after an edit: 1 ok, 5 kept (row 4: the row was edited)
    the scenes 'pier' and 'stairs' last 10.6 s and 5.3 s of audio
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "samples" / "dubbing.csv"


def batch(table: Path, out: Path) -> dict[str, Any]:
    """Run the command and return its report."""
    command = [sys.executable, "-m", "voxcli", "batch", str(table), "-o", str(out), "--seed", "1"]
    subprocess.run([*command, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    report: dict[str, Any] = json.loads((out / "report.json").read_text("utf-8"))
    return report


def counted(report: dict[str, Any]) -> str:
    return ", ".join(f"{count} {status}" for status, count in report["counts"].items() if count)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    (ROOT / "out").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="batch-", dir=ROOT / "out"))
    table, out = folder / "lines.csv", folder / "lines"
    table.write_bytes(TABLE.read_bytes())
    print("first run:", counted(batch(table, out)))
    print("second run:", counted(batch(table, out)))

    text = table.read_text("utf-8")
    table.write_text(text.replace("Empty, with a warm lamp?", "Empty, but warm?"), "utf-8")
    report = batch(table, out)
    again = [row for row in report["rows"] if row["status"] == "ok"]
    print(f"after an edit: {counted(report)} (row {again[0]['number']}: {again[0]['reason']})")

    seconds: dict[str, float] = defaultdict(float)
    for row in report["rows"]:
        seconds[row["extra"]["scene"]] += row["audio_s"]
    scenes = " and ".join(f"{total:.1f} s" for total in seconds.values())
    print(f"the scenes {' and '.join(map(repr, seconds))} last {scenes} of audio")


if __name__ == "__main__":
    main()
