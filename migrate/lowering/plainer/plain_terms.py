"""Loss scaling and `accelerate` in torch's plain terms, so that an update region is found in one shape.

`scaler.scale(loss).backward()` and `accelerator.backward(loss)` are `loss.backward()`; `scaler.step(optimizer)` is
`optimizer.step()`; a block that does nothing but set a precision is its statements.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import UNKNOWN, Accelerator, Function, Items, Kind, Model, Optimizer, Scaler
from migrate.lowering.expressions.named_lambdas import NamedLambdas
from migrate.lowering.models.members import MemberLoops, named_members
from migrate.lowering.models.precision import Precision
from migrate.lowering.plainer.classes_as_functions import ABSTRACT, as_function, only_called
from migrate.lowering.plainer.cleared_by_hand import ClearedByHand
from migrate.lowering.plainer.filled_per_parameter import filled_per_parameter
from migrate.lowering.plainer.filled_rows import by_mask
from migrate.lowering.plainer.gradient_contexts import GradientContexts
from migrate.lowering.plainer.handed_models import HandedModels
from migrate.lowering.plainer.one_line import taken_apart
from migrate.lowering.plainer.plain_leaves import PlainLeaves
from migrate.lowering.plainer.taken_gradients import TakenGradients
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.blocks import Block
from migrate.lowering.updates.region import call_of, method_call_of, weights_of_backward
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.remembering import remembered

_ONES = ("torch.ones_like", "torch.ones")


class PlainTerms(
    Precision, TakenGradients, MemberLoops, HandedModels, ClearedByHand, PlainLeaves, NamedLambdas, GradientContexts
):
    """Statements that say the same in other words."""

    def say_plainly(self, block: Block) -> bool:
        """Puts the statements of a block that are still to come into plain terms, in place, as far as is known by now.
        Returns whether there are any."""
        start = block.index
        if start < len(block.statements):
            self.read_in_owner(block)
        left = zip(block.statements[start:], block.positions[start:], strict=True)
        members = named_members(self.env)
        made = [
            ([plain for each in self.by_name(statement, members) for plain in self.plain(each)], position)
            for statement, position in left
        ]
        block.statements[start:] = [plain for each, _ in made for plain in each]
        block.positions[start:] = [position for each, position in made for _ in each]
        self.fill_by_masks(block)
        if self.context in HOST_CONTEXTS:
            self.backward_for_taken(block)
            self.name_losses(block)
        return start < len(block.statements)

    def fill_by_masks(self, block: Block) -> None:
        """Rows that are filled by their numbers are filled by a mask."""
        for number in range(block.index, len(block.statements) - 1 if len(self.blocks) <= 1 else 0):
            pair = block.statements[number], block.statements[number + 1]
            made = by_mask(*pair, block.statements, self.torch_name)
            for place, (old, new) in enumerate(zip(pair, made or (), strict=False)):
                self.unit.stands_for(self.unit.plain.setdefault(old, new), old)
                block.statements[number + place] = self.unit.plain[old]

    def name_losses(self, block: Block) -> None:
        """`self.loss = ...; self.loss.backward()`: the loss has a name of its own until it is known."""
        for number in range(block.index, len(block.statements)):
            receiver = method_call_of(block.statements[number], "backward")
            path = nodes.dotted(receiver.value) if receiver is not None else None
            if receiver is None or path is None or "." not in path:
                continue
            first = next((i for i in range(block.index, number) if _binds(block.statements[i], path)), None)
            if first is None:
                continue
            here = {*usage.loads(self.own_body), *usage.stores(self.own_body)}
            taken = self.unit.taken if self.facts is None else here
            name = usage.unused_name(path.rpartition(".")[2], taken)
            for position in range(first, number + 1):
                statement = block.statements[position]
                if statement not in self.unit.plain:
                    made = nodes.visited(statement.deep_clone(), _Renamed(path, name))
                    self.unit.stands_for(made, statement)
                    self.unit.plain[statement] = made
                block.statements[position] = self.unit.plain[statement]
            backward = block.statements[number]
            kept = self.unit.named.get(backward)
            if kept is None:
                kept = self.unit.named[backward] = nodes.statement(f"{path} = {name}")
                self.unit.stands_for(kept, backward)
            block.statements.insert(number + 1, kept)
            block.positions.insert(number + 1, block.positions[number])
            return

    def plain(self, statement: Statement) -> list[Statement]:
        """One statement in plain terms; itself where it is plain already."""
        if isinstance(statement, cst.With):
            inner = self.opened_block(statement) if self.context in HOST_CONTEXTS else None
            return self.plain_block(statement) if inner is None else [p for each in inner for p in self.plain(each)]
        if isinstance(statement, cst.If):
            return self.plain_branch(statement)
        if isinstance(statement, cst.SimpleStatementLine) and self.names_builder(statement):
            return [self.named_builder(statement)]
        if isinstance(statement, cst.ClassDef):
            return [self.function_for(statement)]
        if isinstance(statement, cst.For):
            return filled_per_parameter(self.unit, statement)
        function = self.named_function(statement)
        if function is not None:
            return [function]
        if not isinstance(statement, cst.SimpleStatementLine) or _is_plain(statement):
            return [statement]
        pieces = taken_apart(self.unit, statement)
        if pieces != [statement]:
            return [plain for piece in pieces for plain in self.plain(piece)]
        small = statement.body[0]
        stepped = self.closure_first(statement, small)
        if stepped is not None:
            return stepped
        weighed = self.weighed_backward(statement)
        if weighed is not None:
            return weighed
        cleared = self.cleared_by_function(statement)
        if cleared is not None:
            return cleared
        named = self.named_first(statement, small)
        if named is not None:
            return named
        call = call_of(statement)
        if call is not None and isinstance(call.func, cst.Attribute):
            said = self.plain_call(call, call.func)
            if said is None:
                return []
            small = small if said is call else cst.Expr(said)
        small = self.plain_change(small)
        if small is statement.body[0]:
            return [statement]
        known = self.unit.plain.get(statement)
        if known is None:
            known = statement.with_changes(body=[small])
            self.unit.stands_for(known, statement)
            self.unit.plain[statement] = known
        return [known]

    def function_for(self, statement: cst.ClassDef) -> Statement:
        """The function in the place of a class that only says how an optimizer or a schedule of torch's is made."""
        base = self.torch_name(statement.bases[0].value) if len(statement.bases) == 1 else None
        if base is None or not base.startswith("torch.optim.") or base.rpartition(".")[2] in ABSTRACT:
            return statement
        if statement not in self.unit.plain:
            files = [unit.source.module for unit in self.unit.others.values()]
            made = as_function(statement) if only_called(files, statement) else None
            made = made or statement
            self.unit.plain[statement] = made
            self.unit.stands_for(made, statement)
        return self.unit.plain[statement]

    def names_builder(self, statement: cst.SimpleStatementLine) -> bool:
        """Whether a statement is `nets = lambda: nn.Sequential(...)`: what makes parts of modules is told the mode."""
        small = statement.body[0]
        if (
            self.cls
            or self.context not in HOST_CONTEXTS
            or not isinstance(small, cst.Assign)
            or len(statement.body) > 1
        ):
            return False
        made = small.value.body if isinstance(small.value, cst.Lambda) else None
        named = len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name)
        return named and isinstance(made, cst.Call) and self.constructs(made)

    def named_builder(self, statement: cst.SimpleStatementLine) -> Statement:
        """The function that such a statement makes."""
        if statement not in self.unit.plain:
            small = cst.ensure_type(statement.body[0], cst.Assign)
            made = cst.ensure_type(small.value, cst.Lambda)
            name = cst.ensure_type(small.targets[0].target, cst.Name)
            body = [nodes.statement("return {made}", made=made.body)]
            function = suites.function(name.value, [], body)
            lines = [suites.BLANK, *suites.comments(statement)]
            if self.facts is not None:
                function = function.with_changes(body=function.body.with_changes(footer=[suites.BLANK]))
            self.unit.plain[statement] = function.with_changes(params=made.params, leading_lines=lines)
            self.unit.stands_for(self.unit.plain[statement], statement)
        return self.unit.plain[statement]

    def closure_first(
        self, statement: cst.SimpleStatementLine, small: cst.BaseSmallStatement
    ) -> list[Statement] | None:
        """`loss = optimizer.step(closure)` of an optimizer that evaluates it once: `loss = closure()`, and the step."""
        if not isinstance(small, cst.Assign | cst.Expr) or not isinstance(small.value, cst.Call):
            return None
        call = small.value
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "step" or len(call.args) != 1:
            return None
        optimizer, closure = self.kind_of(call.func.value), self.kind_of(call.args[0].value)
        if not isinstance(optimizer, Optimizer) or not isinstance(closure, Function) or self.evaluates(optimizer):
            return None
        if statement not in self.unit.apart:
            first = statement.with_changes(body=[small.with_changes(value=cst.Call(call.args[0].value))])
            second = cst.SimpleStatementLine([cst.Expr(call.with_changes(args=[]))])
            for made in (first, second):
                self.unit.stands_for(made, statement)
            self.unit.apart[statement] = [first, second]
        return self.unit.apart[statement]

    def weighed_backward(self, statement: cst.SimpleStatementLine) -> list[Statement] | None:
        """`y.backward(v)` goes backward from a number: `y.sum()` where v is of ones, else `(y * v).sum()`."""
        loss, call = self.differentiated(statement), call_of(statement)
        given = weights_of_backward(call) if call is not None else []
        if loss is None or call is None or isinstance(self.kind_of(loss), Accelerator) or len(given) != 1:
            return None
        if statement in self.unit.apart:
            return self.unit.apart[statement]
        weights = given[0].value
        ones = isinstance(weights, cst.Call) and (self.torch_name(weights.func) or "") in _ONES
        constant = nodes.dotted(weights) in self.unit.constants
        text = "{y}.sum()" if ones else "({y} * {v}).sum()" if constant else "({y} * {v}.detach()).sum()"
        root = (nodes.dotted(loss) or "loss").rpartition(".")[2]
        name = nodes.name(self.unit.own(f"{root}_sum"))
        total = nodes.statement("{n} = {t}", n=name, t=nodes.expression(text, y=loss, v=weights))
        left = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in call.args if arg not in given]
        backward = call.with_changes(func=cst.Attribute(name, cst.Name("backward")), args=left)
        apart = [
            total.with_changes(leading_lines=statement.leading_lines),
            cst.SimpleStatementLine([cst.Expr(backward)]),
        ]
        for made in apart:
            self.unit.stands_for(made, statement)
        self.unit.apart[statement] = list(apart)
        return self.unit.apart[statement]

    def plain_branch(self, branch: cst.If) -> list[Statement]:
        """The statements that are left of a branch on something that disappears: a gradient scaler, for example."""
        decided = self.decided(branch.test)
        if decided is None:
            cleared = self.cleared_where_there(branch)
            return [branch] if cleared is None else [cleared]
        taken, other = self.plain_sides(branch) if decided else reversed(self.plain_sides(branch))
        codes = [[nodes.code(each).strip() for each in side] for side in (taken, other)]
        return [branch] if self.tested(branch.test) == Scaler(optional=True) and codes[0] != codes[1] else taken

    def plain_sides(self, branch: cst.If) -> tuple[list[Statement], list[Statement]]:
        """What is left of the two sides of a branch."""
        body, orelse = ([plain for one in side for plain in self.plain(one)] for side in suites.sides(branch))
        return body, orelse

    def tested(self, test: Expr) -> Kind:
        """What a test asks for: whether there is one, or whether there is none."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self.tested(test.expression)
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            return self.kind_of(test.left) if nodes.is_literal(test.comparisons[0].comparator, None) else UNKNOWN
        return self.kind_of(test)

    def decided(self, test: Expr) -> bool | None:
        """The truth of a test on what disappears, which is there, and of whether models are in a list; None for other
        tests."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inner = self.decided(test.expression)
            return None if inner is None else not inner
        listed = _asked_for_list(test)
        if listed is not None:
            kind = self.kind_of(listed)
            held = isinstance(kind, Items) and kind.type == "list"
            return held if held or isinstance(kind, Model) else None
        if isinstance(test, cst.Comparison) and isinstance(self.tested(test), Scaler):
            return not isinstance(test.comparisons[0].operator, cst.Is | cst.Equal)
        if isinstance(test, cst.Attribute) and isinstance(self.kind_of(test.value), Accelerator):
            return True if test.attr.value == "sync_gradients" else None
        return True if isinstance(self.tested(test), Scaler) else None

    def plain_call(self, call: cst.Call, func: cst.Attribute) -> cst.Call | None:
        """A call in plain terms: itself where it is plain, None where it does nothing."""
        kind, method = self.kind_of(func.value), func.attr.value
        if method == "backward" and isinstance(func.value, cst.Call):  # scaler.scale(loss).backward()
            scale = func.value.func
            scaled = isinstance(scale, cst.Attribute) and scale.attr.value == "scale"
            if scaled and isinstance(scale, cst.Attribute) and isinstance(self.kind_of(scale.value), Scaler):
                return call.with_changes(func=func.with_changes(value=func.value.args[0].value))
        if isinstance(kind, Scaler):
            if method == "step" and len(call.args) == 1:
                return nodes.method(call.args[0].value, "step")
            if method in ("unscale_", "update", "load_state_dict"):
                return None
            if method == "step":
                raise Unsupported("MIG401", f"{nodes.code(call)}: a step with arguments")
        if isinstance(kind, Accelerator):
            if method == "backward" and len(call.args) == 1:
                return nodes.method(call.args[0].value, "backward")
            if method in ("wait_for_everyone", "end_training", "init_trackers", "free_memory"):
                return None
            if method in ("clip_grad_norm_", "clip_grad_value_"):
                return call.with_changes(func=nodes.expression(f"torch.nn.utils.{method}"))
        return call

    def plain_block(self, block: cst.With) -> list[Statement]:
        """The statements of a block that sets nothing but a precision, each with its precision noted."""
        if not all(self.is_neutral_context(item.item) for item in block.items):
            return [block]
        precision, off = self.precision, False
        for item in block.items:
            value = self.expr(item.item)
            with self.under(value):
                off |= precision is not None and self.precision is None
                precision = self.precision
        inner = suites.suite_of(block.body.body)
        first = self.unit.plain.get(block)
        if first is None:
            first = inner[0].with_changes(leading_lines=[*block.leading_lines, *suites.comments(inner[0])])
            self.unit.stands_for(first, inner[0])
            self.unit.plain[block] = first
        made = [first, *inner[1:]]
        for statement in made:
            self.unit.precisions[statement] = precision
        return [plain for statement in made for plain in self._carried(statement, precision)]

    def _carried(self, statement: Statement, precision: Expr | None) -> list[Statement]:
        """A statement of the block in plain terms, with the same precision."""
        made = self.plain(statement)
        for plain in made:
            self.unit.precisions.setdefault(plain, precision)
        return made


