"""torch.nn.functional: normalisation, dropout, padding, products with weights."""

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.nodes import Expr
from migrate.rules.rule import Call, rule


@rule("torch.nn.functional.normalize", signature="input, p=2.0, dim=1, eps=1e-12, out=None", dtype="float")
def normalize(call: Call) -> Expr:
    """Divides by the norm, which is clamped from below by eps.

    >>> F.normalize(x, dim=1)  # x: f32[2, 3]
    x / jnp.linalg.norm(x, axis=1, keepdims=True).clip(1e-12)
    """
    call.only("p", 2.0, 2)
    return call.make("{input} / jnp.linalg.norm({input}, axis={dim}, keepdims=True).clip({eps})")


@rule("torch.nn.functional.one_hot", signature="tensor, num_classes=-1", dtype="int")
def one_hot(call: Call) -> Expr:
    """Integers in torch, floats in JAX; the number of classes must be given.

    >>> F.one_hot(x, 4)  # x: idx4[5]
    nn.one_hot(x, 4, dtype=jnp.int32)
    """
    if not call.has("num_classes"):
        raise Unsupported("MIG302", f"{call.api} without num_classes has a shape that depends on the data")
    return call.make("nn.one_hot({tensor}, {num_classes}, dtype=jnp.int32)")


@rule("torch.nn.functional.linear", signature="input, weight, bias=None", dtype="float")
def linear(call: Call) -> Expr:
    """The weight is (out, in).

    >>> F.linear(x, y)  # x: f32[2, 3]; y: f32[4, 3]
    x @ y.T
    >>> F.linear(x, y, z)  # x: f32[2, 3]; y: f32[4, 3]; z: f32[4]
    (x @ y.T) + z
    """
    return call.make("{input} @ {weight}.T + {bias}" if call.has("bias") else "{input} @ {weight}.T")


@rule(
    "torch.nn.functional.dropout", signature="input, p=0.5, training=True, inplace=False", elementwise=True, draws=True
)
def dropout(call: Call) -> Expr:
    """Drops in eval mode too unless `training` says otherwise.

    >>> F.dropout(x, 0.2, training=self.training)  # x: f32[4, 5]
    dropout(key, x, 0.2, self.training)
    >>> F.dropout(x)  # x: f32[4, 5]
    dropout(key, x, 0.5)
    """
    if nodes.is_literal(call.node("training"), False):
        return call.node("input")
    call.snippet("dropout")
    given = [call.node("training")] if call.has("training") else []
    return nodes.call("dropout", call.key(), call.node("input"), call.node("p"), *given)


@rule("torch.nn.functional.pad", signature="input, pad, mode='constant', value=None")
def pad(call: Call) -> Expr:
    """Pairs from the last axis backwards.

    >>> F.pad(x, (1, 2))  # x: f32[2, 3]
    jnp.pad(x, ([(0, 0)] * (x.ndim - 1)) + [(1, 2)])
    """
    call.only("mode", "constant")
    sizes = call.literal("pad")
    assert isinstance(sizes, list | tuple)
    pairs = [tuple(sizes[i : i + 2]) for i in range(0, len(sizes), 2)][::-1]
    template = f"jnp.pad({{input}}, [(0, 0)] * ({{input}}.ndim - {len(pairs)}) + {pairs})"
    if call.has("value"):
        template = template[:-1] + ", constant_values={value})"
    return call.make(template)
