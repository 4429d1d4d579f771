def squeeze(x, axis):
    """Without an axis, or some of a tuple, of length 1; longer ones stay."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    return x.squeeze(tuple(one for one in axes if x.ndim and x.shape[one] == 1))
