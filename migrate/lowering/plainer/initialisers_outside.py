"""Initial weights that a method gives its object once it is made: `net = Net()`, and `net.initialize_weights()` below.

Flax makes weights in `init`, by what the constructor says. The input is taken as if the constructor ended with the
call, where each object of the class is given the same one. What the method says of each part by a function of the
file's, `for m in self._modules: normal_init(self._modules[m], mean, std)`, is taken as if it stood there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.layers.table import TABLE
from migrate.lowering.plainer.body_at_call import Site, at_call, given_to
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import CHAINED, unchained
from migrate.syntax.mentions import by_itself, in_supers, mentions
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


def with_initialisers_inside(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such calls in the constructors."""
    texts = [one.source.text for one in inputs]
    written = [
        _written_out(one.source.module, [text for text in texts if text is not one.source.text]) for one in inputs
    ]
    inputs = [one.edited(own) for one, own in zip(inputs, written, strict=True)]
    edits = [Edits() for _ in inputs]
    modules = [one.source.module for one in inputs]
    for module, own in zip(modules, edits, strict=True):
        for cls in module.body:
            for method in cls.body.body if isinstance(cls, cst.ClassDef) else ():
                if isinstance(cls, cst.ClassDef) and isinstance(method, cst.FunctionDef) and _fills(method):
                    _move(modules, edits, own, cls, method)
    return [one.edited(own) for one, own in zip(inputs, edits, strict=True)]


def _written_out(module: cst.Module, others: Sequence[str]) -> Edits:
    """Loops over the parts of a module with what a function of the file's does to each. `others`: the other files."""
    edits = Edits()
    functions = {one.name.value: one for one in module.body if isinstance(one, cst.FunctionDef)}
    inlined = Counter[str]()
    for cls in every(module, cst.ClassDef):
        for method in cls.body.body:
            for loop in every(method, cst.For) if isinstance(method, cst.FunctionDef) else ():
                if _goes_over_parts(loop) and isinstance(method, cst.FunctionDef):
                    written = _write_out(edits, loop, method, cls, functions)
                    inlined.update([written] if written else [])
    for name, times in inlined.items():
        if len(mentions(module, name, {functions[name].name})) == times and not any(name in text for text in others):
            edits.instead[functions[name]] = []  # nothing calls it by now
    return edits


def _write_out(
    edits: Edits, loop: cst.For, method: cst.FunctionDef, cls: cst.ClassDef, functions: dict[str, cst.FunctionDef]
) -> str:
    """Notes what stands for such a loop; the name of the function that is written out there, if one is."""
    assert isinstance(loop.target, cst.Name)
    name = loop.target.value
    looked_up = [one for one in every(loop.body, cst.Subscript) if nodes.code(one) == f"self._modules[{name}]"]
    by_name = nodes.dotted(loop.iter) == "self._modules"
    if by_name and (not looked_up or len(looked_up) != usage.loads(loop.body).count(name)):
        return ""
    lines = suites.suite_of(loop.body.body)
    call = suites.call_alone(lines[0]) if len(lines) == 1 else None
    function = functions.get(nodes.dotted(call.func) or "") if call is not None else None
    plain = loop if not looked_up else loop.with_changes(body=_with_name(loop.body, looked_up, name))
    line = suites.suite_of(plain.body.body)[0]
    call = suites.call_alone(line)
    made = None
    if function is not None and call is not None and isinstance(line, cst.SimpleStatementLine) and _fills(function):
        made = at_call(function, Site(line, call, method), method=False)
    filling = made is not None or all(map(_is_filling, every(loop.body, cst.SimpleStatementLine)))
    if by_name or (filling and "children" in nodes.code(loop.iter)):
        over = "self.modules()" if filling and _has_layers_alone(cls) else "self.children()"
        edits.parts[loop.iter] = nodes.expression(over)
    if function is None or made is None:
        edits.parts |= {one: nodes.name(name) for one in looked_up}
        return ""
    edits.instead[lines[0]] = made
    return function.name.value


def _has_layers_alone(cls: cst.ClassDef) -> bool:
    """Whether the parts of a module are layers of torch's that have none themselves, as far as it shows: then
    `children()` are its `modules()`, but for itself."""
    made = [
        nodes.dotted(line.value.func) or ""
        for line in every(cls, cst.Assign)
        if isinstance(line.value, cst.Call) and usage.attributes_assigned(line)
    ]
    bases = [(nodes.dotted(base.value) or "").rpartition(".")[2] for base in cls.bases]
    layers = [name.rpartition(".")[2] for name in made if name.startswith(("nn.", "torch.nn."))]
    return bases == ["Module"] and len(layers) == len(made) > 0 and all(f"torch.nn.{name}" in TABLE for name in layers)


def _with_name(body: cst.BaseSuite, looked_up: Sequence[cst.Subscript], name: str) -> cst.BaseSuite:
    for one in looked_up:
        made = body.deep_replace(one, nodes.name(name))
        assert isinstance(made, cst.BaseSuite)
        body = made
    return body


def _goes_over_parts(loop: cst.For) -> bool:
    """`for m in self.modules():`, `self.children()` or `self._modules`."""
    over = loop.iter
    path = nodes.dotted(over.func if isinstance(over, cst.Call) and not over.args else over)
    return isinstance(loop.target, cst.Name) and path in ("self.modules", "self.children", "self._modules")


