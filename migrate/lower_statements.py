"""Statements and functions: each is lowered in order, with what it makes known for those after it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate import layouts, nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    UNKNOWN,
    Device,
    Function,
    Host,
    Items,
    Kind,
    Model,
    Never,
    Number,
    Optimizer,
    ParameterGroup,
    Place,
    Plain,
    Scheduler,
    SelfModule,
    Tensor,
    TorchName,
    join,
)
from migrate.lower_calls import NO_OPS, parts_of
from migrate.lower_state import NOWHERE, Stateful
from migrate.nodes import Expr, Statement
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value
from migrate.script import BATCH_STATS, COUNT, KEY, OPT_STATE, PARAMS, THE_KEY, FunctionFacts, State, merge
from migrate.threading import threaded_parameters

_NO_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.set_grad_enabled")
_COMPOUND = cst.BaseCompoundStatement
_LONG = 300  # characters beyond which a definition is no longer followed


def with_comments(made: list[Statement], original: Statement) -> list[Statement]:
    """Gives the first of some statements the comments and blank lines of the statement that they stand for."""
    if not made or made[0] is original:
        return made
    head = made[0]
    if list(head.leading_lines) or not original.leading_lines:
        if head.leading_lines == original.leading_lines:
            return made
    return [head.with_changes(leading_lines=original.leading_lines), *made[1:]]


def after_dropped(dropped: list[cst.EmptyLine], made: list[Statement], first: bool) -> list[Statement]:
    """The statements that follow ones that disappeared, with the comments and the paragraph break of those."""
    head = made[0]
    own = list(head.leading_lines)
    if own and own[0].comment is None:
        while dropped and dropped[-1].comment is None:
            dropped = dropped[:-1]
    if first and dropped and all(line.comment is None for line in dropped):
        dropped = []
    return [head.with_changes(leading_lines=[*dropped, *own]), *made[1:]] if dropped else made


def block(statements: Sequence[Statement]) -> cst.IndentedBlock:
    return cst.IndentedBlock(list(statements) or [nodes.statement("pass")])


class Statements(Stateful):
    """Lowering of the statements of one scope."""

    following: list[Sequence[Statement]]  # what runs after the statement being lowered, nearest first
    ran_key = False

    # -- suites -------------------------------------------------------------------------------------------------------

    def suite(self, body: Sequence[cst.BaseStatement]) -> list[Statement]:
        """Lowers the statements of one block."""
        statements = [statement for statement in body if isinstance(statement, cst.SimpleStatementLine | _COMPOUND)]
        made: list[Statement] = []
        dropped: list[cst.EmptyLine] = []
        index = 0
        while index < len(statements):
            region = self.region_at(statements, index)  # type: ignore[attr-defined]
            width = region.width if region is not None else 1
            self.following.insert(0, statements[index + width :])
            original = statements[index]
            lowered = self.guarded(original, region)
            self.following.pop(0)
            lowered = lowered + self.late_inits(original)
            if lowered:
                lowered, dropped = after_dropped(dropped, lowered, first=not made), []
            else:
                dropped += self.kept_lines(original)
            made += lowered
            index += width
        return made

    def kept_lines(self, original: Statement) -> list[cst.EmptyLine]:
        """The comments of a statement that disappears, with their blank lines; a comment on zero_grad() goes with it."""
        if any(line.comment is not None for line in original.leading_lines) and "zero_grad(" not in nodes.code(
            original
        ):
            return list(original.leading_lines)
        return [line for line in original.leading_lines if line.comment is None][:1]

    def guarded(self, original: Statement, region: object) -> list[Statement]:
        """One statement; what cannot be lowered stays as a comment above an exception that names the code."""
        outer, self.before = self.before, []
        try:
            if region is not None:
                made = self.lower_region(region)  # type: ignore[attr-defined]
            else:
                made = self.statement(original)
            if self.before and made and made[0].leading_lines == original.leading_lines:
                made = [made[0].with_changes(leading_lines=[]), *made[1:]]
            made = [*self.before, *made]
        except Unsupported as error:
            self.unit.report(error, original)
            originals = region.statements if region is not None else [original]  # type: ignore[attr-defined]
            made = [self.refusal(error, originals)]
            self.unit.refused |= set(nodes.stores(originals))
            for name in nodes.stores(originals):
                self.env.kinds[name] = UNKNOWN
                self.env.definitions.pop(name, None)
        finally:
            self.before = outer
        if made and made[0] is not original:
            made = with_comments(made, original)
        return made

    def refusal(self, error: Unsupported, originals: Sequence[Statement]) -> Statement:
        line, _ = self.unit.source.place(originals[0])
        text = " ".join(f"{error.code}: {error.message}".split()).replace("\\", "\\\\").replace('"', '\\"')
        made = nodes.statement(f'raise NotImplementedError("{text}")')
        source = cst.Module(list(originals)).code.strip("\n").splitlines()
        lines = [cst.EmptyLine(comment=cst.Comment(f"# {text}".rstrip())) for text in source]
        return made.with_changes(leading_lines=lines)

    def statement(self, original: Statement) -> list[Statement]:
        if isinstance(original, cst.SimpleStatementLine):
            if len(original.body) == 1:
                return self.small(original, original.body[0])
            made: list[Statement] = []
            for number, small in enumerate(original.body):
                single = cst.SimpleStatementLine([small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
                if number == 0:
                    single = single.with_changes(leading_lines=original.leading_lines)
                made += self.small(single, small)
            return made
        handler = getattr(self, f"statement_{type(original).__name__}")
        return handler(original)

    def small(self, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> list[Statement]:
        handler = getattr(self, f"small_{type(small).__name__}", None)
        return [line] if handler is None else handler(line, small)

    @staticmethod
    def rebuilt(
        line: cst.SimpleStatementLine, small: cst.BaseSmallStatement, made: cst.BaseSmallStatement
    ) -> list[Statement]:
        return [line if made is small else line.with_changes(body=[made])]

    # -- imports ------------------------------------------------------------------------------------------------------

    def small_Import(self, line: cst.SimpleStatementLine, small: cst.Import) -> list[Statement]:
        for alias in small.names:
            name = nodes.dotted(alias.name) or ""
            if name.split(".")[0] in ("torch", "torchvision", "torchtext", "torchaudio"):
                bound = alias.evaluated_alias
                if bound:
                    self.env.kinds[bound] = TorchName(name)
                else:
                    self.env.kinds[name.split(".")[0]] = TorchName(name.split(".")[0])
            else:
                self.env.kinds[alias.evaluated_alias or name.split(".")[0]] = Plain("module")
        return [line]

    def small_ImportFrom(self, line: cst.SimpleStatementLine, small: cst.ImportFrom) -> list[Statement]:
        module = nodes.dotted(small.module) if small.module else ""
        if isinstance(small.names, cst.ImportStar):
            return [line]
        for alias in small.names:
            bound = alias.evaluated_alias or alias.evaluated_name
            root = (module or "").split(".")[0]
            torch = not small.relative and root in ("torch", "torchvision", "torchtext", "torchaudio")
            self.env.kinds[bound] = TorchName(f"{module}.{alias.evaluated_name}") if torch else Plain("imported")
        return [line]

    # -- assignments --------------------------------------------------------------------------------------------------

    def small_Assign(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement]:
        targets = [target.target for target in small.targets]
        if len(targets) == 1 and isinstance(targets[0], cst.Subscript):
            return self.item_assignment(line, small, targets[0])
        if len(targets) == 1 and isinstance(targets[0], cst.Attribute):
            tied = self.attribute_assignment(line, targets[0], small.value)  # type: ignore[attr-defined]
            if tied is not None:
                return tied
        self.pending_place = self.place_of(targets[0])
        special = self.assigned_call(line, small, targets)
        if special is not None:
            return special
        value = self.expr(small.value)
        return self.assign(line, small, targets, value)

    def place_of(self, target: cst.CSTNode) -> Place:
        if isinstance(target, cst.Name):
            return Place(self.scope, target.value)
        if isinstance(target, cst.Attribute) and nodes.dotted(target.value) == "self":
            return Place(self.scope.rpartition(".")[0], f"self.{target.attr.value}")
        return NOWHERE

    def assign(
        self,
        line: cst.SimpleStatementLine,
        small: cst.Assign,
        targets: list[cst.BaseAssignTargetExpression],
        value: Value,
    ) -> list[Statement]:
        kind, node = value.kind, value.node
        self.refuse_torch(value)
        if isinstance(kind, Items) and any(isinstance(p, Optimizer) and p.place == NOWHERE for p in parts_of(kind)):
            raise Unsupported("MIG401", "an optimizer that has no name of its own")
        if isinstance(kind, ParameterGroup):
            self.bind(targets[0], kind)
            return []
        if isinstance(kind, Device) and all(isinstance(target, cst.Name) for target in targets):
            for target in targets:
                self.bind(target, kind)
            used = {target.value for target in targets if isinstance(target, cst.Name)} & self.script.device_used
            if not used:
                return []
            return self.rebuilt(line, small, small.with_changes(value=nodes.expression("jax.default_backend()")))
        if isinstance(kind, Model) and kind.place is None and len(targets) == 1:
            return self.new_model(line, small, targets[0], value)  # type: ignore[attr-defined]
        if isinstance(kind, Optimizer) and kind.place == NOWHERE:
            return self.new_optimizer(line, small, targets[0], value)
        if isinstance(kind, Scheduler) and kind.place == NOWHERE:
            return self.new_scheduler(line, small, targets[0], value)
        if len(targets) == 1 and isinstance(targets[0], cst.Name) and nodes.dotted(node) == targets[0].value:
            self.bind(targets[0], kind, value.layout)
            return []  # x = x.contiguous()
        if len(targets) == 1 and isinstance(targets[0], cst.Tuple) and _same_names(targets[0], node):
            for number, element in enumerate(targets[0].elements):
                self.bind(element.value, self.part(kind, number, len(targets[0].elements)))
            return []  # x, y = x.to(device), y.to(device)
        if len(targets) == 1 and isinstance(targets[0], cst.Tuple):
            pruned = self.pruned(line, small, targets[0], value)
            if pruned is not None:
                return pruned
        layout = value.layout if len(targets) == 1 and isinstance(targets[0], cst.Name) else "first"
        if layout == "first":
            node = layouts.first(value)
        if isinstance(node, cst.Lambda):
            node = node.with_changes(lpar=[], rpar=[])
        self.define(targets, small.value)
        for target in targets:
            self.bind(target, kind, layout)
        made_targets = [self.stored_target(target) for target in small.targets]
        made = self.rebuilt(line, small, small.with_changes(value=node, targets=made_targets))
        return made + self.converted(targets)

    def stored_target(self, target: cst.AssignTarget) -> cst.AssignTarget:
        node = target.target
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
            kind = self.kind_of_name(node.value.value)
            if isinstance(kind, SelfModule):
                renamed = self.script.classes[kind.cls].renamed.get(node.attr.value)
                if renamed:
                    return target.with_changes(target=node.with_changes(attr=cst.Name(renamed)))
        return target

    def pruned(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.Tuple, value: Value
    ) -> list[Statement] | None:
        """`_, y = a, b` keeps what is kept: `y = b`."""
        if not isinstance(value.node, cst.Tuple) or isinstance(small.value, cst.Tuple):
            return None
        names = [element.value for element in target.elements]
        if len(names) != len(value.node.elements) or not all(isinstance(name, cst.Name) for name in names):
            return None
        kept = [
            (name, element.value)
            for name, element in zip(names, value.node.elements, strict=True)
            if isinstance(name, cst.Name) and name.value != "_"
        ]
        for number, name in enumerate(names):
            self.bind(name, self.part(value.kind, number, len(names)))
        if len(kept) != 1:
            made_value = nodes.tuple_of([node for _, node in kept], parentheses=False)
            made_target = nodes.tuple_of([name for name, _ in kept], parentheses=False)
        else:
            made_target, made_value = kept[0]
        return [line.with_changes(body=[small.with_changes(targets=[cst.AssignTarget(made_target)], value=made_value)])]

    def define(self, targets: Sequence[cst.CSTNode], value: Expr) -> None:
        """Remembers what names stand for. A name that is bound again keeps its old meaning in what was defined by it."""
        bound = [name for target in targets for name in _target_names(target)]
        meant = self.retire(bound, value)
        for target in targets:
            self.define_target(target, meant)

    def retire(self, names: Sequence[str], value: Expr | None) -> Expr | None:
        """Replaces names that are about to be bound again by their definitions, wherever they are used."""
        definitions = self.env.definitions
        old = {name: definitions[name] for name in names if name in definitions}
        if old:
            for name, definition in list(definitions.items()):
                if name not in old and set(nodes.loads(definition)) & set(old):
                    definitions[name] = nodes.substituted(definition, old)
            if value is not None and set(nodes.loads(value)) & set(old):
                value = nodes.substituted(value, old)
        return None if value is None or len(nodes.code(value)) > _LONG else value

    def define_target(self, target: cst.CSTNode, value: Expr | None) -> None:
        if isinstance(target, cst.Name):
            self.env.definitions.pop(target.value, None)
            if value is not None:
                self.env.definitions[target.value] = value
        elif isinstance(target, cst.Tuple | cst.List):
            for number, element in enumerate(target.elements):
                part = None
                if isinstance(value, cst.Tuple) and len(value.elements) == len(target.elements):
                    part = value.elements[number].value
                elif value is not None:
                    part = nodes.expression("{value}[" + str(number) + "]", value=value)
                self.define_target(element.value, part)

    def converted(self, targets: Sequence[cst.CSTNode]) -> list[Statement]:
        """Batches that a binding took from a loader, as jax arrays where JAX code uses them and torch code does not."""
        names = []
        for target in targets:
            for name in _target_names(target):
                kind = self.env.kinds.get(name)
                if isinstance(kind, Host) and kind.what == "tensor" and kind.origin in self.script.wanted:
                    if kind.origin not in self.script.kept:
                        names.append(name)
        wanted = [name for name in names if self.loaded_later(name)]
        if not wanted or self.context in ("forward", "setup", "region"):
            return []
        for name in wanted:
            self.env.kinds[name] = Tensor()
        if len(wanted) == 1:
            return [nodes.statement(f"{wanted[0]} = jnp.asarray({wanted[0]})")]
        left, right = ", ".join(wanted), ", ".join(f"jnp.asarray({name})" for name in wanted)
        return [nodes.statement(f"{left} = {right}")]

    def loaded_later(self, name: str) -> bool:
        return any(name in nodes.loads(statements) for statements in self.following[:2])

    def assigned_call(
        self, line: cst.SimpleStatementLine, small: cst.Assign, targets: list[cst.BaseAssignTargetExpression]
    ) -> list[Statement] | None:
        """`y = f(x)` where f changes state: `params, opt_state, y = f(params, opt_state, x)`."""
        if not isinstance(small.value, cst.Call) or not isinstance(small.value.func, cst.Name):
            return None
        callee = self.expr(small.value.func)
        if not isinstance(callee.kind, Function):
            return None
        facts = self.script.functions[callee.kind.name]
        if not facts.writes - {THE_KEY}:
            return None
        value = self.user_call(small.value, callee, callee.kind, statement=True)
        states = self.returned_states(facts)
        for target in targets:
            self.bind(target, value.kind)
            self.define_target(target, None)
        names = [*states, *(target.target for target in small.targets)]
        if len(small.targets) != 1 or isinstance(facts.returns, Never):
            raise Unsupported("MIG404", f"{callee.kind.name} changes state and returns nothing that could be assigned")
        made = small.with_changes(
            targets=[cst.AssignTarget(nodes.tuple_of(names, parentheses=False))], value=value.node
        )  # type: ignore[arg-type]
        return [line.with_changes(body=[made])]

    def returned_states(self, facts: FunctionFacts) -> list[Expr]:
        """The variables of this scope that take what a function returns of its state."""
        made = []
        for state in facts.written:
            if state.what != KEY:
                made.append(self.write(State(state.what, self.outside(facts, state.place))))
        return made

    def item_assignment(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.Subscript
    ) -> list[Statement]:
        """`x[i] = v`: a new array under the same name."""
        base = self.expr(target.value)
        value = self.expr(small.value)
        if not isinstance(base.kind, Tensor):
            lowered = self.expr(target)
            return self.rebuilt(
                line,
                small,
                small.with_changes(value=layouts.first(value), targets=[cst.AssignTarget(lowered.node)]),  # type: ignore[arg-type]
            )
        if not isinstance(target.value, cst.Name):
            raise Unsupported("MIG303", f"{nodes.code(target.value)} is changed in place")
        lowered = self.expr(target).node
        assert isinstance(lowered, cst.Subscript)
        place = lowered.with_changes(value=cst.Attribute(layouts.first(base), cst.Name("at")))
        made = nodes.call(cst.Attribute(place, cst.Name("set")), layouts.first(self.as_array(value)))
        return [line.with_changes(body=[small.with_changes(targets=[cst.AssignTarget(target.value)], value=made)])]

    def small_AnnAssign(self, line: cst.SimpleStatementLine, small: cst.AnnAssign) -> list[Statement]:
        if small.value is None:
            return [line]
        value = self.expr(small.value)
        self.define([small.target], small.value)
        self.bind(small.target, value.kind)
        made = small.with_changes(value=layouts.first(value))
        if "torch" in nodes.code(small.annotation.annotation):
            made = cst.Assign([cst.AssignTarget(small.target)], layouts.first(value))
        return self.rebuilt(line, small, made)

    def small_AugAssign(self, line: cst.SimpleStatementLine, small: cst.AugAssign) -> list[Statement]:
        target, value = self.expr(small.target), self.expr(small.value)
        if isinstance(target.kind, Tensor) and isinstance(small.target, cst.Subscript):
            operation = {
                "AddAssign": "add",
                "SubtractAssign": "add",
                "MultiplyAssign": "multiply",
                "DivideAssign": "divide",
            }
            name = operation.get(type(small.operator).__name__)
            if name is None or not isinstance(small.target.value, cst.Name):
                raise Unsupported("MIG303", f"{nodes.code(small.target)} is changed in place")
            lowered = target.node
            assert isinstance(lowered, cst.Subscript)
            place = lowered.with_changes(value=nodes.expression("{x}.at", x=lowered.value))
            change = layouts.first(value)
            if isinstance(small.operator, cst.SubtractAssign):
                change = nodes.expression("-{x}", x=change)
            made = nodes.call(cst.Attribute(place, cst.Name(name)), change)
            return [line.with_changes(body=[cst.Assign([cst.AssignTarget(small.target.value)], made)])]
        tensor = isinstance(target.kind, Tensor) or isinstance(value.kind, Tensor)
        if tensor:
            value = self.as_array(value)
        if isinstance(small.target, cst.Name):
            name = small.target.value
            self.env.definitions.pop(name, None)
            if target.layout == "last" or value.layout == "last":
                both = layouts.agree([target, value])
                if any(one.layout == "last" for one in both):
                    return self.rebuilt(line, small, small.with_changes(value=both[1].node))
                left = layouts.first(target)
                operator = {"AddAssign": "+", "SubtractAssign": "-", "MultiplyAssign": "*", "DivideAssign": "/"}
                symbol = operator[type(small.operator).__name__]
                self.env.last.pop(name, None)
                made = nodes.expression(f"{{a}} {symbol} {{b}}", a=left, b=layouts.first(value))
                return [line.with_changes(body=[cst.Assign([cst.AssignTarget(small.target)], made)])]
            if tensor:
                self.env.kinds[name] = (
                    join(target.kind, value.kind) if isinstance(target.kind, Number | Tensor) else target.kind
                )
            elif isinstance(target.kind, Items) and isinstance(value.kind, Items):
                empty = target.kind.items == ()
                element = value.kind.joined() if empty else join(target.kind.joined(), value.kind.joined())
                self.env.kinds[name] = Items(None, element, target.kind.type)
        return self.rebuilt(line, small, small.with_changes(value=layouts.first(value)))

    # -- expression statements ----------------------------------------------------------------------------------------

    def small_Expr(self, line: cst.SimpleStatementLine, small: cst.Expr) -> list[Statement]:
        node = small.value
        if isinstance(node, cst.Call):
            special = self.called_statement(line, node)
            if special is not None:
                return special
        value = self.expr(node)
        if isinstance(value.kind, Model | Device) or (isinstance(node, cst.Call) and isinstance(value.node, cst.Name)):
            return []  # model.eval(), x.requires_grad_()
        return self.rebuilt(line, small, small.with_changes(value=layouts.first(value)))

    def called_statement(self, line: cst.SimpleStatementLine, node: cst.Call) -> list[Statement] | None:
        """A call that is a statement of its own, where that means more than its value."""
        func = node.func
        name = self.torch_name(func)
        if name is not None:
            return self.torch_statement(line, node, name)
        if isinstance(func, cst.Name):
            callee = self.expr(func)
            if isinstance(callee.kind, Function):
                return self.user_statement(line, node, callee, callee.kind)
            return None
        if not isinstance(func, cst.Attribute):
            return None
        base, method = self.expr(func.value), func.attr.value
        if isinstance(base.kind, Model) and base.kind.place is not None:
            return self.model_statement(node, base.kind, method)
        if isinstance(base.kind, Optimizer):
            return self.optimizer_statement(line, node, base.kind, method)
        if isinstance(base.kind, Scheduler) and method == "step":
            return self.scheduler_step(node, base)
        if isinstance(base.kind, Tensor) and method.endswith("_") and not method.startswith("__"):
            return self.in_place(line, func, node, base)
        return None

    def torch_name(self, func: Expr) -> str | None:
        """The torch name that a function expression stands for, without lowering its receiver."""
        text = nodes.dotted(func)
        if text is None:
            return None
        head, _, rest = text.partition(".")
        kind = self.env.lookup(head)
        if not isinstance(kind, TorchName):
            return None
        return f"{kind.name}.{rest}" if rest else kind.name

    def torch_statement(self, line: cst.SimpleStatementLine, node: cst.Call, name: str) -> list[Statement] | None:
        if name in NO_OPS:
            return []
        if name in ("torch.manual_seed", "torch.random.manual_seed"):
            return self.seed(line, node)
        if name.startswith("torch.nn.init."):
            return self.init_statement(node, name)  # type: ignore[attr-defined]
        if name in ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm"):
            return self.clip_statement(node)  # type: ignore[attr-defined]
        return None

    def seed(self, line: cst.SimpleStatementLine, node: cst.Call) -> list[Statement]:
        """torch's seed becomes the key; it also stays where torch still draws (the shuffling of a loader)."""
        seed = self.node(node.args[0].value)
        made: list[Statement] = []
        if self.facts is None:
            self.script.loads["module seeds"] = 1
        if self.facts is not None and not self.facts.local_key:
            parameter = nodes.dotted(seed)
            if parameter in {p.name.value for p in self.facts.node.params.params} and not self.facts.needs_key:
                self.facts.seeds = parameter or ""
                return [line]
        if self.script.loads["loader"]:
            made.append(line)
        if self.wants_key():
            made.append(nodes.statement(f"{self.unit.key} = jax.random.key({{seed}})", seed=seed))
            self.ran_key = True
        return made

    def wants_key(self) -> bool:
        """Whether this scope keeps the key itself."""
        return self.facts.local_key if self.facts is not None else bool(self.script.loads["module key"])

    def user_statement(
        self, line: cst.SimpleStatementLine, node: cst.Call, callee: Value, kind: Function
    ) -> list[Statement]:
        facts = self.script.functions[kind.name]
        value = self.user_call(node, callee, kind, statement=True)
        states = self.returned_states(facts)
        if facts.seeds and self.wants_key():
            names = [p.name.value for p in facts.node.params.params]
            seed = next(
                (
                    arg.value
                    for number, arg in enumerate(node.args)
                    if (arg.keyword.value if arg.keyword else names[number]) == facts.seeds
                ),
                None,
            )
            if seed is not None:
                self.ran_key = True
                return [line, nodes.statement(f"{self.unit.key} = jax.random.key({{seed}})", seed=self.node(seed))]
        if not states:
            return [line.with_changes(body=[cst.Expr(value.node)])]
        if not isinstance(facts.returns, Never):
            states = [*states, nodes.name("_")]
        target = states[0] if len(states) == 1 else nodes.tuple_of(states, parentheses=False)
        return [line.with_changes(body=[cst.Assign([cst.AssignTarget(target)], value.node)])]  # type: ignore[arg-type]

    def model_statement(self, node: cst.Call, kind: Model, method: str) -> list[Statement] | None:
        place = kind.place
        assert place is not None
        if method == "load_state_dict":
            return self.load_model(node, kind)
        if method == "apply":
            return self.apply_initializer(node, kind)  # type: ignore[attr-defined]
        if method == "zero_grad":
            optimizers = [found for found in self.script.optimizers]
            if len(optimizers) == 1:
                return self.optimizer_statement(None, node, Optimizer(optimizers[0], (place,)), "zero_grad")
            raise Unsupported("MIG401", f"{place.name}.zero_grad() with {len(optimizers)} optimizers")
        return None

    def load_model(self, node: cst.Call, kind: Model) -> list[Statement]:
        """`model.load_state_dict(x)`: the file or the dict is read back into the same structure."""
        assert kind.place is not None
        source = node.args[0].value
        target = self.write(State(PARAMS, kind.place))
        what = self.saved(kind)
        names = [target]
        if self.stats_of(kind):
            names.append(self.write(State(BATCH_STATS, kind.place)))
        if isinstance(source, cst.Call) and self.torch_name(source.func) == "torch.load":
            path = self.node(source.args[0].value)
            loaded = nodes.expression(
                "serialization.from_bytes({what}, Path({path}).read_bytes())", what=what, path=path
            )
        else:
            loaded = nodes.expression(
                "serialization.from_state_dict({what}, {source})", what=what, source=self.node(source)
            )
        if len(names) == 1:
            return [nodes.statement("{target} = {loaded}", target=target, loaded=loaded)]
        return [
            nodes.statement("variables = {loaded}", loaded=loaded),
            nodes.statement(
                '{params}, {stats} = variables["params"], variables["batch_stats"]', params=names[0], stats=names[1]
            ),
        ]

    def optimizer_statement(
        self, line: cst.SimpleStatementLine | None, node: cst.Call, kind: Optimizer, method: str
    ) -> list[Statement] | None:
        if method == "load_state_dict":
            target = self.write(State(OPT_STATE, kind.place))
            source = self.node(node.args[0].value)
            text = "{target} = serialization.from_state_dict({target}, {source})"
            return [nodes.statement(text, target=target, source=source)]
        if method == "zero_grad":
            return self.zero_grad(kind)  # type: ignore[attr-defined]
        if method == "step":
            return self.optimizer_step(node, kind)  # type: ignore[attr-defined]
        if method == "add_param_group":
            raise Unsupported("MIG401", "add_param_group changes the optimizer in the middle of training")
        return None

    def scheduler_step(self, node: cst.Call, base: Value) -> list[Statement]:
        kind = base.kind
        assert isinstance(kind, Scheduler)
        if node.args:
            raise Unsupported("MIG401", f"{nodes.code(node)}: a scheduler stepped with an argument")
        count = State(COUNT, kind.place)
        steps = self.read(count)
        self.write(count)
        return [
            nodes.statement("{steps} += 1", steps=steps),
            self.set_rate(kind.optimizer, nodes.expression("{s}({n})", s=base.node, n=steps)),
        ]

    def set_rate(self, optimizer: Place, rate: Expr) -> Statement:
        """Gives the optimizer state another learning rate."""
        state = State(OPT_STATE, optimizer)
        self.read(state)
        text = "{state} = optax.tree_utils.tree_set({state}, learning_rate={rate})"
        return nodes.statement(text, state=self.write(state), rate=rate)

    def in_place(
        self, line: cst.SimpleStatementLine, func: cst.Attribute, node: cst.Call, base: Value
    ) -> list[Statement]:
        """`x.add_(y)` on a plain name: the name is bound again."""
        rule = RULES.get(f"Tensor.{func.attr.value[:-1]}")
        if not isinstance(func.value, cst.Name):
            raise Unsupported("MIG303", f"{nodes.code(func.value)} is changed in place")
        if func.attr.value in ("zero_", "fill_") and rule is None:
            value: Expr = self.node(node.args[0].value) if node.args else cst.Integer("0")
            made = nodes.expression("jnp.full_like({x}, {v})", x=layouts.first(base), v=value)
            return [line.with_changes(body=[cst.Assign([cst.AssignTarget(func.value)], made)])]
        if rule is None:
            raise Unsupported("MIG301", f"Tensor.{func.attr.value}")
        value_made = self.apply_rule(rule, f"Tensor.{func.attr.value}", node, base)
        self.bind(func.value, value_made.kind, value_made.layout)
        return [line.with_changes(body=[cst.Assign([cst.AssignTarget(func.value)], value_made.node)])]

    # -- optimizers and schedulers made -------------------------------------------------------------------------------

    def new_optimizer(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.BaseAssignTargetExpression, value: Value
    ) -> list[Statement]:
        place = self.place_of(target)
        assert isinstance(value.kind, Optimizer)
        kind = Optimizer(place, value.kind.models)
        self.script.optimizers.add(place)
        self.bind(target, kind)
        self.optimizer_models[place] = kind.models
        made = self.rebuilt(line, small, small.with_changes(value=value.node))
        (model,) = kind.models if len(kind.models) == 1 else (None,)
        if model is None:
            raise Unsupported("MIG401", "an optimizer of several models")
        return made + self.when_ready(("optimizer", place), [model])  # type: ignore[attr-defined]

    optimizer_models: dict[Place, tuple[Place, ...]]

    def new_scheduler(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.BaseAssignTargetExpression, value: Value
    ) -> list[Statement]:
        place = self.place_of(target)
        assert isinstance(value.kind, Scheduler)
        self.bind(target, Scheduler(place, value.kind.optimizer))
        made = self.rebuilt(line, small, small.with_changes(value=value.node))
        count = self.state_expr(State(COUNT, place))
        return [*made, nodes.statement("{count} = 0", count=count)]

    # -- control flow -------------------------------------------------------------------------------------------------

    def settle(self, body: Sequence[cst.CSTNode]) -> list[Statement]:
        """Before a branch or a loop: names whose channels are last and that it touches go back to torch's order."""
        touched = set(nodes.loads(body)) | set(nodes.stores(body))
        made: list[Statement] = []
        for name, rank in list(self.env.last.items()):
            if name in touched:
                value = Value(nodes.name(name), Tensor(rank=rank), "last")
                made.append(nodes.statement(f"{name} = {{x}}", x=layouts.first(value)))
                del self.env.last[name]
        return made

    def statement_If(self, node: cst.If) -> list[Statement]:
        settled = self.settle([node])
        test = self.expr(node.test)
        self.use(node.test, test)
        if isinstance(test.kind, Tensor) and self.context in ("forward", "region"):
            raise Unsupported("MIG401", f"`if {nodes.code(node.test)}` depends on the values of a tensor")
        start = self.env.copy()
        body = self.suite(node.body.body)
        after_body = self.env.copy()
        self.env.replace(start)
        orelse: cst.If | cst.Else | None = None
        rest: list[Statement] = []
        if isinstance(node.orelse, cst.If):
            inner = self.statement_If(node.orelse)
            if len(inner) == 1 and isinstance(inner[0], cst.If):
                orelse = inner[0]
            elif inner:
                rest = inner
        elif node.orelse is not None:
            rest = self.suite(node.orelse.body.body)
        if rest:
            else_ = node.orelse if isinstance(node.orelse, cst.Else) else cst.Else(block([]))
            orelse = else_.with_changes(body=self.block_of(else_.body, rest))
        exits = bool(body) and _exits(body[-1])
        if not exits:
            self.env.join(after_body)
        if not body and orelse is None and _pure(node.test):
            return settled
        if not body and isinstance(orelse, cst.Else):
            negated = nodes.expression("not {test}", test=layouts.first(test))
            return [*settled, node.with_changes(test=negated, body=orelse.body, orelse=None)]
        made = node.with_changes(test=layouts.first(test), body=self.block_of(node.body, body), orelse=orelse)
        return [*settled, made]

    @staticmethod
    def block_of(original: cst.BaseSuite, statements: list[Statement]) -> cst.BaseSuite:
        if isinstance(original, cst.IndentedBlock):
            return original.with_changes(body=statements or [nodes.statement("pass")])
        return block(statements)

    def statement_Else(self, node: cst.Else) -> list[Statement]:
        return self.suite(node.body.body)

    def loop_body(self, body: cst.BaseSuite, bind: object) -> list[Statement]:
        """The body of a loop: once for what it makes known to its own next turn, then for good."""
        assert callable(bind)
        start = self.env.copy()
        with self.unit.discarding():
            bind()
            self.suite(body.body)
        self.env.join(start)
        head = self.env.copy()
        bound = bind()
        made = [*(bound or []), *self.suite(body.body)]
        self.env.join(head)
        return made

    def statement_For(self, node: cst.For) -> list[Statement]:
        rates = self.rate_loop(node)
        if rates is not None:
            return rates
        settled = self.settle([node])
        iterated = self.expr(node.iter)
        element = self.iterated(iterated.kind, id(node))

        def bind() -> list[Statement]:
            self.bind(node.target, element)
            self.retire(_target_names(node.target), None)
            self.define_loop(node.target, node.iter)
            return self.converted([node.target])

        self.following.insert(0, node.body.body)  # type: ignore[arg-type]
        before, self.before = self.before, []
        body = self.loop_body(node.body, bind)
        self.before = before
        self.following.pop(0)
        orelse = node.orelse and node.orelse.with_changes(
            body=self.block_of(node.orelse.body, self.suite(node.orelse.body.body))
        )
        made = node.with_changes(iter=layouts.first(iterated), body=self.block_of(node.body, body), orelse=orelse)
        return [*settled, made]

    def define_loop(self, target: cst.CSTNode, source: Expr) -> None:
        """What the loop variable is in the first turn."""
        if isinstance(source, cst.Call) and isinstance(source.func, cst.Name) and source.args:
            name, first = source.func.value, source.args[0].value
            if name == "enumerate" and isinstance(target, cst.Tuple) and len(target.elements) == 2:
                self.define_target(target.elements[0].value, cst.Integer("0"))
                self.define_loop(target.elements[1].value, first)
                return
            if name == "range":
                start = first if len(source.args) > 1 else cst.Integer("0")
                self.define_target(target, start)
                return
            if name == "tqdm":
                self.define_loop(target, first)
                return
        if isinstance(source, cst.List | cst.Tuple) and source.elements:
            self.define_target(target, source.elements[0].value)
            return
        self.define_target(target, nodes.call("__first__", source))

    def rate_loop(self, node: cst.For) -> list[Statement] | None:
        """`for group in optimizer.param_groups: group["lr"] = lr`."""
        if not isinstance(node.iter, cst.Attribute) or node.iter.attr.value != "param_groups":
            return None
        kind = self.expr(node.iter.value).kind
        if not isinstance(kind, Optimizer):
            return None
        body = node.body.body
        only = body[0].body[0] if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else None
        if isinstance(only, cst.Assign) and isinstance(only.targets[0].target, cst.Subscript):
            target = only.targets[0].target
            key = target.slice[0].slice
            if nodes.dotted(target.value) == nodes.dotted(node.target) and isinstance(key, cst.Index):
                if nodes.is_literal(key.value, "lr"):
                    self.script.scheduled.add(self.root(kind.place))
                    return [self.set_rate(kind.place, self.node(only.value))]
        raise Unsupported("MIG401", "param_groups changed in other ways than setting the learning rate")

    def statement_While(self, node: cst.While) -> list[Statement]:
        settled = self.settle([node])
        test = self.expr(node.test)
        if isinstance(test.kind, Tensor) and self.context in ("forward", "region"):
            raise Unsupported("MIG401", f"`while {nodes.code(node.test)}` depends on the values of a tensor")
        self.following.insert(0, node.body.body)  # type: ignore[arg-type]
        body = self.loop_body(node.body, lambda: None)
        self.following.pop(0)
        return [*settled, node.with_changes(test=layouts.first(test), body=self.block_of(node.body, body))]

    def statement_With(self, node: cst.With) -> list[Statement]:
        items = []
        for item in node.items:
            name = self.torch_name(item.item.func) if isinstance(item.item, cst.Call) else None
            if name in _NO_GRAD:
                continue
            value = self.expr(item.item)
            if item.asname is not None:
                self.bind(item.asname.name, UNKNOWN)
            items.append(item.with_changes(item=layouts.first(value), comma=cst.MaybeSentinel.DEFAULT))
        body = self.suite(node.body.body)
        if not items:
            return with_comments(body, node) if body else []
        return [node.with_changes(items=items, body=self.block_of(node.body, body))]

    def statement_Try(self, node: cst.Try) -> list[Statement]:
        start = self.env.copy()
        body = self.suite(node.body.body)
        handlers = []
        for handler in node.handlers:
            inner = self.suite(handler.body.body)
            handlers.append(handler.with_changes(body=self.block_of(handler.body, inner)))
        self.env.join(start)
        changes: dict[str, object] = {"body": self.block_of(node.body, body), "handlers": handlers}
        if node.orelse is not None:
            changes["orelse"] = node.orelse.with_changes(
                body=self.block_of(node.orelse.body, self.suite(node.orelse.body.body))
            )
        if node.finalbody is not None:
            final = self.suite(node.finalbody.body.body)
            changes["finalbody"] = node.finalbody.with_changes(body=self.block_of(node.finalbody.body, final))
        return [node.with_changes(**changes)]

    def statement_TryStar(self, node: cst.TryStar) -> list[Statement]:
        raise Unsupported("MIG301", "except* groups")

    def statement_Match(self, node: cst.Match) -> list[Statement]:
        cases = [case.with_changes(body=self.block_of(case.body, self.suite(case.body.body))) for case in node.cases]
        return [node.with_changes(subject=self.node(node.subject), cases=cases)]

    def small_Return(self, line: cst.SimpleStatementLine, small: cst.Return) -> list[Statement]:
        value = self.expr(small.value) if small.value is not None else None
        if value is not None:
            self.refuse_torch(value)
            self.refuse_state(value.kind)
        if self.facts is not None and value is not None:
            self.facts.returns = join(self.facts.returns, value.kind)
        node = layouts.first(value) if value is not None else None
        if isinstance(small.value, cst.Name) and value is not None:
            self.use(small.value, value)
        states = self.own_returns()
        if states:
            parts = [*states, *([node] if node is not None else [])]
            node = parts[0] if len(parts) == 1 else nodes.tuple_of(parts, parentheses=False)
        made = small.with_changes(value=node)
        if node is not None and small.value is None:
            made = made.with_changes(whitespace_after_return=cst.SimpleWhitespace(" "))
        return self.rebuilt(line, small, made)

    def refuse_state(self, kind: Kind) -> None:
        """A model or an optimizer made here cannot leave the function: its weights are variables of the function."""
        for part in parts_of(kind):
            place = part.place if isinstance(part, Model | Optimizer | Scheduler) else None
            if (
                place is not None
                and place not in self.script.parameters_of
                and place.scope == self.scope
                and self.scope
            ):
                raise Unsupported(
                    "MIG404",
                    f"{place.name or 'an optimizer'} is made in {self.scope} and returned, apart from its weights",
                )
            if isinstance(part, Optimizer) and place == NOWHERE:
                raise Unsupported("MIG404", f"an optimizer is made in {self.scope} and returned, apart from its state")

    def own_returns(self) -> list[Expr]:
        if self.facts is None or self.context in ("forward", "setup", "method", "region"):
            return []
        return [self.state_expr(state) for state in self.facts.written if state.what != KEY]

    def small_Assert(self, line: cst.SimpleStatementLine, small: cst.Assert) -> list[Statement]:
        value = self.expr(small.test)
        if isinstance(value.kind, Tensor) and self.context in ("forward", "region"):
            raise Unsupported("MIG401", "an assertion on the values of a tensor")
        made = small.with_changes(test=layouts.first(value), msg=small.msg and self.node(small.msg))
        return self.rebuilt(line, small, made)

    def small_Raise(self, line: cst.SimpleStatementLine, small: cst.Raise) -> list[Statement]:
        return self.rebuilt(line, small, small.with_changes(exc=small.exc and self.node(small.exc)))

    # -- functions and classes ----------------------------------------------------------------------------------------

    def statement_FunctionDef(self, node: cst.FunctionDef) -> list[Statement]:
        return [self.function(node)]

    def function(self, node: cst.FunctionDef) -> cst.FunctionDef:
        """A user's function: its body, with the state that it touches in its signature and its returns."""
        from migrate.lower import Lowering

        name = node.name.value
        qualname = f"{self.scope}.{name}" if self.scope else name
        facts = self.script.functions.setdefault(qualname, FunctionFacts(node, qualname, self.scope))
        facts.node = node
        self.env.kinds[name] = Function(qualname)
        self.env.definitions.pop(name, None)
        inner = Lowering.for_function(self, facts)  # type: ignore[arg-type]
        body = self.function_body(inner, node)
        facts.exit_modes = {place: inner.env.modes[place] for place in inner.changed_modes}
        self.script.finals[qualname] = dict(inner.env.kinds)
        if self.context == "method":
            attributes = self.script.attributes.setdefault(self.scope, {})
            for found, kind in inner.env.kinds.items():
                if found.startswith("self."):
                    merge(attributes, found, kind)
        decorators = [d for d in node.decorators if not self.no_grad(d.decorator)]
        params = self.defaults(threaded_parameters(facts, node.params, inner.parameter_name))
        params = params.with_changes(params=[_plain_annotation(parameter, self) for parameter in params.params])
        returns = None if node.returns is not None and self.mentions_torch(node.returns) else node.returns
        return node.with_changes(
            body=self.block_of(node.body, body), params=params, decorators=decorators, returns=returns
        )

    def defaults(self, params: cst.Parameters) -> cst.Parameters:
        made = [p if p.default is None else p.with_changes(default=self.node(p.default)) for p in params.params]
        return params.with_changes(params=made)

    def mentions_torch(self, annotation: cst.Annotation) -> bool:
        return any(isinstance(self.env.lookup(name), TorchName) for name in nodes.loads(annotation.annotation))

    def no_grad(self, decorator: Expr) -> bool:
        func = decorator.func if isinstance(decorator, cst.Call) else decorator
        return self.torch_name(func) in (*_NO_GRAD, "torch.compile")

    @staticmethod
    def function_body(inner: Statements, node: cst.FunctionDef) -> list[Statement]:
        body = inner.suite(node.body.body)
        facts = inner.facts
        assert facts is not None
        inner.finish_inits(node)  # type: ignore[attr-defined]
        if facts.local_key and not inner.ran_key:
            position = 1 if body and _is_docstring(body[0]) else 0
            body.insert(position, nodes.statement(f"{inner.unit.key} = jax.random.key(0)"))
        if not facts.local_key:
            body = _one_draw(body, inner.unit.key)
        states = inner.own_returns()
        if states and not (body and _exits(body[-1])):
            body.append(
                nodes.statement("return {s}", s=states[0] if len(states) == 1 else nodes.tuple_of(states, False))
            )
        return body

    def statement_ClassDef(self, node: cst.ClassDef) -> list[Statement]:
        return self.class_statement(node)  # type: ignore[attr-defined]


