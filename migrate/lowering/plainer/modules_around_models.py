"""Modules that take models, and have no weights of their own: `trainer = DiffusionTrainer(net)`, beside a sampler that
takes the same `net`, which is trained and saved under its own name.

In Flax the weights of a part are its owner's, and here there is no one owner. The input is taken as if such a class
were no module: its `forward` is its `__call__`, its buffers are attributes, and what is said of its weights,
`trainer.eval()`, is said of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst
from libcst.metadata import CodeRange

from migrate.known.states import MODES
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Edits, Exchanging, edited
from migrate.lowering.plainer.object_sites import Site, binds, made_by, means, nodes_outside, sites_of
from migrate.lowering.plainer.optimizers_outside import makes_part
from migrate.lowering.plainer.project_classes import ProjectClass, classes_of, is_alone, is_module
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import MOVED, unchained
from migrate.syntax.mentions import called, in_supers, mentions
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_SAID = (*MOVED, *MODES)  # methods that give the module back
_OF_WEIGHTS = (*_SAID, "parameters", "zero_grad")  # what buffers, or layers without weights, have no part in
_PRECISIONS = frozenset({"float", "float32", "float64", "double", "half", "float16", "bfloat16"})
_PARALLEL = ("DataParallel", "DistributedDataParallel")


@dataclass(frozen=True)
class _Around:
    """Such a class: the attributes that are its own, the parameter of its constructor that is the model, "" where it is
    one of several, and where its objects get names."""

    cls: ProjectClass
    own: frozenset[str]
    parameter: str
    sites: Sequence[Site]


def with_modules_around_models(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with such classes as plain ones, where a model would become a part of one and goes on
    under its own name; None where there are none."""
    current = list(inputs)
    for name in sorted(lowered[0].script.around_models):
        classes = classes_of(current)
        around = _around(name, classes, current) if name in classes else None
        made = _edits(around, current) if around is not None else None
        if around is not None and made is not None:
            current = [_as_plain(one, around, made[one.scope]) for one in current]
    return current if any(new is not old for new, old in zip(current, inputs, strict=True)) else None


def _around(name: str, classes: Mapping[str, ProjectClass], inputs: Sequence[Input]) -> _Around | None:
    """What such a class is; None of one that has weights, or that may be asked for what only modules have."""
    cls, modules = classes[name], [one.source.module for one in inputs]
    init = cls.methods.get("__init__")
    alone = len(cls.node.bases) == 1 and not cls.node.decorators and is_alone(cls, classes)
    shown = any(mentions(one, cls.name, called(one) | {cls.node.name} | in_supers(cls.node)) for one in modules)
    if init is None or not alone or shown or "__call__" in cls.methods or not is_module(name, classes):
        return None
    lines = suites.suite_of(init.body.body)
    buffers = {buffer: line for line in lines if (buffer := _buffer(line)[0])}
    own = frozenset(usage.attributes_set(cls.node) | buffers.keys() | cls.methods.keys())
    asked = {one for line in cls.node.body.body if line is not init for one in usage.attributes_of_self(line)}
    asked |= {one for line in lines if line not in buffers.values() for one in usage.attributes_of_self(line)}
    known = not any(makes_part(line, classes) for line in lines) and asked <= own and not _means_itself(cls.node)
    sites = [site for one in inputs for site in sites_of(one, cls.name, _SAID)]
    calls = [call for one in modules for call in usage.calls(one) if made_by(call) == cls.name]
    inner = [one.name.value for site in sites for one in site.scope if isinstance(one, cst.ClassDef)]
    in_modules = any(is_module(other, classes) for other, one in classes.items() if one.name in inner)
    models = _models(init, cls.node)
    if not known or in_modules or not models or len(calls) != len(sites):
        return None
    return _Around(cls, own, models[0] if len(models) == 1 else "", sites)


def _models(init: cst.FunctionDef, node: cst.ClassDef) -> list[str]:
    """The parameters of a constructor that it keeps, and that methods call."""
    given = {one.name.value for one in (*init.params.params[1:], *init.params.kwonly_params)}
    kept = [(nodes.dotted(target), value) for target, value in usage.bindings(init.body)]
    asked = {nodes.dotted(call.func) for call in usage.calls(node)}
    return [
        value.value for path, value in kept if isinstance(value, cst.Name) and value.value in given and path in asked
    ]


