"""Constructor parameters become fields, `__init__` becomes `setup`."""

from __future__ import annotations

import re

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts, merge
from migrate.known.kinds import (
    UNKNOWN,
    VANISHING,
    Device,
    Function,
    Host,
    Instance,
    Items,
    Kind,
    Never,
    Number,
    Plain,
    Tensor,
)
from migrate.known.qualified import spelled
from migrate.known.script import Script
from migrate.lowering.initial.applied_to_parts import part_applied
from migrate.lowering.initial.filled_last import moment_of
from migrate.lowering.modules.attributes import Attributes
from migrate.lowering.modules.attributes_by_name import AttributesByName
from migrate.lowering.modules.constructors import changed_after_given, changed_objects, each_target
from migrate.lowering.modules.drawn_once import DrawnOnce
from migrate.lowering.modules.inheritance import is_super_init
from migrate.lowering.modules.makers import MakerValues
from migrate.lowering.modules.shown_outside import reckons, taken_out
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class Setup(DrawnOnce, AttributesByName, Attributes, MakerValues):
    """What `__init__` of a module class becomes."""

    def setup(self, facts: ClassFacts, init: cst.FunctionDef) -> list[Statement]:
        """The fields and the `setup` method that stand for `__init__`."""
        inner = self.method_scope(facts.name, "setup", "__init__")
        parameters = [*init.params.params[1:], *init.params.kwonly_params]
        changed = self.changed_settings(facts, init)
        _refuse_changed_copies(init)
        lists = self.used_as_lists(facts, init)
        rebound = {*usage.stores(init.body), *changed, *lists}
        facts.rebinds = rebound & set(facts.fields)
        for parameter in parameters:
            name = parameter.name.value
            kind = facts.field_kinds.get(name, UNKNOWN)
            if parameter.default is not None:
                merge(facts.field_kinds, name, inner.usable(inner.expr(parameter.default)).kind)
            merge(facts.field_kinds, name, inner.annotated_maker(parameter.annotation))
            inner.env.kinds[name] = _field_kind(parameter, kind)
        body = self.drawn_once(facts, init, inner.suite(init.body.body))
        body = [kept for one in body for kept in (inner.super_setup(one) if is_super_init(one) else [one])]
        body = suites.without_unread(body, init.body, inner.restated) if inner.restated else body
        facts.sets_up = bool(body)
        held = [p for p in parameters if not isinstance(facts.field_kinds.get(p.name.value), VANISHING)]
        read = {p.name.value: _BACKEND for p in parameters if p not in held}
        read |= {p.name.value: nodes.expression(f"self.{p.name.value}") for p in held if p.name.value not in rebound}
        made = [nodes.substituted(statement, read) for statement in body]
        made = [statement for statement in made if not _assigns_itself(statement) and not _keeps_device(statement)]
        copies = dict.fromkeys(changed, "copy.deepcopy(self.{})") | dict.fromkeys(lists, "list(self.{})")
        rebinds: list[Statement] = [
            nodes.statement(f"{name} = {copies.get(name, 'self.{}').format(name)}")
            for name in facts.fields
            if name in rebound
        ]
        fields: list[Statement] = [self.field(facts, parameter, inner) for parameter in held]
        fields += own_fields(self.script, facts.name)
        made, properties = taken_out(facts, made, inner.is_formula, self.script.attributes_changed)
        return [*_with_setup(init, fields, suites.after_docstring(made, rebinds)), *properties]

    def is_formula(self, name: str) -> bool:
        """Whether a name is that of a function of the script's that only reckons."""
        kind = self.kind_of_name(name)
        function = self.script.functions.get(kind.name) if isinstance(kind, Function) else None
        return function is not None and reckons(function.node)

    def changed_settings(self, facts: ClassFacts, init: cst.FunctionDef) -> set[str]:
        """Arguments of a constructor whose objects it changes. A Flax module runs its setup whenever it is used, and
        each time it starts with what it was given: it changes copies."""
        found: set[str] = set()
        for name, value in changed_objects(init.body):
            kind = facts.field_kinds.get(name, UNKNOWN)
            settings = isinstance(kind, Plain | Never) or type(kind) is Kind
            if name in facts.fields and settings and not (isinstance(value, cst.Call) and self.is_maker(value.func)):
                found.add(name)
        for name in sorted(found):
            self.note_copied(facts, init, name)
        return found

    def note_copied(self, facts: ClassFacts, init: cst.FunctionDef, name: str) -> None:
        """Says that a module changes a copy of what it is given."""
        _refuse_changed_late(init, name)
        text = f"the constructor of {spelled(facts.name)} changes {name}, of which the module has a copy of its own"
        self.unit.report(Unsupported("MIG507", text), facts.method("__init__") or init)

    def used_as_lists(self, facts: ClassFacts, init: cst.FunctionDef) -> set[str]:
        """Arguments of a constructor that are lists, of which it asks what a tuple, which they are in Flax, has not."""
        given = {name for name in facts.fields if isinstance(facts.field_kinds.get(name), Items)}
        called = [call.func for call in usage.calls(init.body) if isinstance(call.func, cst.Attribute)]
        asked = {nodes.dotted(func.value) for func in called if func.attr.value in _OF_LISTS}
        targets = [target for one in every(init.body, cst.AssignTarget) for target in each_target(one.target)]
        targets += [one.target for one in every(init.body, cst.AugAssign)]
        asked |= {nodes.dotted(target.value) for target in targets if isinstance(target, cst.Subscript)}
        found = given & {name for name in asked if name is not None}
        for name in sorted(found & {name for name, _ in changed_objects(init.body)}):
            self.note_copied(facts, init, name)
        return found

    def field(self, facts: ClassFacts, parameter: cst.Param, inner: Setup) -> cst.SimpleStatementLine:
        """A constructor parameter as a dataclass field."""
        kind = facts.field_kinds.get(parameter.name.value, UNKNOWN)
        annotation = parameter.annotation.annotation if parameter.annotation else None
        if annotation is None or self.mentions_torch(cst.Annotation(annotation)):
            annotation = nodes.expression(_annotation(kind, parameter, facts.field_types))
        default = None if parameter.default is None else inner.node(parameter.default)
        if isinstance(default, cst.List):
            default = nodes.tuple_of([element.value for element in default.elements])
        settings = self.is_settings(facts, parameter.name.value, kind)
        made_here = isinstance(default, cst.Call) and type(kind) in (Kind, Plain, Instance)
        init = facts.method("__init__")
        late = default is None and init is not None and _comes_late(init, parameter.name.value)
        if settings or made_here or late:  # what a dataclass takes for a mutable default, or none behind others
            given = {} if default is None else {"default": default}
            if made_here and isinstance(default, cst.Call):
                maker = nodes.expression("lambda: {x}", x=default) if default.args else default.func
                given = {"default_factory": maker}
            given |= {"hash": nodes.name("False")} if settings else {}
            given |= {"kw_only": nodes.name("True")} if late else {}
            default = nodes.call("dataclasses.field", **given)
        made = cst.AnnAssign(
            parameter.name,
            cst.Annotation(annotation, cst.SimpleWhitespace(""), cst.SimpleWhitespace(" ")),
            default,
            cst.AssignEqual() if default is not None else cst.MaybeSentinel.DEFAULT,
        )
        return cst.SimpleStatementLine([made])

    def tests_around(self, facts: ClassFacts, path: str) -> list[Expr]:
        """The tests that decide whether a method of the constructor is called, in terms of the fields."""
        own = [self.in_own_terms(test) or _no_field(test) for test in self.conditions]
        built = [facts.method(name) for name in ("__init__", *facts.built)]
        sites = [
            call
            for method in built
            if method is not None
            for call in usage.calls(method)
            if nodes.dotted(call.func) == path
        ]
        return own if len(sites) == 1 else [_no_field(test) for test in own]

    def is_settings(self, facts: ClassFacts, name: str, kind: Kind) -> bool:
        """Whether a field of a module that jit hashes holds an array, or an object with settings, such as parsed
        arguments or a dataclass: most of those have no hash of their own."""
        if isinstance(kind, Tensor) and facts.name in self.script.hashed:
            return True
        known = type(kind) is not Kind and not isinstance(kind, Never | Instance | Host)
        if known or facts.node is None or facts.name not in self.script.hashed:
            return False
        paths = usage.paths(facts.node)
        return any(path.startswith((f"{name}.", f"self.{name}.")) for path in paths)

    def only_devices(self, node: cst.Call) -> bool:
        """Whether all that a call is given are devices."""
        return all(isinstance(self.asked(arg.value).kind, Device) for arg in node.args)

    def setup_call(self, node: cst.Call) -> list[Statement] | None:
        """Calls in `__init__` that are about weights: `self.apply(f)`, `self.register_buffer(...)`."""
        path = nodes.dotted(node.func) or ""
        facts = self.script.classes[self.cls]
        if path.startswith("super") or (isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Call)):
            return None
        if path == "self.apply":
            self.applied_initializer(facts, node.args[0].value, self.deciding_field())
            return []
        part = part_applied(facts, node)
        if part:
            self.applied_to_part(facts, part, node.args[0].value, self.deciding_field())
            return []
        method = path.removeprefix("self.") if path.startswith("self.") else ""
        if method in ("cuda", "cpu") or (method == "to" and self.only_devices(node)):
            return []
        if method in facts.built:
            facts.under[method] = self.tests_around(facts, path)
            facts.runs[method] = moment_of(self)
        if method in facts.emptied:
            return []
        called = self.kind_of_name(path)
        if isinstance(called, Function) and self.fills_model(node, called):
            return []
        if path == "self.register_buffer":
            return self.buffer(facts, node)
        by_name = self.set_by_name(node)
        if by_name is not None:
            return by_name
        grown = self.grow(facts, node)
        return self.initial_statement(node) if grown is None else grown


