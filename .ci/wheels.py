"""Two wheels hold the same files, to the byte, but for what a C compiler makes, which only the
first one has.

python .ci/wheels.py WHEEL_OF_THE_FOLDER WHEEL_OF_THE_SDIST
"""

from __future__ import annotations

import sys
from zipfile import ZipFile

NEEDED = (
    "voxcli/__main__.py", "voxcli/py.typed", "voxcli/assets/mini/model.safetensors",
    "voxcli/hub/models.json", "voxcli/kernels/native.h", "voxcli/server/page/index.html",
    "voxcli/assets/voices/emma.safetensors",
)  # fmt: skip


def files(path: str) -> dict[str, int]:
    """The checksum of each file; the record of a wheel is about the wheel itself."""
    with ZipFile(path) as wheel:
        found = {each.filename: each.CRC for each in wheel.infolist()}
    return {name: crc for name, crc in found.items() if not name.endswith("/RECORD")}


def main() -> None:
    of_folder, of_sdist = map(files, sys.argv[1:])
    compiled = {name for name in of_folder if name.startswith("voxcli/kernels/_native.")}
    assert len(compiled) == 1, compiled
    odd = sorted(name for name, _ in set(of_folder.items()) ^ set(of_sdist.items()))
    assert {*odd} == compiled, f"not in both wheels, or not the same: {odd}"
    assert not {*NEEDED} - {*of_sdist}, {*NEEDED} - {*of_sdist}
    print(f"{len(of_sdist)} files are the same in the wheels of the folder and of the sdist")


main()
