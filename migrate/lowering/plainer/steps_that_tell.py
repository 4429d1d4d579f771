"""Modules whose steps tell their trainer something: `self.log("loss", loss)` in `training_step`, where `log` asks the
trainer that was put on the module which batch it is.

A Flax module is frozen, and jit traces its steps. So the input is taken as if such a step returned what it tells, by
its keys, beside its result, and the trainer told it itself: the method that tells is the trainer's then, and so are the
objects that only it uses, a board to plot on for example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits, Exchanging, edited
from migrate.lowering.plainer.project_classes import ProjectClass, classes_of, is_alone, is_module
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class _Unclear(Exception):
    """What is told cannot be followed."""


@dataclass(frozen=True)
class _Trainer:
    """A class whose method `method` puts its object on a module, `given`, as `back`, and keeps that as `model`."""

    cls: ProjectClass
    method: cst.FunctionDef
    line: Statement
    given: str
    back: str
    model: str


@dataclass
class _Step:
    """A method of modules that tells: its definitions, how it tells (the arguments after key and value), and whether
    it has a result as well; `keys`, in their order, where jit would sort them; `some`: of which not all definitions
    tell all."""

    definitions: list[cst.FunctionDef] = field(default_factory=list)
    teller: str = ""
    rest: list[cst.Arg] = field(default_factory=list)
    gives: bool = False
    keys: tuple[str, ...] = ()
    some: bool = False


def with_told_returned(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with steps that return what they tell."""
    classes = classes_of(inputs)
    modules = {name for name in classes if is_module(name, classes)}
    trainers = [found for name in classes if name not in modules for found in _trainers(classes[name])]
    if len(trainers) != 1:
        return list(inputs)
    try:
        edits = _Telling(inputs, classes, modules, trainers[0]).edits()
    except _Unclear:
        return list(inputs)
    return [replace(one, source=edited(one.source, edits[one.scope])) if one.scope in edits else one for one in inputs]


def _trainers(cls: ProjectClass) -> Iterator[_Trainer]:
    for method in cls.methods.values():
        set_to = list(_set_attributes(method.body.body))
        for line, target, value in set_to:
            given = nodes.dotted(target.value) or ""
            if nodes.dotted(value) != "self" or given in ("self", ""):
                continue
            kept = [t.attr.value for _, t, v in set_to if nodes.dotted(t.value) == "self" and nodes.dotted(v) == given]
            if len(kept) == 1:
                yield _Trainer(cls, method, line, given, target.attr.value, kept[0])


def _set_attributes(body: Sequence[cst.CSTNode]) -> Iterator[tuple[Statement, cst.Attribute, Expr]]:
    """The statements of a block that set one attribute."""
    for line in suites.suite_of(body):
        small = suites.alone(line)
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if isinstance(small, cst.Assign) and isinstance(target, cst.Attribute):
            yield line, target, small.value


