"""Weights and constants that a script cuts to a smaller setting of their model.

    self.config.length = length
    self.table.weight = nn.Parameter(self.table.weight[:length])

torch keeps what it has made. A Flax module makes its layers and its constants anew whenever it runs, from the settings
as they are then: the weight is cut in the parameters, and a constant, such as a causal mask, cuts itself. That is the
same only if the setting says nothing else, which is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Model
from migrate.known.states import PARAMS, State
from migrate.lowering.expressions.elements import EACH, module_at, only_option
from migrate.lowering.weights.weights_in_rows import WeightsInRows
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.weights import weights_of

_SAME_SHAPE = ("bool", "float", "int", "long", "contiguous", "to")
_TRIANGLES = ("torch.tril", "torch.triu")
_FILLED = ("torch.ones", "torch.zeros")


@dataclass(frozen=True)
class _Cut:
    """A tensor of a model that becomes its own beginning: its path, and for each axis where it ends, "" at its end."""

    path: tuple[str, ...]
    ends: tuple[str, ...]


class Cropping(WeightsInRows):
    """Assignments that cut a part of a model."""

    def cut_part(self, target: cst.Attribute, value: Expr) -> list[Statement] | None:
        """`self.table.weight = nn.Parameter(self.table.weight[:n])`, `self.mask = self.mask[:n, :n]`; None for other
        assignments to a part of a model."""
        found = self.model_and_path(nodes.dotted(target))
        cut = None if found is None else self.cut(target, value, {})
        if found is None or cut is None:
            return None
        model, path = found
        leaf = self.one_leaf(model, path)
        if leaf is None and not self.is_constant(model, cut):
            return None
        self.refuse_cuts(model, target)
        if leaf is None or model.place is None:
            return []
        params = self.read(State(PARAMS, model.place))
        part = value.args[0].value if isinstance(value, cst.Call) else value
        others = [other.flax.split("/")[1:] for other in weights_of(self.script, model.cls)]
        made = _with(params, leaf.flax.split("/")[1:], self.node(part), others)
        return [nodes.statement("{p} = {made}", p=self.write(State(PARAMS, model.place)), made=made)]

    def only_cuts_constants(self, node: cst.For) -> bool:
        """Whether a loop over modules of a model only cuts constants, which cut themselves:
        `for block in self.blocks: block.mask = block.mask[:n, :n]`."""
        found = self.model_and_path(nodes.dotted(node.iter))
        if found is None or not isinstance(node.target, cst.Name) or node.orelse is not None:
            return False
        model, path = found
        cuts = list(self.cuts(suites.suite_of(node.body.body), {node.target.value: (*path, EACH)}))
        if not cuts or not all(cut is not None and self.is_constant(model, cut) for cut in cuts):
            return False
        self.refuse_cuts(model, node.iter)
        return True

    # -- which ------------------------------------------------------------------------------------------------------

    def cuts(self, statements: Sequence[Statement], walked: Mapping[str, tuple[str, ...]]) -> Iterator[_Cut | None]:
        """What each statement cuts, None where it does something else. A constant may be asked whether it is there."""
        for statement in statements:
            small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
            if isinstance(statement, cst.If) and statement.orelse is None and _asks_for_attribute(statement.test):
                yield from self.cuts(suites.suite_of(statement.body.body), walked)
            elif isinstance(statement, cst.For) and isinstance(statement.target, cst.Name):
                over = self.path(statement.iter, walked)
                inner = {**walked, statement.target.value: (*over, EACH)} if over else walked
                yield from self.cuts(suites.suite_of(statement.body.body), inner)
            elif isinstance(small, cst.Assign) and len(small.targets) == 1:
                yield self.cut(small.targets[0].target, small.value, walked)
            else:
                yield None

    def cut(self, target: Expr, value: Expr, walked: Mapping[str, tuple[str, ...]]) -> _Cut | None:
        """`x.weight = nn.Parameter(x.weight[:n])`, `x.mask = x.mask[:, :n]`; None for anything else."""
        if isinstance(value, cst.Call) and self.torch_name(value.func) == "torch.nn.Parameter" and len(value.args) == 1:
            value = value.args[0].value
        path = self.path(target, walked)
        if not path or not isinstance(value, cst.Subscript) or nodes.code(value.value) != nodes.code(target):
            return None
        ends: list[str] = []
        for element in value.slice:
            part = element.slice
            if not isinstance(part, cst.Slice) or part.lower is not None or part.step is not None:
                return None
            ends.append("" if part.upper is None else nodes.code(part.upper))
        return _Cut(path, tuple(ends))

    def path(self, node: Expr, walked: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """Where in its model an expression leads; nothing where it starts with no model."""
        first, *rest = (nodes.dotted(node) or "").split(".")
        if first in walked:
            return (*walked[first], *rest)
        found = self.model_and_path(nodes.dotted(node))
        return () if found is None else tuple(found[1])

    def owner(self, model: Model, path: Sequence[str]) -> ClassFacts | None:
        """The class whose module has the attribute that a path ends with."""
        option = only_option(module_at(self.script, model.cls, path[:-1]))
        return self.script.classes[option.cls] if isinstance(option, ClassNode) else None

    def is_constant(self, model: Model, cut: _Cut) -> bool:
        owner = self.owner(model, cut.path)
        return owner is not None and cut.path[-1] in owner.buffers

    # -- whether that is all that the setting says --------------------------------------------------------------------

    def refuse_cuts(self, model: Model, node: Expr) -> None:
        """Declines what this scope cuts, unless the settings of the model say the same and nothing more."""
        text = nodes.dotted(node) or ""
        owner = text.removesuffix(".".join(self.path(node, {}))).removesuffix(".")
        statements = self.blocks[0].statements
        cuts = [cut for cut in self.cuts(statements, {}) if cut is not None]
        for end in {end for cut in cuts for end in cut.ends} - {""}:
            setting = _setting(owner, end, statements)
            facts = self.script.classes[model.cls]
            if setting is None or setting[0] not in facts.fields or setting[0] in facts.renamed:
                raise Unsupported("MIG204", f"{text} is cut to {end}, and no setting of {owner} that makes it says so")
            self.refuse_other_uses(model.cls, setting, [cut for cut in cuts if end in cut.ends], end)

    def refuse_other_uses(self, cls: str, setting: tuple[str, str], cuts: Sequence[_Cut], end: str) -> None:
        """Declines a setting on which anything depends in a constructor but what is cut to it."""
        name = setting[1]
        holders = self.holders(cls, setting[0])
        for one in self.script.with_submodules(cls):
            facts = self.script.classes[one]
            methods = [facts.method(method) for method in ("__init__", *facts.built)]
            bodies = [method.body for method in methods if method is not None]
            used = sum(usage.attributes(body).count(name) for body in bodies)
            if not used:
                continue
            if {bound for body in bodies for bound in usage.stores(body)} & holders[one]:
                raise Unsupported("MIG204", f"{name} is cut, and the constructor of {one} takes it from elsewhere")
            lines = [line for body in bodies for line in suites.suite_of(body.body)]
            asserted = sum(usage.attributes(line).count(name) for line in lines if _asserts(line))
            told = asserted + self.told_by_weights(facts, setting, [cut for cut in cuts if one == cls], end)
            called = [call for body in bodies for call in usage.calls(body)]
            for call in called:
                told += self.told_by_constant(facts, call, holders[one], name, cuts)
            if told != used:
                raise Unsupported("MIG204", f"{name} is not only what is cut: the constructor of {one} goes by it")

    @staticmethod
    def told_by_weights(facts: ClassFacts, setting: tuple[str, str], cuts: Sequence[_Cut], end: str) -> int:
        """How often a constructor names the setting as the length of an axis that is cut to it."""
        own = ".".join(setting)
        ends = {f"self.{'.'.join(cut.path)}": cut.ends for cut in cuts}
        told = 0
        for path, lengths in facts.lengths.items():
            cut = ends.get(path, ())
            wanted = [length == own for length in lengths]
            if cut and wanted == [number < len(cut) and cut[number] == end for number in range(len(lengths))]:
                told += sum(wanted)
        return told

    def told_by_constant(
        self, facts: ClassFacts, call: cst.Call, holders: set[str], name: str, cuts: Sequence[_Cut]
    ) -> int:
        """How often the setting makes a constant that is cut along just those axes, and would begin the same."""
        if nodes.dotted(call.func) != "self.register_buffer" or len(call.args) < 2:
            return 0
        buffer, value = nodes.literal(call.args[0].value), call.args[1].value
        axes = self.axes(facts.name, value, {f"{holder}.{name}" for holder in holders})
        ends = [cut.ends for cut in cuts if cut.path[-1] == buffer]
        alike = axes is not None and all([bool(end) for end in each] == axes[: len(each)] for each in ends)
        whole = axes is not None and all(not any(axes[len(each) :]) for each in ends)
        return usage.attributes(value).count(name) if ends and alike and whole else 0

    def axes(self, cls: str, node: Expr, setting: set[str]) -> list[bool] | None:
        """For each axis of a tensor whether the setting is its length, where a shorter one is the beginning of a longer
        one; None where that is not so, or not known."""
        if not isinstance(node, cst.Call):
            return None
        name, args = self.in_file_of(cls).torch_name(node.func), [arg.value for arg in node.args if arg.keyword is None]
        if name == "torch.arange" and len(args) == 1:
            return _lengths(args, setting)
        if name in _FILLED:
            return _lengths(args, setting)
        if name in _TRIANGLES and args:
            return self.axes(cls, args[0], setting)
        if name is not None or not isinstance(node.func, cst.Attribute):
            return None
        inner, method = self.axes(cls, node.func.value, setting), node.func.attr.value
        if inner is None or method in _SAME_SHAPE:
            return inner
        made = _lengths(args, setting) if method in ("view", "reshape") else None
        added = 0 if made is None else len(made) - len(inner)
        return made if made is not None and made == [False] * added + inner else None

    def holders(self, cls: str, field: str) -> dict[str, set[str]]:
        """The parameters of the constructors, of a class and of those of its submodules, that hold one object."""
        found = {cls: {field}}
        for _ in self.script.with_submodules(cls):
            for one in self.script.with_submodules(cls) - {cls}:
                given = {outer: fields for outer, fields in self.script.classes[one].given.items() if outer}
                found[one] = {
                    name
                    for name in self.script.classes[one].fields
                    if given
                    and all(fields.get(name, {""}) <= found.get(outer, set()) for outer, fields in given.items())
                }
        return found


def _with(params: Expr, keys: Sequence[str], value: Expr, others: Sequence[Sequence[str]]) -> Expr:
    """A tree of parameters with another leaf at a path. `others`: the paths of all its leaves from here on."""
    key, *rest = keys
    if rest:
        inner = [other[1:] for other in others if other[0] == key and len(other) > 1]
        value = _with(nodes.expression(f'{{x}}["{key}"]', x=params), rest, value, inner)
    made = nodes.dict_of([(key, value)])
    if all(other[0] == key for other in others):
        return made
    return made.with_changes(elements=[cst.StarredDictElement(params), *made.elements])


def _setting(owner: str, end: str, statements: Sequence[Statement]) -> tuple[str, str] | None:
    """The field of a model and the attribute of it that a scope sets to the end of what it cuts."""
    for statement in statements:
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Assign) and nodes.code(small.value) == end:
            path = (nodes.dotted(small.targets[0].target) or "").split(".")
            if ".".join(path[:-2]) == owner and len(path) > 2:
                return path[-2], path[-1]
    return None


def _asserts(statement: Statement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assert)


def _asks_for_attribute(test: Expr) -> bool:
    return isinstance(test, cst.Call) and nodes.dotted(test.func) == "hasattr"


def _lengths(args: Sequence[Expr], setting: set[str]) -> list[bool] | None:
    """Which of some lengths are the setting; None where one is neither that nor 1."""
    alone = args[0] if len(args) == 1 else None
    each = nodes.elements(alone) if isinstance(alone, cst.Tuple | cst.List) else list(args)
    known = [nodes.dotted(one) in setting or nodes.is_literal(one, 1) for one in each]
    return [nodes.dotted(one) in setting for one in each] if all(known) else None
