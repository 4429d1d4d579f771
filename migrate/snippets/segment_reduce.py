import jax
import jax.numpy as jnp


def segment_reduce(x, segments, count, reduce="sum"):
    """The sum, mean or maximum of the rows of each segment; 0 where a segment has none."""
    if reduce in ("sum", "add"):
        return jax.ops.segment_sum(x, segments, count)
    rows = jax.ops.segment_sum(jnp.ones(len(x), x.dtype), segments, count)
    rows = rows.reshape(-1, *(1,) * (x.ndim - 1))
    if reduce == "mean":
        return jax.ops.segment_sum(x, segments, count) / jnp.maximum(rows, 1)
    return jnp.where(rows > 0, jax.ops.segment_max(x, segments, count), 0)
