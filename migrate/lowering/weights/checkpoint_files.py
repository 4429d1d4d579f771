"""What a checkpoint is as a file: Flax's msgpack, which holds arrays, numbers and texts. A program that saves an object
along, its arguments or its settings, pickles its checkpoints, as torch does: all of them, since it may read any. It
reads msgpack as well, which `migrate port-weights` writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

PICKLED = "checkpoint_from_bytes"  # the snippet that reads either
_OF_ARRAYS = frozenset({"shape", "dtype", "device", "ndim", "data", "grad", "T"})


def to_bytes(content: Expr, pickled: bool) -> Expr:
    """The bytes that a file is to hold."""
    if pickled:
        return nodes.expression("pickle.dumps(serialization.to_state_dict({x}))", x=content)
    return nodes.expression("serialization.to_bytes({x})", x=content)


def from_bytes(content: Expr, pickled: bool) -> Expr:
    """What the bytes of a file hold: dicts of arrays."""
    return nodes.call(PICKLED if pickled else "serialization.msgpack_restore", content)


def from_bytes_into(target: Expr, content: Expr, pickled: bool) -> Expr:
    """What the bytes of a file hold, in the structure of something."""
    if pickled:
        return nodes.call("serialization.from_state_dict", target, from_bytes(content, pickled))
    return nodes.call("serialization.from_bytes", target, content)


def save_objects(modules: Iterable[cst.Module]) -> bool:
    """Whether some file of a project saves an object with the state of a model: what attributes are read of there."""
    return any(_objects(module) & set(_saved(module)) for module in modules)


def _saved(module: cst.Module) -> Iterator[str]:
    """The paths that are values beside a `state_dict()` in a dict: `args`, `self.config`."""
    for made in every(module, (cst.Dict, cst.Call)):
        if isinstance(made, cst.Dict):
            values = [one.value for one in made.elements if isinstance(one, cst.DictElement)]
        else:
            values = [arg.value for arg in made.args if arg.keyword and nodes.dotted(made.func) == "dict"]
        if any(map(_is_state, values)):
            yield from (path for path in map(nodes.dotted, values) if path is not None)


def _is_state(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and nodes.code(node.func).endswith(".state_dict")


def _objects(module: cst.Module) -> set[str]:
    """The paths of which attributes are read that no array has, and nothing calls."""
    called = {id(call.func) for call in every(module, cst.Call)}
    imported = {name for line in every(module, (cst.Import, cst.ImportFrom)) for name in usage.stores(line)}
    found: set[str] = set()
    for one in every(module, cst.Attribute):
        path = nodes.dotted(one.value)
        if path is not None and id(one) not in called and one.attr.value not in _OF_ARRAYS:
            found.add(path)
    return {path for path in found if path.partition(".")[0] not in imported}
