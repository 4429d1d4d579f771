"""Elements of what is written out: `(a, b)[0]` is `a`, `{"x": a}["x"]` is `a`, and so is the first of `[a, b]`."""

from __future__ import annotations

import json

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

FIRST = "__first__"  # what a loop takes first of what it goes over


def projected(node: Expr) -> Expr:
    """An expression with such elements in the place of what takes them."""
    return nodes.visited(node, _Projection())


class _Projection(cst.CSTTransformer):
    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        return _element(updated_node.value, nodes.looked_up(updated_node)) or updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        if nodes.dotted(updated_node.func) != FIRST or len(updated_node.args) != 1:
            return updated_node
        return _first(updated_node.args[0].value) or updated_node


def _element(row: Expr, key: object) -> Expr | None:
    """What a literal looks up in what is written out; None of other expressions."""
    match row:
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            plain = all(isinstance(one, cst.Element) for one in elements)
            found = plain and isinstance(key, int) and -len(elements) <= key < len(elements)
            return nodes.parenthesized(elements[key].value) if found and isinstance(key, int) else None
        case cst.Dict():
            return _values(row).get(key) if isinstance(key, str | int) else None
        case cst.DictComp(for_in=cst.CompFor(ifs=[], inner_for_in=None)) if isinstance(key, str):
            return _made_of(row, key)
    return None


def _made_of(row: cst.DictComp, key: str) -> Expr | None:
    """An element of `{k: v.to(device) for k, v in batch.items()}`, where that of the batch is written out."""
    match row.for_in.target, row.for_in.iter:
        case (
            cst.Tuple(elements=[cst.Element(value=cst.Name(value=name)), cst.Element(value=cst.Name(value=each))]),
            cst.Call(func=cst.Attribute(value=source, attr=cst.Name("items")), args=[]),
        ) if nodes.dotted(row.key) == name:
            inner = _element(source, key)
            quoted = nodes.expression(json.dumps(key))
            return None if inner is None else nodes.substituted(row.value, {name: quoted, each: inner})
    return None


def _first(row: Expr) -> Expr | None:
    """What a loop takes first of what is written out; None of other expressions."""
    match row:
        case cst.Tuple() | cst.List() if row.elements:
            return _element(row, 0)
        case cst.Dict():
            return next((one.key for one in row.elements if isinstance(one, cst.DictElement) and _values(row)), None)
        case cst.Call(func=cst.Attribute(value=cst.Dict() as source, attr=cst.Name(value=part)), args=[]):
            key, value = _first(source), next(iter(_values(source).values()), None)
            if part == "items":
                return None if key is None or value is None else nodes.tuple_of([key, value])
            return {"keys": key, "values": value}.get(part)
    return None


def _values(row: cst.Dict) -> dict[object, Expr]:
    """The values of a dict that is written out, by literal keys; none where something in it is no such pair."""
    pairs = [one for one in row.elements if isinstance(one, cst.DictElement)]
    found = {nodes.literal(one.key): one.value for one in pairs}
    return found if len(found) == len(row.elements) and ... not in found else {}
