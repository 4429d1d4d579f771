"""Building lines, blocks and functions of which the user's comments and blank lines stay."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence, Set

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

BLANK = cst.EmptyLine(indent=False)


def suite_of(body: Sequence[cst.CSTNode]) -> list[Statement]:
    """The statements of a block. What stands on the line of its head (`if x: return`) becomes lines of its own."""
    statements: list[Statement] = []
    for each in body:
        if isinstance(each, cst.BaseSmallStatement):
            statements.append(_line(each))
        elif isinstance(each, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            statements.append(each)
    return statements


@functools.lru_cache(maxsize=4096)  # the same line each time, as for other statements
def _line(small: cst.BaseSmallStatement) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])


def with_comments(made: list[Statement], original: Statement) -> list[Statement]:
    """Gives the first of some statements the comments and blank lines of the statement that they stand for, before its
    own comments; a function that stands for a loop is a paragraph of its own."""
    if not made or made[0] is original:
        return made
    head, lines = made[0], list(original.leading_lines)
    known = {_written(line) for line in lines}
    lines += [line for line in comments(head) if _written(line) not in known]
    apart = isinstance(original, cst.For) or (head.leading_lines and head.leading_lines[0].comment is None)
    if isinstance(head, cst.FunctionDef) and apart and (not lines or lines[0].comment):
        lines.insert(0, cst.EmptyLine(indent=False))
    return [head.with_changes(leading_lines=lines), *made[1:]]


def _written(line: cst.EmptyLine) -> tuple[object, ...]:
    """How a line is written: what is the same for lines that are alike."""
    return line.indent, line.whitespace.value, line.comment.value if line.comment else None, line.newline.value


def continued(first: Statement, second: Statement) -> Statement:
    """Two `with` blocks of one context as one."""
    assert isinstance(first, cst.With) and isinstance(second, cst.With)
    head, *rest = suite_of(second.body.body)
    lines = [line for line in second.leading_lines if line.comment is not None]
    following = [head.with_changes(leading_lines=lines), *rest]
    return first.with_changes(body=block_of(first.body, [*suite_of(first.body.body), *following]))


def after_dropped(dropped: list[cst.EmptyLine], made: list[Statement], first: bool) -> list[Statement]:
    """The statements that follow ones that disappeared, with the comments and the paragraph break of those."""
    head = made[0]
    own = list(head.leading_lines)
    if own and own[0].comment is None:
        while dropped and dropped[-1].comment is None:
            dropped = dropped[:-1]
    if first and dropped and all(line.comment is None for line in dropped):
        dropped = []
    return [head.with_changes(leading_lines=[*dropped, *own]), *made[1:]] if dropped else made


def kept_lines(original: Statement) -> list[cst.EmptyLine]:
    """The comments of a statement that disappears, with their blank lines; a comment on zero_grad() goes with it."""
    if comments(original) and "zero_grad(" not in nodes.code(original):
        return list(original.leading_lines)
    return [line for line in original.leading_lines if line.comment is None][:1]


def bodies(module: cst.Module) -> list[cst.Module | cst.BaseSuite]:
    """What runs in a scope of its own: a file, and the bodies of its functions."""
    return [module, *(one.body for one in every(module, cst.FunctionDef))]


def methods_of(node: cst.ClassDef) -> dict[str, cst.FunctionDef]:
    """The methods that stand in a class, by their names."""
    return {one.name.value: one for one in node.body.body if isinstance(one, cst.FunctionDef)}


def calls_base(statement: cst.CSTNode) -> cst.Call | None:
    """The call of a statement that is `super().__init__(...)`; None of others."""
    match call_alone(statement):
        case (
            cst.Call(
                func=cst.Attribute(value=cst.Call(func=cst.Name(value="super")), attr=cst.Name(value="__init__"))
            ) as call
        ):
            return call
    return None


def sides(branch: cst.If) -> tuple[list[Statement], list[Statement]]:
    """The statements of a branch where its test holds, and where it does not."""
    rest = branch.orelse
    others: list[Statement] = [rest] if isinstance(rest, cst.If) else suite_of(rest.body.body) if rest else []
    return suite_of(branch.body.body), others


def branch(test: Expr, body: Sequence[Statement], orelse: Sequence[Statement]) -> cst.If:
    """A branch with two sides, of which the second one may be a branch itself: `elif`."""
    other = orelse[0] if len(orelse) == 1 else None
    return cst.If(test, block(body), other if isinstance(other, cst.If) else cst.Else(block(orelse)))


def block(statements: Sequence[Statement]) -> cst.IndentedBlock:
    """An indented block; `pass` where there are no statements."""
    return cst.IndentedBlock(list(statements) or [nodes.statement("pass")])


def block_of(original: cst.BaseSuite, statements: Sequence[Statement]) -> cst.BaseSuite:
    """The block that stands for an original one, with its indentation and trailing comments."""
    if isinstance(original, cst.IndentedBlock):
        body = list(statements) or [nodes.statement("pass")]
        if original.body and body[0] is not original.body[0] and not _begins_blank(original.body[0]):
            body[0] = _without_blanks(body[0])  # which stood between it and what is gone
        return original.with_changes(body=body)
    kept = [_line(small) for small in original.body if isinstance(small, cst.BaseSmallStatement)]
    if len(kept) == len(statements) and all(map(cst.CSTNode.deep_equals, kept, statements)):
        return original
    return block(statements)


def _begins_blank(statement: cst.CSTNode) -> bool:
    """Whether an empty line stands before a statement and its comments."""
    lines = getattr(statement, "leading_lines", ())
    return bool(lines) and lines[0].comment is None


def _without_blanks(statement: Statement) -> Statement:
    """A statement without the empty lines before it and its comments."""
    lines = list(statement.leading_lines)
    while lines and lines[0].comment is None:
        del lines[0]
    return statement.with_changes(leading_lines=lines) if len(lines) < len(statement.leading_lines) else statement


def rebuilt(
    line: cst.SimpleStatementLine, small: cst.BaseSmallStatement, made: cst.BaseSmallStatement
) -> list[Statement]:
    """A line with its one small statement replaced; the line itself where nothing changed."""
    return [line if made is small else line.with_changes(body=[made])]


def assigned(line: cst.SimpleStatementLine, target: Expr, value: Expr) -> list[Statement]:
    """A line that becomes `target = value`."""
    return [line.with_changes(body=[cst.Assign([nodes.target(target)], value)])]


def function(name: str, parameters: Sequence[str], body: Sequence[Statement], decorator: str = "") -> cst.FunctionDef:
    """A function whose parameters are plain names; a blank line goes before functions in it."""
    head = f"{decorator}\n" if decorator else ""
    made = cst.parse_statement(f"{head}def {name}({', '.join(parameters)}):\n    pass")
    assert isinstance(made, cst.FunctionDef)
    return made.with_changes(body=block([*body[:1], *map(spaced, body[1:])]))


def spaced(statement: Statement) -> Statement:
    """A function with a blank line before it; other statements as they are."""
    has_line = any(line.comment is None for line in statement.leading_lines)
    if has_line or not isinstance(statement, cst.FunctionDef):
        return statement
    return statement.with_changes(leading_lines=[BLANK, *statement.leading_lines])


def comments(statement: Statement) -> list[cst.EmptyLine]:
    """The comments before a statement, without the blank lines."""
    return [line for line in statement.leading_lines if line.comment is not None]


def commented(made: cst.SimpleStatementLine, original: Statement | None) -> cst.SimpleStatementLine:
    """A new statement with the comments, and no blank lines, of the one that it stands for."""
    return made if original is None else made.with_changes(leading_lines=comments(original))


def without_unread(
    made: Sequence[Statement], original: cst.BaseSuite, restated: Set[str] = frozenset()
) -> list[Statement]:
    """What became of a block, without the names that only what disappeared has read: those that call nothing, or whose
    value is `restated` elsewhere."""
    body = list(made)
    while unread := restated & set(usage.stores(body)) - set(usage.loads(body)):
        body = [kept for one in body if isinstance(kept := one.visit(_Without(unread)), cst.BaseStatement)]
    for statement in reversed(body):
        small = alone(statement)
        if not isinstance(small, cst.Assign):
            continue
        names = [target.target.value for target in small.targets if isinstance(target.target, cst.Name)]
        if usage.calls(small.value) and not set(names) <= restated:
            continue
        read = set(usage.loads([one for one in body if one is not statement]))
        if len(names) == len(small.targets) and not read & set(names) and set(names) <= set(usage.loads(original)):
            body = [one for one in body if one is not statement]
    return body


class _Without(cst.CSTTransformer):
    """Drops what gives some names a value, and branches of which nothing is left."""

    def __init__(self, names: Set[str]) -> None:
        super().__init__()
        self.names = names

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = original_node.body[0]
        alone = len(original_node.body) == 1 and isinstance(small, cst.Assign)
        targets = [target.target for target in small.targets] if alone and isinstance(small, cst.Assign) else []
        dropped = bool(targets) and all(isinstance(one, cst.Name) and one.value in self.names for one in targets)
        return cst.RemoveFromParent() if dropped else updated_node

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If | cst.RemovalSentinel:
        kept = updated_node.body.body or updated_node.orelse is not None or usage.calls(updated_node.test)
        return updated_node if kept else cst.RemoveFromParent()


def first_line(statement: Statement) -> str:
    """The first line of a statement, as a message shows it."""
    return nodes.code(statement.with_changes(leading_lines=[])).strip().partition("\n")[0]


def alone(statement: cst.CSTNode | None) -> cst.BaseSmallStatement | None:
    """The small statement that a line consists of; None of lines with several, and of blocks."""
    return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None


def call_alone(statement: cst.CSTNode | None) -> cst.Call | None:
    """The call that a statement is; None of other statements."""
    match alone(statement):
        case cst.Expr(value=cst.Call() as call):
            return call
    return None


def name_and_value(statement: cst.CSTNode) -> tuple[str, Expr | None]:
    """The name that a statement binds, and to what: "x" and `f()` of `x = f()`; "" and None of other statements."""
    match alone(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
            return name, value
    return "", None


def consists_of(statement: Statement, holds: Callable[[Statement], bool]) -> bool:
    """Whether a statement, or all of what loops and branches have in them, is of one sort."""
    if isinstance(statement, cst.For):
        return statement.orelse is None and all(consists_of(one, holds) for one in suite_of(statement.body.body))
    if isinstance(statement, cst.If):
        return all(consists_of(one, holds) for side in sides(statement) for one in side)
    return holds(statement)


def is_pass(statement: cst.CSTNode) -> bool:
    """Whether a statement is `pass`, on a line of its own or behind a colon."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement
    return isinstance(small, cst.Pass)


