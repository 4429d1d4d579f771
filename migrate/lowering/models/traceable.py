"""Methods of modules that jit can trace as they stand: they compute with arrays, and do nothing else."""

from __future__ import annotations

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Distribution, Items, Kind, Number, Plain, Tensor, TorchName
from migrate.lowering.expressions.binding import Binding
from migrate.rules.rule import RULES
from migrate.syntax import nodes, usage
from migrate.syntax.none_tests import tested_for_none
from migrate.syntax.walking import every

_STATEMENTS = cst.SimpleStatementLine | cst.If | cst.With
_SMALL = cst.Assign | cst.AnnAssign | cst.AugAssign | cst.Return | cst.Expr | cst.Pass
_ON_HOST = frozenset(["item", "tolist", "numpy", "backward"])
# Their results have as many elements as the values say.
_OF_VALUES = frozenset(
    ["nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "bincount", "histc", "repeat_interleave"]
)
_OF_DISTRIBUTIONS = frozenset(["sample", "rsample", "log_prob", "entropy"])
_LITERALS = {"None", "True", "False"}
_DECORATORS = frozenset(["torch.no_grad", "torch.inference_mode"])


class Traceable(Binding):
    """Whether a method may be called under jit."""

    def may_be_traced(self, cls: str, method: str, asked: frozenset[str] = frozenset()) -> bool:
        """Whether a method of a module computes with arrays alone, itself and in the methods that it calls: without
        loops, branches on values, numbers of tensors, and what Python alone sees."""
        facts = self.script.functions.get(f"{cls}.{method}")
        if facts is None or method in asked:
            return False
        if facts.traced and _gives_arrays(facts.result):
            return True  # it is converted for that
        if not (_gives_arrays(facts.result, or_unknown=True) and facts.decorators <= _DECORATORS):
            return False
        body, inner = facts.node.body, self.in_file_of(cls)
        read = {name: inner.kind_of_name(name) for name in set(usage.loads(body)) - facts.own_names - _LITERALS}
        settled = [
            isinstance(kind, TorchName) or (isinstance(kind, Number | Plain) and name in inner.unit.constants)
            for name, kind in read.items()
        ]
        if not _is_plain(body) or not all(settled):
            return False
        return all(self._call_is_plain(inner, call, cls, facts, asked | {method}) for call in usage.calls(body))

    def _call_is_plain(
        self, scope: Binding, call: cst.Call, cls: str, facts: FunctionFacts, asked: frozenset[str]
    ) -> bool:
        path = nodes.dotted(call.func) or ""
        called = call.func.attr.value if isinstance(call.func, cst.Attribute) else path
        if called in _OF_VALUES:
            return False
        if scope.torch_name(call.func) is not None:
            return True
        own, _, name = path.partition(".")
        if own == facts.parameter_names[0] and name and "." not in name:
            return name in self.script.classes[cls].children or self.may_be_traced(cls, name, asked)
        named = f"Tensor.{called}" in RULES or called in _OF_DISTRIBUTIONS
        return isinstance(call.func, cst.Attribute) and called not in _ON_HOST and named


def _is_plain(body: cst.BaseSuite) -> bool:
    """Whether a function binds names and returns, by way of whether it was given something."""
    lines = [line for block in every(body, cst.IndentedBlock) for line in block.body]
    small = [each for line in lines if isinstance(line, cst.SimpleStatementLine) for each in line.body]
    bound = [one.target for each in small if isinstance(each, cst.Assign) for one in each.targets]
    return (
        isinstance(body, cst.IndentedBlock)
        and all(isinstance(line, _STATEMENTS) for line in lines)
        and all(isinstance(each, _SMALL) for each in small)
        and not any(isinstance(each, cst.Attribute) for each in bound)
        and all(tested_for_none(one.test) is not None for one in every(body, (cst.If, cst.IfExp)))
        and all(_is_still(part.slice) for one in every(body, cst.Subscript) for part in one.slice)
    )


def _is_still(index: cst.BaseSlice) -> bool:
    """Whether an index is written out, `[:, -1]`: others may be masks."""
    match index:
        case cst.Index(value=value):
            parts = [value]
        case cst.Slice(lower=lower, upper=upper):
            parts = [lower, upper]
        case _:
            return False
    return all(part is None or nodes.literal(part) is not ... for part in parts)


def _gives_arrays(kind: Kind, or_unknown: bool = False) -> bool:
    """Whether jit gives back a result as it is. `or_unknown`: what is not known is none but arrays, and None."""
    if isinstance(kind, Items):
        return bool(kind.items) and all(_gives_arrays(item, or_unknown) for item in kind.items or ())
    return isinstance(kind, Tensor | Distribution) or (or_unknown and type(kind) is Kind)
