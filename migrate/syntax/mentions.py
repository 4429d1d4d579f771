"""Where files mention names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.remembering import remembered
from migrate.syntax.walking import every

DEFINITIONS = (cst.FunctionDef, cst.ClassDef)


def times_defined(modules: Iterable[cst.Module]) -> Counter[str]:
    """How often functions and classes of files, methods too, have a name."""
    return Counter(node.name.value for module in modules for node in every(module, DEFINITIONS))


def mentions(module: cst.Module, name: str, aside: Collection[cst.CSTNode] = ()) -> list[cst.Name]:
    """The places of a name in a file but for its imports, and for some nodes (`aside`)."""
    imported = _in_imports(module)
    return [one for one in every(module, cst.Name) if one.value == name and one not in imported and one not in aside]


@remembered
def _in_imports(module: cst.Module) -> frozenset[cst.CSTNode]:
    return frozenset(node for alias in every(module, cst.ImportAlias) for node in every(alias, cst.Name))


@remembered
def declared(node: cst.CSTNode) -> frozenset[str]:
    """The names that a piece of code says are those of around it: `global best`, `nonlocal count`."""
    return frozenset(item.name.value for one in every(node, (cst.Global, cst.Nonlocal)) for item in one.names)


def attributes_named(node: cst.CSTNode, name: str) -> list[cst.Attribute]:
    """Where a piece of code asks anything for an attribute of a name."""
    return [one for one in every(node, cst.Attribute) if one.attr.value == name]


def texts_named(node: cst.CSTNode, name: str) -> list[cst.SimpleString]:
    """The texts that are that name: `getattr` may be given it."""
    return [one for one in every(node, cst.SimpleString) if nodes.literal(one) == name]


def in_supers(node: cst.ClassDef) -> set[cst.CSTNode]:
    """What a class gives `super(Net, self)`."""
    return {arg.value for call in usage.calls(node) if nodes.dotted(call.func) == "super" for arg in call.args}


def called(module: cst.Module) -> set[cst.CSTNode]:
    """What a file calls: names, and those of the attributes that it calls."""
    functions = [call.func for call in usage.calls(module)]
    return {one.attr if isinstance(one, cst.Attribute) else one for one in functions}


def only_called(module: cst.Module, name: str, *, classes: bool = False) -> bool:
    """Whether a file names a function, or with `classes` a class as well, to define and to call it, and for nothing
    else."""
    return name not in (_besides_calls(module) if classes else _besides_calls_of_functions(module))


@remembered
def _besides_calls(module: cst.Module) -> frozenset[str]:
    """The names that a file mentions besides imports, calls and definitions."""
    aside = _in_imports(module) | called(module) | {node.name for node in every(module, DEFINITIONS)}
    return frozenset(one.value for one in every(module, cst.Name) if one not in aside)


@remembered
def _besides_calls_of_functions(module: cst.Module) -> frozenset[str]:
    """The same, with the names of classes that it defines."""
    return _besides_calls(module) | {node.name.value for node in every(module, cst.ClassDef)}


def by_itself(node: cst.CSTNode, name: str) -> list[cst.Name]:
    """The places of a name in a node where it is neither that of an attribute nor of a keyword argument."""
    aside: set[object] = {one.attr for one in every(node, cst.Attribute)}
    aside |= {one.keyword for one in every(node, cst.Arg)}
    return [one for one in every(node, cst.Name) if one.value == name and one not in aside]


def functions_around(node: Expr, module: cst.Module) -> list[cst.FunctionDef | cst.Lambda]:
    """The functions of a file that a node stands in, outer ones first."""
    functions = every(module, (cst.FunctionDef, cst.Lambda))
    return [one for one in functions if any(node is inside for inside in every(one.body, type(node)))]


def names_of_class(cls: cst.ClassDef) -> Iterator[cst.CSTNode]:
    """The names of what a class has itself: its methods, and what it sets."""
    for one in suites.suite_of(cls.body.body):
        if isinstance(one, cst.FunctionDef):
            yield one.name
        elif isinstance(small := suites.alone(one), cst.Assign):
            yield from (name for target in small.targets for name in every(target, cst.Name))
        elif isinstance(small, cst.AnnAssign):
            yield from every(small.target, cst.Name)
