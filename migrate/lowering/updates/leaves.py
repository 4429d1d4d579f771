"""Tensors that gradients are taken of without a model: `w = torch.randn(3, requires_grad=True)`.

They are updated by hand or by an optimizer. Each is a piece of state of its own, with its gradient beside it: `w` and
`w_grad`.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Device, Instance, Kind, Leaf, Optimizer, Place, Scheduler, Tensor
from migrate.known.states import GRADS, PARAMS, State
from migrate.lowering.models.members import named_members
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.lowering.updates.accumulation import Accumulation
from migrate.lowering.updates.gradient_flow import GradientFlow, asks_for_gradients
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_MAKERS = "torch.optim."


class Leaves(Accumulation, GradientFlow):
    """Making such tensors, changing them, and clearing their gradients."""

    def leaf_at(self, place: Place, kind: Kind, written: Expr) -> Kind:
        """What a name holds after an assignment: a leaf where that asks for gradients, on the host."""
        if not isinstance(kind, Tensor) or place == NOWHERE:
            return kind
        for listing, members in named_members(self.env).items():
            if place.name in members.names and any(isinstance(item, Leaf) for item in members.items or ()):
                raise Unsupported("MIG303", f"{place.name} is bound anew, and {listing} has the tensor that it was")
        for name, held in self.env.kinds.items():
            if isinstance(held, Optimizer) and place in held.models and self.next_access(name) == "load":
                raise Unsupported("MIG303", f"{place.name} is bound anew, and {name} has the tensor that it was")
        made = isinstance(kind, Leaf) and kind.place == NOWHERE  # by a function
        asked = (made or asks_for_gradients(self.where_made(written))) and not self.starts_a_sum(place.name)
        asked = asked and (made or self.asks_for_left())
        if self.context not in HOST_CONTEXTS or self.under_jit or self.nested or not asked:
            self.script.leaves.discard(place)
            return kind.plain if isinstance(kind, Leaf) else kind
        self.script.leaves.add(place)
        return Leaf(kind.dtype, kind.rank, kind.optional, kind.origins, place)

    def where_made(self, written: Expr) -> Expr:
        """`x.requires_grad_()` of `x.requires_grad_().to(device)`: the same tensor, where it is there already."""
        while isinstance(written, cst.Call) and isinstance(written.func, cst.Attribute):
            method, kinds = written.func.attr.value, [self.kind_of(arg.value) for arg in written.args]
            if method != "cuda" and not (method == "to" and len(kinds) == 1 and isinstance(kinds[0], Device)):
                break
            written = written.func.value
        return written

    def refuse_outside(self, target: Expr) -> None:
        """Declines to bind such a tensor of an object anew outside of its class, of which the optimizer has the old
        one, and what an optimizer or a scheduler keeps."""
        owner = self.kind_of(target.value) if isinstance(target, cst.Attribute) else None
        if isinstance(owner, Optimizer | Scheduler):
            raise Unsupported("MIG401", f"{nodes.code(target)} is set: what torch keeps there is not followed")
        if not isinstance(owner, Instance) or not isinstance(target, cst.Attribute):
            return
        held = self.script.attributes.get(owner.cls, {}).get(f"self.{target.attr.value}")
        if isinstance(held, Leaf):
            raise Unsupported("MIG303", f"{nodes.code(target)} is bound anew, and is trained as the tensor that it was")

    def starts_a_sum(self, name: str) -> bool:
        """Whether what follows gives a name to something else, asks for no gradient of it, and trains it by no
        optimizer: `l2 = l2 + ...`."""
        block = self.blocks[-1] if self.blocks else None
        later = block.statements[block.index + 1 :] if block is not None else []
        made = [
            call for call in usage.calls(cst.Module(later)) if (self.torch_name(call.func) or "").startswith(_MAKERS)
        ]
        if any(name in usage.loads(call) for call in made):
            return False
        read = {path for statement in later for path in usage.paths(statement)}
        return f"{name}.grad" not in read and name in usage.stores(later)

    def asks_for_left(self) -> bool:
        """Whether anything may ask for the gradient of a tensor that backward() leaves: some file reads one, or an
        optimizer takes more than the parameters of a model. `torch.autograd.grad` leaves none."""
        files = [unit.source.module for unit in self.unit.others.values() or [self.unit]]
        read = [one for file in files for one in every(file, cst.Attribute) if one.attr.value == "grad"]
        if any(self.torch_name(one) != "torch.autograd.grad" for one in read):
            return True
        calls = [call for file in files for call in usage.calls(file)]
        names = {call: self.torch_name(call.func) or "" for call in calls if call.args}
        made = [call for call, name in names.items() if name.startswith(_MAKERS) and "lr_scheduler" not in name]
        return any(not nodes.code(call.args[0].value).endswith(".parameters()") for call in made)

    def first_gradients(self, place: Place) -> list[Statement]:
        """The gradients of a new leaf, where some backward pass adds to what was there."""
        if place not in self.script.leaves or not self.sums_from_the_start(place):
            return []
        return [self.zero_gradients(State(PARAMS, place), State(GRADS, place))]

    def cleared_leaf(self, small: cst.BaseSmallStatement) -> list[Statement] | None:
        """`w.grad.zero_()` and `w.grad = None`; None for other statements."""
        place = self.zeroed_leaf(small)
        return None if place is None else self.zeroed_gradients((place,))

    def changed_leaf(self, target: Expr) -> Leaf | None:
        """The leaf that a statement changes in place, which then is still the same one."""
        kind = self.kind_of(target)
        if not isinstance(kind, Leaf):
            return None
        self.write(State(PARAMS, kind.place))
        return kind