def _same_names(target: cst.Tuple, node: Expr) -> bool:
    if not isinstance(node, cst.Tuple):
        return False
    left = [nodes.dotted(element.value) for element in target.elements]
    return None not in left and left == [nodes.dotted(element.value) for element in node.elements]


def _one_draw(body: list[Statement], key: str) -> list[Statement]:
    """A function that draws once uses the key it was given as it is."""
    split = f"{key}, subkey = jax.random.split({key})"
    if cst.Module(body).code.count("jax.random.split(") != 1:
        return body
    position = next((i for i, s in enumerate(body) if nodes.code(s).strip() == split), None)
    if position is None:
        return body
    taken = {"subkey": nodes.name(key)}
    following = [_renamed(statement, taken) for statement in body[position + 1 :]]
    if following:
        following[0] = following[0].with_changes(
            leading_lines=[*body[position].leading_lines, *following[0].leading_lines]
        )
    return [*body[:position], *following]


def _renamed(statement: Statement, names: dict[str, cst.Name]) -> Statement:
    class Rename(cst.CSTTransformer):
        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
            return names.get(original_node.value, updated_node)

    made = statement.visit(Rename())
    assert isinstance(made, cst.SimpleStatementLine | _COMPOUND)
    return made


def _plain_annotation(parameter: cst.Param, scope: Statements) -> cst.Param:
    if parameter.annotation is not None and scope.mentions_torch(parameter.annotation):
        return parameter.with_changes(annotation=None)
    return parameter


def _is_docstring(statement: Statement) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def _exits(statement: Statement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[-1], cst.Return | cst.Raise | cst.Continue | cst.Break
    )


def _pure(node: Expr) -> bool:
    """Whether evaluating an expression changes nothing: names, attributes, literals, comparisons of them."""
    text = nodes.code(node)
    return "(" not in text or "is_available" in text or "device_count" in text


def _target_names(target: cst.CSTNode) -> list[str]:
    if isinstance(target, cst.Name):
        return [target.value]
    if isinstance(target, cst.Tuple | cst.List):
        return [name for element in target.elements for name in _target_names(element.value)]
    return []