_OF_LISTS = frozenset(["append", "insert", "extend", "reverse", "pop", "remove", "sort", "clear", "copy"])
_BACKEND = nodes.expression("jax.default_backend()")  # what a device is asked for


def own_fields(script: Script, cls: str) -> list[Statement]:
    """The fields that every module of a class has for what torch keeps as hidden state: its mode, its precision."""
    facts = script.classes.get(cls)
    if script.only_base(cls):  # fields with defaults would have to follow those of its subclasses
        return []
    inherited = any(not script.only_base(base) for base in facts.bases) if facts is not None else False
    handed = facts.init_fields.items() if facts is not None else ()
    made: list[Statement] = [nodes.statement(f"{name}: {kind} = {default}") for name, (kind, default) in handed]
    wanted = {"training: bool = False": script.trains, "dtype: Any = None": script.half.__contains__}
    made += [
        nodes.statement(text)
        for text, has in wanted.items()
        if has(cls) and not (inherited and facts is not None and any(has(base) for base in facts.bases))
    ]
    return made


_OF_WEIGHTS = ("weight", "bias", "data", "requires_grad")


def _refuse_changed_copies(init: cst.FunctionDef) -> None:
    """Declines variables of a constructor whose attributes it sets once it has made a part with them."""
    targets = [one.target for one in every(init.body, (cst.AssignTarget, cst.AugAssign))]
    each = [single for target in targets for single in each_target(target) if isinstance(single, cst.Attribute)]
    settings = [one for one in each if one.attr.value not in _OF_WEIGHTS]
    for name in dict.fromkeys(nodes.code(nodes.root(one)) for one in settings):
        if name != "self":
            _refuse_changed_late(init, name)


