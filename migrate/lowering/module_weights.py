"""Weights that a module class holds itself."""

from __future__ import annotations

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    BoundWeight,
    LayerNode,
    Tensor,
    Tied,
)
from migrate.lowering.scope import Scope
from migrate.nodes import Expr, Statement
from migrate.script import (
    ClassFacts,
)

# What draws a parameter in torch: the initialiser; {s} is the factor that it is multiplied with.
_MAKERS = {
    "torch.zeros": "nn.initializers.zeros",
    "torch.ones": "nn.initializers.ones",
    "torch.randn": "nn.initializers.normal({s})",
    "torch.empty": "nn.initializers.zeros",
}


class ModuleWeights(Scope):
    """Parameters, buffers and tied weights."""

    def parameter(self, facts: ClassFacts, name: str, value: Expr) -> list[Statement] | None:
        """`self.x = nn.Parameter(...)`."""
        if not isinstance(value, cst.Call) or self.torch_name(value.func) != "torch.nn.Parameter":
            return None
        initial = value.args[0].value
        scale: Expr | None = None
        if isinstance(initial, cst.BinaryOperation) and isinstance(initial.operator, cst.Multiply):
            initial, scale = initial.left, initial.right
            if not isinstance(initial, cst.Call):
                initial, scale = scale, initial
        draw = self.torch_name(initial.func) if isinstance(initial, cst.Call) else None
        if draw not in _MAKERS or not isinstance(initial, cst.Call) or (scale is not None and draw != "torch.randn"):
            raise Unsupported("MIG204", f"nn.Parameter({nodes.code(value.args[0].value)})")
        if draw == "torch.randn":
            deviation = self.node(scale) if scale is not None else nodes.expression("1.0")
            maker = nodes.expression(_MAKERS[draw], s=deviation)
        else:
            maker = nodes.expression(_MAKERS[draw])
        sizes = [self.node(arg.value) for arg in initial.args if arg.keyword is None]
        shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], cst.Tuple) else nodes.tuple_of(sizes)
        known = [nodes.literal(element.value) for element in shape.elements] if isinstance(shape, cst.Tuple) else []
        lengths = tuple(length if isinstance(length, int) else None for length in known)
        facts.askable[f"self.{name}"] = True
        maker = facts.asked.get(f"self.{name}", maker)
        facts.attributes[name] = Tensor("float", len(known) if isinstance(shape, cst.Tuple) else -1)
        facts.parameters[name] = BoundWeight(name, "params", facts.renamed.get(name, name), (), lengths)
        made = nodes.call("self.param", nodes.expression(f'"{name}"'), maker, shape)
        return [nodes.statement(f"self.{name} = {{made}}", made=made)]

    def buffer(self, facts: ClassFacts, node: cst.Call) -> list[Statement]:
        """A buffer that is never assigned again is a constant, made anew in `setup`."""
        name = nodes.literal(node.args[0].value)
        if not isinstance(name, str):
            raise Unsupported("MIG201", "a buffer whose name is not written out")
        value = self.expr(node.args[1].value)
        if "make_rng" in nodes.code(value.node):
            raise Unsupported("MIG201", f"the buffer {name} is drawn at random")
        if not isinstance(value.kind, Tensor):
            raise Unsupported("MIG201", f"the buffer {name} is not known to be a tensor")
        facts.attributes[name] = value.kind
        facts.buffers[name] = "a constant, made anew in setup"
        return [nodes.statement(f"self.{name} = {{v}}", v=value.node)]

    def tie(self, path: str, value: Expr) -> list[Statement]:
        """`self.head.weight = self.emb.weight`: the dense layer becomes `emb.attend`."""
        facts = self.script.classes[self.cls]
        source = nodes.dotted(value) or ""
        one, other = path.split(".")[1], [*source.split("."), "", ""][1]
        if source.count(".") != 2 or path.count(".") != 2 or not source.endswith(".weight"):
            raise Unsupported("MIG204", f"{path} = {nodes.code(value)}")
        children = {name: facts.children.get(name) for name in (one, other)}
        layers = {name: layer for name, layer in children.items() if isinstance(layer, LayerNode)}
        embedding = next((name for name, layer in layers.items() if layer.torch == "torch.nn.Embedding"), None)
        dense = next((name for name, layer in layers.items() if layer.torch == "torch.nn.Linear"), None)
        if embedding is None or dense is None:
            raise Unsupported(
                "MIG204", f"{path} = {nodes.code(value)}: only a Linear without bias and an Embedding are tied"
            )
        if any(weight.torch == "bias" for weight in layers[dense].weights):
            raise Unsupported("MIG204", f"self.{dense} has a bias beside the tied weight")
        facts.ties[f"{dense}.weight"] = f"{embedding}.weight"
        facts.attributes[dense] = facts.seen[dense] = Tied(embedding)
        del facts.children[dense]
        return []
