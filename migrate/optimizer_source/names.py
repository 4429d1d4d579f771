"""A step of an optimizer with plain names for the parameter, its gradient, its state and the hyperparameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.optimizer_source.loops import Loop
from migrate.optimizer_source.starts import key_of, refused
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_WEIGHT, _GRAD, _STATE, _OPTION = "__weight", "__grad", "__state_", "__option_"  # names until the last ones are found


@dataclass(frozen=True)
class Named:
    """A step: `body` binds `weight` and the names of the `entries` again, which start with `first`, by their keys."""

    weight: str
    grad: str
    entries: Mapping[str, str]
    first: Mapping[str, Expr]
    body: tuple[Statement, ...]


def named(name: str, loop: Loop, options: Mapping[str, str]) -> Named:
    """A step with plain names. `options`: names of hyperparameters by the keys of a group, and by attributes of the
    object."""
    if _plain_stores(loop.body)[loop.weight]:
        raise refused(name, f"its step binds {loop.weight} again")
    plain = _Plain(loop, options)
    body = [made for each in loop.body for made in _one_by_one(nodes.visited(each, plain))]
    changed = [each.removeprefix(_OPTION) for each in usage.stores(body) if each.startswith(_OPTION)]
    if changed:
        raise refused(name, f"its step changes the hyperparameter {changed[0]}")
    first = {key: nodes.visited(value, plain) for key, value in loop.first.items()}
    final = {_WEIGHT: loop.weight, _GRAD: "grad", **{_STATE + key: key for key in loop.first}}
    for slot in final:
        while (alias := _alias(body, slot)) is not None:
            body = _without_nothing(_renamed(body, {alias: slot}))
            first = {key: nodes.visited(value, _Renamed({alias: slot})) for key, value in first.items()}
            if slot != _WEIGHT and alias not in final.values():
                final[slot] = alias
        body = _until_bound_again(body, slot)
    for key, option in options.items():
        if _plain_stores(body)[option] == 1 and _binds(body, option, _OPTION + key):
            body = _without_nothing(_renamed(body, {option: _OPTION + key}))
    final |= {_OPTION + key: option for key, option in options.items()}
    own = {each: f"{each}_now" for each in usage.stores(body) if each in final.values() and each not in final}
    started = {key: nodes.visited(_started(name, value), _Renamed(final)) for key, value in first.items()}
    entries = {key: final[_STATE + key] for key in loop.first}
    return Named(final[_WEIGHT], final[_GRAD], entries, started, tuple(_renamed(_renamed(body, own), final)))


def _started(name: str, value: Expr) -> Expr:
    """What an entry starts with: zeros of the gradient are zeros of the weight."""
    made = nodes.visited(value, _Alike())
    if _GRAD in usage.loads(made):
        raise refused(name, f"its state starts with the first gradient: {nodes.code(value).replace(_GRAD, 'grad')}")
    return made


class _Alike(cst.CSTTransformer):
    """`torch.zeros_like(grad)` as that of the weight."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        alike = (nodes.dotted(updated_node.func) or "").rpartition(".")[2] in ("zeros_like", "ones_like")
        if not alike or nodes.dotted(updated_node.args[0].value) != _GRAD:
            return updated_node
        return nodes.substituted(updated_node, {_GRAD: nodes.name(_WEIGHT)})


def _renamed(body: Sequence[Statement], names: Mapping[str, str]) -> list[Statement]:
    return [nodes.visited(each, _Renamed(names)) for each in body]


class _Plain(cst.CSTTransformer):
    """Names for what a step reaches through the parameter, the state, the group and the object."""

    def __init__(self, loop: Loop, options: Mapping[str, str]) -> None:
        super().__init__()
        self.loop, self.options = loop, options

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        base, attribute = nodes.dotted(updated_node.value), updated_node.attr.value
        if base == _WEIGHT and attribute == "grad":
            return nodes.name(_GRAD)
        if base in (_WEIGHT, _GRAD) and attribute == "data":
            return updated_node.value
        if base == "self" and attribute in self.options:
            return nodes.name(_OPTION + attribute)
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        key = key_of(original_node, self.loop.state, self.loop.weight)
        if key is not None:
            return nodes.name(_STATE + key) if key in self.loop.first else updated_node
        option = key_of(original_node, self.loop.group, "")
        return nodes.name(f"{_OPTION}{option}") if option in self.options else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        args = updated_node.args  # XLA lays arrays out itself
        said = [arg for arg in args if arg.keyword is None or arg.keyword.value != "memory_format"]
        return nodes.with_some(updated_node, said)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return nodes.name(_WEIGHT) if original_node.value == self.loop.weight else updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        """`torch.max(a, b, out=a)` binds a again."""
        small = updated_node.body[0]
        if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
            return updated_node
        call = small.value
        out = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "out"]
        if len(out) != 1:
            return updated_node
        call = nodes.with_some(call, [arg for arg in call.args if arg is not out[0]])
        copied = nodes.expression("{out}.copy_({call})", out=out[0].value, call=call)
        return updated_node.with_changes(body=[cst.Expr(copied)])


