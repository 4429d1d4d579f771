import flax.linen as nn


class TorchSequential(nn.Sequential):
    """Layers in a row: what one returns is the one argument of the next, a tuple too, which Flax's takes apart."""

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