class _Telling:
    """The edits for one trainer."""

    def __init__(
        self, inputs: Sequence[Input], classes: Mapping[str, ProjectClass], modules: set[str], trainer: _Trainer
    ) -> None:
        self.inputs, self.trainer = inputs, trainer
        self.hosts = {cls.name for name, cls in classes.items() if name not in modules and is_alone(cls, classes)}
        self.modules = [classes[name] for name in classes if name in modules]
        self.tellers = self._tellers()
        self.made: dict[str, cst.SimpleStatementLine] = {}  # objects that only tellers use -> where they are made
        self.steps: dict[str, _Step] = {}
        self.moved: list[cst.FunctionDef] = []

    def edits(self) -> dict[str, Edits]:
        """What is changed of each file, by its scope. Raises _Unclear."""
        self.made = self._objects()
        self.steps = self._steps()
        if not self.steps or {*self.tellers, *self.made} & {*self.trainer.cls.methods}:
            raise _Unclear
        self.moved = [self._moved(teller) for teller in self.tellers.values()]
        found = {one.scope: Edits() for one in self.inputs}
        for cls in self.modules:
            edits = found[cls.file.scope]
            for name, method in cls.methods.items():
                if method in self.tellers.values():
                    edits.instead[method] = []
                elif name in self.steps:
                    edits.instead[method] = [self._returning(method, self.steps[name])]
        for line in self.made.values():
            self._edits_of(line, found).instead[line] = []
        for one in self.inputs:
            for line in every(one.source.module, cst.SimpleStatementLine):
                called = self._step_called(line)
                if called is not None:
                    found[one.scope].instead[line] = self._told(line, *called)
        self._of_trainer(found[self.trainer.cls.file.scope])
        return {scope: edits for scope, edits in found.items() if edits.instead or edits.behind}

    def _edits_of(self, line: cst.SimpleStatementLine, found: Mapping[str, Edits]) -> Edits:
        cls = next(one for one in self.modules if line in every(one.node, cst.SimpleStatementLine))
        return found[cls.file.scope]

    # -- what tells ---------------------------------------------------------------------------------------------------

    def _tellers(self) -> dict[str, cst.FunctionDef]:
        """The methods of modules that ask the trainer, by their names."""
        found: dict[str, cst.FunctionDef] = {}
        for cls in self.modules:
            for name, method in cls.methods.items():
                if f"self.{self.trainer.back}" in {".".join(path.split(".")[:2]) for path in usage.paths(method.body)}:
                    if name in found or cls.file is not self.trainer.cls.file or len(method.params.params) < 3:
                        raise _Unclear
                    found[name] = method
        for cls in self.modules:
            if any(method not in found.values() for name, method in cls.methods.items() if name in found):
                raise _Unclear
        return found

    def _objects(self) -> dict[str, cst.SimpleStatementLine]:
        """The objects that modules make for tellers alone."""
        read = {name for one in self.tellers.values() for name in usage.attributes_of_self(one.body)}
        found: dict[str, cst.SimpleStatementLine] = {}
        for cls in self.modules:
            init = cls.methods.get("__init__")
            for line, target, value in _set_attributes(init.body.body) if init is not None else ():
                name = target.attr.value
                made = isinstance(value, cst.Call) and not value.args and nodes.dotted(value.func) in self.hosts
                if nodes.dotted(target.value) == "self" and name in read and made:
                    if name in found or not isinstance(line, cst.SimpleStatementLine):
                        raise _Unclear
                    found[name] = line
        for name, line in found.items():
            inside = [line, *self.tellers.values(), self.trainer.cls.node]
            known = {id(one) for part in inside for one in every(part, cst.Attribute)}
            mentions = [one for file in self.inputs for one in every(file.source.module, cst.Attribute)]
            if any(one.attr.value == name and id(one) not in known for one in mentions):
                raise _Unclear
        return found

    def _moved(self, teller: cst.FunctionDef) -> cst.FunctionDef:
        """A method that tells, as one of the trainer."""
        instead: dict[cst.CSTNode, Expr | cst.RemovalSentinel] = {}
        methods = {name for cls in self.modules for name in cls.methods}
        for node in every(teller.body, cst.Attribute):
            if nodes.dotted(node.value) == "self" and node.attr.value == self.trainer.back:
                instead[node] = nodes.name("self")
            elif nodes.dotted(node.value) == "self" and node.attr.value not in self.made:
                if node.attr.value in methods or node.attr.value == "training":
                    raise _Unclear
                instead[node] = node.with_changes(value=nodes.expression(f"self.{self.trainer.model}"))
        body = [line for line in suites.suite_of(teller.body.body) if not self._asserts(line)]
        made = teller.with_changes(body=suites.block_of(teller.body, body))
        positions = dict(self.trainer.cls.file.source.positions)
        return nodes.visited(made, Exchanging(instead, positions))

    def _asserts(self, line: Statement) -> bool:
        """Whether a statement checks that the module has its trainer."""
        small = suites.alone(line)
        test = small.test if isinstance(small, cst.Assert) else None
        asks = isinstance(test, cst.Call) and nodes.dotted(test.func) == "hasattr" and len(test.args) == 2
        return asks and isinstance(test, cst.Call) and nodes.is_literal(test.args[1].value, self.trainer.back)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _steps(self) -> dict[str, _Step]:
        """The methods of modules that tell, by their names."""
        names = {
            name
            for cls in self.modules
            for name, method in cls.methods.items()
            if any(self._teller(call) for call in usage.calls(method.body))
        }
        if names & self.tellers.keys():
            raise _Unclear
        return {name: self._step(name) for name in sorted(names)}

    def _teller(self, call: cst.Call) -> str:
        owner, _, name = (nodes.dotted(call.func) or "").rpartition(".")
        return name if owner == "self" and name in self.tellers else ""

    def _step(self, name: str) -> _Step:
        made = _Step([cls.methods[name] for cls in self.modules if name in cls.methods])
        orders = set[tuple[str, ...]]()
        for method in made.definitions:
            body, told = self._parts(method)
            returned = [one.value for one in usage.returns(method.body) if one.value is not None]
            last = suites.alone(body[-1]) if body else None
            if len(returned) > 1 or (returned and not isinstance(last, cst.Return)):
                raise _Unclear
            made.gives |= bool(returned)
            for call in told:
                rest = list(call.args[2:])
                if made.teller and [nodes.code(arg) for arg in rest] != [nodes.code(arg) for arg in made.rest]:
                    raise _Unclear
                made.teller, made.rest = self._teller(call), rest
            orders.add(tuple(str(nodes.literal(call.args[0].value)) for call in told))
        if any(list(keys) != sorted(keys) for keys in orders):
            longest_first = sorted(orders, key=lambda keys: (-len(keys), keys))
            made.keys = tuple(dict.fromkeys(key for keys in longest_first for key in keys))
            made.some = len(orders) > 1
            if any([key for key in made.keys if key in keys] != list(keys) for keys in orders):
                raise _Unclear
        return made

    def _parts(self, method: cst.FunctionDef) -> tuple[list[Statement], list[cst.Call]]:
        """The statements of a step without those that tell, which only a `return` follows, and what these call."""
        body, told = [], list[cst.Call]()
        for line in suites.suite_of(method.body.body):
            small = suites.alone(line)
            call = small.value if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) else None
            if call is not None and self._teller(call):
                told.append(call)
                continue
            if any(self._teller(inner) for inner in usage.calls(line)) or (told and not isinstance(small, cst.Return)):
                raise _Unclear
            body.append(line)
        keys = [nodes.literal(call.args[0].value) if len(call.args) > 1 else None for call in told]
        constant = all(nodes.literal(arg.value) is not ... for call in told for arg in call.args[2:])
        placed = all(arg.keyword is None and not arg.star for call in told for arg in call.args[:2])
        if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys) or not constant or not placed:
            raise _Unclear
        return body, told

    def _returning(self, method: cst.FunctionDef, step: _Step) -> cst.FunctionDef:
        """A step that returns what it tells."""
        body, told = self._parts(method)
        by_key = nodes.dict_of([(str(nodes.literal(call.args[0].value)), call.args[1].value) for call in told])
        given = suites.alone(body[-1]) if body else None
        if step.gives and not (isinstance(given, cst.Return) and given.value is not None):
            if not suites.exits(body):
                raise _Unclear
            return method  # it raises an exception
        if isinstance(given, cst.Return) and given.value is not None:
            made = nodes.statement("return {v}", v=nodes.bare_tuple([given.value, by_key]))
            body = [*body[:-1], suites.commented(made, body[-1])]
        else:
            body = [*body, nodes.statement("return {v}", v=by_key)]
        return method.with_changes(body=suites.block_of(method.body, body))

    def _step_called(self, line: cst.SimpleStatementLine) -> tuple[cst.Call, str] | None:
        """The step that a statement calls, and the name that its result has; None for other statements."""
        calls = [call for call in usage.calls(line) if _method(call) in self.steps]
        if not calls:
            return None
        small, call = suites.alone(line), calls[0]
        whole = isinstance(small, cst.Assign | cst.Expr) and small.value is call and len(calls) == 1
        if not whole or nodes.dotted(call.func) != f"self.{self.trainer.model}.{_method(call)}":
            raise _Unclear
        target = small.targets[0].target if isinstance(small, cst.Assign) else None
        if target is not None and not (self.steps[_method(call)].gives and isinstance(target, cst.Name)):
            raise _Unclear
        return call, nodes.code(target) if target is not None else ""

    def _told(self, line: cst.SimpleStatementLine, call: cst.Call, name: str) -> list[Statement]:
        """The call of a step, and the loop that tells what it returns."""
        step, taken = self.steps[_method(call)], set(usage.stores(self.trainer.cls.node.body.body))
        taken |= {each for method in self.trainer.cls.methods.values() for each in usage.stores(method.body)}
        logged, key, value = (usage.unused_name(wanted, taken) for wanted in ("logged", "key", "value"))
        target = f"{name or '_'}, {logged}" if step.gives else logged
        first = nodes.statement(f"{target} = {{call}}", call=call)
        rest = "".join(f", {nodes.code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT))}" for arg in step.rest)
        head, item = f"{key}, {value} in {logged}.items()", value
        if step.keys:
            order = f"({', '.join(map(_quoted, step.keys))})"
            head = f"{key} in sorted({logged}, key={order}.index)" if step.some else f"{key} in {order}"
            item = f"{logged}[{key}]"
        loop = nodes.statements(f"for {head}:\n    self.{step.teller}({key}, {item}{rest})\n")
        return [suites.commented(first, line), *loop]

    # -- the trainer --------------------------------------------------------------------------------------------------

    def _of_trainer(self, edits: Edits) -> None:
        """The trainer makes the objects that tellers use, and has these."""
        trainer = self.trainer
        owners = {trainer.given, f"self.{trainer.model}"}
        set_here = {trainer.back} if usage.attributes(trainer.method.body).count(trainer.back) == 1 else set[str]()
        for method in trainer.cls.methods.values():
            instead: dict[cst.CSTNode, Any] = {}
            left = {*self.tellers, trainer.back} - (set_here if method is trainer.method else set())
            for node in every(method.body, cst.Attribute):
                if node.attr.value in self.made and nodes.dotted(node.value) in owners:
                    instead[node] = node.with_changes(value=nodes.name("self"))
                elif node.attr.value in self.made or (node.attr.value in left and nodes.dotted(node.value) in owners):
                    raise _Unclear
            for line in every(method.body, cst.SimpleStatementLine) if instead else ():
                changed = nodes.visited(line, Exchanging(instead, dict(trainer.cls.file.source.positions)))
                if changed is not line and line not in edits.instead:
                    edits.instead[line] = [changed]
        made = [
            nodes.statement(f"self.{name} = {{v}}", v=cst.ensure_type(suites.alone(line), cst.Assign).value)
            for name, line in self.made.items()
        ]
        edits.instead[trainer.line] = suites.with_comments(list(made), trainer.line) if made else []
        last = list(trainer.cls.methods.values())[-1]
        edits.behind[last] = [one.with_changes(leading_lines=[suites.BLANK]) for one in self.moved]


def _quoted(text: str) -> str:
    return f'"{text}"'


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
