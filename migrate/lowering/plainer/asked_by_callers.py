"""Losses that ask for what changes in training: `self.beta`, annealed from epoch to epoch, in `compute_loss`.

What a loss calls is traced by jit, which would keep the first answer for ever. So the input is taken as if such a
function had a parameter more, and its callers asked: `compute_loss(x, self.beta)`. In a loop of training that is before
the step, which takes the answer as an input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.qualified import file_of
from migrate.lowering.plainer.body_at_call import INNER, Site, given_to, is_plain, is_sure, used_around
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.told_by_callers import mentioned
from migrate.lowering.plainer.updates_in_place import all_sites
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.changing import grown
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


class _Unclear(Exception):
    """What is asked for cannot be asked by the callers."""


def with_asked_by_callers(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with functions that are given what they asked for; None where nothing is asked."""
    script = lowered[0].script
    made = list(inputs)
    for number, one in enumerate(inputs):
        edits = Edits()
        for name in sorted(script.asked):
            facts = script.functions.get(name)
            if facts is None or file_of(name) != one.scope:
                continue
            around = _around(one.source.module, facts.node)
            if around is None or any(_grows(one.source.module, node) for node in script.asked[name]):
                continue
            sites = all_sites(one.source.module, facts)
            if not sites or mentioned(inputs, facts, sites):
                continue
            try:
                found = _Asking(facts, around, script.asked[name]).parts(sites)
            except _Unclear:
                continue
            if not _overlap(found, edits.parts):
                edits.parts |= found
        if edits.parts:
            made[number] = replace(one, source=edited(one.source, edits))
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _overlap(some: Mapping[cst.CSTNode, cst.CSTNode], others: Mapping[cst.CSTNode, cst.CSTNode]) -> bool:
    """Whether nodes that are exchanged stand inside of others that are."""
    inside = [{inner for one in each for inner in every(one, cst.CSTNode)} for each in (some, others)]
    return bool(inside[0] & others.keys() or inside[1] & some.keys())


def _around(module: cst.Module, definition: cst.FunctionDef) -> cst.Module | cst.FunctionDef | None:
    """The function that another one is defined in, or the file; None where it is not in that."""
    holding = [one for one in every(module, cst.FunctionDef) if definition in every(one, INNER)]
    if not holding:
        return None
    return holding[-2] if len(holding) > 1 else module


def _grows(module: cst.Module, node: Expr) -> bool:
    """Whether something is a list that grows: jit would compile anew for each of its lengths."""
    path = nodes.dotted(node)
    return path is not None and not path.startswith("self.") and path in grown(module)


class _Asking:
    """What one function, which is defined in `around`, asks for."""

    def __init__(self, facts: FunctionFacts, around: cst.CSTNode, asked: Mapping[Expr, bool]) -> None:
        self.around = around
        self.definition, self.method = facts.node, facts.owner_is_class
        body = self.definition.body
        inner = next(every(body, (*INNER, cst.Lambda, cst.Yield, cst.Global, cst.Nonlocal)), None)
        if inner is not None or self.definition.decorators:
            raise _Unclear
        self.bound = {*usage.changes(body), *usage.stores(list(every(body, cst.CompFor)))}
        self.asked: dict[str, list[Expr]] = {}  # what a parameter is called -> the nodes that it stands for
        for node, repeatable in asked.items():
            self._add(node, repeatable)

    def _add(self, node: Expr, repeatable: bool) -> None:
        code = nodes.code(node)
        if isinstance(node, cst.Name):  # under its own name, wherever it is read
            if node.value in self.bound:
                raise _Unclear
            self.asked[node.value] = [node]
            return
        same = [one for one in every(self.definition.body, type(node)) if nodes.code(one) == code]
        if node not in same or not (repeatable or _runs_once(self.definition, node)):
            raise _Unclear
        if any(node in others for others in self.asked.values()):
            return
        attributes = usage.attributes_set(self.definition.body) & set(usage.attributes(node))
        if attributes or set(usage.loads(node)) & self.bound:
            raise _Unclear
        self.asked[self._name_for(node)] = same if repeatable else [node]

    def _name_for(self, node: Expr) -> str:
        """What the parameter is called: as what it stands for."""
        path = nodes.dotted(node.func if isinstance(node, cst.Call) else node)
        if path is None:
            raise _Unclear
        names = {one.value for one in every(self.definition, cst.Name)} - set(usage.attributes(self.definition.body))
        last = path.rpartition(".")[2]
        return usage.unused_name(f"{last}_value" if last in names else last, {*names, *self.asked})

    def parts(self, sites: Sequence[Site]) -> dict[cst.CSTNode, cst.CSTNode]:
        """What is exchanged in the function and its calls."""
        params = self.definition.params
        by_name = bool(params.kwonly_params or any(one.default is not None for one in params.params))
        found: dict[cst.CSTNode, cst.CSTNode] = {params: _with(params, list(self.asked), by_name)}
        found |= {
            node: nodes.name(name) for name, same in self.asked.items() for node in same if nodes.code(node) != name
        }
        for site in sites:
            values = [self._at(site, same[0]) for same in self.asked.values()]
            added = nodes.arguments([], dict(zip(self.asked, values, strict=True)))
            if not by_name:
                added = nodes.arguments(values)
            last = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in site.call.args[-1:]]
            found[site.call] = site.call.with_changes(args=[*site.call.args[:-1], *last, *added])
        if any(inner is not one and inner in found for one in found for inner in every(one, cst.CSTNode)):
            raise _Unclear
        return found

    def _at(self, site: Site, node: Expr) -> Expr:
        """What the function asks for in terms of what is around a call."""
        given = given_to(self.definition, site.call, self.method)
        if given is None or site.around is self.definition:
            raise _Unclear
        names = set(usage.loads(node))
        own = isinstance(site.around, cst.Module) or site.around is self.around  # where the same names are the same
        hidden = set[str]() if own else used_around(site.around, site.line).bound
        if (names - given.keys()) & hidden or not all(is_plain(given[name]) for name in names & given.keys()):
            raise _Unclear
        return nodes.substituted(node, given).deep_clone()


def _runs_once(definition: cst.FunctionDef, node: Expr) -> bool:
    """Whether a function surely evaluates an expression once."""
    body = suites.suite_of(definition.body.body)
    return any(isinstance(one, cst.SimpleStatementLine) and is_sure(one, node) for one in body)


def _with(params: cst.Parameters, names: Sequence[str], by_name: bool) -> cst.Parameters:
    """Parameters with more of them, which are given by their names where others may be left out."""
    added = [cst.Param(nodes.name(name)) for name in names]
    if by_name:
        star = params.star_arg if params.kwonly_params else cst.ParamStar()
        return params.with_changes(kwonly_params=[*params.kwonly_params, *added], star_arg=star)
    last = [one.with_changes(comma=cst.MaybeSentinel.DEFAULT) for one in params.params[-1:]]
    return params.with_changes(params=[*params.params[:-1], *last, *added])
