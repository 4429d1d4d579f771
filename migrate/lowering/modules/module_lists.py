"""Lists of modules."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node, Passage, passage_of
from migrate.known.kinds import Items, Module, ModuleClass, Never
from migrate.known.qualified import spelled
from migrate.known.row_kinds import NamedRow
from migrate.known.script import classes_in
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.elements import element_kind, is_function
from migrate.lowering.modules.moves_in_rows import absorbed
from migrate.lowering.modules.rows_of_tuples import TORCH_SEQUENTIAL, row_class
from migrate.lowering.plainer.loops_written_out import LoopsWrittenOut
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.targets import linen

_MIXED = "holds layers that want their channels in different places"


class ModuleLists(LoopsWrittenOut):
    """nn.Sequential and nn.ModuleList, written out or built by a loop."""

    def torch_nn_Sequential(self, node: cst.Call) -> Value:
        """Layers in a row: channels stay last between those that want them so. An empty one does nothing."""
        if not node.args:
            return Value(
                nodes.expression("lambda x: x"), Module((ListNode((), "/layers_", passage=Passage("any", "any")),))
            )
        if len(node.args) == 1 and node.args[0].star == "*":
            return self.dynamic_list(node.args[0].value, "/layers_")
        row = self.expr(node.args[0].value) if isinstance(node.args[0].value, cst.Name) else None
        if row is not None and isinstance(row.kind, NamedRow) and len(node.args) == 1:
            made = nodes.call("NamedSequential", row.node)
            return Value(with_snippets(self, made, ["NamedSequential"]), row.kind.module)
        if len(node.args) == 1:
            named = self.named_values(node.args[0].value)
            if named is not None:
                made = self.sequence([value for _, value in named])
                assert isinstance(made.kind, Module) and isinstance(made.kind.options[0], ListNode)
                keys = tuple(key for key, _ in named)
                return Value(made.node, Module((replace(made.kind.options[0], keys=keys),)))
        if any(arg.star for arg in node.args):
            return self.starred_list(
                [cst.StarredElement(a.value) if a.star else cst.Element(a.value) for a in node.args]
            )
        return self.sequence([self.part(arg.value, number) for number, arg in enumerate(node.args)])

    def part(self, node: Expr, key: str | int) -> Value:
        """A module that becomes part of the one being constructed."""
        outer, each = self.making, self.making_each
        self.making, self.making_each = outer and f"{outer}.{key}", each and f"{each}.{key}"
        try:
            return self.expr(node)
        finally:
            self.making, self.making_each = outer, each

    def starred_list(self, elements: Sequence[cst.BaseElement]) -> Value:
        """`nn.Sequential(first, *others)`: as many as there are."""
        return self.dynamic_list(cst.List(list(elements)), "/layers_")

    def named_values(self, node: Expr) -> list[tuple[str, Value]] | None:
        """The entries of `OrderedDict([("a", x), ...])`, `dict(a=x)` or `{"a": x}`; None for anything else."""
        if isinstance(node, cst.Call):
            name = (nodes.dotted(node.func) or "").rpartition(".")[2]
            if name not in ("OrderedDict", "dict"):
                return None
            if all(arg.keyword is not None for arg in node.args):
                keywords = [(arg.keyword.value, arg.value) for arg in node.args if arg.keyword is not None]
                return [(key, self.part(value, key)) for key, value in keywords]
            return self.named_values(node.args[0].value) if len(node.args) == 1 and not node.args[0].star else None
        pairs: list[tuple[Expr, Expr]] = []
        if isinstance(node, cst.ListComp):
            entries = self.entries_of(node)
            return None if entries is None else [(key, self.part(value, key)) for key, value in entries]
        if isinstance(node, cst.List | cst.Tuple):
            for element in node.elements:
                if not isinstance(element.value, cst.Tuple | cst.List) or len(element.value.elements) != 2:
                    return None
                pairs.append((element.value.elements[0].value, element.value.elements[1].value))
        elif isinstance(node, cst.Dict):
            for entry in node.elements:
                if not isinstance(entry, cst.DictElement):
                    return None
                pairs.append((entry.key, entry.value))
        else:
            return None
        keys = [nodes.literal(key) for key, _ in pairs]
        if not all(isinstance(key, str) for key in keys):
            return None
        return [(str(key), self.part(value, str(key))) for key, (_, value) in zip(keys, pairs, strict=True)]

    def sequence(self, values: Sequence[Value]) -> Value:
        """`nn.Sequential` of known layers, with a move between two that want their channels in different places. Such a
        move has a number in Flax's list (`layers_3`) but none in torch's: its node in the tree has no torch name. Where
        a condition chooses between rows, a function beside it makes the move, if there is one."""
        elements: list[Expr] = []
        children: list[Node] = []
        layout, entry, rank, first_rank = "any", "any", 0, 0
        settled = 0  # the number of the last layer that wants its channels somewhere
        for value in values:
            kind = value.kind
            if not isinstance(kind, Module):
                raise Unsupported("MIG201", f"nn.Sequential of {nodes.code(value.node)}, which is no known layer")
            if "mixed" in (kind.entry, kind.exit):
                raise Unsupported("MIG201", f"{nodes.code(value.node)} {_MIXED}")
            self.note_place(kind, layout)
            self.not_given(kind)
            layer = bare_lambda(value.node)
            row = [layer]
            if {kind.entry, layout} == {"first", "last"}:
                move = linen.channels_last if kind.entry == "last" else linen.channels_first
                moved = functools.partial(move, rank=kind.rank if kind.entry == "last" else rank)
                together = absorbed(elements[settled:], layer, moved) if self.conditions else None
                if together is None:
                    together = [*elements[settled:], nodes.expression("lambda x: {x}", x=moved(nodes.name("x"))), layer]
                    children.append(LayerNode(""))
                elements, row = elements[:settled], together
            if layout == "any" and kind.entry != "any":
                entry = kind.entry
            if kind.entry == "last":
                first_rank = first_rank or kind.rank
            elements += row
            if kind.exit != "any":
                layout, rank, settled = kind.exit, kind.rank or rank, len(elements) - 1
            children.append(kind.options[0] if len(kind.options) == 1 else ChoiceNode(kind.options))
        tree = ListNode(tuple(children), "/layers_", passage=Passage(entry, layout, first_rank or rank))
        return Value(self.sequential(list_in_lines(elements), tree), Module((tree,)))

    def dynamic_list(self, value: Expr, infix: str) -> Value:
        """Modules whose number is not known: `nn.Sequential(*layers)`, `nn.ModuleList([... for ...])`."""
        self.making_each = self.making if isinstance(value, cst.ListComp | cst.GeneratorExp) else ""
        try:
            lowered = self.expr(value)
        finally:
            self.making_each = ""
        kind = lowered.kind
        if isinstance(kind, Module):  # the modules of another list
            kind = Items(None, element_kind(kind))
        if not isinstance(kind, Items):
            raise Unsupported("MIG201", f"{nodes.code(value)} is not known to hold modules")
        node = lowered.node
        plain = isinstance(node, cst.List) and not any(isinstance(e, cst.StarredElement) for e in node.elements)
        if kind.items is not None and infix == "/layers_" and isinstance(node, cst.List) and plain:
            return self.sequence([Value(e.value, k) for e, k in zip(node.elements, kind.items, strict=True)])
        joined = kind.joined()
        if isinstance(joined, Never):
            joined = Module(())
        if not isinstance(joined, Module):
            raise Unsupported("MIG201", f"{nodes.code(value)} is not known to hold modules only")
        passage = passage_of(joined.options)
        several = infix == "/layers_" and (kind.items is None or len(kind.items) > 1)
        if several and _moves(passage):
            return self.each_moving(value)
        if infix == "/layers_":
            self.not_given(joined)
        if kind.items is not None:
            options = [item.options for item in kind.items if isinstance(item, Module)]
            children = tuple(found[0] if len(found) == 1 else ChoiceNode(found) for found in options)
            tree = ListNode(children, infix, passage=passage)
        else:
            tree = ListNode(joined.options, infix, dynamic=True, passage=passage)
        if infix == "/layers_":
            blocks = self.blocks_among(joined.options)
            if "mixed" in (passage.entry, passage.exit):
                node, passage = (node, passage_of(_layers(joined))) if blocks else self.moving_once(value, node)
                tree = replace(tree, passage=passage)
            bare = nodes.bare(node) if isinstance(node, cst.ListComp | cst.Name) else node
            node = self.sequential(bare, tree, blocks)
        return Value(node, Module((tree,)))

    def blocks_among(self, options: Sequence[Node]) -> list[Expr]:
        """The classes of the script's own among layers that want channels last and elementwise ones; empty where there
        are no such layers, or anything else beside them."""
        classes = [one for one in options if isinstance(one, ClassNode)]
        layers = [one.passage for one in options if not isinstance(one, ClassNode)]
        alike = all(one.entry == one.exit and one.entry in ("any", "last") for one in layers)
        names: list[Expr] = [nodes.name(spelled(one.cls)) for one in classes]
        known = all(self.kind_of(name) == ModuleClass(one.cls) for name, one in zip(names, classes, strict=True))
        return names if alike and known and any(one.entry == "last" for one in layers) else []

    def each_moving(self, value: Expr) -> Value:
        """Modules in a row that leave their channels in another place than the next one wants them: each moves them
        itself, as moves between them would have numbers of their own."""
        if isinstance(value, cst.ListComp | cst.GeneratorExp) and value.elt not in self.unit.moving:
            self.unit.moving.add(value.elt)
            return self.dynamic_list(value, "/layers_")
        self.note_mixed(value)
        raise Unsupported("MIG201", f"{nodes.code(value)} {_MIXED}")

    def moving_once(self, value: Expr, made: Expr) -> tuple[Expr, Passage]:
        """`[*convolutions, nn.Flatten(), nn.Linear(n, 10)]`: the function between layers that want their channels in
        different places moves them itself, so that the layers keep their numbers. Returns the list, and its passage."""
        self.note_mixed(value)
        elements = value.elements if isinstance(value, cst.List) else []
        if not isinstance(made, cst.List) or len(made.elements) != len(elements):
            raise Unsupported("MIG201", f"{nodes.code(value)} {_MIXED}")
        with self.unit.discarding():
            kinds = [self.expr(element.value).kind for element in elements]
        entry, layout, rank, first_rank = "any", "any", 0, 0
        row: list[cst.BaseElement] = []
        for element, kind in zip(made.elements, kinds, strict=True):
            starred = isinstance(element, cst.StarredElement)
            group = kind.joined() if isinstance(kind, Items) else kind
            group = element_kind(kind) if starred and isinstance(kind, Module) else group
            passage = passage_of(group.options) if isinstance(group, Module) else Passage("mixed", "mixed")
            if passage.entry == "first" and layout == "last" and not starred and is_function(group):
                moved = nodes.expression("lambda x: {x}", x=taking_last(element.value, rank))
                element, passage = element.with_changes(value=moved), replace(passage, entry="last", rank=rank)
            apart = "any" not in (layout, passage.entry) and layout != passage.entry
            if apart or "mixed" in (passage.entry, passage.exit) or (starred and _moves(passage)):
                raise Unsupported("MIG201", f"{nodes.code(value)} {_MIXED}")
            if entry == "any" and passage.entry != "any":
                entry, first_rank = passage.entry, passage.rank
            if passage.exit != "any":
                layout, rank = passage.exit, passage.rank or rank
            row.append(element)
        return made.with_changes(elements=row), Passage(entry, layout, first_rank or rank)

    def sequential(self, layers: Expr, tree: ListNode, blocks: Sequence[Expr] = ()) -> Expr:
        """`nn.Sequential(layers)`, of a tuple where a function makes whole models of it. `blocks`: the classes among
        them that have channels first."""
        whole = self.facts is not None and self.facts.makes_models
        layers = _in_tuple(layers) if whole or self.holder else layers
        if blocks:
            made = nodes.call("SequentialWithBlocks", layers, blocks=nodes.tuple_of(blocks))
        else:
            made = nodes.call(row_class(tree, self.script), layers)
        return with_snippets(self, made, ["SequentialWithBlocks", TORCH_SEQUENTIAL])

    def not_given(self, kind: Module) -> None:
        """Modules in a row: what one of them takes may be what the one before it was given itself."""
        forwards = [self.script.functions.get(f"{cls}.forward") for one in kind.options for cls in classes_in(one)]
        for facts in filter(None, forwards):
            facts.found_given |= dict.fromkeys(facts.parameter_names[1:], False)

    def torch_nn_ModuleList(self, node: cst.Call) -> Value:
        """A plain list: Flax finds modules in the lists among a module's attributes."""
        if not node.args or (isinstance(node.args[0].value, cst.List) and not node.args[0].value.elements):
            return Value(cst.List([]), Items((), type="modules"))
        lowered = self.dynamic_list(node.args[0].value, "_")
        if isinstance(lowered.node, cst.GeneratorExp):
            lowered = Value(cst.ListComp(lowered.node.elt, lowered.node.for_in), lowered.kind)
        return lowered

    def torch_nn_ModuleDict(self, node: cst.Call) -> Value:
        """A plain dict: Flax finds the modules in it, and names them by their keys."""
        if not node.args:
            return Value(cst.Dict([]), Module((ListNode((), "_"),)))
        filled = self.expr(node.args[0].value) if isinstance(node.args[0].value, cst.Name) else None
        if filled is not None and isinstance(filled.kind, NamedRow) and len(node.args) == 1:
            return Value(filled.node, filled.kind.module_dict)
        named = self.named_values(node.args[0].value) if len(node.args) == 1 else None
        if named is None and len(node.args) == 1 and isinstance(node.args[0].value, cst.DictComp):
            return self.counted_dict(node.args[0].value)
        if named is None:
            raise Unsupported("MIG201", "an nn.ModuleDict whose keys are not written out")
        children: list[Node] = []
        for key, value in named:
            if not isinstance(value.kind, Module):
                raise Unsupported("MIG201", f"{key}: {nodes.code(value.node)} is not known to be a module")
            options = value.kind.options
            children.append(options[0] if len(options) == 1 else ChoiceNode(options))
        made = dict_in_lines([(key, bare_lambda(value.node)) for key, value in named])
        tree = ListNode(tuple(children), "_", keys=tuple(key for key, _ in named))
        return Value(made, Module((tree,)))

    def counted_dict(self, node: cst.DictComp) -> Value:
        """`{name: nn.Linear(4, n) for name, n in sizes.items()}`, where it is written out what that goes over."""
        entries = self.entries_of(node)
        lowered = self.expr(node)
        inner = lowered.kind.joined() if isinstance(lowered.kind, Items) else lowered.kind
        if entries is None or not isinstance(inner, Module):
            raise Unsupported("MIG201", "an nn.ModuleDict whose keys are not written out")
        child = inner.options[0] if len(inner.options) == 1 else ChoiceNode(inner.options)
        return Value(
            lowered.node, Module((ListNode((child,) * len(entries), "_", keys=tuple(key for key, _ in entries)),))
        )


