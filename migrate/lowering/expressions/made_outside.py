"""Arrays that a loss makes of what jit cannot take: they are made before the step, which takes them as inputs."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.known.kinds import Model, Module, Optimizer, Tensor
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every

COPIES = ("torch.tensor", "torch.as_tensor")


class MadeOutside(Scope):
    """Inputs of a step that are no variables of the script."""

    def cut_outside(self, node: cst.Subscript, base: Value) -> Value | None:
        """A slice with bounds that change from step to step must be taken before a jitted step: it becomes an input."""
        tracing, name = self.region, nodes.dotted(node.value)
        bounds = [e.slice for e in node.slice if isinstance(e.slice, cst.Slice)]
        if not isinstance(node.value, cst.Name) or not isinstance(base.kind, Tensor) or not self._changing(bounds):
            return None
        if tracing is None or set(usage.loads(node)) & tracing.inside:
            return None
        return self.as_input(f"{name}_batch", Value(node, base.kind))

    def copied_outside(self, node: cst.Call, made: Value) -> Value:
        """`torch.tensor([index_of[word]])`: jit has no dicts and lists that what changes from step to step is looked up
        in, and no words."""
        tracing = self.region
        if tracing is None or self.nested or not isinstance(made.kind, Tensor) or not node.args:
            return made
        data = node.args[0].value
        names = usage.loads(data)
        changing = self._changing([data])
        traced = any(isinstance(self.kind_of_name(name), Model | Module | Optimizer) for name in names)
        if not changing or traced or set(names) & tracing.inside or not self._looks_up(data):
            return made
        return self.as_input(f"{changing[-1]}_array", made)

    def _looks_up(self, data: cst.BaseExpression) -> bool:
        """Whether values are looked up in what is no array, or gone through one by one."""
        for found in every(data, (cst.Subscript, cst.CompFor)):
            looked, by = (found.value, found.slice) if isinstance(found, cst.Subscript) else (found.iter, [found.iter])
            if not isinstance(self.kind_of(looked), Tensor) and self._changing(by):
                return True
        return False

    def _changing(self, found: Sequence[cst.CSTNode]) -> list[str]:
        """The names in nodes that may hold something else at each step, by where they are read first."""
        return [name for name in dict.fromkeys(usage.loads(found)) if name not in self.unit.constants]

    def as_input(self, wanted: str, value: Value) -> Value:
        """The name under which the step takes a value."""
        assert self.region is not None
        cut, code = self.region.cut, nodes.code(value.node)
        others = {name for name, one in cut.items() if nodes.code(one.node) != code}
        name = usage.unused_name(wanted, self.unit.taken | others)
        cut[name] = value
        return Value(nodes.name(name), value.kind)
