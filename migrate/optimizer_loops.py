"""The loop in `step()` of an optimizer class: over parameter groups, and over the parameters of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate import nodes, suites, usage
from migrate.diagnostics import Unsupported
from migrate.nodes import Expr, Statement
from migrate.suites import first_line
from migrate.walking import every

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


def refused(name: str, why: str) -> Unsupported:
    """An optimizer class that is no function of gradient, parameter and state."""
    return Unsupported("MIG201", f"{name} inherits from Optimizer, and {why}")


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
    state = next((found for each in body for found in _names_state(each, weight)), "")
    body = [each for each in body if not list(_names_state(each, weight))]
    first: dict[str, Expr] = {}
    left = [part for each in body for part in _without_start(name, each, state, weight, first)]
    return Loop(group, weight, state, first, tuple(left), bool(filling))


def _carried(before: Sequence[Statement], turn: Sequence[Statement], weight: str) -> str:
    """A variable of a group that a parameter leaves to the next one, `i += 1`; "" where there is none."""
    bound = set(usage.stores(before)) - {weight}
    changed = [name for each in turn for name in usage.changes(each) if name in bound]
    return next((name for name in changed if usage.reads_first(turn, name)), "")


def key_of(node: cst.CSTNode, state: str, weight: str) -> str | None:
    """The key of `state["exp_avg"]`, or of `self.state[p]["exp_avg"]`; None for other expressions."""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1 or not is_state(node.value, state, weight):
        return None
    index = node.slice[0].slice
    key = nodes.literal(index.value) if isinstance(index, cst.Index) else ...
    return key if isinstance(key, str) else None


def is_state(node: cst.CSTNode, state: str, weight: str) -> bool:
    """Whether an expression is the state of a parameter."""
    return (bool(state) and nodes.dotted(node) == state) or nodes.code(node) == f"self.state[{weight}]"


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


def _names_state(statement: Statement, weight: str) -> Iterator[str]:
    """The name in `state = self.state[p]`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if isinstance(small, cst.Assign) and nodes.code(small.value) == f"self.state[{weight}]":
        for target in small.targets:
            if isinstance(target.target, cst.Name):
                yield target.target.value


def _without_start(
    name: str, statement: Statement, state: str, weight: str, first: dict[str, Expr]
) -> Iterator[Statement]:
    """A statement, unless it fills the state of a parameter that has none yet: what it is filled with goes to
    `first`."""
    if not isinstance(statement, cst.If) or not _is_first(statement.test, state, weight):
        yield statement
        return
    if statement.orelse is not None:
        raise refused(name, f"its first step is another than those that follow: {first_line(statement)}")
    _fill(name, suites.suite_of(statement.body.body), state, weight, first)


def _fill(name: str, body: Sequence[Statement], state: str, weight: str, first: dict[str, Expr]) -> None:
    for each in body:
        if isinstance(each, cst.If) and each.orelse is None:  # `if group["amsgrad"]:`, where it is not read otherwise
            _fill(name, suites.suite_of(each.body.body), state, weight, first)
            continue
        small = each.body[0] if isinstance(each, cst.SimpleStatementLine) else None
        keys = (
            [key_of(target.target, state, weight) for target in small.targets] if isinstance(small, cst.Assign) else []
        )
        if not isinstance(small, cst.Assign) or len(keys) != 1 or keys[0] is None or keys[0] in first:
            if suites.is_docstring(each) or (isinstance(small, cst.Expr) and isinstance(small.value, cst.BaseString)):
                continue
            raise refused(name, f"its state starts with {first_line(each)}")
        first[keys[0]] = small.value


def _is_first(test: Expr, state: str, weight: str) -> bool:
    """Whether a test asks if the state of a parameter is still empty."""
    written = (state, f"self.state[{weight}]") if state else (f"self.state[{weight}]",)
    text = nodes.code(test)
    if any(
        text in (f"len({one}) == 0", f"not {one}", f"{one} == {{}}", f"not len({one})", f"len({one}) < 1")
        for one in written
    ):
        return True
    if not isinstance(test, cst.Comparison) or not isinstance(test.comparisons[0].operator, cst.NotIn):
        return False
    return isinstance(nodes.literal(test.left), str) and is_state(test.comparisons[0].comparator, state, weight)
