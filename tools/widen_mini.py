"""Write a copy of the bundled model without int8, for programs that do not read it.

    python tools/widen_mini.py FOLDER

The copy has 68 MB and the layout of VoxCPM2, which the official package loads. Expected: one line
with its size.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

MINI = Path(__file__).resolve().parents[1] / "voxcli" / "assets" / "mini"
WEIGHTS = "model.safetensors"


def widened(source: Path, folder: Path) -> Path:
    """A checkpoint in a new folder, its int8 matrices times their scales in half precision.

    Raises:
        FileExistsError: the folder is there.
    """
    shutil.copytree(source, folder)
    held = load_file(folder / WEIGHTS)
    wide = {
        name: (value * held[f"{name}_scale"]).half() if value.dtype == torch.int8 else value
        for name, value in held.items()
        if not name.endswith("_scale")
    }
    save_file(wide, folder / WEIGHTS)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="not there yet")
    folder = widened(MINI, parser.parse_args().folder)
    print(f"{folder}: {sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
