import flax.linen as nn


class TransformerEncoder(nn.Module):
    """torch's encoder: copies of a layer, each with weights of its own, and a last norm where one is given."""

    encoder_layer: nn.Module
    num_layers: int
    norm: nn.Module | None = None
    kernel_init: nn.initializers.Initializer | None = None
    bias_init: nn.initializers.Initializer | None = None
    in_proj_init: nn.initializers.Initializer | None = None

    def setup(self):
        asked = {"kernel_init": self.kernel_init, "bias_init": self.bias_init, "in_proj_init": self.in_proj_init}
        asked = {name: initializer for name, initializer in asked.items() if initializer is not None}
        self.layers = [self.encoder_layer.clone(**asked) for _ in range(self.num_layers)]

    def __call__(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask)
        return src if self.norm is None else self.norm(src)
