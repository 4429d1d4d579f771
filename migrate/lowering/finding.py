"""Finding update regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from migrate import nodes, usage
from migrate.kinds import Function, Kind, Model, Optimizer
from migrate.lowering.region import Region, call_of, has_host_effects, method_call_of
from migrate.lowering.scope import Scope
from migrate.nodes import Expr, Statement
from migrate.script import PARAMS

_HOST_CONTEXTS = ("module", "function", "method")
_NOT_FORWARD = ("train", "eval", "parameters", "zero_grad", "to")
_CLIP = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm")


class RegionFinding(Scope):
    """Which statements of a block make an update."""

    def region_at(self, statements: Sequence[Statement], index: int) -> Region | None:
        """The update region that starts at a statement of a block: at the first one that the loss depends on and that
        works on what the model returned. It ends with the optimizer's step where gradients are also cleared in this
        block, else with backward(): then they accumulate."""
        if self.context not in _HOST_CONTEXTS:
            return None
        backward = _first(i for i in range(index, len(statements)) if method_call_of(statements[i], "backward"))
        if backward is None:
            return None
        receiver = method_call_of(statements[backward], "backward")
        assert receiver is not None
        loss = receiver.value
        traced = self.traced(statements[index : backward + 1])
        body = traced & _slice(statements[index:backward], loss)
        if min(body, default=backward - index) != 0:
            return None
        later = range(backward + 1, len(statements))
        step = _first(i for i in later if self.calls_on(statements[i], "step", Optimizer))
        other = _first(i for i in later if method_call_of(statements[i], "backward"))
        if step is not None and other is not None and other < step:
            last = max(i for i in later if self.calls_on(statements[i], "step", Optimizer))
            return Region(list(statements[index : last + 1]), loss, supported=False)
        fused = step is not None and any(self.clears(statement) for statement in statements)
        end = step + 1 if fused and step is not None else backward + 1
        if not fused:
            self.mark_accumulated(statements[index:end], traced)
        return self.sorted_region(list(statements[index:end]), backward - index, fused, body, traced)

    def sorted_region(
        self, statements: list[Statement], backward: int, fused: bool, body: set[int], traced: set[int]
    ) -> Region:
        """The statements of a region, each in its part. `body`: those of the loss, `traced`: those on model outputs."""
        receiver, call = method_call_of(statements[backward], "backward"), call_of(statements[backward])
        assert receiver is not None and call is not None
        supported = not call.args and not any(has_host_effects(statements[number]) for number in body)
        before: list[Statement] = []
        after: list[Statement] = []
        clips: list[tuple[str, cst.Call]] = []
        step: Statement | None = None
        for number, statement in enumerate(statements):
            clip = self.clip(statement)
            if number == backward or number in body:
                continue
            if self.calls_on(statement, "step", Optimizer):
                step = statement
            elif self.clears(statement):
                continue
            elif clip is not None:
                clips.append(clip)
            elif number in traced or after or number > backward:
                after.append(statement)
            else:
                before.append(statement)
        in_loss = [statements[number] for number in sorted(body)]
        needed = set(usage.loads(in_loss))
        early = [statement for statement in after if not isinstance(statement, cst.For)]
        if not fused and needed & set(usage.stores(early)) - set(usage.stores(in_loss)):
            supported = False  # the loss needs what would only run after it
        return Region(statements, receiver.value, before, in_loss, after, clips, statements[backward], step, supported)

    def calls_on(self, statement: Statement, method: str, kind: type[Kind]) -> bool:
        """Whether a statement is nothing but a call of a method of such an object."""
        func = method_call_of(statement, method)
        return func is not None and isinstance(self.kind_of(func.value), kind)

    def clears(self, statement: Statement) -> bool:
        """`zero_grad()` of an optimizer or a model."""
        return any(self.calls_on(statement, "zero_grad", kind) for kind in (Optimizer, Model))

    def clip(self, statement: Statement) -> tuple[str, cst.Call] | None:
        """`clip_grad_norm_(...)`, alone or assigned to a name: the name ("_" for none), and the call."""
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        small, bound = statement.body[0], "_"
        if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
            bound = small.targets[0].target.value
        value = small.value if isinstance(small, cst.Assign | cst.Expr) else None
        return (bound, value) if isinstance(value, cst.Call) and self.torch_name(value.func) in _CLIP else None

    def calls_model(self, statement: cst.CSTNode) -> bool:
        """Whether a statement goes through a model: calls it, a method of it, or a function that uses one."""
        for call in usage.calls(statement):
            text = nodes.dotted(call.func)
            if text is None:
                continue
            kind = self.kind_of_name(text)
            if isinstance(kind, Model):
                return True
            method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            if method and method not in _NOT_FORWARD and isinstance(self.kind_of_name(text.rpartition(".")[0]), Model):
                return True
            reads = self.script.functions[kind.name].reads if isinstance(kind, Function) else set()
            if any(state.what == PARAMS for state in reads):
                return True
        return False

    def traced(self, statements: Sequence[Statement]) -> set[int]:
        """The statements that work on what the model returned."""
        names: set[str] = set()
        found: set[int] = set()
        for number, statement in enumerate(statements):
            if self.calls_model(statement) or names & set(usage.loads(statement)):
                found.add(number)
                if not has_host_effects(statement):
                    names |= set(usage.stores(statement))
            else:
                names -= set(usage.stores(statement))
        return found

    def mark_accumulated(self, statements: Sequence[Statement], traced: set[int]) -> None:
        """Notes the models whose gradients wait for a step elsewhere."""
        for number in traced:
            for call in usage.calls(statements[number]):
                kind = self.kind_of_name(nodes.dotted(call.func) or "")
                if isinstance(kind, Model) and kind.place is not None:
                    self.script.accumulated.add(self.root(kind.place))
                    self.script.summed.add(self.root(kind.place))


def _first(found: Iterable[int]) -> int | None:
    return next(iter(found), None)


def _slice(statements: Sequence[Statement], loss: Expr) -> set[int]:
    """The statements that the loss depends on."""
    needed = set(usage.loads(loss))
    found: set[int] = set()
    for number in range(len(statements) - 1, -1, -1):
        statement = statements[number]
        call = call_of(statement)
        receiver = nodes.dotted(call.func.value) if call and isinstance(call.func, cst.Attribute) else None
        stored = set(usage.stores(statement))
        if stored & needed or (receiver in needed and not has_host_effects(statement)):
            found.add(number)
            if isinstance(statement, cst.SimpleStatementLine):
                needed -= stored
            needed |= set(usage.loads(statement))
    return found
