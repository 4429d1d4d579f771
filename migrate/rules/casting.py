"""Changing the type of a tensor. 64-bit types need jax_enable_x64, so their 32-bit forms are written."""

from migrate.kinds import Plain, Tensor
from migrate.nodes import Expr
from migrate.rules.rule import Call, Rule, Value, register, rule, signature


def _cast(method: str, dtype: str, kind: str) -> Rule:
    def function(call: Call) -> Value:
        known = call.kind("input")
        rank = known.rank if isinstance(known, Tensor) else -1
        return Value(call.make(f"{{input}}.astype({dtype})"), Tensor(kind, rank))

    doc = f"A cast.\n\n    >>> x.{method}()  # x: i32[2, 3]\n    x.astype({dtype})\n"
    return Rule((f"Tensor.{method}",), signature("input"), function, False, kind, doc, "casting")


for _method, _dtype, _kind in (
    ("float", "jnp.float32", "float"),
    ("long", "jnp.int32", "int"),
    ("int", "jnp.int32", "int"),
    ("bool", "jnp.bool_", "bool"),
    ("half", "jnp.float16", "float"),
    ("bfloat16", "jnp.bfloat16", "float"),
):
    register(_cast(_method, _dtype, _kind))


@rule("Tensor.type_as", signature="input, other")
def type_as(call: Call) -> Expr:
    """The dtype of another tensor.

    >>> x.type_as(y)  # x: i32[2, 3]; y: f32[2]
    x.astype(y.dtype)
    """
    return call.make("{input}.astype({other}.dtype)")


@rule("torch.finfo", signature="type", dtype="")
def finfo(call: Call) -> Value:
    """Limits of a type of float; without a type torch takes its default one, which is refused.

    >>> x + torch.finfo(torch.float32).eps  # x: f32[2, 3]
    x + jnp.finfo(jnp.float32).eps
    >>> x.clamp(min=torch.finfo(x.dtype).tiny)  # x: f32[2, 3]
    jnp.clip(x, min=jnp.finfo(x.dtype).tiny)
    """
    return Value(call.make("jnp.finfo({type})"), Plain("finfo"))
