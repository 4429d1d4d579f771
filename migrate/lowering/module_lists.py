"""Lists of modules."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    Items,
    LayerNode,
    ListNode,
    Module,
    Node,
    join,
)
from migrate.lowering.scope import Scope
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.script import (
    ClassFacts,
)
from migrate.targets import linen


class ModuleLists(Scope):
    """nn.Sequential and nn.ModuleList, written out or built by a loop."""

    def growing_list(self, facts: ClassFacts, name: str) -> list[Statement]:
        """`self.x = nn.ModuleList()`, filled by `append`: a plain list until it is whole, since Flax freezes
        attributes."""
        local = name if name not in facts.fields else f"{name}_list"
        self.growing[name] = local
        return [nodes.statement(f"{local} = []")]

    def grown_lists(self, facts: ClassFacts) -> list[Statement]:
        """The assignments that make attributes of the lists that were filled."""
        made: list[Statement] = []
        for name, local in self.growing.items():
            kind = facts.attributes[name]
            assert isinstance(kind, Items)
            element = kind.joined()
            if isinstance(element, Module):
                tree = ListNode(element.options, "_", dynamic=True)
                facts.attributes[name] = Module((tree,), element.entry, element.exit, element.rank)
                facts.children[name] = tree
            if name in facts.fields:
                facts.renamed[name] = f"{name}_list"
            made.append(nodes.statement(f"self.{facts.renamed.get(name, name)} = {local}"))
        self.growing = {}
        return made

    def grow(self, facts: ClassFacts, node: cst.Call) -> list[Statement] | None:
        """`self.x.append(module)`."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("append", "extend"):
            return None
        name = (nodes.dotted(func.value) or "").removeprefix("self.")
        local = self.growing.get(name)
        if local is None:
            return None
        value = self.expr(node.args[0].value)
        kind = facts.attributes[name]
        assert isinstance(kind, Items)
        added = value.kind.joined() if func.attr.value == "extend" and isinstance(value.kind, Items) else value.kind
        if not isinstance(added, Module):
            raise Unsupported("MIG201", f"{nodes.code(node)}: not known to be a module")
        facts.attributes[name] = Items(None, join(kind.joined(), added), "modules")
        return [nodes.statement(f"{local}.{func.attr.value}({{x}})", x=bare_lambda(value.node))]

    def torch_nn_Sequential(self, node: cst.Call) -> Value:
        """Layers in a row: channels stay last between those that want them so."""
        if len(node.args) == 1 and node.args[0].star == "*":
            return self.dynamic_list(node.args[0].value, "/layers_")
        if len(node.args) == 1 and isinstance(node.args[0].value, cst.Call):
            name = nodes.dotted(node.args[0].value.func) or ""
            if name.endswith("OrderedDict"):
                raise Unsupported("MIG201", "nn.Sequential of an OrderedDict")
        values = [self.expr(arg.value) for arg in node.args]
        return self.sequence(values)

    def sequence(self, values: Sequence[Value]) -> Value:
        """`nn.Sequential` of known layers, with a move between two that want their channels in different places. Such a
        move has a number in Flax's list (`layers_3`) but none in torch's: its node in the tree has no torch name."""
        elements: list[Expr] = []
        children: list[Node] = []
        layout, entry, rank = "any", "any", 0
        for value in values:
            kind = value.kind
            if not isinstance(kind, Module) or len(kind.options) != 1:
                raise Unsupported("MIG201", f"nn.Sequential of {nodes.code(value.node)}, which is no known layer")
            if kind.entry == "last" and layout == "first":
                elements.append(nodes.expression("lambda x: {x}", x=linen.channels_last(nodes.name("x"), kind.rank)))
                children.append(LayerNode(""))
            if kind.entry == "first" and layout == "last":
                elements.append(nodes.expression("lambda x: {x}", x=linen.channels_first(nodes.name("x"), rank)))
                children.append(LayerNode(""))
            if layout == "any" and kind.entry != "any":
                entry = kind.entry
            if kind.exit != "any":
                layout, rank = kind.exit, kind.rank or rank
            elements.append(bare_lambda(value.node))
            children.append(kind.options[0])
        made = cst.Call(nodes.expression("nn.Sequential"), [cst.Arg(_layer_list(elements))])
        first_rank = next((v.kind.rank for v in values if isinstance(v.kind, Module) and v.kind.entry == "last"), 0)
        return Value(made, Module((ListNode(tuple(children), "/layers_"),), entry, layout, first_rank or rank))

    def dynamic_list(self, value: Expr, infix: str) -> Value:
        """Modules whose number is not known: `nn.Sequential(*layers)`, `nn.ModuleList([... for ...])`."""
        lowered = self.expr(value)
        kind = lowered.kind
        if not isinstance(kind, Items):
            raise Unsupported("MIG201", f"{nodes.code(value)} is not known to hold modules")
        if kind.items is not None:
            elements = [e.value for e in lowered.node.elements] if isinstance(lowered.node, cst.List) else None
            if elements is not None and infix == "/layers_":
                return self.sequence([Value(n, k) for n, k in zip(elements, kind.items, strict=True)])
            children = tuple(k.options[0] for k in kind.items if isinstance(k, Module) and len(k.options) == 1)
            if len(children) != len(kind.items):
                raise Unsupported("MIG201", f"{nodes.code(value)} is not known to hold modules only")
            joined = kind.joined()
            if not isinstance(joined, Module):
                raise Unsupported("MIG201", f"{nodes.code(value)} holds no modules")
            tree: Node = ListNode(children, infix)
        else:
            joined = kind.element
            if not isinstance(joined, Module):
                raise Unsupported("MIG201", f"{nodes.code(value)} is not known to hold modules only")
            tree = ListNode(joined.options, infix, dynamic=True)
        if joined.entry == "mixed" and infix == "/layers_":
            raise Unsupported(
                "MIG201", f"{nodes.code(value)} holds layers that want their channels in different places"
            )
        node = lowered.node
        if infix == "/layers_":
            node = nodes.call("nn.Sequential", nodes.bare(node) if isinstance(node, cst.ListComp | cst.Name) else node)
        return Value(node, Module((tree,), joined.entry, joined.exit, joined.rank))

    def torch_nn_ModuleList(self, node: cst.Call) -> Value:
        """A plain list: Flax finds modules in the lists among a module's attributes."""
        if not node.args or (isinstance(node.args[0].value, cst.List) and not node.args[0].value.elements):
            return Value(cst.List([]), Items((), type="modules"))
        lowered = self.dynamic_list(node.args[0].value, "_")
        if isinstance(lowered.node, cst.GeneratorExp):
            lowered = Value(cst.ListComp(lowered.node.elt, lowered.node.for_in), lowered.kind)
        return lowered

    def torch_nn_ModuleDict(self, node: cst.Call) -> Value:
        """Refused as a layer that is not known."""
        raise Unsupported("MIG202", "torch.nn.ModuleDict")


def bare_lambda(node: Expr) -> Expr:
    """A lambda needs no parentheses inside a list."""
    return nodes.bare(node) if isinstance(node, cst.Lambda) else node


def _layer_list(elements: Sequence[Expr]) -> cst.List:
    """A list of layers, one to a line where there are several."""
    if len(elements) < 2:
        return cst.List([cst.Element(element) for element in elements])
    newline = cst.ParenthesizedWhitespace(cst.TrailingWhitespace(), indent=True, last_line=cst.SimpleWhitespace("    "))
    made = [cst.Element(e, comma=cst.Comma(whitespace_after=newline)) for e in elements[:-1]]
    end = cst.ParenthesizedWhitespace(cst.TrailingWhitespace(), indent=True)
    made.append(cst.Element(elements[-1], comma=cst.Comma(whitespace_after=end)))
    return cst.List(made, lbracket=cst.LeftSquareBracket(newline))
