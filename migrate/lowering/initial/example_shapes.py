"""Example inputs told by the model alone.

The weights of convolutions and of norms over channels are the same for images of every size: where a model has no
others, zeros with the channels that its first convolution takes are an example. A model of tokens takes one token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.known.constructed import ClassNode, LayerNode
from migrate.known.kinds import ModuleClass, Tensor
from migrate.known.script import layers_in
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.expressions.elements import module_at, only_option
from migrate.lowering.models.needed_inputs import needed_by
from migrate.lowering.modules import constructors
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_CONVOLUTIONS = {f"torch.nn.Conv{rank}d": rank for rank in (1, 2, 3)}
_DENSE = ("torch.nn.Linear", "torch.nn.LayerNorm", "torch.nn.RMSNorm", "torch.nn.PReLU")
# Layers that tell what a model takes: the axes beside the channels or features, and the argument that says how many.
_FIRST = {
    **{name: (rank, "in_channels") for name, rank in _CONVOLUTIONS.items()},
    "torch.nn.Linear": (0, "in_features"),
}
_OF_ANY_SIZE = (
    *_CONVOLUTIONS,
    *(f"torch.nn.{name}{rank}d" for name in ("ConvTranspose", "BatchNorm", "InstanceNorm") for rank in (1, 2, 3)),
    "torch.nn.GroupNorm",
    "torch.nn.PReLU",
)
_POOLING = tuple(f"torch.nn.Adaptive{kind}Pool{rank}d" for kind in ("Avg", "Max") for rank in (1, 2, 3))
_POOLING_FUNCTIONS = ("torch.nn.functional.adaptive_avg_pool", "torch.nn.functional.adaptive_max_pool")
_OF_IMAGES = ({2, 3}, {-2, -1})  # the axes of their rows and columns
_JOINING = ("torch.cat", "torch.concat", "torch.concatenate", "torch.hstack")
_SIZE = 64  # along each axis: a power of two that five halvings leave something of

_Bound = Mapping[str, Expr]


class ExampleShapes(Binding):
    """What a model takes, read off its classes."""

    def example_of_zeros(self, cls: str, made: Expr, pooled: bool = False) -> list[Expr]:
        """`jnp.zeros((1, 3, 64, 64))` for a model that `made` makes; nothing where its weights go by the size of its
        input, or where that cannot be told. `pooled`: dense layers in a model that pools to a fixed size are taken to
        come after that; Flax refuses the others as soon as they meet a real input."""
        found = self._first_layer(cls, made) if self._takes_any_size(cls, pooled) else None
        if found is None or found[0] == 0:
            return []
        rank, channels = found
        size = [cst.Integer(str(_SIZE))] * rank
        return [nodes.call("jnp.zeros", nodes.tuple_of([cst.Integer("1"), channels, *size]))]

    def example_of_features(self, cls: str, made: Expr) -> list[Expr]:
        """`jnp.zeros((1, 784))` for a model of dense layers that `made` makes; nothing for other models. One that joins
        its inputs first takes the features of each that its first layer adds up: `nn.Linear(states + actions, 64)`."""
        if not self._weights_are_of(cls, _DENSE):
            return []
        found = self._first_layer(cls, made)
        sizes = [found[1]] if found is not None else self._features_of_inputs(cls, made) or self._features_inline(cls)
        return [nodes.call("jnp.zeros", nodes.tuple_of([cst.Integer("1"), size])) for size in sizes]

    def features_of_method(self, cls: str, method: str, made: Expr) -> Expr | None:
        """How many features a method of a model of dense layers takes that `made` makes."""
        bound = self._bound_of_dense(cls, made)
        return None if bound is None else self._features(self._taken_by_method(cls, bound, method))

    def features_of_part(self, cls: str, part: str, made: Expr) -> Expr | None:
        """How many features a part of a model of dense layers takes that `made` makes."""
        bound, init = self._bound_of_dense(cls, made), self.script.classes[cls].method("__init__")
        layer = constructors.given_once(init, f"self.{part}") if init is not None else None
        return None if bound is None or layer is None else self._features(self._taken_by(cls, layer, bound))

    def _bound_of_dense(self, cls: str, made: Expr) -> _Bound | None:
        """The arguments of the constructor of a model of dense layers that `made` makes; None of other models."""
        direct = isinstance(made, cst.Call) and isinstance(self.kind_of(made.func), ModuleClass)
        if not direct or not isinstance(made, cst.Call) or not self._weights_are_of(cls, _DENSE):
            return None
        return self._given_to_constructor(cls, made.args, {})

    def _features(self, taken: tuple[int, Expr] | None) -> Expr | None:
        """The features that a layer takes which looks at the last axis alone, where they are known here."""
        return taken[1] if taken is not None and taken[0] == 0 and self.available(taken[1]) else None

    def _features_inline(self, cls: str) -> list[Expr]:
        """The features that a model without a class takes, where its first layer with weights says them in numbers."""
        held = self.script.classes[cls].children.get("")
        layers = [layer for layer in layers_in(held) if layer.weights] if held is not None else []
        weight = next(iter(layers[0].weights), None) if layers and layers[0].torch == "torch.nn.Linear" else None
        size = weight.shape[0] if weight is not None and weight.shape else None
        return [] if size is None else [cst.Integer(str(size))]

    def _features_of_inputs(self, cls: str, made: Expr) -> list[Expr]:
        """The features of each input of a model that takes several: of one that joins them first, or that has a layer
        for each."""
        forward = self.script.classes[cls].method("forward")
        needed = needed_by(forward)
        direct = isinstance(made, cst.Call) and isinstance(self.kind_of(made.func), ModuleClass)
        if forward is None or len(needed) < 2 or not direct or not isinstance(made, cst.Call):
            return []
        bound = self._given_to_constructor(cls, made.args, {})
        found = [
            self._taken_as(cls, bound, forward, name) or self._joined_later(cls, bound, forward, name)
            for name in needed
        ]
        sizes = [one[1] for one in found if one is not None and one[0] == 0 and self.available(one[1])]
        return sizes if len(sizes) == len(needed) else self._joined_features(cls, made)

    def _joined_features(self, cls: str, made: Expr) -> list[Expr]:
        """The features of each input of a model that calls its first layer with `torch.cat` of all of them."""
        forward = self.script.classes[cls].method("forward")
        needed = needed_by(forward)
        given = isinstance(made, cst.Call) and isinstance(self.kind_of(made.func), ModuleClass)
        init = self.script.classes[cls].method("__init__")
        if forward is None or init is None or len(needed) < 2 or not isinstance(made, cst.Call) or not given:
            return []
        joined = {""}  # how the concatenation is written, and the name that it has
        for statement in suites.suite_of(forward.body.body):
            whole = [nodes.code(call) for call in usage.calls(statement) if self._joins(cls, call, needed)]
            joined |= {*whole, *(usage.stores(statement) if whole else ())}
            for call in usage.calls(statement):
                path = nodes.dotted(call.func) or ""
                if path.startswith("self.") and [nodes.code(arg.value) in joined for arg in call.args] == [True]:
                    layer = constructors.given_once(init, path)
                    bound = self._given_to_constructor(cls, made.args, {})
                    found = None if layer is None else self._taken_by(cls, layer, bound)
                    sizes = _terms(found[1]) if found is not None else []
                    fitting = len(sizes) == len(needed) and all(map(self.available, sizes))
                    return sizes if fitting else []
        return []

    def _joined_later(self, cls: str, bound: _Bound, forward: cst.FunctionDef, name: str) -> tuple[int, Expr] | None:
        """The features of an input that joins what a layer has made of another one: in `self.second(torch.cat([hidden,
        actions], 1))`, or of `x = torch.cat([hidden, actions], 1)`, what `nn.Linear(400 + actions, 300)` takes beside
        the 400 that the first layer returns."""
        init = self.script.classes[cls].method("__init__")
        if init is None:
            return None
        made: dict[str, Expr] = {}  # name -> how many features the layer returns that it was made with
        named: dict[str, Expr] = {}  # the same of what is joined with the input under a name
        for statement in suites.suite_of(forward.body.body):
            target, value = suites.name_and_value(statement)
            beside = self._beside(cls, value, made, name)
            if beside is not None:
                named[target] = beside
            for call in usage.calls(statement):
                path = nodes.dotted(call.func) or ""
                layer = constructors.given_once(init, path) if path.startswith("self.") else None
                if layer is None:
                    continue
                joined = call.args[0].value if len(call.args) == 1 else None
                known = (
                    named.get(joined.value) if isinstance(joined, cst.Name) else self._beside(cls, joined, made, name)
                )
                taken = self._taken_by(cls, layer, bound) if known is not None else None
                if known is not None and taken is not None:
                    return self._left_of(taken[1], known)
                made |= dict.fromkeys(usage.stores(statement), self._features_made(cls, layer, bound))
        return None

    def _beside(self, cls: str, node: Expr | None, made: Mapping[str, Expr], name: str) -> Expr | None:
        """How many features are beside a name in `torch.cat` of it and of what a layer has made, in either order."""
        if not isinstance(node, cst.Call):
            return None
        joined = [one for one in made if self._joins(cls, node, [one, name]) or self._joins(cls, node, [name, one])]
        return made[joined[0]] if joined else None

    @staticmethod
    def _left_of(total: Expr, known: Expr) -> tuple[int, Expr] | None:
        """What a sum of two terms has beside one of them."""
        terms = _terms(total)
        left = [one for one in terms if nodes.code(one) != nodes.code(known)]
        return (0, left[0]) if len(terms) == 2 and len(left) == 1 else None

    def _features_made(self, cls: str, layer: Expr, bound: _Bound) -> Expr:
        """How many features a dense layer returns that an expression of a constructor makes; `...` of other layers."""
        if not isinstance(layer, cst.Call) or self.in_file_of(cls).torch_name(layer.func) != "torch.nn.Linear":
            return cst.Ellipsis()
        names = argument_names(layer.args, ["in_features", "out_features"])
        given = dict(zip(names, layer.args, strict=True))
        return nodes.substituted(given["out_features"].value, bound) if "out_features" in given else cst.Ellipsis()

    def _first_layer(self, cls: str, made: Expr) -> tuple[int, Expr] | None:
        """The rank, and the channels or features, of what the model takes that `made` makes."""
        if not isinstance(made, cst.Call):
            return None
        direct = isinstance(self.kind_of(made.func), ModuleClass)
        if self.torch_name(made.func) == "torch.nn.Sequential":
            found = self._taken_by(cls, made, {})
        else:
            found = self._taken_by_method(cls, self._given_to_constructor(cls, made.args, {}) if direct else {})
        return found if found is not None and self.available(found[1]) else None

    def _joins(self, cls: str, call: cst.Call, names: Sequence[str]) -> bool:
        """Whether a call in a class is `torch.cat` of just these names, in this order."""
        parts = call.args[0].value if call.args else None
        if self.in_file_of(cls).torch_name(call.func) not in _JOINING or not isinstance(parts, cst.List | cst.Tuple):
            return False
        return [nodes.code(part.value) for part in parts.elements] == list(names)

    def example_of_tokens(self, cls: str) -> list[Expr]:
        """`jnp.zeros((1, 1), jnp.int32)` for a model that looks its one input up in a table, where it is known how many
        axes that has, as by `batch, length = tokens.shape`; nothing for other models. The weights of layers over the
        last axis are the same for every length; Flax refuses the others as soon as they meet a real input."""
        forward = self.script.classes[cls].method("forward")
        needed = needed_by(forward)
        if forward is None or len(needed) != 1:
            return []
        called = self.script.functions[f"{cls}.forward"].params.get(needed[0])
        rank = called.rank if isinstance(called, Tensor) else 0
        for statement in suites.suite_of(forward.body.body):
            small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
            if isinstance(small, cst.Assign) and nodes.code(small.value) in (
                f"{needed[0]}.shape",
                f"{needed[0]}.size()",
            ):
                sizes = small.targets[0].target
                rank = len(sizes.elements) if isinstance(sizes, cst.Tuple) else rank
            for call in usage.calls(statement):
                path = (nodes.dotted(call.func) or "").split(".")
                if path[0] != "self" or [nodes.code(arg.value) for arg in call.args] != needed:
                    continue
                part = only_option(module_at(self.script, cls, path[1:]))
                if isinstance(part, ClassNode):
                    return self.example_of_tokens(part.cls)
                if rank > 0 and isinstance(part, LayerNode) and part.torch == "torch.nn.Embedding":
                    shape = nodes.tuple_of([cst.Integer("1")] * rank)
                    return [nodes.call("jnp.zeros", shape, nodes.expression("jnp.int32"))]
            if needed[0] in usage.stores(statement):
                return []
        return []

    def _takes_any_size(self, cls: str, pooled: bool) -> bool:
        pools = any(layer.torch in _POOLING for layer in self.script.layers_inside(cls))
        pools = pools or any(map(self._pools_by_function, self.script.with_submodules(cls)))
        after = ("torch.nn.Linear",) if pooled and pools else ()
        return self._weights_are_of(cls, (*_OF_ANY_SIZE, *after))

    def _pools_by_function(self, cls: str) -> bool:
        """Whether a method of a class pools to a fixed size: `F.adaptive_avg_pool2d(x, 1)`, `x.mean([2, 3])`."""
        node, reader = self.script.classes[cls].node, self.in_file_of(cls)
        for call in usage.calls(node.body) if node is not None else ():
            averages = isinstance(call.func, cst.Attribute) and call.func.attr.value == "mean" and call.args
            axes = call.args[0].value if averages else None
            found = {*map(nodes.literal, nodes.elements(axes))} if isinstance(axes, cst.List | cst.Tuple) else set()
            if found in _OF_IMAGES or (reader.torch_name(call.func) or "").startswith(_POOLING_FUNCTIONS):
                return True
        return False

    def _weights_are_of(self, cls: str, known: Sequence[str]) -> bool:
        """Whether a model has no weights but those of such layers, and vectors of its own, which go with any batch of
        features: `nn.Parameter(torch.zeros(1, actions))`."""
        own = [
            one for name in self.script.with_submodules(cls) for one in self.script.classes[name].parameters.values()
        ]
        plain = all(one.shape is not None and len(one.shape) <= 2 and one.shape[:-1] in ((), (1,)) for one in own)
        layers = self.script.layers_inside(cls)
        return plain and all(not layer.weights or layer.torch in known for layer in layers)

    def _given_to_constructor(self, cls: str, args: Sequence[cst.Arg], outer: _Bound) -> _Bound:
        """The arguments of a constructor in terms of the scope that makes the model, with its defaults."""
        init = self.script.classes[cls].method("__init__")
        if init is None:
            return {}
        parameters = [*init.params.params[1:], *init.params.kwonly_params]
        bound = {p.name.value: p.default for p in parameters if p.default is not None}
        for arg, name in zip(args, argument_names(args, [p.name.value for p in parameters]), strict=True):
            if name:
                bound[name] = nodes.substituted(arg.value, outer)
        return bound

    def _taken_by_method(self, cls: str, bound: _Bound, method: str = "forward") -> tuple[int, Expr] | None:
        """The same of the layer that takes the input of a module, or of another method of it."""
        facts = self.script.classes.get(cls)  # not yet of a model that a function makes without a class
        forward = facts.method(method) if facts is not None else None
        needed = needed_by(forward)
        return self._taken_as(cls, bound, forward, needed[0]) if forward is not None and len(needed) == 1 else None

    def _taken_as(self, cls: str, bound: _Bound, method: cst.FunctionDef, name: str) -> tuple[int, Expr] | None:
        """The same of the layer that takes one of the inputs of a method."""
        for statement in suites.suite_of(method.body.body):
            for call in usage.calls(statement):
                path = nodes.dotted(call.func) or ""
                if path.startswith("self.") and [nodes.code(arg.value) for arg in call.args] == [name]:
                    own = path.removeprefix("self.")
                    if self.script.classes[cls].method(own) is not None and own != method.name.value:
                        return self._taken_by_method(cls, bound, own)
                    init = self.script.classes[cls].method("__init__")
                    made = constructors.given_once(init, path) if init is not None else None
                    if init is None or made is None:
                        return None
                    return self._taken_by(cls, made, {**bound, **_variables_before(init, made, bound)})
            if name in usage.stores(statement):
                return None
        return None

    def _taken_by(self, cls: str, made: Expr, bound: _Bound) -> tuple[int, Expr] | None:
        """The same of the module that an expression of a constructor makes."""
        if not isinstance(made, cst.Call) or not made.args:
            return None
        reader = self.in_file_of(cls)
        name, kind = reader.torch_name(made.func), reader.kind_of(made.func)
        if isinstance(kind, ModuleClass):
            return self._taken_by_method(kind.cls, self._given_to_constructor(kind.cls, made.args, bound))
        if name == "torch.nn.Sequential":
            return self._taken_by(cls, _first_of(made.args[0].value), bound)
        if name not in _FIRST:
            return None
        rank, argument = _FIRST[name]
        given = dict(zip(argument_names(made.args, [argument]), made.args, strict=True))
        size = nodes.substituted(given[argument].value, bound) if argument in given else None
        unknown = size is None or "self" in usage.loads(size) or any(True for _ in every(size, cst.Ellipsis))
        return None if size is None or unknown else (rank, size)


def _first_of(entries: Expr) -> Expr:
    """The first module of what a sequence is made of: itself, or that of `OrderedDict([("conv", module), ...])`."""
    if isinstance(entries, cst.Call) and (nodes.dotted(entries.func) or "").rpartition(".")[2] == "OrderedDict":
        pairs = entries.args[0].value if entries.args else entries
        first = pairs.elements[0].value if isinstance(pairs, cst.List | cst.Tuple) and pairs.elements else pairs
        return first.elements[1].value if isinstance(first, cst.Tuple) and len(first.elements) == 2 else entries
    return entries


def _variables_before(init: cst.FunctionDef, made: Expr, bound: _Bound) -> dict[str, Expr]:
    """What the variables of a constructor are where it makes a part, of those that were assigned by then."""
    found: dict[str, Expr] = {}
    for statement in suites.suite_of(init.body.body):
        if any(one is made for one in every(statement, type(made))):
            return found
        name, value = suites.name_and_value(statement)
        stored = set(usage.stores(statement))
        if name and value is not None:
            found[name] = nodes.substituted(value, {**bound, **found})
        elif stored:  # told by a loop or a branch
            found |= dict.fromkeys(stored, cst.Ellipsis())
    return {}


def _terms(size: Expr) -> list[Expr]:
    """What a sum adds up, in its order."""
    if isinstance(size, cst.BinaryOperation) and isinstance(size.operator, cst.Add):
        return [*_terms(size.left), *_terms(size.right)]
    return [size]
