"""Losses that tell something: `wandb.log({"kl": kl})`, `self.writer.add_scalar("kl", kl, self.step)` in `compute_loss`.

What a loss calls is traced by jit, which would tell once, of what has no values yet. So the input is taken as if such a
function returned what it tells of beside its result, and its callers told it: `loss, kl = compute_loss(x)`, and then
`wandb.log({"kl": kl})`. In a loop of training that is after the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Kind, Tensor
from migrate.known.qualified import file_of, spelled
from migrate.known.script import Script
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.body_at_call import INNER, Instead, Site, given_to, is_first, is_plain, used_around
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.updates_in_place import all_sites, definition_at, mentioned_elsewhere
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_RECORDING = ("no_grad", "enable_grad", "inference_mode")


class _Unclear(Exception):
    """What is told cannot be told by the callers."""


def with_told_by_callers(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with functions that return what they tell of; None where nothing is told."""
    script = lowered[0].script
    telling = _telling(script)
    made: list[Input] = []
    for one in inputs:
        edits = Edits()
        for name in sorted(telling):
            facts = script.functions[name]
            if file_of(name) != one.scope or definition_at(one.source.module, spelled(name)) is not facts.node:
                continue
            sites = all_sites(one.source.module, facts)
            alone = len({site.line for site in sites}) == len(sites)
            if not sites or not alone or mentioned(inputs, facts, sites):
                continue
            kinds = script.finals.get(name, {})
            try:
                found = _Telling(facts.node, facts.owner_is_class, telling[name], kinds).edits(sites)
            except _Unclear:
                continue
            if not found.instead.keys() & edits.instead.keys():
                edits.instead |= found.instead
                edits.parts |= found.parts
        made.append(replace(one, source=edited(one.source, edits)) if edits.instead else one)
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def mentioned(inputs: Sequence[Input], facts: FunctionFacts, sites: Sequence[Site]) -> bool:
    """Whether anything else than some calls mentions a function. A variable may have the name of a method."""
    if not facts.owner_is_class:
        return mentioned_elsewhere(inputs, facts.node, sites, False)
    name, modules = facts.node.name.value, [one.source.module for one in inputs]
    defined = sum(one.name.value == name for each in modules for one in every(each, cst.FunctionDef))
    mentions = sum(one.attr.value == name for each in modules for one in every(each, cst.Attribute))
    return defined > 1 or mentions > len(sites) or name.startswith("__")


def _telling(script: Script) -> dict[str, set[int]]:
    """The functions that tell, with the calls by which they do. What gives no result is told of by its callers."""
    found: dict[str, set[int]] = {}
    waiting = [(name, call) for name, calls in script.told.items() for call in calls]
    while waiting:
        name, call = waiting.pop()
        if name not in script.functions or call in found.setdefault(name, set()):
            continue
        found[name].add(call)
        facts = script.functions[name]
        if any(one.value is not None for one in usage.returns(facts.node.body)):
            continue
        for site in facts.calls:
            if site.node is not None and site.scope in script.functions and script.functions[site.scope].traced:
                waiting.append((site.scope, id(site.node)))
    return found


