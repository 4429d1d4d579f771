"""What a rewrite would write: it is left as it is."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Net(nn.Module):
    width: int = 16

    @nn.compact
    def __call__(self, x, train: bool = False):
        x = nn.relu(nn.Dense(self.width)(x))
        x = nn.Dropout(0.1, deterministic=not train)(x)
        return nn.Dense(1)(x).squeeze(-1)


model = Net()
key = jax.random.key(0)
x = jax.random.normal(key, (8, 4))
y = x.sum(axis=1)
params = model.init(key, x)["params"]
optimizer = optax.adam(1e-2)
opt_state = optimizer.init(params)


@jax.jit
def train_step(params, opt_state, key):
    def loss_fn(params):
        out = model.apply({"params": params}, x, train=True, rngs={"dropout": key})
        return ((out - y) ** 2).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


for step in range(3):
    key, subkey = jax.random.split(key)
    params, opt_state, loss = train_step(params, opt_state, subkey)
    print(step, loss.item(), jnp.max(x).item(), x.reshape(-1).at[0].set(0).mean())
