"""Other ways to write the same: `layers = list()` for `layers = []`, and `self.add_module("norm", norm),` with a comma
behind a call whose result nobody takes, `self.eps, self.weight = eps, nn.Parameter(...)` for two statements,
`weight.detach().zero_()` for `weight.data.zero_()`, which changes the same numbers, `x, y = map(Variable, (x, y))`,
which has done nothing since torch 0.4, `pack_padded_sequence(x, lengths.tolist())`, which takes the tensor too, and
`self.downsample = lambda x: x` for `nn.Identity()` where a constructor has a module of that name in other cases, and
`nn.Module.__init__(self)` for `super().__init__()`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.imported import imported_names
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_MADE = re.compile(r"\b(Parameter|partial|Sequential)\(")
_DETACHING = ("detach",)
_EMPTY = {"list": "[]", "dict": "{}"}


def with_bare_forms(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project as they are mostly written."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    own = set(usage.stores(module.body))
    for call in every(module, cst.Call):
        edits.parts |= _of_histogram(call) | _of_lengths(call)
        changed = _changed(call)
        weight = unchained(changed, _DETACHING) if changed is not None else None
        if changed is not None and weight is not changed and isinstance(weight, cst.Attribute):  # no name of a loop's
            edits.parts[changed] = cst.Attribute(weight, cst.Name("data"))
    edits.parts |= _identities(module)
    edits.parts |= {call: made for cls in every(module, cst.ClassDef) for call, made in _of_base(cls, module)}
    for line in every(module, cst.SimpleStatementLine):
        small = suites.alone(line)
        value = small.value if isinstance(small, cst.Assign | cst.Expr) else None
        if isinstance(small, cst.Assign) and isinstance(value, cst.Call) and not value.args:
            name = nodes.dotted(value.func) or ""
            if name in _EMPTY and name not in own:
                edits.parts[value] = nodes.expression(_EMPTY[name])
        elif isinstance(small, cst.Assign) and isinstance(value, cst.Call) and (wrapped := _wrapped(value)) is not None:
            edits.parts[value] = wrapped
        elif isinstance(small, cst.Expr) and isinstance(value, cst.Tuple) and not value.lpar:
            called = value.elements[0].value
            if len(value.elements) == 1 and isinstance(called, cst.Call):
                edits.parts[value] = called
        elif isinstance(small, cst.Assign) and (apart := _apart(small)):
            edits.instead[line] = suites.with_comments(apart, line)
    return edits


def _identities(module: cst.Module) -> dict[cst.CSTNode, cst.CSTNode]:
    """The lambdas that give back what they take, of attributes that constructors make in several ways."""
    names = {full: name for name, full in imported_names(module).items()}
    identity = f"{names['torch.nn']}.Identity()" if "torch.nn" in names else "torch.nn.Identity()"
    if not names.keys() & {"torch.nn", "torch"}:
        return {}
    found: dict[cst.CSTNode, cst.CSTNode] = {}
    for init in (one for one in every(module, cst.FunctionDef) if one.name.value == "__init__"):
        given = list(usage.bindings(init.body))
        for target, value in given:
            path = nodes.dotted(target) or ""
            others = [other for one, other in given if nodes.dotted(one) == path and other is not value]
            if path.startswith("self.") and any(isinstance(one, cst.Call) for one in others) and _gives_back(value):
                found[value] = nodes.expression(identity)
    return found


def _of_base(cls: cst.ClassDef, module: cst.Module) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The calls of a base's constructor by its name, where that is the next one in line, as those of `super()`."""
    bases = [nodes.dotted(base.value) or "" for base in cls.bases]
    bare = {  # classes that construct nothing
        one.name.value
        for one in module.body
        if isinstance(one, cst.ClassDef) and not one.bases and "__init__" not in suites.methods_of(one)
    }
    left = [base for base in bases if base not in bare]
    init = suites.methods_of(cls).get("__init__") if isinstance(cls.body, cst.IndentedBlock) else None
    for call in usage.calls(init.body) if init is not None and len(left) == 1 else ():
        own = bool(call.args) and nodes.dotted(call.args[0].value) == "self" and call.args[0].keyword is None
        if own and nodes.dotted(call.func) == f"{left[0]}.__init__":
            yield call, cst.Call(nodes.expression("super().__init__"), call.args[1:])


def _gives_back(value: Expr) -> bool:
    """Whether a function is `lambda x: x`."""
    taken = value.params.params if isinstance(value, cst.Lambda) else ()
    return len(taken) == 1 and isinstance(value, cst.Lambda) and nodes.dotted(value.body) == taken[0].name.value


def _of_lengths(call: cst.Call) -> dict[cst.CSTNode, cst.CSTNode]:
    """The tensor for its numbers where a sequence is packed."""
    named = (nodes.dotted(call.func) or "").rpartition(".")[2] == "pack_padded_sequence"
    asked = [
        arg.value
        for number, arg in enumerate(call.args)
        if named and (number == 1 if arg.keyword is None else arg.keyword.value == "lengths")
    ]
    plain = {one: unchained(one, ("tolist", "numpy")) for one in asked}
    return {one: tensor for one, tensor in plain.items() if tensor is not one}


def _of_histogram(call: cst.Call) -> dict[cst.CSTNode, cst.CSTNode]:
    """The tensor for its numbers in `writer.add_histogram("grad", p.grad.numpy())`, which takes either."""
    named = isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_histogram"
    keywords = [None if arg.keyword is None else arg.keyword.value for arg in call.args]
    for number, arg in enumerate(call.args if named else ()):
        array = arg.value
        counted = keywords[number] == "values" or (number == 1 and keywords[number] is None)
        if counted and isinstance(array, cst.Call) and not array.args and isinstance(array.func, cst.Attribute):
            return {array: array.func.value} if array.func.attr.value == "numpy" else {}
    return {}


def _wrapped(call: cst.Call) -> cst.Tuple | cst.List | None:
    """The tensors in `map(Variable, (x, y))`; None of other calls."""
    function, *several = [arg.value for arg in call.args] or [call]
    if nodes.dotted(call.func) != "map" or len(several) != 1 or not isinstance(several[0], cst.Tuple | cst.List):
        return None
    return several[0] if (nodes.dotted(function) or "").rpartition(".")[2] == "Variable" else None


def _changed(call: cst.Call) -> cst.BaseExpression | None:
    """What a call changes in place: by a method, or by a function of `nn.init`."""
    func = call.func
    if not isinstance(func, cst.Attribute) or not usage.is_in_place(func.attr.value):
        return None
    by_init = (nodes.dotted(func.value) or "").split(".")[-1] == "init"
    return call.args[0].value if by_init and call.args else func.value


def _apart(small: cst.Assign) -> list[Statement]:
    """An assignment of several at once, weights, rows or makers of layers among them, as one each; nothing where its
    values may read what it sets."""
    target = small.targets[0].target
    if len(small.targets) != 1 or not isinstance(target, cst.Tuple) or not isinstance(small.value, cst.Tuple):
        return []
    if not _MADE.search(nodes.code(small.value)):
        return []
    targets, values = nodes.elements(target), nodes.elements(small.value)
    paths = [path for one in targets if (path := nodes.dotted(one)) is not None]
    read = {path for value in values for path in usage.paths(value)}
    if len(paths) != len(values) or len(targets) != len(values) or read & set(paths):
        return []
    return [nodes.statement("{t} = {v}", t=one, v=value) for one, value in zip(targets, values, strict=True)]
