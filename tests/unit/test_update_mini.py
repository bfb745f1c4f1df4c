"""The script that replaces the bundled voice rewrites the manifest from the files alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from needs import PATIENCE_S

from voxcli.hub import catalog

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The script and the bundled files, laid out as in the repository."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "update_mini.py", tmp_path / "tools")
    shutil.copytree(catalog.bundled_folder(), tmp_path / "voxcli" / "assets" / "mini")
    return tmp_path


def run(clone: Path, *words: str) -> dict[str, object]:
    command = [sys.executable, str(clone / "tools" / "update_mini.py"), *words]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    manifest = clone / "voxcli" / "assets" / "mini" / catalog.MANIFEST_NAME
    return dict(json.loads(manifest.read_text("utf-8")))


def test_the_manifest_is_what_the_script_writes(clone: Path) -> None:
    present = (catalog.bundled_folder() / catalog.MANIFEST_NAME).read_text("utf-8")
    assert run(clone) == json.loads(present)


def test_another_checkpoint_and_its_settings_are_taken_over(clone: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    shutil.copytree(catalog.bundled_folder(), new)
    config = json.loads((new / "config.json").read_text("utf-8"))
    config["audio_vae_config"]["out_sample_rate"] = 48_000
    (new / "config.json").write_text(json.dumps(config))
    manifest = run(clone, str(new), "--settings", '{"parameters": {"steps": 8}, "max_chars": 99}')
    assert manifest["sample_rate"] == 48_000
    known = catalog.KnownModel.from_table(manifest)
    assert known.settings.parameters == {"steps": 8, "guidance_scale": 1.0}
    assert known.settings.clone_parameters == {"guidance_scale": 1.75}
    assert known.settings.max_chars == 99
    assert known.files[0].size == (new / "config.json").stat().st_size


def test_an_unknown_setting_is_refused(clone: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failure:
        run(clone, "--settings", '{"steps": 8}')
    assert b"no setting steps; known: parameters" in failure.value.stderr
