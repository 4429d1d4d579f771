"""Where a script keeps an output of a model, and what that is made of: what `computed_again` goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import KeptSite
from migrate.known.kinds import (
    Function,
    Host,
    Kind,
    Model,
    ModuleClass,
    Number,
    Place,
    Plain,
    ProjectModule,
    Tensor,
    TorchName,
)
from migrate.lowering.updates.gradient_flow import GradientFlow
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.suites import first_line


def kept_site(scope: GradientFlow, call: cst.Call, history: Sequence[Statement], models: set[Place]) -> KeptSite:
    """What a call of `append` keeps of models."""
    assert isinstance(call.func, cst.Attribute)
    holder = nodes.dotted(call.func.value) or ""
    function = scope.facts.qualname if scope.facts is not None else ""
    site = KeptSite(scope.unit.scope, function, holder, call, frozenset(models))
    try:
        if call.func.attr.value != "append" or len(call.args) != 1:
            raise Unsupported("MIG401", f"{call.func.attr.value}() fills it")
        return _described(scope, site, history)
    except Unsupported as error:
        return replace(site, problem=error.message)


def _described(scope: GradientFlow, site: KeptSite, history: Sequence[Statement]) -> KeptSite:
    value = site.value
    forward, carrying = _forward(scope, value, history)
    parts: list[cst.CSTNode] = [*forward, value]
    read = dict.fromkeys(usage.loads(parts))
    for statement in forward:
        if not isinstance(statement, cst.SimpleStatementLine) or statement not in scope.unit.source.positions:
            raise Unsupported("MIG401", f"`{first_line(statement)}` computes it, which is more than one statement")
        if not _here(scope, statement):
            raise Unsupported("MIG401", f"`{first_line(statement)}` computes it, outside the loop")
    own = [name for name in read if name not in carrying and _own(scope, name)]
    given = [name for name in own if isinstance(scope.kind_of_name(name), Model)]
    inputs = [name for name in own if name not in given]
    for name in inputs:
        kind = scope.kind_of_name(name)
        if not (type(kind) is Kind or isinstance(kind, Tensor | Number | Host)):
            raise Unsupported("MIG401", f"{name}, which it is made of, is no array")
    names = {*own, *carrying}
    changed = _changed(forward, history, names)
    earlier = _kept_earlier(scope, site, forward, history, names) if changed else None
    if changed and earlier is None:
        raise Unsupported("MIG401", f"{changed[0]}, which it is made of, has changed by then")
    _refuse_attributes(scope, parts)
    _refuse_changing(scope, parts)
    drawing = [s for s in forward if id(s) in scope.script.drawing]
    if len(drawing) > 1 or any(scope.script.drawing[id(one)] > 1 for one in drawing):
        raise Unsupported("MIG401", "it is made of several draws")
    cls = [scope.script.places.get(place, "") for place in site.models]
    if any(scope.script.has_stats(one) for one in cls):
        raise Unsupported("MIG401", "its model changes its statistics, which would be done once more")
    modes = {_mode(scope, path) for part in parts for path in usage.paths(part)} - {""}
    if len(modes) > 1 or "mixed" in modes:
        raise Unsupported("MIG401", "it is not known whether its model is in train mode")
    return replace(
        site,
        forward=tuple(forward),
        inputs=tuple(inputs),
        arrays=frozenset(name for name in inputs if isinstance(scope.kind_of_name(name), Tensor)),
        given=tuple(given),
        drawing=drawing[0] if drawing else None,
        earlier=earlier,
        mode="".join(modes),
    )


def _mode(scope: GradientFlow, path: str) -> str:
    """The mode of a model of that name, if it computes something else in another one."""
    kind = scope.kind_of_name(path)
    if not isinstance(kind, Model) or kind.place is None or not scope.script.trains(kind.cls):
        return ""
    return scope.env.modes.get(kind.place, "train")


def _forward(scope: GradientFlow, value: Expr, history: Sequence[Statement]) -> tuple[list[Statement], set[str]]:
    """The statements that gradients of a value flow through, and the names that they bind."""
    found: list[Statement] = []
    carrying: set[str] = set()
    for dependency in reversed(scope.dependencies(history, set(usage.loads(scope.attached(value))))[0]):
        if dependency.models or dependency.loads & carrying:
            found.append(dependency.statement)
            carrying |= dependency.stores
        else:
            carrying -= dependency.stores
    return found, carrying


def _here(scope: GradientFlow, statement: Statement) -> bool:
    """Whether a statement runs each time that the one at hand does: no loop stands between them."""
    for block in reversed(scope.blocks):
        if statement in block.statements[: block.index]:
            return True
        if block.cyclic:
            return False
    return False


def _changed(forward: Sequence[Statement], history: Sequence[Statement], names: set[str]) -> list[str]:
    """Those of some names that statements read and that have other values by the end of what was run."""
    return [name for statement in forward for name in _changed_after(statement, history) & names]


def _changed_after(statement: Statement, history: Sequence[Statement]) -> set[str]:
    """What a statement reads that has another value later on."""
    later = history[history.index(statement) :]
    return set(usage.loads(statement)) & {name for each in later for name in usage.changes(each)}


def _kept_earlier(
    scope: GradientFlow, site: KeptSite, forward: Sequence[Statement], history: Sequence[Statement], names: set[str]
) -> Statement | None:
    """The last statement that computes what is kept, where nothing that it is made of has changed by then and the rest
    of the block, up to the call, neither leaves it nor has to do with what holds it: the call might as well follow
    it. None elsewhere."""
    block = scope.blocks[-1]
    before = block.statements[: block.index]
    last = max((number for number, one in enumerate(before) if one in forward), default=-1)
    if last < 0:
        return None
    past, rest = history[: history.index(before[last]) + 1], before[last + 1 :]
    late = set(usage.loads(site.value)) & {name for one in rest for name in usage.changes(one)}
    beside = any(suites.leaves_loop(one) or site.holder in usage.paths(one) for one in rest)
    return None if _changed(forward, past, names) or late or beside else before[last]


def _own(scope: GradientFlow, name: str) -> bool:
    """Whether a name is a variable that may differ from turn to turn, or one of a function's own."""
    kind = scope.env.lookup(name)
    facts = scope.facts
    if name == "self" and facts is not None and facts.method:
        return False
    if facts is not None and name in {*usage.stores(facts.node.body), *facts.parameter_names}:
        return True
    if kind is None or isinstance(kind, TorchName | Function | ModuleClass | ProjectModule | Model):
        return False
    if isinstance(kind, Plain) and kind.what in ("module", "imported", "self"):
        return False
    return name not in scope.unit.constants or name in scope.unit.changing


