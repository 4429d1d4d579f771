"""The tensor types of torch before 0.4: `torch.cuda.FloatTensor` as a constructor, a dtype, and under another name."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import SHAPE, UNKNOWN, Host, Items, Kind, Number, Tensor
from migrate.known.listed_numbers import with_numbers
from migrate.lowering.expressions.arguments import Arguments
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

TENSOR_TYPES = {
    "Tensor": "jnp.float32",
    "FloatTensor": "jnp.float32",
    "DoubleTensor": "jnp.float64",
    "HalfTensor": "jnp.float16",
    "BFloat16Tensor": "jnp.bfloat16",
    "LongTensor": "jnp.int32",
    "IntTensor": "jnp.int32",
    "ShortTensor": "jnp.int16",
    "CharTensor": "jnp.int8",
    "ByteTensor": "jnp.uint8",
    "BoolTensor": "jnp.bool_",
}
# Methods that arrays of numpy's have, and numbers do not.
_OF_ARRAYS = ("astype", "reshape", "flatten", "ravel", "squeeze", "transpose", "swapaxes", "tolist")


def tensor_type(name: str) -> str:
    """The type that a torch name stands for, wherever its tensors live: "FloatTensor"; "" for other names."""
    short = name.removeprefix("torch.").removeprefix("cuda.")
    return short if name.startswith("torch.") and short in TENSOR_TYPES else ""


class TypedTensors(Arguments):
    """Constructors by the name of a type, and annotations."""

    def in_jax(self, annotation: cst.Annotation) -> cst.Annotation:
        """An annotation that names types of torch's, with those that stand for them."""
        return nodes.visited(annotation, _Types(self)) if self.mentions_torch(annotation) else annotation

    def is_data(self, node: cst.BaseExpression, kind: Kind) -> bool:
        """Whether the only argument is data: an array, a list, what numpy returns."""
        if isinstance(kind, Items | Tensor | Host):
            return True
        if isinstance(node, cst.Name):
            defined = self.env.definitions.get(node.value)
            return defined is not None and not isinstance(defined, cst.Name) and self.is_data(defined, UNKNOWN)
        if isinstance(node, cst.Subscript):  # what has slices is no number; an entry of such an array is a float
            if any(isinstance(element.slice, cst.Slice) for element in node.slice):
                return True
            made = node.value.func if isinstance(node.value, cst.Call) else None
            text = "" if made is None else nodes.code(node.value)
            return made is not None and nodes.dotted(made) in _FLOATS and "dtype" not in text
        if not isinstance(node, cst.Call):
            return False
        converted = isinstance(node.func, cst.Attribute) and node.func.attr.value in _OF_ARRAYS
        return converted or (nodes.dotted(node.func) or "").startswith(("np.", "numpy."))

    def typed_tensor(self, name: str, node: cst.Call) -> Value:
        """`FloatTensor(data)` converts, `FloatTensor(2, 3)` is of that size, here with zeros: torch takes
        several arguments as sizes only."""
        dtype = TENSOR_TYPES[tensor_type(name)]
        kind = Tensor(_family(dtype))
        node = node.with_changes(
            args=[arg for arg in node.args if arg.keyword is None or arg.keyword.value != "device"]
        )
        values = [self.expr(arg.value) for arg in node.args]
        for value in values:
            self.use(node, value)
        given = [value.node for value in values]
        plain = [(arg.value, value.kind) for arg, value in zip(node.args, values, strict=True) if not arg.star]
        starred = len(plain) < len(values)
        several = len(plain) > 1 and not any(arg.keyword for arg in node.args)
        if several or (plain and all(isinstance(kind, Number) or _is_length(each) for each, kind in plain)):
            for arg in node.args:
                if not arg.star:
                    self.note_type(arg.value, "int")
                    self.found_number(arg.value)
            size = _size(node.args, given)
            return Value(nodes.call("jnp.zeros", size, nodes.expression(dtype)), kind)
        if not values:
            return Value(nodes.call("jnp.zeros", cst.Integer("0"), nodes.expression(dtype)), kind)
        if len(values) > 1 or starred:
            raise Unsupported("MIG302", f"{name}: {nodes.code(node.args[0].value)} may be data or a size")
        if isinstance(values[0].kind, Items) and values[0].kind.type == SHAPE:
            return Value(nodes.call("jnp.zeros", given[0], nodes.expression(dtype)), kind)
        if not self.is_data(node.args[0].value, values[0].kind):
            self.unit.use_snippet("array_or_zeros")
            return Value(nodes.call("array_or_zeros", given[0], nodes.expression(dtype)), kind)
        data = with_numbers(given[0], values[0].kind) if isinstance(values[0].kind, Items) else given[0]
        data = self.with_numbers_of_unknown(data, values[0].kind)
        return Value(nodes.call("jnp.asarray", data, nodes.expression(dtype)), kind)

    def found_number(self, node: cst.BaseExpression) -> None:
        """From here on a name of which nothing was known is a number: it was taken for one side of a shape."""
        if isinstance(node, cst.Name) and self.env.kinds.get(node.value) is UNKNOWN:
            self.env.kinds[node.value] = Number()


def _is_length(node: Expr) -> bool:
    """Whether an expression is a number whatever it is of: `x.shape[0]`, `len(x)`."""
    if isinstance(node, cst.Call):
        return nodes.dotted(node.func) == "len"
    shape = node.value if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index) else None
    return isinstance(shape, cst.Attribute) and shape.attr.value == "shape"


def _size(args: Sequence[cst.Arg], given: Sequence[Expr]) -> cst.Tuple:
    """The sides of a shape, some of them together: `Tensor(n, *shape)`."""
    return cst.Tuple(
        [(cst.StarredElement if arg.star else cst.Element)(one) for arg, one in zip(args, given, strict=True)]
    )


_FLOATS = frozenset(
    f"{package}.{name}"
    for package in ("np", "numpy")
    for name in ("eye", "identity", "zeros", "ones", "linspace", "random.rand", "random.randn", "random.normal")
)


def _family(dtype: str) -> str:
    return "float" if "float" in dtype else "bool" if "bool" in dtype else "int"


# What stands for torch's types in annotations, by how their names begin; the first that fits.
_STANDING_FOR = {
    "torch.optim.lr_scheduler.": "optax.Schedule",
    "torch.optim.": "optax.GradientTransformation",
    "torch.device": "jax.Device",
    "torch.dtype": "jnp.dtype",
    "torch.Size": "tuple",
    "torch.nn.Parameter": "jax.Array",
    "torch.nn.": "nn.Module",
}


def _type_for(name: str) -> str | None:
    """The type that stands for one of torch's; None for other names."""
    if tensor_type(name):
        return "jax.Array"
    return next((made for start, made in _STANDING_FOR.items() if name.startswith(start)), None)


class _Types(cst.CSTTransformer):
    """Puts other types in the place of torch's."""

    def __init__(self, scope: TypedTensors) -> None:
        super().__init__()
        self.scope = scope

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return self._type(original_node, updated_node)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._type(original_node, updated_node)

    def _type(self, written: cst.BaseExpression, made: cst.BaseExpression) -> cst.BaseExpression:
        found = _type_for(self.scope.torch_name(written) or "")
        return nodes.expression(found) if found is not None else made
