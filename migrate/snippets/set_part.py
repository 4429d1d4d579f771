import jax


@jax.jit(donate_argnames="x")
def set_part(x, index, value):
    """torch's `x[index] = value`, in the memory of x, which is gone then; `x.at[index]` alone makes a copy of all."""
    return x.at[index].set(value)
