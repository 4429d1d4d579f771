"""What single statements of a training loop are to an update: whether they step, clip, go through a model, disturb."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import (
    Function,
    Host,
    Instance,
    Kind,
    Leaf,
    Model,
    Optimizer,
    Place,
    Scaler,
    Scheduler,
    Tensor,
)
from migrate.known.states import GRADS, OPT_STATE, PARAMS
from migrate.known.weight_kinds import Weight
from migrate.lowering.expressions.known_to_jit import numbers_in
from migrate.lowering.updates.deciding import PURE, differing
from migrate.lowering.updates.given_outputs import note_given_output, problem_of_given
from migrate.lowering.updates.gradient_flow import GradientFlow
from migrate.lowering.updates.kept_outputs import problem_of_kept
from migrate.lowering.updates.region import ClipCall, call_of, method_call_of
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

CLIPPING = (
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_norm",
    "torch.nn.utils.clip_grad_value_",
)


class RegionStatements(GradientFlow):
    """What statements are to an update."""

    def goes_through(self, statement: Statement) -> bool:
        """Whether a statement goes through a model, or takes a tensor that gradients are taken of."""
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return False
        return bool(self.models_called(statement) or self.leaves_taken(statement))

    def note_given(self, facts: FunctionFacts, name: str, given: Expr, kind: Kind) -> None:
        note_given_output(self, facts, name, given, kind)

    def goes_on_elsewhere(
        self, own: Sequence[cst.CSTNode], history: Sequence[Statement], trained: Collection[Place]
    ) -> str:
        """Why a loss is refused of which a part has been computed elsewhere; "" for others. `own`: the statements of
        the loss, and the loss."""
        return problem_of_kept(self, own, history, trained) or problem_of_given(self, own, history, trained)

    def changes_leaf(self, statement: Statement) -> bool:
        """Whether a statement changes a tensor in place that gradients are taken of: no gradient flows through that,
        and what comes after works on the tensor as it is then."""
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return False
        added = [one.target.value for one in every(statement, cst.AugAssign) if isinstance(one.target, cst.Name)]
        changed = {*usage.changed_in_place(statement), *added}
        return bool(self.leaves_in(changed)) and not self.models_called(statement)

    def disturbs(self, statement: Statement) -> bool:
        """Whether a statement must stay between a backward pass and a step: it leaves the block, or works on models,
        optimizers or gradients. One whose value the loss needs is looked at when it is given its part."""
        if suites.may_leave(statement):
            return True
        names = set(usage.paths(statement))
        if any(name.endswith(".grad") for name in names):
            return True
        called = {nodes.dotted(call.func) or "" for call in usage.calls(statement)}
        kinds = [self.kind_of_name(name) for name in names | called]
        if any(self.steers(name) for name in called):
            return True
        if isinstance(statement, cst.SimpleStatementLine) and self.models_called(statement):
            return False  # a forward pass for a later loss of the same update
        return any(isinstance(kind, Model | Optimizer | Scheduler | Leaf) for kind in kinds)

    def steers(self, name: str) -> bool:
        """Whether a function of the script's own changes weights, gradients or what an optimizer keeps."""
        kind, (owner, _, method) = self.kind_of_name(name), name.rpartition(".")
        of = self.kind_of_name(owner)
        qualname = kind.name if isinstance(kind, Function) else f"{of.cls}.{method}" if isinstance(of, Instance) else ""
        facts = self.script.functions.get(qualname)
        return facts is not None and any(
            state.what in (PARAMS, OPT_STATE, GRADS) for state in facts.sets | facts.writes
        )

    def only_copies_weights(self, statement: Statement) -> bool:
        """Whether a statement only calls a method of the object at hand that changes weights, and that goes through no
        model: `self.update_target()`."""
        call = call_of(statement)
        path = nodes.dotted(call.func) or "" if call is not None else ""
        kind = self.kind_of_name(path)
        if not path.startswith("self.") or not isinstance(kind, Function) or not self.steers(path):
            return False
        body = self.script.functions[kind.name].node.body
        calls = [one for one in usage.calls(body) if not (nodes.dotted(one.func) or "").endswith(".load_state_dict")]
        return not any(map(self.models_called, calls)) and not any(one.value for one in usage.returns(body))

    def optimizers_stepped(self, statement: Statement) -> set[Place]:
        """The optimizer that a statement steps, or whose rate it changes."""
        func = method_call_of(statement, "step")
        kind = self.kind_of(func.value) if func is not None else None
        place = kind.optimizer if isinstance(kind, Scheduler) else kind.place if isinstance(kind, Optimizer) else None
        return set() if place is None else {self.root(place)}

    def uses_weights(self, statement: Statement) -> bool:
        """Whether a statement goes through a model, or reads its weights."""
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return False
        return bool(self.models_called(statement) or self.weights_taken(statement))

    def calls_on(self, statement: Statement, method: str, kind: type[Kind]) -> bool:
        """Whether a statement is nothing but a call of a method of such an object."""
        func = method_call_of(statement, method)
        call = call_of(statement)
        return func is not None and isinstance(self.kind_of(func.value), kind) and call is not None and not call.args

    def clip(self, statement: Statement) -> ClipCall | None:
        """`clip_grad_norm_(...)`, alone or assigned to a name, or alone behind `if max_norm:`."""
        if isinstance(statement, cst.If):
            body = [one for one in suites.suite_of(statement.body.body) if not self.is_unscaling(one)]
            inside = self.clip(body[0]) if len(body) == 1 and statement.orelse is None else None
            plain = inside is not None and inside.bound == "_" and inside.test is None
            return replace(inside, test=statement.test) if inside and plain and self.stays(statement.test) else None
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        small, bound = statement.body[0], "_"
        if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
            bound = small.targets[0].target.value
        value = small.value if isinstance(small, cst.Assign | cst.Expr) else None
        clips = isinstance(value, cst.Call) and self.torch_name(value.func) in CLIPPING
        return ClipCall(bound, value) if clips and isinstance(value, cst.Call) else None

    def is_unscaling(self, statement: Statement) -> bool:
        """`scaler.unscale_(optimizer)`: gradients are not scaled."""
        func = method_call_of(statement, "unscale_")
        return func is not None and isinstance(self.kind_of(func.value), Scaler)

    def stays(self, test: Expr) -> bool:
        """Whether a test asks for numbers that are the same in all turns of the loops around."""
        pure = (*PURE, cst.Attribute)
        if not all(isinstance(one, pure) for one in every(test, cst.BaseExpression)):
            return False
        kinds = [self.kind_of_name(path) for path in numbers_in(test)]
        read = {*usage.paths(test), *usage.loads(test)}
        return not read & differing(self) and not any(isinstance(kind, Tensor | Host | Weight) for kind in kinds)
