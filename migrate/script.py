"""The model of a training script: what the passes have learned of it, filled by lowering again until it is stable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate import nodes, suites
from migrate.constructed import BoundWeight, ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.kinds import UNKNOWN, Host, Items, Kind, Module, Never, Place, join

PARAMS, BATCH_STATS, OPT_STATE, GRADS, COUNT, KEY = "params", "batch_stats", "opt_state", "grads", "count", "key"
MODE = "training"  # the mode of a model, for a function that is called in both
STATE_WORDS = {PARAMS, BATCH_STATS, OPT_STATE, GRADS, KEY}  # the variables that hold it
KEY_PLACE = Place("", "key")
INLINE = "@"  # between the class and the variable of a model that is made in place: "Sequential@model"


@dataclass(frozen=True, order=True)
class State:
    """One piece of what torch changes in place: the `what` of the object at `place`."""

    what: str
    place: Place


THE_KEY = State(KEY, KEY_PLACE)


@dataclass(frozen=True)
class Draw:
    """What Python or numpy draws for a function that jit traces: the parameter that takes it, and the draw as its
    callers write it, but for the parameters of the function."""

    name: str
    node: cst.BaseExpression
    kind: Kind


@dataclass
class FunctionFacts:
    """What is known of a user's function: kinds of its parameters over all calls, and the state that it touches."""

    node: cst.FunctionDef
    qualname: str
    owner: str = ""  # the enclosing function or class
    params: dict[str, Kind] = field(default_factory=dict)  # over all calls of the round before
    found_params: dict[str, Kind] = field(default_factory=dict)
    given: dict[str, bool] = field(default_factory=dict)  # parameters -> whether no caller keeps what it passes
    found_given: dict[str, bool] = field(default_factory=dict)
    returns: Kind = field(default_factory=Never)
    overriding: Kind = field(default_factory=Never)  # what the methods of subclasses return in its place
    yields: Kind = field(default_factory=Never)  # what a generator gives
    reads: set[State] = field(default_factory=set)  # as the round before found them
    writes: set[State] = field(default_factory=set)
    found_reads: set[State] = field(default_factory=set)  # as this round finds them
    found_writes: set[State] = field(default_factory=set)
    entry_modes: dict[Place, str] = field(default_factory=dict)
    found_entry_modes: dict[Place, str] = field(default_factory=dict)
    exit_modes: dict[Place, str] = field(default_factory=dict)  # of the models whose mode it sets
    left_in: dict[Place, str] = field(default_factory=dict)  # the modes of all models at its end
    calls: list[CallSite] = field(default_factory=list)
    found_calls: list[CallSite] = field(default_factory=list)
    seeds: str = ""  # the parameter that seeds torch's generator, for helpers like set_seed(seed)
    local_key: bool = False
    draws_globally: bool = False  # with the key of its file
    owner_is_class: bool = False
    builds: bool = False  # whether it makes parts of modules
    takes_mode: bool = False  # whether it is told the mode of what it makes
    # class that calls it -> the initialisers that the class gives its layers
    initializers: dict[str, dict[str, dict[str, cst.BaseExpression]]] = field(default_factory=dict)
    needs_key: bool = False
    found_needs_key: bool = False
    draws: list[Draw] = field(default_factory=list)  # as the round before found them
    found_draws: list[Draw] = field(default_factory=list)
    traced: bool = False  # called from what jit traces
    found_traced: bool = False

    @property
    def method(self) -> bool:
        """Whether this is a method of a class that is no module: its first parameter is the object."""
        return self.owner_is_class

    def next_round(self) -> None:
        """What this round found is what the next one goes by."""
        self.needs_key, self.found_needs_key = self.found_needs_key, False
        self.traced, self.found_traced = self.found_traced, False
        self.draws, self.found_draws = self.found_draws, []
        self.params, self.found_params = self.found_params, {}
        self.given, self.found_given = self.found_given, {}
        self.reads, self.writes = self.found_reads, self.found_writes
        self.found_reads, self.found_writes = set(), set()
        self.entry_modes, self.found_entry_modes = self.found_entry_modes, {}
        self.calls, self.found_calls = self.found_calls, []

    @property
    def parameter_names(self) -> list[str]:
        """The parameters that can be passed by position, `self` of a method among them."""
        return [parameter.name.value for parameter in self.node.params.params]

    @property
    def decorators(self) -> set[str]:
        """The names that it is decorated with."""
        return {nodes.dotted(decorator.decorator) or "" for decorator in self.node.decorators}

    @property
    def result(self) -> Kind:
        """What a call returns; UNKNOWN before the first `return` was seen."""
        if isinstance(self.yields, Host):
            return Host("stream")
        if not isinstance(self.yields, Never):
            return Items(None, self.yields, "generator")
        result = join(self.returns, self.overriding)
        return UNKNOWN if isinstance(result, Never) else result

    @property
    def states(self) -> list[State]:
        """Everything that must be passed in, in a fixed order."""
        order = [PARAMS, BATCH_STATS, OPT_STATE, GRADS, COUNT, KEY, MODE]
        return sorted(self.reads | self.writes, key=lambda s: (order.index(s.what), s.place))

    @property
    def written(self) -> list[State]:
        """Everything that must be passed out, in the same order."""
        return [state for state in self.states if state in self.writes]


