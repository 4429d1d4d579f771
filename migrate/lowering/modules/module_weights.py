"""Weights that a module class holds itself."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import BoundWeight
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Items, Tensor
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.typed_tensors import tensor_type
from migrate.lowering.initial.initializers_of_flax import completed, filling, initializer_of, outputs_first
from migrate.lowering.modules.changed_buffers import ChangedBuffers
from migrate.lowering.modules.settings_given import settings
from migrate.lowering.modules.ties import Ties
from migrate.lowering.scope import Scope
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr, Statement

# What makes the value of a parameter in torch: the initialiser, and the one where it is multiplied with a factor {s}.
_MAKERS = {
    "torch.zeros": ("nn.initializers.zeros", "nn.initializers.zeros"),
    "torch.ones": ("nn.initializers.ones", "nn.initializers.constant({s})"),
    "torch.randn": ("nn.initializers.normal(1.0)", "nn.initializers.normal({s})"),
    "torch.rand": ("nn.initializers.uniform(1.0)", "nn.initializers.uniform({s})"),
    "torch.normal": ("nn.initializers.normal({std})", ""),
    "torch.empty": ("nn.initializers.zeros", ""),
    "torch.full": ("nn.initializers.constant({fill_value})", ""),
}

CONSTANT = "a constant, made anew in setup"
UNSAVED = "a constant, made anew in setup, which torch does not save either"
NEVER_MADE = "not made, as the tests of the constructor stand"


class ModuleWeights(Ties, ChangedBuffers):
    """Parameters and buffers."""

    def parameter(self, facts: ClassFacts, name: str, value: Expr) -> list[Statement] | None:
        """`self.x = nn.Parameter(...)`, or one that an argument asks for: `nn.Parameter(...) if bias else None`."""
        call = _made_or_none(value)
        if not isinstance(call, cst.Call) or self.torch_name(call.func) != "torch.nn.Parameter":
            return None
        chosen = call is not value
        made, lengths, rank = self.parameter_call(facts, name, call)
        known = facts.parameters.get(name)
        optional = chosen or bool(self.conditions) or (known is not None and known.optional)
        facts.attributes[name] = Tensor("float", rank, optional=chosen)
        leaf = facts.renamed.get(name, name)
        # torch's optimizers pass over what has no gradient
        unread = self.script.never_read(name) and not self.script.goes_through_weights
        still = is_still(self, call) or unread
        facts.parameters[name] = BoundWeight(name, "params", leaf, (), lengths, optional, still)
        if isinstance(value, cst.IfExp) and chosen:
            sides = {"body": made} if value.body is call else {"orelse": made}
            made = value.with_changes(test=self.node(value.test), **sides)
        return [nodes.statement(f"self.{leaf} = {{made}}", made=made)]

    def parameter_call(
        self, facts: ClassFacts, name: str, call: cst.Call
    ) -> tuple[Expr, tuple[int | None, ...] | None, int]:
        """The call of `self.param` for one of `nn.Parameter`, the shape that is known of it, and its rank."""
        if name in facts.fields:  # the constructor's parameter of that name is a field
            facts.renamed[name] = f"{name}_value"
        own = nodes.expression(f'"{facts.renamed.get(name, name)}"')
        found = self.initial_value(call.args[0].value)
        if found is not None:
            facts.askable[f"self.{name}"], facts.askable_if[f"self.{name}"] = True, list(self.conditions)
            lengths = nodes.elements(found[1]) if isinstance(found[1], cst.Tuple) else []
            facts.torch_lengths[f"self.{name}"] = tuple(map(nodes.code, lengths))
        made, lengths, rank = self.made_parameter(own, call.args[0].value, facts.asked.get(f"self.{name}"))
        return without_gradient(made) if is_still(self, call) else made, lengths, rank

    def made_parameter(
        self, own: Expr, value: Expr, asked: Expr | None = None
    ) -> tuple[Expr, tuple[int | None, ...] | None, int]:
        """The same of a parameter called `own` that starts as `value`, or by the initialiser that is asked for."""
        found = self.initial_value(value)
        if found is None:
            return self.computed_parameter(own, value)
        maker, shape = found
        made = nodes.call("self.param", own, maker if asked is None else completed(asked, maker), shape)
        rank = nodes.length(shape)
        if rank < 0 or not isinstance(shape, cst.Tuple):
            return made, None, rank
        known = [nodes.literal(length) for length in nodes.elements(shape)]
        return made, tuple(length if isinstance(length, int) else None for length in known), rank

    def initial_value(self, value: Expr) -> tuple[Expr, Expr] | None:
        """The initialiser and the shape that a value stands for: `torch.randn(3) * 0.1`; None for any other value."""
        filled = self.filled_value(value)
        if filled is not None:
            return filled
        made, factor = self.scaled(value)
        name = self.torch_name(made.func) if isinstance(made, cst.Call) else None
        if made is value and isinstance(made, cst.Call) and tensor_type(name or "") in ("Tensor", "FloatTensor"):
            sized = self.expr(made).node  # zeros where it has a size alone
            assert isinstance(sized, cst.Call)
            zeros = nodes.dotted(sized.func) == "jnp.zeros"
            return (nodes.expression("nn.initializers.zeros"), sized.args[0].value) if zeros else None
        plain, multiplied = _MAKERS.get(name or "", ("", ""))
        template = plain if factor is None else multiplied
        if not isinstance(made, cst.Call) or name is None or not template:
            return None
        bound = self.bind_call(name, RULES[name].parameters, made.args)
        if bound.has("dtype") and nodes.code(bound.node("dtype")) != "jnp.float32":
            return None
        if name == "torch.normal" and (nodes.literal(bound.node("mean")) != 0 or not bound.has("size")):
            return None
        alone = bound.rest[0] if len(bound.rest) == 1 and "size" not in bound.bound else None
        counted = alone is not None and not isinstance(alone.kind, Items)
        shape = nodes.tuple_of([alone.node]) if alone is not None and counted else bound.shape("size")
        return bound.make(template, **({} if factor is None else {"s": factor})), shape

    def filled_value(self, value: Expr) -> tuple[Expr, Expr] | None:
        """The same of what is filled where it is made: `torch.empty(3).normal_(std=0.02)`,
        `nn.init.xavier_uniform_(torch.empty(4, 3))`."""
        found = filling(self, value) if isinstance(value, cst.Call) else None
        if not isinstance(value, cst.Call) or found is None:
            return None
        name, target = found
        inner = self.initial_value(target) if isinstance(target, cst.Call) else None
        return None if inner is None else (outputs_first(initializer_of(self, name, value, target)), inner[1])

    def scaled(self, value: Expr) -> tuple[Expr, Expr | None]:
        """A product with numbers as what is multiplied, and the factor; None where there is none."""
        if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Multiply | cst.Divide):
            return value, None
        divides = isinstance(value.operator, cst.Divide)
        for tensor, number in ((value.left, value.right), (value.right, value.left))[: 1 if divides else 2]:
            made, factor = self.scaled(tensor)
            if isinstance(made, cst.Call) and self.torch_name(made.func) in _MAKERS:
                lowered = self.expr(number)
                if isinstance(lowered.kind, Tensor):
                    break
                text = "{f} / {n}" if divides else "{f} * {n}"
                whole = factor or nodes.expression("1")
                return made, nodes.expression(text, f=whole, n=lowered.node) if divides or factor else lowered.node
        return value, None

    def computed_parameter(self, name: Expr, value: Expr) -> tuple[Expr, None, int]:
        """A parameter whose first value is computed: `nn.Parameter(torch.linspace(0, 1, 5))`."""
        own = self.script.classes[self.cls].found_own_draws
        before = set(own)
        lowered = self.array(value)
        drawn = "make_rng" in nodes.code(lowered.node)
        if drawn or not isinstance(lowered.kind, Tensor) or lowered.kind.dtype in ("int", "bool"):
            own &= before
            raise Unsupported("MIG204", f"nn.Parameter({nodes.code(value)})")
        initial = nodes.expression("lambda key: {v}", v=layouts.first(lowered))
        return nodes.call("self.param", name, initial), None, lowered.kind.rank

    def buffer(self, facts: ClassFacts, node: cst.Call) -> list[Statement]:
        """A buffer that is never assigned again is a constant, made anew in `setup`, unless it is drawn."""
        name = nodes.literal(node.args[0].value)
        if not isinstance(name, str):
            raise Unsupported("MIG201", "a buffer whose name is not written out")
        saved = not any(_unsaved(number, arg) for number, arg in enumerate(node.args))
        facts.found_own_draws, before = set(facts.found_own_draws), facts.found_own_draws
        value = self.expr(node.args[1].value)
        if nodes.is_literal(value.node, None) and name not in facts.changed:
            facts.attributes[name] = facts.seen[name] = value.kind
            return [nodes.statement(f"self.{name} = None")]
        drawn = "make_rng" in nodes.code(value.node)
        if (name in facts.changed or (drawn and saved)) and isinstance(value.kind, Tensor):
            facts.found_own_draws = before  # it is drawn once, with the weights
            code = nodes.code(value.node).replace('make_rng("sample")', 'make_rng("params")')
            return self.variable(facts, name, Value(cst.parse_expression(code), value.kind), saved)
        if drawn:
            raise Unsupported("MIG201", f"the buffer {name} is drawn at random")
        if not isinstance(value.kind, Tensor):
            raise Unsupported("MIG201", f"the buffer {name} is not known to be a tensor")
        facts.attributes[name] = facts.seen[name] = value.kind
        never = any(_fails(test, facts.flags) for test in self.conditions)
        facts.buffers[name] = NEVER_MADE if never else CONSTANT if saved else UNSAVED
        if name in facts.fields:
            facts.renamed[name] = f"{name}_value"
        return [nodes.statement(f"self.{facts.renamed.get(name, name)} = {{v}}", v=value.node)]


def is_still(scope: Scope, call: cst.Call) -> bool:
    """Whether a parameter is made without a gradient: `nn.Parameter(x, requires_grad=False)`, or as an argument says
    that is the same for all modules of the program."""
    given = dict(zip(argument_names(call.args, ["data", "requires_grad"]), call.args, strict=True))
    if "requires_grad" not in given:
        return False
    flag, negated = given["requires_grad"].value, False
    while isinstance(flag, cst.UnaryOperation) and isinstance(flag.operator, cst.Not):
        flag, negated = flag.expression, not negated
    facts, field = scope.script.classes.get(scope.cls), nodes.dotted(flag) or ""
    told = {nodes.literal(flag)}
    if facts is not None and field in set(facts.fields) - facts.rebinds:
        if not facts.given and scope.script.still_open():
            return False
        told = settings(scope.script, scope.cls, field)
    if told == {True} or told == {False}:
        return told == {negated}
    raise Unsupported("MIG204", f"{nodes.code(call)}: whether it has a gradient is told while it runs")


def without_gradient(made: Expr) -> Expr:
    """A weight that stays as it is."""
    return nodes.call("jax.lax.stop_gradient", made)


def _fails(test: Expr, flags: Mapping[str, bool]) -> bool:
    """Whether a test of one attribute fails whatever the constructor is given: `not self.flash`."""
    wanted = True
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, wanted = test.expression, not wanted
    path = nodes.dotted(test) or ""
    return path.startswith("self.") and flags.get(path.removeprefix("self."), wanted) != wanted


def _unsaved(number: int, arg: cst.Arg) -> bool:
    """Whether an argument of `register_buffer` is `persistent=False`."""
    named = arg.keyword is not None and arg.keyword.value == "persistent"
    return (named or number == 2) and not nodes.is_literal(arg.value, True)


def _made_or_none(value: Expr) -> Expr:
    """What is made where a value is that or None: `f()` of `f() if test else None`; any other value as it is."""
    if not isinstance(value, cst.IfExp):
        return value
    if nodes.is_literal(value.orelse, None):
        return value.body
    return value.orelse if nodes.is_literal(value.body, None) else value
