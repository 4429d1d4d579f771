"""Arrays that a loss makes of what jit cannot take: they are made before the step, which takes them as inputs."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.known.kinds import Items, Model, Module, Optimizer, Tensor
from migrate.lowering.scope import Scope
from migrate.lowering.statements.blocks import run_before
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.imported import full_name
from migrate.syntax.walking import every

COPIES = ("torch.tensor", "torch.as_tensor")
OF_LISTS = (*COPIES, "torch.arange")
_BUILTINS = ("len", "list", "tuple", "zip", "range", "reversed", "sorted", "float", "int", "max", "min", "sum")


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
        in, and no words. `torch.tensor(np.stack(states))`: numpy takes no tracers, and jit a list element by
        element."""
        tracing = self.region
        if self.nested or not isinstance(made.kind, Tensor) or not node.args:
            return made
        data = node.args[0].value
        if tracing is None:
            return self.copied_by_callers(node, data, made) if self.facts is not None and self.facts.traced else made
        names = usage.loads(data)
        changing = self._changing([data])
        traced = any(isinstance(self.kind_of_name(name), Model | Module | Optimizer) for name in names)
        if not changing or traced or set(names) & tracing.inside:
            return made
        if not self._looks_up(data) and not self._is_of_lists(data):
            return made
        what = "range" if self.torch_name(node.func) == "torch.arange" else "array"
        return self.as_input(f"{_last_of(data, changing[-1])}_{what}", made)

    def copied_by_callers(self, node: cst.Call, data: cst.BaseExpression, made: Value) -> Value:
        """What a function that jit traces copies from what numpy makes of its parameters: whoever calls it does."""
        assert self.facts is not None
        given = [name for name in usage.loads(data) if name in self.facts.parameter_names]
        bound = {*usage.stores(self.facts.node.body)} - {*given} | {*usage.stores(run_before(self.blocks))}
        if not given or {"self", *bound} & set(usage.loads(data)):
            return made
        if not self._is_of_lists(data) or not self.surely_once():
            return made
        return self.from_outside(f"{_last_of(data, given[0])}_array", node, made.kind)

    def _is_of_lists(self, data: cst.BaseExpression) -> bool:
        """Whether numpy makes an array of what it surely is given on the host, or data is a list as it is."""
        calls = usage.calls(data)
        of_numpy = [call for call in calls if self._is_of_numpy(call)]
        if any(call not in of_numpy and nodes.dotted(call.func) not in _BUILTINS for call in calls):
            return False
        kinds = [self.kind_of_name(path) for path in usage.paths(data)]
        if any(isinstance(kind, Tensor) for kind in kinds):
            return False
        return bool(of_numpy) or any(isinstance(kind, Items) for kind in kinds)

    def _is_of_numpy(self, call: cst.Call) -> bool:
        """Whether a call is one of a function of numpy that draws nothing."""
        name = full_name(call.func, self.unit.imported)
        return name.startswith("numpy.") and not name.startswith("numpy.random.")

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


def _last_of(data: cst.BaseExpression, head: str) -> str:
    """The last name of the longest path in an expression that begins with a name: "obs" of `np.array(self.obs)`."""
    paths = [path for path in usage.paths(data) if path.partition(".")[0] == head]
    return max(paths, key=len).rpartition(".")[2]
