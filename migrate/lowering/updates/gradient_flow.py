"""Where gradients flow: which models a loss reaches, and which gradients are still there when it is differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from migrate.known.kinds import Function, Kind, Leaf, Model, Optimizer, Place
from migrate.known.weight_kinds import LISTING, Parameters, Selection, Weight
from migrate.lowering.expressions.results_followed import function_called
from migrate.lowering.models.object_history import changed_of_object, methods_reached
from migrate.lowering.scope import Scope
from migrate.lowering.updates.cut_off import attached, cuts_off
from migrate.lowering.updates.region import has_host_effects, method_call_of
from migrate.lowering.updates.results_in_part import models_through
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.suites import first_line
from migrate.weights import weights_of

_NOT_FORWARD = ("train", "eval", "parameters", "named_parameters", "zero_grad", "to", "cuda", "state_dict", "modules")
_TRAINING = ("torch.optim.", "torch.nn.utils.clip_grad")  # what takes weights and computes nothing from them


@dataclass(frozen=True)
class Dependency:
    """A statement that a loss depends on, with the names that it takes a gradient from."""

    statement: Statement
    loads: frozenset[str]
    stores: frozenset[str]
    models: frozenset[Place]


class GradientFlow(Scope):
    """Following gradients backwards through statements."""

    # -- what a piece of code reaches ---------------------------------------------------------------------------------

    def models_behind(self, node: cst.CSTNode) -> set[Place]:
        """The models that gradients flow to from what code calls: not by way of functions that return numbers alone."""
        return self.models_called(node, numbers=False)

    def models_called(self, node: cst.CSTNode, numbers: bool = True) -> set[Place]:
        """The models that code goes through: it calls them, methods of them, or functions that use them. `numbers`:
        those count that return nothing which gradients flow through."""
        found: set[Place] = set()
        for call in usage.calls(node):
            text = nodes.dotted(call.func)
            if text is None:
                continue
            kind = self.kind_of_name(text)
            if isinstance(kind, Model) and kind.place is not None:
                found.add(self.root(kind.place))
            owner = self.kind_of_name(text.rpartition(".")[0])
            if isinstance(owner, Model) and owner.place is not None and text.rpartition(".")[2] not in _NOT_FORWARD:
                found.add(self.root(owner.place))
            facts = function_called(self, call)
            if facts is not None and (numbers or not cuts_off(self, facts)):
                found |= {self.root(place) for place in facts.models_run}
        return found

    def weights_taken(self, node: cst.CSTNode) -> set[Place]:
        """The models of which code takes weights: `model.parameters()`, a name for them, `model.head.weight`."""
        found: set[Place] = set()
        training = [c for c in usage.calls(node) if (self.torch_name(c.func) or "").startswith(_TRAINING)]
        for path in {*usage.paths(node)} - {path for call in training for path in usage.paths(call)}:
            kind = self.kind_of_name(path)
            if isinstance(kind, Parameters):
                found |= {self.root(place) for place in kind.models}
            elif isinstance(kind, Selection):
                found |= {self.root(place) for place, _ in kind.leaves}
            elif isinstance(kind, Weight) and kind.place is not None:
                found.add(self.root(kind.place))
            else:
                found |= self.model_of_weight(path)
        return found | self.leaves_of_self(node)

    def model_of_weight(self, path: str) -> set[Place]:
        """The model that a dotted name takes a weight of, or all of them; none where it does not."""
        kind, rest = self.model_and_path(path) or (None, [])
        if kind is None or kind.place is None:
            return set()
        names = {leaf.torch for leaf in weights_of(self.script, kind.cls)}
        named = any(".".join(rest[: end + 1]) in names for end in range(len(rest)))
        return {self.root(kind.place)} if named or set(rest) & set(LISTING) else set()

    def leaves_in(self, names: set[str]) -> set[Place]:
        """The tensors among some names that gradients are taken of."""
        kinds = [self.kind_of_name(name) for name in names]
        return {self.root(kind.place) for kind in kinds if isinstance(kind, Leaf)}

    def leaves_taken(self, node: cst.CSTNode) -> set[Place]:
        """The tensors that code reads and gradients are taken of, those of an object among them."""
        return self.leaves_in(set(usage.loads(node))) | self.leaves_of_self(node)

    def leaves_of_self(self, node: cst.CSTNode) -> set[Place]:
        """Those among the attributes of an object."""
        return self.leaves_in({path for path in usage.paths(node) if path.startswith("self.")})

    def attached(self, node: cst.CSTNode) -> cst.CSTNode:
        """Code without what gradients do not flow through: `x.detach()`, `x.data`, `x.item()`."""
        return attached(self.unit, node)

    def dependency(self, statement: Statement) -> Dependency:
        """A statement as gradients see it: what a definition holds is not run by it."""
        stores = frozenset(usage.changes(statement))
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return Dependency(statement, frozenset(), stores, frozenset())
        without = isinstance(statement, cst.With) and any(
            isinstance(item.item, cst.Call) and self.stops_gradients(item.item) for item in statement.items
        )
        if without or self.makes_leaf(statement) or self.only_fills_weights(statement):
            return Dependency(statement, frozenset(), stores, frozenset())
        attached = self.attached(statement)
        loads = usage.loads_from_before(attached)
        models = self.models_behind(attached) | self.leaves_in(loads) | self.weights_taken(attached)
        return Dependency(statement, frozenset(loads), stores, frozenset(models))

    def flowing(self, statement: Statement, needed: set[str]) -> Dependency:
        """A statement as the gradients of some names see it: no model stands behind those that a loop binds past all
        models, as one that acts does the states of an environment. What it puts into lists is told of these
        (`kept_outputs`). Of what a method returns, the results that are not needed do not count."""
        whole = self.dependency(statement)
        through = models_through(self, statement, needed) if whole.models else None
        if through is not None:
            return replace(whole, models=through & whole.models)
        if not isinstance(statement, cst.For | cst.While) or not whole.models or not has_host_effects(statement):
            return whole
        body, names, before = suites.suite_of(statement.body.body), set(needed), set[str]()
        flows: list[Dependency] = []
        while names != before:
            before = set(names)
            flows, from_before = self.dependencies(body, names)
            names |= from_before
        filled = {*usage.filled(statement), *usage.changed_by_methods(statement)}
        if any(flow.models for flow in flows) or names & filled - needed or statement.orelse is not None:
            return whole
        through = set(usage.loads(statement.iter)) if isinstance(statement, cst.For) else set[str]()
        return replace(whole, loads=frozenset(through.union(*(flow.loads for flow in flows))), models=frozenset())

    def makes_leaf(self, statement: Statement) -> bool:
        """Whether a statement says of a tensor that gradients are taken of it, or changes such a tensor itself, which
        torch lets only what it does not follow do: they end there."""
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(small, cst.AugAssign):
            return isinstance(self.kind_of(small.target), Leaf)
        call = small.value if isinstance(small, cst.Expr) else None
        if (
            isinstance(call, cst.Call)
            and isinstance(call.func, cst.Attribute)
            and usage.is_in_place(call.func.attr.value)
        ):
            return isinstance(self.kind_of(call.func.value), Leaf)
        if not isinstance(small, cst.Assign) or not asks_for_gradients(small.value):
            return False
        return isinstance(self.kind_of(small.targets[0].target), Leaf)

    def only_fills_weights(self, statement: Statement) -> bool:
        """Whether a statement does no more than `nn.init.xavier_uniform_(w)`, which no gradient goes through."""
        if isinstance(statement, cst.For | cst.With | cst.If) and getattr(statement, "orelse", None) is None:
            return all(map(self.only_fills_weights, suites.suite_of(statement.body.body)))
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        call = small.value if isinstance(small, cst.Expr) else None
        return isinstance(call, cst.Call) and (self.torch_name(call.func) or "").startswith("torch.nn.init.")

    def reached(self, history: Sequence[Statement], loss: cst.BaseExpression) -> set[Place]:
        """The models that a loss, computed by the statements, takes gradients of."""
        attached = self.attached(loss)
        loads = set(usage.loads(attached))
        found = self.models_behind(attached) | self.leaves_in(loads) | self.weights_taken(attached)
        for dependency in self.dependencies(history, loads)[0]:
            found |= dependency.models
        return found

    def dependencies(self, history: Sequence[Statement], names: set[str]) -> tuple[list[Dependency], set[str]]:
        """The statements that names depend on by gradient, latest first; and the names that must come from before."""
        needed = set(names)
        found: list[Dependency] = []
        for statement in reversed(history):
            if not set(usage.changes(statement)) & needed or isinstance(statement, cst.FunctionDef | cst.ClassDef):
                continue
            if self.updates_apart(statement):
                continue
            changed = [self.kind_of_name(name) for name in usage.changes(statement)]
            if all(isinstance(kind, Model) or stands_for_weights(kind) for kind in changed):
                continue  # each use of the name takes them anew
            dependency = self.flowing(statement, needed)
            found.append(dependency)
            if isinstance(statement, cst.SimpleStatementLine):
                needed -= dependency.stores
            needed |= dependency.loads
        return found, needed

    # -- what was computed before -------------------------------------------------------------------------------------

    def history(self, index: int) -> list[Statement]:
        """What this scope has surely run before a statement of the block at hand; in a loop, not what its earlier turns
        have bound."""
        found: list[Statement] = []
        carried: set[str] = set()
        for block in reversed(self.blocks):
            before = block.statements[: index if block is self.blocks[-1] else block.index]
            found = [s for s in before if not carried & set(usage.changes(s))] + found
            if block.cyclic:
                carried |= {name for statement in block.statements for name in usage.changes(statement)}
        return found

    def replayed(
        self, history: list[Statement], own: list[Statement], loss: cst.BaseExpression, models: set[Place]
    ) -> tuple[list[Statement], str]:
        """Statements of earlier regions that gradients of `models` flow through on their way from the loss; and why
        they cannot be computed again, if so."""
        history = [each for statement in history for each in self.last_turn(statement)]
        _, needed = self.dependencies(own, set(usage.loads(self.attached(loss))))
        carrying: set[str] = set()
        chosen: list[Dependency] = []
        for dependency in reversed(self.dependencies(history, needed)[0]):
            if dependency.models & models or dependency.loads & carrying:
                chosen.append(dependency)
                carrying |= dependency.stores
            else:
                carrying -= dependency.stores
        problem = ""
        for dependency in chosen:
            later = [*history[history.index(dependency.statement) + 1 :], *self.repeated_after(dependency.statement)]
            again = {d.statement for d in chosen}
            changed = {name for s in later if s not in again for name in usage.changes(s)}
            inputs = set(usage.loads(dependency.statement)) - carrying
            if suites.leaves_loop(dependency.statement):
                problem = f"the gradient goes through `{first_line(dependency.statement)}`, which leaves the loop"
            if changed & inputs or any(self.stepped(s) & dependency.models for s in later):
                problem = f"the gradient goes through `{first_line(dependency.statement)}`, whose inputs have changed"
        return [dependency.statement for dependency in chosen], problem

    def last_turn(self, statement: Statement) -> list[Statement]:
        """What a loop with updates of its own has run in its last turn, whose results a later loss may go on from: a
        critic's steps before the one of a generator. Without such a turn there is nothing that the loss could go
        through; of other statements the statement itself."""
        if not isinstance(statement, cst.For) or statement.orelse is not None or not self.updates_inside(statement):
            return [statement]
        body = suites.suite_of(statement.body.body)
        return [statement] if any(map(suites.may_leave, body)) else list(body)

    def updates_inside(self, statement: Statement) -> bool:
        """Whether a loop has an update in its own block: a backward pass, and a step."""
        body = suites.suite_of(statement.body.body) if isinstance(statement, cst.For | cst.While) else []
        backward = any(self.differentiated(one) is not None for one in body)
        return backward and any(self.stepped(one) for one in body if isinstance(one, cst.SimpleStatementLine))

    def updates_apart(self, statement: Statement) -> bool:
        """Whether a statement is a call of a method of the same object that makes an update of its own, and leaves
        nothing in the object that the code at hand reads."""
        call = suites.call_alone(statement)
        kind = self.kind_of(call.func) if call is not None else None
        own = call is not None and isinstance(call.func, cst.Attribute) and nodes.dotted(call.func.value) == "self"
        if not own or not isinstance(kind, Function):
            return False
        cls = kind.name.rpartition(".")[0]
        methods = self.script.methods(cls)
        reached = [methods[name] for name in methods_reached(cls, methods, kind.name)]
        called = {one.attr.value for each in reached for one in usage.methods_called(each.node)}
        changed = set[str]().union(*map(changed_of_object, reached))
        return {"backward", "step"} <= called and not changed & set(usage.attributes(self.own_body))

    def repeated_after(self, statement: Statement) -> list[Statement]:
        """The statements of the loops around the block at hand that a statement stands before: in their next turn, they
        have run since."""
        depth = next((i for i, block in enumerate(self.blocks) if statement in block.statements), len(self.blocks))
        return [each for block in self.blocks[depth + 1 :] if block.cyclic for each in block.statements]

    # -- events -------------------------------------------------------------------------------------------------------

    def stepped(self, statement: Statement) -> set[Place]:
        """The models whose weights a statement changes."""
        found = self.looped_models(statement)
        for call in usage.calls(statement):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "step":
                kind = self.kind_of(call.func.value)
                if isinstance(kind, Optimizer):
                    found |= {self.root(place) for place in kind.models}
        return found

    def zeroed(self, statement: Statement) -> set[Place]:
        """The models whose gradients a statement clears, if it surely runs."""
        if isinstance(statement, cst.With):
            return {place for inner in suites.suite_of(statement.body.body) for place in self.zeroed(inner)}
        if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
            leaf = self.zeroed_leaf(statement.body[0])
            if leaf is not None:
                return {leaf}
        func = method_call_of(statement, "zero_grad")
        kind = self.kind_of(func.value) if func is not None else None
        if isinstance(kind, Optimizer):
            return {self.root(place) for place in kind.models}
        if isinstance(kind, Model) and kind.place is not None:
            return {self.root(kind.place)}
        return set()

    def zeroed_leaf(self, small: cst.BaseSmallStatement) -> Place | None:
        """The tensor of which `w.grad = None`, `w.grad = torch.zeros_like(w)` or `w.grad.zero_()` clears the
        gradient."""
        gradient: cst.BaseExpression | None = None
        if isinstance(small, cst.Assign) and (nodes.dotted(small.value) == "None" or self.is_zeros(small.value)):
            target = small.targets[0].target
            gradient = target if isinstance(target, cst.Attribute) else None
        elif isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            func = small.value.func
            if isinstance(func, cst.Attribute) and func.attr.value == "zero_":
                gradient = func.value
                if isinstance(gradient, cst.Attribute) and gradient.attr.value == "data":
                    gradient = gradient.value
        if not isinstance(gradient, cst.Attribute) or gradient.attr.value != "grad":
            return None
        kind = self.kind_of(gradient.value)
        return self.root(kind.place) if isinstance(kind, Leaf) else None

    def is_zeros(self, node: Expr) -> bool:
        """Whether a tensor is made of zeros: `torch.zeros_like(w)`, `Variable(w.new().resize_as_(w).zero_())`."""
        if not isinstance(node, cst.Call):
            return False
        name = self.torch_name(node.func)
        if name == "torch.autograd.Variable" and len(node.args) == 1:
            return self.is_zeros(node.args[0].value)
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        return name in ("torch.zeros_like", "torch.zeros") or method == "zero_"

    def differentiates(self, statement: Statement, before: Sequence[Statement]) -> set[Place]:
        """The models whose gradients a statement adds to."""
        receiver = method_call_of(statement, "backward")
        if receiver is not None:
            return self.reached(before, receiver.value)
        backward = [
            call
            for call in usage.calls(statement)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
        ]
        if not backward or isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return set()
        found = self.models_called(statement) | self.leaves_taken(statement)
        for call in backward:
            assert isinstance(call.func, cst.Attribute)
            found |= self.reached(before, call.func.value)
        return found

    def cleared(self, models: set[Place], start: int, end: int) -> bool:
        """Whether the gradients of models are surely zero before statement `start` of the block at hand, of which the
        statements up to `end` are an update. Loops are followed around."""
        around = False  # whether the turn before, of a loop inside, has left them so
        for block in reversed(self.blocks):
            own = block is self.blocks[-1]
            first, last = (start, end) if own else (block.index, block.index + 1)
            met = self._met(block.statements[:first], models)
            if met is not None:
                return met
            if block.cyclic:
                turn_before = self._met(block.statements[last:], models)
                if turn_before is False or not (turn_before or around):
                    return False
                around = True
        return True

    def stepped_again(self, models: set[Place], start: int, end: int) -> bool:
        """Whether an optimizer uses the gradients of models once more after an update, the statements from `start` to
        `end` of the block at hand, before they are cleared. Loops are followed around."""
        for block in reversed(self.blocks):
            own = block is self.blocks[-1]
            first, last = (start, end) if own else (block.index, block.index + 1)
            following = list(block.statements[last:]) + (list(block.statements[:first]) if block.cyclic else [])
            used = self._used(following, set(models))
            if used is not None:
                return used
        return False

    def _used(self, statements: Sequence[Statement], left: set[Place]) -> bool | None:
        """What comes first: True for a step on their gradients, False for the clearing of all of them."""
        for statement in statements:
            if isinstance(statement, cst.FunctionDef | cst.ClassDef):
                continue
            inner = (
                suites.suite_of(statement.body.body) if isinstance(statement, cst.For | cst.While | cst.With) else []
            )
            used = self._used(inner, left) if inner else None
            if used is not None:
                return used
            left -= self.zeroed(statement)
            if not left:
                return False
            if not inner and self.stepped(statement) & left:
                return True
        return None

    def _met(
        self, statements: Sequence[Statement], models: set[Place], before: Sequence[Statement] = ()
    ) -> bool | None:
        """What is met first going back: True for the clearing of all of their gradients, False for a backward pass. A
        loop may have no turn, and so is passed by where it clears them. before: what comes before the statements."""
        left = set(models)
        for number in range(len(statements) - 1, -1, -1):
            statement, earlier = statements[number], [*before, *statements[:number]]
            left -= self.zeroed(statement)
            if not left:
                return True
            if isinstance(statement, cst.For | cst.While) and statement.orelse is None:
                if self._met(suites.suite_of(statement.body.body), left, earlier) is False:
                    return False
            elif self.differentiates(statement, earlier) & left:
                return False
        return None


def stands_for_weights(kind: Kind) -> bool:
    """Whether a value is a weight, or all the weights, of a certain model."""
    return isinstance(kind, Parameters) or (isinstance(kind, Weight) and kind.place is not None)


def asks_for_gradients(node: cst.BaseExpression) -> bool:
    """`torch.zeros(3, requires_grad=True)`, `x.requires_grad_()`."""
    if not isinstance(node, cst.Call):
        return False
    if any(arg.keyword and arg.keyword.value == "requires_grad" for arg in node.args):
        return any(
            nodes.is_literal(arg.value, True)
            for arg in node.args
            if arg.keyword and arg.keyword.value == "requires_grad"
        )
    func = node.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "requires_grad_":
        return False
    return not node.args or nodes.is_literal(node.args[0].value, True)
