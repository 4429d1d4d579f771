"""Several statements on a line, `opt.zero_grad(); loss.backward()`, and a choice between two calls, `net.train() if
training else net.eval()`, as statements of their own. A line of which nothing changes stays as it was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from migrate.lowering.unit import Unit
from migrate.syntax.nodes import Expr, Statement

Lowered = tuple[int, Statement, list[Statement]]


def taken_apart(unit: Unit, statement: Statement) -> list[Statement]:
    """The statements that are written as one; itself where it is one."""
    if statement not in unit.apart and isinstance(statement, cst.SimpleStatementLine):
        pieces = pieces_of_line(statement) if len(statement.body) > 1 else _of_choice(statement, statement.body[0])
        if not pieces:
            return [statement]
        unit.apart[statement] = pieces
        for piece in pieces:
            unit.stands_for(piece, statement)
            unit.pieces[piece] = statement
    return unit.apart.get(statement, [statement])


def pieces_of_line(line: cst.SimpleStatementLine) -> list[Statement]:
    """The statements of a line, each on its own, with the comments of the line."""
    bare = [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for small in line.body]
    pieces = [cst.SimpleStatementLine([small]) for small in bare]
    pieces[0] = pieces[0].with_changes(leading_lines=line.leading_lines)
    pieces[-1] = pieces[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
    return [*pieces]


def _of_choice(line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> list[Statement]:
    choice = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(choice, cst.IfExp):
        return []
    orelse = None if isinstance(choice.orelse, cst.Name) else cst.Else(_block(choice.orelse))  # `... else None`
    test = choice.test.with_changes(lpar=[], rpar=[])
    return [cst.If(test, _block(choice.body), orelse, leading_lines=line.leading_lines)]


def _block(side: Expr) -> cst.IndentedBlock:
    return cst.IndentedBlock([cst.SimpleStatementLine([cst.Expr(side)])])


def put_back(unit: Unit, lowered: Iterable[Lowered]) -> Iterator[Lowered]:
    """Lowered statements, with the lines that they are pieces of in place of pieces that all stayed as they were."""
    held: list[Lowered] = []
    for each in lowered:
        line = unit.pieces.get(each[1])
        if held and line is not unit.pieces[held[0][1]]:
            yield from held
            held = []
        if line is None:
            yield each
            continue
        held.append(each)
        if len(held) == len(unit.apart[line]):
            together = _together(line, held)
            yield from held if together is None else [(each[0], line, [together])]
            held = []
    yield from held


def _together(line: Statement, lowered: list[Lowered]) -> Statement | None:
    """The line that some pieces are, with the marks that their lowering put on names; None where a piece changed."""
    if not all(len(made) == 1 and made[0].deep_equals(piece) for _, piece, made in lowered):
        return None
    smalls = [made[0].body[0] for _, _, made in lowered if isinstance(made[0], cst.SimpleStatementLine)]
    if not smalls or not isinstance(line, cst.SimpleStatementLine):
        return line
    pairs = zip(smalls, line.body, strict=True)
    return line.with_changes(body=[small.with_changes(semicolon=written.semicolon) for small, written in pairs])
