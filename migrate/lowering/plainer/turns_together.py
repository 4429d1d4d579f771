"""Loops over what was kept, turn by turn, as one map over all of it: jit would else write out every turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.lowering.plainer.kept_mentions import made_anew
from migrate.lowering.updates.computed_in_loss import KEPT_TURNS
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement

_JOINING = ("cat", "stack", "concat", "vstack", "hstack")
_LIST_LIKE = (cst.List, cst.ListComp)


@dataclass
class Together:
    """The statements on the way to a loss, while loops become maps. torch: the name of torch in the file. arrays: what
    was kept -> the arrays that hold it, one for each part. functions: those of the file. mapped: lists that are such
    arrays now."""

    torch: str
    arrays: Mapping[str, tuple[str, ...]]
    before: Sequence[Statement]
    after: Sequence[Statement]
    functions: Mapping[str, cst.FunctionDef] = field(default_factory=dict)
    mapped: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)

    def statement(self, node: Statement) -> list[Statement]:
        """What stands for one statement."""
        if not {*self.arrays, *self.mapped} & {*usage.paths(node), *usage.loads(node)}:
            return [node]
        if isinstance(node, cst.For):
            return self.loop(node)
        if not isinstance(node, cst.SimpleStatementLine):
            raise Unsupported("MIG401", "what was kept is read in a branch")
        joined = _Joined(self)
        made = node.visit(joined)
        assert isinstance(made, cst.SimpleStatementLine)
        small = made.body[0]
        bound = {name for name in usage.stores(node) if made_anew(node, name)} - set(usage.loads(made))
        left = ({*self.arrays, *self.mapped} & {*usage.paths(made), *usage.loads(made)}) - bound
        if left - {array for arrays in self.arrays.values() for array in arrays} - self.mapped:
            raise Unsupported("MIG401", f"`{nodes.code(node).strip()}` reads what was kept in another way")
        value = node.body[0]
        if isinstance(value, cst.Assign) and isinstance(value.value, cst.ListComp) and isinstance(small, cst.Assign):
            self.note_mapped(nodes.code(small.targets[0].target))
        return [*joined.prepared, made]

    def loop(self, node: cst.For) -> list[Statement]:
        """`for x, r in zip(saved, returns): losses.append(f(x, r))`"""
        over, prepared = self.over(node.target, node.iter)
        body = suites.suite_of(node.body.body)
        self.refuse_carried(body)
        known: dict[str, Expr] = {}
        made: list[Statement] = []
        for statement in body:
            small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
            if isinstance(small, cst.Assign) and len(small.targets) == 1:
                target = small.targets[0].target
                if isinstance(target, cst.Name) and target.value not in usage.loads(small.value):
                    known[target.value] = nodes.parenthesized(nodes.substituted(small.value, known))
                    continue
            made.append(self.gathered(statement, over, known))
        if node.orelse is not None or not made:
            raise Unsupported("MIG401", "a loop over what was kept does more than to gather losses")
        bound = {*known, *over}
        if bound & set(usage.loads(self.after)) - set(usage.stores(self.after)):
            raise Unsupported("MIG401", "what a loop over what was kept has bound is read after it")
        made[0] = made[0].with_changes(leading_lines=node.leading_lines if not prepared else [])
        if prepared:
            prepared[0] = prepared[0].with_changes(leading_lines=node.leading_lines)
        return [*prepared, *made]

    @staticmethod
    def refuse_carried(body: Sequence[Statement]) -> None:
        """Declines a loop of which a turn takes something from the one before, or from a queue."""
        for name in dict.fromkeys(usage.stores(body)):
            using = [one for one in body if name in usage.loads(one)]
            sums = len(using) == 1 and name in usage.stores(using[0]) and usage.loads(using).count(name) == 1
            if usage.reads_first(body, name) and not sums:
                raise Unsupported("MIG401", f"{name} goes from turn to turn of a loop over what was kept")
        for call in (call for one in body for call in usage.calls(one)):
            if nodes.code(call.func).rpartition(".")[2] in ("pop", "popleft", "next", "get"):
                raise Unsupported("MIG401", f"`{nodes.code(call)}` in a loop over what was kept")

    def gathered(self, statement: Statement, over: Mapping[str, Expr], known: Mapping[str, Expr]) -> Statement:
        """`losses.append(x)`, `loss += x`, `loss = loss + x` for all turns at once."""
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            func, args = small.value.func, small.value.args
            if isinstance(func, cst.Attribute) and func.attr.value == "append" and isinstance(func.value, cst.Name):
                self.note_mapped(func.value.value)
                self.emptied.add(func.value.value)
                return nodes.statement(f"{func.value.value} = {{x}}", x=self.turns(args[0].value, over, known))
        if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
            small = cst.Assign([cst.AssignTarget(small.target)], nodes.augmented(small))
        if isinstance(small, cst.Assign) and isinstance(small.value, cst.BinaryOperation):
            total, sum_ = small.value, nodes.code(small.targets[0].target)
            alone = nodes.code(total.left) == sum_ and sum_ not in usage.loads(total.right)
            if alone and isinstance(total.operator, cst.Add | cst.Subtract):
                turns = nodes.expression("{x}.sum(0)", x=self.turns(total.right, over, known))
                return nodes.statement(f"{sum_} = {{total}}", total=total.with_changes(right=turns))
        raise Unsupported("MIG401", f"`{nodes.code(statement).strip()}` in a loop over what was kept")

    def turns(self, value: Expr, over: Mapping[str, Expr], known: Mapping[str, Expr]) -> Expr:
        """A value of each turn, for all of them."""
        whole = nodes.visited(nodes.substituted(value, known), _Detaching())
        names = [name for name in over if name in usage.loads(whole)]
        if not names:
            raise Unsupported("MIG401", "a loop over what was kept gathers what is no part of it")
        function = nodes.expression(f"lambda {', '.join(names)}: {{x}}", x=nodes.bare(whole))
        made = nodes.call(f"{self.torch}.{KEPT_TURNS}", function)
        return nodes.call(made, *(over[name].deep_clone() for name in names))

    def over(self, target: Expr, iterated: Expr) -> tuple[dict[str, Expr], list[Statement]]:
        """What a loop binds in each turn -> the array that it is an element of; and what makes arrays of lists."""
        zipped = isinstance(iterated, cst.Call) and nodes.dotted(iterated.func) == "zip"
        if zipped and isinstance(iterated, cst.Call) and isinstance(target, cst.Tuple):
            pairs = list(zip(nodes.elements(target), [arg.value for arg in iterated.args], strict=True))
        else:
            pairs = [(target, iterated)]
        found: dict[str, Expr] = {}
        prepared: list[Statement] = []
        for bound, source in pairs:
            arrays = self.arrays.get(nodes.dotted(source) or "", ())
            names = usage.target_names(bound)
            if arrays and len(arrays) == len(names):
                found |= {name: nodes.name(array) for name, array in zip(names, arrays, strict=True)}
            elif not arrays and isinstance(bound, cst.Name):
                found[bound.value], made = self.as_array(source, bound.value)
                prepared += made
            else:
                raise Unsupported("MIG401", f"`{nodes.code(bound)}` is bound to what was kept as a whole")
        if not any(self.arrays.get(nodes.dotted(source) or "") for _, source in pairs):
            raise Unsupported("MIG401", f"`{nodes.code(iterated)}` goes through what was kept in another way")
        return found, prepared

    def as_array(self, source: Expr, element: str) -> tuple[Expr, list[Statement]]:
        """A list that is gone through beside what was kept, as an array."""
        text = nodes.dotted(source)
        if text in self.mapped or self.is_tensor(source, self.before):
            return source, []
        reused = isinstance(source, cst.Name) and source.value not in usage.loads(self.after)
        name = source.value if isinstance(source, cst.Name) and reused else f"all_{element}"
        made = nodes.statement(f"{name} = {self.torch}.as_tensor({{x}})", x=source)
        return nodes.name(name), [made]

    def is_tensor(self, value: Expr, before: Sequence[Statement]) -> bool:
        """Whether a value surely is a tensor, after some statements."""
        if isinstance(value, cst.BinaryOperation):
            return self.is_tensor(value.left, before) or self.is_tensor(value.right, before)
        while isinstance(value, cst.Call | cst.Attribute):
            if nodes.code(value).startswith(f"{self.torch}."):
                return True
            value = value.func if isinstance(value, cst.Call) else value.value
        if not isinstance(value, cst.Name):
            return isinstance(value, cst.BinaryOperation) and self.is_tensor(value, before)
        number = max((i for i, one in enumerate(before) if value.value in usage.stores(one)), default=-1)
        line = before[number] if number >= 0 else None
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        named = isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name)
        return named and isinstance(small, cst.Assign) and self.is_tensor(small.value, before[:number])

    def only_reads(self, name: str, args: Sequence[cst.Arg]) -> bool:
        """Whether a function of the file that is given what was kept as lists changes none of them."""
        function = self.functions.get(name)
        if function is None or any(arg.star for arg in args) or function.params.star_kwarg is not None:
            return False
        parameters = [one.name.value for one in function.params.params]
        given = {
            arg.keyword.value if arg.keyword is not None else parameters[number]
            for number, arg in enumerate(args[: len(parameters)])
            if self.arrays.get(nodes.dotted(arg.value) or "")
        }
        return not given & {*usage.changed_in_place(function.body), *usage.changed_by_methods(function.body)}

    def note_mapped(self, name: str) -> None:
        """Notes a list that is an array from here on: what follows must take it as one."""
        if name in self.mapped:
            raise Unsupported("MIG401", f"{name} is filled more than once")
        self.mapped.add(name)


class _Detaching(cst.CSTTransformer):
    """`value.item()` is a number that no gradient flows through."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = updated_node.func
        if isinstance(func, cst.Attribute) and func.attr.value == "item" and not updated_node.args:
            return nodes.expression("{x}.detach().squeeze()", x=func.value)
        return updated_node


