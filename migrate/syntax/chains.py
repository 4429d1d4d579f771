"""Calls of methods that give the module itself back: `Net(4).to(device).eval()`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.syntax.nodes import Expr

MOVED = ("to", "cuda", "cpu")  # that only say on which device
DEVICES = frozenset({"device", "dev", "cuda", "gpu", "gpu_id", "rank", "local_rank"})  # what devices are called
CHAINED = ("to", "cuda", "cpu", "float", "double", "train", "eval", "requires_grad_")


def unchained(node: Expr, methods: Sequence[str] = CHAINED) -> Expr:
    """`Net(4)` of `Net(4).to(device).eval()`: without calls of some methods."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in methods:
        node = node.func.value
    return node
