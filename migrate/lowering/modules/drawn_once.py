"""What a constructor draws, `self.noise = torch.randn(4)`: once in torch, where Flax runs it at each call.

A parameter or a buffer is drawn with the weights. What only asks such a tensor for its shape is as good as before.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts
from migrate.lowering.host.host_draws import DRAWS, GENERATORS
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every, walk

_OF_HOST = ("np.random.", *DRAWS)
_SEEDED = ("seed", *GENERATORS)
_DRAW = 'self.make_rng("sample")'
_SHAPES = ("shape", "ndim", "size", "dtype")


class DrawnOnce(Scope):
    """Constructors, and the methods that they run, as they have become."""

    def drawn_once(self, facts: ClassFacts, method: cst.FunctionDef, body: Sequence[Statement]) -> list[Statement]:
        """The statements that became of one, with attributes that would be drawn anew refused."""
        drawn: set[str] = set()
        made: list[Statement] = []
        for statement in with_drawn_variables(body):
            lines = every(statement, cst.SimpleStatementLine)
            late = [line for line in lines if set(usage.loads(_start_of_variable(line) or [])) & drawn]
            if late:
                statement = self.refused_draw(min(usage.attributes_set(late[0])), method)
            for one in every(statement, (cst.Assign, cst.AugAssign)):
                if not self.draws_anew(facts, one.value, drawn):
                    continue
                targets = [one.target] if isinstance(one, cst.AugAssign) else [each.target for each in one.targets]
                drawn |= {name for target in targets for name in usage.target_names(target)}
                attributes = [name for target in targets for name in usage.attributes_in(target)]
                if attributes:
                    statement = self.refused_draw(attributes[0], method)
            made.append(statement)
        returned = [one.value for one in every(cst.Module(list(body)), cst.Return) if one.value is not None]
        if any(self.draws_anew(facts, value, drawn) for value in returned):
            facts.drawing.add(method.name.value)
        return made

    @staticmethod
    def draws_anew(facts: ClassFacts, value: Expr, drawn: set[str]) -> bool:
        """Whether a value in the output is drawn where it stands, or is one of those that were."""
        found = _Draws(drawn, facts.drawing)
        walk(value, found)
        return found.any

    def refused_draw(self, attribute: str, method: cst.FunctionDef) -> Statement:
        """What stands for such an attribute."""
        text = f"self.{attribute} is drawn at random by the constructor, which Flax runs at each call"
        lines = [line for line in every(method, cst.SimpleStatementLine) if attribute in nodes.code(line)]
        error = Unsupported("MIG201", f"{text}: give the draw itself to register_buffer")
        self.unit.report(error, lines[0] if lines else method)
        return suites.refusal(error.code, error.message, lines[:1] or [nodes.statement(f"self.{attribute} = ...")])


def with_drawn_variables(body: Sequence[Statement]) -> list[Statement]:
    """A body in which `embed = torch.randn(4)` and buffers that start as that are one that is drawn with the weights,
    and others that start as it does."""
    made: list[Statement | None] = list(body)
    for number, statement in enumerate(body):
        name, value = _named_draw(statement)
        users = [i for i in range(number + 1, len(body)) if name in usage.loads(body[i])]
        starts = [_start_of_variable(body[i]) for i in users]
        between = {one for each in body[number + 1 : (users or [0])[-1]] for one in usage.stores(each)}
        if value is None or not users or None in starts or between & {name, *usage.loads(value)}:
            continue
        if not isinstance(starts[0], cst.Name):
            continue
        drawn = cst.parse_expression(nodes.code(value).replace(_DRAW, 'self.make_rng("params")'))
        first = nodes.expression(f"self.{min(usage.attributes_set(body[users[0]]))}.value")
        made[number] = None
        for i in users:
            made[i] = nodes.substituted(body[i], {name: drawn if i == users[0] else first})
    return [one for one in made if one is not None]


def _named_draw(statement: Statement) -> tuple[str, Expr | None]:
    """The name that a statement gives what it draws, and the draw; "" for other statements."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
    if not isinstance(small, cst.Assign) or not isinstance(target, cst.Name) or _DRAW not in nodes.code(small.value):
        return "", None
    return target.value, small.value


def _start_of_variable(statement: Statement) -> Expr | None:
    """What a variable starts as, in `self.x = self.variable("batch_stats", "x", lambda: start)`; None elsewhere."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    call = small.value if isinstance(small, cst.Assign) else None
    if not isinstance(call, cst.Call) or nodes.dotted(call.func) != "self.variable":
        return None
    start = call.args[-1].value
    return start.body if isinstance(start, cst.Lambda) else None


class _Draws(cst.CSTVisitor):
    """Looks for draws, but not in functions, nor in what is only asked for its shape."""

    def __init__(self, drawn: set[str], drawing: set[str]) -> None:
        super().__init__()
        self.drawn, self.drawing, self.any = drawn, drawing, False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return node.attr.value not in _SHAPES

    def visit_Name(self, node: cst.Name) -> None:
        self.any |= node.value in self.drawn

    def visit_Call(self, node: cst.Call) -> bool:
        path = nodes.dotted(node.func) or ""
        of_host = path.startswith(_OF_HOST) and path.rpartition(".")[2] not in _SEEDED
        own = path.startswith("self.") and path.removeprefix("self.") in self.drawing
        self.any |= of_host or own or nodes.code(node) == _DRAW
        return path != "len"
