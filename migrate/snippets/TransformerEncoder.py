import flax.linen as nn


class TransformerEncoder(nn.Module):
    """torch's encoder: copies of a layer, each with weights of its own, and a last norm where one is given."""

    encoder_layer: nn.Module
    num_layers: int
    norm: nn.Module | None = None

    def setup(self):
        self.layers = [self.encoder_layer.clone() for _ in range(self.num_layers)]

    def __call__(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask)
        return src if self.norm is None else self.norm(src)
