"""Move weights between torch checkpoints and Flax pytrees by a weight manifest, bit for bit, both ways.

Neither torch nor jax is needed to read a checkpoint or to write a Flax file, and no pickled code is ever run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weight_port.apply import port_state_dict, unport_tree
    from weight_port.checkpoint import Checkpoint, TensorInfo, open_checkpoint
    from weight_port.errors import PortError
    from weight_port.port import port_weights
    from weight_port.report import PortReport

_HOMES = {
    "Checkpoint": "checkpoint",
    "PortError": "errors",
    "PortReport": "report",
    "TensorInfo": "checkpoint",
    "open_checkpoint": "checkpoint",
    "port_state_dict": "apply",
    "port_weights": "port",
    "unport_tree": "apply",
}

__all__ = [
    "Checkpoint",
    "PortError",
    "PortReport",
    "TensorInfo",
    "open_checkpoint",
    "port_state_dict",
    "port_weights",
    "unport_tree",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
