def pixel_unshuffle(x, factor):
    """(..., channels, height * factor, width * factor) becomes (..., channels * factor**2, height, width)."""
    *batch, channels, height, width = x.shape
    x = x.reshape(-1, channels, height // factor, factor, width // factor, factor).transpose(0, 1, 3, 5, 2, 4)
    return x.reshape(*batch, channels * factor**2, height // factor, width // factor)