def _buffer(line: Statement) -> tuple[str, Expr | None]:
    """The name of the buffer that a line of a constructor registers, and the tensor; "" of other lines."""
    call = suites.call_alone(line)
    if call is None or nodes.dotted(call.func) != "self.register_buffer" or len(call.args) < 2:
        return "", None
    first, second = call.args[:2]
    name = nodes.literal(first.value)
    plain = first.keyword is None and not first.star and (second.keyword is None or second.keyword.value == "tensor")
    return (name, second.value) if plain and not second.star and isinstance(name, str) else ("", None)


def _means_itself(node: cst.ClassDef) -> bool:
    """Whether a class does more with `self` than to ask for attributes: it hands itself on, or calls itself."""
    aside = {one.value for one in every(node, cst.Attribute)} | in_supers(node)
    aside |= {one.name for one in every(node, cst.Param)}
    return any(one.value == "self" and one not in aside for one in every(node, cst.Name))


# -- what names the objects -------------------------------------------------------------------------------------------


def _edits(around: _Around, inputs: Sequence[Input]) -> dict[str, Edits] | None:
    """What changes where objects of the class are named; None where one may be asked for what only modules have."""
    edits = {one.scope: Edits() for one in inputs}
    own: set[int] = set()  # where an object gets its name, or is put on several devices
    for one in inputs:
        again = [site for word in _PARALLEL for site in sites_of(one, word) if _is_made_parallel(around, site)]
        edits[one.scope].instead |= {site.line: [] for site in again}
        named = [*again, *(site for site in around.sites if site.file.scope == one.scope)]
        own |= {id(node) for site in named for node in _names_in(site, again)}
    for site in around.sites:
        whole = next(call for call in usage.calls(site.line) if unchained(call, _SAID) is site.call)
        said = _said_of_model(whole, site.call, _model_given(around, site))
        if said is None:
            return None
        if whole is not site.call:
            edits[site.file.scope].parts[whole] = site.call
            edits[site.file.scope].behind[site.line] = said
    for one in inputs:
        for scope, parent, node in nodes_outside(one, around.cls.node):
            if not isinstance(node, cst.Name | cst.Attribute) or id(node) in own:
                continue
            site = _site_meant(around, nodes.dotted(node) or "", scope, one)
            if site is not None:
                model = _model_given(around, site)
                inner = scope[len(site.scope) :]
                hidden = model is not None and any(binds(each, usage.loads(model)[0]) for each in inner)
                instead = _known_use(around, parent, node, None if hidden else model, inputs)
                if instead is None:
                    return None
                edits[one.scope].parts |= instead
    return edits


def _is_made_parallel(around: _Around, site: Site) -> bool:
    """Whether a line is `trainer = nn.DataParallel(trainer)`."""
    given = nodes.dotted(site.call.args[0].value) if site.call.args else None
    return given == site.target and _site_meant(around, site.target, site.scope, site.file) is not None


def _names_in(site: Site, again: Sequence[Site]) -> Iterator[Expr]:
    """The names of an object in a line that names it: all of them where it is given the name that it has."""
    small = suites.alone(site.line)
    targets = [target.target for target in small.targets] if isinstance(small, cst.Assign) else []
    code = [site.line] if site in again else targets
    yield from (one for each in code for one in every(each, (cst.Name, cst.Attribute)))


def _site_meant(around: _Around, path: str, scope: Sequence[cst.CSTNode], file: Input) -> Site | None:
    """Where the object gets its name that a name, maybe a dotted one, stands for; None of others."""
    return next((one for one in around.sites if one.target == path and means(one, path, scope, file)), None)


def _said_of_model(whole: Expr, made: Expr, model: Expr | None) -> list[Statement] | None:
    """What a chain of methods says of an object, `Trainer(net).to(device).eval()`, as said of its model; None where
    that is not known."""
    said: list[Statement] = []
    while whole is not made and isinstance(whole, cst.Call) and isinstance(whole.func, cst.Attribute):
        asked = whole.func.attr.value
        if (asked in MODES and model is None) or (asked in MOVED and not _moves(whole)):
            return None
        if asked in MODES and model is not None:
            said.append(nodes.statement("{c}", c=whole.with_changes(func=whole.func.with_changes(value=model))))
        whole = whole.func.value
    return said[::-1]


