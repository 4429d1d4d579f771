"""Weights that a script loads, or initialises, before its data: `if opt.epoch != 0: model.load_state_dict(...)`.

Flax makes weights of an example, which such a model has of the data alone. What loads them stands below the statements
that make the loader then, as far as these have nothing to do with the models.
"""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Function, Model, Optimizer, Place, Scheduler
from migrate.lowering.scope import Scope
from migrate.lowering.statements.blocks import Block
from migrate.syntax import suites, usage
from migrate.syntax.nodes import Statement

_GIVING = ("load_state_dict", "apply")
_TELLING = ("print", "format", "join", "load")


class LoadsAfterData(Scope):
    """Blocks whose next statement can do without weights that are not there yet."""

    def load_later(self, block: Block) -> None:
        """Puts the statement that comes after what gives weights before it, where there are none yet."""
        if len(self.blocks) > 1:
            return
        start = end = block.index
        waiting: set[Place] = set()
        while end < len(block.statements) and (found := self.given_weights(block.statements[end])):
            waiting |= found
            end += 1
        held = block.statements[start:end]
        if not held or end == len(block.statements) or not self.passes(block.statements[end], held):
            return
        self.script.postponed |= waiting
        block.statements.insert(start, block.statements.pop(end))
        block.positions.insert(start, block.positions.pop(end))

    def given_weights(self, statement: Statement) -> set[Place]:
        """The models without weights that a statement gives some, and does nothing else; none of any other."""
        waiting = {place for what, place, _ in self.pending if what == "model"} & self.script.examples.keys()
        if not waiting & self.script.early or not _only_gives(statement):
            return set()
        kinds = map(self.kind_of_name, usage.loads(statement))
        models = {kind.place for kind in kinds if isinstance(kind, Model) and kind.place is not None}
        return models if models and models <= waiting else set()

    def passes(self, statement: Statement, held: list[Statement]) -> bool:
        """Whether a statement comes to the same before some others: it reads nothing that they change, changes nothing
        that they read, and of their models it makes optimizers at most."""
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return not set(usage.stores(statement)) & {*usage.loads(held), *usage.stores(held)}
        small = suites.alone(statement)
        if not isinstance(small, cst.Assign | cst.Expr | cst.AnnAssign):
            return False
        reads, changed = set(usage.loads(small)), set(usage.changes(small))
        if changed & {*usage.loads(held), *usage.stores(held)} or reads & set(usage.changes(cst.Module(held))):
            return False
        told = [{"print"} & set(usage.loads(each)) for each in (small, cst.Module(held))]
        calls = [self.kind_of(call.func) for call in usage.calls(small)]
        if all(told) or any(isinstance(kind, Function) and self.script.functions[kind.name].states for kind in calls):
            return False
        value = small.value
        name = self.torch_name(value.func) if isinstance(value, cst.Call) else None
        optimizes = (name or "").startswith("torch.optim.")
        return optimizes or not any(isinstance(self.kind_of_name(one), _STATEFUL) for one in reads)


_STATEFUL = (Model, Optimizer, Scheduler)


def _only_gives(statement: Statement) -> bool:
    """Whether a statement does no more than give models weights, under a condition or not."""
    if isinstance(statement, cst.If):
        inner = suites.suite_of(statement.body.body)
        orelse = statement.orelse
        inner += [] if orelse is None else [orelse] if isinstance(orelse, cst.If) else suites.suite_of(orelse.body.body)
        return all(map(_only_gives, inner)) and not usage.calls(statement.test)
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign | cst.Expr):
        return False
    names = [call.func.attr.value if isinstance(call.func, cst.Attribute) else "" for call in usage.calls(small)]
    plain = [call.func.value for call in usage.calls(small) if isinstance(call.func, cst.Name)]
    gives = isinstance(small, cst.Assign) or any(name in _GIVING for name in names) or "print" in plain
    return gives and all(name in (*_GIVING, *_TELLING, "") for name in names) and set(plain) <= set(_TELLING)
