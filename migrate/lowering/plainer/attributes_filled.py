"""Tensors that a constructor makes under an attribute, and fills after that; lists that it fills, and makes something
else of under the same name:

    self.table = torch.zeros(n, width)              table = torch.zeros(n, width)
    self.table[:, 0::2] = torch.sin(angles)         table[:, 0::2] = torch.sin(angles)
                                                    self.table = table
    self.net = []                                   net = []
    self.net.append(nn.Linear(width, 2))            net.append(nn.Linear(width, 2))
    self.net = nn.Sequential(*self.net)             self.net = nn.Sequential(*net)

A local name may be bound again, which an attribute of a Flax module should not be. `self.table.requires_grad = False`
says of a new tensor what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import CodeRange

from migrate.lowering.plainer.copied_input import Placing
from migrate.lowering.plainer.frozen_as_made import frozen_attribute
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


@dataclass(frozen=True)
class _Made:
    """A statement that makes a tensor, `self.name = value` or `self.register_buffer("name", value)`, or a list."""

    name: str
    value: Expr
    registering: cst.Call | None = None

    def bound(self, local: str, line: cst.SimpleStatementLine) -> Statement:
        """The same under a local name."""
        return line.with_changes(body=[cst.Assign([nodes.target(nodes.name(local))], self.value)])

    def kept(self, local: str) -> Statement:
        """What the local name stands for under the attribute."""
        if self.registering is None:
            return nodes.statement(f"self.{self.name} = {local}")
        args = list(self.registering.args)
        args[1] = args[1].with_changes(value=nodes.name(local))
        return cst.SimpleStatementLine([cst.Expr(self.registering.with_changes(args=args))])


def attributes_filled(
    init: cst.FunctionDef,
    methods: set[str],
    torch_name: Callable[[Expr], str | None],
    positions: dict[cst.CSTNode, CodeRange],
) -> list[Statement] | None:
    """The statements of a constructor with such tensors under local names until they are filled; None where it has
    none. `methods`: those of the class, which may read attributes."""

    def is_tensor(value: Expr) -> bool:
        return _is_new_tensor(value, torch_name)

    body = list(suites.suite_of(init.body.body))
    written = [_made(one, is_tensor) for one in body]
    names = [made.name for made in written if made is not None]
    found = False
    for made in [one for one in written if one is not None and names.count(one.name) == 1]:
        if isinstance(made.value, cst.List):
            closed = _list_closed(body, made, methods, positions)
        else:
            start = next(n for n, one in enumerate(body) if _made(one, is_tensor) == made)
            frozen = [one for one in body[start + 1 :] if frozen_attribute(one) == made.name]
            body, found = [one for one in body if one not in frozen], found or bool(frozen)
            closed = _tensor_filled(body, start, made, methods, positions)
        body, found = (body, found) if closed is None else (closed, True)
    return body if found else None


def _tensor_filled(
    body: Sequence[Statement], start: int, made: _Made, methods: set[str], positions: dict[cst.CSTNode, CodeRange]
) -> list[Statement] | None:
    """The statements with a tensor, which one of them makes, under a local name until it is filled."""
    path, line = f"self.{made.name}", body[start]
    end = max((n for n, one in enumerate(body) if n > start and _fills(one, path)), default=start)
    if end == start or not isinstance(line, cst.SimpleStatementLine):
        return None
    if _is_seen(body[start + 1 : end + 1], made.name, methods):
        return None
    renaming = _Local(positions, path, _local_name(made, body, methods))
    kept = made.kept(renaming.local)
    renaming.place(kept, line)
    return [*body[:start], *renaming.bound(made, line, body[start + 1 : end + 1]), kept, *body[end + 1 :]]


def _list_closed(
    body: Sequence[Statement], made: _Made, methods: set[str], positions: dict[cst.CSTNode, CodeRange]
) -> list[Statement] | None:
    """The statements with a list under a local name until its attribute is something else that is made of it."""
    path = f"self.{made.name}"
    lists = [n for n, one in enumerate(body) if _binds(one, made.name)]
    if len(lists) != 2:
        return None
    start, end = lists
    line, last = body[start], suites.alone(body[end])
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(last, cst.Assign):
        return None
    inside = [*body[start + 1 : end], cst.SimpleStatementLine([cst.Expr(last.value)])]
    plain = nodes.dotted(last.targets[0].target) == path and path in usage.paths(last.value)
    if not plain or len(last.targets) > 1 or _is_seen(inside, made.name, methods):
        return None
    renaming = _Local(positions, path, _local_name(made, body, methods))
    whole = last.with_changes(value=nodes.visited(last.value, renaming))
    closing = cst.ensure_type(body[end], cst.SimpleStatementLine).with_changes(body=[whole])
    renaming.place(closing, body[end])
    return [*body[:start], *renaming.bound(made, line, body[start + 1 : end]), closing, *body[end + 1 :]]


def _local_name(made: _Made, body: Sequence[Statement], methods: set[str]) -> str:
    return usage.unused_name(made.name, {*usage.stores(body), *usage.loads(body), *methods})


def _made(statement: Statement, is_tensor: Callable[[Expr], bool]) -> _Made | None:
    match suites.alone(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value) if isinstance(
            value, cst.List
        ) or is_tensor(value):
            (name,) = usage.attributes_in(target) or [""]
            return _Made(name, value) if name else None
        case cst.Expr(value=cst.Call(args=[name, given, *_]) as call) if (
            nodes.dotted(call.func) == "self.register_buffer"
        ):
            told = nodes.literal(name.value)
            plain = isinstance(told, str) and name.keyword is None and given.keyword is None
            return _Made(str(told), given.value, call) if plain and is_tensor(given.value) else None
    return None


def _is_new_tensor(value: Expr, torch_name: Callable[[Expr], str | None]) -> bool:
    """Whether an expression is a call of a function of torch's, or of methods of what one returns."""
    while isinstance(value, cst.Call):
        name = torch_name(value.func)
        if name is not None:
            trained = any(arg.keyword is not None and arg.keyword.value == "requires_grad" for arg in value.args)
            return name.count(".") == 1 and not trained
        if not isinstance(value.func, cst.Attribute):
            return False
        value = value.func.value
    return False


