"""What a loss asks objects of the script's own that change while it trains: `schedule()`, `meter.mean()`.

jit knows an object by its identity alone, and keeps what it has seen in it when it traced. What a step asks of one is
asked before the step, which takes the answer as an input; a function that jit traces cannot ask.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import (
    UNKNOWN,
    Function,
    Instance,
    Items,
    Kind,
    Leaf,
    Model,
    Never,
    Number,
    Plain,
    Tensor,
    is_batch,
)
from migrate.lowering.expressions.made_outside import MadeOutside
from migrate.lowering.models.object_history import changed_around, class_of_object, makers, moves
from migrate.lowering.updates.deciding import decided_by, is_reckoned
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr


class AskedObjects(MadeOutside):
    """Names, attributes and calls of what changes."""

    def asked_object(self, node: cst.Call) -> Value | None:
        """A call of an object that changes with its use, or of a method of one, in what jit traces; None for others."""
        found = self._asked(node) if self.under_jit else None
        if found is None:
            return None
        owner, method = found
        tracing, kind = self.region, self.kind_of(owner)
        arrays = any(isinstance(self.expr(arg.value).kind, Tensor | Model) for arg in node.args)
        inside = tracing is not None and bool(set(usage.loads(node)) & tracing.inside)
        facts = self.script.functions.get(f"{kind.cls}.{method}") if isinstance(kind, Instance) else None
        if facts is not None and tracing is not None and (arrays or inside or facts.states or facts.writes):
            return None  # followed into the method, of which it is asked what it uses
        once = tracing is not None and not (self.nested or self.conditional or tracing.in_loop)
        if not once or arrays or inside:
            if self._counts(node) and not self._is_outside(node):
                return None  # numbers that jit knows, like those of a loop that it unrolls
            if tracing is None and not arrays:
                self.left_call(node, owner, method)
            told = f"`{nodes.code(node)}`, which may say something else as it trains, is asked where jit traces"
            raise Unsupported("MIG401", f"{told}: jit keeps its first value, unless it is an argument")
        last = nodes.code(node.func).rpartition(".")[2]
        wanted = f"{last}_value" if method == "__call__" else last
        return self.as_input(wanted, Value(node, UNKNOWN if facts is None else facts.result))

    def _asked(self, node: cst.Call) -> tuple[Expr, str] | None:
        """What a call asks that says something else as it trains, and by which method."""
        if self._may_change(node) or self._is_outside(node) or self._counts(node):
            return node.func, "__call__"
        return self._changing_object(node.func)

    def _is_outside(self, node: cst.Call) -> bool:
        """Whether it is a call of a function without tensors that goes by what changes."""
        kind = self.kind_of(node.func)
        return isinstance(kind, Function) and kind.name in self.script.called_outside

    def _counts(self, node: cst.Call) -> bool:
        """Whether a loss calls a function that works on numbers alone, and goes by the values of those."""
        kind = self.kind_of(node.func)
        facts = self.script.functions.get(kind.name) if isinstance(kind, Function) and self.region is not None else None
        if facts is None or not self.works_without_tensors(facts):
            return False
        returned = [one.value for one in usage.returns(facts.node.body)]
        numbers = isinstance(facts.result, Number) or (returned and all(map(is_reckoned, returned)))
        return bool(numbers and decided_by(facts, self.script))

    def _changing_object(self, func: Expr) -> tuple[Expr, str] | None:
        """The object that is called, or asked, where what it answers changes with it, and the method."""
        if isinstance(self.kind_of(func), Function):
            return None
        owner, method = func, "__call__"
        cls = class_of_object(self, nodes.dotted(owner) or "")
        if cls is None and isinstance(func, cst.Attribute):
            owner, method = func.value, func.attr.value
            cls = class_of_object(self, nodes.dotted(owner) or "")
        classes = self.script.own_classes
        changes = cls is not None and bool(classes.used(cls, method) & classes.changed(cls))
        return (owner, method) if changes else None

    def left_call(self, node: cst.Call, owner: Expr, method: str) -> None:
        """Notes a call that callers may make instead; none that changes the object besides."""
        cls = class_of_object(self, nodes.dotted(owner) or "")
        if cls is None:
            self.leave_to_callers(node, isinstance(self.kind_of(owner), Function))
        elif self.script.own_classes.only_asks(cls, method):
            self.leave_to_callers(node, True)

    def _may_change(self, node: cst.Call) -> bool:
        """Whether an object of which nothing is known, an attribute of an object of the script's own or one that
        another package made, is called without arguments: what it says then can only be what it holds by now."""
        if node.args or type(self.kind_of(node.func)) is not Kind:
            return False
        path = nodes.dotted(node.func) or ""
        if path.startswith("self."):
            return path.count(".") == 1 and self.context in ("method", "region") and self.own_method_of(path) is None
        made = [name for name in makers(self, path) if name]
        return bool(made) and all(self.kind_of(nodes.name(name)) == Plain("imported") for name in made)

    def refuse_stale(self, node: Expr, path: str, kind: Kind) -> None:
        """Declines to read, in a function that jit traces, what is further out and changes in training."""
        data = (
            isinstance(kind, Tensor | Number | Items) or kind == Plain("dict") or type(kind) is Kind or is_batch(kind)
        )
        if not self.under_jit or self.region is not None or not data or isinstance(kind, Leaf):
            return
        if not self.is_stale(path):
            return
        self.leave_to_callers(node, True)
        if self.facts is not None and isinstance(node, cst.Name):
            for name in sorted({*usage.loads(self.facts.node.body)} - {path}):
                if self.is_stale(name):  # so that all are asked for at once
                    self.leave_to_callers(nodes.name(name), True)
        told = f"{path}, which changes in training, is read where jit traces"
        raise Unsupported("MIG401", f"{told}: jit keeps its first value, unless it is an argument")

    def is_stale(self, path: str) -> bool:
        """Whether what a function reads is bound again, or changed in place, by the file's top level or a function
        around it, while it trains."""
        around = changed_around(self, path)
        if around is not None:
            return around
        scope = self.env
        while scope.outer is not None and path.partition(".")[0] not in scope.kinds:
            scope = scope.outer
        return scope.outer is None and (path in self.unit.changing or moves(self, path))

    def leave_to_callers(self, node: Expr, repeatable: bool) -> None:
        """Notes that a function asks for what jit would keep: its callers may ask instead. `repeatable`: they may ask
        more than once, or in vain."""
        if self.facts is not None and self.context not in ("forward", "setup"):
            if self.works_without_tensors(self.facts):
                self.script.called_outside.add(self.facts.qualname)
            self.script.asked.setdefault(self.facts.qualname, {})[node] = repeatable

    def works_without_tensors(self, facts: FunctionFacts) -> bool:
        """Whether a function that is no method names nothing of torch's, and neither takes nor gives a tensor."""
        kinds = [facts.params.get(name, UNKNOWN) for name in facts.parameter_names]
        plain = all(type(kind) is Kind or isinstance(kind, Number | Plain | Never) for kind in [*kinds, facts.result])
        state = facts.method or facts.states or facts.writes
        return plain and not state and not self.in_file_of(facts.qualname).uses_torch(facts.node.body)
