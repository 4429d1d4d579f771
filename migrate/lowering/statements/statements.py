"""Statements: each is lowered in order, with what it makes known for those after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    Model,
    Module,
    ModuleClass,
    Never,
    SelfModule,
    Tensor,
    Unreached,
)
from migrate.lowering.models.foreign_models import is_trained_foreign, unreached
from migrate.lowering.modules.classes import Classes
from migrate.lowering.modules.filled_containers import FilledContainers
from migrate.lowering.plainer.one_line import put_back
from migrate.lowering.plainer.training_branches import TrainingBranches
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.assignments import Assignments
from migrate.lowering.statements.blocks import Block
from migrate.lowering.statements.expression_statements import ExpressionStatements
from migrate.lowering.statements.failing import Failing
from migrate.lowering.statements.handed_through import HandedThrough
from migrate.lowering.statements.loads_after_data import LoadsAfterData
from migrate.lowering.statements.scanned_loops import without_new_lists
from migrate.lowering.updates.gathering import MicroBatchLoops
from migrate.lowering.updates.merging import merged_outputs
from migrate.lowering.updates.region import MicroBatches, Region
from migrate.lowering.weights.filled_weights import FilledWeights
from migrate.lowering.weights.weights_not_asked_for import never_reached
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


class Statements(
    FilledWeights,
    Failing,
    ExpressionStatements,
    Classes,
    Assignments,
    MicroBatchLoops,
    TrainingBranches,
    HandedThrough,
    FilledContainers,
    LoadsAfterData,
):
    """Blocks, and the statements in them."""

    def suite(self, body: Sequence[cst.CSTNode], cyclic: bool = False) -> list[Statement]:
        """Lowers the statements of one block (`cyclic`: the body of a loop or a function); comments of those that
        disappear go to the next."""
        made: list[Statement] = []
        dropped: list[cst.EmptyLine] = []
        outer, self.opened = self.opened, []
        for _, original, lowered in self.lowered_each(suites.suite_of(body), cyclic=cyclic):
            if lowered and made and not dropped and _AT_ONCE == _context(lowered[0]) == _context(made[-1]):
                made = [*made[:-1], suites.continued(made[-1], lowered[0]), *lowered[1:]]
            elif lowered:
                made += suites.after_dropped(dropped, lowered, first=not made)
                dropped = []
            else:
                dropped += suites.kept_lines(original)
        if self.opened:
            made += self.released(self.opened)
        self.opened = outer
        return without_new_lists(made, self.gathered) if self.gathered else made

    def lowered_each(
        self, statements: Sequence[Statement], anchored: bool = False, cyclic: bool = False
    ) -> Iterator[tuple[int, Statement, list[Statement]]]:
        """Lowers a block region by region and statement by statement: the position, the original, what it became.
        `anchored`: this is the whole file, and functions made for the output go before the statement at hand."""
        return put_back(self.unit, self._lowered_each(statements, anchored, cyclic))

    def _lowered_each(
        self, statements: Sequence[Statement], anchored: bool, cyclic: bool
    ) -> Iterator[tuple[int, Statement, list[Statement]]]:
        block = Block(list(statements), list(range(len(statements))), cyclic=cyclic)
        self.blocks.append(block)
        try:
            while self.say_plainly(block):
                self.make_whole(block)
                if self.context in HOST_CONTEXTS:
                    self.branch_first(block)
                    self.load_later(block)
                index = block.index
                if anchored:
                    self.unit.anchor = block.positions[index]
                region = self.micro_batches_at(block.statements, index) or self.region_at(block.statements, index)
                width = len(region.statements) if region is not None else 1
                with self.then(block.statements[index + width :]):
                    lowered = self.guarded(block.statements[index], region)
                lowered += [*self.late_inits(), *self.late_changes()]
                yield block.positions[index], block.statements[index], lowered
                block.index = index + width
        finally:
            self.blocks.pop()

    def update(self, region: Region | MicroBatches) -> list[Statement]:
        """The statements of an update."""
        if isinstance(region, Region):
            return self.lower_region(region)
        made = self.lower_micro_batches(region)
        if made is None:
            raise Unsupported("MIG401", "a turn over a micro batch is no pure function")
        return made

    def guarded(self, original: Statement, region: Region | MicroBatches | None = None) -> list[Statement]:
        """One statement, or the update region that starts there; what cannot be lowered stays as a comment above an
        exception that names the code."""
        outer, self.before = self.before, []
        reads_values, self.unit.reads_values = self.unit.reads_values, False
        precision, self.making = self.precision, ""
        self.precision = self.unit.precisions.get(original, precision)
        try:
            arrays = [name for name in usage.loads(original) if isinstance(self.env.kinds.get(name), Tensor)]
            made = self.statement(original) if region is None else self.update(region)
            if self.context == "setup":
                made = self.concretely(original, made, arrays)
            if self.makes_static_mask(original) and (self.under_jit or self.context not in HOST_CONTEXTS):
                made = [self.worked_out(one, original) for one in made]
            made = [] if self.only_differentiated(original, made) else made
            if self.before and made and made[0].leading_lines == original.leading_lines:
                made = [made[0].with_changes(leading_lines=[]), *made[1:]]
            made = merged_outputs([*self.before, *made]) if self.before else made
        except Unsupported as error:
            self.unit.report(self.where_reached(error), original)
            originals = [original] if region is None else region.statements
            made = [suites.refusal(error.code, error.message, originals)]
            stored = usage.stores(originals)
            self.unit.refused |= set(stored)
            self.unit.refused_reads |= {name for one in originals for name in usage.loads(one)}
            for name in stored:
                foreign = error.code == "MIG202" and is_trained_foreign(self, nodes.name(name))
                self.env.kinds[name] = Unreached() if foreign else Never()  # nothing follows the exception
                self.env.definitions.pop(name, None)
        finally:
            self.before, self.precision, self.unit.reads_values = outer, precision, reads_values
        refused = bool(made) and suites.comments(made[0]) != suites.comments(original)
        return made if refused else suites.with_comments(made, original)

    def concretely(self, original: Statement, made: list[Statement], arrays: Sequence[str]) -> list[Statement]:
        """What a constructor reads the values of is worked out at once, since jit traces the setup of a module as well.
        `arrays`: the variables that it goes by, which were to be worked out so, too."""
        facts = self.script.classes.get(self.cls)
        if facts is None or not (self.unit.reads_values or _made_by(original) & facts.concrete):
            return made
        if not isinstance(original, cst.SimpleStatementLine):
            raise Unsupported(
                "MIG307", "a constructor that branches by the values of a tensor, which jit does not know"
            )
        facts.concrete.update(arrays)
        head = cst.WithItem(nodes.expression(_AT_ONCE))
        return [cst.With([head], suites.block(made))] if made else made

    def where_reached(self, error: Unsupported) -> Unsupported:
        """A finding in a branch that no module and no call of the program takes is worth a note alone."""
        what = never_reached(self)
        if not what:
            return error
        test = nodes.code(self.conditions[-1])
        return Unsupported("MIG508", f"{error.message} ({error.code}), where `{test}`: {what}")

    def statement(self, original: Statement) -> list[Statement]:
        """One statement, by its type."""
        behind = unreached(self, original)
        if behind is not None:
            return behind
        if isinstance(original, cst.SimpleStatementLine):
            return self.small(original, original.body[0])
        failing = self.failing(original)
        if failing is not None:
            return failing
        self.last_reads, self.rebound = frozenset(), frozenset()  # its head has no say in what is read later
        self.reads = []
        handler = getattr(self, f"statement_{type(original).__name__}")
        return handler(original)

    def small(self, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> list[Statement]:
        """One simple statement, alone on its line; those of no interest stay."""
        failing = self.failing(line)
        if failing is not None:
            return failing
        given = self.weight_filled(line, small)
        if given is None:
            given = self.weight_statement(line, small)
        if given is None:
            given = self.part_statement(small)
        if given is not None:
            return given
        parts = self.with_input_bound(small)
        if parts:
            lines = [cst.SimpleStatementLine([part], leading_lines=line.leading_lines) for part in parts[:1]]
            lines += [line.with_changes(body=[part], leading_lines=[]) for part in parts[1:]]
            pairs = zip(lines, parts, strict=True)
            return [made for one, part in pairs for made in self.small(one, part)]
        self.last_reads = _last_reads(small)
        self.reads, self.rebound = usage.loads(small), frozenset(usage.stores(small))
        handler = getattr(self, f"small_{type(small).__name__}", None)
        return [line] if handler is None else handler(line, small)

    def small_Assert(self, line: cst.SimpleStatementLine, small: cst.Assert) -> list[Statement]:
        if self.named_sets(small.test) is True:
            return []  # told by the weights that the model has
        try:
            value = self.expr(small.test)
            by_values = isinstance(value.kind, Tensor) and self.under_jit
        except Unsupported as error:
            if error.code != "MIG307":  # it takes numbers out of tensors
                raise
            by_values = True
        if by_values:
            self.unit.report(Unsupported("MIG512", nodes.code(small.test)), line)
            return []
        if nodes.is_literal(value.node, True) and not nodes.is_literal(small.test, True):
            return []  # told by the classes of the program
        made = small.with_changes(test=layouts.first(value), msg=small.msg and self.node(small.msg))
        return suites.rebuilt(line, small, made)

    def small_Raise(self, line: cst.SimpleStatementLine, small: cst.Raise) -> list[Statement]:
        return suites.rebuilt(line, small, small.with_changes(exc=small.exc and self.node(small.exc)))

    def small_Del(self, line: cst.SimpleStatementLine, small: cst.Del) -> list[Statement]:
        """`del kept[x.dim()]`: what is asked of tensors to tell an entry. A part of a model stays."""
        target = small.target
        for each in nodes.elements(target) if isinstance(target, cst.Tuple | cst.List) else [target]:
            self.refuse_part(each)
        if not isinstance(target, cst.Subscript) or len(target.slice) != 1:
            return [line]
        (element,) = target.slice
        if not isinstance(element.slice, cst.Index):
            return [line]
        index = element.slice.with_changes(value=self.node(element.slice.value))
        made = target.with_changes(slice=[element.with_changes(slice=index)])
        return suites.rebuilt(line, small, small.with_changes(target=made))

    def refuse_part(self, deleted: Expr) -> None:
        """Declines to delete a part of a model, or a setting."""
        owner = deleted
        while isinstance(owner, cst.Attribute | cst.Subscript):
            owner = owner.value
            if isinstance(self.kind_of(owner), Model | Module | ModuleClass | SelfModule):
                raise Unsupported("MIG204", f"{nodes.code(deleted)} is changed after its module was made")


_AT_ONCE = "jax.ensure_compile_time_eval()"


def _made_by(statement: Statement) -> set[str]:
    """The variables, attributes and buffers that a statement of a constructor makes."""
    calls = [call for call in usage.calls(statement) if nodes.dotted(call.func) == "self.register_buffer" and call.args]
    buffers = {str(nodes.literal(call.args[0].value)) for call in calls}
    return {*usage.stores(statement), *(f"self.{name}" for name in usage.attributes_set(statement) | buffers)}


def _context(statement: Statement) -> str:
    """The only context that a `with` block enters; "" for other statements."""
    items = statement.items if isinstance(statement, cst.With) else ()
    return nodes.code(items[0].item) if len(items) == 1 else ""


def _last_reads(small: cst.BaseSmallStatement) -> frozenset[str]:
    """The names that a statement reads once and whose old value nothing reads later: all of a `return`, and those that
    it binds again."""
    if isinstance(small, cst.Return) and small.value is not None:
        names = usage.loads(small.value)
        return frozenset(name for name in names if names.count(name) == 1)
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
        name = small.targets[0].target.value
        return frozenset([name] if usage.loads(small.value).count(name) == 1 else [])
    return frozenset()
