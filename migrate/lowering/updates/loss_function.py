"""The loss function of an update region: what the loss depends on, as a function of the parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    Function,
    Host,
    Instance,
    Kind,
    Model,
    ModuleClass,
    Optimizer,
    Plain,
    ProjectModule,
    Tensor,
    TorchName,
    is_batch,
)
from migrate.known.states import BATCH_STATS, PARAMS, State
from migrate.lowering.expressions.elements import is_field
from migrate.lowering.host import graphs
from migrate.lowering.models.models import Models
from migrate.lowering.models.object_history import moves
from migrate.lowering.updates.merging import merged_outputs
from migrate.lowering.updates.order_of_keys import keeping_order
from migrate.lowering.updates.region import Part, Region, Tracing
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


@dataclass(frozen=True)
class TracedLoss:
    """A loss function: its name, its statements, the loss, what it needs, and what its names are at its end. `names`:
    what it binds. `trained`: the parameters that its gradient is taken of."""

    name: str
    part: Part
    tracing: Tracing
    body: list[Statement]
    loss: Expr
    kinds: dict[str, Kind]
    trained: list[State]

    @property
    def variable(self) -> str:
        """The variable that holds the loss; "" where none does, or the loss is the one element of what it holds."""
        return nodes.dotted(self.part.loss) or "" if not _has_axes(self.kinds.get(nodes.code(self.part.loss))) else ""

    @property
    def names(self) -> list[str]:
        """What its own statements bind."""
        return list(dict.fromkeys(usage.changes(cst.Module(self.part.traced))))

    @property
    def stats(self) -> list[State]:
        """The batch statistics that it changes."""
        return [found for found in self.tracing.changed if found.what == BATCH_STATS]


class LossFunctions(Models):
    """Making loss functions."""

    def traced_losses(self, region: Region) -> list[TracedLoss]:
        """Lowers the traced statements twice: once to count the random draws, once for good."""
        with self.unit.discarding():
            counted = sum(traced.tracing.keys for traced in self._traced_losses(region, 0))
        return self._traced_losses(region, counted)

    def _traced_losses(self, region: Region, key_count: int) -> list[TracedLoss]:
        made: list[TracedLoss] = []
        drawn = 0
        keys: dict[Statement, tuple[int, ...]] = {}
        before: LossFunctions = self
        for part in region.parts:
            earlier = region.parts[: region.parts.index(part)]
            inside = frozenset(usage.stores([s for one in earlier for s in one.traced]))
            tracing = Tracing(key_count=key_count, first_key=drawn, inside=inside, drawn=keys)
            inner = before.region_scope(tracing)
            with inner.then(_after(region.parts, part)):
                body, loss = inner.loss_body(part)
            name = self.loss_function_name(region, part)
            made.append(TracedLoss(name, part, tracing, body, loss, inner.env.kinds, self.trained(tracing, part)))
            drawn += tracing.keys
            before = inner
        return made

    def loss_function_name(self, region: Region, part: Part) -> str:
        """`loss_fn`, or where there are several one after the variable that holds its loss."""
        if len(region.parts) == 1:
            return "loss_fn" if "loss_fn" not in self.unit.taken else "compute_loss"
        text = nodes.dotted(part.loss) or f"loss_{region.parts.index(part) + 1}"
        name = f"{text.rpartition('.')[2]}_fn"
        return name if name not in self.unit.taken else f"compute_{name}"

    def loss_body(self, part: Part) -> tuple[list[Statement], Expr]:
        """The statements and the loss, lowered in this scope of the region."""
        made: list[Statement] = []
        assert self.region is not None
        outside, self.region.depth = self.precision, len(self.blocks)
        for number, statement in enumerate(part.body):
            self.region.done = part.body[:number]
            self.region.replaying = any(statement is replayed for replayed in part.replayed)
            self.region.again = self.keys_drawn(statement) if self.region.replaying else []
            first = self.region.next_key
            self.before = []
            self.precision = self.unit.precisions.get(statement, outside)
            binds = frozenset(usage.stores(statement))
            self.region.inside |= binds if isinstance(statement, cst.BaseCompoundStatement) else frozenset()
            with self.then([*part.body[number + 1 :], part.loss]):
                lowered = self.statement(statement)
            if not self.region.replaying:
                self.region.drawn[statement] = tuple(range(first, self.region.next_key))
            if self.makes_static_mask(statement):
                lowered = [self.worked_out(one, statement) for one in lowered]
            self.region.inside |= binds
            made += suites.with_comments([*self.before, *lowered], statement)
        self.region.replaying = False
        self.before, self.precision = [], outside
        loss = self.expr(part.loss)
        made += self.before
        if isinstance(loss.kind, Tensor) and loss.kind.rank:  # it may have axes: torch needs one element, JAX no axes
            return _tidied(made), nodes.expression("{loss}.squeeze()", loss=loss.node)
        return _tidied(made), loss.node

    def keys_drawn(self, statement: Statement) -> list[Expr]:
        """The keys that a statement has drawn with before, in this step or in an earlier one, which then keeps its key
        for this one."""
        assert self.region is not None
        if statement in self.region.drawn:
            key, keys = self.unit.key, self.unit.own("keys")
            return [self.region.key_of(number, key, keys) for number in self.region.drawn[statement]]
        self.script.redrawn.add(id(statement))
        kept, count, numbers = self.script.step_keys.get(id(statement), ("", 0, ()))
        if count == 1:
            return [nodes.name(kept)]
        return [nodes.expression(f"jax.random.split({kept}, {count})[{number}]") for number in numbers]

    def trained(self, tracing: Tracing, part: Part) -> list[State]:
        """The parameters that the gradient is taken of."""
        chosen = [found for found in tracing.states if found.what == PARAMS and self.root(found.place) in part.trained]
        if not chosen:
            self.script.parted |= {self.scope} if self.facts is not None and self.facts.owner_is_class else set()
            raise Unsupported("MIG401", "the loss depends on no model that is trained here")
        return chosen

    # -- what is read afterwards --------------------------------------------------------------------------------------

    def live_names(self, losses: Sequence[TracedLoss], number: int) -> list[str]:
        """Names bound in a loss function that are read afterwards: by what follows the region, or by a later loss
        function of the same step."""
        traced, later = losses[number], losses[number + 1 :]
        found: list[str] = []
        for name in traced.names:
            following: list[cst.CSTNode] = list(traced.part.after)
            for loss in later:  # what computes a value again has it for itself
                own = name in usage.stores(loss.part.replayed) and name not in loss.names
                following += loss.part.after if own else [*loss.part.body, *loss.part.after]
            with self.then(following):
                found += [name] if name != "_" and self.live(name) else []
        return found

    # -- what is passed in --------------------------------------------------------------------------------------------

    def lifted(
        self, body: Sequence[Statement], loss: Expr, others: Mapping[str, tuple[Expr, Kind]]
    ) -> tuple[list[Statement], Expr, dict[str, tuple[Expr, Kind]]]:
        """Replaces attributes of local objects (`args.beta`, `self.criterion`) by names that the step takes as
        arguments. The names come with the attributes that they stand for, and what those are; `others` has those that
        the step takes already."""
        stored = set(usage.stores(body))
        lift = _Lift(self, {*usage.loads([*body, loss]), *stored}, others, stored - {"self"}, _arrays([*body, loss]))
        made = [nodes.visited(statement, lift) for statement in body]
        return made, nodes.visited(loss, lift), lift.found

    def liftable(self, name: str) -> bool:
        """Whether a name holds an object of which jit can take nothing but the attributes."""
        kind = self.env.lookup(name)
        return kind is not None and self.has_fields_alone(kind)

    def has_fields_alone(self, kind: Kind) -> bool:
        """Whether nothing is known of an object but that it has attributes: settings, mostly."""
        if isinstance(kind, Instance):
            methods = self.script.methods(kind.cls)
            return all(self.script.is_constructor(one.qualname) or not one.method for one in methods.values())
        return type(kind) in (Kind, Plain)

    def field_of_batch(self, path: str) -> Kind | None:
        """What one of several things in a batch is, `batch.text`: the batch may be no pytree. None for other paths."""
        name, _, attribute = path.partition(".")
        kind = self.kind_of_name(name)
        if graphs.is_graph(kind) and attribute and "." not in attribute:
            return graphs.field(kind, attribute)
        return Host("tensor", kind.origins) if is_batch(kind) and attribute and is_field(attribute) else None

    def reachable(self, name: str) -> bool:
        """Whether a module-level function can use the name as it is: a constant, a function, an import of the
        module."""
        kind = self.env.lookup(name)
        if kind is None:
            return True
        if self.is_local(name):
            return False
        if isinstance(kind, TorchName | Function | ModuleClass | ProjectModule) or (
            isinstance(kind, Plain) and kind.what in ("module", "imported")
        ):
            return True
        if isinstance(kind, Tensor | Host):
            return False
        if isinstance(kind, Model | Optimizer) and kind.place is not None:
            return self.is_global(kind.place)
        return name in self.unit.constants and name not in self.unit.changing

    # -- the function and its gradient --------------------------------------------------------------------------------

    def loss_parameters(self, traced: TracedLoss) -> list[str]:
        """The parameters of a loss function, the trained ones first."""
        assigned = set(usage.stores(traced.body))
        names = [self.state_name(state) for state in [*traced.trained, *traced.stats]]
        loads = dict.fromkeys(usage.loads(traced.body))
        carried = [name for name in loads if name in assigned and self.carried_in(traced.body, name)]
        return [*names, *(name for name in carried if name not in names)]

    def carried_in(self, body: Sequence[cst.CSTNode], name: str) -> bool:
        """Whether statements may need the value that a name had before them. What nothing binds until then is bound in
        the first turn of a loop, or not at all, as in torch."""
        bound = usage.first_access(self.prepared, name) == "store" or self.available_name(name, before=True)
        return usage.reads_first(body, name) and bound

    def loss_and_gradient(
        self, traced: TracedLoss, loss_name: str, extra: Sequence[str], grads: str, first: bool
    ) -> list[Statement]:
        """The loss function, and the call of `jax.value_and_grad` of it. Batch statistics, and names that are bound
        again after they were read, are parameters; statistics and what is read afterwards (`extra`) come back."""
        body = traced.body
        params = [self.state_name(state) for state in traced.trained]
        stats = [self.state_name(state) for state in traced.stats]
        parameters = self.loss_parameters(traced)
        returned = [*stats, *extra]
        result = traced.loss
        several = "argnums=(" + ", ".join(map(str, range(len(params)))) + ")" if len(params) > 1 else ""
        options = ", ".join(filter(None, [traced.name, several, "has_aux=True" if returned else ""]))
        target = loss_name
        if returned:
            own = [keeping_order(name, body, self.own_body) if name in extra else nodes.name(name) for name in returned]
            aux = own[0] if len(returned) == 1 else nodes.tuple_of(own)
            result = nodes.tuple_of([result, aux], parentheses=False)
            names = returned[0] if len(returned) == 1 else f"({', '.join(returned)})"
            target = f"({loss_name}, {names})"
        text = f"{target}, {grads} = jax.value_and_grad({options})({', '.join(parameters)})"
        definition = suites.function(traced.name, parameters, [*body, nodes.statement("return {r}", r=result)])
        if not first:
            definition = definition.with_changes(leading_lines=[suites.BLANK])
        gradient = suites.commented(nodes.statement(text), traced.part.backward)
        return [definition, gradient.with_changes(leading_lines=[suites.BLANK, *gradient.leading_lines])]


class _Lift(cst.CSTTransformer):
    """Attributes of objects, but for those that the loss function binds itself."""

    def __init__(
        self,
        scope: LossFunctions,
        taken: AbstractSet[str],
        others: Mapping[str, tuple[Expr, Kind]],
        bound: AbstractSet[str],
        arrays: AbstractSet[str],
    ) -> None:
        super().__init__()
        self.scope, self.taken, self.others, self.bound, self.arrays = scope, taken, others, bound, arrays
        self.found: dict[str, tuple[Expr, Kind]] = {}
        self.functions: list[cst.CSTNode] = []

    def visit_Call(self, node: cst.Call) -> None:
        self.functions.append(node.func)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return not self.is_setting(node)

    def is_setting(self, node: cst.Attribute) -> bool:
        """Whether an attribute is `self.cfg.clip`: jit takes no `cfg`."""
        text = nodes.dotted(node) or ""
        called = any(node is function for function in self.functions)
        if called or text.count(".") != 2 or not text.startswith("self."):
            return False
        return self.scope.has_fields_alone(self.scope.kind_of_name(text.rpartition(".")[0]))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        text = nodes.dotted(original_node)
        if text is None:
            return updated_node
        head = text.split(".")[0]
        if head in self.bound:
            return updated_node
        called = any(original_node is function for function in self.functions)
        of_batch = self.scope.field_of_batch(text)
        if head == "self":
            if text.count(".") > 1 and not self.is_setting(original_node):
                return updated_node
        elif called or not (moves(self.scope, text) or self.stays_outside(head) or of_batch is not None):
            return updated_node
        whole, _, told = text.rpartition(".")
        if told == "shape" and whole in self.arrays:
            return updated_node  # of what the step is given itself
        name = self.name_for(text)
        self.found[name] = (original_node, of_batch or self.scope.kind_of_name(text))
        return nodes.name(name)

    def stays_outside(self, name: str) -> bool:
        """Whether a step can neither use a name as it is nor be given what it holds."""
        return not self.scope.reachable(name) and self.scope.liftable(name)

    def name_for(self, path: str) -> str:
        """What the step calls an attribute: by its last word, unless that is another one's, or the loss uses it."""
        known = {**self.others, **self.found}
        wanted = [path.rpartition(".")[2], path.replace(".", "_")]
        for name in [*wanted, f"{wanted[1]}_", f"{wanted[1]}__"]:
            if name in known and nodes.dotted(known[name][0]) == path:
                return name
            if name not in known and name not in self.taken:
                return name
        raise Unsupported("MIG401", f"the loss reads {path}, and others of such names")


def _arrays(read: Sequence[cst.CSTNode]) -> set[str]:
    """The attributes of objects, `data.actions`, that are read for more than their shapes."""
    attributes = [node for one in read for node in every(one, cst.Attribute)]
    asked = {id(node.value) for node in attributes if node.attr.value == "shape"}
    return {path for node in attributes if id(node) not in asked and (path := nodes.dotted(node)) is not None}


def _after(parts: Sequence[Part], part: Part) -> list[cst.CSTNode]:
    """What of a region reads after one of its loss functions. Later ones compute what they read again, as it was made:
    none of it may have changed."""
    later = parts[parts.index(part) + 1 :]
    again = dict.fromkeys(name for one in later for name in usage.loads([*one.body, one.loss]))
    return [nodes.tuple_of([*map(nodes.name, again)]), *part.after, *(each for one in later for each in one.after)]


def _has_axes(kind: Kind | None) -> bool:
    return isinstance(kind, Tensor) and kind.has_axes


def _tidied(statements: Sequence[Statement]) -> list[Statement]:
    """No blank line before the first statement; outputs of forward passes go straight to their names."""
    made = merged_outputs(statements)
    if made:
        made[0] = made[0].with_changes(leading_lines=suites.comments(made[0]))
    return made
