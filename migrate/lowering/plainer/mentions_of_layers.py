"""Where a file asks whether something is a layer of torch's: `isinstance(m, nn.Linear)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.walking import every


def asked_for_either(module: cst.Module, written: Mapping[str, Sequence[str]]) -> dict[cst.CSTNode, cst.CSTNode] | None:
    """The tests of a file for some layers, with those that ask for the classes too that are written out; None where it
    mentions such a layer otherwise, or has no name for a class. `written`: the classes by the layer, "torch.nn.Linear",
    that each inherits from."""
    imported, names = imported_names(module), set(usage.stores(module))
    found: dict[cst.CSTNode, cst.CSTNode] = {}
    handled: set[int] = set()
    for call in every(module, cst.Call):
        handled.add(id(call.func))
        if nodes.dotted(call.func) == "isinstance" and len(call.args) == 2:
            test = call.args[1].value
            options = nodes.elements(test) if isinstance(test, cst.Tuple) else [test]
            handled |= {id(one) for one in options}
            asked = {full_name(one, imported) for one in options}
            classes = [cls for layer, own in written.items() if layer in asked for cls in own]
            if not names.issuperset(classes):
                return None
            if classes:
                found[test] = nodes.tuple_of([*options, *map(nodes.name, classes)])
    handled |= {id(arg.value) for one in every(module, cst.ClassDef) for arg in one.bases}
    silent = every(module, (cst.Annotation, cst.Import, cst.ImportFrom))
    handled |= {id(part) for one in silent for part in every(one, (cst.Attribute, cst.Name))}
    mentioned = (one for one in every(module, (cst.Attribute, cst.Name)) if full_name(one, imported) in written)
    return found if all(id(one) in handled for one in mentioned) else None
