"""Weights that a constructor ties: `self.head.weight = self.embedding.weight`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode, LayerNode, ListNode, Node
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Module, Tied
from migrate.lowering.expressions.arguments import Arguments
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr, Statement

_OF_DENSE = 'nn.initializers.variance_scaling(1 / 3, "fan_out", "uniform")'  # of a table: U(-b, b), b = 1 / sqrt(width)
_OF_BIAS = ("use_bias", "bias_init")


class Ties(Arguments):
    """Layers that have the weight of another one; what they compute is in `tied_layers`."""

    def tie(self, path: str, target: Expr, value: Expr, told: str) -> list[Statement]:
        """`self.head.weight = self.emb.weight`: the dense layer becomes `emb.attend`; one with the weight of another
        dense layer reads that where it is called. `told`: the field that the conditions around come down to."""
        facts = self.script.classes[self.cls]
        refused = f"{path} = {nodes.code(value)}"
        both = [self.tied_layer(target), self.tied_layer(value)]
        embedding, *_ = [one for one in both if one and one.is_a("torch.nn.Embedding")] or [None]
        dense, *others = [one for one in both if one and one.is_a("torch.nn.Linear")] or [None]
        tables = [one for one in both[1:] if one is not None and one.layer is None]
        if dense is None or dense.layer is None or None in both or not (embedding or others or tables):
            raise Unsupported("MIG204", f"{refused}: only a Linear with an Embedding or a Linear is tied")
        if dense.path not in facts.children:
            raise Unsupported("MIG204", f"{refused}: the Linear is inside another module")
        plain = "." not in dense.path and bool(embedding or tables)
        if self.conditions and not (told and plain and dense is both[0]):
            raise Unsupported("MIG204", f"{refused} depends on `{nodes.code(self.conditions[-1])}`")
        source = embedding or (tables or others)[0]
        assert source is not None
        if embedding is not None and embedding is both[0]:
            if source.cls:
                raise Unsupported("MIG204", f"{refused}: the Embedding is inside another module")
            self.start_as_dense(facts, embedding.path, dense.path, refused)
        facts.ties[f"{dense.path}.weight"] = f"{source.path}.weight"
        if told:
            facts.told_ties.add(f"{dense.path}.weight")
        has_bias = any(weight.torch == "bias" for weight in dense.layer.weights)
        written = nodes.code(source.node)
        tied = Tied(
            written if embedding else "",
            f"{written}.weight",
            f"{dense.path}_bias" if has_bias else "",
            Module((dense.layer,)),
            nodes.code(dense.node),
            told,
        )
        facts.attributes[dense.path] = facts.seen[dense.path] = tied
        own = tuple(replace(weight, optional=True) for weight in dense.layer.weights if weight.torch == "weight")
        if told:
            facts.children[dense.path] = replace(dense.layer, weights=own)
        else:
            del facts.children[dense.path]
        return []

    def tied_bias(self, facts: ClassFacts, name: str, made: Value) -> list[Statement]:
        """What is left of a dense layer that has the weight of another layer: a bias, if it has one."""
        option = made.kind.options[0] if isinstance(made.kind, Module) else None
        layer = option if isinstance(option, LayerNode) and f"{name}.weight" in facts.ties else None
        bias = next((weight for weight in layer.weights if weight.torch == "bias"), None) if layer is not None else None
        if bias is None or not isinstance(made.node, cst.Call):
            return []
        if bias.optional:
            raise Unsupported("MIG204", f"self.{name} has the weight of another layer, and perhaps a bias")
        features, *args = made.node.args
        default = next((arg.value for arg in args if arg.star == "**"), None)
        given = [*args, *(default.args if isinstance(default, cst.Call) else ())]
        asked = next((arg.value for arg in given if arg.keyword is not None and arg.keyword.value == "bias_init"), None)
        usual = nodes.expression("nn.initializers.zeros")
        if default is not None:
            usual = nodes.expression('{given}["bias_init"]', given=default)
        leaf = f"{name}_bias"
        facts.parameters[f"{name}.bias"] = replace(bias, torch=f"{name}.bias", leaf=leaf)
        shape = nodes.tuple_of([features.value])
        return [
            nodes.statement(
                f'self.{leaf} = self.param("{leaf}", {{init}}, {{shape}})', init=asked or usual, shape=shape
            )
        ]

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
        """The layer of `self.x.weight`, of `self.parts.x.weight` with a ModuleDict, or of `self.part.x.weight` with a
        module of another class; None where it is none."""
        path = (nodes.dotted(weight) or "").split(".")
        if not isinstance(weight, cst.Attribute) or path[0] != "self" or path[-1] != "weight" or len(path) < 3:
            return None
        cls, written, rows = self.cls, "self", False
        child: Node | None = ClassNode(cls)
        for key in path[1:-1]:
            if isinstance(child, ClassNode) and child.cls in self.script.classes:
                cls = child.cls
                facts = self.script.classes[cls]
                written, child = f"{written}.{facts.renamed.get(key, key)}", facts.children.get(key)
            elif isinstance(child, ListNode) and not child.dynamic and key in child.keys and child.infix == "_":
                rows, child = True, child.children[child.keys.index(key)]
            else:
                return None
        if isinstance(child, ClassNode) and "weight" in self.script.classes[child.cls].parameters:
            cls, layer = child.cls, None
        elif isinstance(child, LayerNode):
            layer = child
        else:
            return None
        elsewhere = cls if cls != self.cls else ""
        if rows and elsewhere:
            return None
        node = nodes.expression(written) if elsewhere else self.node(weight.value)
        return _Layer(".".join(path[1:-1]), node, layer, elsewhere)


@dataclass(frozen=True)
class _Layer:
    """A layer whose weight is tied: its path in torch, and as it is written in the output. `layer`: None of a module of
    the user's own that has a parameter of that name. `cls`: the other class that makes it; "" of a layer of the class
    at hand."""

    path: str
    node: Expr
    layer: LayerNode | None
    cls: str

    def is_a(self, name: str) -> bool:
        """Whether it is a layer of torch's."""
        return self.layer is not None and self.layer.torch == name


def without_bias(made: cst.Call) -> cst.Call:
    """The constructor of a dense layer whose bias is kept apart."""
    features, *args = (arg for arg in made.args if arg.keyword is None or arg.keyword.value not in _OF_BIAS)
    return made.with_changes(args=[*nodes.extended([features], {"use_bias": nodes.name("False")}), *args])
