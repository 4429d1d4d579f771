"""Pass 3: nn.Module classes become Flax modules. Constructor parameters become fields, `__init__` becomes `setup`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.initializers import initializers_of
from migrate.kinds import (
    UNKNOWN,
    BoundWeight,
    Function,
    Host,
    Items,
    Kind,
    LayerNode,
    ListNode,
    Module,
    ModuleClass,
    Never,
    Node,
    Number,
    Plain,
    SelfModule,
    Tensor,
    Tied,
    TorchName,
    join,
)
from migrate.layers.table import TABLE
from migrate.lower_statements import block, with_comments
from migrate.model_state import ModelState
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.script import ClassFacts, FunctionFacts, merge
from migrate.targets import linen

_MODULE = ("torch.nn.Module", "torch.nn.modules.Module")


class Modules(ModelState):
    """Lowering of classes."""

    def class_statement(self, node: cst.ClassDef) -> list[Statement]:
        bases = [self.torch_name(arg.value) for arg in node.bases]
        if any(base in _MODULE for base in bases):
            return [self.module_class(node)]
        if any(base and base.startswith(("torch.utils.data", "torchvision")) for base in bases):
            self.env.kinds[node.name.value] = Host("class")
            return [node]
        kinds = [self.expr(arg.value).kind for arg in node.bases if arg.keyword is None]
        if any(isinstance(kind, Host) for kind in kinds):
            self.env.kinds[node.name.value] = Host("class")
            return [node]
        if any(isinstance(kind, ModuleClass) for kind in kinds):
            raise Unsupported("MIG201", f"{node.name.value} inherits from another module class")
        if any(isinstance(kind, TorchName) for kind in kinds):
            raise Unsupported("MIG201", f"{node.name.value} inherits from {nodes.code(node.bases[0].value)}")
        self.env.kinds[node.name.value] = Plain("class")
        return [self.host_class(node)]

    def host_class(self, node: cst.ClassDef) -> cst.ClassDef:
        """A class of the user's own: its methods run on the host."""
        if not self.uses_torch(node):
            return node
        from migrate.lower import Lowering

        inner = Lowering.for_class(self, node.name.value)  # type: ignore[arg-type]
        body: list[Statement] = []
        for statement in node.body.body:
            if isinstance(statement, cst.FunctionDef):
                body.append(inner.function(statement))
            elif isinstance(statement, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                body += inner.guarded(statement, None)
        return node.with_changes(body=self.block_of(node.body, body))

    def uses_torch(self, node: cst.CSTNode) -> bool:
        kinds = [self.env.lookup(name) for name in nodes.loads(node)]
        return any(isinstance(kind, TorchName | Function | ModuleClass) for kind in kinds)

    # -- module classes -----------------------------------------------------------------------------------------------

    def module_class(self, node: cst.ClassDef) -> cst.ClassDef:
        """A module class in Flax linen."""
        name = node.name.value
        facts = self.script.classes.setdefault(name, ClassFacts(name, node))
        facts.node = node
        self.env.kinds[name] = ModuleClass(name)
        methods = {s.name.value: s for s in node.body.body if isinstance(s, cst.FunctionDef)}
        init = methods.get("__init__")
        if init is not None:
            self.fields(facts, init)
        for method in methods.values():
            if method is not init:
                qualname = f"{name}.{method.name.value}"
                function = self.script.functions.setdefault(qualname, FunctionFacts(method, qualname, name))
                function.node = method
        dropped = self.initializer_methods(facts, methods)
        body: list[Statement] = []
        for statement in node.body.body:
            if not isinstance(statement, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                continue
            if isinstance(statement, cst.FunctionDef):
                if statement.name.value in dropped:
                    continue
                if statement is init:
                    body += self.setup(facts, statement)
                else:
                    body.append(self.method(facts, statement))
            else:
                body.append(statement)
        if init is None and self.script.trains(name):
            body = _after_docstring(body, [nodes.statement("training: bool = False")])
        if not body:
            body = [nodes.statement("pass")]
        bases = [cst.Arg(nodes.expression("nn.Module"))]
        body = [_apart(statement) if number else statement for number, statement in enumerate(body)]
        return node.with_changes(bases=bases, body=self.block_of(node.body, body))

    def fields(self, facts: ClassFacts, init: cst.FunctionDef) -> None:
        params = init.params
        if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None:
            raise Unsupported("MIG201", f"{facts.name}.__init__ takes *args or **kwargs, which cannot become fields")
        facts.fields = [p.name.value for p in [*params.params[1:], *params.kwonly_params]]

    def initializer_methods(self, facts: ClassFacts, methods: dict[str, cst.FunctionDef]) -> set[str]:
        """Methods that only initialise weights: they become initialisers and go."""
        found: set[str] = set()
        for name in methods:
            uses = [
                call
                for method in methods.values()
                for call in _calls(method)
                if (nodes.dotted(call.func) or "") == "self.apply"
                and call.args
                and nodes.dotted(call.args[0].value) == f"self.{name}"
            ]
            if uses:
                found.add(name)
        return found

    # -- setup --------------------------------------------------------------------------------------------------------

    def setup(self, facts: ClassFacts, init: cst.FunctionDef) -> list[Statement]:
        """The fields and the `setup` method that stand for `__init__`."""
        from migrate.lower import Lowering

        inner = Lowering.for_method(self, facts, "setup", "__init__")  # type: ignore[arg-type]
        parameters = [*init.params.params[1:], *init.params.kwonly_params]
        rebound = set(nodes.stores(init.body))
        for parameter in parameters:
            name = parameter.name.value
            kind = facts.field_kinds.get(name, UNKNOWN)
            if parameter.default is not None:
                merge(facts.field_kinds, name, inner.expr(parameter.default).kind)
            inner.env.kinds[name] = self.field_kind(parameter, kind)
        inner.growing = {}
        body = inner.suite(init.body.body)
        body += inner.grown_lists(facts)
        body = [statement for statement in body if not _is_super_init(statement)]
        inner.field_names = {p.name.value for p in parameters}
        renamed = _FieldReads(inner.field_names, rebound)
        made = [statement.visit(renamed) for statement in body]
        made = [statement for statement in made if not _assigns_itself(statement)]  # type: ignore[arg-type]
        rebinds = [nodes.statement(f"{name} = self.{name}") for name in facts.fields if name in rebound]
        fields = [self.field(facts, parameter, inner) for parameter in parameters]
        if self.script.trains(facts.name):
            fields.append(nodes.statement("training: bool = False"))
        statements: list[Statement] = [*rebinds, *made]  # type: ignore[list-item]
        if not statements:
            return list(fields)
        statements = _without_leading_blank(statements)
        function = nodes.statements("def setup(self):\n    pass")[0]
        blank = cst.EmptyLine(indent=False)
        lines = [line for line in init.leading_lines if line.comment is not None]
        leading = [blank, *lines] if fields or list(init.leading_lines) else lines
        if fields:
            fields[0] = fields[0].with_changes(
                leading_lines=[line for line in init.leading_lines if line.comment is None]
            )
        return [*fields, function.with_changes(body=block(statements), leading_lines=leading)]

    def field_kind(self, parameter: cst.Param, kind: Kind) -> Kind:
        annotation = nodes.code(parameter.annotation.annotation) if parameter.annotation else ""
        if annotation in ("int", "float", "bool"):
            return Number()
        if annotation == "str":
            return Plain("str")
        if isinstance(kind, Never):
            return UNKNOWN
        return kind

    def field(self, facts: ClassFacts, parameter: cst.Param, inner: Modules) -> cst.SimpleStatementLine:
        """A constructor parameter as a dataclass field."""
        kind = facts.field_kinds.get(parameter.name.value, UNKNOWN)
        annotation = parameter.annotation.annotation if parameter.annotation else None
        if annotation is None or self.mentions_torch(cst.Annotation(annotation)):
            annotation = nodes.expression(self.annotation(kind, parameter, facts.field_types))
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

    @staticmethod
    def annotation(kind: Kind, parameter: cst.Param, types: dict[str, str]) -> str:
        value = nodes.literal(parameter.default) if parameter.default is not None else ...
        if value is not ... and value is not None:
            return "tuple" if isinstance(value, list | tuple) else type(value).__name__
        if isinstance(kind, Items):
            return "Sequence[int]" if isinstance(kind.joined(), Number) else "Sequence"
        if isinstance(kind, Plain) and kind.what == "str":
            return "str"
        return types.get(parameter.name.value, "Any")

    # -- methods ------------------------------------------------------------------------------------------------------

    def method(self, facts: ClassFacts, node: cst.FunctionDef) -> cst.FunctionDef:
        """`forward` becomes `__call__`; other methods keep their names."""
        from migrate.lower import Lowering

        name = node.name.value
        qualname = f"{facts.name}.{name}"
        function = self.script.functions[qualname]
        inner = Lowering.for_method(self, facts, "forward", name)  # type: ignore[arg-type]
        inner.facts = function
        for number, parameter in enumerate(node.params.params):
            if number == 0 and parameter.name.value == "self":
                continue
            inner.env.kinds[parameter.name.value] = self.parameter_kind(function, parameter, name)
        function.returns = Never()
        body = inner.suite(node.body.body)
        decorators = [d for d in node.decorators if not self.no_grad(d.decorator)]
        params = inner.defaults(node.params)
        params = params.with_changes(
            params=[
                p.with_changes(annotation=None) if p.annotation and self.mentions_torch(p.annotation) else p
                for p in params.params
            ]
        )
        returns = None if node.returns is not None and self.mentions_torch(node.returns) else node.returns
        made = cst.Name("__call__") if name == "forward" else node.name
        return node.with_changes(
            name=made, body=self.block_of(node.body, body), params=params, decorators=decorators, returns=returns
        )

    @staticmethod
    def parameter_kind(function: FunctionFacts, parameter: cst.Param, method: str) -> Kind:
        """What a method's parameter holds: what it is called with; for `forward`, a tensor unless something says otherwise."""
        known = function.params.get(parameter.name.value, Never())
        annotation = nodes.code(parameter.annotation.annotation) if parameter.annotation else ""
        if annotation in ("int", "float", "bool"):
            return Number()
        if annotation == "str":
            return Plain("str")
        default = nodes.literal(parameter.default) if parameter.default is not None else None
        if isinstance(default, bool | int | float | str):
            return known if isinstance(known, Tensor) else Number()
        if "Tensor" in annotation or (method == "forward" and isinstance(known, Never)):
            return Tensor(optional=parameter.default is not None)
        if isinstance(known, Host):
            return Tensor()
        if method == "forward" and type(known) is Kind:
            return Tensor()
        return UNKNOWN if isinstance(known, Never) else known

    # -- assignments to self in setup ---------------------------------------------------------------------------------

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
        if isinstance(kind, Tied):
            facts.attributes[name] = kind
            return []
        facts.attributes[name] = kind
        if isinstance(kind, Items) and kind.type == "modules":
            return self.growing_list(facts, name)
        made_target: Expr = target
        own = nodes.dotted(value)
        if name in facts.fields and own != name:
            facts.renamed[name] = f"{name}_layer" if isinstance(kind, Module) else f"{name}_value"
            made_target = target.with_changes(attr=cst.Name(facts.renamed[name]))
        if isinstance(kind, Module):
            self.adopt(facts, name, kind)
            if name in self.tied_names(facts):
                return []
        elif isinstance(kind, Items) and _has_modules(kind):
            raise Unsupported(
                "MIG201", f"self.{name} is a plain list of modules, which torch does not register; use nn.ModuleList"
            )
        assign = cst.Assign([cst.AssignTarget(made_target)], _bare(lowered.node))  # type: ignore[arg-type]
        return [line.with_changes(body=[assign])]

    def growing_list(self, facts: ClassFacts, name: str) -> list[Statement]:
        """`self.x = nn.ModuleList()`, filled by `append`: a plain list until it is whole, since Flax freezes attributes."""
        local = name if name not in facts.fields else f"{name}_list"
        self.growing[name] = local
        return [nodes.statement(f"{local} = []")]

    def grown_lists(self, facts: ClassFacts) -> list[Statement]:
        """The assignments that make attributes of the lists that were filled."""
        made: list[Statement] = []
        for name, local in self.growing.items():
            kind = facts.attributes[name]
            assert isinstance(kind, Items)
            element = kind.joined()
            if isinstance(element, Module):
                tree = ListNode(element.options, "_", dynamic=True)
                facts.attributes[name] = Module((tree,), element.entry, element.exit, element.rank)
                facts.children[name] = tree
            if name in facts.fields:
                facts.renamed[name] = f"{name}_layer"
            made.append(nodes.statement(f"self.{facts.renamed.get(name, name)} = {local}"))
        self.growing = {}
        return made

    def grow(self, facts: ClassFacts, node: cst.Call) -> list[Statement] | None:
        """`self.x.append(module)`."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("append", "extend"):
            return None
        name = (nodes.dotted(func.value) or "").removeprefix("self.")
        local = self.growing.get(name)
        if local is None:
            return None
        value = self.expr(node.args[0].value)
        kind = facts.attributes[name]
        assert isinstance(kind, Items)
        added = value.kind.joined() if func.attr.value == "extend" and isinstance(value.kind, Items) else value.kind
        if not isinstance(added, Module):
            raise Unsupported("MIG201", f"{nodes.code(node)}: not known to be a module")
        facts.attributes[name] = Items(None, join(kind.joined(), added), "modules")
        return [nodes.statement(f"{local}.{func.attr.value}({{x}})", x=_bare(value.node))]

    growing: dict[str, str]

    def adopt(self, facts: ClassFacts, name: str, kind: Module) -> None:
        options = kind.options
        facts.children[name] = options[0] if len(options) == 1 else ListNode(options, "", dynamic=True)

    @staticmethod
    def tied_names(facts: ClassFacts) -> set[str]:
        return {key.split(".")[0] for key in facts.ties}

    def tie(self, path: str, value: Expr) -> list[Statement]:
        """`self.head.weight = self.emb.weight`: the dense layer becomes `emb.attend`."""
        facts = self.script.classes[self.cls]
        source = nodes.dotted(value) or ""
        one, other = path.split(".")[1], (source.split(".") + ["", ""])[1]
        if source.count(".") != 2 or path.count(".") != 2 or not source.endswith(".weight"):
            raise Unsupported("MIG204", f"{path} = {nodes.code(value)}")
        layers = {name: _only_layer(facts.children.get(name)) for name in (one, other)}
        embedding = next(
            (name for name, layer in layers.items() if layer and layer.torch == "torch.nn.Embedding"), None
        )
        dense = next((name for name, layer in layers.items() if layer and layer.torch == "torch.nn.Linear"), None)
        if embedding is None or dense is None:
            raise Unsupported(
                "MIG204", f"{path} = {nodes.code(value)}: only a Linear without bias and an Embedding are tied"
            )
        layer = layers[dense]
        assert layer is not None
        if any(weight.torch == "bias" for weight in layer.weights):
            raise Unsupported("MIG204", f"self.{dense} has a bias beside the tied weight")
        facts.ties[f"{dense}.weight"] = f"{embedding}.weight"
        facts.attributes[dense] = Tied(embedding)
        del facts.children[dense]
        return []

    def parameter(self, facts: ClassFacts, name: str, value: Expr) -> list[Statement] | None:
        """`self.x = nn.Parameter(...)`."""
        if not isinstance(value, cst.Call) or self.torch_name(value.func) != "torch.nn.Parameter":
            return None
        initial = value.args[0].value
        scale: Expr | None = None
        if isinstance(initial, cst.BinaryOperation) and isinstance(initial.operator, cst.Multiply):
            initial, scale = initial.left, initial.right
            if not isinstance(initial, cst.Call):
                initial, scale = scale, initial
        draw = self.torch_name(initial.func) if isinstance(initial, cst.Call) else None
        makers = {
            "torch.zeros": "nn.initializers.zeros",
            "torch.ones": "nn.initializers.ones",
            "torch.randn": "nn.initializers.normal({s})",
            "torch.empty": "nn.initializers.zeros",
        }
        if draw not in makers or not isinstance(initial, cst.Call):
            raise Unsupported("MIG204", f"nn.Parameter({nodes.code(value.args[0].value)})")
        made_scale = self.node(scale) if scale is not None else nodes.expression("1.0")
        if scale is not None and draw != "torch.randn":
            raise Unsupported("MIG204", f"nn.Parameter({nodes.code(value.args[0].value)})")
        maker = (
            nodes.expression(makers[draw], s=made_scale) if "{s}" in makers[draw] else nodes.expression(makers[draw])
        )
        sizes = [self.node(arg.value) for arg in initial.args if arg.keyword is None]
        shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], cst.Tuple) else nodes.tuple_of(sizes)
        rank = len(shape.elements) if isinstance(shape, cst.Tuple) else -1
        lengths = (
            tuple(v if isinstance(v := nodes.literal(e.value), int) else None for e in shape.elements)
            if isinstance(shape, cst.Tuple)
            else ()
        )
        facts.attributes[name] = Tensor("float", rank)
        facts.parameters[name] = BoundWeight(name, "params", facts.renamed.get(name, name), (), lengths)
        made = nodes.call("self.param", nodes.expression(f'"{name}"'), maker, shape)
        return [nodes.statement(f"self.{name} = {{made}}", made=made)]

    # -- containers ---------------------------------------------------------------------------------------------------

    def torch_nn_Sequential(self, node: cst.Call) -> Value:
        """Layers in a row: channels stay last between those that want them so."""
        if len(node.args) == 1 and node.args[0].star == "*":
            return self.dynamic_list(node.args[0].value, "/layers_")
        if len(node.args) == 1 and isinstance(node.args[0].value, cst.Call):
            name = nodes.dotted(node.args[0].value.func) or ""
            if name.endswith("OrderedDict"):
                return self.named_sequential(node.args[0].value)
        values = [self.expr(arg.value) for arg in node.args]
        return self.sequence(values)

    def named_sequential(self, node: cst.Call) -> Value:
        raise Unsupported("MIG201", "nn.Sequential of an OrderedDict")

    def sequence(self, values: Sequence[Value]) -> Value:
        elements: list[Expr] = []
        children: list[Node] = []
        layout, entry, rank = "any", "any", 0
        for value in values:
            kind = value.kind
            if not isinstance(kind, Module) or len(kind.options) != 1:
                raise Unsupported("MIG201", f"nn.Sequential of {nodes.code(value.node)}, which is no known layer")
            if kind.entry == "last" and layout == "first":
                elements.append(nodes.expression("(lambda x: {x})", x=linen.channels_last(nodes.name("x"), kind.rank)))
                children.append(LayerNode(""))
            if kind.entry == "first" and layout == "last":
                elements.append(nodes.expression("(lambda x: {x})", x=linen.channels_first(nodes.name("x"), rank)))
                children.append(LayerNode(""))
            if layout == "any" and kind.entry != "any":
                entry = kind.entry
            if kind.exit != "any":
                layout, rank = kind.exit, kind.rank or rank
            elements.append(_bare(value.node))
            children.append(kind.options[0])
        made = cst.Call(nodes.expression("nn.Sequential"), [cst.Arg(_layer_list(elements))])
        first_rank = next((v.kind.rank for v in values if isinstance(v.kind, Module) and v.kind.entry == "last"), 0)
        return Value(made, Module((ListNode(tuple(children), "/layers_"),), entry, layout, first_rank or rank))

    def dynamic_list(self, value: Expr, infix: str) -> Value:
        """Modules whose number is not known: `nn.Sequential(*layers)`, `nn.ModuleList([... for ...])`."""
        lowered = self.expr(value)
        kind = lowered.kind
        if not isinstance(kind, Items):
            raise Unsupported("MIG201", f"{nodes.code(value)} is not known to hold modules")
        if kind.items is not None:
            elements = [e.value for e in lowered.node.elements] if isinstance(lowered.node, cst.List) else None
            if elements is not None and infix == "/layers_":
                return self.sequence([Value(n, k) for n, k in zip(elements, kind.items, strict=True)])
            children = tuple(k.options[0] for k in kind.items if isinstance(k, Module) and len(k.options) == 1)
            if len(children) != len(kind.items):
                raise Unsupported("MIG201", f"{nodes.code(value)} is not known to hold modules only")
            joined = kind.joined()
            if not isinstance(joined, Module):
                raise Unsupported("MIG201", f"{nodes.code(value)} holds no modules")
            tree: Node = ListNode(children, infix)
        else:
            joined = kind.element
            if not isinstance(joined, Module):
                raise Unsupported("MIG201", f"{nodes.code(value)} is not known to hold modules only")
            tree = ListNode(joined.options, infix, dynamic=True)
        if joined.entry == "mixed" and infix == "/layers_":
            raise Unsupported(
                "MIG201", f"{nodes.code(value)} holds layers that want their channels in different places"
            )
        node = lowered.node
        if infix == "/layers_":
            node = nodes.call(
                "nn.Sequential",
                node.with_changes(lpar=[], rpar=[]) if isinstance(node, cst.ListComp | cst.Name) else node,
            )
        return Value(node, Module((tree,), joined.entry, joined.exit, joined.rank))

    def torch_nn_ModuleList(self, node: cst.Call) -> Value:
        if not node.args or (isinstance(node.args[0].value, cst.List) and not node.args[0].value.elements):
            return Value(cst.List([]), Items((), type="modules"))
        lowered = self.dynamic_list(node.args[0].value, "_")
        if isinstance(lowered.node, cst.GeneratorExp):
            lowered = Value(cst.ListComp(lowered.node.elt, lowered.node.for_in), lowered.kind)
        return lowered

    def torch_nn_ModuleDict(self, node: cst.Call) -> Value:
        raise Unsupported("MIG202", "torch.nn.ModuleDict")

    def setup_call(self, line: cst.SimpleStatementLine, node: cst.Call) -> list[Statement] | None:
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

    def buffer(self, facts: ClassFacts, node: cst.Call) -> list[Statement]:
        """A buffer that is never assigned again is a constant, made anew in `setup`."""
        name = nodes.literal(node.args[0].value)
        if not isinstance(name, str):
            raise Unsupported("MIG201", "a buffer whose name is not written out")
        value = self.expr(node.args[1].value)
        if "make_rng" in nodes.code(value.node):
            raise Unsupported("MIG201", f"the buffer {name} is drawn at random")
        if not isinstance(value.kind, Tensor):
            raise Unsupported("MIG201", f"the buffer {name} is not known to be a tensor")
        facts.attributes[name] = value.kind
        facts.buffers[name] = "a constant, made anew in setup"
        return [nodes.statement(f"self.{name} = {{v}}", v=value.node)]

    def applied_initializer(self, facts: ClassFacts, function: Expr) -> None:
        """`self.apply(init)`: every layer of the tree takes the initialisers that `init` gives its kind."""
        path = nodes.dotted(function) or ""
        found = path.removeprefix("self.")
        body = (
            next((s for s in facts.node.body.body if isinstance(s, cst.FunctionDef) and s.name.value == found), None)
            if path.startswith("self.")
            else None
        )
        if body is None:
            named = self.script.functions.get(path)
            body = named.node if named else None
        if body is None:
            raise Unsupported("MIG204", f"apply({path})")
        self.initialize_tree(facts, body)

    def initialize_tree(self, facts: ClassFacts, function: cst.FunctionDef) -> None:
        from migrate.script import classes_in

        seen: set[str] = set()
        pending = [facts.name]
        while pending:
            cls = pending.pop()
            inner = self.script.classes.get(cls)
            if cls in seen or inner is None:
                continue
            seen.add(cls)
            for torch in TABLE:
                given = initializers_of(self, function, torch)  # type: ignore[arg-type]
                if given:
                    inner.initializers[torch] = given
            pending += [found for node in inner.children.values() for found in classes_in(node)]

    def called_statement(self, line: cst.SimpleStatementLine, node: cst.Call) -> list[Statement] | None:
        if self.context == "setup":
            special = self.setup_call(line, node)
            if special is not None:
                return special
        return super().called_statement(line, node)

    def init_statement(self, node: cst.Call, name: str) -> list[Statement]:
        raise Unsupported("MIG204", f"{nodes.code(node)} outside a function given to apply")


def _calls(node: cst.CSTNode) -> list[cst.Call]:
    from migrate.train_step import calls_in

    return calls_in(node)


def _only_layer(node: Node | None) -> LayerNode | None:
    return node if isinstance(node, LayerNode) else None


def _has_modules(kind: Items) -> bool:
    return isinstance(kind.joined(), Module)


def _bare(node: Expr) -> Expr:
    """A lambda needs no parentheses inside a list."""
    return node.with_changes(lpar=[], rpar=[]) if isinstance(node, cst.Lambda) else node


def _layer_list(elements: Sequence[Expr]) -> cst.List:
    """A list of layers, one to a line where there are several."""
    if len(elements) < 2:
        return cst.List([cst.Element(element) for element in elements])
    newline = cst.ParenthesizedWhitespace(
        cst.TrailingWhitespace(), indent=True, last_line=cst.SimpleWhitespace("            "[:4])
    )
    made = [cst.Element(e, comma=cst.Comma(whitespace_after=newline)) for e in elements[:-1]]
    end = cst.ParenthesizedWhitespace(cst.TrailingWhitespace(), indent=True)
    made.append(cst.Element(elements[-1], comma=cst.Comma(whitespace_after=end)))
    return cst.List(made, lbracket=cst.LeftSquareBracket(newline))


class _FieldReads(cst.CSTTransformer):
    """Constructor parameters are fields in `setup`: `x` is read as `self.x`."""

    def __init__(self, fields: set[str], rebound: set[str]) -> None:
        super().__init__()
        self.fields = fields - rebound

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return True

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        return nodes.expression(f"self.{original_node.value}") if original_node.value in self.fields else updated_node


def _is_super_init(statement: Statement) -> bool:
    text = nodes.code(statement).strip() if isinstance(statement, cst.SimpleStatementLine) else ""
    return "super(" in text and ".__init__(" in text


def _assigns_itself(statement: Statement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Assign):
        return False
    assign = statement.body[0]
    return len(assign.targets) == 1 and nodes.code(assign.targets[0].target) == nodes.code(assign.value)


def _after_docstring(body: list[Statement], extra: Sequence[Statement]) -> list[Statement]:
    from migrate.lower_statements import _is_docstring

    position = 1 if body and _is_docstring(body[0]) else 0
    return [*body[:position], *extra, *body[position:]]


def _apart(statement: Statement) -> Statement:
    """A method with a blank line before it."""
    if not isinstance(statement, cst.FunctionDef) or any(line.comment is None for line in statement.leading_lines):
        return statement
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False), *statement.leading_lines])


def _without_leading_blank(statements: list[Statement]) -> list[Statement]:
    head = statements[0]
    lines = [line for line in head.leading_lines if line.comment is not None]
    return [head.with_changes(leading_lines=lines), *statements[1:]]


__all__ = ["Modules", "with_comments"]
