"""`native*.c` as loaded functions, where a compiler made them at install.

Nothing needs them: whoever calls `load` has a path in torch beside. What was compiled from other
sources than lie here is not used, nor a file that was cut short.
"""

from __future__ import annotations

import ctypes
import logging
import os
import struct
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent
STRING_TABLE = 3  # the kind of an ELF section with names
POINTER, NUMBER, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
INSTRUCTIONS = ("baseline", "AVX2", "AVX-512")  # the levels of `native.h`
# of each function: pointers in front, then a float where there is one, as in the sources
PARAMETERS = {
    "vox_depthwise": [*[POINTER] * 8, *[NUMBER] * 5],
    "vox_pairs": [*[POINTER] * 7, *[NUMBER] * 4],
    "vox_last": [*[POINTER] * 6, FLOAT, *[POINTER] * 2, *[NUMBER] * 4],
    "vox_units": [*[POINTER] * 6, *[NUMBER] * 10],
    "vox_norm": [*[POINTER] * 4, *[FLOAT] * 2, *[NUMBER] * 2],
    "vox_swiglu": [*[POINTER] * 2, *[NUMBER] * 2],
    "vox_local_attention": [*[POINTER] * 5, FLOAT, *[NUMBER] * 7],
    "vox_product": [*[POINTER] * 5, *[NUMBER] * 6],
    "vox_pack": [*[POINTER] * 3, *[NUMBER] * 4],
    "vox_fold": [*[POINTER] * 4, *[NUMBER] * 2],
    "vox_fold_upsampling": [*[POINTER] * 6, *[NUMBER] * 4],
    "vox_local_layer": [*[POINTER] * 9, *[NUMBER] * 9],
    "vox_causal_layer": [*[POINTER] * 13, *[NUMBER] * 7],
    "vox_local_stack": [*[POINTER] * 7, *[NUMBER] * 8],
    "vox_causal_stack": [*[POINTER] * 9, *[NUMBER] * 6],
    "vox_solve": [*[POINTER] * 11, *[NUMBER] * 8],
    "vox_parallel": [*[POINTER] * 2, *[ctypes.c_uint] * 2],
    "vox_decode_attention": [*[POINTER] * 8, FLOAT, *[NUMBER] * 5],
}


@dataclass(frozen=True)
class Found:
    """What `find` found.

    Attributes:
        library: the functions of `PARAMETERS`, or None.
        detail: the instructions they use, or why they are not there.
        is_broken: a file is there and cannot be used.
    """

    library: ctypes.CDLL | None
    detail: str
    is_broken: bool = False


def _mark(folder: Path) -> int:
    """Of the sources in a folder; what setup.py gave those that were compiled."""
    return zlib.crc32(b"".join(path.read_bytes() for path in sorted(folder.glob("native*.[ch]"))))


def _is_whole(path: Path) -> bool:
    """Whether an ELF file of 64 bits reaches its end, which is a table of its sections.

    NOTE: one that was cut short, on a full disk, loads and then ends Python with a bus error.
    """
    with path.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or not head.startswith(b"\x7fELF\x02\x01"):
            return True  # of another system; the loader judges
        table = struct.unpack_from("<Q", head, 40)[0]
        entry_bytes, num_sections, names = struct.unpack_from("<3H", head, 58)
        file.seek(table)
        sections = file.read(entry_bytes * num_sections)
    if len(sections) < entry_bytes * num_sections or names >= num_sections:
        return False
    kind = struct.unpack_from("<I", sections, entry_bytes * names + 4)[0]
    return bool(kind == STRING_TABLE)  # and no hole in a file that kept its size


def choose(library: ctypes.CDLL, capability: str) -> str:
    """Have a library use instructions up to these, by torch's name of them; those it will use."""
    most = 2 if capability.startswith("AVX512") else int(capability == "AVX2")
    return INSTRUCTIONS[library.vox_choose(most)]


def _most_allowed() -> str:
    """Torch's name of the instructions that it may use at most, which holds for these kernels too;
    torch itself is not asked."""
    told = os.environ.get("ATEN_CPU_CAPABILITY", "").lower()
    return {"default": "DEFAULT", "avx2": "AVX2"}.get(told, "AVX512")


def find(folder: Path = HERE) -> Found:
    """Look for the compiled functions in a folder with their sources."""
    paths = [folder / f"_native{suffix}" for suffix in EXTENSION_SUFFIXES]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return Found(None, "not compiled when voxcli was installed")
    try:
        if not _is_whole(path):
            return Found(None, f"{path.name} is damaged", True)
        library = ctypes.CDLL(str(path))
        library.vox_mark.restype = ctypes.c_uint32
        if library.vox_mark() != _mark(folder):
            return Found(None, f"{path.name} was compiled from another version of voxcli", True)
        instructions = choose(library, _most_allowed())
        for name, parameters in PARAMETERS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = parameters, None
    except (OSError, AttributeError) as err:
        return Found(None, f"{path.name} cannot be used: {err}", True)
    return Found(library, instructions)


@cache
def load() -> ctypes.CDLL | None:
    """The compiled functions, or None, which is said once in the log."""
    found = find()
    if found.library is None:
        level = logging.WARNING if found.is_broken else logging.INFO
        logger.log(level, "without native kernels: %s", found.detail)
    return found.library


def loaded() -> ctypes.CDLL:
    """The compiled functions, for a caller that knows they are there."""
    library = load()
    assert library is not None
    return library
