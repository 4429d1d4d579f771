import jax
import jax.numpy as jnp
import optax


def update_where_read(optimizer, loss_fn, grads, opt_state, params, *others):
    """The updates of an optimizer for those parameters that a loss reads. The others have no gradient in torch, whose
    optimizers leave them, and their momentum, as they are."""
    jaxpr = jax.make_jaxpr(loss_fn)(params, *others).jaxpr
    inputs = {id(variable) for equation in jaxpr.eqns for variable in equation.invars}
    leaves, tree = jax.tree.flatten(params)
    read = tree.unflatten([id(variable) in inputs for variable in jaxpr.invars[: len(leaves)]])
    updates, new_state = optimizer.update(grads, opt_state, params)
    in_state = optax.tree_utils.tree_map_params(
        optimizer, lambda _, is_read: is_read, opt_state, read, transform_non_params=lambda _: True
    )
    updates = jax.tree.map(lambda is_read, new: new if is_read else jnp.zeros_like(new), read, updates)
    return updates, jax.tree.map(lambda is_read, new, old: new if is_read else old, in_state, new_state, opt_state)
