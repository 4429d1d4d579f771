"""The weight manifest of a rewritten script, from the module trees that the lowering built."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from migrate import saved_files
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ANY_NAME, BoundWeight, ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.facts import ClassFacts
from migrate.known.qualified import FILE, file_of, is_chosen, options, spelled, spelled_options
from migrate.known.saved import SavedEntry
from migrate.known.script import INLINE, Script, classes_in
from migrate.layers.moves import Shape
from migrate.manifest import WILDCARD, Leaf, Manifest, ModelWeights, Tie, Unused
from migrate.saved_files import Chain, Entry, SavedFile

UNCALLED = "of a module that nothing calls: Flax makes no weights for it"
_DEEPEST = 3  # how often a class may stand inside itself: weights further down are refused when they are ported


def manifest_of(script: Script, source: str) -> Manifest:
    """One entry for each class that the script makes a model of; in a file of models alone, for each outermost
    class."""
    inner = {cls for facts in script.classes.values() for node in facts.children.values() for cls in classes_in(node)}
    bases = {base for facts in script.classes.values() for base in facts.bases}
    outermost = [name for name in script.classes if name not in inner | bases and INLINE not in name]
    placed = [option for cls in script.places.values() for option in options(cls)]
    made = list(dict.fromkeys([*placed, *outermost]))
    models: dict[str, ModelWeights] = {}
    names: dict[str, str] = {}
    for cls in sorted(made, key=lambda cls: bool(file_of(cls))):  # the script's own keep their names
        model = model_weights(script, cls)
        if models.setdefault(model.name, model) != model:  # two classes of the same name, in two files
            file = file_of(cls).removesuffix(FILE).replace("/", ".")
            model = replace(model, name=f"{file}.{model.name}")
            models[model.name] = model
        names[cls] = model.name
    return Manifest(source, "linen", tuple(models.values()), _saved(script, names))


def _saved(script: Script, names: Mapping[str, str]) -> tuple[SavedFile, ...]:
    """What each file holds that the script saves. `names`: class -> what the manifest calls it."""
    files = (tuple(_saved_entry(script, names, entry, saved) for entry in saved) for saved in script.saved)
    return tuple(dict.fromkeys(files))


def _saved_entry(script: Script, names: Mapping[str, str], entry: SavedEntry, saved: Sequence[SavedEntry]) -> Entry:
    place = entry.place
    if place is None:
        return Entry(entry.key, entry.holds)
    if entry.holds == saved_files.MODEL:
        cls = script.places.get(place, "")
        return Entry(entry.key, entry.holds, names.get(cls, ""), variables=bool(cls) and script.has_stats(cls))
    if entry.holds == saved_files.OPTIMIZER:
        whose = [one.key for one in saved if (one.place,) == script.optimizers.get(place)]
        chains = tuple(Chain(one.torch, _in_one_line(one.optax), one.whole) for one in script.chains.get(place, ()))
        return Entry(entry.key, entry.holds, of=whose[0] if whose else "", chains=chains)
    whose = [one.key for one in saved if one.place == place and one.holds == saved_files.OPTIMIZER]
    return Entry(entry.key, entry.holds, of=whose[0] if whose else "")


def _in_one_line(expression: str) -> str:
    return ast.unparse(ast.parse(expression, mode="eval"))


def weights_of(script: Script, cls: str) -> list[Leaf]:
    """The leaves of a model of the class, in torch's order; those of each class that a model may have."""
    found = [leaf for option in options(cls) for leaf in model_weights(script, option).leaves]
    return list({(leaf.flax, leaf.torch): leaf for leaf in found}.values())


def leaves_called(script: Script, cls: str, name: str) -> list[Leaf]:
    """The leaves of a model of the class that have a name in torch; that of another one where a weight is surely tied
    to it."""
    each = [model_weights(script, option) for option in options(cls)]
    found = [leaf for one in each for leaf in one.leaves if leaf.torch == name]
    if not found and len(each) == 1:
        tied = {tie.same_as for tie in each[0].ties if tie.torch == name and not tie.optional}
        found = [leaf for leaf in each[0].leaves if leaf.torch in tied]
    return list({(leaf.flax, leaf.torch): leaf for leaf in found}.values())


def same_weights(script: Script, one: str, other: str) -> bool:
    """Whether models of two classes have the same weights, in the same order, with the same names in the output."""
    if one == other:
        return True
    own, others = ([(leaf.torch, leaf.flax) for leaf in weights_of(script, cls)] for cls in (one, other))
    return own == others


def still_weights(script: Script, cls: str) -> frozenset[str]:
    """The Flax paths of the weights of a model that never have a gradient: `requires_grad=False` as they are made."""
    if is_chosen(cls):
        (first, *others) = (still_weights(script, option) for option in options(cls))
        if any(first != other for other in others):
            raise Unsupported("MIG404", f"which weights stay as they are of a model that is {spelled_options(cls)}")
        return first
    collected = _Collected(script)
    collected.cls(cls, "", "", 0)
    return frozenset(collected.still)


