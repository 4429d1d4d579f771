from collections.abc import Callable

import flax.linen as nn

from migrate.snippets.MultiheadAttention import MultiheadAttention
from migrate.snippets.torch_init import torch_init


class TransformerEncoderLayer(nn.Module):
    """torch's encoder layer: self-attention and a feed-forward network, each with dropout, residual and LayerNorm."""

    d_model: int
    nhead: int
    dim_feedforward: int = 2048
    dropout: float = 0.1
    activation: Callable = nn.relu
    layer_norm_eps: float = 1e-5
    batch_first: bool = False
    norm_first: bool = False
    bias: bool = True
    kernel_init: nn.initializers.Initializer = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
    bias_init: nn.initializers.Initializer | None = None
    in_proj_init: nn.initializers.Initializer = nn.initializers.xavier_uniform()
    training: bool = False

    def setup(self):
        self.self_attn = MultiheadAttention(
            self.d_model,
            self.nhead,
            dropout=self.dropout,
            bias=self.bias,
            batch_first=self.batch_first,
            in_proj_init=self.in_proj_init,
            out_proj_init=self.kernel_init,
            training=self.training,
        )
        asked = {"kernel_init": self.kernel_init, "bias_init": self.bias_init}
        asked = {name: initializer for name, initializer in asked.items() if initializer is not None}
        init1, init2 = (torch_init(fan_in=fan_in, **asked) for fan_in in (self.d_model, self.dim_feedforward))
        self.linear1 = nn.Dense(self.dim_feedforward, use_bias=self.bias, **init1)
        self.linear2 = nn.Dense(self.d_model, use_bias=self.bias, **init2)
        self.norm1 = nn.LayerNorm(epsilon=self.layer_norm_eps, use_bias=self.bias)
        self.norm2 = nn.LayerNorm(epsilon=self.layer_norm_eps, use_bias=self.bias)
        self.drop = nn.Dropout(self.dropout, deterministic=not self.training)

    def __call__(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        def attend(x):
            return self.drop(self.self_attn(x, x, x, src_key_padding_mask, False, src_mask)[0])

        def feed_forward(x):
            return self.drop(self.linear2(self.drop(self.activation(self.linear1(x)))))

        x = src
        if self.norm_first:
            x = x + attend(self.norm1(x))
            return x + feed_forward(self.norm2(x))
        x = self.norm1(x + attend(x))
        return self.norm2(x + feed_forward(x))
