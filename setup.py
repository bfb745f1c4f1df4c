"""The one part of the build that pyproject.toml cannot say: C, compiled where a compiler is found.

Without one the package installs all the same and runs on torch alone.
"""

import zlib
from pathlib import Path

from setuptools import Extension, setup

SOURCES = sorted(Path("voxcli/kernels").glob("native*.[ch]"))  # `kernels/native.py` does the same
MARK = zlib.crc32(b"".join(path.read_bytes() for path in SOURCES))

setup(
    ext_modules=[
        Extension(
            "voxcli.kernels._native",
            [path.as_posix() for path in SOURCES if path.suffix == ".c"],
            depends=[path.as_posix() for path in SOURCES],
            define_macros=[("SOURCE_MARK", f"{MARK}u")],
            extra_compile_args=[
                "-std=c99",
                "-O3",
                # a number's bits must not depend on its place in a vector
                "-ffp-contract=off",
                # nobody looks at floating-point traps or errno, and vectors cannot keep them
                "-fno-trapping-math",
                "-fno-math-errno",
            ],
            optional=True,
        )
    ]
)
