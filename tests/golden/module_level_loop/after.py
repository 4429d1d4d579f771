import flax.linen as nn
import jax
import jax.numpy as jnp

x = jnp.expand_dims(jnp.linspace(-1, 1, 64), 1)
y = x ** 3


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


model = nn.Sequential([
    nn.Dense(16, **torch_init(fan_in=1)),
    nn.tanh,
    nn.Dense(1, **torch_init(fan_in=16)),
])
loss_fn = lambda outputs, targets: jnp.square(outputs - targets).sum()
raise NotImplementedError("MIG302: torch.optim.Adam: parameters other than model.parameters()")
for t in range(200):
    y_pred = model(x)
    loss = loss_fn(y_pred, y)
    if t % 50 == 49:
        print(t, loss.item())
    optimizer.zero_grad()
    raise NotImplementedError("MIG401: the loss depends on 0 models that are trained here, not on one")
    optimizer.step()
