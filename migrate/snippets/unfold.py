import jax


def unfold(x, kernel_size, dilation=1, padding=0, stride=1):
    """Windows of (batch, channels, height, width) as columns: (batch, channels * window, places)."""

    def pair(n):
        return (n, n) if isinstance(n, int) else tuple(n)

    patches = jax.lax.conv_general_dilated_patches(
        x, pair(kernel_size), pair(stride), [(n, n) for n in pair(padding)], rhs_dilation=pair(dilation),
        precision=jax.lax.Precision.HIGHEST,
    )  # fmt: skip
    batch, window, height, width = patches.shape
    return patches.reshape(batch, window, height * width)