class _Renamed(cst.CSTTransformer):
    """Names instead of others; attribute and keyword names stay."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        found = self.names.get(original_node.value)
        return updated_node if found is None else updated_node.with_changes(value=found)


def _one_by_one(statement: Statement) -> Iterator[Statement]:
    """`a, b = state["a"], state["b"]` as two statements."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.value, cst.Tuple):
        target = small.targets[0].target
        pairs = nodes.elements(target) if isinstance(target, cst.Tuple) else []
        values = nodes.elements(small.value)
        slots = all((nodes.dotted(value) or "").startswith("__") for value in values)
        if slots and len(pairs) == len(values):
            for number, (one, value) in enumerate(zip(pairs, values, strict=True)):
                lines = statement.leading_lines if number == 0 else []
                made = cst.SimpleStatementLine([cst.Assign([nodes.target(one)], value)], leading_lines=lines)
                yield made
            return
    yield statement


def _alias(body: Sequence[Statement], slot: str) -> str | None:
    """A name that is the same tensor as `slot` wherever it is read; None where there is none."""
    stores, loads = _plain_stores(body), Counter(usage.loads(body))
    for small in _assignments(body):
        name = nodes.dotted(small.targets[0].target) if len(small.targets) == 1 else None
        if name is None or "." in name or name.startswith("__") or nodes.dotted(small.value) != slot:
            continue
        back = [other for other in _assignments(body) if _is(other, slot, name)]
        if stores[name] == 1 and stores[slot] == len(back):
            return name
        if slot == _GRAD and loads[slot] == 1 and stores[slot] == 0:
            return name
        ends = [number for number, each in enumerate(body) if _is(_small(each), slot, name)]
        after = body[ends[0] + 1 :] if ends else []
        alone = loads[slot] == 1 and stores[slot] == 1 and len(ends) == 1
        if alone and not _plain_stores(after)[name] and any(_small(each) is small for each in body[: ends[0]]):
            return name
    return None


def _until_bound_again(body: Sequence[Statement], slot: str) -> list[Statement]:
    """The body without the names that are the same tensor as `slot` until they are bound again, where that is certain:
    `m = state["m"]`, and later `m = m / correction`."""
    made = list(body)
    for at, each in enumerate(body):
        small = _small(each)
        name = nodes.dotted(small.targets[0].target) if isinstance(small, cst.Assign) else None
        if name is None or not isinstance(small, cst.Assign) or not _is(small, name, slot):
            continue
        end = next((n for n, other in enumerate(body[at + 1 :], at + 1) if _plain_stores([other])[name]), None)
        last = _small(body[end]) if end is not None else None
        if end is None or not isinstance(last, cst.Assign) or _plain_stores(body[at:end])[slot]:
            continue
        made[at:end] = _renamed(made[at:end], {name: slot})
        again = last.with_changes(value=nodes.visited(last.value, _Renamed({name: slot})))
        made[end] = made[end].with_changes(body=[again])
        return _until_bound_again(_without_nothing(made), slot)
    return made


def _small(statement: Statement) -> cst.BaseSmallStatement | None:
    return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None


def _is(small: cst.BaseSmallStatement | None, target: str, value: str) -> bool:
    """Whether a statement is `target = value`."""
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return False
    return nodes.dotted(small.targets[0].target) == target and nodes.dotted(small.value) == value


def _binds(body: Sequence[Statement], name: str, value: str) -> bool:
    return any(_is(small, name, value) for small in _assignments(body))


def _assignments(body: Sequence[Statement]) -> Iterator[cst.Assign]:
    return every(cst.Module(list(body)), cst.Assign)


def _plain_stores(body: Sequence[Statement]) -> Counter[str]:
    """How often names are bound again, changes in place left out."""
    in_place = [
        each.target.value for each in every(cst.Module(list(body)), cst.AugAssign) if isinstance(each.target, cst.Name)
    ]
    return Counter(usage.stores(body)) - Counter(in_place)


def _without_nothing(body: Sequence[Statement]) -> list[Statement]:
    """Statements without `x = x`, whose comments go to what follows."""
    made: list[Statement] = []
    lines: list[cst.EmptyLine] = []
    for each in body:
        small = _small(each)
        if isinstance(small, cst.Assign) and _is(small, nodes.code(small.value), nodes.code(small.value)):
            lines += suites.comments(each)
            continue
        if isinstance(each, cst.If):
            inner = _without_nothing(suites.suite_of(each.body.body))
            if not inner and each.orelse is None:
                continue
            each = each.with_changes(body=suites.block_of(each.body, inner))
        made.append(each.with_changes(leading_lines=[*lines, *each.leading_lines]) if lines else each)
        lines = []
    return made
