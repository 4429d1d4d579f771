import flax.linen as nn


class TransformerDecoder(nn.Module):
    """torch's decoder: copies of a layer, each with weights of its own, and a last norm where one is given."""

    decoder_layer: nn.Module
    num_layers: int
    norm: nn.Module | None = None

    def setup(self):
        self.layers = [self.decoder_layer.clone() for _ in range(self.num_layers)]

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
