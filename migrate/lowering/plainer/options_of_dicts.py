"""Arguments of torch's own classes and functions that are entries of a dict which the file writes out.

`optim.SGD(model.parameters(), **config["optimizer"])` is read as
`optim.SGD(model.parameters(), lr=config["optimizer"]["lr"], momentum=config["optimizer"]["momentum"])`. What a call of
torch's means goes by the names of its arguments; numbers stay where the file has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def with_options_written_out(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such arguments written out."""
    return [_written_out(one) if "**" in one.source.text else one for one in inputs]


def _written_out(one: Input) -> Input:
    dicts, imported = _dicts(one.source.module), imported_names(one.source.module)
    edits = Edits()
    for call in every(one.source.module, cst.Call):
        starred = [arg for arg in call.args if arg.star == "**"]
        if not starred or call.args[-1].star != "**" or not full_name(call.func, imported).startswith("torch."):
            continue
        told = [_entries(arg.value, dicts) for arg in starred]
        given = {key: value for entries in told if entries is not None for key, value in entries.items()}
        if None not in told:
            args = [arg for arg in call.args if arg.star != "**"]
            edits.parts[call] = call.with_changes(args=[*args, *nodes.arguments([], given)])
    return one.edited(edits) if edits else one


def _entries(node: Expr, dicts: Mapping[str, cst.Dict]) -> dict[str, Expr] | None:
    """The arguments that `**node` gives: numbers as entries of the dict, all else as it is written."""
    written = _meant(node, dicts)
    if written is None:
        return None
    given: dict[str, Expr] = {}
    for element in written.elements:
        key = nodes.literal(element.key) if isinstance(element, cst.DictElement) else ...
        if not isinstance(key, str) or not key.isidentifier() or nodes.literal(element.value) is ...:
            return None
        number = type(nodes.literal(element.value)) in (int, float)
        given[key] = nodes.expression(f'{{d}}["{key}"]', d=node) if number else element.value
    return given


def _meant(node: Expr, dicts: Mapping[str, cst.Dict]) -> cst.Dict | None:
    """The dict that a name, or an entry of one, stands for."""
    if isinstance(node, cst.Name):
        return dicts.get(node.value)
    outer = _meant(node.value, dicts) if isinstance(node, cst.Subscript) else None
    if outer is None or not isinstance(node, cst.Subscript):
        return None
    key = nodes.looked_up(node)
    pairs = [one for one in outer.elements if isinstance(one, cst.DictElement)]
    found = next((one.value for one in pairs if key is not ... and nodes.literal(one.key) == key), None)
    return found if isinstance(found, cst.Dict) else None


def _dicts(module: cst.Module) -> dict[str, cst.Dict]:
    """The dicts that a file binds at its top level, once, and that nothing in it changes: whatever is given one under
    the same name may only look things up."""
    stored = Counter(usage.stores(module))
    bound = [pair for line in suites.suite_of(module.body) for pair in usage.bindings(line)]
    found = {one.value: value for one, value in bound if isinstance(one, cst.Name) and isinstance(value, cst.Dict)}
    kept = {name: value for name, value in found.items() if stored[name] == 1}
    return {name: one for name, one in kept.items() if name not in _changed(module) | _handed(module)}


def _changed(module: cst.Module) -> set[str]:
    """The names of which a file sets or deletes entries, or calls a method that may change a dict."""
    targets = [one.target for one in every(module, (cst.AssignTarget, cst.AugAssign, cst.Del))]
    parts: list[cst.CSTNode] = [one for one in targets if isinstance(one, cst.Subscript | cst.Attribute)]
    methods = [one.func for one in usage.calls(module) if isinstance(one.func, cst.Attribute)]
    parts += [one.value for one in methods if one.attr.value in _CHANGING]
    return {root.value for root in map(nodes.root, parts) if isinstance(root, cst.Name)}


def _handed(module: cst.Module) -> set[str]:
    """The names of the file that its calls give to what has another name for them, or that is not known here, and
    those that a function has for something else."""
    functions = {one.name.value: one for one in every(module, cst.FunctionDef)}
    found: set[str] = set()
    taken: dict[str, set[str]] = {}
    for call in usage.calls(module):
        function = functions.get(nodes.dotted(call.func) or "")
        names = [one.name.value for one in function.params.params] if function is not None else []
        for number, arg in enumerate(call.args):
            keyword = arg.keyword.value if arg.keyword is not None else names[number] if number < len(names) else ""
            if not arg.star and keyword:
                taken.setdefault(keyword, set()).add(nodes.code(arg.value))
            if isinstance(arg.value, cst.Name) and not arg.star and keyword != arg.value.value:
                found |= set() if nodes.dotted(call.func) in _SHOWING else {arg.value.value}
    parameters = {one.name.value for one in every(module, cst.Param)}
    return found | {name for name in parameters if taken.get(name) != {name}}


_CHANGING = ("update", "pop", "popitem", "setdefault", "clear")
_SHOWING = ("print", "len", "str", "dict", "json.dumps", "json.dump", "pprint")
