"""What a script takes from an installed package of models, out of the file that is rewritten along with it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.files.borrowed import ANY, Borrowed, looked_up
from migrate.known.kinds import Function, Kind, Model, Plain, ProjectModule
from migrate.known.qualified import FILE, file_of
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


def borrowed_value(scope: Scope, node: Expr) -> Value | None:
    """`models.resnet18`, `models.__dict__[name]` and the like, as the output has them; None for other expressions."""
    if not scope.unit.borrowed:
        return None
    name = scope.torch_name(node) or _foreign_name(scope, node)
    if name is not None:
        file = scope.unit.borrowed.get(name)
        return file and Value(nodes.expression(f"{file.module}.{file.name}"), _kind(scope, file))
    found = looked_up(ast.parse(f"({nodes.code(node)})", mode="eval").body) if nodes.dotted(node) is None else None
    if found is None:
        return None
    module, key = (nodes.expression(ast.unparse(part)) for part in found)
    file = scope.unit.borrowed.get(f"{scope.torch_name(module)}.{ANY}")
    kind = None if file is None else _kind(scope, file)
    if file is None or not isinstance(kind, Function) or len(_made_in(scope, file)) > 1:
        return None
    return Value(nodes.call("getattr", nodes.name(file.module), key), kind)


def called_kind(scope: Scope, func: Expr) -> Kind:
    """The kind of what a call calls, of what is borrowed too."""
    borrowed = borrowed_value(scope, func)
    return scope.kind_of(func) if borrowed is None else borrowed.kind


def _foreign_name(scope: Scope, node: Expr) -> str | None:
    """The name in its package of what a file asks of a module of another package; None for other expressions."""
    root, dot, rest = (nodes.dotted(node) or "").partition(".")
    package = scope.unit.imported.get(root) if dot and scope.env.lookup(root) == Plain("module") else None
    return None if package is None else f"{package}.{rest}"


def _made_in(scope: Scope, file: Borrowed) -> set[str]:
    """The classes of the models that the functions of a file make: a name may be that of any of them."""
    inside = [facts for name, facts in scope.script.functions.items() if file_of(name) == file.module + FILE]
    return {facts.result.cls for facts in inside if isinstance(facts.result, Model)}


def import_borrowed(scope: Scope, line: cst.SimpleStatementLine, known: Sequence[str]) -> list[Statement]:
    """The imports of files that stand for parts of the packages that a line makes known, by their names."""
    made: list[Statement] = []
    for qualified, file in sorted(scope.unit.borrowed.items()):
        reached = any(qualified.startswith(f"{one}.") for one in known) and _is_asked(scope, qualified)
        if reached and scope.env.lookup(file.module) is None:
            scope.env.kinds[file.module] = ProjectModule(file.module + FILE)
            made.append(nodes.statement(f"import {file.module}"))
            report_borrowed(scope, file, line)
    return made


def _is_asked(scope: Scope, qualified: str) -> bool:
    """Whether a file asks a module for a name, as `models.resnet18`, or looks one up in it: it may import others."""
    name = qualified.rpartition(".")[2]
    return name == ANY or any(one.attr.value == name for one in every(scope.unit.source.module, cst.Attribute))


def is_borrowed_whole(scope: Scope, alias: cst.ImportAlias) -> bool:
    """Whether all that a file asks of a module of another package comes from files beside the script."""
    module, bound = nodes.code(alias.name), alias.evaluated_alias or ""
    taken = {name.rpartition(".")[2] for name in scope.unit.borrowed if name.rpartition(".")[0] == module}
    reads = usage.loads(scope.unit.source.module).count(bound)
    asked = [one for one in every(scope.unit.source.module, cst.Attribute) if nodes.dotted(one.value) == bound]
    return bool(bound and taken) and len(asked) == reads and all(one.attr.value in taken for one in asked)


def from_borrowed(
    scope: Scope, line: cst.SimpleStatementLine, module: str, names: Sequence[cst.ImportAlias]
) -> list[Statement]:
    """`from torchvision.models import resnet18, resnet34`, of the names that are borrowed: from files beside the
    script."""
    taken: dict[str, list[str]] = {}
    for alias in names:
        file = scope.unit.borrowed.get(f"{module}.{alias.evaluated_name}")
        if file is not None:
            kind = _kind(scope, file)
            scope.env.kinds[alias.evaluated_alias or alias.evaluated_name] = kind
            text = nodes.code(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT))
            report_borrowed(scope, file, line)
            if file.name not in scope.script.gone.get(file.module + FILE, ()):
                taken.setdefault(file.module, []).append(text)
    return [nodes.statement(f"from {file} import {', '.join(texts)}") for file, texts in taken.items()]


def report_borrowed(scope: Scope, file: Borrowed, line: cst.SimpleStatementLine) -> None:
    """Says that a file of a package is rewritten."""
    said = f"{file.shown} as {file.module}.py"
    if all(found.message != said for found in scope.unit.diagnostics):
        scope.unit.report(Unsupported("MIG103", said), line)


def _kind(scope: Scope, file: Borrowed) -> Kind:
    scope.script.wanted_of.setdefault(file.module + FILE, set()).add(file.name)
    return scope.exported(file.module + FILE, file.name)
