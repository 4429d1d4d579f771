"""`torch.autograd.Function`: a function with a gradient of its own, which is `jax.custom_vjp`.

The class keeps its name, `forward`, `backward` and `apply`. What `ctx` carries from one to the other is the tuple of
residuals: what `save_for_backward` was given, then the attributes that were set.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import AutogradFunction, Function, Items, Kind, Never, Number, Plain, Tensor
from migrate.known.qualified import inside
from migrate.lowering.modules.autograd_context import (
    Attributes,
    Context,
    Needs,
    Returns,
    attribute_set,
    context_of,
    declined,
    marked,
    parameter_names,
    refuse_left,
    saving,
    statements_of,
    unpacked,
)
from migrate.lowering.statements.functions import Functions
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement

AUTOGRAD_FUNCTION = "torch.autograd.Function"


class CustomGradients(Functions):
    """Functions with a gradient of their own."""

    def custom_gradient(self, node: cst.ClassDef) -> cst.ClassDef:
        """The class with `apply` as a `jax.custom_vjp`."""
        name = node.name.value
        qualname = inside(self.unit.scope, name)
        methods = {s.name.value: s for s in node.body.body if isinstance(s, cst.FunctionDef)}
        if set(methods) != {"forward", "backward"}:
            raise declined(name, f"has the methods {', '.join(methods)}; forward(ctx, ...) and backward are known")
        forward, backward = methods["forward"], methods["backward"]
        for method in (forward, backward):
            params = method.params
            if params.star_kwarg or params.kwonly_params or isinstance(params.star_arg, cst.Param) or not params.params:
                raise declined(name, f"{method.name.value} has other than plain parameters")
        facts = self._facts(f"{qualname}.apply", forward)
        self.env.kinds[name] = AutogradFunction(qualname)
        static = [each for each in facts.parameter_names if _is_static(facts.params.get(each, Never()))]
        statements = statements_of(forward, self.stops_gradients)
        context = context_of(forward, statements, backward, static, name)
        made_forward = self._forward(facts, forward, self._without(statements, context), context, static, name)
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

    def _traced(
        self, facts: FunctionFacts, kinds: dict[str, Kind], body: Sequence[Statement], whole: Sequence[str] = ()
    ) -> list[Statement]:
        """A body that JAX traces. `whole`: what gradients end at as in JAX, since it holds whole numbers."""
        inner = self.function_scope(facts)
        inner.context = "region"
        inner.env.kinds.update(kinds)
        made = inner.suite(body)
        for name in whole:
            kind = inner.env.kinds.get(name)
            if not isinstance(kind, Tensor) or kind.dtype not in ("int", "bool"):
                raise declined(facts.qualname, f"mark_non_differentiable({name}), which may hold other than integers")
        if facts.found_reads or facts.found_needs_key:
            raise declined(facts.qualname, "draws random numbers, or uses a model")
        return made

    def _forward(
        self,
        facts: FunctionFacts,
        forward: cst.FunctionDef,
        body: Sequence[Statement],
        context: Context,
        static: list[str],
        cls: str,
    ) -> cst.FunctionDef:
        kinds = {name: _tensor(facts.params.get(name, Never())) for name in facts.parameter_names}
        made = self._traced(facts, kinds, body, context.whole)
        given = nodes.tuple_of([nodes.name(each) for each in context.residuals if each not in static])
        returns = Returns(lambda value: nodes.tuple_of([nodes.parenthesized(value), given], parentheses=False))
        made = [nodes.visited(each, returns) for each in made]
        refuse_left(made, context.name, cls, "forward")
        params = facts.node.params
        return self.rewritten(forward.with_changes(params=params), made, defaults=self)

    def _without(self, statements: Sequence[Statement], context: Context) -> list[Statement]:
        """The statements with nothing kept in `ctx`."""
        made: list[Statement] = []
        for statement in statements:
            call = saving(statement, context.name)
            attribute = attribute_set(statement, context.name)
            if call is not None or marked(statement, context.name) is not None:
                continue
            if attribute is not None:
                name, value = context.attributes.get(attribute[0]), attribute[1]
                if name is not None and nodes.dotted(value) != name:
                    kept = nodes.statement(f"{name} = {{value}}", value=value)
                    self.unit.stands_for(kept, statement)
                    made.append(kept)
                continue
            made.append(self._replaced(statement, Attributes(context)))
        return made

    def _backward(
        self, facts: FunctionFacts, backward: cst.FunctionDef, context: Context, static: list[str], cls: str
    ) -> cst.FunctionDef:
        ctx, *gradients = parameter_names(backward.params.params)
        body = [plain for each in suites.suite_of(backward.body.body) for plain in self._needed(each, ctx)]
        inner = Context(ctx, context.saved, context.attributes)
        head: list[Statement] = []
        if any(each not in static for each in context.attributes.values()):
            names = [nodes.name(f"saved_{number}") for number in range(len(context.saved))]
            for position, statement in enumerate(body):
                targets = unpacked(statement, ctx)
                if targets is not None and len(targets) == len(names):
                    names, body = targets, [*body[:position], *body[position + 1 :]]
                    break
            every = [*names, *(nodes.name(each) for each in context.attributes.values() if each not in static)]
            head.append(nodes.statement("{t} = residuals", t=nodes.bare_tuple(every)))
            body = [self._replaced(each, Attributes(inner, nodes.tuple_of(names))) for each in body]
        else:
            body = [self._replaced(each, Attributes(inner, nodes.name("residuals"))) for each in body]
        cotangent = gradients[0] if len(gradients) == 1 else "gradients"
        if len(gradients) > 1:
            head.append(nodes.statement(f"{', '.join(gradients)} = gradients"))
        order = facts.parameter_names
        kept = [number for number, name in enumerate(order) if name not in static]
        body = [self._replaced(each, Returns(lambda value: _cotangents(value, len(order), kept, cls))) for each in body]
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
        refuse_left(made, ctx, cls, "backward")
        text = ", ".join([*static, "residuals", cotangent])
        params = cst.ensure_type(cst.parse_statement(f"def f({text}): pass"), cst.FunctionDef).params
        return self.rewritten(backward.with_changes(params=params), made, defaults=self)

    def _needed(self, statement: Statement, ctx: str) -> list[Statement]:
        """A statement for which every argument needs a gradient: several where a test on that falls away."""
        if "needs_input_grad" not in nodes.code(statement):
            return [statement]
        made = statement.visit(Needs(ctx))
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


def _cotangents(value: Expr, count: int, kept: list[int], cls: str) -> Expr:
    """What `backward` returns, without the places of arguments that are no tensors."""
    values = [element.value for element in value.elements] if isinstance(value, cst.Tuple) else [value]
    while len(values) > count and nodes.is_literal(values[-1], None):
        values.pop()
    if len(values) != count:
        raise declined(cls, f"backward returns {len(values)} gradients for {count} arguments")
    dropped = [each for number, each in enumerate(values) if number not in kept]
    if not all(nodes.is_literal(each, None) for each in dropped):
        raise declined(cls, "backward returns a gradient for what is no tensor")
    return nodes.tuple_of([values[number] for number in kept])


def _is_static(kind: Kind) -> bool:
    return isinstance(kind, Number | Function) or (isinstance(kind, Plain) and kind.what != "None")


def _tensor(kind: Kind) -> Kind:
    return Tensor() if isinstance(kind, Never) or type(kind) is Kind else kind


def _residual_kind(count: int) -> Kind:
    return Items((Tensor(),) * count, type="tuple")


def _apart(statement: Statement, after: bool) -> Statement:
    """A method with a blank line before it."""
    lines = [line for line in statement.leading_lines if line.comment is not None]
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False), *lines] if after else lines)
