"""Pass 4: expressions. Each is lowered to a Value: its node in JAX, what is known of it, where its channels are."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts, nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    UNKNOWN,
    ClassNode,
    Device,
    DType,
    Host,
    Items,
    Kind,
    ListNode,
    Model,
    Module,
    Number,
    Parameters,
    Plain,
    SelfModule,
    Tensor,
    TorchName,
    Weight,
    join,
)
from migrate.nodes import Expr, Statement
from migrate.rules.creation import DTYPES
from migrate.rules.rule import Value
from migrate.scope import Environment, Unit, known
from migrate.script import Script

_COMPARISONS_OF_IDENTITY = (cst.Is, cst.IsNot, cst.In, cst.NotIn)
_NUMBERS = (cst.Integer, cst.Float, cst.Imaginary)
_DATA = ("torch.utils.data", "torchvision", "torch.utils.tensorboard", "torchtext", "torchaudio")


def is_data_api(name: str) -> bool:
    """Whether a torch name belongs to data loading or logging, which stays torch."""
    return name.startswith(_DATA)


class Expressions:
    """Lowering of expressions in one scope."""

    unit: Unit
    script: Script
    env: Environment
    scope: str  # qualified name of the function, "" for the module
    cls: str  # the nn.Module class whose method this is, or ""
    context: str  # "module", "function", "method" (of a host class), "setup", "forward", "region"
    before: list[Statement]  # statements that must run before the one being lowered
    nested = False  # inside a comprehension or a lambda, which runs its parts many times

    # -- entry points -------------------------------------------------------------------------------------------------

    def expr(self, node: Expr) -> Value:
        """Lowers any expression. Parts that are not rooted in torch keep their formatting."""
        handler = getattr(self, f"expr_{type(node).__name__}", None)
        if handler is not None:
            value = handler(node)
            return self._parenthesized(node, value)
        if isinstance(node, _NUMBERS):
            return Value(node, Number())
        if isinstance(node, cst.SimpleString | cst.ConcatenatedString):
            return Value(node, Plain("str"))
        return Value(node, UNKNOWN)

    def node(self, node: Expr) -> Expr:
        """Lowers an expression; its channels are first."""
        value = self.expr(node)
        self.use(node, value)
        return layouts.first(value)

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
        if isinstance(value.kind, Device) and isinstance(node, cst.Name):
            self.script.device_used.add(node.value)

    @staticmethod
    def refuse_torch(value: Value) -> None:
        """A torch function or class used as a value would still be torch when the output runs."""
        if isinstance(value.kind, TorchName) and not is_data_api(value.kind.name) and "." in value.kind.name:
            raise Unsupported("MIG304", f"{value.kind.name} is used as a value")

    def array(self, node: Expr) -> Value:
        """Lowers an expression that JAX code takes: a torch tensor of the data loading is converted."""
        return self.as_array(self.expr(node))

    def as_array(self, value: Value) -> Value:
        if isinstance(value.kind, Host) and value.kind.what in ("tensor", "batch"):
            if value.kind.origin:
                self.script.wanted.add(value.kind.origin)
            return Value(nodes.call("jnp.asarray", value.node), Tensor())
        return value

    @staticmethod
    def _parenthesized(original: Expr, value: Value) -> Value:
        if not original.lpar or value.node.lpar or not nodes.needs_parentheses(value.node):
            return value
        return replace(value, node=value.node.with_changes(lpar=original.lpar, rpar=original.rpar))

    # -- names --------------------------------------------------------------------------------------------------------

    def kind_of_name(self, name: str) -> Kind:
        return known(self.env.lookup(name))

    def expr_Name(self, node: cst.Name) -> Value:
        if node.value in ("True", "False"):
            return Value(node, Number())
        if node.value == "None":
            return Value(node, Plain("None"))
        kind = self.kind_of_name(node.value)
        if isinstance(kind, TorchName):
            return self.torch_value(kind.name, node)
        layout = "last" if node.value in self.env.last else "first"
        return Value(node, kind, layout)

    def torch_value(self, name: str, node: Expr) -> Value:
        """A torch name used as a value."""
        if name in DTYPES:
            return Value(nodes.expression(DTYPES[name][0]), DType())
        if name in ("torch.inf", "torch.nan", "torch.pi", "torch.e"):
            return Value(nodes.expression(f"jnp.{name[6:]}"), Number())
        if name == "torch.Tensor":
            return Value(nodes.expression("jax.Array"), Plain("type"))
        if name == "torch.__version__":
            return Value(nodes.expression("jax.__version__"), Plain("str"))
        return Value(node, TorchName(name))

    def expr_Attribute(self, node: cst.Attribute) -> Value:
        attribute = node.attr.value
        base = self.expr(node.value)
        if isinstance(base.kind, TorchName):
            return self.torch_value(f"{base.kind.name}.{attribute}", node)
        if isinstance(base.kind, SelfModule):
            return self.self_attribute(node, base.kind, attribute)
        if isinstance(base.kind, Tensor | Weight):
            return self.tensor_attribute(node, base, attribute)
        if isinstance(base.kind, Host):
            tensor = base.kind.what == "tensor"
            kind: Kind = Number() if tensor and attribute in ("shape", "ndim", "dtype") else Host("data")
            return Value(node.with_changes(value=base.node), kind)
        if isinstance(base.kind, Model):
            return self.model_attribute(node, base, attribute)
        return Value(node.with_changes(value=nodes.parenthesized(layouts.first(base))), self.attribute_kind(node, base))

    def attribute_kind(self, node: cst.Attribute, base: Value) -> Kind:
        """The kind of an attribute of some other object (a trainer's `self.model`, for example)."""
        if isinstance(node.value, cst.Name) and node.value.value == "self":
            return self.kind_of_name(f"self.{node.attr.value}")
        return UNKNOWN

    def self_attribute(self, node: cst.Attribute, owner: SelfModule, attribute: str) -> Value:
        facts = self.script.classes[owner.cls]
        if attribute == "training":
            facts.own_trains = True
            return Value(node, Number())
        kind = facts.attributes.get(attribute, UNKNOWN)
        renamed = facts.renamed.get(attribute)
        if renamed:
            node = node.with_changes(attr=cst.Name(renamed))
        return Value(node, kind)

    def model_attribute(self, node: cst.Attribute, base: Value, attribute: str) -> Value:
        assert isinstance(base.kind, Model)
        if attribute == "module":  # of DataParallel
            return base
        facts = self.script.classes.get(base.kind.cls)
        kind = facts.attributes.get(attribute, UNKNOWN) if facts else UNKNOWN
        return Value(node.with_changes(value=base.node), kind)

    def tensor_attribute(self, node: cst.Attribute, base: Value, attribute: str) -> Value:
        x = base.node
        if attribute in ("data", "real"):
            return base
        if attribute == "device":
            return Value(nodes.name("None"), Device())
        if attribute == "shape":
            return Value(
                node.with_changes(value=nodes.parenthesized(layouts.first(base))), Items(None, Number(), "tuple")
            )
        if attribute in ("ndim", "dtype"):
            return Value(node.with_changes(value=nodes.parenthesized(x)), Number() if attribute == "ndim" else DType())
        if attribute in ("T", "mT"):
            return Value(node.with_changes(value=nodes.parenthesized(x)), Tensor(getattr(base.kind, "dtype", "")))
        if attribute == "is_cuda":
            return Value(nodes.expression('jax.default_backend() == "gpu"'), Number())
        if attribute == "requires_grad" and isinstance(base.kind, Weight):
            return Value(nodes.name("True"), Number())
        raise Unsupported("MIG301", f"Tensor.{attribute}")

    # -- containers ---------------------------------------------------------------------------------------------------

    def _elements(self, elements: Sequence[cst.BaseElement]) -> tuple[list[cst.BaseElement], list[Kind] | None]:
        made: list[cst.BaseElement] = []
        kinds: list[Kind] | None = []
        for element in elements:
            value = self.expr(element.value)
            made.append(element.with_changes(value=layouts.first(value)))
            if isinstance(element, cst.StarredElement):
                kinds = None
            elif kinds is not None:
                kinds.append(value.kind)
        return made, kinds

    def expr_Tuple(self, node: cst.Tuple) -> Value:
        made, kinds = self._elements(node.elements)
        return Value(node.with_changes(elements=made), Items(None if kinds is None else tuple(kinds), type="tuple"))

    def expr_List(self, node: cst.List) -> Value:
        made, kinds = self._elements(node.elements)
        return Value(node.with_changes(elements=made), Items(None if kinds is None else tuple(kinds)))

    def expr_Set(self, node: cst.Set) -> Value:
        return Value(node.with_changes(elements=self._elements(node.elements)[0]), Plain())

    def expr_Dict(self, node: cst.Dict) -> Value:
        made = []
        for element in node.elements:
            changes = {"value": self.node(element.value)}
            if isinstance(element, cst.DictElement):
                changes["key"] = self.node(element.key)
            made.append(element.with_changes(**changes))
        return Value(node.with_changes(elements=made), Plain("dict"))

    def expr_FormattedString(self, node: cst.FormattedString) -> Value:
        parts = []
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                part = part.with_changes(expression=self.node(part.expression))
            parts.append(part)
        return Value(node.with_changes(parts=parts), Plain("str"))

    # -- operators ----------------------------------------------------------------------------------------------------

    def expr_BinaryOperation(self, node: cst.BinaryOperation) -> Value:
        left, right = self.expr(node.left), self.expr(node.right)
        if isinstance(node.operator, cst.FloorDivide | cst.Modulo):
            self.note_type(node.left, "int")
            self.note_type(node.right, "int")
        hosts = [value for value in (left, right) if isinstance(value.kind, Host)]
        if hosts:
            if any(isinstance(value.kind, Tensor) for value in (left, right)):
                left, right = self.as_array(left), self.as_array(right)
            else:
                return Value(node.with_changes(left=left.node, right=right.node), Host("tensor"))
        if isinstance(node.operator, cst.MatrixMultiply):
            left, right = Value(layouts.first(left), left.kind), Value(layouts.first(right), right.kind)
        left, right = layouts.agree([left, right])
        layout = "last" if "last" in (left.layout, right.layout) else "first"
        made = node.with_changes(left=self._operand(node.left, left.node), right=self._operand(node.right, right.node))
        return Value(made, self._arithmetic(node.operator, left.kind, right.kind), layout)

    @staticmethod
    def _operand(original: Expr, node: Expr) -> Expr:
        """Keeps the user's own choice of parentheses unless the rewritten operand needs them."""
        return node if type(original) is type(node) else nodes.parenthesized(node)

    @staticmethod
    def _arithmetic(operator: cst.BaseBinaryOp, left: Kind, right: Kind) -> Kind:
        if isinstance(left, Weight) or isinstance(right, Weight):
            return Tensor("float")
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            tensors = [kind for kind in (left, right) if isinstance(kind, Tensor)]
            dtype = (
                "float" if any(kind.dtype == "float" for kind in tensors) or isinstance(operator, cst.Divide) else ""
            )
            rank = tensors[0].rank if len(tensors) == 1 or tensors[0].rank == tensors[-1].rank else -1
            if isinstance(operator, cst.MatrixMultiply):
                rank = -1
            origins = frozenset().union(*(kind.origins for kind in tensors))
            return Tensor(dtype, rank, origins=origins)
        if isinstance(left, Number) and isinstance(right, Number):
            return Number()
        if isinstance(left, Items) and isinstance(operator, cst.Add):
            return Items(None, join(left.joined(), right.joined()), left.type) if isinstance(right, Items) else UNKNOWN
        if isinstance(left, Items) and isinstance(operator, cst.Multiply):
            return Items(None, left.joined(), left.type)
        if isinstance(left, Plain) and left.what == "str":
            return left
        return UNKNOWN

    def expr_UnaryOperation(self, node: cst.UnaryOperation) -> Value:
        value = self.expr(node.expression)
        kind = Number() if isinstance(node.operator, cst.Not) else value.kind
        return Value(node.with_changes(expression=self._operand(node.expression, value.node)), kind, value.layout)

    def expr_BooleanOperation(self, node: cst.BooleanOperation) -> Value:
        left, right = self.expr(node.left), self.expr(node.right)
        made = node.with_changes(
            left=self._operand(node.left, layouts.first(left)), right=self._operand(node.right, layouts.first(right))
        )
        if isinstance(left.kind, Device) or isinstance(right.kind, Device):
            return Value(made, Device())
        return Value(made, join(left.kind, right.kind))

    def expr_Comparison(self, node: cst.Comparison) -> Value:
        left = self.expr(node.left)
        values = [left] + [self.expr(target.comparator) for target in node.comparisons]
        self.use(node.left, left)
        if any(isinstance(value.kind, Tensor) for value in values):
            values = [self.as_array(value) for value in values]
        identity = any(isinstance(target.operator, _COMPARISONS_OF_IDENTITY) for target in node.comparisons)
        kind: Kind = Number()
        if not identity:
            tensor = next((value.kind for value in values if isinstance(value.kind, Tensor)), None)
            if tensor is not None:
                kind = replace(tensor, dtype="bool")
            elif any(isinstance(value.kind, Host) for value in values):
                kind = Host("tensor")
        targets = [
            target.with_changes(comparator=self._operand(target.comparator, layouts.first(value)))
            for target, value in zip(node.comparisons, values[1:], strict=True)
        ]
        return Value(
            node.with_changes(left=self._operand(node.left, layouts.first(values[0])), comparisons=targets), kind
        )

    def expr_IfExp(self, node: cst.IfExp) -> Value:
        body, orelse = self.expr(node.body), self.expr(node.orelse)
        if isinstance(body.kind, Device) or isinstance(orelse.kind, Device):
            return Value(node, Device())
        test = self.node(node.test)
        if _device_string(node.body) and _device_string(node.orelse):
            return Value(nodes.expression("jax.default_backend()"), Device())
        made = node.with_changes(test=test, body=layouts.first(body), orelse=layouts.first(orelse))
        return Value(made, join(body.kind, orelse.kind))

    def expr_NamedExpr(self, node: cst.NamedExpr) -> Value:
        value = self.expr(node.value)
        if isinstance(node.target, cst.Name):
            self.env.kinds[node.target.value] = value.kind
        return Value(node.with_changes(value=layouts.first(value)), value.kind)

    def expr_StarredElement(self, node: cst.StarredElement) -> Value:
        return Value(node.with_changes(value=self.node(node.value)))

    def expr_Lambda(self, node: cst.Lambda) -> Value:
        inner = self.inner({p.name.value: UNKNOWN for p in node.params.params})
        return Value(node.with_changes(body=inner.node(node.body)), Plain("function"))

    def inner(self, bound: dict[str, Kind]) -> Expressions:
        """A lowering of the same scope in which some names mean something else."""
        made = copy.copy(self)
        made.nested = True
        made.env = Environment(dict(bound), outer=self.env)
        made.env.modes = self.env.modes
        return made

    # -- subscripts ---------------------------------------------------------------------------------------------------

    def expr_Subscript(self, node: cst.Subscript) -> Value:
        length = self.axis_length(node)
        if length is not None:
            return length
        base = self.expr(node.value)
        slices, indices = [], []
        for element in node.slice:
            index = element.slice
            if isinstance(index, cst.Index):
                value = self.expr(index.value)
                if isinstance(base.kind, Tensor):
                    value = self.as_array(value)
                indices.append(value)
                index = index.with_changes(value=layouts.first(value))
            elif isinstance(index, cst.Slice):
                parts = {part: getattr(index, part) for part in ("lower", "upper", "step")}
                index = index.with_changes(
                    **{part: self.node(found) for part, found in parts.items() if found is not None}
                )
                indices.append(None)
            slices.append(element.with_changes(slice=index))
        made = node.with_changes(value=nodes.parenthesized(layouts.first(base)), slice=slices)
        return Value(made, self.item_kind(base.kind, node, indices))

    def axis_length(self, node: cst.Subscript) -> Value | None:
        """`x.shape[i]` of a value whose channels are last: the length is looked up where the axis is now."""
        if not isinstance(node.value, cst.Attribute) or node.value.attr.value != "shape" or len(node.slice) != 1:
            return None
        index = node.slice[0].slice
        axis = nodes.literal(index.value) if isinstance(index, cst.Index) else ...
        base = self.expr(node.value.value) if isinstance(node.value.value, cst.Name) else None
        if base is None or not isinstance(axis, int):
            return None
        return self.moved_length(base, axis)

    @staticmethod
    def moved_length(base: Value, axis: int) -> Value | None:
        rank = layouts.rank(base)
        if base.layout != "last" or not rank:
            return None
        axis %= rank
        moved = 0 if axis == 0 else rank - 1 if axis == 1 else axis - 1
        return Value(nodes.expression("{x}.shape[{axis}]", x=base.node, axis=moved), Number())

    def item_kind(self, kind: Kind, node: cst.Subscript, indices: list[Value | None]) -> Kind:
        """The kind of `x[...]`."""
        if isinstance(kind, Tensor):
            rank = kind.rank
            for index in indices:
                if index is not None and rank >= 0:
                    plain = isinstance(index.kind, Number)
                    rank = (
                        rank - 1 if plain else rank if isinstance(index.kind, Tensor) and index.kind.rank == 1 else -1
                    )
            if any(nodes.is_literal(index.node, None) for index in indices if index is not None):
                rank = -1
            return replace(kind, rank=rank, optional=False)
        if isinstance(kind, Host):
            return Host("tensor", kind.origin) if kind.what in ("tensor", "batch") else Host("tensor")
        if isinstance(kind, Items):
            number = nodes.literal(node.slice[0].slice.value) if isinstance(node.slice[0].slice, cst.Index) else ...
            if isinstance(number, int) and kind.items is not None and -len(kind.items) <= number < len(kind.items):
                return kind.items[number]
            return Items(None, kind.joined(), kind.type) if number is ... and indices[0] is None else kind.joined()
        if isinstance(kind, Module):
            return self.element_of(kind)
        return UNKNOWN

    @staticmethod
    def element_of(kind: Module) -> Kind:
        """What is taken out of a ModuleList or a Sequential."""
        made: Kind = UNKNOWN
        for option in kind.options:
            if isinstance(option, ListNode):
                for child in option.children:
                    entry = "first" if isinstance(child, ClassNode) else kind.entry
                    element = Module((child,), entry, "first" if isinstance(child, ClassNode) else kind.exit, kind.rank)
                    made = element if made is UNKNOWN else join(made, element)
        return made

    # -- comprehensions -----------------------------------------------------------------------------------------------

    def _comprehension(self, node: cst.BaseComp) -> Value:
        inner = self.inner({})
        made_for = inner.comp_for(node.for_in)
        if isinstance(node, cst.DictComp):
            return Value(
                node.with_changes(key=inner.node(node.key), value=inner.node(node.value), for_in=made_for),
                Plain("dict"),
            )
        assert isinstance(node, cst.ListComp | cst.GeneratorExp | cst.SetComp)
        element = inner.expr(node.elt)
        made = node.with_changes(elt=layouts.first(element), for_in=made_for)
        return Value(made, Items(None, element.kind))

    def expr_ListComp(self, node: cst.ListComp) -> Value:
        return self._comprehension(node)

    def expr_GeneratorExp(self, node: cst.GeneratorExp) -> Value:
        return self._comprehension(node)

    def expr_SetComp(self, node: cst.SetComp) -> Value:
        return self._comprehension(node)

    def expr_DictComp(self, node: cst.DictComp) -> Value:
        return self._comprehension(node)

    def comp_for(self, node: cst.CompFor) -> cst.CompFor:
        iterated = self.expr(node.iter)
        self.bind(node.target, self.iterated(iterated.kind, id(node)))
        ifs = [condition.with_changes(test=self.node(condition.test)) for condition in node.ifs]
        inner = self.comp_for(node.inner_for_in) if node.inner_for_in else None
        return node.with_changes(iter=layouts.first(iterated), ifs=ifs, inner_for_in=inner)

    # -- binding ------------------------------------------------------------------------------------------------------

    def bind(self, target: cst.CSTNode, kind: Kind, layout: str = "first") -> None:
        """Binds the names of an assignment target."""
        if isinstance(target, cst.Name):
            self.env.kinds[target.value] = kind
            self.env.last.pop(target.value, None)
            if layout == "last" and isinstance(kind, Tensor):
                self.env.last[target.value] = kind.rank
        elif isinstance(target, cst.Tuple | cst.List):
            count = len(target.elements)
            for number, element in enumerate(target.elements):
                self.bind(element.value, self.part(kind, number, count))
        elif isinstance(target, cst.Attribute) and nodes.dotted(target.value) == "self":
            self.env.kinds[f"self.{target.attr.value}"] = kind

    @staticmethod
    def part(kind: Kind, number: int, count: int) -> Kind:
        """The kind of one element of an unpacked value."""
        if isinstance(kind, Items):
            if kind.items is not None and len(kind.items) == count:
                return kind.items[number]
            return kind.joined()
        if isinstance(kind, Host):
            return Host("tensor", kind.origin) if kind.what in ("batch", "tensor") else Host("data")
        if isinstance(kind, Tensor):
            return replace(kind, rank=kind.rank - 1 if kind.rank > 0 else -1)
        return UNKNOWN

    def iterated(self, kind: Kind, origin: int) -> Kind:
        """The kind of the loop variable over a value of this kind."""
        if isinstance(kind, Items):
            return kind.joined()
        if isinstance(kind, Tensor):
            return replace(kind, rank=kind.rank - 1 if kind.rank > 0 else -1)
        if isinstance(kind, Host):
            return Host("batch", origin)
        if isinstance(kind, Module):
            return self.element_of(kind)
        if isinstance(kind, Parameters):
            return Items((Plain("str"), Weight()), type="tuple") if kind.named else Weight()
        return UNKNOWN


def _device_string(node: Expr) -> bool:
    value = nodes.literal(node)
    if isinstance(node, cst.IfExp):
        return _device_string(node.body) and _device_string(node.orelse)
    return isinstance(value, str) and value.split(":")[0] in ("cpu", "cuda", "mps", "xla", "xpu", "tpu", "gpu")
