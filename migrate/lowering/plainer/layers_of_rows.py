"""Layers that a script makes, fills and puts into a row: `linear1 = nn.Linear(784, 256)`, then
`nn.init.xavier_uniform_(linear1.weight)` and `model = nn.Sequential(linear1, relu, linear2)`.

Outside of a class such a name would be a model of its own, whose weights the row shares. The input is taken as if the
layers were written in the row, and filled as parts of it: `model[0].weight`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.layers.layer import Layer
from migrate.layers.table import TABLE
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.mentions import by_itself
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_ROW = "torch.nn.Sequential"
_WEIGHTS = frozenset({"weight", "bias"})


def with_layers_in_rows(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such layers written where they are put into a row."""
    return [one.edited(_edits(one.source.module)) if "Sequential" in one.source.text else one for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits, imported = Edits(), imported_names(module)
    bound = usage.stores(every(module, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For)))
    rows: list[_Row] = []
    for body in suites.bodies(module):
        suite = suites.suite_of(body.body)
        found = [row for line in suite if (row := _row(suite, line, imported)) is not None and row.layers]
        rows += [row for row in found if all(bound.count(name) == 1 for name in (row.name, *row.layers))]
    before = 0
    while len(rows) != before:  # one that stays is another use of what it shares
        before = len(rows)
        rows = [row for row in rows if _nothing_else(module, row, rows)]
    for row in rows:
        _write_out(edits, row)
    return edits


@dataclass(frozen=True)
class _Row:
    """A line that makes a row of a name, what is put into it, and the lines that make layers that have names there.
    `weightless`: the names of those without weights, which several places may share."""

    suite: Sequence[Statement]
    line: cst.SimpleStatementLine
    name: str
    given: Sequence[Expr]
    layers: Mapping[str, cst.SimpleStatementLine]
    weightless: frozenset[str]

    @property
    def filling(self) -> list[Statement]:
        """The lines that fill the weights of its layers."""
        return [one for one in self.suite if any(_fills(one, name) for name in self.layers)]

    def numbers(self, name: str) -> list[int]:
        """Where a layer is in the row."""
        return [number for number, one in enumerate(self.given) if nodes.dotted(one) == name]


def _row(suite: Sequence[Statement], line: Statement, imported: Mapping[str, str]) -> _Row | None:
    """The row that a line makes, with the layers that lines before it make; None of other lines."""
    name, value = suites.name_and_value(line)
    made = unchained(value) if value is not None else None
    if not isinstance(made, cst.Call) or full_name(made.func, imported) != _ROW:
        return None
    if not isinstance(line, cst.SimpleStatementLine) or any(arg.star or arg.keyword for arg in made.args):
        return None
    given = [arg.value for arg in made.args]
    before = {suites.name_and_value(one)[0]: one for one in suite[: suite.index(line)]}
    names = dict.fromkeys(one.value for one in given if isinstance(one, cst.Name))
    layers: dict[str, cst.SimpleStatementLine] = {}
    weightless = set[str]()
    for one in names:
        made_by = before.get(one)
        layer = _layer(made_by, imported) if made_by is not None else None
        if layer is not None and isinstance(made_by, cst.SimpleStatementLine):
            layers[one] = made_by
            weightless |= set() if layer.weights else {one}
    return _Row(suite, line, name, given, layers, frozenset(weightless))


def _layer(line: Statement, imported: Mapping[str, str]) -> Layer | None:
    """The layer of torch's that a line makes; None of other lines."""
    _, made = suites.name_and_value(line)
    return TABLE.get(full_name(made.func, imported)) if isinstance(made, cst.Call) else None


def _nothing_else(module: cst.Module, row: _Row, rows: Sequence[_Row]) -> bool:
    """Whether nothing else is done with the layers of a row than to fill their weights, and to put those without any
    into other rows."""
    filled = {one for line in row.filling for one in every(line, cst.Name)}
    for name, line in row.layers.items():
        shared = name in row.weightless
        lines = [line, *(one.line for one in (rows if shared else [row]))]
        expected = filled | {one for each in lines for one in every(each, cst.Name)}
        if not expected.issuperset(by_itself(module, name)) or (len(row.numbers(name)) > 1 and not shared):
            return False
    return True


def _write_out(edits: Edits, row: _Row) -> None:
    """Notes a row with its layers in it, which are filled as parts of it."""
    made = {name: suites.name_and_value(line)[1] for name, line in row.layers.items()}
    layers = {name: value for name, value in made.items() if value is not None}
    parts = {name: nodes.expression(f"{row.name}[{row.numbers(name)[0]}]") for name in layers}
    before = row.suite[: row.suite.index(row.line)]
    moved = [one for one in row.filling if one in before]
    gone = [line for line in (*row.layers.values(), *moved) if line not in edits.instead]
    comments = [comment for line in gone for comment in _comments(line)]
    written = nodes.substituted(row.line, layers)
    kept = [*row.line.leading_lines[:1], *comments, *row.line.leading_lines[1:]] if comments else row.line.leading_lines
    edits.instead |= {line: [] for line in gone}
    edits.instead |= {one: [nodes.substituted(one, parts)] for one in row.filling if one not in moved}
    edits.instead[row.line] = [
        written.with_changes(leading_lines=kept),
        *(nodes.substituted(one, parts).with_changes(leading_lines=[]) for one in moved),
    ]


def _comments(line: Statement) -> Iterator[cst.EmptyLine]:
    """The comments before and behind a line that goes, as lines of their own."""
    yield from suites.comments(line)
    if isinstance(line, cst.SimpleStatementLine) and line.trailing_whitespace.comment is not None:
        yield cst.EmptyLine(comment=line.trailing_whitespace.comment)


def _fills(line: Statement, name: str) -> bool:
    """Whether a line is nothing but a call that is about the weight or the bias of a layer."""
    call = suites.call_alone(line)
    mentions = by_itself(line, name) if call is not None else []
    weights = [one.value for one in every(line, cst.Attribute) if one.attr.value in _WEIGHTS]
    return bool(mentions) and all(any(one is each for each in weights) for one in mentions)