class _Telling:
    """The edits for one function that tells, by calls of the ids `calls`."""

    def __init__(
        self, definition: cst.FunctionDef, method: bool, calls: AbstractSet[int], kinds: Mapping[str, Kind]
    ) -> None:
        self.definition, self.method, self.calls, self.kinds = definition, method, calls, kinds
        self.params = {each.name.value for each in every(definition.params, cst.Param)}
        self.bound = set(usage.changes(definition.body))
        body = suites.suite_of(definition.body.body)
        last = suites.alone(body[-1])
        returned = usage.returns(definition.body)
        closed = next(every(definition.body, (*INNER, cst.Lambda, cst.Yield, cst.Global, cst.Nonlocal)), None)
        if not isinstance(last, cst.Return) or last.value is None or returned != [last] or closed is not None:
            raise _Unclear
        self.result, self.last = last.value, body[-1]
        self.order = list(self._in_order(body))
        self.told = [one for one in self.order if self._tells(one)]
        if not self.told or any(_is_decorated(each) for each in definition.decorators):
            raise _Unclear
        self._check_order()

    def edits(self, sites: Sequence[Site]) -> Edits:
        """What stands for the statements of the function and those that call it."""
        flat = all(self._unpacks(site) for site in sites)
        given = [given_to(self.definition, site.call, self.method) for site in sites]
        asked = dict.fromkeys(name for one in self.told for name in usage.loads(one))
        parts = nodes.elements(self.result) if flat and isinstance(self.result, cst.Tuple) else [self.result]
        results = [nodes.dotted(part) for part in parts]
        extra = [
            name
            for name in asked
            if name in self.bound | self.params and name not in results and not self._is_given(name, given)
        ]
        if not all(isinstance(self.kinds.get(name), Tensor) for name in extra):
            raise _Unclear
        found = Edits({one: [] for one in self.told})
        if extra:
            value = nodes.bare_tuple([*parts, *map(nodes.name, extra)])
            made = nodes.statement("return {v}", v=value)
            found.instead[self.last] = suites.with_comments([made], self.last)
        left = set(usage.loads([one for one in self.order if one not in self.told])) | set(extra)
        unread = {name for name in asked if self._is_given(name, given) and name not in left} - {"self"}
        if unread:
            found.parts[self.definition.params] = _without(self.definition.params, unread)
        for site, values in zip(sites, given, strict=True):
            if site.around is self.definition or values is None:
                raise _Unclear
            call = self._without_given(site.call, unread) if unread else site.call
            found.instead[site.line] = self._at(site, call, values, results, extra, flat)
        return found

    # -- what tells ---------------------------------------------------------------------------------------------------

    def _in_order(self, body: Sequence[Statement]) -> Iterator[Statement]:
        """The statements of a function, in the order in which they run."""
        for one in body:
            if isinstance(one, cst.With) and not self._tells(one) and _only_records(one):
                yield from self._in_order(suites.suite_of(one.body.body))
            else:
                yield one

    def _tells(self, statement: Statement) -> bool:
        """Whether a statement does nothing but tell."""
        if isinstance(statement, cst.If):
            sides = [suites.suite_of(statement.body.body)]
            other = statement.orelse
            sides += [suites.suite_of(other.body.body)] if isinstance(other, cst.Else) else [[other]] if other else []
            return all(self._tells(one) or suites.is_pass(one) for side in sides for one in side)
        if isinstance(statement, cst.With):
            return _only_records(statement) and all(map(self._tells, suites.suite_of(statement.body.body)))
        small = suites.alone(statement)
        call = small.value if isinstance(small, cst.Expr) else None
        return isinstance(call, cst.Call) and (id(call) in self.calls or nodes.dotted(call.func) == "print")

    def _check_order(self) -> None:
        """What a statement tells of may not change after it, nor anything else be told in between."""
        inside = {id(call) for one in self.told for call in usage.calls(one)}
        if (
            not self.calls & inside
            or usage.stores(cst.Module(self.told))
            or usage.attributes_set(cst.Module(self.told))
        ):
            raise _Unclear
        first = self.order.index(self.told[0])
        for number, statement in enumerate(self.order[first:], first):
            if statement in self.told:
                continue
            small = suites.alone(statement)
            alone = isinstance(small, cst.Expr) and isinstance(small.value, cst.Call)
            before = [one for one in self.told if self.order.index(one) < number]
            changed = {*usage.changes(statement), *usage.changed_by_methods(statement), *usage.filled(statement)}
            attributes = usage.attributes_set(statement) & set(usage.attributes(cst.Module(before)))
            if alone or changed & set(usage.loads(before)) or attributes:
                raise _Unclear

    # -- where it is called -------------------------------------------------------------------------------------------

    def _is_given(self, name: str, given: Sequence[Mapping[str, Expr] | None]) -> bool:
        """Whether what a parameter stands for can be told by the callers themselves."""
        plain = all(values is not None and name in values and is_plain(values[name]) for values in given)
        return name in self.params - self.bound and plain

    def _unpacks(self, site: Site) -> bool:
        """Whether a call is unpacked into as many targets as the function returns values."""
        small = suites.alone(site.line)
        target = small.targets[0].target if isinstance(small, cst.Assign) and small.value is site.call else None
        length = nodes.length(self.result) if isinstance(self.result, cst.Tuple) else 0
        return isinstance(target, cst.Tuple) and length > 0 and nodes.length(target) == length

    def _without_given(self, call: cst.Call, unread: AbstractSet[str]) -> cst.Call:
        """A call without the arguments for some parameters."""
        names = [each.name.value for each in self.definition.params.params][self.method :]
        given = zip(call.args, argument_names(call.args, names), strict=True)
        return nodes.with_some(call, [arg for arg, name in given if name not in unread])

    def _name_for_result(self, site: Site, results: Sequence[str | None], taken: AbstractSet[str]) -> str:
        """What a result is called that its statement works on: as what is made of it, where that may be."""
        small = suites.alone(site.line)
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if isinstance(target, cst.Name) and target.value not in usage.loads([site.line, *self.told]):
            return target.value
        return usage.unused_name(results[0] if len(results) == 1 and results[0] else "result", taken)

    def _at(
        self,
        site: Site,
        call: cst.Call,
        given: Mapping[str, Expr],
        results: Sequence[str | None],
        extra: Sequence[str],
        flat: bool,
    ) -> list[Statement]:
        """What stands for a statement that calls the function: `call`, and what it told."""
        used = used_around(site.around, site.line)
        small = suites.alone(site.line)
        whole = isinstance(small, cst.Assign) and small.value is site.call and len(small.targets) == 1
        target = small.targets[0].target if isinstance(small, cst.Assign) and whole else None
        if target is None and not is_first(site):
            raise _Unclear
        if target is None:
            target = nodes.name(self._name_for_result(site, results, used.names))
        targets = nodes.elements(target) if flat and isinstance(target, cst.Tuple) else [target]
        names = [nodes.dotted(one) for one in targets]
        free = set(usage.loads(self.told)) - self.bound - self.params
        rebound = {name.partition(".")[0] for name in names if name} | set(extra)
        if None in names or (free & used.bound and not isinstance(site.around, cst.Module)):
            raise _Unclear
        values = dict[str, Expr](given)
        taken = used.names | free
        for name in extra:
            values[name] = nodes.name(usage.unused_name(name, taken))
        for result, name in zip(results, targets, strict=True):
            if result is not None:
                values[result] = name
        read = {name for name in usage.loads(self.told) if name in given and name not in (*extra, *results)}
        if (free | {head for name in read for head in usage.loads(given[name])}) & rebound:
            raise _Unclear
        result = nodes.bare_tuple([*targets, *(values[name] for name in extra)])
        changed = extra or not whole or call is not site.call
        first = nodes.statement("{t} = {c}", t=result, c=call) if changed else site.line
        told = [nodes.substituted(one, values).deep_clone() for one in self.told]
        made: list[Statement] = [suites.commented(first, site.line) if first is not site.line else first, *told]
        if not whole and not isinstance(small, cst.Expr):
            made.append(nodes.visited(site.line.with_changes(leading_lines=[]), Instead(site.call, target)))
        return made


