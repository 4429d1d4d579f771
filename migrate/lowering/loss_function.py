"""The loss function of an update region: what the loss depends on, as a function of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate import nodes, suites, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import Function, Host, Kind, ModuleClass, Optimizer, Place, Plain, ProjectModule, Tensor, TorchName
from migrate.lowering.models import Models
from migrate.lowering.region import Region, Tracing
from migrate.nodes import Expr, Statement
from migrate.qualified import file_of
from migrate.script import PARAMS, State

_BLANK = cst.EmptyLine(indent=False)


@dataclass(frozen=True)
class TracedLoss:
    """The body of a loss function: its statements, the loss, what it needs, and what its names are at its end."""

    tracing: Tracing
    body: list[Statement]
    loss: Expr
    kinds: dict[str, Kind]


class LossFunctions(Models):
    """Making loss functions."""

    def traced_loss(self, region: Region) -> TracedLoss:
        """Lowers the traced statements twice: once to count the random draws, once for good."""
        inside = frozenset(usage.stores(region.traced))
        counting = Tracing(inside=inside)
        with self.unit.discarding():
            self.region_scope(counting).loss_body(region)
        tracing = Tracing(key_count=counting.keys, inside=inside)
        inner = self.region_scope(tracing)
        body, loss = inner.loss_body(region)
        return TracedLoss(tracing, body, loss, inner.env.kinds)

    def loss_body(self, region: Region) -> tuple[list[Statement], Expr]:
        """The statements and the loss, lowered in this scope of the region."""
        made: list[Statement] = []
        for statement in region.traced:
            self.before = []
            lowered = self.statement(statement)
            made += suites.with_comments([*self.before, *lowered], statement)
        self.before = []
        loss = self.node(region.loss)
        made += self.before
        return _tidied(made), loss

    def trained(self, tracing: Tracing, region: Region) -> State:
        """The parameters that the gradient is taken of."""
        candidates = [found for found in tracing.states if found.what == PARAMS]
        wanted: set[Place] = set()
        if region.optimizer is not None:
            kind = self.kind_of(region.optimizer)
            if isinstance(kind, Optimizer):
                wanted = {self.root(place) for place in kind.models}
        else:
            wanted = {self.root(place) for models in self.optimizer_models.values() for place in models}
        chosen = [found for found in candidates if self.root(found.place) in wanted or not wanted]
        if len(chosen) != 1:
            raise Unsupported("MIG401", f"the loss depends on {len(chosen)} models that are trained here, not on one")
        return chosen[0]

    # -- what is read afterwards --------------------------------------------------------------------------------------

    def live_names(self, region: Region) -> list[str]:
        """Names bound in the loss function that are read afterwards."""
        names = dict.fromkeys(usage.stores(region.traced))
        return [name for name in names if name != "_" and self.live(name)]

    def live(self, name: str) -> bool:
        """Whether the value that a name has now is read by what follows."""
        for statements in self.following:
            access = usage.first_access(statements, name)
            if access:
                return access == "load"
        if self.context == "module":
            own = [facts for facts in self.script.functions.values() if file_of(facts.qualname) == self.unit.scope]
            return any(name in usage.loads(facts.node) for facts in own)
        return False

    # -- what is passed in --------------------------------------------------------------------------------------------

    def lifted(
        self, body: Sequence[Statement], others: Sequence[Expr]
    ) -> tuple[list[Statement], list[Expr], dict[str, tuple[Expr, Kind]]]:
        """Replaces attributes of local objects (`args.beta`, `self.criterion`) by names that the step takes as
        arguments. The names come with the attributes that they stand for, and what those are."""
        lift = _Lift(self)
        made = [nodes.visited(statement, lift) for statement in body]
        return made, [nodes.visited(node, lift) for node in others], lift.found

    def liftable(self, name: str) -> bool:
        """Whether a name holds an object of which jit can take nothing but the attributes."""
        kind = self.env.lookup(name)
        return kind is not None and type(kind) in (Kind, Plain)

    def reachable(self, name: str) -> bool:
        """Whether a module-level function can use the name as it is: a constant, a function, an import of the
        module."""
        kind = self.env.lookup(name)
        if kind is None:
            return True
        if name in self.env.kinds and self.context != "module":
            return False
        outer = self.env.outer
        if self.context != "module" and outer is not None and name in outer.kinds and outer.outer is not None:
            return False  # a variable of an enclosing function
        if isinstance(kind, TorchName | Function | ModuleClass | ProjectModule) or (
            isinstance(kind, Plain) and kind.what in ("module", "imported")
        ):
            return True
        if isinstance(kind, Tensor | Host):
            return False
        return name in self.unit.constants

    # -- the function and its gradient --------------------------------------------------------------------------------

    def loss_and_gradient(
        self,
        body: list[Statement],
        loss: Expr,
        params: str,
        stats: Sequence[str],
        extra: Sequence[str],
        grads: str,
        backward: Statement | None,
    ) -> list[Statement]:
        """`def loss_fn(params, ...)`, and the call of `jax.value_and_grad` of it. Batch statistics, and names that are
        bound again after they were read, are parameters; statistics and what is read afterwards (`extra`) come back."""
        assigned = set(usage.stores(body))
        carried = [name for name in dict.fromkeys(usage.loads(body)) if name in assigned and reads_first(body, name)]
        function = "loss_fn" if "loss_fn" not in self.unit.taken else "compute_loss"
        parameters = [params, *stats, *(name for name in carried if name not in stats)]
        returned = [*stats, *extra]
        arguments = ", ".join(parameters)
        result = loss
        text = f"loss, {grads} = jax.value_and_grad({function})({arguments})"
        if returned:
            several = nodes.tuple_of([nodes.name(name) for name in returned])
            aux = nodes.name(returned[0]) if len(returned) == 1 else several
            result = nodes.tuple_of([loss, aux], parentheses=False)
            text = f"(loss, {nodes.code(aux)}), {grads} = jax.value_and_grad({function}, has_aux=True)({arguments})"
        definition = suites.function(function, parameters, [*body, nodes.statement("return {r}", r=result)])
        gradient = suites.commented(nodes.statement(text), backward)
        return [definition, gradient.with_changes(leading_lines=[_BLANK, *gradient.leading_lines])]


class _Lift(cst.CSTTransformer):
    def __init__(self, scope: LossFunctions) -> None:
        super().__init__()
        self.scope = scope
        self.found: dict[str, tuple[Expr, Kind]] = {}
        self.functions: list[cst.CSTNode] = []

    def visit_Call(self, node: cst.Call) -> None:
        self.functions.append(node.func)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        text = nodes.dotted(original_node)
        if text is None:
            return updated_node
        head = text.split(".")[0]
        called = any(original_node is function for function in self.functions)
        if head == "self":
            if text.count(".") > 1:
                return updated_node
        elif called or self.scope.reachable(head) or not self.scope.liftable(head):
            return updated_node
        name = text.rpartition(".")[2]
        self.found[name] = (original_node, self.scope.kind_of_name(text))
        return nodes.name(name)


def reads_first(body: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether a function reads a name before it binds it: the name must then be its parameter."""
    return usage.first_access(body, name) == "load"


