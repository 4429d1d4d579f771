import jax.numpy as jnp


def grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """Samples (batch, channels, height, width) at points (batch, rows, columns, 2) in [-1, 1], x before y."""
    height, width = images.shape[2:]

    def pixels(places, size):
        places = (places + 1) / 2 * (size - 1) if align_corners else ((places + 1) * size - 1) / 2
        return places.clip(0, size - 1) if padding_mode == "border" else places

    def take(row, column):
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        row, column = row.clip(0, height - 1).astype(int), column.clip(0, width - 1).astype(int)
        batch = jnp.arange(len(images))[:, None, None]
        return images.transpose(0, 2, 3, 1)[batch, row, column] * inside[..., None]

    x, y = pixels(grid[..., 0], width), pixels(grid[..., 1], height)
    if mode == "nearest":
        return take(jnp.round(y), jnp.round(x)).transpose(0, 3, 1, 2)
    left, top = jnp.floor(x), jnp.floor(y)
    right, down = (x - left)[..., None], (y - top)[..., None]
    upper = take(top, left) * (1 - right) + take(top, left + 1) * right
    lower = take(top + 1, left) * (1 - right) + take(top + 1, left + 1) * right
    return (upper * (1 - down) + lower * down).transpose(0, 3, 1, 2)
