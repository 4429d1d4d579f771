"""Arrays of numpy's that a script writes to while a tensor shares them: `t = torch.from_numpy(a)`, then `a[0] = 5`.

In torch the tensor changes with the array; an array of JAX's is a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.numpy_copies import changed_in_place
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

SHARING = ("from_numpy", "as_tensor", "asarray")  # but the first, they copy lists
_VIEWS = (
    "to",
    "cpu",
    "view",
    "reshape",
    "squeeze",
    "unsqueeze",
    "permute",
    "transpose",
    "t",
    "requires_grad_",
    "detach",
)


def written_while_shared(module: cst.Module, left: str) -> Iterator[tuple[Statement, str, str]]:
    """The statements that write to such an array, its name, and that of a tensor that is read afterwards. `left`: the
    output, where what loads data stays torch's."""
    for scope in suites.bodies(module):
        statements = suites.suite_of(scope.body)
        arrays = {nodes.code(target) for target, value in _bound(statements) if _is_numpys(value)}
        for line, following in _followed(statements, ()):
            for target, value in usage.bindings(line):
                made = _sharing(value, arrays)
                if made is None or not isinstance(target, cst.Name) or nodes.code(made) in left:
                    continue
                array = nodes.code(made.args[0].value)
                write = _written_first(following, array, target.value)
                if write is not None and array != target.value:
                    yield write, array, target.value


def _written_first(following: Sequence[Statement], array: str, tensor: str) -> Statement | None:
    """What writes to an array before it or its tensor is another one, where the tensor is read later on."""

    def met(node: cst.CSTNode) -> str:
        if isinstance(node, cst.SimpleStatementLine) and array in changed_in_place(node):
            return "load"
        return "store" if {array, tensor} & set(usage.stores(node)) else ""

    for number, statement in enumerate(following):
        found = usage.first_met([statement], met)
        if found == "load":
            inside = not isinstance(statement, cst.SimpleStatementLine)
            read = usage.reads_first(following[number + (0 if inside else 1) :], tensor)
            writes = (one for one in every(statement, cst.SimpleStatementLine) if array in changed_in_place(one))
            return next(writes) if read else None
        if found == "store":
            return None
    return None


def _followed(
    statements: Sequence[Statement], after: Sequence[Statement]
) -> Iterator[tuple[cst.SimpleStatementLine, list[Statement]]]:
    """The lines of a scope, each with what may run after it: behind the last turn of a loop the loop itself."""
    for number, statement in enumerate(statements):
        following = [*statements[number + 1 :], *after]
        if isinstance(statement, cst.SimpleStatementLine):
            yield statement, following
        elif not isinstance(statement, cst.FunctionDef | cst.ClassDef):
            again = [statement] if isinstance(statement, cst.For | cst.While) else []
            for block in _blocks(statement):
                yield from _followed(suites.suite_of(block), [*again, *following])


def _blocks(statement: cst.CSTNode) -> Iterator[Sequence[cst.CSTNode]]:
    """The suites of a compound statement."""
    for part in statement.children:
        if isinstance(part, cst.BaseSuite):
            yield part.body
        elif isinstance(part, cst.Else | cst.If | cst.ExceptHandler | cst.Finally):
            yield from _blocks(part)


def _bound(statements: Sequence[Statement]) -> Iterator[tuple[Expr, Expr]]:
    for statement in statements:
        if not isinstance(statement, cst.FunctionDef | cst.ClassDef):
            yield from usage.bindings(statement)


def _is_numpys(value: Expr) -> bool:
    called = nodes.dotted(value.func) if isinstance(value, cst.Call) else None
    return (called or "").startswith(("np.", "numpy."))


def _sharing(value: Expr, arrays: set[str]) -> cst.Call | None:
    """The call by which a tensor has the memory of an array with a name."""
    while isinstance(value, cst.Subscript) or (
        isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in _VIEWS
    ):
        value = value.value if isinstance(value, cst.Subscript) else cst.ensure_type(value.func, cst.Attribute).value
    if not isinstance(value, cst.Call) or len(value.args) != 1 or not isinstance(value.args[0].value, cst.Name):
        return None
    package, _, function = (nodes.dotted(value.func) or "").rpartition(".")
    of_array = function == SHARING[0] or (package == "torch" and value.args[0].value.value in arrays)
    return value if function in SHARING and of_array else None
