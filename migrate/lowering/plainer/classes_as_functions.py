"""Classes that inherit from an optimizer or a schedule of torch's and only say how one is made:
`class WarmupLinear(LambdaLR)` with a constructor, and a method that is its `lr_lambda`.

Such a class is a function that makes one: what the constructor keeps is a variable of it, and its other methods are
functions inside.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import called, mentions
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

ABSTRACT = ("Optimizer", "LRScheduler", "_LRScheduler")
# what torch calls of an object, or people do: a class that has its own is another kind of thing
_THEIRS = (
    *("step", "zero_grad", "add_param_group", "state_dict", "load_state_dict", "profile_hook_step"),
    *("get_lr", "get_last_lr", "print_lr", "_initial_step", "_get_closed_form_lr", "_update_lr"),
)


@dataclass(frozen=True)
class _Making:
    """What a constructor does: the statements before and behind the call of its base's, and what that is given."""

    before: Sequence[Statement]
    behind: Sequence[Statement]
    line: Statement
    given: Sequence[cst.Arg]


def as_function(node: cst.ClassDef) -> cst.FunctionDef | None:
    """The function that a class stands for; None where the class is more than that."""
    if len(node.bases) != 1 or node.decorators or node.keywords:
        return None
    body = suites.suite_of(node.body.body)
    said = [one for one in body if suites.is_docstring(one)]
    methods = {one.name.value: one for one in body if isinstance(one, cst.FunctionDef)}
    init = methods.pop("__init__", None)
    if init is None or init.decorators or len(body) != len(methods) + len(said) + 1:
        return None
    if any(name in _THEIRS or name.startswith("__") or one.decorators for name, one in methods.items()):
        return None
    making = _making(node, init)
    kept = _kept(init, [*making.before, *making.behind]) if making is not None else None
    if making is None or kept is None or not init.params.params:
        return None
    own = {*kept, *methods}
    whole = [init, *methods.values()]
    if not all(_knows(one, own, kept if one is init else {}) for one in whole) or _shadowed(whole, own, kept):
        return None
    opened = _Opened(own)
    lines = [nodes.visited(one, opened) for one in (*making.before, *making.behind)]
    lines = [one for one in lines if not _says_nothing(one)]
    inner = [_without_self(nodes.visited(one, opened)) for one in methods.values()]
    made = cst.Call(node.bases[0].value, [nodes.visited(one, opened) for one in making.given])
    last = nodes.statement("return {c}", c=made)
    if any(isinstance(one, cst.FunctionDef) for one in [*lines, *inner][-1:]):
        last = last.with_changes(leading_lines=[suites.BLANK])
    function = suites.function(node.name.value, [], [*said[:1], *lines, *inner, last])
    params = init.params.with_changes(params=init.params.params[1:])
    return function.with_changes(params=params, leading_lines=node.leading_lines)


def only_called(modules: Iterable[cst.Module], node: cst.ClassDef) -> bool:
    """Whether files only make objects of a class: none asks `isinstance(x, cls)`, or inherits from it."""
    own = set(every(node, cst.Name))
    return not any(mentions(module, node.name.value, called(module) | own) for module in modules)


def _making(node: cst.ClassDef, init: cst.FunctionDef) -> _Making | None:
    """What a constructor does around the call of its base's, which stands in it once and surely runs."""
    body = [one for one in suites.suite_of(init.body.body) if not suites.is_docstring(one)]
    base = nodes.code(node.bases[0].value)
    found: list[tuple[int, Sequence[cst.Arg]]] = []
    for number, line in enumerate(body):
        small = suites.alone(line)
        call = small.value if isinstance(small, cst.Expr) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        if suites.calls_base(line) is not None:
            found.append((number, call.args))
        elif nodes.code(call.func) == f"{base}.__init__" and call.args:
            found.append((number, call.args[1:]))
    supers = [call for call in usage.calls(init.body) if nodes.dotted(call.func) == "super"]
    if len(found) != 1 or len(supers) > 1 or usage.returns(init.body):
        return None
    number, given = found[0]
    return _Making(body[:number], body[number + 1 :], body[number], given)


def _kept(init: cst.FunctionDef, body: Sequence[Statement]) -> dict[str, Expr] | None:
    """What a constructor keeps, each bound once by a statement of its own; None where it does more."""
    found: dict[str, Expr] = {}
    for line in body:
        small = suites.alone(line)
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if isinstance(small, cst.Assign) and isinstance(target, cst.Attribute) and nodes.dotted(target.value) == "self":
            if target.attr.value in found:
                return None
            found[target.attr.value] = small.value
    return found


def _knows(method: cst.FunctionDef, own: Container[str], sets: Mapping[str, object]) -> bool:
    """Whether a method uses of its object what the class itself has, and changes none of it but `sets`."""
    first = method.params.params[0].name.value if method.params.params else ""
    attributes = [one for one in every(method.body, cst.Attribute) if nodes.dotted(one.value) == "self"]
    mentions = sum(one.value == "self" for one in every(method.body, cst.Name))
    bases = [call for call in usage.calls(method.body) if nodes.code(call.func).endswith(("super", ".__init__"))]
    handed = sum(nodes.dotted(arg.value) == "self" for call in bases for arg in call.args)
    plain = first == "self" and mentions == len(attributes) + handed
    return (
        plain and all(one.attr.value in own for one in attributes) and usage.attributes_set(method.body) <= sets.keys()
    )


def _shadowed(methods: Sequence[cst.FunctionDef], own: Container[str], kept: Mapping[str, Expr]) -> bool:
    """Whether what the object has under a name is something else under that name in a method, or around the class."""
    params = {one.name.value for one in (*methods[0].params.params, *methods[0].params.kwonly_params)}
    as_given = {name for name in params & kept.keys() if nodes.dotted(kept[name]) == name}
    for method in methods:
        first = method is methods[0]
        theirs = params if first else {one.name.value for one in method.params.params}
        named = {*theirs, *usage.stores(method.body), *usage.loads(method.body)}
        if any(name in own for name in named - (as_given if first else set())):
            return True
    return bool(set(usage.stores(methods[0].body)) & as_given)


class _Opened(cst.CSTTransformer):
    """`self.warmup` is `warmup`."""

    def __init__(self, own: Container[str]) -> None:
        super().__init__()
        self.own = own

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        plain = nodes.dotted(original_node.value) == "self" and original_node.attr.value in self.own
        return nodes.name(original_node.attr.value) if plain else updated_node


def _says_nothing(statement: Statement) -> bool:
    """Whether a statement is `warmup = warmup`."""
    small = suites.alone(statement)
    return isinstance(small, cst.Assign) and nodes.dotted(small.targets[0].target) == (nodes.dotted(small.value) or "")


def _without_self(method: cst.FunctionDef) -> cst.FunctionDef:
    return method.with_changes(params=method.params.with_changes(params=method.params.params[1:]), leading_lines=[])
