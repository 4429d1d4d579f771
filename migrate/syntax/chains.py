"""Calls of methods that give the module itself back: `Net(4).to(device).eval()`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.syntax.nodes import Expr

MOVED = ("to", "cuda", "cpu")  # that only say on which device
DEVICES = frozenset({"device", "dev", "cuda", "gpu", "gpu_id", "rank", "local_rank"})  # what devices are called
CHAINED = ("to", "cuda", "cpu", "float", "double", "train", "eval", "requires_grad_")


def devices_given(call: cst.Call) -> list[Expr] | None:
    """The devices that a call of `to`, or of its like, is given; None where it is given more."""
    keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    given = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "device"]
    return given if keywords <= {"device", "non_blocking"} else None


def unchained(node: Expr, methods: Sequence[str] = CHAINED) -> Expr:
    """`Net(4)` of `Net(4).to(device).eval()`: without calls of some methods."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in methods:
        node = node.func.value
    return node
