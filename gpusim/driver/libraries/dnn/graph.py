"""Descriptors of cuDNN's backend interface, and the convolution that a graph of operations is.

Numbers are those of cudnn_graph.h, version 9.24. A graph that is supported has one convolution, forward or for the
gradient of its data or its filter; behind a forward one, operations on elements may add a bias, add a tensor laid out
as the result, and apply ReLU.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any

from gpusim.driver.attributes import compute_capability
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.libraries.blas import state
from gpusim.driver.state import Driver

# cudnnBackendDescriptorType_t
ENGINE, ENGINE_CONFIG, HEURISTICS, PLAN, FORWARD, FILTER, DATA, POINTWISE = 2, 3, 4, 5, 10, 11, 12, 13
DESCRIPTOR = 15  # cudnnBackendAttributeType_t
# cudnnBackendAttributeName_t
RESULTS, WORKSPACE_BYTES, UNIQUE_IDS, POINTERS, WORKSPACE = 202, 402, 1000, 1001, 1003
_MODE, _DILATIONS, _STRIDES, _POST, _PRE = 101, 102, 103, 104, 105
_HEURISTICS_GRAPH, _CONFIG, _ENGINE, _OPERATIONS = 201, 401, 300, 801
_ENGINE_GRAPH, _ENGINE_NUMBER, _NOTES = 1300, 1301, 1303
_OPERATOR, _LOWER_CLIP, _UPPER_CLIP, _SLOPE = 0, 3, 4, 5
_POINTWISE, _X, _B, _Y, _ALPHA1, _ALPHA2 = 750, 751, 752, 753, 754, 755
_ALIGNMENT, _TYPE, _SIZES, _STEPS, _VECTOR, _NUMBER, _BY_VALUE = 900, 901, 902, 903, 904, 906, 908
_OF_CONVOLUTION = {FORWARD: range(700, 706), DATA: range(706, 712), FILTER: range(712, 718)}
"""Attributes of an operation: alpha, beta, the convolution, and the tensors at w, x and y or their gradients."""
_ADD, _RELU = 0, 100  # cudnnPointwiseMode_t
TYPES = {0: ("f32", 4), 1: ("f64", 8), 2: ("f16", 2), 9: ("bf16", 2)}
"""Name in `types.cuh` and bytes of a number, by cudnnDataType_t."""
TENSOR_CORES, MULTIPLY_ADDS = 0, 1
"""Engines by their numbers. The first rounds floats to tf32."""
_TENSOR_CORE_NOTE = struct.pack("<i", 0)  # CUDNN_NUMERICAL_NOTE_TENSOR_CORE


@dataclass
class BackendDescriptor(state.Descriptor):
    """kind: cudnnBackendDescriptorType_t. parts: descriptors by the attribute that they are. final: finalized."""

    kind: int = 0
    parts: dict[int, list[BackendDescriptor]] = field(default_factory=dict)
    final: bool = False

    def numbers(self, attribute: int) -> tuple[int, ...]:
        """Integers of 64 bits."""
        value = self.attributes.get(attribute, b"")
        return struct.unpack(f"<{len(value) // 8}q", value)

    def scalar(self, attribute: int, default: float) -> float:
        """A float or a double."""
        value = self.attributes.get(attribute)
        return default if value is None else float(struct.unpack("<f" if len(value) == 4 else "<d", value)[0])

    def part(self, attribute: int) -> BackendDescriptor:
        """The one descriptor of an attribute. Raises INVALID_VALUE."""
        found = self.parts.get(attribute, [])
        fail_if(len(found) != 1, ResultCode.INVALID_VALUE)
        return found[0]


@dataclass(frozen=True)
class Tensor:
    """uid: by which addresses are given. sizes, steps: of batch, channels and each dimension of space, in elements.
    alignment: of its address, in bytes."""

    uid: int
    kind: int
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    alignment: int = 16


@dataclass(frozen=True)
class Convolution:
    """role: FORWARD (y is the result), DATA (x is) or FILTER (w is). w: sizes and steps of channels of y, channels of x
    in a group, and each dimension of space. result: where it is put, laid out as y, x or w. The result is
    relu(alpha * sums + beta * added + bias)."""

    role: int
    x: Tensor
    w: Tensor
    y: Tensor
    result: Tensor
    padding: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    alpha: float = 1
    beta: float = 0
    added: Tensor | None = None
    bias: Tensor | None = None
    relu: bool = False

    @property
    def groups(self) -> int:
        return self.x.sizes[1] // self.w.sizes[1]


def unsupported(reason: str) -> DriverError:
    """The answer to a graph that no engine does."""
    return DriverError(ResultCode.NOT_SUPPORTED, f"the stand-in for cuDNN does not support {reason}")


def engine_configs(driver: Driver, heuristics: BackendDescriptor) -> list[BackendDescriptor]:
    """Configurations of the engines that do a graph, the fastest first. Raises INVALID_VALUE, NOT_SUPPORTED."""
    graph = heuristics.part(_HEURISTICS_GRAPH)
    what = _of_graph(graph)
    tensor = compute_capability(driver.config) >= (8, 0) and TYPES[what.x.kind][0] != "f64"
    engines = [TENSOR_CORES] * tensor + [MULTIPLY_ADDS] * (not tensor or TYPES[what.x.kind][0] == "f32")
    found = []
    for number in engines:
        notes = _TENSOR_CORE_NOTE if number == TENSOR_CORES else b""
        values = {_ENGINE_NUMBER: struct.pack("<q", number), _NOTES: notes}
        engine = BackendDescriptor(values, ENGINE, {_ENGINE_GRAPH: [graph]}, True)
        found.append(BackendDescriptor({}, ENGINE_CONFIG, {_ENGINE: [engine]}, True))
    return found


def engine_of(plan: BackendDescriptor) -> int:
    """Number of a plan's engine."""
    return plan.part(_CONFIG).part(_ENGINE).number(_ENGINE_NUMBER)


