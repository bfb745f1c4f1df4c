"""Kernels compiled while the model loads, by a process that begins before torch is imported.

    with Ahead.begin(folder, family, config) as ahead:
        ...  # import torch, load the model
        if not ahead.is_ready():
            ...  # compile here

Triton compiles a kernel at its first launch, into a cache on disk. With an empty cache that would
take seconds at every capture, and Python lets only one thread of a process read kernels. So a
second process makes the same model without weights (`engine.program` on torch's "meta" device),
names every kernel its graphs will launch, and compiles them on all cores. It needs no card. What it
leaves is Triton's cache and a mark that says for what the cache is complete; with the mark nothing
is started. If it fails or misses a kernel, that is compiled where it is launched.

At the top this module imports neither torch nor Triton.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Self

from voxcli.closing import Closing
from voxcli.config import EngineConfig, num_cores
from voxcli.engine.native import stand_ins
from voxcli.engine.native.beside import Beside
from voxcli.models.base import ModelFamily

logger = logging.getLogger(__name__)

PATIENCE_S = 120  # for what is compiled ahead; then it is compiled here
NICENESS = 5  # the process that loads the model goes first
SOURCES = ("kernels", "layers", "models", "engine/native")  # what decides which kernels there are
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


@dataclass(frozen=True)
class Order:
    """What to compile.

    Attributes:
        folder: of the model.
        family: its name.
        config: of the engine, with nothing in it that makes no kernel another.
        capability: of the card.
    """

    folder: str
    family: str
    config: EngineConfig
    capability: tuple[int, int]

    @classmethod
    def of(
        cls, folder: Path, family: ModelFamily, config: EngineConfig, capability: tuple[int, int]
    ) -> Self:
        cheap = (family.cheapest(family.parameters_of(values)) for values in config.graphs)
        graphs = {family.graph_key(each): asdict(each) for each in cheap}
        plain = EngineConfig(
            precision="bf16" if config.precision == "auto" else config.precision,
            max_slots=config.max_slots,
            max_positions=config.max_positions,
            graphs=tuple(graphs[key] for key in sorted(graphs)),
        )
        return cls(str(folder.resolve()), family.name, plain, capability)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        config = values["config"]
        config["graphs"] = tuple(config["graphs"])
        return cls(
            values["folder"], values["family"], EngineConfig(**config), tuple(values["capability"])
        )

    @property
    def mark(self) -> Path:
        """The file that exists when Triton's cache holds all of this."""
        digest = hashlib.sha256(f"{self.family} {self.config} {self.capability}".encode())
        digest.update((Path(self.folder) / "config.json").read_bytes())
        package = Path(__file__).parents[2]
        for path in sorted(path for part in SOURCES for path in (package / part).rglob("*.py")):
            digest.update(path.read_bytes())
        digest.update(f"{version('torch')} {version('triton')} {sys.version}".encode())
        return _cache_folder() / f"voxcli-{digest.hexdigest()[:32]}"


def _cache_folder() -> Path:
    """Where Triton keeps what it compiled."""
    home = os.environ.get("TRITON_HOME") or Path.home()
    return Path(os.environ.get("TRITON_CACHE_DIR") or Path(home) / ".triton" / "cache")


@dataclass(frozen=True)
class _Process:
    """The second process and what it says."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    def has_compiled(self) -> bool:
        """Wait for its end; whether Triton's cache holds the kernels now."""
        try:
            return self.process.wait(PATIENCE_S) == 0
        except subprocess.TimeoutExpired:
            logger.info("compiling kernels ahead took more than %d s", PATIENCE_S)
            return False

    def close(self) -> None:
        """End it if it still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.errors.seek(0)
        if said := self.errors.read().decode(errors="replace").strip():
            logger.info("compiling kernels ahead: %s", said.rsplit("\n", 1)[-1])
            logger.debug("%s", said)
        self.errors.close()


def _has_marks() -> bool:
    """Whether anything was ever compiled ahead."""
    try:
        return any(_cache_folder().glob("voxcli-*"))
    except (OSError, RuntimeError):  # no home, no folder
        return False


class Ahead(Closing):
    """The second process, or nothing where there is no card for it.

    Args:
        begin: makes it, beside what the caller does; or says whether the kernels are there.
    """

    def __init__(self, begin: Callable[[], _Process | bool]) -> None:
        self._begun = Beside(begin)
        self._is_ready: bool | None = None

    @classmethod
    def begin(cls, folder: Path, family: ModelFamily, config: EngineConfig) -> Self:
        """Start compiling for a model and engine, if that is worth it; returns at once.

        Args:
            config: with the parameters that graphs are captured for.
        """
        begun = cls(partial(_begin, folder, family, config))
        if not _has_marks():  # a process comes first: imports here would only let it wait
            begun._begun.wait()
        return begun

    def is_ready(self) -> bool:
        """Wait for the process; whether Triton's cache holds the kernels now."""
        if self._is_ready is None:
            begun = self._begun.result()
            self._is_ready = begun if isinstance(begun, bool) else begun.has_compiled()
            self._end(begun)
        return self._is_ready

    def close(self) -> None:
        """End the process if it still runs; always safe."""
        if self._is_ready is None:
            self._is_ready = False
            self._end(self._begun.result())

    def _end(self, begun: _Process | bool) -> None:
        if isinstance(begun, _Process):
            begun.close()


