"""Assignments."""

from __future__ import annotations

from typing import Any

import libcst as cst

from migrate import layouts, nodes, suites, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    Accelerator,
    Device,
    Function,
    Group,
    Items,
    Kind,
    Leaf,
    Model,
    Module,
    Number,
    Optimizer,
    OptimizerGroups,
    Parameters,
    Plain,
    RunningOptions,
    Scaler,
    Scheduler,
    Selection,
    Tensor,
    TorchName,
    Weight,
    join,
)
from migrate.lowering.constructors import attributes_in
from migrate.lowering.data_loading import DataLoading
from migrate.lowering.elements import kinds_in, part_kind
from migrate.lowering.finding import CLIPPING
from migrate.lowering.handed_over import HandedOver
from migrate.lowering.inheritance import FRAMEWORK
from migrate.lowering.initialisation import Initialisation
from migrate.lowering.inline_models import InlineModels
from migrate.lowering.leaves import Leaves
from migrate.lowering.module_lists import bare_lambda
from migrate.lowering.optimizer_statements import OptimizerStatements
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.lowering.setup import Setup
from migrate.lowering.typed_tensors import tensor_type
from migrate.machine import SETTINGS
from migrate.nodes import Expr, Statement
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value


class Assignments(InlineModels, Setup, HandedOver, Initialisation, DataLoading, Leaves, OptimizerStatements):
    """Assignments to names, tuples, attributes and items."""

    def small_Assign(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement]:
        targets = [target.target for target in small.targets]
        cleared = self.cleared_leaf(small)
        if cleared is not None:
            return cleared
        public = self.public_names(line, small)
        if public is not None:
            return public
        if len(targets) == 1 and isinstance(targets[0], cst.Subscript):
            return self.item_assignment(line, small, targets[0])
        if all((self.torch_name(target) or "").startswith(SETTINGS) for target in targets):
            return []
        if len(targets) == 1 and isinstance(targets[0], cst.Attribute):
            tied = self.attribute_assignment(line, targets[0], small.value)
            if tied is not None:
                return tied
        if self.context in HOST_CONTEXTS:
            if self.is_part_of_model(targets[0]):
                return self.model_part(targets[0])
            about_weights = self.sorted_assignment(small)
            if about_weights is None:
                about_weights = self.freezing_assignment(small)
            if about_weights is not None:
                return about_weights
            chosen = None if isinstance(small.value, cst.Name) else self.selection(small.value)
            if chosen is not None and len(targets) == 1 and isinstance(targets[0], cst.Name):
                return self.named_selection(line, small, targets[0], chosen)
            target = targets[0]
            if isinstance(target, cst.Name) and self.model_of_dict(small.value) is not None:
                self.define(targets, small.value)
                if (self.scope, target.value) not in self.script.listed:
                    return []  # a loop that looks parameters up by name is one over both models
        self.pending_place = self.place_of(targets[0])
        if len(targets) == 1 and isinstance(small.value, cst.Call) and self.torch_name(small.value.func) in CLIPPING:
            return self.clip_statement(small.value, targets[0])
        stepping = self.evaluating_step(small.value)
        if stepping is not None and len(targets) == 1:
            return self.closure_step(*stepping, targets[0])
        special = self.received_with_state(line, small, targets) or self.assigned_call(line, small, targets)
        if special is not None:
            return special
        apart = self.one_by_one(line, small)
        if apart is not None:
            return apart
        self.receiving = small.value
        value = self.constructed(small.value, targets[0])
        self.receiving = None
        if self.handed(value.kind) and isinstance(small.value, cst.Call) and len(targets) == 1:
            return self.received(line, small, targets[0], value)
        return self.assign(line, small, targets, value)

    def is_part_of_model(self, target: cst.CSTNode) -> bool:
        """Whether an assignment changes a model, or a part of one, after it was made."""
        path = (nodes.dotted(target) or "").split(".")
        kind = self.kind_of_name(".".join(path[:-1])) if len(path) > 1 else None
        if isinstance(kind, Model):
            return path[-1] != "requires_grad"
        owner = self.kind_of_name(path[0])
        facts = self.script.classes.get(owner.cls) if isinstance(owner, Model) and len(path) > 2 else None
        return facts is not None and isinstance(facts.attributes.get(path[1]), Module) and path[-1] != "requires_grad"

    @staticmethod
    def model_part(target: cst.CSTNode) -> list[Statement]:
        """What becomes of such an assignment: one that only says when processes exchange gradients goes."""
        if (nodes.dotted(target) or "").endswith(".require_backward_grad_sync"):
            return []
        raise Unsupported("MIG204", f"{nodes.dotted(target)} is changed after its module was made")

    def named_selection(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.Name, chosen: Selection
    ) -> list[Statement]:
        """`params = list(model.parameters())`: parameters under a name of their own."""
        models = None if chosen.named else self.whole_models(chosen)
        if models is not None and len(models) == 1:
            return self.assign(line, small, [target], self.expr(small.value))
        self.bind(target, chosen if models is None else Parameters(models))
        return self.named_list(line, small, target, chosen)

    def received_with_state(
        self, line: cst.SimpleStatementLine, small: cst.Assign, targets: list[cst.BaseAssignTargetExpression]
    ) -> list[Statement] | None:
        """`model = train(...)` of a function that returns the weights with the model; None for other assignments."""
        kind = self.kind_of(small.value.func) if isinstance(small.value, cst.Call) else None
        if not isinstance(small.value, cst.Call) or not isinstance(kind, Function) or len(targets) != 1:
            return None
        facts = self.script.functions[kind.name]
        if not self.given_states(facts):
            return None
        self.receiving = small.value
        value = self.user_call(small.value, self.expr(small.value.func), kind, statement=True)
        self.receiving = None
        return self.received(line, small, targets[0], value, self.returned_states(facts))

    def one_by_one(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """`net, best = Net(), 0`: what makes a model or an optimizer is a statement of its own."""
        target, value = small.targets[0].target, small.value
        if len(small.targets) > 1 or not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
            return None
        pairs = [(t.value, v.value) for t, v in zip(target.elements, value.elements, strict=False)]
        with self.unit.discarding():
            outer, self.before = self.before, []
            kinds = [self.expr(node).kind for _, node in pairs]
            self.before = outer
        made = [isinstance(kind, Model | Optimizer | Scheduler) and kind.place in (None, NOWHERE) for kind in kinds]
        bound = [set(usage.target_names(name)) for name, _ in pairs]
        clash = any(names & set(usage.loads(node)) for i, names in enumerate(bound) for _, node in pairs[i + 1 :])
        if not any(made) or clash or len(target.elements) != len(value.elements):
            return None
        lowered: list[Statement] = []
        for number, (name, node) in enumerate(pairs):
            each = cst.SimpleStatementLine([cst.Assign([nodes.target(name)], node)])
            lowered += self.statement(each.with_changes(leading_lines=line.leading_lines) if not number else each)
        return lowered

    def assign(
        self,
        line: cst.SimpleStatementLine,
        small: cst.Assign,
        targets: list[cst.BaseAssignTargetExpression],
        value: Value,
    ) -> list[Statement]:
        """Binds targets to a lowered value. Devices and assignments that say nothing any more (`x = x`) disappear."""
        kind, node = value.kind, value.node
        if isinstance(kind, TorchName) and len(targets) == 1 and self.only_renames(kind.name, targets[0]):
            self.bind(targets[0], kind)
            return []  # Tensor = torch.cuda.FloatTensor; sin = torch.sin
        self.refuse_torch(value)
        if not all(isinstance(target, cst.Name) for target in targets):
            self.refuse_stateful(kind)
        if self.context == "forward" and not self.has_no_module and any(map(attributes_in, targets)):
            raise Unsupported("MIG201", f"{nodes.code(targets[0])} is set in a method: a Flax module is frozen there")
        if isinstance(kind, Items) and any(isinstance(p, Optimizer) and p.place == NOWHERE for p in kinds_in(kind)):
            raise Unsupported("MIG401", "an optimizer that has no name of its own")
        if isinstance(kind, Selection | Group) or _all_groups(kind):
            self.bind(targets[0], kind)
            return []
        if isinstance(kind, Scaler | Accelerator | RunningOptions) and all(nodes.dotted(target) for target in targets):
            for target in targets:
                self.bind(target, kind)
            return []
        if isinstance(kind, Device) and all(nodes.dotted(target) for target in targets):
            for target in targets:
                self.bind(target, kind)
            used = {nodes.dotted(target) for target in targets} & self.script.device_used
            if not used:
                return []
            return suites.rebuilt(line, small, small.with_changes(value=nodes.expression("jax.default_backend()")))
        if isinstance(kind, Module) and self.context in HOST_CONTEXTS and not self.building:
            value = self.inline_model(kind, value, targets[0])
            kind, node = value.kind, value.node
        if (
            isinstance(kind, Model)
            and nodes.dotted(node) is not None
            and len(targets) == 1
            and (nodes.dotted(node) == nodes.dotted(targets[0]))
        ):
            self.bind(targets[0], kind)
            return []  # model = torch.compile(model)
        if isinstance(kind, Model) and kind.place is not None and self.context == "method" and len(targets) == 1:
            return self.taken_model(line, small, targets[0], value)
        if isinstance(kind, Model) and kind.place is None and len(targets) == 1:
            return self.new_model(line, small, targets[0], value)
        if isinstance(kind, Optimizer) and kind.place == NOWHERE:
            return self.new_optimizer(line, small, targets[0], value)
        if isinstance(kind, Scheduler) and kind.place == NOWHERE:
            return self.new_scheduler(line, small, targets[0], value)
        if len(targets) == 1 and isinstance(targets[0], cst.Name) and nodes.dotted(node) == targets[0].value:
            self.bind(targets[0], kind, value.layout)
            return []  # x = x.contiguous()
        if len(targets) == 1 and isinstance(targets[0], cst.Tuple) and _same_names(targets[0], node):
            for number, element in enumerate(targets[0].elements):
                self.bind(element.value, part_kind(kind, number, len(targets[0].elements)))
            return []  # x, y = x.to(device), y.to(device)
        if len(targets) == 1 and isinstance(targets[0], cst.Tuple):
            pruned = self.pruned(line, small, targets[0], value)
            if pruned is not None:
                return pruned
        layout = value.layout if len(targets) == 1 and isinstance(targets[0], cst.Name) else "first"
        if layout == "first":
            node = layouts.first(value)
        node = bare_lambda(node)
        self.define(targets, small.value)
        if len(targets) == 1:
            kind = self.leaf_at(self.place_of(targets[0]), kind, small.value)
        for target in targets:
            self.bind(target, kind, layout)
        if self.context == "setup":
            self.note_targets(targets, kind)
        self.share(targets, small.value)
        grows = isinstance(node, cst.Call) and nodes.dotted(node.func) == "jnp.concatenate"
        if self.loops and grows and set(usage.loads(node)) & set(usage.target_names(targets[0])):
            self.unit.report(Unsupported("MIG501", f"{nodes.code(targets[0])} grows at each turn of the loop"), line)
        made_targets = [self.stored_target(target) for target in small.targets]
        made = suites.rebuilt(line, small, small.with_changes(value=node, targets=made_targets))
        first = self.first_gradients(kind.place) if isinstance(kind, Leaf) else []
        return made + self.converted(targets) + first

    def only_renames(self, name: str, target: Expr) -> bool:
        """Whether an assignment only gives something of torch another name, which calls are then looked up by."""
        if not isinstance(target, cst.Name):
            return False
        once = len(self.blocks) == 1 and self.facts is None
        return bool(tensor_type(name)) or (once and (name in RULES or name in FRAMEWORK))

    def stored_target(self, target: cst.AssignTarget) -> cst.AssignTarget:
        """A target with its attribute under the name that it has in the output."""
        if self.context not in ("setup", "forward"):
            return target
        return target.with_changes(target=self.stored_part(target.target))

    def stored_part(self, node: Any) -> Any:
        """A part of such a target."""
        if isinstance(node, cst.Attribute) and nodes.dotted(node.value) == "self":
            return self.stored_attribute(self.script.classes[self.cls], node)
        if isinstance(node, cst.Tuple | cst.List):
            return node.with_changes(elements=[e.with_changes(value=self.stored_part(e.value)) for e in node.elements])
        return node

    def pruned(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.Tuple, value: Value
    ) -> list[Statement] | None:
        """`_, y = a, b` keeps what is kept: `y = b`."""
        if not isinstance(value.node, cst.Tuple) or isinstance(small.value, cst.Tuple):
            return None
        names = [element.value for element in target.elements]
        if len(names) != len(value.node.elements) or not all(isinstance(name, cst.Name) for name in names):
            return None
        kept = [
            (name, element.value)
            for name, element in zip(names, value.node.elements, strict=True)
            if isinstance(name, cst.Name) and name.value != "_"
        ]
        for number, name in enumerate(names):
            self.bind(name, part_kind(value.kind, number, len(names)))
        if len(kept) != 1:
            made_value = nodes.tuple_of([node for _, node in kept], parentheses=False)
            made_target = nodes.tuple_of([name for name, _ in kept], parentheses=False)
        else:
            made_target, made_value = kept[0]
        return [line.with_changes(body=[small.with_changes(targets=[nodes.target(made_target)], value=made_value)])]

    def item_assignment(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.Subscript
    ) -> list[Statement]:
        """`x[i] = v`: a new array under the same name."""
        base = self.expr(target.value)
        if isinstance(base.kind, OptimizerGroups) and base.kind.one:
            return self.set_hyperparameter(target, base.kind, self.node(small.value))
        value = self.expr(small.value)
        if not isinstance(base.kind, Tensor):
            self.share([], small.value)
            lowered = self.expr(target)
            return suites.rebuilt(
                line, small, small.with_changes(value=layouts.first(value), targets=[nodes.target(lowered.node)])
            )
        if not isinstance(target.value, cst.Name) and self.variable_of(target) is None:
            raise Unsupported("MIG303", f"{nodes.code(target.value)} is changed in place")
        self.own(target.value)
        if isinstance(value.kind, Number):
            masked = self.masked_part(target, base, value)
            if masked is not None:
                return self.bound_again(line, target, masked)
        lowered = self.expr(target).node
        assert isinstance(lowered, cst.Subscript)
        place = lowered.with_changes(value=cst.Attribute(layouts.first(base), cst.Name("at")))
        made = nodes.call(cst.Attribute(place, cst.Name("set")), layouts.first(self.as_array(value)))
        return self.bound_again(line, target, made)

    def bound_again(self, line: cst.SimpleStatementLine, target: cst.Subscript, value: Expr) -> list[Statement]:
        """What stands for a change of a part of a tensor: its name, or the variable of a module, has a new value."""
        variable = self.variable_of(target)
        if variable is not None:
            return self.set_variable(line, variable, self.without_gradient(value, Tensor()))
        return suites.assigned(line, target.value, value)

    def masked_part(self, target: cst.Subscript, base: Value, value: Value) -> Expr | None:
        """What `x[mask] = value` makes of x, where the value is one number or has the shape of x; None where the index
        is no mask, and on the host where the mask may be an index as it is."""
        index = target.slice[0].slice if len(target.slice) == 1 else None
        if not isinstance(index, cst.Index) or isinstance(index.value, cst.Tuple):
            return None
        mask = self.expr(index.value)
        if not isinstance(mask.kind, Tensor) or mask.kind.dtype != "bool" or not isinstance(base.kind, Tensor):
            return None
        filling = {"x": layouts.first(base), "m": layouts.first(mask), "v": layouts.first(value)}
        keeps_type = base.kind.dtype == "float" or isinstance(nodes.literal(value.node), int) or value.kind == base.kind
        if keeps_type and self.same_shape(index.value, mask, target.value, base):
            return nodes.expression("jnp.where({m}, {v}, {x})", **filling)
        if self.context in HOST_CONTEXTS:
            return None
        self.unit.use_snippet("set_where")
        return nodes.expression("set_where({x}, {m}, {v})", **filling)

    def same_shape(self, written: Expr, mask: Value, whole: Expr, base: Value) -> bool:
        """Whether a mask surely has the shape of what it is the index of."""
        if isinstance(written, cst.Comparison):
            sides = [written.left, *(part.comparator for part in written.comparisons)]
            tensors = [side for side in sides if not isinstance(self.expr(side).kind, Number)]
            return all(nodes.code(side) == nodes.code(whole) for side in tensors)
        assert isinstance(base.kind, Tensor) and isinstance(mask.kind, Tensor)
        return base.kind.rank == mask.kind.rank > 0

    def small_AnnAssign(self, line: cst.SimpleStatementLine, small: cst.AnnAssign) -> list[Statement]:
        annotation = self.in_jax(small.annotation)
        if small.value is None:
            return suites.rebuilt(line, small, small.with_changes(annotation=annotation))
        value = self.expr(small.value)
        self.define([small.target], small.value)
        self.bind(small.target, value.kind)
        made = small.with_changes(annotation=annotation, value=layouts.first(value))
        if "torch" in nodes.code(annotation.annotation):
            made = cst.Assign([nodes.target(small.target)], layouts.first(value))
        return suites.rebuilt(line, small, made)

    def changed_part(
        self, line: cst.SimpleStatementLine, small: cst.AugAssign, target: cst.Subscript
    ) -> list[Statement] | None:
        """`x[i] += v`: a new array under the same name; None where x is no tensor."""
        base = self.expr(target.value)
        if not isinstance(base.kind, Tensor):
            return None
        operator = _OPERATORS.get(type(small.operator).__name__)
        if operator is None or not (isinstance(target.value, cst.Name) or self.variable_of(target)):
            raise Unsupported("MIG303", f"{nodes.code(target)} is changed in place")
        self.own(target.value)
        change = layouts.first(self.array(small.value))
        changed = nodes.expression(f"{{x}} {operator[0]} {{v}}", x=layouts.first(base), v=change)
        if isinstance(self.expr(small.value).kind, Number):
            masked = self.masked_part(target, base, Value(changed, base.kind))
            if masked is not None:
                return self.bound_again(line, target, masked)
        lowered = self.expr(target).node
        assert isinstance(lowered, cst.Subscript)
        place = lowered.with_changes(value=nodes.expression("{x}.at", x=lowered.value))
        if not _distinct(target, [self.expr(index) for index in _indices(target)]):
            # an index that comes twice counts once in torch, twice in `.at[].add`
            change = nodes.expression(f"{{part}} {operator[0]} {{v}}", part=lowered, v=change)
            return self.bound_again(line, target, nodes.call(cst.Attribute(place, cst.Name("set")), change))
        if operator[0] == "-":
            change = nodes.expression("-{x}", x=change)
        return self.bound_again(line, target, nodes.call(cst.Attribute(place, cst.Name(operator[1])), change))

    def small_AugAssign(self, line: cst.SimpleStatementLine, small: cst.AugAssign) -> list[Statement]:
        if isinstance(small.target, cst.Subscript):
            base = self.expr(small.target.value)
            if isinstance(base.kind, OptimizerGroups) and base.kind.one:
                return self.set_hyperparameter(small.target, base.kind, self.node(nodes.augmented(small)))
            part = self.changed_part(line, small, small.target)
            if part is not None:
                return part
        target, value = self.expr(small.target), self.expr(small.value)
        variable = None if isinstance(small.target, cst.Subscript) else self.variable_of(small.target)
        if variable is not None:
            given = self.without_gradient(layouts.first(self.as_array(value)), value.kind)
            return self.set_variable(line, variable, small.with_changes(value=given))
        if isinstance(target.kind, Weight) and not isinstance(small.target, cst.Name):
            raise Unsupported("MIG204", f"{nodes.code(small.target)} is changed after its module was made")
        tensor = isinstance(target.kind, Tensor) or isinstance(value.kind, Tensor)
        if isinstance(target.kind, Tensor):
            self.own(small.target)
        if tensor:
            value = self.as_array(value)
        if isinstance(small.target, cst.Name):
            name = small.target.value
            self.env.definitions.pop(name, None)
            if target.layout == "last" or value.layout == "last":
                both = layouts.agree([target, value])
                if any(one.layout == "last" for one in both):
                    return suites.rebuilt(line, small, small.with_changes(value=both[1].node))
                left = layouts.first(target)
                operator = {"AddAssign": "+", "SubtractAssign": "-", "MultiplyAssign": "*", "DivideAssign": "/"}
                symbol = operator[type(small.operator).__name__]
                self.env.last.pop(name, None)
                made = nodes.expression(f"{{a}} {symbol} {{b}}", a=left, b=layouts.first(value))
                return suites.assigned(line, small.target, made)
            if tensor and self.changed_leaf(small.target) is None:
                self.env.kinds[name] = (
                    join(target.kind, value.kind) if isinstance(target.kind, Number | Tensor) else target.kind
                )
            elif isinstance(target.kind, Items) and isinstance(value.kind, Items):
                empty = target.kind.items == ()
                element = value.kind.joined() if empty else join(target.kind.joined(), value.kind.joined())
                self.env.kinds[name] = Items(None, element, target.kind.type)
        made = small.with_changes(value=layouts.first(value))
        if isinstance(small.target, cst.Subscript) and isinstance(target.node, cst.Subscript):
            made = made.with_changes(target=target.node)  # its index may be written with torch
        return suites.rebuilt(line, small, made)


def _all_groups(kind: Kind) -> bool:
    """Whether it is a list of parameter groups."""
    return isinstance(kind, Items) and bool(kind.items) and all(isinstance(item, Group) for item in kind.items or ())


# In-place operators: the operator, and the method of `.at[...]`.
_OPERATORS = {
    "AddAssign": ("+", "add"),
    "SubtractAssign": ("-", "add"),
    "MultiplyAssign": ("*", "multiply"),
    "DivideAssign": ("/", "divide"),
}


def _indices(target: cst.Subscript) -> list[Expr]:
    return [element.slice.value for element in target.slice if isinstance(element.slice, cst.Index)]


def _distinct(target: cst.Subscript, indices: list[Value]) -> bool:
    """Whether an index surely names no place twice: slices, numbers and masks, not lists and tensors of numbers."""
    return all(
        isinstance(value.kind, Number | Plain)
        or isinstance(value.node, cst.Ellipsis)
        or (isinstance(value.kind, Tensor) and (value.kind.dtype == "bool" or value.kind.rank == 0))
        for value in indices
    )


def _same_names(target: cst.Tuple, node: Expr) -> bool:
    if not isinstance(node, cst.Tuple):
        return False
    left = [nodes.dotted(element.value) for element in target.elements]
    return None not in left and left == [nodes.dotted(element.value) for element in node.elements]
