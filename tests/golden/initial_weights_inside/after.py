import flax.linen as nn
import jax
import jax.numpy as jnp


class MultiheadAttention(nn.Module):
    """torch's attention: returns (output, weights). A True in a boolean mask forbids; any other mask is added.

    The projections of query, key and value are one weight where they are equally wide, as in torch.
    """

    embed_dim: int
    num_heads: int
    dropout: float = 0.0
    bias: bool = True
    kdim: int | None = None
    vdim: int | None = None
    batch_first: bool = False
    training: bool = False
    in_proj_init: nn.initializers.Initializer = nn.initializers.xavier_uniform()
    out_proj_init: nn.initializers.Initializer = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")

    @nn.compact
    def __call__(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        batched = query.ndim == 3
        if not batched:
            query, key, value = query[None], key[None], value[None]
        elif not self.batch_first:
            query, key, value = (x.swapaxes(0, 1) for x in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.reshape(len(query), 1, 1, -1)
        if attn_mask is not None and attn_mask.ndim == 3:  # one for each head of each example
            attn_mask = attn_mask.reshape(len(query), self.num_heads, *attn_mask.shape[1:])

        query, key, value = (self.heads(x) for x in self.project(query, key, value))
        scores = query * query.shape[-1] ** -0.5 @ key.swapaxes(-2, -1)
        for mask in (attn_mask, key_padding_mask):
            if mask is not None:
                scores = jnp.where(mask, -jnp.inf, scores) if mask.dtype == bool else scores + mask
        weights = nn.softmax(scores)
        weights = nn.Dropout(self.dropout, deterministic=not self.training)(weights)
        output = (weights @ value).swapaxes(1, 2).reshape(len(query), -1, self.embed_dim)
        out_proj = nn.Dense(self.embed_dim, use_bias=self.bias, kernel_init=self.out_proj_init, name="out_proj")
        output = out_proj(output)

        weights = weights.mean(axis=1) if average_attn_weights else weights
        if not batched:
            output, weights = output[0], weights[0]
        elif not self.batch_first:
            output = output.swapaxes(0, 1)
        return output, weights if need_weights else None

    def project(self, query, key, value):
        width, init = self.embed_dim, self.in_proj_init
        kdim, vdim = self.kdim or width, self.vdim or width
        if kdim == vdim == width:
            kernels = jnp.split(self.param("in_proj_weight", init, (width, 3 * width)), 3, axis=-1)
        else:
            sizes = {"q": width, "k": kdim, "v": vdim}
            kernels = [self.param(f"{name}_proj_weight", init, (size, width)) for name, size in sizes.items()]
        projected = [x @ kernel for x, kernel in zip((query, key, value), kernels, strict=True)]
        if self.bias:
            biases = jnp.split(self.param("in_proj_bias", nn.initializers.zeros, (3 * width,)), 3)
            projected = [x + bias for x, bias in zip(projected, biases, strict=True)]
        return projected

    def heads(self, x):
        return x.reshape(*x.shape[:2], self.num_heads, -1).swapaxes(1, 2)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Block(nn.Module):
    width: int
    attention_in_proj_init: nn.initializers.Initializer = nn.initializers.xavier_uniform()
    attention_out_proj_init: nn.initializers.Initializer = nn.initializers.variance_scaling(
        1 / 3, "fan_in", "uniform"
    )
    mlp_2_init: nn.initializers.Initializer = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")

    def setup(self):
        self.attention = MultiheadAttention(
            self.width,
            2,
            in_proj_init=self.attention_in_proj_init,
            out_proj_init=self.attention_out_proj_init,
        )
        self.mlp = nn.Sequential([
            nn.Dense(2 * self.width, **torch_init(fan_in=self.width)),
            nn.relu,
            nn.Dense(self.width, **torch_init(fan_in=2 * self.width, kernel_init=self.mlp_2_init)),
        ])

    def __call__(self, x):
        return x + self.mlp(self.attention(x, x, x)[0])


class Stack(nn.Module):
    width: int
    depth: int
    blocks_attention_in_proj_init: nn.initializers.Initializer = nn.initializers.xavier_uniform()
    blocks_attention_out_proj_init: nn.initializers.Initializer = nn.initializers.variance_scaling(
        1 / 3, "fan_in", "uniform"
    )
    blocks_mlp_2_init: nn.initializers.Initializer = nn.initializers.variance_scaling(
        1 / 3, "fan_in", "uniform"
    )

    def setup(self):
        self.blocks = [
            Block(
                self.width,
                attention_in_proj_init=self.blocks_attention_in_proj_init,
                attention_out_proj_init=self.blocks_attention_out_proj_init,
                mlp_2_init=self.blocks_mlp_2_init,
            )
            for _ in range(self.depth)
        ]

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Model(nn.Module):
    width: int
    depth: int

    def setup(self):
        self.left = Stack(self.width, self.depth)
        self.right = Stack(
            self.width,
            self.depth,
            blocks_attention_in_proj_init=nn.initializers.normal(self.width**-0.5),
            blocks_attention_out_proj_init=nn.initializers.normal(
                (self.width**-0.5) * (2 * self.depth) ** -0.5
            ),
            blocks_mlp_2_init=nn.initializers.zeros,
        )

    def __call__(self, x):
        return self.left(x) + self.right(x)
