"""State leaves the objects: `params`, `batch_stats`, `opt_state` and the random key become variables beside them.

They travel through functions as arguments and results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Instance, Items, Kind, Model, Optimizer, Place, Scheduler
from migrate.known.qualified import is_module, scopes_around
from migrate.known.states import BATCH_STATS, COUNT, CYCLE, FROZEN, GRADS, KEY, MODE, OPT_STATE, PARAMS, THE_KEY, State
from migrate.known.weight_kinds import StateDict, Weight, WeightTree
from migrate.lowering.expressions.elements import WeightsByName
from migrate.lowering.models.chosen_models import ChosenModels
from migrate.lowering.models.looked_at import LookedAt
from migrate.lowering.updates.detached import Detached
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement

_KEPT = (PARAMS, BATCH_STATS, OPT_STATE, COUNT, CYCLE, FROZEN)  # what an object takes over with what it is given
_SELF_CONTEXTS = ("forward", "setup")  # methods of a Flax module, which draws its own keys


class Awaited(Exception):
    """The example of a model stands on the output of another one, whose weights are to be made before."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.name)
        self.place = place


class StateAccess(Detached, ChosenModels, LookedAt):
    """Reading and writing what torch changes in place."""

    # -- names --------------------------------------------------------------------------------------------------------

    def state_name(self, state: State) -> str:
        """The variable that holds a piece of state: the plain name where the script has one object of the sort."""
        place = state.place
        if state.what == KEY:
            return self.unit.key
        short = place.short
        if self.root(place) in self.script.leaves:
            named = f"{short}_weight" if place.of_self and short in self.unit.taken else short
            return {PARAMS: named, GRADS: f"{named}_grad"}[state.what]
        if state.what == COUNT:
            return f"{short}_updates" if self.averages(place) else f"{short}_steps"
        if state.what == CYCLE:
            return f"{short}_momentum"
        if state.what == MODE:
            alone = len({found.name for found in self.script.places}) <= 1
            return MODE if alone and MODE not in self.unit.taken else f"{short}_training"
        if state.what == OPT_STATE:
            alone = len({found.name for found in self.script.optimizers}) <= 1
            return "opt_state" if alone and "opt_state" not in self.unit.taken else f"{short}_state"
        models = set[str]() if place in self.script.selves else {found.name for found in self.script.places}
        plain = {PARAMS: "params", BATCH_STATS: "batch_stats", GRADS: "grads", FROZEN: FROZEN}[state.what]
        return plain if len(models) <= 1 and plain not in self.unit.taken else f"{short}_{plain}"

    def state_expr(self, state: State) -> Expr:
        """The expression that holds a piece of state: a variable, or an attribute of the trainer object."""
        text = self.state_name(state)
        if not self.is_attribute(state):
            return nodes.name(text)
        if state.what == PARAMS and self.root(state.place) in self.script.leaves:
            text = state.place.short  # the tensor itself
        return nodes.expression(f"{self.owner_of(state)}.{text}")

    def named_here(self, place: Place) -> str:
        """How this scope calls an object that has state: `model`, `self.model`, `trainer.model`."""
        owner = self.owners.get(place.scope)
        return place.name if owner is None or not place.of_self else f"{owner}.{place.short}"

    def owner_of(self, state: State) -> str:
        """How this scope calls the object that a piece of state is an attribute of."""
        return self.owners.get(state.place.scope, "self")

    def is_attribute(self, state: State) -> bool:
        """Whether a piece of state is read from the object. To jit that is a constant: a method that it traces is given
        the weights of the object's models, as one is by an optimizer that evaluates it."""
        if self.looked_at(state.place):
            return False
        traced = self.facts is not None and self.context == "method" and self.facts.traced
        if self.facts is not None and self.facts.evaluated and state.what in (PARAMS, GRADS):
            return False
        if state.place.of_self and state.place.scope in self.owners and self.facts is not None and self.facts.traced:
            raise Unsupported("MIG404", f"{self.owner_of(state)} is constant to jit, and has weights")
        return state.place.of_self and not (traced and state.what in (PARAMS, BATCH_STATS, MODE))

    # -- access -------------------------------------------------------------------------------------------------------

    def read(self, state: State) -> Expr:
        """Notes that this scope needs the state; returns the expression that holds it. In a loss function all state has
        plain names: the step function around it takes them as arguments."""
        state = self.as_given(state)
        if state.what == MODE:
            return self.read_mode(state)
        if state.what == PARAMS and self.script.weightless(self.script.places.get(self.root(state.place), "")):
            return nodes.dict_of([])
        if self.region is not None:
            self.region.read(state)
            return nodes.name(self.state_name(state))
        self.untouched -= {state.place}
        if state.place in self.changed_by_name and state.what == PARAMS:
            raise Unsupported("MIG401", f"{state.place.name} is used in the loop that changes its weights by name")
        held = self.held_by_object(state)
        if held is not None:
            return held
        if state.place in (self.captured | self.lost) and state.what in _KEPT:
            raise Unsupported("MIG404", f"the {state.what} of {state.place.name} belong to an object that has it")
        if any(place == state.place for _, place, _ in self.pending):
            self.read_unmade.add(state.place)
        for what, place, line in self.pending:
            if what == "model" and place == state.place and not self.making_optimizer and state.what != OPT_STATE:
                if self.sampling and place == self.pending[0][1]:
                    raise Unsupported("MIG402", f"the first input of {place.name} is made with its own weights")
                if self.sampling:
                    raise Awaited(place)
                if place in self.script.early or place not in self.waiting:
                    self.want_inside(place)
                self.script.early |= {place} & self.waiting
                self.script.unfed |= {place} - self.script.examples.keys()
                self.unit.report(Unsupported("MIG402", f"{place.name} is used before an example is at hand"), line)
                self.said_unmade.add(place)
        here = state.place.scope == self.scope and not state.place.of_self
        if here and state.place in self.script.perhaps_loaded - self.ready and state.what in (PARAMS, BATCH_STATS):
            raise Unsupported("MIG402", f"{state.place.name} has its weights from a file in some runs alone")
        self._note(state, write=False)
        return self.state_expr(state)

    def as_given(self, state: State) -> State:
        """The state by the name of this function's parameter, where the model that an object has is the one that the
        function, or one around it, is given as well: `train(model, ScheduledOptim(Adam(model.parameters())))`."""
        place = state.place
        if self.looked_at(place):
            return State(state.what, self.whose_weights(place))
        if self.facts is None or place.of_self or place.scope == self.scope:
            return state
        around = [
            facts for scope in scopes_around(self.scope) if (facts := self.script.functions.get(scope)) is not None
        ]
        given = [
            Place(facts.qualname, name) for facts in around for name in (*facts.parameter_names, *facts.keyword_names)
        ]
        same = [one for one in given if one in self.script.parameters_of and self.roots(one) == {self.root(place)}]
        return State(state.what, same[0]) if len(same) == 1 else state

    def held_by_object(self, state: State) -> Expr | None:
        """`trainer.params`: the weights of a model that one object has taken over, for what runs after that in the
        scope that made both: statements of it, and of a file functions that others call as values."""
        if state.what not in _KEPT or state.place in self.lost:
            return None
        if state.place.scope not in (self.unit.scope, self.scope):
            return None
        holders = self.script.holders.get(state.place, set())
        here = state.place.scope == self.scope
        later = state.place in self.captured if here else self.facts and self.facts.qualname in self.script.by_value
        if len(holders) != 1 or not later:
            return None
        ((owner, own),) = holders
        if owner.scope != state.place.scope or owner.of_self or not owner.name:
            return None
        if here:
            return nodes.expression(f"{owner.name}.{self.state_name(State(state.what, own))}")
        if self.facts is not None and owner.name in self.facts.own_names:
            same = self.kind_of_name(owner.name) == Instance(own.scope) and self.script.objects[own.scope] == {owner}
            if not same:
                return None
        return nodes.expression(f"{owner.name}.{self.state_name(State(state.what, own))}")

    def draws_globally(self) -> bool:
        """Whether a function takes the key of its file: nobody gives one to a function that is used as a value."""
        facts = self.facts
        known = facts is not None and facts.qualname in self.script.by_value and is_module(facts.owner)
        return known and self.unit.scope in self.script.module_keys

    def note_training(self, state: State) -> None:
        """Notes that this scope has changed a piece of state of a model by now."""
        known, frozen = (self.scope, self.root(state.place)), self.script.frozen
        if state.what == PARAMS and known in frozen.finished:
            raise Unsupported("MIG401", f"{state.place.name} is trained again after all of its weights were frozen")
        if state.what == OPT_STATE and known in frozen.outdated:  # what it trains is told while it runs
            frozen.switching |= {self.root(model) for model in self.script.optimizers.get(known[1], ())}
        self.script.updated.add(known)
        if self.facts is not None:
            self.facts.found_trains = True

    def gradients(self, place: Place) -> Expr:
        """The gradients that a script itself reads: those that its last step returned, or that wait outside the step
        functions."""
        root = self.root(place)
        self.script.inspected.add(root)
        if (self.scope, root) in self.script.updated and root not in self.script.accumulated:
            return self.state_expr(State(GRADS, place))
        if root not in self.script.accumulated:
            raise Unsupported("MIG401", f"gradients of {place.name} without a backward pass that was understood")
        return self.read(State(GRADS, place))

    def read_mode(self, state: State) -> Expr:
        """Whether a model is in train mode: as this scope knows it, or as its callers say."""
        mode = self.env.modes.get(state.place, "train")
        if mode != "mixed":
            return nodes.name(str(mode == "train"))
        self.note_use(state)
        if not self.told_mode(state.place):
            raise Unsupported(
                "MIG403", f"{state.place.name} is in train mode in one run of this line and in eval mode in another"
            )
        self._note(state, write=False)
        return self.state_expr(state)

    def told_mode(self, place: Place) -> bool:
        """Whether this function is called with a model in both modes, and leaves it as it is until here."""
        mixed = self.facts is not None and self.facts.entry_modes.get(place) == "mixed"
        own = self.is_attribute(State(MODE, place))
        return mixed and self.region is None and place not in self.changed_modes and not own

    @contextlib.contextmanager
    def naming_parameters(self) -> Iterator[None]:
        """Inside, parameters are told to an optimizer, and need not exist yet."""
        before, self.making_optimizer = self.making_optimizer, True
        try:
            yield
        finally:
            self.making_optimizer = before

    def write(self, state: State) -> Expr:
        """Notes that this scope changes the state; returns the expression that holds it."""
        state = self.as_given(state)
        if self.region is not None:
            self.region.write(state)
            return nodes.name(self.state_name(state))
        held = self.held_by_object(state)
        if held is not None:
            return held
        self._note(state, write=True)
        self.env.past |= {name for name, kind in self.env.kinds.items() if _follows(kind, state)}
        return self.state_expr(state)

    def note_use(self, state: State) -> None:
        """Notes that a method uses a model of its object."""
        if self.facts is not None and state.place.of_self and state.what in (PARAMS, MODE):
            self.facts.found_uses.add(state.place)

    def _note(self, state: State, write: bool) -> None:
        """What a function neither makes itself nor reaches through `self` must be passed in, and out where it
        changes."""
        facts = self.facts
        if facts is None:
            self.module_needs_key |= state.what == KEY
            return
        self.note_use(state)
        if self.is_attribute(state):
            facts.found_sets |= {state} if write else set()
            return
        local = state.place.scope == self.scope and not self.passed_in(state.place)
        if state.what == KEY:
            facts.draws_globally = self.draws_globally()
            facts.found_needs_key = not facts.draws_globally
            local = facts.local_key or facts.draws_globally
        if local:
            self.touched |= set() if self.making_optimizer else {state.place}
            return
        facts.found_reads.add(state)
        if write:
            facts.found_writes.add(state)

    def stats_of(self, model: Model) -> bool:
        """Whether the model keeps batch statistics."""
        return self.script.has_stats(model.cls)

    def state_of(self, kind: Model | Optimizer | Scheduler) -> list[State]:
        """What a model, an optimizer or a scheduler keeps."""
        assert kind.place is not None
        if isinstance(kind, Scheduler):
            cycle = [State(CYCLE, kind.place)] if kind.cycles else []
            return [] if kind.is_object else [State(COUNT, kind.place), *cycle]
        if isinstance(kind, Optimizer):
            return [State(OPT_STATE, kind.place)]
        if self.script.weightless(kind.cls):
            return []
        kept = [
            PARAMS,
            *([BATCH_STATS] if self.stats_of(kind) else []),
            *([COUNT] if self.averages(kind.place) else []),
        ]
        return [*(State(what, kind.place) for what in kept), *self.frozen_states([kind.place])]

    def frozen_states(self, models: Iterable[Place]) -> list[State]:
        """What says of some models which parts are frozen, where the output keeps that."""
        return [State(FROZEN, place) for place in models if self.root(place) in self.script.frozen.switching]

    def told_frozen(self, models: Iterable[Place]) -> str:
        """What the update of an optimizer is told of that: `, frozen=frozen`; "" where it is told nothing."""
        names = list(dict.fromkeys(map(self.state_name, self.frozen_states(models))))
        return f", frozen={' | '.join(names)}" if names else ""

    def averages(self, place: Place) -> bool:
        """Whether a model is an average of another one, which counts its updates."""
        return self.root(place) in self.script.averaging

    def variables(self, model: Model) -> Expr:
        """The Flax variables of a model: `{"params": params, "batch_stats": batch_stats}`."""
        assert model.place is not None
        if self.script.weightless(model.cls):
            return nodes.dict_of([])
        items: list[tuple[str, Expr]] = [("params", self.read(State(PARAMS, model.place)))]
        if self.stats_of(model):
            items.append(("batch_stats", self.read(State(BATCH_STATS, model.place))))
        return nodes.dict_of(items)

    def zero_gradients(self, params: State, grads: State) -> Statement:
        """`grads = jax.tree.map(jnp.zeros_like, params)`, or None where a step may have to tell the two apart."""
        if self.root(params.place) in self.script.lacking:
            return nodes.statement("{g} = None", g=self.write(grads))
        leaf = self.root(params.place) in self.script.leaves
        text = "{g} = jnp.zeros_like({p})" if leaf else "{g} = jax.tree.map(jnp.zeros_like, {p})"
        return nodes.statement(text, g=self.write(grads), p=self.read(params))

    def set_hyperparameters(self, optimizer: Place, given: Mapping[str, Expr]) -> Statement:
        """Gives the state of an optimizer other hyperparameters: arrays of numpy's, since jit takes a number of
        Python's for another type, and would compile the step once more."""
        state = State(OPT_STATE, optimizer)
        typed = {name: nodes.call("np.asarray", value) for name, value in given.items()}
        value = nodes.call("optax.tree_utils.tree_set", self.read(state), **typed)
        return nodes.statement("{state} = {value}", state=self.write(state), value=value)

    def set_mode(self, place: Place, mode: str) -> None:
        """Puts a model in "train" or "eval" mode from here on."""
        self.env.modes[place] = mode
        self.env.told.pop(place, None)
        self.changed_modes.add(place)

    # -- random keys --------------------------------------------------------------------------------------------------

    def wants_key(self) -> bool:
        """Whether this scope makes the key itself instead of being given one."""
        return self.facts.local_key if self.facts is not None else self.unit.scope in self.script.module_keys

    def fresh_key(self, anyway: bool = True) -> Expr:
        """A random key for one draw. On the host it is split off before the statement, all of a statement's in one
        split; a Flax module makes it; a loss function takes it from the keys of its step; a list comprehension has
        its own for each turn. `anyway`: whatever the mode of the modules that the function is given."""
        if self.turn_keys is not None:
            number = len(self.turn_keys) + 1
            self.turn_keys.append(nodes.name(self.unit.own(f"subkey{number}" if number > 1 else "subkey")))
            return self.turn_keys[-1]
        if self.region is not None and self.region.turn_key is not None:
            return self.region.turn_key
        if self.nested:
            raise Unsupported("MIG302", "a random draw inside a comprehension or a lambda has no place for its key")
        if self.region is not None and self.region.in_loop and not self.region.replaying:
            self.region.drawn_in_loop = True
            return self.split_again(self.unit.own("loop_key"))
        if self.region is not None:
            return self.region.fresh_key(self.unit.key, self.unit.own("keys"))
        if self.context in _SELF_CONTEXTS:
            facts = self.script.classes[self.cls]
            method = self.scope.rpartition(".")[2]
            facts.found_own_draws.add("sample" if method in facts.reached else "method")
            facts.found_sampling.add(method)
            if self.facts is not None and self.facts.is_static:
                facts.draws_statically.add(method)
            return nodes.expression('self.make_rng("sample")')
        self.read(THE_KEY)
        if self.facts is not None and anyway:
            self.facts.found_draws_anyway = True
        if self.blocks:
            several = any("subkey" in usage.stores(statement) for statement in self.before)
            self.script.drawing[id(self.blocks[-1].statements[self.blocks[-1].index])] = 2 if several else 1
        if self.given_key is not None:
            made, self.given_key = self.given_key, None
            return made
        return self.split_off(self.unit.key)

    def key_where(self, mode: Expr | None) -> Expr:
        """A random key for one draw, which in eval mode there is none where a module draws in train mode alone."""
        path = nodes.dotted(mode) or "" if mode is not None else ""
        facts, (given, _, asked) = self.facts, path.partition(".")
        by_given = facts is not None and asked == "training" and given in facts.parameter_names
        if self.context not in _SELF_CONTEXTS and facts is not None and by_given:
            key = self.fresh_key(anyway=False)
            facts.found_draws_in.add(given)
            return key
        if self.context not in _SELF_CONTEXTS or path != "self.training":
            return self.fresh_key()
        self.script.classes[self.cls].found_own_draws.add("dropout")
        return nodes.expression('self.make_rng("dropout") if self.training else None')

    def key_for(self, facts: FunctionFacts, given: Mapping[str, cst.Arg]) -> Expr:
        """The key of a function that is called: none in eval mode where it draws in that of this module alone."""
        own = {name for name, arg in given.items() if nodes.dotted(arg.value) == "self"}
        in_mode = bool(facts.draws_in) and facts.draws_in <= own and not facts.draws_anyway
        return self.key_where(nodes.expression("self.training") if in_mode else None)

    @contextlib.contextmanager
    def from_turn_to_turn(self) -> Iterator[None]:
        """Inside, a loop of a loss function is lowered, which runs its draws many times: they split a key that stands
        before it."""
        region = self.region
        if region is None or region.in_loop:
            yield
            return
        region.in_loop, region.drawn_in_loop = True, False
        before = self.before
        try:
            yield
        finally:
            region.in_loop = False
        if region.drawn_in_loop:
            made = region.fresh_key(self.unit.key, self.unit.own("keys"))
            before.append(nodes.statement(f"{self.unit.own('loop_key')} = {{k}}", k=made))

    def split_off(self, key: str, mode: Expr | None = None) -> Expr:
        """A key split off another one before the statement, whatever the mode."""
        if self.region is not None or self.nested:
            raise Unsupported("MIG302", f"a draw from {key}, a generator of its own, where jit traces")
        if any("subkey" in usage.stores(s) and not nodes.code(s).startswith(f"{key}, ") for s in self.before):
            raise Unsupported("MIG302", f"draws from {key} and from another generator in one statement")
        return self.split_again(key)

    def split_again(self, key: str) -> Expr:
        """The same, of a key that goes from draw to draw: all draws of a statement are one split."""
        position = next((i for i, s in enumerate(self.before) if nodes.code(s).startswith(f"{key}, subkey")), None)
        if position is None:
            self.before.append(nodes.statement(f"{key}, subkey = jax.random.split({key})"))
            return nodes.name("subkey")
        names = nodes.code(self.before[position]).partition(" = ")[0]
        number = names.count(",") + 1
        text = f"{names}, subkey{number} = jax.random.split({key}, {number + 1})"
        self.before[position] = nodes.statement(text)
        return nodes.name(f"subkey{number}")


def _follows(kind: Kind, state: State) -> bool:
    """Whether a value is in torch the memory that a change of this state changes."""
    if isinstance(kind, StateDict):
        return kind.live and kind.place == state.place
    if isinstance(kind, WeightTree):
        return (kind.place, kind.what) == (state.place, state.what)
    if state.what != PARAMS or not isinstance(kind, Items):
        return False
    element = kind.joined()
    live = isinstance(element, Weight) and element.live
    return live and (kind.place == state.place if isinstance(kind, WeightsByName) else True)
