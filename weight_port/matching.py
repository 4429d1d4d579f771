"""Find which torch module fills which layer of a Flax model, when no manifest says it.

Evidence is what cannot be otherwise: the caller's word, equal names, or that nothing else fits. Whatever is left open
is an error that lists the candidates: weights in the wrong place have the right shapes, too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from migrate.layers.moves import Move, shape_after, show
from migrate.manifest import Leaf, ModelWeights, Tie, Unused
from weight_port.errors import Misfit, Problem, raise_all
from weight_port.forms import MATRICES, SCALE, Form, Slot, forms, wanted_parts
from weight_port.origins import Origin, Ref, origins_of, words
from weight_port.recurrent import CELLS, advice, cell_leaves
from weight_port.regions import TensorInfo
from weight_port.stacks import put_together

IGNORED = {"num_batches_tracked": "Flax counts no batches"}


@dataclass
class Matching:
    """What was found so far: Flax layers with the torch modules that fill them, and what is open on both sides."""

    slots: dict[str, Slot]
    origins: dict[str, Origin]
    found: dict[str, str] = field(default_factory=dict)

    def open_slots(self) -> list[str]:
        return [path for path in self.slots if path not in self.found]

    def open_origins(self) -> list[str]:
        used = set(self.found.values())
        return [prefix for prefix in self.origins if prefix not in used]

    def fitting(self, path: str) -> list[str]:
        """The open torch modules that could fill a layer."""
        slot = self.slots[path]
        return [prefix for prefix in self.open_origins() if choices(slot, self.origins[prefix])]


def match(
    name: str,
    slots: Iterable[Slot],
    tensors: Mapping[str, TensorInfo],
    *,
    names: Mapping[str, str] | None = None,
    layers: Mapping[str, str] | None = None,
    unused: Iterable[str] = (),
    same: Callable[[str, str], bool] = lambda one, other: False,
    parts: Mapping[str, Mapping[str, tuple[int, ...]]] | None = None,
) -> ModelWeights:
    """The manifest of a model whose layers are ``slots``, from the tensors of a checkpoint.

    names: Flax layers (``"blocks_{0}/attn/query"``) with the torch modules that fill them (``"h.{0}.attn.q_proj"``).
    layers: torch modules (patterns) with their classes: "Linear", "Conv1D" (transformers'), "FlattenLinear".
    unused: patterns of keys that are not needed. same: whether two keys hold the same bits. parts: shapes of the
    direction and the length of weights that torch keeps in two.
    Raises one PortError (WPT101, WPT102, WPT109) that lists everything that is open.
    """
    from fnmatch import fnmatchcase

    dropped = {key: IGNORED[last] for key in tensors if (last := key.rpartition(".")[2]) in IGNORED}
    dropped |= {key: "the caller needs it not" for key in tensors if any(fnmatchcase(key, p) for p in unused)}
    kept = {key: info.shape for key, info in tensors.items() if key not in dropped}
    matching = Matching({slot.path: slot for slot in slots}, origins_of(kept, layers or {}, parts or {}))
    ties = _merge_ties(matching, same)
    problems = _told(matching, names or {})
    while _step(matching):
        pass
    problems += _open(matching)
    leaves: list[Leaf] = []
    stacks: dict[str, list[tuple[Slot, list[Leaf]]]] = {}
    filling: set[str] = set()
    for path, slot in matching.slots.items():
        if path in matching.found:
            prefix = matching.found[path]
            made, undecided = _leaves(slot, matching.origins[prefix])
            problems += undecided
            if prefix in filling:  # the caller's word: this layer holds the same weights
                made = [replace(leaf, copy=True) for leaf in made]
            filling.add(prefix)
            if slot.place is None:
                leaves += made
            else:
                stacks.setdefault(slot.place.path, []).append((slot, made))
    raise_all(problems, f"the checkpoint does not tell all of {name}")
    for stack in stacks.values():
        try:
            leaves += put_together(stack)
        except Misfit as misfit:
            problems.append(Problem(misfit.code, str(misfit)))
    raise_all(problems, f"the checkpoint does not tell all of {name}")
    return ModelWeights(name, tuple(leaves), tuple(Unused(k, why) for k, why in dropped.items()), tuple(ties))


# --- what the checkpoint has ------------------------------------------------------------------------------------------


def _merge_ties(matching: Matching, same: Callable[[str, str], bool]) -> list[Tie]:
    """Where Flax has one layer for two torch modules with the same bits (a head that is tied to an embedding)."""
    ties: list[Tie] = []
    by_shape: dict[object, list[str]] = {}
    for prefix, origin in matching.origins.items():
        if set(origin.tensors) == {"weight"} and len(origin.tensors["weight"].shape) == 2:
            by_shape.setdefault(origin.tensors["weight"].shape, []).append(prefix)
    for prefixes in by_shape.values():
        shape = matching.origins[prefixes[0]].tensors["weight"].shape
        wanting = [slot.path for slot in matching.slots.values() if shape in (*slot.leaves.values(), *_turned(slot))]
        if not wanting or len(wanting) >= len(prefixes):
            continue
        kept, *others = sorted(prefixes, key=lambda prefix: -max(_alike(path, prefix) for path in wanting))
        for other in others:
            one, two = (matching.origins[prefix].tensors["weight"].key for prefix in (kept, other))
            if same(one, two):
                ties.append(Tie(two, one))
                del matching.origins[other]
    return ties


def _turned(slot: Slot) -> list[tuple[int, ...]]:
    return [shape[::-1] for shape in slot.leaves.values()]


# --- the search -------------------------------------------------------------------------------------------------------


def choices(slot: Slot, origin: Origin) -> dict[str, list[Form]]:
    """For every leaf the forms in which the module's tensors fill it; empty where they do not fill all, with all."""
    if slot.kind.name in CELLS:
        return {leaf: [] for leaf in slot.leaves} if _of_cell(slot, origin) else {}
    origin = _side(slot, origin)
    found: dict[str, list[Form]] = {}
    used: set[str] = set()
    for leaf, shape in slot.leaves.items():
        fits = [form for form in forms(slot, leaf) if _fits(form, origin, shape)]
        if not fits:
            return {}
        found[leaf] = fits
        used.update(form.suffix for form in fits)
    if SCALE in found:  # what the norms are taken over tells which axis is which
        told = {form.layer for form in found[SCALE]}
        found["kernel"] = [form for form in found["kernel"] if form.layer in told]
    return found if used == set(origin.tensors) else {}


def _side(slot: Slot, origin: Origin) -> Origin:
    """The torch module as a layer is to have it: its weight in parts where the layer keeps it so, too."""
    return origin if slot.kind.norms is None else origin.kept_apart()


def _of_cell(slot: Slot, origin: Origin) -> list[Leaf]:
    return cell_leaves(slot, {name: (ref.key, ref.shape) for name, ref in origin.tensors.items()})


def _fits(form: Form, origin: Origin, shape: tuple[int, ...]) -> bool:
    ref = origin.tensors.get(form.suffix)
    if ref is None or _contradicts(form.layer, origin.layer) or form.stored not in (None, ref.shape):
        return False
    try:
        return shape_after(form.moves, ref.shape) == shape
    except ValueError:
        return False


def _contradicts(layer: str, told: str) -> bool:
    """Whether a tensor of that layer cannot be of the class that the caller named.

    What is said of matrices ({"*": "Linear"}) says nothing of convolutions and embeddings.
    """
    return bool(layer and told) and layer != told and (layer in MATRICES or told not in MATRICES)


def _told(matching: Matching, names: Mapping[str, str]) -> list[Problem]:
    """Take the caller's word, where it fits."""
    from weight_port.names import Pattern

    problems: list[Problem] = []
    for flax, torch in names.items():
        pattern, used = Pattern(flax), False
        for path in matching.open_slots():
            if (numbers := pattern.match(path)) is None:
                continue
            used, prefix = True, Pattern(torch).fill(numbers)
            if prefix not in matching.origins:
                near = difflib.get_close_matches(prefix, matching.origins, n=3)
                advice = f"Near: {', '.join(near)}" if near else ""
                problems.append(Problem("WPT102", f"names= fills {path} by {prefix}, which is not there", advice))
            elif not choices(matching.slots[path], matching.origins[prefix]):
                problems.append(Problem("WPT103", f"{_describe(matching.origins[prefix])} cannot fill {path}, "
                                        f"which has {_leaves_of(matching.slots[path])}"))  # fmt: skip
            else:
                matching.found[path] = prefix
        if not used:
            near = difflib.get_close_matches(flax, matching.slots, n=3)
            advice = f"Near: {', '.join(near)}" if near else ""
            problems.append(Problem("WPT102", f"names= speaks of {flax}, which the model has not", advice))
    return problems


def _step(matching: Matching) -> bool:
    """Find more pairs by the strongest evidence that there is; whether any was found."""
    fitting = {path: matching.fitting(path) for path in matching.open_slots()}
    for evidence in (_same_name, _same_end, _only_one):
        pairs = _mutual(fitting, matching, evidence)
        if pairs:
            matching.found.update(pairs)
            return True
    return _groups(matching, fitting)


def _mutual(
    fitting: Mapping[str, list[str]], matching: Matching, evidence: Callable[[str, list[str], Matching], list[str]]
) -> dict[str, str]:
    """Pairs in which each side points at the other alone."""
    chosen = {
        path: found[0] for path, prefixes in fitting.items() if len(found := evidence(path, prefixes, matching)) == 1
    }
    counts: dict[str, int] = {}
    for prefix in chosen.values():
        counts[prefix] = counts.get(prefix, 0) + 1
    return {path: prefix for path, prefix in chosen.items() if counts[prefix] == 1}


def _same_name(path: str, prefixes: list[str], matching: Matching) -> list[str]:
    wanted = words(path)
    return [prefix for prefix in prefixes if matching.origins[prefix].words == wanted]


def _same_end(path: str, prefixes: list[str], matching: Matching) -> list[str]:
    """The module's path with something before it, as a wrapper adds it; or without."""
    wanted = words(path)
    if not wanted:
        return []
    return [prefix for prefix in prefixes if _ends(matching.origins[prefix].words, wanted)]


def _ends(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    short, long = sorted((one, other), key=len)
    return bool(short) and long[-len(short) :] == short


def _only_one(path: str, prefixes: list[str], matching: Matching) -> list[str]:
    return prefixes


def _groups(matching: Matching, fitting: Mapping[str, list[str]]) -> bool:
    """The same for layers that repeat: those of one name but for the numbers, which have to be equal on both sides."""
    here = _by_template({path: slot.signature for path, slot in matching.slots.items()}, fitting)
    origins = {
        prefix: tuple((name, ref.shape) for name, ref in o.tensors.items()) for prefix, o in matching.origins.items()
    }
    there = _by_template(origins, matching.open_origins())
    fits: dict[str, list[str]] = {}
    for template, members in here.items():
        fits[template] = [
            other
            for other, origins in there.items()
            if origins.keys() == members.keys() and all(origins[n] in fitting[path] for n, path in members.items())
        ]
    for evidence in (_same_last_word, _only_group):
        chosen = {t: found[0] for t, others in fits.items() if len(found := evidence(t, others)) == 1}
        counts = {other: list(chosen.values()).count(other) for other in chosen.values()}
        pairs = {t: other for t, other in chosen.items() if counts[other] == 1}
        # a group that is alone with its numbers must not be the candidate of any other
        if evidence is _only_group:
            pairs = {t: o for t, o in pairs.items() if sum(o in others for others in fits.values()) == 1}
        for template, other in pairs.items():
            matching.found.update({path: there[other][numbers] for numbers, path in here[template].items()})
        if pairs:
            return True
    return False


def _same_last_word(template: str, others: list[str]) -> list[str]:
    last = _last(template)
    return [other for other in others if re.search("[a-z]", "".join(last)) and _last(other) == last]


def _only_group(template: str, others: list[str]) -> list[str]:
    return others


def _last(template: str) -> tuple[str, ...]:
    return words(re.split(r"[./]", template)[-1])


def _by_template(signatures: Mapping[str, object], names: Iterable[str]) -> dict[str, dict[tuple[str, ...], str]]:
    """Names without the numbers by which equal layers are counted, each with those that have them, by the numbers.

    A number counts where another layer has the same name but for it, and the same shapes: the 1 of ``fc1`` does not.
    """
    seen: dict[object, int] = {}
    for name, signature in signatures.items():
        for i, _ in enumerate(re.findall(r"\d+", name)):
            place = (_without(name, i), i, signature)
            seen[place] = seen.get(place, 0) + 1
    found: dict[str, dict[tuple[str, ...], str]] = {}
    for name in names:
        numbers = re.findall(r"\d+", name)
        counting = [i for i in range(len(numbers)) if seen[_without(name, i), i, signatures[name]] > 1]
        template = name
        for i in reversed(counting):
            template = _without(template, i)
        found.setdefault(template, {})[tuple(numbers[i] for i in counting)] = name
    return found


def _without(name: str, which: int) -> str:
    """The name with # for one of its numbers."""
    start, stop = [found.span() for found in re.finditer(r"\d+", name)][which]
    return f"{name[:start]}#{name[stop:]}"


# --- the result -------------------------------------------------------------------------------------------------------


def _leaves(slot: Slot, origin: Origin) -> tuple[list[Leaf], list[Problem]]:
    if slot.kind.name in CELLS:
        return _of_cell(slot, origin), []
    origin = _side(slot, origin)
    made: list[Leaf] = []
    problems: list[Problem] = []
    for leaf, fits in choices(slot, origin).items():
        moves: dict[tuple[str, tuple[Move, ...]], Form] = {(form.suffix, form.moves): form for form in fits}
        flax = slot.name(leaf)
        ref = origin.tensors[fits[0].suffix]
        if len(moves) > 1:
            problems.append(_undecided(flax, slot.leaves[leaf], origin, ref, list(moves.values())))
            continue
        made.append(Leaf(flax, ref.key, fits[0].moves, slot.leaves[leaf], torch_shape=ref.whole, take=ref.take))
    return made, problems


def _undecided(flax: str, shape: tuple[int, ...], origin: Origin, ref: Ref, fits: list[Form]) -> Problem:
    listed = " or ".join(f"{form.layer} ({_ways(form.moves)})" for form in fits)
    advice = " or ".join(f'layers={{"{origin.prefix}": "{form.layer}"}}' for form in fits)
    return Problem("WPT109", f"{ref.key} fills {flax} {show(shape)} as the weight of a {listed}", f"Say {advice}.")


def _ways(moves: tuple[Move, ...]) -> str:
    return ", ".join(" ".join(map(str, move.to_json())) for move in moves) or "as it is"


def _open(matching: Matching) -> list[Problem]:
    """Flax layers that nothing was found for, then torch modules that nothing uses."""
    problems: list[Problem] = []
    wanted: set[str] = set()
    for path in matching.open_slots():
        slot, fitting = matching.slots[path], matching.fitting(path)
        wanted.update(fitting)
        what = f"{path or 'the model itself'} ({_leaves_of(slot)})"
        if fitting:
            listed = ", ".join(fitting[:8]) + (", ..." if len(fitting) > 8 else "")
            problems.append(Problem("WPT109", f"{what} could be filled by any of {listed}",
                                    f'Say names={{"{path}": "{fitting[0]}"}}, or which.'))  # fmt: skip
        else:
            near = sorted(matching.open_origins(), key=lambda prefix: -_alike(path, prefix))[:3]
            listed = "; ".join(_describe(matching.origins[prefix]) for prefix in near)
            shared = [prefix for prefix in matching.found.values() if choices(slot, matching.origins[prefix])]
            unused = f"Not used: {listed}." if near else ""
            if shared and not near:
                unused = f'Where it shares the weight of {shared[0]}, say names={{"{path}": "{shared[0]}"}}.'
            problems.append(Problem("WPT102", f"nothing fills {what}", advice(slot) or wanted_parts(slot) or unused))
    for prefix in matching.open_origins():
        if prefix not in wanted:
            problems.append(Problem("WPT101", f"nothing uses {_describe(matching.origins[prefix])}",
                                    "If nobody needs it, say unused=[...]."))  # fmt: skip
    return problems


def _alike(path: str, prefix: str) -> float:
    return difflib.SequenceMatcher(None, words(path), words(prefix)).ratio()


def _describe(origin: Origin) -> str:
    return ", ".join(f"{ref.key} {show(ref.shape)}" for ref in origin.tensors.values())


def _leaves_of(slot: Slot) -> str:
    kind = f"{slot.kind.name}: " if slot.kind.name else ""
    return kind + ", ".join(f"{leaf} {show(shape)}".strip() for leaf, shape in slot.leaves.items())
