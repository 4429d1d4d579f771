from types import SimpleNamespace

import jax
import jax.numpy as jnp


def arrays_of(graph, *names):
    """Tensors of a graph as arrays, under their names; None stays None."""
    return SimpleNamespace(**{name: jax.tree.map(jnp.asarray, getattr(graph, name)) for name in names})
