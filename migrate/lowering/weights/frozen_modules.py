"""Loops over the modules, or the weights, of a model that freeze some: `for i, child in enumerate(model.children())`.

Which these are depends on their order, their names and their classes alone. The statements are followed here, and stand
for one that freezes all that they do.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Model, Place
from migrate.known.weight_kinds import LISTING, Selection
from migrate.lowering.weights.freezing import Freezing
from migrate.lowering.weights.selections import leaves_of
from migrate.lowering.weights.sorted_names import PartOfModel
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.per_parameter import switched
from migrate.syntax.walking import every

_MODULES = ("children", "named_children", "modules", "named_modules")


class FrozenModules(Freezing):
    """Such loops."""

    def freezing_modules_loop(self, node: cst.For) -> list[Statement] | None:
        """The statements in the place of such a loop; None for other loops."""
        lines = every(node.body, cst.SimpleStatementLine)
        if node.orelse is not None or not _only_freezes(node) or all(switched(line) is None for line in lines):
            return None
        named = every(node, (cst.Name, cst.Attribute))
        model = next((kind.place for one in named if (kind := self._model(one)) is not None), None)
        if model is None or self._turns(node.iter, model, {}) is None:
            return None
        before = [name for name in usage.changes(node.body) if name in self.env.definitions]
        bound: dict[str, object] = {name: nodes.literal(self.env.definitions[name]) for name in before}
        found: dict[str, bool] = {}
        self._follow_modules([node], model, bound, found)
        made: list[Statement] = []
        for on in (False, True):
            chosen = tuple(sorted(leaf for leaf, flag in found.items() if flag == on))
            made += self.freeze(Selection(((model, chosen),)), on, node) if chosen else []
        return made

    def _model(self, node: Expr) -> Model | None:
        kind = self.kind_of(node)
        return kind if isinstance(kind, Model) and kind.place is not None else None

    # -- modules ------------------------------------------------------------------------------------------------------

    def _turns(self, node: Expr, model: Place, bound: dict[str, object]) -> list[tuple[object, ...]] | None:
        """What a loop is given turn by turn, where it goes through modules or weights of a model, or through names;
        None of other loops."""
        if isinstance(node, cst.Name) and node.value not in bound:
            made = self.env.definitions.get(node.value)
            return None if made is None else self._turns(made, model, bound)
        if (
            isinstance(node, cst.Call)
            and nodes.dotted(node.func) in ("list", "tuple", "enumerate")
            and len(node.args) == 1
        ):
            inner = self._turns(node.args[0].value, model, bound)
            counted = nodes.dotted(node.func) == "enumerate" and inner is not None
            return [(number, *one) for number, one in enumerate(inner or ())] if counted else inner
        if isinstance(node, cst.Call):
            return self._listed(node, model, bound)
        if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Slice):
            whole, ends = self._turns(node.value, model, bound), node.slice[0].slice
            limits = [None if end is None else nodes.literal(end) for end in (ends.lower, ends.upper, ends.step)]
            plain = [limit for limit in limits if limit is None or isinstance(limit, int)]
            return whole[slice(*plain)] if whole is not None and len(plain) == len(limits) else None
        if isinstance(node, cst.List | cst.Tuple):
            each = [self._part(one, model, bound) or nodes.literal(one) for one in nodes.elements(node)]
            return [(one,) for one in each] if each and ... not in each else None
        owner = self._part(node, model, bound)
        if owner is None or owner.cls not in ("torch.nn.ModuleList", "torch.nn.Sequential"):
            return None
        return self._inside(owner, "children", model)

    def _listed(self, node: cst.Call, model: Place, bound: dict[str, object]) -> list[tuple[object, ...]] | None:
        """`model.children()`, `model.named_parameters()`."""
        listing = node.func.attr.value if isinstance(node.func, cst.Attribute) and not node.args else ""
        if not isinstance(node.func, cst.Attribute) or listing not in (*_MODULES, *LISTING):
            return None
        owner = self._part(node.func.value, model, bound)
        if owner is None:
            return None
        return self._inside(owner, listing, model) if listing in _MODULES else self._weights(owner, listing, model)

    def _part(self, node: Expr, model: Place, bound: dict[str, object]) -> PartOfModel | None:
        """The module of a model that an expression is."""
        if isinstance(node, cst.Name) and isinstance(known := bound.get(node.value), PartOfModel):
            return known
        if isinstance(node, cst.Call) and nodes.dotted(node.func) == "getattr" and len(node.args) == 2:
            owner, name = self._part(node.args[0].value, model, bound), bound.get(nodes.code(node.args[1].value))
            path = f"{owner.path}.{name}".lstrip(".") if owner is not None else None
            return next((part for part in self.parts_of(model) if part.path == path), None)
        chosen = self.part_of_model(node) if isinstance(node, cst.Name | cst.Attribute | cst.Subscript) else None
        if chosen is None or [self.root(place) for place, _ in chosen.leaves] != [self.root(model)]:
            return None
        if self._model(node) is not None:
            return next(self.parts_of(model))
        return next((part for part in self.parts_of(model) if part.path == chosen.label), None)

    def _inside(self, owner: PartOfModel, listing: str, model: Place) -> list[tuple[object, ...]] | None:
        prefix = f"{owner.path}." if owner.path else ""
        inside = [part for part in self.parts_of(model) if part.path.startswith(prefix) and part.path != owner.path]
        if any("{" in part.path for part in inside):
            return None  # lists whose length is not known
        if listing.endswith("children"):
            inside = [part for part in inside if "." not in part.path.removeprefix(prefix)]
        else:
            inside.insert(0, owner)
        names = [(part.path.removeprefix(prefix),) if listing.startswith("named") else () for part in inside]
        return [(*name, part) for name, part in zip(names, inside, strict=True)]

    def _weights(self, owner: PartOfModel, listing: str, model: Place) -> list[tuple[object, ...]] | None:
        prefix = f"{owner.path}." if owner.path else ""
        inside = [leaf for leaf in leaves_of(self.script, self.root(model)) if leaf.torch.startswith(prefix)]
        if any("{" in leaf.torch for leaf in inside):
            return None
        named = listing == "named_parameters"
        return [(leaf.torch.removeprefix(prefix), leaf) if named else (leaf,) for leaf in inside]

    # -- statements ---------------------------------------------------------------------------------------------------

    def _follow_modules(
        self, body: Sequence[Statement], model: Place, bound: dict[str, object], found: dict[str, bool]
    ) -> None:
        for statement in body:
            if isinstance(statement, cst.For):
                self._follow_turns(statement, model, bound, found)
            elif isinstance(statement, cst.If):
                held = self.test_of_weight(statement.test, bound, self.frozen(self.root(model)))
                self._follow_modules(suites.sides(statement)[0 if held else 1], model, bound, found)
            elif not suites.is_pass(statement):
                self._follow_line(statement, model, bound, found)

    def _follow_turns(self, node: cst.For, model: Place, bound: dict[str, object], found: dict[str, bool]) -> None:
        body = suites.suite_of(node.body.body)
        turns, names = self._turns(node.iter, model, bound), _flat(node.target)
        if turns is None or names is None:
            raise Unsupported("MIG401", f"{nodes.code(node.iter)}: which weights are frozen is not followed")
        for turn in turns:
            if len(turn) != len(names):
                raise Unsupported("MIG401", f"{nodes.code(node.iter)}: which weights are frozen is not followed")
            bound |= dict(zip(names, turn, strict=True))
            self._follow_modules(body, model, bound, found)

    def _follow_line(
        self, statement: Statement, model: Place, bound: dict[str, object], found: dict[str, bool]
    ) -> None:
        small = suites.alone(statement)
        if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
            before, step = bound.get(small.target.value), nodes.literal(small.value)
            if isinstance(small.operator, cst.AddAssign) and isinstance(before, int) and isinstance(step, int):
                bound[small.target.value] = before + step
                return
        about = switched(statement)
        owner = nodes.dotted(about[0]) if about is not None else None
        value = bound.get(owner or "")
        flag = self.test_of_weight(about[1], bound, frozenset()) if about is not None else None
        if not isinstance(flag, bool):
            raise Unsupported("MIG401", f"{nodes.code(statement).strip()}: which weights are frozen is not followed")
        if isinstance(value, PartOfModel):
            prefix = f"{value.path}." if value.path else ""
            inside = [leaf for leaf in leaves_of(self.script, self.root(model)) if leaf.torch.startswith(prefix)]
            found |= dict.fromkeys((leaf.flax for leaf in inside), flag)
            return
        path = getattr(value, "flax", None)
        if path is None and about is not None and isinstance(about[0], cst.Attribute):
            part = bound.get(nodes.dotted(about[0].value) or "")
            own = f"{part.path}.{about[0].attr.value}".lstrip(".") if isinstance(part, PartOfModel) else ""
            leaves = [leaf for leaf in leaves_of(self.script, self.root(model)) if leaf.torch == own]
            path = leaves[0].flax if leaves else None
        if path is None:
            raise Unsupported("MIG401", f"{nodes.code(statement).strip()}: which weights are frozen is not followed")
        found[path] = flag


def _flat(target: cst.CSTNode) -> list[str] | None:
    """The names of a target, those of inner tuples too."""
    if isinstance(target, cst.Name):
        return [target.value]
    if not isinstance(target, cst.Tuple):
        return None
    found: list[str] = []
    for element in nodes.elements(target):
        inner = _flat(element)
        if inner is None:
            return None
        found += inner
    return found


def _only_freezes(statement: Statement) -> bool:
    """Whether a statement does nothing but freeze weights, and count."""
    if isinstance(statement, cst.For):
        return statement.orelse is None and all(map(_only_freezes, suites.suite_of(statement.body.body)))
    if isinstance(statement, cst.If):
        return all(_only_freezes(one) for side in suites.sides(statement) for one in side)
    counts = isinstance(suites.alone(statement), cst.AugAssign)
    return counts or suites.is_pass(statement) or switched(statement) is not None
