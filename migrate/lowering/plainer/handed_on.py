"""Methods that hand on to a base what they do not name: `super().__init__(model, **kwargs)`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.syntax import nodes, usage


def spelled_out(method: cst.FunctionDef, called: str, theirs: cst.FunctionDef) -> cst.FunctionDef:
    """A method with the parameters of the one that it calls in the place of `*args` and `**kwargs` that it only hands
    on to that; any other as it is."""
    args, extras = _name(method.params.star_arg), _name(method.params.star_kwarg)
    calls = [call for call in usage.calls(method.body) if nodes.dotted(call.func) == called]
    loads = usage.loads(method.body)
    if len(calls) != 1 or not (args or extras) or any(loads.count(name) != 1 for name in (args, extras) if name):
        return method
    (call,) = calls
    stars = [(arg.star, nodes.dotted(arg.value)) for arg in call.args if arg.star]
    if stars != [(star, name) for star, name in (("*", args), ("**", extras)) if name]:
        return method
    given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    positional = sum(arg.keyword is None and not arg.star for arg in call.args)
    rest = theirs.params.params[1:][positional:]
    more = [each for each in rest if each.name.value not in given]
    only = [each for each in theirs.params.kwonly_params if each.name.value not in given] if extras else []
    if _is_open(theirs) or (args and given & {each.name.value for each in rest}):
        return method
    own = {each.name.value for each in (*method.params.params, *method.params.kwonly_params)}
    if {each.name.value for each in (*more, *only)} & (own | set(usage.stores(method.body))):
        return method
    body = nodes.visited(method.body, _Given(called, [each.name.value for each in (*more, *only)], bool(args)))
    return method.with_changes(params=_with(method.params, more, only), body=body)


def _name(star: object) -> str:
    return star.name.value if isinstance(star, cst.Param) else ""


def _is_open(method: cst.FunctionDef) -> bool:
    """Whether a method takes more than it names, or by position alone."""
    params = method.params
    return bool(_name(params.star_arg) or _name(params.star_kwarg) or params.posonly_params)


def _with(params: cst.Parameters, more: Sequence[cst.Param], only: Sequence[cst.Param]) -> cst.Parameters:
    """Parameters with others in the place of those with stars; they go behind a star where their order says so."""
    plain = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in (*params.params, *more)]
    late = [number for number, each in enumerate(plain) if each.default is not None]
    ordered = not late or all(each.default is not None for each in plain[late[0] :])
    first = plain if ordered else plain[: len(params.params)]
    rest = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in (*params.kwonly_params, *only)]
    rest = [*plain[len(first) :], *rest]
    star = cst.ParamStar() if rest else cst.MaybeSentinel.DEFAULT
    return params.with_changes(params=first, kwonly_params=rest, star_arg=star, star_kwarg=None)


class _Given(cst.CSTTransformer):
    """Hands parameters on by their names in the place of those with stars."""

    def __init__(self, called: str, names: Sequence[str], by_position: bool) -> None:
        super().__init__()
        self.called, self.names, self.by_position = called, names, by_position

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if nodes.dotted(original_node.func) != self.called:
            return updated_node
        plain = [arg for arg in updated_node.args if not arg.star]
        first = [arg for arg in plain if arg.keyword is None]
        named = [arg for arg in plain if arg.keyword is not None]
        given = {name: nodes.name(name) for name in self.names}
        positions = nodes.arguments(list(given.values())) if self.by_position else []
        made = [*first, *positions, *named]
        made = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in made]
        return updated_node.with_changes(args=made if self.by_position else nodes.extended(made, given))
