"""One framework's matrix products, in a process of its own: `python -m parity.matmul_child torch CONFIG.json`.

Answers on standard output: one JSON object for each product, and whether `precision=` changed anything.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(framework: str, config_path: str) -> None:
    config = json.loads(Path(config_path).read_text(encoding="utf-8"))
    multiply = (_torch if framework == "torch" else _jax)(config["dtype"], config["precision"])
    for job in config["jobs"]:
        with np.load(job["inputs"]) as arrays:
            result, answer = multiply(arrays["a"], arrays["b"])
        np.save(job[framework], result)
        print(json.dumps(answer), flush=True)


def _torch(dtype: str, precision: str | None) -> Any:
    import torch

    torch.set_num_threads(1)
    kind = getattr(torch, dtype)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def multiply(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        left, right = (torch.from_numpy(x).to(device, kind) for x in (a, b))
        plain = left @ right
        ignored = False
        if precision:
            torch.set_float32_matmul_precision({"default": "high", "high": "high"}.get(precision, "highest"))
            chosen = left @ right
            ignored = device == "cpu" and torch.equal(plain, chosen)
            plain = chosen
        return plain.float().cpu().numpy(), {"device": device, "ignored": ignored, "version": torch.__version__}

    return multiply


def _jax(dtype: str, precision: str | None) -> Any:
    import jax
    import jax.numpy as jnp

    device = jax.devices()[0]

    def multiply(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        left, right = jnp.asarray(a, dtype), jnp.asarray(b, dtype)
        result = jnp.matmul(left, right)
        ignored = False
        if precision:
            chosen = jnp.matmul(left, right, precision=precision)
            ignored = device.platform == "cpu" and bool(jnp.array_equal(result, chosen))
            result = chosen
        answer = {"device": device.device_kind, "ignored": ignored, "version": jax.__version__}
        return np.asarray(result.astype(jnp.float32)), answer

    return multiply


if __name__ == "__main__":
    main(*sys.argv[1:])
