"""Questions about torch's version: `hasattr(torch.backends, "mps")`. What is rewritten is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import libcst as cst

from migrate.layers.table import TABLE
from migrate.lowering.scope import Scope
from migrate.machine import DEVICES, NO_OPS, QUERIES, WRAPPERS
from migrate.rules.catalogue import RULES
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def torch_has(scope: Scope, test: cst.Call) -> bool:
    """Whether a call asks if a module of torch has an attribute that is rewritten, or that holds what is."""
    return asked_of_torch(test, scope.torch_name)


def asked_of_torch(test: cst.Call, name_of: Callable[[Expr], str | None]) -> bool:
    """The same by what gives modules their full names."""
    if nodes.dotted(test.func) != "hasattr" or len(test.args) != 2:
        return False
    return f"{name_of(test.args[0].value)}.{nodes.literal(test.args[1].value)}" in _THERE


def _with_owners(name: str) -> list[str]:
    return list(itertools.accumulate(name.split("."), "{}.{}".format))


_THERE = frozenset(
    owner for name in {*RULES, *TABLE, *QUERIES, *NO_OPS, *WRAPPERS, *DEVICES} for owner in _with_owners(name)
)
