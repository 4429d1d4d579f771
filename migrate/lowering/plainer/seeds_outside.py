"""A seed in the constructor of a model, as notebooks on graphs have it:

class Net(nn.Module):                                     net = Net()
    def __init__(self):
        super().__init__()
        torch.manual_seed(12345)

or `self.seed = torch.manual_seed(seed)`, as courses on reinforcement learning do.

Flax runs `setup` in each forward pass, and the seed is one of what is drawn after the model is made. It is taken as if
it had been set where the model is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.updates_in_place import call_sites
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.mentions import attributes_named
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_SEED = "torch.manual_seed"
_DEEPEST = 4  # how many classes may make one another


def with_seeds_outside(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with the seeds of constructors where these are called."""
    made = list(inputs)
    for _ in range(_DEEPEST):
        edits = _edits(made)
        if not any(edits):
            break
        made = [one.edited(edit) for one, edit in zip(made, edits, strict=True)]
    return made


def _edits(inputs: Sequence[Input]) -> list[Edits]:
    edits = [Edits() for _ in inputs]
    seeds = [(seed, edit) for one, edit in zip(inputs, edits, strict=True) for seed in _seeds(one, inputs)]
    sites = [list(call_sites(one.source.module)) for one in inputs] if seeds else []
    calls = [call for one in inputs for call in usage.calls(one.source.module)] if seeds else []
    for seed, own in seeds:
        found = [[site for site in each if _called(site.call) == seed.cls] for each in sites]
        written = [call for call in calls if _called(call) == seed.cls]
        lines = [{site.line: seed.set_for(site.call) for site in each} for each in found]
        told = seed.parameter is None or sum(map(len, lines)) == len(written)  # else a line makes several
        told = told and all(made is not None for each in lines for made in each.values())
        if not written or len(written) != sum(map(len, found)) or not told:
            continue
        for edit, each in zip(edits, lines, strict=True):
            for line, first in each.items():
                assert first is not None
                first = first.with_changes(leading_lines=line.leading_lines)
                edit.instead[line] = [first, line.with_changes(leading_lines=[])]
        own.instead[seed.line] = []
    return edits


@dataclass(frozen=True)
class _Seed:
    """A seed in the constructor of a class: the line that sets it, the call in that, and the parameter that says it;
    None where it is written out."""

    cls: str
    init: cst.FunctionDef
    line: cst.SimpleStatementLine
    call: cst.Call
    parameter: str | None

    def set_for(self, made: cst.Call) -> cst.SimpleStatementLine | None:
        """The line that sets it ahead of a call of the class; None where that does not say it plainly."""
        given = self.call.args[0].value if self.parameter is None else self._given(made, self.parameter)
        if given is None or not (nodes.dotted(given) or isinstance(nodes.literal(given), int)):
            return None
        return cst.SimpleStatementLine([cst.Expr(self.call.with_changes(args=[cst.Arg(given)]))])

    def _given(self, made: cst.Call, parameter: str) -> Expr | None:
        """What a call of the class gives a parameter, or its default; None where stars hide it."""
        names = [one.name.value for one in self.init.params.params[1:]]
        bound = dict(zip(argument_names(made.args, names), (arg.value for arg in made.args), strict=True))
        default = next(one.default for one in self.init.params.params if one.name.value == parameter)
        return None if any(arg.star for arg in made.args) else bound.get(parameter, default)


def _seeds(one: Input, inputs: Sequence[Input]) -> Iterator[_Seed]:
    """The seeds that constructors of a file set."""
    if "manual_seed(" not in one.source.text:
        return
    imported = imported_names(one.source.module)
    for cls in every(one.source.module, cst.ClassDef):
        seed = _seed_of(cls, imported, inputs)
        if seed is not None:
            yield seed


def _called(call: cst.Call) -> str:
    return (nodes.dotted(call.func) or "").rpartition(".")[2]


def _seed_of(cls: cst.ClassDef, imported: Mapping[str, str], inputs: Sequence[Input]) -> _Seed | None:
    """The one seed of a constructor that is written out or a parameter: `self.seed = torch.manual_seed(seed)`, where
    nobody reads what that keeps. None where there is none, or more than one."""
    init = suites.methods_of(cls).get("__init__")
    lines = (
        {line: call for line in suites.suite_of(init.body.body) if (call := _seeding(line, imported))} if init else {}
    )
    if init is None or len(lines) != 1:
        return None
    ((line, call),) = lines.items()
    given, small = call.args[0].value, suites.alone(line)
    parameters = [one.name.value for one in init.params.params[1:]]
    name = given.value if isinstance(given, cst.Name) and given.value in parameters else None
    rebound = name is not None and name in usage.stores(init.body)
    if (name is None and not isinstance(nodes.literal(given), int)) or rebound:
        return None
    if isinstance(small, cst.Assign):
        path = nodes.dotted(small.targets[0].target) or ""
        named = [each for one in inputs for each in attributes_named(one.source.module, path.rpartition(".")[2])]
        if len(small.targets) > 1 or not path.startswith("self.") or not all(_is_set(one, inputs) for one in named):
            return None
    return _Seed(cls.name.value, init, cst.ensure_type(line, cst.SimpleStatementLine), call, name)


def _is_set(attribute: cst.Attribute, inputs: Sequence[Input]) -> bool:
    """Whether an attribute is the target of an assignment, or a function that is called: `random.seed(seed)`."""
    modules = [one.source.module for one in inputs]
    called = any(attribute is call.func for module in modules for call in usage.calls(module))
    return called or any(attribute is target for module in modules for target, _ in usage.bindings(module))


def _seeding(line: Statement, imported: Mapping[str, str]) -> cst.Call | None:
    """The call of a line that sets a seed, and does no more than to keep what that gives."""
    small = suites.alone(line)
    call = small.value if isinstance(small, cst.Expr | cst.Assign) else None
    if not isinstance(call, cst.Call) or full_name(call.func, imported) != _SEED or len(call.args) != 1:
        return None
    return call
