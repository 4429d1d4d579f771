"""Weights as values on the host: one of a model's, `model.head.weight`, its shape, or a list of some of them."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import SHAPE, Function, HostClass, Items, Kind, Model, Number, Place, Tensor
from migrate.known.numbered_parts import from_the_beginning
from migrate.known.states import BATCH_STATS, PARAMS, State
from migrate.known.weight_kinds import Parameters, Selection, Weight
from migrate.lowering.modules.layer_weights import in_torch_order
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.lowering.weights.leaves import leaves_of
from migrate.lowering.weights.selections import Selections, selection_of
from migrate.manifest import WILDCARD, Leaf
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.weights import leaves_called


class WeightValues(Selections):
    """What a script reads of the weights of its models."""

    def weight(self, node: cst.Attribute, moved: bool = False) -> Value | None:
        """`model.table.weight`, with the axes that it has in torch unless it may be `moved`; None where it is none."""
        if self.context not in (*HOST_CONTEXTS, "region"):
            return None
        found = self.model_and_parts(node)
        parts = from_the_beginning(self.script, found[0].cls, found[1]) if found is not None else None
        if found is None or parts is None:
            return None
        kind = found[0]
        leaf = self.one_leaf(kind, parts)
        if kind.place is None:
            return None
        return self.statistic(kind, kind.place, parts) if leaf is None else self.weight_at(kind.place, leaf, moved)

    def weight_gradient(self, node: cst.Attribute) -> Value | None:
        """`model.head.weight.grad` on the host, with the axes that the weight has in torch; None where it is none."""
        found = self.leaf_of(node.value) if self.context in HOST_CONTEXTS else None
        if found is None:
            return None
        place, leaf = found
        if self.script.frozen.any_of(self.root(place)):
            raise Unsupported("MIG401", f"{nodes.code(node)}: a part of {place.name} is frozen")
        if place.scope == self.scope and not self.has_gone_backward(place):
            return Value(nodes.name("None"))
        made = in_torch_order(looked_up(self.gradients(place), leaf.flax.removeprefix("params/")), leaf.moves)
        return None if made is None else Value(made, Tensor("float", _rank(leaf)))

    def has_gone_backward(self, model: Place) -> bool:
        """Whether a model may have gradients by now: this scope may have called `backward()`, itself, by a function of
        the script's, or by something unknown that it has given the model to."""
        before = [one for block in self.blocks for one in block.statements[: None if block.cyclic else block.index]]
        ran = [one for one in before if not isinstance(one, cst.FunctionDef | cst.ClassDef)]
        if "backward" in usage.attributes(cst.Module(ran)):
            return True
        called = [(self.kind_of(call.func), call) for one in ran for call in usage.calls(one)]
        return any(
            isinstance(kind, Function | HostClass) or (type(kind) is Kind and model.name in usage.loads(call.args))
            for kind, call in called
        )

    def statistic(self, kind: Model, place: Place, parts: Sequence[str]) -> Value | None:
        """`model.norm.running_mean` on the host, or another buffer that forward passes change; None where that is
        none."""
        leaves = leaves_called(self.script, kind.cls, ".".join(parts)) if self.context in HOST_CONTEXTS else []
        leaf = leaves[0] if len(leaves) == 1 else None
        if leaf is None or not leaf.flax.startswith(f"{BATCH_STATS}/") or leaf.moves or WILDCARD.search(leaf.flax):
            return None
        stats = self.read(State(BATCH_STATS, place))
        of_norm = leaf.torch.rpartition(".")[2].startswith("running_")
        of_stats = looked_up(stats, leaf.flax.removeprefix(f"{BATCH_STATS}/"))
        return Value(of_stats, Tensor("float" if of_norm else "", _rank(leaf)))

    def model_and_parts(self, node: Expr) -> tuple[Model, list[str]] | None:
        """The model that `model.blocks[0].weight` starts with, and what follows it; None where it starts with none."""
        path = nodes.dotted(node)
        if path is not None:
            return self.model_and_path(path)
        found = self.model_and_keys(node)
        return None if found is None else (found[1], [key for key in found[2] if key != "module"])

    def weight_at(self, place: Place, leaf: Leaf, moved: bool = False) -> Value | None:
        """One parameter of a model; None where its axes cannot be put as torch has them."""
        node = looked_up(self.read(State(PARAMS, place)), leaf.flax.removeprefix("params/"))
        made = node if moved else in_torch_order(node, leaf.moves)
        return None if made is None else Value(made, Weight(not moved, place, leaf.flax))

    def read_anew(self, name: str, kind: Kind) -> Value | None:
        """A name for a weight, or for all weights of a model: what they are by now. None for other names."""
        if self.facts is not None and name in self.facts.parameter_names:
            return None
        if isinstance(kind, Weight) and kind.place is not None:
            leaves = leaves_of(self.script, self.root(kind.place))
            leaf = next((leaf for leaf in leaves if leaf.flax == kind.leaf), None)
            return leaf and self.weight_at(kind.place, leaf)
        if isinstance(kind, Parameters) and len(kind.models) == 1 and not kind.named:
            return Value(nodes.call("jax.tree.leaves", self.read(State(PARAMS, kind.models[0]))), kind)
        return None

    def in_order(self, chosen: Selection) -> list[Value]:
        """Parameters one by one, in torch's order and with torch's axes; raises Unsupported."""
        ((place, some),) = chosen.leaves if len(chosen.leaves) == 1 else ((NOWHERE, ()),)
        leaves = [leaf for leaf in leaves_of(self.script, self.root(place)) if leaf.flax in some]
        found = [None if WILDCARD.search(leaf.flax) else self.weight_at(place, leaf) for leaf in leaves]
        known = [value for value in found if value is not None]
        if not known or len(known) < len(found):
            raise Unsupported("MIG302", f"the parameters of {place.name} one by one: their number is not known")
        return known

    def numbered_weight(self, node: cst.Subscript, kind: Kind) -> Value | None:
        """`list(model.parameters())[0]`; None of other values than parameters."""
        if not isinstance(kind, Parameters) or kind.named:
            return None
        index = node.slice[0].slice
        number = nodes.literal(index.value) if isinstance(index, cst.Index) else ...
        chosen = selection_of(kind, self.script)
        known = self.in_order(chosen) if chosen is not None else []
        if not isinstance(number, int) or not -len(known) <= number < len(known):
            raise Unsupported("MIG302", f"{nodes.code(node)}: the order of the parameters is not torch's")
        return known[number]

    def unpacked_weights(self, target: cst.CSTNode, value: Expr) -> tuple[Kind, ...] | None:
        """What the names in `weight, bias = layer.parameters()` stand for: each reads its weight anew; None for other
        assignments."""
        listed = isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute)
        if not isinstance(target, cst.Tuple | cst.List) or not listed:
            return None
        chosen = self.selection(value)
        if chosen is None or not nodes.code(value).endswith(".parameters()"):
            return None
        known = self.in_order(chosen)
        if len(known) != len(target.elements):
            raise Unsupported("MIG302", f"{nodes.code(value)} are {len(known)} parameters")
        return tuple(weight.kind for weight in known)

    def one_leaf(self, kind: Model, parts: Sequence[str]) -> Leaf | None:
        """The one parameter that a model has under a name of torch's, that of a weight tied to another one too."""
        leaves = leaves_called(self.script, kind.cls, ".".join(parts))
        one = leaves[0] if len(leaves) == 1 else None
        return one if one and one.flax.startswith("params/") and not WILDCARD.search(one.flax) else None

    def weight_shape(self, node: cst.Attribute) -> Value | None:
        """`model.table.weight.shape`; None where it is none."""
        owner = self.weight(node.value) if isinstance(node.value, cst.Attribute) else None
        if owner is None:
            return None
        return Value(nodes.expression("{x}.shape", x=owner.node), Items(None, Number(), SHAPE))

    def weight_size(self, node: cst.Call) -> Value | None:
        """`model.head.weight.numel()`; None for other calls."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("numel", "nelement"):
            return None
        owner = self.weight(func.value, moved=True) if isinstance(func.value, cst.Attribute) else None
        return None if owner is None else Value(nodes.expression("{x}.size", x=owner.node), Number())

    def part_listed(self, node: cst.Call) -> Value | None:
        """`model.head.parameters()`, of a part of a model; None for other calls."""
        func = node.func
        if self.context not in HOST_CONTEXTS or not isinstance(func, cst.Attribute):
            return None
        if func.attr.value != "parameters" or node.args or not isinstance(func.value, cst.Attribute):
            return None
        part: Expr = func.value
        while isinstance(part, cst.Attribute) and not isinstance(self.kind_of(part), Model):
            part = part.value
        if part is func.value or not isinstance(self.kind_of(part), Model):
            return None
        chosen = self.called_selection(node)
        return None if chosen is None else self.listed(chosen)


def looked_up(tree: Expr, path: str) -> Expr:
    """What is in a tree at a path, "blocks_{i}/head/kernel"."""
    for key in path.split("/") if path else ():
        tree = nodes.expression("{x}[{k}]", x=tree, k=key_of(key))
    return tree


def key_of(text: str) -> Expr:
    """A key, or a path, of a tree of weights: an f-string where a variable is in it."""
    return cst.parse_expression(f'f"{text}"' if "{" in text else f'"{text}"')


def _rank(leaf: Leaf) -> int:
    """How many axes a leaf has; -1 where its shape is not known."""
    return -1 if leaf.shape is None else len(leaf.shape)
