"""Weights of layers in a list, which a script reads one by one:

for block in model.blocks:
    file.write(block.head.weight.detach().numpy().tobytes())

In Flax a list of layers is entries of the tree of weights, each a tree itself: a name for a layer stands for its tree,
and the number of one is part of a key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Model, Number, Place
from migrate.known.states import PARAMS, State
from migrate.known.weight_kinds import Weight, WeightsOfPart
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.modules.layer_weights import in_torch_order
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.weights.weight_values import WeightValues, looked_up
from migrate.manifest import WILDCARD, Leaf
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.syntax.usage import looped_over
from migrate.weights import weights_of

_ROW = re.compile(r"(?:(.*)/)?([^/]+)_\{\d+\}")


@dataclass(frozen=True)
class _Path:
    """What is read of the weights of a part, which an expression stands for, or of a whole model: the steps from there,
    names, numbers, and variables that are numbers, as an f-string has them."""

    owner: Expr
    part: WeightsOfPart
    steps: tuple[str, ...]

    def numbers(self, leaf: Leaf) -> dict[str, str] | None:
        """The numbers of the layers, by their wildcards, with which the steps lead to a weight or to what it is in;
        None where they lead elsewhere."""
        begins = f"{self.part.torch}." if self.part.torch else ""
        names = leaf.torch.removeprefix(begins).split(".")
        if not leaf.torch.startswith(begins) or len(names) < len(self.steps):
            return None
        found: dict[str, str] = {}
        for name, step in zip(names, self.steps, strict=False):
            if WILDCARD.fullmatch(name) and _is_number(step):
                found[name] = step
            elif name != step:
                return None
        return found

    def ends_at(self, leaf: Leaf) -> bool:
        """Whether steps that lead to a weight are all that there are to it."""
        return leaf.torch.count(".") + 1 == len(self.steps) + len(self.part.torch.split(".") if self.part.torch else [])


class WeightsInRows(WeightValues):
    """Rows of layers of a model, its layers and their weights as values."""

    def weights_in_rows(self, node: Expr) -> Value | None:
        """`model.blocks`, which a loop goes through, as the trees of its layers, and `block.head.weight`, as it is in
        torch; None of other expressions. Raises Unsupported for what is no weight of a layer."""
        path = self._path(node) if self.context in (*HOST_CONTEXTS, "region") else None
        if path is None or not path.steps:
            return None
        leaf = self._leaf(path)
        if leaf is None:
            row = self._row(path) if node in looped_over(self.unit.source.module) else None
            if row is None and path.part.torch and not self._is_of_weight(path):
                raise not_at_hand(node)
            return row
        made = in_torch_order(looked_up(self._tree(path), leaf.flax.removeprefix(f"{path.part.flax}/")), leaf.moves)
        return None if made is None else Value(made, Weight(True, path.part.place, leaf.flax, live=True))

    def leaf_in_row(self, node: Expr) -> tuple[Place, Leaf] | None:
        """The model, and the parameter of it that `model.blocks[i].head.weight` is, with the numbers of the layers as
        an f-string has them in its path; None of anything else."""
        path = self._path(node)
        leaf = self._leaf(path) if path is not None and not path.part.torch else None
        return None if path is None or leaf is None else (path.part.place, leaf)

    def _path(self, node: Expr) -> _Path | None:
        steps: list[str] = []
        while not isinstance(kind := self.kind_of(node), Model | WeightsOfPart):
            match node:
                case cst.Attribute(value=owner, attr=cst.Name(name)):
                    steps.insert(0, name)
                case cst.Subscript(value=owner, slice=[cst.SubscriptElement(cst.Index(index))]):
                    steps.insert(0, self._step(index))
                case _:
                    return None
            node = owner
        if isinstance(kind, WeightsOfPart):
            return _Path(node, kind, tuple(steps))
        if kind.place is None:
            return None
        return _Path(node, WeightsOfPart(kind.cls, kind.place, "", "params"), tuple(s for s in steps if s != "module"))

    def _tree(self, path: _Path) -> Expr:
        """The weights that a path begins at."""
        part = path.part
        return path.owner if part.torch else self.read(State(PARAMS, part.place))

    def _step(self, index: Expr) -> str:
        """How the number or the name of a layer stands in a key: a literal, a variable in braces, "" of others."""
        literal = nodes.literal(index)
        if isinstance(literal, int | str):
            return str(literal)
        named = isinstance(index, cst.Name) and isinstance(self.kind_of(index), Number)
        return f"{{{nodes.code(self.expr(index).node)}}}" if named else ""

    def _leaf(self, path: _Path) -> Leaf | None:
        """The weight that a path leads to, where it begins in a layer of a row or such a layer is on the way."""
        if not path.part.torch and not any(map(_is_number, path.steps)):
            return None
        found = [
            (leaf, numbers)
            for leaf in weights_of(self.script, path.part.cls)
            if path.ends_at(leaf) and (numbers := path.numbers(leaf)) is not None
        ]
        ((leaf, numbers),) = found if len(found) == 1 else ((None, {}),)
        if leaf is None or not (numbers or path.part.torch) or not leaf.flax.startswith(f"{path.part.flax}/"):
            return None
        inside = leaf.flax.removeprefix(path.part.flax)
        for wild, number in numbers.items():
            inside = inside.replace(wild, number)
        return None if WILDCARD.search(inside) else replace(leaf, flax=path.part.flax + inside)

    def _is_of_weight(self, path: _Path) -> bool:
        """Whether what is read is something of a weight: `block.head.weight.shape`."""
        return any(self._leaf(replace(path, steps=path.steps[:end])) for end in range(1, len(path.steps)))

    def _row(self, path: _Path) -> Value | None:
        """The trees of the layers of a row."""
        row = self._in_row(path)
        if row is None:
            return None
        tree, name, layer = row
        made = nodes.call("weights_in_row", tree, nodes.expression(f'"{name}"'))
        return Value(with_snippets(self, made, ["weights_in_row"]), Items(None, layer))

    def _in_row(self, path: _Path) -> tuple[Expr, str, WeightsOfPart] | None:
        """The tree that the layers of a row are in, what they are called there, and what each of them is; None where a
        path leads to no row, or through another one."""
        wild = f"{{{len(WILDCARD.findall(path.part.torch))}}}"
        torch = ".".join([*filter(None, [path.part.torch]), *path.steps, wild])
        inside = [leaf.flax for leaf in weights_of(self.script, path.part.cls) if leaf.torch.startswith(f"{torch}.")]
        heads = {flax.partition(f"{wild}/")[0] + wild for flax in inside}
        (head,) = heads if len(heads) == 1 else ("",)
        match = _ROW.fullmatch(head.removeprefix(f"{path.part.flax}/"))
        if match is None or not head.startswith(f"{path.part.flax}/") or WILDCARD.search(match[1] or ""):
            return None
        return looked_up(self._tree(path), match[1] or ""), match[2], replace(path.part, torch=torch, flax=head)


def _is_number(step: str) -> bool:
    """Whether a step may be the number of a layer."""
    return step.isdigit() or step.startswith("{")


def not_at_hand(node: Expr) -> Unsupported:
    """The refusal of what a script does with a layer of a list but to read a weight."""
    return Unsupported("MIG301", f"{nodes.code(node)}: a layer of a list, of which Flax has the weights alone")