def _moves(call: cst.Call) -> bool:
    """Whether a call of `to` says on which device something is, and not with which precision."""
    return not any(one.attr.value in _PRECISIONS for one in every(call, cst.Attribute))


def _model_given(around: _Around, site: Site) -> Expr | None:
    """The model that an object is given, where that has a name."""
    init = around.cls.methods["__init__"].params
    names = argument_names(site.call.args, [one.name.value for one in init.params[1:]])
    given = {name: arg.value for name, arg in zip(names, site.call.args, strict=True)}
    model = given.get(around.parameter)
    return model if model is not None and nodes.dotted(model) else None


def _known_use(
    around: _Around, parent: cst.CSTNode, node: Expr, model: Expr | None, inputs: Sequence[Input]
) -> dict[cst.CSTNode, cst.CSTNode] | None:
    """What stands for an object where it is used, of a plain class; None where that is not known."""
    match parent:
        case cst.Call(func=func) if func is node:
            return {}
        case cst.Attribute(attr=cst.Name(value="forward")):
            return {parent: node}
        case cst.Attribute(attr=cst.Name(value=asked)) if asked in around.own:
            return {}
        case cst.Attribute(attr=cst.Name(value=asked)) if asked in _OF_WEIGHTS and model is not None:
            return {node: model}
        case cst.Arg() if _is_given_to_known(around, parent, inputs):
            return {}
        case _:
            return None


def _is_given_to_known(around: _Around, arg: cst.Arg, inputs: Sequence[Input]) -> bool:
    """Whether a call gives an object to a function of the project that calls it, or its own methods, and no more."""
    modules = [one.source.module for one in inputs]
    call = next(one for module in modules for one in usage.calls(module) if any(each is arg for each in one.args))
    functions = [one for module in modules for one in module.body if isinstance(one, cst.FunctionDef)]
    taking = [one for one in functions if one.name.value == nodes.dotted(call.func)]
    if len(taking) != 1 or any(each.star for each in call.args):
        return False
    names = argument_names(call.args, [one.name.value for one in taking[0].params.params])
    name = names[[each is arg for each in call.args].index(True)]
    asked = [one for one in every(taking[0].body, cst.Attribute) if nodes.dotted(one.value) == name]
    known = {id(one.value) for one in asked if one.attr.value in around.own - {"forward"}}
    known |= {id(one.func) for one in usage.calls(taking[0].body)}
    return bool(name) and all(id(one) in known for one in every(taking[0].body, cst.Name) if one.value == name)


# -- the plain class --------------------------------------------------------------------------------------------------


def _as_plain(file: Input, around: _Around, edits: Edits) -> Input:
    if file.scope != around.cls.file.scope:
        return file.edited(edits)
    positions = dict(file.source.positions)
    edits.instead[around.cls.node] = [_plain(around.cls.node, positions)]
    return replace(file, source=edited(replace(file.source, positions=positions), edits))


def _plain(node: cst.ClassDef, positions: dict[cst.CSTNode, CodeRange]) -> cst.ClassDef:
    """A class that is no module."""
    instead: dict[cst.CSTNode, cst.CSTNode | cst.RemovalSentinel] = {}
    for method in suites.methods_of(node).values():
        if method.name.value == "forward":
            instead[method.name] = cst.Name("__call__")
        for line in suites.suite_of(method.body.body):
            name, tensor = _buffer(line)
            if suites.calls_base(line) is not None:
                instead[line] = cst.RemoveFromParent()
            elif tensor is not None and isinstance(line, cst.SimpleStatementLine):
                instead[line] = line.with_changes(body=nodes.statement(f"self.{name} = {{t}}", t=tensor).body)
    for one in every(node, cst.Attribute):
        if nodes.dotted(one) == "self.forward":
            instead[one] = cst.Name("self")
    plain = {"bases": [], "lpar": cst.MaybeSentinel.DEFAULT, "rpar": cst.MaybeSentinel.DEFAULT}
    return nodes.visited(node, Exchanging(instead, positions)).with_changes(**plain)
