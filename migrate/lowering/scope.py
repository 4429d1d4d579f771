"""One scope of the input, and what every part of its lowering may ask."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Self

import libcst as cst

from migrate import layouts
from migrate.apis import is_data_api, stops_gradients
from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import (
    UNKNOWN,
    Device,
    Function,
    Host,
    HostClass,
    Instance,
    Items,
    Kind,
    Model,
    ModuleClass,
    Never,
    Optimizer,
    Place,
    Plain,
    ProjectModule,
    Scaler,
    SelfModule,
    Shorthand,
    Tensor,
    TorchName,
    is_batch,
)
from migrate.known.qualified import file_of, spelled
from migrate.known.script import followed
from migrate.lowering.expressions.elements import is_field
from migrate.lowering.models.objects_at_hand import held_in_object
from migrate.lowering.parts import Parts
from migrate.lowering.plainer.new_parts import NewPart
from migrate.lowering.statements.blocks import Block
from migrate.lowering.unit import Environment, Unit, known
from migrate.lowering.updates.region import Clip, Gathering, Tracing, call_of, method_call_of, weights_of_backward
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement

NOWHERE = Place("", "")  # of an optimizer that has not been assigned yet


HOST_CONTEXTS = ("module", "function", "method")  # where statements run as they stand, not inside a traced function
_DEEPEST = 16  # names in the longest path that some script may keep a model behind


class Scope(Parts):
    """The module, a function, a method, or the loss function inside an update region.

    Each other class of this package is one part of the lowering of a scope, and `Lowering` is all of them together. A
    part inherits from those that it builds on; no part overrides another. What they reach in a circle (an expression
    holds expressions, a block statements) is declared in `Parts`.

    Some methods are found by their names: `expr_<node>`, `statement_<node>` and `small_<node>` lower a LibCST node of
    that type, `torch_<qualified name>` a call of a torch name that has a meaning of its own.

    qualname: qualified name of the function, "" for the module. cls: the nn.Module class whose method this is, or "".
    context: "module", "function", "method" (of a class that is no module), "setup", "forward" or "region".
    """

    def __init__(
        self, unit: Unit, context: str, qualname: str = "", cls: str = "", env: Environment | None = None
    ) -> None:
        self.unit = unit
        self.script = unit.script
        self.context = context
        self.scope = qualname
        self.cls = cls
        self.env = env or Environment()
        self.facts: FunctionFacts | None = None  # of the function being lowered, None at module level
        self.before: list[Statement] = []  # statements that must run before the one being lowered
        self.following: list[Sequence[cst.CSTNode]] = []  # what runs after it, nearest first
        self.blocks: list[Block] = []  # around it, innermost last
        self.top = 1  # how many blocks are around what runs exactly once
        self.loops = 0  # how many loops of this scope are around
        self.detached = False  # inside a block that records no gradients, where some are taken
        self.conditional = False  # in a part of an expression that may not be evaluated, or again and again
        self.receiving: Expr | None = None  # the value that is being assigned, which a function may have made
        self.sampling = False  # in an example input of a model, which stays on one device
        self.nested = False  # inside a comprehension or a lambda, which runs its parts many times
        self.unnamed: frozenset[str] = frozenset()  # parameters of a lambda without a name, of which nothing is told
        self.given_key: Expr | None = None  # the key that the next draw is made with, as it is kept
        self.turn_keys: list[cst.Name] | None = None  # in a list comprehension: the keys of a turn, one for a draw
        self.region: Tracing | None = None  # inside the loss function of an update region
        self.gathering: Gathering | None = None  # inside a loop over micro batches
        self.pending: list[tuple[str, Place, cst.CSTNode]] = []  # models and optimizers whose state is not made yet
        self.touched: set[Place] = set()  # objects made here whose weights or state have been used here
        self.waiting: set[Place] = set()  # models among them whose example input is known, and not at hand yet
        self.read_unmade: set[Place] = set()  # models whose weights were read while they were not made yet
        self.said_unmade: set[Place] = set()  # those among them that were reported there
        self.pending_in: dict[Place, int] = {}  # how many loops are around what makes those models
        self.made_under: dict[Place, list[list[Expr]]] = {}  # optimizers -> the tests around each line that makes one
        self.pending_place = NOWHERE  # the target of the assignment being lowered
        self.pending_cycle: Expr | None = None  # the schedule of the momentum that goes with a new scheduler
        self.prepared: list[Statement] = []  # host statements of the region at hand that run before its step
        self.pending_clip: Clip | None = None  # what the next optimizer step does first
        self.pending_norm: Expr | None = None  # the target of the norm that it clips
        self.cleared_by_step: frozenset[Place] = frozenset()  # models whose gradients the last step has cleared
        self.ready: set[Place] = set()  # models whose parameters are made
        self.untouched: set[Place] = set()  # models among them whose parameters nothing has read
        self.new_parts: dict[Place, list[NewPart]] = {}  # parts of models whose weights are not made yet
        self.replaced: set[tuple[Place, tuple[str, ...]]] = set()  # parts of models in whose places others are
        self.replacing = False  # whether what is being made is put in the place of a part
        self.making_parts = False  # whether they are being made
        self.rates: dict[Place, Expr] = {}  # optimizer -> its learning rate as written
        self.optimizer_models: dict[Place, tuple[Place, ...]] = {}
        self.owners: dict[str, str] = {}  # class of the script's own -> how this scope calls the only object of it
        self.opened: list[str] = []  # attributes of a module that this block keeps in variables until its end
        self.changed_modes: set[Place] = set()  # models whose mode this scope sets
        self.conditions: list[Expr] = []  # of the branches around
        # of loops over named parameters: what each parameter is called -> what its name is, and whose it is
        self.named_weights: dict[str, tuple[str, Place]] = {}
        self.heads: list[Environment] = []  # what was known where each loop around starts a turn, innermost last
        self.broken: list[list[Environment]] = []  # what is known where each loop around is left by a break
        self.cut_short: list[list[Environment]] = []  # the same where a turn ends by a continue
        self.returned: list[dict[Place, str]] = []  # the modes of models where this function returns
        self.taken_by: dict[str, str] = {}  # names of parts that a model takes -> its class
        self.grafted: dict[str, str] = {}  # names of models that become parts -> the attribute that they become
        self.filling: dict[str, Expr] = {}  # initialisers that a function around it gives the layer that is made next
        self.making = ""  # the path of the module that is being constructed: "self.fc", "self.net.2"
        self.making_each = ""  # in a comprehension: the path of the list whose modules are being constructed
        self.holder = ""  # the class whose constructor is given what is being made outside of any
        self.holding: cst.Call | None = None  # the call of that constructor, where what it is given is written in it
        self.walked: dict[str, str] = {}  # loop variables over all of a list of modules -> the path of the list
        self.put_first: dict[str, str] = {}  # names of modules of a constructor -> where it has put them first
        self.surely_called: set[str] = set()  # submodules that have surely been called by now
        self.moved: dict[str, str] = {}  # attributes of a module that a forward pass casts -> the variable for that
        self.kept_aside: dict[str, str] = {}  # attributes that it keeps for others to look at -> the variable as well
        self.bound_attributes: dict[str, Kind] = {}  # attributes of self that this method sets -> to what
        self.changed_by_name: dict[Place, str] = {}  # models with weights copied into a dict of them -> its name
        self.restated: set[str] = set()  # variables whose value the initialiser of a weight works out itself
        self.captured: dict[Place, cst.Call] = {}  # whose state an object has taken over, and where that was made
        self.lost: dict[Place, cst.Call] = {}  # models that a function has put into an object of its own, and its call
        self.precision: Expr | None = None  # the dtype that an autocast around gives to layers
        self.last_reads: frozenset[str] = frozenset()  # names that the statement at hand is the last to read
        self.followed: set[str] = set()  # methods whose results are being followed; see `results_in_part`
        self.reads: list[str] = []  # all that it reads, each as often as it does
        self.rebound: frozenset[str] = frozenset()  # names that it binds
        self.filled_model: Place | None = None  # the model that a script gives initial weights
        self.making_optimizer = False  # its parameters are named, not read
        self.gathered: set[str] = set()  # lists that a scan makes in place of a loop
        self.ran_key = False  # whether a seed has made the key already
        self.module_needs_key = False

    # -- scopes inside ------------------------------------------------------------------------------------------------

    def inner(self, bound: dict[str, Kind]) -> Self:
        """A lowering of the same scope in which some names mean something else."""
        made = copy.copy(self)
        made.nested = True
        made.turn_keys = None
        made.making = ""
        last = {name: rank for name, rank in self.env.last.items() if name not in bound}
        made.env = Environment(dict(bound), last, outer=self.env)
        made.env.modes, made.env.left = self.env.modes, self.env.left
        return made

    def _enclosing(self) -> Environment:
        """What a function made here sees of this scope: its names as they are in the end, else as they are
        now."""
        around = self.unit.scope if self.in_class else self.scope  # a class is no scope that its methods see
        seen = Environment(dict(self.script.finals.get(around, {})), outer=self.env.outer)
        seen.kinds.update({name: kind for name, kind in self.env.kinds.items() if name not in seen.kinds})
        return seen

    def function_scope(self, facts: FunctionFacts) -> Self:
        """A function, or a method of a class that is no module: its parameters are what its calls passed before."""
        env = Environment(outer=self._enclosing(), modes=dict(facts.entry_modes))
        made = type(self)(self.unit, "method" if self.context == "method" else "function", facts.qualname, "", env)
        made.facts = facts
        made.rates, made.optimizer_models = self.rates, self.optimizer_models
        params = facts.node.params
        for number, parameter in enumerate([*params.params, *params.kwonly_params]):
            name = parameter.name.value
            if self.in_class and number == 0 and not facts.is_static:
                env.kinds.update(self.script.attributes.get(self.scope, {}))
                of_class = "classmethod" in facts.decorators and self.env.lookup(spelled(self.scope))
                env.kinds[name] = of_class if isinstance(of_class, HostClass) else Plain("self")
            else:
                env.kinds[name] = self.parameter_kind(facts, parameter)
                if not facts.given.get(name):
                    env.shared.add(name)
        for star in (params.star_arg, params.star_kwarg):
            if isinstance(star, cst.Param):
                rest = facts.params.get(star.name.value, UNKNOWN)
                tensors = isinstance(rest, Items) and isinstance(rest.element, Tensor)
                env.kinds[star.name.value] = rest if tensors else UNKNOWN
        facts.returns, facts.yields = Never(), Never()
        return made

    def in_file_of(self, qualname: str) -> Self:
        """A scope that sees what the file of a function or a class does at its top level: this one in the same file."""
        file = file_of(qualname)
        if not qualname or file == self.unit.scope:
            return self
        unit = self.unit.others[file]
        return type(self)(unit, "module", file, env=Environment(dict(self.script.finals.get(file, {}))))

    @property
    def in_class(self) -> bool:
        """Whether this is the body of a class that is no module: the functions in it are its methods."""
        return self.context == "method" and (self.facts is None or self.facts.qualname != self.scope)

    def class_scope(self, name: str) -> Self:
        """The methods of a class that is no module."""
        made = copy.copy(self)
        made.context, made.scope = "method", name
        return made

    def method_scope(self, cls: str, context: str, method: str) -> Self:
        """`__init__` (context "setup") or another method ("forward") of a module class."""
        env = Environment({"self": SelfModule(cls)}, outer=self._enclosing())
        return type(self)(self.unit, context, f"{cls}.{method}", cls, env)

    @property
    def has_no_module(self) -> bool:
        """Whether this is a static method or a class method of a module class, which has no `self`."""
        return self.context == "forward" and self.env.lookup("self") is None

    def region_scope(self, tracing: Tracing) -> Self:
        """The loss function of an update region, which sees the names of this scope."""
        made = copy.copy(self)
        made.context = "region"
        made.region = tracing
        made.top = len(self.blocks)
        made.env = self.env.copy()
        made.before = []
        return made

    @contextlib.contextmanager
    def conditionally(self) -> Iterator[None]:
        """What is lowered inside may not be evaluated, or more than once: no statement before it can stand for it."""
        before, self.conditional = self.conditional, True
        try:
            yield
        finally:
            self.conditional = before

    @contextlib.contextmanager
    def as_often(self, surely: bool) -> Iterator[None]:
        """The block that is lowered inside runs as often as the statement at hand, where that is sure."""
        before, inside = self.top, surely and len(self.blocks) == self.top
        self.top += inside
        try:
            yield
        finally:
            self.top = before

    @contextlib.contextmanager
    def then(self, statements: Sequence[cst.CSTNode]) -> Iterator[None]:
        """What is lowered inside is followed by these statements."""
        self.following.insert(0, statements)
        try:
            yield
        finally:
            self.following.pop(0)

    @property
    def own_body(self) -> cst.Module | cst.BaseSuite:
        """The code that this scope runs: the body of its function, or the whole file."""
        return self.unit.source.module if self.facts is None else self.facts.node.body

    @property
    def under_jit(self) -> bool:
        """Whether this code runs inside what jit traces: a forward pass, a loss function, or a function of the user's
        that one of them calls."""
        return self.context in ("forward", "region") or (self.facts is not None and self.facts.traced)

    # -- names --------------------------------------------------------------------------------------------------------

    def own_method_of(self, path: str) -> Function | None:
        """The method that `self.method` is in a class that is no module; None for other names."""
        if not path.startswith("self.") or self.context not in ("method", "region"):
            return None
        owner = self.scope.rpartition(".")[0]
        while owner in self.script.functions:  # this is a function inside a method
            owner = owner.rpartition(".")[0]
        method = f"{owner}.{path.removeprefix('self.')}"
        return Function(method) if method in self.script.functions else None

    def kind_of_name(self, name: str) -> Kind:
        """The kind of a name, of an attribute or a method as "self.x", or of what another file binds; UNKNOWN where
        nothing binds it."""
        kind = self.env.lookup(name)
        if kind is None and "." in name:
            kind = self.own_method_of(name) or self.path_kind(name) or held_in_object(self, name)
        return known(kind)

    def path_kind(self, path: str) -> Kind | None:
        """What a dotted path leads to through torch or through files of the project; None where it leads elsewhere."""
        head, *rest = path.split(".")
        kind = self.env.lookup(head)
        for name in rest:
            if isinstance(kind, TorchName):
                kind = TorchName(f"{kind.name}.{name}")
            elif isinstance(kind, ProjectModule):
                kind = self.exported(kind.scope, name)
            else:
                return None
        return kind

    def exported(self, file: str, name: str) -> Kind:
        """What another file of the project binds to a name at its top level."""
        kind = self.script.finals.get(file, {}).get(name)
        if kind is None:
            inner = self.script.submodules.get(file, {}).get(name)
            return UNKNOWN if inner is None else ProjectModule(inner)
        return Host(kind.what) if isinstance(kind, Host) else kind

    def model_and_path(self, path: str | None) -> tuple[Model, list[str]] | None:
        """The model that a dotted name starts with, and what follows it; None where it starts with none."""
        parts = (path or "").split(".")
        for length in range(1, min(len(parts), _DEEPEST) + 1):
            kind = self.kind_of_name(".".join(parts[:length]))
            if isinstance(kind, Model):
                return kind, [part for part in parts[length:] if part != "module"]
        return None

    def kind_of(self, node: Expr) -> Kind:
        """The kind of a plain name or an attribute of self, without lowering it."""
        text = nodes.dotted(node)
        kind = self.kind_of_name(text) if text else UNKNOWN
        return self.vanishing_of_object(text) if text and kind is UNKNOWN else kind

    def vanishing_of_object(self, path: str) -> Kind:
        """The gradient scaler that an object of the user's keeps, `loss_scaler._scaler`; unknown for the rest."""
        owner_path, _, attribute = path.rpartition(".")
        owner = self.kind_of_name(owner_path) if owner_path else UNKNOWN
        kind = self.script.kept_in(owner.cls, attribute) if isinstance(owner, Instance) else UNKNOWN
        return kind if isinstance(kind, Scaler) else UNKNOWN

    def torch_name(self, func: Expr) -> str | None:
        """The torch name that a function expression stands for, without lowering its receiver."""
        text = nodes.dotted(func)
        kind = self.path_kind(text) if text is not None else None
        return kind.name if isinstance(kind, TorchName) else None

    def differentiated(self, statement: Statement) -> Expr | None:
        """What a statement calls torch's `backward()` of. A class of the script's own may have a method of that name,
        and what other packages have of it is given the loss: `engine.backward(loss)`."""
        receiver, call = method_call_of(statement, "backward"), call_of(statement)
        if receiver is None or call is None:
            return None
        kind = self.kind_of(receiver.value)
        unknown = type(kind) is Kind or isinstance(kind, Instance)
        return (
            None if unknown and ("backward" in self.unit.own_methods or weights_of_backward(call)) else receiver.value
        )

    def stops_gradients(self, context: Expr) -> bool:
        """Whether a context, or a decorator, surely records no gradients: `torch.no_grad()`."""
        name = self.torch_name(context.func if isinstance(context, cst.Call) else context)
        if name == "torch.set_grad_enabled" and isinstance(context, cst.Call):
            return bool(context.args) and nodes.is_literal(context.args[0].value, False)
        return stops_gradients(name)

    def mentions_torch(self, annotation: cst.Annotation | None) -> bool:
        """Whether an annotation names torch: then it goes."""
        return annotation is not None and any(
            isinstance(self.env.lookup(name), TorchName) for name in usage.loads(annotation.annotation)
        )

    def uses_torch(self, node: cst.CSTNode) -> bool:
        """Whether a node names torch, or what is written with it: a function or a module class of the user's."""
        found = [self.env.lookup(name) for name in usage.loads(node)]
        return any(isinstance(kind, TorchName | Function | ModuleClass) for kind in found)

    def root(self, place: Place) -> Place:
        """The object that a parameter stands for."""
        return followed(self.script.parameters_of, place)

    def trained_roots(self) -> set[Place]:
        """The models that some optimizer trains."""
        return {self.root(place) for models in self.script.optimizers.values() for place in models}

    def sums_from_the_start(self, place: Place) -> bool:
        """Whether a model, or a tensor of its own, has gradients of 0 as soon as it is made. Others have them with
        their optimizer."""
        optimized = self.trained_roots() - self.script.backward_first - self.trained_elsewhere()
        return place in self.script.accumulated - self.script.zeroed_first - optimized

    def trained_elsewhere(self) -> set[Place]:
        """The models from outside of a function that makes an optimizer for them: their gradients are there before it,
        and stay when it returns."""
        return {
            self.root(model)
            for optimizer, models in self.script.optimizers.items()
            for model in models
            if not optimizer.of_self and (model.scope != optimizer.scope or self.passed_in(model))
        }

    def roots(self, place: Place) -> set[Place]:
        """All objects that a parameter may stand for."""
        found, waiting = set[Place](), [place]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self.script.passed.get(one, set()) | {self.script.parameters_of.get(one, one)}
        return {one for one in found if one not in self.script.parameters_of}

    def evaluates(self, kind: Optimizer) -> bool:
        """Whether an optimizer evaluates a closure as often as it needs."""
        return self.root(kind.place) in self.script.evaluating

    def make_later(self, place: Place, line: cst.CSTNode) -> None:
        """The weights of a model that is made here wait for an example of its input."""
        self.pending.append(("model", place, line))
        self.pending_in[place] = self.loops

    def passed_in(self, place: Place) -> bool:
        """Whether an object came as an argument: what a function made for this scope did not."""
        if place in self.script.selves:
            return True
        source, facts = self.script.parameters_of.get(place), self.script.functions.get(place.scope)
        parameter = facts is not None and place.name in (*facts.parameter_names, *facts.keyword_names)
        return source is not None and (parameter or source not in self.script.handed)

    def is_global(self, place: Place) -> bool:
        """Whether an object is one constant of the module that every function reaches by the same name."""
        settled = place.name in self.unit.constants or self.is_settled(place.name)
        return place.scope == self.unit.scope and settled

    def is_settled(self, name: str) -> bool:
        """Whether all top-level statements that bind a name of the module stand above the one at hand."""
        return self.unit.settled.get(name, self.unit.anchor) < self.unit.anchor

    def is_local(self, name: str) -> bool:
        """Whether a name is a variable of this function, or of the one around it."""
        outer = self.env.outer
        around = outer is not None and outer.outer is not None and name in outer.kinds
        return self.context != "module" and (name in self.env.kinds or around)

    # -- what is noticed of values ------------------------------------------------------------------------------------

    def note_type(self, node: Expr, type_name: str) -> None:
        """Notes what a constructor parameter of a module must be, from where it is passed on to."""
        if isinstance(node, cst.BinaryOperation):
            self.note_type(node.left, type_name)
            self.note_type(node.right, type_name)
        facts = self.script.classes.get(self.cls)
        if type_name and facts is not None and isinstance(node, cst.Name) and node.value in facts.fields:
            facts.field_types.setdefault(node.value, type_name)

    def use(self, node: Expr, value: Value) -> None:
        """Notes that a device is used for more than placing tensors: then its variable stays."""
        self.refuse_torch(value)
        self.refuse_stateful(value.kind)
        if isinstance(value.kind, Device):
            self.script.found_device_used.add((nodes.dotted(node) or "").removesuffix(".type"))

    def refuse_stateful(self, kind: Kind) -> None:
        """Declines a function as a value where its calls need state that whoever calls it does not have."""
        states = self.script.functions[kind.name].states if isinstance(kind, Function) else []
        if isinstance(kind, Function) and states:
            self.script.by_value.add(kind.name)
            needed = ", ".join(sorted({state.what for state in states}))
            raise Unsupported("MIG404", f"{spelled(kind.name)} is used as a value, and its calls need {needed}")

    @staticmethod
    def refuse_torch(value: Value) -> None:
        """A torch function or class used as a value would still be torch when the output runs."""
        if isinstance(value.kind, TorchName) and not is_data_api(value.kind.name) and "." in value.kind.name:
            raise Unsupported("MIG304", f"{value.kind.name} is used as a value")
        if isinstance(value.kind, Shorthand):
            raise Unsupported("MIG304", f"{nodes.code(value.node)}, which takes any arguments, is used as a value")

    # -- expressions as they are mostly asked for ---------------------------------------------------------------------

    def node(self, node: Expr) -> Expr:
        """Lowers an expression; its channels are first."""
        value = self.usable(self.expr(node))
        self.use(node, value)
        return layouts.first(value)

    def asked(self, node: Expr) -> Value:
        """What an expression is, where it is lowered elsewhere: the statements that it has before it are not kept."""
        outer, self.before = self.before, []
        try:
            with self.unit.discarding():
                return self.expr(node)
        finally:
            self.before = outer

    def array(self, node: Expr) -> Value:
        """Lowers an expression that JAX code takes: a torch tensor of the data loading is converted."""
        return self.as_array(self.expr(node))

    def as_array(self, value: Value) -> Value:
        """A value as JAX code takes it; remembers that the batch which it came from is wanted as jax arrays."""
        if is_batch(value.kind):
            self.script.wanted |= value.kind.origins
            name, _, field = (nodes.dotted(value.node) or "").partition(".")
            if self.region is not None and name and name not in self.region.inside and (not field or is_field(field)):
                return Value(value.node, Tensor(value.kind.dtype))  # an input of the step, which takes it as an array
            root = nodes.root(value.node) if isinstance(value.node, cst.Subscript) else None
            if self.region is not None and isinstance(root, cst.Name) and root.value not in self.region.inside:
                whole = self.kind_of_name(root.value)
                if is_batch(whole) and _is_entry(value.node):
                    return Value(value.node, Tensor(value.kind.dtype))  # of such an input
            array = self.of_kept_graph(name, field)
            if array is None:
                array = self.taken_in(value.node)
                array = self.each_taken_in(value.node) if value.kind.optional else array  # None stays None
            return Value(array, Tensor(value.kind.dtype))
        return value

    def of_kept_graph(self, name: str, field: str) -> Expr | None:
        """What the arrays of a graph have under a name, where the file makes them once: the graph is bound further up
        and stays as it is. None for others."""
        known = name in self.unit.graphs and self.is_settled(name) and not self.is_local(name)
        kept = known and name not in usage.given_attributes(self.unit.source.module)
        if not kept or not field or "." in field or f"{name}_arrays" in self.unit.taken:
            return None
        read = self.script.found_graph_fields.setdefault((self.unit.scope, name), ())
        if field not in read:
            self.script.found_graph_fields[self.unit.scope, name] = (*read, field)
        return nodes.expression(f"{name}_arrays.{field}")

    def each_taken_in(self, node: Expr) -> cst.Call:
        """All that is in a batch as arrays."""
        return nodes.call("jax.tree.map", self.taken_in(node).func, node)

    def taken_in(self, node: Expr) -> cst.Call:
        """A batch of torch's as an array: split over the devices where the script uses them all."""
        if not self.script.parallel or self.sampling:
            return nodes.call("jnp.asarray", node)
        self.unit.use_snippet("split_batch")
        return nodes.call("split_batch", node)


def _is_entry(node: Expr) -> bool:
    """Whether an expression is what a name has under keys, or at places, that are written: `batch["x"]`, `batch[0]`."""
    while isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and not isinstance(nodes.literal(index.value), str | int):
            return False
        node = node.value
    return isinstance(node, cst.Name)
