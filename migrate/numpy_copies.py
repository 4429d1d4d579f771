"""Arrays of numpy's that the script changes in place: `action = model(x).numpy()`, then `action += noise`.

`np.asarray` of an array of JAX's cannot be written to. Such a name is given a copy, `np.array`, where the array has no
other name: in torch, the tensor would change with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_MADE = "np.asarray"
_VIEWS = ("reshape", "squeeze", "transpose", "swapaxes", "ravel", "view", "T")
_METHODS = ("sort", "fill", "put", "partition", "resize")
_FUNCTIONS = ("shuffle", "copyto", "put", "place", "putmask", "fill_diagonal")
_PASSING_ON = ("jax.lax.stop_gradient",)


def results_changed(modules: Iterable[cst.Module]) -> frozenset[str]:
    """The names of the functions of a project whose results somebody changes in place: `action = agent.act(state)`."""
    found = set[str]()
    for module in modules:
        for _, body in _scopes(module.body):
            changed, bound = _in_scope(body)
            calls = [_base(value) for target, value in bound if target in changed]
            found |= {(nodes.dotted(one.func) or "").rpartition(".")[2] for one in calls if isinstance(one, cst.Call)}
    return frozenset(found)


def with_copies(body: Sequence[Statement], before: cst.Module, results: Collection[str] = ()) -> list[Statement]:
    """The statements of an output with copies where it changes an array in place that the script had of a tensor.
    `results`: the functions of which the script changes what they return."""
    found = _changed(body, before, results)
    copied = {call for _, call, alone in found if alone}
    return [nodes.visited(one, _Copying(copied)) if copied & {*usage.calls(one)} else one for one in body]


def written_to(output: cst.Module, before: cst.Module) -> list[str]:
    """The names by which an output writes to an array of JAX's: in torch, a tensor used further on changes as well."""
    return [target for target, _, alone in _changed(output.body, before) if not alone]


def _changed(
    body: Sequence[cst.CSTNode], before: cst.Module, results: Collection[str] = ()
) -> list[tuple[str, cst.Call, bool]]:
    """The names that an output changes in place, the calls that make them, and whether nothing else has the array."""
    if not any(nodes.dotted(call.func) == _MADE for statement in body for call in usage.calls(statement)):
        return []
    own = {nodes.code(call) for call in usage.calls(before) if nodes.dotted(call.func) == _MADE}
    found = [each for name, scope in _scopes(body) for each in _changed_in(scope, name in results)]
    return [each for each in found if nodes.code(each[1]) not in own]


def _scopes(body: Sequence[cst.CSTNode]) -> Iterator[tuple[str, Sequence[cst.CSTNode]]]:
    """The bodies of a file: its top level, and its functions by their names."""
    yield "", body
    for function in (one for statement in body for one in every(statement, cst.FunctionDef)):
        yield function.name.value, function.body.body


class _Copying(cst.CSTTransformer):
    def __init__(self, copied: Collection[cst.Call]) -> None:
        super().__init__()
        self.copied = copied

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        made = original_node in self.copied
        return updated_node.with_changes(func=nodes.expression("np.array")) if made else updated_node


def _changed_in(body: Sequence[cst.CSTNode], returning: bool) -> Iterator[tuple[str, cst.Call, bool]]:
    changed, bound = _in_scope(body, returning)
    statements = [one for one in suites.suite_of(body) if not isinstance(one, cst.FunctionDef | cst.ClassDef)]
    times = Counter(target for target, _ in bound)
    for target, value in bound:
        call = _asarray(value)
        if target in changed and call is not None:
            alone = _is_its_own(call.args[0].value, target, statements)
            if alone or times[target] == 1:
                yield target, call, alone


def _in_scope(body: Sequence[cst.CSTNode], returning: bool = False) -> tuple[set[str], list[tuple[str, Expr]]]:
    """The names that a scope changes in place, those that stand for the same arrays included, and what it binds.
    `returning`: what the scope returns, under the name of "return", is changed by its callers."""
    statements = [one for one in suites.suite_of(body) if not isinstance(one, cst.FunctionDef | cst.ClassDef)]
    changed = {path for one in statements for path in changed_in_place(one)}
    bound = [pair for one in statements for pair in _bound(one)]
    if returning:
        changed.add("return")
        bound += [("return", one.value) for each in statements for one in every(each, cst.Return) if one.value]
    while more := {path for target, value in bound if target in changed and (path := _viewed(value))} - changed:
        changed |= more
    return changed, bound


def _bound(statement: Statement) -> Iterator[tuple[str, Expr]]:
    """What assignments and loops bind, by names and attributes, with its value: of a loop, what it goes through."""
    pairs = [*usage.bindings(statement), *((one.target, one.iter) for one in every(statement, cst.For))]
    yield from ((path, value) for target, value in pairs if (path := nodes.dotted(target)))


def changed_in_place(statement: Statement) -> Iterator[str]:
    """What a statement changes in place, be it an array or a number, by names and attributes."""
    for one in every(statement, (cst.AugAssign, cst.AssignTarget, cst.Call)):
        for each in _written(one):
            path = nodes.dotted(_without_entries(each))
            if path:
                yield path


def _written(node: cst.AugAssign | cst.AssignTarget | cst.Call) -> list[Expr]:
    """What a piece of code writes to, be it an array or a number."""
    if isinstance(node, cst.AugAssign):
        return [node.target]
    if isinstance(node, cst.AssignTarget):
        return [node.target] if isinstance(node.target, cst.Subscript) else []
    found = [arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == "out"]
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _METHODS:
        found.append(node.func.value)
    elif (nodes.dotted(node.func) or "").rpartition(".")[2] in _FUNCTIONS and node.args:
        found.append(node.args[0].value)
    return found


def _without_entries(node: Expr) -> Expr:
    while isinstance(node, cst.Subscript):
        node = node.value
    return node


def _base(node: Expr) -> Expr:
    """What an expression is a view of, or the same as: `x` of `x[0].reshape(-1)`."""
    while True:
        if isinstance(node, cst.Subscript) or (isinstance(node, cst.Attribute) and node.attr.value in _VIEWS):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
            node = node.func.value
        elif isinstance(node, cst.Call) and nodes.dotted(node.func) in _PASSING_ON and node.args:
            node = node.args[0].value
        else:
            return node


def _viewed(value: Expr) -> str:
    return nodes.dotted(_base(value)) or ""


def _asarray(value: Expr) -> cst.Call | None:
    """The call that makes an array of numpy's, of which a value is a view."""
    base = _base(value)
    return base if isinstance(base, cst.Call) and nodes.dotted(base.func) == _MADE and len(base.args) == 1 else None


def _is_its_own(array: Expr, target: str, statements: Sequence[Statement]) -> bool:
    """Whether nothing but the call at hand has an array: it has just been computed, or its name is said no more, be it
    since the array of numpy's has that now. A parameter is the caller's as well."""
    base = _base(array)
    if isinstance(base, cst.Name):
        added = [nodes.dotted(one.target) for each in statements for one in every(each, cst.AugAssign)]
        bound = usage.stores(statements).count(base.value) - added.count(base.value)
        return bound > 1 if base.value == target else bound > 0 and usage.loads(statements).count(base.value) == 1
    return isinstance(base, cst.Call | cst.BinaryOperation | cst.UnaryOperation)
