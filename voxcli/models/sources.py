"""Tensors by their official name and shape, from a checkpoint's files or made up.

`CheckpointSource` reads official files and proves that every key was used; `RandomSource` makes
weights of the same shapes, for tests and for speed measurements without a checkpoint; `ShapeSource`
makes shapes alone. None knows a family, nor what a weight is for: a family says which files there
are, which of its tensors stay fp32 and which keys nothing reads.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from voxcli.errors import CheckpointError
from voxcli.kernels import native_product
from voxcli.layers import fp8
from voxcli.layers.linear import Layout, Linear, best_layout
from voxcli.layers.memory import Upload
from voxcli.models import refusals
from voxcli.models.shards import INDEX_SUFFIX, read_index

Readers = dict[str, Callable[[], Tensor]]


class Source(ABC):
    """Hands out tensors by official name; the caller states the shape it relies on.

    Args:
        device, dtype: of all but what stays fp32. With e4m3 the products of the transformer layers
            have eight bits, and all else is bf16.
        fp32: prefixes of the names whose tensors are fp32 whatever the dtype.

    Attributes:
        is_native: use kernels in C on a CPU, or in CUDA C++ on a card, where there are any.
        num_parameters: in all that was taken.
    """

    is_native = True

    def __init__(
        self, device: torch.device, dtype: torch.dtype, *, fp32: tuple[str, ...] = ()
    ) -> None:
        self.device = device
        self.is_fp8 = dtype == fp8.FORMAT
        self.dtype = torch.bfloat16 if self.is_fp8 else dtype
        self.fp32 = fp32
        self.num_parameters = 0

    @abstractmethod
    def read(self, name: str, shape: tuple[int, ...]) -> Tensor: ...

    def take(self, name: str, *shape: int) -> Tensor:
        tensor = self.read(name, shape)
        self.num_parameters += tensor.numel()
        dtype = torch.float32 if name.startswith(self.fp32) else self.dtype
        return tensor.to(self.device, dtype)

    def linear(self, name: str, out_features: int, in_features: int, bias: bool = True) -> Linear:
        weight = self.take(f"{name}.weight", out_features, in_features)
        return self._linear(weight, self.take(f"{name}.bias", out_features) if bias else None)

    def layer_linear(self, weight: Tensor) -> Linear | fp8.Fp8Linear:
        """A product of a transformer layer."""
        return fp8.Fp8Linear(weight) if self.is_fp8 else self._linear(weight, None)

    def _linear(self, weight: Tensor, bias: Tensor | None) -> Linear:
        layout = best_layout(weight)
        if layout is Layout.FBGEMM and self._has_native_products:
            return native_product.NativeLinear(weight, bias, torch.half)
        return Linear(weight, bias, layout)

    def vocoder_linear(self, weight: Tensor, bias: Tensor) -> Linear:
        """A product of a vocoder, whose weights stay fp32."""
        if self._has_native_products:
            return native_product.NativeLinear(weight, bias, torch.float32)
        return Linear(weight, bias)

    @property
    def _has_native_products(self) -> bool:
        return self.is_native and self.device.type == "cpu" and native_product.is_available()


class RandomSource(Source):
    """Reproducible random weights of any shape.

    Args:
        ones: patterns of names whose values are near 1; all others' are about 1 / sqrt(inputs).
        zeros: patterns of names whose values are 0.
    """

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        seed: int = 0,
        *,
        fp32: tuple[str, ...] = (),
        ones: tuple[str, ...] = ("*norm*",),
        zeros: tuple[str, ...] = (),
    ) -> None:
        super().__init__(device, dtype, fp32=fp32)
        self._generator = torch.Generator(device).manual_seed(seed)
        self._ones, self._zeros = ones, zeros

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        if is_any(name, self._zeros):
            return torch.zeros(shape)
        values = torch.randn(shape, generator=self._generator, device=self.device)
        if is_any(name, self._ones):
            return 1 + 0.1 * values
        fan_in = 1
        for size in shape[1:]:
            fan_in *= size
        weight = values * max(fan_in, 16) ** -0.5
        return weight.bfloat16().float()  # numbers as a bf16 checkpoint has them


class ShapeSource(Source):
    """Weights without data, on torch's device "meta"."""

    def __init__(self, dtype: torch.dtype, *, fp32: tuple[str, ...] = ()) -> None:
        super().__init__(torch.device("meta"), dtype, fp32=fp32)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        return torch.empty(shape, device=self.device)


