"""Weights that are set under their names, as averages of them are: `param.data = shadow[name]`.

The loop runs over a dict of the weights, which becomes the parameters once it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import BY_WEIGHT, UNKNOWN, Items, Kind, Plain, join
from migrate.known.states import PARAMS, State
from migrate.known.weight_kinds import WEIGHT_NAME, Weight
from migrate.lowering.statements.state import StateAccess
from migrate.lowering.weights.named_parameters import NamedParameters
from migrate.lowering.weights.plain_weights import root_of_chain
from migrate.lowering.weights.selections import names_of_pair
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


class SetByName(StateAccess, NamedParameters):
    """Dicts of what belongs to each weight, and weights that are set from them."""

    def note_entry(self, target: cst.Subscript, value: Kind) -> None:
        """`shadow[name] = value`: a dict whose keys are names of weights is known by them."""
        index = target.slice[0].slice if len(target.slice) == 1 else None
        if not isinstance(index, cst.Index) or self.expr(index.value).kind != WEIGHT_NAME:
            return
        before = self.expr(target.value).kind
        if isinstance(before, Items) and before.type == BY_WEIGHT:
            value = join(before.joined(), value)
        elif before not in (UNKNOWN, Plain("dict")):
            return
        self.bind(target.value, Items(None, value, BY_WEIGHT))

    def entry_changed(self, node: cst.Call) -> list[Statement] | None:
        """`shadow[name].mul_(a).add_(b)`: the entry of such a dict is another one; None for other calls."""
        root = root_of_chain(node)
        kind = self.expr(root.value).kind if isinstance(root, cst.Subscript) else None
        if not isinstance(root, cst.Subscript) or not isinstance(kind, Items) or kind.type != BY_WEIGHT:
            return None
        element = kind.joined()
        if isinstance(element, Weight) and element.live:
            raise Unsupported("MIG303", f"{nodes.code(root)} is changed in place, and is a weight of the model")
        return self.statement(nodes.statement("{t} = {v}", t=root, v=_anew(node)))

    def weights_set(self, node: cst.For, body: Sequence[Statement]) -> list[Statement] | None:
        """`for name, p in model.named_parameters(): p.data = averages[name]`; None where no weight is set so."""
        name, parameter = names_of_pair(node.target) or ("", "")
        model = self.model_of_pairs(node.iter)
        place = getattr(self.kind_of(model), "place", None) if model is not None else None
        weights = self.unit.own("weights")
        setting = _Setting(name, parameter, weights)
        made = [nodes.visited(statement, setting) for statement in body]
        if place is None or not setting.found:
            return None
        if parameter in {changed for statement in made for changed in usage.changes(statement)} or setting.read_later:
            raise Unsupported("MIG401", f"{parameter} is read after it was set, in a loop over parameters")
        params = State(PARAMS, place)
        start = nodes.statement('{w} = flatten_dict({p}, sep=".")', w=nodes.name(weights), p=self.read(params))
        self.env.kinds |= {name: WEIGHT_NAME, parameter: Weight(live=True)}
        self.env.kinds[weights] = Items(None, Weight(), BY_WEIGHT)
        lowered = self.loop_body(node.body.with_changes(body=made), list)
        pairs = nodes.call(cst.Attribute(nodes.name(weights), cst.Name("items")))
        del self.env.kinds[weights]
        used = parameter in usage.loads(cst.Module(lowered))
        target = node.target if used else nodes.name(name)
        loop = node.with_changes(
            target=target, iter=pairs if used else nodes.name(weights), body=suites.block_of(node.body, lowered)
        )
        end = nodes.statement('{p} = unflatten_dict({w}, sep=".")', p=self.write(params), w=nodes.name(weights))
        return [start.with_changes(leading_lines=node.leading_lines), loop.with_changes(leading_lines=[]), end]


class _Setting(cst.CSTTransformer):
    """Statements that set a parameter in terms of the dict of all: `weights[name] = value`. `found`: there are some;
    `read_later`: the parameter is read once it was set."""

    def __init__(self, name: str, parameter: str, weights: str) -> None:
        super().__init__()
        self.parameter = parameter
        self.entry = nodes.expression(f"{weights}[{name}]")
        self.found = self.read_later = False

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> bool:
        self.read_later |= self.found and self.parameter in usage.loads(node)
        return False

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        value = self.value(original_node.body[0]) if len(original_node.body) == 1 else None
        if value is None:
            return updated_node
        self.found = True
        return updated_node.with_changes(body=[cst.Assign([nodes.target(self.entry)], value)])

    def value(self, small: cst.BaseSmallStatement) -> Expr | None:
        """What a statement sets the parameter to; None where it does not."""
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            return small.value if self.is_it(small.targets[0].target) else None
        if isinstance(small, cst.AugAssign):
            return nodes.augmented(small) if self.is_it(small.target) else None
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            return _anew(small.value) if self.is_it(root_of_chain(small.value)) else None
        return None

    def is_it(self, node: cst.CSTNode | None) -> bool:
        """Whether it is the parameter."""
        return isinstance(node, cst.Name) and node.value == self.parameter


def _anew(node: cst.Call) -> Expr:
    """`x.mul_(a).add_(b)` as `x.mul(a).add(b)`, and `x.copy_(b)` as a copy of b."""
    assert isinstance(node.func, cst.Attribute)
    method, inner = node.func.attr.value, node.func.value
    if method == "copy_":
        value = node.args[0].value
        return value if isinstance(value, cst.BinaryOperation) else nodes.expression("{v}.clone()", v=value)
    receiver = _anew(inner) if isinstance(inner, cst.Call) else inner
    out_of_place = node.func.with_changes(value=receiver, attr=cst.Name(method.removesuffix("_")))
    return node.with_changes(func=out_of_place)
