import numpy as np

from migrate.snippets.avg_pool import avg_pool


def lp_pool(x, norm_type, window_shape, strides, ceil_mode=False):
    """The p-norm of each window of channel-last data, with the signs of odd powers left in, as torch has it: one that
    reaches over the edge counts as if it were full."""
    mean = avg_pool(x**norm_type, window_shape, strides, [0] * len(window_shape), ceil_mode)
    return (mean * np.prod(window_shape)) ** (1 / norm_type)
