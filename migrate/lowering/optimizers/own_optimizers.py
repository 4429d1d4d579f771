"""Optimizer classes of the user's own: functions that make an `optax.GradientTransformation`.

What torch changes in place, the update gives back: the new state, and for the weights their change. Where a step only
adds to a weight, that is what it adds; else the difference to the weight as it was, from which `optax.apply_updates`
makes the new weight again: the same float, as long as neither is more than twice the other (Sterbenz), and half a
spacing of the larger one otherwise.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate import layouts
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import UNKNOWN, Function, Items, Kind, Number, Plain, Tensor
from migrate.known.qualified import file_of, inside
from migrate.known.weight_kinds import OwnOptimizer
from migrate.lowering.optimizers.element_by_element import works_on_axes
from migrate.lowering.statements.functions import Functions
from migrate.optimizer_source.classes import Entry, OptimizerClass, read
from migrate.optimizer_source.inlining import changes_parameters
from migrate.optimizer_source.numbers import on_arrays, without_last_change
from migrate.optimizer_source.starts import refused
from migrate.optimizers import TURNED, OptimizerEntry
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

OPTIMIZER = ("torch.optim.Optimizer", "torch.optim.optimizer.Optimizer")


_AS_IN_TORCH = cst.EmptyLine(comment=cst.Comment("# the axes as torch has them"))


@dataclass(frozen=True)
class _Step:
    """A step of one parameter: its lowered body, and what it gives for the weight: its change, or (`changed` False) the
    new one."""

    body: list[Statement]
    given: Expr
    is_change: bool
    is_turned: bool = False

    def turned(self, found: OptimizerClass) -> _Step:
        """The same of matrices whose axes are the other way round in the output, and of what is kept of them."""
        read = {*usage.loads(self.body), *usage.loads(self.given)}
        names = [name for name in (found.weight, found.grad) if name in read]
        names += [entry.name for entry in found.entries]
        targets, values = ", ".join(names), ", ".join(f"{name}.T" for name in names)
        head = nodes.statement(f"{targets} = {values}").with_changes(leading_lines=[_AS_IN_TORCH])
        return _Step([head, *self.body], nodes.expression("{x}.T", x=self.given), self.is_change, True)


class OwnOptimizers(Functions):
    """Definitions of optimizers."""

    def own_optimizer(self, node: cst.ClassDef) -> list[Statement]:
        """An optimizer class as its state, and a function that makes the transformation."""
        helpers = self._helpers(node)
        found = read(node, helpers)
        qualname = inside(self.unit.scope, found.name)
        self.env.kinds[found.name] = OwnOptimizer(qualname)
        ordered = self._works_on_axes(found)
        self.script.own_optimizers[qualname] = _entry(found, qualname if ordered else "")
        axes = self.script.optimizer_axes.get(qualname, set())
        if ordered and len(axes) != 1:
            error = refused(found.name, "its step depends on the axes of parameters that are not known here")
            self.unit.report(error, node)
            return [suites.refusal(error.code, error.message, [node])]
        injected = self.script.injecting.get(qualname, frozenset())
        params = cst.ensure_type(cst.parse_statement("def f(): pass"), cst.FunctionDef).with_changes(
            name=cst.Name(found.name), params=found.params
        )
        maker = self.function_scope(self._facts_of(f"{qualname}.__init__", params))
        for parameter in (*found.params.params, *found.params.kwonly_params):
            changing = parameter.name.value in injected
            maker.env.kinds[parameter.name.value] = Tensor("float", 0) if changing else _kind(parameter)
        head = maker.suite([each for each in found.head if not _checks(each, injected)])
        kinds = {name: maker.env.kinds.get(name, UNKNOWN) for name in found.hyperparameters}
        step = self._step_of_one(found, kinds, f"{qualname}.step")
        step = step.turned(found) if axes == {TURNED} else step
        self._note_written_out(helpers)
        state = self.unit.own(f"{found.name}State")
        made: list[Statement] = []
        if found.entries or found.counter is not None:
            fields = [f"{found.counter.key}: jax.Array"] if found.counter is not None else []
            fields += [f"{entry.key}: optax.Params" for entry in found.entries]
            lines = "".join(f"    {each}\n" for each in fields)
            made += nodes.statements(f"class {state}(NamedTuple):\n{lines}")
        start = self._start(found, kinds, state, step.is_turned)
        body = [*head, *(_apart(start) if head else start), self._update_of_all(found, step, state)]
        body += _apart(nodes.statements("return optax.GradientTransformation(init, update)"))
        function = self.rewritten(params, body, defaults=self)
        blank = [cst.EmptyLine(indent=False)] * (2 if made else 0)
        made.append(function.with_changes(leading_lines=blank))
        return suites.with_comments(made, node)

    def _works_on_axes(self, found: OptimizerClass) -> bool:
        first = [cst.SimpleStatementLine([cst.Expr(entry.first)]) for entry in found.entries]
        return works_on_axes(self, [*found.body, *first], found.hyperparameters)

    def _helpers(self, node: cst.ClassDef) -> dict[str, cst.FunctionDef]:
        """The functions of the script that a class calls, and that change what they are given."""
        kinds = {name: self.kind_of_name(name) for name in usage.loads(node)}
        own = {name: kind.name for name, kind in kinds.items() if isinstance(kind, Function)}
        found = {name: self.script.functions[own[name]].node for name in own if file_of(own[name]) == self.unit.scope}
        return {name: function for name, function in found.items() if changes_parameters(function)}

    def _note_written_out(self, names: Iterable[str]) -> None:
        """Notes the functions that nothing but steps of optimizers calls."""
        elsewhere = [each for each in self.unit.source.module.body if not self._is_optimizer(each)]
        read = {*usage.loads(elsewhere), *self.script.wanted_of.get(self.unit.scope, ())}
        self.script.written_out |= {inside(self.unit.scope, name) for name in set(names) - read}

    def _is_optimizer(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.ClassDef) and any(self.torch_name(arg.value) in OPTIMIZER for arg in node.bases)

    def _facts_of(self, qualname: str, node: cst.FunctionDef) -> FunctionFacts:
        facts = self.script.functions.setdefault(qualname, FunctionFacts(node, qualname, self.scope))
        facts.node = node
        return facts

    def _of_arrays(self, qualname: str, kinds: dict[str, Kind], parameters: Sequence[str]) -> Functions:
        """A scope for a function of arrays, inside of what makes the optimizer."""
        inner = self.function_scope(self._facts_of(qualname, suites.function("step", parameters, [])))
        inner.context = "region"
        inner.env.kinds |= kinds | {name: Tensor("float") for name in parameters}
        inner.env.shared.clear()
        return inner

    def _step_of_one(self, found: OptimizerClass, kinds: dict[str, Kind], qualname: str) -> _Step:
        names = [found.weight, found.grad, *(entry.name for entry in found.entries)]
        inner = self._of_arrays(qualname, kinds, names)
        if found.counter is not None:
            inner.env.kinds[found.counter.name] = Tensor("int", 0)
        self._refuse_unknown_calls(inner, found)
        traced = {name for name, kind in inner.env.kinds.items() if isinstance(kind, Tensor)}
        body = inner.suite(on_arrays(without_last_change(found.body, found.grad), traced))
        facts = inner.facts
        if facts is not None and (facts.found_reads or facts.found_needs_key or facts.found_draws):
            raise refused(found.name, "its step draws random numbers, or uses a model")
        return _as_change(body, found.weight, self.unit.own("change"))

    def _refuse_unknown_calls(self, inner: Functions, found: OptimizerClass) -> None:
        """Declines calls of which nothing tells what they do: `backends[backend](grad)`."""
        for call in [call for each in found.body for call in usage.calls(each)]:
            name = nodes.dotted(call.func)
            known = name is not None and (hasattr(builtins, name) or inner.kind_of(call.func) != UNKNOWN)
            if not isinstance(call.func, cst.Attribute) and not known:
                raise refused(found.name, f"its step calls {nodes.code(call.func)}, of which nothing is known")

    def _start(self, found: OptimizerClass, kinds: dict[str, Kind], state: str, turned: bool) -> list[Statement]:
        """`init`, which makes the state for all parameters at once."""
        first = []
        if found.counter is not None:
            first.append(f"{found.counter.key}=jnp.zeros([], jnp.int32)")
        for entry in found.entries:
            first.append(f"{entry.key}={self._started(found, kinds, entry, turned)}")
        made = f"{state}({', '.join(first)})" if first else "optax.EmptyState()"
        return nodes.statements(f"def init(params):\n    return {made}\n")

    def _started(self, found: OptimizerClass, kinds: dict[str, Kind], entry: Entry, turned: bool) -> str:
        inner = self._of_arrays(f"{found.name}.init", kinds, [found.weight])
        value = nodes.code(layouts.first(inner.expr(entry.first)))
        taken = {f"jnp.zeros_like({found.weight})": "jnp.zeros_like", f"jnp.ones_like({found.weight})": "jnp.ones_like"}
        taken[found.weight] = "jnp.copy"  # an array of its own, as the step gives the memory of both away
        if turned and value not in taken:
            as_in_torch = {found.weight: nodes.expression(f"{found.weight}.T")}
            value = nodes.code(nodes.expression("{x}.T", x=nodes.substituted(nodes.expression(value), as_in_torch)))
        return f"jax.tree.map({taken.get(value, f'lambda {found.weight}: {value}')}, params)"

    def _update_of_all(self, found: OptimizerClass, step: _Step, state: str) -> Statement:
        """`update`, for all parameters."""
        body: list[Statement] = []
        new = [entry.name for entry in found.entries]
        kept = list(new)
        if found.counter is not None:
            counter = found.counter
            plus = " + 1" if found.counts_first else ""
            body += nodes.statements(f"{counter.name} = state.{counter.key}{plus}")
            kept.insert(0, counter.name if found.counts_first else f"{counter.name} + 1")
        trees = {found.weight: "params", found.grad: "grads"}
        trees |= {entry.name: f"state.{entry.key}" for entry in found.entries}
        read = set(usage.loads([*step.body, nodes.statement("{x}", x=step.given)]))
        if found.weight not in read:
            del trees[found.weight]
        one = self.unit.own("update_param")
        given = nodes.bare_tuple(
            [step.given, *(nodes.expression(f"{name}.T" if step.is_turned else name) for name in new)]
        )
        inner = [*step.body, nodes.statement("return {x}", x=given)]
        function = suites.function(one, list(trees), inner)
        body.append(function.with_changes(leading_lines=[suites.BLANK]) if body else function)
        mapped = f"jax.tree.map({one}, {', '.join(trees.values())})"
        result = "updates" if step.is_change else "new_params"
        whole = next(iter(trees.values()))
        if new:
            stepped = self.unit.own("stepped")
            apart = f"jax.tree.transpose(jax.tree.structure({whole}), None, {stepped})"
            body += _apart(nodes.statements(f"{stepped} = {mapped}\n{', '.join([result, *new])} = {apart}"))
        else:
            body += _apart(nodes.statements(f"{result} = {mapped}"))
        if not step.is_change:
            body += nodes.statements("updates = jax.tree.map(jnp.subtract, new_params, params)")
        after = f"{state}({', '.join(kept)})" if kept else "state"
        body += nodes.statements(f"return updates, {after}")
        made = suites.function("update", ["grads", "state", "params=None" if whole == "grads" else "params"], body)
        return made.with_changes(leading_lines=[suites.BLANK])


def _apart(statements: list[Statement]) -> list[Statement]:
    """Statements after a blank line."""
    return [statements[0].with_changes(leading_lines=[suites.BLANK]), *statements[1:]]


def _entry(found: OptimizerClass, ordered: str) -> OptimizerEntry:
    """What is told of torch's own optimizers, of this one."""
    params = [*found.params.params, *found.params.kwonly_params]
    text = ", ".join(["params", *(nodes.code(_bare(each)) for each in params)])
    holes = []
    for number, each in enumerate(params):
        name = each.name.value
        default = f"?{nodes.code(each.default)}" if each.default is not None else ""
        plain = number == 0 and name == "lr"
        holes.append(f"{{{name}}}" if plain else f"{name}={{{name}{default if '{' not in default else ''}}}")
    return OptimizerEntry(
        found.name,
        text,
        f"{found.name}({', '.join(holes)})",
        decay="own",
        flags=(),
        options=found.options,
        ordered=ordered,
        fills=found.fills,
        spoils=_spoils(found),
    )


