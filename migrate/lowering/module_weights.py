"""Weights that a module class holds itself."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from migrate import nodes
from migrate.constructed import BoundWeight, LayerNode, ListNode
from migrate.diagnostics import Unsupported
from migrate.kinds import Tensor, Tied
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

_OF_DENSE = 'nn.initializers.variance_scaling(1 / 3, "fan_out", "uniform")'  # of a table: U(-b, b), b = 1 / sqrt(width)


class ModuleWeights(Scope):
    """Parameters, buffers and tied weights."""

    def parameter(self, facts: ClassFacts, name: str, value: Expr) -> list[Statement] | None:
        """`self.x = nn.Parameter(...)`, or one that an argument asks for: `nn.Parameter(...) if bias else None`."""
        call = _made_or_none(value)
        if not isinstance(call, cst.Call) or self.torch_name(call.func) != "torch.nn.Parameter":
            return None
        chosen = call is not value
        made, lengths, rank = self.parameter_call(facts, name, call)
        known = facts.parameters.get(name)
        optional = chosen or bool(self.conditions) or (known is not None and known.optional)
        facts.attributes[name] = Tensor("float", rank, optional=chosen)
        leaf = facts.renamed.get(name, name)
        facts.parameters[name] = BoundWeight(name, "params", leaf, (), lengths, optional)
        if isinstance(value, cst.IfExp) and chosen:
            sides = {"body": made} if value.body is call else {"orelse": made}
            made = value.with_changes(test=self.node(value.test), **sides)
        return [nodes.statement(f"self.{leaf} = {{made}}", made=made)]

    def parameter_call(
        self, facts: ClassFacts, name: str, call: cst.Call
    ) -> tuple[Expr, tuple[int | None, ...] | None, int]:
        """The call of `self.param` for one of `nn.Parameter`, the shape that is known of it, and its rank."""
        initial = call.args[0].value
        scale: Expr | None = None
        if isinstance(initial, cst.BinaryOperation) and isinstance(initial.operator, cst.Multiply):
            initial, scale = initial.left, initial.right
            if not isinstance(initial, cst.Call):
                initial, scale = scale, initial
        draw = self.torch_name(initial.func) if isinstance(initial, cst.Call) else None
        if draw not in _MAKERS or not isinstance(initial, cst.Call) or (scale is not None and draw != "torch.randn"):
            raise Unsupported("MIG204", f"nn.Parameter({nodes.code(call.args[0].value)})")
        if draw == "torch.randn":
            deviation = self.node(scale) if scale is not None else nodes.expression("1.0")
            maker = nodes.expression(_MAKERS[draw], s=deviation)
        else:
            maker = nodes.expression(_MAKERS[draw])
        sizes = [self.node(arg.value) for arg in initial.args if arg.keyword is None]
        shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], cst.Tuple) else nodes.tuple_of(sizes)
        known = [nodes.literal(element.value) for element in shape.elements] if isinstance(shape, cst.Tuple) else []
        lengths = tuple(length if isinstance(length, int) else None for length in known)
        if name in facts.fields:  # the constructor's parameter of that name is a field
            facts.renamed[name] = f"{name}_value"
        facts.askable[f"self.{name}"] = True
        maker = facts.asked.get(f"self.{name}", maker)
        made = nodes.call("self.param", nodes.expression(f'"{facts.renamed.get(name, name)}"'), maker, shape)
        return made, lengths, len(known) if isinstance(shape, cst.Tuple) else -1

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

    def tie(self, path: str, target: Expr, value: Expr) -> list[Statement]:
        """`self.head.weight = self.emb.weight`: the dense layer becomes `emb.attend`."""
        facts = self.script.classes[self.cls]
        refused = f"{path} = {nodes.code(value)}"
        both = [self.tied_layer(target), self.tied_layer(value)]
        embedding, *_ = [one for one in both if one and one.layer.torch == "torch.nn.Embedding"] or [None]
        dense, *_ = [one for one in both if one and one.layer.torch == "torch.nn.Linear"] or [None]
        if embedding is None or dense is None:
            raise Unsupported("MIG204", f"{refused}: only a Linear without bias and an Embedding are tied")
        if any(weight.torch == "bias" for weight in dense.layer.weights):
            raise Unsupported("MIG204", f"self.{dense.path} has a bias beside the tied weight")
        if dense.path not in facts.children:
            raise Unsupported("MIG204", f"{refused}: the Linear is inside another module")
        if self.conditions:
            raise Unsupported("MIG204", f"{refused} depends on `{nodes.code(self.conditions[-1])}`")
        if embedding is both[0]:
            self.start_as_dense(facts, embedding.path, dense.path, refused)
        facts.ties[f"{dense.path}.weight"] = f"{embedding.path}.weight"
        facts.attributes[dense.path] = facts.seen[dense.path] = Tied(nodes.code(embedding.node))
        del facts.children[dense.path]
        return []

    @staticmethod
    def start_as_dense(facts: ClassFacts, embedding: str, dense: str, refused: str) -> None:
        """An embedding that takes the weight of a dense layer over has its initial values."""
        path = f"self.{embedding}.weight"
        if {path, f"self.{dense}.weight"} & facts.found_asked.keys():
            raise Unsupported("MIG204", f"{refused}: after initial values of one of them")
        asked = [facts.initializers.get(f"torch.nn.{layer}", {}).get("weight") for layer in ("Linear", "Embedding")]
        one, other = [nodes.code(made) if made is not None else "" for made in asked]
        if one != other or path not in facts.askable:
            raise Unsupported("MIG204", f"{refused}: the two layers have different initial weights")
        if not one:
            facts.found_asked[path] = nodes.expression(_OF_DENSE)

    def tied_layer(self, weight: Expr) -> _Layer | None:
        """The layer of `self.x.weight`, or of `self.parts.x.weight` with a ModuleDict; None where it is none."""
        path = (nodes.dotted(weight) or "").split(".")
        if not isinstance(weight, cst.Attribute) or path[0] != "self" or path[-1] != "weight" or len(path) < 3:
            return None
        child = self.script.classes[self.cls].children.get(path[1])
        for key in path[2:-1]:
            if not isinstance(child, ListNode) or child.dynamic or key not in child.keys or child.infix != "_":
                return None
            child = child.children[child.keys.index(key)]
        return _Layer(".".join(path[1:-1]), self.node(weight.value), child) if isinstance(child, LayerNode) else None


@dataclass(frozen=True)
class _Layer:
    """A layer whose weight is tied: its path in torch, and as it is written in the output."""

    path: str
    node: Expr
    layer: LayerNode


def _made_or_none(value: Expr) -> Expr:
    """What is made where a value is that or None: `f()` of `f() if test else None`; any other value as it is."""
    if not isinstance(value, cst.IfExp):
        return value
    if nodes.is_literal(value.orelse, None):
        return value.body
    return value.orelse if nodes.is_literal(value.body, None) else value
