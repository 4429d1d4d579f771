"""Branches on the values of a tensor inside what jit traces: `jax.lax.cond` where that is the same, else a code.

Both sides become functions of no state: what they may not do is call a layer, draw, print or set an attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.known.kinds import Device, Kind, Model, Number, Plain, Tensor, is_batch, join
from migrate.known.qualified import options
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.expressions.torch_asked import torch_has
from migrate.lowering.statements.blocks import NextTurn
from migrate.lowering.unit import Environment, stays
from migrate.lowering.updates.region import WithoutItem
from migrate.machine import COMPILERS, splits_batches
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


class Branches(Binding):
    """`if` with a test that is a tensor."""

    def of_what_is_gone(self, test: Expr) -> bool | None:
        """What a test says of what the output does without: torch's compilers, `not torch.jit.is_scripting()`, wrappers
        for several devices, and versions of torch. None for other tests."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inner = self.of_what_is_gone(test.expression)
            return None if inner is None else not inner
        if isinstance(test, cst.BooleanOperation):
            left, right = self.of_what_is_gone(test.left), self.of_what_is_gone(test.right)
            decides = isinstance(test.operator, cst.Or)
            if left == decides or (right == decides and not usage.calls(test.left)):
                return decides  # what stands before it does nothing else
            return None if left is None or right is None else not decides
        if not isinstance(test, cst.Call):
            return None
        if torch_has(self, test):
            return True
        return False if self.torch_name(test.func) in COMPILERS or self.asks_for_wrapper(test) else None

    def asks_for_wrapper(self, test: cst.Call) -> bool:
        """Whether a test asks if a model is wrapped for several devices: `isinstance(model, nn.DataParallel)`,
        `hasattr(model, "module")`. None is."""
        asked, name = nodes.dotted(test.func), nodes.code(test.args[0].value) if test.args else ""
        model = self.kind_of_name(name)
        if len(test.args) != 2 or not isinstance(model, Model):
            return False
        sought = test.args[1].value
        if asked == "hasattr":
            known = any("module" in self.script.classes[cls].attributes for cls in options(model.cls))
            return nodes.is_literal(sought, "module") and not known
        wrappers = nodes.elements(sought) if isinstance(sought, cst.Tuple) else [sought]
        return asked == "isinstance" and all(splits_batches(self.torch_name(one) or "") for one in wrappers)

    def ended(self, body: Sequence[Statement], end: Environment, other: Environment) -> list[Statement]:
        """One of several ways to the same place: names whose channels are last at its end, and not on the other way, go
        back to torch's order, if they mean something on the other way or are read later; batches enter JAX."""
        return self.entered(self.moved_back(body, end, other), end, other)

    def moved_back(self, body: Sequence[Statement], end: Environment, other: Environment) -> list[Statement]:
        """The same without the batches."""
        made = list(body)
        for name, rank in list(end.last.items()):
            if other.last.get(name) == rank:
                continue
            del end.last[name]
            if name in other.kinds or any(_reads(statements, name) for statements in self.following):
                made = _followed(made, name, lambda x, rank=rank: layouts.first(Value(x, Tensor(rank=rank), "last")))
        return made

    def entered(self, body: Sequence[Statement], end: Environment, other: Environment) -> list[Statement]:
        """Batches that are torch's at the end of one way and arrays on the other enter JAX on both."""
        made = list(body)
        for name, kind in end.kinds.items():
            if is_batch(kind) and isinstance(other.kinds.get(name), Tensor) and name.isidentifier():
                end.kinds[name] = self.as_array(Value(nodes.name(name), kind)).kind
                made = _followed(made, name, lambda x, kind=kind: self.as_array(Value(x, kind)).node)
        return made

    def moves_alone(self, node: cst.If) -> bool:
        """Whether all that an `if` does is to move batches to a device, `x, y = x.cuda(), y.cuda()`. There they enter
        JAX, on every machine."""
        pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
        for line in suites.suite_of(node.body.body):
            small = suites.alone(line)
            if not isinstance(small, cst.Assign) or len(small.targets) != 1:
                return False
            target, value = small.targets[0].target, small.value
            if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
                pairs += zip(nodes.elements(target), nodes.elements(value), strict=False)
            else:
                pairs.append((target, value))
        moved = [(nodes.dotted(target), self.unplaced(value)) for target, value in pairs]
        return node.orelse is None and all(
            name is not None and name == nodes.dotted(source) and source is not value and is_batch(self.kind_of(source))
            for (name, source), (_, value) in zip(moved, pairs, strict=True)
        )

    def unplaced(self, node: Expr) -> Expr:
        """What a chain of moves to devices, `Variable(x).cuda()`, moves."""
        while isinstance(node, cst.Call):
            func, given = node.func, [arg.value for arg in node.args if arg.keyword is None]
            if isinstance(func, cst.Attribute) and func.attr.value == "cuda":
                node = func.value
            elif isinstance(func, cst.Attribute) and func.attr.value == "to":
                if not all(isinstance(self.kind_of(one), Device) for one in given):
                    break
                node = func.value
            elif self.torch_name(func) == "torch.autograd.Variable" and len(given) == 1:
                node = given[0]
            else:
                break
        return node

    def truth(self, test: Expr) -> Value:
        """Lowers a test. Where jit knows no values, `.item()` says nothing in one."""
        bare = nodes.visited(test, WithoutItem()) if self.under_jit and ".item()" in nodes.code(test) else test
        return self.expr(bare)

    def traced_choice(self, node: cst.IfExp, test: Value, body: Value, orelse: Value) -> Value:
        """`a if test else b` with a tensor for a test."""
        self.refuse_effects(node.test, [node.body, node.orelse], [])
        kind = self.common(node.test, body.kind, orelse.kind)
        sides = [nodes.expression("lambda: {x}", x=layouts.first(value)) for value in (body, orelse)]
        return Value(nodes.call("jax.lax.cond", layouts.first(test), *sides), kind)

    def traced_branch(self, node: cst.If, test: Value) -> list[Statement]:
        """An `if` statement with a tensor for a test."""
        block = self.blocks[-1]
        after: list[Statement] = []
        taken = suites.suite_of(node.body.body)
        if node.orelse is None and suites.exits(taken):
            after = block.statements[block.index + 1 :]  # only then do these run
            del block.statements[block.index + 1 :], block.positions[block.index + 1 :]
        elif isinstance(node.orelse, cst.If):
            after = [node.orelse]
        elif node.orelse is not None:
            after = suites.suite_of(node.orelse.body.body)
        if self.before or test.layout == "last":
            raise stays(node.test, "needs a statement before it")
        if suites.exits(taken) or suites.exits(after):
            return self._returned(node.test, test, [taken, after])
        return self._assigned(node.test, test, [taken, after])

    def _returned(self, written: Expr, test: Value, sides: list[list[Statement]]) -> list[Statement]:
        """Both sides end in `return`."""
        functions: list[Expr] = []
        made: list[Statement] = []
        for number, side in enumerate(sides):
            if not side or not _returns(side[-1]):
                raise stays(written, "a side that does not end in `return`")
            lowered, _ = self._side(written, side)
            if any(map(suites.may_leave, lowered[:-1])) or not _returns(lowered[-1]):  # but by one more such branch
                raise stays(written, "a side that does not end in `return`")
            value = _value(lowered) if len(lowered) == 1 else None
            if value is not None:
                functions.append(nodes.expression("lambda: {x}", x=value))
            else:
                made.append(suites.function(self._function(number), [], lowered))
                functions.append(nodes.name(self._function(number)))
        return [*made, nodes.statement("return {x}", x=nodes.call("jax.lax.cond", layouts.first(test), *functions))]

    def _assigned(self, written: Expr, test: Value, sides: list[list[Statement]]) -> list[Statement]:
        """Both sides bind names."""
        if any(any(map(suites.may_leave, side)) for side in sides):
            raise stays(written, "a side that leaves the block")
        bound = [list(dict.fromkeys([*usage.stores(side), *_changed(side)])) for side in sides]
        before = {name: self.kind_of_name(name) for side in bound for name in side if self.env.lookup(name) is not None}
        results = [
            name
            for name in dict.fromkeys([*bound[0], *bound[1]])
            if name in before or all(name in side for side in bound)
        ]
        local = {name for side in bound for name in side} - set(results)
        if local & {name for following in self.following for name in usage.loads(following)}:
            raise stays(written, f"one side alone binds {', '.join(sorted(local))}")
        if not results:
            raise stays(written, "nothing that it binds")
        made: list[Statement] = []
        lowered, kinds = zip(*(self._side(written, side) for side in sides), strict=True)
        expressions = [_sole(side, results) for side in lowered]
        if all(each is not None for each in expressions):
            choices = [nodes.expression("lambda: {x}", x=each) for each in expressions if each is not None]
            made.append(self._bound(results, nodes.call("jax.lax.cond", layouts.first(test), *choices)))
        else:
            operands = [name for name in results if name in before]
            for number, side in enumerate(lowered):
                end = nodes.statement("return {x}", x=nodes.bare_tuple([nodes.name(name) for name in results]))
                made.append(suites.function(self._function(number), operands, [*side, end]))
            functions = [nodes.name(self._function(number)) for number in range(2)]
            call = nodes.call("jax.lax.cond", layouts.first(test), *functions, *map(nodes.name, operands))
            made.append(self._bound(results, call))
        for name in results:
            found = [side.get(name, before.get(name)) for side in kinds]
            kind = self.common(written, *(each or Kind() for each in found))
            self.bind(nodes.name(name), kind)
            self.env.definitions.pop(name, None)
        return made

    @staticmethod
    def _bound(names: Sequence[str], value: Expr) -> Statement:
        return nodes.statement("{t} = {v}", t=nodes.bare_tuple([nodes.name(name) for name in names]), v=value)

    def _side(self, written: Expr, side: list[Statement]) -> tuple[list[Statement], dict[str, Kind]]:
        """One side, lowered by itself, and the kinds of what it binds."""
        start = self.env.copy()
        lowered = self.suite(side) if side else []
        if not suites.exits(lowered):
            lowered = self.ended(lowered, self.env, start)
        bound = {name: self.kind_of_name(name) for name in usage.stores(side)}
        self.env.replace(start)
        self.refuse_effects(written, side, lowered)
        return lowered, bound

    def refuse_effects(self, written: Expr, side: Sequence[cst.CSTNode], lowered: Sequence[Statement]) -> None:
        """Declines sides that do more than compute: both may be traced, and Flax's state cannot pass through."""
        for name in dict.fromkeys(f"self.{name}" for node in side for name in usage.attributes_of_self(node)):
            kind = self.kind_of(nodes.expression(name))
            if self.context != "region" and not isinstance(kind, Number | Plain) and not self._is_setting(name):
                raise stays(written, f"a side that uses {name}, a part of the module")
        text = "".join(nodes.code(each) for each in lowered)
        if "make_rng" in text or "subkey" in text:
            raise stays(written, "a side that draws random numbers")
        for statement in lowered:
            if not _computes(statement):
                raise stays(written, "a side that does more than bind names")

    def _is_setting(self, path: str) -> bool:
        """Whether an attribute of a module is a plain value of its constructor."""
        facts = self.script.classes.get(self.cls)
        kind = facts.attributes.get(path.partition(".")[2]) if facts is not None else None
        return isinstance(kind, Number | Plain)

    def common(self, written: Expr, one: Kind, other: Kind) -> Kind:
        """The kind of what two sides give: tensors both, or plain numbers that stay scalars."""
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            return replace(join(one, other), optional=False) if isinstance(join(one, other), Tensor) else Tensor()
        if isinstance(one, Number) and isinstance(other, Number):
            raise stays(written, "sides that give plain numbers")
        raise stays(written, "sides that do not both give tensors")

    def _function(self, number: int) -> str:
        name = ("if_true", "if_false")[number]
        return f"{name}_" if name in self.unit.taken else name