@dataclass
class ClassFacts:
    """A user's nn.Module class; or, without a `node`, an nn.Sequential that a script makes in place (`inline`)."""

    name: str
    node: cst.ClassDef | None = None
    inline: Module | None = None
    extends: str = ""  # the torch layer that it inherits from
    output_name: str = ""  # of a model that is made in place: the class that it is in the output
    bases: list[str] = field(default_factory=list)  # user classes that it inherits from
    sets_up: bool = False  # whether it has a setup of its own or of its base
    written: tuple[cst.ClassDef, cst.ClassDef] | None = None  # its base's definition, and its own with that in it
    built: set[str] = field(default_factory=set)  # methods that `__init__` runs
    seen: dict[str, Kind] = field(default_factory=dict)  # attributes that this round has met
    certain: set[str] = field(default_factory=set)  # attributes that the constructor sets whatever its arguments say
    rebound: set[str] = field(default_factory=set)  # attributes that it may set twice
    held: dict[str, str] = field(default_factory=dict)  # attributes kept in a variable until they are final -> its name
    otherwise: dict[str, Kind] = field(default_factory=dict)  # what a held attribute is in another branch
    fields: list[str] = field(default_factory=list)
    extras: str = ""  # the name of the **kwargs that its constructor hands on, and nobody gives it
    attributes: dict[str, Kind] = field(default_factory=dict)
    children: dict[str, Node] = field(default_factory=dict)  # attribute -> its modules
    renamed: dict[str, str] = field(default_factory=dict)  # attribute -> name in the output
    parameters: dict[str, BoundWeight] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)  # name -> reason why no leaf holds it
    changed: set[str] = field(default_factory=set)  # attributes that methods besides the constructor change
    variables: set[str] = field(default_factory=set)  # buffers among them: Flax variables
    ties: dict[str, str] = field(default_factory=dict)  # torch key -> the key that fills the leaf
    own_trains: bool = False
    reached: set[str] = field(default_factory=lambda: {"forward"})  # methods that a forward pass runs
    host_methods: set[str] = field(default_factory=set)  # methods that run outside, and are given the weights
    reports: str = ""  # the method among them that prints what the constructor said of the weights
    given: dict[str, dict[str, set[str]]] = field(default_factory=dict)  # class that makes it -> field -> what it gets
    own_draws: set[str] = field(default_factory=set)  # "dropout", "sample"
    own_stats: bool = False
    own_always: bool = False  # it changes buffers in eval mode, too
    # torch layer -> weight -> initialiser, as `apply(init_fn)` gives them to the layers of this class
    initializers: dict[str, dict[str, cst.BaseExpression]] = field(default_factory=dict)
    # path of a weight ("self.fc.bias") -> the initialiser that some constructor asks for by name: `a if c else None`
    # where it is what it would be otherwise unless a field says so
    asked: dict[str, cst.BaseExpression] = field(default_factory=dict)  # as the round before found them
    found_asked: dict[str, cst.BaseExpression] = field(default_factory=dict)  # as this round finds them
    askable: dict[str, bool] = field(default_factory=dict)  # weights with a path -> whether they keep torch's axes
    askable_as: dict[str, str] = field(default_factory=dict)  # the same paths -> the keyword of the constructor
    askable_if: dict[str, list[cst.BaseExpression]] = field(default_factory=dict)  # the same -> tests around the layer
    emptied: set[str] = field(default_factory=set)  # methods of which nothing is left, since they gave initial weights
    init_paths: dict[str, str] = field(default_factory=dict)  # path of a weight -> the field for its initialiser
    # such fields, those to hand on, and those that choose between initialisers -> type and default
    init_fields: dict[str, tuple[str, str]] = field(default_factory=dict)
    # class inside, and the path of one module of it ("" for all) -> its fields of the sort
    passed: dict[tuple[str, str], dict[str, cst.BaseExpression]] = field(default_factory=dict)
    arguments: dict[str, dict[str, cst.BaseExpression]] = field(default_factory=dict)  # submodule -> what it was given
    made_by_value: bool = False  # made by calls of a value that may be another class as well
    field_kinds: dict[str, Kind] = field(default_factory=dict)
    field_types: dict[str, str] = field(default_factory=dict)  # annotations told by use
    rebinds: set[str] = field(default_factory=set)  # fields that the constructor has under their names, changed
    flags: dict[str, bool] = field(default_factory=dict)  # attributes that are True, or False, whatever it is given
    # path of a weight -> the lengths of its axes in Flax, as the constructor writes them
    lengths: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def method(self, name: str) -> cst.FunctionDef | None:
        """A method as the class has it in the input; None where it has none of that name."""
        body = suites.suite_of(self.node.body.body) if self.node is not None else []
        return next((each for each in body if isinstance(each, cst.FunctionDef) and each.name.value == name), None)


