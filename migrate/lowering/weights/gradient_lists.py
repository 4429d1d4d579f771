"""Gradients that a comprehension takes from parameters: `[p.grad.norm() for p in model.parameters()]`."""

from __future__ import annotations

import libcst as cst

from migrate.known.states import PARAMS
from migrate.known.weight_kinds import Weight, WeightTree
from migrate.lowering.weights.parameter_loops import ParameterLoops
from migrate.lowering.weights.plain_weights import PlainWeights, trees_of
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr


class GradientLists(ParameterLoops):
    """Comprehensions over the gradients of models."""

    def over_gradients(self, node: cst.BaseComp) -> tuple[cst.BaseComp, cst.CompFor] | None:
        """A comprehension over parameters that reads their gradients, as one over the leaves of both, and its lowered
        `for`, whose variables are bound in this (inner) scope; None for others."""
        each = node.for_in
        if isinstance(node, cst.DictComp) or each.inner_for_in is not None:
            return None
        assert isinstance(node, cst.ListComp | cst.GeneratorExp | cst.SetComp)
        if "grad" not in usage.attributes(node):
            return None
        turn = cst.SimpleStatementLine([cst.Expr(node.elt)])
        looped = self.looped(cst.For(each.target, each.iter, cst.IndentedBlock([turn])))
        if looped is None or not all(self.always(condition.test, looped) for condition in each.ifs):
            return None
        plain = PlainWeights(looped)
        element = nodes.visited(node.elt.deep_clone(), plain)
        if not plain.gradients or isinstance(element, cst.Name):
            return None  # a list of the gradients themselves sees what is added to them
        trees = trees_of(looped)
        used = [name for name in trees if name in usage.loads(element)]
        leaves = [nodes.call("jax.tree.leaves", self.tree(*trees[name])) for name in used]
        self.env.kinds |= dict.fromkeys(used, Weight(live=True))
        names: list[Expr] = [nodes.name(name) for name in used]
        target = names[0] if len(used) == 1 else nodes.tuple_of(names, parentheses=False)
        iterated = leaves[0] if len(leaves) == 1 else nodes.call("zip", *leaves)
        return node.with_changes(elt=element), each.with_changes(target=target, iter=iterated, ifs=[])

    def tree_of_gradients(self, node: cst.ListComp | cst.GeneratorExp) -> Value | None:
        """`[p.grad.clone() for p in net.parameters()]`: a map over the gradients; None where none are read."""
        each, turn = node.for_in, cst.SimpleStatementLine([cst.Expr(node.elt)])
        looped = self.looped(cst.For(each.target, each.iter, cst.IndentedBlock([turn])))
        if looped is None or each.ifs or each.inner_for_in is not None or "grad" not in usage.attributes(node.elt):
            return None
        model = next((one.model for one in looped if not one.tree), None)
        if model is None:
            return None
        inner = self.inner(dict.fromkeys([name for one in looped for name in (one.name, one.gradient)], Weight()))
        value = inner.expr(nodes.visited(node.elt.deep_clone(), PlainWeights(looped))).node
        kind = WeightTree(self.script.places[self.root(model)], PARAMS, listed=True)
        return Value(self.tree_mapped(looped, value), kind)
