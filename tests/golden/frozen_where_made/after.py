import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Linear(nn.Module):
    in_features: int
    out_features: int
    bias: bool
    r: int
    alpha: int = None

    def setup(self):
        alpha = self.alpha
        if alpha is None:
            alpha = self.r
        self.weight = jax.lax.stop_gradient(
            self.param("weight", nn.initializers.normal(1.0), (self.out_features, self.in_features))
        )
        if self.bias:
            self.bias_value = jax.lax.stop_gradient(
                self.param("bias_value", nn.initializers.zeros, (self.out_features,))
            )
        else:
            self.bias_value = None
        self.scaling = alpha / self.r
        self.lora_a = self.param(
            "lora_a",
            nn.initializers.variance_scaling(
                2 / (1 + (5**0.5) ** 2), "fan_in", "uniform", in_axis=1, out_axis=0
            ),
            (self.r, self.in_features),
        )
        self.lora_b = self.param("lora_b", nn.initializers.zeros, (self.out_features, self.r))

    def __call__(self, x):
        result = (
            x @ self.weight.T + self.bias_value
            if self.bias_value is not None
            else x @ self.weight.T
        )
        result += (x @ self.lora_a.T @ self.lora_b.T) * self.scaling
        return result


key = jax.random.key(0)
model = nn.Sequential([
    Linear(4, 8, True, 2),
    nn.relu,
    Linear(8, 3, False, 2),
])
key, subkey = jax.random.split(key)
params = model.init(subkey, jnp.zeros((32, 4)))["params"]
opt = optax.multi_transform(
    {"model": optax.adamw(1e-2, weight_decay=0.1), "frozen": optax.set_to_zero()},
    lambda params: jax.tree.map_with_path(
        lambda path, _: "frozen" if path[-1].key in ("weight", "bias_value") else "model", params
    ),
)
opt_state = opt.init(params)
key, subkey = jax.random.split(key)
x = jax.random.normal(subkey, (32, 4))
key, subkey = jax.random.split(key)
y = jax.random.normal(subkey, (32, 3))


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, y):
    def loss_fn(params):
        loss = ((model.apply({"params": params}, x) - y) ** 2).mean()
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = opt.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


for i in range(9):
    params, opt_state, metrics = train_step(params, opt_state, x, y)
    loss = metrics["loss"]
    print(loss.item())
