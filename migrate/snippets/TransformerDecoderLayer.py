from collections.abc import Callable

import flax.linen as nn

from migrate.snippets.MultiheadAttention import MultiheadAttention
from migrate.snippets.torch_init import torch_init


class TransformerDecoderLayer(nn.Module):
    """torch's decoder layer: self-attention, attention to the encoder's output, and a feed-forward network."""

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
        self.self_attn, self.multihead_attn = (
            MultiheadAttention(
                self.d_model,
                self.nhead,
                dropout=self.dropout,
                bias=self.bias,
                batch_first=self.batch_first,
                in_proj_init=self.in_proj_init,
                out_proj_init=self.kernel_init,
                training=self.training,
            )
            for _ in range(2)
        )
        asked = {"kernel_init": self.kernel_init, "bias_init": self.bias_init}
        asked = {name: initializer for name, initializer in asked.items() if initializer is not None}
        init1, init2 = (torch_init(fan_in=fan_in, **asked) for fan_in in (self.d_model, self.dim_feedforward))
        self.linear1 = nn.Dense(self.dim_feedforward, use_bias=self.bias, **init1)
        self.linear2 = nn.Dense(self.d_model, use_bias=self.bias, **init2)
        self.norm1 = nn.LayerNorm(epsilon=self.layer_norm_eps, use_bias=self.bias)
        self.norm2 = nn.LayerNorm(epsilon=self.layer_norm_eps, use_bias=self.bias)
        self.norm3 = nn.LayerNorm(epsilon=self.layer_norm_eps, use_bias=self.bias)
        self.drop = nn.Dropout(self.dropout, deterministic=not self.training)

    def __call__(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        def attend(x):
            return self.drop(self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask)[0])

        def attend_to_memory(x):
            return self.drop(self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask)[0])

        def feed_forward(x):
            return self.drop(self.linear2(self.drop(self.activation(self.linear1(x)))))

        x = tgt
        if self.norm_first:
            x = x + attend(self.norm1(x))
            x = x + attend_to_memory(self.norm2(x))
            return x + feed_forward(self.norm3(x))
        x = self.norm1(x + attend(x))
        x = self.norm2(x + attend_to_memory(x))
        return self.norm3(x + feed_forward(x))