def _spoils(found: OptimizerClass) -> bool:
    """Whether a step changes the gradient in place."""
    augmented = {nodes.dotted(each.target) for line in found.body for each in every(line, cst.AugAssign)}
    return found.grad in augmented | {name for each in found.body for name in usage.changed_in_place(each)}


def _bare(parameter: cst.Param) -> cst.Param:
    return parameter.with_changes(annotation=None, comma=cst.MaybeSentinel.DEFAULT, equal=cst.MaybeSentinel.DEFAULT)


def _kind(parameter: cst.Param) -> Kind:
    """What a hyperparameter is, as its default value tells."""
    default = nodes.literal(parameter.default)
    if isinstance(default, tuple):
        return Items(tuple(Number() for _ in default), type="tuple")
    if isinstance(default, str):
        return Plain("str")
    if default is None:
        return UNKNOWN
    return Items(None, Number(), "tuple") if "uple" in nodes.annotation(parameter) else Number()


def _checks(statement: Statement, names: frozenset[str]) -> bool:
    """Whether a statement raises an error for some values of hyperparameters that jit does not know."""
    raising = isinstance(statement, cst.If | cst.Assert) and any(every(statement, (cst.Raise, cst.Assert)))
    return raising and bool(names & set(usage.loads(statement)))


def _as_change(body: list[Statement], weight: str, change: str) -> _Step:
    """A step that adds to the weight once, and no longer reads it then, as that change."""
    stores = usage.stores(body)
    at = next((number for number, each in enumerate(body) if weight in usage.stores(each)), None)
    added = _added(body[at], weight) if at is not None and stores.count(weight) == 1 else None
    if at is None or added is None or weight in usage.loads(body[at + 1 :]):
        return _Step(body, nodes.name(weight), False)
    before, after = body[:at], body[at + 1 :]
    if set(usage.loads(added)) & set(usage.stores(after)):
        line = nodes.statement(f"{change} = {{added}}", added=added)
        return _Step([*before, suites.commented(line, body[at]), *after], nodes.name(change), True)
    return _Step([*before, *suites.with_comments(after, body[at])], added, True)


def _added(statement: Statement, weight: str) -> Expr | None:
    """What `w = w + x` adds; None for other statements."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if isinstance(small, cst.AugAssign) and nodes.dotted(small.target) == weight:
        operator, value = type(small.operator).__name__.removesuffix("Assign"), small.value
    elif isinstance(small, cst.Assign) and isinstance(small.value, cst.BinaryOperation):
        if nodes.dotted(small.value.left) != weight or nodes.dotted(small.targets[0].target) != weight:
            return None
        operator, value = type(small.value.operator).__name__, small.value.right
    else:
        return None
    if operator not in ("Add", "Subtract") or weight in usage.loads(value):
        return None
    return nodes.expression("-{x}", x=value) if operator == "Subtract" else nodes.bare(value)
