"""The one part of the build that pyproject.toml cannot say: C, compiled where a compiler is found.

Without one the package installs all the same and runs on torch alone.
"""

import zlib
from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("voxcli/kernels/native.c")

setup(
    ext_modules=[
        Extension(
            "voxcli.kernels._native",
            [SOURCE.as_posix()],
            define_macros=[("SOURCE_MARK", f"{zlib.crc32(SOURCE.read_bytes())}u")],
            # a number's bits must not depend on its place in a vector, nor need a comparison trap
            extra_compile_args=["-std=c99", "-O3", "-ffp-contract=off", "-fno-trapping-math"],
            optional=True,
        )
    ]
)
