"""Sizes of weights in constructors: `nn.Linear(n_dim, n_vocab)` behind `n_vocab, n_dim = self.embedding.weight.size()`.

Flax makes no weights in `setup`, which could be asked. The input is taken as if it said what the layer was given, and
as if what is called `embed_weight = self.embedding.weight` had no name of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import by_itself
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

# Layer -> its parameters, in order, and those that are the first axes of its weight.
_LAYERS = {
    "Linear": (("in_features", "out_features"), ("out_features", "in_features")),
    "Embedding": (("num_embeddings", "embedding_dim"), ("num_embeddings", "embedding_dim")),
    **{f"Conv{n}d": (("in_channels", "out_channels"), ("out_channels", "in_channels")) for n in (1, 2, 3)},
}


def with_sizes_of_weights(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such sizes in the place of questions about weights."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    constructors = {
        cls.name.value: method
        for cls in every(module, cst.ClassDef)
        for method in cls.body.body
        if isinstance(method, cst.FunctionDef) and method.name.value == "__init__"
    }
    for method in constructors.values():
        body = suites.suite_of(method.body.body)
        names = _weights_named(body)
        for line in body:
            if suites.name_and_value(line)[0] in names:
                edits.instead[line] = []
                continue
            _put_sizes(edits, line, _Made(method, constructors, names))
    return edits


def _weights_named(body: Sequence[cst.CSTNode]) -> dict[str, str]:
    """The variables of a constructor that stand for the weight of a layer, with its path."""
    times, found = Counter(usage.stores(body)), dict[str, str]()
    for line in body:
        name, value = suites.name_and_value(line)
        path = nodes.dotted(value) if value is not None else None
        if times[name] == 1 and path and path.startswith("self.") and path.count(".") > 1 and path.endswith(".weight"):
            found[name] = path
    return found


class _Made:
    """What a constructor has made, as it is written."""

    def __init__(
        self, method: cst.FunctionDef, constructors: Mapping[str, cst.FunctionDef], names: Mapping[str, str]
    ) -> None:
        self.method, self.constructors, self.names = method, constructors, names

    def path(self, node: Expr) -> str:
        """The path of a weight, whatever it is called."""
        path = (nodes.dotted(node) or "").removesuffix(".data")
        return self.names.get(path, path)

    def axes(self, weight: str) -> list[Expr]:
        """The lengths of the first axes of a weight, where they are written as what keeps its value."""
        layer, values = self.call_of(weight.removeprefix("self.").split(".")[:-1], self.method, {})
        if layer is None:
            return []
        parameters, axes = _LAYERS[(nodes.dotted(layer.func) or "").rpartition(".")[2]]
        names = argument_names(layer.args, parameters)
        given = {name: arg.value for name, arg in zip(names, layer.args, strict=True)}
        if "groups" in given or not all(axis in given for axis in axes):
            return []
        return [nodes.parenthesized(nodes.substituted(given[axis], values).deep_clone()) for axis in axes]

    def call_of(
        self, keys: Sequence[str], method: cst.FunctionDef, values: Mapping[str, Expr]
    ) -> tuple[cst.Call | None, Mapping[str, Expr]]:
        """The call that makes the layer of a path, and what the parameters stand for where it is written."""
        made = [
            small.value
            for line in suites.suite_of(method.body.body)
            if isinstance(small := suites.alone(line), cst.Assign)
            and len(small.targets) == 1
            and nodes.dotted(small.targets[0].target) == f"self.{keys[0]}"
        ]
        sets = usage.attributes_assigned(method.body).count(keys[0]) if keys else 0
        call = made[0] if len(made) == sets == 1 else None
        if not isinstance(call, cst.Call) or not _is_steady(call, method):
            return None, {}
        name = (nodes.dotted(call.func) or "").rpartition(".")[2]
        if len(keys) == 1:
            return (call if name in _LAYERS else None), values
        inner = self.constructors.get(name)
        if inner is None or inner.params.star_kwarg or isinstance(inner.params.star_arg, cst.Param):
            return None, {}
        parameters = [one.name.value for one in inner.params.params[1:]]
        names = argument_names(call.args, parameters)
        if set(parameters) - set(names) or "" in names:
            return None, {}
        bound = {n: nodes.substituted(arg.value, values) for n, arg in zip(names, call.args, strict=True)}
        return self.call_of(keys[1:], inner, bound)


def _is_steady(call: cst.Call, method: cst.FunctionDef) -> bool:
    """Whether the arguments of a call are what keeps its value in a constructor: numbers, and names bound once."""
    times = Counter(usage.stores(method.body))
    parameters = {one.name.value for one in every(method.params, cst.Param)}
    given = [arg.value for arg in call.args]
    if any(arg.star for arg in call.args) or any(usage.calls(one) or usage.attributes(one) for one in given):
        return False
    return all(times[name] <= (0 if name in parameters else 1) for one in given for name in usage.loads(one))


def _put_sizes(edits: Edits, line: cst.CSTNode, made: _Made) -> None:
    """Notes what stands for the sizes, and the weights, that a statement names."""
    inside = set[cst.CSTNode]()
    own = {one for name in made.names for one in by_itself(line, name)}
    for node in every(line, (cst.Subscript, cst.Call, cst.Attribute, cst.Name)):
        if node in inside:
            continue
        sizes = _sizes(node, made)
        if sizes is None and node in own and isinstance(node, cst.Name):
            sizes = nodes.expression(made.names[node.value])
        if sizes is not None:
            small = suites.alone(line)
            bare = isinstance(sizes, cst.Tuple) and isinstance(small, cst.Assign) and small.value is node
            edits.parts[node] = sizes.with_changes(lpar=[], rpar=[]) if bare else sizes
            inside |= set(every(node, cst.CSTNode))


def _sizes(node: Expr, made: _Made) -> Expr | None:
    """What stands for `weight.size()`, `weight.shape`, `weight.size(0)` or `weight.shape[0]`; None for others."""
    axis: object = None
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        axis, node = nodes.literal(node.slice[0].slice.value), node.value
    if isinstance(node, cst.Call) and len(node.args) <= 1 and (nodes.dotted(node.func) or "").endswith(".size"):
        axis, node = nodes.literal(node.args[0].value) if node.args else axis, node.func
    if not isinstance(node, cst.Attribute) or node.attr.value not in ("size", "shape"):
        return None
    weight = made.path(node.value)
    what = weight.rpartition(".")[2]
    if not weight.startswith("self.") or weight.count(".") < 2 or what not in ("weight", "bias"):
        return None
    axes = made.axes(weight) if what == "weight" else made.axes(weight)[:1]
    if isinstance(axis, int) and axes:
        return axes[axis] if 0 <= axis < len(axes) else None
    layer, _ = made.call_of(weight.split(".")[1:-1], made.method, {})
    whole = what == "bias" or (layer is not None and "Conv" not in nodes.code(layer.func))
    return nodes.tuple_of(axes) if axis is None and axes and whole else None
