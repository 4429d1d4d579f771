"""Modules that train themselves: agents that are an `nn.Module` with an optimizer, the data that they collect, and a
method that goes backward and takes a step.

A Flax module has no state that changes. The input is taken as if such a class were two: a module, `PPONet`, with the
layers and the methods that compute with them, and a plain class of the old name, which has the module as `self.net` and
keeps the rest: `model.pi(x)` is `model.net.pi(x)`, and `model.put_data(...)` stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import libcst as cst
from libcst.metadata import CodeRange

from migrate.known.qualified import inside
from migrate.lowering.plainer.copied_input import Edits, Exchanging, edited
from migrate.lowering.plainer.object_sites import PLACING, Site, made_by, means, nodes_outside, sites_of
from migrate.lowering.plainer.optimizers_outside import is_loss, is_optimizer, makes_part, settings_of
from migrate.lowering.plainer.project_classes import ProjectClass, classes_of, is_alone, is_module
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

# What every module has of torch's.
_OF_MODULES = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "children", "named_children", "modules"}
    | {"named_modules", "state_dict", "load_state_dict", "train", "eval", "training", "zero_grad", "apply"}
    | {"to", "cuda", "cpu", "float", "double", "half", "requires_grad_", "share_memory"}
)
_OUT_OF_TORCH = frozenset({"no_grad", "numpy", "item", "tolist"})
_HELD = ("list", "dict", "set", "deque")
_SUFFIXES = ("Net", "Module")

Code = TypeVar("Code", cst.FunctionDef, Statement)


class _Unclear(Exception):
    """A class cannot be taken apart."""


@dataclass
class _Split:
    """How a class is taken apart: the attributes that are parts of the module, those that are state of the trainer, the
    methods of each, and the lines of the constructor by what they set."""

    cls: ProjectClass
    init: cst.FunctionDef
    parts: set[str] = field(default_factory=set)
    state: set[str] = field(default_factory=set)
    settings: set[str] = field(default_factory=set)  # of which the module may have its own copy
    computing: set[str] = field(default_factory=set)  # the methods of the module
    hosted: set[str] = field(default_factory=set)  # those of the trainer
    module: str = ""  # the name of the module's class
    net: str = ""  # the attribute that has it

    def inside(self, attribute: str) -> bool:
        """Whether an attribute is one of the module."""
        return attribute in self.parts | self.computing or (attribute in _OF_MODULES and attribute not in self.hosted)


def with_trainers_apart(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such classes as a module and what trains it."""
    current = list(inputs)
    if not any("self.parameters()" in one.source.text for one in inputs):
        return current
    for name in classes_of(inputs):
        classes = classes_of(current)
        if name in classes and is_module(name, classes):
            try:
                current = _taken_apart(_split(classes[name], classes, current), current)
            except _Unclear:
                continue
    return current


# -- what belongs where -----------------------------------------------------------------------------------------------


def _split(cls: ProjectClass, classes: Mapping[str, ProjectClass], inputs: Sequence[Input]) -> _Split:
    """How a class is taken apart. Raises _Unclear where it does not train itself, or cannot be."""
    init = cls.methods.get("__init__")
    name, qualified = cls.name, inside(cls.file.scope, cls.name)
    own = set(cls.bases) & classes.keys() or any(qualified in one.bases for one in classes.values())
    alone = len(cls.bases) == 1 and not own and not cls.node.decorators
    plain = all(isinstance(one, cst.FunctionDef) or suites.is_docstring(one) for one in cls.node.body.body)
    if (
        init is None
        or not alone
        or not plain
        or not is_alone(cls, classes)
        or not any(map(_trains, cls.methods.values()))
    ):
        raise _Unclear
    if init.params.star_kwarg is not None or isinstance(init.params.star_arg, cst.Param):
        raise _Unclear
    found = _Split(cls, init)
    body = suites.suite_of(init.body.body)
    values = {attribute: small.value for attribute, _, small in settings_of(body)}
    found.parts = {
        each for each, line, small in settings_of(body) if makes_part(line, classes) and not is_loss(small.value)
    }
    later = set().union(*(usage.attributes_set(one) for key, one in cls.methods.items() if key != "__init__"))
    found.state = {each for each, value in values.items() if is_optimizer(value) or _holds(value)} | later
    found.state |= {each for each, value in values.items() if found.state & set(usage.attributes_of_self(value))}
    found.settings = values.keys() - found.state
    if not any(map(is_optimizer, values.values())) or found.parts & found.state:
        raise _Unclear
    _sort_methods(found)
    taken = {one.value for file in inputs for one in every(file.source.module, cst.Name)}
    free = [name + suffix for suffix in _SUFFIXES if name + suffix not in taken and not name.endswith(suffix)]
    attributes = {one.attr.value for file in inputs for one in every(file.source.module, cst.Attribute)}
    nets = [one for one in ("net", "module") if one not in attributes]
    if not free or not nets:
        raise _Unclear
    found.module, found.net = free[0], nets[0]
    return found


