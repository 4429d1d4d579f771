"""einops: its functions take jax arrays as they are, its layers for torch become calls of its functions."""

from __future__ import annotations

import re

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import LayerNode
from migrate.known.kinds import UNKNOWN, Einops, Items, Kind, Module, Plain, Tensor
from migrate.lowering.expressions.arguments import Arguments
from migrate.rules.rule import Value
from migrate.syntax import nodes

_FUNCTIONS = {"rearrange", "reduce", "repeat", "einsum", "asnumpy", "parse_shape", "pack", "unpack"}
_LAYERS = {"Rearrange": "rearrange", "Reduce": "reduce"}


def einops_kind(module: str, name: str) -> Kind | None:
    """What `from module import name` brings from einops; None where it is nothing of einops."""
    if module == "einops" and name in _FUNCTIONS:
        return Einops(name)
    if module == "einops.layers.torch" and name in (*_LAYERS, "EinMix"):
        return Einops(name)
    return None


class EinopsCalls(Arguments):
    """Calls of einops."""

    def einops_call(self, node: cst.Call, callee: Value, kind: Einops) -> Value:
        """A function of einops, or the constructor of one of its layers."""
        if kind.name in _LAYERS:
            return self.einops_layer(node, _LAYERS[kind.name])
        if kind.name not in _FUNCTIONS:
            raise Unsupported("MIG202", f"einops.layers.torch.{kind.name}")
        args = self.array_args(node.args)
        made = node.with_changes(func=callee.node, args=args)
        if kind.name == "pack":
            return Value(made, Items((Tensor(), Items(None, UNKNOWN)), type="tuple"))
        if kind.name == "unpack":
            return Value(made, Items(None, Tensor()))
        if kind.name == "parse_shape":
            return Value(made, Plain("dict"))
        pattern = next((nodes.literal(arg.value) for arg in node.args[1:] if arg.keyword is None), None)
        if kind.name == "einsum":
            pattern = nodes.literal(node.args[-1].value)
        first = self.expr(node.args[0].value).kind if node.args else UNKNOWN
        dtype = first.dtype if isinstance(first, Tensor) else ""
        return Value(made, Tensor(dtype, _rank(pattern)))

    def einops_layer(self, node: cst.Call, function: str) -> Value:
        """`Rearrange("b c h w -> b (c h w)")`: the function with everything bound but its input."""
        names = ["pattern", "reduction"] if function == "reduce" else ["pattern"]
        positional = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
        if len(positional) > len(names):
            raise Unsupported("MIG302", f"{nodes.code(node)}: arguments that cannot be followed")
        given = {name: self.node(value) for name, value in zip(names, positional, strict=False)}
        given |= {arg.keyword.value: self.node(arg.value) for arg in node.args if arg.keyword is not None}
        starred = [arg.with_changes(value=self.node(arg.value)) for arg in node.args if arg.star == "**"]
        made = nodes.call("partial", nodes.expression(f"einops.{function}"), **given)
        made = made.with_changes(args=[*made.args, *starred])
        return Value(made, Module((LayerNode(f"einops.{function}", ranks=()),)))


def _rank(pattern: object) -> int:
    """How many axes the right side of a pattern names; -1 where it leaves some open."""
    if not isinstance(pattern, str) or "->" not in pattern or "..." in pattern:
        return -1
    right = re.sub(r"\([^)]*\)", "x", pattern.partition("->")[2])
    return len(right.split())
