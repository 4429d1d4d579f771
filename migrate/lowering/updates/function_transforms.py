"""`torch.func` and `torch.utils.checkpoint`: functions made of functions, which JAX has under the same names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.facts import CallSite
from migrate.known.kinds import UNKNOWN, Function, Items, Kind, LikeArgument, Module, Tensor, Transformed
from migrate.known.weight_kinds import WeightTree
from migrate.lowering.expressions.user_calls import UserCalls
from migrate.rules.rule import Call, Value, signature
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

_GRADIENT = "func, argnums=0, has_aux=False"
_REVERSED = "reversed tuple"  # of what JAX has the other way round
_CHECKPOINT = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "context_fn")


class FunctionTransforms(UserCalls):
    """Gradients, Jacobians, maps and rematerialisation of functions."""

    def torch_func_grad(self, node: cst.Call) -> Value:
        """`jax.grad`."""
        return self._gradient(node, "torch.func.grad", "jax.grad", _GRADIENT)

    def torch_func_grad_and_value(self, node: cst.Call) -> Value:
        """`jax.value_and_grad`, which has the value first."""
        made = self._gradient(node, "torch.func.grad_and_value", "jax.value_and_grad", _GRADIENT)
        assert isinstance(made.kind, Transformed)
        gradient, aux = made.kind.result, False
        if isinstance(gradient, Items) and gradient.items is not None:
            gradient, aux = gradient.items[0], True
        value = Items((Tensor("float", 0), UNKNOWN), type="tuple") if aux else Tensor("float", 0)
        return replace(made, kind=replace(made.kind, result=Items((gradient, value), type=_REVERSED)))

    def torch_func_jacrev(self, node: cst.Call) -> Value:
        """`jax.jacrev`."""
        return self._gradient(node, "torch.func.jacrev", "jax.jacrev", f"{_GRADIENT}, chunk_size=None")

    def torch_func_jacfwd(self, node: cst.Call) -> Value:
        """`jax.jacfwd`."""
        return self._gradient(node, "torch.func.jacfwd", "jax.jacfwd", f"{_GRADIENT}, randomness='error'")

    def torch_func_hessian(self, node: cst.Call) -> Value:
        """`jax.hessian`."""
        return self._gradient(node, "torch.func.hessian", "jax.hessian", "func, argnums=0")

    def torch_vmap(self, node: cst.Call) -> Value:
        """`jax.vmap`; draws inside would need a key for each turn."""
        call, function = self._transform(
            node, "torch.vmap", "func, in_dims=0, out_dims=0, randomness='error', chunk_size=None"
        )
        call.only("chunk_size", None)
        call.only("randomness", "error")
        made = nodes.call("jax.vmap", call.node("func"), **call.given(in_dims="in_axes", out_dims="out_axes"))
        axes = nodes.literal(call.node("in_dims"))
        return Value(made, replace(function, result=_mapped(function.result), mapped=(*function.mapped, axes)))

    torch_func_vmap = torch_vmap

    def torch_func_vjp(self, node: cst.Call) -> Value:
        """`jax.vjp`."""
        call, function = self._transform(node, "torch.func.vjp", "func, *primals, has_aux=False")
        call.only("has_aux", False)
        self._pass(function, call.rest)
        pullback = Transformed("", Items(None, Tensor("float"), "tuple"))
        made = nodes.call("jax.vjp", call.node("func"), *(value.node for value in call.rest))
        return Value(made, Items((function.result, pullback), type="tuple"))

    def torch_func_jvp(self, node: cst.Call) -> Value:
        """`jax.jvp`."""
        call, function = self._transform(node, "torch.func.jvp", "func, primals, tangents, strict=False, has_aux=False")
        call.only("has_aux", False)
        primals = call.kind("primals")
        if not isinstance(primals, Items) or primals.items is None:
            raise Unsupported("MIG302", "torch.func.jvp: primals must be a tuple here")
        self._pass(function, [Value(call.node("primals"), kind) for kind in primals.items])
        made = nodes.call("jax.jvp", *(call.node(name) for name in ("func", "primals", "tangents")))
        return Value(made, Items((function.result, Tensor("float")), type="tuple"))

    def torch_autograd_functional_jacobian(self, node: cst.Call) -> Value:
        """`jax.jacrev(f)(x)`."""
        return self._at_once(node, "torch.autograd.functional.jacobian", "jax.jacrev")

    def torch_autograd_functional_hessian(self, node: cst.Call) -> Value:
        """`jax.hessian(f)(x)`."""
        return self._at_once(node, "torch.autograd.functional.hessian", "jax.hessian")

    def _at_once(self, node: cst.Call, api: str, target: str) -> Value:
        text = "func, inputs, create_graph=False, strict=False, vectorize=False"
        call, function = self._transform(node, api, text)
        if not isinstance(call.kind("inputs"), Tensor):
            raise Unsupported("MIG302", f"{api}: inputs must be one tensor")
        self._pass(function, [call.value("inputs")])
        made = nodes.call(nodes.call(target, call.node("func")), call.node("inputs"))
        return Value(made, Tensor("float"))

    def _gradient(self, node: cst.Call, api: str, target: str, parameters: str) -> Value:
        call, function = self._transform(node, api, parameters)
        for name in ("chunk_size", "randomness"):
            if name in call.bound:
                raise Unsupported("MIG302", f"{api}: {name} has no counterpart")
        given = call.given(*(name for name in ("argnums", "has_aux") if name in call.defaults))
        argnums = nodes.literal(call.node("argnums"))
        result: Kind = LikeArgument(argnums) if isinstance(argnums, int) else Items(None, Tensor("float"), "tuple")
        if target == "jax.hessian":
            result = Tensor("float")
        if "has_aux" in given:
            result = Items((result, UNKNOWN), type="tuple")
        return Value(nodes.call(target, call.node("func"), **given), replace(function, result=result))

    def _transform(self, node: cst.Call, api: str, parameters: str) -> tuple[Call, Transformed]:
        """The bound call, and what is known of the function in it."""
        place = next((i for i, a in enumerate(node.args) if a.keyword is None or a.keyword.value == "func"), 0)
        written = node.args[place].value if node.args else None
        args = list(node.args)
        if isinstance(written, cst.Lambda):  # its parameters are tensors, which is not known of other lambdas
            args[place] = args[place].with_changes(value=nodes.name("None"))
        call = self.bind_call(api, signature(parameters), args)
        if isinstance(written, cst.Lambda):
            inner = self.inner({parameter.name.value: Tensor() for parameter in written.params.params})
            body = inner.expr(written.body)
            call.bound = {**call.bound, "func": Value(written.with_changes(body=layouts.first(body)))}
            return call, Transformed("", body.kind)
        kind = call.kind("func")
        if isinstance(kind, Transformed):
            return call, kind
        if not isinstance(kind, Function):
            raise Unsupported("MIG302", f"{api} of what is no function of this script")
        return call, Transformed(kind.name, self.script.functions[kind.name].result)

    def _pass(self, kind: Transformed, values: Sequence[Value]) -> None:
        """Tells the function what it is called with."""
        if not kind.function:
            return
        facts = self.script.functions[kind.function]
        if facts.states:
            raise Unsupported("MIG404", f"{facts.node.name.value} uses a model, or draws, inside another function")
        facts.found_traced = True
        names = facts.parameter_names[1:] if facts.method else facts.parameter_names
        for name, value in zip(names, values, strict=False):
            self.pass_kind(facts, name, Tensor(value.kind.dtype) if isinstance(value.kind, Tensor) else value.kind)

    def transformed_call(self, node: cst.Call, callee: Value, kind: Transformed) -> Value:
        """A call of a function that was made of another one."""
        values = [self.array(arg.value) for arg in node.args]
        positional = [value for value, arg in zip(values, node.args, strict=True) if arg.keyword is None]
        self._pass(kind, positional)
        self._note_example(kind, [arg.value for arg in node.args[: len(positional)]])
        args = [arg.with_changes(value=layouts.first(value)) for arg, value in zip(node.args, values, strict=True)]
        made: Expr = node.with_changes(func=nodes.parenthesized(callee.node), args=args)
        result = self._like(kind.result, positional)
        if isinstance(result, Items) and result.type == _REVERSED:
            made, result = nodes.expression("{x}[::-1]", x=made), replace(result, type="tuple")
        return Value(made, result)

    def _like(self, kind: Kind, arguments: Sequence[Value]) -> Kind:
        """What a call gives: a gradient is like the argument that it is by."""
        if isinstance(kind, Items) and kind.items is not None:
            return replace(kind, items=tuple(self._like(part, arguments) for part in kind.items))
        if not isinstance(kind, LikeArgument):
            if any(isinstance(value.kind, WeightTree) for value in arguments) and isinstance(kind, Items):
                raise Unsupported("MIG302", "gradients by several arguments, of which one is a dict of weights")
            return kind
        given = arguments[kind.number].kind if kind.number < len(arguments) else UNKNOWN
        return replace(given, place=None) if isinstance(given, WeightTree) else Tensor("float")

    def _note_example(self, kind: Transformed, arguments: Sequence[Expr]) -> None:
        """Notes what a function is called with, so that a model in it finds an example: of what a map runs over, the
        first."""
        bound: list[Expr] = []
        for number, argument in enumerate(arguments):
            for axes in reversed(kind.mapped):
                axis = axes[number] if isinstance(axes, tuple) and number < len(axes) else axes
                if axis not in (0, None):
                    return
                argument = nodes.expression("{x}[0, ...]", x=argument) if axis == 0 else argument
            bound.append(argument)
        if kind.function:
            facts = self.script.functions[kind.function]
            given = dict(zip(facts.parameter_names, bound, strict=False))
            facts.found_calls.append(CallSite(self.scope, given, dict(self.env.definitions), repeated=True))

    def torch_utils_checkpoint_checkpoint(self, node: cst.Call) -> Value:
        """`nn.remat` in a module, else `jax.checkpoint`: activations are computed again in the backward pass."""
        kept = [arg for arg in node.args if arg.keyword is None or arg.keyword.value not in _CHECKPOINT]
        callee = self.expr(kept[0].value)
        if not isinstance(callee.kind, Module | Function):
            inner = nodes.dotted(kept[0].value) or ""
            method = f"{self.cls}.{inner.removeprefix('self.')}"
            if not inner.startswith("self.") or method not in self.script.functions:
                raise Unsupported("MIG302", "checkpoint of what is no known module or function")
        last = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        made = self.expr(cst.Call(kept[0].value, [*kept[1:-1], last]))
        names = [name for name in dict.fromkeys(usage.loads(kept[1:])) if name in usage.loads(made.node)]
        function, owner = "jax.checkpoint", []
        if "self" in usage.loads(made.node):
            function, owner = "nn.remat", ["self"]
        elif isinstance(made.node, cst.Call) and self.context != "forward":
            return Value(made.node.with_changes(func=nodes.call(function, made.node.func)), made.kind, made.layout)
        given = [*owner, *(name for name in names if name not in owner)]
        wrapped = nodes.expression(f"{function}(lambda {', '.join(given)}: {{x}})", x=made.node)
        return Value(nodes.call(wrapped, *map(nodes.name, given)), made.kind, made.layout)


def _mapped(kind: Kind) -> Kind:
    """What a map over a function gives."""
    if isinstance(kind, Items) and kind.items is not None:
        return replace(kind, items=tuple(map(_mapped, kind.items)))
    return Tensor(kind.dtype) if isinstance(kind, Tensor) else kind
