"""The gradients inside a step function: their names, their sums, how they are clipped and applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Optimizer, Place
from migrate.known.states import GRADS, OPT_STATE, PARAMS, State
from migrate.lowering.updates.loss_function import LossFunctions, TracedLoss
from migrate.lowering.updates.region import Clip
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement

LACKING = "where torch has gradients at one step and None at another"


class Gradients:
    """The gradients of one step. Those of models that are not stepped here wait outside, and are added to."""

    def __init__(
        self,
        scope: LossFunctions,
        losses: Sequence[TracedLoss],
        stepped: set[Place],
        only_trained: Callable[[Place, str], list[Statement]],
    ) -> None:
        self.only_trained = only_trained
        self.scope = scope
        self.summed = scope.gathering is not None  # over micro batches: each adds to what there was before
        states = list(dict.fromkeys(state for traced in losses for state in traced.trained))
        self.stepped = [state for state in states if scope.root(state.place) in stepped]
        self.waiting = [State(GRADS, state.place) for state in states if state not in self.stepped]
        scope.script.summed |= {scope.root(state.place) for state in self.waiting}
        alone = len(states) == 1 and "grads" not in scope.unit.taken and bool(self.stepped)
        alone = alone and scope.root(states[0].place) not in scope.script.leaves
        self.names = {state: "grads" if alone else scope.state_name(State(GRADS, state.place)) for state in states}
        if self.summed and any(map(self.lacks, self.waiting)):
            raise Unsupported("MIG401", f"micro batches, {LACKING}")
        self.met: set[State] = set()
        self.sums: dict[str, Expr] = {}

    def target(self, traced: TracedLoss) -> str:
        """Where a loss function's gradients go."""
        names = [f"new_{self.names[state]}" if self.adds_to(state) else self.names[state] for state in traced.trained]
        return names[0] if len(names) == 1 else f"({', '.join(names)})"

    def lacks(self, state: State) -> bool:
        """Whether the gradients that wait may be None."""
        return self.scope.root(state.place) in self.scope.script.lacking

    def adds_to(self, state: State) -> bool:
        """Whether there are gradients already."""
        return self.summed or state not in self.stepped or state in self.met

    def added(self, traced: TracedLoss) -> list[Statement]:
        """Adds them to what there was before."""
        made: list[Statement] = []
        for state in traced.trained:
            name = self.names[state]
            if not self.adds_to(state):
                self.met.add(state)
                continue
            if self.scope.frozen_states([state.place]) and state not in self.stepped:
                made += self.only_trained(state.place, f"new_{name}")  # torch adds nothing to those of others
            leaf = self.scope.root(state.place) in self.scope.script.leaves
            text = f"{name} + new_{name}" if leaf else f"jax.tree.map(jnp.add, {name}, new_{name})"
            if state not in self.stepped and self.lacks(state):
                text = f"new_{name} if {name} is None else {text}"
            total = nodes.expression(text)
            if name in self.sums or (state in self.stepped and not self.summed):
                made.append(nodes.statement(f"{name} = {{total}}", total=total))
            else:
                self.sums[name] = total
        return made

    def carried(self, stats: Sequence[State]) -> tuple[list[str], list[Expr]]:
        """What goes from one micro batch to the next: the names, and what the last one leaves of each."""
        names = [*self.names.values(), *(self.scope.state_name(state) for state in stats)]
        sums, self.sums = self.sums, {}
        return names, [sums.get(name, nodes.name(name)) for name in names]

    def started(self) -> list[Statement]:
        """The gradients that begin with zeros in the step."""
        zeros = [(self.names[state], self.scope.state_name(state)) for state in self.stepped]
        return [nodes.statement(f"{grads} = jax.tree.map(jnp.zeros_like, {params})") for grads, params in zeros]

    def of(self, models: Sequence[Place], what: str = GRADS) -> str:
        """The gradients (or the parameters) of several models as one tree."""
        roots = [self.scope.root(place) for place in models]
        found = [state for root in roots for state in self.names if self.scope.root(state.place) == root]
        names = [self.names[state] if what == GRADS else self.scope.state_name(state) for state in found]
        return names[0] if len(names) == 1 else f"({', '.join(names)})"

    def clipped(self, bound: str, clip: Clip) -> list[Statement]:
        """`grads, norm = clip_grad_norm(grads, 1.0)`."""
        self.scope.unit.use_snippet(clip.snippet)
        grads = self.of(clip.models)
        target = f"{grads}, {bound}" if clip.norm else grads
        call = nodes.call(clip.snippet, nodes.expression(grads), *clip.arguments)
        trained = [one for place in clip.models if clip.norm for one in self.only_trained(place, self.of([place]))]
        return [*trained, nodes.statement(f"{target} = {{call}}", call=call)]

    def update(self, kind: Optimizer, step: Statement, read_by: TracedLoss | None = None) -> list[Statement]:
        """The step of one optimizer. `read_by`: the loss, where what it reads of the parameters is another part from
        step to step."""
        opt_state, optimizer = self.scope.state_name(State(OPT_STATE, kind.place)), kind.place.short
        self.check_reached(kind)
        params, grads = self.of(kind.models, PARAMS), self.of(kind.models)
        updates = self.scope.unit.own("updates")
        told = self.scope.told_frozen(kind.models)
        update = nodes.statement(f"{updates}, {opt_state} = {optimizer}.update({grads}, {opt_state}, {params}{told})")
        if read_by is not None and told:
            raise Unsupported("MIG401", "what is drawn steers which parameters are read of a model that is frozen")
        if read_by is not None:
            self.scope.unit.use_snippet("update_where_read")
            arguments = ", ".join([optimizer, read_by.name, grads, opt_state, *self.scope.loss_parameters(read_by)])
            update = nodes.statement(f"{updates}, {opt_state} = update_where_read({arguments})")
        return [
            suites.commented(update, step),
            nodes.statement(f"{params.strip('()')} = optax.apply_updates({params}, {updates})"),
        ]

    def check_reached(self, kind: Optimizer) -> None:
        """Refuses a step over a model that no loss of the step function depends on: it has no gradient here."""
        with_gradients = {self.scope.root(state.place) for state in self.names}
        for place in kind.models:
            if self.scope.root(place) not in with_gradients:
                problem = f"{kind.place.short} steps {place.short}, which no loss here depends on"
                raise Unsupported("MIG401", problem)

    def outputs(self, optimizers: Sequence[Optimizer], stats: Sequence[State]) -> list[State]:
        """The state that the step returns: each optimizer's parameters, batch statistics, optimizer states, gradients
        that wait."""
        found = [*self.stepped, *stats, *(State(OPT_STATE, kind.place) for kind in optimizers), *self.waiting]
        return list(dict.fromkeys(found))

    def result(self, state: State) -> Expr:
        """What is returned of a piece of state."""
        name = self.scope.state_name(state)
        return self.sums.get(name, nodes.name(name))
