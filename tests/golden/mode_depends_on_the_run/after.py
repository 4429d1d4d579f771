"""Nobody switches back to train mode after the first evaluation."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    training: bool = False

    def setup(self):
        self.fc = nn.Dense(1, **torch_init(fan_in=2))
        self.drop = nn.Dropout(0.5, deterministic=not self.training)

    def __call__(self, x):
        return self.drop(self.fc(x))


model = Net()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.ones((4, 2)))["params"]
optimizer = optax.sgd(0.1)
opt_state = optimizer.init(params)
x = jnp.ones((4, 2))


@jax.jit
def eval_step(params, *inputs):
    return model.apply({"params": params}, *inputs)


for epoch in range(3):
    # loss = model(x).sum()
    # optimizer.zero_grad()
    # loss.backward()
    # optimizer.step()
    raise NotImplementedError(
        "MIG403: model is in train mode in one run of this line and in eval mode in another"
    )
    print(eval_step(params, x))
