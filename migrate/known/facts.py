"""What is known of one function, one class, one call of the input: filled by lowering again until it is stable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import libcst as cst

from migrate.known.by_round import IN_ONE_ROUND, ByRound
from migrate.known.constructed import BoundWeight, Node
from migrate.known.kinds import UNKNOWN, Host, Items, Kind, Never, Place, join
from migrate.known.moments import Moment
from migrate.known.states import BATCH_STATS, COUNT, CYCLE, FROZEN, GRADS, KEY, MODE, OPT_STATE, PARAMS, State
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


@dataclass(frozen=True)
class Draw:
    """What Python or numpy draws for a function that jit traces: the parameter that takes it, and the draw as its
    callers write it, but for the parameters of the function. `site`: where it is one for each turn of a loop, the call
    and the loop."""

    name: str
    node: cst.BaseExpression
    kind: Kind
    site: tuple[cst.CSTNode, cst.CSTNode] | None = None


@dataclass(frozen=True)
class Averaged:
    """An average of a model: what an update `weighs`, after `{n}` of them; whether it is one of `buffers` as well."""

    weighs: str
    buffers: bool


@dataclass(frozen=True)
class SteppedUnder:
    """When a scheduler is stepped: where this test holds, always where it is None. `follows`: it goes on from whatever
    rate there is. `closed`: the rate that was there does not tell."""

    test: cst.BaseExpression | None
    follows: bool
    closed: bool = False


@dataclass(frozen=True)
class ParameterGroup:
    """A parameter group: what its hyperparameters are called by, all of its items but the parameters as they are
    written, and what its learning rate is of that of its optimizer ("" where it is that, "?" where that is not known).
    """

    label: str
    options: tuple[tuple[str, str], ...]
    multiple: str = ""


@dataclass(frozen=True, eq=False)
class KeptSite:
    """A statement `saved.append(log_prob)`.

    function: the function that it stands in, "" for the file itself. models: those that gradients flow to. given: those
    of the names that it is made of which are models of the function's own. forward: the statements that compute what is
    kept from `inputs`, in order; `arrays`: those inputs that are tensors. drawing: the statement that draws. earlier:
    the statement after which the inputs are kept, where they have changed by the call. mode: that of the models, where
    it matters. problem: why it cannot be computed again.
    """

    file: str
    function: str
    holder: str
    call: cst.Call
    models: frozenset[Place]
    forward: tuple[Statement, ...] = ()
    inputs: tuple[str, ...] = ()
    arrays: frozenset[str] = frozenset()
    given: tuple[str, ...] = ()
    drawing: Statement | None = None
    earlier: Statement | None = None
    mode: str = ""
    problem: str = ""

    @property
    def value(self) -> Expr:
        """What is kept."""
        return self.call.args[0].value


@dataclass
class FunctionFacts(ByRound):
    """What is known of a user's function: kinds of its parameters over all calls, and the state that it touches."""

    node: cst.FunctionDef
    qualname: str
    owner: str = ""  # the enclosing function or class
    params: dict[str, Kind] = field(default_factory=dict)  # over all calls of the round before
    found_params: dict[str, Kind] = field(default_factory=dict)
    handed_up: dict[str, Kind] = field(default_factory=dict)  # the same of calls by methods that override it
    found_handed_up: dict[str, Kind] = field(default_factory=dict)
    given: dict[str, bool] = field(default_factory=dict)  # parameters -> whether no caller keeps what it passes
    found_given: dict[str, bool] = field(default_factory=dict)
    # what a method of a module is given that has a path, `args.ratio`: the scope of the call, the path, the parameter
    given_paths: set[tuple[str, str, str]] = field(default_factory=set)
    # names, and paths, of which jit must know the values: axes, sizes, what makes it another program
    needed: set[str] = field(default_factory=set)
    found_needed: set[str] = field(default_factory=set)
    omitted: set[str] = field(default_factory=set)  # parameters of a method that some call leaves at None
    found_omitted: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)  # parameters that a caller of a forward pass reads after the call
    found_kept: set[str] = field(default_factory=set)
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
    copies_parts: bool = False  # whether it copies parts, which callers give it, of several classes
    makes_models: bool = False  # whether what it returns is a model of its own somewhere, which jit hashes
    takes_mode: bool = False  # whether it is told the mode of what it makes
    taken_apart: dict[str, str] = field(default_factory=dict)  # models that it makes and takes parts of: name -> class
    # itself with the parts that it takes under their own names, by its text then
    parts_named: dict[str, cst.FunctionDef] = field(default_factory=dict)
    wants_mode: bool = False  # whether it makes layers that have a mode
    # fields of the classes it makes parts for that it is told, since initial weights go by them -> their defaults
    told: dict[str, cst.BaseExpression] = field(default_factory=dict)
    # class that calls it -> the initialisers that the class gives its layers
    initializers: dict[str, dict[str, dict[str, cst.BaseExpression]]] = field(default_factory=dict)
    found_initializers: dict[str, dict[str, dict[str, cst.BaseExpression]]] = field(default_factory=dict)
    needs_key: bool = False
    found_needs_key: bool = False
    draws_anyway: bool = False  # whether it draws whatever the modes of the modules are that it is given
    found_draws_anyway: bool = False
    draws_in: set[str] = field(default_factory=set)  # parameters in whose train mode it draws, which are modules
    found_draws_in: set[str] = field(default_factory=set)
    draws: list[Draw] = field(default_factory=list)  # as the round before found them
    found_draws: list[Draw] = field(default_factory=list)
    uses: set[Place] = field(default_factory=set)  # of a method: models of its object, as the round before found them
    found_uses: set[Place] = field(default_factory=set)
    sets: set[State] = field(default_factory=set)  # of a method: what it changes of its object, by the round before
    found_sets: set[State] = field(default_factory=set)
    keeps: set[Place] = field(default_factory=set)  # parameters whose weights an object that it makes takes and trains
    arrays: set[str] = field(default_factory=set)  # parameters that some call gives an array, by the round before
    found_arrays: set[str] = field(default_factory=set)
    # parameters of what goes backward -> the models that what callers give it comes from, by the round before
    behind: dict[str, set[Place]] = field(default_factory=dict)
    found_behind: dict[str, set[Place]] = field(default_factory=dict)
    trains: bool = False  # it makes steps, itself or by what it calls, and does not only set weights
    found_trains: bool = False
    traced: bool = False  # called from what jit traces
    found_traced: bool = False
    evaluated: bool = False  # a method that an optimizer evaluates as its closure, which it gives the weights
    found_evaluated: bool = False
    asks_numbers: bool = field(default=False, metadata=IN_ONE_ROUND)  # of tensors, which jit has as arrays

    def kind_given(self, name: str) -> Kind:
        """What a parameter is over all calls, those of methods that override this one among them."""
        return join(self.params.get(name, Never()), self.handed_up.get(name, Never()))

    @property
    def models_run(self) -> set[Place]:
        """The models that it goes through: of which it takes the weights, or that its object has."""
        return self.uses | {state.place for state in self.reads if state.what == PARAMS}

    @property
    def method(self) -> bool:
        """Whether this is a method of a class that is no module: its first parameter is the object."""
        return self.owner_is_class

    @property
    def parameter_names(self) -> list[str]:
        """The parameters that can be passed by position, `self` of a method among them."""
        return [parameter.name.value for parameter in self.node.params.params]

    @property
    def keyword_names(self) -> list[str]:
        """The parameters that are passed by keyword alone."""
        return [parameter.name.value for parameter in self.node.params.kwonly_params]

    @property
    def own_names(self) -> set[str]:
        """The names that are its own: parameters, and what its body binds."""
        return {*self.parameter_names, *self.keyword_names, *usage.stores(self.node.body)}

    @property
    def defaults(self) -> dict[str, cst.BaseExpression]:
        """The defaults of those of them that have one."""
        parameters = (*self.node.params.params, *self.node.params.kwonly_params)
        return {p.name.value: p.default for p in parameters if p.default is not None}

    @property
    def decorators(self) -> set[str]:
        """The names that it is decorated with."""
        return {nodes.dotted(decorator.decorator) or "" for decorator in self.node.decorators}

    @property
    def is_static(self) -> bool:
        """Whether it is a function of a class without an object."""
        return "staticmethod" in self.decorators

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
        order = [PARAMS, BATCH_STATS, OPT_STATE, GRADS, COUNT, CYCLE, FROZEN, KEY, MODE]
        return sorted(self.reads | self.writes, key=lambda s: (order.index(s.what), s.place))

    @property
    def written(self) -> list[State]:
        """Everything that must be passed out, in the same order."""
        return [state for state in self.states if state in self.writes]


