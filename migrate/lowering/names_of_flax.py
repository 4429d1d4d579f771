"""Names that every Flax module has, and torch's modules have not: a class that binds one means something else by it."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate import usage
from migrate.diagnostics import Unsupported
from migrate.facts import ClassFacts

OWN = {
    "bind", "clone", "copy", "get_variable", "has_rng", "has_variable", "init", "init_with_output", "is_initializing",
    "is_mutable_collection", "lazy_init", "make_rng", "module_paths", "name", "param", "parent", "path", "perturb",
    "put_variable", "scope", "setup", "sow", "tabulate", "unbind", "variable", "variables",
}  # fmt: skip


def refuse_names_of_flax(facts: ClassFacts, methods: Mapping[str, cst.FunctionDef], left_out: frozenset[str]) -> None:
    """Declines a class with an argument, a method or an attribute of such a name. `left_out`: methods that the output
    has not."""
    init = methods.get("__init__")
    stored = usage.attributes_set(init) if init is not None else set[str]()
    taken = ({*methods} - left_out | {*facts.fields} | stored) & OWN
    if taken:
        raise Unsupported("MIG201", f"every Flax module has a `{min(taken)}`: that of {facts.name} needs another name")