def _moves(passage: Passage) -> bool:
    """Whether a module leaves its channels in another place than it wants them."""
    return {passage.entry, passage.exit} == {"first", "last"}


def _layers(kind: Module) -> tuple[Node, ...]:
    return tuple(one for one in kind.options if not isinstance(one, ClassNode))


def taking_last(function: Expr, rank: int) -> cst.Call:
    """What a function makes of `x`, whose channels it wants first and `x` has last."""
    arguments: list[cst.Arg] = []
    if isinstance(function, cst.Call) and nodes.dotted(function.func) == "partial":
        function, arguments = function.args[0].value, list(function.args[1:])
    return cst.Call(function, [cst.Arg(linen.channels_first(nodes.name("x"), rank)), *arguments])


def bare_lambda(node: Expr) -> Expr:
    """A lambda needs no parentheses inside a list."""
    return nodes.bare(node) if isinstance(node, cst.Lambda) else node


_NEWLINE = cst.ParenthesizedWhitespace(cst.TrailingWhitespace(), indent=True, last_line=cst.SimpleWhitespace("    "))
_END = cst.ParenthesizedWhitespace(cst.TrailingWhitespace(), indent=True)


def list_in_lines(elements: Sequence[Expr]) -> cst.List:
    """A list of layers, one to a line where there are several."""
    if len(elements) < 2:
        return cst.List([cst.Element(element) for element in elements])
    elements = [_further_in(element) for element in elements]
    made = [cst.Element(e, comma=cst.Comma(whitespace_after=_NEWLINE)) for e in elements[:-1]]
    made.append(cst.Element(elements[-1], comma=cst.Comma(whitespace_after=_END)))
    return cst.List(made, lbracket=cst.LeftSquareBracket(_NEWLINE))


