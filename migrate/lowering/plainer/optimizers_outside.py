"""Optimizers that modules make of their own weights: `self.optimizer = optim.Adam(self.parameters(), lr=lr)` in a
constructor.

A Flax module has no state that changes. The input is taken as if whoever makes such a module had its optimizer beside
it, and what goes with that (a schedule, a loss): `self.actor_optimizer = optim.Adam(self.actor.parameters(), lr=lr)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.object_sites import Site, attributes_outside, made_by, means, sites_of
from migrate.lowering.plainer.project_classes import ProjectClass, classes_of, is_alone, is_module
from migrate.lowering.rounds import Input
from migrate.optimizers import LOSSES, OPTIMIZERS
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_OPTIMIZERS = frozenset(name.rpartition(".")[2] for name in OPTIMIZERS)
_LOSSES = frozenset(name.rpartition(".")[2] for name in LOSSES)


@dataclass(frozen=True)
class _Beside:
    """What a class's constructor sets that goes beside its objects: attribute -> the line that sets it, and its value
    in terms of the constructor's parameters."""

    cls: ProjectClass
    lines: dict[str, Statement]
    values: dict[str, Expr]


def with_optimizers_outside(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such optimizers beside the modules, where every object of their class has a name."""
    if not any("self.parameters()" in one.source.text for one in inputs):
        return list(inputs)
    classes = classes_of(inputs)
    edits = {one.scope: Edits() for one in inputs}
    for name, cls in classes.items():
        beside = _beside(cls, classes) if is_module(name, classes) and _is_last(name, classes) else None
        if beside is not None:
            made = _moved(beside, inputs)
            for scope, each in (made or {}).items():
                edits[scope].instead |= each.instead
                for line, statements in each.behind.items():
                    edits[scope].behind[line] = [*edits[scope].behind.get(line, []), *statements]
                edits[scope].names |= each.names
    changed = {scope: each for scope, each in edits.items() if each.instead or each.behind or each.names}
    return [
        replace(one, source=edited(one.source, changed[one.scope])) if one.scope in changed else one for one in inputs
    ]


def _is_last(name: str, classes: Mapping[str, ProjectClass]) -> bool:
    """Whether no class inherits from a class."""
    return not any(name in one.bases for one in classes.values())


# -- what a class has -------------------------------------------------------------------------------------------------


def _beside(cls: ProjectClass, classes: Mapping[str, ProjectClass]) -> _Beside | None:
    """What goes beside the objects of a class; None where it makes no optimizer, or works with it itself, or has layers
    that the optimizer does not train since they are made after it."""
    init = cls.methods.get("__init__")
    if init is None or init.params.star_kwarg is not None or isinstance(init.params.star_arg, cst.Param):
        return None
    if not is_alone(cls, classes):
        return None
    body = suites.suite_of(init.body.body)
    parameters = {one.name.value for one in every(init.params, cst.Param)} - set(usage.stores(body))
    kept = {attribute: small.value for attribute, _, small in settings_of(body) if isinstance(small.value, cst.Name)}
    same = {name: value for name, value in kept.items() if isinstance(value, cst.Name) and value.value in parameters}
    read = [nodes.dotted(one) for one in every(cls.node, cst.Attribute)]
    lines: dict[str, Statement] = {}
    values: dict[str, Expr] = {}
    trains = False
    for attribute, line, small in settings_of(body):
        of_optimizer = is_optimizer(small.value)
        after = any(f"self.{one}" in usage.paths(small.value) for one in lines)
        if not (of_optimizer or after or is_loss(small.value)):
            continue
        inside = _Inside(same, set(lines))
        value = nodes.visited(small.value, inside)
        names = set(usage.loads(value)) - {"self"}
        own = set(usage.stores(body)) | {one.name.value for one in every(init.params, cst.Param)}
        if inside.lost or names & (own - parameters):
            if of_optimizer or after:
                return None
            continue
        if of_optimizer and any(makes_part(one, classes) for one in body[body.index(line) + 1 :]):
            return None
        lines[attribute], values[attribute] = line, value
        trains = trains or of_optimizer
    for attribute in list(lines):
        others = sum(f"self.{attribute}" in usage.paths(line) for name, line in lines.items() if name != attribute)
        if read.count(f"self.{attribute}") != 1 + others:
            if not is_loss(values[attribute]):
                return None
            del lines[attribute], values[attribute]
    return _Beside(cls, lines, values) if trains else None


def settings_of(body: Sequence[Statement]) -> Iterator[tuple[str, Statement, cst.Assign]]:
    """The attributes that the lines of a constructor set, one each."""
    for line in body:
        small = suites.alone(line)
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            owner, _, attribute = (nodes.dotted(small.targets[0].target) or "").rpartition(".")
            if owner == "self":
                yield attribute, line, small


def is_optimizer(value: Expr) -> bool:
    """Whether a value is an optimizer of all weights of the object that is made."""
    if not isinstance(value, cst.Call) or not value.args:
        return False
    made = (nodes.dotted(value.func) or "").rpartition(".")[2] in _OPTIMIZERS
    return made and nodes.code(value.args[0].value) == "self.parameters()"


def makes_part(line: Statement, classes: Mapping[str, ProjectClass]) -> bool:
    """Whether a line of a constructor may make a layer, or a parameter."""
    made = [nodes.dotted(call.func) or "" for call in usage.calls(line)]
    torchs = [name.rpartition(".")[2] for name in made if "nn." in name and ".init." not in name]
    own = {cls.name for name, cls in classes.items() if is_module(name, classes)}
    return bool(own.intersection(made)) or any(name not in _LOSSES for name in torchs)


def is_loss(value: Expr) -> bool:
    """Whether a value is a loss of torch's that nothing of the object goes into."""
    made = (nodes.dotted(value.func) or "").rpartition(".")[2] if isinstance(value, cst.Call) else ""
    return made in _LOSSES and not usage.attributes_of_self(value)


class _Inside(cst.CSTTransformer):
    """Puts the constructor's parameters in the place of the attributes that keep them. `lost`: attributes that are more
    than that."""

    def __init__(self, same: Mapping[str, Expr], beside: set[str]) -> None:
        super().__init__()
        self.same = same
        self.beside = beside
        self.lost: set[str] = set()

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        if nodes.dotted(original_node.value) != "self":
            return updated_node
        name = original_node.attr.value
        if name in self.same:
            return self.same[name]
        if name != "parameters" and name not in self.beside:
            self.lost.add(name)
        return updated_node


class _Outside(cst.CSTTransformer):
    """Puts an object's name in the place of `self`, and variables beside it in that of its attributes."""

    def __init__(self, target: str, beside: Mapping[str, Expr]) -> None:
        super().__init__()
        self.target = target
        self.beside = beside

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        if nodes.dotted(original_node.value) != "self":
            return updated_node
        name = original_node.attr.value
        return nodes.expression(f"{self.target}_{name}" if name in self.beside else f"{self.target}.{name}")


# -- where its objects are --------------------------------------------------------------------------------------------


def _moved(beside: _Beside, inputs: Sequence[Input]) -> dict[str, Edits] | None:
    """The edits that put all this beside the objects, by the scopes of files; None where some object has no name."""
    name = beside.cls.node.name.value
    sites = [site for one in inputs for site in sites_of(one, name)]
    calls = [call for one in inputs for call in usage.calls(one.source.module) if made_by(call) == name]
    if not sites or len(calls) != len(sites):
        return None
    edits = {one.scope: Edits() for one in inputs}
    edits[beside.cls.file.scope].instead |= {line: [] for line in beside.lines.values()}
    for site in sites:
        made = _made_beside(beside, site)
        imports = _imports_for(beside, site) if made is not None else None
        if made is None or imports is None:
            return None
        behind = edits[site.file.scope].behind
        behind[site.line] = [*behind.get(site.line, []), *made]
        for line, statements in imports.items():
            known = [nodes.code(one) for one in behind.get(line, [])]
            behind[line] = [*behind.get(line, []), *(one for one in statements if nodes.code(one) not in known)]
    for one in inputs:
        named = _names(beside, sites, one)
        if named is None:
            return None
        edits[one.scope].names |= named
    return edits


def _made_beside(beside: _Beside, site: Site) -> list[Statement] | None:
    """The statements that make an object's optimizer, and what goes with it; None where its arguments are not told."""
    init = beside.cls.methods["__init__"]
    parameters = (*init.params.posonly_params, *init.params.params)[1:]
    given: dict[str, Expr] = {one.name.value: one.default for one in every(init.params, cst.Param) if one.default}
    for name, arg in zip(
        argument_names(site.call.args, [p.name.value for p in parameters]), site.call.args, strict=True
    ):
        if not name:
            return None
        given[name] = arg.value
    made: list[Statement] = []
    outside = _Outside(site.target, beside.values)
    own = {one.name.value for one in every(init.params, cst.Param)}
    for attribute, value in beside.values.items():
        read = set(usage.loads(value)) & own - {"self"}
        if not read <= given.keys() or any(usage.calls(given[one]) for one in read):
            return None
        bare = nodes.substituted(nodes.visited(value, outside), {one: given[one] for one in read})
        made.append(nodes.statement(f"{site.target}_{attribute} = {{x}}", x=bare))
    return made


def _imports_for(beside: _Beside, site: Site) -> dict[Statement, list[Statement]] | None:
    """The imports that a site's file needs besides its own; None where the constructor reads what it cannot have."""
    if site.file.scope == beside.cls.file.scope:
        return {}
    own = {one.name.value for one in every(beside.cls.methods["__init__"].params, cst.Param)}
    wanted = {name for value in beside.values.values() for name in usage.loads(value)} - own - {"self"}
    theirs, ours = _imported(beside.cls.file), _imported(site.file)
    if not wanted <= theirs.keys() or not ours:
        return None
    missing = sorted(name for name in wanted if name not in ours)
    if any(nodes.code(ours[name][1]) != nodes.code(theirs[name][1]) for name in wanted - set(missing)):
        return None
    if set(missing) & set(usage.stores(site.file.source.module)):
        return None
    first = next(iter(ours.values()))[0]
    return {first: [theirs[name][1] for name in missing]} if missing else {}


def _imported(file: Input) -> dict[str, tuple[Statement, Statement]]:
    """The names that the imports at the top of a file bind: the line, and an import of that name alone."""
    found: dict[str, tuple[Statement, Statement]] = {}
    for line in file.source.module.body:
        small = suites.alone(line)
        if isinstance(small, cst.Import | cst.ImportFrom) and not isinstance(small.names, cst.ImportStar):
            for alias in small.names:
                bound = alias.asname.name if alias.asname is not None else alias.name
                name = (nodes.dotted(bound) or "").partition(".")[0]
                bare = alias.with_changes(comma=cst.MaybeSentinel.DEFAULT)
                alone = small.with_changes(names=[bare])
                found[name] = (line, cst.SimpleStatementLine([alone]))
    return found


# -- what reads it ----------------------------------------------------------------------------------------------------


def _names(beside: _Beside, sites: Sequence[Site], file: Input) -> dict[str, str] | None:
    """The dotted names of a file that mean what is beside an object now; None where one may mean something else."""
    found: dict[str, str] = {}
    kept = usage.paths(file.source.module)
    classes = [one for one in every(file.source.module, cst.ClassDef) if one is not beside.cls.node]
    others = {name for one in classes for name in usage.attributes_set(one)}
    for scope, node in attributes_outside(file, beside.cls.node):
        if node.attr.value not in beside.values:
            continue
        base, attribute = nodes.dotted(node.value), node.attr.value
        last = (base or "").rpartition(".")[2]
        alike = [site for site in sites if site.target.rpartition(".")[2] == last]
        if base == "self" or (not alike and attribute in others):
            continue
        if base is None or not alike:
            return None  # by another name
        if not any(means(site, base, scope, file) for site in alike) or f"{base}_{attribute}" in kept:
            return None
        found[f"{base}.{attribute}"] = f"{base}_{attribute}"
    return found
