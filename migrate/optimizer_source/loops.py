"""The loop in `step()` of an optimizer class: over parameter groups, and over the parameters of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.optimizer_source.starts import Starts, names_state, refused
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.suites import first_line
from migrate.syntax.walking import every

_GRADIENT_MODES = ("torch.no_grad", "torch.enable_grad", "torch.set_grad_enabled")


@dataclass(frozen=True)
class Loop:
    """The names of a parameter group, of a parameter and of its state ("" where it has none), and what is done: `body`
    for each parameter that has a gradient, `first` what the state starts with, by its keys. `fills`: those without one
    are taken to have zeros."""

    group: str
    weight: str
    state: str
    first: dict[str, Expr]
    body: tuple[Statement, ...]
    fills: bool = False


def loop_of(name: str, step: cst.FunctionDef) -> Loop:
    """The loop of `step()`; Unsupported where that does anything else."""
    closure = [parameter.name.value for parameter in step.params.params[1:]]
    outer = _only_loop(name, suites.suite_of(step.body.body), closure)
    if nodes.dotted(outer.iter) != "self.param_groups" or not isinstance(outer.target, cst.Name):
        raise refused(name, f"its step has the loop {first_line(outer)}")
    group = outer.target.value
    statements = suites.suite_of(outer.body.body)
    inner = statements[-1]
    if not isinstance(inner, cst.For) or not isinstance(inner.target, cst.Name) or not _is_parameters(inner, group):
        raise refused(name, f"its step has no loop over the parameters of a group: {first_line(inner)}")
    weight = inner.target.value
    turn = suites.suite_of(inner.body.body)
    carried = _carried(statements[:-1], turn, weight)
    if carried:
        raise refused(name, f"its {carried} goes on from one parameter to the next")
    filling = [each for each in turn if _fills(each, weight)]
    turn = [each for each in turn if each not in filling]
    body = [*statements[:-1], *_of_gradients(turn, weight)]
    lines = [line for each in body for line in every(each, cst.SimpleStatementLine)]
    state = next((found for line in lines for found in names_state(line, weight)), "")
    first: dict[str, Expr] = {}
    left = Starts(name, state, weight, first, _told(body, group)).of(body)
    return Loop(group, weight, state, first, tuple(left), bool(filling))


def _told(body: Sequence[Statement], group: str) -> set[str]:
    """The names that parameter groups and the object alone tell."""
    told = {group, "self", "True", "False", "None"}
    bound = [line for each in body for line in every(each, cst.SimpleStatementLine)]
    while True:
        from_state = [line for line in bound if "self.state" in nodes.code(line) or not set(usage.loads(line)) <= told]
        other = {name for line in from_state for name in usage.stores(line)}
        more = {name for line in bound for name in usage.stores(line)} - other
        if more <= told:
            return told
        told |= more


def _carried(before: Sequence[Statement], turn: Sequence[Statement], weight: str) -> str:
    """A variable of a group that a parameter leaves to the next one, `i += 1`; "" where there is none."""
    bound = set(usage.stores(before)) - {weight}
    changed = [name for each in turn for name in usage.changes(each) if name in bound]
    return next((name for name in changed if usage.reads_first(turn, name)), "")


def _only_loop(name: str, body: Sequence[Statement], closure: Sequence[str]) -> cst.For:
    """The loop among statements that are about a closure, which is evaluated before the step."""
    found: list[cst.For] = []
    for each in body:
        if isinstance(each, cst.For):
            found.append(each)
        elif isinstance(each, cst.With) and any(every(each.body, cst.For)):
            if not all("no_grad" in nodes.code(item.item) for item in each.items):
                raise refused(name, f"its step has the context {first_line(each)}")
            found.append(_only_loop(name, suites.suite_of(each.body.body), closure))
        elif not suites.is_docstring(each) and not _of_closure(each, closure):
            raise refused(name, f"its step does more than the loop: {first_line(each)}")
    if len(found) != 1:
        raise refused(name, f"its step has {len(found)} loops")
    return found[0]


def _of_closure(statement: Statement, closure: Sequence[str]) -> bool:
    """Whether a statement evaluates the closure, or returns the loss of it."""
    if "graph_capture_health_check" in nodes.code(statement):
        return True  # torch looks whether a CUDA graph is being recorded
    about = {*closure, "loss", "torch", "None"}
    return set(usage.loads(statement)) <= about and set(usage.stores(statement)) <= {"loss"}


def _is_parameters(loop: cst.For, group: str) -> bool:
    """Whether a loop is over `group["params"]`, or over those of them that have a gradient."""
    source: Expr = loop.iter
    if isinstance(source, cst.Call) and nodes.dotted(source.func) == "filter" and len(source.args) == 2:
        test = source.args[0].value
        name = test.params.params[0].name.value if isinstance(test, cst.Lambda) and test.params.params else ""
        asked = (f"{name}.grad is not None", f"exists({name}.grad)")
        if not isinstance(test, cst.Lambda) or nodes.code(test.body) not in asked:
            return False
        source = source.args[1].value
    elif isinstance(source, cst.ListComp | cst.GeneratorExp):
        tests = source.for_in.ifs
        name = nodes.dotted(source.elt)
        if name is None or any(nodes.code(each.test) != f"{name}.grad is not None" for each in tests):
            return False
        source = source.for_in.iter
    return nodes.code(source) in (f'{group}["params"]', f"{group}['params']")


def _of_gradients(body: Sequence[Statement], weight: str) -> Iterator[Statement]:
    """The statements for a parameter that has a gradient, which is dense."""
    names = {f"{weight}.grad"}
    whole = body[0] if len(body) == 1 and isinstance(body[0], cst.If) and body[0].orelse is None else None
    if whole is not None and nodes.code(whole.test) == f"{weight}.grad is not None":
        yield from _of_gradients(suites.suite_of(whole.body.body), weight)
        return
    for each in body:
        if isinstance(each, cst.SimpleStatementLine) and isinstance(each.body[0], cst.Assign):
            small = each.body[0]
            if nodes.code(small.value) in (f"{weight}.grad", f"{weight}.grad.data"):
                names |= {nodes.code(target.target) for target in small.targets}
        small = each.body[0] if isinstance(each, cst.SimpleStatementLine) else None
        negated = cst.UnaryOperation(cst.Not(), small.test) if isinstance(small, cst.Assert) else None
        test = each.test if isinstance(each, cst.If) and each.orelse is None else negated
        if test is not None and _never(test, names, weight):
            continue
        yield each


def _fills(statement: Statement, weight: str) -> bool:
    """Whether a statement gives a parameter without a gradient one of zeros."""
    if not isinstance(statement, cst.If) or nodes.code(statement.test) != f"{weight}.grad is None":
        return False
    (first, *others) = suites.suite_of(statement.body.body)
    small = first.body[0] if isinstance(first, cst.SimpleStatementLine) else None
    made = isinstance(small, cst.Assign) and nodes.code(small.targets[0].target) == f"{weight}.grad"
    zeros = isinstance(small, cst.Assign) and nodes.code(small.value) == f"torch.zeros_like({weight})"
    return made and zeros and not others and statement.orelse is None


def _never(test: Expr, gradients: set[str], weight: str) -> bool:
    """Whether a test asks for parameters without a gradient, or for sparse gradients."""
    text = nodes.code(test)
    asked = {f"{name} is None" for name in gradients} | {f"{name}.is_sparse" for name in gradients}
    asked |= {f"{name}.data.is_sparse" for name in gradients} | {f"not {weight}.requires_grad"}
    asked |= {f"not {name} is not None" for name in gradients} | {f"not not {name}.is_sparse" for name in gradients}
    return text in asked
