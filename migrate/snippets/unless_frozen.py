import jax
import jax.numpy as jnp
import optax


def unless_frozen(part, optimizer):
    """The optimizer of a part of a model, which leaves the part and its own state as they are in steps that are told
    the part is frozen."""

    def update(updates, state, params=None, *, frozen=(), **extra):
        if part in frozen:
            return jax.tree.map(jnp.zeros_like, updates), state
        return optimizer.update(updates, state, params, **extra)

    optimizer = optax.with_extra_args_support(optimizer)
    return optax.GradientTransformationExtraArgs(optimizer.init, update)
