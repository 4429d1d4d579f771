def pixel_shuffle(x, factor):
    """(batch, channels * factor**2, height, width) becomes (batch, channels, height * factor, width * factor)."""
    batch, channels, height, width = x.shape
    x = x.reshape(batch, -1, factor, factor, height, width).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(batch, channels // factor**2, height * factor, width * factor)