def _tidied(statements: Sequence[Statement]) -> list[Statement]:
    """No blank line before the first statement; `output, mutated = f(); y = output` becomes one assignment."""
    made: list[Statement] = []
    for statement in statements:
        merged = _merged(made[-2], statement) if len(made) >= 2 else None
        if merged is not None:
            made[-2] = merged
        else:
            made.append(statement)
    if made:
        made[0] = made[0].with_changes(leading_lines=suites.comments(made[0]))
    return made


def _merged(pair: Statement, statement: Statement) -> Statement | None:
    """`y, mutated = f()` for `output, mutated = f()` and `y = output`; None for other statements."""
    if not isinstance(pair, cst.SimpleStatementLine) or not isinstance(statement, cst.SimpleStatementLine):
        return None
    applied, assign = pair.body[0], statement.body[0]
    if not isinstance(applied, cst.Assign) or not isinstance(assign, cst.Assign):
        return None
    outputs, name = applied.targets[0].target, assign.targets[0].target
    if not isinstance(outputs, cst.Tuple) or not isinstance(name, cst.Name):
        return None
    if not nodes.code(outputs).endswith(", mutated"):
        return None
    if nodes.dotted(assign.value) != nodes.dotted(outputs.elements[0].value):
        return None
    target = nodes.tuple_of([name, nodes.name("mutated")], parentheses=False)
    return pair.with_changes(body=[applied.with_changes(targets=[nodes.target(target)])])