def _asked_for_list(test: Expr) -> Expr | None:
    """What `isinstance(nets, list)` asks for; None of other tests."""
    if not isinstance(test, cst.Call) or nodes.dotted(test.func) != "isinstance" or len(test.args) != 2:
        return None
    return test.args[0].value if nodes.dotted(test.args[1].value) == "list" else None


@remembered
def _is_plain(line: cst.SimpleStatementLine) -> bool:
    """Whether a line is in plain terms whatever its names are: nothing is called or chosen in it, no `data` or
    `requires_grad` changed."""
    alone = len(line.body) == 1 and not isinstance(line.body[0], cst.Expr)
    return alone and not usage.calls(line) and not {"data", "requires_grad"} & set(usage.attributes(line))


def _binds(statement: Statement, path: str) -> bool:
    """Whether a statement is an assignment to an attribute, alone or among others."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    targets = [target.target for target in small.targets] if isinstance(small, cst.Assign) else []
    parts = [e for t in targets for e in (nodes.elements(t) if isinstance(t, cst.Tuple) else [t])]
    return any(nodes.dotted(part) == path for part in parts)


class _Renamed(cst.CSTTransformer):
    """Puts a plain name in the place of an attribute."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__()
        self.path, self.name = path, name

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return cst.Name(self.name) if nodes.dotted(original_node) == self.path else updated_node
