"""Constructor parameters become fields, `__init__` becomes `setup`."""

from __future__ import annotations

import libcst as cst

from migrate import nodes, suites, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    UNKNOWN,
    Items,
    Kind,
    ListNode,
    Module,
    Never,
    Number,
    Plain,
    SelfModule,
    Tied,
)
from migrate.lowering.initializers import Initializers
from migrate.lowering.module_lists import ModuleLists, bare_lambda
from migrate.lowering.module_weights import ModuleWeights
from migrate.lowering.scope import Scope
from migrate.nodes import Expr, Statement
from migrate.script import (
    ClassFacts,
    Script,
    merge,
)


class Setup(Initializers, ModuleWeights, ModuleLists):
    """What `__init__` of a module class becomes."""

    def setup(self, facts: ClassFacts, init: cst.FunctionDef) -> list[Statement]:
        """The fields and the `setup` method that stand for `__init__`."""
        inner = self.method_scope(facts.name, "setup", "__init__")
        parameters = [*init.params.params[1:], *init.params.kwonly_params]
        rebound = set(usage.stores(init.body))
        for parameter in parameters:
            name = parameter.name.value
            kind = facts.field_kinds.get(name, UNKNOWN)
            if parameter.default is not None:
                merge(facts.field_kinds, name, inner.expr(parameter.default).kind)
            inner.env.kinds[name] = _field_kind(parameter, kind)
        body = inner.suite(init.body.body)
        body += inner.grown_lists(facts)
        body = [statement for statement in body if not _is_super_init(statement)]
        read = {
            p.name.value: nodes.expression(f"self.{p.name.value}") for p in parameters if p.name.value not in rebound
        }
        made = [nodes.substituted(statement, read) for statement in body]
        made = [statement for statement in made if not _assigns_itself(statement)]
        rebinds: list[Statement] = [
            nodes.statement(f"{name} = self.{name}") for name in facts.fields if name in rebound
        ]
        fields: list[Statement] = [self.field(facts, parameter, inner) for parameter in parameters]
        fields += own_fields(self.script, facts.name)
        return _with_setup(init, fields, [*rebinds, *made])

    def field(self, facts: ClassFacts, parameter: cst.Param, inner: Scope) -> cst.SimpleStatementLine:
        """A constructor parameter as a dataclass field."""
        kind = facts.field_kinds.get(parameter.name.value, UNKNOWN)
        annotation = parameter.annotation.annotation if parameter.annotation else None
        if annotation is None or self.mentions_torch(cst.Annotation(annotation)):
            annotation = nodes.expression(_annotation(kind, parameter, facts.field_types))
        default = None if parameter.default is None else inner.node(parameter.default)
        if isinstance(default, cst.List):
            default = nodes.tuple_of([element.value for element in default.elements])
        made = cst.AnnAssign(
            parameter.name,
            cst.Annotation(annotation, cst.SimpleWhitespace(""), cst.SimpleWhitespace(" ")),
            default,
            cst.AssignEqual() if default is not None else cst.MaybeSentinel.DEFAULT,
        )
        return cst.SimpleStatementLine([made])

    def attribute_assignment(
        self, line: cst.SimpleStatementLine, target: cst.Attribute, value: Expr
    ) -> list[Statement] | None:
        """`self.x = ...` in a module class; None where it is an assignment like any other."""
        if self.context not in ("setup", "forward"):
            return None
        path = nodes.dotted(target) or ""
        if self.context == "setup" and path.endswith(".weight") and path.startswith("self."):
            return self.tie(path, value)
        base = self.expr(target.value)
        if not isinstance(base.kind, SelfModule):
            raise Unsupported("MIG204", f"{path} is changed after its module was made")
        facts = self.script.classes[self.cls]
        name = target.attr.value
        if self.context == "forward":
            raise Unsupported(
                "MIG201", f"self.{name} is set in {self.scope.rpartition('.')[2]}: a Flax module is frozen there"
            )
        parameter = self.parameter(facts, name, value)
        if parameter is not None:
            return parameter
        lowered = self.expr(value)
        kind = lowered.kind
        facts.attributes[name] = kind
        if isinstance(kind, Tied):
            return []
        if isinstance(kind, Items) and kind.type == "modules":
            return self.growing_list(facts, name)
        made_target: Expr = target
        own = nodes.dotted(value)
        if name in facts.fields and own != name:
            facts.renamed[name] = f"{name}_layer" if isinstance(kind, Module) else f"{name}_value"
            made_target = target.with_changes(attr=cst.Name(facts.renamed[name]))
        if isinstance(kind, Module):
            options = kind.options
            facts.children[name] = options[0] if len(options) == 1 else ListNode(options, "", dynamic=True)
            if any(key.split(".")[0] == name for key in facts.ties):
                return []
        elif isinstance(kind, Items) and isinstance(kind.joined(), Module):
            raise Unsupported(
                "MIG201", f"self.{name} is a plain list of modules, which torch does not register; use nn.ModuleList"
            )
        return suites.assigned(line, made_target, bare_lambda(lowered.node))

    def setup_call(self, node: cst.Call) -> list[Statement] | None:
        """Calls in `__init__` that are about weights: `self.apply(f)`, `self.register_buffer(...)`."""
        path = nodes.dotted(node.func) or ""
        facts = self.script.classes[self.cls]
        if path.startswith("super") or (isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Call)):
            return None
        if path == "self.apply":
            self.applied_initializer(facts, node.args[0].value)
            return []
        if path == "self.register_buffer":
            return self.buffer(facts, node)
        grown = self.grow(facts, node)
        if grown is not None:
            return grown
        if path == "self.add_module":
            raise Unsupported("MIG201", "add_module")
        return None


def own_fields(script: Script, cls: str) -> list[Statement]:
    """The fields that every module of a class has for what torch keeps as hidden state: its mode, its precision."""
    wanted = {"training: bool = False": script.trains(cls), "dtype: Any = None": cls in script.half}
    return [nodes.statement(text) for text, has in wanted.items() if has]


def _is_super_init(statement: Statement) -> bool:
    text = nodes.code(statement).strip() if isinstance(statement, cst.SimpleStatementLine) else ""
    return "super(" in text and ".__init__(" in text


def _assigns_itself(statement: Statement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Assign):
        return False
    assign = statement.body[0]
    return len(assign.targets) == 1 and nodes.code(assign.targets[0].target) == nodes.code(assign.value)


def _field_kind(parameter: cst.Param, kind: Kind) -> Kind:
    annotation = nodes.annotation(parameter)
    if annotation in ("int", "float", "bool"):
        return Number()
    if annotation == "str":
        return Plain("str")
    return UNKNOWN if isinstance(kind, Never) else kind


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
