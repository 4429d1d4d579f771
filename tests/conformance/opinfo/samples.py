"""torch's samples of arguments for each rule, written as calls."""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.conformance.examples import rules

DTYPES = (torch.float64, torch.int64, torch.bool, torch.complex128)
# Samples of one operation and dtype: torch has up to 1,200, which repeat each other. Floats carry the gradients.
MOST = {torch.float64: 12, torch.int64: 6, torch.bool: 4, torch.complex128: 12}

# Names under which torch's table has what a rule serves.
NAMES_IN_TABLE = {"torch.selu": "nn.functional.selu", "torch.relu": "nn.functional.relu"}
# Whose first argument torch's table has second.
SECOND_FIRST = ("torch.where", "torch.einsum", "torch.nn.functional.embedding", "torch.special.polygamma")
OPERATORS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "true_divide": "{} / {}", "floor_divide": "{} // {}",
    "remainder": "{} % {}", "pow": "{} ** {}", "matmul": "{} @ {}", "bitwise_and": "{} & {}", "bitwise_or": "{} | {}",
    "bitwise_xor": "{} ^ {}", "bitwise_left_shift": "{} << {}", "bitwise_right_shift": "{} >> {}", "eq": "{} == {}",
    "ne": "{} != {}", "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}", "__getitem__": "{}[{}]",
    "__radd__": "{1} + {0}", "__rsub__": "{1} - {0}", "__rmul__": "{1} * {0}", "__rdiv__": "{1} / {0}",
    "__rpow__": "{1} ** {0}", "__rmod__": "{1} % {0}", "neg": "-{}", "bitwise_not": "~{}",
}  # fmt: skip


@dataclass
class Sample:
    """A call as text, and the tensors that its names `x0`, `x1` … stand for."""

    text: str
    tensors: dict[str, torch.Tensor]
    dtype: torch.dtype
    op: Any = field(repr=False, default=None)

    @property
    def names(self) -> list[str]:
        return list(self.tensors)

    def differentiable(self) -> list[str]:
        return [name for name, tensor in self.tensors.items() if tensor.requires_grad]


class NoText(Exception):
    """An argument that no source text stands for."""


@functools.cache
def table() -> dict[str, list[Any]]:
    """torch's table by the name that follows `torch.` or `Tensor.`."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, list[Any]] = {}
    for op in op_db:
        for name in {op.name, *(alias.name for alias in op.aliases)}:
            found.setdefault(name, []).append(op)
    return found


def apis() -> dict[str, list[Any]]:
    """The API by which each rule is measured, and its entries in torch's table: of the names of a rule the functions
    first, since methods take the same arguments."""
    found = {}
    for rule in rules():
        for name in sorted(rule.names, key=lambda name: name.startswith("Tensor.")):
            entries = table().get(NAMES_IN_TABLE.get(name, name.partition(".")[2]))
            if entries:
                found[name] = entries
                break
    return dict(sorted(found.items()))


def operators() -> dict[str, list[Any]]:
    """Python's operators on tensors, by their place in torch's table."""
    return {f"Tensor.{name}": table()[name] for name in OPERATORS if name in table()}


def samples(api: str, entries: Sequence[Any], share: float = 1.0, template: str = "") -> Iterator[Sample]:
    """Samples of an API, of each dtype, evenly taken from all that torch has; `share` of the usual number."""
    for op in entries:
        for dtype in DTYPES:
            if not op.supports_dtype(dtype, "cpu") or (dtype.is_complex and op.supports_dtype(torch.float64, "cpu")):
                continue  # complex numbers where an operation is of them alone
            torch.manual_seed(0)
            random.seed(0)
            grad = dtype.is_floating_point and op.supports_autograd
            listed = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
            step = max(1, math.ceil(len(listed) / max(1, MOST[dtype] * share)))
            for given in itertools.islice(listed, 0, None, step):
                try:
                    made = _written(api, given, template)
                except NoText:
                    continue
                made.dtype, made.op = dtype, op
                yield made


def _written(api: str, given: Any, template: str) -> Sample:
    tensors: dict[str, torch.Tensor] = {}
    values = (given.input, *given.args)
    if api in SECOND_FIRST:
        values = (values[1], values[0], *values[2:])
    positional = [_text(value, tensors) for value in values]
    keywords = {name: _text(value, tensors) for name, value in given.kwargs.items()}
    if api.endswith("__getitem__") and isinstance(given.args[0], tuple):
        positional[1] = positional[1].strip("()") or "()"
    if template:
        if keywords or len(positional) != max(template.count("{"), 1):
            raise NoText
        return Sample(template.format(*positional), tensors, torch.float64)
    named = [f"{name}={text}" for name, text in keywords.items()]
    if api.startswith("Tensor."):
        receiver, *positional = positional
        return Sample(f"{receiver}.{api[7:]}({', '.join([*positional, *named])})", tensors, torch.float64)
    name = re.sub(r"^torch\.nn\.functional\.", "F.", api)
    return Sample(f"{name}({', '.join([*positional, *named])})", tensors, torch.float64)


def _text(value: Any, tensors: dict[str, torch.Tensor]) -> str:
    if isinstance(value, torch.Tensor):
        name = next((name for name, known in tensors.items() if known is value), f"x{len(tensors)}")
        tensors[name] = value
        return name
    if isinstance(value, torch.Size | tuple):
        return "(" + "".join(f"{_text(part, tensors)}, " for part in value) + ")" if value else "()"
    if isinstance(value, list):
        return "[" + ", ".join(_text(part, tensors) for part in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "torch.nan" if math.isnan(value) else "torch.inf" if value > 0 else "-torch.inf"
    if isinstance(value, slice):
        parts = ["" if part is None else _text(part, tensors) for part in (value.start, value.stop)]
        return ":".join(parts) + ("" if value.step is None else f":{value.step}")
    if value is Ellipsis:
        return "..."
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, torch.device):
        return f'"{value}"'
    if value is None or isinstance(value, bool | int | float | complex | str):
        return repr(value)
    raise NoText(type(value).__name__)
