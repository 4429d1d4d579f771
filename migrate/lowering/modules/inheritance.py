"""Module classes that inherit from other module classes of the user's.

Where the constructor of the base takes no arguments, or the class has none of its own, Flax inherits as Python does.
A subclass cannot set the fields of a dataclass, so that a class whose constructor passes arguments on to its base's is
written out: the constructor and the methods of the base stand in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts, merge
from migrate.known.kinds import ModuleClass, Plain, join
from migrate.known.qualified import file_of, inside
from migrate.known.script import Script
from migrate.library_modules import MIXIN
from migrate.lowering.expressions.arguments import Arguments, argument_names, placed
from migrate.lowering.modules.constructors import methods_for_base
from migrate.lowering.plainer.names_in_place import named_apart
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement

FRAMEWORK = "torch.nn.Module"


class Inheritance(Arguments):
    """Bases of module classes, and calls of `super()`."""

    def module_base(self, node: cst.ClassDef) -> ClassFacts | None:
        """The user's module class that a class inherits from, None where it is torch's own."""
        found = [self.kind_of(arg.value) for arg in node.bases if arg.keyword is None]
        classes = [kind.cls for kind in found if isinstance(kind, ModuleClass)]
        if len(classes) > 1:
            raise Unsupported("MIG201", f"{node.name.value} inherits from several module classes")
        return self.script.classes[classes[0]] if classes else None

    def flax_bases(self, node: cst.ClassDef, base: ClassFacts | None) -> list[cst.Arg]:
        """The bases in the output: those of the user's, and Flax's module class for torch's."""
        made: list[cst.Arg] = []
        for arg in node.bases:
            if self.kind_of(arg.value) == Plain(MIXIN):
                continue
            if self.torch_name(arg.value) != FRAMEWORK:
                made.append(arg.with_changes(value=self.class_itself(arg.value).node, comma=cst.MaybeSentinel.DEFAULT))
            elif base is None:
                made.append(cst.Arg(nodes.expression("nn.Module")))
        return made

    def inherit(self, facts: ClassFacts, base: ClassFacts, own: Sequence[str]) -> None:
        """What a class has from its base; `own` are the methods that it defines itself."""
        facts.bases = [base.name]
        if "__init__" not in own:
            facts.fields, facts.field_kinds, facts.field_types = base.fields, base.field_kinds, base.field_types
        facts.seen = dict(base.seen)
        facts.certain |= base.certain
        facts.attributes = {**base.attributes, **facts.attributes}
        for mine, theirs in (
            (facts.children, base.children),
            (facts.parameters, base.parameters),
            (facts.buffers, base.buffers),
            (facts.renamed, base.renamed),
            (facts.registered, base.registered),
            (facts.ties, base.ties),
        ):
            mine.update(theirs)  # type: ignore[arg-type]
        facts.unnamed = facts.unnamed or base.unnamed
        facts.borrows = facts.borrows or base.borrows
        facts.told_ties |= base.told_ties
        facts.registers |= base.registers
        facts.own_trains |= base.own_trains
        facts.own_stats |= base.own_stats
        facts.found_own_draws |= base.own_draws
        facts.found_sampling |= base.sampling
        facts.host_methods |= base.host_methods - set(own)
        for qualname, function in list(self.script.functions.items()):
            cls, _, method = qualname.rpartition(".")
            if cls != base.name:
                continue
            mine = self.script.functions.get(f"{facts.name}.{method}")
            if method not in own:
                self.script.functions[f"{facts.name}.{method}"] = function
            elif mine is not None and mine is not function:
                for name, kind in function.params.items():
                    merge(mine.found_params, name, kind)
                function.overriding = join(function.overriding, mine.returns)

    def super_call(self, node: cst.Call, func: cst.Attribute) -> Value:
        """`super().method(...)` of a module class."""
        base = self.base_of(self.cls)
        method = func.attr.value
        own = self.script.classes.get(self.cls)
        if own is not None and own.extends and method in ("forward", "__call__"):
            return self.super_layer(node, own)
        function = self.script.functions.get(f"{base.name}.{method}") if base is not None else None
        if function is None or method == "__init__":
            return Value(node.with_changes(args=self.plain_args(node.args)))
        values = [self.array(arg.value) for arg in node.args]
        self.pass_kinds(function, node.args, values, upwards=True)
        called = func.with_changes(attr=cst.Name("__call__")) if method == "forward" else func
        return Value(node.with_changes(func=called, args=placed(node.args, values)), function.result)

    def base_of(self, cls: str) -> ClassFacts | None:
        """The user's module class that a class inherits from in the output."""
        facts = self.script.classes.get(cls)
        return self.script.classes.get(facts.bases[0]) if facts is not None and facts.bases else None

    def super_setup(self, statement: Statement) -> list[Statement]:
        """What is left of `super().__init__()`: the setup of the base, where it has one."""
        base = self.base_of(self.cls)
        if base is None or not base.sets_up:
            return []
        return suites.with_comments([nodes.statement("super().setup()")], statement)

    # -- classes that are written out ---------------------------------------------------------------------------------

    def written_out(self, node: cst.ClassDef, base: ClassFacts) -> cst.ClassDef | None:
        """The class with the constructor and the methods of its base in it; None where Flax can inherit."""
        facts = self.script.classes[inside(self.unit.scope, node.name.value)]
        if facts.written is not None and facts.written[0] is base.node:
            return facts.written[1]
        own = _methods(node)
        init = own.get("__init__")
        call = _super_init(init) if init is not None else None
        if init is None or call is None:
            return None
        required = any(parameter.default is None for parameter in init.params.params[1:])
        fields = bool(base.fields) or (required and declares_mode(self.script, base.name))
        replaced = usage.attributes_set(init.body) & base.children.keys()  # Flax has each name once
        if (
            not fields
            and not call.args
            and not replaced
            and not methods_for_base(_methods(base.node) if base.node is not None else {}, own)
        ):
            return None
        elsewhere = file_of(base.name) != self.unit.scope
        if elsewhere:
            self.script.bases_elsewhere[facts.name] = base.name
        if base.node is None or (elsewhere and facts.name not in self.script.reaching):
            what = f"replaces {min(replaced)} of" if replaced else "passes arguments to the constructor of"
            raise Unsupported("MIG201", f"{node.name.value} {what} a class in another file")
        theirs = _methods(base.node)
        if "__init__" not in theirs:
            told = f"{node.name.value} has settings of a class that {base.node.name.value} inherits from"
            raise Unsupported("MIG201", f"{told}, which Flax would want from whoever makes it")
        inherited = [one for one in suites.suite_of(theirs["__init__"].body.body) if not _asks_for(one, base.node)]
        body = self.constructor_in_place(init, call, theirs["__init__"], inherited, node.name.value)
        again = {name for name in own if name in theirs and name != "__init__" and _calls_super(own[name], name)}
        made: list[Statement] = []
        for statement in suites.suite_of(node.body.body):
            if statement is init:
                made.append(init.with_changes(body=suites.block_of(init.body, body)))
                continue
            name = statement.name.value if isinstance(statement, cst.FunctionDef) else ""
            made.append(nodes.visited(statement, _OfBase(base.node.name.value)) if name in again else statement)
        for statement in suites.suite_of(base.node.body.body):
            name = statement.name.value if isinstance(statement, cst.FunctionDef) else ""
            if name in again and isinstance(statement, cst.FunctionDef):
                renamed = cst.Name(f"{_prefix(base.node.name.value)}_{name}")
                made.append(statement.with_changes(name=renamed))
            elif name and name not in own:
                made.append(statement)
            elif not name and not suites.is_docstring(statement):
                made.insert(0, statement)
        result = node.with_changes(bases=base.node.bases, body=suites.block_of(node.body, made))
        self.unit.stands_for(result, node)
        if elsewhere:
            self.unit.at_place_of(base.node, node)
        facts.written, facts.unnamed = (base.node, result), base.unnamed
        return result

    def constructor_in_place(
        self, init: cst.FunctionDef, call: cst.Call, theirs: cst.FunctionDef, inherited: Sequence[Statement], cls: str
    ) -> list[Statement]:
        """The body of a constructor with that of the base's, `inherited`, where it calls it."""
        parameters = theirs.params.params[1:]
        given: dict[str, Expr] = {p.name.value: p.default for p in parameters if p.default is not None}
        names = argument_names(call.args, [parameter.name.value for parameter in parameters])
        stars = (theirs.params.star_arg, theirs.params.star_kwarg)
        if "" in names or any(arg.star for arg in call.args) or any(isinstance(star, cst.Param) for star in stars):
            raise Unsupported("MIG201", f"{cls}: {nodes.code(call)} cannot be followed")
        given.update({name: arg.value for name, arg in zip(names, call.args, strict=True)})
        own = suites.suite_of(init.body.body)
        at = next(number for number, one in enumerate(own) if is_super_init(one))
        mine = {p.name.value for p in [*init.params.params[1:], *init.params.kwonly_params]}
        taken = mine | set(usage.stores(init.body))
        torchs = {name for name, value in given.items() if self.torch_name(value) is not None}
        layers = {name: given.pop(name) for name in torchs - set(usage.stores(theirs.body)) - taken}
        try:
            apart = named_apart(own[:at], given, inherited, own[at + 1 :], mine)
        except LookupError as name:
            told = f"{name} is one thing here and another in the class it inherits from"
            raise Unsupported("MIG201", f"{cls}: {told}") from None
        bound: list[Statement] = []
        for name, value in given.items():
            if nodes.dotted(value) != apart.get(name, name):
                bound.append(nodes.statement(f"{apart.get(name, name)} = {{v}}", v=value.deep_clone()))
        instead = layers | {name: nodes.name(other) for name, other in apart.items()}
        made = [*bound, *(self.with_names(one, instead) for one in inherited)]
        return [*own[:at], *suites.with_comments(made, own[at]), *own[at + 1 :]]

    def with_names(self, statement: Statement, instead: Mapping[str, Expr]) -> Statement:
        """A statement of a base with what some of its names stand for: layers of torch's, and other names."""
        made = nodes.substituted(statement, instead) if instead else statement
        if made is not statement:
            self.unit.stands_for(made, statement)
        return made


