def unflatten(x, axis, sizes):
    """One axis becomes several; one of the sizes may be -1."""
    axis %= x.ndim
    return x.reshape(*x.shape[:axis], *sizes, *x.shape[axis + 1 :])
