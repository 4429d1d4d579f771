"""`torch.autograd.Function`: a function with a gradient of its own, which is `jax.custom_vjp`.

The class keeps its name, `forward`, `backward` and `apply`. What `ctx` carries from one to the other is the tuple of
residuals: what `save_for_backward` was given, then the attributes that were set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate import nodes, suites, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import AutogradFunction, Function, Items, Kind, Never, Number, Plain, Tensor
from migrate.lowering.functions import Functions
from migrate.nodes import Expr, Statement
from migrate.qualified import inside
from migrate.script import FunctionFacts

AUTOGRAD_FUNCTIONS = ("torch.autograd.Function", "torch.autograd.function.Function")


@dataclass
class _Context:
    """What `forward` leaves in its `ctx`."""

    name: str
    saved: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)  # attribute -> the variable that holds its value

    @property
    def residuals(self) -> list[str]:
        """In the order in which `backward` gets them."""
        return [*self.saved, *self.attributes.values()]


class CustomGradients(Functions):
    """Functions with a gradient of their own."""

    def custom_gradient(self, node: cst.ClassDef) -> cst.ClassDef:
        """The class with `apply` as a `jax.custom_vjp`."""
        name = node.name.value
        qualname = inside(self.unit.scope, name)
        methods = {s.name.value: s for s in node.body.body if isinstance(s, cst.FunctionDef)}
        if set(methods) != {"forward", "backward"}:
            raise _declined(name, f"has the methods {', '.join(methods)}; forward(ctx, ...) and backward are known")
        forward, backward = methods["forward"], methods["backward"]
        for method in (forward, backward):
            params = method.params
            if params.star_kwarg or params.kwonly_params or isinstance(params.star_arg, cst.Param) or not params.params:
                raise _declined(name, f"{method.name.value} has other than plain parameters")
        facts = self._facts(f"{qualname}.apply", forward)
        self.env.kinds[name] = AutogradFunction(qualname)
        static = [each for each in facts.parameter_names if _is_static(facts.params.get(each, Never()))]
        context = _context(forward, static, name, usage.stores(backward.body), _names(backward.params.params))
        made_forward = self._forward(facts, forward, context, static, name)
        made_backward = self._backward(facts, backward, context, static, name)
        body: list[Statement] = []
        for statement in suites.suite_of(node.body.body):
            if statement is forward:
                body.append(_apart(made_forward, bool(body)))
            elif statement is backward:
                body.append(_apart(made_backward, bool(body)))
            else:
                body += self.guarded(statement)
        numbers = [facts.parameter_names.index(each) for each in static]
        body += _apply(name, facts, numbers)
        bare = cst.MaybeSentinel.DEFAULT
        return node.with_changes(bases=[], body=suites.block_of(node.body, body), lpar=bare, rpar=bare)

    def _facts(self, qualname: str, forward: cst.FunctionDef) -> FunctionFacts:
        """Those of `apply`, which takes what `forward` takes but its `ctx`."""
        params = forward.params.with_changes(params=forward.params.params[1:])
        node = forward.with_changes(params=params, name=cst.Name("apply"))
        facts = self.script.functions.setdefault(qualname, FunctionFacts(node, qualname, self.scope))
        facts.node = node
        return facts

    def _traced(self, facts: FunctionFacts, kinds: dict[str, Kind], body: Sequence[Statement]) -> list[Statement]:
        """A body that JAX traces."""
        inner = self.function_scope(facts)
        inner.context = "region"
        inner.env.kinds.update(kinds)
        made = inner.suite(body)
        if facts.found_reads or facts.found_needs_key:
            raise _declined(facts.qualname, "draws random numbers, or uses a model")
        return made

    def _forward(
        self, facts: FunctionFacts, forward: cst.FunctionDef, context: _Context, static: list[str], cls: str
    ) -> cst.FunctionDef:
        kinds = {name: _tensor(facts.params.get(name, Never())) for name in facts.parameter_names}
        body = self._without(forward, context)
        made = self._traced(facts, kinds, body)
        given = nodes.tuple_of([nodes.name(each) for each in context.residuals if each not in static])
        returns = _Returns(lambda value: nodes.tuple_of([nodes.parenthesized(value), given], parentheses=False))
        made = [nodes.visited(each, returns) for each in made]
        _refuse_left(made, context.name, cls, "forward")
        params = facts.node.params
        return self.rewritten(forward.with_changes(params=params), made, defaults=self)

    def _without(self, forward: cst.FunctionDef, context: _Context) -> list[Statement]:
        """The body with nothing kept in `ctx`."""
        made: list[Statement] = []
        for statement in suites.suite_of(forward.body.body):
            call = _save(statement, context.name)
            attribute = _attribute(statement, context.name)
            if call is not None:
                continue
            if attribute is not None:
                name, value = context.attributes.get(attribute[0]), attribute[1]
                if name is not None and nodes.dotted(value) != name:
                    kept = nodes.statement(f"{name} = {{value}}", value=value)
                    self.unit.stands_for(kept, statement)
                    made.append(kept)
                continue
            made.append(self._replaced(statement, _Attributes(context)))
        return made

    def _backward(
        self, facts: FunctionFacts, backward: cst.FunctionDef, context: _Context, static: list[str], cls: str
    ) -> cst.FunctionDef:
        ctx, *gradients = _names(backward.params.params)
        body = [plain for each in suites.suite_of(backward.body.body) for plain in self._needed(each, ctx)]
        inner = _Context(ctx, context.saved, context.attributes)
        head: list[Statement] = []
        if any(each not in static for each in context.attributes.values()):
            names = [nodes.name(f"saved_{number}") for number in range(len(context.saved))]
            for position, statement in enumerate(body):
                targets = _unpacked(statement, ctx)
                if targets is not None and len(targets) == len(names):
                    names, body = targets, [*body[:position], *body[position + 1 :]]
                    break
            every = [*names, *(nodes.name(each) for each in context.attributes.values() if each not in static)]
            head.append(nodes.statement("{t} = residuals", t=nodes.bare_tuple(every)))
            body = [self._replaced(each, _Attributes(inner, nodes.tuple_of(names))) for each in body]
        else:
            body = [self._replaced(each, _Attributes(inner, nodes.name("residuals"))) for each in body]
        cotangent = gradients[0] if len(gradients) == 1 else "gradients"
        if len(gradients) > 1:
            head.append(nodes.statement(f"{', '.join(gradients)} = gradients"))
        order = facts.parameter_names
        kept = [number for number, name in enumerate(order) if name not in static]
        body = [
            self._replaced(each, _Returns(lambda value: _cotangents(value, len(order), kept, cls))) for each in body
        ]
        kinds: dict[str, Kind] = {name: Tensor("float") for name in gradients}
        kinds |= {name: _tensor(facts.params.get(name, Never())) for name in static}
        kinds |= {name: Tensor() for name in context.attributes.values() if name not in static}
        kinds |= {"residuals": _residual_kind(len(context.saved))}
        for statement in head:
            for name in usage.stores(statement):
                kinds.setdefault(name, Tensor())
        returned = facts.returns  # by `forward`
        made = suites.after_docstring(self._traced(facts, kinds, body), head)
        facts.returns = returned
        _refuse_left(made, ctx, cls, "backward")
        text = ", ".join([*static, "residuals", cotangent])
        params = cst.ensure_type(cst.parse_statement(f"def f({text}): pass"), cst.FunctionDef).params
        return self.rewritten(backward.with_changes(params=params), made, defaults=self)

    def _needed(self, statement: Statement, ctx: str) -> list[Statement]:
        """A statement for which every argument needs a gradient: several where a test on that falls away."""
        if "needs_input_grad" not in nodes.code(statement):
            return [statement]
        made = statement.visit(_Needs(ctx))
        found = list(made) if isinstance(made, cst.FlattenSentinel) else [made]
        for each in found:
            assert isinstance(each, cst.SimpleStatementLine | cst.BaseCompoundStatement)
            self.unit.stands_for(each, statement)
        return suites.suite_of([each for each in found if isinstance(each, cst.CSTNode)])

    def _replaced(self, statement: Statement, transformer: cst.CSTTransformer) -> Statement:
        """A statement as a transformer leaves it, at the same place in the script."""
        made = nodes.visited(statement, transformer)
        if made.deep_equals(statement):
            return statement
        self.unit.stands_for(made, statement)
        return made


def _apply(name: str, facts: FunctionFacts, static: list[int]) -> list[Statement]:
    """`apply` and its two halves."""
    called = ", ".join(facts.parameter_names)
    parameters = cst.Module([]).code_for_node(facts.node.params)
    decorator = f"partial(jax.custom_vjp, nondiff_argnums={tuple(static)})" if static else "jax.custom_vjp"
    made = nodes.statements(
        f"@{decorator}\ndef apply({parameters}):\n    return {name}.forward({called})[0]\n"
        "\napply.defvjp(forward, backward)"
    )
    return [_apart(statement, True) for statement in made]


def _context(
    forward: cst.FunctionDef, static: list[str], cls: str, bound: Sequence[str], parameters: Sequence[str]
) -> _Context:
    """What `forward` keeps for a `backward` that binds some names."""
    own = _names(forward.params.params)
    stored = usage.stores(forward.body)
    context = _Context(own[0])
    taken = {*stored, *own, *bound, *parameters}
    saves = 0
    for statement in suites.suite_of(forward.body.body):
        call = _save(statement, context.name)
        if call is not None:
            saves += 1
            context.saved = [arg.value.value for arg in call.args if isinstance(arg.value, cst.Name) and not arg.star]
            if len(context.saved) != len(call.args):
                raise _declined(cls, "save_for_backward is given other than names")
        attribute = _attribute(statement, context.name)
        if attribute is not None:
            name, value = attribute
            once = isinstance(value, cst.Name) and stored.count(value.value) == (value.value not in own)
            if isinstance(value, cst.Name) and once and (value.value in static or value.value not in bound):
                context.attributes[name] = value.value
            else:
                context.attributes[name] = f"ctx_{name}" if name in taken else name
    if saves > 1:
        raise _declined(cls, "save_for_backward is called more than once")
    if any(stored.count(name) != (name not in own) for name in context.saved):
        raise _declined(cls, "what save_for_backward is given is bound again")
    return context


def _names(params: Sequence[cst.Param]) -> list[str]:
    return [parameter.name.value for parameter in params]


def _save(statement: Statement, ctx: str) -> cst.Call | None:
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Expr):
        return None
    call = statement.body[0].value
    return call if isinstance(call, cst.Call) and nodes.dotted(call.func) == f"{ctx}.save_for_backward" else None


def _attribute(statement: Statement, ctx: str) -> tuple[str, Expr] | None:
    """`ctx.name = value`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return None
    head, _, name = (nodes.dotted(small.targets[0].target) or "").partition(".")
    return (name, small.value) if head == ctx and name and "." not in name else None


