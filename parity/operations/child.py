"""One side of the comparison in a process of its own: `python -m parity.operations.child SIDE CONFIG.json`.

SIDE is torch, jax or exact. What it computed goes into the file that the configuration names, as float64.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def main(side: str, config_path: str) -> None:
    config = json.loads(Path(config_path).read_text(encoding="utf-8"))
    with np.load(config["inputs"]) as stored:
        arrays: dict[str, list[np.ndarray]] = {}
        for key in stored.files:
            arrays.setdefault(key.rpartition("/")[0], []).append(stored[key])
    if side == "torch":
        from parity.operations.torch_side import evaluate as torch_evaluate

        found = torch_evaluate(config["in_torch"], arrays, config["dtype"])
    elif side == "jax":
        from parity.operations.jax_side import evaluate as jax_evaluate

        found = jax_evaluate(config["in_jax"], arrays, config["dtype"])
    else:
        from parity.operations.exact_side import evaluate as exact_evaluate

        found = exact_evaluate(config["in_jax"], arrays, config["oracle"])
    np.savez(config[side], **found)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    main(*sys.argv[1:])
