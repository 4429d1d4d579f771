import jax
import jax.numpy as jnp


def mean_batch_stats(loader, model, params, batch_stats, momentum=0.1):
    """Batch statistics anew: the mean of those of all batches. `model` is in train mode; `momentum` is what a batch
    weighs in its layers."""
    empty = jax.tree.map(jnp.zeros_like, batch_stats)

    @jax.jit
    def weighed(params, x):
        return model.apply({"params": params, "batch_stats": empty}, x, mutable=["batch_stats"])[1]["batch_stats"]

    total, batches = empty, 0
    for batch in loader:
        x = batch[0] if isinstance(batch, list | tuple) else batch
        total = jax.tree.map(jnp.add, total, weighed(params, jnp.asarray(x)))
        batches += 1
    return jax.tree.map(lambda each: each / (momentum * batches), total)
