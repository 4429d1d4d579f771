"""Where a project asks whether something is a layer of torch's: `isinstance(m, nn.Linear)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.lowering.rounds import Input
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


@dataclass(frozen=True)
class Mention:
    """The layer as what a file asks for, and what stands for it: the layer or the classes; None where they have no
    name there."""

    file: Input
    node: Expr
    ways: Expr | None


def mentions(file: Input, written: Mapping[str, Sequence[str]]) -> list[Mention]:
    """Where a file asks whether something is one of some layers. `written`: the classes that are written out, by the
    layer that each inherits from."""
    bases = set(written)
    module = file.source.module
    names = set(usage.stores(module))
    found: list[Mention] = []
    handled: set[int] = set()
    for call in every(module, cst.Call):
        if nodes.dotted(call.func) != "isinstance" or len(call.args) != 2:
            continue
        test = call.args[1].value
        options = nodes.elements(test) if isinstance(test, cst.Tuple) else [test]
        handled |= {id(one) for one in options}
        if any(_is_layer(one, bases) for one in options):
            asked = [layer for layer in written if any(_is_layer(one, {layer}) for one in options)]
            classes = [cls for layer in asked for cls in written[layer]]
            ways = nodes.tuple_of([*options, *map(nodes.name, classes)])
            named = all(cls in names for cls in classes)
            found.append(Mention(file, test, ways if named else None))
    handled |= {id(call.func) for call in every(module, cst.Call)}
    handled |= {id(arg.value) for one in every(module, cst.ClassDef) for arg in one.bases}
    annotations = every(module, cst.Annotation)
    handled |= {id(part) for one in annotations for part in every(one, (cst.Attribute, cst.Name))}
    short = {name for name, layer in _imported(module).items() if layer in bases}
    others: list[Expr] = [one for one in every(module, cst.Attribute) if _is_layer(one, bases)]
    others += [one for one in every(_without_imports(module), cst.Name) if one.value in short]
    return [*found, *(Mention(file, one, None) for one in others if id(one) not in handled)]


def _imported(module: cst.Module) -> dict[str, str]:
    """The names that a file gives layers of torch's: `from torch.nn import Linear`."""
    lines = [one for one in every(module, cst.ImportFrom) if one.module and nodes.code(one.module) == "torch.nn"]
    aliases = [alias for one in lines if not isinstance(one.names, cst.ImportStar) for alias in one.names]
    return {alias.evaluated_alias or alias.evaluated_name: alias.evaluated_name for alias in aliases}


def _without_imports(module: cst.Module) -> cst.Module:
    left = [one for one in module.body if not any(True for _ in every(one, cst.ImportFrom))]
    return module.with_changes(body=left)


def _is_layer(node: Expr, layers: set[str]) -> bool:
    """Whether an expression is one of some layers of torch's."""
    root, _, name = (nodes.dotted(node) or "").rpartition(".")
    return name in layers and root.rpartition(".")[2] == "nn"