def frozen_by_constructors(script: Script, cls: str) -> frozenset[str]:
    """The Flax paths of the weights of a model that the constructors of its class and of its parts freeze."""
    found: list[frozenset[str]] = []
    for option in options(cls):
        collected = _Collected(script)
        collected.cls(option, "", "", 0)
        found.append(frozenset(collected.frozen))
    if len(set(found)) > 1:
        raise Unsupported("MIG404", f"which weights are frozen of a model that is {spelled_options(cls)}")
    return found[0] if found else frozenset()


def _name(script: Script, cls: str) -> str:
    made = script.classes.get(cls)
    return made.output_name if made is not None and made.output_name else spelled(cls).partition(INLINE)[0]


def counts_batches(torch: str) -> bool:
    """Whether torch's name of something in a state dict is that of a counter, which Flax has no use of."""
    return torch.rpartition(".")[2] == "num_batches_tracked"


def model_weights(script: Script, cls: str) -> ModelWeights:
    """All that is known of the weights of a model of the class."""
    collected = _Collected(script)
    collected.cls(cls, "", "", 0)
    return ModelWeights(_name(script, cls), tuple(collected.leaves), tuple(collected.unused), tuple(collected.ties))


def buffer_paths(script: Script, cls: str) -> list[tuple[str, str, str]]:
    """What a model of the class makes anew: torch's name, its path in Flax, and why it is no weight."""
    collected = _Collected(script)
    collected.cls(cls, "", "", 0)
    return list(dict.fromkeys(collected.buffers))


def surely_keeps_statistics(script: Script, cls: str) -> bool:
    """Whether every model of the class keeps batch statistics, whatever its constructor is given."""
    leaves = model_weights(script, cls).leaves
    return any(leaf.flax.startswith("batch_stats/") and not leaf.optional for leaf in leaves)


