import flax.linen as nn
import numpy as np


def lp_pool(x, norm_type, window_shape, strides):
    """The p-norm of each window of channel-last data, with the signs of odd powers left in, as torch has it."""
    return (nn.avg_pool(x**norm_type, window_shape, strides) * np.prod(window_shape)) ** (1 / norm_type)
