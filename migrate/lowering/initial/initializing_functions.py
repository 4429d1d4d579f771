"""Reading initialising functions: what one does to a module, worked out without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts
from migrate.known.kinds import ModuleClass
from migrate.known.qualified import spelled
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.initial.sizes_of_layers import by_shape
from migrate.lowering.scope import Scope
from migrate.optimizers import INITIALIZERS
from migrate.rules.rule import Call, signature
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

IN_PLACE = {"normal_", "zero_", "fill_", "uniform_"}
FILLING = {"zero_": "zeros_", "fill_": "constant_"}  # methods of tensors -> their functions, of other names
_NO_ATTRIBUTES = {"device", "dtype"}  # arguments of layers that they do not keep
IN_ANY_CLASS = {"nn", "jnp", "jax", "key", "shape", "dtype"}  # what an initialiser may name in any class


def initializers_of(
    scope: Arguments,
    function: cst.FunctionDef,
    layer: str,
    given: Mapping[str, Expr] | None = None,
    single: Single | None = None,
) -> dict[str, Expr]:
    """The initialisers that a function gives a layer of the torch class `layer`: torch weight -> Flax initialiser.
    `given`: what its other parameters are. `single`: which layer it is, where it is one that is told apart.

    Raises Unsupported where the function does something that was not understood to a layer of that class.
    """
    walk = _OfLayer(scope, _module(function), layer, single or Single())
    walk.values |= {name: nodes.parenthesized(value) for name, value in (given or {}).items()}
    return walk.block(suites.suite_of(function.body.body))


def initializers_in(scope: Arguments, function: cst.FunctionDef, facts: ClassFacts) -> dict[str, Expr]:
    """The initialisers that a function gives weights of a user's class by name, as `if isinstance(m, Block):
    nn.init.zeros_(m.norm.weight)` does: path ("self.norm.weight") -> Flax initialiser.

    Raises Unsupported where the function does something that was not understood to a module of that class.
    """
    return _OfClass(scope, _module(function), facts).block(suites.suite_of(function.body.body))


@dataclass(frozen=True)
class Single:
    """A layer that is told apart from others of its class: how a constructor calls it, and what is noted on it."""

    path: str = ""
    marks: Mapping[str, Expr] = field(default_factory=dict)


def told_apart(function: cst.FunctionDef) -> set[str]:
    """How an initialising function calls the modules that it tells apart: `m is final_conv`."""
    module = _module(function)
    tests = [one for one in every(function.body, cst.Comparison) if nodes.dotted(one.left) == module]
    sides = [one.comparisons[0] for one in tests]
    named = [nodes.dotted(side.comparator) for side in sides if isinstance(side.operator, cst.Is | cst.IsNot)]
    return {name for name in named if name is not None} - {"None"}


def _module(function: cst.FunctionDef) -> str:
    """The parameter for the module."""
    params = [p.name.value for p in function.params.params if p.name.value != "self"]
    if not params:
        raise Unsupported("MIG204", f"{function.name.value} takes no module")
    return params[0]


class _Walk:
    """A walk through an initialising function as if it were called on one module.

    module: the parameter that holds it. name: its class as it calls itself. weights: those that it has itself.
    """

    def __init__(self, scope: Arguments, module: str, name: str, weights: Set[str]) -> None:
        self.scope, self.module, self.name, self.weights = scope, module, name, weights
        self.types = {f"type({module})", f"{module}.__class__"}  # what the class of the module is written as
        self.names = {f"{written}.__name__" for written in self.types}  # and the name of that
        self.values: dict[str, Expr] = {}  # what its variables stand for

    @property
    def concerned(self) -> bool:
        """Whether anything that is done to the module matters."""
        raise NotImplementedError

    def is_a(self, option: Expr, test: Expr) -> bool:
        """Whether the module is of a class, which a test names."""
        raise NotImplementedError

    def is_exactly(self, option: Expr, test: Expr) -> bool:
        """Whether the class of the module is the one that a test names, and none that inherits from it."""
        raise NotImplementedError

    def filled(self, weight: str, call: cst.Call, made: Expr) -> dict[str, Expr]:
        """What giving the weight at a path of the module an initialiser means."""
        raise NotImplementedError

    def block(self, body: Sequence[cst.CSTNode]) -> dict[str, Expr]:
        """What a block gives the module's weights: name -> initialiser."""
        found: dict[str, Expr] = {}
        for statement in body:
            if isinstance(statement, cst.If):
                found |= self.branch(statement)
            elif isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    found |= self.small(small)
            elif self.concerned:
                raise Unsupported("MIG204", f"{type(statement).__name__} in a function given to apply")
        return found

    def branch(self, node: cst.If) -> dict[str, Expr]:
        """The branch that the module takes."""
        if self.test(node.test):
            return self.block(suites.suite_of(node.body.body))
        if isinstance(node.orelse, cst.If):
            return self.branch(node.orelse)
        return self.block(suites.suite_of(node.orelse.body.body)) if node.orelse is not None else {}

    def test(self, node: Expr) -> bool:
        """A condition on the module."""
        if isinstance(node, cst.BooleanOperation):
            left, right = self.test(node.left), self.test(node.right)
            return left and right if isinstance(node.operator, cst.And) else left or right
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return not self.test(node.expression)
        if isinstance(node, cst.Call):
            name = nodes.dotted(node.func)
            if name == "isinstance":
                classes = node.args[1].value
                options = [e.value for e in classes.elements] if isinstance(classes, cst.Tuple) else [classes]
                return any(self.is_a(option, node) for option in options)
            if name == "hasattr" and nodes.dotted(node.args[0].value) == self.module:
                return self.has_attribute(str(nodes.literal(node.args[1].value)), node)
            if isinstance(node.func, cst.Attribute) and nodes.code(node.func.value) in self.names:
                start = nodes.literal(node.args[0].value) if node.func.attr.value == "startswith" else None
                if isinstance(start, str):
                    return self.name.startswith(start)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            path = nodes.dotted(node.left) or ""
            if isinstance(target.operator, cst.Is | cst.IsNot) and nodes.is_literal(target.comparator, None):
                return self.has(path.removeprefix(f"{self.module}.")) == isinstance(target.operator, cst.IsNot)
            if isinstance(target.operator, cst.Is | cst.IsNot) and path == self.module:
                return self.is_one(target.comparator, node) == isinstance(target.operator, cst.Is)
            told = self.compared(node.left, target.operator, target.comparator, node)
            if told is not None:
                return told
            if isinstance(target.operator, cst.NotEqual) and isinstance(node.left, cst.Call):
                found = self.find(node.left)
                if found is not None and nodes.is_literal(target.comparator, -1):
                    return found
        if not self.concerned:
            return False
        raise Unsupported("MIG204", f"`{nodes.code(node)}` in a function given to apply")

    def compared(self, left: Expr, operator: cst.BaseCompOp, right: Expr, test: Expr) -> bool | None:
        """`type(m) == nn.Linear`, `name in ("Linear", "Conv2d")`, `"Conv" in name`; None for other comparisons."""
        negative = isinstance(operator, cst.NotEqual | cst.IsNot | cst.NotIn)
        among = isinstance(operator, cst.In | cst.NotIn)
        part = nodes.literal(left)
        if among and isinstance(part, str) and nodes.code(right) in self.names:
            return (part in self.name) != negative
        if not among and not isinstance(operator, cst.Equal | cst.NotEqual | cst.Is | cst.IsNot):
            return None
        options = nodes.elements(right) if among and isinstance(right, cst.Tuple | cst.List) else [right]
        if nodes.code(left) in self.types:
            return any(self.is_exactly(option, test) for option in options) != negative
        texts = [nodes.literal(option) for option in options]
        if nodes.code(left) in self.names and all(isinstance(text, str) for text in texts):
            return (self.name in texts) != negative
        return None

    def has(self, path: str) -> bool:
        """Whether the module has a weight at a path."""
        return path in self.weights

    def has_attribute(self, name: str, test: Expr) -> bool:
        """Whether the module has an attribute, which a test asks for."""
        raise NotImplementedError

    def is_one(self, other: Expr, test: Expr) -> bool:
        """Whether the module is the one that an expression of the constructor stands for."""
        raise Unsupported("MIG204", f"`{nodes.code(test)}` in a function given to apply")

    def told_value(self, node: Expr) -> Expr:
        """A value as it is of this module."""
        return nodes.substituted(node, self.values)

    def find(self, call: cst.Call) -> bool | None:
        """`classname.find("Conv") != -1`."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "find":
            text = nodes.literal(call.args[0].value)
            return isinstance(text, str) and text in self.name
        return None

    def small(self, small: cst.BaseSmallStatement) -> dict[str, Expr]:
        """One simple statement: a call of `nn.init` or of a method that fills a weight in place."""
        if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
            small = cst.Assign([cst.AssignTarget(small.target)], nodes.augmented(small))
        plain = isinstance(small, cst.Assign) and all(isinstance(t.target, cst.Name) for t in small.targets)
        if isinstance(small, cst.Assign) and plain:
            bound = {nodes.code(target.target) for target in small.targets}
            self.types = self.types - bound | (bound if nodes.code(small.value) in self.types else set())
            self.names = self.names - bound | (bound if nodes.code(small.value) in self.names else set())
            self.values |= dict.fromkeys(bound, nodes.parenthesized(self.told_value(small.value)))
        if plain or isinstance(small, cst.Pass | cst.Return) or not self.concerned:
            return {}
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString):
            return {}
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            found = filling(self.scope, small.value)
            if found is not None:
                return self.initializer(found[0], small.value, found[1])
        raise Unsupported("MIG204", f"`{nodes.code(small)}` in a function given to apply")

    def initializer(self, name: str, call: cst.Call, target: Expr) -> dict[str, Expr]:
        """What one function of `nn.init`, applied to a weight of the module, is in Flax."""
        path = (nodes.dotted(target) or "").removesuffix(".data")
        weight = path.removeprefix(f"{self.module}.")
        if path == weight or not self.has(weight):
            raise Unsupported("MIG204", f"`{nodes.code(call)}` in a function given to apply")
        given = [
            arg if arg.value is target else arg.with_changes(value=self.told_value(arg.value)) for arg in call.args
        ]
        return self.filled(weight, call, initializer_of(self.scope, name, call.with_changes(args=given), target))


class _OfLayer(_Walk):
    """The walk on a torch layer."""

    def __init__(self, scope: Arguments, module: str, layer: str, single: Single) -> None:
        weights = {weight.asked for weight in TABLE[layer].weights if weight.initializer}
        super().__init__(scope, module, layer.rpartition(".")[2], weights)
        self.layer, self.single = layer, single
        # a layer whose initial weights are fixed by its snippet: whatever is done to them is declined
        self.fixed = not weights and any(weight.collection == "params" for weight in TABLE[layer].weights)

    @property
    def concerned(self) -> bool:
        return bool(self.weights) or self.fixed

    def has_attribute(self, name: str, test: Expr) -> bool:
        entry = TABLE[self.layer]
        own = {parameter.name for parameter in signature(entry.signature)} | {one.asked for one in entry.weights}
        return name in self.weights | self.single.marks.keys() or (
            name in own - {"bias"} and name not in _NO_ATTRIBUTES
        )

    def is_one(self, other: Expr, test: Expr) -> bool:
        return bool(self.single.path) and nodes.dotted(other) == self.single.path

    def told_value(self, node: Expr) -> Expr:
        """What is noted on the layer, and the side of a choice that asks for it."""
        if isinstance(node, cst.IfExp) and self.module in usage.loads(node.test):
            return self.told_value(node.body if self.test(node.test) else node.orelse)
        marks = {f"{self.module}.{name}": value for name, value in self.single.marks.items()}
        cast = nodes.dotted(node.func) if isinstance(node, cst.Call) and len(node.args) == 1 else None
        if cast in ("float", "int") and isinstance(node, cst.Call) and nodes.dotted(node.args[0].value) in marks:
            number = nodes.literal(marks[nodes.dotted(node.args[0].value) or ""])
            return nodes.expression(repr(float(str(number)) if cast == "float" else int(str(number))))
        return marks.get(nodes.dotted(node) or "") or super().told_value(node)

    def is_a(self, option: Expr, test: Expr) -> bool:
        kind = self.scope.kind_of(option)
        if isinstance(kind, ModuleClass) and self.scope.script.classes[kind.cls].extends == self.layer:
            raise Unsupported("MIG204", f"`{nodes.code(test)}`: some layers of one sort are initialised")
        return self.scope.torch_name(option) in (self.layer, "torch.nn.Module")

    def is_exactly(self, option: Expr, test: Expr) -> bool:
        named = self.scope.torch_name(option) == self.layer
        if named and any(facts.extends == self.layer for facts in self.scope.script.classes.values()):
            raise Unsupported("MIG204", f"`{nodes.code(test)}`: some layers of one sort are initialised")
        return named or (isinstance(self.scope.kind_of(option), ModuleClass) and self.is_a(option, test))

    def filled(self, weight: str, call: cst.Call, made: Expr) -> dict[str, Expr]:
        if weight == "weight":
            made = by_shape(made, self.layer, self.module)
        if self.module in usage.loads(made):
            raise Unsupported("MIG204", f"`{nodes.code(call)}` in a function given to apply")
        return {weight: made}


class _OfClass(_Walk):
    """The walk on a module of the user's."""

    def __init__(self, scope: Arguments, module: str, facts: ClassFacts) -> None:
        super().__init__(scope, module, spelled(facts.name), set(facts.parameters))
        self.facts = facts

    @property
    def concerned(self) -> bool:
        return True

    def branch(self, node: cst.If) -> dict[str, Expr]:
        return super().branch(node) if fills(self.scope, node) else {}

    def has_attribute(self, name: str, test: Expr) -> bool:
        if name in self.weights | self.facts.certain:
            return True
        known = {*self.facts.attributes, *self.facts.fields, *self.facts.buffers, *self.facts.marked}
        if name in known or self.facts.method(name) is not None or self.facts.bases:
            raise Unsupported("MIG204", f"`{nodes.code(test)}` in a function given to apply")
        return False

    def has(self, path: str) -> bool:
        return path in self.weights or f"self.{path}" in self.facts.askable

    def is_a(self, option: Expr, test: Expr) -> bool:
        kind = self.scope.kind_of(option)
        classes = [self.facts.name]
        while isinstance(kind, ModuleClass) and classes:
            if kind.cls in classes:
                return True
            classes = [base for cls in classes for base in self.scope.script.classes[cls].bases]
        return self.scope.torch_name(option) == "torch.nn.Module"

    def is_exactly(self, option: Expr, test: Expr) -> bool:
        kind = self.scope.kind_of(option)
        return isinstance(kind, ModuleClass) and kind.cls == self.facts.name

    def filled(self, weight: str, call: cst.Call, made: Expr) -> dict[str, Expr]:
        if set(usage.loads(made)) - IN_ANY_CLASS:
            raise Unsupported("MIG204", f"`{nodes.code(call)}` in a function given to apply")
        return {f"self.{weight}": made}


def fills(scope: Arguments, node: cst.CSTNode) -> bool:
    """Whether code fills weights somewhere."""
    return any(fills_weight(scope, call) for call in usage.calls(node))


def fills_weight(scope: Scope, call: cst.Call) -> bool:
    """Whether a call is one of `nn.init`, or of a method that fills a tensor in place."""
    return filling(scope, call) is not None


def filling(scope: Scope, call: cst.Call) -> tuple[str, Expr] | None:
    """The function of `nn.init` that a call stands for, and what it fills: `w` of `nn.init.normal_(w)` and of
    `w.zero_()`; None of other calls."""
    name, func = scope.torch_name(call.func) or "", call.func
    if name.startswith("torch.nn.init.") and call.args:
        return name.rpartition(".")[2], call.args[0].value
    if isinstance(func, cst.Attribute) and func.attr.value in IN_PLACE:
        return FILLING.get(func.attr.value, func.attr.value), func.value
    return None


def initializer_of(scope: Arguments, name: str, call: cst.Call, target: Expr) -> Expr:
    """What one function of `nn.init`, or a method like `weight.data.normal_()`, is in Flax."""
    entry = INITIALIZERS.get(name.removesuffix("_") + "_")
    if entry is None:
        raise Unsupported("MIG204", f"torch.nn.init.{name}")
    text, template = entry
    parameters = signature(text)
    function = bool(call.args) and target is call.args[0].value
    args = call.args[1:] if function else [arg.with_changes(keyword=_of_method(arg.keyword)) for arg in call.args]
    bound = scope.bind_call(f"torch.nn.init.{name}", parameters, [cst.Arg(nodes.expression("None")), *args])
    for refused in ("generator", "mean"):
        if refused == "mean" and name.removesuffix("_") == "normal":
            continue
        if any(parameter.name == refused for parameter in parameters) and f"{{{refused}}}" not in template:
            bound.only(refused, 0.0, 0, None)
    if name.startswith("kaiming"):
        return _kaiming(bound, template)
    if name.startswith("xavier") and bound.has("gain"):
        shape = "uniform" if "uniform" in name else "normal"
        return bound.make(f'nn.initializers.variance_scaling({{gain}} ** 2, "fan_avg", "{shape}")')
    if name == "constant_" and nodes.literal(bound.node("val")) in (0, 1):
        return nodes.expression(
            "nn.initializers.zeros" if nodes.literal(bound.node("val")) == 0 else "nn.initializers.ones"
        )
    if name.removesuffix("_") == "normal" and nodes.literal(bound.node("mean")) != 0:
        return bound.make("lambda key, shape, dtype=jnp.float32: {mean} + {std} * jax.random.normal(key, shape, dtype)")
    if name == "trunc_normal_" and _never_cut(bound):
        return bound.make(INITIALIZERS["normal_"][1])
    return bound.make(template)


def without_data(node: Expr) -> Expr:
    """`weight` of `weight.data`; other expressions as they are."""
    return node.value if isinstance(node, cst.Attribute) and node.attr.value == "data" else node


def scaled_so_far(method: str, number: Expr) -> Expr:
    """What `mul_` or `div_` makes of the initial values that a weight has so far; see `completed`."""
    if nodes.literal(number) == 0 and method == "mul_":
        return nodes.expression("nn.initializers.zeros")
    text = "{n} * {x}(*args)" if method == "mul_" else "{x}(*args) / {n}"
    return nodes.expression(f"lambda *args: {text}", n=nodes.parenthesized(number), x=nodes.name(_SO_FAR))


def scales(made: Expr) -> bool:
    """Whether an initialiser scales what another one gives."""
    return isinstance(made, cst.Lambda) and isinstance(made.params.star_arg, cst.Param)


SCALING = ("mul_", "div_")
_SO_FAR = "__so_far__"  # stands for the initialiser that a weight has by then


def completed(asked: Expr, otherwise: Expr | str) -> Expr:
    """An initialiser that is asked for only where a field says so, with what it is otherwise, or one that scales what
    it is otherwise."""
    if isinstance(asked, cst.Lambda) and _SO_FAR in usage.loads(asked):
        if not otherwise:
            raise Unsupported("MIG204", "initial weights are scaled, and what they are is not known")
        known = nodes.expression(otherwise) if isinstance(otherwise, str) else otherwise
        return nodes.substituted(asked, {_SO_FAR: nodes.parenthesized(known)})
    if not isinstance(asked, cst.IfExp):
        return asked
    if isinstance(asked.orelse, cst.IfExp):
        return asked.with_changes(orelse=completed(asked.orelse, otherwise))
    if not nodes.is_literal(asked.orelse, None):
        return asked
    if not otherwise:
        raise Unsupported("MIG204", f"initial weights depend on `{nodes.code(asked.test)}`")
    otherwise = nodes.expression(otherwise) if isinstance(otherwise, str) else otherwise
    if isinstance(otherwise, cst.IfExp) and otherwise.test.deep_equals(asked.test):
        otherwise = otherwise.orelse
    return otherwise if asked.body.deep_equals(otherwise) else asked.with_changes(orelse=otherwise)


_BY_FANS = ("nn.initializers.xavier_uniform", "nn.initializers.variance_scaling")


def outputs_first(made: Expr) -> Expr:
    """An initialiser that goes by fans, for a weight that keeps torch's order of axes: outputs first."""
    name = (nodes.dotted(made.func) or "") if isinstance(made, cst.Call) else ""
    own: list[cst.Arg] = []
    if name in _BY_FANS:
        own = nodes.arguments([], {"in_axis": cst.Integer("1"), "out_axis": cst.Integer("0")})
    if name == "nn.initializers.orthogonal":
        own = nodes.arguments([], {"column_axis": cst.Integer("0")})
    return made.with_changes(args=[*made.args, *own]) if isinstance(made, cst.Call) else made


def of_matrix(made: Expr, rank: int) -> Expr:
    """An initialiser of a convolution that sees its weight as a matrix, outputs by all that goes into each."""
    name = (nodes.dotted(made.func) or "") if isinstance(made, cst.Call) else ""
    if name == "nn.initializers.orthogonal":
        raise Unsupported("MIG204", "orthogonal weights of a view")
    if not isinstance(made, cst.Call) or name not in _BY_FANS:
        return made
    inputs = nodes.tuple_of([cst.Integer(str(axis)) for axis in range(rank - 1)])
    return made.with_changes(
        args=[*made.args, *nodes.arguments([], {"in_axis": inputs, "out_axis": nodes.expression("-1")})]
    )


def _never_cut(bound: Call) -> bool:
    """Whether the bounds are so far out that a float32 never reaches them: it has no draws beyond 6 deviations."""
    deviation, low, high = (nodes.literal(bound.node(name)) for name in ("std", "a", "b"))
    known = all(isinstance(value, int | float) for value in (deviation, low, high))
    return known and min(-float(str(low)), float(str(high))) > 6 * float(str(deviation))


def _of_method(keyword: cst.Name | None) -> cst.Name | None:
    """The name that the functions of `nn.init` give an argument of a method of tensors."""
    names = {"to": "b", "value": "val"}
    return keyword.with_changes(value=names.get(keyword.value, keyword.value)) if keyword is not None else None


_GAINS = {"linear": 1.0, "sigmoid": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "tanh": 25 / 9, "selu": 9 / 16}


def _kaiming(bound: Call, template: str) -> Expr:
    """The variance is gain ** 2 / fan; the gain goes by the function that follows."""
    nonlinearity = str(bound.literal("nonlinearity"))
    template = template.replace("{mode}", str(bound.literal("mode")))
    if nonlinearity == "leaky_relu" and bound.has("a"):
        slope = nodes.literal(bound.node("a"))
        scale = bound.make("2 / (1 + {a} ** 2)") if slope is ... or not isinstance(slope, int | float) else None
        number = 2 / (1 + float(str(slope)) ** 2) if scale is None else 0.0
        scale = scale or nodes.expression(repr(number))
    elif nonlinearity in _GAINS:
        scale = nodes.expression(repr(_GAINS[nonlinearity]))
    elif nonlinearity in ("relu", "leaky_relu"):
        return bound.make(template)
    else:
        raise Unsupported("MIG204", f"torch.nn.init: nonlinearity={nonlinearity!r}")
    return bound.make(template.replace("2.0", "{scale}"), scale=scale)
