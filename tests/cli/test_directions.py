"""Directions to an engine inside a text: never read as words, never dropped without a note."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from voxcli import cli

pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.mark.parametrize("mark", ["<emphasis>", '<break time="soon"/>', "[laughs]"])
def test_a_direction_is_warned_of_and_shown(mark: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["speak", f"Ready. {mark} Go.", "--dry-run"]) == 0
    out, err = capfd.readouterr()
    assert "1: Ready. Go." in out
    assert f"direction: '{mark}' -> ''" in out
    assert f"warning: '{mark}' is not followed" in err


def test_a_table_names_the_directions_of_each_row(capfd: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text("text\nReady. [laughs] Go.\nGo.\n", "utf-8")
    assert cli.main(["batch", "t.csv", "-o", "out", "--dry-run", "--json"]) == 0
    rows = json.loads(capfd.readouterr()[0])["rows"]
    assert [row["text"] for row in rows] == ["Ready. Go.", "Go."]
    assert [row["directions"] for row in rows] == [["[laughs]"], []]