def is_docstring(statement: cst.CSTNode) -> bool:
    """Whether a statement is nothing but a string."""
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def below_docstring(function: cst.FunctionDef) -> list[Statement]:
    """The statements of a function, without its docstring."""
    body = suite_of(function.body.body)
    return body[1:] if body and is_docstring(body[0]) else body


def as_script(statement: cst.CSTNode) -> cst.If | None:
    """A statement that runs where its file is the script alone; None of others."""
    if not isinstance(statement, cst.If):
        return None
    told = nodes.code(statement.test).strip().replace('"', "'")
    return statement if told == "__name__ == '__main__'" else None


def is_import(statement: cst.CSTNode) -> bool:
    """Whether a statement imports."""
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Import | cst.ImportFrom)


def after_docstring(body: Sequence[Statement], extra: Sequence[Statement]) -> list[Statement]:
    """A body with statements put in at its head, below the docstring where there is one."""
    position = 1 if body and is_docstring(body[0]) else 0
    return [*body[:position], *extra, *body[position:]]


def evaluated(statement: Statement) -> Sequence[cst.CSTNode]:
    """What a statement evaluates itself: a simple one all of it, another one its head."""
    if isinstance(statement, cst.For):
        return [statement.iter]
    if isinstance(statement, cst.If | cst.While):
        return [statement.test]
    if isinstance(statement, cst.With):
        return [item.item for item in statement.items]
    return [statement] if isinstance(statement, cst.SimpleStatementLine) else []