def _trains(method: cst.FunctionDef) -> bool:
    """Whether a method goes backward and has an optimizer of the object take a step."""
    called = [call.func for call in usage.calls(method.body) if isinstance(call.func, cst.Attribute)]
    steps = [one for one in called if one.attr.value == "step" and (nodes.dotted(one.value) or "").startswith("self.")]
    return bool(steps) and any(one.attr.value == "backward" for one in called)


def _holds(value: Expr) -> bool:
    """Whether a value is a list or the like, to be filled."""
    name = (nodes.dotted(value.func) or "").rpartition(".")[2] if isinstance(value, cst.Call) else ""
    return name in _HELD or (isinstance(value, cst.List | cst.Dict) and not value.elements)


def _sort_methods(found: _Split) -> None:
    """Which methods work with what the trainer keeps, or with weights as such, and which compute with the layers."""
    methods = {name: one for name, one in found.cls.methods.items() if name != "__init__"}
    named = {name: set(usage.attributes_of_self(one)) for name, one in methods.items()}
    if any(one.decorators or not one.params.params for one in methods.values()):
        raise _Unclear
    kept = found.state | _OF_MODULES - {"training"}
    found.hosted = {name for name, read in named.items() if read & kept}
    found.hosted |= {name for name, one in methods.items() if not named[name] & found.parts and _leaves_torch(one)}
    while more := {name for name, read in named.items() if read & found.hosted} - found.hosted:
        found.hosted |= more
    left = methods.keys() - found.hosted
    found.computing = {name for name in left if name == "forward" or named[name] & found.parts}
    while more := {one for name in found.computing for one in named[name] & left} - found.computing:
        found.computing |= more
    while more := {name for name in left if named[name] & found.computing} - found.computing:
        found.computing |= more
    found.hosted = methods.keys() - found.computing
    if "forward" in found.hosted or not found.computing:
        raise _Unclear


def _leaves_torch(method: cst.FunctionDef) -> bool:
    """Whether a method takes values out of tensors, or computes without gradients."""
    return bool(_OUT_OF_TORCH & {path.rpartition(".")[2] for path in usage.paths(method.body)})


# -- the two classes --------------------------------------------------------------------------------------------------


def _classes(found: _Split, positions: dict[cst.CSTNode, CodeRange]) -> list[Statement]:
    """The module, and what trains it."""
    node, init = found.cls.node, found.init
    methods = [one for one in node.body.body if isinstance(one, cst.FunctionDef) and one is not init]
    computing = [one for one in methods if one.name.value in found.computing]
    hosted = [_exchanged(one, found, positions) for one in methods if one.name.value in found.hosted]
    module, trainer = _constructors(found, positions)
    _settled(found, [module, *computing], [trainer, *hosted])
    docstring = [one for one in suites.suite_of(node.body.body) if suites.is_docstring(one)]
    own = _spaced([trainer, *hosted])
    own = [own[0].with_changes(leading_lines=[suites.BLANK, *own[0].leading_lines]), *own[1:]] if docstring else own
    first = node.with_changes(
        name=cst.Name(found.module), body=suites.block_of(node.body, _spaced([module, *computing]))
    )
    second = node.with_changes(
        bases=[],
        lpar=cst.MaybeSentinel.DEFAULT,
        rpar=cst.MaybeSentinel.DEFAULT,
        leading_lines=[suites.BLANK, suites.BLANK],
        body=suites.block_of(node.body, [*docstring, *own]),
    )
    return [first, second]


