"""Tests of whether a weight is frozen, by its name in the tree of parameters, as the output writes them.

`when` says of each weight that is, or may be, frozen under which condition: ALWAYS, or `"backbone" in frozen`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migrate.diagnostics import Unsupported
from migrate.lowering.optimizers.labels import negated, test_by_part, test_by_path
from migrate.manifest import Leaf

ALWAYS = ""
_PATH = 'jax.tree_util.keystr(path, simple=True, separator="/")'


def zeroed(leaves: Sequence[Leaf], when: Mapping[str, str], grads: str) -> str:
    """The gradients of a model with zeros for the weights that are frozen."""
    tests = _tests(leaves, when, "name", "")
    if tests is not None:
        zeros = "jax.tree.map(jnp.zeros_like, g)"
        return f"{{name: {zeros} if {_frozen(tests)} else g for name, g in {grads}.items()}}"
    tests = _tests(leaves, when, _PATH, "/")
    if tests is None:
        raise Unsupported("MIG302", "gradients of frozen weights, which no simple test tells apart")
    return f"jax.tree.map_with_path(lambda path, g: jnp.zeros_like(g) if {_frozen(tests)} else g, {grads})"


def trained_list(leaves: Sequence[Leaf], when: Mapping[str, str], params: str) -> str:
    """The weights of a model that are not frozen, as a list."""
    tests = _tests(leaves, when, "name", "")
    if tests is None:
        raise Unsupported("MIG302", "a list of the weights that are not frozen, which no simple test tells apart")
    return f"jax.tree.leaves({{name: {params}[name] for name in {params} if {_trained(tests)}}})"


def is_trained(leaves: Sequence[Leaf], when: Mapping[str, str], name: str) -> str:
    """Whether the weight of a name such as "backbone.layers_0.kernel" is not frozen."""
    tests = _tests(leaves, when, name, ".")
    if tests is None:
        raise Unsupported("MIG302", "whether a weight is frozen, which no simple test of its name tells")
    return _trained(tests)


def _tests(
    leaves: Sequence[Leaf], when: Mapping[str, str], subject: str, separator: str
) -> list[tuple[str, str]] | None:
    """The test for the weights of each condition, and the condition; None where there is none. `subject`: the path of
    a weight with some separator; with none the part of the model that it is in."""
    made: list[tuple[str, str]] = []
    for condition in sorted(set(when.values())):
        chosen = {leaf for leaf, found in when.items() if found == condition}
        by_part = separator == ""
        test = test_by_part(leaves, chosen, subject) if by_part else test_by_path(leaves, chosen, subject, separator)
        if test is None:
            return None
        made.append((test, condition))
    return made


def _frozen(tests: Sequence[tuple[str, str]]) -> str:
    return " or ".join(" and ".join(filter(None, both)) or "True" for both in tests)


def _trained(tests: Sequence[tuple[str, str]]) -> str:
    each = [" or ".join(negated(one) for one in both if one) or "False" for both in tests]
    return each[0] if len(each) == 1 else " and ".join(f"({one})" if " or " in one else one for one in each)
