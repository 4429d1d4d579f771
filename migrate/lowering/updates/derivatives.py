"""`torch.autograd.grad`: derivatives of what has been computed, as `jax.grad` of the function that computes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Kind, Leaf, Tensor, is_batch
from migrate.known.weight_kinds import WeightTree
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.expressions.held_values import HeldValues
from migrate.lowering.weights.values_per_parameter import ValuesPerParameter
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_PARAMETERS = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs")
_ONES = ("torch.ones", "torch.ones_like")


class Derivatives(ValuesPerParameter, Arguments, HeldValues):
    """Gradients of tensors by other tensors."""

    def torch_autograd_grad(self, node: cst.Call) -> Value:
        """A tuple of the gradients by each input. The output is written as a function of the inputs, from the
        statements that have computed it."""
        given = self.given_arguments(node)
        outputs, inputs = given["outputs"], self.whole_trees(_listed(given["inputs"]))
        names = [name.value for name in inputs if isinstance(name, cst.Name)]
        bound: dict[str, Kind] = {name: self.kind_of_name(name) for name in names}
        bound = {name: kind.plain if isinstance(kind, Leaf) else kind for name, kind in bound.items()}
        batches = {name for name, kind in bound.items() if is_batch(kind)}
        bound |= dict.fromkeys(batches, Tensor())
        if len(names) != len(inputs) or not all(type(kind) in (Tensor, WeightTree) for kind in bound.values()):
            raise Unsupported("MIG301", f"torch.autograd.grad by {nodes.code(given['inputs'])}")
        (output,) = _listed(outputs) if len(_listed(outputs)) == 1 else (outputs,)
        computed = self.in_terms_of(output, names)
        inner = self.inner(bound)
        inner.before = []
        replaying = self.region.replaying if self.region is not None else False
        if self.region is not None:
            self.region.replaying = True  # it has been computed before: nothing is drawn or changed again
        try:
            body = layouts.first(inner.expr(computed))
        finally:
            if self.region is not None:
                self.region.replaying = replaying
        if inner.before:
            raise Unsupported("MIG301", f"torch.autograd.grad of `{nodes.code(computed)}`, which changes state")
        weights = given.get("grad_outputs")
        if weights is not None and not nodes.is_literal(weights, None):
            (weights,) = _listed(weights) if len(_listed(weights)) == 1 else (weights,)
            body = self.weighted(body, weights)
        function = cst.Lambda(cst.Parameters([cst.Param(cst.Name(name)) for name in names]), nodes.bare(body))
        numbers = nodes.tuple_of([cst.Integer(str(number)) for number in range(len(names))])
        gradient = nodes.call("jax.grad", function, **({"argnums": numbers} if len(names) > 1 else {}))
        by = [self.array(nodes.name(name)).node if name in batches else nodes.name(name) for name in names]
        made: Expr = cst.Call(gradient, nodes.arguments(by))
        traced = self.facts is not None or self.region is not None
        if traced:
            made = self.in_graph(made, given.get("create_graph"))
        kinds: tuple[Kind, ...] = tuple(_of_gradient(bound[name]) for name in names)
        if len(kinds) == 1 and isinstance(kinds[0], WeightTree):
            return Value(made, kinds[0])
        if len(names) == 1:
            made = nodes.tuple_of([made])
        return Value(made, Items(kinds, type="tuple"))

    def only_differentiated(self, statement: cst.CSTNode, made: Sequence[cst.CSTNode]) -> bool:
        """Whether a statement of a function, lowered to one, computes what gradients are taken of and nothing else
        reads: the function that `jax.grad` takes computes it itself."""
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if self.facts is None or self.before or len(made) != 1 or not isinstance(target, cst.Name):
            return False
        body = self.facts.node.body
        calls = [call for call in usage.calls(body) if self.torch_name(call.func) == "torch.autograd.grad"]
        taken = [call for call in calls if call.args and nodes.dotted(call.args[0].value) == target.value]
        once = usage.stores(body).count(target.value) == 1
        return once and len(taken) == usage.loads(body).count(target.value) > 0

    def in_graph(self, gradients: Expr, asked: Expr | None) -> Expr:
        """Gradients through which no others are taken, unless `create_graph` says so, perhaps as the script runs."""
        if nodes.is_literal(asked, True):
            return gradients
        if asked is None or nodes.literal(asked) is not ...:
            return nodes.call("jax.lax.stop_gradient", gradients)
        if self.nested or self.conditional:
            raise Unsupported("MIG302", f"torch.autograd.grad: create_graph={nodes.code(asked)} inside an expression")
        name, told = self.held(gradients, "gradients"), self.node(asked)
        text = "{g} if {told} else jax.lax.stop_gradient({g})"
        return nodes.expression(text, g=name, told=told)

    def whole_trees(self, inputs: list[Expr]) -> list[Expr]:
        """The inputs, `params` for `params.values()` where that is all."""
        made = self.weight_tree(inputs[0]) if len(inputs) == 1 else None
        if made is None or not isinstance(made.kind, WeightTree) or not isinstance(made.node, cst.Name):
            return inputs
        return [made.node]

    def given_arguments(self, node: cst.Call) -> dict[str, Expr]:
        """The arguments as they are written, by name."""
        order = _PARAMETERS
        given: dict[str, Expr] = {}
        for number, arg in enumerate(node.args):
            if arg.star or number >= len(order):
                raise Unsupported("MIG302", "torch.autograd.grad with starred arguments")
            given[arg.keyword.value if arg.keyword is not None else order[number]] = arg.value
        for name, allowed in (("is_grads_batched", False), ("only_inputs", True)):
            if name in given and not nodes.is_literal(given[name], allowed):
                raise Unsupported("MIG302", f"torch.autograd.grad: {name}={nodes.code(given[name])}")
        if "outputs" not in given or "inputs" not in given:
            raise Unsupported("MIG302", "torch.autograd.grad without outputs and inputs")
        return given

    def in_terms_of(self, output: Expr, inputs: Sequence[str]) -> Expr:
        """What has computed an output, down to the inputs."""
        made, through = output, {name for name in usage.loads(output) if self.is_derived(name)}
        for _ in range(20):
            steps = {
                name: definition
                for name in usage.loads(made)
                if name not in inputs and (definition := self.definition_by(name, inputs)) is not None
            }
            if not steps:
                break
            through |= steps.keys()
            made = nodes.substituted(made, {name: nodes.parenthesized(value) for name, value in steps.items()})
        if not set(usage.loads(made)) & set(inputs):
            if self.facts is not None and set(usage.loads(output)) & set(self.facts.parameter_names):
                self.script.going_on.add(self.facts.qualname)  # its callers have computed it
            raise Unsupported("MIG301", f"torch.autograd.grad of {nodes.code(output)}, whose computation is not known")
        for name in inputs:
            if self.times_bound(name) > 1 and not self.bound_after(name, through - {*inputs}):
                raise Unsupported("MIG301", f"torch.autograd.grad by {name}, which is bound again")
        return made

    def is_derived(self, name: str) -> bool:
        """Whether statements of the function at hand, or of the file, may compute what a name stands for from others:
        it is no model and no module, and not bound by the head of a loop alone."""
        kind = self.kind_of_name(name)
        where = self.own_body
        tensor = isinstance(kind, Tensor) or type(kind) is Kind
        return tensor and any(name in usage.stores(one) for one in every(where, cst.SimpleStatementLine))

    def definition_by(self, name: str, inputs: Sequence[str], seen: frozenset[str] = frozenset()) -> Expr | None:
        """What a name stands for, where that depends on the inputs."""
        definition = self.env.definitions.get(name)
        if definition is None or name in seen:
            return None
        reads = usage.loads(definition)
        if not set(reads) & set(inputs) and not any(
            self.definition_by(other, inputs, seen | {name}) is not None for other in reads if other not in inputs
        ):
            return None
        if self.times_bound(name) != 1 and self.last_bound(name) is None:
            raise Unsupported("MIG301", f"torch.autograd.grad through {name}, which is bound in several places")
        return definition

    def times_bound(self, name: str) -> int:
        """How many statements of the function at hand, or of the file, bind or change a name."""
        where = self.own_body
        statements = list(where.body)
        return sum(1 for found in usage.stores(statements) if found == name)

    def run_before(self) -> list[Statement]:
        """The statements of the block at hand that come before this one, with those of a loss function around it."""
        block = self.blocks[-1].statements[: self.blocks[-1].index]
        if self.region is None:
            return block
        return [*self.region.done, *block] if len(self.blocks) > self.region.depth else [*block, *self.region.done]

    def last_bound(self, name: str) -> int | None:
        """Which statement before the one at hand has bound a name last, in any case; None where another one may
        have."""
        earlier = self.run_before()
        found = [number for number, statement in enumerate(earlier) if name in usage.stores(statement)]
        surely = (cst.SimpleStatementLine, cst.With)
        return found[-1] if found and isinstance(earlier[found[-1]], surely) else None

    def bound_after(self, name: str, others: Iterable[str]) -> bool:
        """Whether statements before the one at hand have bound all the others since one last bound a name."""
        earlier = self.run_before()
        last = max((number for number, statement in enumerate(earlier) if name in usage.stores(statement)), default=-1)
        bound = [self.last_bound(other) for other in others if self.times_bound(other)]
        return all(number is not None and number > last for number in bound)

    def weighted(self, body: Expr, weights: Expr) -> Expr:
        """The sum of an output times what its gradient is given to start with, which mostly is one."""
        known = weights
        if isinstance(weights, cst.Name) and self.times_bound(weights.value) == 1:
            known = self.env.definitions.get(weights.value, weights)
        while isinstance(known, cst.Call):
            name = self.torch_name(known.func)
            if name in _ONES:
                return nodes.expression("{x}.sum()", x=nodes.parenthesized(body))
            placing = isinstance(known.func, cst.Attribute) and known.func.attr.value in ("to", "cuda", "type_as")
            if placing and isinstance(known.func, cst.Attribute):
                known = known.func.value
            elif name == "torch.autograd.Variable":
                known = known.args[0].value
            else:
                break
        return nodes.expression("jnp.sum({x} * {w})", x=nodes.parenthesized(body), w=self.array(weights).node)


def _of_gradient(kind: Kind) -> Kind:
    """The kind of the gradient by an input."""
    if isinstance(kind, WeightTree):
        return WeightTree(kind.cls, kind.what, listed=True)
    return Tensor("float", kind.rank if isinstance(kind, Tensor) else -1)


def _listed(node: Expr) -> list[Expr]:
    """The elements of a list or a tuple, or the one value."""
    return [element.value for element in node.elements] if isinstance(node, cst.List | cst.Tuple) else [node]
