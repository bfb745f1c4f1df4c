"""Tensors by their official name and shape, from a checkpoint's files or made up.

`CheckpointSource` reads the official files and proves that every key was used; `RandomSource` makes
weights of the same shapes, for tests and for speed measurements without a checkpoint; `ShapeSource`
makes shapes alone. None knows what a weight is for.

Official names are those of OpenBMB/VoxCPM (`docs/models/voxcpm2.md`): the language model
in `model.safetensors` or `pytorch_model.bin`, the AudioVAE in `audiovae.safetensors` or
`audiovae.pth`, whose keys carry no prefix in the file and `audio_vae.` here.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from voxcli.errors import CheckpointError
from voxcli.kernels import native_product
from voxcli.layers import fp8
from voxcli.layers.linear import Layout, Linear, best_layout

VAE_PREFIX = "audio_vae."


class Source(ABC):
    """Hands out tensors by official name; the caller states the shape it relies on.

    Args:
        device, dtype: of the language-model side; the AudioVAE is always fp32. With e4m3 the
            products of the transformer layers have eight bits, and all else is bf16.

    Attributes:
        is_native: use compiled kernels on a CPU where there are any.
        num_parameters: in all that was taken.
    """

    is_native = True

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.is_fp8 = dtype == fp8.FORMAT
        self.dtype = torch.bfloat16 if self.is_fp8 else dtype
        self.num_parameters = 0

    @abstractmethod
    def read(self, name: str, shape: tuple[int, ...]) -> Tensor: ...

    def take(self, name: str, *shape: int) -> Tensor:
        tensor = self.read(name, shape)
        self.num_parameters += tensor.numel()
        dtype = torch.float32 if name.startswith(VAE_PREFIX) else self.dtype
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
        """A product of the vocoder, whose weights stay fp32."""
        if self._has_native_products:
            return native_product.NativeLinear(weight, bias, torch.float32)
        return Linear(weight, bias)

    @property
    def _has_native_products(self) -> bool:
        return self.is_native and self.device.type == "cpu" and native_product.is_available()


class RandomSource(Source):
    """Reproducible random weights of any shape; the stop head is zero, so speech never ends."""

    def __init__(self, device: torch.device, dtype: torch.dtype, seed: int = 0) -> None:
        super().__init__(device, dtype)
        self._generator = torch.Generator(device).manual_seed(seed)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        if name.startswith("stop_head"):
            return torch.zeros(shape)
        values = torch.randn(shape, generator=self._generator, device=self.device)
        if "norm" in name or name.endswith(("alpha", "weight_g", "scale_embed.weight")):
            return 1 + 0.1 * values
        fan_in = 1
        for size in shape[1:]:
            fan_in *= size
        weight = values * max(fan_in, 16) ** -0.5
        return weight.bfloat16().float()  # numbers as a bf16 checkpoint has them


class ShapeSource(Source):
    """Weights without data, on torch's device "meta"."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(torch.device("meta"), dtype)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        return torch.empty(shape, device=self.device)


class CheckpointSource(Source):
    """The official files of a folder.

    Raises:
        CheckpointError: a file is missing or damaged, a key is missing, of another shape or unused.
    """

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(device, dtype)
        self._folder = folder
        model = _open(folder, "model.safetensors", "pytorch_model.bin")
        vae = _open(folder, "audiovae.safetensors", "audiovae.pth")
        self._tensors = {**model, **{VAE_PREFIX + name: value for name, value in vae.items()}}
        self._unused = set(self._tensors)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        if name not in self._tensors:
            raise CheckpointError(f"{self._folder}: the checkpoint has no weight '{name}'")
        tensor = self._tensors[name]()
        self._unused.discard(name)
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"{self._folder}: weight '{name}' has shape {list(tensor.shape)}, "
                f"config.json asks for {list(shape)}"
            )
        return tensor

    def finish(self) -> None:
        """Refuse a checkpoint with weights that nothing asked for."""
        if self._unused:
            names = sorted(self._unused)
            shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
            raise CheckpointError(f"{self._folder}: {len(names)} weights were not used: {shown}")


def _open(folder: Path, safetensors_name: str, pickle_name: str) -> dict[str, Callable[[], Tensor]]:
    """Readers of a file's tensors by name; each reads when called: no file is held twice."""
    path = folder / safetensors_name
    try:
        if path.is_file():
            file = safe_open(str(path), framework="pt")
            return {name: partial(file.get_tensor, name) for name in file.keys()}  # noqa: SIM118
        path = folder / pickle_name
        if path.is_file():
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            state = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else None
            if not isinstance(state, dict) or not all(map(torch.is_tensor, state.values())):
                raise CheckpointError(f"{path} holds no named weights")
            return {name: partial(_itself, tensor) for name, tensor in state.items()}
    except (OSError, SafetensorError, RuntimeError, pickle.UnpicklingError, EOFError) as err:
        raise CheckpointError(f"{path} is damaged or incomplete: {err}") from err
    raise CheckpointError(f"{folder} has neither {safetensors_name} nor {pickle_name}")


def _itself(tensor: Tensor) -> Tensor:
    return tensor
