"""Objects without a name: `fit(Net(), optim.Adam(...))`, `Net()(x)`. Their state needs a variable, so they get one,
too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Function, HostClass, Instance, Kind, Model, ModuleClass, Optimizer
from migrate.known.qualified import snake_case, spelled
from migrate.known.weight_kinds import OwnOptimizer
from migrate.layers.table import is_model_alone
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.models.borrowed_models import called_kind
from migrate.lowering.scope import HOST_CONTEXTS, Scope
from migrate.machine import WRAPPERS
from migrate.optimizers import COMPOSED, OPTIMIZERS, SCHEDULES
from migrate.syntax import nodes, usage
from migrate.syntax.chains import CHAINED, unchained
from migrate.syntax.nodes import Expr, Statement


class Unnamed(Scope):
    """Statements that make a model, an optimizer or a schedule in the middle of something else."""

    def named_first(self, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> list[Statement] | None:
        """Such a statement with others before it that give the objects names; None for other statements."""
        if self.context not in HOST_CONTEXTS or not isinstance(small, cst.Assign | cst.Expr | cst.Return | cst.Assert):
            return None
        if line in self.unit.apart:
            return self.unit.apart[line]
        if isinstance(small, cst.Assert):
            made, test = self.named_parts(small.test)
            return self.named_before(line, made, small.with_changes(test=test)) if made else None
        if small.value is None:
            return None
        received = self.received_first(line, small) if isinstance(small, cst.Assign) else None
        if received is not None:
            return received
        made, value = self.named_parts(small.value)
        if isinstance(small, cst.Return):
            optimizers, value = self.returned_optimizers(value)
            made = [*made, *optimizers]
        holder = self.unnamed_holder(value)
        if holder is not None:
            name, node = holder
            made, value = [*made, (name, node)], _exchanged(value, node, nodes.name(name))
        kept = self.given_names(small.value) if isinstance(small, cst.Expr) else []
        if not made and not kept:
            return None
        last: cst.BaseSmallStatement = small.with_changes(value=value)
        if kept:
            last = cst.Assign([nodes.target(nodes.tuple_of(kept, parentheses=False) if kept[1:] else kept[0])], value)
        return self.named_before(line, made, last)

    def named_before(
        self, line: cst.SimpleStatementLine, made: Sequence[tuple[str, Expr]], last: cst.BaseSmallStatement
    ) -> list[Statement]:
        """What a line becomes behind the assignments of the objects that it has made, by their names."""
        statements = [cst.SimpleStatementLine([cst.Assign([nodes.target(nodes.name(n))], v)]) for n, v in made]
        statements.append(line.with_changes(body=[last], leading_lines=[]))
        return self.one_after_another(line, statements)

    def returned_optimizers(self, value: Expr) -> tuple[list[tuple[str, Expr]], Expr]:
        """The optimizers that `return net, optim.SGD(net.parameters(), lr=0.1)` makes, each with the name that it gets;
        and what is returned with these names."""
        written = self.facts.node if self.facts is not None else None
        taken = set() if written is None else {*usage.loads(written), *usage.stores(written.body)}
        named: dict[str, Expr] = {}  # alike at each `return` of a function
        left: list[Expr] = []
        for each in nodes.elements(value) if isinstance(value, cst.Tuple) else [value]:
            if self.optimizes(each):
                name = usage.unused_name("optimizer", {*taken, *named})
                named[name], each = each, nodes.name(name)
            left.append(each)
        if not named:
            return [], value
        return list(named.items()), nodes.bare_tuple(left) if isinstance(value, cst.Tuple) else left[0]

    def one_after_another(
        self, line: cst.SimpleStatementLine, statements: Sequence[cst.SimpleStatementLine]
    ) -> list[Statement]:
        """Statements that stand for a line from now on, with its comments."""
        made: list[Statement] = [statements[0].with_changes(leading_lines=line.leading_lines), *statements[1:]]
        for statement in made:
            self.unit.stands_for(statement, line)
        self.unit.apart[line] = made
        return made

    def received_first(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """`net = build(args).to(device)` where a function returns the weights of what it makes: `net = build(args)`,
        and then the rest. None for other assignments."""
        target, node = small.targets[0].target, small.value
        while isinstance(node, cst.Call) and not self.made_there(node):
            if isinstance(node.func, cst.Attribute) and node.func.attr.value in CHAINED:
                node = node.func.value
            elif self.torch_name(node.func) in WRAPPERS and node.args:
                node = node.args[0].value
            else:
                return None
        if node is small.value or not isinstance(node, cst.Call) or not isinstance(target, cst.Name | cst.Attribute):
            return None
        rest = _exchanged(small.value, node, target)
        made = [small.with_changes(value=value) for value in (node, rest)]
        return self.one_after_another(line, [cst.SimpleStatementLine([each]) for each in made])

    def unnamed_holder(self, value: Expr) -> tuple[str, Expr] | None:
        """The trainer of `Trainer(model).fit()`, with a name for it where what it has made of the model is asked for
        further down; None where there is none."""
        node = value
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            node = node.func.value
        kind = self.kind_of(node.func) if isinstance(node, cst.Call) and node is not value else None
        if not isinstance(kind, HostClass) or not isinstance(node, cst.Call):
            return None
        given = {arg.value.value for arg in node.args if isinstance(arg.value, cst.Name)}
        models = {name for name in given if isinstance(self.kind_of_name(name), Model)}
        block = self.blocks[-1]
        if not models & set(usage.loads(block.statements[block.index + 1 :])):
            return None
        return usage.unused_name(spelled(kind.cls).rpartition(".")[2].lower(), self.names_taken()), node

    def names_taken(self) -> set[str]:
        """The names that the scope at hand uses."""
        taken = {*usage.loads(self.blocks[0].statements), *usage.stores(self.blocks[0].statements)}
        return taken | (set(self.facts.parameter_names) if self.facts is not None else set())

    def named_parts(self, value: Expr) -> tuple[list[tuple[str, Expr]], Expr]:
        """The objects that an expression makes for functions of the user's, or calls at once, and the losses of steps,
        each with the name that it gets; and the expression with those names."""
        found = usage.calls(value)
        given = any(self.makes_object(arg.value) for call in found for arg in call.args)
        if not given and not any(self.called_at_once(one) or self.stepped_inside(one, value) for one in found):
            return [], value
        before = self.unit.objects_named.setdefault(self.scope, set())
        told = partial(self.stepped_inside, whole=value)
        transformer = _Named(self.objects_given, self.called_at_once, told, self.names_taken() | before)
        named = value.visit(transformer)
        assert isinstance(named, cst.BaseExpression)
        before.update(name for name, _ in transformer.found)
        return transformer.found, named

    def objects_given(self, call: cst.Call) -> list[str]:
        """For each argument of a call, what the user's function calls the object that is made for it; "" for others."""
        facts = self.called(call.func)
        if facts is None:
            return []
        names = argument_names(call.args, facts.parameter_names[1:] if facts.method else facts.parameter_names)
        pairs = zip(call.args, names, strict=True)
        return [name if not arg.star and self.makes_object(arg.value) else "" for arg, name in pairs]

    def called_at_once(self, call: cst.Call) -> str:
        """A name for the model that `Net()(x)` makes and calls; "" for other calls."""
        made = unchained(call.func)
        if not isinstance(made, cst.Call) or not self.makes_object(made):
            return ""
        kind = self.kind_of(made.func)
        name = spelled(kind.cls) if isinstance(kind, ModuleClass) else self.torch_name(made.func) or "model"
        return snake_case(name.rpartition(".")[2])

    def stepped_inside(self, call: cst.Call, whole: Expr) -> str:
        """A name for the loss of a step inside an expression, `print(optimizer.step(closure).item())`; "" for other
        calls."""
        func = call.func
        if call is whole or not isinstance(func, cst.Attribute) or func.attr.value != "step" or not call.args:
            return ""
        optimizer, found = self.kind_of(func.value), usage.calls(whole)
        if not isinstance(optimizer, Optimizer) or not self.evaluates(optimizer):
            return ""
        before = found[: found.index(call)]  # what they ask is asked before the step
        return "loss" if all(call in usage.calls(one) for one in before) else ""

    def called(self, func: Expr) -> FunctionFacts | None:
        """The function of the user's that is called: a method and a constructor, too."""
        kind: Kind = self.kind_of(func)
        name = (
            kind.name if isinstance(kind, Function) else f"{kind.cls}.__init__" if isinstance(kind, HostClass) else ""
        )
        owner = self.kind_of(func.value) if isinstance(func, cst.Attribute) else None
        if isinstance(owner, Instance) and isinstance(func, cst.Attribute):
            name = f"{owner.cls}.{func.attr.value}"
        return self.script.functions.get(name)

    def makes_object(self, node: Expr) -> bool:
        """Whether an expression makes a model, an optimizer or a schedule."""
        node = unchained(node)
        if not isinstance(node, cst.Call):
            return False
        if isinstance(self.kind_of(node.func), ModuleClass | OwnOptimizer) or self.made_there(node):
            return True
        if nodes.dotted(node.func) in ("copy.deepcopy", "deepcopy") and len(node.args) == 1:
            return isinstance(self.kind_of(node.args[0].value), Model)
        name = self.torch_name(node.func) or ""
        return is_model_alone(name) or name in OPTIMIZERS or name in SCHEDULES or name in COMPOSED

    def optimizes(self, node: Expr) -> bool:
        """Whether an expression is an optimizer that is just made."""
        if not isinstance(node, cst.Call):
            return False
        return self.torch_name(node.func) in OPTIMIZERS or isinstance(self.kind_of(node.func), OwnOptimizer)

    def made_there(self, node: Expr) -> list[Kind]:
        """What a function of the user's returns, where models and optimizers are in it that it has made."""
        kind = called_kind(self, node.func) if isinstance(node, cst.Call) else None
        if not isinstance(kind, Function):
            return []
        result = self.script.functions[kind.name].result
        there = self.script.handed | self.script.given_up
        if not any(isinstance(part, Model | Optimizer) and part.place in there for part in kinds_in(result)):
            return []
        items = getattr(result, "items", None)
        return list(items) if items is not None else [result]

    def given_names(self, node: Expr) -> list[Expr]:
        """Names for what a function has made whose results the script does not use: their state comes with them."""
        parts = self.made_there(node)
        return [nodes.name(short_name(part)) for part in parts]


