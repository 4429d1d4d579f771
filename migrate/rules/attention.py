"""Attention with weights that are given, and its masks."""

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Plain, Tensor
from migrate.rules.rule import Call, Value, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


@rule("torch.nn.Transformer.generate_square_subsequent_mask", signature="sz, device=None, dtype=None", dtype="float")
def generate_square_subsequent_mask(call: Call) -> Expr:
    """Minus infinity above the diagonal and 0 elsewhere, to be added to scores.

    >>> nn.Transformer.generate_square_subsequent_mask(3)
    jnp.triu(jnp.full((3, 3), -jnp.inf), 1)
    """
    call.only("dtype", None)
    return call.make("jnp.triu(jnp.full(({sz}, {sz}), -jnp.inf), 1)")


@rule(
    "torch.nn.functional.multi_head_attention_forward",
    signature="query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, "
    "add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, "
    "need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, "
    "v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True, is_causal=False",
)
def multi_head_attention_forward(call: Call) -> Value:
    """Of batches with time first. Without dropout, and without learnt or fixed keys and values.

    >>> F.multi_head_attention_forward(x, x, x, 4, 2, y, None, None, None, False, 0, z, None)  # x: f32[3, 2, 4]; y: f32[12, 4]; z: f32[4, 4]
    multi_head_attention_forward(x, x, x, 2, jnp.split(y, 3), None, z, None)
    """  # noqa: E501
    for name, default in (("bias_k", None), ("bias_v", None), ("static_k", None), ("static_v", None)):
        if not nodes.is_literal(call.node(name), default):
            raise Unsupported("MIG302", f"{call.api}: {name} is not supported")
    if not nodes.is_literal(call.node("add_zero_attn"), False):
        raise Unsupported("MIG302", f"{call.api}: add_zero_attn is not supported")
    if nodes.literal(call.node("dropout_p")) != 0 and not nodes.is_literal(call.node("training"), False):
        raise Unsupported("MIG302", f"{call.api}: dropout is not supported")
    call.only("use_separate_proj_weight", True, False)
    call.only("need_weights", True, False)
    separate = nodes.is_literal(call.node("use_separate_proj_weight"), True)
    apart = [call.node(f"{one}_proj_weight") for one in "qkv"]
    weights = nodes.tuple_of(apart) if separate else call.make("jnp.split({in_proj_weight}, 3)")
    first = [call.node(name) for name in ("query", "key", "value", "num_heads")]
    given = [*first, weights, *map(call.node, ("in_proj_bias", "out_proj_weight", "out_proj_bias"))]
    more = call.given(attn_mask="mask", key_padding_mask="padding", average_attn_weights="average")
    made = nodes.call(call.snippet("multi_head_attention_forward"), *given, **more)
    tensors = Items((Tensor("float"), Tensor("float")), type="tuple")
    if nodes.is_literal(call.node("need_weights"), True):
        return Value(made, tensors)
    return Value(nodes.expression("({x}[0], None)", x=made), Items((Tensor("float"), Plain("None")), type="tuple"))
