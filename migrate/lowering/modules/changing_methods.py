"""Methods of modules that set attributes after the module was made, `reset_classifier(self, num_classes)`, or freeze
weights, and that nothing calls: a Flax module is fixed by then, and whoever would call them makes another module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.walking import every

CODE = "MIG516"


def methods_that_change(modules: Sequence[cst.Module]) -> frozenset[str]:
    """The names of methods of which each definition in some files sets attributes of its object, or freezes weights,
    and that are read nowhere but in one another."""
    methods = list(_methods(modules))
    names = {one.name.value for one in methods if _changes(one)}
    names -= {one.name.value for one in methods if not _is_plain(one) or one.name.value.startswith("_")}
    names -= {"forward", "train", "eval"}
    while names:
        own = {id(part) for one in methods if one.name.value in names for part in every(one, cst.CSTNode)}
        read = {name for module in modules for name in _read(module, own)} & names
        plain = {one.name.value for one in methods if not _changes(one)} & names
        if not read | plain:
            break
        names -= read | plain
    return frozenset(names)


def _methods(modules: Sequence[cst.Module]) -> Iterator[cst.FunctionDef]:
    for module in modules:
        for cls in every(module, cst.ClassDef):
            yield from (one for one in cls.body.body if isinstance(one, cst.FunctionDef))


def _changes(method: cst.FunctionDef) -> bool:
    if usage.attributes_set(method.body):
        return True
    targets = (one.target for one in every(method.body, cst.AssignTarget))
    set_there = {one.attr.value for one in targets if isinstance(one, cst.Attribute)}
    return "requires_grad" in set_there or "requires_grad_" in usage.attributes(method.body)


def _is_plain(method: cst.FunctionDef) -> bool:
    """Whether no decorator does more to a method than say how torch runs it."""
    return all(nodes.code(one.decorator).startswith(("torch.jit.", "torch.no_grad")) for one in method.decorators)


def _read(module: cst.Module, aside: set[int]) -> Iterator[str]:
    """The names, attributes and strings of a file, but for some nodes."""
    for node in every(module, (cst.Attribute, cst.Name, cst.SimpleString)):
        if id(node) in aside:
            continue
        if isinstance(node, cst.SimpleString):
            yield str(nodes.literal(node))
        else:
            yield node.attr.value if isinstance(node, cst.Attribute) else node.value
