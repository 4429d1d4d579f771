"""Functions that tell something of the gradients of the parameters that they are given, `get_grad_norm_(parameters)`:
what they return, in terms of the model, in the place of their calls.

What such a function asks first is known where it is given `model.parameters()`: these are parameters and no tensor,
there are some, and each has a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Severity
from migrate.files.source import SourceFile
from migrate.known.facts import FunctionFacts
from migrate.known.qualified import file_of
from migrate.known.script import Script
from migrate.lowering.plainer.body_at_call import Instead, Site, free_names, given_to, is_plain
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.settled_branches import lists_parameters
from migrate.lowering.plainer.updates_in_place import sites_by_file, with_edits
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


class _Unclear(Exception):
    """What a function returns is no expression of what it is given."""


def with_gradients_read(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with what such functions return where they are called; None where there are none."""
    script = lowered[0].script
    for file in lowered:
        wrong = [found.line for found in file.diagnostics if found.severity is Severity.ERROR]
        for name, facts in list(script.functions.items()):
            if file_of(name) != file.scope or facts.owner_is_class or not _is_meant(file.source, facts, wrong):
                continue
            made = _in_place(inputs, script, facts)
            if made is not None:
                return made
    return None


def _is_meant(source: SourceFile, facts: FunctionFacts, wrong: Sequence[int]) -> bool:
    """Whether a function reads gradients, and could not be converted as it is. `wrong`: the lines of findings."""
    place = source.positions.get(facts.node)
    inside = place is not None and any(place.start.line <= line <= place.end.line for line in wrong)
    return inside and "grad" in usage.attributes(facts.node)


def _in_place(inputs: Sequence[Input], script: Script, facts: FunctionFacts) -> list[Input] | None:
    sites = sites_by_file(inputs, facts)
    edits = {scope: Edits() for scope in sites}
    read = set[str]()
    for scope, found in sites.items():
        for site in found:
            value = _value_at(facts.node, site)
            if value is None or site.line in edits[scope].instead:
                return None
            read |= set(usage.loads(value))
            whole = suites.alone(site.line)
            alone = isinstance(whole, cst.Expr) and whole.value is site.call
            put = Instead(site.call, nodes.parenthesized(value))
            edits[scope].instead[site.line] = [] if alone else [nodes.visited(site.line, put)]
    return with_edits(inputs, script, facts, sites, edits, read & free_names(facts.node)) if sites else None


def _value_at(definition: cst.FunctionDef, site: Site) -> Expr | None:
    """What a call of a function gives; None where that cannot be told."""
    given = given_to(definition, site.call, method=False)
    if given is None or not all(is_plain(value) or lists_parameters(value) for value in given.values()):
        return None
    told = _Telling(dict(given))
    try:
        told.run([one for one in suites.suite_of(definition.body.body) if not suites.is_docstring(one)])
    except _Unclear:
        return None
    return told.result


@dataclass
class _Telling:
    """What a body makes of what it is given: the values of its names, and what it returns."""

    values: dict[str, Expr]
    devices: set[str] = field(default_factory=set)
    result: Expr | None = None

    def run(self, body: Sequence[Statement]) -> None:
        """Goes through some statements up to the `return`. Raises _Unclear."""
        for number, statement in enumerate(body):
            if self.result is not None:
                return
            small = suites.alone(statement)
            if isinstance(statement, cst.If):
                self.run(suites.sides(statement)[0 if self.decided(statement.test) else 1])
            elif isinstance(small, cst.Return) and small.value is not None:
                self.result = self.value(small.value)
            elif isinstance(small, cst.Assign) and len(small.targets) == 1:
                self.bind(small.targets[0].target, small.value, body[number + 1 :])
            else:
                raise _Unclear

    def bind(self, target: cst.BaseExpression, value: Expr, rest: Sequence[Statement]) -> None:
        """An assignment. What computes something may be read once."""
        if not isinstance(target, cst.Name):
            raise _Unclear
        if nodes.code(value).endswith(".device"):
            self.devices.add(target.value)
            return
        made = self._all_with_gradients(value) or self.value(value)
        if not is_plain(made) and not lists_parameters(made) and usage.loads(rest).count(target.value) > 1:
            raise _Unclear
        self.values[target.value] = made

    def value(self, node: Expr) -> Expr:
        """An expression in terms of what is around the call."""
        made = nodes.visited(node, _Undevised(self.devices))
        if self.devices & set(usage.loads(made)):
            raise _Unclear
        if isinstance(made, cst.Call) and nodes.dotted(made.func) == "float" and len(made.args) == 1:
            number = nodes.literal(self.value(made.args[0].value))
            if isinstance(number, int | float):
                return nodes.expression(repr(float(number)))
        return nodes.substituted(made, self.values).deep_clone()

    def _all_with_gradients(self, node: Expr) -> Expr | None:
        """The parameters of `[p for p in parameters if p.grad is not None]`, which are all; None of anything else."""
        match node:
            case cst.ListComp(elt=cst.Name(value=name), for_in=cst.CompFor(target=cst.Name(value=each)) as loop):
                tests = [nodes.code(one.test) for one in loop.ifs]
                whole = self.values.get(nodes.dotted(loop.iter) or "")
                if name == each and tests == [f"{name}.grad is not None"] and whole and loop.inner_for_in is None:
                    return whole if lists_parameters(whole) else None
        return None

    def decided(self, test: Expr) -> bool:
        """The truth of a test. Raises _Unclear."""
        match test:
            case cst.Call(func=cst.Name(value="isinstance"), args=[cst.Arg(value=asked), cst.Arg(value=kind)]):
                if lists_parameters(self.value(asked)) and (nodes.dotted(kind) or "").endswith("Tensor"):
                    return False
            case cst.Comparison(
                left=cst.Call(func=cst.Name(value="len"), args=[cst.Arg(value=asked)]),
                comparisons=[cst.ComparisonTarget(operator=cst.Equal(), comparator=cst.Integer(value="0"))],
            ):
                if lists_parameters(self.value(asked)):
                    return False
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=cst.Equal(), comparator=right)]):
                number, other = nodes.literal(self.value(left)), nodes.literal(right)
                other = math.inf if _is_infinite(right) else other
                if isinstance(number, int | float) and isinstance(other, int | float):
                    return number == other
        raise _Unclear


def _is_infinite(node: Expr) -> bool:
    return nodes.code(node) in ("inf", "math.inf", "torch.inf", "np.inf", 'float("inf")', "float('inf')")


class _Undevised(cst.CSTTransformer):
    """Takes out moves to a device by its name: `x.to(device)`."""

    def __init__(self, devices: set[str]) -> None:
        super().__init__()
        self.devices = devices

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        match updated_node:
            case cst.Call(
                func=cst.Attribute(attr=cst.Name(value="to"), value=moved), args=[cst.Arg(value=cst.Name(value=to))]
            ):
                return moved if to in self.devices else updated_node
        return updated_node
