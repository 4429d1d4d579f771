def channel_shuffle(x, groups):
    """Interleaves the groups of channels (axis 1)."""
    parts = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    return parts.swapaxes(1, 2).reshape(x.shape)
