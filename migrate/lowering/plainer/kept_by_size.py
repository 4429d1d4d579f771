"""What a forward pass keeps on its object until its size is another one: `if self.mask is None or self.mask.size(0) !=
len(x): self.mask = make_mask(len(x))`.

A Flax module is frozen, and under jit the sizes are those of the program: XLA computes a constant once. So the input is
taken as if it was made at each call, which is the same where nothing but the size tells what it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from migrate.lowering.modules.sown import LocalNames
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import MOVED, unchained
from migrate.syntax.mentions import attributes_named, texts_named
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_FACTORIES = frozenset({"ones", "zeros", "full", "empty", "eye", "arange"})
_MODULES = frozenset({"torch", "np", "numpy"})


def with_nothing_kept_by_size(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such values made at each call."""
    made: list[Input] = []
    for one in inputs:
        edits = Edits()
        for cls in every(one.source.module, cst.ClassDef):
            for init, method, branch, name in _kept(cls):
                if sum(_mentioned(each.source.module, name) for each in inputs) == _mentioned(cls, name):
                    _make_each_time(edits, init, method, branch, name)
        made.append(one.edited(edits))
    return made


def _kept(cls: cst.ClassDef) -> Iterator[tuple[cst.FunctionDef, cst.FunctionDef, cst.If, str]]:
    """The methods of a class that keep something by its size, after its constructor: with the branch that makes it
    and the attribute."""
    methods = suites.methods_of(cls)
    for method in methods.values():
        for branch in every(method.body, cst.If):
            asked = _asked(branch.test)
            if asked is None or method.name.value == "__init__" or branch.orelse is not None:
                continue
            name, size = asked
            setting = [one for one in methods.values() if name in usage.attributes_set(one.body)]
            elsewhere = [one for one in methods.values() if one is not method and _mentioned(one, name)]
            if (
                elsewhere == [methods.get("__init__")] == [one for one in setting if one is not method]
                and _starts_as_none(methods["__init__"], name)
                and _set_to_none_besides(method, branch, name)
                and _is_made_of_size(branch, name, size, methods)
            ):
                yield methods["__init__"], method, branch, name


def _asked(test: Expr) -> tuple[str, Expr] | None:
    """The attribute and the size in `self.mask is None or self.mask.size(0) != size`; None for other tests."""
    if not isinstance(test, cst.BooleanOperation) or not isinstance(test.operator, cst.Or):
        return None
    first, second = nodes.code(test.left), test.right
    if not first.startswith("self.") or not first.endswith(" is None") or not isinstance(second, cst.Comparison):
        return None
    path, (compared,) = first.removesuffix(" is None"), second.comparisons
    sizes = (f"{path}.size(0)", f"{path}.shape[0]", f"len({path})")
    if not isinstance(compared.operator, cst.NotEqual):
        return None
    sides = (second.left, compared.comparator)
    others = [other for one, other in (sides, sides[::-1]) if nodes.code(one) in sizes]
    return (path.removeprefix("self."), others[0]) if others and path.count(".") == 1 else None


def _mentioned(node: cst.CSTNode, name: str) -> int:
    """How often an attribute of a name is asked for, or a text is that name."""
    return len(attributes_named(node, name)) + len(texts_named(node, name))


def _starts_as_none(init: cst.FunctionDef, name: str) -> bool:
    """Whether all that a constructor says of an attribute is that it is None."""
    lines = [one for one in suites.suite_of(init.body.body) if _mentioned(one, name)]
    return _mentioned(init, name) == 1 and [nodes.code(one).strip() for one in lines] == [f"self.{name} = None"]


def _set_to_none_besides(method: cst.FunctionDef, branch: cst.If, name: str) -> bool:
    """Whether all that a method sets an attribute to outside of a branch is None, on another way than that one."""
    settings = [one for one in every(method.body, cst.Assign) if name in usage.attributes_set(one)]
    inside = set(every(branch, cst.Assign))
    others = [one for one in settings if one not in inside]
    around = [one for one in every(method.body, cst.If) if branch in suites.suite_of(one.body.body)]
    apart = {one for each in around if each.orelse is not None for one in every(each.orelse, cst.Assign)}
    return all(nodes.is_literal(one.value, None) and one in apart for one in others)


def _is_made_of_size(branch: cst.If, name: str, size: Expr, methods: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether a branch only sets an attribute, to what nothing but a size tells, which is that of its first axis."""
    known: dict[str, Expr] = {}
    for line in suites.suite_of(branch.body.body):
        small = suites.alone(line)
        target = nodes.dotted(small.targets[0].target) if isinstance(small, cst.Assign) else None
        if not isinstance(small, cst.Assign) or target is None or len(small.targets) > 1 or f"self.{name}" in known:
            return False
        known[target] = nodes.substituted(small.value, known)
    kept = known.get(f"self.{name}")
    made = unchained(kept, MOVED) if kept is not None else None
    if not isinstance(made, cst.Call) or len(made.args) != 1 or nodes.code(made.args[0].value) != nodes.code(size):
        return False
    method = methods.get((nodes.dotted(made.func) or "").removeprefix("self."))
    return method is not None and _makes_so_many(method)


def _makes_so_many(method: cst.FunctionDef) -> bool:
    """Whether what a method returns is told by its one argument, with which torch makes its first axis."""
    params = [one.name.value for one in method.params.params]
    own = params[:1] == ["self"]
    if len(params) != 1 + own or usage.attributes_of_self(method.body):
        return False
    read = set(usage.loads(method.body)) - set(usage.stores(method.body))
    first = [_first_axis(call.args[0].value) for call in usage.calls(method.body) if call.args and _is_factory(call)]
    return read <= {params[-1], *_MODULES} and bool(first) and set(first) == {params[-1]}


def _is_factory(call: cst.Call) -> bool:
    module, _, function = (nodes.dotted(call.func) or "").rpartition(".")
    return module in _MODULES and function in _FACTORIES


def _first_axis(sizes: Expr) -> str:
    """The size of the first axis of what is made with some sizes, `n` or `(n, n)`."""
    parts = nodes.elements(sizes) if isinstance(sizes, cst.Tuple | cst.List) else [sizes]
    return nodes.code(parts[0]) if parts else ""


def _make_each_time(edits: Edits, init: cst.FunctionDef, method: cst.FunctionDef, branch: cst.If, name: str) -> None:
    """Has a method make what it kept, under a name of its own."""
    local = usage.unused_name(name, {one.value for one in every(method, cst.Name)} - {name})
    own = LocalNames({name: local})
    edits.instead[branch] = suites.with_comments(
        [nodes.visited(one, own) for one in suites.suite_of(branch.body.body)], branch
    )
    inside = set(every(branch, cst.Attribute))
    mentions = [one for one in attributes_named(method, name) if one not in inside]
    edits.parts |= {one: nodes.name(local) for one in mentions}
    edits.instead |= {line: [] for line in suites.suite_of(init.body.body) if _mentioned(line, name)}