class CheckpointSource(Source):
    """The official files of a folder.

    Args:
        files: for each prefix, the files that may hold the weights whose names have it, relative to
            the folder; the first that is there is read, and its own keys lack the prefix. A name
            that ends in `.index.json` is a list of shards, `.safetensors` that format, any other
            name a pickle.
        unused: patterns of keys that may be there though nothing asks for them.

    Raises:
        CheckpointError: a file is missing or damaged, a key is missing, of another shape or unused,
            a weight is no number.
    """

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, Sequence[str]],
        device: torch.device,
        dtype: torch.dtype,
        *,
        fp32: tuple[str, ...] = (),
        unused: tuple[str, ...] = (),
    ) -> None:
        super().__init__(device, dtype, fp32=fp32)
        self._folder = folder
        self._tensors: Readers = {}
        for prefix, names in files.items():
            readers = _open_first(folder, names)
            self._tensors.update({prefix + name: reader for name, reader in readers.items()})
        self._unused = {name for name in self._tensors if not is_any(name, unused)}
        self._sums: dict[str, Tensor] = {}  # looked at in the end, so that nothing waits for them
        self._upload = Upload(device) if device.type == "cuda" else _itself

    def take(self, name: str, *shape: int) -> Tensor:
        tensor = super().take(name, *shape)
        self._sums[name] = tensor.sum(dtype=torch.float32)
        return tensor

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        if name not in self._tensors:
            raise refusals.no_weight(self._folder, name)
        tensor = self._tensors[name]()
        self._unused.discard(name)
        if tuple(tensor.shape) != shape:
            raise refusals.other_shape(self._folder, name, tensor.shape, shape)
        if tensor.element_size() == 1 and not tensor.is_floating_point():
            tensor = self._widened(name, tensor)
        return self._upload(tensor)

    def _widened(self, name: str, weight: Tensor) -> Tensor:
        """A matrix of int8 `[N, K]` times its scales `[N, 1]`, which lie beside it.

        It is rounded to half precision, which a CPU reads faster than fp32.
        """
        beside = f"{name}{refusals.SCALE}"
        scale = self._tensors[beside]() if beside in self._tensors else None
        rows = [*weight.shape[:1], 1]
        if weight.dtype != torch.int8 or scale is None or list(scale.shape) != rows:
            raise refusals.no_scale(self._folder, name, str(weight.dtype))
        self._unused.discard(beside)
        return (weight.float() * scale.float()).half()

    def finish(self) -> None:
        """Refuse a checkpoint with weights that nothing asked for or that are no numbers."""
        is_finite = torch.stack([*self._sums.values()]).isfinite()  # a sum hides neither kind
        for name, is_good in zip(self._sums, is_finite.tolist(), strict=True):
            if not is_good:
                raise refusals.no_number(self._folder, name)
        if self._unused:
            raise refusals.unused(self._folder, self._unused)


def is_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name is one that patterns with `*` stand for."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _open_first(folder: Path, names: Sequence[str]) -> Readers:
    for name in names:
        if (folder / name).is_file():
            return _open(folder / name)
    what = f"neither {' nor '.join(names)}" if len(names) > 1 else f"no {names[0]}"
    raise CheckpointError(f"{folder} has {what}")


def _open(path: Path) -> Readers:
    """Readers of a file's tensors by name; each reads when called: no file is held twice."""
    try:
        if path.name.endswith(INDEX_SUFFIX):
            return _open_shards(path)
        if path.suffix == ".safetensors":
            file = safe_open(str(path), framework="pt")
            return {name: partial(file.get_tensor, name) for name in file.keys()}  # noqa: SIM118
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        state = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else None
        if not isinstance(state, dict) or not all(map(torch.is_tensor, state.values())):
            raise CheckpointError(f"{path} holds no named weights")
        return {name: partial(_itself, tensor) for name, tensor in state.items()}
    except (OSError, SafetensorError, RuntimeError, pickle.UnpicklingError, EOFError) as err:
        raise refusals.damaged(path, err) from err


def _open_shards(path: Path) -> Readers:
    """The files that an index names; each must hold the keys that the index says it does."""
    shard_of = read_index(path).items()
    shards = {name: _open(path.parent / name) for name in sorted({name for _, name in shard_of})}
    for key, shard in shard_of:
        if key not in shards[shard]:
            raise CheckpointError(f"{path.parent / shard} has no weight '{key}'")
    return {key: reader for shard in shards.values() for key, reader in shard.items()}


def _itself(tensor: Tensor) -> Tensor:
    return tensor
