"""The literals that an argument may be: `for on in (True, False): net(x, on)`, `net(x, "a" if step % 2 else "b")`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_MANY = 64  # more turns of a loop than layers in a row: not written out
_SIDES = [nodes.name("True"), nodes.name("False")]


class _UnknownError(Exception):
    """An argument may be something else than literals that are written; `settled`: always the same, a setting."""

    def __init__(self, settled: bool = False) -> None:
        super().__init__()
        self.settled = settled


def values_given(scope: Scope, node: Expr) -> list[Expr] | None:
    """The literals that an expression of a scope may be, each once; none where it is another value all the time, and
    None where it may be anything."""
    try:
        found = list(_Values(scope, frozenset()).of(node))
    except _UnknownError as unknown:
        return [] if unknown.settled else None
    return list({nodes.code(one): one for one in found}.values())


class _Values:
    """What expressions of one scope may be. `asked`: the names, with their scopes, that are being looked up."""

    def __init__(self, scope: Scope, asked: frozenset[tuple[str, str]], where: str | None = None) -> None:
        self.scope, self.asked = scope, asked
        self.where = scope.scope if where is None else where

    def of(self, node: Expr) -> Iterator[Expr]:
        if nodes.literal(node) is not ...:
            yield node
            return
        match node:
            case cst.IfExp():
                yield from self.of(node.body)
                yield from self.of(node.orelse)
            case cst.Comparison() | cst.UnaryOperation(operator=cst.Not()):
                yield from _SIDES
            case cst.Subscript():
                yield from self._elements(node.value, keys=False)
            case cst.Call(func=func, args=[cst.Arg(value=row)]) if nodes.dotted(func) == "random.choice":
                yield from self._elements(row, keys=False)
            case cst.Name():
                yield from self._of_name(node.value)
            case cst.Attribute():
                path = nodes.dotted(node) or ""
                raise _UnknownError(settled=bool(path) and path not in usage.attributes_set(self._body()))
            case _:
                raise _UnknownError

    def _of_name(self, name: str) -> Iterator[Expr]:
        within = self._within(name)
        facts = self.scope.script.functions.get(self.where)
        given = facts is not None and name in facts.parameter_names
        body = self._body()
        if not given and name not in usage.stores(body):
            file = self.scope.in_file_of(self.where)
            if file.scope == self.where or name not in usage.stores(file.unit.source.module):
                raise _UnknownError(settled=True)
            yield from _Values(self.scope, within.asked, file.scope)._of_name(name)
            return
        bound = [value for target, value in usage.bindings(body) if nodes.dotted(target) == name]
        loops = [loop for loop in every(body, cst.For) if name in usage.target_names(loop.target)]
        if usage.stores(body).count(name) > len(bound) + len(loops):
            raise _UnknownError  # `+=`, `with`, a part of a tuple
        for value in bound:
            yield from within.of(value)
        for loop in loops:
            yield from within._turns(loop.target, loop.iter, name)
        if given and facts is not None:
            if not facts.calls:
                raise _UnknownError
            for site in facts.calls:
                value = site.bound.get(name, facts.defaults.get(name))
                if value is None:
                    raise _UnknownError
                yield from _Values(self.scope, within.asked, site.scope).of(value)

    def _within(self, name: str) -> _Values:
        """The same scope, to look up what a name stands for."""
        if (self.where, name) in self.asked:
            raise _UnknownError
        return _Values(self.scope, self.asked | {(self.where, name)}, self.where)

    def _body(self) -> cst.CSTNode:
        facts = self.scope.script.functions.get(self.where)
        return facts.node.body if facts is not None else self.scope.in_file_of(self.where).unit.source.module

    def _turns(self, target: Expr, over: Expr, name: str) -> Iterator[Expr]:
        """What a loop binds a name to."""
        if isinstance(target, cst.Name):
            yield from self._elements(over)
            return
        called = nodes.dotted(over.func) if isinstance(over, cst.Call) else None
        parts = [nodes.dotted(one) for one in nodes.elements(target)] if isinstance(target, cst.Tuple) else []
        if name not in parts or not isinstance(over, cst.Call):
            raise _UnknownError
        at, args = parts.index(name), [arg.value for arg in over.args]
        if called == "zip" and len(args) == len(parts):
            yield from self._elements(args[at])
        elif called == "enumerate" and args and at == 1:
            yield from self._elements(args[0])
        elif isinstance(over.func, cst.Attribute) and over.func.attr.value == "items" and at == 0:
            yield from self._elements(over.func.value)
        else:
            raise _UnknownError

    def _elements(self, row: Expr, keys: bool = True) -> Iterator[Expr]:
        """What a loop over a row, or a lookup in it, gives. `keys`: of a dict those."""
        match row:
            case cst.Tuple() | cst.List() if all(isinstance(one, cst.Element) for one in row.elements):
                for one in nodes.elements(row):
                    yield from self.of(one)
            case cst.Dict() if keys:
                for one in row.elements:
                    if not isinstance(one, cst.DictElement):
                        raise _UnknownError
                    yield from self.of(one.key)
            case cst.Call(func=cst.Name("range"), args=args):
                limits = [limit for arg in args if isinstance(limit := nodes.literal(arg.value), int)]
                if not limits or len(limits) < len(args) or 0 in limits[2:]:
                    raise _UnknownError
                turns = range(*limits)
                if len(turns) > _MANY:
                    raise _UnknownError
                yield from (nodes.expression(str(number)) for number in turns)
            case cst.Name():
                within, body = self._within(row.value), self._body()
                bound = [value for target, value in usage.bindings(body) if nodes.dotted(target) == row.value]
                stored = usage.stores(body).count(row.value)
                if len(bound) != 1 or stored != 1 or row.value in usage.changed_by_methods(body):
                    raise _UnknownError
                yield from within._elements(bound[0], keys)
            case _:
                raise _UnknownError