def _spaced(methods: Sequence[cst.FunctionDef]) -> list[cst.FunctionDef]:
    """Methods with a blank line between them."""
    rest = [one if one.leading_lines else one.with_changes(leading_lines=[suites.BLANK]) for one in methods[1:]]
    first = methods[0]
    return [first.with_changes(leading_lines=[one for one in first.leading_lines if one.comment is not None]), *rest]


def _constructors(found: _Split, positions: dict[cst.CSTNode, CodeRange]) -> tuple[cst.FunctionDef, cst.FunctionDef]:
    """The constructors of both."""
    init, body = found.init, suites.suite_of(found.init.body.body)
    parameters = [one.name.value for one in (*init.params.params[1:], *init.params.kwonly_params)]
    of_module, of_trainer = _lines(found, body)
    read = set(usage.loads(of_module))
    given = [one for one in parameters if one in read]
    keywords = {one.name.value for one in init.params.kwonly_params}
    made = nodes.call(found.module, *(nodes.name(one) for one in given if one not in keywords))
    made = made.with_changes(args=nodes.extended(made.args, {one: nodes.name(one) for one in given if one in keywords}))
    line = nodes.statement(f"self.{found.net} = {{made}}", made=made)
    own = [one for one in init.params.params if one.name.value in given or one is init.params.params[0]]
    own[-1] = own[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    kept = init.params.with_changes(
        params=own, kwonly_params=[one for one in init.params.kwonly_params if one.name.value in given]
    )
    if not kept.kwonly_params:
        kept = kept.with_changes(star_arg=cst.MaybeSentinel.DEFAULT)
    module = init.with_changes(params=kept, body=suites.block_of(init.body, of_module))
    lines: list[Statement] = []
    for one in body:
        if one in of_module and line not in lines and not _is_super(one):
            lines.append(line)
        if one in of_trainer:
            lines.append(_exchanged(one, found, positions))
    trainer = init.with_changes(body=suites.block_of(init.body, lines if line in lines else [line, *lines]))
    return module, trainer


def _lines(found: _Split, body: Sequence[Statement]) -> tuple[list[Statement], list[Statement]]:
    """The lines of the constructor that the module needs, and those that the trainer does."""
    sets = {line: attribute for attribute, line, _ in settings_of(body)}
    computing = {each for one in found.computing for each in usage.attributes_of_self(found.cls.methods[one])}
    module: list[Statement] = []
    trainer: list[Statement] = []
    for line in reversed(body):
        named = set(usage.attributes_of_self(line))
        bound = set(usage.stores(line))
        if _is_super(line) or suites.is_docstring(line):
            module.append(line)
        elif line in sets and sets[line] in found.state:
            trainer.append(line)
        elif line in sets and sets[line] in found.parts:
            module.append(line)
        elif line in sets:
            inside = sets[line] in computing | {each for one in module for each in usage.attributes_of_self(one)}
            module += [line] if inside else []
            trainer.append(line)
        elif "self" in usage.paths(line):
            if named & found.state or named & found.hosted:
                raise _Unclear
            module.append(line)
        else:
            module += [line] if bound & set(usage.loads(module)) or not bound else []
            trainer += [line] if bound & set(usage.loads(trainer)) else []
    return module[::-1], trainer[::-1]


def _is_super(line: Statement) -> bool:
    call = suites.call_alone(line)
    return call is not None and nodes.code(call.func).endswith(".__init__")


def _settled(found: _Split, module: Sequence[cst.FunctionDef], trainer: Sequence[cst.FunctionDef]) -> None:
    """Raises _Unclear where one class reads what only the other has."""
    for functions, methods in ((module, found.computing), (trainer, found.hosted)):
        has = set().union(*(usage.attributes_set(one) for one in functions)) | methods | _OF_MODULES
        if not {each for one in functions for each in usage.attributes_of_self(one)} <= has:
            raise _Unclear


def _exchanged(node: Code, found: _Split, positions: dict[cst.CSTNode, CodeRange]) -> Code:
    """Code of the trainer's, with the module in the place of the object where it means that."""
    own = f"self.{found.net}"
    instead: dict[cst.CSTNode, Expr | cst.RemovalSentinel] = {}
    bases: set[int] = set()
    for one in every(node, cst.Attribute):
        if nodes.dotted(one.value) == "self":
            bases.add(id(one.value))
            if one.attr.value == "forward":
                instead[one] = nodes.expression(own)
            elif found.inside(one.attr.value):
                instead[one] = one.with_changes(value=nodes.expression(own))
    for call in usage.calls(node):
        if nodes.dotted(call.func) == "self":
            bases.add(id(call.func))
            instead[call.func] = nodes.expression(own)
    parameters = list(node.params.params[:1]) if isinstance(node, cst.FunctionDef) else []
    bases |= {id(one.name) for one in parameters}
    if any(one.value == "self" and id(one) not in bases for one in every(node, cst.Name)):
        raise _Unclear
    return nodes.visited(node, Exchanging(instead, positions))


# -- what names the objects -------------------------------------------------------------------------------------------


def _taken_apart(found: _Split, inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with a class taken apart, and its objects called as what they are now."""
    name = found.cls.node.name.value
    sites = [site for one in inputs for site in sites_of(one, name)]
    calls = [call for one in inputs for call in usage.calls(one.source.module) if made_by(call) == name]
    if not sites or len(calls) != len(sites) or any("." in site.target for site in sites):
        raise _Unclear
    made: list[Input] = []
    for one in inputs:
        edits, source = Edits(), one.source
        _exchange(edits, found, sites, one)
        for site in sites:
            if site.file.scope == one.scope:
                _place(edits, found, site)
        if one.scope == found.cls.file.scope:
            positions = dict(source.positions)
            edits.instead[found.cls.node] = _classes(found, positions)
            source = replace(source, positions=positions)
        made.append(replace(one, source=edited(source, edits)) if edits.instead or edits.parts else one)
    return made


def _exchange(edits: Edits, found: _Split, sites: Sequence[Site], file: Input) -> None:
    """Notes the module in the place of an object wherever a file means that. Raises _Unclear where it may go by another
    name, or as a whole."""
    own = {id(one) for site in sites for one in _names_given(site)}
    targets = every(file.source.module, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign))
    bound = {id(one) for target in targets for one in every(target.target, cst.Attribute)}
    for scope, parent, node in nodes_outside(file, found.cls.node):
        if not isinstance(node, cst.Name) or id(node) in own:
            continue
        if not any(means(site, node.value, scope, file) for site in sites if site.target == node.value):
            continue
        module = nodes.expression(f"{node.value}.{found.net}")
        if isinstance(parent, cst.Call) and parent.func is node:
            edits.parts[node] = module
        elif not isinstance(parent, cst.Attribute) or (id(parent) in bound and parent.attr.value in found.settings):
            raise _Unclear
        elif parent.value is node and parent.attr.value == "forward":
            edits.parts[parent] = module
        elif parent.value is node and found.inside(parent.attr.value):
            edits.parts[parent] = parent.with_changes(value=module)


def _place(edits: Edits, found: _Split, site: Site) -> None:
    """Notes that the module of an object is moved, in a line of its own: `model = PPO().to(device)`."""
    whole = next(call for call in usage.calls(site.line) if unchained(call, PLACING) is site.call)
    moved: list[Statement] = []
    outer: Expr = whole
    while outer is not site.call and isinstance(outer, cst.Call) and isinstance(outer.func, cst.Attribute):
        func = outer.func.with_changes(value=nodes.expression(f"{site.target}.{found.net}"))
        moved.append(nodes.statement("{call}", call=outer.with_changes(func=func)))
        outer = outer.func.value
    if moved:
        edits.parts[whole] = site.call
        edits.behind[site.line] = [*edits.behind.get(site.line, []), *reversed(moved)]


def _names_given(site: Site) -> Iterator[cst.Name]:
    """The targets of the statement that names an object."""
    small = suites.alone(site.line)
    for target in small.targets if isinstance(small, cst.Assign) else ():
        yield from every(target.target, cst.Name)