class _Joined(cst.CSTTransformer):
    """What reads kept values, or lists that are arrays now, outside of loops."""

    def __init__(self, together: Together) -> None:
        super().__init__()
        self.together = together
        self.prepared: list[Statement] = []

    def leave_ListComp(self, original_node: cst.ListComp, updated_node: cst.ListComp) -> Expr:
        return self.turns(original_node) or updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        args = [arg.value for arg in original_node.args]
        first = nodes.dotted(args[0]) if args else None
        arrays = self.together.arrays.get(first or "", ())
        name = nodes.code(original_node.func)
        if name == "sum" and len(args) == 1:
            turns = self.turns(args[0]) if isinstance(args[0], cst.GeneratorExp | cst.ListComp) else None
            array = nodes.name(arrays[0]) if len(arrays) == 1 else args[0] if first in self.together.mapped else turns
            return nodes.expression("{x}.sum(0)", x=array) if array is not None else updated_node
        if name == "len" and arrays:
            return updated_node.with_changes(args=[cst.Arg(nodes.name(arrays[0]))])
        if isinstance(original_node.func, cst.Name) and self.together.only_reads(name, original_node.args):
            lists = self.together.arrays
            own = [lists.get(nodes.dotted(arg.value) or "", ()) for arg in original_node.args]
            given = [
                new.with_changes(value=nodes.expression(f"list({array[0]})")) if len(array) == 1 else new
                for new, array in zip(updated_node.args, own, strict=True)
            ]
            return updated_node.with_changes(args=given)
        joins = name in [f"{self.together.torch}.{one}" for one in _JOINING]
        if joins and len(arrays) == 1:
            return updated_node.with_changes(
                args=[updated_node.args[0].with_changes(value=nodes.name(arrays[0])), *updated_node.args[1:]]
            )
        return updated_node

    def turns(self, node: cst.ListComp | cst.GeneratorExp) -> Expr | None:
        """`[f(x, r) for x, r in zip(saved, returns)]`; None where that goes through something else."""
        turn = node.for_in
        if not set(self.together.arrays) & set(usage.paths(turn.iter)):
            return None
        if turn.ifs or turn.inner_for_in is not None:
            raise Unsupported("MIG401", f"`{nodes.code(node)}` leaves out some of what was kept")
        over, prepared = self.together.over(turn.target, turn.iter)
        self.prepared += prepared
        return self.together.turns(node.elt, over, {})
