"""Changed copies of an input, that keep the places of what they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from migrate.files.source import SourceFile
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import imported_names
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class Placing(cst.CSTTransformer):
    """Keeps the places of what it makes anew."""

    def __init__(self, positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__()
        self.positions = positions

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        made = super().on_leave(original_node, updated_node)
        if isinstance(made, cst.CSTNode) and original_node in self.positions:
            self.positions[made] = self.positions[original_node]
        return made

    def place(self, made: cst.CSTNode, original: cst.CSTNode) -> None:
        """What has no place of its own stands where another node does."""
        if original in self.positions:
            for one in every(made, cst.CSTNode):
                self.positions.setdefault(one, self.positions[original])


class Anew(Placing):
    """Makes the names anew as well: the text of the name that a call calls tells it from others of the input."""

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value=usage.text_of_its_own(updated_node.value))


class Exchanging(Placing):
    """Puts nodes in the place of others, or takes them out."""

    def __init__(self, instead: Mapping[cst.CSTNode, Any], positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.instead = instead

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        if original_node not in self.instead:
            return super().on_leave(original_node, updated_node)
        made = self.instead[original_node]
        if isinstance(made, cst.CSTNode):
            self.place(made, original_node)
        return made


@dataclass
class Edits:
    """What is changed of a file: statements -> those that stand for them, what goes before statements and behind
    functions, names, maybe dotted ones, that are others now, and expressions or parameters that others stand for."""

    instead: dict[Statement, list[Statement]] = field(default_factory=dict)
    ahead: dict[Statement, list[Statement]] = field(default_factory=dict)
    behind: dict[Statement, list[Statement]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    parts: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any((self.instead, self.ahead, self.behind, self.names, self.parts))

    @property
    def functions(self) -> list[cst.FunctionDef]:
        """The functions among what goes before and behind others."""
        groups = [*self.ahead.values(), *self.behind.values()]
        return [one for group in groups for one in group if isinstance(one, cst.FunctionDef)]

    def of(self, statements: Sequence[Statement]) -> list[Statement]:
        """What stands for some statements by now, what goes before them included."""
        return [new for one in statements for new in (*self.ahead.get(one, ()), *self.instead.get(one, (one,)))]

    def import_too(self, module: cst.Module, names: Sequence[str]) -> None:
        """Puts imports of modules that a file does not import as what they are ahead of its first statement, or of the
        first one behind what has to come first."""
        imported = imported_names(module)
        made = [nodes.statement(f"import {name}") for name in names if imported.get(name) != name]
        first = next(line for line in suites.suite_of(module.body) if not _comes_first(line)) if made else None
        if first is not None:
            self.ahead[first] = [*made, *self.ahead.get(first, [])]

    def copy(self) -> Edits:
        """A copy to try more on."""
        return Edits(dict(self.instead), dict(self.ahead), dict(self.behind), dict(self.names), dict(self.parts))


def _comes_first(line: Statement) -> bool:
    """Whether a statement is a docstring, or an import from `__future__`."""
    small = suites.alone(line)
    future = isinstance(small, cst.ImportFrom) and nodes.dotted(small.module or cst.Name("")) == "__future__"
    return future or suites.is_docstring(line)


def edited(source: SourceFile, edits: Edits) -> SourceFile:
    """A file with some edits."""
    made = _Editing(edits, dict(source.positions))
    return source.with_module(source.module.visit(made), made.positions)


class _Editing(Placing):
    """Puts the edits in; what they make stands where what they stand for did."""

    def __init__(self, edits: Edits, positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.edits = edits

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        name = self.edits.names.get(nodes.dotted(original_node) or "")
        return updated_node if name is None else nodes.expression(name)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        if original_node in self.edits.parts:
            exchanged = self.edits.parts[original_node]
            self.place(exchanged, original_node)
            return exchanged
        made = super().on_leave(original_node, updated_node)
        groups: list[Mapping[Statement, list[Statement]]] = [self.edits.ahead, self.edits.instead, self.edits.behind]
        if not isinstance(original_node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return made
        if not any(original_node in group for group in groups):
            return made
        ahead, instead, behind = (group.get(original_node, []) for group in groups)
        if ahead and made.leading_lines and [*ahead[0].leading_lines] == [*original_node.leading_lines]:
            made = made.with_changes(leading_lines=[])  # its comments went with what is ahead of it
        stands = instead if original_node in self.edits.instead else [made]
        whole = [made if one is original_node else one for one in [*ahead, *stands, *behind]]
        for one in whole:
            self.place(one, original_node)
        return cst.FlattenSentinel(whole) if whole else cst.RemoveFromParent()
