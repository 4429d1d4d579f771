"""Calls of torch functions and tensor methods: which rule serves them."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.apis import is_data_api
from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    UNKNOWN,
    Device,
    Function,
    Host,
    Items,
    Kind,
    Model,
    Module,
    Never,
    Number,
    PackedElements,
    Plain,
    Tensor,
    join,
)
from migrate.known.weight_kinds import Weight
from migrate.layers.refused import REFUSED
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import at_first
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.expressions.chosen_options import by_chosen_option
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.expressions.known_to_jit import need_value, values_needed
from migrate.lowering.expressions.made_outside import COPIES, OF_LISTS, MadeOutside
from migrate.lowering.expressions.numbers_told import number_told
from migrate.lowering.expressions.starting_empty import starts_empty
from migrate.lowering.expressions.typed_tensors import TypedTensors, tensor_type
from migrate.lowering.expressions.wide_numbers import narrow
from migrate.lowering.host.distributed import Distributed
from migrate.lowering.host.metrics import Metrics
from migrate.lowering.modules.layers import FUNCTIONAL_LAYERS
from migrate.lowering.modules.losses import Losses
from migrate.lowering.modules.pretrained_tables import PretrainedTables
from migrate.lowering.optimizers.chosen_optimizers import ChosenOptimizers
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.machine import DEVICES, QUERIES, WRAPPERS, splits_batches
from migrate.optimizers import COMPOSED, LOSSES, SCHEDULES
from migrate.rules.catalogue import RULES
from migrate.rules.creation import DTYPES
from migrate.rules.limits import refuse_by_kind
from migrate.rules.rule import Call, Rule, Value, result_kind, signature
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

# arguments that say where an array lies
_LEFT_OUT = ("device", "pin_memory", "requires_grad", "memory_format")
_PASS_THROUGH = (
    "Tensor.cuda",
    "Tensor.cpu",
    "Tensor.requires_grad_",
    "Tensor.retain_grad",
    "Tensor.pin_memory",
    "Tensor.share_memory_",
)
# what may be done to a weight whose axes are not in torch's order
_REDUCTIONS = (
    "norm", "vector_norm", "sum", "mean", "std", "var", "min", "max", "amin", "amax", "prod", "any", "all", "median",
    "numel",
)  # fmt: skip
_RESHAPES = ("view", "reshape", "flatten", "ravel")
_ALIKE = ("zeros_like", "ones_like", "full_like")
_JOINING = ("cat", "concat", "concatenate")
_BETWEEN = ("add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv", "maximum", "minimum")  # where no shape broadcasts


class TorchCalls(Losses, PretrainedTables, ChosenOptimizers, Distributed, Metrics, TypedTensors, MadeOutside, Binding):
    """Rules, and names with a meaning of their own."""

    def torch_call(self, name: str, node: cst.Call) -> Value:
        """A call of a torch function or class by its qualified name."""
        if name == "torch.utils.data.DistributedSampler":
            return self.data_call(name, self.whole_sampler(node))
        if is_data_api(name):
            return self.data_call(name, node)
        if name in WRAPPERS:
            return self.wrapped(name, node)
        if name in DEVICES:
            for arg in node.args:
                self.expr(arg.value)
            return Value(nodes.expression("jax.default_backend()"), Device())
        if name in QUERIES:
            return Value(nodes.expression(QUERIES[name]), Number())
        if tensor_type(name):
            return self.copied_outside(node, self.typed_tensor(name, node))
        if name in FUNCTIONAL_LAYERS:
            return self.as_mean(name, node) or self.functional_layer(name, node)
        if name in TABLE:
            return self.construct_layer(name, node)
        special = getattr(self, "torch_" + name.removeprefix("torch.").replace(".", "_"), None)
        if special is not None:
            return special(node)
        if name in LOSSES:
            return self.loss(name, node)
        if name in SCHEDULES or name in COMPOSED:
            return self.scheduler(name, node)
        if name.startswith("torch.optim"):
            return self.optimizer(name, node)
        windows = self.windows(node) if name == "torch.stack" else None
        if windows is not None:
            return windows
        if name in DTYPES or name in RULES:
            chosen = by_chosen_option(node)
            made = self.apply_rule(RULES[name], name, node) if chosen is None else self.expr(chosen)
            return self.copied_outside(node, made) if name in OF_LISTS else made
        if name.startswith("torch.nn.") and name.split(".")[-1][:1].isupper():
            raise Unsupported("MIG202", f"{name}: {REFUSED[name]}" if name in REFUSED else name)
        raise Unsupported("MIG301", name)

    def as_mean(self, name: str, node: cst.Call) -> Value | None:
        """A pooling to one element, for which there is a rule; None for others."""
        if name not in RULES or len(node.args) != 2 or any(arg.star for arg in node.args):
            return None
        size = nodes.literal(node.args[1].value)
        lengths = size if isinstance(size, tuple) else (size,)
        return self.apply_rule(RULES[name], name, node) if all(length == 1 for length in lengths) else None

    def torch_nn_utils_rnn_pad_packed_sequence(self, node: cst.Call) -> Value:
        """Without `total_length` its shape depends on the data."""
        name = "torch.nn.utils.rnn.pad_packed_sequence"
        if not self.bind_call(name, RULES[name].parameters, node.args).has("total_length"):
            shape = "is as long as the array that was packed, where torch ends at the longest sequence"
            self.unit.report(Unsupported("MIG506", f"`{nodes.code(node)}` {shape}"), node)
        return self.apply_rule(RULES[name], name, node)

    def torch_sparse_FloatTensor(self, node: cst.Call) -> Value:
        """The old name of a constructor."""
        return self.apply_rule(RULES["torch.sparse_coo_tensor"], "torch.sparse_coo_tensor", node)

    def wrapped(self, name: str, node: cst.Call) -> Value:
        """`torch.compile(model)`, `DataParallel(model)`: the model or the function itself."""
        value = self.expr(node.args[0].value) if node.args else Value(node)
        self.script.parallel |= splits_batches(name)
        if not isinstance(value.kind, Model | Module | Function):
            raise Unsupported("MIG302", f"{name} of what is no known model or function")
        for arg in node.args[1:]:
            self.expr(arg.value)
        return value

    def apply_rule(self, rule: Rule, api: str, node: cst.Call, receiver: Value | None = None) -> Value:
        """A call that a rule serves. Only torch's own data: it stays torch."""
        call = self.bind_call(api, rule.parameters, node.args, receiver, keep_layout=True)
        call.bound = {name: value for name, value in call.bound.items() if name not in _LEFT_OUT}
        values = [*call.bound.values(), *call.rest]
        generated = any(value.kind == Host("generator") for value in values)
        if generated and (self.under_jit or self.context not in HOST_CONTEXTS):
            raise Unsupported("MIG302", f"{api}: a generator of its own")
        creation = rule.family in ("creation", "random") and not any(isinstance(v.kind, Tensor) for v in values)
        kinds = [part for value in values for part in kinds_in(value.kind)]
        feeds = id(node) in self.script.host_sites and not self.under_jit
        if (creation and (generated or feeds)) or (
            any(isinstance(kind, Host) for kind in kinds) and not any(isinstance(kind, Tensor) for kind in kinds)
        ):
            if rule.draws and self.under_jit:
                raise Unsupported("MIG302", f"{api} of what stays torch's, where jit traces: it would draw once")
            func = node.func
            if receiver is not None:
                assert isinstance(func, cst.Attribute)
                func = func.with_changes(value=receiver.node)
            return Value(node.with_changes(func=func, args=self.torch_args(node.args)), Host("tensor"))
        if any(isinstance(kind, PackedElements) for kind in kinds):
            return self.loss_of_rows(api, node)
        for value in values:
            self.refuse_torch(value)
        weights = [kind for kind in kinds if isinstance(kind, Weight)]
        moved = any(not weight.axes for weight in weights)
        whole = moved and self.of_all_elements(rule, api, node, call)
        if weights:
            call.bound = {name: _as_tensor(value) for name, value in call.bound.items()}
        call.bound = {name: self.as_array(value) for name, value in call.bound.items()}
        call.rest = [self.as_array(value) for value in call.rest]
        if creation or any(isinstance(kind, Tensor) for kind in kinds):
            call.bound = {name: narrow(value, kinds, self.env.definitions) for name, value in call.bound.items()}
        layout = "first"
        if rule.elementwise:
            layout = next((value.layout for value in call.bound.values()), "first")
        else:
            call.bound = {name: at_first(value) for name, value in call.bound.items()}
            call.rest = [at_first(value) for value in call.rest]
        call.bound = {
            name: self.at_full_precision(api, value) if number == 0 else value
            for number, (name, value) in enumerate(call.bound.items())
        }
        for value in values_needed(rule, call.bound, call.rest):
            need_value(self, value.node)
        snippets: list[str] = []
        call.use_snippet = snippets.append
        call.beside_nothing = api.rpartition(".")[2] in _JOINING and starts_empty(self, node)
        if api in COPIES:
            data = call.bound["data"]
            call.bound["data"] = replace(data, node=self.with_numbers_of_unknown(data.node, data.kind))
        made = self.value_by_rule(rule, call)
        if snippets:
            made = replace(made, node=with_snippets(self, made.node, snippets))
        origins = {id(node)} if creation else set()
        for kind in kinds:
            if isinstance(kind, Tensor):
                origins |= kind.origins
        kind = replace(made.kind, origins=frozenset(origins)) if isinstance(made.kind, Tensor) else made.kind
        if api == "torch.tensor" and self.may_have_gradients(node.args[0].value, call.bound["data"].kind):
            made = replace(made, node=nodes.call("jax.lax.stop_gradient", made.node))  # it copies values alone
        return Value(made.node, Weight() if moved and not whole else kind, layout)

    def may_have_gradients(self, data: Expr, kind: Kind) -> bool:
        """Whether what `torch.tensor` copies, inside code that gradients are taken of, may come from weights: tensors,
        or lists of such that a loss has filled."""
        while isinstance(kind, Items):
            kind = kind.joined()
        if isinstance(kind, Number | Never | Plain) or not self.under_jit:
            return False
        names = set(usage.loads(data)) - {"self"}
        calling = any(isinstance(self.kind_of(call.func), Model) for call in usage.calls(data))
        if self.region is not None:
            return calling or bool(names & self.region.inside)
        if self.facts is None or self.facts.node.name.value in self.script.computed_again:
            return calling
        made = usage.stores(self.facts.node.body)
        return calling or isinstance(kind, Tensor) or bool(names & set(made))

    def value_by_rule(self, rule: Rule, call: Call) -> Value:
        """What a rule makes of its arguments. One that it writes more than once, and that calls a module or a function
        of the script, is computed before the statement: a module draws and changes its state at each call."""
        call.hold = None if self.nested or self.conditional else self.held
        perhaps = next((name for name in call.bound if not rule.draws and call.may_be_none(name)), None)
        if perhaps is not None:
            return self.with_or_without(rule, call, perhaps)
        refuse_by_kind(call)
        made = rule.function(call)
        calling = {name: value.node for name, value in call.bound.items() if _calls_more(value.node)}
        text = nodes.code(made.node if isinstance(made, Value) else made) if calling else ""
        repeated = [name for name, node in calling.items() if text.count(nodes.code(node)) > 1]
        if repeated and not self.nested and not self.conditional and not rule.draws:
            call.bound = {
                name: replace(value, node=self.held(value.node)) if name in repeated else value
                for name, value in call.bound.items()
            }
            made = rule.function(call)
        return made if isinstance(made, Value) else Value(made, result_kind(rule, call.bound))

    def with_or_without(self, rule: Rule, call: Call, name: str) -> Value:
        """A call with an argument that may be None, which torch takes for one that is left out."""
        call.name(name)
        given = call.bound[name]
        kind = replace(given.kind, optional=False) if isinstance(given.kind, Tensor) else Tensor()
        without = {other: value for other, value in call.bound.items() if other != name}
        there = {**call.bound, name: replace(given, kind=kind)}
        one, other = (self.value_by_rule(rule, replace(call, bound=bound)) for bound in (there, without))
        if _takes_none(one.node, other.node, given.node):
            return one
        text = "{there} if {given} is not None else {without}"
        made = nodes.expression(text, there=one.node, given=given.node, without=other.node)
        return Value(nodes.parenthesized(made), join(one.kind, other.kind))

    @staticmethod
    def of_all_elements(rule: Rule, api: str, node: cst.Call, call: Call) -> bool:
        """Whether what a rule makes of a weight, whose axes are not in torch's order, is of all its elements together;
        not so where it is of each by itself. Raises Unsupported where the order matters."""
        method = api.rpartition(".")[2]
        if method in _REDUCTIONS and not {"dim", "axis", "keepdim", "other"} & set(call.bound):
            return True
        given = [nodes.code(arg.value) for arg in node.args]
        flat = given in (["-1"], ["(-1,)"]) if method in _RESHAPES else False
        flat |= not given and method in ("flatten", "ravel")
        kinds = [value.kind for name, value in call.bound.items() if name not in ("alpha", "value", "weight")]
        between = all(isinstance(kind, Number) or (isinstance(kind, Weight) and not kind.axes) for kind in kinds)
        if method in _BETWEEN and between:
            return False
        if rule.elementwise or flat or method in _ALIKE or (method in _JOINING and "dim" not in call.bound):
            return False
        raise Unsupported("MIG301", f"{api} of a weight of the pytree, whose axes are not in torch's order")

    def tensor_call(self, api: str, node: cst.Call, base: Value) -> Value:
        """A method of a tensor."""
        method = api.partition(".")[2]
        if api == "Tensor.size" and len(node.args) == 1:
            axis = nodes.literal(node.args[0].value)
            length = layouts.length(base, axis) if isinstance(axis, int) else None
            if length is not None:
                return length
        if api in RULES and not _in_place(api):
            return self.apply_rule(RULES[api], api, node, base)
        if api in _PASS_THROUGH:
            return base
        if method in ("to", "type"):
            return self.cast(node, base)
        if method == "is_contiguous":
            return Value(nodes.expression("True"), Number())  # XLA lays arrays out itself
        if method == "register_hook":
            raise Unsupported(
                "MIG302", "Tensor.register_hook: a gradient is changed on its way by jax.custom_vjp alone"
            )
        if method in ("item", "tolist", "numpy") and self.under_jit:
            if method == "item":
                return number_told(self, node, base)
            if method == "numpy" and isinstance(base.kind, Tensor):  # torch has it of what has no gradient alone
                return base
            raise Unsupported("MIG307", f".{method}() of a tensor whose values jit does not know")
        self.unit.reads_values |= method in ("item", "tolist", "numpy")
        if method == "item":
            return Value(nodes.call(nodes.expression("{x}.item", x=layouts.first(base))), Number())
        if method == "tolist":
            return Value(nodes.call(nodes.expression("{x}.tolist", x=layouts.first(base))), Items(None, UNKNOWN))
        if method == "numpy":
            return Value(nodes.call("np.asarray", layouts.first(base)), UNKNOWN)
        in_place = in_place_rule(api)
        if in_place is None:
            raise Unsupported("MIG301", api)
        assert isinstance(node.func, cst.Attribute)
        if isinstance(node.func.value, cst.Name) and node.func.value.value in self.last_reads and not self.nested:
            self.own(node.func.value)
        elif not self.fresh(node.func.value):
            raise Unsupported("MIG303", f"{api} inside an expression")
        return self.apply_rule(in_place, api, node, base)

    def in_place_value(self, node: cst.Call, method: str, base: Value) -> Value:
        """What a method in place makes of its tensor."""
        api = f"Tensor.{method}"
        rule = in_place_rule(api)
        if rule is None:
            raise Unsupported("MIG301", api)
        return self.apply_rule(rule, api, node, base)

    def distribution_method(self, node: cst.Call, method: str, base: Value) -> Value:
        """A method of an object of torch.distributions."""
        api = f"torch.distributions.Distribution.{method}"
        if api not in RULES:
            raise Unsupported("MIG301", api)
        return self.apply_rule(RULES[api], api, node, base)

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
        if lower is None or upper is None or variable.value in usage.loads(element.value):
            return None
        source, starts = self.expr(element.value), self.expr(parts.for_in.iter)
        if not isinstance(source.kind, Tensor) or not isinstance(starts.kind, Tensor):
            return None
        upper = self.node(upper)
        bounds = [upper] if nodes.is_literal(lower, 0) else [self.node(lower), upper]
        offsets = nodes.call("jnp.arange", *bounds)
        made = nodes.expression("{x}[{i}[:, None] + {o}]", x=source.node, i=starts.node, o=offsets)
        return Value(made, Tensor(source.kind.dtype, 2 if source.kind.rank == 1 else -1))

    def torch_nn_parallel_data_parallel(self, node: cst.Call) -> Value:
        """`data_parallel(module, x, devices)`: the module called with the whole batch, as for `DataParallel`."""
        if len(node.args) < 2 or any(arg.star or arg.keyword for arg in node.args[:2]):
            raise Unsupported("MIG302", "torch.nn.parallel.data_parallel: the module and its input by position only")
        others = node.args[2:]
        placing = all(arg.keyword.value in ("device_ids", "output_device") if arg.keyword else True for arg in others)
        module, inputs = (arg.value for arg in node.args[:2])
        if not placing or len(others) > 2 or any(arg.star for arg in others):
            raise Unsupported("MIG302", "torch.nn.parallel.data_parallel: only devices are left out")
        if not isinstance(self.expr(module).kind, Model | Module) or not isinstance(self.expr(inputs).kind, Tensor):
            raise Unsupported("MIG302", f"torch.nn.parallel.data_parallel: {nodes.code(module)}({nodes.code(inputs)})")
        return self.expr(cst.Call(module, [cst.Arg(inputs)]))

    def torch_from_numpy(self, node: cst.Call) -> Value:
        """An array of numpy's becomes one of JAX's wherever it comes from, unless it feeds torch's data loading."""
        value = self.expr(node.args[0].value)
        if isinstance(value.kind, Host) and id(node) not in self.script.host_sites:
            return Value(nodes.call("jnp.asarray", value.node), Tensor(origins=frozenset({id(node)})))
        return self.copied_outside(node, self.apply_rule(RULES["torch.from_numpy"], "torch.from_numpy", node))

    def torch_autograd_Variable(self, node: cst.Call) -> Value:
        """`Variable(x)` has been `x` since torch 0.4, and takes tensors alone: what is not known is one there."""
        value = self.expr(node.args[0].value)
        return Value(nodes.call("jnp.asarray", value.node), Tensor()) if type(value.kind) is Kind else value

    def torch_testing_assert_close(self, node: cst.Call) -> Value:
        """numpy's test, by the same formula; torch's limits for float32 where none are given."""
        parameters = signature(
            "actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True, "
            "check_dtype=True, check_layout=True, check_stride=False, msg=None"
        )
        call = self.bind_call("torch.testing.assert_close", parameters, node.args)
        if self.under_jit:
            raise Unsupported("MIG307", "torch.testing.assert_close of tensors whose values jit does not know")
        call.only("msg", None)
        limits = {"rtol": nodes.expression("1.3e-6"), "atol": nodes.expression("1e-5")} | call.given("rtol", "atol")
        equal_nan = {"equal_nan": call.node("equal_nan")}
        sides = (call.node("actual"), call.node("expected"))
        return Value(nodes.call("np.testing.assert_allclose", *sides, **limits, **equal_nan), Plain("None"))

    def torch_set_printoptions(self, node: cst.Call) -> Value:
        """numpy's options, by which JAX shows its arrays."""
        parameters = signature(
            "precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None"
        )
        call = self.bind_call("torch.set_printoptions", parameters, node.args)
        call.only("profile", None)
        call.only("sci_mode", None, False)
        plain = {"suppress": nodes.expression("True")} if nodes.is_literal(call.node("sci_mode"), False) else {}
        given = call.given("precision", "threshold", "edgeitems", "linewidth")
        return Value(nodes.call("np.set_printoptions", **given, **plain), Plain("None"))

    def torch_is_tensor(self, node: cst.Call) -> Value:
        """`isinstance(x, jax.Array)`, which numpy arrays are not."""
        entry = self.test_of_entry(node)
        if entry is not None:
            return entry
        return Value(nodes.call("isinstance", self.node(node.args[0].value), nodes.expression("jax.Array")), Number())