@dataclass
class ClassFacts(ByRound):
    """A user's nn.Module class; or, without a `node`, an nn.Sequential that a script makes in place (`inline`)."""

    name: str
    node: cst.ClassDef | None = None
    inline: bool = False  # whether a layer of Flax's stands for the whole model
    extends: str = ""  # the torch layer that it inherits from
    hands_on: cst.FunctionDef | None = None  # its constructor, which does no more than that layer's with its arguments
    output_name: str = ""  # of a model that is made in place: the class that it is in the output
    made_as: str = ""  # of such a model: the expression that makes it, where that is the same anywhere
    bases: list[str] = field(default_factory=list)  # user classes that it inherits from
    inherited: bool = False  # whether a user class inherits from it
    sets_up: bool = False  # whether it has a setup of its own or of its base
    written: tuple[cst.ClassDef, cst.ClassDef] | None = None  # its base's definition, and its own with that in it
    borrows: str = ""  # a base of another package's that is no part of what it computes
    registers: bool = False  # whether `self.config` holds the arguments of its constructor
    built: set[str] = field(default_factory=set)  # methods that `__init__` runs
    seen: dict[str, Kind] = field(default_factory=dict)  # attributes that this round has met
    certain: set[str] = field(default_factory=set)  # attributes that the constructor sets whatever its arguments say
    rebound: set[str] = field(default_factory=set)  # attributes that it may set twice
    read_outside: set[str] = field(default_factory=set)  # attributes that the constructor sets and the script reads
    shown: set[str] = field(default_factory=set)  # those among them that are properties
    held: dict[str, str] = field(default_factory=dict)  # attributes kept in a variable until they are final -> its name
    otherwise: dict[str, Kind] = field(default_factory=dict)  # what a held attribute is in another branch
    fields: list[str] = field(default_factory=list)
    extras: str = ""  # the name of the **kwargs that its constructor hands on, and nobody gives it
    extra_given: set[str] = field(default_factory=set)  # names that calls give such **kwargs
    ignores: set[str] = field(default_factory=set)  # "*", "**": arguments of its constructor that nothing reads
    positional: int | None = None  # how many arguments come before such `*args`
    given_makers: set[str] = field(default_factory=set)  # fields that some call gives what makes layers
    given_lists: set[tuple[str, str]] = field(default_factory=set)  # fields, and "list" or "tuple": what calls give
    # the same class with parameters in the place of **kwargs, by the class and their names
    spelled_out: dict[tuple[object, ...], cst.ClassDef] = field(default_factory=dict)
    attributes: dict[str, Kind] = field(default_factory=dict)
    children: dict[str, Node] = field(default_factory=dict)  # attribute -> its modules
    renamed: dict[str, str] = field(default_factory=dict)  # attribute -> name in the output
    registered: dict[str, str] = field(default_factory=dict)  # list -> torch's names of its elements, {} for numbers
    other_names: dict[str, str] = field(default_factory=dict)  # argument with a name of Flax's -> name in the output
    parameters: dict[str, BoundWeight] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)  # name -> reason why no leaf holds it
    changed: set[str] = field(default_factory=set)  # attributes that methods besides the constructor change
    variables: set[str] = field(default_factory=set)  # buffers among them: Flax variables
    unnamed: str = ""  # the attribute that has the layers of an nn.Sequential: no part of their names in torch
    kept_as: dict[str, str] = field(default_factory=dict)  # field -> the attribute that is just that
    shared: dict[str, str] = field(default_factory=dict)  # path of a module -> the path where it was put first
    ties: dict[str, str] = field(default_factory=dict)  # torch key -> the key that fills the leaf
    told_ties: set[str] = field(default_factory=set)  # those of them that a field of the class makes or not
    own_trains: bool = False
    # paths of parts that a script puts others in the place of: it has a field for each
    replaced: set[tuple[str, ...]] = field(default_factory=set)
    # parts that its constructor puts into others, "self.body.fc" -> what they are, as far as this round has come
    replacing: dict[str, Kind] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    # models that its constructor takes parts of: name -> class
    taken_apart: dict[str, str] = field(default_factory=dict)
    holds_parts: bool = False  # whether it is given modules that are made outside of any class
    reached: set[str] = field(default_factory=lambda: {"forward"})  # methods that a forward pass runs
    host_methods: set[str] = field(default_factory=set)  # methods that run outside, and are given the weights
    untraced: set[str] = field(default_factory=set)  # those among them that jit cannot trace
    reports: str = ""  # the method among them that prints what the constructor said of the weights
    given: dict[str, dict[str, set[str]]] = field(default_factory=dict)  # class that makes it -> field -> what it gets
    own_draws: set[str] = field(default_factory=set)  # "dropout", "sample"
    found_own_draws: set[str] = field(default_factory=set)
    sampling: set[str] = field(default_factory=set)  # methods that draw samples themselves
    found_sampling: set[str] = field(default_factory=set)
    draws_statically: set[str] = field(default_factory=set)  # static methods that draw
    sown: set[str] = field(default_factory=set)  # attributes that a forward pass keeps for others to look at
    own_stats: bool = False
    concrete: set[str] = field(default_factory=set)  # what the constructor makes that must have values at once
    own_always: bool = False  # it changes buffers in eval mode, too
    # torch layer -> weight -> initialiser, as `apply(init_fn)` gives them to the layers of this class
    initializers: dict[str, dict[str, cst.BaseExpression]] = field(default_factory=dict)
    # path of a weight ("self.fc.bias") -> the initialiser that some constructor asks for by name: `a if c else None`
    # where it is what it would be otherwise unless a field says so
    asked: dict[str, cst.BaseExpression] = field(default_factory=dict)  # as the round before found them
    found_asked: dict[str, cst.BaseExpression] = field(default_factory=dict)  # as this round finds them
    asked_at: dict[str, Moment] = field(default_factory=dict)  # when that is, by their paths
    found_asked_at: dict[str, Moment] = field(default_factory=dict)  # as this round finds them
    # when functions give the layers of a kind initial weights, and the kind -> weight -> initialiser
    fillings: dict[tuple[Moment, str], dict[str, cst.BaseExpression]] = field(default_factory=dict)
    found_fillings: dict[tuple[Moment, str], dict[str, cst.BaseExpression]] = field(default_factory=dict)
    runs: dict[str, Moment] = field(default_factory=dict)  # methods -> where the constructor runs them
    # path of a layer ("self.fc") -> what the constructor notes on it for initialising functions: name -> value
    marks: dict[str, dict[str, cst.BaseExpression]] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)  # what constructors note on modules of the class
    stilled: set[str] = field(default_factory=set)  # paths of weights that its constructor freezes
    found_stilled: set[str] = field(default_factory=set)  # as this round finds them
    frozen_parts: set[str] = field(default_factory=set)  # weights of its parts that it freezes, by their names in torch
    found_frozen_parts: set[str] = field(default_factory=set)  # as this round finds them
    askable: dict[str, bool] = field(default_factory=dict)  # weights with a path -> whether they keep torch's axes
    askable_as: dict[str, str] = field(default_factory=dict)  # the same paths -> the keyword of the constructor
    askable_if: dict[str, list[cst.BaseExpression]] = field(default_factory=dict)  # the same -> tests around the layer
    # methods that `__init__` runs -> the tests around the call, in terms of the fields
    under: dict[str, list[cst.BaseExpression]] = field(default_factory=dict)
    drawing: set[str] = field(default_factory=set)  # methods that `__init__` runs and that return what they draw
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
    opened: tuple[cst.BaseExpression, ...] = ()  # mentions of its mode for which it counts that weights are made
    rebinds: set[str] = field(default_factory=set)  # fields that the constructor has under their names, changed
    flags: dict[str, bool] = field(default_factory=dict)  # attributes that are True, or False, whatever it is given
    # path of a weight -> the lengths of its axes in Flax, as the constructor writes them
    lengths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # the same of torch's axes, and of parameters
    torch_lengths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    smallest: dict[str, cst.BaseExpression] = field(default_factory=dict)  # path of a layer -> the shape of an input

    def is_borrowed(self, attribute: str) -> bool:
        """Whether an attribute that nothing here is known to set may come from a base of another package."""
        known = attribute in self.attributes or attribute in self.fields or self.method(attribute) is not None
        return bool(self.borrows) and not known and not attribute.startswith("__")

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
    direct: bool = True  # not computed by another model, which is preferred more
    called: bool = True  # by a scope that runs as far as is known, which is preferred most
    names: tuple[str, ...] = ()  # of the arguments: "" of those by position
    method: str = ""  # what is called in place of a forward pass, of which the class has none
    cls: str = ""  # of the model whose method is called, which may be another one by that name
    at_hand: bool = False  # by what makes the model, before anything else asks for weights: its names are bound there
    optional: tuple[str, ...] = ()  # those of the names without which the model would leave out parts
    reaches: int = 0  # how many parts those are

    @property
    def rank(self) -> tuple[bool, int, bool, bool, bool]:
        """The first one of the highest rank is taken."""
        return self.called, self.reaches, self.direct, self.at_hand, self.trained

    @property
    def drawn(self) -> list[str]:
        """The parameters for what the host draws."""
        return [name for name in self.names if name and name not in self.optional]

    def as_arguments(self, made: Sequence[cst.BaseExpression]) -> list[cst.Arg]:
        """The arguments of a call with these values."""
        named = list(zip(self.names, made, strict=True))
        keywords = {name: node for name, node in named if name}
        if self.method:
            keywords["method"] = cst.SimpleString(f'"{self.method}"')
        return nodes.arguments([node for name, node in named if not name], keywords)


# A way through the layers of a model: the arguments that tell it, each with a literal that a call gives it, as it is
# written; with a star, each in turn of what follows.
Way: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CallSite:
    """A call of a user's function: the scope, the arguments by parameter, and what the names in them stand for.
    `repeated`: it may run more than once where its scope runs once. `models`: the classes of the models that it gives,
    by parameter, "" for one of several."""

    scope: str
    bound: Mapping[str, cst.BaseExpression]
    definitions: Mapping[str, cst.BaseExpression]
    node: cst.Call | None = None
    repeated: bool = False
    models: Mapping[str, str] = field(default_factory=dict)


def merge(kinds: dict[str, Kind], name: str, kind: Kind) -> None:
    """Notes one more kind that a name was seen with."""
    kinds[name] = join(kinds.get(name, Never()), kind)