def _asks_for(statement: Statement, cls: cst.ClassDef) -> bool:
    """Whether a statement is for objects of a class alone, not of those that inherit: `if type(self) is Base: ...`."""
    test = statement.test if isinstance(statement, cst.If) and statement.orelse is None else None
    own = [f"{left} {same} {cls.name.value}" for left in ("self.__class__", "type(self)") for same in ("==", "is")]
    return test is not None and nodes.code(test) in own


class _OfBase(cst.CSTTransformer):
    """Calls `super().method` under the name that the method of the base has in the class."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        value = updated_node.value
        if isinstance(value, cst.Call) and nodes.dotted(value.func) == "super":
            attribute = cst.Name(f"{_prefix(self.base)}_{updated_node.attr.value}")
            return updated_node.with_changes(value=cst.Name("self"), attr=attribute)
        return updated_node


def declares_mode(script: Script, cls: str) -> bool:
    """Whether a class has a field for its mode: one that is only inherited from leaves that to its subclasses."""
    return script.trains(cls) and not script.only_base(cls)


def _prefix(cls: str) -> str:
    return f"_{cls.lower()}"


def _methods(node: cst.ClassDef) -> dict[str, cst.FunctionDef]:
    return {s.name.value: s for s in node.body.body if isinstance(s, cst.FunctionDef)}


def _calls_super(node: cst.FunctionDef, method: str) -> bool:
    return any(nodes.code(call.func).startswith("super(") for call in usage.calls(node))


def is_super_init(statement: Statement) -> bool:
    """Whether a statement is `super().__init__(...)`."""
    if not isinstance(statement, cst.SimpleStatementLine) or "super" not in usage.loads(statement):
        return False
    text = nodes.code(statement)
    return "super(" in text and ".__init__(" in text


def _super_init(init: cst.FunctionDef) -> cst.Call | None:
    for statement in suites.suite_of(init.body.body):
        if is_super_init(statement) and isinstance(statement, cst.SimpleStatementLine):
            small = statement.body[0]
            if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
                return small.value
    return None