def _is_decorated(decorator: cst.Decorator) -> bool:
    """Whether a decorator may do more than say how gradients are recorded, or that there is no object."""
    node = decorator.decorator
    name = nodes.dotted(node.func if isinstance(node, cst.Call) else node) or ""
    return name.rpartition(".")[2] not in (*_RECORDING, "staticmethod")


def _without(params: cst.Parameters, names: AbstractSet[str]) -> cst.Parameters:
    """Parameters without some of them."""
    plain = [each for each in params.params if each.name.value not in names]
    only = [each for each in params.kwonly_params if each.name.value not in names]
    if plain and plain[-1] is not params.params[-1]:
        plain[-1] = plain[-1].with_changes(comma=params.params[-1].comma)
    if only and only[-1] is not params.kwonly_params[-1]:
        only[-1] = only[-1].with_changes(comma=params.kwonly_params[-1].comma)
    star = params.star_arg if only or isinstance(params.star_arg, cst.Param) else cst.MaybeSentinel.DEFAULT
    return params.with_changes(params=plain, kwonly_params=only, star_arg=star)


def _only_records(block: cst.With) -> bool:
    """Whether a block is one that only says whether gradients are recorded."""
    contexts = [item.item for item in block.items]
    names = [nodes.dotted(one.func) or "" for one in contexts if isinstance(one, cst.Call)]
    return len(names) == len(contexts) and all(name.rpartition(".")[2] in _RECORDING for name in names)
