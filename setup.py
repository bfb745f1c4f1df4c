"""The part of the build that pyproject.toml cannot say: C, compiled where a compiler is found.

Without one the package installs all the same and runs on torch alone.
"""

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = sorted(Path("voxcli/kernels").glob("native*.[ch]"))  # `kernels/native.py` does the same
MARK = zlib.crc32(b"".join(path.read_bytes() for path in SOURCES))


class BuildSideBySide(build_ext):
    """Compiles the C files at the same time, each by a process of its own."""

    def build_extension(self, ext):
        compile_all = self.compiler.compile

        def compile_each(sources, **given):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                each = [pool.submit(compile_all, [source], **given) for source in sources]
                return [path for future in each for path in future.result()]

        if self.compiler.compiler_type == "unix":
            self.compiler.compile = compile_each
        super().build_extension(ext)


setup(
    cmdclass={"build_ext": BuildSideBySide},
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
                "-pthread",
            ],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ],
)
