"""Attention with weights that are given, and its masks."""

import libcst as cst

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


@rule(
    "torch.nn.functional.scaled_dot_product_attention",
    signature="query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False",
    dtype="float",
    draws=True,
)
def scaled_dot_product_attention(call: Call) -> Expr:
    """A True in the mask lets attend. A row that may attend to nothing gives 0, as in torch.

    `jax.nn.dot_product_attention` gives such a row the mean of all values, and rounds what it weights them with to
    float32, which a comparison in float64 would show; so this is a function of its own.

    >>> F.scaled_dot_product_attention(x, y, z)  # x: f32[2, 3, 4]; y: f32[2, 5, 4]; z: f32[2, 5, 6]
    scaled_dot_product_attention(x, y, z)
    >>> F.scaled_dot_product_attention(x, y, z, is_causal=True)  # x: f32[2, 4, 3]; y: f32[2, 4, 3]; z: f32[2, 4, 3]
    scaled_dot_product_attention(x, y, z, is_causal=True)
    >>> F.scaled_dot_product_attention(x, y, x, z, scale=0.3)  # x: f32[2, 3, 4]; y: f32[2, 3, 4]; z: f32[3, 3]
    scaled_dot_product_attention(x, y, x, z, scale=0.3)
    >>> F.scaled_dot_product_attention(x, x, x, torch.tensor([[True, False], [False, False]]))  # x: f32[2, 2, 3]
    scaled_dot_product_attention(x, x, x, jnp.array([[True, False], [False, False]]))
    >>> F.scaled_dot_product_attention(x, y, y, is_causal=True, enable_gqa=True)  # x: f32[1, 4, 5, 3]; y: f32[1, 2, 3, 3]
    scaled_dot_product_attention(x, jnp.repeat(y, x.shape[-3] // y.shape[-3], axis=-3), jnp.repeat(y, x.shape[-3] // y.shape[-3], axis=-3), is_causal=True)
    """  # noqa: E501
    call.only("enable_gqa", False, True)
    call.snippet("scaled_dot_product_attention")
    given = [call.node(name) for name in ("query", "key", "value")]
    if call.has("enable_gqa") and call.literal("enable_gqa"):
        repeated = "jnp.repeat({x}, {query}.shape[-3] // {x}.shape[-3], axis=-3)"
        given[1:] = [call.make(repeated, x=node) for node in given[1:]]
    given += [call.node("attn_mask")] if call.has("attn_mask") else []
    keywords = {name: call.node(name) for name in ("is_causal", "scale") if call.has(name)}
    if call.has("dropout_p") and not nodes.is_literal(call.node("dropout_p"), 0):
        keywords |= {
            "dropout_rate": call.node("dropout_p"),
            "dropout_key": call.key(_mode_of(call.node("dropout_p"))),
        }
    return nodes.call("scaled_dot_product_attention", *given, **keywords)


def _mode_of(rate: Expr) -> Expr | None:
    """What tells whether anything is dropped: the test of `p if self.training else 0`; None of other rates."""
    return rate.test if isinstance(rate, cst.IfExp) and nodes.literal(rate.orelse) == 0 else None
