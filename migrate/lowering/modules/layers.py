"""Layers: their constructors, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode, LayerNode
from migrate.known.facts import ClassFacts
from migrate.known.kinds import (
    Items,
    Kind,
    Module,
    Never,
    Number,
    Packed,
    PackedElements,
    join,
)
from migrate.known.script import INLINE, layers_in
from migrate.layers.layer import Layer
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names, placed
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.known_to_jit import need_value
from migrate.lowering.expressions.packed_elements import of_each_row
from migrate.lowering.initial.filled_last import is_filled_later
from migrate.lowering.initial.initializers_of_flax import completed, in_order_of
from migrate.lowering.models.precision import CASTING
from migrate.lowering.modules.counts import with_counts
from migrate.lowering.modules.layer_weights import smallest_input
from migrate.lowering.modules.mixed_rows import note_mixed_lists
from migrate.lowering.modules.rows_of_tuples import result_of_row
from migrate.lowering.modules.user_modules import UserModules
from migrate.rules.rule import Call, Parameter, Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.targets import linen
from migrate.targets.weights import lengths, torch_lengths, wrapped_layer

FUNCTIONAL_LAYERS = {
    "torch.nn.functional.max_pool1d": "torch.nn.MaxPool1d",
    "torch.nn.functional.max_pool2d": "torch.nn.MaxPool2d",
    "torch.max_pool2d": "torch.nn.MaxPool2d",
    "torch.nn.functional.max_pool3d": "torch.nn.MaxPool3d",
    "torch.nn.functional.avg_pool1d": "torch.nn.AvgPool1d",
    "torch.nn.functional.avg_pool2d": "torch.nn.AvgPool2d",
    **{f"torch.nn.functional.adaptive_max_pool{n}d": f"torch.nn.AdaptiveMaxPool{n}d" for n in (1, 2, 3)},
    **{f"torch.nn.functional.adaptive_avg_pool{n}d": f"torch.nn.AdaptiveAvgPool{n}d" for n in (1, 2, 3)},
}


class Layers(UserModules):
    """Layers of torch's: constructors and calls."""

    def with_one_size(self, name: str, node: cst.Call) -> cst.Call:
        """`nn.Linear(*shape, 64)` with the one size that there is in a shape: a statement before it says so."""
        if name != "torch.nn.Linear" or [arg.star for arg in node.args] != ["*", ""] or node.args[1].keyword:
            return node
        size = nodes.name(usage.unused_name("in_features", {*self.unit.taken, *usage.stores(self.before)}))
        self.before.append(nodes.statement("({size},) = {x}", size=size, x=self.expr(node.args[0].value).node))
        self.env.kinds[size.value] = Number()
        return node.with_changes(args=[node.args[0].with_changes(star="", value=size), node.args[1]])

    def construct_layer(self, name: str, node: cst.Call) -> Value:
        """A torch layer: its Flax constructor, its weights, its layout."""
        layer, node = TABLE[name], self.with_one_size(name, self.without_defaults(node))
        path, self.making = self.making, "" if layer.wraps else self.making
        call = self.bind_call(name, linen.layer_signature(layer), node.args)
        self.making = path
        call = with_counts(call, self.blocks[0].statements) if self.blocks else call  # none around a default
        self.refuse_perhaps_none(layer, call)
        for parameter, value in call.bound.items():
            self.note_type(value.node, linen.ARGUMENT_TYPES.get(parameter, ""))
        told = self.told_by_input(layer, call)
        if layer.wraps:
            self.refuse_initial(layer, call)
        trains = linen.trains(layer, call)
        facts = self.script.classes.get(self.cls)
        elsewhere = (self.cls, name) in self.script.called_first
        asked = self.asked_for(layer, call)
        apart = linen.started_apart(layer, call, asked)
        if apart:
            names = ", ".join(weight.torch for weight in apart)
            self.unit.report(Unsupported("MIG204", f"{names} of a {name} start differently"), node)
        value = linen.construct(layer, call, asked, elsewhere)
        if self.context == "forward" and (layer.weights or trains):
            state = "with new weights" if layer.weights else "in train mode"
            raise Unsupported("MIG201", f"{name} is made in a forward pass, {state} at each call")
        if facts is not None and f"{self.making}.weight" in facts.stilled:
            value = stilled(value)
        if facts is not None and self.making:
            for weight in layer.weights:
                named = f"{self.making}.{weight.torch}"
                facts.lengths[named], facts.torch_lengths[named] = lengths(weight, call), torch_lengths(weight, call)
            shape = smallest_input(call, value.node)
            facts.smallest |= {} if shape is None else {self.making: shape}
        if trains:
            value = replace(value, node=self.in_mode(value.node, name))
        if facts is not None:
            self.patterns(facts, [call.value(part.argument) for part in layer.parts if part.over])
            facts.own_trains |= trains
            assert isinstance(value.kind, Module)
            weights = [weight for node in value.kind.options for made in layers_in(node) for weight in made.weights]
            kept = any(weight.collection == "batch_stats" for weight in weights)
            own = self.making.startswith("self.") and INLINE not in self.cls
            attribute = self.making.split(".")[1] if own else ""
            facts.own_stats |= kept and not self.script.never_read(attribute)
            if layer.draws and trains:
                facts.found_own_draws.add("dropout")
            value = self.in_precision(value)
        if told in usage.loads(value.node):
            value = replace(value, node=nodes.expression(f"Lazy(lambda {told}: {{made}})", made=value.node))
        return Value(with_snippets(self, value.node, layer.snippets), value.kind)

    def refuse_initial(self, layer: Layer, call: Call) -> None:
        """Declines initial values for a weight that is computed: whether they have an effect goes by torch's form."""
        facts = self.script.classes.get(self.cls)
        wrapped = wrapped_layer(layer, call)
        if facts is not None and "weight" in facts.initializers.get(wrapped.torch, {}):
            raise Unsupported("MIG204", f"initial values of a weight that {layer.torch} computes")

    @staticmethod
    def told_by_input(layer: Layer, call: Call) -> str:
        """The name of the number of inputs where the first input tells it, "" where the script does."""
        if not layer.waits:
            return ""
        name = "inputs"
        while any(name in usage.loads(value.node) for value in call.bound.values()):
            name += "_"
        call.bound = {**call.bound, layer.waits: Value(nodes.name(name))}
        return name

    def asked_for(self, layer: Layer, call: Call | None = None) -> dict[str, Expr]:
        """The initialisers that are asked for the layer being constructed: by `apply(init_fn)`, or by its path."""
        facts = self.script.classes.get(self.cls)
        outside = self.initializers_outside(self.holder, layer) if self.holder else self.built_initializers(layer)
        asked = dict(facts.initializers.get(layer.torch, {}) if facts is not None else outside)
        for weight in layer.weights:
            if weight.asked in self.filling:
                asked[weight.asked] = in_order_of(weight, self.filling[weight.asked])
        weights = layer.weights if call is None else linen.askable_weights(layer, call)
        for weight in {one.asked: one for one in weights}.values():  # one for all rows of a recurrent network
            if weight.asked in asked and weight.initializer:
                default = linen.initializer_default(weight.initializer, layer, call)
                asked[weight.asked] = completed(asked[weight.asked], default)
            if facts is None:
                continue
            making = self.making or self.making_each
            path = f"{making}.{weight.asked}"
            if making and weight.initializer:
                facts.askable[path], facts.askable_as[path] = not weight.moves, weight.initializer
                facts.askable_if[path] = list(self.conditions)
                if path in facts.asked:
                    first, last = facts.asked[path], asked.get(weight.asked)
                    if last is None or not is_filled_later(self.script, facts, path, layer.torch, weight.asked):
                        first, last = last, first
                    usual = linen.initializer_default(weight.initializer, layer, call)
                    asked[weight.asked] = completed(last, completed(first, usual) if first is not None else usual)
                if path in facts.init_paths:
                    asked[weight.asked] = nodes.expression(f"self.{facts.init_paths[path]}")
        return asked

    def in_precision(self, value: Value) -> Value:
        """A layer that autocast runs in lower precision, where its class is called under one."""
        made = value.node
        if self.cls not in self.script.half or not isinstance(made, cst.Call) or nodes.dotted(made.func) not in CASTING:
            return value
        own = nodes.arguments([], {"dtype": nodes.expression("self.dtype")})
        return replace(value, node=made.with_changes(args=[*made.args, *own]))

    @staticmethod
    def patterns(facts: ClassFacts, given: Sequence[Value]) -> None:
        """Attributes that are only patterns of copies have weights in torch that nothing uses, and none in Flax."""
        for value in given:
            name = (nodes.dotted(value.node) or "").removeprefix("self.")
            node = facts.children.get(name)
            if isinstance(node, LayerNode):
                del facts.children[name]
                reason = "of a pattern, whose copies are used"
                facts.buffers |= {f"{name}.{weight.torch}": reason for weight in node.weights}

    def functional_layer(self, name: str, node: cst.Call) -> Value:
        """Pooling functions: the same entry as their layers, called at once."""
        layer = TABLE[FUNCTIONAL_LAYERS[name]]
        parameters = (Parameter("input"), *linen.layer_signature(layer))
        call = self.bind_call(name, parameters, node.args, keep_layout=True)
        for argument, value in call.bound.items():
            if argument != "input":
                need_value(self, value.node)
        made = linen.construct(layer, call, {})
        assert isinstance(made.kind, Module) and isinstance(made.node, cst.Call)
        entered = layouts.enter(self.as_array(call.value("input")), made.kind)
        function, *arguments = made.node.args  # partial(function, ...)
        made_by = with_snippets(self, function.value, layer.snippets)
        result = cst.Call(made_by, [cst.Arg(entered.node), *arguments])
        return layouts.leave(made.kind, result, entered)

    def layer_call(self, node: cst.Call, callee: Value, kind: Module) -> Value:
        """A call of a submodule."""
        self.note_called(node.func)
        if kind.entry == "mixed":
            note_mixed_lists(self.script, self.cls)
            raise Unsupported(
                "MIG201", f"{nodes.code(node.func)} holds layers that want their channels in different places"
            )
        made = _called_alike(kind)
        if made and (TABLE[made[0].torch].call, made[0].returns) != ("input", "tensor"):
            return self.signature_call(node, callee, made)
        user = [option.cls for option in kind.options if isinstance(option, ClassNode)]
        if len(user) == len(kind.options) and (len(node.args) != 1 or node.args[0].star or node.args[0].keyword):
            return self.user_layer_call(node, callee, user)
        self.refuse_more(node, kind)
        taken = self.array(node.args[0].value)
        if isinstance(taken.kind, PackedElements):
            return of_each_row(node, callee.node, kind, taken)
        self.note_place(kind, taken.layout)
        entered = layouts.enter(taken, kind)
        first = cst.Arg(entered.node, comma=node.args[0].comma, whitespace_after_arg=node.args[0].whitespace_after_arg)
        made = node.with_changes(args=[first, *node.args[1:]])
        value = layouts.leave(kind, called(callee.node, made), entered)
        if _is_still(kind):
            value = replace(value, node=nodes.call("jax.lax.stop_gradient", value.node))
        if not user:
            several = result_of_row(kind.options, self.script)
            return self.with_features(value, node.func) if several is None else Value(value.node, several)
        return self.as_decorated(
            Value(value.node, self.forward_kind(user, node.args[0].value, entered.kind)), self.forwards(user)
        )

    @staticmethod
    def refuse_more(node: cst.Call, kind: Module) -> None:
        """Declines a call of a layer with more than its input, such as the `output_size` of a transposed convolution:
        those that have more in Flax are called by their signature."""
        own = [arg for arg in node.args if arg.star != "**"]  # what a forward pass hands on, and is mostly not given
        wrong = [arg for number, arg in enumerate(own) if number or arg.star or arg.keyword]
        names = {arg.keyword.value for arg in wrong if arg.keyword is not None}
        if not own or (wrong and (len(own) > 1 or names != {"input"})):
            told = nodes.code(wrong[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)) if wrong else "nothing"
            layer = next((one.torch for one in kind.options if isinstance(one, LayerNode)), "a layer")
            raise Unsupported("MIG203", f"{layer} is called with {told}, which Flax's does not take")

    def signature_call(self, node: cst.Call, callee: Value, made: Sequence[LayerNode]) -> Value:
        """A call of a layer that takes or gives more than one tensor: its snippet takes what torch's `forward` does.
        `made`: the layers that it may be."""
        layer = TABLE[made[0].torch]
        parameters = linen.call_signature(layer)
        names = argument_names(node.args, [parameter.name for parameter in parameters])
        values = [self.array(arg.value) for arg in node.args]
        unknown = [arg for arg, name in zip(node.args, names, strict=True) if name not in {p.name for p in parameters}]
        if unknown:
            raise Unsupported("MIG203", f"{layer.torch}: `{nodes.code(unknown[0])}` is no argument of its call")
        bound = dict(zip(names, values, strict=True))
        call = Call(layer.torch, bound, defaults={p.name: p.default for p in parameters})
        args = placed(node.args, values)
        if names[:1] == ["input"]:
            args[0] = cst.Arg(args[0].value, comma=args[0].comma)  # the one name that the snippets do not share
        result: Kind = Never()
        for one in made:
            result = join(result, linen.result_kind(one.returns, call))
        if values and isinstance(values[0].kind, Packed) and isinstance(result, Items) and result.items is not None:
            result = replace(result, items=(values[0].kind, *result.items[1:]))
        return Value(node.with_changes(func=callee.node, args=args), result)

    def note_place(self, kind: Module, layout: str) -> None:
        """Remembers a layer that has a form of its own for inputs whose channels are not last already."""
        if layout == "last":
            return
        for option in kind.options:
            if isinstance(option, LayerNode) and option.torch in TABLE and TABLE[option.torch].elsewhere:
                self.script.found_called_first.add((self.cls, option.torch))


