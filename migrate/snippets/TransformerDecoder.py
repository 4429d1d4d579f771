import flax.linen as nn


class TransformerDecoder(nn.Module):
    """torch's decoder: copies of a layer, each with weights of its own, and a last norm where one is given."""

    decoder_layer: nn.Module
    num_layers: int
    norm: nn.Module | None = None
    kernel_init: nn.initializers.Initializer | None = None
    bias_init: nn.initializers.Initializer | None = None
    in_proj_init: nn.initializers.Initializer | None = None

    def setup(self):
        asked = {"kernel_init": self.kernel_init, "bias_init": self.bias_init, "in_proj_init": self.in_proj_init}
        asked = {name: initializer for name, initializer in asked.items() if initializer is not None}
        self.layers = [self.decoder_layer.clone(**asked) for _ in range(self.num_layers)]

    def __call__(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return tgt if self.norm is None else self.norm(tgt)
