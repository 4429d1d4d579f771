"""Rows of modules that hand on more than a tensor: `nn.Sequential(nn.LSTM(4, 8), Last(), nn.Linear(8, 2))`.

In torch whatever a module returns is the one argument of the next. Flax's nn.Sequential takes a tuple apart into
arguments, and a dict into arguments by name."""

from __future__ import annotations

import functools

from migrate.known.constructed import ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import Items, Kind, Never, Plain, join
from migrate.known.script import Script

TORCH_SEQUENTIAL = "TorchSequential"


def row_class(tree: ListNode, script: Script) -> str:
    """The class of a row in Flax: its own, unless a module that another one follows may return a tuple or a dict."""
    followed = tree.children if tree.dynamic else tree.children[:-1]
    return TORCH_SEQUENTIAL if any(_returns_several(one, script) for one in followed) else "nn.Sequential"


def result_of_row(nodes: tuple[Node, ...], script: Script) -> Kind | None:
    """What rows return whose last module is of a class that returns a tuple or a dict; None for other rows."""
    ends = [end for node in nodes for end in _ends(node)]
    kinds = [_result(end, script) for end in ends]
    return functools.reduce(join, kinds) if kinds and all(map(_several, kinds)) else None


def _returns_several(node: Node, script: Script) -> bool:
    return any(
        end.returns.startswith("(") if isinstance(end, LayerNode) else _several(_result(end, script))
        for end in _ends(node)
    )


def _ends(node: Node) -> list[LayerNode | ClassNode]:
    """The modules that may be the last of a row."""
    if isinstance(node, LayerNode | ClassNode):
        return [node]
    last = node.children[-1:] if isinstance(node, ListNode) and not node.dynamic else node.children
    return [end for child in last for end in _ends(child)]


def _result(node: LayerNode | ClassNode, script: Script) -> Kind:
    facts = script.functions.get(f"{node.cls}.forward") if isinstance(node, ClassNode) else None
    return Never() if facts is None else join(facts.returns, facts.overriding)


def _several(kind: Kind) -> bool:
    return kind == Plain("dict") or (isinstance(kind, Items) and kind.type != "list")
