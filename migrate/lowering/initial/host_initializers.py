"""Initial weights that a script gives its models after it has made them: `model.apply(init)`, `init(model)`.

In Flax the constructors of the layers have the initialisers, so that they hold for every model of a class: where one of
them is left as it is, or the script may not come by the statement, that is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts, FunctionFacts
from migrate.known.kinds import UNKNOWN, Function, Model, Place, SelfModule
from migrate.known.qualified import options
from migrate.known.script import followed
from migrate.known.weight_kinds import LISTING
from migrate.lowering.initial.filled_layers import FilledLayers
from migrate.lowering.initial.initializers_of_flax import initializer_of
from migrate.manifest import Leaf
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

DEEP = 8  # how many variables may be written in terms of one another


class HostInitializers(FilledLayers):
    """Initialisers of whole models."""

    def apply_initializer(self, node: cst.Call, kind: Model) -> list[Statement]:
        """`model.apply(init)` in the script."""
        path = nodes.dotted(node.args[0].value) or ""
        named = self.kind_of(node.args[0].value)
        facts = self.script.functions.get(named.name) if isinstance(named, Function) else None
        owner = self.script.classes.get(kind.cls)
        if facts is None or owner is None:
            raise Unsupported("MIG204", f"apply({path})")
        self.initialized(kind, owner, node, (nodes.dotted(node.func) or "").removesuffix(".apply"))
        self.script.initialisers.add(facts.qualname)
        loop = _over_parameters(facts.node)
        if loop is not None:
            return self.of_class(kind.cls, facts.qualname).parameters_loop(loop, applied=True)
        self.initialize_tree(owner, facts.node, facts.qualname)
        return []

    def of_class(self, cls: str, function: str = "") -> HostInitializers:
        """The scope in which what a function does to the weights of a class is read."""
        inner = copy.copy(self.in_file_of(function))
        inner.cls, inner.conditions = cls, []
        return inner

    def layer_fills(self, node: cst.Call, place: Place, leaf: Leaf) -> bool:
        """`nn.init.normal_(model.head.weight)`, `model.head.bias.data.zero_()`: the layer has that initialiser. Whether
        the class of the model is known. Raises Unsupported where its other models would have it as well."""
        cls = self.script.places.get(self.root(place), "")
        owner = self.script.classes.get(cls)
        if owner is None:
            return False
        self.initialized(Model(cls, place), owner, node, place.name)
        filled = self.with_values(node, place)
        given = nodes.code(filled.with_changes(args=filled.args[1:]))
        other, before = self.script.weights_filled.setdefault((cls, leaf.torch), (self.root(place), given))
        if other != self.root(place) and before != given:
            raise Unsupported(
                "MIG204", f"`{nodes.code(node)}`, but {other.name}, of the same class, starts differently"
            )
        self.of_class(cls).one_filled(leaf.torch, filled)
        return True

    def with_values(self, node: cst.Call, place: Place) -> cst.Call:
        """A call that fills a weight, with what variables stand for in their place: what makes the model comes before
        what binds them."""
        args = list(node.args[1:])
        for _ in range(DEEP):
            read = {name for arg in args for name in usage.loads(arg.value)}
            later = {name: self.env.definitions.get(name) for name in read if self._is_bound_after(name, place)}
            if not later:
                return node.with_changes(args=[*node.args[:1], *args])
            for name, one in later.items():
                if one is None or not _is_arithmetic(one):
                    raise Unsupported("MIG204", f"`{nodes.code(node)}` depends on the variable {name}")
            values = {name: nodes.parenthesized(one) for name, one in later.items() if one is not None}
            args = [arg.with_changes(value=nodes.substituted(arg.value, values)) for arg in args]
        raise Unsupported("MIG204", f"`{nodes.code(node)}` depends on variables of one another")

    def _is_bound_after(self, name: str, place: Place) -> bool:
        """Whether a name may be bound only after a model is made: a variable of a function, or of the file where that
        makes the model before."""
        if name not in self.unit.constants:
            return name in self.env.definitions
        made, settled = self.root(place), self.unit.settled
        return made.scope == self.unit.scope and settled.get(name, -1) > settled.get(made.name, len(settled))

    def initializer_told(self, call: cst.Call, name: str, target: Expr) -> Expr:
        """The initialiser that a call which fills a weight, as the function of `nn.init` of that name, is in Flax."""
        return initializer_of(self, name, call, target)

    def initialising_modules(self, node: cst.For) -> list[Statement] | None:
        """`for m in model.modules(): if isinstance(m, nn.Conv2d): ...` in the script, or a loop over parameters that
        only fills them; None for other loops."""
        loop, body = node.iter, suites.suite_of(node.body.body)
        if not isinstance(loop, cst.Call) or not isinstance(loop.func, cst.Attribute) or not self.only_fills(body):
            return None
        kind, method = self.kind_of(loop.func.value), loop.func.attr.value
        owner = self.script.classes.get(kind.cls) if isinstance(kind, Model) else None
        if owner is None or not isinstance(kind, Model) or method not in ("modules", *LISTING):
            return None
        if method == "modules" and not isinstance(node.target, cst.Name):
            return None
        self.initialized(kind, owner, loop, nodes.dotted(loop.func.value) or "")
        if method != "modules":
            return self.of_class(kind.cls).parameters_loop(node)
        assert isinstance(node.target, cst.Name)
        parameters = cst.Parameters([cst.Param(node.target)])
        self.initialize_tree(owner, cst.FunctionDef(cst.Name("initialize"), parameters, node.body), outer_first=True)
        return []

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
        if isinstance(kind, Model):
            self.initialized(kind, owner, node, nodes.dotted(node.args[0].value) or "")
        elif self.conditions:
            raise Unsupported("MIG204", f"initial weights depend on `{nodes.code(self.conditions[-1])}`")
        self.script.initialisers.add(facts.qualname)
        self.initialize_tree(owner, loop, facts.qualname, outer_first=True)
        return True

    def initialized(self, kind: Model, owner: ClassFacts, node: cst.Call, name: str) -> None:
        """Notes which model has the initialisers of its class."""
        assert kind.place is not None
        root = self.filled_model = self.root(kind.place)
        if kind.place in self.script.perhaps_loaded:
            raise Unsupported("MIG204", f"`{nodes.code(node)}` fills weights that {name} may have from a file")
        again = self.loops > 0 and not any(root.name in usage.stores(block.statements) for block in self.blocks[1:])
        if again or (self.scope, root) in self.script.updated | self.script.looped_over:
            raise Unsupported("MIG204", f"`{nodes.code(node)}` fills weights that were made before, and maybe trained")
        exchanged = kind.place in {place for place, _ in self.replaced} or kind.place in self.script.made_as
        if exchanged and any(facts.replaced for facts in self.script.classes_inside(owner)):
            raise Unsupported("MIG204", f"`{nodes.code(node)}` fills weights of parts that are put into {name} before")
        made_here = kind.place in self.ready or any(entry[:2] == ("model", kind.place) for entry in self.pending)
        if not made_here and self.facts is not None and not self.runs_once(self.facts):
            raise Unsupported("MIG204", f"`{nodes.code(node)}`: whether {self.facts.node.name.value} runs is not known")
        tests = [test for test in self.conditions if "__name__" not in usage.loads(test)]
        if tests and not self.loaded_otherwise(tests[-1], node, name):
            raise Unsupported("MIG204", f"`{nodes.code(node)}` depends on `{nodes.code(tests[-1])}`")
        self.script.initialized |= self.roots(kind.place)
        inside = {facts.name for facts in self.script.classes_inside(owner)}
        makers = set(self.script.made_as.values())  # the models that callers make in their places are among the others
        known = (self.script.initialized - self.script.filled_by_hand) | self.script.copies
        for place, cls in sorted(self.script.places.items()):
            same = place in makers or place in self.script.parameters_of
            filled = known & {place, followed(self.script.made_as, place)}
            if same or filled or self.loads_weights(place.name) or self.script.still_open():
                continue
            held = (self.script.classes_inside(self.script.classes[option]) for option in options(cls))
            if inside & {facts.name for classes in held for facts in classes}:
                other = f"{place.name}, which has layers of the same classes, keeps its own initial weights"
                raise Unsupported("MIG204", f"`{nodes.code(node)}`, but {other}")

    def runs_once(self, facts: FunctionFacts, seen: frozenset[str] = frozenset()) -> bool:
        """Whether each run of the program surely comes by every call of a function, and no more than once."""
        if self.script.is_constructor(facts.qualname) or self.script.still_open():
            return True
        told = {call for unit in self.unit.others.values() for call in _under_conditions(unit.source.module)}
        sites = [site for site in facts.calls if site.node is not None]
        callers = [self.script.functions.get(site.scope) for site in sites]
        return (
            bool(sites)
            and facts.qualname not in seen
            and not any(site.repeated or site.node in told for site in sites)
            and all(caller is None or self.runs_once(caller, seen | {facts.qualname}) for caller in callers)
        )

    def loaded_otherwise(self, test: Expr, node: cst.Call, name: str) -> bool:
        """Whether a model that is not given initial values has its weights loaded, on the other side of a branch."""
        for branch in every(self.unit.source.module, cst.If):
            if branch.test is test or branch.test.deep_equals(_negated(test)):
                sides = [branch.body, branch.orelse.body] if isinstance(branch.orelse, cst.Else) else []
                apart = [side for side in sides if not any(call is node for call in usage.calls(side))]
                return len(apart) == 1 == len(sides) - 1 and _loads(apart[0], name)
        return False

    def loads_weights(self, name: str) -> bool:
        """Whether the file loads the weights of a model from elsewhere."""
        return _loads(self.unit.source.module, name)


def _under_conditions(file: cst.Module) -> Iterator[cst.Call]:
    """The calls of a file that may not be come by, or again and again: those of its branches and loops, but for what
    asks whether the file is the script."""
    for statement in every(file, (cst.If, cst.For, cst.While, cst.Try)):
        if not (isinstance(statement, cst.If) and "__name__" in usage.loads(statement.test)):
            yield from usage.calls(statement)


def _over_parameters(function: cst.FunctionDef) -> cst.For | None:
    """The loop over the parameters of its argument that a function is; None for other functions."""
    body = suites.below_docstring(function)
    loop = body[0] if len(body) == 1 else None
    over = loop.iter if isinstance(loop, cst.For) else None
    named = [f"{p.name.value}.{method}" for p in function.params.params[:1] for method in LISTING]
    whole = isinstance(over, cst.Call) and nodes.dotted(over.func) in named and not over.args
    return loop if whole and isinstance(loop, cst.For) else None


def _is_arithmetic(node: Expr) -> bool:
    """Whether an expression is numbers and names, reckoned with: it comes to the same wherever it stands."""
    plain = (cst.BaseNumber, cst.SimpleString, cst.Name, cst.BinaryOperation, cst.UnaryOperation)
    parts = [part for part in every(node, cst.CSTNode) if isinstance(part, cst.BaseExpression)]
    calls = {id(part) for call in usage.calls(node) for part in every(call.func, cst.CSTNode)}
    named = all((nodes.dotted(call.func) or "").startswith("math.") for call in usage.calls(node))
    return named and all(isinstance(part, (*plain, cst.Call)) or id(part) in calls for part in parts)


def _loads(node: cst.CSTNode, name: str) -> bool:
    return any(nodes.dotted(call.func) == f"{name}.load_state_dict" for call in usage.calls(node))


def _negated(test: Expr) -> Expr:
    """The test of the branch whose other side a condition is."""
    inner = test.expression if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not) else test
    return inner.with_changes(lpar=inner.lpar[1:], rpar=inner.rpar[:-1]) if inner is not test and inner.lpar else inner
