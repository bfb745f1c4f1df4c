"""An ONNX graph computed in torch, also on a card; what was quantised dynamically is float.

Only what Kokoro's export holds: one-dimensional convolutions, bidirectional LSTMs, one row. Shapes
and other small integers stay on the host. Tested against onnxruntime.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    import onnx  # of the teachers alone

MAX_HOST_NUMBERS = 64  # of an integer constant that stays on the host
TYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 6: torch.int32, 7: torch.int64, 9: torch.bool,
    11: torch.float64,
}  # fmt: skip

Values = Sequence[Tensor | None]
Attributes = Mapping[str, Any]
Operation = Callable[[Values, Attributes], Any]


@dataclass
class Node:
    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    run: Operation | None = None
    last_uses: list[str] = field(default_factory=list)  # inputs that no later node reads


def _ints(value: Tensor | None) -> list[int]:
    assert value is not None
    return [int(each) for each in value.tolist()]


def _together(*values: Any) -> tuple[Any, ...]:
    """Tensors on one device: the card, if one of them is there. Scalars may stay."""
    cards = [value.device for value in values if value is not None and value.is_cuda]
    if not cards:
        return values
    return tuple(
        value.to(cards[0], non_blocking=True) if value is not None and value.dim() else value
        for value in values
    )


def _both(function: Callable[[Tensor, Tensor], Tensor]) -> Operation:
    def run(values: Values, _: Attributes) -> Tensor:
        return function(*_together(*values))

    return run


def _one(function: Callable[[Any], Tensor]) -> Operation:
    return lambda values, _: function(values[0])


def _divide(one: Tensor, other: Tensor) -> Tensor:
    if one.is_floating_point() or other.is_floating_point():
        return one / other
    return torch.div(one, other, rounding_mode="trunc")


def _axes(values: Values, attributes: Attributes) -> list[int]:
    if len(values) > 1 and values[1] is not None:
        return _ints(values[1])
    return list(attributes.get("axes", ()))


def _unsqueeze(values: Values, attributes: Attributes) -> Tensor:
    x = values[0]
    assert x is not None
    axes = _axes(values, attributes)
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _squeeze(values: Values, attributes: Attributes) -> Tensor:
    x = values[0]
    assert x is not None
    axes = _axes(values, attributes) or [i for i, size in enumerate(x.shape) if size == 1]
    return x.squeeze(tuple(axes))


def _reshape(values: Values, attributes: Attributes) -> Tensor:
    x, shape = values[0], _ints(values[1])
    assert x is not None
    if not attributes.get("allowzero", 0):
        shape = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return x.reshape(shape)


def _gather(values: Values, attributes: Attributes) -> Tensor:
    x, index = values
    assert x is not None
    assert index is not None
    axis = attributes.get("axis", 0)
    if index.dim() == 0 and not index.is_cuda:
        return x.select(axis, int(index))
    index = index.to(x.device)
    index = torch.where(index < 0, index + x.shape[axis], index)
    taken = x.index_select(axis, index.reshape(-1))
    return taken.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def _concat(values: Values, attributes: Attributes) -> Tensor:
    return torch.cat(_together(*values), attributes["axis"])


def _split(values: Values, attributes: Attributes) -> list[Tensor]:
    x = values[0]
    assert x is not None
    axis = attributes.get("axis", 0)
    if len(values) > 1 and values[1] is not None:
        return list(torch.split(x, _ints(values[1]), axis))
    return list(torch.chunk(x, attributes["outputs"], axis))


def _slice(values: Values, _: Attributes) -> Tensor:
    x, starts, ends = values[0], _ints(values[1]), _ints(values[2])
    assert x is not None
    axes = _ints(values[3]) if len(values) > 3 else list(range(len(starts)))
    steps = _ints(values[4]) if len(values) > 4 else [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        places = range(*slice(start, end, step).indices(x.shape[axis]))
        if end < -x.shape[axis]:  # as far as there is something
            places = range(*slice(start, None, step).indices(x.shape[axis]))
        if step == 1:
            x = x.narrow(axis, places.start, len(places))
        else:
            x = x.index_select(axis, torch.tensor(list(places), device=x.device))
    return x


def _reduce(function: Callable[..., Tensor]) -> Operation:
    def run(values: Values, attributes: Attributes) -> Tensor:
        keep = bool(attributes.get("keepdims", 1))
        return function(values[0], dim=_axes(values, attributes), keepdim=keep)

    return run


def _layer_norm(values: Values, attributes: Attributes) -> Tensor:
    x, weight, *bias = values
    assert x is not None
    assert weight is not None
    epsilon = attributes.get("epsilon", 1e-5)
    return F.layer_norm(x, weight.shape, weight, bias[0] if bias else None, epsilon)


def _skip_layer_norm(values: Values, attributes: Attributes) -> Tensor:
    x, skipped, *rest = values
    assert x is not None
    assert skipped is not None
    return _layer_norm([x + skipped, *rest], attributes)


def _gelu(values: Values, _: Attributes) -> Tensor:
    x, *bias = values
    assert x is not None
    return F.gelu(x + bias[0] if bias and bias[0] is not None else x, approximate="tanh")


def _fused_product(values: Values, attributes: Attributes) -> Tensor:
    one, other = _together(*values)
    if attributes.get("transA"):
        one = one.transpose(-1, -2)
    if attributes.get("transB"):
        other = other.transpose(-1, -2)
    return (one @ other) * attributes.get("alpha", 1.0)


def _convolution(values: Values, attributes: Attributes) -> Tensor:
    x, weight, *bias = values
    assert x is not None
    before, after = attributes.get("pads", (0, 0))
    if before != after:
        x, before = F.pad(x, (before, after)), 0
    return F.conv1d(
        x, weight, bias[0] if bias else None, attributes.get("strides", (1,))[0], before,
        attributes.get("dilations", (1,))[0], attributes.get("group", 1),
    )  # fmt: skip


def _transposed(values: Values, attributes: Attributes) -> Tensor:
    x, weight, *bias = values
    return F.conv_transpose1d(
        x, weight, bias[0] if bias else None, attributes["strides"][0], attributes["pads"][0],
        attributes.get("output_padding", (0,))[0], attributes.get("group", 1),
        attributes.get("dilations", (1,))[0],
    )  # fmt: skip


def _dequantised(values: Values, _: Attributes) -> Tensor:
    x, scale, zero = _together(*values)
    return (x.float() - zero.float()) * scale


def _pad(values: Values, attributes: Attributes) -> Tensor:
    x, pads = values[0], _ints(values[1])
    assert x is not None
    pairs = list(zip(pads[: x.dim()], pads[x.dim() :], strict=True))
    mode = attributes.get("mode", b"constant").decode()
    if mode == "constant":
        value = values[2] if len(values) > 2 else None
        flat = [each for pair in reversed(pairs) for each in pair]
        return F.pad(x, flat, value=0.0 if value is None else float(value))
    assert all(pair == (0, 0) for pair in pairs[:-1]), f"pads {pads} of mode {mode}"
    return F.pad(x.reshape(1, -1, x.shape[-1]), pairs[-1], mode).reshape(*x.shape[:-1], -1)


def _resize(values: Values, attributes: Attributes) -> Tensor:
    """Of the last axis; nearest as a whole multiple, or linear at the centres of samples."""
    x = values[0]
    assert x is not None
    length = x.shape[-1]
    if len(values) > 3 and values[3] is not None and values[3].numel():
        new = _ints(values[3])[-1]
        scale = new / length
    else:
        assert values[2] is not None
        scale = values[2].tolist()[-1]
        new = int(np.floor(length * scale))
    if attributes["mode"] == b"nearest":
        assert new % length == 0, f"nearest resize of {length} to {new}"
        return x.repeat_interleave(new // length, -1)
    at = (torch.arange(new, device=x.device, dtype=torch.float64) + 0.5) / scale - 0.5
    at = at.clamp(0, length - 1)
    left = at.floor().long()
    right, share = (left + 1).clamp(max=length - 1), (at - left).to(x.dtype)
    return x.index_select(-1, left) * (1 - share) + x.index_select(-1, right) * share


def _spectrum(values: Values, attributes: Attributes) -> Tensor:
    x, hop, window, length = values
    assert x is not None
    assert hop is not None
    assert window is not None
    samples = x[..., 0] if x.dim() == 3 else x
    size = len(window) if length is None else int(length)
    spectrum = torch.stft(
        samples, size, int(hop), size, window.to(x.device), center=False,
        onesided=bool(attributes.get("onesided", 1)), return_complex=True,
    )  # fmt: skip
    return torch.view_as_real(spectrum).permute(0, 2, 1, 3)


def _scatter(values: Values, _: Attributes) -> Tensor:
    x, index, updates = _together(*values)
    result = x.clone()
    result[tuple(index[..., axis] for axis in range(index.shape[-1]))] = updates
    return result


def _expand(values: Values, _: Attributes) -> Tensor:
    x, shape = values[0], _ints(values[1])
    assert x is not None
    return x.expand(torch.broadcast_shapes(x.shape, tuple(shape)))


def _clip(values: Values, _: Attributes) -> Tensor:
    x, low, high = [*values, None, None][:3]
    assert x is not None
    limits = [None if limit is None else limit.item() for limit in (low, high)]
    return x.clamp(*limits)


def _range(values: Values, _: Attributes) -> Tensor:
    start, end, step = (value.item() for value in values if value is not None)
    assert values[0] is not None
    return torch.arange(start, end, step, dtype=values[0].dtype)


def _filled(values: Values, attributes: Attributes) -> Tensor:
    from onnx import numpy_helper

    value = attributes.get("value")
    like = (
        torch.zeros(1) if value is None else torch.from_numpy(numpy_helper.to_array(value).copy())
    )
    return torch.full(_ints(values[0]), like.item(), dtype=like.dtype)


def _shape(values: Values, attributes: Attributes) -> Tensor:
    assert values[0] is not None
    shape = values[0].shape[attributes.get("start", 0) : attributes.get("end")]
    return torch.tensor(shape, dtype=torch.int64)


def _summed(values: Values, _: Attributes) -> Tensor:
    assert values[0] is not None
    return torch.cumsum(values[0], int(values[1]))  # type: ignore[arg-type]


def _where(values: Values, _: Attributes) -> Tensor:
    return torch.where(*_together(*values))


OPERATIONS: dict[str, Operation] = {
    "Add": _both(operator.add),
    "And": _both(operator.and_),
    "Atan": _one(torch.atan),
    "Cast": lambda values, attributes: values[0].to(TYPES[attributes["to"]]),  # type: ignore[union-attr]
    "Clip": _clip,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "Cos": _one(torch.cos),
    "CumSum": _summed,
    "DequantizeLinear": _dequantised,
    "Div": _both(_divide),
    "Equal": _both(operator.eq),
    "Exp": _one(torch.exp),
    "Expand": _expand,
    "FastGelu": _gelu,
    "Floor": _one(torch.floor),
    "FusedMatMul": _fused_product,
    "Gather": _gather,
    "Greater": _both(operator.gt),
    "GreaterOrEqual": _both(operator.ge),
    "Identity": _one(lambda x: x),
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda values, attributes: F.leaky_relu(
        values[0],  # type: ignore[arg-type]
        attributes.get("alpha", 0.01),
    ),
    "Less": _both(operator.lt),
    "MatMul": _both(operator.matmul),
    "Mul": _both(operator.mul),
    "NonZero": _one(lambda x: torch.nonzero(x).T),
    "Pad": _pad,
    "Pow": _both(torch.pow),
    "Range": _range,
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum),
    "Reshape": _reshape,
    "Resize": _resize,
    "Round": _one(torch.round),
    "STFT": _spectrum,
    "ScatterND": _scatter,
    "Shape": _shape,
    "Sigmoid": _one(torch.sigmoid),
    "Sin": _one(torch.sin),
    "SkipLayerNormalization": _skip_layer_norm,
    "Slice": _slice,
    "Softmax": lambda values, attributes: values[0].softmax(attributes.get("axis", -1)),  # type: ignore[union-attr]
    "Split": _split,
    "Sqrt": _one(torch.sqrt),
    "Squeeze": _squeeze,
    "Sub": _both(operator.sub),
    "Tanh": _one(torch.tanh),
    "Transpose": lambda values, attributes: values[0].permute(attributes["perm"]),  # type: ignore[union-attr]
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}


def _per_row(scale: np.ndarray) -> np.ndarray:
    return scale.reshape(len(scale), 1, -1) if scale.ndim else scale


class _Reader:
    """A quantised model's nodes and constants, in float."""

    def __init__(self, model: onnx.ModelProto) -> None:
        from onnx import numpy_helper

        self.arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
        self.constants: dict[str, np.ndarray] = dict(self.arrays)
        self.nodes = [self._node(node) for node in model.graph.node]

    def _node(self, proto: onnx.NodeProto) -> Node:
        from onnx import helper

        attributes = {each.name: helper.get_attribute_value(each) for each in proto.attribute}
        node = Node(
            proto.op_type, list(proto.input), list(proto.output), attributes, proto.name
        )  # fmt: skip
        if node.kind == "DynamicQuantizeLinear":
            node.run = lambda values, _: [values[0], torch.ones(()), torch.zeros(())]
        elif node.kind in ("MatMulInteger", "ConvInteger"):
            axis = 0 if node.kind == "ConvInteger" else None
            zero = node.inputs[3] if len(node.inputs) > 3 else ""
            weight = self._without_zero(node.inputs[1], zero, axis)
            node.kind = node.kind.removesuffix("Integer")
            node.inputs = [node.inputs[0], weight]
        elif node.kind == "DynamicQuantizeLSTM":
            node.kind, node.inputs = "LSTM", self._lstm_inputs(node.inputs)
        elif (node.kind == "Floor" and "bias_quant_rounded" in node.name) or (
            node.kind == "Cast" and node.name.endswith("bias_quantized_node")
        ):
            node.kind, node.inputs = "Identity", node.inputs[:1]
        elif node.kind == "Split":
            attributes["outputs"] = len(node.outputs)
        return node

    def _without_zero(self, name: str, zero: str, axis: int | None) -> str:
        array = self.arrays[name].astype(np.float32)
        if zero:
            offset = self.arrays[zero].astype(np.float32)
            if offset.size > 1 and axis is not None:
                offset = offset.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
            array = array - offset
        self.constants[f"{name} in float"] = array
        return f"{name} in float"

    def _lstm_inputs(self, inputs: list[str]) -> list[str]:
        names = []
        for weight, scale, zero in ((1, 8, 9), (2, 10, 11)):
            offset = _per_row(self.arrays[inputs[zero]].astype(np.float32))
            factor = _per_row(self.arrays[inputs[scale]].astype(np.float32))
            array = (self.arrays[inputs[weight]].astype(np.float32) - offset) * factor
            name = f"{inputs[weight]} in float"
            self.constants[name] = np.ascontiguousarray(array.transpose(0, 2, 1))
            names.append(name)
        return [inputs[0], *names, inputs[3]]


