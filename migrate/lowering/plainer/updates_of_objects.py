"""Updates that an object makes in several methods, which leave each other what they compute in its attributes:

def forward(self):                                   def optimize(self):
    self.out = self.net(self.x)                          out = self.net(self.x)
                                                         self.out = out
def backward(self):                                      self.optimizer.zero_grad()
    self.loss = self.criterion(self.out, self.y)         loss = self.criterion(out, self.y)
    self.loss.backward()                                 self.loss = loss
                                                         loss.backward()
def optimize(self):                                      self.optimizer.step()
    self.forward()
    self.optimizer.zero_grad()
    self.backward()
    self.optimizer.step()

torch keeps the graph with the tensor; a loss function has to compute what it takes the gradient of. So the input is
taken as if the methods stood where the one that steps calls them, and as if what they compute had names there. The
attributes are set all the same.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import libcst as cst

from migrate.known.qualified import file_of, spelled
from migrate.known.script import Script
from migrate.lowering.plainer.body_at_call import Site, at_call
from migrate.lowering.plainer.copied_input import Edits, Exchanging, edited
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import AnyNode, Expr, Statement
from migrate.syntax.walking import every

_DEEPEST = 4  # methods that call methods


def with_updates_of_objects(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with such updates in one method; None where there are none."""
    script = lowered[0].script
    made = list(inputs)
    for name in sorted({scope.rpartition(".")[0] for scope in script.parted}):
        for number, one in enumerate(made):
            written = _class_at(one.source.module, spelled(name)) if file_of(f"{name}.x") == one.scope else None
            edits = _edits(written, name, script, _overridden(written, inputs)) if written is not None else None
            if edits is not None:
                made[number] = replace(one, source=edited(one.source, edits))
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _class_at(module: cst.Module, path: str) -> cst.ClassDef | None:
    found = [one for one in module.body if isinstance(one, cst.ClassDef) and one.name.value == path]
    return found[0] if len(found) == 1 else None


def _overridden(cls: cst.ClassDef, inputs: Sequence[Input]) -> set[str]:
    """The methods that classes write anew which inherit from a class: its own do not stand for them."""
    found, bases = set[str](), {cls.name.value}
    classes = [each for one in inputs for each in every(one.source.module, cst.ClassDef)]
    for each in classes * _DEEPEST:  # and those that inherit from them
        if bases & {(nodes.dotted(base.value) or "").rpartition(".")[2] for base in each.bases}:
            bases.add(each.name.value)
            found |= {one.name.value for one in suites.suite_of(each.body.body) if isinstance(one, cst.FunctionDef)}
    return found


def _edits(cls: cst.ClassDef, name: str, script: Script, overridden: Container[str]) -> Edits | None:
    """The edits of a class; None where nothing is to be done."""
    own = [one for one in suites.suite_of(cls.body.body) if isinstance(one, cst.FunctionDef)]
    methods = {one.name.value: one for one in own if one.name.value not in overridden}
    edits, inside = Edits(), set[str]()
    for_callers = {one for one, method in methods.items() if _goes_backward(method)}
    opened = {one: _whole(method, methods, for_callers)[0] for one, method in methods.items() if one not in for_callers}
    for_callers |= {one for one, method in opened.items() if _lacks_loss(method)}
    for method in methods.values():
        if method.name.value in for_callers:
            continue
        whole, taken = _whole(method, methods, for_callers)
        made = _named(whole, {one.name.value: one for one in own}, overridden)
        if made is not method:
            edits.instead[method] = [made]
            inside |= taken
    for one in inside:
        facts = script.functions.get(f"{name}.{one}")
        callers = {site.scope.rpartition(".")[2] for site in facts.calls} if facts is not None else set[str]()
        stepping = {each.name.value for each in edits.instead if isinstance(each, cst.FunctionDef)}
        if facts is not None and callers <= stepping | inside and methods[one] not in edits.instead:
            edits.instead[methods[one]] = []
    return edits if edits.instead else None


def _calls(node: cst.CSTNode, method: str) -> list[cst.Attribute]:
    """What a piece of code calls by the name of a method: `self.loss.backward`."""
    return [one for one in usage.methods_called(node) if one.attr.value == method]


# -- methods in the place of their calls ------------------------------------------------------------------------------


def _whole(
    method: cst.FunctionDef, methods: Mapping[str, cst.FunctionDef], for_callers: Container[str]
) -> tuple[cst.FunctionDef, set[str]]:
    """A method with those in the place of their calls that go backward for it (`for_callers`), or compute something
    ahead of that; and the names of those."""
    taken: set[str] = set()
    for _ in range(_DEEPEST):
        found: dict[Statement, list[Statement]] = {}
        calls = list(_calls_of_self(method))
        backward = [line for line, call in calls if _name_of(call) in for_callers]
        lines = list(every(method.body, cst.SimpleStatementLine))
        backward += [line for line in lines if _calls(line, "backward")]
        last = max(map(lines.index, backward), default=-1)
        for line, call in calls:
            called = methods.get(_name_of(call))
            if called is None or called.name.value == method.name.value or lines.index(line) > last:
                continue
            if called.name.value not in for_callers and (_calls(called, "step") or not _computes(called, methods)):
                continue
            body = at_call(called, Site(line, call, method), method=True)
            if body is not None:
                found[line] = body
                taken.add(called.name.value)
        if not found:
            return method, taken
        instead: dict[cst.CSTNode, Any] = {
            line: cst.FlattenSentinel(body) if body else cst.RemoveFromParent() for line, body in found.items()
        }
        method = nodes.visited(method, Exchanging(instead, {}))
    return method, taken


