"""Example inputs of models that scripts use through methods of their own: `model.decode(model.encode(x))`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import LayerNode
from migrate.known.facts import Example
from migrate.known.kinds import Model, Module, Place
from migrate.known.qualified import is_chosen, options
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.initial.examples import Examples
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


class MethodUses(Binding):
    """What methods of models use, and how they are called first."""

    def record_method(self, model: Model, node: cst.Call, method: str) -> None:
        """Remembers the first call of a method of a model."""
        assert model.place is not None
        for root in self.roots(model.place):
            known = self.script.method_examples.setdefault(root, {})
            if method not in known:
                known[method] = Example(self.scope, (node,), dict(self.env.definitions), True, cls=model.cls)

    def attributes_used(self, cls: str, method: str) -> set[str]:
        """The attributes that a method reads, itself or in methods that it calls."""
        used, waiting = set[str](), [method]
        while waiting:
            function = self.script.functions.get(f"{cls}.{waiting.pop()}")
            found = set(usage.attributes_of_self(function.node)) if function is not None else set()
            if function is not None and any(map(_calls_itself(function.node), usage.calls(function.node.body))):
                found.add("forward")
            found -= used
            used |= found
            waiting += found
        return used

    def takes_apart(self, cls: str, method: str, parameter: str, asked: frozenset[str] = frozenset()) -> bool:
        """Whether a method unpacks a parameter, or takes items of it, itself or in a method that it hands it on to."""
        facts = self.script.functions.get(f"{cls}.{method}")
        if facts is None or method in asked:
            return False
        unpacked = [one.value for one in every(facts.node, cst.Assign) if isinstance(one.targets[0].target, cst.Tuple)]
        parts = [*unpacked, *(one.value for one in every(facts.node, cst.Subscript))]
        if any(nodes.dotted(part) == parameter for part in parts):
            return True
        for call in usage.calls(facts.node.body):
            owner, _, name = (nodes.dotted(call.func) or "").rpartition(".")
            other = self.script.functions.get(f"{cls}.{name}") if owner == "self" else None
            names = argument_names(call.args, other.parameter_names[1:]) if other is not None else []
            for arg, inner in zip(call.args, names, strict=True) if names else ():
                if nodes.dotted(arg.value) == parameter and self.takes_apart(cls, name, inner, asked | {method}):
                    return True
        return False

    def weighted_parts(self, cls: str) -> set[str]:
        """The attributes of a module that have weights, or hold what has, as far as anything reads them."""
        facts, read = self.script.classes[cls], self.script.attributes_read
        parts = {*facts.children, *facts.parameters}
        return parts if read is None else parts & read


class MethodExamples(Examples, MethodUses):
    """Which methods make all the weights of a model, and with what they are called."""

    def methods_in_turn(self, place: Place, early: bool) -> MethodCalls | None:
        """The calls of methods that make all the weights of a model between them, in terms of this scope; None where
        those that the script has do not, or are given what cannot be told here."""
        classes = options(self.script.places[place])
        left = {cls: self.weighted_parts(cls) for cls in classes}
        made = MethodCalls(
            place.name,
            lambda node, calls: self._between(classes[0], node, calls),
            lambda method, number: any(self._taken_apart(cls, method, number) for cls in classes),
        )
        for method, example in self.script.method_examples.get(place, {}).items():
            if not set(options(example.cls)) & set(classes):
                continue
            used = {cls: self.attributes_used(cls, method) for cls in classes}
            if any(left[cls] & used[cls] for cls in classes):
                (call,) = self.resolve(example, early)
                made.add(call)
                left = {cls: left[cls] - used[cls] for cls in classes}
        alike = len(classes) == 1 or len(made.calls) == 1  # what one class's methods return another's may not
        return made if made.calls and alike and made.understood and not any(left.values()) else None

    def with_parts_beside(
        self, place: Place, given: Sequence[cst.Arg], early: bool, method: str = "forward"
    ) -> list[cst.Arg]:
        """The arguments of `init`, with `method=lambda model, x: model.generator(model(x))` for parts that no forward
        pass, or what `method` is in its place, calls and the script does: they would have no weights. Raises
        Unsupported where these take something else."""
        cls, made = self.script.places[place], list[Expr]()
        recorded = {} if is_chosen(cls) else self.script.method_examples.get(place, {})
        left = self.weighted_parts(cls) - self.attributes_used(cls, method) if recorded else set[str]()
        inputs = "x" if len(given) == 1 and given[0].keyword is None else "*inputs"
        for name, example in recorded.items():
            if name not in left:
                continue
            (call,) = self.resolve(example, early)
            args = call.args if isinstance(call, cst.Call) else []
            inner = args[0].value if len(args) == 1 else None
            whole = isinstance(inner, cst.Call) and nodes.dotted(inner.func) in (place.name, f"{place.name}.forward")
            if not whole or any(arg.keyword for arg in given) or not self._takes_as_it_is(cls, name):
                told = f"{place.name}.{name} is called by no forward pass: its weights cannot be made"
                raise Unsupported("MIG402", f"{told} but from what that returns")
            own = self.script.classes[cls].renamed.get(name, name)
            made.append(nodes.expression(f"model.{own}(model({inputs}))"))
        if not made:
            return list(given)
        body = made[0] if len(made) == 1 else nodes.tuple_of(made)
        return nodes.extended(given, {"method": nodes.expression(f"lambda model, {inputs}: {{body}}", body=body)})

    def _takes_as_it_is(self, cls: str, part: str) -> bool:
        """Whether a submodule takes an input with its axes as they are."""
        kind = self.script.classes[cls].attributes.get(part)
        found = kind.options if isinstance(kind, Module) else ()
        return bool(found) and all(not isinstance(one, LayerNode) or one.torch == "torch.nn.Linear" for one in found)

    def _taken_apart(self, cls: str, method: str, number: int) -> bool:
        """Whether a method takes an argument apart."""
        facts = self.script.functions.get(f"{cls}.{method}")
        names = facts.parameter_names[1:] if facts is not None else []
        return number < len(names) and self.takes_apart(cls, method, names[number])

    def _between(self, cls: str, node: Expr, calls: Mapping[str, str]) -> Expr | None:
        """What is done to results of methods before another one is given it, with names in the place of calls; None
        where it needs more than is bound by now."""
        bound = {name: self.script.functions[f"{cls}.{method}"].result for name, method in calls.items()}
        node = _of_any_length(node)
        if not all(name in bound or self.available_name(name) for name in usage.loads(node)):
            return None
        inner = self.inner(bound)
        inner.sampling = True
        return inner.expr(self.undrawn(node)).node


def _of_any_length(node: Expr) -> Expr:
    """`x.view(-1, 1, 28, 28)` for `x.view(targets.size(0), 1, 28, 28)`: an example has a length of its own."""
    for call in usage.calls(node):
        sizes = [arg.value for arg in call.args]
        known = [nodes.literal(size) for size in sizes]
        told = [number for number in known if type(number) is int and number > 0]
        shaped = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("view", "reshape")
        if shaped and len(told) == len(sizes) - 1 > 0 and -1 not in known:
            (other,) = [size for size, number in zip(sizes, known, strict=True) if number not in told]
            made = node.deep_replace(other, nodes.expression("-1"))
            assert isinstance(made, cst.BaseExpression)
            node = made
    return node


def _calls_itself(method: cst.FunctionDef) -> Callable[[cst.Call], bool]:
    """Whether a call is `self(x)`, in a method."""
    own = next((parameter.name.value for parameter in method.params.params), "")
    return lambda call: isinstance(call.func, cst.Name) and call.func.value == own


@dataclass
class MethodCalls:
    """Calls of methods of the model `name`, and what they are given from outside of it: of `whole`, which are counted
    as these are, a batch with all that is in it. `between` lowers what is done to the results of some, each under a
    name, before others are given it; `takes_apart` tells whether a method does so with an argument."""

    name: str
    between: Callable[[Expr, Mapping[str, str]], Expr | None]
    takes_apart: Callable[[str, int], bool]
    calls: list[Expr] = field(default_factory=list)
    given: list[Expr] = field(default_factory=list)
    whole: set[int] = field(default_factory=set)
    understood: bool = True

    def add(self, call: Expr) -> None:
        """Adds a call of a method."""
        self.calls.append(self._inside(call))

    def function(self, arguments: Sequence[Expr]) -> Expr:
        """`lambda model, x: model.decode(model.encode(x))`: each input is called as the argument that is given for
        it. A method that is all that is called is told by its name."""
        (first, *others), given = self.calls, [f"given_{number}" for number in range(len(arguments))]
        if not others and isinstance(first, cst.Call) and self.is_method(first, "model"):
            plain = all(arg.keyword is None for arg in first.args)
            if plain and [nodes.code(arg.value) for arg in first.args] == given:
                return cst.SimpleString(f'"{nodes.code(first.func).rpartition(".")[2]}"')
        names = ["model"]
        for number, argument in enumerate(arguments):
            plain = isinstance(argument, cst.Name) and argument.value not in names
            names.append(nodes.code(argument) if plain else f"x{number + 1}" if len(arguments) > 1 else "x")
        inputs = {f"given_{number}": nodes.name(name) for number, name in enumerate(names[1:])}
        texts = [nodes.code(call) for call in self.calls]
        whole = [
            c for number, c in enumerate(self.calls) if not any(texts[number] in one for one in texts[number + 1 :])
        ]
        calls = [nodes.substituted(call, inputs) for call in whole]
        body = nodes.bare(calls[0]) if len(calls) == 1 else nodes.tuple_of(calls)
        return cst.Lambda(cst.Parameters([cst.Param(cst.Name(name)) for name in names]), body)

    def _inside(self, node: Expr, whole: bool = False) -> Expr:
        """An expression with the model called `model`, and what does not come from it taken out."""
        if self.name not in usage.paths(node):
            return self._outside(node, whole)
        if self.is_method(node):
            assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
            self.understood &= not any(arg.star for arg in node.args)
            method = node.func.attr.value
            args = [
                arg.with_changes(value=self._inside(arg.value, self.takes_apart(method, number)))
                for number, arg in enumerate(node.args)
            ]
            return node.with_changes(func=node.func.with_changes(value=nodes.name("model")), args=args)
        if isinstance(node, cst.Subscript) and self.is_method(node.value):
            return node.with_changes(value=self._inside(node.value))
        found = _Calls(self)
        left = nodes.visited(node.deep_clone(), found)
        made = self.between(left, {name: method for name, (method, _) in found.calls.items()})
        self.understood &= made is not None
        return nodes.substituted(made or left, {name: self._inside(call) for name, (_, call) in found.calls.items()})

    def is_method(self, node: cst.CSTNode, name: str = "") -> bool:
        """Whether a node is a call of a method of the model, which is called so."""
        func = node.func if isinstance(node, cst.Call) else None
        return isinstance(func, cst.Attribute) and nodes.dotted(func.value) == (name or self.name)

    def _outside(self, node: Expr, whole: bool) -> Expr:
        if nodes.literal(node) is not ...:
            return node
        texts = [nodes.code(one) for one in self.given]
        if nodes.code(node) not in texts:
            self.given.append(node)
            texts.append(nodes.code(node))
        number = texts.index(nodes.code(node))
        self.whole |= {number} if whole else set()
        return nodes.name(f"given_{number}")


class _Calls(cst.CSTTransformer):
    """Puts names in the place of calls of methods."""

    def __init__(self, of: MethodCalls) -> None:
        super().__init__()
        self.of, self.calls = of, dict[str, tuple[str, cst.Call]]()  # name -> the method, and the call

    def visit_Call(self, node: cst.Call) -> bool:
        return not self.of.is_method(node)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = original_node.func
        if not self.of.is_method(original_node) or not isinstance(func, cst.Attribute):
            return updated_node
        name = f"part_{len(self.calls)}"
        self.calls[name] = func.attr.value, original_node
        return nodes.name(name)
