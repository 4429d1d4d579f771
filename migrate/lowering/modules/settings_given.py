"""What the modules of a program are made with, and its functions called with, where the program writes it out: a branch
that none of them takes is never reached."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import libcst as cst

from migrate.known.facts import ClassFacts, FunctionFacts
from migrate.known.kinds import Instance, Kind, Model, Optimizer, Plain
from migrate.known.script import Script
from migrate.syntax import nodes, usage
from migrate.syntax.mentions import only_called
from migrate.syntax.nodes import Expr
from migrate.syntax.none_tests import asked_for_none
from migrate.syntax.reckoning import is_reckoned, reckoned

_MOST = 32  # combinations of settings to try


def never_taken(script: Script, cls: str, conditions: Sequence[Expr]) -> bool:
    """Whether some test around a place in the constructor of a class fails for every module that the program makes."""
    facts = script.classes[cls]
    for test in conditions:
        names = sorted(set(usage.loads(test)))
        if not names or not set(names) <= set(facts.fields) - facts.rebinds or not is_reckoned(test):
            continue
        values = [settings(script, cls, name) for name in names]
        cases = list(itertools.islice(itertools.product(*values), _MOST + 1))
        if 0 < len(cases) <= _MOST and not any(_holds(test, dict(zip(names, case, strict=True))) for case in cases):
            return True
    return False


def never_called_so(facts: FunctionFacts, conditions: Sequence[Expr], files: Iterable[cst.Module]) -> bool:
    """Whether some test around a place in a function fails since every call gives None, or never does."""
    bound = set(usage.stores(facts.node.body))
    kinds = {name: kind for name, kind in facts.params.items() if name not in bound}
    fails = any(_truth(test, kinds) is False for test in conditions)
    return fails and all(only_called(file, facts.node.name.value) for file in files)


def _truth(test: Expr, kinds: Mapping[str, Kind]) -> bool | None:
    """What a test of names for None comes to; None where that is not known."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _truth(test.expression, kinds)
        return None if inner is None else not inner
    if isinstance(test, cst.BooleanOperation):
        sides = {_truth(test.left, kinds), _truth(test.right, kinds)}
        decides = isinstance(test.operator, cst.Or)
        return decides if decides in sides else (None if None in sides else not decides)
    if isinstance(test, cst.Name):
        return False if kinds.get(test.value) == _NONE else None
    asked = asked_for_none(test)
    kind = kinds.get(asked[0]) if asked is not None else None
    if asked is None or (kind != _NONE and not isinstance(kind, Instance | Model | Optimizer)):
        return None
    return (kind == _NONE) == asked[1]


_NONE = Plain("None")


def settings(script: Script, cls: str, field: str, seen: frozenset[str] = frozenset()) -> set[object]:
    """The values that an argument of the constructor of a class has in the program; none where that is not known."""
    facts = script.classes.get(cls)
    if facts is None or not facts.given or facts.made_by_value or script.is_base(cls) or cls in seen:
        return set()
    default = default_of(facts, field)
    found = set() if default is None else {literal_of(default)}
    for maker, given in facts.given.items():
        for text in given.get(field, ()):
            outer = script.classes.get(maker)
            if outer is not None and text in set(outer.fields) - outer.rebinds:
                found |= settings(script, maker, text, seen | {cls}) or {...}
            else:
                found.add(literal_of(cst.parse_expression(text)))
    return set() if ... in found else found


def default_of(facts: ClassFacts, field: str) -> Expr | None:
    """The default of an argument of the constructor of a class, as it is written."""
    init = facts.method("__init__")
    parameters = [] if init is None else [*init.params.params, *init.params.kwonly_params]
    return next((p.default for p in parameters if p.name.value == field), None)


def literal_of(node: Expr) -> object:
    """The value of a literal that can be in a set; `...` of any other expression."""
    if isinstance(node, cst.Dict):
        return _written_out(node)
    value = nodes.literal(node)
    value = tuple(value) if isinstance(value, list) else value
    try:
        hash(value)
    except TypeError:
        return ...
    return value


class _Written(dict[Any, Any]):
    """A dict that nobody changes."""

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(tuple(self.items()))


def _written_out(node: cst.Dict) -> object:
    """The value of a dict of literals; `...` of any other."""
    try:
        made = _Written(ast.literal_eval(nodes.code(node)))
        hash(made)
    except (ValueError, SyntaxError, TypeError):
        return ...
    return made


def _holds(test: Expr, values: Mapping[str, object]) -> bool:
    return bool(reckoned(test, values))  # true of `...`: where the program would end, too
