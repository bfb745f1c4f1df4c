"""Kernels in CUDA C++: compiled by the NVRTC that torch brings, kept as cubins, launched as one.

A kernel whose blocks wait for each other must have all of them on the card at once: `launch` is
cooperative, so that the driver starts all of them or refuses. `launch_early` is for kernels whose
blocks come one after the other. What is compiled stays in the user's cache under a name made
of source, options and compiler. Knows no kernel.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import os
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path

import torch

logger = logging.getLogger(__name__)

_SHARED_BYTES, _COOPERATIVE = 8, 95  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_..., CU_DEVICE_ATTRIBUTE_...
_PROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_BF16 = 9  # CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
_SWIZZLE_128, _PROMOTE_256 = 3, 3  # CU_TENSOR_MAP_SWIZZLE_128B, ..._L2_PROMOTION_L2_256B


class CubinError(RuntimeError):
    """A kernel cannot be compiled or launched here."""


@cache
def _nvrtc() -> ctypes.CDLL:
    """The compiler of torch's CUDA version; from where torch's packages put it, or the system's."""
    if torch.version.cuda is None:
        raise CubinError("torch was built without CUDA")
    major = torch.version.cuda.split(".")[0]
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [path for each in folders for path in Path(each).glob(f"*/lib/libnvrtc.so.{major}*")]
    try:
        if not found:
            return ctypes.CDLL(f"libnvrtc.so.{major}")
        library = min(found)
        # NOTE: it looks for a second library by name alone, which must be there by then
        for builtins in library.parent.glob(f"libnvrtc-builtins.so.{major}*"):
            ctypes.CDLL(str(builtins))
        return ctypes.CDLL(str(library))
    except OSError as err:
        raise CubinError(f"NVRTC cannot be loaded: {err}") from err


def cache_folder() -> Path:
    """Where the user's compiled kernels are."""
    from platformdirs import user_cache_path

    return user_cache_path("voxcli", appauthor=False) / "kernels"


@cache
def source_of(name: str) -> str:
    """The CUDA C++ of a kernel of this package, behind what all of them share."""
    folder = Path(__file__).parent
    return (folder / "hopper.cuh").read_text() + (folder / f"{name}.cu").read_text()


def compiled(source: bytes, options: Sequence[str], folder: Path) -> bytes:
    """The cubin of a source; from a folder of earlier ones if it is there.

    Raises:
        CubinError: no compiler, or one that refuses the source.
    """
    nvrtc = _nvrtc()
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    key = hashlib.sha256(f"{major.value}.{minor.value} {list(options)}".encode() + source)
    path = folder / f"{key.hexdigest()[:32]}.cubin"
    try:
        return path.read_bytes()
    except OSError:
        pass
    cubin = _compile(nvrtc, source, options)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(cubin)
        os.replace(file.name, path)
    except OSError as err:
        logger.info("a compiled kernel could not be kept: %s", err)
    return cubin


_started: dict[tuple[bytes, tuple[str, ...]], Future[bytes]] = {}
_lock = threading.Lock()


def compiling(source: bytes, options: tuple[str, ...]) -> Future[bytes]:
    """The cubin of a source, which a thread finds or compiles; NVRTC needs no lock of Python.

    Returns:
        the same for the same source; its result may raise a `CubinError`.
    """
    with _lock:
        future = _started.get((source, options))
        if future is None:
            future = _started[source, options] = Future()
            threading.Thread(target=_fulfil, args=(future, source, options), daemon=True).start()
    return future


def _fulfil(future: Future[bytes], source: bytes, options: Sequence[str]) -> None:
    try:
        future.set_result(compiled(source, options, cache_folder()))
    except Exception as err:
        future.set_exception(err)


def _compile(nvrtc: ctypes.CDLL, source: bytes, options: Sequence[str]) -> bytes:
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None):
        raise CubinError("NVRTC takes no program")
    try:
        words = [option.encode() for option in options]
        code = nvrtc.nvrtcCompileProgram(
            program, len(words), (ctypes.c_char_p * len(words))(*words)
        )
        if code:
            log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            lines = log.decode(errors="replace").splitlines()
            error = next((line for line in lines if "error" in line), f"code {code}")
            raise CubinError(f"NVRTC: {error}")
        return _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(
    size_of: ctypes._FuncPointer, read: ctypes._FuncPointer, program: ctypes.c_void_p
) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    read(program, buffer)
    return buffer.raw


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int, what: str) -> None:
    if code:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(text))
        raise CubinError(f"{what}: {(text.value or str(code).encode()).decode()}")


