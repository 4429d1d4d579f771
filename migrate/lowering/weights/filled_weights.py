"""Weights that a script fills by name once their model is made: `nn.init.normal_(model.head.weight, std=0.01)`."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Place
from migrate.layers.moves import Permute
from migrate.lowering.initial.initializers_of_flax import filling, outputs_first, scaling
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.weights.set_weights import SetWeights
from migrate.manifest import Leaf
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr, Statement


class FilledWeights(SetWeights):
    """The layer has that initialiser where all models of its class are filled so, as they are made; else the weight is
    filled where the line stands."""

    def weight_filled(self, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> list[Statement] | None:
        """Lowers such a statement; None for any other."""
        call = small.value if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) else None
        here = call is not None and self.context in HOST_CONTEXTS
        scaled = scaling(call) if call is not None and here and not self.loops else None
        filled = scaled or (filling(self, call) if call is not None and here else None)
        found = self.leaf_of(filled[1]) if filled is not None else None
        if call is None or filled is None or found is None:
            return None
        (name, target), (place, leaf) = filled, found
        in_turn = (self.root(place), leaf.torch) in self.script.weights_set  # what was set before is filled again
        try:
            if scaled is not None and in_turn:
                raise Unsupported("MIG204", f"{nodes.code(target)} is changed after its module was made")
            if not in_turn and place not in self.script.filled_by_hand and self.layer_fills(call, place, leaf):
                return []
        except Unsupported:
            if scaled is not None or self.set_leaf(target) is None or self._has_new_parts(place):
                raise
            self.script.filled_by_hand |= self.roots(place)
        if scaled is not None:
            return None
        return self._filled_here(line, call, self.initializer_told(call, name, target), place, leaf)

    def _has_new_parts(self, place: Place) -> bool:
        """Whether parts are, or may be, put into a model: its weights are not those that its class tells."""
        exchanged = any(facts.replaced for facts in self.script.classes.values())
        return place in {one for one, _ in self.replaced} or (exchanged and place in self.script.made_as)

    def _filled_here(
        self, line: cst.SimpleStatementLine, call: cst.Call, made: Expr, place: Place, leaf: Leaf
    ) -> list[Statement] | None:
        """The weight with values of an initialiser. What goes by fans is drawn in torch's order of axes."""
        if any(name in nodes.code(made) for name in _NOT_HERE):
            raise Unsupported("MIG204", f"`{nodes.code(call)}` fills a weight of one of several models")
        by_fans = made if _outputs_last(leaf) else outputs_first(made)
        moved = nodes.code(by_fans) == nodes.code(made)
        before = self.weight_before(place, leaf, moved)
        if before is None:
            return None
        constant = _CONSTANT.get(nodes.code(made.func if isinstance(made, cst.Call) else made))
        if constant is not None:
            given = [arg.value for arg in made.args] if isinstance(made, cst.Call) else []
            return self.set_moved(line, place, leaf, nodes.call(constant, before.node, *given))
        text, init = "{init}({key}, {w}.shape)", nodes.parenthesized(by_fans)
        values = nodes.expression(text, init=init, key=self.fresh_key(), w=before.node)
        return (self.set_moved if moved else self.with_leaf)(line, place, leaf, values)


def _outputs_last(leaf: Leaf) -> bool:
    """Whether the last axes of a weight in Flax are inputs and outputs, as initialisers have them."""
    return any(isinstance(move, Permute) and move.axes[-2:] == (1, 0) for move in leaf.moves)


# Initialisers that draw otherwise than torch does where the weight stands: again and again, or through a factorisation.
_NOT_HERE = ("truncated", "orthogonal", "delta_")
# Initialisers that draw nothing, and the function that makes an array like another one.
_CONSTANT = {
    "nn.initializers.zeros": "jnp.zeros_like",
    "nn.initializers.ones": "jnp.ones_like",
    "nn.initializers.constant": "jnp.full_like",
}
