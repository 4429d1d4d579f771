"""Names of torch that an output keeps on purpose, since data loading stays torch; any other one is a mistake.

The lowering marks the names where it decides that code stays torch. The mark is a type of the name's text, which every
copy of the node takes along.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import AnyNode, Statement
from migrate.syntax.walking import every, walk


class _Kept(str):
    """The text of a name that stays on purpose."""

    __slots__ = ()


class _Marking(cst.CSTTransformer):
    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value=_Kept(updated_node.value))


def kept(node: AnyNode) -> AnyNode:
    """Code whose names stay as they are on purpose."""
    return nodes.visited(node, _Marking())


def names_of_kept(statements: Iterable[Statement]) -> set[str]:
    """The names that stay on purpose."""
    names = [found for statement in statements for found in every(statement, cst.Name)]
    return {str(found.value) for found in names if isinstance(found.value, _Kept)}


def in_full(node: Statement, imported: Mapping[str, str]) -> Statement:
    """Code with some of the names that stay written in full, `torch.nn.utils` for `nn.utils`: the output calls
    something else by them. imported: name -> what it stands for."""
    return nodes.visited(node, _InFull(imported)) if imported.keys() & names_of_kept([node]) else node


class _InFull(cst.CSTTransformer):
    def __init__(self, imported: Mapping[str, str]) -> None:
        super().__init__()
        self.imported = imported

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        full = self.imported.get(original_node.value) if isinstance(original_node.value, _Kept) else None
        return updated_node if full is None else nodes.expression(full)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        return updated_node.with_changes(name=original_node.name)

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False


class _Left(cst.CSTVisitor):
    def __init__(self, imported: Mapping[str, str], rebound: Container[str]) -> None:
        super().__init__()
        self.imported = imported
        self.rebound = rebound
        self.found: list[tuple[str, str]] = []

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        path = nodes.dotted(node)
        if path is None:
            walk(node.value, self)
            return False
        root: cst.BaseExpression = node
        while isinstance(root, cst.Attribute):
            root = root.value
        assert isinstance(root, cst.Name)
        self._note(root, path)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self._note(node, node.value)

    def visit_Arg(self, node: cst.Arg) -> bool:
        walk(node.value, self)
        return False

    def visit_Param(self, node: cst.Param) -> bool:
        for part in (node.annotation, node.default):
            if part is not None:
                walk(part, self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return not isinstance(node.target, cst.Name)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> bool:
        for part in (node.annotation, node.value):
            if part is not None:
                walk(part, self)
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        """What a function binds itself hides what the module imported by that name."""
        for part in (*node.decorators, node.params, *([node.returns] if node.returns else [])):
            walk(part, self)
        params = (*node.params.posonly_params, *node.params.params, *node.params.kwonly_params)
        own = {parameter.name.value for parameter in params} | set(usage.stores(node.body))
        outer = self.imported
        packages = {full.split(".")[0] for full in outer.values()}
        hidden = {name: full for name, full in outer.items() if name not in own}
        inside = imported_from([node.body], packages)
        self.imported = hidden | {name: full for name, full in inside.items() if name not in self.rebound}
        walk(node.body, self)
        self.imported = outer
        return False

    def _note(self, root: cst.Name, path: str) -> None:
        qualified = None if isinstance(root.value, _Kept) else self.imported.get(root.value)
        if qualified is not None:
            self.found.append((path, qualified + path.removeprefix(root.value)))


def left(
    statements: Iterable[Statement], imported: Mapping[str, str], rebound: Container[str] = ()
) -> Iterator[tuple[str, str]]:
    """The names that statements use and that are not kept on purpose, of those that an import of torch binds: as they
    are written, and in full. imported: name -> what it stands for; rebound: names that mean something else by now."""
    visitor = _Left(imported, rebound)
    for statement in statements:
        walk(statement, visitor)
    yield from dict.fromkeys(visitor.found)


class _Imports(cst.CSTVisitor):
    """Finds what imports of some packages bind."""

    def __init__(self, packages: Iterable[str]) -> None:
        super().__init__()
        self.packages = frozenset(packages)
        self.found: dict[str, str] = {}

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            name = nodes.dotted(alias.name) or ""
            root = name.split(".")[0]
            if root in self.packages:
                self.found[alias.evaluated_alias or root] = name if alias.evaluated_alias else root

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        module = (nodes.dotted(node.module) or "") if node.module and not node.relative else ""
        if module.split(".")[0] in self.packages and not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                self.found[alias.evaluated_alias or alias.evaluated_name] = f"{module}.{alias.evaluated_name}"


def imported_from(statements: Iterable[cst.CSTNode], packages: Iterable[str]) -> dict[str, str]:
    """What imports of some packages bind, anywhere in the statements: name -> what it stands for."""
    visitor = _Imports(packages)
    for statement in statements:
        walk(statement, visitor)
    return visitor.found
