"""Layers that an initialising function tells apart from others of their class: `m is final_conv`,
`hasattr(m, "stddev")` with `self.fc.stddev = 0.001` in a constructor.

They take what the function gives them, under their own path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode, LayerNode
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Module
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.expressions.elements import only_option
from migrate.lowering.initial.initializing_functions import Single, initializers_of, told_apart
from migrate.rules.rule import signature
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class ToldLayers(Arguments):
    """Which layers those are, and what is noted on them."""

    def note_mark(self, target: cst.Attribute, value: Expr) -> list[Statement] | None:
        """`self.fc.stddev = 0.001` in a constructor: a note for initialising functions, which nothing else reads; None
        for other assignments."""
        path, name = nodes.dotted(target.value) or "", target.attr.value
        kind = self.expr(target.value).kind
        option = only_option(kind) if isinstance(kind, Module) and path.count(".") == 1 else None
        plain = isinstance(nodes.literal(value), int | float) and not self.conditions and not name.startswith("_")
        if not plain or option is None or not self.scope.endswith(".__init__"):
            return None
        facts = self.script.classes[self.cls]
        inner = self.script.classes.get(option.cls) if isinstance(option, ClassNode) else None
        if any(_reads(cls.node, name) for cls in self.script.classes.values() if cls.node is not None):
            return None
        if isinstance(option, LayerNode) and option.torch in TABLE:
            entry = TABLE[option.torch]
            own = {parameter.name for parameter in signature(entry.signature)} | {one.asked for one in entry.weights}
            if name in own | _OF_LAYERS:
                return None
            facts.marks.setdefault(path, {})[name] = value
        elif inner is not None and not inner.bases:
            known = {*inner.attributes, *inner.fields, *inner.buffers, *inner.parameters, "training"}
            if name in known or inner.method(name) is not None:
                return None
            inner.marked.add(name)
        else:
            return None
        return []

    def singles(self, facts: ClassFacts, function: cst.FunctionDef, own: bool) -> Iterator[tuple[str, Single]]:
        """The layers of a class that a function may tell apart: torch's class and the layer. `own`: the function stands
        in the constructor of the class, whose variables it names."""
        named = told_apart(function) if own else set()
        init = facts.method("__init__")
        once = [name for line in suites.suite_of(init.body.body) for name in _bound(line)] if init is not None else []
        bound = usage.stores(init.body) if init is not None else []
        if any("." not in name and (name not in once or bound.count(name) > 1) for name in named):
            raise Unsupported("MIG204", f"{min(named)}, which is told apart from other modules, may be several")
        for path in dict.fromkeys([*sorted(named), *facts.marks]):
            attribute = path.removeprefix("self.")
            kind = Module((facts.children[attribute],)) if attribute in facts.children else self.kind_of_name(path)
            option = only_option(kind) if isinstance(kind, Module) else None
            if isinstance(option, LayerNode) and option.torch in TABLE:
                yield option.torch, Single(path, facts.marks.get(path, {}))
            elif path in named:
                raise Unsupported(
                    "MIG204", f"{path}, which is told apart from other modules, is not known to be a layer"
                )

    def given_single(
        self, reader: Arguments, function: cst.FunctionDef, torch: str, single: Single, usual: Mapping[str, Expr]
    ) -> dict[str, Expr]:
        """What such a layer is given, where that is not what others of its class are given."""
        made = initializers_of(reader, function, torch, single=single)
        if usual.keys() - made.keys():
            raise Unsupported("MIG204", f"{single.path} keeps torch's initial weights, which other layers do not")
        return {w: one for w, one in made.items() if w not in usual or nodes.code(usual[w]) != nodes.code(one)}


def _bound(statement: Statement) -> list[str]:
    return usage.stores(statement) if isinstance(statement, cst.SimpleStatementLine) else []


def _reads(node: cst.ClassDef, name: str) -> bool:
    """Whether a class reads an attribute of that name from its own modules, besides setting it."""
    found = [one for one in every(node, cst.Attribute) if one.attr.value == name]
    set_here = [one.target for one in every(node, cst.AssignTarget)]
    own = [one for one in found if (nodes.dotted(one) or "").startswith("self.")]
    return any(not any(one is target for target in set_here) for one in own)


_OF_LAYERS = {"training", "forward", "transposed", "in_proj_weight", "in_proj_bias"}  # besides their arguments
