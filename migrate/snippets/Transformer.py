from collections.abc import Callable

import flax.linen as nn

from migrate.snippets.TransformerDecoder import TransformerDecoder
from migrate.snippets.TransformerDecoderLayer import TransformerDecoderLayer
from migrate.snippets.TransformerEncoder import TransformerEncoder
from migrate.snippets.TransformerEncoderLayer import TransformerEncoderLayer


class Transformer(nn.Module):
    """torch's transformer: an encoder, and a decoder that attends to what it gives."""

    d_model: int = 512
    nhead: int = 8
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dim_feedforward: int = 2048
    dropout: float = 0.1
    activation: Callable = nn.relu
    layer_norm_eps: float = 1e-5
    batch_first: bool = False
    norm_first: bool = False
    bias: bool = True
    kernel_init: nn.initializers.Initializer = nn.initializers.xavier_uniform()
    bias_init: nn.initializers.Initializer | None = None
    in_proj_init: nn.initializers.Initializer = nn.initializers.xavier_uniform()
    training: bool = False

    def setup(self):
        def norm():
            return nn.LayerNorm(epsilon=self.layer_norm_eps, use_bias=self.bias)

        names = (
            *("d_model", "nhead", "dim_feedforward", "dropout", "activation", "layer_norm_eps"),
            *("kernel_init", "bias_init", "in_proj_init"),
            *("batch_first", "norm_first", "bias", "training"),
        )
        options = {name: getattr(self, name) for name in names}
        self.encoder = TransformerEncoder(TransformerEncoderLayer(**options), self.num_encoder_layers, norm())
        self.decoder = TransformerDecoder(TransformerDecoderLayer(**options), self.num_decoder_layers, norm())

    def __call__(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
