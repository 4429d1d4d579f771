"""What an optimizer keeps of a parameter, as `step()` fills it: at once, `if len(state) == 0`, or as its first step
does, `if "buffer" not in state: ... else: ...`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.suites import first_line
from migrate.syntax.walking import every

COUNT = "count"  # how many steps there were, where the first of them is another than those that follow


def refused(name: str, why: str) -> Unsupported:
    """An optimizer class that is no function of gradient, parameter and state."""
    return Unsupported("MIG201", f"{name} inherits from Optimizer, and {why}")


def key_of(node: cst.CSTNode, state: str, weight: str) -> str | None:
    """The key of `state["exp_avg"]`, or of `self.state[p]["exp_avg"]`; None for other expressions."""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1 or not is_state(node.value, state, weight):
        return None
    key = nodes.looked_up(node)
    return key if isinstance(key, str) else None


def is_state(node: cst.CSTNode, state: str, weight: str) -> bool:
    """Whether an expression is the state of a parameter."""
    return (bool(state) and nodes.dotted(node) == state) or nodes.code(node) == f"self.state[{weight}]"


class Starts:
    """Takes the statements that fill the state of a parameter out of a step: what it starts with goes to `first`, by
    its keys."""

    def __init__(self, name: str, state: str, weight: str, first: dict[str, Expr], told: set[str]) -> None:
        self.name, self.state, self.weight, self.first = name, state, weight, first
        self.told = told  # names of what is the same in every step
        self.counted = False
        self.perhaps = False  # whether what is read is done in some steps alone

    def of(self, body: Sequence[Statement]) -> list[Statement]:
        """A step without them, and without what it only leaves for others to look at."""
        made = self._block(body)
        if self.counted:
            if COUNT in self.first:
                raise refused(self.name, f"keeps a {COUNT}, and has a first step of its own")
            self.first[COUNT] = cst.Integer("0")
            made.append(nodes.statement("{count} += 1", count=self._entry(COUNT)))
        return self._without_unread(made)

    def _entry(self, key: str) -> Expr:
        return nodes.expression(f"self.state[{self.weight}]['{key}']")

    def _block(self, body: Sequence[Statement]) -> list[Statement]:
        made: list[Statement] = []
        for number, each in enumerate(body):
            if list(names_state(each, self.weight)):
                continue
            if not isinstance(each, cst.If):
                made.append(each)
            elif not _is_first(each.test, self.state, self.weight):
                made.append(self._inside(each))
            elif each.orelse is None:
                _fill(self.name, suites.suite_of(each.body.body), self.state, self.weight, self.first)
            else:
                chosen, rest = self._first_step(each, body[number + 1 :])
                return [*made, chosen, *self._block(rest)]
        return made

    def _inside(self, node: cst.If) -> cst.If:
        before = self.perhaps
        self.perhaps |= not set(usage.loads(node.test)) <= self.told or "self.state" in nodes.code(node.test)
        inner = self._block(suites.suite_of(node.body.body))
        made = node.with_changes(body=suites.block_of(node.body, inner or [nodes.statement("pass")]))
        if isinstance(node.orelse, cst.If):
            made = made.with_changes(orelse=self._inside(node.orelse))
        elif isinstance(node.orelse, cst.Else):
            inner = self._block(suites.suite_of(node.orelse.body.body))
            block = suites.block_of(node.orelse.body, inner or [nodes.statement("pass")])
            made = made.with_changes(orelse=node.orelse.with_changes(body=block))
        self.perhaps = before
        return made

    def _first_step(self, node: cst.If, rest: Sequence[Statement]) -> tuple[Statement, list[Statement]]:
        """A first step that is another than those that follow, by how many there were; `rest` is what comes after."""
        other = f"its first step is another than those that follow: {first_line(node)}"
        sides = [suites.suite_of(node.body.body)]
        sides += [suites.suite_of(node.orelse.body.body)] if isinstance(node.orelse, cst.Else) else []
        keys = {key for side in sides for key in self._keys(side)}
        if len(keys) != 1 or len(sides) != 2 or keys & self.first.keys():
            raise refused(self.name, other)
        (key,) = keys
        entry = self._entry(key)
        names = [{name for each in side for name in self._names(each)} for side in sides]
        bound = dict.fromkeys(names[0] | names[1], entry)
        plain = [[part for each in side for part in self._without_names(each, entry)] for side in sides]
        again = set(usage.stores([*plain[0], *plain[1], *rest])) - {
            each.target.value for each in every(cst.Module([*rest]), cst.AugAssign) if isinstance(each.target, cst.Name)
        }
        if names[0] != names[1] or again & bound.keys() or not plain[0] or self.perhaps:
            raise refused(self.name, other)
        self.first[key] = nodes.expression(f"torch.zeros_like({self.weight})")
        self.counted = True
        test = nodes.expression("{count} == 0", count=self._entry(COUNT))
        first, later = ([nodes.substituted(each, bound) for each in side] for side in plain)
        orelse = cst.Else(suites.block(later)) if later else None
        made = cst.If(test, suites.block(first), orelse, leading_lines=node.leading_lines)
        return made, [nodes.substituted(each, bound) for each in rest]

    def _keys(self, side: Sequence[Statement]) -> Iterator[str]:
        for part in every(cst.Module(list(side)), cst.Subscript):
            key = key_of(part, self.state, self.weight)
            if key is not None:
                yield key

    def _names(self, statement: Statement) -> Iterator[str]:
        """The names that a statement gives an entry: `buf = state["buf"] = ...`, `buf = state["buf"]`."""
        small = suites.alone(statement)
        if not isinstance(small, cst.Assign):
            return
        targets = [target.target for target in small.targets]
        if any(key_of(one, self.state, self.weight) is not None for one in (*targets, small.value)):
            yield from (one.value for one in targets if isinstance(one, cst.Name))

    def _without_names(self, statement: Statement, entry: Expr) -> Iterator[Statement]:
        """The same statement without these names."""
        small = suites.alone(statement)
        if not isinstance(small, cst.Assign):
            yield statement
        elif key_of(small.value, self.state, self.weight) is None:
            of_entry = any(key_of(one.target, self.state, self.weight) is not None for one in small.targets)
            made = [cst.Assign([nodes.target(entry)], small.value)] if of_entry else [small]
            yield cst.SimpleStatementLine(made)

    def _without_unread(self, body: Sequence[Statement]) -> list[Statement]:
        """The statements but for those that keep what no step reads: `state["norm"] = norm`."""
        kept = list(self._keys(body))
        made: list[Statement] = []
        for each in body:
            small = suites.alone(each)
            target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
            key = key_of(target, self.state, self.weight) if target is not None else None
            if key is None or key in self.first or kept.count(key) > 1:
                made.append(each)
        return made


def names_state(statement: Statement, weight: str) -> Iterator[str]:
    """The name in `state = self.state[p]`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if isinstance(small, cst.Assign) and nodes.code(small.value) == f"self.state[{weight}]":
        for target in small.targets:
            if isinstance(target.target, cst.Name):
                yield target.target.value


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