def _exchanged(whole: Expr, node: Expr, other: Expr) -> Expr:
    """An expression with another one in the place of a part."""
    made = whole.deep_replace(node, other)
    assert isinstance(made, cst.BaseExpression)
    return made


def short_name(kind: Kind) -> str:
    """What the function that has made an object calls it."""
    place = kind.place if isinstance(kind, Model | Optimizer) else None
    return "_" if place is None else place.short


class _Named(cst.CSTTransformer):
    """Puts names in the place of the objects that are made for a function, where they are surely made, and once."""

    def __init__(
        self,
        given: Callable[[cst.Call], Sequence[str]],
        at_once: Callable[[cst.Call], str],
        told: Callable[[cst.Call], str],
        taken: set[str],
    ) -> None:
        super().__init__()
        self.given, self.at_once, self.told, self.taken = given, at_once, told, taken
        self.found: list[tuple[str, Expr]] = []

    def _nothing(self, node: cst.CSTNode) -> bool:
        return False

    visit_Lambda = visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _nothing
    visit_IfExp = visit_BooleanOperation = _nothing

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        given = self.given(original_node) or [""] * len(updated_node.args)
        args = [
            arg.with_changes(value=self.named(wanted, arg.value)) if wanted else arg
            for arg, wanted in zip(updated_node.args, given, strict=True)
        ]
        at_once = self.at_once(original_node)
        func = self.named(at_once, updated_node.func) if at_once else updated_node.func
        call, told = updated_node.with_changes(func=func, args=args), self.told(original_node)
        return self.named(told, call) if told else call

    def named(self, wanted: str, made: Expr) -> cst.Name:
        """A name for what is made here, from now on."""
        name = usage.unused_name(wanted, self.taken)
        self.taken.add(name)
        self.found.append((name, made))
        return cst.Name(name)
