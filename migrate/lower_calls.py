"""Pass 4, calls: which rule, layer or user function a call reaches, with its arguments bound to torch's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts, nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    UNKNOWN,
    ClassNode,
    Device,
    DType,
    Function,
    Host,
    Items,
    Kind,
    Loss,
    Model,
    Module,
    ModuleClass,
    Never,
    Number,
    Optimizer,
    Parameters,
    Plain,
    Scheduler,
    SelfModule,
    Tensor,
    Tied,
    TorchName,
    Weight,
    join,
)
from migrate.layers.table import TABLE
from migrate.lower_exprs import Expressions, is_data_api
from migrate.nodes import Expr
from migrate.optimizers import LOSSES
from migrate.rules.catalogue import RULES
from migrate.rules.creation import DTYPES, dtype_kind
from migrate.rules.rule import Call, Parameter, Rule, Value, result_kind
from migrate.script import merge
from migrate.targets import linen

_DEVICE_CALLS = ("torch.device", "torch.accelerator.current_accelerator", "torch.cuda.current_device")
NO_OPS = (
    "torch.set_default_device",
    "torch.cuda.set_device",
    "torch.cuda.empty_cache",
    "torch.cuda.synchronize",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.set_float32_matmul_precision",
    "torch.set_num_threads",
    "torch.autograd.set_detect_anomaly",
    "torch.use_deterministic_algorithms",
)
_BACKENDS = {
    "torch.cuda.is_available": 'jax.default_backend() == "gpu"',
    "torch.backends.mps.is_available": 'jax.default_backend() == "METAL"',
    "torch.backends.mps.is_built": 'jax.default_backend() == "METAL"',
    "torch.accelerator.is_available": 'jax.default_backend() != "cpu"',
    "torch.cuda.device_count": "jax.device_count()",
    "torch.is_grad_enabled": "True",
}
_FUNCTIONAL_LAYERS = {
    "torch.nn.functional.max_pool1d": "torch.nn.MaxPool1d",
    "torch.nn.functional.max_pool2d": "torch.nn.MaxPool2d",
    "torch.max_pool2d": "torch.nn.MaxPool2d",
    "torch.nn.functional.max_pool3d": "torch.nn.MaxPool3d",
    "torch.nn.functional.avg_pool1d": "torch.nn.AvgPool1d",
    "torch.nn.functional.avg_pool2d": "torch.nn.AvgPool2d",
}
_PASS_THROUGH = ("Tensor.cuda", "Tensor.cpu", "Tensor.requires_grad_", "Tensor.retain_grad", "Tensor.pin_memory")
_NUMBER_BUILTINS = {"len", "int", "float", "round", "ord", "bool", "hash", "id"}


class Calls(Expressions):
    """Lowering of calls in one scope."""

    # -- dispatch -----------------------------------------------------------------------------------------------------

    def expr_Call(self, node: cst.Call) -> Value:
        func = node.func
        if isinstance(func, cst.Attribute):
            if isinstance(func.value, cst.Call) and nodes.dotted(func.value.func) == "super":
                return Value(node.with_changes(args=self.plain_args(node.args)), UNKNOWN)
            base = self.expr(func.value)
            return self.method_call(node, func, base)
        callee = self.expr(func)
        return self.value_call(node, callee)

    def method_call(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A call `base.method(...)`."""
        method = func.attr.value
        kind = base.kind
        if isinstance(kind, TorchName):
            return self.torch_call(f"{kind.name}.{method}", node)
        if isinstance(kind, Tensor):
            return self.tensor_call(f"Tensor.{method}", node, base)
        if isinstance(kind, Host):
            return self.host_method(node, func, base)
        if isinstance(kind, SelfModule):
            return self.self_call(node, func, kind)
        if isinstance(kind, Model):
            return self.model_method(node, func, base)  # type: ignore[attr-defined]
        if isinstance(kind, Weight):
            return self.weight_method(node, func, base)
        if isinstance(kind, Optimizer | Scheduler):
            return self.optimizer_method(node, func, base)  # type: ignore[attr-defined]
        if isinstance(kind, Loss) and method in ("to", "cuda"):
            return base
        if isinstance(kind, Items) and kind.type == "list" and method in ("append", "extend", "insert"):
            return self.list_method(node, func, base)
        if isinstance(func.value, cst.Name) and func.value.value == "self" and not isinstance(kind, SelfModule):
            attribute = self.attribute_kind(func, base)
            if attribute is not UNKNOWN:
                return self.value_call(node, Value(func, attribute))
        made_func = func.with_changes(value=nodes.parenthesized(layouts.first(base)))
        known: Kind = Plain("str") if isinstance(kind, Plain) and kind.what == "str" else UNKNOWN
        return Value(node.with_changes(func=made_func, args=self.plain_args(node.args)), known)

    def value_call(self, node: cst.Call, callee: Value) -> Value:
        """A call of a value."""
        kind = callee.kind
        if isinstance(kind, TorchName):
            return self.torch_call(kind.name, node)
        if isinstance(kind, Function):
            return self.user_call(node, callee, kind)  # type: ignore[attr-defined]
        if isinstance(kind, ModuleClass):
            return self.construct_user(node, callee, kind)  # type: ignore[attr-defined]
        if isinstance(kind, Model):
            return self.model_call(node, callee)  # type: ignore[attr-defined]
        if isinstance(kind, Module):
            return self.layer_call(node, callee, kind)
        if isinstance(kind, Tied):
            (argument,) = node.args
            target = nodes.expression("self." + kind.embedding + ".attend")
            return Value(nodes.call(target, self.node(argument.value)), Tensor("float"))
        if isinstance(kind, SelfModule):
            self.mark_self_call(kind)
            return Value(node.with_changes(args=self.array_args(node.args)), UNKNOWN)
        if isinstance(kind, Loss):
            return Value(node.with_changes(func=callee.node, args=self.array_args(node.args)), Tensor("float", 0))
        name = nodes.dotted(node.func)
        if isinstance(node.func, cst.Name) and self.env.lookup(node.func.value) is None:
            return self.builtin_call(node, node.func.value)
        made = node.with_changes(func=callee.node, args=self.plain_args(node.args))
        return Value(made, Plain("str") if name == "str" else UNKNOWN)

    def mark_self_call(self, kind: SelfModule) -> None:
        """`self(...)`: the result kind is that of `forward`, which is not followed."""

    def builtin_call(self, node: cst.Call, name: str) -> Value:
        values = [self.expr(arg.value) for arg in node.args]
        for arg, value in zip(node.args, values, strict=True):
            self.use(arg.value, value)
        lowered = zip(node.args, values, strict=True)
        made = node.with_changes(args=[arg.with_changes(value=layouts.first(value)) for arg, value in lowered])
        first = values[0].kind if values else UNKNOWN
        if name in _NUMBER_BUILTINS:
            return Value(made, Number())
        if name in ("print", "input", "open"):
            return Value(made, UNKNOWN)
        if name == "range":
            for arg in node.args:
                self.note_type(arg.value, "int")
            return Value(made, Items(None, Number()))
        if name == "str":
            return Value(made, Plain("str"))
        if name == "enumerate":
            element = self.iterated(first, id(node.args[0]))
            return Value(made, Items(None, Items((Number(), element), type="tuple")))
        if name == "zip":
            kinds = tuple(self.iterated(value.kind, id(arg)) for arg, value in zip(node.args, values, strict=True))
            return Value(made, Items(None, Items(kinds, type="tuple")))
        if name in ("list", "tuple", "sorted", "reversed"):
            if isinstance(first, Parameters):
                return Value(made, first)
            return Value(made, Items(None, self.iterated(first, 0)) if isinstance(first, Items) else UNKNOWN)
        if name == "iter":
            return Value(made, first)
        if name == "next":
            return Value(made, Host("batch", id(node)) if isinstance(first, Host) else UNKNOWN)
        if name in ("sum", "max", "min", "abs"):
            kind = first.joined() if isinstance(first, Items) and len(node.args) == 1 else first
            return Value(made, kind if isinstance(kind, Tensor | Number) else UNKNOWN)
        if name == "isinstance":
            return Value(made, Number())
        return Value(made, UNKNOWN)

    # -- arguments ----------------------------------------------------------------------------------------------------

    def plain_args(self, args: Sequence[cst.Arg]) -> list[cst.Arg]:
        """Arguments lowered as they are; devices are left out."""
        made = []
        for arg in args:
            value = self.expr(arg.value)
            self.use(arg.value, value)
            made.append(arg.with_changes(value=layouts.first(value)))
        return made

    def array_args(self, args: Sequence[cst.Arg]) -> list[cst.Arg]:
        """Arguments that JAX code takes."""
        made = []
        for arg in args:
            value = self.array(arg.value)
            if isinstance(value.kind, Device):
                continue
            made.append(arg.with_changes(value=layouts.first(value)))
        return made

    def bind_call(
        self,
        api: str,
        parameters: Sequence[Parameter],
        args: Sequence[cst.Arg],
        receiver: Value | None = None,
        keep_layout: bool = False,
    ) -> Call:
        """Binds lowered arguments to torch's parameter names; Unsupported where they do not fit."""
        bound: dict[str, Value] = {}
        rest: list[Value] = []
        positional: list[Value] = [receiver] if receiver is not None else []
        for arg in args:
            if arg.star == "*":
                value = self.expr(arg.value)
                star = next((p for p in parameters if p.star), None)
                if star is None:
                    raise Unsupported("MIG302", f"{api}: *{nodes.code(arg.value)} cannot be followed")
                positional.append(value)
                continue
            if arg.star == "**":
                raise Unsupported("MIG302", f"{api}: **{nodes.code(arg.value)} cannot be followed")
            value = self.expr(arg.value)
            if arg.keyword is not None:
                bound[self.modern(arg.keyword.value, parameters)] = value
            else:
                positional.append(value)
        names = iter(parameters)
        for number, value in enumerate(positional):
            parameter = next(names, None)
            if parameter is None:
                raise Unsupported("MIG302", f"{api} takes {len(parameters)} arguments, here are {len(positional)}")
            if parameter.star:
                rest = positional[number:]
                break
            bound[parameter.name] = value
        unknown = set(bound) - {parameter.name for parameter in parameters}
        if unknown:
            raise Unsupported("MIG302", f"{api} has no argument {', '.join(sorted(unknown))}")
        if not keep_layout:
            bound = {name: self.at_first(value) for name, value in bound.items()}
            rest = [self.at_first(value) for value in rest]
        return Call(
            api,
            bound,
            rest,
            {parameter.name: parameter.default for parameter in parameters},
            self.fresh_key,
            self.unit.snippets.add,
        )

    @staticmethod
    def at_first(value: Value) -> Value:
        return Value(layouts.first(value), value.kind) if value.layout == "last" else value

    @staticmethod
    def modern(keyword: str, parameters: Sequence[Parameter]) -> str:
        """torch also takes numpy's names for some arguments."""
        names = {parameter.name for parameter in parameters}
        if keyword in names:
            return keyword
        synonyms = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "self": "input"}
        return synonyms.get(keyword, keyword) if synonyms.get(keyword) in names else keyword

    def fresh_key(self) -> Expr:
        """A random key for one draw, from where the scope keeps its keys."""
        raise NotImplementedError

    # -- rules --------------------------------------------------------------------------------------------------------

    def apply_rule(self, rule: Rule, api: str, node: cst.Call, receiver: Value | None = None) -> Value:
        """A call that a rule serves. Only torch's own data: it stays torch."""
        call = self.bind_call(api, rule.parameters, node.args, receiver, keep_layout=True)
        call.bound = {
            name: value for name, value in call.bound.items() if name not in ("device", "pin_memory", "requires_grad")
        }
        values = [*call.bound.values(), *call.rest]
        creation = rule.family in ("creation", "random") and not any(isinstance(v.kind, Tensor) for v in values)
        kinds = [part for value in values for part in parts_of(value.kind)]
        if (creation and id(node) in self.script.host_sites) or (
            any(isinstance(kind, Host) for kind in kinds) and not any(isinstance(kind, Tensor) for kind in kinds)
        ):
            func = node.func
            if receiver is not None:
                assert isinstance(func, cst.Attribute)
                func = func.with_changes(value=receiver.node)
            return Value(node.with_changes(func=func, args=self.plain_args(node.args)), Host("tensor"))
        call.bound = {name: self.as_array(value) for name, value in call.bound.items()}
        call.rest = [self.as_array(value) for value in call.rest]
        layout = "first"
        if rule.elementwise:
            layout = next((value.layout for value in call.bound.values()), "first")
        else:
            call.bound = {name: self.at_first(value) for name, value in call.bound.items()}
            call.rest = [self.at_first(value) for value in call.rest]
        made = rule.function(call)
        if not isinstance(made, Value):
            made = Value(made, result_kind(rule, call.bound))
        origins = {id(node)} if creation else set()
        for kind in kinds:
            if isinstance(kind, Tensor):
                origins |= kind.origins
        kind = replace(made.kind, origins=frozenset(origins)) if isinstance(made.kind, Tensor) else made.kind
        return Value(made.node, kind, layout)

    def tensor_call(self, api: str, node: cst.Call, base: Value) -> Value:
        """A method of a tensor."""
        method = api.partition(".")[2]
        if api == "Tensor.size" and len(node.args) == 1:
            axis = nodes.literal(node.args[0].value)
            length = self.moved_length(base, axis) if isinstance(axis, int) else None
            if length is not None:
                return length
        if api in RULES:
            return self.apply_rule(RULES[api], api, node, base)
        if api in _PASS_THROUGH:
            return base
        if method in ("to", "type"):
            return self.cast(node, base)
        if method == "item":
            return Value(nodes.call(nodes.expression("{x}.item", x=layouts.first(base))), Number())
        if method == "tolist":
            return Value(nodes.call(nodes.expression("{x}.tolist", x=layouts.first(base))), Items(None, UNKNOWN))
        if method == "numpy":
            return Value(nodes.call("np.asarray", layouts.first(base)), UNKNOWN)
        if method.startswith("new_"):
            raise Unsupported("MIG301", api)
        if method.endswith("_") and f"Tensor.{method[:-1]}" in RULES:
            raise Unsupported("MIG303", f"{api} inside an expression")
        raise Unsupported("MIG301", api)

    def cast(self, node: cst.Call, base: Value) -> Value:
        """`x.to(...)`, `x.type(...)`: devices go, dtypes become astype."""
        node_out, kind = layouts.first(base), base.kind
        assert isinstance(kind, Tensor)
        casted = False
        for arg in node.args:
            value = self.expr(arg.value)
            keyword = arg.keyword.value if arg.keyword else ""
            if isinstance(value.kind, DType) or keyword == "dtype":
                node_out = nodes.expression("{x}.astype({dtype})", x=node_out, dtype=value.node)
                kind, casted = replace(kind, dtype=dtype_kind(value.node)), True
            elif isinstance(value.kind, Tensor):
                node_out = nodes.expression("{x}.astype({y}.dtype)", x=node_out, y=value.node)
                kind, casted = value.kind, True
            elif isinstance(value.kind, TorchName):
                raise Unsupported("MIG302", f"Tensor.{nodes.code(node.func).rpartition('.')[2]}({value.kind.name})")
        return Value(node_out, kind) if casted else base

    def weight_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """What scripts ask of one weight: its size, mostly."""
        attribute = {"numel": "size", "dim": "ndim", "nelement": "size"}.get(func.attr.value)
        if attribute:
            return Value(cst.Attribute(base.node, cst.Name(attribute)), Number())
        raise Unsupported("MIG301", f"Parameter.{func.attr.value}")

    def list_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """`list.append(x)`: what the list holds is remembered."""
        values = [self.expr(arg.value) for arg in node.args]
        kind = base.kind
        assert isinstance(kind, Items)
        added = values[-1].kind if values else UNKNOWN
        if func.attr.value == "extend" and isinstance(added, Items):
            added = added.joined()
        element = added if kind.items == () else join(kind.joined(), added)
        self.bind(func.value, Items(None, element, kind.type))
        args = [arg.with_changes(value=layouts.first(value)) for arg, value in zip(node.args, values, strict=True)]
        return Value(node.with_changes(args=args), UNKNOWN)

    # -- torch names --------------------------------------------------------------------------------------------------

    def torch_call(self, name: str, node: cst.Call) -> Value:
        """A call of a torch function or class by its qualified name."""
        if is_data_api(name):
            return self.data_call(name, node)
        if name in _DEVICE_CALLS:
            for arg in node.args:
                self.expr(arg.value)
            return Value(nodes.expression("jax.default_backend()"), Device())
        if name in _BACKENDS:
            return Value(nodes.expression(_BACKENDS[name]), Number())
        if name in _FUNCTIONAL_LAYERS:
            return self.functional_layer(name, node)
        if name in TABLE:
            return self.construct_layer(name, node)
        special = getattr(self, "torch_" + name.removeprefix("torch.").replace(".", "_"), None)
        if special is not None:
            return special(node)
        if name in LOSSES:
            return self.loss(name, node)
        if name.startswith("torch.optim"):
            return self.optimizer(name, node)  # type: ignore[attr-defined]
        if name == "torch.stack":
            windows = self.windows(node)
            if windows is not None:
                return windows
        if name in DTYPES or name in RULES:
            return self.apply_rule(RULES[name], name, node)
        if name.startswith("torch.nn.") and name.split(".")[-1][:1].isupper():
            raise Unsupported("MIG202", name)
        raise Unsupported("MIG301", name)

    def windows(self, node: cst.Call) -> Value | None:
        """`torch.stack([x[i : i + n] for i in starts])`: windows of one length, taken by one index."""
        parts = node.args[0].value if len(node.args) == 1 else None
        if not isinstance(parts, cst.ListComp) or parts.for_in.ifs or parts.for_in.inner_for_in:
            return None
        variable, element = parts.for_in.target, parts.elt
        if not isinstance(variable, cst.Name) or not isinstance(element, cst.Subscript) or len(element.slice) != 1:
            return None
        index = element.slice[0].slice
        if not isinstance(index, cst.Slice) or index.step is not None or index.lower is None or index.upper is None:
            return None
        lower, upper = _without(index.lower, variable.value), _without(index.upper, variable.value)
        if lower is None or upper is None or variable.value in nodes.loads(element.value):
            return None
        source, starts = self.expr(element.value), self.expr(parts.for_in.iter)
        if not isinstance(source.kind, Tensor) or not isinstance(starts.kind, Tensor):
            return None
        upper = self.node(upper)
        bounds = [upper] if nodes.is_literal(lower, 0) else [self.node(lower), upper]
        offsets = nodes.call("jnp.arange", *bounds)
        made = nodes.expression("{x}[{i}[:, None] + {o}]", x=source.node, i=starts.node, o=offsets)
        return Value(made, Tensor(source.kind.dtype, 2 if source.kind.rank == 1 else -1))

    def data_call(self, name: str, node: cst.Call) -> Value:
        """Data loading stays torch, and so do the tensors that it is fed with."""
        args = []
        for arg in node.args:
            value = self.expr(arg.value)
            self.sink(value.kind)
            self.keep(arg.value)
            args.append(arg.with_changes(value=arg.value if isinstance(value.kind, Tensor) else layouts.first(value)))
        func = node.func
        what = "loader" if name.endswith("DataLoader") else "data"
        if name.startswith("torchvision.utils"):
            what = "tensor"
        return Value(node.with_changes(func=func, args=args), Host(what))

    def sink(self, kind: Kind) -> None:
        for part in parts_of(kind):
            if isinstance(part, Tensor):
                self.script.host_sites |= part.origins

    def keep(self, node: Expr) -> None:
        """Batches of a loader that torch code uses are not converted where they are bound."""
        for name in nodes.loads(node):
            kind = self.kind_of_name(name)
            if isinstance(kind, Host) and kind.origin:
                self.script.kept.add(kind.origin)

    def host_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A method of what stays torch; `.to(device)` is where a batch enters JAX."""
        kind, method = base.kind, func.attr.value
        assert isinstance(kind, Host)
        if kind.what in ("tensor", "batch") and method in ("to", "cuda") and not self.stays_torch:
            array = Value(nodes.call("jnp.asarray", base.node), Tensor())
            return self.cast(node, array) if method == "to" else array
        result: Kind = Host("data")
        if kind.what in ("tensor", "batch"):
            numeric = method in ("item", "size", "dim", "numel", "tolist", "numpy")
            result = UNKNOWN if numeric else Host("tensor", kind.origin if method in RULES else 0)
            if method == "next":
                result = Host("batch", id(node))
        if method in ("next", "__next__"):
            result = Host("batch", id(node))
        if kind.what == "tensor" and kind.origin and method not in ("size", "item", "dim", "to"):
            self.script.kept.add(kind.origin)
        args = self.plain_args(node.args)
        return Value(node.with_changes(func=func.with_changes(value=base.node), args=args), result)

    stays_torch = False

    # -- layers -------------------------------------------------------------------------------------------------------

    def construct_layer(self, name: str, node: cst.Call) -> Value:
        """A torch layer: its Flax constructor, its weights, its layout."""
        layer = TABLE[name]
        call = self.bind_call(name, linen.layer_signature(layer), node.args)
        for parameter, value in call.bound.items():
            self.note_type(value.node, linen.ARGUMENT_TYPES.get(parameter, ""))
        if layer.trains and not self.cls:
            raise Unsupported("MIG201", f"{name} outside a module class has no train mode to follow")
        asked = self.asked_initializers(name)
        value = linen.construct(layer, call, asked)
        if self.cls:
            facts = self.script.classes[self.cls]
            facts.own_trains |= layer.trains
            facts.own_stats |= any(weight.collection == "batch_stats" for weight in layer.weights)
            if layer.draws:
                facts.own_draws.add("dropout")
        self.unit.snippets |= {snippet for snippet in layer.snippets if snippet in nodes.code(value.node)}
        return value

    def asked_initializers(self, name: str) -> Mapping[str, Expr]:
        """Initialisers that `apply(init_fn)` gives the layers of this class: torch weight -> expression."""
        facts = self.script.classes.get(self.cls)
        return facts.initializers.get(name, {}) if facts else {}

    def functional_layer(self, name: str, node: cst.Call) -> Value:
        """Pooling functions: the same entry as their layers, called at once."""
        layer = TABLE[_FUNCTIONAL_LAYERS[name]]
        parameters = (Parameter("input"), *linen.layer_signature(layer))
        call = self.bind_call(name, parameters, node.args, keep_layout=True)
        made = linen.construct(layer, call, {})
        assert isinstance(made.kind, Module) and isinstance(made.node, cst.Call)
        entered = layouts.enter(self.as_array(call.value("input")), made.kind)
        function, *arguments = made.node.args  # partial(function, ...)
        result = cst.Call(function.value, [cst.Arg(entered.node), *arguments])
        return layouts.leave(made.kind, result, entered)

    def layer_call(self, node: cst.Call, callee: Value, kind: Module) -> Value:
        """A call of a submodule."""
        if kind.entry == "mixed":
            raise Unsupported(
                "MIG201", f"{nodes.code(node.func)} holds layers that want their channels in different places"
            )
        if len(node.args) != 1 or node.args[0].star:
            args = self.array_args(node.args)
            return Value(node.with_changes(func=callee.node, args=args), UNKNOWN if len(args) != 1 else Tensor())
        entered = layouts.enter(self.array(node.args[0].value), kind)
        made = node.with_changes(func=callee.node, args=[node.args[0].with_changes(value=entered.node, keyword=None)])
        value = layouts.leave(kind, made, entered)
        user = [cls for option in kind.options if isinstance(option, ClassNode) for cls in (option.cls,)]
        return Value(value.node, self.forward_kind(user, entered.kind)) if user else value

    def forward_kind(self, classes: Sequence[str], argument: Kind) -> Kind:
        """What `forward` of user classes returns; the argument is remembered as one that it gets."""
        result: Kind = Never()
        for cls in classes:
            facts = self.script.functions.get(f"{cls}.forward")
            if facts is None:
                return UNKNOWN
            names = [p.name.value for p in facts.node.params.params][1:]
            if names:
                merge(facts.params, names[0], argument)
            result = join(result, facts.returns)
        return UNKNOWN if isinstance(result, Never) else result

    def loss(self, name: str, node: cst.Call) -> Value:
        """A loss module: the function that it stands for."""
        rule = RULES[LOSSES[name]]
        parameters = [p for p in rule.parameters if p.name not in ("input", "target")]
        if name == "torch.nn.CrossEntropyLoss":
            order = ("weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
            parameters.sort(key=lambda p: order.index(p.name))
        call = self.bind_call(name, parameters, node.args)
        call.bound = {
            "input": Value(cst.Name("outputs"), Tensor("float")),
            "target": Value(cst.Name("targets"), Tensor()),
            **call.bound,
        }
        call.defaults = {p.name: p.default for p in rule.parameters}
        made = rule.function(call)
        body = made.node if isinstance(made, Value) else made
        if isinstance(body, cst.Call) and [nodes.code(arg.value) for arg in body.args[:2]] == ["outputs", "targets"]:
            if len(body.args) == 2:
                return Value(body.func, Loss())
            bound = nodes.call("partial", body.func)
            return Value(bound.with_changes(args=[*bound.args, *body.args[2:]]), Loss())
        return Value(nodes.expression("lambda outputs, targets: {body}", body=body), Loss())

    # -- names with a meaning of their own ----------------------------------------------------------------------------

    def torch_autograd_Variable(self, node: cst.Call) -> Value:
        return self.expr(node.args[0].value)

    def torch_is_tensor(self, node: cst.Call) -> Value:
        return Value(nodes.call("isinstance", self.node(node.args[0].value), nodes.expression("jax.Array")), Number())

    def torch_save(self, node: cst.Call) -> Value:
        """The same file, holding Flax's msgpack."""
        what, where = self.expr(node.args[0].value), self.node(node.args[1].value)
        made = nodes.expression(
            "Path({where}).write_bytes(serialization.to_bytes({what}))", where=where, what=what.node
        )
        return Value(made, UNKNOWN)

    def torch_load(self, node: cst.Call) -> Value:
        path = self.node(node.args[0].value)
        made = nodes.expression("serialization.msgpack_restore(Path({path}).read_bytes())", path=path)
        return Value(made, Plain("checkpoint"))

    # -- self ---------------------------------------------------------------------------------------------------------

    def self_call(self, node: cst.Call, func: cst.Attribute, kind: SelfModule) -> Value:
        """`self.x(...)` in a module class: a submodule, a method, or something inherited from nn.Module."""
        facts = self.script.classes[kind.cls]
        attribute = func.attr.value
        known = facts.attributes.get(attribute)
        if known is not None:
            return self.value_call(node, self.self_attribute(func, kind, attribute))
        qualname = f"{kind.cls}.{attribute}"
        if qualname in self.script.functions:
            return self.own_method(node, func, qualname)
        if attribute in (
            "parameters",
            "named_parameters",
            "modules",
            "named_modules",
            "state_dict",
            "to",
            "cuda",
            "apply",
        ):
            raise Unsupported("MIG301", f"nn.Module.{attribute} inside a module")
        return Value(node.with_changes(func=func, args=self.array_args(node.args)), UNKNOWN)

    def own_method(self, node: cst.Call, func: cst.Attribute, qualname: str) -> Value:
        """Another method of the same module: what it is called with is what its parameters are."""
        facts = self.script.functions[qualname]
        args = []
        names = [p.name.value for p in facts.node.params.params][1:]
        for number, arg in enumerate(node.args):
            value = self.array(arg.value)
            name = arg.keyword.value if arg.keyword else names[number] if number < len(names) and not arg.star else ""
            if name:
                merge(facts.params, name, value.kind)
            args.append(arg.with_changes(value=layouts.first(value)))
        made_func = func.with_changes(attr=cst.Name("__call__")) if func.attr.value == "forward" else func
        made = node.with_changes(func=made_func, args=args)
        if func.attr.value == "forward":
            made = node.with_changes(func=cst.Name("self"), args=args)
        return Value(made, UNKNOWN if isinstance(facts.returns, Never) else facts.returns)


def _without(node: Expr, name: str) -> Expr | None:
    """What is left of a sum when one occurrence of a plain name is taken out; None where it is no such sum."""
    if isinstance(node, cst.Name) and node.value == name:
        return cst.Integer("0")
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Add):
        return None
    for side, other in (("left", node.right), ("right", node.left)):
        if name in nodes.loads(other):
            continue
        left = _without(getattr(node, side), name)
        if left is not None:
            return other if nodes.is_literal(left, 0) else node.with_changes(**{side: left})
    return None


def parts_of(kind: Kind) -> list[Kind]:
    """A kind and, for lists and tuples, what they hold."""
    if isinstance(kind, Items):
        inner = kind.items if kind.items is not None else (kind.element,)
        return [part for item in inner for part in parts_of(item)]
    return [kind]
