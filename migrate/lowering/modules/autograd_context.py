"""What a `torch.autograd.Function` keeps in its `ctx` between `forward` and `backward`, and what takes its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


@dataclass
class Context:
    """What `forward` leaves in its `ctx`."""

    name: str
    saved: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)  # attribute -> the variable that holds its value
    whole: list[str] = field(default_factory=list)  # what it says gradients end at

    @property
    def residuals(self) -> list[str]:
        """In the order in which `backward` gets them."""
        return [*self.saved, *self.attributes.values()]


def context_of(
    forward: cst.FunctionDef, body: Sequence[Statement], backward: cst.FunctionDef, static: list[str], cls: str
) -> Context:
    """What `forward` keeps for `backward`. `body`: its statements. Raises Unsupported."""
    own = parameter_names(forward.params.params)
    stored, bound = usage.stores(forward.body), usage.stores(backward.body)
    context = Context(own[0])
    taken = {*stored, *own, *bound, *parameter_names(backward.params.params)}
    saves = 0
    for statement in body:
        context.whole += marked(statement, context.name) or []
        call = saving(statement, context.name)
        if call is not None:
            saves += 1
            context.saved = [arg.value.value for arg in call.args if isinstance(arg.value, cst.Name) and not arg.star]
            if len(context.saved) != len(call.args):
                raise declined(cls, "save_for_backward is given other than names")
        attribute = attribute_set(statement, context.name)
        if attribute is not None:
            name, value = attribute
            once = isinstance(value, cst.Name) and stored.count(value.value) == (value.value not in own)
            if isinstance(value, cst.Name) and once and (value.value in static or value.value not in bound):
                context.attributes[name] = value.value
            else:
                context.attributes[name] = f"ctx_{name}" if name in taken else name
    if saves > 1:
        raise declined(cls, "save_for_backward is called more than once")
    if any(stored.count(name) != (name not in own) for name in context.saved):
        raise declined(cls, "what save_for_backward is given is bound again")
    return context


def parameter_names(params: Sequence[cst.Param]) -> list[str]:
    return [parameter.name.value for parameter in params]


def statements_of(forward: cst.FunctionDef, stops: Callable[[Expr], bool]) -> list[Statement]:
    """The statements of a `forward`, which records no gradients: `with torch.no_grad():` says nothing there. `stops`:
    whether a context says so."""
    found: list[Statement] = []
    for statement in suites.suite_of(forward.body.body):
        if isinstance(statement, cst.With) and all(stops(one.item) and one.asname is None for one in statement.items):
            found += suites.suite_of(statement.body.body)
        else:
            found.append(statement)
    return found


def marked(statement: Statement, ctx: str) -> list[str] | None:
    """The names in `ctx.mark_non_differentiable(indices)`; None for other statements."""
    call = suites.call_alone(statement)
    if call is None or nodes.dotted(call.func) != f"{ctx}.mark_non_differentiable":
        return None
    return [nodes.code(arg.value) for arg in call.args]


def saving(statement: Statement, ctx: str) -> cst.Call | None:
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Expr):
        return None
    call = statement.body[0].value
    return call if isinstance(call, cst.Call) and nodes.dotted(call.func) == f"{ctx}.save_for_backward" else None


def attribute_set(statement: Statement, ctx: str) -> tuple[str, Expr] | None:
    """`ctx.name = value`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return None
    head, _, name = (nodes.dotted(small.targets[0].target) or "").partition(".")
    return (name, small.value) if head == ctx and name and "." not in name else None


def unpacked(statement: Statement, ctx: str) -> list[cst.Name] | None:
    """The names of `a, b = ctx.saved_tensors`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or nodes.dotted(small.value) != f"{ctx}.saved_tensors":
        return None
    target = small.targets[0].target
    if not isinstance(target, cst.Tuple | cst.List):
        return None
    names = [element.value for element in target.elements if isinstance(element.value, cst.Name)]
    return names if len(names) == len(target.elements) else None


def declined(name: str, why: str) -> Unsupported:
    return Unsupported("MIG201", f"the autograd function {name}: {why}")


def refuse_left(body: Sequence[Statement], ctx: str, cls: str, method: str) -> None:
    if ctx in usage.loads(body):
        raise declined(cls, f"what {method} asks of {ctx}")


class Attributes(cst.CSTTransformer):
    """Attributes of `ctx` become variables."""

    def __init__(self, context: Context, saved: Expr | None = None) -> None:
        super().__init__()
        self.context, self.saved = context, saved

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        if nodes.dotted(original_node.value) != self.context.name:
            return updated_node
        attribute = original_node.attr.value
        if attribute == "saved_tensors" and self.saved is not None:
            return self.saved
        name = self.context.attributes.get(attribute)
        return updated_node if name is None else nodes.name(name)


class Returns(cst.CSTTransformer):
    """Puts something else in the place of what is returned."""

    def __init__(self, made: Callable[[Expr], Expr]) -> None:
        super().__init__()
        self.made = made

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        value = updated_node.value
        return updated_node if value is None else updated_node.with_changes(value=self.made(value))


class Needs(cst.CSTTransformer):
    """`ctx.needs_input_grad[i]` is True: XLA leaves out what nothing reads."""

    def __init__(self, ctx: str) -> None:
        super().__init__()
        self.ctx = ctx

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        asked = nodes.dotted(original_node.value) == f"{self.ctx}.needs_input_grad"
        return nodes.name("True") if asked else updated_node

    def leave_BooleanOperation(self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation) -> Expr:
        sides = (updated_node.left, updated_node.right)
        known = [nodes.is_literal(side, True) for side in sides]
        if not any(known):
            return updated_node
        if isinstance(updated_node.operator, cst.Or):
            return nodes.name("True")
        return sides[known.index(True) ^ 1]

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> Expr:
        return updated_node.body if nodes.is_literal(updated_node.test, True) else updated_node

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If | cst.FlattenSentinel[Statement]:
        if not nodes.is_literal(updated_node.test, True):
            return updated_node
        return cst.FlattenSentinel(suites.suite_of(updated_node.body.body))