def _further_in(node: Expr) -> Expr:
    """A row of layers that stands in another one, a step further in."""
    layers = node.args[0].value if isinstance(node, cst.Call) and len(node.args) == 1 else None
    if not isinstance(node, cst.Call) or not isinstance(layers, cst.List | cst.Tuple):
        return node
    elements = [
        element.with_changes(
            value=_further_in(element.value),
            comma=element.comma.with_changes(whitespace_after=_deeper(element.comma.whitespace_after))
            if isinstance(element.comma, cst.Comma)
            else element.comma,
        )
        for element in layers.elements
    ]
    if isinstance(layers, cst.List):
        opened = layers.lbracket.with_changes(whitespace_after=_deeper(layers.lbracket.whitespace_after))
        layers = layers.with_changes(elements=elements, lbracket=opened)
    else:
        opened = [paren.with_changes(whitespace_after=_deeper(paren.whitespace_after)) for paren in layers.lpar]
        layers = layers.with_changes(elements=elements, lpar=opened)
    return node.with_changes(args=[node.args[0].with_changes(value=layers)])


def _deeper(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(last_line=cst.SimpleWhitespace(space.last_line.value + "    "))


def dict_in_lines(entries: Sequence[tuple[str, Expr]]) -> cst.Dict:
    """A dict of layers, one to a line."""
    spaces = [_NEWLINE] * (len(entries) - 1) + [_END]
    made = [
        element.with_changes(comma=cst.Comma(whitespace_after=space))
        for element, space in zip(nodes.dict_of(entries).elements, spaces, strict=True)
    ]
    return cst.Dict(made, lbrace=cst.LeftCurlyBrace(_NEWLINE))


def hashable(node: Expr) -> Expr:
    """`nn.Sequential((...))` for `nn.Sequential([...])`: jit takes a model as a static argument, which is hashed."""
    if not isinstance(node, cst.Call) or nodes.dotted(node.func) not in ("nn.Sequential", TORCH_SEQUENTIAL):
        return node
    return node.with_changes(args=[node.args[0].with_changes(value=_in_tuple(node.args[0].value))])


def _in_tuple(layers: Expr) -> Expr:
    if not isinstance(layers, cst.List):
        return nodes.call("tuple", layers)
    left = [cst.LeftParen(layers.lbracket.whitespace_after)]
    return cst.Tuple(layers.elements, left, [cst.RightParen(layers.rbracket.whitespace_before)])