def _reads(statements: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether what follows may read what a name means now. The next turn of a loop may bind it first."""
    for statement in statements:
        if name in usage.loads(statement):
            return True
        first = isinstance(statement, cst.SimpleStatementLine) and name in usage.stores(statement)
        if first and isinstance(statements, NextTurn):
            return False
    return False


def _computes(statement: Statement) -> bool:
    """Whether a lowered statement only binds names, or returns."""
    if isinstance(statement, cst.FunctionDef):
        return True
    if isinstance(statement, cst.If):
        inner = [*suites.suite_of(statement.body.body)]
        orelse = statement.orelse
        if orelse is not None:
            inner += [orelse] if isinstance(orelse, cst.If) else suites.suite_of(orelse.body.body)
        return all(_computes(each) for each in inner)
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    for small in statement.body:
        targets = [target.target for target in small.targets] if isinstance(small, cst.Assign) else []
        if isinstance(small, cst.AugAssign | cst.AnnAssign):
            targets = [small.target]
        if not isinstance(small, cst.Assign | cst.AugAssign | cst.AnnAssign | cst.Return | cst.Pass):
            return False
        if not all(isinstance(target, cst.Name | cst.Tuple) for target in targets):
            return False
    return True


def _changed(side: Sequence[Statement]) -> Iterator[str]:
    """The names of what statements change in place, which the output binds again."""
    return (name for each in side for name in usage.changed_in_place(each) if name.isidentifier())


def _sole(side: Sequence[Statement], names: Sequence[str]) -> Expr | None:
    """The value of the one name that both sides bind, where a side is no more than that; the name where it is empty."""
    if len(names) != 1:
        return None
    if not side:
        return nodes.name(names[0])
    small = side[0].body[0] if len(side) == 1 and isinstance(side[0], cst.SimpleStatementLine) else None
    if isinstance(small, cst.Assign) and nodes.dotted(small.targets[0].target) == names[0]:
        return small.value
    if isinstance(small, cst.AugAssign) and nodes.dotted(small.target) == names[0]:
        operator = cst.Module([]).code_for_node(small.operator).strip().removesuffix("=")
        return nodes.expression(f"{names[0]} {operator} {{v}}", v=nodes.parenthesized(small.value))
    return None


def _returns(statement: Statement) -> bool:
    small = statement.body[-1] if isinstance(statement, cst.SimpleStatementLine) else None
    if isinstance(small, cst.Return):
        return small.value is not None
    return isinstance(statement, cst.If)  # it has to end in `return` as well, and says so itself


def _value(lowered: Sequence[Statement]) -> Expr | None:
    small = lowered[0].body[0] if isinstance(lowered[0], cst.SimpleStatementLine) else None
    return small.value if isinstance(small, cst.Return) else None


def _followed(made: Sequence[Statement], name: str, change: Callable[[Expr], Expr]) -> list[Statement]:
    """Statements after which a name has another value: `z = jnp.asarray(z)`, or `z = jnp.asarray(y.clone())` where the
    last one is `z = y.clone()`."""
    line = made[-1] if made else None
    small = suites.alone(line)
    last = isinstance(small, cst.Assign) and [nodes.dotted(one.target) for one in small.targets] == [name]
    if isinstance(line, cst.SimpleStatementLine) and isinstance(small, cst.Assign) and last:
        return [*made[:-1], line.with_changes(body=[small.with_changes(value=change(small.value))])]
    return [*made, nodes.statement(f"{name} = {{x}}", x=change(nodes.name(name)))]
