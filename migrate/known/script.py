"""The model of a training script: what the passes have learned of it, filled by lowering again until it is stable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeVar

from migrate.known.by_round import IN_ONE_ROUND, UNTOLD, ByRound
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.facts import (
    Averaged,
    ClassFacts,
    Example,
    FunctionFacts,
    KeptSite,
    ParameterGroup,
    SteppedUnder,
    Way,
)
from migrate.known.frozen import Frozen
from migrate.known.kinds import UNKNOWN, Kind, Model, Optimizer, Place, join
from migrate.known.qualified import is_chosen, options
from migrate.known.saved import OptaxChain, SavedEntry
from migrate.known.states import State
from migrate.known.told_classes import Choice
from migrate.optimizers import OptimizerEntry
from migrate.syntax import usage
from migrate.syntax.changing import ObjectClasses
from migrate.syntax.nodes import Expr

INLINE = "@"  # between the class and the variable of a model that is made in place: "Sequential@model"

_Key = TypeVar("_Key", bound=Hashable)


def followed(links: Mapping[_Key, _Key], key: _Key) -> _Key:
    """The end of a chain of links. Where they go round in a circle, as those of a function that calls itself do, what
    lies before the circle closes."""
    seen: set[_Key] = set()
    while key in links and key not in seen:
        seen.add(key)
        key = links[key]
    return key


@dataclass(frozen=True)
class LookedAt:
    """An attribute of a module that something else reads: the class of the module, and what tells it from others,
    where a model is kept or a path in a class. `part`: the path of a part that is read of a model of a class."""

    cls: str
    module: Place | str
    name: str
    part: tuple[str, str] = ("", "")


@dataclass
class Script(ByRound):
    """Everything known of a project, by name."""

    classes: dict[str, ClassFacts] = field(default_factory=dict)
    functions: dict[str, FunctionFacts] = field(default_factory=dict)
    places: dict[Place, str] = field(default_factory=dict)  # models made by the script -> class
    averaging: dict[Place, Averaged] = field(default_factory=dict)  # averages of models
    handed: set[Place] = field(default_factory=set)  # models and optimizers that functions make for their callers
    layers_named: set[tuple[str, str]] = field(default_factory=set)  # files, and names that they give parts of models
    put_in_train: set[str] = field(default_factory=set)  # classes of models that are told to train
    started: set[str] = field(default_factory=set)  # classes of parts that are given weights where they are made
    found_started: set[str] = field(default_factory=set)
    handed_classes: dict[Place, str] = field(default_factory=dict)  # the classes of those models
    chosen: dict[Place, str] = field(default_factory=dict)  # models of one of several classes -> these
    chosen_under: dict[Place, int] = field(default_factory=dict)  # the same -> how many branches are around the choice
    choices: dict[Place, Choice] = field(default_factory=dict)  # the same -> the branches that make them
    eager: set[Place] = field(default_factory=set)  # those among them whose weights each branch has to make itself
    made_as: dict[Place, Place] = field(default_factory=dict)  # such a model of a caller -> what it is to its maker
    given_up: set[Place] = field(default_factory=set)  # those that they have used: their weights are returned as well
    perhaps_loaded: set[Place] = field(default_factory=set)  # models whose makers return None for weights not read
    early: set[Place] = field(default_factory=set)  # models that are used before the loader of their inputs is made
    postponed: set[Place] = field(default_factory=set)  # those among them that get weights once the loader is made
    unfed: set[Place] = field(default_factory=set)  # models whose weights are used, and that nothing calls there
    # Models of which a table is printed, which needs no weights -> inputs of the sizes that it is told.
    tabulated: dict[Place, list[Expr]] = field(default_factory=dict)
    parallel: bool = False  # batches are split over a mesh of all devices
    distributed: bool = False  # it was written for several processes
    copies: set[Place] = field(default_factory=set)  # those among them that start as copies of others
    initialized: set[Place] = field(default_factory=set)  # models that the script gives initial weights once made
    weights_set: set[tuple[Place, str]] = field(default_factory=set)  # weights of them that it sets, maybe in part
    filled_by_hand: set[Place] = field(default_factory=set)  # models of which it fills a weight where it stands
    host_functions: set[str] = field(default_factory=set)  # functions that data loading calls: they stay torch
    clashing: dict[str, set[str]] = field(default_factory=dict)  # file -> names of its own that snippets need
    holding_tensors: set[str] = field(default_factory=set)  # classes of plain objects that are given tensors
    holding_data: set[str] = field(default_factory=set)  # those that are given what stays torch: loaders, data
    host_classes: set[str] = field(default_factory=set)  # likewise classes of what it is given
    parameters_of: dict[Place, Place] = field(default_factory=dict)  # parameter -> the model passed for it
    passed: dict[Place, set[Place]] = field(default_factory=dict)  # parameter -> all models that are passed for it
    selves: dict[Place, str] = field(default_factory=dict)  # `self` of a method that works on weights -> its class
    # scopes, and lists or dicts of parameters that they do more with
    listed: set[tuple[str, str]] = field(default_factory=set)
    followed: set[tuple[str, str]] = field(default_factory=set)  # scopes, and names that only sort names of weights
    mixed_rows: set[tuple[str, str]] = field(default_factory=set)  # scopes, and lists of layers that move channels
    mixed_lists: set[tuple[str, str]] = field(default_factory=set)  # classes, and attributes that are such lists
    optimizers: dict[Place, tuple[Place, ...]] = field(default_factory=dict)  # -> the models that they train
    # scope and name of what no optimizer can train, since nothing here knows it as a model
    foreign_models: set[tuple[str, str]] = field(default_factory=set)
    leaves: set[Place] = field(default_factory=set)  # tensors made with requires_grad=True
    inspected: set[Place] = field(default_factory=set)  # models whose gradients the script itself reads
    frozen: Frozen = field(default_factory=Frozen)
    # scopes, and models that they have trained by now
    updated: set[tuple[str, Place]] = field(default_factory=set, metadata=IN_ONE_ROUND)
    # scopes, and models of which they have changed all weights by a loop
    looped_over: set[tuple[str, Place]] = field(default_factory=set, metadata=IN_ONE_ROUND)
    spoiling: set[Place] = field(default_factory=set)  # optimizers that change gradients in place
    own_optimizers: dict[str, OptimizerEntry] = field(default_factory=dict)  # optimizer classes of the script's own
    # scheduler classes of the script's own -> their parameter for the optimizer, and whether their rates go by the
    # number of steps alone
    own_schedulers: dict[str, tuple[str, bool]] = field(default_factory=dict)
    optimizer_axes: dict[str, set[str]] = field(default_factory=dict)  # of these: how the axes of what they train are
    # functions that only steps of optimizers call, which have it all
    written_out: set[str] = field(default_factory=set)
    injecting: dict[str, frozenset[str]] = field(default_factory=dict)  # of these: hyperparameters that change
    proportional: dict[Place, bool] = field(default_factory=dict)  # optimizer -> schedulers only scale its rates
    # class, weight -> the model of which a script fills that first, and the call without the weight
    weights_filled: dict[tuple[str, str], tuple[Place, str]] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    saved_whole: dict[str, set[str]] = field(default_factory=dict)  # classes of models saved as they are -> their modes
    # files, as they are written, that such models go to
    whole_files: dict[str, Model] = field(default_factory=dict)
    # what the dicts hold that it saves, in order; optimizer -> what makes it, one or another
    saved: dict[tuple[SavedEntry, ...], None] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    # of these dicts: key -> "list" or "tuple", where it saves such a thing; "" where it saves others under it as well
    saved_lists: dict[str, str] = field(default_factory=dict)
    found_saved_lists: dict[str, str] = field(default_factory=dict)
    chains: dict[Place, dict[OptaxChain, None]] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    checkpoints: bool = True  # whether the project saves something with torch, or takes weights from a file
    saved_under: set[str] = field(default_factory=set)  # whose names weights that it saves have: "torch", "flax"
    pickles: bool = False  # whether it saves objects with that, which its files then hold pickled
    orbax: bool = False  # whether its checkpoints are to be folders of Orbax's
    # attributes that the files of the project read, by whatever name of an object; None where that cannot be told
    attributes_read: frozenset[str] | None = None
    goes_through_weights: bool = True  # whether they may read any weight, without its name
    sown: set[str] = field(default_factory=set)  # attributes that some forward pass keeps for others to look at
    # attributes of modules that something else reads, by the text of their names; calls of models and their methods,
    # by the text of the name that is called (`site_of`)
    looked_at: dict[int, LookedAt] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    passes: dict[int, tuple[Place, str]] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    switching: frozenset[str] = frozenset()  # functions and classes that may switch modes around other code
    sides_taken: dict[str, set[bool]] = field(default_factory=dict)  # of choices of parts, as they are written
    list_options: frozenset[str] = frozenset()  # options of the command line that are lists
    attributes_changed: frozenset[str] = frozenset()  # those that they change of objects other than their own
    redrawn: set[int] = field(default_factory=set)  # statements, by id, whose draws the gradient of a later step needs
    # those statements -> the variable that keeps the key of their step, of how many, and which of them are theirs
    step_keys: dict[int, tuple[str, int, tuple[int, ...]]] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    # model -> the ways through its layers that calls take, as arguments of theirs tell, with those layers
    ways: dict[Place, dict[Way, frozenset[str]]] = field(default_factory=dict)
    found_ways: dict[Place, dict[Way, frozenset[str]]] = field(default_factory=dict)
    layers_alone: dict[str, dict[str, Expr]] = field(default_factory=dict)  # class of a model -> what makes its layer
    results_changed: frozenset[str] = frozenset()  # functions of which they change what these return, in place
    own_classes: ObjectClasses = field(default_factory=lambda: ObjectClasses(()), metadata=UNTOLD)
    doubled: set[Place] = field(default_factory=set)  # models in float64
    evaluating: set[Place] = field(default_factory=set)  # optimizers that evaluate a closure as often as they need
    counting: set[Place] = field(default_factory=set)  # optimizers that count their steps, in torch for each parameter
    groups: dict[Place, tuple[ParameterGroup, ...]] = field(default_factory=dict)  # optimizer -> its parameter groups
    # optimizers, and those of their hyperparameters that each group has of its own, that change beside the rate, and
    # keys under which a group keeps the rate that it starts with
    separate: set[tuple[Place, str]] = field(default_factory=set)
    changing: set[tuple[Place, str]] = field(default_factory=set)
    first_rates: set[tuple[Place, str]] = field(default_factory=set)
    rate_scopes: dict[Place, str] = field(default_factory=dict)  # optimizer -> the scope whose names its rate has
    set_by_hand: set[Place] = field(default_factory=set)  # optimizers whose rate is set by other than schedulers
    scheduled: set[Place] = field(default_factory=set)  # optimizers whose learning rate changes
    momenta: dict[Place, str] = field(default_factory=dict)  # optimizer -> "momentum", "b1" or ""
    cycled: dict[Place, str] = field(default_factory=dict)  # optimizers of which a scheduler changes that, too
    passed_on: set[State] = field(default_factory=set)  # state of variables that functions are given
    composed: set[Place] = field(default_factory=set)  # schedulers that are parts of others
    stepped: dict[Place, set[Place]] = field(default_factory=dict)  # optimizer -> the schedulers stepped for it
    stepped_under: dict[Place, SteppedUnder] = field(default_factory=dict)  # scheduler -> when it is stepped
    # lists, dicts and attributes -> the models that gradients of what they hold flow to
    kept_outputs: dict[Place, set[Place]] = field(default_factory=dict)
    # where that is, as this round finds them
    kept_sites: dict[int, KeptSite] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    # loops that take values out of JAX in a loss -> the sums with a gradient that they add to
    summed_while_acting: dict[int, frozenset[str]] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    # forward passes between backward() and the step
    passes_between: set[int] = field(default_factory=set, metadata=IN_ONE_ROUND)
    # functions whose losses go on in their callers
    going_on: set[str] = field(default_factory=set, metadata=IN_ONE_ROUND)
    made_in_jit: set[str] = field(default_factory=set)  # classes of the user's own of which jit makes objects
    # methods whose losses go on in what their object keeps
    parted: set[str] = field(default_factory=set, metadata=IN_ONE_ROUND)
    # functions that jit traces -> the calls in them that tell something outside of tensors, by their ids
    told: dict[str, set[int]] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    # classes of models that are given graphs of PyG's -> the calls
    fed: dict[str, set[int]] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    # functions that jit traces -> what they ask of what changes in training, and whether that may be asked again and
    # again, or in vain
    asked: dict[str, dict[Expr, bool]] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    # functions without tensors that ask so themselves: they are called before a step
    called_outside: set[str] = field(default_factory=set)
    computed_again: frozenset[str] = frozenset()  # functions that compute for a loss what was kept while acting
    # classes that have what they inherit written out -> the methods that they define themselves, in order
    inheriting: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # module classes that must be written out -> their bases, which are in other files; those that have the names for it
    bases_elsewhere: dict[str, str] = field(default_factory=dict)
    changing_methods: frozenset[str] = frozenset()  # of modules, which nothing calls
    reaching: frozenset[str] = frozenset()
    # methods that stand in such a class -> the class that they are from, and their name there
    inherited: dict[str, tuple[str, str]] = field(default_factory=dict)
    kept_problems: dict[str, str] = field(default_factory=dict)  # what holds them -> why it is no list of inputs
    # statements that draw on the host, and how often
    drawing: dict[int, int] = field(default_factory=lambda: defaultdict(int), metadata=IN_ONE_ROUND)
    accumulated: set[Place] = field(default_factory=set)  # optimizers that step apart from backward
    # class and layer, where that is called with an input whose channels are not last already, as the round before found
    called_first: set[tuple[str, str]] = field(default_factory=set)
    found_called_first: set[tuple[str, str]] = field(default_factory=set)
    # class and attribute of layers whose weights its forward pass reads where they may not have been called yet
    read_early: set[tuple[str, str]] = field(default_factory=set)
    zeroed_first: set[Place] = field(default_factory=set)  # models whose gradients are zeroed before they are summed
    found_zeroed_first: set[Place] = field(default_factory=set)  # as this round finds them
    # models that go backward where they are made, before their optimizer is
    backward_first: set[Place] = field(default_factory=set)
    lacking: set[Place] = field(default_factory=set)  # models stepped where torch may have None for their gradients
    found_lacking: set[Place] = field(default_factory=set)  # as this round finds them
    # models whose backward pass this round has met
    summed: set[Place] = field(default_factory=set, metadata=IN_ONE_ROUND)
    host_sites: set[int] = field(default_factory=set)  # tensors that feed torch's data loading
    wanted: set[int] = field(default_factory=set)  # bindings of loader batches that jax code uses
    kept: set[int] = field(default_factory=set)  # bindings of loader batches that torch code uses
    # module class -> those inside whose layers it gives initial weights, as the round before found them
    initialising: dict[str, set[str]] = field(default_factory=dict)
    found_initialising: dict[str, set[str]] = field(default_factory=dict)
    initialisers: set[str] = field(default_factory=set)  # functions given to `model.apply`
    half: set[str] = field(default_factory=set)  # module classes that are called under autocast
    device_used: set[str] = field(default_factory=set)  # devices that are used for more than placing tensors
    found_device_used: set[str] = field(default_factory=set)
    host_devices: set[str] = field(default_factory=set)  # devices that torch code of the data loading names
    # model -> the variables that hold an object which has taken its weights over, and the attributes of that
    owned: set[Place] = field(default_factory=set)  # attributes that keep the weights of what their object is given
    holders: dict[Place, set[tuple[Place, Place]]] = field(default_factory=dict)
    objects: dict[str, set[Place]] = field(default_factory=dict)  # class that is no module -> variables with one of it
    # classes of which a scope has several objects, whose models and optimizers it uses
    told_apart: set[str] = field(default_factory=set)
    # classes of modules of which a model would become a part that goes on under its own name
    around_models: set[str] = field(default_factory=set)
    # methods that take a key since others do that are called in their place
    keyed: set[str] = field(default_factory=set)
    found_keyed: set[str] = field(default_factory=set)
    # scopes, and calls (`site_of`) by which they make loaders without a name that they take an example of
    unnamed_loaders: set[tuple[str, int]] = field(default_factory=set, metadata=IN_ONE_ROUND)
    hashed: set[str] = field(default_factory=set)  # module classes whose models are static arguments of jit
    by_value: set[str] = field(default_factory=set)  # functions that need state, and are used as values
    # arguments of calls of unknown values, in any round
    value_calls: set[tuple[Kind, ...]] = field(default_factory=set)
    examples: dict[Place, Example] = field(default_factory=dict)
    # the first of each scope, and the models whose example is not to be had where they are made
    calls_elsewhere: dict[Place, dict[str, Example]] = field(default_factory=dict)
    unmade: set[Place] = field(default_factory=set)
    # the same by class, where the model at a place is one of another class further down
    examples_of: dict[tuple[Place, str], Example] = field(default_factory=dict)
    # the same of its methods: the whole calls
    method_examples: dict[Place, dict[str, Example]] = field(default_factory=dict)
    submodules: dict[str, dict[str, str]] = field(default_factory=dict)  # package -> name -> its module scope
    gone: dict[str, set[str]] = field(default_factory=dict)  # file -> names that its output no longer binds
    public: dict[str, set[str]] = field(default_factory=dict)  # file -> its `__all__`
    wanted_of: dict[str, set[str]] = field(default_factory=dict)  # file -> names that other files take from it
    # file and name -> the file and the name there that it is imported from
    taken_from: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    finals: dict[str, dict[str, Kind]] = field(default_factory=dict)  # scope -> what its names are in the end
    attributes: dict[str, dict[str, Kind]] = field(default_factory=dict)  # class -> attributes of self, round before
    found_attributes: dict[str, dict[str, Kind]] = field(default_factory=dict)
    callers: dict[str, list[str]] = field(default_factory=dict)  # function -> scopes that call it
    module_keys: set[str] = field(default_factory=set)  # files whose top-level statements draw
    module_seeds: set[str] = field(default_factory=set)  # files whose top-level statements seed torch
    made_with: dict[str, set[str]] = field(default_factory=dict)  # torch layers used as values -> arguments they get
    # torch layers used as values that take channels where torch has them, since another choice wants them there
    made_second: set[str] = field(default_factory=set)
    # torch layers used as values -> what their arguments are, round before
    made_kinds: dict[str, dict[str, Kind]] = field(default_factory=dict)
    found_made_kinds: dict[str, dict[str, Kind]] = field(default_factory=lambda: defaultdict(dict))
    # torch layers used as values -> the files that make them, each by a function of its own
    maker_files: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    # models -> the lists of layers of which some are told apart by their numbers, and these: `model.blocks[-1]`
    apart: dict[Place, frozenset[tuple[str, int]]] = field(default_factory=dict)
    found_apart: dict[Place, frozenset[tuple[str, int]]] = field(default_factory=dict)
    sets_by_number: bool = False  # weights of layers in lists are set by the numbers of these
    found_sets_by_number: bool = False
    # file and name of a graph of PyG's that stays as it is -> what is read of it in JAX
    graph_fields: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    found_graph_fields: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    tensors_listed: bool = False  # lists and tuples that the host keeps have tensors in them that may have axes
    loads: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    # rounds change nothing more, what was left open is refused now
    settled: bool = field(default=False, metadata=UNTOLD)
    left_open: bool = field(default=False, metadata=IN_ONE_ROUND)
    rounds: int = field(default=0, metadata=UNTOLD)

    def next_round(self) -> None:
        """What this round found is what the next one goes by, of functions and classes, too."""
        super().next_round()
        self.rounds += 1
        self.frozen.next_round()
        for facts in {id(one): one for one in (*self.functions.values(), *self.classes.values())}.values():
            facts.next_round()  # once, for all that inherit a method

    def still_open(self) -> bool:
        """Whether what contradicts itself now may come right in a later round; then it is no reason to refuse."""
        self.left_open = True
        return not self.settled

    def methods(self, cls: str) -> dict[str, FunctionFacts]:
        """The methods that a class writes itself, by their qualified names."""
        return {name: facts for name, facts in self.functions.items() if name.rpartition(".")[0] == cls}

    def kept_in(self, cls: str, attribute: str) -> Kind:
        """What the methods of a class that is no module have put into an attribute of their object."""
        return self.attributes.get(cls, {}).get(f"self.{attribute}", UNKNOWN)

    def keeps_state(self, cls: str) -> bool:
        """Whether a class of the user's own that is no module has methods that are given more than they ask for."""
        return any(facts.states or facts.needs_key for facts in self.methods(cls).values()) or any(
            isinstance(kind, Model | Optimizer) for kind in self.attributes.get(cls, {}).values()
        )

    def is_constructor(self, method: str) -> bool:
        """Whether a method is the constructor of its class, or that of a base, which it runs."""
        return method.endswith(".__init__") or self.inherited.get(method, ("", ""))[1] == "__init__"

    def sets_up(self, method: str) -> bool:
        """Whether a method only runs while its object is made: the constructor, and what that alone calls."""
        waiting, seen = [method], set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen or self.is_constructor(name):
                continue
            seen.add(name)
            callers = self.callers.get(name, [])
            if not callers or any(one.rpartition(".")[0] != name.rpartition(".")[0] for one in callers):
                return False
            waiting += callers
        return True

    def _nodes(self, cls: str) -> list[Node]:
        facts = self.classes.get(cls)
        return list(facts.children.values()) if facts else []

    def _any(self, cls: str, test: str, seen: frozenset[str] = frozenset()) -> bool:
        if is_chosen(cls):
            return any(self._any(option, test, seen) for option in options(cls))
        facts = self.classes.get(cls)
        if facts is None or cls in seen:
            return False
        if getattr(facts, test):
            return True
        return any(self._any(found, test, seen | {cls}) for node in self._nodes(cls) for found in classes_in(node))

    def with_submodules(self, cls: str) -> set[str]:
        """A module class with those of its submodules, and of theirs."""
        found: set[str] = set()
        waiting = options(cls)
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.classes:
                found.add(name)
                waiting += [inner for node in self._nodes(name) for inner in classes_in(node)]
        return found

    def layers_inside(self, cls: str) -> list[LayerNode]:
        """The layers that a module class makes, with those of its submodules."""
        inside = [self.classes[name] for name in self.with_submodules(cls)]
        return [layer for facts in inside for node in facts.children.values() for layer in layers_in(node)]

    def classes_inside(self, facts: ClassFacts) -> list[ClassFacts]:
        """A class and all classes of modules inside it, with those that they inherit from."""
        found: dict[str, ClassFacts] = {}
        pending = [facts.name]
        while pending:
            inner = self.classes.get(pending.pop())
            if inner is not None and inner.name not in found:
                found[inner.name] = inner
                pending += [name for node in inner.children.values() for name in classes_in(node)] + inner.bases
        return list(found.values())

    def is_base(self, cls: str) -> bool:
        """Whether some class inherits from it in the output."""
        return any(cls in facts.bases for facts in self.classes.values())

    def only_base(self, cls: str) -> bool:
        """Whether a class is inherited from, and no module of it is made."""
        return self.is_base(cls) and self.times_made(cls) == 0

    def heirs(self, cls: str) -> list[ClassFacts]:
        """The classes that inherit from it, if only through others, of which modules are made; if none are made, those
        that no other class inherits from."""
        found = [facts for facts in self.classes.values() if cls in self._line(facts.name)[1:]]
        return [one for one in found if self.times_made(one.name)] or [one for one in found if not one.inherited]

    def maker_of(self, cls: str, attribute: str) -> str:
        """The class whose constructor makes a part of a module: the class itself, or one that it inherits from and that
        nothing else is made of."""
        if not self.classes[cls].bases:
            return cls
        line = [(one, self.classes[one].node) for one in self._line(cls) if one in self.classes]
        sets = (one for one, node in line if node is not None and attribute in usage.attributes_set(node))
        made = next(sets, cls)
        alone = made == cls or (self.only_base(made) and [one.name for one in self.heirs(made)] == [cls])
        return made if alone else cls

    def _line(self, cls: str) -> list[str]:
        """A class, and those that it inherits from."""
        line = [cls]
        while line[-1] in self.classes and (bases := self.classes[line[-1]].bases) and bases[0] not in line:
            line.append(bases[0])
        return line

    def in_heirs(self, cls: str, attribute: str) -> Kind:
        """What an attribute is that a class does not set, and all that inherit from it do; UNKNOWN of others."""
        found = self.heirs(cls)
        names = {one.renamed.get(attribute, attribute) for one in found}
        kinds = [one.attributes.get(attribute, UNKNOWN) for one in found]
        return reduce(join, kinds) if kinds and names == {attribute} and UNKNOWN not in kinds else UNKNOWN

    def times_made(self, cls: str) -> int:
        """At how many places modules of a class are made, as models or inside others."""
        children = [node for facts in self.classes.values() for node in facts.children.values()]
        inside = [inner for node in children for inner in classes_in(node)]
        return inside.count(cls) + [made for place, made in self.places.items() if place not in self.copies].count(cls)

    def held_as_it_is(self, cls: str) -> str:
        """A class that holds modules of another one beyond all that give those initial weights; "" where there is
        none."""
        inside = {
            inner for facts in self.classes.values() for one in facts.children.values() for inner in classes_in(one)
        }
        waiting, seen = [*(self.classes.keys() - inside), *self.places.values()], set[str]()
        while waiting:
            holder = waiting.pop()
            facts = self.classes.get(holder)
            if (
                facts is None
                or holder in seen
                or any(
                    cls in self.initialising.get(n, ()) for n in (holder, *facts.bases, *self._makers_of(facts, cls))
                )
            ):
                continue
            seen.add(holder)
            held = [inner for one in facts.children.values() for inner in classes_in(one)] + facts.bases
            if cls in held:
                return holder
            waiting += held
        alone = any(made == cls and place not in self.parameters_of for place, made in self.places.items())
        return cls if alone else ""

    def _makers_of(self, facts: ClassFacts, cls: str) -> list[str]:
        """The classes of the models out of which a class takes its modules of another one, if it makes none itself."""
        return [] if facts.name in self.classes[cls].given else list(facts.taken_apart.values())

    def inside_others(self, cls: str) -> bool:
        """Whether modules of a class are made inside others."""
        return any(cls in classes_in(node) for facts in self.classes.values() for node in facts.children.values())

    def trains(self, cls: str) -> bool:
        """Whether a module of the class behaves differently in train mode."""
        return self._any(cls, "own_trains")

    def weightless(self, cls: str) -> bool:
        """Whether modules of a class have neither weights nor batch statistics, as losses that people write mostly
        do: Flax applies them to no variables."""
        if is_chosen(cls):
            return all(map(self.weightless, options(cls)))
        if cls not in self.classes or self.has_stats(cls):
            return False
        inside = [self.classes[name] for name in self.with_submodules(cls)]
        learnt = any(facts.parameters or facts.extends or facts.variables for facts in inside)
        return not learnt and not any(layer.weights for layer in self.layers_inside(cls))

    def never_read(self, attribute: str) -> bool:
        """Whether nothing in the project asks for an attribute: Flax makes no weights for a module that it holds."""
        return bool(attribute) and self.attributes_read is not None and attribute not in self.attributes_read

    def has_stats(self, cls: str) -> bool:
        """Whether a module of the class keeps batch statistics."""
        return self._any(cls, "own_stats")

    def changes_state(self, cls: str, mode: str) -> bool:
        """Whether a forward pass in a mode changes batch statistics or other buffers."""
        return self.has_stats(cls) and (mode == "train" or self._any(cls, "own_always"))

    def draws(self, cls: str, seen: frozenset[str] = frozenset()) -> set[str]:
        """The random streams that a call of the class needs ("dropout" in train mode only)."""
        if is_chosen(cls):
            return set().union(*(self.draws(option, seen) for option in options(cls)))
        facts = self.classes.get(cls)
        if facts is None or cls in seen:
            return set()
        found = facts.own_draws | facts.found_own_draws  # models without a class are known in one round alone
        for node in self._nodes(cls):
            for inner in classes_in(node):
                found |= self.draws(inner, seen | {cls})
        return found

    def method_draws(self, cls: str, names: set[str]) -> bool:
        """Whether methods of these names may draw samples, or parts of the module do."""
        facts = self.classes[cls]
        inside = {stream for node in self._nodes(cls) for inner in classes_in(node) for stream in self.draws(inner)}
        return bool(inside - {"dropout"}) or bool(names & (facts.sampling | facts.found_sampling))


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