def convolution(plan: BackendDescriptor) -> Convolution:
    """What a plan does. Raises INVALID_VALUE, NOT_SUPPORTED."""
    return _of_graph(plan.part(_CONFIG).part(_ENGINE).part(_ENGINE_GRAPH))


def _of_graph(graph: BackendDescriptor) -> Convolution:
    operations = graph.parts.get(_OPERATIONS, [])
    fail_if(not operations, ResultCode.INVALID_VALUE)
    first, *rest = operations
    if first.kind not in _OF_CONVOLUTION:
        raise unsupported("graphs that do not begin with a convolution")
    what = _of_operation(first)
    for each in rest:
        what = _followed_by(what, each)
    return what


def _of_operation(of: BackendDescriptor) -> Convolution:
    alpha, beta, how, *tensors = _OF_CONVOLUTION[of.kind]
    parts = [_tensor(of.part(each)) for each in tensors]
    w, x, y = parts
    how_made = of.part(how)
    before, strides, dilations = lists = [how_made.numbers(each) for each in (_PRE, _STRIDES, _DILATIONS)]
    dimensions = len(x.sizes) - 2
    fail_if(not dimensions >= 1 or {len(each) for each in lists} != {dimensions}, ResultCode.INVALID_VALUE)
    if dimensions > 3 or how_made.number(_MODE) != 1:  # CUDNN_CROSS_CORRELATION
        raise unsupported("convolutions in more than three dimensions, or with flipped filters")
    if len({each.kind for each in parts}) > 1 or x.kind not in TYPES:
        raise unsupported("convolutions of types other than float, double, half and bfloat16, or of several")
    groups, left = divmod(x.sizes[1], w.sizes[1])
    wrong = left or y.sizes[1] != w.sizes[0] or w.sizes[0] % groups or x.sizes[0] != y.sizes[0]
    post = how_made.numbers(_POST) or before
    for extent, taps, first, after, stride, dilation, out in zip(
        x.sizes[2:], w.sizes[2:], before, post, strides, dilations, y.sizes[2:], strict=True
    ):
        wrong = wrong or out != (extent + first + after - dilation * (taps - 1) - 1) // stride + 1
    fail_if(wrong, ResultCode.INVALID_VALUE)
    result = {FORWARD: y, DATA: x, FILTER: w}[of.kind]
    given = before, strides, dilations, of.scalar(alpha, 1), of.scalar(beta, 0)
    return Convolution(of.kind, x, w, y, result, *given)


def _followed_by(what: Convolution, operation: BackendDescriptor) -> Convolution:
    """The convolution with an operation on elements behind it."""
    fits = operation.kind == POINTWISE and what.role == FORWARD and not what.relu
    if not fits or _tensor(operation.part(_X)).uid != what.result.uid:
        raise unsupported("graphs of a convolution with other operations than bias, sum and ReLU behind it")
    mode, result = operation.part(_POINTWISE), _tensor(operation.part(_Y))
    of_sums, of_added = operation.scalar(_ALPHA1, 1), operation.scalar(_ALPHA2, 1)
    if result.steps != what.y.steps or result.kind != what.x.kind:
        raise unsupported("results of operations behind a convolution in another layout or type")
    plain = mode.scalar(_LOWER_CLIP, 0) == 0 and mode.scalar(_SLOPE, 0) == 0 and mode.scalar(_UPPER_CLIP, 3e38) >= 3e38
    if mode.number(_OPERATOR) == _RELU and plain:
        return replace(what, result=result, relu=True)
    if mode.number(_OPERATOR) != _ADD or of_sums != 1:
        raise unsupported("operations behind a convolution other than bias, sum and ReLU")
    other = _tensor(operation.part(_B))
    if other.kind != what.x.kind:
        raise unsupported("a bias or sum in another type")
    if other.sizes == what.y.sizes and other.steps == what.y.steps and what.added is None and what.beta == 0:
        return replace(what, result=result, added=other, beta=of_added)
    per_channel = all(size == (what.y.sizes[1] if number == 1 else 1) for number, size in enumerate(other.sizes))
    if not per_channel or other.steps[1] != 1 or what.bias is not None or of_added != 1:
        raise unsupported("a sum behind a convolution that is neither a bias nor laid out as the result")
    return replace(what, result=result, bias=other)


def _tensor(of: BackendDescriptor) -> Tensor:
    sizes, steps = of.numbers(_SIZES), of.numbers(_STEPS)
    fail_if(len(sizes) != len(steps) or len(sizes) < 3 or min(sizes) < 1, ResultCode.INVALID_VALUE)
    vector: Any = of.numbers(_VECTOR) or (1,)
    span = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    if vector[0] != 1 or of.attributes.get(_BY_VALUE, b"\0") != b"\0" or span >= 1 << 31:
        raise unsupported("vectorized tensors, tensors by value, or tensors of 2^31 elements or more")
    return Tensor(of.number(_NUMBER), of.number(_TYPE), sizes, steps, (of.numbers(_ALIGNMENT) or (16,))[0])
