"""Entries of results of transformers' models by their number: `outputs[0]`, `outputs[:2]`.

The library's results are dicts that are tuples as well, of what is not None: without labels there is no loss. Here they
are dicts.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode
from migrate.known.kinds import UNKNOWN, Items, Model, Module, Tensor
from migrate.known.qualified import file_of
from migrate.lowering.expressions.elements import DICT
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

_OF_LIBRARY = "transformers_"  # how the files begin that are rewritten along
_LABELS = ("label", "labels", "next_sentence_label", "start_positions")


def entry_of_result(scope: Scope, node: cst.Subscript, base: Value) -> Value | None:
    """An entry of such a result, or some of them as a tuple; None of other subscripts. Raises Unsupported."""
    if not isinstance(base.kind, Items) or base.kind.type != DICT or len(node.slice) != 1:
        return None
    call = scope.env.definitions.get(node.value.value) if isinstance(node.value, cst.Name) else node.value
    if not isinstance(call, cst.Call):
        return None
    keys = _keys(scope, call)
    part = node.slice[0].slice
    if keys is None or (isinstance(part, cst.Index) and isinstance(nodes.literal(part.value), str)):
        return None
    limits = _limits(part)
    if limits is None:
        raise Unsupported("MIG302", f"{nodes.code(node)}: which entry of a result of transformers is not known")
    may_lack_a_loss = keys[:1] == ["loss"] and _is_starred(call)
    if isinstance(part, cst.Slice):
        if may_lack_a_loss:
            raise _may_have_a_loss(node)
        entries = [nodes.expression(f'{{x}}["{key}"]', x=base.node) for key in keys[slice(*limits)]]
        return Value(nodes.tuple_of(entries), Items(tuple(Tensor() for _ in entries), type="tuple"))
    (number,) = limits
    assert number is not None
    if may_lack_a_loss:
        if number != 0 or len(keys) < 2:
            raise _may_have_a_loss(node)
        either = '{x}["loss"] if {x}["loss"] is not None else {x}["' + keys[1] + '"]'
        return Value(nodes.parenthesized(nodes.expression(either, x=base.node)), base.kind.joined())
    if not -len(keys) <= number < len(keys):
        raise Unsupported("MIG302", f"{nodes.code(node)}: the result of transformers has {len(keys)} entries here")
    return Value(nodes.expression(f'{{x}}["{keys[number]}"]', x=base.node), base.kind.joined())


def _limits(part: cst.BaseSlice) -> list[int | None] | None:
    """The number of an entry, or both ends of a slice without a step; None where a number is not known."""
    if isinstance(part, cst.Index):
        number = nodes.literal(part.value)
        return [number] if isinstance(number, int) else None
    if not isinstance(part, cst.Slice) or part.step is not None:
        return None
    limits: list[int | None] = []
    for end in (part.lower, part.upper):
        number = None if end is None else nodes.literal(end)
        if number is not None and not isinstance(number, int):
            return None
        limits.append(number)
    return limits


def _may_have_a_loss(node: Expr) -> Unsupported:
    return Unsupported("MIG302", f"{nodes.code(node)}: whether the result of transformers has a loss is not known")


def _keys(scope: Scope, call: cst.Call) -> list[str] | None:
    """What the result of a call of a model of transformers has, in its order."""
    attribute = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    own = scope.script.classes[scope.cls].attributes if scope.cls in scope.script.classes else {}
    of_self = attribute and nodes.dotted(call.func) == f"self.{attribute}"
    kind = own.get(attribute, UNKNOWN) if of_self else scope.kind_of(call.func)
    nodes_of = kind.options if isinstance(kind, Module) else ()
    classes = [kind.cls] if isinstance(kind, Model) else [one.cls for one in nodes_of if isinstance(one, ClassNode)]
    if len(classes) != 1 or not file_of(classes[0]).startswith(_OF_LIBRARY):
        return None
    facts = scope.script.classes.get(classes[0])
    forward = facts.method("forward") if facts is not None else None
    shown = [_names(one) for one in usage.returns(forward.body)] if forward is not None else []
    if not shown or not shown[-1]:
        return None
    given = {
        arg.keyword.value for arg in call.args if arg.keyword is not None and not nodes.is_literal(arg.value, None)
    }
    return [key for key in shown[-1] if key != "loss" or _is_starred(call) or given & {*_LABELS}]


def _is_starred(call: cst.Call) -> bool:
    """Whether a call unpacks something, in which the labels may be."""
    return any(arg.star for arg in call.args)


def _names(node: cst.Return) -> list[str]:
    """The keys of the dict that a statement returns."""
    value: Expr | None = node.value
    elements = value.elements if isinstance(value, cst.Dict) else ()
    keys = [nodes.literal(one.key) for one in elements if isinstance(one, cst.DictElement)]
    return [key for key in keys if isinstance(key, str)]