def _refuse_changed_late(init: cst.FunctionDef, name: str) -> None:
    if changed_after_given(suites.suite_of(init.body.body), name):
        raise Unsupported("MIG201", f"{name} is changed after a part was made with it, which Flax sets up later")


def _no_field(test: Expr) -> Expr:
    """A test of which no more is known than how it reads."""
    return cst.UnaryOperation(cst.Not(), cst.UnaryOperation(cst.Not(), nodes.parenthesized(test)))


def _assigns_itself(statement: Statement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Assign):
        return False
    assign = statement.body[0]
    return len(assign.targets) == 1 and nodes.code(assign.targets[0].target) == nodes.code(assign.value)


def _keeps_device(statement: Statement) -> bool:
    """Whether a statement of `setup` keeps what a device is asked for: what reads it asks for that anew."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Assign) and small.value is _BACKEND


def _field_kind(parameter: cst.Param, kind: Kind) -> Kind:
    annotation = nodes.annotation(parameter)
    if annotation in ("int", "float", "bool"):
        return Number()
    if annotation == "str":
        return Plain("str")
    if _OF_TENSORS.fullmatch(annotation):
        return kind if isinstance(kind, Tensor) else Tensor(optional=parameter.default is not None)
    return UNKNOWN if isinstance(kind, Never) else kind


_OF_TENSORS = re.compile(r"(?:(?:typing\.)?Optional\[)?(?:torch\.)?Tensor\]?(?: \| None)?")


def _comes_late(init: cst.FunctionDef, name: str) -> bool:
    """Whether a parameter is given by its name alone, behind others that have default values."""
    alone = name in {one.name.value for one in init.params.kwonly_params}
    return alone and any(one.default is not None for one in init.params.params)


def _annotation(kind: Kind, parameter: cst.Param, types: dict[str, str]) -> str:
    """The type of a field: that of its default, else what its uses tell."""
    value = nodes.literal(parameter.default) if parameter.default is not None else ...
    if value is not ... and value is not None:
        return "tuple" if isinstance(value, list | tuple) else type(value).__name__
    if isinstance(kind, Items):
        return "Sequence[int]" if isinstance(kind.joined(), Number) else "Sequence"
    if isinstance(kind, Plain) and kind.what == "str":
        return "str"
    return types.get(parameter.name.value, "Any")


def _with_setup(init: cst.FunctionDef, fields: list[Statement], body: list[Statement]) -> list[Statement]:
    """The fields, and `setup` where it has a body. The blank lines before `__init__` go to the first field, its
    comments to `setup`."""
    if not body:
        return fields
    body = [body[0].with_changes(leading_lines=suites.comments(body[0])), *body[1:]]
    leading = suites.comments(init)
    if fields or init.leading_lines:
        leading = [cst.EmptyLine(indent=False), *leading]
    if fields:
        blank = [line for line in init.leading_lines if line.comment is None]
        fields = [fields[0].with_changes(leading_lines=blank), *fields[1:]]
    return [*fields, suites.function("setup", ["self"], body).with_changes(leading_lines=leading)]