@dataclass(frozen=True)
class Example:
    """Where a model is first called: the scope, and the written arguments, and what the names in them stand for."""

    scope: str
    arguments: tuple[cst.BaseExpression, ...]
    definitions: Mapping[str, cst.BaseExpression]
    trained: bool  # from a training step, which is preferred to an evaluation
    direct: bool = True  # not computed by another model, which is preferred most
    names: tuple[str, ...] = ()  # of the arguments: "" of those by position

    @property
    def drawn(self) -> list[str]:
        """The parameters for what the host draws."""
        return [name for name in self.names if name]

    def as_arguments(self, made: Sequence[cst.BaseExpression]) -> list[cst.Arg]:
        """The arguments of a call with these values."""
        named = list(zip(self.names, made, strict=True))
        keywords = {name: node for name, node in named if name}
        return nodes.arguments([node for name, node in named if not name], keywords)


@dataclass(frozen=True)
class CallSite:
    """A call of a user's function: the scope, the arguments by parameter, and what the names in them stand for."""

    scope: str
    bound: Mapping[str, cst.BaseExpression]
    definitions: Mapping[str, cst.BaseExpression]


@dataclass
class Script:
    """Everything known of a project, by name."""

    classes: dict[str, ClassFacts] = field(default_factory=dict)
    functions: dict[str, FunctionFacts] = field(default_factory=dict)
    places: dict[Place, str] = field(default_factory=dict)  # models made by the script -> class
    handed: set[Place] = field(default_factory=set)  # models and optimizers that functions make for their callers
    given_up: set[Place] = field(default_factory=set)  # those that they have used: their weights are returned as well
    early: set[Place] = field(default_factory=set)  # models that are used before the loader of their inputs is made
    unfed: set[Place] = field(default_factory=set)  # models whose weights are used, and that nothing calls there
    parallel: bool = False  # batches are split over a mesh of all devices
    distributed: bool = False  # it was written for several processes
    copies: set[Place] = field(default_factory=set)  # those among them that start as copies of others
    host_functions: set[str] = field(default_factory=set)  # functions that data loading calls: they stay torch
    parameters_of: dict[Place, Place] = field(default_factory=dict)  # parameter -> the model passed for it
    passed: dict[Place, set[Place]] = field(default_factory=dict)  # parameter -> all models that are passed for it
    selves: dict[Place, str] = field(default_factory=dict)  # `self` of a method that works on weights -> its class
    listed: set[tuple[str, str]] = field(
        default_factory=set
    )  # scopes, and lists or dicts of parameters that they do more with
    followed: set[tuple[str, str]] = field(default_factory=set)  # scopes, and names that only sort names of weights
    optimizers: dict[Place, tuple[Place, ...]] = field(default_factory=dict)  # -> the models that they train
    # scope and name of what no optimizer can train, since nothing here knows it as a model
    foreign_models: set[tuple[str, str]] = field(default_factory=set)
    leaves: set[Place] = field(default_factory=set)  # tensors made with requires_grad=True
    inspected: set[Place] = field(default_factory=set)  # models whose gradients the script itself reads
    frozen: dict[Place, frozenset[str]] = field(default_factory=dict)  # model -> leaves that require no gradient by now
    frozen_last: dict[Place, frozenset[str]] = field(default_factory=dict)  # the same at the end of the round before
    switched: dict[Place, set[bool]] = field(default_factory=dict)  # models frozen or not while the script runs
    updated: set[tuple[str, Place]] = field(default_factory=set)  # scopes, and models that they have trained by now
    proportional: dict[Place, bool] = field(default_factory=dict)  # optimizer -> schedulers only scale its rates
    saved_whole: dict[str, set[str]] = field(default_factory=dict)  # classes of models saved as they are -> their modes
    checkpoints: bool = True  # whether the project saves something with torch, or takes weights from a file
    doubled: set[Place] = field(default_factory=set)  # models in float64
    evaluating: set[Place] = field(default_factory=set)  # optimizers that evaluate a closure as often as they need
    counting: set[Place] = field(default_factory=set)  # optimizers that count their steps, in torch for each parameter
    several: set[Place] = field(default_factory=set)  # optimizers of several parameter groups
    scheduled: set[Place] = field(default_factory=set)  # optimizers whose learning rate changes
    momenta: dict[Place, str] = field(default_factory=dict)  # optimizer -> "momentum", "b1" or ""
    cycled: dict[Place, str] = field(default_factory=dict)  # optimizers of which a scheduler changes that, too
    composed: set[Place] = field(default_factory=set)  # schedulers that are parts of others
    stepped: dict[Place, set[Place]] = field(default_factory=dict)  # optimizer -> the schedulers stepped for it
    accumulated: set[Place] = field(default_factory=set)  # optimizers that step apart from backward
    zeroed_first: set[Place] = field(default_factory=set)  # models whose gradients are zeroed before they are summed
    found_zeroed_first: set[Place] = field(default_factory=set)  # as this round finds them
    summed: set[Place] = field(default_factory=set)  # models whose backward pass this round has met
    host_sites: set[int] = field(default_factory=set)  # tensors that feed torch's data loading
    wanted: set[int] = field(default_factory=set)  # bindings of loader batches that jax code uses
    kept: set[int] = field(default_factory=set)  # bindings of loader batches that torch code uses
    initialisers: set[str] = field(default_factory=set)  # functions given to `model.apply`
    half: set[str] = field(default_factory=set)  # module classes that are called under autocast
    device_used: set[str] = field(default_factory=set)  # devices that are used for more than placing tensors
    found_device_used: set[str] = field(default_factory=set)
    # model -> the variables that hold an object which has taken its weights over, and the attributes of that
    holders: dict[Place, set[tuple[Place, Place]]] = field(default_factory=dict)
    objects: dict[str, set[Place]] = field(default_factory=dict)  # class that is no module -> variables with one of it
    by_value: set[str] = field(default_factory=set)  # functions that need state, and are used as values
    value_calls: set[tuple[Kind, ...]] = field(
        default_factory=set
    )  # arguments of calls of unknown values, in any round
    examples: dict[Place, Example] = field(default_factory=dict)
    submodules: dict[str, dict[str, str]] = field(default_factory=dict)  # package -> name -> its module scope
    gone: dict[str, set[str]] = field(default_factory=dict)  # file -> names that its output no longer binds
    public: dict[str, set[str]] = field(default_factory=dict)  # file -> its `__all__`
    wanted_of: dict[str, set[str]] = field(default_factory=dict)  # file -> names that other files take from it
    finals: dict[str, dict[str, Kind]] = field(default_factory=dict)  # scope -> what its names are in the end
    attributes: dict[str, dict[str, Kind]] = field(default_factory=dict)  # class -> attributes of self, round before
    found_attributes: dict[str, dict[str, Kind]] = field(default_factory=dict)
    callers: dict[str, list[str]] = field(default_factory=dict)  # function -> scopes that call it
    module_keys: set[str] = field(default_factory=set)  # files whose top-level statements draw
    module_seeds: set[str] = field(default_factory=set)  # files whose top-level statements seed torch
    made_with: dict[str, set[str]] = field(default_factory=dict)  # torch layers used as values -> arguments they get
    loads: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    settled: bool = False  # rounds change nothing more, what was left open is refused now
    left_open: bool = False

    def still_open(self) -> bool:
        """Whether what contradicts itself now may come right in a later round; then it is no reason to refuse."""
        self.left_open = True
        return not self.settled

    def _nodes(self, cls: str) -> list[Node]:
        facts = self.classes.get(cls)
        return list(facts.children.values()) if facts else []

    def _any(self, cls: str, test: str, seen: frozenset[str] = frozenset()) -> bool:
        facts = self.classes.get(cls)
        if facts is None or cls in seen:
            return False
        if getattr(facts, test):
            return True
        return any(self._any(found, test, seen | {cls}) for node in self._nodes(cls) for found in classes_in(node))

    def inline(self, cls: str) -> Module | None:
        """Where the model is an nn.Sequential made in place: what is known of it as a module."""
        facts = self.classes.get(cls)
        return facts.inline if facts else None

    def with_submodules(self, cls: str) -> set[str]:
        """A module class with those of its submodules, and of theirs."""
        found: set[str] = set()
        waiting = [cls]
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.classes:
                found.add(name)
                waiting += [inner for node in self._nodes(name) for inner in classes_in(node)]
        return found

    def is_base(self, cls: str) -> bool:
        """Whether some class inherits from it in the output."""
        return any(cls in facts.bases for facts in self.classes.values())

    def only_base(self, cls: str) -> bool:
        """Whether a class is inherited from, and no module of it is made."""
        return self.is_base(cls) and self.times_made(cls) == 0

    def times_made(self, cls: str) -> int:
        """At how many places modules of a class are made, as models or inside others."""
        children = [node for facts in self.classes.values() for node in facts.children.values()]
        inside = [inner for node in children for inner in classes_in(node)]
        return inside.count(cls) + [made for place, made in self.places.items() if place not in self.copies].count(cls)

    def inside_others(self, cls: str) -> bool:
        """Whether modules of a class are made inside others."""
        return any(cls in classes_in(node) for facts in self.classes.values() for node in facts.children.values())

    def trains(self, cls: str) -> bool:
        """Whether a module of the class behaves differently in train mode."""
        return self._any(cls, "own_trains")

    def has_stats(self, cls: str) -> bool:
        """Whether a module of the class keeps batch statistics."""
        return self._any(cls, "own_stats")

    def changes_state(self, cls: str, mode: str) -> bool:
        """Whether a forward pass in a mode changes batch statistics or other buffers."""
        return self.has_stats(cls) and (mode == "train" or self._any(cls, "own_always"))

    def draws(self, cls: str, seen: frozenset[str] = frozenset()) -> set[str]:
        """The random streams that a call of the class needs ("dropout" in train mode only)."""
        facts = self.classes.get(cls)
        if facts is None or cls in seen:
            return set()
        found = set(facts.own_draws)
        for node in self._nodes(cls):
            for inner in classes_in(node):
                found |= self.draws(inner, seen | {cls})
        return found


def classes_in(node: Node) -> list[str]:
    """The user classes in a module tree."""
    if isinstance(node, ClassNode):
        return [node.cls]
    if isinstance(node, ListNode | ChoiceNode):
        return [cls for child in node.children for cls in classes_in(child)]
    return []


def layers_in(node: Node) -> list[LayerNode]:
    """The torch layers directly in a module tree (not those inside user classes)."""
    if isinstance(node, LayerNode):
        return [node]
    if isinstance(node, ListNode | ChoiceNode):
        return [layer for child in node.children for layer in layers_in(child)]
    return []


def merge(kinds: dict[str, Kind], name: str, kind: Kind) -> None:
    """Notes one more kind that a name was seen with."""
    kinds[name] = join(kinds.get(name, Never()), kind)
