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
from migrate.lowering.initial.layers_in_turn import stand_for
from migrate.lowering.weights.freezing import Freezing
from migrate.lowering.weights.leaves import leaves_of
from migrate.lowering.weights.sorted_names import PartOfModel
from migrate.manifest import Leaf
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.per_parameter import switched
from migrate.syntax.walking import every

_MOST = 16  # turns that are written out
_MODULES = ("children", "named_children", "modules", "named_modules")


class FrozenModules(Freezing):
    """Such loops."""

    def freezing_modules_loop(self, node: cst.For) -> list[Statement] | None:
        """The statements in the place of such a loop; None for other loops."""
        lines = every(node.body, cst.SimpleStatementLine)
        if not suites.consists_of(node, _freezes_or_counts) or all(switched(line) is None for line in lines):
            return None
        turns = self._by_numbers(node)
        if turns is not None:
            return self.suite(stand_for(self, node, turns))
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

    def _by_numbers(self, node: cst.For) -> list[Statement] | None:
        """The turns of a loop over the first or the last layers of a list of any length, `model.blocks[-2:]`, or over
        their numbers, `range(2)`; None for others."""
        name, body = nodes.dotted(node.target) or "", suites.suite_of(node.body.body)
        row, numbers = _numbered(node.iter)
        if row is not None:
            told = self.is_row_of_any_length(row)
            parts = [nodes.expression(f"{{x}}[{number}]", x=row) for number in numbers]
        else:
            items = [one for one in every(node.body, cst.Subscript) if name in usage.loads(one.slice)]
            told = bool(items) and all(self.is_row_of_any_length(one.value) for one in items)
            parts = [cst.Integer(str(number)) for number in numbers]
        if not (name and told and parts) or len(parts) > _MOST:
            return None
        return [nodes.substituted(one, {name: part}) for part in parts for one in body]

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
        prefix = _prefix(owner)
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
        inside = self._leaves_in(owner, model)
        if any("{" in leaf.torch for leaf in inside):
            return None
        prefix, named = _prefix(owner), listing == "named_parameters"
        return [(leaf.torch.removeprefix(prefix), leaf) if named else (leaf,) for leaf in inside]

    def _leaves_in(self, owner: PartOfModel, model: Place) -> list[Leaf]:
        prefix = _prefix(owner)
        return [leaf for leaf in leaves_of(self.script, self.root(model)) if leaf.torch.startswith(prefix)]

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
        turns, names = self._turns(node.iter, model, bound), usage.target_names(node.target)
        for turn in turns if turns is not None else ((),):
            if turns is None or len(turn) != len(names):
                raise _not_followed(node.iter)
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
        weight, value = switched(statement) or (None, None)
        flag = self.test_of_weight(value, bound, frozenset()) if value is not None else None
        if weight is None or not isinstance(flag, bool):
            raise _not_followed(statement)
        leaves = self._meant(weight, model, bound)
        if leaves is None:
            raise _not_followed(statement)
        found |= dict.fromkeys((leaf.flax for leaf in leaves), flag)

    def _meant(self, node: Expr, model: Place, bound: dict[str, object]) -> list[Leaf] | None:
        """The weights that `p`, `layer` or `layer.bias` are in a turn; None of other expressions."""
        known = bound.get(nodes.dotted(node) or "")
        if isinstance(known, PartOfModel):
            return self._leaves_in(known, model)
        if isinstance(known, Leaf):
            return [known]
        part = bound.get(nodes.dotted(node.value) or "") if isinstance(node, cst.Attribute) else None
        if not isinstance(node, cst.Attribute) or not isinstance(part, PartOfModel):
            return None
        path = f"{_prefix(part)}{node.attr.value}"
        return [leaf for leaf in leaves_of(self.script, self.root(model)) if leaf.torch == path] or None


def _prefix(part: PartOfModel) -> str:
    """What the names of all that is in a module begin with."""
    return f"{part.path}." if part.path else ""


def _numbered(node: Expr) -> tuple[Expr | None, Sequence[int]]:
    """A list and the numbers of those of its elements that `x[:2]` or `x[-2:]` has; the numbers of `range(2)`."""
    match node:
        case cst.Subscript(value=row, slice=[cst.SubscriptElement(cst.Slice(lower=lower, upper=upper, step=None))]):
            first, last = (0 if end is None else nodes.literal(end) for end in (lower, upper))
            if isinstance(first, int) and first < 0 and upper is None:
                return row, range(first, 0)
            return (row, range(last)) if first == 0 and isinstance(last, int) else (None, ())
        case cst.Call(func=cst.Name("range"), args=[cst.Arg(value=count)]):
            number = nodes.literal(count)
            return None, range(number) if isinstance(number, int) else ()
    return None, ()


def _freezes_or_counts(line: Statement) -> bool:
    return isinstance(suites.alone(line), cst.AugAssign) or suites.is_pass(line) or switched(line) is not None


def _not_followed(node: cst.CSTNode) -> Unsupported:
    return Unsupported("MIG401", f"{nodes.code(node).strip()}: which weights are frozen is not followed")
