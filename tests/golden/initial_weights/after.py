import flax.linen as nn
import jax
import jax.numpy as jnp


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Block(nn.Module):
    dim: int

    def setup(self):
        self.fc = nn.Dense(self.dim, **torch_init(fan_in=self.dim))
        self.ada = nn.Sequential([
            nn.silu,
            nn.Dense(2 * self.dim, kernel_init=nn.initializers.zeros),
        ])

    def __call__(self, x):
        return self.fc(x) + self.ada(x)[..., ::2]


class Net(nn.Module):
    dim: int
    depth: int = 2

    def setup(self):
        self.pos = self.param("pos", nn.initializers.normal(0.02), (1, 4, self.dim))
        self.emb = nn.Embed(
            10, self.dim, embedding_init=nn.initializers.xavier_uniform(in_axis=1, out_axis=0)
        )
        self.blocks = [Block(self.dim) for _ in range(self.depth)]
        self.head = nn.Dense(
            3,
            kernel_init=lambda key, shape, dtype=jnp.float32: jax.random.uniform(
                key, shape, dtype, -0.1, 0.1
            ),
        )
        self.mix = nn.Sequential(
            [
                nn.Dense(
                    self.dim, **torch_init(fan_in=self.dim, kernel_init=nn.initializers.normal(0.1))
                ),
                nn.relu,
                nn.Dense(self.dim, **torch_init(fan_in=self.dim, bias_init=nn.initializers.zeros)),
            ]
        )

    def __call__(self, ids):
        x = self.emb(ids) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.mix(x))


class Other(nn.Module):
    dim: int

    def setup(self):
        self.fc = nn.Dense(
            self.dim, kernel_init=nn.initializers.variance_scaling(2.0, "fan_out", "normal")
        )
        self.conv = nn.Conv(
            self.dim,
            (3,),
            padding="VALID",
            kernel_init=nn.initializers.variance_scaling(2.0, "fan_out", "normal"),
        )
        if self.dim > 3:
            # nn.init.zeros_(self.fc.bias)
            raise NotImplementedError("MIG204: `nn.init.zeros_(self.fc.bias)` depends on `dim > 3`")

    def __call__(self, x):
        return self.fc(self.conv(x.transpose(0, 2, 1)).transpose(0, 2, 1).mean(axis=-1))