def _refuse_changing(scope: GradientFlow, parts: Sequence[cst.CSTNode], seen: frozenset[str] = frozenset()) -> None:
    """Declines what goes through functions that read more than what they are given and what stays as it is."""
    for call in (call for part in parts for call in usage.calls(part)):
        kind = scope.kind_of(call.func)
        if not isinstance(kind, Function) or kind.name in seen:
            continue
        facts = scope.script.functions[kind.name]
        read = set(usage.loads(facts.node.body)) - facts.own_names
        paths = [path for path in usage.paths(facts.node.body) if path.startswith("self.")]
        models = [path for path in paths if isinstance(scope.kind_of_name(path), Model | Function)]
        if any(_own(scope, name) for name in read) or len(models) < len(paths):
            raise Unsupported("MIG401", f"{facts.node.name.value}(), which computes it, reads what may have changed")
        _refuse_changing(scope, [facts.node.body], seen | {kind.name})


def _refuse_attributes(scope: GradientFlow, parts: Sequence[cst.CSTNode]) -> None:
    """Declines what is made of attributes of an object, which may change, other than models and methods."""
    for path in (path for part in parts for path in usage.paths(part)):
        kind = scope.kind_of_name(path)
        known = isinstance(kind, Model | Function) or scope.model_and_path(path) is not None
        if path.startswith("self.") and not known:
            raise Unsupported("MIG401", f"{path}, which it is made of, may have changed by then")
