"""Classes: nn.Module classes become Flax modules."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts, FunctionFacts, merge
from migrate.known.kinds import (
    UNKNOWN,
    Host,
    HostClass,
    Kind,
    Makers,
    ModuleClass,
    Never,
    Number,
    Operation,
    Plain,
    Tensor,
    TorchName,
    Unpassed,
)
from migrate.known.qualified import inside, spelled
from migrate.known.weight_kinds import OwnOptimizer, OwnScheduler
from migrate.layers.table import TABLE
from migrate.library_modules import MIXIN
from migrate.lowering.modules.called_in_training import CalledInTraining
from migrate.lowering.modules.changed_buffers import changed_attributes
from migrate.lowering.modules.constructors import built_methods, extras_handed_on, present, repeated
from migrate.lowering.modules.custom_gradients import AUTOGRAD_FUNCTION, CustomGradients
from migrate.lowering.modules.holder_subclasses import HOLDERS, SEQUENTIAL, as_holder
from migrate.lowering.modules.inheritance import FRAMEWORK
from migrate.lowering.modules.keyword_fields import KeywordFields
from migrate.lowering.modules.layer_subclasses import LayerSubclasses
from migrate.lowering.modules.methods_of_torch import MethodsOfTorch
from migrate.lowering.modules.names_of_flax import other_names, refuse_names_of_flax, with_other_names
from migrate.lowering.modules.registered_settings import RegisteredSettings
from migrate.lowering.modules.sequential_subclasses import as_module
from migrate.lowering.modules.setup import own_fields
from migrate.lowering.modules.weight_methods import WeightMethods
from migrate.lowering.optimizers.own_optimizers import OPTIMIZER, OwnOptimizers
from migrate.lowering.optimizers.own_schedulers import SCHEDULER, OwnSchedulers
from migrate.lowering.plainer.new_parts import with_other_parts
from migrate.lowering.plainer.plainer_classes import PlainerClasses
from migrate.lowering.statements.signatures import with_draws
from migrate.rules.catalogue import RULES
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_FOREIGN = Plain("imported")  # of another package, or a class that inherits from one of those


def _gives_in_turn(node: cst.ClassDef) -> bool:
    """Whether objects of a class give things one after the other: they are gone over, or have methods that yield."""
    methods = {one.name.value for one in suites.suite_of(node.body.body) if isinstance(one, cst.FunctionDef)}
    taking = any(nodes.dotted(call.func) == "next" for call in usage.calls(node))
    return bool({"__iter__", "__next__"} & methods) or taking or next(every(node, cst.Yield), None) is not None


def _stands_alone(node: cst.ClassDef) -> bool:
    """Whether a class inherits from nothing that has methods."""
    return all(nodes.dotted(arg.value) in usage.ROOTS for arg in node.bases)


class Classes(
    LayerSubclasses,
    WeightMethods,
    CustomGradients,
    MethodsOfTorch,
    OwnOptimizers,
    OwnSchedulers,
    RegisteredSettings,
    KeywordFields,
    PlainerClasses,
    CalledInTraining,
):
    """Definitions of classes."""

    def statement_ClassDef(self, node: cst.ClassDef) -> list[Statement]:
        """A class: a Flax module, a class that stays torch (a data set), or a class of the user's own."""
        bases = [self.torch_name(arg.value) for arg in node.bases]
        if bases and bases[0] in (SEQUENTIAL, *HOLDERS):
            node, bases = self.holding_its_own(node, bases[0]), [FRAMEWORK]
        base = self.module_base(node)
        if base is not None or FRAMEWORK in bases:
            self.refuse_foreign_forward(node, base)
            return [self.module_class(node, base)]
        if bases and bases[0] == AUTOGRAD_FUNCTION:
            return [self.custom_gradient(node)]
        if bases and bases[0] in OPTIMIZER:
            return self.own_optimizer(node)
        if bases and bases[0] in SCHEDULER:
            return self.own_scheduler(node)
        if any(self.is_foreign_module(arg.value, node) for arg in node.bases if arg.keyword is None):
            told = ", ".join(nodes.code(arg.value) for arg in node.bases if arg.keyword is None)
            raise Unsupported("MIG201", f"{node.name.value} inherits from {told}: what that adds is not known")
        if any(base and base.startswith(("torch.utils.data", "torchvision")) for base in bases):
            self.env.kinds[node.name.value] = Host("class")
            return [self.stays_torch(node)]
        if bases and bases[0] in TABLE:
            layer = self.layer_subclass(node, TABLE[bases[0]])
            return [self.module_class(self.without_constructor(node), None, layer)]
        if any(base and base.startswith("torch.nn.") for base in bases):
            raise Unsupported("MIG201", f"{node.name.value} inherits from {nodes.code(node.bases[0].value)}")
        kinds = [self.class_itself(arg.value).kind for arg in node.bases if arg.keyword is None]
        name = inside(self.unit.scope, node.name.value)
        if name in self.script.host_classes or any(isinstance(kind, Host) for kind in kinds):
            self.env.kinds[node.name.value] = Host("class")
            return [self.stays_torch(node)]
        if any(isinstance(kind, TorchName | OwnOptimizer | OwnScheduler) for kind in kinds):
            raise Unsupported("MIG201", f"{node.name.value} inherits from {nodes.code(node.bases[0].value)}")
        complete = name in self.script.inheriting
        kept_by = [kind.cls for kind in kinds if isinstance(kind, HostClass) and self.script.keeps_state(kind.cls)]
        if kept_by and not complete:
            told = f"{node.name.value} inherits from {spelled(kept_by[0])}, whose objects have models or draw"
            raise Unsupported("MIG404", f"{told}: write the methods that it inherits into it")
        ours = (complete or _stands_alone(node)) and self.may_work_on_tensors(node)
        ours |= self.tensor_fields(name, node)
        other = _FOREIGN if _FOREIGN in kinds or Plain(MIXIN) in kinds else Plain("class")
        self.env.kinds[node.name.value] = HostClass(name) if ours else other
        made = self.host_class(node)
        if name in self.script.made_in_jit and _is_dataclass(node) and "str" not in map(nodes.code, _annotations(node)):
            registered = cst.Decorator(nodes.expression("jax.tree_util.register_dataclass"))
            made = made.with_changes(decorators=[registered, *made.decorators])  # so that jit can return it
        return [made]

    def refuse_foreign_forward(self, node: cst.ClassDef, base: ClassFacts | None) -> None:
        """Declines a class whose forward pass may be that of a base from another package, which stands before the
        module class and is not seen."""
        foreign: list[cst.Arg] = []
        for arg in node.bases:
            if self.torch_name(arg.value) == FRAMEWORK or isinstance(self.kind_of(arg.value), ModuleClass):
                break
            origin = self.unit.imported.get(nodes.dotted(arg.value) or "", "")
            known = origin.partition(".")[0] in sys.stdlib_module_names
            foreign += [arg] if self.kind_of(arg.value) == Plain("imported") and not known else []
        own = any(isinstance(one, cst.FunctionDef) and one.name.value == "forward" for one in node.body.body)
        if foreign and not own and (base is None or f"{base.name}.forward" not in self.script.functions):
            told = nodes.code(foreign[0].value)
            raise Unsupported("MIG201", f"{node.name.value} inherits from {told}: what that adds is not known")

    def tensor_fields(self, name: str, node: cst.ClassDef) -> bool:
        """Notes the tensors among the fields of a `NamedTuple` or of a dataclass without a base; returns whether there
        are some."""
        bases = [nodes.dotted(base.value) for base in node.bases]
        if bases not in (["NamedTuple"], ["typing.NamedTuple"]) and (bases or not _is_dataclass(node)):
            return False
        lines = [line for line in suites.suite_of(node.body.body) if isinstance(line, cst.SimpleStatementLine)]
        fields = [line.body[0] for line in lines if isinstance(line.body[0], cst.AnnAssign)]
        tensors = [
            field.target.value
            for field in fields
            if isinstance(field.target, cst.Name) and self.torch_name(field.annotation.annotation) == "torch.Tensor"
        ]
        attributes = self.script.found_attributes.setdefault(name, {})
        for field in tensors:
            merge(attributes, f"self.{field}", Tensor())
        return bool(tensors)

    def holding_its_own(self, node: cst.ClassDef, kind: str) -> cst.ClassDef:
        """A class that inherits from a container of modules as one that has them under a name."""
        name = inside(self.unit.scope, node.name.value)
        facts = self.script.classes.setdefault(name, ClassFacts(name, node))
        if facts.written is None or facts.written[0] is not node:
            as_own = as_module(node, self.adds_module) if kind == SEQUENTIAL else None
            made, facts.unnamed = as_own or as_holder(node, kind, self.adds_module)
            self.unit.stands_for(made, node)
            facts.written = (node, made)
        return facts.written[1]

    def adds_module(self, node: Expr) -> bool:
        """Whether an expression makes a layer, or a module of the user's."""
        return isinstance(node, cst.Call) and self.is_maker(node.func)

    def is_foreign_module(self, base: Expr, node: cst.ClassDef) -> bool:
        """Whether a class has a forward pass, and a base of which nothing is known but that it is no data set."""
        methods = {s.name.value for s in suites.suite_of(node.body.body) if isinstance(s, cst.FunctionDef)}
        kind = self.kind_of(base)
        vision = (self.torch_name(base) or "").startswith(("torchvision.models.", "torchvision.ops."))
        unknown = not self.torch_name(base) and (kind in (UNKNOWN, _FOREIGN) or isinstance(kind, Never))
        return "forward" in methods and (vision or (unknown and self.uses_torch(node)))

    def host_class(self, node: cst.ClassDef) -> cst.ClassDef:
        """A class of the user's own: its methods run on the host."""
        if not self.may_work_on_tensors(node) and not self.annotates_torch(node):
            return node
        inner = self.class_scope(inside(self.unit.scope, node.name.value))
        body: list[Statement] = []
        for statement in suites.suite_of(node.body.body):
            if isinstance(statement, cst.FunctionDef):
                body += inner.method_or_refusal(statement)
            elif isinstance(statement, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                body += inner.guarded(statement)
        return node.with_changes(body=suites.block_of(node.body, body))

    def method_or_refusal(self, node: cst.FunctionDef) -> list[Statement]:
        """A method of such a class; without its constructor none of it works."""
        try:
            return [self.function(node)]
        except Unsupported as told:
            if node.name.value == "__init__":
                raise
            return self.refused_method(node, told)

    def may_work_on_tensors(self, node: cst.ClassDef) -> bool:
        """Whether a class names torch, works on models, is given tensors, or has methods that take more than the
        object: tensors, as in `(a - b).abs()`."""
        name = inside(self.unit.scope, node.name.value)
        if name in self.script.holding_tensors or (name in self.script.holding_data and _gives_in_turn(node)):
            return True
        methods = [part for part in suites.suite_of(node.body.body) if isinstance(part, cst.FunctionDef)]
        taking = any(len(method.params.params) > 1 for method in methods if method.name.value != "__init__")
        return self.uses_torch(node) or usage.works_on_models(node) or (taking and self.unit.imports_torch)

    def annotates_torch(self, node: cst.ClassDef) -> bool:
        """Whether a class names types of torch's in annotations of its own: the fields of a dataclass."""
        lines = [s.body[0] for s in suites.suite_of(node.body.body) if isinstance(s, cst.SimpleStatementLine)]
        return any(isinstance(small, cst.AnnAssign) and self.mentions_torch(small.annotation) for small in lines)

    def without_names_of_flax(self, facts: ClassFacts, node: cst.ClassDef) -> cst.ClassDef:
        """A class whose arguments have no names that every Flax module has, where they can have others."""
        facts.other_names = other_names(node)
        if not facts.other_names:
            return node
        known = facts.spelled_out.get((node, "names"))
        if known is None:
            known = facts.spelled_out[node, "names"] = with_other_names(node, facts.other_names)
            for one, written in zip(suites.suite_of(known.body.body), suites.suite_of(node.body.body), strict=True):
                self.unit.stands_for(one, written)
            self.unit.stands_for(known, node)
        told = ", ".join(f"`{name}` is `{other}`" for name, other in facts.other_names.items())
        self.unit.report(Unsupported("MIG510", f"of {spelled(facts.name)}: {told}"), node)
        return known

    def module_class(self, node: cst.ClassDef, base: ClassFacts | None, layer: Expr | None = None) -> cst.ClassDef:
        """A module class in Flax linen. `base`: the user's module class that it inherits from; `layer`: Flax's."""
        name = inside(self.unit.scope, node.name.value)
        facts = self.script.classes.setdefault(name, ClassFacts(name, node))
        mixed = self.note_borrowed(facts, node)
        node = self.with_keywords(facts, self.plainer(facts, node))
        if base is None and not layer and not facts.inherited:
            node = self.without_names_of_flax(facts, node)
        if base is not None:
            base.inherited = True
        written = self.written_out(node, base) if base is not None else None
        if written is not None:
            node, base = written, self.module_base(written)
        else:
            node = self.with_settings(facts, node)
        facts.node, facts.bases = node, []
        self.env.kinds[node.name.value] = ModuleClass(name)
        methods = {s.name.value: s for s in node.body.body if isinstance(s, cst.FunctionDef)}
        init = methods.get("__init__")
        if init is not None:
            facts.fields, facts.extras = _fields(node.name.value, init), extras_handed_on(init)
        for method in methods.values():
            if method is not init:
                qualname = f"{name}.{method.name.value}"
                function = self.script.functions.setdefault(qualname, FunctionFacts(method, qualname, name))
                function.node = method
        if "__call__" in methods and "forward" in methods:
            raise Unsupported("MIG201", f"{node.name.value} has a __call__ of its own, which Flax has for its forward")
        dropped = _initializer_methods(methods)
        facts.host_methods = self.host_methods(methods, facts.untraced) - dropped
        refuse_names_of_flax(facts, methods, frozenset(dropped))
        self.begin_class(facts, methods)
        self.open_branches(facts, methods)
        if base is not None:
            self.inherit(facts, base, list(methods))
        body: list[Statement] = []
        for statement in suites.suite_of(node.body.body):
            if not isinstance(statement, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                continue
            if isinstance(statement, cst.FunctionDef):
                if statement.name.value in dropped:
                    continue
                if statement is init:
                    constructor, report = self.reported(facts, statement)
                    body += self.setup(facts, constructor)
                    body += [self.report_method(facts, report)] if report is not None else []
                elif (own := self.method_of_torch(facts, statement)) is not None:
                    body += own
                elif statement.name.value in facts.host_methods:
                    body.append(self.lowered_outside(facts, statement))
                else:
                    start = len(self.unit.diagnostics)
                    made = self.method(facts, statement)
                    made = self.unless_changing(facts, statement, made, self.unit.diagnostics[start:])
                    self.note_untraced(facts, statement, methods, self.unit.diagnostics[start:])
                    body += [] if statement.name.value in facts.emptied else [made]
            else:
                body += self.class_statement(facts, statement)
        self.end_class(facts)
        if init is None:
            facts.sets_up = base is not None and base.sets_up
            body = suites.after_docstring(body, own_fields(self.script, name))
        if not body:
            body = [nodes.statement("pass")]
        bases = self.flax_bases(node, base) if layer is None else [cst.Arg(layer)]
        body = [_apart(statement) if number else statement for number, statement in enumerate(body)]
        keywords = () if mixed else node.keywords
        return node.with_changes(bases=bases, keywords=keywords, body=suites.block_of(node.body, body))

    @staticmethod
    def begin_class(facts: ClassFacts, methods: Mapping[str, cst.FunctionDef]) -> None:
        """What is told of a class by its text, and a fresh list of what this round meets in it."""
        facts.built = built_methods({name: node for name, node in methods.items() if name not in facts.host_methods})
        run = {name: node for name, node in methods.items() if name not in (*facts.built, *facts.host_methods)}
        facts.changed = changed_attributes(run)
        bodies = [suites.suite_of(methods[name].body.body) for name in ("__init__", *facts.built) if name in methods]
        facts.certain = {name for body in bodies for name in present(body)}
        facts.rebound = {name for body in bodies for name in (*repeated(body), *with_other_parts(body))}
        facts.seen, facts.held, facts.askable, facts.askable_if = {}, {}, {}, {}
        facts.lengths, facts.torch_lengths, facts.flags, facts.shared = {}, {}, {}, {}

    @staticmethod
    def end_class(facts: ClassFacts) -> None:
        """What the round met is what the class has."""
        facts.attributes = dict(facts.seen)
        for name in [name for name in facts.children if name not in facts.seen and "{}" not in name]:
            del facts.children[name]

    def class_statement(self, facts: ClassFacts, statement: Statement) -> list[Statement]:
        """A statement of the class body. A value with an annotation would be a field in Flax; torch's classes keep it
        for all instances."""
        if not isinstance(statement, cst.SimpleStatementLine):
            return [statement]
        small = statement.body[0]
        if isinstance(small, cst.AnnAssign):
            if small.value is None:
                return []
            made = cst.Assign([nodes.target(small.target)], small.value)
            return self.class_statement(facts, statement.with_changes(body=[made]))
        if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
            value = self.usable(self.expr(small.value))
            self.refuse_torch(value)
            facts.seen[small.targets[0].target.value] = value.kind
            made = layouts.first(value)
            if isinstance(value.kind, Makers | Operation):  # a function in the output, which is no method
                made = nodes.call("staticmethod", made)
            return suites.rebuilt(statement, small, small.with_changes(value=made))
        return [statement]

    def taken_by_torch(self, node: cst.FunctionDef, name: str) -> Kind:
        """A parameter that a torch function takes which takes tensors alone: `torch.cat((x, y))`."""
        for call in usage.calls(node):
            rule = RULES.get(self.torch_name(call.func) or "")
            first = rule.parameters[0].name if rule is not None and rule.parameters else ""
            if (
                first not in ("input", "tensors")
                or rule is None
                or rule.family in ("creation", "random")
                or not call.args
            ):
                continue
            given = call.args[0].value
            parts = [e.value for e in given.elements] if isinstance(given, cst.Tuple | cst.List) else [given]
            if any(nodes.dotted(part) == name for part in parts):
                return Tensor()
        return UNKNOWN

    def method(self, facts: ClassFacts, node: cst.FunctionDef) -> cst.FunctionDef:
        """`forward` becomes `__call__`; other methods keep their names."""
        name = node.name.value
        qualname = f"{facts.name}.{name}"
        function = self.script.functions[qualname]
        inner = self.method_scope(facts.name, "setup" if name in facts.built else "forward", name)
        inner.facts = function
        inner.conditions = list(facts.under.get(name, ()))
        if inner.context == "forward" and function.decorators & {"staticmethod", "classmethod"}:
            del inner.env.kinds["self"]
        for number, parameter in enumerate(node.params.params):
            if number == 0 and parameter.name.value == "self":
                continue
            merge(function.found_params, parameter.name.value, inner.annotated_maker(parameter.annotation))
            kind = _parameter_kind(function, parameter, name)
            if kind is UNKNOWN and isinstance(function.kind_given(parameter.name.value), Never):
                kind = self.taken_by_torch(node, parameter.name.value)  # nothing that was read calls the method
            inner.env.kinds[parameter.name.value] = kind
            if not function.given.get(parameter.name.value):
                inner.env.shared.add(parameter.name.value)
        function.returns = Never()
        body = inner.suite(node.body.body)
        if name in facts.built:
            body = self.drawn_once(facts, node, body)
            body = suites.without_unread(body, node.body, inner.restated)
            emptied = _says_nothing(body) and not _says_nothing(suites.suite_of(node.body.body))
            (facts.emptied.add if emptied else facts.emptied.discard)(name)
        node = node.with_changes(params=with_draws(node.params, function.draws))
        made = self.rewritten(node, body, defaults=inner)
        made = _with_self(made) if name in facts.built else made
        return made.with_changes(name=cst.Name("__call__")) if name == "forward" else made


def _with_self(method: cst.FunctionDef) -> cst.FunctionDef:
    """A static method that makes modules, which need to know the mode of the one that they are made in."""
    static = [one for one in method.decorators if nodes.dotted(one.decorator) == "staticmethod"]
    if not static or "self" not in usage.loads(method.body):
        return method
    own = method.params.with_changes(params=[cst.Param(cst.Name("self")), *method.params.params])
    return method.with_changes(decorators=[one for one in method.decorators if one not in static], params=own)


def _parameter_kind(function: FunctionFacts, parameter: cst.Param, method: str) -> Kind:
    """What a method's parameter holds: what it is called with; for `forward`, a tensor unless something says
    otherwise."""
    known = function.kind_given(parameter.name.value)
    if isinstance(known, Tensor) and parameter.name.value in function.omitted:
        known = replace(known, optional=True)
    annotation = nodes.annotation(parameter)
    if annotation in ("int", "float", "bool"):
        return Number()
    if annotation == "str":
        return Plain("str")
    default = nodes.literal(parameter.default) if parameter.default is not None else None
    if isinstance(default, bool | int | float | str):
        return known if isinstance(known, Tensor) else Number()
    if method == "forward" and isinstance(known, Never) and "Tensor" not in annotation:
        return Tensor() if parameter.default is None else Unpassed(optional=True)
    if "Tensor" in annotation:
        return Tensor(optional=parameter.default is not None)
    if isinstance(known, Host):
        return Tensor()
    if method == "forward" and type(known) is Kind:
        return Tensor()
    return UNKNOWN if isinstance(known, Never) else known


def _says_nothing(body: Sequence[Statement]) -> bool:
    return all(suites.is_docstring(statement) for statement in body)


_APPLIES = re.compile(r"self\.(\w+\.)?apply")


def _initializer_methods(methods: dict[str, cst.FunctionDef]) -> set[str]:
    """Methods that are given to `self.apply`, or to that of a part, which only initialise weights: they become
    initialisers and go."""
    applied = [
        nodes.dotted(call.args[0].value)
        for method in methods.values()
        for call in usage.calls(method)
        if _APPLIES.fullmatch(nodes.dotted(call.func) or "") and call.args
    ]
    return {name for name in methods if f"self.{name}" in applied}


def _apart(statement: Statement) -> Statement:
    """A method with a blank line before it."""
    if not isinstance(statement, cst.FunctionDef) or any(line.comment is None for line in statement.leading_lines):
        return statement
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False), *statement.leading_lines])


def _fields(name: str, init: cst.FunctionDef) -> list[str]:
    params = init.params
    if isinstance(params.star_arg, cst.Param) or (params.star_kwarg is not None and not extras_handed_on(init)):
        raise Unsupported("MIG201", f"{name}.__init__ takes *args or **kwargs, which cannot become fields")
    return [p.name.value for p in [*params.params[1:], *params.kwonly_params]]


def _is_dataclass(node: cst.ClassDef) -> bool:
    marks = [nodes.code(each.decorator).partition("(")[0].rpartition(".")[2] for each in node.decorators]
    return "dataclass" in marks


def _annotations(node: cst.ClassDef) -> list[Expr]:
    """What the fields of a dataclass are said to be."""
    lines = [suites.alone(line) for line in suites.suite_of(node.body.body)]
    return [one.annotation.annotation for one in lines if isinstance(one, cst.AnnAssign)]
