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
    from weight_port.families import family_manifest, family_of, family_weights
    from weight_port.inspection import inspect
    from weight_port.optimizer_files import OptimizerOptions, restore_optax
    from weight_port.optimizer_state import read_optimizer_state
    from weight_port.optimizer_to_optax import to_optax
    from weight_port.optimizer_to_torch import as_tensors, to_torch
    from weight_port.port import port_weights
    from weight_port.pretrained import from_pretrained, match_module
    from weight_port.report import PortReport

_HOMES = {
    "Checkpoint": "checkpoint",
    "OptimizerOptions": "optimizer_files",
    "PortError": "errors",
    "PortReport": "report",
    "TensorInfo": "checkpoint",
    "as_tensors": "optimizer_to_torch",
    "family_manifest": "families",
    "family_of": "families",
    "family_weights": "families",
    "from_pretrained": "pretrained",
    "inspect": "inspection",
    "match_module": "pretrained",
    "open_checkpoint": "checkpoint",
    "port_state_dict": "apply",
    "port_weights": "port",
    "read_optimizer_state": "optimizer_state",
    "restore_optax": "optimizer_files",
    "to_optax": "optimizer_to_optax",
    "to_torch": "optimizer_to_torch",
    "unport_tree": "apply",
}

__all__ = [
    "Checkpoint",
    "OptimizerOptions",
    "PortError",
    "PortReport",
    "TensorInfo",
    "as_tensors",
    "family_manifest",
    "family_of",
    "family_weights",
    "from_pretrained",
    "inspect",
    "match_module",
    "open_checkpoint",
    "port_state_dict",
    "port_weights",
    "read_optimizer_state",
    "restore_optax",
    "to_optax",
    "to_torch",
    "unport_tree",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
