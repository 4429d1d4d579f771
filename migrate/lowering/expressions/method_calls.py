"""Methods: what a call of one means, by what its receiver is."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ListNode
from migrate.known.facts import ClassFacts
from migrate.known.kinds import (
    BY_WEIGHT,
    SHAPE,
    UNKNOWN,
    Accelerator,
    AutogradFunction,
    Device,
    Distribution,
    Function,
    Host,
    HostClass,
    Instance,
    Items,
    Kind,
    Loss,
    Makers,
    Model,
    Module,
    ModuleClass,
    Never,
    Number,
    OneOfModels,
    OneOfObjects,
    Optimizer,
    Plain,
    ProjectModule,
    Scaler,
    Scheduler,
    SelfModule,
    Tensor,
    TorchName,
    is_batch,
    join,
)
from migrate.known.qualified import is_chosen, options
from migrate.known.states import MODE_IS_A_FIELD, MODES
from migrate.known.weight_kinds import (
    CHECKPOINT,
    SHOWN,
    WEIGHT_NAME,
    AnyWeight,
    Parameters,
    Selection,
    Weight,
    WeightTree,
)
from migrate.lowering.expressions.arguments import on_host, placed
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.elements import (
    DICT,
    KEY_OF_ITS_OWN,
    arrays_of_numpy,
    element_kind,
    has_key,
    made_by_numpy,
    of_queue,
)
from migrate.lowering.expressions.keywords_left import kinds_given
from migrate.lowering.expressions.layers_apart import taken_apart
from migrate.lowering.expressions.one_of_objects import methods_of_each, pass_to_each, with_key_of_each
from migrate.lowering.expressions.packed_elements import refuse_rows
from migrate.lowering.expressions.rows_of_packages import rows_of
from migrate.lowering.expressions.torch_calls import in_place_rule
from migrate.lowering.expressions.value_calls import FOREIGN, ValueCalls, as_model, which_model
from migrate.lowering.host.metrics import METRIC
from migrate.lowering.models.foreign_models import refuse_given_to_others
from migrate.lowering.modules.makers_kept import maker_kept
from migrate.lowering.plainer.parts_written import children_in_order
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.weights.selections import filled_on
from migrate.lowering.weights.weight_trees import method_of_tree
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage

# Methods of torch's tensors, modules and optimizers that nothing else in common use has.
_TORCH_ONLY = frozenset(
    {
        "backward",
        "zero_grad",
        "state_dict",
        "load_state_dict",
        "parameters",
        "named_parameters",
        "cuda",
        "requires_grad_",
        "register_hook",
        "unsqueeze",
        "permute",
        "contiguous",
        "masked_fill",
        "masked_fill_",
        "expand_as",
        "view_as",
        "type_as",
        "detach",
        "index_select",
        "repeat_interleave",
    }
)
# The same, of which functions that nobody calls may say nothing: those that `apply` is given have layers.
_OF_TENSORS = frozenset(
    {"cpu", "numel", "nelement", "long", "float", "double", "half", "bmm"}
    | {f"new_{name}" for name in ("zeros", "ones", "empty", "full", "tensor")}
)

# Methods of tensors that strings, lists, dicts and the like have as well.
_COMMON = frozenset({"index", "count", "split", "copy", "format", "update", "pop", "get", "items", "keys", "values"})

_ADDING = ("append", "extend", "insert", "appendleft", "extendleft")
_TAKING = ("get", "pop", "popleft")  # an element of a list or a dict
_IN_MODE = "in_mode"  # a snippet
_PLACING = ("to", "cuda", "cpu", "float", "train", "eval", "requires_grad_")

# Methods of every module in torch that Flax's have not.
_MODULE_METHODS = frozenset(
    {"parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers"}
    | {"named_buffers", "state_dict", "load_state_dict", "to", "cuda", "cpu", "half", "float", "double", "bfloat16"}
    | {"type", "apply", "train", "eval", "zero_grad", "requires_grad_", "add_module", "register_module"}
    | {"register_buffer", "register_parameter", "register_forward_hook", "register_forward_pre_hook"}
    | {"register_full_backward_hook", "register_backward_hook", "get_submodule", "get_parameter", "get_buffer"}
)

_LISTINGS = ("modules", "named_modules", "children", "named_children")


class MethodCalls(ValueCalls):
    """Where the call of a method goes."""

    def method_call(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A call `base.method(...)`."""
        method = func.attr.value
        node, base = self.looked_into(node, func, base)
        kind = base.kind
        if isinstance(kind, OneOfModels):
            raise which_model(func.value)
        if isinstance(kind, TorchName):
            return self.torch_call(f"{kind.name}.{method}", node)
        if isinstance(kind, ProjectModule) or (isinstance(kind, AutogradFunction) and method == "apply"):
            return self.value_call(node, self.expr(func))
        if isinstance(kind, Tensor) and usage.is_in_place(method) and isinstance(func.value, cst.Name):
            return self.changed_before(node, func)
        if isinstance(kind, Tensor):
            return self.tensor_call(f"Tensor.{method}", node, base)
        if kind == Plain("progress") or self.shown_through(node) is not None:
            return self.progress(node, base)
        if (kind == CHECKPOINT and method in _MODULE_METHODS) or (kind == Host("data") and method in ("train", "eval")):
            raise as_model(node)
        if isinstance(kind, Never):  # behind an exception
            return Value(node.with_changes(args=self.plain_args(node.args)), kind)
        if isinstance(kind, Accelerator):
            return self.accelerator_method(node, method)
        if isinstance(kind, Scaler):
            return self.scaler_method(node, method)
        if isinstance(kind, Distribution):
            return self.distribution_method(node, method, base)
        if kind == KEY_OF_ITS_OWN:
            seeded = self.generator_method(node, method)
            if seeded is not None:
                return seeded
        if kind == METRIC:
            return self.metric_method(node, func, base)
        if isinstance(kind, Host):
            if is_batch(kind) and self.region is not None and method != "next":
                return self.method_call(node, func, replace(base, kind=Tensor()))  # an input of the step
            with_tensors = any(isinstance(self.expr(a.value).kind, Tensor) for a in node.args)
            if is_batch(kind) and (with_tensors or method == "requires_grad_"):
                return self.tensor_call(f"Tensor.{method}", node, self.as_array(base))
            self.refuse_foreign(node, kind)
            return self.host_method(node, func, base)
        if isinstance(kind, SelfModule):
            return self.self_call(node, func, kind)
        if isinstance(kind, Model) and any(method in self.script.classes[c].host_methods for c in options(kind.cls)):
            self.refuse_unlike(kind, method)
        if isinstance(kind, Model | ModuleClass) and method in self.script.classes[options(kind.cls)[0]].host_methods:
            return self.host_method_call(node, func, base, kind)
        if isinstance(kind, Model):
            return self.part_call(node, func, base) or self.model_method(node, func, base)
        if isinstance(kind, ModuleClass):
            self.class_attribute(base, method)
        if isinstance(kind, Weight):
            return self.weight_method(node, func, base)
        if isinstance(kind, WeightTree):
            return method_of_tree(node, base, method)
        if kind == WEIGHT_NAME and method in SHOWN:
            made_func = func.with_changes(value=nodes.parenthesized(layouts.first(base)))
            return Value(node.with_changes(func=made_func, args=self.plain_args(node.args)), kind)
        if kind == WEIGHT_NAME:
            raise Unsupported("MIG302", f"`{nodes.code(node)}`, of the name of a weight, which is Flax's in JAX")
        if isinstance(kind, AnyWeight):
            return self.made_as_weights(node, method)
        if isinstance(kind, Optimizer | Scheduler):
            return self.optimizer_method(node, func, base)
        if isinstance(kind, Module) and has_key(kind, method):
            return self.value_call(node, self.expr(func))
        if isinstance(kind, Module) and method == "double":
            self.cast_model(node, None)
            return base
        if isinstance(kind, Loss | Module) and method in _PLACING:
            if method in MODES and isinstance(kind, Module) and self.differs_in_training(kind):
                if method == "eval" and self.stays_in_eval():
                    return Value(
                        with_snippets(self, nodes.call(_IN_MODE, base.node, nodes.name("False")), [_IN_MODE]), kind
                    )
                raise Unsupported("MIG201", f"{nodes.code(node)}: {MODE_IS_A_FIELD}")
            off = method == "requires_grad_" and not (not node.args or nodes.is_literal(node.args[0].value, True))
            if off and isinstance(kind, Module):
                raise Unsupported("MIG204", f"{nodes.code(node)}: freeze it where the model is made")
            return base
        if isinstance(kind, Module) and method == "forward":
            return self.value_call(node.with_changes(func=func.value), base)
        if isinstance(kind, Module):
            attribute = self.submodule_attribute(func, base, kind, method)
            if attribute.kind is not UNKNOWN:
                return self.value_call(node, attribute)
            called = self.submodule_method(node, attribute, kind, method)
            if called is not None:
                return called
            listed = self.listed_modules(node, base, kind, method)
            if listed is not None:
                return listed
            self.refuse_of_layer(node, kind)
            if method in _MODULE_METHODS:
                told = "lists no parts" if method in _LISTINGS else "has no weights of its own"
                if method == "load_state_dict":
                    told += ": `migrate port-weights` puts a checkpoint among those that `init` gives the whole model"
                raise Unsupported("MIG301", f"{nodes.code(node)}: a part of a Flax module {told}")
        if isinstance(kind, Parameters | Selection) and method in _ADDING:
            raise filled_on(node)
        if isinstance(kind, Items) and kind.type in ("list", "modules") and method in _ADDING:
            return self.list_method(node, func, base)
        if isinstance(kind, Items) and kind.type in (DICT, BY_WEIGHT) and method in ("items", "values"):
            pair = Items((Plain("str") if kind.type == DICT else WEIGHT_NAME, kind.joined()), type="tuple")
            made = node.with_changes(func=func.with_changes(value=base.node))
            return Value(made, Items(None, pair if method == "items" else kind.joined()))
        element = kind.joined() if isinstance(kind, Items) else UNKNOWN
        if method in _TAKING and isinstance(element, (ModuleClass, Makers, Tensor) if method == "get" else Tensor):
            values = [self.expr(arg.value) for arg in node.args]
            made = func.with_changes(value=base.node)
            others = [value.kind for value in values[1:]]
            if not others and method == "get" and isinstance(element, Tensor):
                others = [Plain("None")]
            found = Items((element, *others)).joined()
            return Value(node.with_changes(func=made, args=placed(node.args, values)), found)
        if self.context == "setup" and type(kind) in (Kind, Plain):
            maker = maker_kept(self, func)
            if maker is not UNKNOWN:
                return self.value_call(node, Value(func.with_changes(value=base.node), maker))
        given = kinds_given(self, node) if type(kind) is Kind else None
        if given is not None:
            values = [self.expr(arg.value) for arg in node.args]
            told = self.script.rounds > 1  # as the first one begins, it has no calls yet
            taken = Items((values[1].kind, *given)).joined() if told else Never()
            return Value(node.with_changes(args=placed(node.args, values)), taken)
        held = self.attribute_kind(func, kind) if isinstance(kind, Instance) else UNKNOWN
        if isinstance(held, Model):
            return self.value_call(node, Value(func, held))
        own = isinstance(kind, Instance | HostClass) and self.script.functions.get(f"{kind.cls}.{method}")
        if own and (isinstance(kind, Instance) or own.decorators & {"staticmethod", "classmethod"}):
            return self.user_call(node, Value(func.with_changes(value=base.node)), Function(own.qualname))
        if isinstance(func.value, cst.Name) and func.value.value == "self" and not isinstance(kind, SelfModule):
            attribute = self.attribute_kind(func)
            if attribute is not UNKNOWN:
                return self.value_call(node, Value(func, attribute))
        methods = methods_of_each(self, node, method, kind) if isinstance(kind, OneOfObjects) else []
        kind = UNKNOWN if isinstance(kind, OneOfObjects) else kind
        weights = self.foreign_state(node, func) if type(kind) is Kind else None
        if weights is not None:
            return weights
        if self.is_moved_array(node):
            return base
        table = self.summary_call(node)
        if table is not None:
            return Value(table, Plain("str"))
        self.refuse_foreign(node, kind)
        self.suspect(node, method, kind)
        if type(kind) is Kind:
            self.refuse_unseen(node, method)
        made_func = func.with_changes(value=nodes.parenthesized(layouts.first(base)))
        known: Kind = Plain("str") if isinstance(kind, Plain) and kind.what == "str" else arrays_of_numpy(node)
        known = FOREIGN if self.context == "setup" and kind == Plain("module") else known
        known = self.said_to_return(func) if type(known) is Kind and type(kind) is Kind else known
        values = on_host(node.args, [self.expr(arg.value) for arg in node.args])
        for arg, value in zip(node.args, values, strict=True):
            if isinstance(value.kind, Device):
                self.use(arg.value, value)
        pass_to_each(self, methods, node, values)
        if kind == Plain("module"):
            known = of_queue(node, values) or rows_of(self, node, values) or known
        refuse_rows(node, base, *values)
        refuse_given_to_others(self, node, values)
        module = (nodes.dotted(func.value) or "").partition(".")[0]
        if module in ("np", "numpy") and self.under_jit and any(isinstance(value.kind, Tensor) for value in values):
            raise Unsupported("MIG307", f"{nodes.code(func)} of a tensor whose values jit does not know")
        if module == "math":
            values = [self.as_scalar(value) for value in values]
        args = with_key_of_each(self, methods, node, placed(node.args, values))
        return Value(node.with_changes(func=made_func, args=args), known)

    def listed_modules(self, node: cst.Call, base: Value, kind: Module, method: str) -> Value | None:
        """What a list or a dict of modules holds, `self.heads.items()`; None of other methods."""
        if node.args or not all(isinstance(one, ListNode) for one in kind.options):
            return None
        if method == "children" and not any(isinstance(one, ListNode) and one.keys for one in kind.options):
            return taken_apart(self, base)
        if method not in ("items", "values", "keys"):
            return None
        element = element_kind(kind)
        pair = Items((Plain("str"), element), type="tuple")
        held = {"items": pair, "values": element, "keys": Plain("str")}[method]
        return Value(nodes.call(cst.Attribute(base.node, nodes.name(method))), Items(None, held))

    def host_method_call(self, node: cst.Call, func: cst.Attribute, base: Value, kind: Model | ModuleClass) -> Value:
        """A method of a module class that runs on the host: it is given the weights of the model."""
        qualname = f"{options(kind.cls)[0]}.{func.attr.value}"  # of several classes, all have the same
        facts = self.script.functions[qualname]
        if isinstance(kind, Model) and not is_chosen(kind.cls):
            if kind.place is None:
                raise Unsupported("MIG301", f"{func.attr.value} of a model that has no name of its own")
            self.pass_kind(facts, facts.parameter_names[0], kind)
        return self.user_call(node, Value(func.with_changes(value=base.node)), Function(qualname))

    def suspect(self, node: cst.Call, method: str, kind: Kind) -> None:
        """Reports a method that only torch has, of an object of which nothing is known; the call stays as it is."""
        to_device = method == "to" and any(isinstance(self.expr(arg.value).kind, Device) for arg in node.args)
        own = method in self.unit.own_methods
        traced = self.context in ("forward", "region") and f"Tensor.{method}" in RULES and method not in _COMMON
        unlike = method in ("std", "var") and nodes.dotted(node.func) in {f"{name}.{method}" for name in self.unnamed}
        in_place = method.endswith("_") and in_place_rule(f"Tensor.{method}") is not None
        sized = method == "size" and len(node.args) == 1 and isinstance(nodes.literal(node.args[0].value), int)
        called = self.context in HOST_CONTEXTS and (self.facts is None or bool(self.facts.calls))
        of_tensors = called and (sized or method in _OF_TENSORS)
        traced = traced and not set(usage.loads(node.func)) & self.unit.refused  # told where it was refused
        if (
            type(kind) is Kind
            and (method in _TORCH_ONLY or to_device or traced or in_place or unlike or of_tensors)
            and not own
            and not made_by_numpy(node.func)
            and self.unit.imports_torch
        ):
            told = Unsupported("MIG306", f".{method}() of {nodes.code(node.func).rpartition('.')[0]}")
            self.unit.report(self.where_reached(told), node)

    def changed_before(self, node: cst.Call, func: cst.Attribute) -> Value:
        """`x.mul_(2)` inside an expression: x is bound again before the statement, where anything reads it later."""
        if self.gives(func.value):
            return self.in_place_value(node, func.attr.value, self.expr(func.value))
        if self.nested or self.conditional:
            raise Unsupported("MIG303", f"Tensor.{func.attr.value} inside an expression")
        self.refuse_shared(func.value)  # the rest of the statement may read another name
        outer, self.before = self.before, []
        made = self.statement(cst.SimpleStatementLine([cst.Expr(node)]))
        self.before = [*outer, *self.before, *made]
        return self.expr(func.value)

    def self_call(self, node: cst.Call, func: cst.Attribute, kind: SelfModule) -> Value:
        """`self.x(...)` in a module class: a submodule, a method, or something inherited from nn.Module."""
        facts = self.script.classes[kind.cls]
        attribute = func.attr.value
        if attribute in facts.seen or attribute in facts.attributes:
            return self.value_call(node, self.self_attribute(func, kind, attribute))
        qualname = f"{kind.cls}.{attribute}"
        if attribute in facts.host_methods:
            raise Unsupported("MIG301", f"{attribute} needs the weights, which are not there yet")
        if qualname in self.script.functions:
            return self.own_method(node, func, qualname)
        theirs = self.methods_of_heirs(kind.cls, attribute) if facts.inherited else []
        if theirs:
            return self.call_of_heirs(node, func, theirs)
        listed = self.own_children(facts, attribute) if not node.args else None
        if listed is not None:
            return listed
        if attribute in _MODULE_METHODS:
            raise Unsupported("MIG301", f"nn.Module.{attribute} inside a module")
        if facts.inherited and self.script.in_heirs(kind.cls, attribute) is not UNKNOWN:
            return self.value_call(node, self.self_attribute(func, kind, attribute))
        inherited = self.self_attribute(func, kind, attribute).node
        return Value(node.with_changes(func=inherited, args=self.array_args(node.args)), UNKNOWN)

    def own_children(self, facts: ClassFacts, method: str) -> Value | None:
        """`self.children()`: the modules that the class surely has, in the order in which it makes them; None of other
        methods, and where some may not be there."""
        names = children_in_order(facts) if method in ("children", "named_children") else None
        if names is None:
            return None
        parts = {name: self.expr(nodes.expression(f"self.{name}")) for name in names}
        if method == "named_children":
            pairs = [nodes.tuple_of([cst.SimpleString(f'"{name}"'), part.node]) for name, part in parts.items()]
            kinds: list[Kind] = [Items((Plain("str"), part.kind), type="tuple") for part in parts.values()]
        else:
            pairs, kinds = [part.node for part in parts.values()], [part.kind for part in parts.values()]
        return Value(cst.List([cst.Element(pair) for pair in pairs]), Items(tuple(kinds)))

    def own_method(self, node: cst.Call, func: cst.Attribute, qualname: str) -> Value:
        """Another method of the same module: what it is called with is what its parameters are."""
        facts = self.script.functions[qualname]
        cls, _, method = qualname.rpartition(".")
        if self.scope.rpartition(".")[2] in self.script.classes[cls].reached:
            self.script.classes[cls].reached.add(method)
        values = [self.array(arg.value) for arg in node.args]
        self.pass_kinds(facts, node.args, values)
        made = cst.Name("self") if func.attr.value == "forward" else func
        drawn = self.draws_for(facts, node.args, "staticmethod" not in facts.decorators)
        called = node.with_changes(func=made, args=nodes.extended(placed(node.args, values), drawn))
        return self.as_decorated(Value(called, facts.result), [facts])

    def made_as_weights(self, node: cst.Call, method: str) -> Value:
        """`weight.new_zeros(2, 3)`: a tensor of the type of the weights, which is torch's own default."""
        if method == "new":
            return self.typed_tensor("torch.FloatTensor", node)
        name = f"torch.{method.removeprefix('new_')}"
        if f"Tensor.{method}" not in RULES or name not in RULES or name == f"torch.{method}":
            raise Unsupported("MIG302", f"{nodes.code(node.func)}: the order of the parameters is not torch's")
        return self.apply_rule(RULES[name], name, node)

    def weight_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A method of one weight."""
        assert isinstance(base.kind, Weight)
        method = func.attr.value
        attribute = {"numel": "size", "dim": "ndim", "nelement": "size"}.get(method)
        if attribute:
            return Value(cst.Attribute(base.node, cst.Name(attribute)), Number())
        if method == "size" and not node.args:
            return Value(cst.Attribute(base.node, cst.Name("shape")), Items(None, Number(), SHAPE))
        if method == "element_size":
            return Value(nodes.expression("{x}.dtype.itemsize", x=base.node), Number())
        if method in ("cpu", "cuda", "contiguous") or (method == "detach" and not self.under_jit):
            return base
        if method == "clone":
            return self.copied_weight(base)
        if method == "detach":
            return replace(base, node=nodes.call("jax.lax.stop_gradient", base.node))
        if method.endswith("_") and base.kind.axes and base.kind.place is None:
            raise Unsupported(
                "MIG303", f"{nodes.code(func.value)} is changed in place, and may be seen under another name"
            )
        if method.endswith("_"):
            raise Unsupported("MIG204", f"{nodes.code(func.value)} is changed after its module was made")
        if base.kind.axes:
            return self.tensor_call(f"Tensor.{method}", node, replace(base, kind=Tensor("float")))
        if f"Tensor.{method}" not in RULES:
            raise Unsupported("MIG301", f"Parameter.{method}")
        return self.tensor_call(f"Tensor.{method}", node, base)

    def copied_weight(self, base: Value) -> Value:
        """`weight.clone()`: a step gives the memory of the weights away, so that what is kept of them is a copy."""
        assert isinstance(base.kind, Weight)
        kind = Tensor("float") if base.kind.axes else Weight()
        moved = base.kind.axes and not isinstance(base.node, cst.Subscript | cst.Name)  # a new array
        return Value(base.node if moved or self.under_jit else nodes.call("jnp.copy", base.node), kind)

    def list_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """`list.append(x)`: what the list holds is remembered."""
        path = nodes.dotted(func.value) or ""
        if self.context == "forward" and not self.has_no_module and path.startswith("self."):
            raise Unsupported("MIG201", f"{path} is changed in a method: a Flax module is frozen there")
        values = [self.expr(arg.value) for arg in node.args]
        if self.context == "setup":
            self.note_listed([arg.value for arg in node.args])
        for value in values:
            self.refuse_stateful(value.kind)
            self.note_tensors_listed(value.kind)
        for arg in node.args:
            self.share([], arg.value)
        kind = base.kind
        assert isinstance(kind, Items)
        if kind.type == "modules" and values:
            self.bind(func.value, self.grown(kind, func.attr.value, values[-1], node))
            return Value(node.with_changes(args=placed(node.args, values)), UNKNOWN)
        added = values[-1].kind if values else UNKNOWN
        if func.attr.value.startswith("extend") and isinstance(added, Items):
            added = added.joined()
        element = added if kind.items == () else join(kind.joined(), added)
        self.bind(func.value, Items(None, element, kind.type))
        self.define_target(func.value, None)  # it is not what it was made of any more
        return Value(node.with_changes(args=placed(node.args, values)), UNKNOWN)
