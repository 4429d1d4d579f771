"""What a checkpoint is as a file: Flax's msgpack, which holds arrays, numbers and texts. A program that saves an object
along, its arguments or its settings, pickles its checkpoints, as torch does: all of them, since it may read any. It
reads msgpack as well, which `migrate port-weights` writes. Where that is asked for, Orbax writes folders instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.script import Script
from migrate.lowering.expressions.open_files import FILE
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_EITHER = "checkpoint_from_bytes"  # the snippet that reads what is pickled, and msgpack
_SAVE, _RESTORE = "save_with_orbax", "restore_with_orbax"
SNIPPETS = (_EITHER, _SAVE, _RESTORE)
_OF_ARRAYS = frozenset({"shape", "dtype", "device", "ndim", "data", "grad", "T"})


def saved(script: Script, content: Expr, where: Value) -> Expr:
    """What saves something at a path, or in an open file. Raises Unsupported where Orbax cannot."""
    if script.orbax:
        if script.pickles:
            raise Unsupported(
                "MIG302", "torch.save of an object: Orbax holds arrays, numbers and texts: save `vars(args)`"
            )
        return nodes.call(_SAVE, content, _path(where))
    text = "{where}.write({data})" if where.kind == FILE else "Path({where}).write_bytes({data})"
    data = "pickle.dumps(serialization.to_state_dict({x}))" if script.pickles else "serialization.to_bytes({x})"
    return nodes.expression(text, where=where.node, data=nodes.expression(data, x=content))


def restored(script: Script, where: Value) -> Expr:
    """What a file holds: dicts of arrays. Raises Unsupported where Orbax cannot read it."""
    if script.orbax:
        return nodes.call(_RESTORE, _path(where))
    return nodes.call(_EITHER if script.pickles else "serialization.msgpack_restore", _bytes_of(where))


def restored_into(script: Script, target: Expr, where: Value) -> Expr:
    """What a file holds, in the structure of something. Raises Unsupported where Orbax cannot read it."""
    if script.orbax or script.pickles:
        return nodes.call("serialization.from_state_dict", target, restored(script, where))
    return nodes.call("serialization.from_bytes", target, _bytes_of(where))


def _bytes_of(where: Value) -> Expr:
    return nodes.expression("{f}.read()" if where.kind == FILE else "Path({f}).read_bytes()", f=where.node)


def _path(where: Value) -> Expr:
    if where.kind == FILE:
        raise Unsupported(
            "MIG302", f"{nodes.code(where.node)}: Orbax writes folders: save to a path, not to an open file"
        )
    return where.node


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
