"""Masks of attention."""

from migrate.nodes import Expr
from migrate.rules.rule import Call, rule


@rule("torch.nn.Transformer.generate_square_subsequent_mask", signature="sz, device=None, dtype=None", dtype="float")
def generate_square_subsequent_mask(call: Call) -> Expr:
    """Minus infinity above the diagonal and 0 elsewhere, to be added to scores.

    >>> nn.Transformer.generate_square_subsequent_mask(3)
    jnp.triu(jnp.full((3, 3), -jnp.inf), 1)
    """
    call.only("dtype", None)
    return call.make("jnp.triu(jnp.full(({sz}, {sz}), -jnp.inf), 1)")
