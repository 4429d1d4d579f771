"""Branches and blocks."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate import layouts
from migrate.apis import is_grad_mode
from migrate.diagnostics import Unsupported
from migrate.known.kinds import UNKNOWN, Autocast, Device, Host, Kind, Never, Plain, Tensor
from migrate.lowering.expressions.open_files import FILE
from migrate.lowering.expressions.operators import names_device
from migrate.lowering.models.precision import Precision
from migrate.lowering.models.told_modes import ToldModes
from migrate.lowering.statements.loops import Loops
from migrate.lowering.unit import Environment
from migrate.lowering.weights.trusted_classes import TRUSTING
from migrate.machine import CHOSEN_DEVICE, KERNELS, OUT_OF_MEMORY
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import declared
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.none_tests import asked_for_none


class ControlFlow(ToldModes, Precision, Loops):
    """Branches, and `with` and `try` blocks."""

    def taken_side(self, node: cst.If, decided: bool) -> list[Statement]:
        """The side of a branch that is always taken."""
        if decided:
            made = self.suite(node.body.body)
        elif isinstance(node.orelse, cst.If):
            made = self.statement_If(node.orelse)
        else:
            made = self.suite(node.orelse.body.body) if node.orelse is not None else []
        return suites.with_comments(made, node) if made else []

    def told_tensor(self, test: Expr) -> None:
        """Below `if isinstance(x, torch.Tensor)` a name of which nothing is known is a tensor."""
        call = test if isinstance(test, cst.Call) and nodes.dotted(test.func) == "isinstance" else None
        if call is None or len(call.args) != 2 or self.torch_name(call.args[1].value) != "torch.Tensor":
            return
        name = call.args[0].value
        if isinstance(name, cst.Name) and self.env.kinds.get(name.value) is UNKNOWN:
            self.env.kinds[name.value] = Tensor()

    def never_there(self, test: Expr) -> tuple[str, Kind, Kind] | None:
        """The name of a value that is None as far as is known, which a test asks for, and what it is where the test
        holds and where it does not: on the other side it is yet to be seen."""
        name, holds = asked_for_none(test) or ("", False)
        if not name or self.env.lookup(name) != Plain("None"):
            return None
        there = UNKNOWN if name in declared(self.unit.source.module) else Never()
        return (name, Plain("None"), there) if holds else (name, there, Plain("None"))

    def statement_If(self, node: cst.If) -> list[Statement]:
        decided = self.of_what_is_gone(node.test)
        if decided is not None:
            return self.taken_side(node, decided)
        mode = self.restoring_call(node)
        if mode is not None:
            return self.statement(cst.SimpleStatementLine([cst.Expr(mode)]))
        settled = self.settle([node])
        filling = self.initial_branch(node)
        if filling is not None:
            return [*settled, *filling]
        test = self.truth(node.test)
        self.use(node.test, test)
        if isinstance(test.kind, Tensor) and self.under_jit:
            return [*settled, *suites.with_comments(self.traced_branch(node, test), node)]
        if usage.only_asks(node.test) and self.moves_alone(node):
            return [*settled, *suites.with_comments(self.suite(node.body.body), node)]
        answered = isinstance(node.test, cst.Call | cst.UnaryOperation) and isinstance(test.node, cst.Name)
        truth = nodes.code(test.node) if answered else ""
        if truth in ("True", "False"):
            return [*settled, *self.taken_side(node, truth == "True")]
        start, models = self.env.copy(), self.models_here()
        self.conditions.append(node.test)
        self.told_tensor(node.test)
        name, those, others = self.narrowed(node.test) or self.never_there(node.test) or ("", UNKNOWN, UNKNOWN)
        self.env.kinds |= {name: those} if name else {}
        self.modes_where(node.test, True)
        self.classes_where(node.test, True)
        body = self.suite(node.body.body)
        after_body = self.env.copy()
        self.env.replace(start)
        self.env.kinds |= {name: others} if name else {}
        self.modes_where(node.test, False)
        self.classes_where(node.test, False)
        self.conditions[-1] = cst.UnaryOperation(cst.Not(), nodes.parenthesized(node.test))
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
        self.conditions.pop()
        if not suites.exits(body):
            unmoved = after_body.copy()
            body = self.ended(body, after_body, self.env)
            if not suites.exits(rest):
                other = rest if orelse is None else [orelse]
                ended = self.ended(other, self.env, unmoved)
                if ended != other:
                    rest, orelse = ended, None
        sides = ((after_body, body), (self.env.copy(), rest if orelse is None else [orelse]))
        ways = [end for end, side in sides if not suites.exits(side)]
        if rest:
            else_ = node.orelse if isinstance(node.orelse, cst.Else) else cst.Else(suites.block([]))
            orelse = else_.with_changes(body=suites.block_of(else_.body, rest))
        if not suites.exits(body):
            self.keep_devices(after_body)
            self.define_what_is_there(after_body)
            self.define_by_type(node.test, after_body)
            modes = dict(self.env.modes)
            self.env.join(after_body)
            self.note_chosen(node, models, ways)
            self.modes_told(node.test, after_body.modes, modes)
        if not body and orelse is None and usage.only_asks(node.test):
            return settled
        if (
            body and isinstance(orelse, cst.Else) and usage.only_asks(node.test) and _alike(body, rest)
        ):  # device = ... on both
            return [*settled, *suites.with_comments(body, node)]
        if not body and isinstance(orelse, cst.Else):
            negated = nodes.expression("not {test}", test=layouts.first(test))
            return [*settled, node.with_changes(test=negated, body=orelse.body, orelse=None)]
        held = layouts.first(test) if node.test.lpar else nodes.bare(layouts.first(test))
        made = node.with_changes(test=held, body=suites.block_of(node.body, body), orelse=orelse)
        return [*settled, made]

    def define_what_is_there(self, other: Environment) -> None:
        """A name that is None on one way is, as an example, what it is on the other one."""
        absent = [name for name, node in self.env.definitions.items() if nodes.is_literal(node, None)]
        self.env.definitions |= {name: other.definitions[name] for name in absent if name in other.definitions}

    def define_by_type(self, test: Expr, other: Environment) -> None:
        """A name that stands for something else where a value is of another type is, as an example, chosen so."""
        if not isinstance(test, cst.Call) or nodes.dotted(test.func) != "isinstance":
            return
        ours, theirs = self.env.definitions, other.definitions
        for name in [one for one in ours if one in theirs and theirs[one] is not ours[one]]:
            self.env.definitions[name] = nodes.parenthesized(cst.IfExp(test, theirs[name], ours[name]))

    def keep_devices(self, other: Environment) -> None:
        """A device that is something else after another branch, such as a string of the settings, has a variable."""
        for one, two in ((self.env, other), (other, self.env)):
            known = [name for name, kind in one.kinds.items() if isinstance(kind, Device)]
            mixed = {name for name in known if not isinstance(two.kinds.get(name, Device()), Device)}
            self.script.found_device_used |= mixed
            two.kinds |= {name: Device() for name in mixed if names_device(two.definitions.get(name))}

    def statement_With(self, node: cst.With) -> list[Statement]:
        items = []
        precision: Value | None = None
        for item in node.items:
            name = self.torch_name(item.item.func) if isinstance(item.item, cst.Call) else None
            if isinstance(item.item, cst.Call) and is_grad_mode(name):
                self.refuse_recording(item.item, name)
                continue
            if name in (*TRUSTING, *KERNELS, CHOSEN_DEVICE):
                continue
            self.refuse_switching(item.item)
            value = self.expr(item.item)
            if isinstance(value.kind, Autocast):
                precision = value
                continue
            if isinstance(value.kind, Device):
                continue
            if item.asname is not None:
                shown = isinstance(item.item, cst.Call) and self.shows_progress(item.item.func)
                self.bind(item.asname.name, value.kind if shown or value.kind in (FILE, Host("writer")) else UNKNOWN)
                self.define_target(item.asname.name, item.item if shown else None)
            items.append(item.with_changes(item=layouts.first(value), comma=cst.MaybeSentinel.DEFAULT))
        nothing = self.records_nothing([item.item for item in node.items])
        with self.under(precision), self.recording_nothing(nothing), self.as_often(not items):
            body = self.suite(node.body.body)
        if nothing:
            body = self.stopped(body)
        if not items:
            return suites.with_comments(body, node) if body else []
        return [node.with_changes(items=items, body=suites.block_of(node.body, body))]

    def refuse_switching(self, context: Expr) -> None:
        """A context of the script's own that switches modes, and was not written out around what it encloses."""
        named = nodes.dotted(context.func) if isinstance(context, cst.Call) else nodes.dotted(context)
        if named in self.script.switching:
            raise Unsupported("MIG403", f"{named}, which switches the mode of a model around this block")

    def statement_Try(self, node: cst.Try) -> list[Statement]:
        if self.takes_from_torch(node):
            return suites.with_comments(self.suite(node.body.body), node)
        start = self.env.copy()
        body = self.suite(node.body.body)
        if self.moved_back([], self.env.copy(), start):
            self.env.replace(start)
            raise Unsupported("MIG301", "a layer in a try block, whose result may or may not be there")
        if not suites.exits(body):
            body = self.entered(body, self.env, start)
        done = self.env.copy()
        self.env.join(start)
        broken_off = self.env.copy()
        handlers, handled = [], []
        for handler in node.handlers:
            self.env.replace(broken_off.copy())
            inner = self.suite(handler.body.body)
            if not suites.exits(inner):
                inner = self.ended(inner, self.env, start)
            handlers.append(self.handler(handler, inner))
            if not suites.exits(inner):
                handled.append(self.env.copy())
        self.env.replace(done)
        changes: dict[str, object] = {"body": suites.block_of(node.body, body), "handlers": handlers}
        if node.orelse is not None:
            changes["orelse"] = node.orelse.with_changes(
                body=suites.block_of(node.orelse.body, self.suite(node.orelse.body.body))
            )
        for env in handled:
            self.env.join(env)
        if not node.handlers:
            self.env.join(broken_off)
        if node.finalbody is not None:
            final = self.suite(node.finalbody.body.body)
            if not final and not node.handlers and node.orelse is None:
                return suites.with_comments(body, node)
            changes["finalbody"] = node.finalbody.with_changes(body=suites.block_of(node.finalbody.body, final))
        return [node.with_changes(**changes)]

    @staticmethod
    def takes_from_torch(node: cst.Try) -> bool:
        """Whether a block only imports from torch, and says what to do where an older torch has no such name."""
        lines = suites.suite_of(node.body.body)
        inside = [
            small for line in lines for small in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
        ]
        sources = [nodes.dotted(one.module) or "" for one in inside if isinstance(one, cst.ImportFrom) and one.module]
        missing = all(nodes.code(h.type or nodes.name("_")) in _MISSING for h in node.handlers)
        from_torch = len(sources) == len(inside) and all(s.partition(".")[0] == "torch" for s in sources)
        return from_torch and missing and bool(node.handlers) and node.orelse is None and node.finalbody is None

    def handler(self, node: cst.ExceptHandler, body: list[Statement]) -> cst.ExceptHandler:
        """One `except` with its lowered body. XLA has one exception for all that goes wrong on a device, whose text
        tells of a lack of memory."""
        caught = list(map(self.torch_name, [] if node.type is None else _caught(node.type)))
        if not any(caught):
            return node.with_changes(body=suites.block_of(node.body, body))
        if len(caught) > 1 or caught[0] not in OUT_OF_MEMORY:
            raise Unsupported("MIG304", f"except {', '.join(filter(None, caught))}")
        name = node.name.name if node.name is not None else nodes.name("error")
        guard = nodes.statements('if "RESOURCE_EXHAUSTED" not in str({e}):\n    raise', e=name)
        head = cst.parse_statement(
            f"try:\n    pass\nexcept jax.errors.JaxRuntimeError as {nodes.code(name)}:\n    pass"
        )
        assert isinstance(head, cst.Try)
        return head.handlers[0].with_changes(
            leading_lines=node.leading_lines, body=suites.block_of(node.body, [*guard, *body])
        )

    def statement_TryStar(self, node: cst.TryStar) -> list[Statement]:
        raise Unsupported("MIG301", "except* groups")

    def statement_Match(self, node: cst.Match) -> list[Statement]:
        settled = self.settle([node])
        start = self.env.copy()
        cases = []
        for case in node.cases:
            with self.conditionally():
                guard = case.guard and self.node(case.guard)
            body = self.suite(case.body.body)
            if not suites.exits(body):
                body = self.ended(body, self.env, start)
            cases.append(case.with_changes(guard=guard, body=suites.block_of(case.body, body)))
            self.env.last = dict(start.last)
        return [*settled, node.with_changes(subject=self.node(node.subject), cases=cases)]


_MISSING = ("ImportError", "ModuleNotFoundError")


def _caught(node: Expr) -> list[Expr]:
    return nodes.elements(node) if isinstance(node, cst.Tuple) else [node]


def _alike(body: Sequence[Statement], other: Sequence[Statement]) -> bool:
    """Whether two blocks are written alike."""
    return cst.Module(list(body)).code == cst.Module(list(other)).code
