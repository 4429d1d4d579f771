import flax.linen as nn
import jax
import jax.numpy as jnp


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


model = nn.Sequential([
    nn.Dense(8, **torch_init(fan_in=4)),
    nn.relu,
    nn.Dense(1, **torch_init(fan_in=8)),
])
raise NotImplementedError("MIG302: torch.optim.SGD: parameters other than model.parameters()")
key = jax.random.key(0)
key, subkey, subkey2 = jax.random.split(key, 3)
x, y = jax.random.normal(subkey, (32, 4)), jax.random.normal(subkey2, (32, 1))
accumulation = 4

optimizer.zero_grad()
for i in range(32):
    loss = ((model(x[i : i + 1]) - y[i : i + 1]) ** 2).mean() / accumulation
    raise NotImplementedError("MIG401: the loss depends on 0 models that are trained here, not on one")
    if (i + 1) % accumulation == 0:
        raise NotImplementedError("MIG301: torch.nn.utils.clip_grad_norm_")
        optimizer.step()
        optimizer.zero_grad()
