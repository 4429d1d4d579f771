"""Methods of models, called from outside of them."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import VANISHING, DType, Host, Items, Model, Place, Plain
from migrate.known.qualified import is_chosen, options, spelled
from migrate.known.states import PARAMS, State
from migrate.known.weight_kinds import Parameters, StateDict
from migrate.lowering.expressions.arguments import argument_names, placed
from migrate.lowering.expressions.elements import computed, loop_kind
from migrate.lowering.models.chosen_models import joined_results
from migrate.lowering.models.jitted_passes import is_traced
from migrate.lowering.models.models import Models
from migrate.lowering.models.traceable import Traceable
from migrate.lowering.modules.fields_alone import reads_fields
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr

_SAME = ("to", "cuda", "cpu", "float", "compile", "requires_grad_", "share_memory")


class ModelMethods(Models, Traceable):
    """Torch's own methods of a model, and the user's."""

    def model_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A method of a model."""
        kind, method = base.kind, func.attr.value
        assert isinstance(kind, Model)
        place = kind.place
        if method in ("train", "eval"):
            told = node.args[0].value if node.args else nodes.name("True")
            if place is not None and self.mode_restored(place, told):
                return base
            if method == "train" and not nodes.is_literal(told, False):
                self.script.put_in_train.update(options(kind.cls))
            if nodes.literal(told) is ... and place is not None:
                self.set_mode(place, "mixed")
                self.mode_by(place, told)
                return base
            if nodes.literal(told) is ...:
                raise Unsupported("MIG403", f"{nodes.code(node)} of a model that has no name of its own")
            on = method == "train" and not nodes.is_literal(told, False)
            if place is None:
                return replace(base, kind=replace(kind, mode="train" if on else "eval"))
            self.set_mode(place, "train" if on else "eval")
            return base
        if method in _SAME or method == "double":
            kinds = [self.expr(arg.value).kind for arg in node.args]
            if method == "double" or (method == "to" and any(isinstance(kind, DType) for kind in kinds)):
                self.cast_model(node, kind.place)
            return base
        wrapped = method == "module" and all(
            method not in self.script.classes[cls].attributes for cls in options(kind.cls)
        )  # DDP(net).module(x)
        if method in ("forward", "__call__") or wrapped:
            return self.model_call(node, base)
        if self.methods_of(kind.cls, method):
            return self.own_model_method(node, base, kind, method)
        if place is None:
            raise Unsupported("MIG301", f"nn.Module.{method} of a model that has no name of its own")
        if method in ("parameters", "named_parameters") and self.script.weightless(kind.cls):
            if self.script.is_base(kind.cls):
                told = f"{spelled(kind.cls)}, which only classes that inherit from it give weights"
                raise Unsupported("MIG301", f"nn.Module.{method} of {told}")
            return Value(nodes.expression("[]"), Parameters(()))
        if method == "parameters":
            leaves = nodes.call("jax.tree.leaves", self.read(State(PARAMS, place)))
            return Value(leaves, Parameters((place,)))
        if method == "named_parameters":
            return Value(named_leaves(self.read(State(PARAMS, place))), Parameters((place,), True))
        if method == "state_dict":
            return Value(self.saved(kind), StateDict(place))
        if method == "children" and not node.args:
            return self.layers_of(base)
        if method == "named_children" and not node.args:
            layers = self.layers_of(base)
            pairs = nodes.expression("[(str(i), layer) for i, layer in enumerate({layers})]", layers=layers.node)
            return Value(pairs, Items(None, Items((Plain("str"), loop_kind(layers.kind, id(node))), type="tuple")))
        raise Unsupported("MIG301", f"nn.Module.{method}")

    def cast_model(self, node: cst.Call, own: Place | None) -> None:
        """`model.double()`, `model.to(torch.float64)`: its weights are made in float64, and JAX is told to have it."""
        asked = {self.torch_name(arg.value) for arg in node.args} - {None}
        if asked and asked <= {"torch.float32", "torch.float"}:
            return
        place = self.pending_place if own is None else self.root(own)
        wide = not asked or asked <= {"torch.float64", "torch.double"}
        if (
            not wide
            or self.context not in HOST_CONTEXTS
            or place == NOWHERE
            or (self.scope, place) in self.script.updated
        ):
            raise Unsupported("MIG301", f"{nodes.code(node)}: a model in another type")
        self.script.doubled.add(place)
        self.unit.enable_x64()

    def saved(self, kind: Model) -> Expr:
        """What of a model is saved: its parameters, with its batch statistics where it has them."""
        assert kind.place is not None
        return self.variables(kind) if self.stats_of(kind) else self.read(State(PARAMS, kind.place))

    def own_model_method(self, node: cst.Call, base: Value, kind: Model, method: str) -> Value:
        """A user's method of a module, called from outside: `model.apply(variables, ..., method="name")`."""
        if kind.place is None:
            raise Unsupported("MIG301", f"{method} of a model that has no name of its own")
        if is_chosen(kind.cls):
            return self.chosen_method(node, base, kind, method)
        self.script.passes[usage.site_of(node)] = kind.place, method
        facts = self.script.functions[f"{kind.cls}.{method}"]
        facts.found_traced |= self.under_jit
        names = argument_names(node.args, facts.parameter_names[0 if "staticmethod" in facts.decorators else 1 :])
        given = zip(node.args, names, strict=True)
        values = [self.given_whole(arg.value, kind.cls, method, name) for arg, name in given]
        self.pass_kinds(facts, node.args, values)
        lowered = zip(placed(node.args, values), values, strict=True)
        args = [arg for arg, value in lowered if not isinstance(value.kind, VANISHING)]
        args = nodes.extended(args, self.draws_for(facts, node.args, "staticmethod" not in facts.decorators))
        if self.of_fields(kind.cls, method):
            assert isinstance(node.func, cst.Attribute)
            func = node.func.with_changes(value=base.node)
            return Value(node.with_changes(func=func, args=args), facts.result)
        if self.is_the_forward(kind.cls, method):
            self.record_example(kind, node.args)
        elif self.stands_for_forward(kind.cls, method):
            self.record_example(kind, node.args, method)
        else:
            self.record_method(kind, node, method)
        mode = self.mode(kind)
        streams, result = self.streams(kind, mode, method), computed(facts.result)
        alone = self.region is None and not self.under_jit and not facts.draws and not facts.is_static
        if alone and all(map(is_traced, values)) and self.may_be_traced(kind.cls, method):
            if self.script.changes_state(kind.cls, mode):
                return Value(self.host_training_pass(base.node, kind, mode, args, streams, True, method), result)
            return Value(self.jitted_pass(base.node, kind, mode, streams, args, method), result)
        applied = self.plain_apply(base.node, kind, mode, args, streams, method)
        return Value(self.changing_state(kind, mode, applied), result)

    def chosen_method(self, node: cst.Call, base: Value, kind: Model, method: str) -> Value:
        """The same of a model that has one of several classes: each has the method."""
        methods, classes = self.methods_of(kind.cls, method), options(kind.cls)
        mode, plain = self.mode(kind), all(self.of_fields(cls, method) for cls in classes)
        if any(facts.draws or facts.decorators for facts in methods):
            self.refuse_chosen(kind.cls, f".{method}()")
        names = argument_names(node.args, methods[0].parameter_names[1:])
        values = [
            self.given_whole(arg.value, kind.cls, method, name) for arg, name in zip(node.args, names, strict=True)
        ]
        for facts in methods:
            facts.found_traced |= self.under_jit
            self.pass_kinds(facts, node.args, values)
        pairs = zip(placed(node.args, values), values, strict=True)
        args = [arg for arg, value in pairs if not isinstance(value.kind, VANISHING)]
        if plain:
            assert isinstance(node.func, cst.Attribute)
            func = node.func.with_changes(value=base.node)
            return Value(node.with_changes(func=func, args=args), joined_results(methods))
        self.record_method(kind, node, method)
        applied = self.plain_apply(base.node, kind, mode, args, self.streams(kind, mode, method), method)
        return Value(self.changing_state(kind, mode, applied), computed(joined_results(methods)))

    def changing_state(self, kind: Model, mode: str, applied: cst.Call) -> Expr:
        """What a method gives that is applied in some mode, in which it may change batch statistics."""
        if not self.script.changes_state(kind.cls, mode):
            return applied
        if self.nested:
            raise Unsupported("MIG401", "batch statistics that change inside a comprehension or a lambda")
        assert kind.place is not None
        return self.mutating_apply(kind.place, applied)

    def given_whole(self, node: Expr, cls: str, method: str, parameter: str) -> Value:
        """An argument of a method. A batch that the method takes apart is more than one array: a step function is given
        all of them."""
        value = self.expr(node)
        whole = isinstance(value.kind, Host) and value.kind.what == "batch"
        if not whole or not any(self.takes_apart(one, method, parameter) for one in options(cls)):
            return self.as_array(value)
        return value if self.region is not None else self.each_as_array(value)

    def stands_for_forward(self, cls: str, method: str) -> bool:
        """Whether a method of a module without a forward pass makes all of its weights: it uses each part, itself or
        in methods that it calls."""
        called = f"{cls}.forward" in self.script.functions
        return not called and self.weighted_parts(cls) <= self.attributes_used(cls, method)

    def is_the_forward(self, cls: str, method: str) -> bool:
        """Whether the forward pass is a method, without what that returns beside: `return self.encode(x)[0]`."""
        forward = self.script.functions.get(f"{cls}.forward")
        if forward is None:
            return False
        body = suites.suite_of(forward.node.body.body)
        names = [parameter.name.value for parameter in forward.node.params.params]
        return len(body) == 1 and nodes.code(body[0]).strip() == f"return self.{method}({', '.join(names[1:])})[0]"

    def of_fields(self, cls: str, method: str) -> bool:
        """Whether a method reads nothing of its module but the fields, which a module has before its weights."""
        facts, function = self.script.classes[cls], self.script.functions[f"{cls}.{method}"]
        fields = set(facts.fields) - facts.renamed.keys() - facts.changed
        return not function.decorators and not facts.own_draws - {"dropout"} and reads_fields(function.node, fields)


def named_leaves(tree: Expr) -> Expr:
    """The leaves of parameters or gradients, each with its name: "conv1.kernel"."""
    return nodes.expression('flatten_dict({x}, sep=".").items()', x=tree)
