"""What gradients do not flow through: `x.detach()`, and functions that return nothing which has gradients by way of the
models that they are given."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Model
from migrate.known.states import MODES
from migrate.lowering.scope import Scope
from migrate.lowering.unit import Unit
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_DETACHING = ("detach", "item", "numpy", "tolist", "argmax", "argmin", "argsort", "multinomial", "sample")
_NOT_FOLLOWED = (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.Nonlocal, cst.Global, cst.NamedExpr)


def attached(unit: Unit, node: cst.CSTNode) -> cst.CSTNode:
    """Code without what gradients do not flow through: `x.detach()`, `x.data`, `x.item()`."""
    if node not in unit.attached:
        made = node.visit(_Detached())
        assert isinstance(made, cst.CSTNode)
        unit.attached[node] = made
    return unit.attached[node]


def cuts_off(scope: Scope, facts: FunctionFacts) -> bool:
    """Whether nothing that a function returns has a gradient by way of the models that it is given: it returns numbers,
    `return action.item()`, takes the models in a block without gradients, detaches what they return, or goes on with
    gradients by its inputs alone. What `action = action.item()` has bound last is a number as well."""
    body = facts.node.body
    if next(every(body, cst.Yield), None) is not None:
        return False
    returned = [_bound_last(body, one.value) for one in usage.returns(body) if one.value is not None]
    if {name for one in returned for name in usage.loads(attached(scope.unit, one))} <= {"None"}:
        return True
    own = all(place.scope == facts.qualname for place in facts.models_run)
    if facts.method or not facts.models_run or not own or next(every(body, _NOT_FOLLOWED), None) is not None:
        return False
    given = {name for name, kind in facts.params.items() if isinstance(kind, Model)}
    followed = _Followed(scope.in_file_of(facts.qualname), body, given)
    told = [one.value for one in every(body, cst.Expr) if not _only_switches(one, given)]
    return not any(map(followed.carries, [*told, *returned]))


def _bound_last(body: cst.BaseSuite, value: Expr) -> Expr:
    """What the last statement of a function returns by a name, where a statement beside it has bound that last."""
    *before, last = suites.suite_of(body.body) or [None]
    if not isinstance(last, cst.SimpleStatementLine) or not isinstance(value, cst.Name):
        return value
    if not any(one.value is value for one in usage.returns(last)):
        return value
    binding = next((one for one in reversed(before) if one is not None and value.value in usage.changes(one)), None)
    bound = suites.name_and_value(binding)[1] if binding is not None else None
    return value if bound is None else bound


@dataclass
class _Followed:
    """The body of a function, of which some names, in the end `carrying`, have gradients by way of models."""

    scope: Scope
    body: cst.BaseSuite
    models: set[str]
    carrying: set[str] = field(default_factory=set)
    quiet: set[int] = field(default_factory=set)  # the expressions in blocks that record no gradients

    def __post_init__(self) -> None:
        blocks = [one for one in every(self.body, cst.With) if any(map(self._stops, one.items))]
        self.quiet = {id(one) for block in blocks for one in every(block.body, cst.BaseExpression)}
        before: set[str] | None = None
        while before != self.carrying:
            before = set(self.carrying)
            for one in every(self.body, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
                if one.value is not None and self.carries(one.value):
                    self.carrying |= {*usage.changes(cst.SimpleStatementLine([one]))} - self.models
            for loop in every(self.body, cst.For):
                if self.carries(loop.iter):
                    self.carrying |= {*usage.target_names(loop.target)}

    def _stops(self, item: cst.WithItem) -> bool:
        return self.scope.stops_gradients(item.item)

    def carries(self, node: Expr) -> bool:
        """Whether a value may have gradients by way of the models."""
        loads = usage.loads(attached(self.scope.unit, node))
        return (
            bool((self.models | self.carrying) & {*loads}) and id(node) not in self.quiet and not self._by_inputs(node)
        )

    def _by_inputs(self, node: Expr) -> bool:
        """Whether a value is gradients through which no others are taken: `torch.autograd.grad(loss, x)[0]`."""
        call = node.value if isinstance(node, cst.Subscript) else node
        if not isinstance(call, cst.Call) or self.scope.torch_name(call.func) != "torch.autograd.grad":
            return False
        graph = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "create_graph"]
        return all(nodes.is_literal(one, False) for one in graph)


def _only_switches(node: cst.Expr, models: set[str]) -> bool:
    """Whether a statement only sets the mode of a model, or clears its gradients."""
    func = node.value.func if isinstance(node.value, cst.Call) and not node.value.args else None
    owner = nodes.dotted(func.value) if isinstance(func, cst.Attribute) else None
    return isinstance(func, cst.Attribute) and owner in models and func.attr.value in (*MODES, "zero_grad")


class _Detached(cst.CSTTransformer):
    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return cst.Name("None") if original_node.attr.value == "data" else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = original_node.func
        detaching = isinstance(func, cst.Attribute) and func.attr.value in _DETACHING
        return cst.Name("None") if detaching or _made_by_numpy(original_node) else updated_node


def _made_by_numpy(call: cst.Call) -> bool:
    """`np.mean([f(x) for x in xs])`: numpy takes no tensors with gradients out of lists."""
    of_lists = bool(call.args) and isinstance(call.args[0].value, cst.List | cst.ListComp)
    return of_lists and (nodes.dotted(call.func) or "").startswith(("np.", "numpy."))