def _as_tensor(value: Value) -> Value:
    return replace(value, kind=Tensor("float")) if isinstance(value.kind, Weight) else value


def _calls_more(node: Expr) -> bool:
    """Whether an expression calls more than functions of libraries and methods of arrays."""
    return any(
        isinstance(call.func, cst.Name) or (nodes.dotted(call.func) or "").startswith("self.") or _is_apply(call.func)
        for call in usage.calls(node)
    )


def _is_apply(func: Expr) -> bool:
    return isinstance(func, cst.Attribute) and func.attr.value == "apply"


def _takes_none(there: Expr, without: Expr, given: Expr) -> bool:
    """Whether two calls differ in an argument alone that one leaves out: its default is None there as in torch."""
    if not isinstance(there, cst.Call) or not isinstance(without, cst.Call):
        return nodes.code(there) == nodes.code(without)
    left = [arg for arg in there.args if nodes.code(arg.value) != nodes.code(given)]
    kept = [(arg.keyword and arg.keyword.value, nodes.code(arg.value)) for arg in left]
    others = [(arg.keyword and arg.keyword.value, nodes.code(arg.value)) for arg in without.args]
    return nodes.code(there.func) == nodes.code(without.func) and kept == others


def _in_place(api: str) -> bool:
    return api.endswith("_") and not api.endswith("__")


def in_place_rule(api: str) -> Rule | None:
    """The rule of a method that changes its tensor: its own, or that of the method that makes a new one."""
    return (RULES.get(api) or RULES.get(api[:-1])) if _in_place(api) else None


def _without(node: Expr, name: str) -> Expr | None:
    """What is left of a sum when one occurrence of a plain name is taken out; None where it is no such sum."""
    if isinstance(node, cst.Name) and node.value == name:
        return cst.Integer("0")
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Add):
        return None
    for side, other in (("left", node.right), ("right", node.left)):
        if name in usage.loads(other):
            continue
        left = _without(getattr(node, side), name)
        if left is not None:
            return other if nodes.is_literal(left, 0) else node.with_changes(**{side: left})
    return None
