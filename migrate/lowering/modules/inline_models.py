"""Models that a script makes of torch's layers alone: `model = nn.Sequential(...)`, `model = nn.Linear(3, 2)`.

Where nothing in it depends on the mode or on where channels are, the Flax layer is the model. Otherwise, and where a
script makes several, each gets a module class of its own, called after its variable, which has a field for the mode.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import LayerNode, ListNode, weights_held
from migrate.known.facts import ClassFacts
from migrate.known.kinds import UNKNOWN, Function, Model, Module, Place, Tensor
from migrate.known.qualified import inside, is_module
from migrate.known.script import INLINE
from migrate.known.states import MODES
from migrate.layers.table import TABLE
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.modules.module_lists import hashable
from migrate.lowering.modules.setup import Setup, own_fields
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.chains import unchained
from migrate.syntax.nodes import Expr, Statement
from migrate.targets import linen

_IN_ANY_SCOPE = {"nn", "jnp", "jax", "torch_init"}
_ANYTHING = "*args, **kwargs", nodes.expression("self.layers(*args, **kwargs)")  # parameters, and what they make


class InlineModels(Setup, Binding):
    """Models without a class."""

    def constructed(self, node: Expr, target: cst.CSTNode) -> Value:
        """The value of an assignment; what torch layers do in it is noted for the model that it makes."""
        node = self.row_written_out(node)
        holder = self.holder_of(target, node)
        if holder:
            return self.given(node, holder)
        made = unchained(node)
        name = self.torch_name(made.func) if isinstance(made, cst.Call) else None
        maker = self.kind_of(made.func) if isinstance(made, cst.Call) else UNKNOWN
        built = isinstance(maker, Function) and self.script.functions[maker.name].wants_mode
        if (
            self.context not in HOST_CONTEXTS
            or self.building
            or not (built or name == "torch.nn.Sequential" or name in TABLE)
        ):
            return self.expr(node)
        inner = copy.copy(self)
        inner.cls = self.inline_name(self.place_of(target))
        if isinstance(made, cst.Call) and name in TABLE:
            self.script.layers_alone.setdefault(inner.cls, {}).setdefault(nodes.code(made), made)
        before = self.script.classes.get(inner.cls)  # what `apply(init_fn)` gave its layers in the round before
        given = before or ClassFacts(inner.cls)
        inner.making = "self"
        self.script.classes[inner.cls] = ClassFacts(
            inner.cls,
            initializers=given.initializers,
            asked=given.asked,
            found_asked=given.found_asked,
            asked_at=given.asked_at,
            found_asked_at=given.found_asked_at,
            fillings=given.fillings,
            found_fillings=given.found_fillings,
        )
        value = inner.expr(_without_modes(node))
        return value if isinstance(value.kind, Module) or not built else self.expr(node)

    def inline_name(self, place: Place) -> str:
        """The name that a model made in place has among the classes."""
        words = re.split(r"[_\W]+", place.short)
        return inside(self.unit.scope, "".join(word[:1].upper() + word[1:] for word in words) + INLINE + place.short)

    def inline_model(self, kind: Module, value: Value, target: cst.CSTNode, written: Expr) -> Value:
        """`model = nn.Sequential(...)` outside a class: a model without a class of its own; a layer without weights is
        a function."""
        place = self.place_of(target)
        (option, *others) = kind.options or (LayerNode(""),)
        if isinstance(option, ListNode) and option.infix != "/layers_":
            raise Unsupported("MIG201", "a list of modules that no module class holds")
        if others or place == NOWHERE or "mixed" in (kind.entry, kind.exit):
            raise Unsupported("MIG201", f"{nodes.code(value.node)}: a layer that no module class holds")
        name = self.inline_name(place)
        facts = self.script.classes.setdefault(name, ClassFacts(name))
        facts.children = {"": option}
        if isinstance(option, LayerNode) and not option.weights and not facts.own_trains:
            del self.script.classes[name]
            return value
        flax = (nodes.dotted(value.node.func) or "").rpartition(".")[2] if isinstance(value.node, cst.Call) else ""
        maker = self.kind_of(written.func) if isinstance(written, cst.Call) else UNKNOWN
        if isinstance(maker, Function) and isinstance(option, ListNode):  # the name of the function is not the class's
            flax = "Sequential"
        inline = [found for key, found in self.script.classes.items() if INLINE in key and key != name]
        facts.made_as = nodes.code(value.node) if set(usage.loads(value.node)) <= _IN_ANY_SCOPE else ""
        # Of one class: they are described once. Those that hold the same weights may exchange them, and are alike.
        held = weights_held(option)
        others_of = [one for one in inline if one.output_name == flax or held == weights_held(one.children.get(""))]
        several = any(not facts.made_as or one.made_as != facts.made_as for one in others_of)
        moved = "last" in (kind.entry, kind.exit)  # its callers have channels where torch has them
        if self.script.trains(name) or moved or several or not flax:
            made = self.own_class(facts, kind, value.node)
            return replace(made, kind=Model(name, mode=_mode_of(written)))
        facts.inline = True
        facts.output_name = flax
        handed_on = not self.is_global(place) or place in self.script.parameters_of.values()
        if isinstance(maker, Function):
            self.script.functions[maker.name].makes_models |= handed_on
        return Value(hashable(value.node) if handed_on else value.node, Model(name))

    def own_class(self, facts: ClassFacts, kind: Module, node: Expr) -> Value:
        """The module class that stands for a model made in place. What it takes of a function's variables is given to
        its constructor."""
        facts.renamed = {"": "layers"}
        fields = {} if is_module(self.scope) else self.local_parts(node)
        inner = nodes.visited(node, _Fields({text: name for name, text in fields.items()}))
        params, returned = ("x", _passed(kind)) if _takes_one(kind) else _ANYTHING

        def make(name: str) -> list[Statement]:
            text = f"class {name}(nn.Module):\n    def setup(self):\n        pass\n\n"
            text += f"    def __call__(self, {params}):\n        pass\n"
            made = cst.parse_module(text).body[0]
            assert isinstance(made, cst.ClassDef)
            setup, forward = made.body.body
            assert isinstance(setup, cst.FunctionDef) and isinstance(forward, cst.FunctionDef)
            held = nodes.statement("self.layers = {layers}", layers=inner)
            given = nodes.statement("return {x}", x=returned)
            declared = [nodes.statement(f"{field}: Any") for field in fields]
            declared += own_fields(self.script, facts.name)
            blank = [cst.EmptyLine(indent=False)] if declared else []
            body = [
                *declared,
                setup.with_changes(body=cst.IndentedBlock([held]), leading_lines=blank),
                forward.with_changes(body=cst.IndentedBlock([given])),
            ]
            return [made.with_changes(body=cst.IndentedBlock(body))]

        wanted = facts.name.rpartition(":")[2].partition(INLINE)[0]
        marks = f"{wanted} {nodes.code(inner)} {sorted(fields)} {self.script.trains(facts.name)}"
        facts.output_name = self.unit.helper(wanted, make, marks)
        arguments = {field: cst.parse_expression(text) for field, text in fields.items()}
        return Value(nodes.call(facts.output_name, **arguments), Model(facts.name))

    def local_parts(self, node: Expr) -> dict[str, str]:
        """The variables of this function in an expression, or their attributes: the field for each -> its text."""
        found: dict[str, str] = {}
        local = {name for name in usage.loads(node) if name in self.env.kinds}
        for text in re.findall(r"(?<![\w.])[A-Za-z_]\w*(?:\.\w+)*", nodes.code(node)):
            if text.partition(".")[0] in local and text != "self.training":
                found.setdefault(text.rpartition(".")[2], text)
        return found


def _takes_one(kind: Module) -> bool:
    """Whether what a model is made of is called with one array: layers one after the other, or one of most layers."""
    (option,) = kind.options
    return not isinstance(option, LayerNode) or len(linen.call_signature(TABLE[option.torch])) == 1


def _passed(kind: Module) -> Expr:
    """What the layers of a model make of its input `x`, with the channels where torch has them."""
    entered = layouts.enter(Value(nodes.name("x"), Tensor()), kind)
    return layouts.first(layouts.leave(kind, nodes.call("self.layers", entered.node), entered))


def _without_modes(node: Expr) -> Expr:
    """`nn.Sequential(...)` for `nn.Sequential(...).eval()`: its model is put in that mode, not its layers."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return node
    if node.func.attr.value in MODES:
        return _without_modes(node.func.value)
    return node.with_changes(func=node.func.with_changes(value=_without_modes(node.func.value)))


def _mode_of(node: Expr) -> str:
    """ "eval" where a model is made as in `nn.Sequential(...).eval()`."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value in MODES:
            return node.func.attr.value
        node = node.func.value
    return ""


class _Fields(cst.CSTTransformer):
    """Replaces variables and their attributes by the fields that hold them."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__()
        self.fields = fields

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return nodes.dotted(node) not in self.fields

    def visit_Arg_keyword(self, node: cst.Arg) -> None:
        pass

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        name = self.fields.get(nodes.dotted(original_node) or "")
        return nodes.expression(f"self.{name}") if name else updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        name = self.fields.get(original_node.value)
        return nodes.expression(f"self.{name}") if name else updated_node
