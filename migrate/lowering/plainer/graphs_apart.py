"""Models that are given graphs of PyG's: `model(data)`, of which `forward(self, data)` reads `data.x`.

A Flax module takes arrays. So the input is taken as if `forward` took what it reads of the graph, and its callers gave
that: `model(data.x, data.edge_index)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import UNKNOWN
from migrate.known.qualified import file_of, spelled
from migrate.known.script import Script
from migrate.layers.graphs import HOME
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.host.graphs import COUNTS, is_graph
from migrate.lowering.plainer.body_at_call import is_plain
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.updates_in_place import definition_at
from migrate.lowering.rounds import Input, Lowered
from migrate.rules.catalogue import RULES
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every


def with_graphs_apart(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with forward passes that take what they read of a graph; None where there are none."""
    script = lowered[0].script
    calls = {call: one.scope for one in inputs for call in every(one.source.module, cst.Call)} if script.fed else {}
    edits = {one.scope: Edits() for one in inputs}
    for cls, sites in sorted(script.fed.items()):
        facts = script.functions.get(f"{cls}.forward")
        source = next((one.source for one in inputs if facts and one.scope == file_of(facts.qualname)), None)
        definition = definition_at(source.module, spelled(facts.qualname)) if facts and source else None
        if facts is None or definition is None or not _calls_of(script, cls) <= sites:
            continue
        given = [call for call in calls if usage.site_of(call) in sites]
        parts = _taken_apart(definition, facts, given) or _counted(definition, given)
        if not parts or len(given) != len(sites):
            continue
        here = edits[file_of(facts.qualname)]
        here.instead |= {one: [] for one in _unpackings(definition, parts)}
        for node, made in parts.items():
            (edits[calls[node]] if isinstance(node, cst.Call) else here).parts[node] = made
    made = [replace(one, source=edited(one.source, edits[one.scope])) if edits[one.scope] else one for one in inputs]
    return made if any(edits.values()) else None


def _calls_of(script: Script, cls: str) -> set[int]:
    """The calls of all models of a class; one that is nobody's where it is a part of another class as well."""
    if any(cls in script.with_submodules(other) for other in script.classes if other != cls):
        return {0}
    passes = {
        site: script.parameters_of.get(place, place) for site, (place, method) in script.passes.items() if not method
    }
    return {site for site, place in passes.items() if script.places.get(place) == cls}


def _taken_apart(
    definition: cst.FunctionDef, facts: FunctionFacts, calls: Sequence[cst.Call]
) -> dict[cst.CSTNode, cst.CSTNode]:
    """What stands for the parameters, the body and the calls of a forward pass; nothing where a graph is more to it
    than what it holds."""
    params = definition.params
    names = [one.name.value for one in params.params]
    graphs = [name for name in names if is_graph(facts.params.get(name, UNKNOWN))]
    read = {name: _Reading(definition, name, set(names)) for name in graphs}
    starred = isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.kwonly_params
    if starred or not graphs or not all(one.fields for one in read.values()):
        return {}
    made: dict[cst.CSTNode, cst.CSTNode] = {}
    for call in calls:
        given = _given(call, names[1:], read)
        if given is None:
            return {}
        made[call] = given
    taken = [each for one in params.params for each in _params_for(one, read.get(one.name.value))]
    made[params] = params.with_changes(params=nodes.separated(taken))
    for one in read.values():
        made |= one.instead
    return made


def _counted(definition: cst.FunctionDef, calls: Sequence[cst.Call]) -> dict[cst.CSTNode, cst.CSTNode]:
    """What stands for the parameters, the body and the calls of a forward pass that pools the nodes of each graph: it
    is told how many graphs there are, which the data tell in torch. Nothing where its callers cannot say."""
    params = definition.params
    names = [one.name.value for one in params.params]
    pools = [call for call in usage.calls(definition.body) if _pools(call)]
    batches = {nodes.dotted(call.args[1].value) or "" for call in pools}
    starred = isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.kwonly_params
    name = usage.unused_name(COUNT, {*names, *usage.stores(definition.body), *usage.loads(definition.body)})
    if not pools or len(batches) != 1 or starred or any(one.default is not None for one in params.params):
        return {}
    (batch,) = batches
    if batch not in names or batch in usage.stores(definition.body):
        return {}
    made: dict[cst.CSTNode, cst.CSTNode] = {}
    for call in calls:
        known = not any(arg.star for arg in call.args)
        named = dict(zip(argument_names(call.args, names[1:]), call.args, strict=True)) if known else {}
        given = named[batch].value if batch in named else None
        if not isinstance(given, cst.Attribute) or given.attr.value != "batch":
            return {}
        count = cst.Attribute(given.value, cst.Name(COUNT))
        made[call] = call.with_changes(args=nodes.extended(call.args, {name: count}))
    for call in pools:
        made[call] = call.with_changes(args=nodes.extended(call.args, {"size": nodes.name(name)}))
    made[params] = params.with_changes(params=nodes.separated([*params.params, cst.Param(cst.Name(name))]))
    return made