class _Attribute(ctypes.Structure):
    """`CUlaunchAttribute`."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16))


class _Launch(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)),
        ("num_attributes", ctypes.c_uint),
    )  # fmt: skip


def tensor_map(
    values: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int]
) -> bytes:
    """How the copy engine finds boxes of numbers, which it swizzles by 128 bytes.

    Args:
        values: bf16, whose memory it is; 16-byte aligned.
        sizes: of each axis, the innermost first.
        strides: of each axis but the innermost, in numbers.
        box: numbers along each axis; the innermost has 128 bytes.

    Raises:
        CubinError: the driver refuses it.
    """
    rank, size = len(sizes), values.element_size()
    buffer = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGNMENT)
    address = -(-ctypes.addressof(buffer) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
    code = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(address), _BF16, rank,
        ctypes.c_void_p(values.data_ptr()), (ctypes.c_uint64 * rank)(*sizes),
        (ctypes.c_uint64 * (rank - 1))(*(size * each for each in strides)),
        (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*(1,) * rank),
        0, _SWIZZLE_128, _PROMOTE_256, 0,
    )  # fmt: skip
    _check(code, f"a tensor map of {list(sizes)} in boxes of {list(box)}")
    return ctypes.string_at(address, _MAP_BYTES)


class Function:
    """A kernel on a card.

    Args:
        cubin: that holds it.
        name: in there.
        num_threads, shared_bytes: of a block.
        device: the card, which torch must have been asked for something before.

    Raises:
        CubinError: the driver refuses it.
    """

    def __init__(
        self, cubin: bytes, name: str, num_threads: int, shared_bytes: int, device: torch.device
    ) -> None:
        self._threads, self._shared, self._device = num_threads, shared_bytes, device
        self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        driver = _driver()
        with torch.cuda.device(device):
            torch.cuda.current_stream(device)
            _check(driver.cuModuleLoadData(ctypes.byref(self._module), cubin), "loading a kernel")
            _check(
                driver.cuModuleGetFunction(
                    ctypes.byref(self._function), self._module, name.encode()
                ),
                f"finding kernel {name}",
            )
            _check(
                driver.cuFuncSetAttribute(self._function, _SHARED_BYTES, shared_bytes),
                f"{shared_bytes} bytes of shared memory",
            )

    def num_blocks_at_once(self) -> int:
        """How many blocks the card holds at the same time; 0 if it cannot start them together."""
        driver, card, number = _driver(), ctypes.c_int(), ctypes.c_int()
        with torch.cuda.device(self._device):
            _check(driver.cuCtxGetDevice(ctypes.byref(card)), "asking for the card")
            values = []
            for attribute in (_COOPERATIVE, _PROCESSORS):
                code = driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, card)
                _check(code, "asking the card")
                values.append(number.value)
            code = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                ctypes.byref(number), self._function, self._threads, ctypes.c_size_t(self._shared)
            )
            _check(code, "asking how many blocks fit")
        can_cooperate, processors = values
        return number.value * processors if can_cooperate else 0

    def launch_early(self, num_blocks: int, params: ctypes.Structure) -> None:
        """Launch on torch's current stream while the kernel in front still runs (`launch.py`)."""
        early = _Attribute(_EARLY)
        early.value[0] = 1
        stream = torch.cuda.current_stream(self._device).cuda_stream
        config = _Launch(
            (num_blocks, 1, 1), (self._threads, 1, 1), self._shared, stream, ctypes.pointer(early),
            1,
        )  # fmt: skip
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(params))
        code = _driver().cuLaunchKernelEx(
            ctypes.byref(config), self._function, arguments, ctypes.c_void_p()
        )
        _check(code, "launching a kernel")

    def launch(self, num_blocks: int, params: ctypes.Structure) -> None:
        """Launch on torch's current stream, all blocks at once, or be refused by the driver."""
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(params))
        stream = torch.cuda.current_stream(self._device).cuda_stream
        code = _driver().cuLaunchCooperativeKernel(
            self._function, num_blocks, 1, 1, self._threads, 1, 1, self._shared,
            ctypes.c_void_p(stream), arguments,
        )  # fmt: skip
        _check(code, "launching a kernel")
