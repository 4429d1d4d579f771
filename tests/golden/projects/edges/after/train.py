"""What projects also do: the same class name twice, a circle of imports, an import inside a function, an old file."""

import jax
import jax.numpy as jnp

import library.encoder as encoder
from library import legacy, shared
from library.decoder import Net as Decoder
from library.shared import frozen


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


def main():
    from library.deep.losses import weighted

    key = jax.random.key(0)
    first = encoder.Net(6)
    key, subkey = jax.random.split(key)
    first_params = first.init(subkey, jnp.zeros((8, 6)))["params"]
    second = Decoder(6)
    key, subkey = jax.random.split(key)
    second_params = second.init(subkey, eval_step(first, first_params, jnp.zeros((8, 6))))["params"]
    key, subkey = jax.random.split(key)
    inputs = jax.random.normal(subkey, (8, 6))
    outputs = eval_step(second, second_params, eval_step(first, first_params, inputs))
    print(weighted(outputs, inputs).item(), shared.SCALE)
    print(legacy.version(), frozen(inputs))


main()
