"""A row of layers that is filled under names with numbers in them, as if a dict were filled in its place."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.syntax import names_written, nodes, usage
from migrate.syntax.nodes import Expr, Statement

_ADDING = ("add_module", "register_module")


def added_by_name(call: cst.Call) -> tuple[Expr, Expr] | None:
    """The name and the layer that `net.add_module(name, layer)` gives, by keywords or not; None of other calls."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    given = {
        arg.keyword.value if arg.keyword is not None else ("name", "module")[number]: arg.value
        for number, arg in enumerate(call.args[:2])
    }
    known = method in _ADDING and len(call.args) == 2 and not any(arg.star for arg in call.args)
    return (given["name"], given["module"]) if known and given.keys() == {"name", "module"} else None


class _FillingByName(cst.CSTTransformer):
    """`row[name] = layer` for `net.add_module(name, layer)`, `pairs.append((name, layer))`, `d.update({name: layer})`
    and `d[name] = layer`; the dict is what nn.Sequential is given."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__()
        self.path, self.name = path, name

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        entry = _entry(updated_node, self.path)
        if entry is None or names_written.of_class(entry[0]):
            return updated_node
        made = nodes.statement("{row}[{key}] = {layer}", row=nodes.name(self.name), key=entry[0], layer=entry[1])
        return updated_node.with_changes(body=made.body)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """`nn.Sequential(OrderedDict(pairs))`, `nn.Sequential(layers)`."""
        given = updated_node.args[0].value if len(updated_node.args) == 1 else None
        kind = (nodes.dotted(updated_node.func) or "").rpartition(".")[2]
        if given is None or kind != "Sequential":
            return updated_node
        if nodes.dotted(given) == self.path or _is_dict_of(given, self.path):
            return updated_node.with_changes(args=[cst.Arg(nodes.name(self.name))])
        return updated_node


def filled_by_name(statements: Sequence[Statement], path: str, name: str) -> list[Statement] | None:
    """Statements that fill a row at a path, with a dict under a name in its place; None where they do more with it than
    to fill it and to give it to nn.Sequential."""
    marked = usage.unused_name(name, set(usage.loads(statements)) | set(usage.stores(statements)) | {path})
    filling = _FillingByName(path, marked)
    made = [nodes.visited(one.deep_clone(), filling) for one in statements]
    if any(path in usage.paths(one) for one in made):
        return None
    return [nodes.substituted(one, {marked: nodes.name(name)}) for one in made]


def _entry(line: cst.SimpleStatementLine, path: str) -> tuple[Expr, Expr] | None:
    """The name and the layer that a statement puts into a row; None for other statements."""
    small = line.body[0]
    if len(line.body) > 1:
        return None
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
        index = target.slice[0].slice if isinstance(target, cst.Subscript) and len(target.slice) == 1 else None
        own = isinstance(target, cst.Subscript) and nodes.dotted(target.value) == path
        return (index.value, small.value) if own and isinstance(index, cst.Index) else None
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return None
    if nodes.dotted(call.func.value) != path:
        return None
    given = call.args[0].value if len(call.args) == 1 and not call.args[0].keyword else None
    if call.func.attr.value == "update" and isinstance(given, cst.Dict) and len(given.elements) == 1:
        (only,) = given.elements
        return (only.key, only.value) if isinstance(only, cst.DictElement) else None
    if call.func.attr.value != "append" or not isinstance(given, cst.Tuple):
        return added_by_name(call)
    pair = nodes.elements(given)
    return (pair[0], pair[1]) if len(pair) == 2 else None


def makes_dict(call: Expr) -> bool:
    """Whether an expression is a call that makes a dict."""
    return isinstance(call, cst.Call) and (nodes.dotted(call.func) or "").rpartition(".")[2] in ("OrderedDict", "dict")


def _is_dict_of(call: Expr, path: str) -> bool:
    """Whether a call makes a dict of what lies at a path."""
    return isinstance(call, cst.Call) and makes_dict(call) and [nodes.dotted(arg.value) for arg in call.args] == [path]
