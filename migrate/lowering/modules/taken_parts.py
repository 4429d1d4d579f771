"""What a part that a constructor takes of another model is in Flax (`parts_of_others.py`).

Flax sets a module up when it is bound to variables: `resnet18().bind({})` has its parts by then, and a copy of one of
them, `resnet.conv1.copy()`, is a module without a name, that is part of whatever takes it. Where the model has been
given weights (`starting_from`), it is bound to those, and a part takes its own along.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import Module
from migrate.layers.table import TABLE
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.modules.given_parts import GivenParts, own_given
from migrate.lowering.modules.rows_of_tuples import TORCH_SEQUENTIAL, row_class
from migrate.lowering.plainer.parts_written import module_of
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

WITH_PARTS, WITH_ITS_WEIGHTS = "with_parts", "with_its_weights"  # snippets


class TakenParts(GivenParts):
    """Parts of other models in constructors."""

    def taken_apart_here(self) -> Mapping[str, str]:
        """The models that this constructor, or this function that makes parts, takes parts of: name -> class."""
        if self.context == "setup":
            return self.script.classes[self.cls].taken_apart
        return self.facts.taken_apart if self.building and self.facts is not None else {}

    def opened_model(self, name: str, value: Value) -> Value:
        """The model under a name whose parts a constructor takes, with its parts."""
        taken, facts = self.taken_apart_here(), self.script.classes.get(self.cls)
        if name not in taken:
            return value
        own = [facts.initializers] if facts is not None else []
        if any(own) or (self.facts is not None and any(self.facts.initializers.values())):
            raise Unsupported("MIG201", f"parts of {name}, whose initial weights go by what they are a part of")
        if facts is not None:
            facts.own_trains |= self.script.trains(taken[name])
        if taken[name] in self.script.started:
            return Value(with_snippets(self, nodes.call(WITH_PARTS, value.node), [WITH_PARTS]), value.kind)
        return Value(nodes.call(cst.Attribute(value.node, cst.Name("bind")), cst.Dict([])), value.kind)

    def taken_part(self, node: cst.Call) -> Value | None:
        """`copy.deepcopy(resnet.layer1)` of such a model; None of other calls."""
        taken, facts = self.taken_apart_here(), self.script.classes.get(self.cls)
        path = self.deep_copied(node) if taken else None
        root = nodes.root(path) if path is not None else None
        if path is None or not isinstance(root, cst.Name) or root.value not in taken:
            return None
        made, module = self._at(path, taken[root.value])
        kind = Module(module.children if isinstance(module, ChoiceNode) else (module,))
        if facts is not None:
            own_given(facts, kind)
        started = taken[root.value] in self.script.started
        copied = _copy(made, module, nodes.code(path), started)
        return Value(with_snippets(self, copied, [WITH_ITS_WEIGHTS]) if started else copied, kind)

    def _at(self, path: Expr, cls: str) -> tuple[Expr, Node]:
        """A part in the output, and its module."""
        if isinstance(path, cst.Attribute):
            owner, module = self._at(path.value, cls)
            facts = self.script.classes[module.cls] if isinstance(module, ClassNode) else None
            found = module_of(facts, path.attr.value) if facts is not None else None
            if facts is not None and found is not None:
                name = facts.renamed.get(path.attr.value, path.attr.value)
                return cst.Attribute(owner, cst.Name(name)), found
        elif isinstance(path, cst.Subscript):
            owner, row = self._at(path.value, cls)
            index = path.slice[0].slice
            if isinstance(row, ListNode) and row.infix.startswith("/"):
                layers = cst.Attribute(owner, cst.Name("layers"))
                if isinstance(index, cst.Slice):
                    some: Expr = path.with_changes(value=layers)
                    if cls in self.script.started:
                        some = _each(some, True)
                    taken = nodes.call(row_class(row, self.script), some)
                    return with_snippets(self, taken, [TORCH_SEQUENTIAL, WITH_ITS_WEIGHTS]), row
                owner = layers
            number = nodes.literal(index.value) if isinstance(index, cst.Index) else ...
            if isinstance(row, ListNode) and isinstance(number, int):
                if row.dynamic:
                    return path.with_changes(value=owner), ChoiceNode(row.children)
                places = [i for i, one in enumerate(row.children) if not isinstance(one, LayerNode) or one.torch]
                at = cst.SubscriptElement(cst.Index(cst.Integer(str(places[number]))))
                return cst.Subscript(owner, [at]), row.children[places[number]]
        elif isinstance(path, cst.Name):
            return path, ClassNode(cls)
        raise Unsupported("MIG201", f"{nodes.code(path)}: a part of a module that Flax has not set up yet")


def _copy(made: Expr, module: Node, written: str, started: bool) -> Expr:
    """A copy of a part: functions, which layers without weights mostly are, need none. `started`: it has weights, which
    the copy starts from."""
    if isinstance(module, ChoiceNode):
        alike = {_is_module(one) for one in module.children}
        if len(alike) > 1 or any(isinstance(one, ListNode) for one in module.children):
            raise Unsupported("MIG201", f"{written}: one of several sorts of layers, it is not known which")
        return _copied(made, started) if True in alike else made
    if isinstance(module, ListNode) and module.infix == "_":
        if module.keys or not all(_is_module(one) for one in module.children):
            raise Unsupported("MIG201", f"{written}: a part of a module that Flax has not set up yet")
        return _each(made, started)
    if started and isinstance(made, cst.Call):
        return made  # a row of copies
    return _copied(made, started) if _is_module(module) else made


def _each(made: Expr, started: bool) -> Expr:
    return nodes.expression(f"[{nodes.code(_copied(nodes.name('part'), started))} for part in {{x}}]", x=made)


def _copied(made: Expr, started: bool) -> Expr:
    return nodes.call(WITH_ITS_WEIGHTS, made) if started else nodes.call(cst.Attribute(made, cst.Name("copy")))


def _is_module(module: Node) -> bool:
    """Whether Flax has a module in the place of torch's, and no function."""
    if isinstance(module, LayerNode):
        layer = TABLE.get(module.torch)
        return bool(module.weights) or (layer is not None and (layer.trains or bool(layer.draws)))
    return bool(module.children) if isinstance(module, ListNode) else True
