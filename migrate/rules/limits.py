"""What JAX has no form of, by the type and the number of axes of a tensor.

Where the source shows them, the call is declined at its place. Where it does not, JAX raises an error as it traces.
"""

from __future__ import annotations

from collections.abc import Iterator

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Tensor
from migrate.rules.rule import Call, Value
from migrate.syntax import nodes

# An axis of a tensor without axes: torch takes such a tensor as one with a single axis.
NEEDS_AXES = frozenset(
    [
        *(
            "all",
            "amax",
            "amin",
            "aminmax",
            "any",
            "argmax",
            "argmin",
            "count_nonzero",
            "max",
            "mean",
            "min",
            "nanmean",
        ),
        *("nansum", "prod", "sum", "logsumexp", "median", "quantile", "nanquantile", "norm", "vector_norm", "kthvalue"),
        *("argsort", "sort", "topk", "cummax", "cummin", "cumprod", "cumsum", "logcumsumexp", "softmax", "log_softmax"),
        *("softmin", "gather", "index_add", "index_copy", "index_fill", "index_select", "transpose"),
        *("unfold", "cosine_similarity", "normalize"),
    ]
)
_AXES = ("dim", "dim0", "dimension")
# What JAX does not do with booleans, which it neither adds nor orders.
NOT_OF_BOOLEANS = frozenset(["cummax", "cummin", "kron", "sgn", "sign"])
# As many axes as the first argument must have.
LEAST_AXES = {"batch_norm": 2}
# Tensors that must have as many axes as each other.
ALIKE = frozenset(["cat", "concat", "concatenate", "gather"])
MOST_AXES = {"grid_sample": 4}


def refuse_by_kind(call: Call) -> None:
    """Declines what is known to have no form in JAX."""
    name = call.api.rpartition(".")[2]
    given = [value.kind for value in (*call.bound.values(), *call.rest)]
    parts = [part for kind in given for part in (kind.items or () if isinstance(kind, Items) else (kind,))]
    kinds = [kind for kind in parts if isinstance(kind, Tensor)]
    dtype, ranks = kinds[0].dtype if kinds else "", [kind.rank for kind in kinds if kind.rank >= 0]
    if name in NEEDS_AXES and 0 in ranks[:1] and any(not isinstance(axis.kind, Tensor) for axis in _axes_of(call)):
        raise Unsupported("MIG302", f"{call.api}: an axis of a tensor without axes")
    if dtype == "bool" and name in NOT_OF_BOOLEANS:
        raise Unsupported("MIG302", f"{call.api} of booleans")
    if any(rank < LEAST_AXES.get(name, 0) for rank in ranks[: len(kinds) if call.rest else 1]):
        raise Unsupported("MIG302", f"{call.api} of a tensor with fewer than {LEAST_AXES[name]} axes")
    if name in ALIKE and len(set(ranks)) > 1:
        raise Unsupported("MIG302", f"{call.api} of tensors with different numbers of axes")
    if ranks and ranks[0] > MOST_AXES.get(name, ranks[0]):
        raise Unsupported("MIG302", f"{call.api} of a tensor with more than {MOST_AXES[name]} axes")


def _axes_of(call: Call) -> Iterator[Value]:
    """The axes that a call names or takes by default."""
    for name in _AXES:
        given = nodes.literal(call.bound[name].node if name in call.bound else call.defaults.get(name))
        if given != () and (name in call.bound or isinstance(given, int)):
            yield call.value(name)
