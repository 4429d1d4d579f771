from collections.abc import Sequence

import flax.linen as nn

from migrate.snippets.BatchNorm import BatchNorm
from migrate.snippets.torch_init import torch_init


class MLP(nn.Module):
    """PyG's perceptron: dense layers, and behind each but a plain last one a norm, an activation and a dropout."""

    channel_list: Sequence[int]
    dropout: float = 0.0
    act: str | None = "relu"
    act_first: bool = False
    norm: str | None = "batch_norm"
    plain_last: bool = True
    bias: bool = True
    training: bool = False

    @nn.compact
    def __call__(self, x):
        act = getattr(nn, self.act) if self.act else lambda x: x
        for number, features in enumerate(self.channel_list[1:]):
            init = torch_init(fan_in=x.shape[-1])
            x = nn.Dense(features, use_bias=self.bias, **init, name=f"lins_{number}")(x)
            if self.plain_last and number == len(self.channel_list) - 2:
                break
            x = act(x) if self.act_first else x
            if self.norm:
                x = BatchNorm(use_running_average=not self.training, name=f"norms_{number}")(x)
            x = x if self.act_first else act(x)
            x = nn.Dropout(self.dropout, deterministic=not self.training)(x)
        return x
