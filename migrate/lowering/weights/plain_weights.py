"""What a loop over parameters says, in plain terms: a statement for each change of one of its variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.known.kinds import Place
from migrate.known.states import GRADS, PARAMS
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


@dataclass(frozen=True)
class Looped:
    """A variable of such a loop: the model whose parameters it runs through, and what its gradient is called. `what`:
    what of the model it is, where that are no parameters; `tree`: what it runs through in place of a model, `vs` or
    `self.vs`, a tree of the script's own; `part`: Flax's names on the way to the part of the model whose weights they
    are."""

    name: str
    model: Place
    gradient: str
    what: str = PARAMS
    tree: str = ""
    part: tuple[str, ...] = ()


def trees_of(looped: Sequence[Looped]) -> dict[str, tuple[Looped, str]]:
    """The variables of a loop, and those for their gradients -> what they run through."""
    return {one.name: (one, one.what) for one in looped} | {one.gradient: (one, GRADS) for one in looped}


class PlainWeights(cst.CSTTransformer):
    """`p.data` and `p.detach()` are `p`, and `p.grad` has a name of its own."""

    def __init__(self, looped: Sequence[Looped]) -> None:
        super().__init__()
        self.names = {one.name: one.gradient for one in looped}
        self.gradients: set[str] = set()

    def visited(self, statement: Statement) -> Statement:
        """A statement in these terms."""
        return nodes.visited(statement.deep_clone(), self)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = updated_node.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "detach":
            return updated_node
        own = {*self.names, *self.names.values()}
        return func.value if nodes.dotted(func.value) in own else updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        owner, attribute = updated_node.value, updated_node.attr.value
        if not isinstance(owner, cst.Name):
            return updated_node
        if attribute == "data" and (owner.value in self.names or owner.value in self.names.values()):
            return owner
        if attribute == "grad" and owner.value in self.names:
            self.gradients.add(owner.value)
            return cst.Name(self.names[owner.value])
        return updated_node


def augmented(small: cst.AugAssign) -> Expr:
    """The value of `p -= lr * g`, without parentheses that say nothing."""
    value = nodes.augmented(small)
    sums = (cst.Add, cst.Subtract)
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, sums):
        right = small.value
        if isinstance(right, cst.BinaryOperation) and not isinstance(right.operator, sums):
            return value.with_changes(right=right)
    return value


def with_bare_product(value: Expr) -> Expr:
    """`v * d + w` for `(v * d) + w`."""
    if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add | cst.Subtract):
        return value
    left = value.left
    product = isinstance(left, cst.BinaryOperation) and isinstance(left.operator, cst.Multiply | cst.Divide)
    return value.with_changes(left=nodes.bare(left)) if product else value


def chained(statement: Statement) -> list[Statement]:
    """`e.mul_(a).add_(b)` as two statements; `e.copy_(b)` as an assignment."""
    small = suites.alone(statement)
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return [statement]
    if not call.func.attr.value.endswith("_"):
        return [statement]
    receiver = call.func.value
    if isinstance(receiver, cst.Call):
        root = receiver
        while isinstance(root, cst.Call) and isinstance(root.func, cst.Attribute):
            root = root.func.value
        if not isinstance(root, cst.Name):
            return [statement]
        first = cst.SimpleStatementLine([cst.Expr(receiver)])
        second = call.with_changes(func=call.func.with_changes(value=root))
        return [*chained(first), *chained(cst.SimpleStatementLine([cst.Expr(second)]))]
    if not isinstance(receiver, cst.Name):
        return [statement]
    if call.func.attr.value == "copy_" and call.args:
        return [nodes.statement("{r} = {v}", r=receiver, v=call.args[0].value)]
    return [statement]


def root_of_chain(node: Expr) -> Expr | None:
    """The x of `x.mul_(a).add_(b)`; None where a method of the chain changes nothing."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    method, inner = node.func.attr.value, node.func.value
    if not usage.is_in_place(method):
        return None
    return root_of_chain(inner) if isinstance(inner, cst.Call) else inner


def as_a_whole(statement: Statement, own: set[str]) -> Statement:
    """`v[:] = d * v + g`, which has the shape of `v`, as `v = d * v + g`."""
    small = suites.alone(statement)
    target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
    if not isinstance(small, cst.Assign) or not isinstance(target, cst.Subscript):
        return statement
    plain = (cst.BinaryOperation, cst.UnaryOperation, cst.BaseNumber, cst.Name, cst.BaseBinaryOp, cst.BaseUnaryOp)
    elementwise = all(isinstance(node, plain) for node in every(small.value, cst.CSTNode))
    shaped = elementwise and set(usage.loads(small.value)) & own
    if nodes.dotted(target.value) not in own or [nodes.code(one) for one in target.slice] != [":"] or not shaped:
        return statement
    return nodes.statement("{t} = {v}", t=target.value, v=small.value)


def without_other_names(body: Sequence[Statement], own: set[str]) -> list[Statement]:
    """The statements without `old, new = target.data, source.data`: other names for what is there already, where that
    is not changed before they are read."""
    for position, statement in enumerate(body):
        others = _other_names(statement, own)
        later = [_renamed(one, others) for one in body[position + 1 :]] if others else []
        changes = [number for number, one in enumerate(later) if set(usage.changes(one)) & own]
        after = body[position + 1 :][changes[0] + 1 :] if changes else []
        again = set(usage.stores(cst.Module(list(body[position + 1 :])))) & set(others)
        if others and not again and not set(usage.loads(cst.Module(list(after)))) & set(others):
            return without_other_names([*body[:position], *later], own)
    return list(body)


def _other_names(statement: Statement, own: set[str]) -> dict[str, Expr]:
    """New name -> the variable of the loop that an assignment gives it to; empty for other statements."""
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign) or len(small.targets) > 1:
        return {}
    target, value = small.targets[0].target, small.value
    pair = isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple)
    targets = [one.value for one in target.elements] if pair and isinstance(target, cst.Tuple) else [target]
    values = nodes.elements(value) if pair and isinstance(value, cst.Tuple) else [value]
    made = {one.value: given for one, given in zip(targets, values, strict=False) if isinstance(one, cst.Name)}
    plain = len(made) == len(targets) == len(values) and not set(made) & own
    return made if plain and all(isinstance(given, cst.Name) and given.value in own for given in values) else {}


def _renamed(statement: Statement, names: dict[str, Expr]) -> Statement:
    made = nodes.substituted(statement, names)
    assert isinstance(made, cst.BaseStatement)
    return made
