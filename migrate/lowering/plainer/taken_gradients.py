"""Gradients of whole models that a script takes by `torch.autograd.grad` and applies itself, in plain terms.

`grads = torch.autograd.grad(loss, model.parameters())` is `model.zero_grad(); loss.backward()`, and what goes through
the gradients goes through the parameters with theirs: `for p, g in zip(model.parameters(), grads): p -= lr * g` is
`for p in model.parameters(): p -= lr * p.grad`. That is the same where nothing else in the project fills or reads
`p.grad`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import libcst as cst

from migrate.known.kinds import Function, Model, Optimizer, Place
from migrate.known.weight_kinds import Selection
from migrate.lowering.statements.blocks import Block
from migrate.lowering.unit import Unit
from migrate.lowering.updates.region import method_call_of
from migrate.lowering.weights.selections import Selections
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement

_API = "torch.autograd.grad"
_GIVEN = re.compile(r"\.grad\s*=[^=]")
_SAME = re.compile(r"(\.data|\.clone\(\)|\.detach\(\))*")


@dataclass(frozen=True)
class Taken:
    """`name = torch.autograd.grad(loss, weights)`: the parameters as they are written, and which they are. `options`:
    those of `backward()`."""

    name: str
    loss: Expr
    weights: Expr
    selection: Selection
    options: tuple[cst.Arg, ...]


class TakenGradients(Selections):
    """Statements that take gradients of whole models, and those that go through them."""

    def backward_for_taken(self, block: Block) -> None:
        """Puts the first such statement that is still to come in a block, and those that read its gradients, into
        plain terms, in place."""
        if not self.unit.takes_gradients:
            return
        number = block.index
        while number < len(block.statements):
            taken = self.gradients_taken(block.statements[number])
            made = self.in_place_of_taken(taken, block.statements, number) if taken is not None else None
            if made is not None:
                positions = block.positions[number:]
                block.positions[number:] = [at for at, each in zip(positions, made, strict=True) for _ in each]
                block.statements[number:] = [plain for each in made for plain in each]
            number += 1

    def gradients_taken(self, statement: Statement) -> Taken | None:
        """What a statement takes; None for other ones."""
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        call = small.value if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if not isinstance(small, cst.Assign) or not isinstance(call, cst.Call) or self.torch_name(call.func) != _API:
            return None
        target, given = small.targets[0].target, [arg for arg in call.args if arg.keyword is None and not arg.star]
        named = {arg.keyword.value: arg for arg in call.args if arg.keyword is not None}
        graph = named.pop("create_graph", None)
        plain = graph is None or nodes.is_literal(graph.value, False)
        if not isinstance(target, cst.Name) or len(given) != 2 or set(named) - {"retain_graph"} or not plain:
            return None
        weights = _unlisted(given[1].value)
        selection = self.selection(weights)
        if not self.whole_models(selection) or selection is None or isinstance(given[0].value, cst.List | cst.Tuple):
            return None
        return Taken(target.value, given[0].value, weights, selection, tuple(named.values()))

    def in_place_of_taken(self, taken: Taken, statements: Sequence[Statement], at: int) -> list[list[Statement]] | None:
        """The statements from one that takes gradients on, each in plain terms; None where they do more than these can
        say."""
        reading = [number for number in range(at + 1, len(statements)) if taken.name in usage.loads(statements[number])]
        where = self.facts.node.body.body if self.facts is not None else self.unit.source.module.body
        read_here = [name for number in reading for name in usage.loads(statements[number])].count(taken.name)
        if (
            usage.stores(where).count(taken.name) != 1
            or usage.loads(where).count(taken.name) != read_here
            or not reading
        ):
            return None
        between, rest = statements[at + 1 : reading[-1] + 1], statements[reading[-1] + 1 :]
        plain = [self.through_parameters(taken, each) for each in between]
        left = [one for each in plain for one in each]
        if taken.name in usage.loads(left) or not all(self.keeps_gradients(each) for each in left):
            return None
        given = [each for each in between if _GIVEN.search(nodes.code(each))]
        if any(taken.name not in usage.loads(each) for each in given):
            return None
        steps = [each for each in rest if method_call_of(each, "step") is not None]
        if bool(given) != bool(steps) or not self.steps_follow(len(steps)):
            return None
        models = {self.root(place) for place, _ in taken.selection.leaves}
        if not all(self.stepped_models(each) <= models for each in steps):
            return None
        backward = self.backward(taken, statements[at], next((e for e in between if self.clears(e) >= models), None))
        passed = [number for number in range(at) if method_call_of(statements[number], "backward") is not None]
        earlier = [] if statements[at].leading_lines else statements[max(passed, default=0) : at]
        if any(self.clears(each) >= models for each in earlier):
            backward = backward[1:]
        return [backward, *plain, *([each] for each in rest)]

    def clears(self, statement: Statement) -> set[Place]:
        """The models whose gradients a statement clears."""
        func = method_call_of(statement, "zero_grad")
        kind = self.kind_of(func.value) if func is not None else None
        places = kind.models if isinstance(kind, Optimizer) else (kind.place,) if isinstance(kind, Model) else ()
        return {self.root(place) for place in places if place is not None}

    def steps_follow(self, here: int) -> bool:
        """Whether optimizers step nowhere but after gradients that were given to them: `here`, so often, if at all."""
        texts = [one.source.text for one in self.files()]
        steps = sum(text.count(".step(") for text in texts)
        return steps == here or (not here and any(map(_GIVEN.search, texts)))

    def stepped_models(self, statement: Statement) -> set[Place]:
        """The models whose weights the step of an optimizer changes."""
        func = method_call_of(statement, "step")
        kind = self.kind_of(func.value) if func is not None else None
        return {self.root(place) for place in kind.models} if isinstance(kind, Optimizer) else set()

    def keeps_gradients(self, statement: Statement) -> bool:
        """Whether a statement leaves the gradients of the pass as they are, as far as it says."""
        called = [call.func for call in usage.calls(statement)]
        return "zero_grad" not in usage.attributes(statement) and not any(
            self.torch_name(func) == _API or isinstance(self.kind_of(func), Function) for func in called
        )

    def backward(self, taken: Taken, statement: Statement, clearing: Statement | None) -> list[Statement]:
        """`model.zero_grad(); loss.backward()` in place of a statement. `clearing`: what clears the gradients later on,
        and may as well do it first."""
        if statement not in self.unit.taken_gradients:
            cleared = _cleared(taken.weights) if clearing is None else clearing.deep_clone()
            cleared = cleared.with_changes(leading_lines=statement.leading_lines)
            call = cst.Call(cst.Attribute(nodes.parenthesized(taken.loss), cst.Name("backward")), list(taken.options))
            self.stand_for(statement, [cleared, cst.SimpleStatementLine([cst.Expr(call)])])
        return self.unit.taken_gradients[statement]

    def through_parameters(self, taken: Taken, statement: Statement) -> list[Statement]:
        """A statement that goes through the parameters in place of their gradients; without what only clears
        gradients, which have been cleared before, or gives them to the parameters."""
        if self.clears(statement):
            return []
        if taken.name not in usage.loads(statement):
            return [statement]
        if statement not in self.unit.taken_gradients:
            made = nodes.visited(statement.deep_clone(), _Through(self, taken))
            self.stand_for(statement, [] if _does_nothing(made) else [made])
        return self.unit.taken_gradients[statement]

    def stand_for(self, statement: Statement, made: list[Statement]) -> None:
        """Notes what is lowered in place of a statement, in each round."""
        for each in made:
            self.unit.stands_for(each, statement)
        self.unit.taken_gradients[statement] = made

    def files(self) -> list[Unit]:
        """All files of the project."""
        return list(self.unit.others.values()) or [self.unit]


Comprehension = TypeVar("Comprehension", cst.ListComp, cst.GeneratorExp)


class _Through(cst.CSTTransformer):
    """Loops over gradients as loops over the parameters."""

    def __init__(self, scope: TakenGradients, taken: Taken) -> None:
        super().__init__()
        self.scope, self.taken = scope, taken

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        target, names = self._target(updated_node.target, updated_node.iter)
        if names is None or set(names) & set(usage.stores(updated_node.body)):
            return updated_node
        body = nodes.substituted(updated_node.body, names)
        assert isinstance(body, cst.BaseSuite)
        kept = [each for each in suites.suite_of(body.body) if not _gives_itself(each)]
        return updated_node.with_changes(
            target=target, iter=self.taken.weights.deep_clone(), body=suites.block_of(updated_node.body, kept)
        )

    def _comprehension(self, original_node: Comprehension, updated_node: Comprehension) -> Comprehension:
        each = updated_node.for_in
        target, names = self._target(each.target, each.iter)
        if names is None or each.inner_for_in is not None:
            return updated_node
        ifs = [one.with_changes(test=nodes.substituted(one.test, names)) for one in each.ifs]
        made = each.with_changes(target=target, iter=self.taken.weights.deep_clone(), ifs=ifs)
        return updated_node.with_changes(elt=nodes.substituted(updated_node.elt, names), for_in=made)

    leave_ListComp = leave_GeneratorExp = _comprehension

    def _target(self, target: cst.BaseAssignTargetExpression, iterated: Expr) -> tuple[Expr, dict[str, Expr] | None]:
        """What a loop over the parameters has in place of the variables of one over the gradients, or over both."""
        name = self.taken.name
        if nodes.dotted(iterated) == name and isinstance(target, cst.Name):
            return target, {target.value: cst.Attribute(target, cst.Name("grad"))}
        zipped = iterated.args if isinstance(iterated, cst.Call) and nodes.dotted(iterated.func) == "zip" else ()
        given = [_unlisted(arg.value) for arg in zipped if arg.keyword is None and not arg.star]
        names = nodes.elements(target) if isinstance(target, cst.Tuple) else []
        where = [number for number, each in enumerate(given) if nodes.dotted(each) == name]
        if len(given) != 2 or len(names) != 2 or len(where) != 1 or len(zipped) != 2:
            return target, None
        gradient, parameter = names[where[0]], names[1 - where[0]]
        if not isinstance(gradient, cst.Name) or not isinstance(parameter, cst.Name):
            return target, None
        selection = self.scope.selection(given[1 - where[0]])
        if selection is None or selection.leaves != self.taken.selection.leaves:
            return target, None
        return parameter, {gradient.value: cst.Attribute(parameter, cst.Name("grad"))}


def _unlisted(node: Expr) -> Expr:
    """`model.parameters()` of a list or a tuple of them."""
    listed = isinstance(node, cst.Call) and nodes.dotted(node.func) in ("list", "tuple") and len(node.args) == 1
    return node.args[0].value if listed and isinstance(node, cst.Call) else node


def _cleared(weights: Expr) -> cst.SimpleStatementLine | cst.For:
    """The statement that clears the gradients of parameters."""
    func = weights.func if isinstance(weights, cst.Call) and not weights.args else None
    if isinstance(func, cst.Attribute) and func.attr.value == "parameters":
        return nodes.statement("{m}.zero_grad()", m=func.value)
    return cst.For(cst.Name("p"), weights, cst.IndentedBlock([nodes.statement("p.grad = None")]))


def _gives_itself(statement: Statement) -> bool:
    """Whether a statement is `p.grad = p.grad.clone()`."""
    small = suites.alone(statement)
    target = nodes.code(small.targets[0].target) if isinstance(small, cst.Assign) else ""
    if not target.endswith(".grad") or not isinstance(small, cst.Assign):
        return False
    value = nodes.code(small.value)
    return value.startswith(target) and _SAME.fullmatch(value.removeprefix(target)) is not None


def _does_nothing(statement: Statement) -> bool:
    """Whether nothing is left of a loop, or of a block around one."""
    if isinstance(statement, cst.For | cst.With | cst.If):
        return all(map(_does_nothing, suites.suite_of(statement.body.body)))
    return suites.is_pass(statement)
