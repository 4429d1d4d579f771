import flax.linen as nn

from migrate.snippets.drop_channels import drop_channels


class ChannelDropout(nn.Module):
    """Dropout of whole channels, which are on axis 1, or on axis 0 of an input of up to `unbatched` axes."""

    rate: float = 0.5
    unbatched: int = 0
    training: bool = False

    def __call__(self, x):
        if not self.training or self.rate == 0:
            return x
        return drop_channels(self.make_rng("dropout"), x, self.rate, unbatched=self.unbatched)
