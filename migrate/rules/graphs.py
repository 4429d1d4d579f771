"""Functions of PyG (torch_geometric) that work on the nodes of several graphs at once."""

from migrate.diagnostics import Unsupported
from migrate.layers.graphs import HOME
from migrate.rules.rule import Call, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_SIGNATURE = "x, batch=None, size=None"


def _pooled(call: Call, reduce: str) -> Expr:
    x, batch, size = call.node("x"), call.node("batch"), call.node("size")
    if nodes.is_literal(batch, None):
        method = {"mean": "mean", "max": "max"}.get(reduce, "sum")
        return nodes.expression("{x}." + method + "(axis=-2, keepdims=True)", x=x)
    if call.may_be_none("batch"):
        raise Unsupported("MIG302", f"{call.api}: batch may be None, and then there is one graph")
    if nodes.is_literal(size, None):
        if call.traced:
            said = "how many graphs there are is told by the data, which jit does not know"
            raise Unsupported("MIG307", f"{call.api} without size: {said}")
        size = nodes.expression("int({batch}.max()) + 1", batch=batch)
    call.snippet("pool_graphs")
    more = {} if reduce == "sum" else {"reduce": nodes.expression(f'"{reduce}"')}
    return nodes.call("pool_graphs", x, batch, size, **more)


@rule(f"{HOME}global_add_pool", signature=_SIGNATURE)
def global_add_pool(call: Call) -> Expr:
    """The sum of the nodes of each graph. Under jit their number must be told, by `size`.

    >>> torch_geometric.nn.global_add_pool(x, torch.tensor([0, 0, 1, 3, 3]), 4)  # x: f32[5, 3]
    pool_graphs(x, jnp.array([0, 0, 1, 3, 3]), 4)
    >>> torch_geometric.nn.global_add_pool(x, None)  # x: f32[5, 3]
    x.sum(axis=-2, keepdims=True)
    """
    return _pooled(call, "sum")


@rule(f"{HOME}global_mean_pool", signature=_SIGNATURE)
def global_mean_pool(call: Call) -> Expr:
    """The mean of the nodes of each graph, 0 of none. Under jit their number must be told, by `size`.

    >>> torch_geometric.nn.global_mean_pool(x, torch.tensor([0, 0, 1, 3, 3]), size=4)  # x: f32[5, 3]
    pool_graphs(x, jnp.array([0, 0, 1, 3, 3]), 4, reduce="mean")
    """
    return _pooled(call, "mean")


@rule(f"{HOME}global_max_pool", signature=_SIGNATURE)
def global_max_pool(call: Call) -> Expr:
    """The maximum over the nodes of each graph, 0 of none. Under jit their number must be told, by `size`.

    >>> torch_geometric.nn.global_max_pool(x, torch.tensor([0, 0, 1, 3, 3]), size=4)  # x: f32[5, 3]
    pool_graphs(x, jnp.array([0, 0, 1, 3, 3]), 4, reduce="max")
    """
    return _pooled(call, "max")
