"""`apply(init_fn)`: what an initialising function does to each kind of layer, worked out without running it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate import nodes, suites
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    UNKNOWN,
    Function,
    Model,
    ModuleClass,
    SelfModule,
)
from migrate.layers.table import TABLE
from migrate.lowering.arguments import Arguments
from migrate.nodes import Expr, Statement
from migrate.optimizers import INITIALIZERS
from migrate.rules.rule import Call, signature
from migrate.script import (
    ClassFacts,
    classes_in,
    layers_in,
)


class Initializers(Arguments):
    """Functions given to `apply`."""

    def applied_initializer(self, facts: ClassFacts, function: Expr) -> None:
        """`self.apply(init)`: every layer of the tree takes the initialisers that `init` gives its kind."""
        path = nodes.dotted(function) or ""
        found = path.removeprefix("self.")
        body = suites.suite_of(facts.node.body.body) if facts.node is not None else []
        own = [s for s in body if isinstance(s, cst.FunctionDef) and s.name.value == found]
        named = self.kind_of(function)
        if path.startswith("self.") and own:
            self.initialize_tree(facts, own[0])
        elif isinstance(named, Function) and named.name in self.script.functions:
            self.initialize_tree(facts, self.script.functions[named.name].node, named.name)
        else:
            raise Unsupported("MIG204", f"apply({path})")

    def apply_initializer(self, node: cst.Call, kind: Model) -> list[Statement]:
        """`model.apply(init)` in the script."""
        path = nodes.dotted(node.args[0].value) or ""
        named = self.kind_of(node.args[0].value)
        facts = self.script.functions.get(named.name) if isinstance(named, Function) else None
        owner = self.script.classes.get(kind.cls)
        if facts is None or owner is None:
            raise Unsupported("MIG204", f"apply({path})")
        self.script.initialisers.add(facts.qualname)
        self.initialize_tree(owner, facts.node, facts.qualname)
        return []

    def initialize_tree(self, facts: ClassFacts, function: cst.FunctionDef, qualname: str = "") -> None:
        """Notes the initialisers for the layers of a class and of all classes inside it. `qualname`: of a function that
        may stand in another file, whose names are those of that file."""
        reader = self.in_file_of(qualname)
        seen: set[str] = set()
        pending = [facts.name]
        while pending:
            cls = pending.pop()
            inner = self.script.classes.get(cls)
            if cls in seen or inner is None:
                continue
            seen.add(cls)
            made = {layer.torch for node in inner.children.values() for layer in layers_in(node)}
            for torch, layer in TABLE.items():
                if torch not in made and not any(weight.initializer for weight in layer.weights):
                    continue
                given = initializers_of(reader, function, torch)
                if given:
                    inner.initializers[torch] = given
            pending += [found for node in inner.children.values() for found in classes_in(node)]

    def initialising_loop(self, node: cst.FunctionDef) -> cst.FunctionDef | None:
        """`def init(net): for m in net.modules(): ...`, which does no more than fill weights: as what it does to one
        module. None for other functions."""
        parameters = node.params.params
        body = suites.suite_of(node.body.body)
        loop = body[1:] if body and suites.is_docstring(body[0]) else body
        if len(parameters) != 1 or len(loop) != 1 or not isinstance(loop[0], cst.For):
            return None
        every, target = loop[0].iter, loop[0].target
        modules = isinstance(every, cst.Call) and nodes.dotted(every.func) == f"{parameters[0].name.value}.modules"
        body = suites.suite_of(loop[0].body.body)
        if not modules or not isinstance(target, cst.Name) or not self._only_fills(body):
            return None
        return cst.FunctionDef(node.name, cst.Parameters([cst.Param(target)]), cst.IndentedBlock(body))

    def _only_fills(self, body: Sequence[cst.CSTNode]) -> bool:
        """Whether statements fill weights, and do nothing else."""
        for statement in body:
            if isinstance(statement, cst.If):
                otherwise = statement.orelse
                sides: list[cst.CSTNode] = [otherwise] if isinstance(otherwise, cst.If) else []
                if isinstance(otherwise, cst.Else):
                    sides = list(suites.suite_of(otherwise.body.body))
                if not self._only_fills([*suites.suite_of(statement.body.body), *sides]):
                    return False
            elif not isinstance(statement, cst.SimpleStatementLine) or not all(map(self._fills_weight, statement.body)):
                return False
        return True

    def _fills_weight(self, small: cst.BaseSmallStatement) -> bool:
        call = small.value if isinstance(small, cst.Expr) else None
        if not isinstance(call, cst.Call):
            return isinstance(small, cst.Pass)
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        return (self.torch_name(call.func) or "").startswith("torch.nn.init.") or method in IN_PLACE

    def fills_model(self, node: cst.Call, function: Function) -> bool:
        """Whether a call `init(net)` is one of such a function: then the layers of the model have its initialisers."""
        facts = self.script.functions[function.name]
        loop = self.in_file_of(function.name).initialising_loop(facts.node)
        if loop is None:
            return False
        kind = self.expr(node.args[0].value).kind if len(node.args) == 1 else UNKNOWN
        owner = self.script.classes.get(kind.cls) if isinstance(kind, Model | SelfModule) else None
        if owner is None:
            raise Unsupported("MIG204", f"{nodes.code(node)}: no known model")
        if self.conditions:
            raise Unsupported("MIG204", f"initial weights depend on `{nodes.code(self.conditions[-1])}`")
        self.script.initialisers.add(facts.qualname)
        self.initialize_tree(owner, loop, facts.qualname)
        return True


IN_PLACE = {"normal_", "zero_", "fill_", "uniform_"}


def initializers_of(scope: Arguments, function: cst.FunctionDef, layer: str) -> dict[str, Expr]:
    """The initialisers that a function gives a layer of the torch class `layer`: torch weight -> Flax initialiser.

    Raises Unsupported where the function does something that was not understood to a layer of that class.
    """
    params = [p.name.value for p in function.params.params if p.name.value != "self"]
    if not params:
        raise Unsupported("MIG204", f"{function.name.value} takes no module")
    return _Walk(scope, params[0], layer).block(suites.suite_of(function.body.body))


class _Walk:
    """A walk through an initialising function as if it were called on a layer of one class."""

    def __init__(self, scope: Arguments, module: str, layer: str) -> None:
        self.scope, self.module, self.layer = scope, module, layer
        self.weights = {weight.torch for weight in TABLE[layer].weights if weight.initializer}
        # a layer whose initial weights are fixed by its snippet: whatever is done to them is declined
        self.fixed = not self.weights and any(weight.collection == "params" for weight in TABLE[layer].weights)

    def block(self, body: Sequence[cst.CSTNode]) -> dict[str, Expr]:
        """What a block gives the layer's weights: torch name -> initialiser."""
        found: dict[str, Expr] = {}
        for statement in body:
            if isinstance(statement, cst.If):
                found |= self.branch(statement)
            elif isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    found |= self.small(small)
            elif self.weights or self.fixed:
                raise Unsupported("MIG204", f"{type(statement).__name__} in a function given to apply")
        return found

    def branch(self, node: cst.If) -> dict[str, Expr]:
        """The branch that a layer of this class takes."""
        answer = self.test(node.test)
        if answer:
            return self.block(suites.suite_of(node.body.body))
        if isinstance(node.orelse, cst.If):
            return self.branch(node.orelse)
        return self.block(suites.suite_of(node.orelse.body.body)) if node.orelse is not None else {}

    def test(self, node: Expr) -> bool:
        """A condition on the module, for a layer of this class."""
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
                if any(self.extends(option) == self.layer for option in options):
                    raise Unsupported("MIG204", f"`{nodes.code(node)}`: some layers of one sort are initialised")
                return any(self.scope.torch_name(option) == self.layer for option in options)
            if name == "hasattr":
                return nodes.literal(node.args[1].value) in self.weights
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            path = nodes.dotted(node.left) or ""
            if isinstance(target.operator, cst.IsNot) and nodes.is_literal(target.comparator, None):
                return path.removeprefix(f"{self.module}.") in self.weights
            if isinstance(target.operator, cst.NotEqual) and isinstance(node.left, cst.Call):
                found = self.find(node.left)
                if found is not None and nodes.is_literal(target.comparator, -1):
                    return found
        if not self.weights:
            return False
        raise Unsupported("MIG204", f"`{nodes.code(node)}` in a function given to apply")

    def extends(self, option: Expr) -> str:
        """The torch layer that a class of the user's inherits from, "" for any other expression."""
        kind = self.scope.kind_of(option)
        return self.scope.script.classes[kind.cls].extends if isinstance(kind, ModuleClass) else ""

    def find(self, call: cst.Call) -> bool | None:
        """`classname.find("Conv") != -1`."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "find":
            text = nodes.literal(call.args[0].value)
            return isinstance(text, str) and text in self.layer.rpartition(".")[2]
        return None

    def small(self, small: cst.BaseSmallStatement) -> dict[str, Expr]:
        """One simple statement: a call of `nn.init` or of a method that fills a weight in place."""
        plain = isinstance(small, cst.Assign) and all(isinstance(t.target, cst.Name) for t in small.targets)
        if plain or isinstance(small, cst.Pass | cst.Return) or not (self.weights or self.fixed):
            return {}
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString):
            return {}
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            call = small.value
            name = self.scope.torch_name(call.func) or ""
            if name.startswith("torch.nn.init."):
                return self.initializer(name.rpartition(".")[2], call, call.args[0].value)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in IN_PLACE:
                method = {"zero_": "zeros_", "fill_": "constant_"}.get(call.func.attr.value, call.func.attr.value)
                return self.initializer(method, call, call.func.value)
        raise Unsupported("MIG204", f"`{nodes.code(small)}` in a function given to apply")

    def initializer(self, name: str, call: cst.Call, target: Expr) -> dict[str, Expr]:
        """What one function of `nn.init`, applied to a weight of the module, is in Flax."""
        path = (nodes.dotted(target) or "").removesuffix(".data")
        weight = path.removeprefix(f"{self.module}.")
        if path == weight or weight not in self.weights:
            raise Unsupported("MIG204", f"`{nodes.code(call)}` in a function given to apply")
        return {weight: initializer_of(self.scope, name, call, target)}


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
