"""What a script asks of a layer of torch's that is a model by itself: `norm.eps`, `fc.in_features`.

The layer in Flax keeps other things, under other names. What its call in the script says is said again; the rest is
refused.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Model, Number
from migrate.known.qualified import options
from migrate.known.script import INLINE
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.targets import linen

# Arguments that torch's layers keep under their names and as they are given: `kernel_size=3` is kept as (3, 3).
_AS_GIVEN = frozenset(
    {"in_features", "out_features", "in_channels", "out_channels", "groups", "num_features", "num_embeddings"}
    | {"embedding_dim", "input_size", "hidden_size", "num_layers", "batch_first", "bidirectional"}
    | {"dropout", "p", "eps", "momentum", "affine", "num_groups", "num_channels", "embed_dim", "num_heads"}
)


def attribute_of_layer(scope: Scope, node: cst.Attribute, model: Model) -> Value | None:
    """Such an attribute as the call that has made the layer tells it; None of a model of a class of the script's;
    raises Unsupported."""
    if not all(INLINE in cls for cls in options(model.cls)):
        return None
    attribute = node.attr.value
    calls = list(scope.script.layers_alone.get(model.cls, {}).values())
    made = calls[0] if len(calls) == 1 else None
    if isinstance(made, cst.Call) and attribute in _AS_GIVEN:
        parameters = {one.name: one.default for one in linen.layer_signature(TABLE[scope.torch_name(made.func) or ""])}
        names = argument_names(made.args, list(parameters))
        given = {one: arg.value for arg, one in zip(made.args, names, strict=True)}
        told = given.get(attribute, parameters.get(attribute))
        if told is not None and nodes.literal(told) is not ...:
            return Value(told, Number())
    raise Unsupported("MIG301", f"{nodes.code(node)}: what torch's layer keeps, and the one in Flax does not")
