"""`locals()` at the start of a constructor: its arguments by their names, written out.

Flax has the arguments as fields, which are no names of the function.
"""

from __future__ import annotations

import libcst as cst

from migrate.lowering.modules.inheritance import is_super_init
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def arguments_as_dict(init: cst.FunctionDef, cls: str) -> dict[cst.CSTNode, Expr]:
    """What stands for `locals()` of a constructor where nothing but arguments is known by then."""
    body = [one for one in suites.suite_of(init.body.body) if not suites.is_docstring(one)]
    first = next((one for one in body if not is_super_init(one)), None)
    calls = [one for one in every(init.body, cst.Call) if nodes.dotted(one.func) == "locals" and not one.args]
    stars = init.params.star_kwarg or isinstance(init.params.star_arg, cst.Param) or init.params.posonly_params
    if stars or len(calls) != 1 or not isinstance(first, cst.SimpleStatementLine) or len(first.body) > 1:
        return {}
    around = [one for one in every(first, cst.Call) if nodes.dotted(one.func) == "dict" and len(one.args) == 1]
    copied = next((one for one in around if one.args[0].value is calls[0]), calls[0])
    if not any(one is copied for one in every(first, cst.Call)):
        return {}
    given = [*init.params.params, *init.params.kwonly_params]
    entries: list[tuple[str, Expr]] = [(one.name.value, nodes.name(one.name.value)) for one in given]
    if any(not one.args for one in every(init.body, cst.Call) if nodes.dotted(one.func) == "super"):
        entries.append(("__class__", nodes.name(cls)))
    return {copied: nodes.dict_of(entries)}
