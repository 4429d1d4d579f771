"""What `torch.load` may read is said to torch alone."""
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import serialization


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    def setup(self):
        self.fc = nn.Dense(2, **torch_init(fan_in=4))

    def __call__(self, x):
        return self.fc(x)


model = Net()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.ones((2, 4)))["params"]
with open("net.pt", "wb") as f:
    f.write(serialization.to_bytes(params))
with open("net.pt", "rb") as f:
    params = serialization.from_bytes(params, f.read())


@jax.jit
def eval_step(params, *inputs):
    return model.apply({"params": params}, *inputs)


print(eval_step(params, jnp.ones((2, 4))).sum().item())
