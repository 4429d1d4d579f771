"""The weight manifest of a rewritten script, from the module trees that the lowering built."""

from __future__ import annotations

from migrate.kinds import BoundWeight, ClassNode, LayerNode, ListNode, Node
from migrate.manifest import Leaf, Manifest, ModelWeights, Tie, Unused
from migrate.qualified import spelled
from migrate.script import INLINE, ClassFacts, Script, classes_in


def manifest_of(script: Script, source: str) -> Manifest:
    """One entry for each class that the script makes a model of; in a file of models alone, for each outermost
    class."""
    made = list(dict.fromkeys(script.places.values()))
    if not made:
        inner = {
            cls for facts in script.classes.values() for node in facts.children.values() for cls in classes_in(node)
        }
        made = [name for name in script.classes if name not in inner]
    return Manifest(source, "linen", tuple(_model(script, cls) for cls in made))


def _model(script: Script, cls: str) -> ModelWeights:
    collected = _Collected(script)
    collected.cls(cls, "", "", 0)
    return ModelWeights(
        spelled(cls).partition(INLINE)[0], tuple(collected.leaves), tuple(collected.unused), tuple(collected.ties)
    )


class _Collected:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.leaves: list[Leaf] = []
        self.unused: list[Unused] = []
        self.ties: list[Tie] = []
        self.inside: list[str] = []

    # Each takes the torch and the Flax name of where it is, "" at the top. `depth` counts the lists around it whose
    # length is not known: the next one's index is written {depth}.

    def cls(self, name: str, torch: str, flax: str, depth: int) -> None:
        facts = self.script.classes.get(name)
        if facts is None or name in self.inside:  # a class that holds itself has no finite list of leaves
            return
        self.inside.append(name)
        self.members(facts, torch, flax, depth)
        self.inside.pop()

    def members(self, facts: ClassFacts, torch: str, flax: str, depth: int) -> None:
        for weight in facts.parameters.values():
            self.weight(weight, torch, flax, depth)
        for attribute, node in facts.children.items():
            renamed = facts.renamed.get(attribute, attribute)
            self.node(node, _join(torch, ".", attribute), _join(flax, "/", renamed), depth)
        for buffer, reason in facts.buffers.items():
            self.unused.append(Unused(_join(torch, ".", buffer), reason))
        for key, source in facts.ties.items():
            self.ties.append(Tie(_join(torch, ".", key), _join(torch, ".", source)))

    def node(self, node: Node, torch: str, flax: str, depth: int) -> None:
        if isinstance(node, LayerNode):
            for weight in node.weights:
                self.weight(weight, torch, flax, depth)
            self.unused += [Unused(_join(torch, ".", key), reason) for key, reason in node.unused]
        elif isinstance(node, ClassNode):
            self.cls(node.cls, torch, flax, depth)
        elif node.dynamic:
            index = f"{{{depth}}}"
            for child in node.children:
                separator = "." if node.infix else ""
                inner = f"{torch}{separator}{index}" if separator else torch
                self.node(child, inner, f"{flax}{node.infix}{index}" if node.infix else flax, depth + 1)
        else:
            self.numbered(node, torch, flax, depth)

    def numbered(self, node: ListNode, torch: str, flax: str, depth: int) -> None:
        number = 0  # a layout move in a Sequential has a place in Flax's list but none in torch's
        for position, child in enumerate(node.children):
            if isinstance(child, LayerNode) and not child.torch:
                continue
            self.node(
                child, f"{torch}.{number}" if torch else str(number), f"{flax}{node.infix}{position}".lstrip("/"), depth
            )
            number += 1

    def weight(self, weight: BoundWeight, torch: str, flax: str, depth: int) -> None:
        own, key = (name.replace("{i}", f"{{{depth}}}") for name in (weight.leaf, weight.torch))
        path = _join(_join(weight.collection, "/", flax), "/", own)
        leaf = Leaf(path, _join(torch, ".", key), weight.moves, weight.shape, optional=weight.optional)
        if leaf not in self.leaves:
            self.leaves.append(leaf)


def _join(base: str, separator: str, name: str) -> str:
    return f"{base}{separator}{name}" if base and name else base or name
