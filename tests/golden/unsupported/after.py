"""One unknown call costs one message; the rest is converted."""
import flax.linen as nn
import jax
import jax.numpy as jnp


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    def setup(self):
        self.fc = nn.Dense(3, **torch_init(fan_in=3))
        # self.odd = nn.FractionalMaxPool2d(2, output_size=2)
        raise NotImplementedError(
            "MIG202: torch.nn.FractionalMaxPool2d: its windows are drawn at random, by torch's generator"
        )

    def __call__(self, x):
        x = self.fc(x)
        # # the user's comment stays
        # x = torch.special.bessel_j0(x)
        raise NotImplementedError("MIG301: torch.special.bessel_j0")
        if x.sum() > 0:
            x = -x
        return x


def helper(things, mystery):
    things.view(3)
    return mystery.unsqueeze(0)


def kept(x):
    steps = []
    steps.append(jnp.exp(x))
    x = x + 1
    steps.append(x)
    # x.mul_(2)
    raise NotImplementedError("MIG303: x is changed in place, and may be seen under another name")
    return steps

model = Net()
key = jax.random.key(0)
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.ones((2, 3)))["params"]
grads = jax.tree.map(jnp.zeros_like, params)
# optimizer = torch.optim.SparseAdam(model.parameters())
raise NotImplementedError("MIG301: torch.optim.SparseAdam")


@jax.jit(donate_argnames="grads")
def forward_backward(params, grads):
    def loss_fn(params):
        loss = model.apply({"params": params}, jnp.ones((2, 3))).sum()
        return loss

    loss, new_grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(jnp.add, grads, new_grads), {"loss": loss}


def closure(params, grads):
    optimizer.zero_grad()
    grads, metrics = forward_backward(params, grads)
    loss = metrics["loss"]
    return grads, loss

# optimizer.step(closure)
raise NotImplementedError("MIG404: closure is used as a value, and its calls need grads, params")
