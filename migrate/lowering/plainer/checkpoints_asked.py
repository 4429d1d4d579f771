"""Whether anything needs a gradient, asked before a part of a model is computed again in the backward pass:

if self.memory_efficient and any(x.requires_grad for x in inputs):
    out = checkpoint(self.bottleneck, *inputs)
else:
    out = self.bottleneck(*inputs)

torch's checkpoints want to be asked this. `jax.checkpoint` changes nothing where there is no gradient, and costs
nothing there, so that the input is taken as if nothing asked.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.mentions import mentions
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_RECORDING = "torch.is_grad_enabled"


def with_checkpoints_unasked(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project without such questions, and without methods that did no more than ask them."""
    modules = [one.source.module for one in inputs]
    return [one.edited(_edits(one.source.module, modules)) for one in inputs]


def _edits(module: cst.Module, modules: Sequence[cst.Module]) -> Edits:
    edits, asking = Edits(), _Asking(imported_names(module))
    for cls in every(module, cst.ClassDef):
        methods = suites.methods_of(cls)
        asked: list[Expr] = []
        for branch in every(cls.body, cst.If):
            kept, gone = asking.apart(branch.test, methods)
            if not gone or not asking.checkpoints(branch.body, methods):
                continue
            asked += gone
            if kept is None:
                edits.instead[branch] = list(suites.suite_of(branch.body.body))
            else:
                edits.parts[branch.test] = kept
        for name, method in methods.items():
            gone = [one for term in asked for one in every(term, cst.Attribute) if nodes.dotted(one) == f"self.{name}"]
            if gone and len(gone) == sum(len(mentions(one, name, [method.name])) for one in modules):
                edits.instead[method] = []
    return edits


class _Asking:
    """What asks for gradients in a file."""

    def __init__(self, imported: dict[str, str]) -> None:
        self.imported = imported

    def apart(self, test: Expr, methods: dict[str, cst.FunctionDef]) -> tuple[Expr | None, list[Expr]]:
        """A test without the terms of it that ask for gradients, None where nothing is left; and those terms."""
        if not isinstance(test, cst.BooleanOperation) or not isinstance(test.operator, cst.And):
            return (None, [test]) if self.asks(test, methods) else (test, [])
        (left, some), (right, others) = self.apart(test.left, methods), self.apart(test.right, methods)
        both = left is not None and right is not None
        kept = test.with_changes(left=left, right=right) if some + others and both else test if both else left or right
        return kept, some + others

    def asks(self, term: Expr, methods: dict[str, cst.FunctionDef]) -> bool:
        """Whether an expression tells no more than that something needs a gradient."""
        if isinstance(term, cst.Attribute):
            return term.attr.value == "requires_grad" and nodes.dotted(term.value) is not None
        if not isinstance(term, cst.Call):
            return False
        name, given = nodes.dotted(term.func) or "", [arg.value for arg in term.args]
        if name == "any" and len(given) == 1 and isinstance(given[0], cst.GeneratorExp | cst.ListComp):
            return self.asks(given[0].elt, {})
        if full_name(term.func, self.imported) == _RECORDING:
            return True
        method = methods.get(name.removeprefix("self.")) if name.startswith("self.") else None
        return method is not None and self._only_asks(method)

    def _only_asks(self, method: cst.FunctionDef) -> bool:
        """Whether a method returns whether something needs a gradient, and does nothing else."""
        body = [one for one in suites.suite_of(method.body.body) if not suites.is_docstring(one)]
        doing = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Expr)
        told = [one.value for one in usage.returns(method.body)]
        tests = [one.test for one in every(method.body, cst.If)]
        asked = [*tests, *(one for one in told if one is not None and nodes.literal(one) is ...)]
        return (
            None not in told
            and bool(asked)
            and all(self.asks(one, {}) for one in asked)
            and not any(True for one in body for _ in every(one, doing))
        )

    def checkpoints(self, body: cst.CSTNode, methods: dict[str, cst.FunctionDef]) -> bool:
        """Whether code has something computed again, itself or by a method of its object."""
        for call in usage.calls(body):
            own = (nodes.dotted(call.func) or "").partition("self.")[2]
            if full_name(call.func, self.imported) == _CHECKPOINT:
                return True
            if own in methods and any(
                full_name(one.func, self.imported) == _CHECKPOINT for one in usage.calls(methods[own].body)
            ):
                return True
        return False
