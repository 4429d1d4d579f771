import jax.numpy as jnp


def gcn_norm(edge_index, edge_weight, num_nodes, dtype, improved=False, add_self_loops=True):
    """Sources, targets and weights of the edges of D^-1/2 A D^-1/2; with self-loops there is one for each node."""
    source, target = edge_index
    weight = jnp.ones(len(source), dtype) if edge_weight is None else edge_weight
    if add_self_loops:  # those that are there keep their weight
        fill = 2.0 if improved and edge_weight is not None else 1.0
        there = jnp.where(source == target, source, num_nodes)
        loops = jnp.full(num_nodes, fill, weight.dtype).at[there].set(weight, mode="drop")
        nodes = jnp.arange(num_nodes)
        weight = jnp.concatenate([jnp.where(source == target, 0, weight), loops])
        source, target = jnp.concatenate([source, nodes]), jnp.concatenate([target, nodes])
    degree = jnp.zeros(num_nodes, weight.dtype).at[target].add(weight)
    scale = jnp.where(degree == 0, 0, jnp.where(degree == 0, 1, degree) ** -0.5)
    return source, target, scale[source] * weight * scale[target]
