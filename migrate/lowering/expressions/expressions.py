"""Expressions: names, attributes and what is neither an operator, a container nor a call."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.kept import kept
from migrate.known.kinds import (
    SHAPE,
    UNKNOWN,
    Accelerator,
    AutogradFunction,
    Device,
    Distribution,
    DType,
    Function,
    Host,
    Instance,
    Items,
    Kind,
    Leaf,
    Makers,
    Members,
    Model,
    Module,
    ModuleClass,
    Never,
    Number,
    Optimizer,
    Plain,
    ProjectModule,
    Scaler,
    Scheduler,
    SelfModule,
    Tensor,
    Tied,
    TorchName,
    is_batch,
    join,
)
from migrate.known.qualified import options
from migrate.known.states import COUNT, MODE, PARAMS, State
from migrate.known.weight_kinds import AnyWeight, Parameters, Selection, StateDict, Weight, WeightsOfPart, WeightTree
from migrate.layers.table import TABLE
from migrate.lowering.expressions.asked_objects import AskedObjects
from migrate.lowering.expressions.elements import (
    DICT,
    WeightsByName,
    display,
    has_key,
    is_field,
    is_function,
    loop_kind,
    named_child,
    part_kind,
)
from migrate.lowering.expressions.names_of_numpy import current_name
from migrate.lowering.expressions.names_of_six import SIX, of_python
from migrate.lowering.expressions.packed_elements import elements_of
from migrate.lowering.expressions.typed_tensors import tensor_type
from migrate.lowering.host import graphs
from migrate.lowering.models.attributes_of_layers import attribute_of_layer
from migrate.lowering.models.borrowed_models import borrowed_value
from migrate.lowering.models.objects_at_hand import surely_held
from migrate.lowering.models.properties_read import property_of_model
from migrate.lowering.models.replaced_parts import ReplacedParts
from migrate.lowering.modules.called_in_training import IN_TRAINING
from migrate.lowering.modules.makers_kept import maker_kept
from migrate.lowering.modules.methods_of_torch import HOLDINGS, held_elsewhere
from migrate.lowering.modules.mixed_rows import MixedRows
from migrate.lowering.modules.shown_outside import is_constant, is_setting, read_outside, unseen
from migrate.lowering.modules.sown import note_looked_at, refuse_sown
from migrate.lowering.modules.submodules import Submodules
from migrate.lowering.modules.tied_layers import TiedLayers
from migrate.lowering.plainer.accelerated import Accelerated
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.imports import Imports
from migrate.lowering.unit import known
from migrate.lowering.weights.any_weight import AnyWeights, listed_for_one, listed_for_type
from migrate.lowering.weights.element_data import data_by_name
from migrate.lowering.weights.named_parameters import NamedParameters
from migrate.lowering.weights.weights_in_rows import not_at_hand
from migrate.rules.creation import DTYPES
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_NUMBERS = (cst.Integer, cst.Float, cst.Imaginary)

# The names of the parts of what torch functions return.
_DIGITS = frozenset(f"torchvision.datasets.{name}MNIST" for name in ("", "Fashion", "K", "E", "Q"))
_OF_DIGITS = frozenset({"data", "targets", "train_data", "train_labels", "test_data", "test_labels"})
_STILL_TENSORS = ("data", "T", "mT", "H", "real", "imag")
_PAIRS = ("sort", "topk", "max", "min", "kthvalue", "mode", "median", "cummax", "cummin")
_FIELDS = {
    "values": 0,
    "indices": 1,  # of torch.max(x, 1), torch.sort, torch.topk
    "sign": 0,
    "logabsdet": 1,
    "eigenvalues": 0,
    "eigenvectors": 1,
    "solution": 0,
    "U": 0,
    "S": 1,
    "Vh": 2,
    "Q": 0,
    "R": 1,
}

_OF_DICTS = ("keys", "values", "items", "get")

_OF_NUMBERS = {"is_floating_point": "jnp.floating", "is_complex": "jnp.complexfloating"}  # attributes of a type


class Expressions(
    AnyWeights, Submodules, Accelerated, ReplacedParts, AskedObjects, NamedParameters, TiedLayers, MixedRows, Imports
):
    """Expressions, by their type."""

    def expr(self, node: Expr) -> Value:
        """Lowers any expression. Parts that are not rooted in torch keep their formatting."""
        handler = getattr(self, f"expr_{type(node).__name__}", None)
        if handler is not None:
            value = handler(node)
            if isinstance(value.kind, Host) and self.uses_torch(value.node):
                value = replace(value, node=kept(value.node))  # data loading stays torch
            value = self.moving_itself(value) if node in self.unit.moving else value
            return self._parenthesized(node, value)
        if isinstance(node, _NUMBERS):
            return Value(node, Number())
        if isinstance(node, cst.SimpleString):
            return Value(node, Plain("str"))
        return Value(node, UNKNOWN)

    @staticmethod
    def _parenthesized(original: Expr, value: Value) -> Value:
        if not original.lpar or value.node.lpar or not nodes.needs_parentheses(value.node):
            return value
        return replace(value, node=value.node.with_changes(lpar=original.lpar, rpar=original.rpar))

    def expr_Name(self, node: cst.Name) -> Value:
        if node.value in ("True", "False"):
            return Value(node, Number())
        if node.value == "None":
            return Value(node, Plain("None"))
        kind = self.kind_of_name(node.value)
        if isinstance(kind, TorchName):
            return self.torch_value(kind.name, node)
        if self.region is not None:
            self.region.variables.add(node.value)
        if self.model_of_dict(self.env.definitions.get(node.value)) is not None:
            self.script.listed.add((self.scope, node.value))
        if isinstance(kind, Selection):
            self.script.listed.add((self.scope, node.value))
        if isinstance(kind, Leaf):
            return Value(self.leaf(kind), kind)
        if isinstance(kind, WeightsOfPart):
            raise not_at_hand(node)
        self.refuse_stale(node, node.value, kind)
        anew = self.read_anew(node.value, kind)
        if anew is not None:
            return anew
        if self.env.is_past(node.value):
            place = kind.place if isinstance(kind, WeightsByName | StateDict | WeightTree) else None
            of = f" of {place.name}" if place is not None else ""
            raise Unsupported(
                "MIG401", f"{node.value} has earlier weights{of} than in torch, where it follows the model"
            )
        if isinstance(kind, Device):
            passed = self.facts.parameter_names if self.facts is not None else []  # which no call passes
            if node.value in {*passed, *self.script.host_devices}:
                return Value(nodes.expression("jax.default_backend()"), kind)
        if isinstance(kind, Members):
            return Value(display(kind), kind)
        extending = self.layer_subclass_named(node)
        if extending is not None:
            return self.subclass_maker(node, extending)
        layout = "last" if node.value in self.env.last else "first"
        return Value(node, kind, layout)

    def leaf(self, kind: Leaf) -> Expr:
        """A tensor that gradients are taken of is a piece of state, which no module can hold."""
        trained = self.root(kind.place) in self.script.accumulated | self.trained_roots()
        if self.context in ("forward", "setup") and trained:
            raise Unsupported("MIG404", f"{kind.place.name} is trained, and a module reads it from outside")
        return self.read(State(PARAMS, kind.place))

    def torch_value(self, name: str, node: Expr) -> Value:
        """A torch name used as a value."""
        if name in DTYPES:
            return Value(nodes.expression(DTYPES[name][0]), DType())
        if name in ("torch.inf", "torch.nan", "torch.pi", "torch.e"):
            return Value(nodes.expression(f"jnp.{name[6:]}"), Number())
        if name == "torch.Tensor":
            return Value(nodes.expression("jax.Array"), Plain("type"))
        if name.startswith(SIX):
            return of_python(name, node)
        if name == "torch.__version__":
            return Value(nodes.expression("jax.__version__"), Plain("str"))
        if name in TABLE:
            return self.layer_maker(name)
        if isinstance(node, cst.Name) and tensor_type(name):  # the assignment that gave it this name is gone
            node = nodes.expression(f"torch.{tensor_type(name)}")
        return Value(node, TorchName(name))

    def is_of_digits(self, node: cst.Attribute) -> bool:
        """Whether an attribute of a data set of torchvision's is a tensor, as those of MNIST and its like are:
        `mnist_test.test_labels`. Others hold arrays of numpy's there, and lists."""
        made = self.env.definitions.get(node.value.value) if isinstance(node.value, cst.Name) else None
        name = self.torch_name(made.func) if isinstance(made, cst.Call) else None
        return node.attr.value in _OF_DIGITS and name in _DIGITS

    def expr_Attribute(self, node: cst.Attribute) -> Value:
        borrowed = borrowed_value(self, node)
        if borrowed is not None:
            return borrowed
        current = current_name(self, node)
        if current is not None:
            return self.expr(current)
        attribute, own = node.attr.value, self.kind_of(node)
        if isinstance(own, Leaf) and own.place.of_self:
            return Value(self.leaf(own), own)
        self.refuse_stale(node, nodes.dotted(node) or "", UNKNOWN)
        settings = self.settings_of(node.value)
        if settings is not node.value:
            node = node.with_changes(value=settings)
        of_weight = {"shape": self.weight_shape, "grad": self.weight_gradient}.get(attribute, self.weight)
        weight = of_weight(node)
        weight = weight or self.weights_in_rows(node)
        if weight is not None:
            return weight
        size = self.size_of_part(node) if self.context in ("setup", *HOST_CONTEXTS) else None
        if size is not None:
            return size
        self.refuse_sizes_of_weight(node)
        told = self.weight_type(node) if attribute in ("dtype", "device") else None
        if told is not None:
            return told
        first = listed_for_type(node.value) if attribute in ("dtype", "device") else listed_for_one(node.value)
        if first is not None and attribute == "device":
            return Value(nodes.expression("jax.default_backend()"), Device())
        note_looked_at(self, node)
        of_model = first is not None and attribute == "dtype" and not self.of_itself(first)
        base = self.expr(first) if first is not None and of_model else self.asked_weight(node.value)
        if isinstance(base.kind, AnyWeight):
            return self.of_any_weight(node)
        rows = elements_of(node, base) or data_by_name(self, node, base)
        if rows is not None:
            return rows
        refuse_sown(self, node, base.kind)
        if type(base.kind) is Never:  # nothing was given there yet
            return Value(node.with_changes(value=nodes.parenthesized(layouts.first(base))), base.kind)
        if isinstance(base.kind, Parameters):
            return Value(nodes.expression("{x}[0].dtype", x=base.node), DType())
        if isinstance(base.kind, TorchName):
            return self.torch_value(f"{base.kind.name}.{attribute}", node)
        if isinstance(base.kind, ProjectModule):
            return self.project_attribute(node, base.kind, attribute)
        if isinstance(base.kind, Accelerator):
            return self.accelerator_attribute(attribute)
        if isinstance(base.kind, Device) and attribute == "type":
            return base
        if isinstance(base.kind, DType) and attribute in _OF_NUMBERS:
            return Value(nodes.expression(f"jnp.issubdtype({{x}}, {_OF_NUMBERS[attribute]})", x=base.node), Number())
        if isinstance(base.kind, DType) and attribute == "itemsize":
            of_array = isinstance(base.node, cst.Attribute) and base.node.attr.value == "dtype"
            text = "{x}.itemsize" if of_array else "jnp.dtype({x}).itemsize"  # jnp.float32 is a class of scalars
            return Value(nodes.expression(text, x=base.node), Number())
        if isinstance(base.kind, SelfModule):
            return self.self_attribute(node, base.kind, attribute)
        if isinstance(base.kind, Tied):
            return self.of_tied(node, base.kind)
        if isinstance(base.kind, Module) and has_key(base.kind, attribute):
            key = nodes.expression("{x}[{k}]", x=base.node, k=cst.SimpleString(f'"{attribute}"'))
            return Value(key, named_child(base.kind, attribute))
        if isinstance(base.kind, Module):
            part = self.submodule_attribute(node, base, base.kind, attribute)
            outside = self.context in HOST_CONTEXTS and not self.building and not attribute.startswith("__")
            if part.kind is UNKNOWN and outside:
                raise part_alone(node)
            return part
        if isinstance(base.kind, Leaf) and attribute == "grad":
            return Value(self.gradients(base.kind.place), base.kind.plain)
        if isinstance(base.kind, Items) and base.kind.type == DICT and attribute not in _OF_DICTS:
            key = nodes.expression("{x}[{k}]", x=base.node, k=cst.SimpleString(f'"{attribute}"'))
            return Value(key, base.kind.joined())
        if isinstance(base.kind, Tensor | Weight):
            return self.tensor_attribute(node, base, attribute)
        if isinstance(base.kind, Host):
            of_graph = graphs.field(base.kind, attribute)
            if of_graph is not None:
                if is_batch(of_graph) and self.script.parallel:
                    raise Unsupported("MIG302", f"{nodes.code(node)}: a graph is not split over several devices")
                return Value(node.with_changes(value=base.node), of_graph)
            tensor = base.kind.what == "tensor"
            kind: Kind = Number() if tensor and attribute in ("shape", "ndim", "dtype") else Host("data")
            part = is_batch(base.kind) and is_field(attribute)
            still = (tensor and attribute in _STILL_TENSORS) or self.is_of_digits(node)
            if part or still or (attribute in _FIELDS and _gives_pair(node)):
                kind = Host("tensor", base.kind.origins)
            return Value(node.with_changes(value=base.node), kind)
        if isinstance(base.kind, ModuleClass | Makers):
            return Value(node.with_changes(value=base.node), self.class_attribute(base, attribute))
        if isinstance(base.kind, Model):
            return self.model_attribute(node, base, attribute)
        if isinstance(base.kind, Distribution):
            return Value(node.with_changes(value=base.node), Tensor("float"))
        if isinstance(base.kind, AutogradFunction) and attribute == "apply":
            return Value(node, Function(f"{base.kind.cls}.apply"))
        if isinstance(base.kind, Items) and base.kind.items is not None and attribute in _FIELDS:
            return _field(base, attribute)
        if isinstance(base.kind, Optimizer | Scheduler):
            return self.optimizer_attribute(node, base)
        if isinstance(node.value, cst.Subscript) and isinstance(self.kind_of(node.value.value), Model):
            raise part_alone(node)
        made = node.with_changes(value=nodes.parenthesized(layouts.first(base)))
        kind = self.attribute_kind(node, base.kind)
        return Value(made, maker_kept(self, node) if kind is UNKNOWN and self.context == "setup" else kind)

    def project_attribute(self, node: cst.Attribute, module: ProjectModule, attribute: str) -> Value:
        """`utils.accuracy`: what another file of the project binds."""
        kind = self.imported(module.scope, attribute, node)
        return self.torch_value(kind.name, node) if isinstance(kind, TorchName) else Value(node, kind)

    def attribute_kind(self, node: cst.Attribute, owner: Kind = UNKNOWN) -> Kind:
        """The kind of an attribute of some other object (a trainer's `self.model`, for example). Of an object of the
        user's: where its own methods put a tensor there, or another such object."""
        if isinstance(owner, Instance):
            kind = self.script.kept_in(owner.cls, node.attr.value)
            if isinstance(kind, Model | Optimizer | Scheduler):
                return surely_held(self, node)
            return kind if isinstance(kind, Tensor | Instance | Scaler) else UNKNOWN
        if isinstance(node.value, cst.Name) and node.value.value == "self":
            return self.kind_of_name(f"self.{node.attr.value}")
        return UNKNOWN

    def self_attribute(self, node: cst.Attribute, owner: SelfModule, attribute: str) -> Value:
        """`self.x` in a module class."""
        facts = self.script.classes[owner.cls]
        if attribute == "training":
            facts.own_trains = True
            return Value(IN_TRAINING if any(node is one for one in facts.opened) else node, Number())
        kind = known(facts.seen.get(attribute, facts.attributes.get(attribute)))
        if facts.inherited and attribute not in facts.seen and attribute not in facts.attributes:
            kind = self.script.in_heirs(owner.cls, attribute)
        if facts.extends and kind is UNKNOWN:
            layer = facts.extends.rpartition(".")[2]
            raise Unsupported("MIG201", f"self.{attribute} of torch's {layer}, which Flax's has under another name")
        if self.context == "setup" and attribute in facts.held:
            return Value(nodes.name(facts.held[attribute]), kind)
        method = self.script.functions.get(f"{facts.name}.{attribute}")
        if kind is UNKNOWN and method is not None and "property" in method.decorators:
            return Value(node, method.result)
        if kind is UNKNOWN and method is None and facts.is_borrowed(attribute):
            raise Unsupported("MIG201", f"self.{attribute} may be what {facts.borrows} adds, which is not known")
        if attribute in self.kept_aside:
            return self.expr(nodes.name(self.kept_aside[attribute]))
        if attribute in self.moved:
            return Value(nodes.name(self.moved[attribute]), kind)
        if kind is UNKNOWN and attribute in HOLDINGS:
            raise held_elsewhere(node)
        renamed = facts.renamed.get(attribute)
        if renamed:
            node = node.with_changes(attr=cst.Name(renamed))
        if attribute in facts.variables:
            return Value(cst.Attribute(node, cst.Name("value")), kind)
        return self.tied(kind) if isinstance(kind, Tied) and self.context == "forward" else Value(node, kind)

    def settings_of(self, node: Expr) -> Expr:
        """`model` for `model.config` where that holds the arguments of its constructor: its fields, here."""
        path = nodes.dotted(node) or ""
        if not isinstance(node, cst.Attribute) or not path.endswith(".config"):
            return node
        kind = self.expr(node.value).kind
        classes = options(kind.cls) if isinstance(kind, Model | SelfModule) else []
        registers = bool(classes) and all(self.script.classes[cls].registers for cls in classes)
        return node.value if registers else node

    def model_attribute(self, node: cst.Attribute, base: Value, attribute: str) -> Value:
        """`model.x` on the host."""
        assert isinstance(base.kind, Model)
        if attribute == "module":  # of DataParallel
            return base
        if attribute in HOLDINGS:
            raise held_elsewhere(node)
        asked = self.asked_mode(node)
        if asked is not None and base.kind.place is not None:
            return Value(self.read(State(MODE, base.kind.place)), asked)
        if attribute == "n_averaged" and base.kind.place is not None and self.averages(base.kind.place):
            count = self.read(State(COUNT, base.kind.place))
            return Value(nodes.expression("jnp.asarray({n})", n=count), Tensor("int", 0))
        found = [self.script.classes.get(cls) for cls in options(base.kind.cls)]
        of_layer = attribute_of_layer(self, node, base.kind) if self.context in HOST_CONTEXTS else None
        if of_layer is not None:
            return of_layer
        kind = Items(tuple(facts.attributes.get(attribute, UNKNOWN) if facts else UNKNOWN for facts in found)).joined()
        borrows = [facts.borrows for facts in found if facts is not None and facts.is_borrowed(attribute)]
        constant = is_constant(found, attribute)
        known = [facts for facts in found if facts is not None] if constant or is_setting(kind) else []
        hidden = [holder for facts in known if (holder := read_outside(self.script, facts, attribute)) is not None]
        if hidden and (base.kind.place is None or not constant or self.context not in HOST_CONTEXTS):
            raise unseen(node, hidden[0])
        if any(facts is not None and attribute in facts.other_names for facts in found):
            node = node.with_changes(attr=cst.Name(f"{attribute}_"))
        if kind is UNKNOWN and borrows:
            raise Unsupported("MIG201", f".{attribute} may be what {borrows[0]} adds, which is not known")
        part = isinstance(kind, Module | Tied | Tensor) and not constant
        part = part or any(facts is not None and attribute in facts.variables for facts in found)
        if part and self.context in HOST_CONTEXTS:
            raise part_alone(node)
        told = property_of_model(self, node, base, base.kind) if kind is UNKNOWN else None
        if told is not None:
            return told
        owner = base.node
        if hidden and base.kind.place is not None:
            params = self.read(State(PARAMS, base.kind.place))
            owner = nodes.expression('{m}.bind({"params": {p}})', m=owner, p=params)
        return Value(node.with_changes(value=owner), kind)

    def tensor_attribute(self, node: cst.Attribute, base: Value, attribute: str) -> Value:
        """An attribute of a tensor; the others raise Unsupported."""
        x = base.node
        if attribute == "data":
            kind = base.kind.plain if isinstance(base.kind, Leaf) else base.kind
            return Value(nodes.call("jax.lax.stop_gradient", x) if self.under_jit else x, kind, base.layout)
        if attribute in ("real", "imag", "H", "mH", "itemsize", "nbytes"):
            text = {"H": "jnp.conj({x}).T", "mH": "jnp.conj({x}).mT"}.get(attribute, "{x}." + attribute)
            made = nodes.expression(text, x=layouts.first(base))
            return Value(made, Number() if attribute in ("itemsize", "nbytes") else Tensor())
        if attribute == "device":
            return Value(nodes.expression("jax.default_backend()"), Device())
        if attribute == "shape":
            of = nodes.parenthesized(layouts.first(base))
            return Value(node.with_changes(value=of), Items(None, Number(), SHAPE))
        if attribute in ("ndim", "dtype"):
            return Value(node.with_changes(value=nodes.parenthesized(x)), Number() if attribute == "ndim" else DType())
        if attribute == "T":
            return Value(nodes.transposed(layouts.first(base)), Tensor(getattr(base.kind, "dtype", "")))
        if attribute == "mT":
            made = node.with_changes(value=nodes.parenthesized(layouts.first(base)))
            return Value(made, Tensor(getattr(base.kind, "dtype", "")))
        if attribute == "is_cuda":
            return Value(nodes.expression('jax.default_backend() == "gpu"'), Number())
        if attribute in ("is_xpu", "is_mps"):
            backend = "xpu" if attribute == "is_xpu" else "METAL"
            return Value(nodes.expression(f'jax.default_backend() == "{backend}"'), Number())
        if attribute == "requires_grad" and isinstance(base.kind, Weight):
            return self.asked_of_weight(node)
        raise Unsupported("MIG301", f"Tensor.{attribute}")

    def expr_NamedExpr(self, node: cst.NamedExpr) -> Value:
        value = self.expr(node.value)
        if isinstance(node.target, cst.Name):
            self.env.kinds[node.target.value] = value.kind
        return Value(node.with_changes(value=layouts.first(value)), value.kind)

    def expr_StarredElement(self, node: cst.StarredElement) -> Value:
        return Value(node.with_changes(value=self.node(node.value)))

    def expr_Await(self, node: cst.Await) -> Value:
        value = self.expr(node.expression)
        return Value(node.with_changes(expression=layouts.first(value)), value.kind)

    def expr_Yield(self, node: cst.Yield) -> Value:
        """What a generator gives is what a loop over its calls takes."""
        if node.value is None:
            return Value(node)
        inner = node.value.item if isinstance(node.value, cst.From) else node.value
        value = self.expr(inner)
        self.use(inner, value)
        if self.facts is not None:
            kind = loop_kind(value.kind, 0) if isinstance(node.value, cst.From) else value.kind
            self.facts.yields = join(self.facts.yields, kind)
        made = layouts.first(value)
        return Value(node.with_changes(value=cst.From(made) if isinstance(node.value, cst.From) else made))

    def expr_Lambda(self, node: cst.Lambda) -> Value:
        inner = self.inner({p.name.value: UNKNOWN for p in node.params.params})
        inner.unnamed = frozenset(inner.env.kinds)
        made = inner.usable(inner.expr(node.body))
        module = isinstance(made.kind, Module) and isinstance(node.body, cst.Call) and self.context != "forward"
        if module and not _is_activation(made.kind):
            raise Unsupported("MIG201", f"{nodes.code(node)} makes a module: name the class, or use functools.partial")
        inner.use(node.body, made)
        return Value(node.with_changes(body=layouts.first(made)), Plain("function"))


def _gives_pair(node: cst.Attribute) -> bool:
    """Whether what an attribute is read of is a call of a method of tensors that gives values with their indices."""
    called = node.value.func if isinstance(node.value, cst.Call) else None
    return isinstance(called, cst.Attribute) and called.attr.value in _PAIRS


def _is_activation(kind: Kind) -> bool:
    """Whether a module is a layer without weights, for which it is no matter where channels are."""
    return isinstance(kind, Module) and (kind.entry, kind.exit) == ("any", "any") and is_function(kind)


def part_alone(node: cst.Attribute) -> Unsupported:
    """The refusal of what a script reads of a part of a model, `model.head.scale`, `model[0].weight`."""
    return Unsupported("MIG301", f"{nodes.code(node)}: a part of a model, which has no weights of its own in Flax")


def _field(base: Value, attribute: str) -> Value:
    """A part of a result by its name."""
    assert isinstance(base.kind, Items) and base.kind.items is not None
    number, count = _FIELDS[attribute], len(base.kind.items)
    kind = part_kind(base.kind, number, count)
    if isinstance(base.node, cst.Tuple):
        return Value(base.node.elements[number].value, kind)
    return Value(nodes.expression("{x}[" + str(number) + "]", x=base.node), kind)