def _fills(statement: Statement, path: str) -> bool:
    """Whether a statement, or one inside a loop or branch, changes the tensor in place."""
    changed = [one.target for one in every(statement, (cst.AssignTarget, cst.AugAssign))]
    parts = any(isinstance(one, cst.Subscript) and nodes.dotted(one.value) == path for one in changed)
    called = usage.methods_called(statement)
    return parts or any(usage.is_in_place(one.attr.value) and _starts_at(one.value, path) for one in called)


def _starts_at(node: Expr, path: str) -> bool:
    """Whether an expression is the tensor, or a part of it."""
    return nodes.dotted(node.value if isinstance(node, cst.Subscript) else node) == path


def _is_seen(statements: Sequence[Statement], name: str, methods: set[str]) -> bool:
    """Whether something between may see the attribute, or bind it anew: a method, or what is given the module."""
    asked = [one for line in statements for one in every(line, cst.Attribute) if nodes.dotted(one.value) == "self"]
    whole = sum(one.value == "self" for line in statements for one in every(line, cst.Name)) > len(asked)
    inner = any(True for line in statements for _ in every(line, (cst.FunctionDef, cst.Lambda)))
    set_anew = any(_binds(line, name) for line in statements)
    return whole or inner or set_anew or any(one.attr.value in methods for one in asked)


def _binds(statement: Statement, name: str) -> bool:
    """Whether a statement, or one inside it, binds an attribute: `self.x += 1` changes what it has."""
    targets = [one.target for one in every(statement, (cst.AssignTarget, cst.AnnAssign, cst.For, cst.NamedExpr))]
    return any(name in usage.attributes_in(target) for target in targets)


class _Local(Placing):
    """Puts a name in the place of a path."""

    def __init__(self, positions: dict[cst.CSTNode, CodeRange], path: str, local: str) -> None:
        super().__init__(positions)
        self.path, self.local = path, local

    def bound(self, made: _Made, line: cst.SimpleStatementLine, following: Sequence[Statement]) -> list[Statement]:
        """The statement that makes it, and those that follow, with the name."""
        first = made.bound(self.local, line)
        self.place(first, line)
        return [first, *(nodes.visited(one, self) for one in following)]

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return nodes.name(self.local) if nodes.dotted(original_node) == self.path else updated_node
