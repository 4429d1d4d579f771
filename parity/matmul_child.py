"""One framework's matrix product, in its own process: `python -m parity.matmul_child torch float32 IN.npz OUT.npy`."""

from __future__ import annotations

import sys

import numpy as np


def main(framework: str, dtype: str, inputs: str, output: str) -> None:
    with np.load(inputs) as arrays:
        a, b = arrays["a"], arrays["b"]
    if framework == "torch":
        import torch

        torch.set_num_threads(1)
        kind = getattr(torch, dtype)
        result = (torch.from_numpy(a).to(kind) @ torch.from_numpy(b).to(kind)).float().numpy()
    else:
        import jax.numpy as jnp

        result = np.asarray((jnp.asarray(a, dtype) @ jnp.asarray(b, dtype)).astype(jnp.float32))
    np.save(output, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