def _begin(folder: Path, family: ModelFamily, config: EngineConfig) -> _Process | bool:
    """The process, or whether the kernels are there without one."""
    if config.eager or find_spec("triton") is None or not hasattr(os, "fork"):
        return False
    card = _Card.find(config.device)
    if card is None:
        return False
    card.make_context()
    try:
        order = Order.of(folder, family, config, card.capability)
        if order.mark.exists():
            return True
        with ExitStack() as undo:
            errors = undo.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, order.to_json(), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
            undo.pop_all()  # closed with the process
    except (OSError, RuntimeError, PackageNotFoundError) as err:  # no home, no file, no disk
        logger.info("kernels are not compiled ahead: %s", err)
        return False
    return _Process(process, errors)


@dataclass(frozen=True)
class _Card:
    """A card as its driver alone sees it."""

    driver: ctypes.CDLL
    handle: int
    capability: tuple[int, int]

    @classmethod
    def find(cls, device: str) -> Self | None:
        """The card of `--device`, if there is one: "auto" is the first."""
        name = re.fullmatch(r"auto|cuda(?::(\d+))?", device)
        if name is None:
            return None
        try:
            driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return None
        handle, values = ctypes.c_int(), (ctypes.c_int(), ctypes.c_int())
        if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), int(name[1] or 0)):
            return None
        for value, attribute in zip(values, (_MAJOR, _MINOR), strict=True):
            if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle):
                return None
        return cls(driver, handle.value, (values[0].value, values[1].value))

    def make_context(self) -> None:
        """Let the driver make the context that torch will use, while torch is imported."""
        context = ctypes.c_void_p()
        make = self.driver.cuDevicePrimaryCtxRetain
        threading.Thread(target=make, args=(ctypes.byref(context), self.handle)).start()


# What the second process runs: this module, found where the first process found it.
_PROGRAM = """import sys
order, *sys.path = sys.argv[1:]
from voxcli.engine.native.ahead import main
sys.exit(main(order))"""


def main(text: str) -> int:
    """Compile an order; the exit code of the process."""
    started = time.perf_counter()
    logging.basicConfig(level=logging.INFO, format="%(message)s")  # the first process reads it
    os.nice(NICENESS)
    gc.disable()  # nothing that is made here goes before the process does
    order = Order.from_json(text)
    stand_ins.stand_in()
    import torch

    from voxcli import kernels
    from voxcli.kernels.ahead import Compilers

    kernels.stand_in(order.capability)
    # the children make themselves ready beside the other imports and the model
    with torch.inference_mode(), Compilers(order.capability, num_cores()) as compilers:
        from voxcli.engine.native.core import keys_of, num_positions_of
        from voxcli.engine.native.device import resolve_dtype
        from voxcli.engine.native.program import Program
        from voxcli.kernels.launch import naming
        from voxcli.models import family_named

        imported = time.perf_counter()
        config, family = order.config, family_named(order.family)
        dtype = resolve_dtype(config.precision, torch.device("meta"), 0)
        model = family.load_shapes(Path(order.folder), dtype)
        program = Program(
            model, torch.device("meta"), config.max_slots, num_positions_of(model.info, config)
        )
        with naming():
            for function in program.with_all_kernels(keys_of(family, config)):
                function()
        named = time.perf_counter()
    logger.info(
        "%d kernels: imports %.1f s, named in %.1f s, compiled %.1f s later",
        compilers.num_kernels, imported - started, named - imported, time.perf_counter() - named,
    )  # fmt: skip
    if compilers.has_failed:
        return 1
    order.mark.parent.mkdir(parents=True, exist_ok=True)
    order.mark.touch()
    return 0
