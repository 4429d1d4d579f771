"""Labels of parameters for `optax.multi_transform`: which optimizer each of them has, said in the shortest way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise, permutations

from migrate.diagnostics import Unsupported
from migrate.manifest import WILDCARD, Leaf
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

FROZEN = "frozen"
_FROM_THE_END = re.compile(r"\{-(\d+)\}")  # the number of a layer in a list whose length is not known


def labels_of(trees: Sequence[tuple[Sequence[Leaf], Mapping[str, str]]], by_rank: bool) -> Expr:
    """The labels of the parameters of one or several models: for each its leaves, and the label of each leaf.
    `by_rank`: the script tells them apart by their numbers of axes."""
    parts = [
        _tree(leaves, labels, by_rank, "params" if len(trees) == 1 else f"params[{number}]")
        for number, (leaves, labels) in enumerate(trees)
    ]
    if len(parts) == 1:
        return nodes.expression(parts[0] if "params" not in parts[0] else f"lambda params: {parts[0]}")
    text = f"({', '.join(parts)})"
    return nodes.expression(text if "params" not in text else f"lambda params: {text}")


def mask_of(leaves: Sequence[Leaf], chosen: Mapping[str, bool], by_rank: bool) -> Expr:
    """The test of which parameters of a model some are, as `optax.adamw` takes it."""
    text = _tree(leaves, {leaf: str(held) for leaf, held in chosen.items()}, by_rank, "params")
    return nodes.expression(f"lambda params: {_as_tests(text)}")


def listing_of(leaves: Sequence[Leaf], chosen: set[str], by_rank: bool, params: str) -> str:
    """Some of the parameters of a model as a list."""
    labels = {leaf.flax: str(leaf.flax in chosen) for leaf in leaves}
    if set(labels.values()) <= {"True"}:
        return f"jax.tree.leaves({params})"
    rank = _first_rank(leaves, labels)
    if by_rank and rank is not None:
        test = _as_tests(_ranked("p", rank, leaves, labels))
        return f"[p for p in jax.tree.leaves({params}) if {test}]"
    part = _by_name(leaves, labels, 1, lambda test: test, "name")
    if part is not None:
        return f"jax.tree.leaves({{name: {params}[name] for name in {params} if {_as_tests(part)}}})"
    own = _by_name(leaves, labels, -1, lambda test: test, "path[-1].key")
    if own is not None:
        return f"[p for path, p in jax.tree.leaves_with_path({params}) if {_as_tests(own)}]"
    path = _told_by_path(leaves, labels, params)
    if path is not None:
        return f"[p for path, p in jax.tree.leaves_with_path({params}) if {_as_tests(path)}]"
    raise Unsupported("MIG302", "a list of parameters that no simple test tells apart")


def _as_tests(text: str) -> str:
    """Labels that are "True" and "False" as the tests which they are told by."""
    text = re.sub(r'"True" if (.+?) else "False"', r"\1", text)
    return re.sub(r'"False" if (.+?) else "True"', lambda found: negated(found[1]), text)


def test_by_part(leaves: Sequence[Leaf], chosen: AbstractSet[str], subject: str) -> str | None:
    """The test of whether the part of the model that a parameter is in has chosen ones alone; "" of all parts, None
    where one has others, too."""
    labels = {leaf.flax: str(leaf.flax in chosen) for leaf in leaves}
    part = _by_name(leaves, labels, 1, lambda test: test, subject)
    return None if part is None else _as_tests(part) if " if " in part else ""


def test_by_path(leaves: Sequence[Leaf], chosen: AbstractSet[str], subject: str, separator: str) -> str | None:
    """The test of whether a parameter is a chosen one, by its path with some separator."""
    paths = {leaf.flax.removeprefix("params/"): str(leaf.flax in chosen) for leaf in leaves}
    begun = _prefixes(paths, "True")
    heads = {path[: found.start()] for path in paths if (found := WILDCARD.search(path))}
    if any(prefix.startswith(head) for head in heads for prefix in begun):
        return None  # a part of a row, of which it may be one element and not another
    prefixes = [_quoted(prefix.replace("/", separator)) for prefix in begun]
    return f"{subject}.startswith({prefixes[0] if len(prefixes) == 1 else '(' + ', '.join(prefixes) + ')'})"


_OPPOSITES = (
    (" == ", " != "),
    (" != ", " == "),
    (" not in ", " in "),
    (" in ", " not in "),
    (" >= ", " < "),
    (" < ", " >= "),
)


def negated(test: str) -> str:
    """The opposite of a test, as short as may be."""
    several = " or " in test or " and " in test
    for operator, opposite in _OPPOSITES:
        if test.count(operator) == 1 and not several and ".startswith(" not in test:
            return test.replace(operator, opposite)
    return f"not ({test})" if several else f"not {test}"


def _tree(leaves: Sequence[Leaf], labels: Mapping[str, str], by_rank: bool, params: str) -> str:
    """The labels of one model."""
    if len(set(labels.values())) == 1:
        return _quoted(next(iter(labels.values())))
    ways: list[Callable[[], str | None]] = [
        lambda: _by_first(leaves, labels, params),
        lambda: _by_last(leaves, labels, params),
        lambda: _by_path(leaves, labels, params),
        lambda: _by_last_or_first(leaves, labels, params),
    ]
    ways.insert(0 if by_rank else 2, lambda: _by_ndim(leaves, labels, params))
    for way in ways:
        made = way()
        if made is not None:
            return made
    raise Unsupported("MIG302", "groups of parameters that no simple test tells apart")


def _by_first(leaves: Sequence[Leaf], labels: Mapping[str, str], params: str) -> str | None:
    """By the part of the model that they belong to."""
    return _by_name(leaves, labels, 1, lambda test: f"{{name: {test} for name in {params}}}", "name")


def _by_last(leaves: Sequence[Leaf], labels: Mapping[str, str], params: str) -> str | None:
    """By their own names: kernel, bias, scale."""
    around = f"jax.tree.map_with_path(lambda path, _: {{}}, {params})".format
    return _by_name(leaves, labels, -1, lambda test: around(test), "path[-1].key")


def _by_name(
    leaves: Sequence[Leaf], labels: Mapping[str, str], position: int, around: Callable[[str], str], subject: str
) -> str | None:
    found: dict[str, str] = {}
    for leaf in leaves:
        name = leaf.flax.split("/")[position]
        if found.setdefault(name, labels[leaf.flax]) != labels[leaf.flax]:
            return None
    by_label: dict[str, list[str]] = {}
    for name, label in found.items():
        by_label.setdefault(label, []).append(name)
    order = sorted(by_label, key=lambda label: len(by_label[label]))
    text = _quoted(order[-1])
    for label in reversed(order[:-1]):
        test = _is_one_of(subject, by_label[label], list(found))
        if test is None:
            return None
        text = f"{_quoted(label)} if {test} else {text}"
    return around(text)


def _is_one_of(subject: str, names: Sequence[str], every: Sequence[str]) -> str | None:
    """The test for some of all names; a number stands for any that a list has."""
    if any(_FROM_THE_END.search(name) for name in every):
        return None
    prefixes = [WILDCARD.split(name)[0] for name in names if WILDCARD.search(name)]
    others = [name for name in every if name not in names]
    if any(WILDCARD.split(other)[0].startswith(prefix) for prefix in prefixes for other in others):
        return None
    exact = [name for name in names if not WILDCARD.search(name)]
    tests = [f"{subject}.startswith({_quoted(prefix)})" for prefix in prefixes]
    if len(exact) == 1:
        tests.append(f"{subject} == {_quoted(exact[0])}")
    elif exact:
        tests.append(f"{subject} in ({', '.join(map(_quoted, exact))})")
    return " or ".join(tests)


def _by_ndim(leaves: Sequence[Leaf], labels: Mapping[str, str], params: str) -> str | None:
    """By the number of axes, where that is the same test for all of Flax's weights as for torch's."""
    rank = _first_rank(leaves, labels)
    return None if rank is None else f"jax.tree.map(lambda p: {_ranked('p', rank, leaves, labels)}, {params})"


def _ranked(name: str, rank: int, leaves: Sequence[Leaf], labels: Mapping[str, str]) -> str:
    """The label of a parameter by its number of axes."""
    (high, *_) = (labels[leaf.flax] for leaf in leaves if leaf.shape is not None and len(leaf.shape) >= rank)
    (low, *_) = (labels[leaf.flax] for leaf in leaves if leaf.shape is not None and len(leaf.shape) < rank)
    return f"{_quoted(high)} if {name}.ndim >= {rank} else {_quoted(low)}"


def _first_rank(leaves: Sequence[Leaf], labels: Mapping[str, str]) -> int | None:
    """The number of axes from which on the label is another one; None where they do not tell labels apart."""
    found: dict[int, str] = {}
    for leaf in leaves:
        if leaf.shape is None or found.setdefault(len(leaf.shape), labels[leaf.flax]) != labels[leaf.flax]:
            return None
    ranks = sorted(found)
    changes = [rank for before, rank in pairwise(ranks) if found[rank] != found[before]]
    return changes[0] if len(changes) == 1 else None


def _by_path(leaves: Sequence[Leaf], labels: Mapping[str, str], params: str) -> str | None:
    """By the beginning of their paths."""
    text = _told_by_path(leaves, labels, params)
    return None if text is None else f"jax.tree.map_with_path(lambda path, _: {text}, {params})"


def _told_by_path(leaves: Sequence[Leaf], labels: Mapping[str, str], params: str) -> str | None:
    """The label of a parameter by the beginning of its `path`. Those that are in lists of layers, whatever their
    numbers, have the label that all others have."""
    paths = {leaf.flax.removeprefix("params/"): labels[leaf.flax] for leaf in leaves}
    counts = {label: list(paths.values()).count(label) for label in paths.values()}
    anywhere = {label for path, label in paths.items() if WILDCARD.search(path)}
    if len(anywhere) > 1:
        return None
    order = sorted(counts, key=lambda label: (label in anywhere, counts[label]))
    text = _quoted(order[-1])
    for label in reversed(order[:-1]):
        prefixes = [_beginning(prefix, paths, params) for prefix in _prefixes(paths, label)]
        test = f"name.startswith({prefixes[0]})"
        if len(prefixes) > 1:
            test = f"name.startswith(({', '.join(prefixes)}))"
        text = f"{_quoted(label)} if {test} else {text}"
    return text.replace("name.startswith", 'jax.tree_util.keystr(path, simple=True, separator="/").startswith')


def _beginning(path: str, paths: Iterable[str], params: str) -> str:
    """The beginning of paths as a text of the output: the number of a layer that is counted from the end of its list
    is told by the weights."""
    found = _FROM_THE_END.search(path)
    if found is None:
        return _quoted(path)
    holder, _, name = path[: found.start()].rpartition("/")
    tree = params + "".join(f"['{key}']" for key in holder.split("/") if key)
    inside = {
        one.removeprefix(f"{holder}/" if holder else "").partition("/")[0] for one in paths if one.startswith(holder)
    }
    alone = all(_FROM_THE_END.sub("{0}", one) == f"{name}{{0}}" for one in inside)
    count = f"len({tree})" if alone else f"sum(key.startswith('{name}') for key in {tree})"
    return f'f"{path[: found.start()]}{{{count} - {found[1]}}}{path[found.end() :]}"'


def _by_last_or_first(leaves: Sequence[Leaf], labels: Mapping[str, str], params: str) -> str | None:
    """By their own names, the others by the part of the model that they are in: all biases, and whatever `bn` has."""
    if len(set(labels.values())) != 2:
        return None
    first, last = ({leaf.flax: leaf.flax.split("/")[position] for leaf in leaves} for position in (1, -1))
    for label, other in permutations(dict.fromkeys(labels.values())):
        shared = {last[path] for path in last if labels[path] == other}
        rest = [path for path in last if last[path] in shared]
        names = [name for name in dict.fromkeys(last.values()) if name not in shared]
        parts = list(dict.fromkeys(first[path] for path in rest if labels[path] == label))
        if not names or any(first[path] in parts for path in rest if labels[path] == other):
            continue
        by_name = _is_one_of("path[-1].key", names, list(last.values()))
        by_part = _is_one_of("path[0].key", parts, [first[path] for path in rest])
        if by_name and by_part:
            test = f"{_quoted(label)} if {by_name} or {by_part} else {_quoted(other)}"
            return f"jax.tree.map_with_path(lambda path, _: {test}, {params})"
    return None


def _prefixes(paths: Mapping[str, str], label: str) -> list[str]:
    """The shortest beginnings of paths that only leaves of a label have."""
    found: list[str] = []
    for path in (path for path, own in paths.items() if own == label):
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            if all(own == label for other, own in paths.items() if other.startswith(prefix)):
                break
        if prefix not in found:
            found.append(prefix)
    return found


def _quoted(text: str) -> str:
    return f'"{text}"'