def _pools(call: cst.Call) -> bool:
    """Whether a call is one of PyG's pooling functions, without the number of graphs."""
    name = (nodes.dotted(call.func) or "").rpartition(".")[2]
    plain = not any(arg.star or arg.keyword for arg in call.args)
    return f"{HOME}{name}" in RULES and name.startswith("global_") and plain and len(call.args) == 2


def _unpackings(definition: cst.FunctionDef, parts: Mapping[cst.CSTNode, cst.CSTNode]) -> list[Statement]:
    """The statements `x, edge_index = data.x, data.edge_index` that say nothing more."""
    found: list[Statement] = []
    for statement in suites.suite_of(definition.body.body):
        small = suites.alone(statement)
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            target, value = small.targets[0].target, small.value
            targets, values = (nodes.elements(one) if isinstance(one, cst.Tuple) else [one] for one in (target, value))
            made = [nodes.code(parts[one]) if one in parts else None for one in values]
            if made == [nodes.code(one) for one in targets]:
                found.append(statement)
    return found


class _Reading:
    """What a forward pass reads of a graph that it is given as `graph`: the fields, and what stands for their
    reading. No fields where it is more to it than them."""

    def __init__(self, definition: cst.FunctionDef, graph: str, params: set[str]) -> None:
        body = definition.body
        self.graph = graph
        found = [one for one in every(body, cst.Attribute) if nodes.dotted(one.value) == graph]
        mentions = sum(one.value == graph for one in every(body, cst.Name))
        fields = list(dict.fromkeys(one.attr.value for one in found))
        called = {id(call.func) for call in usage.calls(body)}
        alone = mentions == len(found) and not any(id(one) in called for one in found)
        only = alone and not COUNTS & set(fields) and graph not in usage.stores(body)
        only = only and graph not in usage.given_attributes(body)
        self.fields = fields if only else []
        self.names = {one: self._name_for(definition, one, params) for one in self.fields}
        self.instead: dict[cst.CSTNode, cst.CSTNode] = {}
        if self.fields:
            self.instead = {one: nodes.name(self.names[one.attr.value]) for one in found}

    def _name_for(self, definition: cst.FunctionDef, field: str, params: set[str]) -> str:
        """The parameter for a field: its name, unless something else has that before the last reading of it."""
        last = first = -1
        for number, statement in enumerate(suites.suite_of(definition.body.body)):
            if any(nodes.code(one) == f"{self.graph}.{field}" for one in every(statement, cst.Attribute)):
                last = number
            if first < 0 and field in usage.stores(statement):
                first = number
        plain = suites.alone(suites.suite_of(definition.body.body)[first]) if first >= 0 else None
        before = first < 0 or last < first or (last == first and isinstance(plain, cst.Assign))
        loaded = field in usage.loads(definition.body) and first < 0
        return field if before and not loaded and field not in params else f"{self.graph}_{field}"


def _params_for(param: cst.Param, read: _Reading | None) -> list[cst.Param]:
    """The parameters that stand for one."""
    if read is None:
        return [param.with_changes(comma=cst.MaybeSentinel.DEFAULT)]
    return [cst.Param(cst.Name(read.names[field])) for field in read.fields]


def _given(call: cst.Call, names: Sequence[str], read: Mapping[str, _Reading]) -> cst.Call | None:
    """A call that gives what is read of graphs; None where what it gives is not written out."""
    if any(arg.star for arg in call.args):
        return None
    args: list[cst.Arg] = []
    for arg, name in zip(call.args, argument_names(call.args, list(names)), strict=True):
        if name not in read:
            args.append(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT))
            continue
        if not is_plain(arg.value):
            return None
        for field in read[name].fields:
            value = cst.Attribute(arg.value, cst.Name(field))
            keyword = {"keyword": cst.Name(read[name].names[field]), "equal": _TIGHT} if arg.keyword else {}
            args.append(cst.Arg(value, **keyword))
    return call.with_changes(args=nodes.separated(args))


COUNT = "num_graphs"
_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
