"""Writes what stars take from torch's modules: `python -m tests.meta.starred_names`, for each new version of torch."""

from __future__ import annotations

import importlib
import json
from types import ModuleType

from migrate.known.starred import FILE

MODULES = (
    *("torch", "torch.autograd", "torch.distributions", "torch.nn", "torch.nn.functional", "torch.nn.init"),
    *("torch.nn.parallel", "torch.nn.utils", "torch.nn.utils.rnn", "torch.optim", "torch.optim.lr_scheduler"),
    "torch.utils.data",
)


def taken(module: str) -> str:
    """The names of a module that a star binds: what the module has imported from elsewhere, `math`, is none of its."""
    found = importlib.import_module(module)
    public = getattr(found, "__all__", None) or [name for name in vars(found) if not name.startswith("_")]
    return " ".join(sorted(name for name in public if not _is_others(getattr(found, name))))


def _is_others(value: object) -> bool:
    return isinstance(value, ModuleType) and not value.__name__.startswith("torch.")


def text() -> str:
    """What the file holds."""
    return json.dumps({module: taken(module) for module in MODULES}, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
