"""Where a project makes the objects of a class, under which names, and what it does with these, as the text tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

PLACING = ("to", "cuda", "cpu", "float", "double", "train")


@dataclass(frozen=True)
class Site:
    """Where an object of a class gets a name."""

    file: Input
    scope: Sequence[cst.CSTNode]  # the classes and functions around it, from the outermost
    line: Statement
    target: str
    call: cst.Call

    @property
    def owner(self) -> str:
        """The class whose object has it as an attribute; "" of variables."""
        inside = [one.name.value for one in self.scope if isinstance(one, cst.ClassDef)]
        return inside[-1] if inside and self.target.startswith("self.") else ""


def made_by(call: cst.Call) -> str:
    """The name of what a call calls, without what it is of."""
    return (nodes.dotted(call.func) or "").rpartition(".")[2]


def sites_of(file: Input, cls: str, chained: Sequence[str] = PLACING) -> Iterator[Site]:
    """The statements that name objects of a class, `net = Net(8).to(device)`. `chained`: methods that may follow."""

    def inside(body: Sequence[cst.CSTNode], scope: tuple[cst.CSTNode, ...]) -> Iterator[Site]:
        for line in suites.suite_of(body):
            small = suites.alone(line)
            if isinstance(small, cst.Assign) and len(small.targets) == 1:
                for target, value in usage.pairs(small.targets[0].target, small.value):
                    call, path = unchained(value, chained), nodes.dotted(target)
                    if isinstance(call, cst.Call) and made_by(call) == cls and path is not None:
                        yield Site(file, scope, line, path, call)
            deeper = (*scope, line) if isinstance(line, cst.FunctionDef | cst.ClassDef) else scope
            for block in every(line, cst.BaseSuite, closed=(cst.BaseSuite,)):
                yield from inside(block.body, deeper)

    yield from inside(file.source.module.body, ())


def means(site: Site, base: str, scope: Sequence[cst.CSTNode], file: Input) -> bool:
    """Whether a name that is read in a scope is that of an object."""
    classes = [one.name.value for one in scope if isinstance(one, cst.ClassDef)]
    if base.startswith("self."):
        return base == site.target and bool(classes) and classes[-1] == site.owner
    if "." in base:
        return bool(site.owner)
    if base != site.target or file.scope != site.file.scope:
        return False
    depth = len(site.scope)
    inner = scope[depth:]
    return list(scope[:depth]) == list(site.scope) and not any(binds(one, base) for one in inner)


def binds(node: cst.CSTNode, name: str) -> bool:
    """Whether a function has a name of its own."""
    if not isinstance(node, cst.FunctionDef):
        return False
    return name in {one.name.value for one in every(node.params, cst.Param)} | set(usage.stores(node.body))


def nodes_outside(
    file: Input, without: cst.ClassDef
) -> Iterator[tuple[Sequence[cst.CSTNode], cst.CSTNode, cst.CSTNode]]:
    """What a file consists of outside of a class: the classes and functions around each node, the node that it is a
    child of, and the node."""

    def inside(
        node: cst.CSTNode, scope: tuple[cst.CSTNode, ...]
    ) -> Iterator[tuple[Sequence[cst.CSTNode], cst.CSTNode, cst.CSTNode]]:
        for child in node.children:
            if child is without:
                continue
            yield scope, node, child
            deeper = (*scope, child) if isinstance(child, cst.FunctionDef | cst.ClassDef) else scope
            yield from inside(child, deeper)

    yield from inside(file.source.module, ())


def attributes_outside(file: Input, without: cst.ClassDef) -> Iterator[tuple[Sequence[cst.CSTNode], cst.Attribute]]:
    """The attributes that a file reads outside of a class, each with the classes and functions around it."""
    for scope, _, node in nodes_outside(file, without):
        if isinstance(node, cst.Attribute):
            yield scope, node
