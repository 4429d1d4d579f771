"""Whether a program ever asks a function for what only some of its calls would: `resnet18(weights=None)` loads nothing.

An argument is followed through the functions that hand it on, to calls where it is written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from migrate.known.facts import CallSite, FunctionFacts
from migrate.known.script import Script
from migrate.lowering.modules.settings_given import never_called_so, never_taken
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.mentions import only_called
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_LEGACY = "pretrained"  # what torchvision's functions still take in the place of `weights`
_BY_NAME = frozenset({"getattr", "globals", "locals", "vars", "__dict__", "import_module"})


def never_reached(scope: Scope) -> str:
    """Why no module and no call of the program takes the branch at hand; "" where one may."""
    files = [unit.source.module for unit in scope.unit.others.values()]
    if scope.context == "setup" and never_taken(scope.script, scope.cls, scope.conditions):
        return "no module is made so"
    called = scope.facts is not None and (
        never_called_so(scope.facts, scope.conditions, files)
        or never_asked(scope.script, scope.facts, scope.conditions, files)
    )
    return "nothing calls it so" if called else ""


def never_asked(script: Script, facts: FunctionFacts, conditions: Sequence[Expr], files: Iterable[cst.Module]) -> bool:
    """Whether some test around a place in a function holds for no call of the program, since each that is written out
    gives None or False."""
    followed = _Followed(script, list(files))
    for test in conditions:
        name = _asks_for(test)
        if name and followed.gives_nothing(facts, name) and followed.calls:
            return True
    return False


def _asks_for(test: Expr) -> str:
    """The name that `weights is not None` and `pretrained` test for; "" of other tests."""
    match test:
        case cst.Name(value=name):
            return name
        case cst.Comparison(
            left=cst.Name(value=name),
            comparisons=[cst.ComparisonTarget(operator=cst.IsNot(), comparator=cst.Name(value="None"))],
        ):
            return name
    return ""


class _Followed:
    """Calls of functions. `calls`: how many were found that are written out."""

    def __init__(self, script: Script, files: list[cst.Module]) -> None:
        self.script = script
        self.files = files
        self.calls = 0
        self.seen: set[tuple[str, str]] = set()

    def gives_nothing(self, facts: FunctionFacts, name: str) -> bool:
        """Whether every call of a function gives None or False for a parameter."""
        if (facts.qualname, name) in self.seen:
            return True
        self.seen.add((facts.qualname, name))
        names = [*facts.parameter_names, *facts.keyword_names]
        rebound = [one for one in every(facts.node.body, cst.Assign) if name in usage.stores(one)]
        if name not in names or len(rebound) != usage.stores(facts.node.body).count(name):
            return False
        if not all(_verifies(one, name) for one in rebound) or not self._only_called(facts.node.name.value):
            return False
        return all(self._call_gives_nothing(facts, site, name) for site in facts.calls)

    def _call_gives_nothing(self, facts: FunctionFacts, site: CallSite, name: str) -> bool:
        if site.node is None:
            return False
        value = site.bound.get(name, facts.defaults.get(name))
        if name not in site.bound and any(arg.star for arg in site.node.args):
            return False
        known = {*facts.parameter_names, *facts.keyword_names}
        for number, arg in enumerate(site.node.args):
            outside = arg.keyword is None and not arg.star and number >= len(facts.parameter_names)
            legacy = arg.keyword is not None and arg.keyword.value == _LEGACY and _LEGACY not in known
            if (outside or legacy) and not _is_nothing(arg.value):
                return False
        if value is not None and _is_nothing(value):
            self.calls += 1
            return True
        caller = self.script.functions.get(site.scope)
        return isinstance(value, cst.Name) and caller is not None and self.gives_nothing(caller, value.value)

    def _only_called(self, function: str) -> bool:
        """Whether the program names a function to call it, and for nothing else."""
        if not all(only_called(file, function) for file in self.files):
            return False
        return not any(_looks_up(file) for file in self.files if _imports(file, function))


def _is_nothing(value: Expr) -> bool:
    return nodes.literal(value) in (None, False) and not nodes.is_literal(value, 0)


def _verifies(assign: cst.Assign, name: str) -> bool:
    """`weights = ResNet18_Weights.verify(weights)` of torchvision, which gives None for None."""
    match assign.value:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="verify")), args=[cst.Arg(value=cst.Name(value=given))]):
            return given == name
    return False


def _imports(file: cst.Module, function: str) -> bool:
    """Whether a file may take a function from another one."""
    return all(node.name.value != function for node in every(file, cst.FunctionDef))


def _looks_up(file: cst.Module) -> bool:
    """Whether a file finds anything by names that are only known as it runs."""
    return any(node.value in _BY_NAME for node in every(file, cst.Name))