class _Collected:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.leaves: list[Leaf] = []
        self.unused: list[Unused] = []
        self.ties: list[Tie] = []
        self.buffers: list[tuple[str, str, str]] = []
        self.still: set[str] = set()
        self.frozen: set[str] = set()
        self.inside: list[str] = []

    # Each takes the torch and the Flax name of where it is, "" at the top. `depth` counts the lists around it whose
    # length is not known: the next one's index is written {depth}. `optional`: it is made or not as an argument says.

    def cls(self, name: str, torch: str, flax: str, depth: int, optional: bool = False) -> None:
        facts = self.script.classes.get(name)
        again = self.inside.count(name)  # a class that holds itself does so down to a depth that an argument tells
        if facts is None or again > _DEEPEST:
            return
        self.inside.append(name)
        self.members(facts, torch, flax, depth, optional or again > 0)
        self.inside.pop()

    def members(self, facts: ClassFacts, torch: str, flax: str, depth: int, optional: bool) -> None:
        start = len(self.leaves)
        for weight in facts.parameters.values():
            self.weight(weight, torch, flax, depth, optional)
        fields = {attribute: name for name, attribute in facts.kept_as.items()}  # Flax names a given module by these
        for attribute, node in facts.children.items():
            renamed, inner = fields.get(attribute) or facts.renamed.get(attribute, attribute), depth
            if "{}" in attribute:  # an attribute that `setattr` gives a number
                attribute, renamed, inner = attribute.format(f"{{{depth}}}"), renamed.format(f"{{{depth}}}"), depth + 1
            if attribute in facts.registered and isinstance(node, ListNode):
                self.registered(
                    node, _join(torch, ".", facts.registered[attribute]), _join(flax, "/", renamed), depth, optional
                )
                continue
            unnamed = attribute == facts.unnamed
            path = torch if unnamed else _join(torch, ".", attribute)
            if unnamed or not self.uncalled(attribute, node, path):
                self.node(node, path, _join(flax, "/", renamed), inner, optional)
        for buffer, reason in facts.buffers.items():
            self.unused.append(Unused(_join(torch, ".", buffer), reason))
            path = _join(flax, "/", facts.renamed.get(buffer, buffer))
            self.buffers.append((_join(torch, ".", buffer), path, reason))
        for key, source in facts.ties.items():
            self.ties.append(Tie(_join(torch, ".", key), _join(torch, ".", source), key in facts.told_ties))
        if facts.frozen_parts:
            frozen = {_uncounted(_join(torch, ".", key)) for key in facts.frozen_parts}
            self.frozen |= {leaf.flax for leaf in self.leaves if _uncounted(leaf.torch) in frozen}
        for path, first in facts.shared.items():
            self.share(start, _join(torch, ".", path), _join(torch, ".", first))

    def share(self, start: int, path: str, first: str) -> None:
        """A module that is part of another one twice has its weights once in Flax, where it was put first."""
        again = [leaf for leaf in self.leaves[start:] if leaf.torch.startswith(f"{path}.")]
        self.leaves = [leaf for leaf in self.leaves if leaf not in again]
        self.ties += [Tie(leaf.torch, first + leaf.torch.removeprefix(path)) for leaf in again]

    def uncalled(self, attribute: str, node: Node, torch: str) -> bool:
        """Whether nothing ever asks for a module that is made: Flax then makes no weights for it, and torch's are
        unused."""
        if not self.script.never_read(attribute):
            return False
        inner = _Collected(self.script)
        inner.node(node, torch, "", 0, False)
        if inner.ties or any(WILDCARD.search(leaf.torch) for leaf in inner.leaves):
            return False
        self.unused += [Unused(leaf.torch, UNCALLED) for leaf in inner.leaves] + inner.unused
        return True

    def node(self, node: Node, torch: str, flax: str, depth: int, optional: bool) -> None:
        if isinstance(node, LayerNode):
            for weight in node.weights:
                self.weight(weight, torch, flax, depth, optional)
            keys = {key.replace("{i}", f"{{{depth}}}"): reason for key, reason in node.unused}
            self.unused += [Unused(_join(torch, ".", key), reason) for key, reason in keys.items()]
        elif isinstance(node, ClassNode):
            self.cls(node.cls, torch, flax, depth, optional)
        elif isinstance(node, ChoiceNode):
            for child in node.children:
                self.node(child, torch, flax, depth, True)
        elif node.named:
            self.named(node, torch, flax, depth)
        elif node.dynamic:
            index = f"{{{depth}}}"
            optional = optional or len(node.children) > 1  # of several sorts, none need be there
            path = f"{flax}{node.infix}{index}".lstrip("/")
            for child in node.children:
                self.node(child, _join(torch, ".", index), path, depth + 1, optional)
        else:
            self.numbered(node, torch, flax, depth, optional)

    def registered(self, node: ListNode, pattern: str, flax: str, depth: int, optional: bool) -> None:
        """A list whose elements are attributes in torch: {} of the pattern stands for the number."""
        optional = optional or (node.dynamic and len(node.children) > 1)
        for number, child in enumerate(node.children):
            index = f"{{{depth}}}" if node.dynamic else str(number)
            path = pattern.replace("{}", index)
            self.node(child, path, f"{flax}{node.infix}{index}", depth + node.dynamic, optional)

    def named(self, node: ListNode, torch: str, flax: str, depth: int) -> None:
        for key, child in zip(node.keys, node.children, strict=True):
            first, *others = ANY_NAME.split(key)[::2]
            sorts = ANY_NAME.findall(key)
            count = len(sorts)
            holes = [f"{{{sort}{depth + number}}}" for number, sort in enumerate(sorts)]
            name = first + "".join(hole + rest for hole, rest in zip(holes, others, strict=True))
            self.node(child, _join(torch, ".", name), f"{flax}{node.infix}{name}".lstrip("/"), depth + count, True)

    def numbered(self, node: ListNode, torch: str, flax: str, depth: int, optional: bool) -> None:
        number = 0  # a layout move in a Sequential has a place in Flax's list but none in torch's
        for position, child in enumerate(node.children):
            if isinstance(child, LayerNode) and not child.torch:
                continue
            key = node.keys[number] if node.keys else str(number)
            name = key if node.infix == "_" else str(position)
            self.node(child, _join(torch, ".", key), f"{flax}{node.infix}{name}".lstrip("/"), depth, optional)
            number += 1

    def weight(self, weight: BoundWeight, torch: str, flax: str, depth: int, optional: bool) -> None:
        own, key = (name.replace("{i}", f"{{{depth}}}") for name in (weight.leaf, weight.torch))
        path = _join(_join(weight.collection, "/", flax), "/", own)
        if weight.still:
            self.still.add(path)
        leaf = Leaf(path, _join(torch, ".", key), weight.moves, weight.shape, None, weight.optional or optional)
        for number, known in enumerate(self.leaves):
            if (known.flax, known.torch, known.moves) == (leaf.flax, leaf.torch, leaf.moves):
                self.leaves[number] = _covering(known, leaf)
                return
        self.leaves.append(leaf)


def _covering(one: Leaf, other: Leaf) -> Leaf:
    """One leaf for two that differ in what is known of them alone: of two alternatives neither is required."""
    return Leaf(
        one.flax,
        one.torch,
        one.moves,
        _agreed(one.shape, other.shape),
        None,
        one.optional or other.optional,
    )


def _agreed(one: Shape | None, other: Shape | None) -> Shape | None:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def _uncounted(name: str) -> str:
    """A name whose numbers that are not known have no numbers themselves."""
    return WILDCARD.sub("{}", name)


def _join(base: str, separator: str, name: str) -> str:
    return f"{base}{separator}{name}" if base and name else base or name