def _calls_of_self(method: cst.FunctionDef) -> Iterator[tuple[cst.SimpleStatementLine, cst.Call]]:
    """The calls of methods of the same object in plain statements."""
    for line in every(method.body, cst.SimpleStatementLine):
        for call in usage.calls(line):
            if isinstance(call.func, cst.Attribute) and nodes.dotted(call.func.value) == "self":
                yield line, call


def _name_of(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _goes_backward(method: cst.FunctionDef) -> bool:
    """Whether a method goes backward for those that call it, which step."""
    return bool(_calls(method, "backward")) and not _calls(method, "step")


def _lacks_loss(method: cst.FunctionDef) -> bool:
    """Whether a method goes backward from what those that call it have computed: `self.loss.backward()`, or from what
    they give it."""
    losses = [func.value for func in _calls(method, "backward")]
    kept = [one.attr.value for one in losses if isinstance(one, cst.Attribute) and nodes.dotted(one.value) == "self"]
    given = {one.name.value for one in method.params.params} & {nodes.dotted(one) for one in losses}
    return bool(given or set(kept) - usage.attributes_set(method.body))


def _computes(method: cst.FunctionDef, methods: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether a method keeps what it computes by what its object holds, `self.out = self.net(self.x)`, or by what
    others have kept."""
    called = [call.func for call in usage.calls(method.body)]
    by_own = any(isinstance(func, cst.Attribute) and nodes.dotted(func.value) == "self" for func in called)
    kept = {one for name, each in methods.items() if name != "__init__" for one in usage.attributes_set(each.body)}
    by_others = any(_reads(method.body, one) for one in kept)
    return (by_own or by_others) and bool(usage.attributes_set(method.body))


# -- what is computed has a name --------------------------------------------------------------------------------------


def _named(
    method: cst.FunctionDef, methods: Mapping[str, cst.FunctionDef], overridden: Container[str]
) -> cst.FunctionDef:
    """A method in which what goes backward has a name of its own, and all that it is computed of there."""
    if not _calls(method, "backward"):
        return method
    taken = {one.value for one in every(method, cst.Name)} - set(usage.attributes(method.body))
    made = nodes.visited(method, _Naming(taken, methods, overridden))
    return method if made.deep_equals(method) else made


class _Naming(cst.CSTTransformer):
    def __init__(self, taken: set[str], methods: Mapping[str, cst.FunctionDef], overridden: Container[str]) -> None:
        super().__init__()
        self.taken, self.methods, self.overridden = taken, methods, overridden

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        body = list(updated_node.body)
        last = max((number for number, one in enumerate(body) if _goes_back(one)), default=-1)
        if last < 0:
            return updated_node
        names: dict[str, str] = {}
        made: list[cst.BaseStatement] = []
        for number, statement in enumerate(body):
            attributes = _attributes_computed(statement)
            read = any(_reads(one, each) for each in attributes for one in body[number + 1 : last + 1])
            if not read or any(self.may_change(one, body) for one in attributes):
                made.append(_with_names(statement, names))
                continue
            line = cst.ensure_type(statement, cst.SimpleStatementLine)
            small = cst.ensure_type(line.body[0], cst.Assign)
            value = _with_names(small.value, names)
            for one in attributes:
                names[one] = names.get(one) or usage.unused_name(one, self.taken)
                self.taken.add(names[one])
            own = [nodes.name(names[one]) for one in attributes]
            target = own[0] if len(own) == 1 else nodes.tuple_of(own, parentheses=False)
            made.append(line.with_changes(body=[small.with_changes(targets=[cst.AssignTarget(target)], value=value)]))
            kept, given = ", ".join(f"self.{one}" for one in attributes), ", ".join(names[one] for one in attributes)
            made.append(nodes.statement(f"{kept} = {given}"))
        return updated_node.with_changes(body=made)

    def may_change(self, attribute: str, body: Sequence[cst.BaseStatement]) -> bool:
        """Whether anything else in a block may give the attribute of the object another value."""
        plain = [one for one in body if attribute in _attributes_computed(one)]
        if any(attribute in usage.attributes_set(one) for one in body if one not in plain):
            return True
        called = {
            one.func.attr.value for each in body for one in usage.calls(each) if isinstance(one.func, cst.Attribute)
        }
        setting = {name for name, one in self.methods.items() if attribute in usage.attributes_set(one.body)}
        unknown = any(name in self.overridden for name in called)
        return attribute in self.methods or unknown or bool(called & setting)


def _goes_back(statement: cst.BaseStatement) -> bool:
    call = suites.call_alone(statement)
    return call is not None and _name_of(call) == "backward"


def _attributes_computed(statement: cst.CSTNode) -> list[str]:
    """The attributes of `self` that a statement gives what it computes, `self.mu, self.logvar = self.encoder(x)`."""
    small = suites.alone(statement) if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return []
    target = small.targets[0].target
    targets = nodes.elements(target) if isinstance(target, cst.Tuple) else [target]
    values = nodes.elements(small.value) if isinstance(small.value, cst.Tuple) else [small.value]
    if all(nodes.dotted(one) is not None or nodes.literal(one) is not ... for one in values):
        return []
    paths = [nodes.dotted(one) or "" for one in targets]
    own = all(path.startswith("self.") and path.count(".") == 1 for path in paths)
    return [path.removeprefix("self.") for path in paths] if own else []


def _reads(node: cst.CSTNode, attribute: str) -> bool:
    return any(nodes.dotted(one) == f"self.{attribute}" for one in every(node, cst.Attribute))


def _with_names(node: AnyNode, names: Mapping[str, str]) -> AnyNode:
    return nodes.visited(node, _Names(names)) if names else node


class _Names(cst.CSTTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return False

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        own = self.names.get(original_node.attr.value) if nodes.dotted(original_node.value) == "self" else None
        return updated_node if own is None else nodes.name(own)
