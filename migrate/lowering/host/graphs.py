"""PyG's graphs: objects of the data loading that hold tensors of torch's by name, each an array where JAX reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import UNKNOWN, Host, Items, Kind, Number, Plain, Tensor
from migrate.syntax import nodes

_HOME = "torch_geometric."
GRAPHS = Host("graphs")  # a data set of graphs
LOADER = Host("loader of graphs")
MIXING = Host("loader of mixed graphs")  # of which each batch is one that there has not been
TRANSFORM = Host("graph transform")  # what gives a graph for a graph
COUNTS = frozenset(
    {"num_nodes", "num_edges", "num_graphs", "num_features", "num_node_features", "num_edge_features", "num_classes"}
)
_MASKS = ("train_mask", "val_mask", "test_mask")
_OPTIONAL = ("edge_attr", "edge_weight")  # None in graphs whose edges have nothing of their own
_PLACING = ("to", "cuda", "cpu", "pin_memory", "contiguous")
_SETS = ("shuffle", "copy", "index_select")  # methods of a data set that give another one
_SPARSE = ("adj", "adj_t")  # matrices of torch_sparse, which are no arrays


def gives_graphs(kind: Kind) -> bool:
    """Whether a kind is that of a data set or a loader of graphs."""
    return kind == GRAPHS or loads_graphs(kind)


def loads_graphs(kind: Kind) -> bool:
    """Whether a kind is that of a loader of graphs, which draws with torch's generator."""
    return kind in (LOADER, MIXING)


def is_graph(kind: Kind) -> TypeGuard[Host]:
    """Whether a kind is that of one graph, or of several as one."""
    return isinstance(kind, Host) and kind.what in ("graph", "mixed graph")


def is_mixed(kind: Kind) -> bool:
    """Whether a kind is that of several graphs that have not been together before."""
    return isinstance(kind, Host) and kind.what == "mixed graph"


def of_graphs(name: str, node: cst.Call) -> Kind | None:
    """What a call of PyG's data loading gives, by its full name; None where that is nothing of graphs."""
    part, _, called = name.removeprefix(_HOME).partition(".")
    if not name.startswith(_HOME) or not called[:1].isupper():
        return None
    if part == "data":
        return Host("graph") if called in ("Data", "Batch") else None
    if part == "loader":
        return LOADER if called == "DataLoader" and not _mixes(node) else MIXING
    return {"datasets": GRAPHS, "transforms": TRANSFORM}.get(part)


def _mixes(node: cst.Call) -> bool:
    """Whether a loader puts graphs together anew in each epoch: it shuffles them, and takes more than one."""
    given = {arg.keyword.value if arg.keyword else number: arg.value for number, arg in enumerate(node.args)}
    shuffle, size = given.get("shuffle", given.get(2)), given.get("batch_size", given.get(1))
    shuffles = shuffle is not None and not nodes.is_literal(shuffle, False)
    return (shuffles or "sampler" in given) and size is not None and not nodes.is_literal(size, 1)


def called_by(callee: Kind, given: Sequence[Kind]) -> Kind | None:
    """What a call of a transform gives, and that of a graph: `for name, mask in data("train_mask")`. None for calls of
    other things."""
    if is_graph(callee):
        return Items(None, Items((Plain("str"), Host("tensor")), type="tuple"), "generator")
    if callee != TRANSFORM:
        return None
    return Host("graph") if any(map(is_graph, given)) else UNKNOWN


def element_of(kind: Kind, origin: int | None = None) -> Kind | None:
    """What is taken out of a set of graphs, or gone over; None for other kinds."""
    if not gives_graphs(kind):
        return None
    what = "mixed graph" if kind == MIXING else "graph"
    return Host(what) if origin is None else Host(what, frozenset({origin}))


def field(kind: Kind, attribute: str) -> Kind | None:
    """What a graph or a set of graphs has under a name; None for other kinds. Raises Unsupported."""
    several = gives_graphs(kind)
    if several or is_graph(kind):
        if attribute in COUNTS:
            return Number()
        if several:
            return Host("graph") if attribute in ("data", "_data") else Host("data")
        if attribute in _SPARSE:
            raise Unsupported("MIG302", f"{attribute} of a graph: edges in a sparse matrix, which are no array")
        return Host("tensor", dtype="bool" if attribute in _MASKS else "", optional=attribute in _OPTIONAL)
    return None


def method_of(kind: Kind, method: str) -> Kind | None:
    """What a method of a graph or of a set gives; None for other kinds."""
    if gives_graphs(kind):
        return kind if method in _SETS else Host("data")
    if is_graph(kind):
        return kind if method in _PLACING or method == "clone" else Host("data")
    return None


def of_turns(kind: Kind) -> bool:
    """Whether a graph is another one, of another size, at each turn of a loop."""
    return is_graph(kind) and bool(kind.origins)


def is_placed(kind: Kind, method: str) -> bool:
    """Whether a method only moves a graph to a device."""
    return is_graph(kind) and method in _PLACING


def refuse_in_jit(name: str, given: Sequence[Kind], traced: bool) -> None:
    """Declines PyG's functions of tensors for arrays. Raises Unsupported."""
    if name.startswith(f"{_HOME}utils.") and (traced or any(isinstance(kind, Tensor) for kind in given)):
        raise Unsupported("MIG301", name)