def called(function: Expr, node: cst.Call) -> cst.Call:
    """The call of a function with the arguments of `node`: `nn.softmax(x, axis=-1)` of `partial(nn.softmax, axis=-1)`
    that is called where it is made."""
    if not isinstance(function, cst.Call) or nodes.dotted(function.func) != "partial":
        return node.with_changes(func=function)
    inner, *given = function.args
    return cst.Call(inner.value, [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in (*node.args, *given)])


def stilled(value: Value) -> Value:
    """A constructor of a layer whose weights have no gradient."""
    assert isinstance(value.kind, Module)
    (option,) = value.kind.options
    assert isinstance(option, LayerNode)
    weights = tuple(replace(weight, still=True) for weight in option.weights)
    return replace(value, kind=Module((replace(option, weights=weights),)))


def _is_still(kind: Module) -> bool:
    """Whether a submodule is a layer whose weights have no gradient, and which gives none to its input."""
    layers = [option for option in kind.options if isinstance(option, LayerNode)]
    return len(layers) == len(kind.options) and all(layer.weights and layer.weights[0].still for layer in layers)


def _called_alike(kind: Module) -> list[LayerNode]:
    """The layers that a submodule may be, where they are called alike; none where some are not, or no layers."""
    layers = [option for option in kind.options if isinstance(option, LayerNode) and option.torch in TABLE]
    alike = {(TABLE[layer.torch].call, layer.returns == "tensor") for layer in layers}
    return layers if len(alike) == 1 and len(layers) == len(kind.options) else []
