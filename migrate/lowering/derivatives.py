"""`torch.autograd.grad`: derivatives of what has been computed, as `jax.grad` of the function that computes it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate import layouts, nodes, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import Items, Kind, Leaf, Tensor
from migrate.lowering.arguments import Arguments
from migrate.lowering.binding import Binding
from migrate.nodes import Expr
from migrate.rules.rule import Value

_PARAMETERS = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs")
_ONES = ("torch.ones", "torch.ones_like")


class Derivatives(Arguments, Binding):
    """Gradients of tensors by other tensors."""

    def torch_autograd_grad(self, node: cst.Call) -> Value:
        """A tuple of the gradients by each input. The output is written as a function of the inputs, from the
        statements that have computed it."""
        given = self.given_arguments(node)
        outputs, inputs = given["outputs"], _listed(given["inputs"])
        names = [name.value for name in inputs if isinstance(name, cst.Name)]
        bound: dict[str, Kind] = {name: self.kind_of_name(name) for name in names}
        bound = {name: kind.plain if isinstance(kind, Leaf) else kind for name, kind in bound.items()}
        if len(names) != len(inputs) or not all(type(kind) is Tensor for kind in bound.values()):
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
        made: Expr = cst.Call(gradient, nodes.arguments([nodes.name(name) for name in names]))
        traced = self.facts is not None or self.region is not None
        if traced and not nodes.is_literal(given.get("create_graph"), True):
            made = nodes.call("jax.lax.stop_gradient", made)
        kinds: tuple[Kind, ...] = tuple(Tensor("float", getattr(bound[name], "rank", -1)) for name in names)
        if len(names) == 1:
            made = nodes.tuple_of([made])
        return Value(made, Items(kinds, type="tuple"))

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
        made = output
        for _ in range(20):
            steps = {
                name: definition
                for name in usage.loads(made)
                if name not in inputs and (definition := self.definition_by(name, inputs)) is not None
            }
            if not steps:
                break
            made = nodes.substituted(made, {name: nodes.parenthesized(value) for name, value in steps.items()})
        if not set(usage.loads(made)) & set(inputs):
            raise Unsupported("MIG301", f"torch.autograd.grad of {nodes.code(output)}, whose computation is not known")
        for name in inputs:
            if self.times_bound(name) > 1:
                raise Unsupported("MIG301", f"torch.autograd.grad by {name}, which is bound again")
        return made

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
        if self.times_bound(name) != 1:
            raise Unsupported("MIG301", f"torch.autograd.grad through {name}, which is bound in several places")
        return definition

    def times_bound(self, name: str) -> int:
        """How many statements of the function at hand, or of the file, bind or change a name."""
        where = self.facts.node.body if self.facts is not None else self.unit.source.module
        statements = list(where.body)
        return sum(1 for found in usage.stores(statements) if found == name)

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


def _listed(node: Expr) -> list[Expr]:
    """The elements of a list or a tuple, or the one value."""
    return [element.value for element in node.elements] if isinstance(node, cst.List | cst.Tuple) else [node]
