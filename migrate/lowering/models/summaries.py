"""Tables of a model's layers, which other packages print of torch's modules: Flax's own, `model.tabulate(key, x)`.

`summary(model, (3, 32, 32))` of torchsummary and `summary(model, input_size=(1, 3, 32, 32))` of torchinfo. What
they are told of how the table looks is left out.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import Model, Module, Tensor
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.models.called_parts import CalledParts
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.imported import full_name
from migrate.syntax.nodes import Expr

# Package -> the parameters of its `summary`, in order.
_SUMMARIES = {
    "torchsummary": ("model", "input_size", "batch_size", "device"),
    "torchinfo": ("model", "input_size", "input_data", "batch_dim"),
}
PACKAGES = frozenset(_SUMMARIES)
_TYPES = {"torch.long": "int", "torch.int64": "int", "torch.int": "int", "torch.int32": "int", "torch.float": ""}


class Summaries(CalledParts):
    """Calls of `summary`."""

    def summary_call(self, node: Expr) -> Expr | None:
        """`model.tabulate(jax.random.key(0), jnp.zeros((1, 3, 32, 32)))`; None for other expressions."""
        package = self._summarising(node)
        if package is None or not isinstance(node, cst.Call):
            return None
        names = argument_names(node.args, _SUMMARIES[package])
        given = {name: arg.value for name, arg in zip(names, node.args, strict=True) if name}
        whole = given.get("model")
        part = self._part_of_model(whole)
        whole = whole.value if part is not None and isinstance(whole, cst.Attribute) else whole
        model = self.expr(whole) if whole is not None else None
        if model is None or not isinstance(model.kind, Model):
            return None
        inputs = self._inputs(package, given)
        if model.kind.place is not None and part is None:
            by_size = "input_data" not in given and not usage.loads(given["input_size"])
            self.script.tabulated[model.kind.place] = inputs if by_size else []
        key = nodes.expression("jax.random.key(0)")
        if "sample" in self.script.draws(model.kind.cls):
            key = nodes.dict_of([("params", key), ("sample", key)])
        table = nodes.expression("{model}.tabulate", model=model.node)
        called = {} if part is None else {"method": self._as_method(*part, inputs)}
        return cst.Call(table, nodes.arguments([key, *inputs], called))

    def _part_of_model(self, node: Expr | None) -> tuple[cst.Name, Module] | None:
        """The name and the module of `model.encoder`; None of what is no part."""
        model = self.kind_of(node.value) if isinstance(node, cst.Attribute) else None
        if not isinstance(node, cst.Attribute) or not isinstance(model, Model):
            return None
        part = self.part_at(model, node.attr.value)
        return None if part is None else (self.name_of_part(model, node.attr.value), part)

    def _as_method(self, name: cst.Name, part: Module, inputs: list[Expr]) -> Expr:
        """`lambda model, x: model.encoder(x)`, with the axes where the part wants them."""
        size = inputs[0].args[0].value if len(inputs) == 1 and isinstance(inputs[0], cst.Call) else None
        if not isinstance(size, cst.Tuple):
            raise Unsupported("MIG302", f"a summary of {name.value}, of no input of one size")
        inner = self.inner({"x": Tensor("float", len(size.elements))})
        node = nodes.call(name, nodes.name("x"))
        made = inner.layer_call(node, Value(cst.Attribute(nodes.name("model"), name), part), part)
        return nodes.expression("lambda model, x: {made}", made=layouts.first(made))

    def printed_summary(self, node: Expr) -> Expr | None:
        """A call whose result nobody takes: it prints."""
        table = self.summary_call(node)
        return None if table is None else nodes.expression("print({table})", table=table)

    def _summarising(self, node: Expr) -> str | None:
        """The package whose `summary` is called."""
        name = full_name(node.func, self.unit.imported) if isinstance(node, cst.Call) else ""
        package, _, function = name.partition(".")
        return package if package in PACKAGES and function == "summary" else None

    def _inputs(self, package: str, given: dict[str, Expr]) -> list[Expr]:
        """What the model is called with."""
        if "input_data" in given:
            return [self.array(one).node for one in _several(given["input_data"], lambda one: True)]
        if "input_size" not in given:
            raise Unsupported("MIG302", f"{package}.summary without the size of its input")
        sizes = _several(given["input_size"], lambda one: isinstance(one, cst.Tuple | cst.List))
        listed = given.get("dtypes")
        types = nodes.elements(listed) if isinstance(listed, cst.List | cst.Tuple) else []
        made = []
        for i, size in enumerate(sizes):
            shape = self.node(size)
            if package == "torchsummary":
                shape = _of_one_row(shape)
            known = _TYPES.get(self.torch_name(types[i]) or "") if i < len(types) else ""
            if known is None:
                raise Unsupported("MIG302", f"{package}.summary with a type of its input that is not known")
            made.append(nodes.expression("jnp.zeros({shape}" + (f", {known})" if known else ")"), shape=shape))
        return made


def _several(node: Expr, one_of_several: Callable[[Expr], bool]) -> list[Expr]:
    """The elements of a list of inputs; one input as it is."""
    if isinstance(node, cst.Tuple | cst.List) and all(map(one_of_several, nodes.elements(node))):
        return nodes.elements(node)
    return [node]


def _of_one_row(shape: Expr) -> Expr:
    """The size of a batch of one row."""
    if isinstance(shape, cst.Tuple | cst.List):
        return nodes.tuple_of([cst.Integer("1"), *nodes.elements(shape)])
    return nodes.expression("(1, *{shape})", shape=shape)
