"""Every recipe and every maintainers' tool says by `--help` what it does and how it is started."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("recipes", "tools")
    for path in (ROOT / folder).iterdir()
    if path.suffix in (".py", ".sh")
)


def help_of(script: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    if script.endswith(".sh"):
        subprocess.run(["sh", ROOT / script, "--help"], check=True)
    else:
        monkeypatch.setattr(sys, "argv", [script, "--help"])
        monkeypatch.syspath_prepend((ROOT / script).parent)
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / script), run_name="__main__")
        assert end.value.code == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_shows_how_a_script_is_started(
    script: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = help_of(script, monkeypatch, capfd)
    assert f"{'python ' * script.endswith('.py')}{script}" in text