def _unpacked(statement: Statement, ctx: str) -> list[cst.Name] | None:
    """The names of `a, b = ctx.saved_tensors`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or nodes.dotted(small.value) != f"{ctx}.saved_tensors":
        return None
    target = small.targets[0].target
    if not isinstance(target, cst.Tuple | cst.List):
        return None
    names = [element.value for element in target.elements if isinstance(element.value, cst.Name)]
    return names if len(names) == len(target.elements) else None


def _cotangents(value: Expr, count: int, kept: list[int], cls: str) -> Expr:
    """What `backward` returns, without the places of arguments that are no tensors."""
    values = [element.value for element in value.elements] if isinstance(value, cst.Tuple) else [value]
    while len(values) > count and nodes.is_literal(values[-1], None):
        values.pop()
    if len(values) != count:
        raise _declined(cls, f"backward returns {len(values)} gradients for {count} arguments")
    dropped = [each for number, each in enumerate(values) if number not in kept]
    if not all(nodes.is_literal(each, None) for each in dropped):
        raise _declined(cls, "backward returns a gradient for what is no tensor")
    return nodes.tuple_of([values[number] for number in kept])


def _is_static(kind: Kind) -> bool:
    return isinstance(kind, Number | Function) or (isinstance(kind, Plain) and kind.what != "None")


def _tensor(kind: Kind) -> Kind:
    return Tensor() if isinstance(kind, Never) or type(kind) is Kind else kind


def _residual_kind(count: int) -> Kind:
    return Items((Tensor(),) * count, type="tuple")


def _declined(name: str, why: str) -> Unsupported:
    return Unsupported("MIG201", f"the autograd function {name}: {why}")


def _refuse_left(body: Sequence[Statement], ctx: str, cls: str, method: str) -> None:
    if ctx in usage.loads(body):
        raise _declined(cls, f"what {method} asks of {ctx}")


def _apart(statement: Statement, after: bool) -> Statement:
    """A method with a blank line before it."""
    lines = [line for line in statement.leading_lines if line.comment is not None]
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False), *lines] if after else lines)


class _Attributes(cst.CSTTransformer):
    """Attributes of `ctx` become variables."""

    def __init__(self, context: _Context, saved: Expr | None = None) -> None:
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


class _Returns(cst.CSTTransformer):
    """Puts something else in the place of what is returned."""

    def __init__(self, made: Callable[[Expr], Expr]) -> None:
        super().__init__()
        self.made = made

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        value = updated_node.value
        return updated_node if value is None else updated_node.with_changes(value=self.made(value))


class _Needs(cst.CSTTransformer):
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
