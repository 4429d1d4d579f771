"""Optimizer classes of the user's own, read from their syntax: what a step makes of one parameter.

`step()` of such a class is a loop over parameter groups and their parameters. Its body is a function of the parameter,
the gradient, what the optimizer keeps of the parameter, and the hyperparameters; here it is written with plain names
for all of these: `p.grad` is `grad`, `state["exp_avg"]` is `exp_avg`, `group["lr"]` is `lr`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.optimizer_source.inlining import Inlining
from migrate.optimizer_source.loops import Loop, loop_of
from migrate.optimizer_source.names import named
from migrate.optimizer_source.starts import refused
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.suites import first_line
from migrate.syntax.walking import every

_OF_TORCH = ("zero_grad", "state_dict", "load_state_dict", "add_param_group", "param_groups", "state")
_REQUIRED = "required"
_OWN = ("init", "update", "params", "grads", "state")  # names of the output's own


@dataclass(frozen=True)
class Entry:
    """What an optimizer keeps: its key in torch's state of a parameter, the name that a step has for it, and what it
    starts with, in terms of the parameter."""

    key: str
    name: str
    first: Expr


@dataclass(frozen=True)
class OptimizerClass:
    """`params`: those of the constructor. `head`: its statements but the call of torch's. `options`: the keys of a
    parameter group that hold a parameter of the constructor. `body`: a step, which binds `weight` and the names of the
    entries again; `counter`: how often it was made, with whether that counts this one already."""

    name: str
    params: cst.Parameters
    head: tuple[Statement, ...]
    options: frozenset[str]
    hyperparameters: frozenset[str]
    weight: str
    grad: str
    entries: tuple[Entry, ...]
    body: tuple[Statement, ...]
    counter: Entry | None = None
    counts_first: bool = True
    fills: bool = False


def read(node: cst.ClassDef, helpers: Mapping[str, cst.FunctionDef]) -> OptimizerClass:
    """What an optimizer class does, with the functions of its file that change what they are given; Unsupported where
    it is no such function. Methods that its step does not call are left out: the output has no object to call them
    of."""
    name = node.name.value
    methods = {part.name.value: part for part in suites.suite_of(node.body.body) if isinstance(part, cst.FunctionDef)}
    others = [method for method in methods if method in _OF_TORCH]
    if others or "__init__" not in methods or "step" not in methods:
        has = f"has the method {others[0]}" if others else "has no constructor and no step of its own"
        raise refused(name, has)
    constructor = _Constructor(name, methods["__init__"])
    called = dict(helpers) | {f"self.{key}": value for key, value in methods.items()}
    step = Inlining(name, called, methods["step"]).of(methods["step"])
    return _as_function(node, constructor, loop_of(name, step))


class _Constructor:
    """What a constructor hands on to torch, and what it keeps: hyperparameters by the keys of a parameter group, and by
    the attributes of the object."""

    def __init__(self, name: str, node: cst.FunctionDef) -> None:
        params = node.params
        plain_ones = params.params
        if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or len(plain_ones) < 2:
            raise refused(name, "its constructor takes other than plain parameters")
        self.name = name
        self.weights = plain_ones[1].name.value
        self.params = params.with_changes(params=[_without_required(each) for each in plain_ones[2:]])
        self.names = frozenset(p.name.value for p in (*self.params.params, *params.kwonly_params))
        self.groups: dict[str, Expr] = {}
        self.attributes: dict[str, Expr] = {}
        self.head: list[Statement] = []
        defaults: dict[str, Expr] = {}
        named: str | None = None
        handed = False
        for statement in suites.suite_of(node.body.body):
            if handed and not self._attribute(statement):
                raise refused(name, f"its constructor goes on with {first_line(statement)}")
            given = _handed_to_torch(statement)
            if given is not None:
                handed = True
                if len(given) != 2 or nodes.dotted(given[0]) != self.weights:
                    raise refused(name, f"its constructor hands on {', '.join(map(nodes.code, given))}")
                written = _dict_of(given[1])
                if written is None and (named is None or nodes.dotted(given[1]) != named):
                    raise refused(name, f"its hyperparameters are not written out: {nodes.code(given[1])}")
                self.groups = defaults if written is None else written
                continue
            assigned = _assigned(statement)
            written = _dict_of(assigned[1]) if assigned is not None else None
            if assigned is not None and written is not None:
                named, defaults = nodes.dotted(assigned[0]), written
            elif _REQUIRED in usage.loads(statement):
                continue  # Python asks for what has no default
            elif not handed and not self._attribute(statement):
                if self.weights in usage.loads(statement):
                    raise refused(name, f"its constructor works on the parameters: {first_line(statement)}")
                self.head.append(statement)
        if not handed:
            raise refused(name, "its constructor does not call that of torch")

    def options(self) -> tuple[dict[str, str], list[Statement]]:
        """The hyperparameters by their keys, and by their attributes: the names that they have, and the statements that
        give them those."""
        found: dict[str, str] = {}
        made: list[Statement] = []
        for key, value in (*self.attributes.items(), *self.groups.items()):
            text = nodes.dotted(value)
            if text in self.names:
                name = text or ""
            elif key.isidentifier() and key not in self.names:
                name = key
                made.append(nodes.statement(f"{key} = {{value}}", value=value))
            else:
                raise refused(self.name, f"its hyperparameter {key} is {nodes.code(value)}")
            if found.setdefault(key, name) != name or (
                name == key and made and key in self.attributes.keys() & self.groups.keys()
            ):
                raise refused(self.name, f"{key} is an attribute and a hyperparameter")
        return found, made

    def _attribute(self, statement: Statement) -> bool:
        """Whether a statement keeps a hyperparameter as an attribute."""
        assigned = _assigned(statement)
        target = nodes.dotted(assigned[0]) if assigned is not None else None
        if assigned is None or target is None or not target.startswith("self.") or target.count(".") > 1:
            return False
        self.attributes[target.removeprefix("self.")] = assigned[1]
        return True


def _as_function(node: cst.ClassDef, constructor: _Constructor, loop: Loop) -> OptimizerClass:
    name = constructor.name
    options, made = constructor.options()
    hyperparameters = constructor.names | set(options.values())
    step = named(name, loop, options)
    clash = hyperparameters & {step.weight, step.grad, *step.entries.values(), *_OWN}
    if clash:
        raise refused(name, f"its hyperparameter {min(clash)} has the name of something else")
    if nodes.dotted(constructor.groups.get("lr", nodes.name("None"))) != "lr":
        raise refused(name, "it has no learning rate called lr")
    _refuse_left(name, step.body, loop)
    found = [Entry(key, step.entries[key], first) for key, first in step.first.items()]
    counters = [entry for entry in found if is_number(entry.first)]
    if len(counters) > 1:
        raise refused(name, f"keeps several numbers: {', '.join(entry.key for entry in counters)}")
    counter = counters[0] if counters else None
    body, counts_first = (step.body, True) if counter is None else _uncounted(name, counter, step.body)
    docstring = [part for part in suites.suite_of(node.body.body)[:1] if suites.is_docstring(part)]
    own = [part for part in constructor.head[:1] if suites.is_docstring(part)]
    head = [part for part in constructor.head if part not in own]
    return OptimizerClass(
        name,
        constructor.params,
        (*(docstring or own), *head, *made),
        frozenset(key for key, value in constructor.groups.items() if nodes.dotted(value) == key),
        hyperparameters,
        step.weight,
        step.grad,
        tuple(entry for entry in found if entry is not counter),
        tuple(body),
        counter,
        counts_first,
        loop.fills,
    )


def is_number(node: Expr) -> bool:
    """Whether an expression is a number."""
    return isinstance(nodes.literal(node), int | float)


def _uncounted(name: str, counter: Entry, body: Sequence[Statement]) -> tuple[list[Statement], bool]:
    """A step without the statement that counts it, and whether that comes before all that reads the count."""
    steps = [number for number, each in enumerate(body) if counter.name in usage.stores(each)]
    if (
        len(steps) != 1
        or nodes.code(body[steps[0]].with_changes(leading_lines=[])).strip()
        not in (
            f"{counter.name} += 1",
            f"{counter.name} = {counter.name} + 1",
            f"{counter.name} += 1.0",
        )
        or nodes.literal(counter.first) != 0
    ):
        raise refused(name, f"keeps a number that does not count its steps: {counter.key}")
    (at,) = steps
    before = any(counter.name in usage.loads(each) for each in body[:at])
    after = any(counter.name in usage.loads(each) for each in body[at + 1 :])
    if before and after:
        raise refused(name, f"reads {counter.key} before and after it counts")
    return [*body[:at], *body[at + 1 :]], not before


def _refuse_left(name: str, body: Sequence[Statement], loop: Loop) -> None:
    """Declines a step that leaves the loop, or reaches for more of the object or the state."""
    left = {"self", loop.group, *(each for each in (loop.state,) if each)} & set(usage.loads(body))
    if left:
        found = next(each for each in body if left & set(usage.loads(each)))
        raise refused(name, f"its step does more than change one parameter: {first_line(found)}")
    for each in every(cst.Module(list(body)), (cst.Continue, cst.Break, cst.Return, cst.Yield)):
        raise refused(name, f"its step leaves the loop: {nodes.code(each)}")


def _without_required(parameter: cst.Param) -> cst.Param:
    """A parameter whose default is torch's mark for those that must be given."""
    if parameter.default is None or nodes.dotted(parameter.default) != _REQUIRED:
        return parameter
    return parameter.with_changes(default=None, equal=cst.MaybeSentinel.DEFAULT)


def _handed_to_torch(statement: Statement) -> list[Expr] | None:
    """What `super().__init__(params, defaults)` hands on."""
    for call in usage.calls(statement):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "__init__":
            args = [arg.value for arg in call.args]
            return args[1:] if args and nodes.dotted(args[0]) == "self" else args
    return None


def _assigned(statement: Statement) -> tuple[Expr, Expr] | None:
    """The target and the value of a plain assignment."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return None
    return small.targets[0].target, small.value


def _dict_of(node: Expr) -> dict[str, Expr] | None:
    """A dict that is written out, by its keys."""
    named = isinstance(node, cst.Call) and all(arg.keyword is not None for arg in node.args)
    if isinstance(node, cst.Call) and nodes.dotted(node.func) == "dict" and named:
        return {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
    if isinstance(node, cst.Dict):
        pairs = [(nodes.literal(e.key), e.value) for e in node.elements if isinstance(e, cst.DictElement)]
        if len(pairs) == len(node.elements) and all(isinstance(key, str) for key, _ in pairs):
            return {str(key): value for key, value in pairs}
    return None