def _lstm(constants: Mapping[str, np.ndarray], node: Node, device: torch.device) -> Operation:
    """Gates in torch's order; ONNX has input, output, forget, cell."""
    inner, recurrent, bias = (constants[name] for name in node.inputs[1:4])
    hidden = recurrent.shape[2]
    module = nn.LSTM(inner.shape[2], hidden, bidirectional=True).eval()
    order = np.concatenate([np.arange(g * hidden, (g + 1) * hidden) for g in (0, 2, 3, 1)])
    halves = bias[:, : 4 * hidden], bias[:, 4 * hidden :]
    with torch.no_grad():
        for direction, suffix in enumerate(("", "_reverse")):
            for name, array in (
                ("weight_ih", inner), ("weight_hh", recurrent), ("bias_ih", halves[0]),
                ("bias_hh", halves[1]),
            ):  # fmt: skip
                parameter = getattr(module, f"{name}_l0{suffix}")
                parameter.copy_(torch.from_numpy(array[direction][order].copy()))
    module = module.to(device)
    module.flatten_parameters()

    def run(values: Values, _: Attributes) -> list[Tensor]:
        y, (last, cell) = module(values[0])
        steps, rows, width = y.shape
        return [y.view(steps, rows, 2, width // 2).transpose(1, 2), last, cell]

    return run


class Graph:
    """A model as a function of its inputs.

    Args:
        path: of the ONNX file.
        outputs: names of the tensors that are wanted; nodes that none of them needs are left out.
        replaced: nodes in the place of those that made the same outputs.
    """

    def __init__(
        self,
        path: Path,
        outputs: Sequence[str],
        device: torch.device,
        replaced: Sequence[Node] = (),
    ) -> None:
        import onnx

        reader = _Reader(onnx.load(path))
        self.device, self.outputs = device, list(outputs)
        nodes = self._needed(reader.nodes, replaced)
        for node in nodes:
            if node.kind == "LSTM":
                node.run = _lstm(reader.constants, node, device)
                node.inputs = node.inputs[:1]
            elif node.run is None:
                if node.kind not in OPERATIONS:
                    raise SystemExit(f"{path}: no torch for {node.kind}")
                node.run = OPERATIONS[node.kind]
        read = {name for node in nodes for name in node.inputs}
        self.constants = {
            name: self._placed(array) for name, array in reader.constants.items() if name in read
        }
        self.nodes = self._folded(nodes)

    def _placed(self, array: np.ndarray) -> Tensor:
        value = torch.from_numpy(array.copy())
        is_large = value.is_floating_point() or value.numel() > MAX_HOST_NUMBERS
        return value.to(self.device) if is_large else value

    def _needed(self, nodes: list[Node], replaced: Sequence[Node]) -> list[Node]:
        instead = {name: node for node in replaced for name in node.outputs}
        every: list[Node] = []
        for node in nodes:
            if (other := instead.get(node.outputs[0])) is None:
                every.append(node)
            elif other.inputs[0] == f"{node.outputs[0]} before":  # behind the old one
                node.outputs[0] = other.inputs[0]
                every += [node, other]
            else:
                every.append(other)
        needed, kept = set(self.outputs), []
        for node in reversed(every):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                kept.append(node)
        return kept[::-1]

    @torch.inference_mode()
    def _folded(self, nodes: list[Node]) -> list[Node]:
        """Nodes that depend on inputs; the others are computed once."""
        left = []
        for node in nodes:
            if node.inputs and all(name in self.constants or not name for name in node.inputs):
                self._run(node, {}, self.constants)
            else:
                left.append(node)
        used = {name for node in left for name in node.inputs}
        self.constants = {name: self.constants[name] for name in self.constants if name in used}
        last: dict[str, int] = {}
        for index, node in enumerate(left):
            last |= {name: index for name in node.inputs if name and name not in self.constants}
        for name, index in last.items():
            if name not in self.outputs:
                left[index].last_uses.append(name)
        return left

    def _run(self, node: Node, known: Mapping[str, Tensor], into: dict[str, Tensor]) -> None:
        values = [
            None if not name else known[name] if name in known else self.constants[name]
            for name in node.inputs
        ]
        assert node.run is not None
        made = node.run(values, node.attributes)
        made = made if isinstance(made, list) else [made]
        into.update((name, value) for name, value in zip(node.outputs, made, strict=False) if name)

    @torch.inference_mode()
    def __call__(self, **inputs: Tensor) -> dict[str, Tensor]:
        """The wanted outputs; inputs by their names, on the device."""
        known: dict[str, Tensor] = dict(inputs)
        for node in self.nodes:
            self._run(node, known, known)
            for name in node.last_uses:
                known.pop(name, None)
        return {name: known[name] for name in self.outputs}
