"""Modules that train themselves and make their parts in a method that only the constructor calls: `self._build_net()`.

The input is taken as if the constructor had the lines of that method, where what is made is told from what is trained.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.optimizers import OPTIMIZERS
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.mentions import attributes_named
from migrate.syntax.walking import every


def with_constructors_whole(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such methods written out in the constructors that call them."""
    return [one.edited(_edits(one, inputs)) if "backward(" in one.source.text else one for one in inputs]


def _edits(one: Input, inputs: Sequence[Input]) -> Edits:
    edits, imported = Edits(), imported_names(one.source.module)
    for node in every(one.source.module, cst.ClassDef):
        methods = suites.methods_of(node)
        init = methods.pop("__init__", None)
        for line in suites.suite_of(init.body.body) if init is not None else []:
            call = suites.call_alone(line)
            owner, _, name = (nodes.dotted(call.func) or "").rpartition(".") if call is not None else ("", "", "")
            made = methods.get(name) if owner == "self" else None
            if init is None or call is None or made is None or call.args:
                continue
            makes = any(full_name(each.func, imported) in OPTIMIZERS for each in usage.calls(made.body))
            asked = [each for file in inputs for each in attributes_named(file.source.module, name)] if makes else []
            if len(asked) == 1 and _only_makes(made, init):
                edits.instead[line] = suites.with_comments(suites.below_docstring(made), line)
                edits.instead[made] = []
    return edits


def _only_makes(made: cst.FunctionDef, init: cst.FunctionDef) -> bool:
    """Whether the lines of a method mean the same in a constructor: it takes and returns nothing, and its variables are
    its own."""
    names = [one.name.value for one in made.params.params]
    there = {*usage.stores(init.body), *usage.loads(init.body), *(one.name.value for one in init.params.params)}
    alone = not there & {*usage.stores(made.body)} and not made.decorators
    return names == ["self"] and alone and not any(every(made.body, (cst.Return, cst.Yield)))
