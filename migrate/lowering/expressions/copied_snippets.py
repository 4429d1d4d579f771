"""Snippets that an output calls: they are copied into it."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.diagnostics import Unsupported
from migrate.known.kinds import TorchName
from migrate.lowering.scope import Scope
from migrate.snippet_files import with_needs
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr


def with_snippets(scope: Scope, node: Expr, names: Sequence[str]) -> Expr:
    """A constructor that uses snippets, which get another name where the script uses theirs for something else."""
    given: dict[str, Expr] = {}
    for name in with_needs(tuple(name for name in names if name in usage.loads(node))):
        clashes = name in scope.unit.taken and not isinstance(scope.env.lookup(name), TorchName)
        other = f"Torch{name}" if name[0].isupper() else f"torch_{name}"
        scope.unit.snippets[other if clashes else name] = name
        if clashes and usage.loads(node).count(name) > 1:
            raise Unsupported("MIG302", f"the output needs a function called {name}, a name that the script uses")
        if clashes:
            given[name] = nodes.name(other)
    return nodes.substituted(node, given) if given else node
