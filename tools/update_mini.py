"""Replace the bundled model: copy a checkpoint folder into the package and rewrite its manifest.

    python tools/update_mini.py FOLDER --settings '{"parameters": {"steps": 6}, "max_chars": 150}'

Only `voxcli/assets/mini/manifest.json` names the bundled files and their hashes. Without FOLDER,
the script hashes the present files again. Settings that are not given keep their present values.
Expected: one line for each file. Then `voxcli models verify mini` is ok.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).resolve().parents[1] / "voxcli" / "assets" / "mini"
MANIFEST = ASSETS / "manifest.json"
NAMES = (
    "config.json",
    "model.safetensors",
    "audiovae.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
SETTINGS: dict[str, Any] = {
    "parameters": {"steps": 6, "guidance_scale": 1.0},
    "clone_parameters": {"guidance_scale": 1.75},
    "max_chars": 120,
    "clone_mode": "reference",
}
MODES = ["zero-shot", "reference", "continuation", "both"]  # never trained on style in words


def describe(path: Path) -> dict[str, str | int]:
    """Name, size in bytes and SHA-256 of one file."""
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return {"name": path.name, "size": path.stat().st_size, "sha256": digest}


def updated(settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Settings with what is given in their place, parameter by parameter."""
    if surplus := set(given) - set(SETTINGS):
        raise SystemExit(f"no setting {', '.join(sorted(surplus))}; known: {', '.join(SETTINGS)}")
    both = {
        name: {**settings[name], **value} if isinstance(value, dict) else value
        for name, value in given.items()
    }
    return {**settings, **both}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=ASSETS, help="the checkpoint")
    parser.add_argument("--settings", type=json.loads, default={}, metavar="JSON")
    given = parser.parse_args()
    missing = [name for name in NAMES if not (given.folder / name).is_file()]
    if missing:
        parser.error(f"{given.folder} lacks {', '.join(missing)}")
    if given.folder.resolve() != ASSETS:
        for name in NAMES:
            shutil.copyfile(given.folder / name, ASSETS / name)
    old = json.loads(MANIFEST.read_text("utf-8")) if MANIFEST.is_file() else {}
    config = json.loads((ASSETS / "config.json").read_text("utf-8"))
    manifest = {
        "name": "mini",
        "title": "bundled English voice",
        "licence": "Apache-2.0",
        "family": config["architecture"],
        "sample_rate": config["audio_vae_config"]["out_sample_rate"],
        "languages": ["en"],
        "modes": MODES,
        "settings": updated(SETTINGS | old.get("settings", {}), given.settings),
        "files": [describe(ASSETS / name) for name in NAMES],
    }
    MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    for name in NAMES:
        print(f"{name}: {(ASSETS / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