def exits(body: Sequence[Statement]) -> bool:
    """Whether a block surely ends in return, raise, continue or break."""
    last = body[-1] if body else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(
        last.body[-1], cst.Return | cst.Raise | cst.Continue | cst.Break
    )


def refusal(code: str, message: str, originals: Sequence[Statement]) -> Statement:
    """The exception that stands for statements, with their text in comments above it."""
    text = " ".join(f"{code}: {message}".split()).replace("\\", "\\\\").replace('"', '\\"')
    made: Statement = nodes.statement(f'raise NotImplementedError("{text}")')
    if isinstance(originals[0], cst.ClassDef):  # what does not make one works without it
        init = function("__init__", ["self", "*args", "**kwargs"], [made])
        made = cst.ClassDef(originals[0].name, block([init]))
    return in_place_of(originals, made)


def in_place_of(originals: Sequence[Statement], made: Statement) -> Statement:
    """A statement below the text of those that it stands for, in comments."""
    source = "".join(map(nodes.code, originals)).strip("\n").splitlines()
    lines = [cst.EmptyLine(comment=cst.Comment(f"# {text}".rstrip())) for text in source if text.strip()]
    blank = [line for line in originals[0].leading_lines[:1] if line.comment is None]
    return made.with_changes(leading_lines=[*blank, *lines])


def leaves_loop(node: cst.CSTNode) -> bool:
    """Whether code may leave the function, or the loop, that it is in, by more than an error."""
    own = (cst.FunctionDef, cst.For, cst.While)
    loops = every(node, (cst.Break, cst.Continue), closed=own)
    return any(True for _ in loops) or any(True for _ in every(node, cst.Return, closed=cst.FunctionDef))


def may_leave(node: cst.CSTNode) -> bool:
    """Whether code may leave the block that it is in: return, raise, break or continue somewhere in it."""
    return any(True for _ in every(node, (cst.Return, cst.Raise, cst.Break, cst.Continue), closed=cst.FunctionDef))
