"""What the parts of a lowering ask of one another in a circle, declared once: each is defined by one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts, FunctionFacts
from migrate.known.kinds import Function, Items, Kind, ModeFlag, Model, Module, Place
from migrate.known.weight_kinds import OptimizerGroups, Selection
from migrate.lowering.updates.region import MicroBatches, Region
from migrate.manifest import Leaf
from migrate.rules.rule import Value
from migrate.syntax.nodes import AnyNode, Expr, Statement


class Parts:
    """The methods of a lowering that are reached from files which cannot import those that define them."""

    def expr(self, node: Expr) -> Value:
        """Lowers any expression."""
        raise NotImplementedError

    def torch_call(self, name: str, node: cst.Call) -> Value:
        """Lowers a call of a torch function, whatever the expression is that stands for it."""
        raise NotImplementedError

    def submodule_method(self, node: cst.Call, func: Value, owner: Module, name: str) -> Value | None:
        """A method of the script's own of a part of a module; None for anything else."""
        raise NotImplementedError

    def where_reached(self, error: Unsupported) -> Unsupported:
        """A finding in a branch that no module and no call of the program takes is worth a note alone."""
        raise NotImplementedError

    def record_method(self, model: Model, node: cst.Call, method: str) -> None:
        """Remembers the first call of a method, or of a part, of a model."""
        raise NotImplementedError

    def note_given(self, facts: FunctionFacts, name: str, given: Expr, kind: Kind) -> None:
        """Notes the models behind what a function that goes backward is given."""
        raise NotImplementedError

    def sink(self, kind: Kind) -> None:
        """Tensors that feed data loading stay torch, from the places that made them on, and classes of objects do."""
        raise NotImplementedError

    def stays_torch(self, node: AnyNode) -> AnyNode:
        """A function or a class that data loading runs, as it is, with what of the user's it names."""
        raise NotImplementedError

    def makes_static_mask(self, statement: Statement) -> bool:
        """Whether a statement makes a mask that goes by shapes alone, or what one is made of."""
        raise NotImplementedError

    def held(self, node: Expr, wanted: str = "array") -> cst.Name:
        """A name for a value that is computed before the statement at hand."""
        raise NotImplementedError

    def available_name(self, name: str, before: bool = False) -> bool:
        """Whether a name is bound by now."""
        raise NotImplementedError

    def known_items(self, node: Expr) -> list[Expr] | None:
        """What an iterable gives, where that is written out; None of any other."""
        raise NotImplementedError

    def grafted_part(self, written: Expr, value: Value, cls: str) -> Value:
        """An argument of the constructor of a class outside of any other: what is a model so far becomes its part."""
        raise NotImplementedError

    def taken_apart_here(self) -> Mapping[str, str]:
        """The models that this constructor, or this function that makes parts, takes parts of: name -> class."""
        raise NotImplementedError

    def layers_of(self, model: Value) -> Value:
        """The list of the layers of a model that is an nn.Sequential, with its weights."""
        raise NotImplementedError

    def asked_weight(self, node: Expr) -> Value:
        """Lowers an expression that may be any weight of a model."""
        raise NotImplementedError

    def from_outside(self, wanted: str, node: Expr, kind: Kind) -> Value:
        """What the caller is to make: a parameter of this function, or an input of the training step."""
        raise NotImplementedError

    def surely_once(self) -> bool:
        """Whether the place at hand is evaluated exactly once each time that its function runs."""
        raise NotImplementedError

    def asked_mode(self, node: Expr) -> ModeFlag | None:
        """Whether `model.training`, on the host, is asked for, and what it is; None for other expressions."""
        raise NotImplementedError

    def only_restores(self, name: str) -> bool:
        """Whether a name of a mode is read for nothing but to put a model back into it."""
        raise NotImplementedError

    def leaf_of(self, node: Expr) -> tuple[Place, Leaf] | None:
        """The model, and the one parameter of it that `model.head.weight` is, or its `.data`; None of anything else."""
        raise NotImplementedError

    def one_filled(self, torch: str, call: cst.Call) -> None:
        """`nn.init.zeros_(model.head.bias)` of one weight of the class, by its name in torch."""
        raise NotImplementedError

    def layer_fills(self, node: cst.Call, place: Place, leaf: Leaf) -> bool:
        """Whether a call that fills a weight of a model is an initialiser of its layer; raises Unsupported."""
        raise NotImplementedError

    def initializer_told(self, call: cst.Call, name: str, target: Expr) -> Expr:
        """The initialiser that a call which fills a weight, as the function of `nn.init` of that name, is in Flax."""
        raise NotImplementedError

    def copied_weight(self, base: Value) -> Value:
        """`weight.clone()`: a step gives the memory of the weights away, so that what is kept of them is a copy."""
        raise NotImplementedError

    def numbered_weight(self, node: cst.Subscript, kind: Kind) -> Value | None:
        """`list(model.parameters())[0]`; None of other values than parameters."""
        raise NotImplementedError

    def unpacked_weights(self, target: cst.CSTNode, value: Expr) -> tuple[Kind, ...] | None:
        """What the names in `weight, bias = layer.parameters()` stand for; None for other assignments."""
        raise NotImplementedError

    def note_place(self, kind: Module, layout: str) -> None:
        """Remembers a layer that has a form of its own for inputs whose channels are not last already."""
        raise NotImplementedError

    def note_mixed(self, row: Expr) -> None:
        """Remembers a list of layers that want their channels in different places, while it grows."""
        raise NotImplementedError

    def alike_in_layout(self, one: Value, other: Value) -> tuple[Value, Value]:
        """Two modules of which a test chooses one, with their channels in the same place."""
        raise NotImplementedError

    def moving_itself(self, value: Value) -> Value:
        """A layer that moves its channels last and back, where it wants them there."""
        raise NotImplementedError

    def own_form(self, name: str, node: cst.Call) -> Value | None:
        """Lowers the function of a layer where a class that inherits from that calls it with its own settings."""
        raise NotImplementedError

    def loaded_model(self, target: Expr, value: Expr) -> list[Statement] | None:
        """Lowers `model = torch.load(path)` of a model that was saved as a whole; None for other assignments."""
        raise NotImplementedError

    def user_call(self, node: cst.Call, callee: Value, kind: Function, statement: bool = False) -> Value:
        """Lowers a call of a function of the user's."""
        raise NotImplementedError

    def filled_layer(self, node: cst.Call, function: Function) -> Value | None:
        """Lowers `layer_init(nn.Linear(4, 64))`, of a function that fills weights; None of other calls."""
        raise NotImplementedError

    def suite(self, body: Sequence[cst.CSTNode], cyclic: bool = False) -> list[Statement]:
        """Lowers the statements of one block. `cyclic`: it is the body of a loop."""
        raise NotImplementedError

    def statement(self, original: Statement) -> list[Statement]:
        """Lowers one statement; raises Unsupported."""
        raise NotImplementedError

    def guarded(self, original: Statement, region: Region | MicroBatches | None = None) -> list[Statement]:
        """Lowers one statement or the update region that starts there; what is not supported becomes an exception."""
        raise NotImplementedError

    def names_classes(self, targets: Sequence[cst.CSTNode], value: Expr) -> bool:
        """Whether an assignment only names classes of optimizers to choose from."""
        raise NotImplementedError

    def layer_maker(self, name: str) -> Value:
        """A torch layer class as a value."""
        raise NotImplementedError

    def class_itself(self, node: Expr) -> Value:
        """What is called, asked for as a type or inherited from."""
        raise NotImplementedError

    def layer_subclass_named(self, node: Expr) -> ClassFacts | None:
        """The class that inherits from a layer under whose name an expression is; None for others."""
        raise NotImplementedError

    def subclass_maker(self, node: cst.Name, facts: ClassFacts) -> Value:
        """A class that inherits from a layer as a value."""
        raise NotImplementedError

    def annotated_maker(self, annotation: cst.Annotation | None) -> Kind:
        """The module classes that an annotation names; Never where it names none."""
        raise NotImplementedError

    def class_attribute(self, base: Value, attribute: str) -> Kind:
        """An attribute of a module class."""
        raise NotImplementedError

    def in_jax(self, annotation: cst.Annotation) -> cst.Annotation:
        """An annotation that names types of torch's, with those that stand for them."""
        raise NotImplementedError

    def live(self, name: str) -> bool:
        """Whether the value that a name has now is read by what follows."""
        raise NotImplementedError

    def gives(self, node: Expr) -> bool:
        """Whether nothing here can see an argument change."""
        raise NotImplementedError

    def narrowed(self, test: Expr) -> tuple[str, Module, Module] | None:
        """The name of a module that a test tells something of, and what it is where that holds and where not."""
        raise NotImplementedError

    def tree_value(self, node: Expr) -> Value | None:
        """A dict of weights that another one makes; None for other expressions."""
        raise NotImplementedError

    def tree_of_gradients(self, node: cst.ListComp | cst.GeneratorExp) -> Value | None:
        """A list of what gradients are made into; None where none are read."""
        raise NotImplementedError

    def listed_per_parameter(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """A list of values for all parameters of a model, as it is made; None for other assignments."""
        raise NotImplementedError

    def usable(self, value: Value) -> Value:
        """A value as the output may hold it."""
        raise NotImplementedError

    def construct_extended(self, node: cst.Call, callee: Value, facts: ClassFacts) -> Value:
        """A module of a class that inherits from a layer of torch's."""
        raise NotImplementedError

    def super_layer(self, node: cst.Call, facts: ClassFacts) -> Value:
        """`super().forward(x)` in such a class."""
        raise NotImplementedError

    def super_call(self, node: cst.Call, func: cst.Attribute) -> Value:
        """`super().method(...)` of a module class."""
        raise NotImplementedError

    def super_setup(self, statement: Statement) -> list[Statement]:
        """What is left of `super().__init__()` in a setup."""
        raise NotImplementedError

    def modules_loop(self, node: cst.For) -> list[Statement] | None:
        """A loop of a constructor over modules that only gives them initial weights."""
        raise NotImplementedError

    def parameters_loop(self, node: cst.For, applied: bool = False, of: str = "") -> list[Statement]:
        """A loop of a constructor over its parameters, which gives them initial weights."""
        raise NotImplementedError

    def is_instance(self, value: object, classes: Expr) -> bool:
        """Whether a module is of one of some classes."""
        raise NotImplementedError

    def one_of_sets(self, node: cst.ListComp | cst.GeneratorExp) -> Selection | None:
        """The parameters whose names a script has sorted into a set."""
        raise NotImplementedError

    def released(self, names: Sequence[str]) -> list[Statement]:
        """The assignments that make attributes of what a constructor held in variables."""
        raise NotImplementedError

    def public_names(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """Lowers `__all__ = [...]`; None for other assignments."""
        raise NotImplementedError

    def loop_body(self, body: cst.BaseSuite, bind: Callable[[], list[Statement]]) -> list[Statement]:
        """The body of a loop."""
        raise NotImplementedError

    def looped_models(self, statement: Statement) -> set[Place]:
        """The models whose parameters a statement changes in loops over them."""
        raise NotImplementedError

    def in_place_value(self, node: cst.Call, method: str, base: Value) -> Value:
        """What a method in place makes of its tensor."""
        raise NotImplementedError

    def hold(self, facts: ClassFacts, line: cst.SimpleStatementLine, name: str, value: Value) -> list[Statement]:
        """An attribute of a module that is filled later: a variable until then."""
        raise NotImplementedError

    def parameter_kind(self, facts: FunctionFacts, parameter: cst.Param) -> Kind:
        """What a parameter of a function holds."""
        raise NotImplementedError

    def changed_model(self, target: cst.Attribute, value: Expr) -> list[Statement] | None:
        """An assignment that cuts a part of a model, or takes one out; None for others."""
        raise NotImplementedError

    @property
    def building(self) -> bool:
        """Whether this is the body of a function that makes parts of modules."""
        raise NotImplementedError

    def makes_part(self, call: cst.Call) -> bool:
        """Whether a call makes a module: a layer, one of the user's, or what a builder returns."""
        raise NotImplementedError

    def given(self, node: Expr, cls: str, call: cst.Call | None = None) -> Value:
        """An argument of the constructor of a class, in that call where it is at hand."""
        raise NotImplementedError

    def handed_kind(self, written: Expr, kind: Kind) -> Kind:
        """What an argument of a module's constructor tells of a field."""
        raise NotImplementedError

    def field_value(self, value: Value) -> Expr:
        """An argument of a module's constructor: a field can be hashed."""
        raise NotImplementedError

    def replaced_part(self, target: Expr, value: Expr) -> list[Statement] | None:
        """An assignment of a module to a part of a model; None for others."""
        raise NotImplementedError

    def gets_parts_first(self, place: Place) -> bool:
        """Whether the statements that follow put parts into a model before they need its weights."""
        raise NotImplementedError

    def becomes_part(self, name: str, value: Expr) -> bool:
        """Whether a name stands for a module that one statement puts into a model, and nothing else reads."""
        raise NotImplementedError

    def init_parts(self, place: Place) -> list[Statement] | None:
        """The weights of new parts of a model, or None where there is no example yet."""
        raise NotImplementedError

    def init_model(self, place: Place) -> list[Statement] | None:
        """The weights of a model, or None where there is no example yet."""
        raise NotImplementedError

    def weights_in_rows(self, node: Expr) -> Value | None:
        """What a script reads of the layers of a list, and of their weights; None of other expressions."""
        raise NotImplementedError

    def weights_of_parts(self, place: Place, call: Expr) -> list[Statement]:
        """The statements that give a model the weights of its new parts."""
        raise NotImplementedError

    def only_cuts_constants(self, node: cst.For) -> bool:
        """Whether a loop over modules of a model only cuts constants, which cut themselves."""
        raise NotImplementedError

    def told_of_loading(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """An assignment of what loading a state dict tells; None for others."""
        raise NotImplementedError

    def under_torch_names(self, node: cst.For) -> list[Statement] | None:
        """A loop over named parameters that asks of their names; None for others."""
        raise NotImplementedError

    def under_torch_names_in(self, node: cst.BaseComp) -> cst.CompFor | None:
        """The same of the `for` of a comprehension."""
        raise NotImplementedError

    def named_state(self, line: cst.SimpleStatementLine, target: Expr, value: Expr) -> list[Statement] | None:
        """An assignment of a state dict that the script looks into; None for others."""
        raise NotImplementedError

    def note_listed(self, values: Sequence[Expr]) -> None:
        """Declines to put a module into a list a second time."""
        raise NotImplementedError

    def grown(self, kind: Items, method: str, value: Value, node: cst.CSTNode) -> Kind:
        """A list of modules with one or several more."""
        raise NotImplementedError

    def initial_branch(self, node: cst.If) -> list[Statement] | None:
        """A branch on what parts there are that only fills weights; None of other branches."""
        raise NotImplementedError

    def seen_through(self, targets: Sequence[cst.CSTNode], value: Expr) -> set[str]:
        """The names that show one tensor once a call has been given it and its result has names."""
        raise NotImplementedError

    def handed_through(self, value: Expr) -> set[str]:
        """The names of whose memory a call may give something back."""
        raise NotImplementedError

    def own_module(self, func: Expr) -> Kind:
        """What an attribute of this module is, `self.block`, or a plain name."""
        raise NotImplementedError

    def is_held(self, target: cst.CSTNode) -> bool:
        """Whether an attribute of a module is a variable by now."""
        raise NotImplementedError

    def comp_for(self, node: cst.CompFor, around: Parts | None = None) -> cst.CompFor:
        """The `for` of a comprehension."""
        raise NotImplementedError

    def over_gradients(self, node: cst.BaseComp) -> tuple[cst.BaseComp, cst.CompFor] | None:
        """A comprehension over parameters that reads their gradients, as one over the leaves of both."""
        raise NotImplementedError

    def group_item(self, node: cst.Subscript, kind: OptimizerGroups) -> Value:
        """An item of a parameter group."""
        raise NotImplementedError

    def group_of(self, node: Expr) -> OptimizerGroups | None:
        """The parameter group that an expression is; None of anything else."""
        raise NotImplementedError

    def groups_of(self, node: Expr) -> OptimizerGroups | None:
        """The parameter groups of an optimizer; None of anything else."""
        raise NotImplementedError

    def branch_of(self, statement: Statement) -> list[Statement]:
        """What a branch comes to in one turn of a loop, where that is known; itself elsewhere."""
        raise NotImplementedError

    def group_items(self, node: Expr) -> list[Expr] | None:
        """The groups of an optimizer, one by one; None of anything else."""
        raise NotImplementedError

    def optimizer_attribute(self, node: cst.Attribute, base: Value) -> Value:
        """What a script reads of an optimizer or a scheduler."""
        raise NotImplementedError

    def runs_once(self, facts: FunctionFacts, seen: frozenset[str] = frozenset()) -> bool:
        """Whether each run of the program surely comes by every call of a function, and no more than once."""
        raise NotImplementedError