def _fills(function: cst.FunctionDef) -> bool:
    """Whether a function does nothing but change tensors in place."""
    if function.decorators or function.name.value in ("__init__", "forward"):
        return False
    lines = [one for one in every(function.body, cst.SimpleStatementLine) if not suites.is_docstring(one)]
    return bool(lines) and all(map(_is_filling, lines)) and any(suites.call_alone(one) for one in lines)


def _is_filling(line: cst.SimpleStatementLine) -> bool:
    small, call = suites.alone(line), suites.call_alone(line)
    if call is not None:
        return usage.is_in_place(nodes.code(call.func).rpartition(".")[2])
    name, _ = suites.name_and_value(line)
    return bool(name) or isinstance(small, cst.Pass)


@dataclass(frozen=True)
class _Made:
    """Where an object is made, and the call of the method on it, if the next thing that is done with it is that."""

    call: cst.Call | None
    line: Statement | None


def _move(
    modules: Sequence[cst.Module], edits: Sequence[Edits], own: Edits, cls: cst.ClassDef, method: cst.FunctionDef
) -> None:
    """Notes that the constructor of a class ends with the call that each of its objects is given."""
    init = next(
        (one for one in cls.body.body if isinstance(one, cst.FunctionDef) and one.name.value == "__init__"), None
    )
    name = method.name.value
    others = [module for module in modules if cls not in module.body and cls.name.value in _defined(module)]
    seen = [(number, module) for number, module in enumerate(modules) if module not in others]
    sites = [(number, made) for number, module in seen for made in _made(module, cls.name.value, name)]
    named = sum(len(mentions(module, cls.name.value, {cls.name, *in_supers(cls)})) for _, module in seen)
    calls = [made.call for _, made in sites if made.call is not None]
    if init is None or not calls or len(calls) != len(sites) or not _is_called_alone(seen, name):
        return
    given, *alike = [_settings(method, call) for call in calls]
    if named != len(sites) or given is None or not all(map(_is_told, given.values())):
        return
    told = {key: nodes.literal(value) for key, value in given.items()}
    same = all(one is not None and {key: nodes.literal(v) for key, v in one.items()} == told for one in alike)
    if not same or set(usage.stores(method.body)) & set(given):
        return
    _settle(own, method, calls[0])
    last = suites.suite_of(init.body.body)[-1]
    own.behind[last] = [nodes.statement(f"self.{name}()")]
    for number, made in sites:
        assert made.line is not None
        edits[number].instead[made.line] = []


def _defined(module: cst.Module) -> set[str]:
    return {one.name.value for one in module.body if isinstance(one, cst.ClassDef)}


def _is_called_alone(seen: Sequence[tuple[int, cst.Module]], name: str) -> bool:
    """Whether methods of a name are called on objects that have just been made, and mentioned nowhere else."""
    classes = {cls for _, module in seen for cls in _defined(module)}
    sites = [made for _, module in seen for cls in classes for made in _made(module, cls, name)]
    mentioned = sum(one.attr.value == name for _, module in seen for one in every(module, cst.Attribute))
    return mentioned == sum(made.call is not None for made in sites)


def _settings(method: cst.FunctionDef, call: cst.Call) -> dict[str, Expr] | None:
    """What a call of a method gives its parameters; None where that is not written out."""
    given = given_to(method, call, method=True)
    own = {one.name.value for one in method.params.params[:1]}
    return None if given is None else {name: value for name, value in given.items() if name not in own}


def _settle(edits: Edits, method: cst.FunctionDef, call: cst.Call) -> None:
    """A method without arguments, of which each is a number."""
    given = _settings(method, call) or {}
    edits.parts[method.params] = method.params.with_changes(
        params=[method.params.params[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
    )
    for name, value in given.items():
        edits.parts |= {one: nodes.parenthesized(value.deep_clone()) for one in by_itself(method.body, name)}


def _is_told(value: Expr) -> bool:
    """Whether an argument is a number, as it is everywhere."""
    return isinstance(nodes.literal(value), int | float)


def _made(module: cst.Module, cls: str, method: str) -> Iterator[_Made]:
    """The statements that make an object of a class."""
    for block in every(module, (cst.Module, cst.IndentedBlock)):
        lines = suites.suite_of(block.body)
        for number, line in enumerate(lines):
            name, value = suites.name_and_value(line)
            made = unchained(value) if value is not None else None
            if isinstance(made, cst.Call) and nodes.dotted(made.func) == cls:
                yield _called_next(lines[number + 1 :], name, method)
            elif isinstance(line, cst.SimpleStatementLine) and cls in _called(line):
                yield _Made(None, None)


def _called(line: cst.SimpleStatementLine) -> list[str]:
    return [nodes.dotted(call.func) or "" for call in usage.calls(line)]


def _called_next(lines: Sequence[Statement], name: str, method: str) -> _Made:
    """The call of a method on what a name has just been given, if what is done with that before only places it."""
    for line in lines:
        if name not in usage.loads(line):
            if name in usage.stores(line):
                break
            continue
        call = suites.call_alone(line)
        path = nodes.dotted(call.func) if call is not None else None
        if path == f"{name}.{method}":
            return _Made(call, line)
        _, value = suites.name_and_value(line)
        placed = value if value is not None else call
        if placed is None or nodes.dotted(unchained(placed, CHAINED)) != name:
            break
    return _Made(None, None)
