"""Assignments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    SIZES,
    UNKNOWN,
    Accelerator,
    Device,
    Function,
    Items,
    Kind,
    Leaf,
    Members,
    Model,
    Module,
    Never,
    Optimizer,
    RunningOptions,
    Scaler,
    Scheduler,
    Tensor,
    TorchName,
)
from migrate.known.weight_kinds import AnyWeight, Group, Parameters, Selection, Weight
from migrate.lowering.expressions.elements import kinds_in, part_kind
from migrate.lowering.expressions.named_lambdas import NamedLambdas
from migrate.lowering.expressions.results_followed import function_called
from migrate.lowering.expressions.typed_tensors import tensor_type
from migrate.lowering.host.data_loading import DEVICE, DataLoading
from migrate.lowering.initial.initialisation import Initialisation
from migrate.lowering.models.foreign_models import refuse_foreign_model
from migrate.lowering.models.handed_over import HandedOver
from migrate.lowering.models.taken_over import TakenOver
from migrate.lowering.modules.attributes import grows_in, unfinished
from migrate.lowering.modules.inheritance import FRAMEWORK
from migrate.lowering.modules.inline_models import InlineModels
from migrate.lowering.modules.module_lists import bare_lambda
from migrate.lowering.modules.sown import Sown
from migrate.lowering.optimizers.schedules import makes_schedulers
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.lowering.statements.changed_in_place import ChangedInPlace
from migrate.lowering.updates.gradient_flow import asks_for_gradients, stands_for_weights
from migrate.lowering.updates.region_statements import CLIPPING
from migrate.lowering.weights.any_weight import listed_for_one
from migrate.lowering.weights.element_data import element_for_data
from migrate.lowering.weights.lists_in_files import with_lists_from_files
from migrate.lowering.weights.trusted_classes import lists_trusted
from migrate.lowering.weights.weight_dicts import model_of_state
from migrate.machine import SETTINGS, WRAPPERS, splits_batches
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

# Attributes that say what DistributedDataParallel exchanges, and when.
_OF_PROCESSES = frozenset({"require_backward_grad_sync", "_ddp_params_and_buffers_to_ignore"})


class Assignments(InlineModels, HandedOver, TakenOver, Initialisation, DataLoading, ChangedInPlace, Sown, NamedLambdas):
    """Assignments to names, tuples, attributes and items."""

    def small_Assign(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement]:
        targets = [target.target for target in small.targets]
        cleared = self.cleared_leaf(small)
        if cleared is not None:
            return cleared
        listed = self.listed_per_parameter(line, small)
        if listed is not None:
            return listed
        public = self.public_names(line, small)
        if public is not None:
            return public
        if len(targets) == 1 and isinstance(targets[0], cst.Attribute | cst.Subscript):
            where = self.context == "setup" or self.context in HOST_CONTEXTS
            replaced = self.replaced_part(targets[0], small.value) if where else None
            if replaced is not None:
                return suites.with_comments(replaced, line)
        if len(targets) == 1 and isinstance(targets[0], cst.Subscript):
            return self.item_assignment(line, small, targets[0])
        chain = self.chained(line, small)
        if chain is not None:
            return chain
        if all((self.torch_name(one) or "").startswith(SETTINGS) or lists_trusted(self, one) for one in targets):
            return []
        if self.collects_options(small) or self.names_classes(targets, small.value) or self.named_shorthand(small):
            return []
        mode = self.asked_mode(small.value)
        if mode is not None and isinstance(targets[0], cst.Name) and self.only_restores(targets[0].value):
            self.bind(targets[0], mode)
            return []
        sown = self.sown_assignment(line, small)
        if sown is not None:
            return sown
        if len(targets) == 1 and isinstance(targets[0], cst.Attribute):
            tied = self.attribute_assignment(line, targets[0], small.value)
            if tied is not None:
                return tied
        element = element_for_data(self, line, small)
        if element is not None:
            return self.statement(element)
        if self.context in HOST_CONTEXTS:
            refuse_foreign_model(self, targets, small.value)
            self.refuse_outside(targets[0])
            if self.is_part_of_model(targets[0]):
                return self.model_part(targets[0], small.value)
            about_weights = self.sorted_assignment(small)
            if about_weights is None:
                about_weights = self.freezing_assignment(small)
            if about_weights is not None:
                return about_weights
            self.note_named_layer(small)
            named = isinstance(targets[0], cst.Name | cst.Attribute) and len(targets) == 1
            loaded = self.loaded_model(targets[0], small.value) if named else None
            if loaded is not None:
                return loaded
            told = self.told_of_loading(line, small)
            if told is not None:
                return told
            by_name = self.named_state(line, targets[0], small.value)
            if by_name is not None:
                return by_name
            name = nodes.dotted(targets[0]) or ""
            if len(targets) == 1 and (self.goes_into_row(name, small.value) or self.becomes_part(name, small.value)):
                self.define(targets, small.value)
                return []
            unpacked = self.unpacked_weights(targets[0], small.value) if len(targets) == 1 else None
            if unpacked is not None:
                self.bind(targets[0], Items(unpacked, type="tuple"))
                return []
            as_tree = isinstance(small.value, cst.DictComp) and self.unit.functional
            chosen = None if isinstance(small.value, cst.Name) or as_tree else self.parameters_listed(small.value)
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
        apart = self.one_by_one(line, small) or self.parts_one_by_one(line, small)
        if apart is not None:
            return apart
        self.receiving = small.value
        if self.context == "setup" and isinstance(targets[0], cst.Name):
            self.making = targets[0].value
        asked = listed_for_one(small.value) is not None
        value = self.asked_weight(small.value) if asked else self.constructed(small.value, targets[0])
        self.receiving = None
        if len(targets) == 1:
            value = with_lists_from_files(self, targets[0], small.value, value)
        if isinstance(targets[0], cst.Name):
            value = self.opened_model(targets[0].value, value)
        if self.handed(value.kind) and isinstance(small.value, cst.Call) and len(targets) == 1:
            return self.received(line, small, targets[0], value)
        return self.assign(line, small, targets, value)

    def model_part(self, target: cst.CSTNode, value: Expr) -> list[Statement]:
        """What becomes of such an assignment: one that only says what processes exchange, and when, goes."""
        if isinstance(target, cst.Attribute) and target.attr.value in _OF_PROCESSES:
            return []
        if isinstance(value, cst.Call) and value.args and value.args[0].value.deep_equals(target):
            wrapper = self.torch_name(value.func) or ""
            if wrapper in WRAPPERS:
                self.script.parallel |= splits_batches(wrapper)
                return []
        made = self.changed_model(target, value) if isinstance(target, cst.Attribute) else None
        if made is not None:
            return made
        raise Unsupported("MIG204", f"{nodes.dotted(target)} is changed after its module was made")

    def is_carried(self, name: str) -> bool:
        """Whether what a loop of the host binds to a name is what its next turn begins with."""
        block = self.blocks[-1]
        anew = name in usage.stores(block.statements[block.index + 1 :])
        return not (self.under_jit or anew) and usage.reads_first(block.statements, name)

    def parameters_listed(self, node: Expr) -> Selection | None:
        """The parameters of models that an expression stands for, tensors of their own among them; None where it stands
        for something else, or for such tensors alone."""
        found = self.selection(node)
        if found is not None or not isinstance(node, cst.List | cst.BinaryOperation | cst.Call):
            return found
        mixed = self.with_tensors(node)
        return mixed if mixed is not None and any(paths != ("",) for _, paths in mixed.leaves) else None

    def named_selection(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.Name, chosen: Selection
    ) -> list[Statement]:
        """`params = list(model.parameters())`: parameters under a name of their own."""
        models = None if chosen.named or chosen.has_tensors else self.whole_models(chosen)
        if models is not None and len(models) == 1 and not chosen.unless_frozen:
            return self.assign(line, small, [target], self.expr(small.value))
        self.bind(target, chosen if models is None or chosen.unless_frozen else Parameters(models))
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
        return self.received(line, small, targets[0], value, self.returned_states(facts, small.value))

    def one_by_one(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """`net, best = Net(), 0`: what makes a model, a layer, an optimizer or a tensor to train has its own statement;
        so are weights, `ours, theirs = net.state_dict(), other.state_dict()`, and what an object takes over,
        `self.net, self.best = net, 0`."""
        target, value = small.targets[0].target, small.value
        if len(small.targets) > 1 or not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
            return None
        pairs = [(t.value, v.value) for t, v in zip(target.elements, value.elements, strict=False)]
        makers = [self._gives_state(node) for _, node in pairs]
        kinds = [UNKNOWN if maker else self.asked(node).kind for maker, (_, node) in zip(makers, pairs, strict=True)]
        taken = self.context == "method" and any(isinstance(name, cst.Attribute) for name, _ in pairs)
        stateful = [kind for kind in kinds if isinstance(kind, Model | Optimizer | Scheduler)]
        made = [*makers, *(taken or kind.place in (None, NOWHERE) for kind in stateful)]
        made += [isinstance(kind, Tensor) and asks_for_gradients(v) for kind, (_, v) in zip(kinds, pairs, strict=True)]
        made += [model_of_state(self, node) is not None for _, node in pairs]
        made += [isinstance(v, cst.Call) and (self.torch_name(v.func) or "").startswith("torch.nn.") for _, v in pairs]
        bound = [set(usage.target_names(name)) for name, _ in pairs]
        clash = any(names & set(usage.loads(node)) for i, names in enumerate(bound) for _, node in pairs[i + 1 :])
        if not any(made) or clash or len(target.elements) != len(value.elements):
            return None
        lowered: list[Statement] = []
        for number, (name, node) in enumerate(pairs):
            each = cst.SimpleStatementLine([cst.Assign([nodes.target(name)], node)])
            lowered += self.statement(each.with_changes(leading_lines=line.leading_lines) if not number else each)
        return lowered

    def note_named_layer(self, small: cst.Assign) -> None:
        """Notes `layer = model[0]`, `head = model.fc`: a name for a part of a model."""
        target, part = small.targets[0].target, small.value
        while isinstance(part, cst.Attribute | cst.Subscript):
            part = part.value
            if isinstance(target, cst.Name) and isinstance(self.kind_of(part), Model):
                self.script.layers_named.add((self.unit.scope, target.value))

    def _gives_state(self, node: Expr) -> bool:
        """Whether a call of a function gives a model, an optimizer or a scheduler that it has made."""
        kind = self.kind_of(node.func) if isinstance(node, cst.Call) else UNKNOWN
        facts = self.script.functions.get(kind.name) if isinstance(kind, Function) else None
        return facts is not None and isinstance(facts.returns, Model | Optimizer | Scheduler)

    def parts_one_by_one(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """`x[0], x[1] = f(y)`: the values have names of their own, then each part is set. None for other targets."""
        target = small.targets[0].target
        if len(small.targets) > 1 or not isinstance(target, cst.Tuple):
            return None
        made, names = list[cst.SimpleStatementLine](), list[Expr]()
        for number, each in enumerate(nodes.elements(target)):
            root = nodes.dotted(each.value) if isinstance(each, cst.Subscript) else None
            if root is None or not isinstance(self.kind_of_name(root), Tensor):
                names.append(each)
                continue
            name = nodes.name(self.unit.own(f"{root.rpartition('.')[2]}_{number}"))
            made.append(cst.SimpleStatementLine([cst.Assign([nodes.target(each)], name)]))
            names.append(name)
        if not made:
            return None
        first = cst.Assign([nodes.target(nodes.bare_tuple(names))], small.value)
        lines = [cst.SimpleStatementLine([first], leading_lines=line.leading_lines), *made]
        return [lowered for each in lines for lowered in self.statement(each)]

    def does_more(self, node: Expr) -> bool:
        """Whether an expression calls a function of the script's own that prints, or sets what others read."""
        facts = function_called(self, node) if isinstance(node, cst.Call) else None
        if facts is None:
            return False
        own = self.in_file_of(facts.qualname)
        calls = [one.value for one in every(facts.node.body, cst.Expr) if isinstance(one.value, cst.Call)]
        set_there = [one.target for one in every(facts.node.body, cst.AssignTarget)]
        return any(own.torch_name(call.func) is None for call in calls) or any(
            isinstance(target, cst.Attribute | cst.Subscript) for target in set_there
        )

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
        value = self.usable(value)
        made_here = self.context == "setup" or self.building
        if made_here and len(targets) == 1 and grows_in(self.blocks[0].statements, nodes.dotted(targets[0]) or ""):
            value = unfinished(value)
        kind, node = value.kind, value.node
        self.refuse_torch(value)
        if not all(isinstance(target, cst.Name) for target in targets):
            self.refuse_stateful(kind)
        for target in targets:
            if isinstance(target, cst.Attribute) and isinstance(self.kind_of(target.value), Tensor | Weight):
                raise Unsupported("MIG303", f"{nodes.code(target)} is set: an array of JAX's never changes")
        if self.context == "forward" and not self.has_no_module and any(map(usage.attributes_in, targets)):
            raise Unsupported("MIG201", f"{nodes.code(targets[0])} is set in a method: a Flax module is frozen there")
        if isinstance(kind, Items) and any(isinstance(p, Optimizer) and p.place == NOWHERE for p in kinds_in(kind)):
            raise Unsupported("MIG401", "an optimizer that has no name of its own")
        if not isinstance(kind, Scheduler) and makes_schedulers(self, small.value):
            raise Unsupported("MIG401", "a scheduler that has no name of its own")
        if isinstance(kind, Members) and all(isinstance(target, cst.Name) for target in targets):
            for target in targets:
                self.bind(target, kind)
            return []  # what reads it reads its members
        if isinstance(kind, Selection | Group) or _all_groups(kind):
            self.bind(targets[0], kind)
            return []
        weights = kind.items if isinstance(kind, Items) and kind.items else (kind,)
        if all(map(stands_for_weights, weights)) and any(isinstance(target, cst.Attribute) for target in targets):
            held = nodes.code(targets[0])
            raise Unsupported("MIG302", f"{held} would keep the weights of now: ask the model where they are used")
        if len(targets) == 1 and all(map(stands_for_weights, weights)) and usage.target_names(targets[0]):
            self.bind(targets[0], kind)
            return []
        if isinstance(kind, AnyWeight) and all(isinstance(target, cst.Name) for target in targets):
            for target in targets:
                self.bind(target, kind)
            return []
        if isinstance(kind, Scaler | Accelerator | RunningOptions) and all(nodes.dotted(target) for target in targets):
            for target in targets:
                self.bind(target, kind)
            return []
        if isinstance(kind, Device) and all(nodes.dotted(target) for target in targets):
            for target in targets:
                self.bind(target, kind)
            names = {nodes.dotted(target) for target in targets}
            told: list[Statement] = [line.with_changes(body=[cst.Expr(node)])] if self.does_more(small.value) else []
            if names & self.script.host_devices:
                return [*told, *suites.rebuilt(line, small, small.with_changes(value=DEVICE))]
            used = names & self.script.device_used
            in_class = self.context == "method" and self.facts is None  # what reads it may know the object alone
            if not used and not in_class:
                return told
            backend = node if told else nodes.expression("jax.default_backend()")
            return suites.rebuilt(line, small, small.with_changes(value=backend))
        if (
            isinstance(kind, Module)
            and self.context in HOST_CONTEXTS
            and not (self.building or self.holder_of(targets[0], small.value))
        ):
            value = self.inline_model(kind, value, targets[0], small.value)
            kind, node = value.kind, value.node
        if (
            isinstance(kind, Model)
            and nodes.dotted(node) is not None
            and len(targets) == 1
            and (nodes.dotted(node) == nodes.dotted(targets[0]))
        ):
            self.bind(targets[0], kind)
            return []  # model = torch.compile(model)
        stateful = isinstance(kind, Model | Optimizer | Scheduler) and kind.place not in (None, NOWHERE)
        if stateful and self.context == "method" and len(targets) == 1:
            return self.taken_over(line, small, targets[0], value)
        if isinstance(kind, Model) and kind.place is None and len(targets) == 1:
            return self.new_model(line, small, targets[0], value)
        if isinstance(kind, Optimizer) and kind.place == NOWHERE:
            return self.new_optimizer(line, small, targets[0], value)
        if isinstance(kind, Scheduler) and kind.place == NOWHERE:
            return self.new_scheduler(line, small, targets[0], value)
        if len(targets) == 1 and isinstance(targets[0], cst.Name) and nodes.dotted(node) == targets[0].value:
            kind = self.leaf_at(self.place_of(targets[0]), kind, small.value)
            self.bind_again(targets[0], kind, value.layout, small.value)
            return self.first_gradients(kind.place) if isinstance(kind, Leaf) else []  # x = x.contiguous()
        kept = isinstance(targets[0], cst.Attribute) and isinstance(kind, Tensor) and self.context == "method"
        if len(targets) == 1 and kept and nodes.dotted(node) == nodes.dotted(targets[0]):
            self.bind(targets[0], kind)
            return []  # self.z = self.z.cuda()
        if len(targets) == 1 and isinstance(targets[0], cst.Tuple) and _same_names(targets[0], node):
            for number, element in enumerate(targets[0].elements):
                self.bind(element.value, part_kind(kind, number, len(targets[0].elements)))
            return []  # x, y = x.to(device), y.to(device)
        if len(targets) == 1 and isinstance(targets[0], cst.Tuple):
            pruned = self.pruned(line, small, targets[0], value)
            if pruned is not None:
                return pruned
        alone = len(targets) == 1 and isinstance(targets[0], cst.Name) and not self.is_captured(targets[0])
        layout = value.layout if alone else "first"
        if layout == "first":
            node = layouts.first(value)
        node = bare_lambda(node)
        self.define(targets, small.value)
        unseen, through = self.stays_alone(targets, small.value), self.seen_through(targets, small.value)
        if len(targets) == 1:
            kind = self.leaf_at(self.place_of(targets[0]), kind, small.value)
            kind = SIZES if self.still_sizes(targets[0], kind, small.value) else kind
        for target in targets:
            with self.unless_of_itself(target, kind, small.value):
                self.bind(target, kind, layout)
        if self.context == "setup":
            self.note_targets(targets, kind)
        if not unseen:
            self.share(targets, small.value)
        self.env.shared |= through
        grows = isinstance(node, cst.Call) and nodes.dotted(node.func) in ("jnp.concatenate", "concatenate")
        carried = set(usage.loads(node)) & set(usage.target_names(targets[0])) if self.loops and grows else ()
        if any(map(self.is_carried, carried)):
            self.unit.report(Unsupported("MIG501", f"{nodes.code(targets[0])} grows at each turn of the loop"), line)
        made_targets = [self.stored_target(target) for target in small.targets]
        made = suites.rebuilt(line, small, small.with_changes(value=node, targets=made_targets))
        first = self.first_gradients(kind.place) if isinstance(kind, Leaf) else []
        return made + self.converted(targets) + first + self.without_state(targets, kind)

    @contextlib.contextmanager
    def unless_of_itself(self, target: cst.CSTNode, kind: Kind, value: Expr) -> Iterator[None]:
        """Leaves it open what an object keeps where a method makes it of what it was (`self.z = self.z.cpu() + 1`), as
        long as nothing has told yet what that is."""
        path, cls = nodes.dotted(target) or "", self.scope.rpartition(".")[0]
        told = path in self.script.attributes.get(cls, {}) or type(kind) is not Kind
        before = self.bound_attributes.get(path, Never())
        yield
        if self.context == "method" and path.startswith("self.") and not told and path in usage.paths(value):
            self.bound_attributes[path] = before

    def only_renames(self, name: str, target: Expr) -> bool:
        """Whether an assignment only gives something of torch another name, which calls are then looked up by."""
        if not isinstance(target, cst.Name):
            return False
        once = len(self.blocks) == 1 and self.facts is None
        return bool(tensor_type(name)) or (once and (name in RULES or name == FRAMEWORK))

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


def _all_groups(kind: Kind) -> bool:
    """Whether it is a list of parameter groups."""
    return isinstance(kind, Items) and bool(kind.items) and all(isinstance(item, Group) for item in kind.items or ())


def _same_names(target: cst.Tuple, node: Expr) -> bool:
    if not isinstance(node, cst.Tuple):
        return False
    left = [nodes.dotted(element.value) for element in target.elements]
    return None not in left and left == [nodes.dotted(element.value) for element in node.elements]
